"""One array put into another: whole chunks that are compressed alike are copied as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import blosc2

SHAPE, CHUNKS, BLOCKS = (10, 7, 9), (4, 3, 5), (2, 3, 2)
ITEMS = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE)


def is_stored_in(chunk: bytes, array: blosc2.NDArray) -> bool:
    return chunk in [array.schunk.get_chunk(n) for n in range(array.schunk.nchunks)]


@pytest.mark.parametrize(
    ("key", "chunks"),
    [
        (..., CHUNKS), (slice(4, 8), CHUNKS), (slice(4, None), CHUNKS),
        ((slice(None), slice(3, 6), slice(5, None)), CHUNKS),
        ((slice(8, None), 6), (4, 5)), ((slice(8, None), slice(6, None)), (4, 1, 5)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["memory", "file"])
def test_whole_chunks_are_copied(key: Any, chunks: tuple[int, ...], where: str, tmp_path: Path) -> None:
    ours = CHUNKS if len(chunks) == 3 and chunks[1] == 3 else (4, 1, 5)
    urlpath = None if where == "memory" else tmp_path / "a.b2nd"
    # A compressed chunk differs with its level where nobody could tell by its items.
    level = {"clevel": 3, "codec": blosc2.Codec.LZ4HC}
    array = blosc2.zeros(SHAPE, "i4", chunks=ours, blocks=(2, 1, 2), urlpath=urlpath, cparams=level)
    blocks = tuple(block for block, chunk in zip((2, 1, 2), ours, strict=True) if len(chunks) == 3 or chunk > 1)
    value = blosc2.asarray(ITEMS[key] + 1, chunks=chunks, blocks=blocks, cparams=level)
    expected = np.zeros(SHAPE, "i4")
    array[key] = value
    expected[key] = value[:]
    np.testing.assert_array_equal(array[:], expected)
    assert all(is_stored_in(value.schunk.get_chunk(n), array) for n in range(value.schunk.nchunks))
    if urlpath is not None:
        del array
        assert not blosc2.check(urlpath).findings
        np.testing.assert_array_equal(blosc2.open(urlpath)[:], expected)


PARAMETERS = st.sampled_from([{}, {"clevel": 1}, {"codec": blosc2.Codec.LZ4}, {"clevel": 0}, {"filters": []}])
AXES = st.tuples(*[st.tuples(st.integers(0, length), st.integers(0, length)) for length in SHAPE])


@given(
    axes=AXES, integers=st.sets(st.integers(0, 2)), chunks=st.sampled_from([CHUNKS, (4, 1, 5), (1, 3, 5), (4, 3)]),
    theirs=PARAMETERS, ours=PARAMETERS, dtype=st.sampled_from(["i4", "f4", "i2"]),
)  # fmt: skip
def test_items_are_those_of_numpy(
    axes: Any, integers: set[int], chunks: tuple[int, ...], theirs: Any, ours: Any, dtype: str
) -> None:
    key = tuple(
        min(start, length - 1) if n in integers else slice(start, stop)
        for n, ((start, stop), length) in enumerate(zip(axes, SHAPE, strict=True))
    )
    array = blosc2.asarray(ITEMS, chunks=CHUNKS if len(chunks) < 3 else chunks, blocks=(1, 1, 1), cparams=ours)
    expected = ITEMS.copy()
    items = -ITEMS[key].astype(dtype)
    fitting = chunks if len(chunks) == items.ndim and items.size else None
    blocks = None if fitting is None else (1,) * items.ndim
    value = blosc2.asarray(items, chunks=fitting, blocks=blocks, cparams=theirs)
    array[key] = value
    expected[key] = items
    np.testing.assert_array_equal(array[:], expected)
    assert array.dtype == "i4"


@pytest.mark.parametrize("where", ["memory", "file"])
def test_appended_chunks(where: str, tmp_path: Path) -> None:
    urlpath = None if where == "memory" else tmp_path / "a.b2nd"
    array = blosc2.zeros((0, 7, 9), "i4", chunks=CHUNKS, blocks=BLOCKS, urlpath=urlpath)
    value = blosc2.asarray(ITEMS, chunks=CHUNKS, blocks=BLOCKS)
    for rows in (8, 18, 28):  # only the first two begin between chunks
        array.append(value[:8] if rows == 8 else value)
    np.testing.assert_array_equal(array[:], np.concatenate([ITEMS[:8], ITEMS, ITEMS]))
    assert is_stored_in(value.schunk.get_chunk(0), array)
    array.append(array)
    assert array.shape == (56, 7, 9)
    np.testing.assert_array_equal(array[28:], array[:28])


def test_arrays_without_axes() -> None:
    array = blosc2.asarray(np.array(3))
    for key in (None, (None, None), ...):
        array[key] = blosc2.asarray(np.full(np.shape(array[key]), 5))
        assert array[()] == 5
        array[()] = 3
    with pytest.raises(ValueError, match="no end to append to"):
        array.append(blosc2.asarray(np.arange(3)))


def test_an_array_put_into_itself() -> None:
    array = blosc2.asarray(ITEMS, chunks=CHUNKS, blocks=BLOCKS)
    array[:] = array
    np.testing.assert_array_equal(array[:], ITEMS)
    seen = blosc2.expand_dims(array, 0)
    seen[:] = seen
    seen[0] = blosc2.asarray(ITEMS + 1, chunks=CHUNKS, blocks=BLOCKS)
    np.testing.assert_array_equal(array[:], ITEMS + 1)
