"""Rows by their numbers, in any order and more than once, where each row lies in one block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter
from blosc2._core.codec import thread_pool
from blosc2._core.codec.thread_pool import share_from
from blosc2.exceptions import FormatError

#: The rest of the shape, which a block holds all of.
RESTS = [(), (1,), (3,), (8, 2), (1, 5, 1)]
DTYPES = ["u1", ">i2", "f4", "i8", "S3", [("a", "u1"), ("b", "<f4", (2,))]]


@pytest.fixture
def eager() -> Iterator[None]:
    """Threads for the smallest work, and more of them than there may be cores."""
    work, limit = share_from(0), thread_pool.limit(3)
    yield
    share_from(work)
    thread_pool.limit(limit)


@pytest.fixture
def cached() -> Iterator[None]:
    before = blosc2.set_block_cache("1 MB")
    yield
    blosc2.set_block_cache(before)


def rows(length: int, rest: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Items that compress, of which hardly two rows are the same."""
    dtype = np.dtype(dtype)
    steps = np.random.default_rng(seed).integers(0, 4, (length, *rest, dtype.itemsize), "u1").cumsum(axis=0, dtype="u1")
    return np.ascontiguousarray(steps % 97 + 1).view(dtype)[..., 0].reshape(length, *rest)


def assert_same(found: Any, expected: np.ndarray[Any, Any]) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def compare(array: Any, items: np.ndarray[Any, Any], numbers: list[int]) -> None:
    """By each way that leads to rows."""
    expected = items[np.array(numbers, dtype=np.int64)]
    if numbers:
        assert_same(array.read_many(numbers), expected)
        wide = np.zeros((len(numbers), 2, *items.shape[1:]), items.dtype)
        array.read_many(numbers, out=wide[:, 1])
        assert_same(np.ascontiguousarray(wide[:, 1]), expected)
        assert not any(wide[:, 0].tobytes())
        mixed = [*numbers, (numbers[0], ...), slice(numbers[0] % len(items), numbers[0] % len(items) + 1)]
        got = array.read_many(mixed)
        for row, number in zip(got, np.array([*numbers, numbers[0], numbers[0]]) % len(items), strict=True):
            assert row.tobytes() == items[number : number + 1].tobytes()
    assert_same(array[numbers], expected)
    assert_same(array[np.array(numbers, dtype=np.int64), ...], expected)
    if len(numbers) % 2 == 0:
        square = np.array(numbers, dtype=np.int64).reshape(2, -1)
        assert_same(array[square], items[square])
    mask = np.zeros(len(items), bool)
    mask[numbers] = True
    assert_same(array[mask], items[mask])
    if items.ndim > 1:
        assert_same(array[numbers, ::-1], expected[:, ::-1])


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any], list[int]]:
    length = draw(st.integers(1, 60))
    rest = draw(st.sampled_from(RESTS))
    chunk = draw(st.integers(1, length))
    block = draw(st.integers(1, chunk))
    items = rows(length, rest, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 3)))
    cparams = draw(
        st.sampled_from(
            [
                {"codec": Codec.LZ4},
                {"codec": Codec.LZ4, "filters": [Filter.NOFILTER]},
                {"codec": Codec.ZSTD},
                {"codec": Codec.BLOSCLZ, "filters": [Filter.BITSHUFFLE]},
                {"codec": Codec.ZLIB, "filters": [Filter.DELTA, Filter.SHUFFLE]},
                {"clevel": 0},
            ]
        )
    )
    numbers = draw(st.lists(st.integers(-length, length - 1), max_size=90))
    return items, {"chunks": (chunk, *rest), "blocks": (block, *rest), "cparams": cparams}, numbers


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.usefixtures("eager")
@settings(max_examples=60, deadline=None)
@given(case=arrays())
def test_rows_are_what_numpy_gives(nthreads: int, case: Any) -> None:
    items, how, numbers = case
    compare(blosc2.asarray(items, dparams={"nthreads": nthreads}, **how), items, numbers)


@pytest.mark.usefixtures("cached")
@settings(max_examples=30, deadline=None)
@given(case=arrays(), mapped=st.booleans())
def test_rows_of_files(tmp_path_factory: pytest.TempPathFactory, case: Any, mapped: bool) -> None:
    items, how, numbers = case
    path = str(tmp_path_factory.mktemp("rows") / "rows.b2nd")
    blosc2.asarray(items, urlpath=path, **how)
    array = blosc2.open(path, mode="r", mmap_mode="r" if mapped else None)
    compare(array, items, numbers)
    compare(array, items, numbers[::-1])


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("count", [3, 300, 3000])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "i8"])
def test_few_and_many_items_of_large_blocks(tmp_path: Path, mmap_mode: Any, count: int, dtype: str) -> None:
    """A part of a block is decoded where few are wanted, and its shuffle is undone for these alone."""
    items = (np.arange(40_000) ** 2 % 251).astype(dtype)
    path = str(tmp_path / "items.b2nd")
    blosc2.asarray(items, urlpath=path, chunks=(20_000,), blocks=(10_000,))
    array = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    rng = np.random.default_rng(count)
    for low, high in [(0, 40_000), (0, 500), (19_000, 21_000)]:
        numbers = rng.integers(low, high, count)
        assert_same(array.read_many(numbers.tolist()), items[numbers])
        assert_same(array[numbers], items[numbers])


@pytest.mark.parametrize("value", [0.0, np.nan, 2.5])
def test_rows_of_special_chunks(value: float) -> None:
    items = np.full((64, 4), value, "f8")
    items[40] = np.arange(4)
    compare(blosc2.asarray(items, chunks=(16, 4), blocks=(2, 4)), items, [3, 40, 63, 3, 17, 41])


def damaged(path: Path, array: Any, number: int) -> None:
    at, _, stored, *_ = array._handle.frame.chunk_info(number)
    content = bytearray(path.read_bytes())
    content[at + stored - 1] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("cparams", [{"clevel": 0}, {"codec": Codec.ZSTD}], ids=["stored", "zstd"])
def test_a_row_that_is_a_whole_chunk_is_checked(tmp_path: Path, mmap_mode: Any, cparams: Any) -> None:
    """By its checksum: of stored bytes nothing else tells that one was changed."""
    items, path = rows(7, (50,), "i4"), tmp_path / "rows.b2nd"
    damaged(path, blosc2.asarray(items, urlpath=str(path), chunks=(1, 50), blocks=(1, 50), cparams=cparams), 3)
    array = blosc2.open(str(path), mode="r", mmap_mode=mmap_mode)
    assert_same(array.read_many([6, 2, 2]), items[[6, 2, 2]])
    for read in (array.read_many, array.__getitem__):
        with pytest.raises(FormatError, match="chunk 3"):
            read([0, 3, 5, 1])


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_a_block_that_cannot_be_decoded(tmp_path: Path, mmap_mode: Any) -> None:
    items, path = np.arange(40 * 512, dtype="i4").reshape(40, 512), tmp_path / "rows.b2nd"
    array = blosc2.asarray(items, urlpath=str(path), chunks=(20, 512), blocks=(1, 512))
    at, _, stored, *_ = array._handle.frame.chunk_info(1)
    assert stored < items.nbytes // 4  # it is compressed
    content = bytearray(path.read_bytes())
    content[at + 32 + 4 * 20 : at + stored] = b"\x7f" * (stored - 32 - 4 * 20)
    path.write_bytes(content)
    array = blosc2.open(str(path), mode="r", mmap_mode=mmap_mode)
    assert_same(array.read_many([5, 19, 0]), items[[5, 19, 0]])
    for read in (array.read_many, array.__getitem__):
        with pytest.raises(FormatError, match="chunk 1"):
            read([5, 25, 19])
