"""Chunks whose blocks several threads compress: the same bytes as one thread makes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import blosc2
from blosc2 import Codec, Filter
from blosc2._core.codec import thread_pool
from blosc2._frames import parameters
from blosc2._options import compress, compressed, encoding_of

SIZE = 5 << 18  # more than the bytes from which blocks are shared, whatever the codec


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    """Whatever the machine has."""
    before = thread_pool.limit(3)
    yield
    thread_pool.limit(before)


def items(kind: str, dtype: str) -> np.ndarray[Any, Any]:
    count = SIZE // np.dtype(dtype).itemsize + 7
    rng = np.random.default_rng(1)
    if kind == "zeros":
        return np.zeros(count, dtype)
    if kind == "bytes":  # cannot be compressed
        return np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype)
    made = np.zeros(count, dtype)  # blocks take different time
    made[count // 3 : count // 3 + count // 2] = np.sort(rng.integers(0, 120, count // 2)) + rng.integers(0, 3)
    made[-(count // 8) :] = rng.integers(0, 120, count // 8)
    return made


@pytest.mark.parametrize("kind", ["mixed", "bytes", "zeros"])
@pytest.mark.parametrize(
    ("dtype", "filters"),
    [
        *itertools.product(
            ["u1", "<f4", "<f8"],
            [{}, {Filter.SHUFFLE: 0}, {Filter.BITSHUFFLE: 0}, {Filter.DELTA: 0}],
        ),
        ("<f4", {Filter.TRUNC_PREC: 20, Filter.SHUFFLE: 0}),
        ("<f8", {Filter.TRUNC_PREC: 30, Filter.BITSHUFFLE: 0}),
    ],
)
@pytest.mark.parametrize("codec", [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD])
def test_bytes_are_those_of_one_thread(codec: Codec, filters: dict[Filter, int], dtype: str, kind: str) -> None:
    values = items(kind, dtype)
    made = []
    for nthreads in (1, 4):
        cparams = {
            "codec": codec, "filters": list(filters), "filters_meta": list(filters.values()), "clevel": 2,
            "nthreads": nthreads,
        }  # fmt: skip
        array = blosc2.asarray(values, cparams=cparams, chunks=values.shape, blocks=(16_384 // values.itemsize,))
        made.append(array.to_cframe())
        if Filter.TRUNC_PREC not in filters:
            assert array[:].tobytes() == values.tobytes()
    assert made[0] == made[1]


def test_blocks_are_shared() -> None:
    """Otherwise the test above says nothing."""
    before = thread_pool.count()
    values = items("mixed", "<f4")
    blosc2.asarray(values, cparams={"nthreads": 4}, chunks=values.shape, blocks=(4096,))
    assert thread_pool.count() >= max(before, 3)


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 6, 9])
def test_chunks_that_are_left_over(chunks: int, tmp_path: Path) -> None:
    values = np.random.default_rng(chunks).integers(0, 1000, (chunks * 4 + 1, 300, 300)).astype("i4")
    for where in (None, str(tmp_path / "array.b2nd")):
        array = blosc2.asarray(
            values, cparams={"nthreads": 4}, chunks=(4, 300, 300), blocks=(2, 100, 300), urlpath=where, mode="w"
        )
        np.testing.assert_array_equal(array[:], values)
        array[1:] = values[:-1]
        np.testing.assert_array_equal(array[1:], values[:-1])


def test_appended_chunks() -> None:
    data = items("mixed", "u1").tobytes()[:SIZE]
    made = []
    for nthreads in (1, 4):
        schunk = blosc2.SChunk(chunksize=len(data), cparams={"nthreads": nthreads, "typesize": 4})
        schunk.append_data(data)
        schunk.insert_data(0, data, True)
        schunk.update_data(1, bytes(len(data)), True)
        assert schunk[:] == data + bytes(len(data))
        made.append(schunk.get_chunk(0))
    assert made[0] == made[1]


def test_assigned_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def counted(*args: Any) -> Any:
        shared.append(args)
        return compressed(*args)

    monkeypatch.setattr(parameters, "compressed", counted)
    data = items("mixed", "u1").tobytes()[:SIZE]
    made = []
    for nthreads in (1, 4):
        schunk = blosc2.SChunk(chunksize=len(data), cparams={"nthreads": nthreads, "typesize": 1})
        schunk.append_data(bytes(len(data)))
        shared.clear()
        schunk[10 : 2 * len(data)] = data + data[10:]  # into a chunk that is there, and into a new one
        assert len(shared) == (2 if nthreads == 4 else 0)
        assert schunk[:] == bytes(10) + data + data[10:]
        made.append(schunk.to_cframe())
    assert made[0] == made[1]


@pytest.mark.parametrize("size", [64 << 10, (64 << 10) + 5, 1_500_000])
@pytest.mark.parametrize("codec", [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD])
def test_one_buffer(codec: Codec, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def counted(*args: Any) -> Any:
        shared.append(args)
        return compressed(*args)

    monkeypatch.setattr(parameters, "compressed", counted)
    for kind in ("mixed", "bytes", "zeros"):
        data = (items(kind, "<f4").tobytes() * 2)[:size]
        made = [blosc2.compress2(data, codec=codec, clevel=2, typesize=4, nthreads=n) for n in (1, 4)]
        assert made[0] == made[1]
        assert blosc2.decompress2(made[1]) == data
    assert len(shared) == (0 if codec in (Codec.BLOSCLZ, Codec.LZ4) and size < 300_000 else 3)


def test_compress_takes_the_threads_that_are_set() -> None:
    data = items("mixed", "<f4").tobytes()
    before = blosc2.set_nthreads(1)
    try:
        one = blosc2.compress(data, typesize=4, codec=Codec.ZSTD)
        blosc2.set_nthreads(4)
        assert blosc2.compress(data, typesize=4, codec=Codec.ZSTD) == one
    finally:
        blosc2.set_nthreads(before)
    assert blosc2.decompress(one) == data


def test_an_object_of_one_chunk() -> None:
    made = []
    for nthreads in (1, 4):
        objects = blosc2.ObjectArray(cparams={"nthreads": nthreads})
        objects.append(items("mixed", "u1").tobytes())
        made.append(objects.to_cframe())
    assert made[0] == made[1]


@pytest.mark.parametrize("nthreads", [1, 2, 3, 4])
@pytest.mark.parametrize("chunk_nbytes", [1 << 10, 700_000, 819_200, 3 << 20, 9 << 20])
def test_no_thread_of_a_batch_is_idle(chunk_nbytes: int, nthreads: int) -> None:
    """A batch of 5 chunks takes two threads as long as one of 6."""

    class Recorder:
        tasks = 101
        encoding = encoding_of(blosc2.CParams(), 1, 0)
        taken: ClassVar[list[int]] = []

        def limit(self, first: int, stop: int) -> None:
            self.taken.append(stop - first)

        def run(self, threads: int = 1) -> None:
            pass

        def finish(self) -> None:
            pass

        def take_buffers(self) -> dict[int, bytes]:
            return {}

    recorder: Any = Recorder()
    recorder.taken.clear()
    assert not any(compress(recorder, chunk_nbytes, nthreads))
    assert sum(recorder.taken) == 101
    assert not any(count % nthreads for count in recorder.taken[:-1])


def test_threads_at_once() -> None:
    """Several threads that each have one chunk compressed by several."""
    values = [items("mixed", "<f4") + np.float32(n) for n in range(4)]
    expected = [blosc2.asarray(v, cparams={"nthreads": 1}, chunks=v.shape, blocks=(4096,)).to_cframe() for v in values]
    found: dict[int, list[bytes]] = {n: [] for n in range(4)}

    def run(n: int) -> None:
        for _ in range(5):
            array = blosc2.asarray(values[n], cparams={"nthreads": 4}, chunks=values[n].shape, blocks=(4096,))
            found[n].append(array.to_cframe())

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(made) == {expected[n]} for n, made in found.items())
