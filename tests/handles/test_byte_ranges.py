"""Ranges of a super-chunk's bytes in threads: the same bytes as by one, for every kind of chunk and both sources."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Codec, Filter, SChunk, SpecialValue
from blosc2._core.codec.thread_pool import share_from
from blosc2._frames import chunks

SIZE = 600_000  # bytes; far more than a second thread needs

LAYOUTS = [
    (SIZE, 0), (SIZE, 10_000), (SIZE, 7_000), (SIZE * 2, 9_996), (100_000, 0), (100_000, 10_000), (100_000, 9_996),
    (70_000, 24_000), (70_000, 70_000), (SIZE - 4, 50_000), (4, 4),
]  # fmt: skip
CPARAMS: list[dict[str, Any]] = [
    {"codec": Codec.LZ4}, {"codec": Codec.ZSTD, "use_dict": True}, {"clevel": 0}, {"filters": [Filter.DELTA]},
    {"codec": Codec.BLOSCLZ, "filters": [Filter.BITSHUFFLE]},
]  # fmt: skip


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Read in threads whatever the size; lists the bytes that each such read had."""
    sizes: list[int] = []
    read = chunks._read

    def counting(frame: Any, geometry: Any, start: int, stop: int, out: Any, nthreads: int) -> None:
        sizes.append(stop - start)
        read(frame, geometry, start, stop, out, nthreads)

    monkeypatch.setattr(chunks, "_read", counting)
    before = share_from(1)
    yield sizes
    share_from(before)


def content(rng: np.random.Generator) -> bytes:
    """Bytes that compress in some parts and not in others."""
    items = np.cumsum(rng.integers(-2, 3, SIZE // 4)).astype("<i4")
    items[SIZE // 10 : SIZE // 7] = rng.integers(-(1 << 30), 1 << 30, SIZE // 7 - SIZE // 10)
    items[-SIZE // 9 :] = 0
    return items.tobytes()


@pytest.mark.parametrize("cparams", CPARAMS, ids=str)
@pytest.mark.parametrize(("chunksize", "blocksize"), LAYOUTS)
def test_threads_read_what_was_written(
    cparams: dict[str, Any], chunksize: int, blocksize: int, rng: np.random.Generator, threaded: list[int],
    tmp_path: Path, source: str | None,
) -> None:  # fmt: skip
    data = content(rng)
    if chunksize == 4:
        data = data[:4000]
    path = tmp_path / "s.b2frame"
    SChunk(chunksize=chunksize, data=data, urlpath=path, cparams={"typesize": 4, "blocksize": blocksize, **cparams})
    schunk = blosc2.open(path, mmap_mode=source, dparams={"nthreads": 3})
    length = len(data) // 4
    ends = [0, 1, 2500, length // 2, length - 1, length, *rng.integers(0, length, 6).tolist()]
    for start in ends:
        for stop in (stop for stop in ends if stop > start):
            want = data[4 * start : 4 * stop]
            assert schunk[start:stop] == want
            out = bytearray(b"\xee" * (len(want) + 9))
            schunk.get_slice(start, stop, out=out)
            assert out == want + b"\xee" * 9
    assert b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks)) == data
    dst = np.empty(min(chunksize, len(data)) // 4, "<i4")
    schunk.decompress_chunk(0, dst)
    assert dst.tobytes() == data[:chunksize]
    assert b"".join(chunk.tobytes() for chunk in schunk.iterchunks("<i4")) == data
    assert threaded


def test_chunks_without_data_and_of_other_block_sizes(threaded: list[int], tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "s.b2frame"
    schunk = SChunk(chunksize=40_000, urlpath=path, cparams={"typesize": 8, "blocksize": 8_000})
    schunk.append_data(np.arange(5000))
    schunk.fill_special(5000, SpecialValue.ZERO)
    schunk.fill_special(5000, SpecialValue.NAN)
    schunk.fill_special(5000, SpecialValue.VALUE, b"12345678")
    schunk.append_chunk(SChunk(data=np.arange(5000) * 3, cparams={"blocksize": 16_000}).get_chunk(0))
    schunk.append_data(np.arange(100))
    want = np.concatenate([
        np.arange(5000), np.zeros(5000, int), np.full(5000, np.nan).view(int),
        np.frombuffer(b"12345678" * 5000, int), np.arange(5000) * 3, np.arange(100),
    ])  # fmt: skip
    schunk = blosc2.open(path, mmap_mode=source, dparams={"nthreads": 2})
    for start in (0, 1, 4999, 7000, 15_001, 25_000, 25_050):
        for stop in (5000, 5001, 12_345, 20_000, 25_001, 25_100):
            assert schunk[start:stop] == want[start:stop].tobytes()
    assert threaded


@pytest.mark.skipif(sys.platform == "win32", reason="threads sleep too coarsely there")
@pytest.mark.parametrize("nthreads", [1, 2])
def test_reads_let_other_threads_of_python_run(nthreads: int, rng: np.random.Generator) -> None:
    """A thread that is kept out of Python for a whole read counts no further than one meanwhile."""
    schunk = SChunk(data=rng.integers(0, 40, 6_000_000).astype("<i4"),
                    cparams={"codec": Codec.ZLIB, "clevel": 1}, dparams={"nthreads": nthreads})  # fmt: skip
    out = bytearray(24_000_000)
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0.0005)

    def ticks_during(read: Callable[[], Any]) -> int:
        before = ticks[0]
        read()
        return ticks[0] - before

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for read in (lambda: schunk[:], lambda: schunk.get_slice(out=out), lambda: schunk.decompress_chunk(0)):
            assert max(ticks_during(read) for _ in range(10)) >= 3
    finally:
        stop.set()
        thread.join()
