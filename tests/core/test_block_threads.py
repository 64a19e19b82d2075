"""Chunks whose blocks several threads compress: the same bytes as one thread makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Codec, Filter
from blosc2._core.codec import thread_pool
from blosc2._frames import parameters
from blosc2._options import compressed

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
