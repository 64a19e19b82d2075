"""Many selections at once, rows by their numbers among them, give what NumPy gives for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import blosc2
from blosc2 import Codec, Filter
from blosc2._core.codec import thread_pool
from blosc2._core.codec.thread_pool import share_from
from blosc2._options import PARALLEL_WORK
from blosc2.exceptions import FormatError

DTYPES = ["i2", ">i4", "f8", "S3", [("a", "u1"), ("b", "<f4", (2,))]]


@pytest.fixture
def eager() -> Iterator[None]:
    """Threads for the smallest work, and more of them than there may be cores."""
    work, limit = share_from(0), thread_pool.limit(3)
    yield
    share_from(work)
    thread_pool.limit(limit)


def numbers(shape: tuple[int, ...], dtype: Any = "i4") -> np.ndarray[Any, Any]:
    """Items that all differ, as far as the dtype can say."""
    size = int(np.prod(shape))
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        items = np.zeros(size, dtype)
        items["a"] = np.arange(size) % 251
        items["b"] = np.arange(2 * size).reshape(size, 2)
    else:
        items = np.arange(1, 1 + size).astype(dtype)
    return items.reshape(shape)


def assert_rows(found: Any, items: np.ndarray[Any, Any], keys: list[Any]) -> None:
    want = [items[key] for key in keys]
    shapes = {np.shape(row) for row in want}
    if len(shapes) == 1:
        assert type(found) is np.ndarray
        assert found.dtype == items.dtype
        np.testing.assert_array_equal(found, np.array(want, items.dtype).reshape(len(keys), *shapes.pop()))
        return
    assert type(found) is list
    assert len(found) == len(keys)
    for row, expected in zip(found, want, strict=True):
        assert type(row) is np.ndarray
        assert row.dtype == items.dtype
        assert row.shape == np.shape(expected)
        np.testing.assert_array_equal(row, expected)


# --------------------------------------------------------------------- against NumPy


@st.composite
def key_of(draw: st.DrawFn, shape: tuple[int, ...], *, arrays: bool) -> Any:
    """Integers and slices mostly, for some of the axes."""
    key: list[Any] = []
    ellipsis = False
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 7)):
        n = shape[axis]
        kind = draw(st.sampled_from(["slice", "slice", "int", "number", "none", "...", "array"]))
        if kind in ("int", "number") and n:
            number = draw(st.integers(-n, n - 1))
            key.append(number if kind == "int" else np.int16(number))
        elif kind == "none":
            key.append(None)
            continue
        elif kind == "..." and not ellipsis:
            key.append(...)
            ellipsis = True
            axis += draw(st.integers(0, len(shape) - axis))
            continue
        elif kind == "array" and n and arrays:
            key.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=2, max_size=2))))
        else:
            bound = st.none() | st.integers(-n - 2, n + 2)
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2, -5]))))
        axis += 1
    if ellipsis:
        # What follows it is for the last axes: these are the ones that the numbers were drawn for.
        key += [slice(None)] * (len(shape) - axis)
    if len(key) == 1 and draw(st.booleans()):
        return key[0]
    return tuple(key)


def of_one_shape(draw: Any, shape: tuple[int, ...]) -> list[Any]:
    """Boxes of one size, forwards or backwards, with duplicates."""
    sides = [draw(st.integers(min(n, 1), n)) for n in shape]
    dropped = [draw(st.integers(0, 3)) == 0 for _ in shape]
    keys = []
    for _ in range(draw(st.integers(1, 12))):
        key: list[Any] = []
        for n, side, drop in zip(shape, sides, dropped, strict=True):
            start = draw(st.integers(0, n - side))
            if drop and n:
                key.append(start)
            elif draw(st.booleans()):
                key.append(slice(start, start + side))
            else:
                key.append(slice(start + side - 1 if side else 0, start - 1 if start else None if side else 0, -1))
        keys.append(tuple(key))
    return keys + draw(st.lists(st.sampled_from(keys), max_size=4))


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_batches_are_what_numpy_gives(data: Any) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 9), max_size=5)))
    dtype = draw(st.sampled_from(DTYPES))
    how: dict[str, Any] = {"cparams": {"clevel": draw(st.sampled_from([0, 5]))}}
    if 0 not in shape:
        chunks = tuple(draw(st.integers(1, n + 1)) for n in shape)
        how |= {"chunks": chunks, "blocks": tuple(draw(st.integers(1, c)) for c in chunks)}
    items = numbers(shape, dtype)
    array = blosc2.asarray(items, **how, dparams={"nthreads": draw(st.integers(1, 4))})
    if draw(st.booleans()):
        keys = draw(st.lists(key_of(shape, arrays=draw(st.booleans())), min_size=1, max_size=8))
    else:
        keys = of_one_shape(draw, shape)
    work, limit = share_from(draw(st.sampled_from([0, PARALLEL_WORK]))), thread_pool.limit(3)
    try:
        found = array.read_many(keys)
        assert_rows(found, items, keys)
        if type(found) is np.ndarray:
            out = strided_like(found, draw)
            assert array.read_many(iter(keys), out=out) is out
            np.testing.assert_array_equal(out, found)
        else:
            out = np.zeros((len(keys), *found[0].shape), items.dtype)
            with pytest.raises(ValueError, match="shape"):
                array.read_many(keys, out=out)
            assert not out.tobytes().strip(b"\0")
    finally:
        share_from(work)
        thread_pool.limit(limit)


def strided_like(items: np.ndarray[Any, Any], draw: Any) -> np.ndarray[Any, Any]:
    """An empty array of the same shape: axes in another order, with gaps, backwards."""
    order = draw(st.permutations(range(items.ndim)))
    steps = [draw(st.sampled_from([1, 2, -1, -2])) for _ in order]
    room = np.zeros([items.shape[axis] * abs(steps[axis]) for axis in order], items.dtype)
    view = room.transpose(np.argsort(order))[tuple(slice(None, None, step) for step in steps)]
    assert view.shape == items.shape
    return view


# --------------------------------------------------------------------- files, chunks of all kinds, threads


def patches(rng: np.random.Generator, shape: tuple[int, ...], side: int, number: int) -> list[tuple[slice, ...]]:
    corners = [rng.integers(0, n - side + 1, number) for n in shape]
    return [tuple(slice(int(at), int(at) + side) for at in corner) for corner in zip(*corners, strict=True)]


@pytest.mark.parametrize("nthreads", [1, 4])
@pytest.mark.parametrize("clevel", [0, 5])
@pytest.mark.usefixtures("eager")
def test_patches_of_a_file(
    tmp_path: Path, source: str | None, rng: np.random.Generator, clevel: int, nthreads: int
) -> None:
    items = rng.integers(0, 999, (50, 60, 70)).astype("i2")
    path = str(tmp_path / "volume.b2nd")
    blosc2.asarray(items, urlpath=path, chunks=(20, 30, 30), blocks=(8, 8, 16), cparams={"clevel": clevel})
    array = blosc2.open(path, mmap_mode=source, dparams={"nthreads": nthreads})
    for side in (1, 5, 17, 40):  # from one block each to nearly everything, many times over
        keys = patches(rng, items.shape, side, 40)
        assert_rows(array.read_many(keys), items, keys)
        assert_rows(array.read_many([*keys, ..., 3]), items, [*keys, ..., 3])


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.usefixtures("eager")
def test_one_large_chunk_is_divided_too(rng: np.random.Generator, nthreads: int) -> None:
    items = rng.integers(0, 99, (64, 64, 64)).astype("u1")
    array = blosc2.asarray(items, chunks=items.shape, blocks=(16, 16, 16), dparams={"nthreads": nthreads})
    for keys in ([slice(None)], [slice(1, 63), slice(0, 62)], patches(rng, items.shape, 20, 200)):
        assert_rows(array.read_many(keys), items, keys)


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.usefixtures("eager")
def test_chunks_that_are_decoded_as_a_whole(source: str | None, tmp_path: Path, nthreads: int) -> None:
    items = np.arange(40_000, dtype="i4").reshape(200, 200)
    path = str(tmp_path / "delta.b2nd")
    filters = {"filters": [blosc2.Filter.DELTA], "filters_meta": [0]}
    blosc2.asarray(items, urlpath=path, chunks=(70, 200), blocks=(10, 50), cparams=filters)
    array = blosc2.open(path, mmap_mode=source, dparams={"nthreads": nthreads})
    keys = [(slice(i, i + 5), slice(2 * i, 2 * i + 30)) for i in range(0, 80, 3)]
    assert_rows(array.read_many(keys), items, keys)


@pytest.mark.parametrize("value", [0, 7, np.nan])
@pytest.mark.usefixtures("eager")
def test_special_chunks(rng: np.random.Generator, value: float) -> None:
    array = blosc2.full((90, 90), value, dtype="f8", chunks=(30, 30), blocks=(10, 10), dparams={"nthreads": 2})
    items = np.full((90, 90), value, "f8")
    array[40:45, 50:80] = items[40:45, 50:80] = rng.random((5, 30))
    keys = patches(rng, items.shape, 25, 50) + [(slice(80, 10, -3), slice(2, 27))] * 2
    assert_rows(array.read_many(keys), items, keys)


def test_selections_of_very_many_chunks() -> None:
    """More parts than are looked at together, and a selection that is read by itself."""
    items = np.arange(70_000, dtype="u4")
    array = blosc2.asarray(items, chunks=(1,), blocks=(1,))
    keys: list[Any] = [slice(i, i + 60_000) for i in range(20)]
    assert_rows(array.read_many(keys), items, keys)
    mixed = [slice(5, 9), slice(None, None, -1), 69_999, [4, 2]]
    assert_rows(array.read_many(mixed), items, mixed)
    everything = [slice(None), slice(None, None, -1)]
    assert_rows(array.read_many(everything), items, everything)


# --------------------------------------------------------------------- what is refused


def test_no_selections() -> None:
    array = blosc2.arange(10)
    assert array.read_many([]).shape == (0,)
    out = np.empty((0, 3), array.dtype)
    assert array.read_many(iter(()), out=out) is out
    with pytest.raises(ValueError, match="shape"):
        array.read_many([], out=np.empty((1, 3), array.dtype))
    with pytest.raises(ValueError, match="dtype"):
        array.read_many([], out=np.empty((0, 3), "S1"))


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (12, IndexError, "index 12 is out of bounds for axis 0 with size 12"),
        (-13, IndexError, "out of bounds"),
        (1 << 70, IndexError, "out of bounds"),
        (np.int8(100), IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many indices"),
        ((0, ..., ...), IndexError, "single ellipsis"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice("a", None), TypeError, "slice indices"),
        (1.5, IndexError, "only integers"),
        ([0, 12], IndexError, "out of bounds"),
        (np.ones(11, bool), IndexError, "boolean"),
        ("name", IndexError, "names of fields"),
        (["a", "b"], IndexError, "names of fields"),
    ],
)
def test_a_wrong_selection_is_named_and_changes_nothing(key: Any, error: type[Exception], text: str) -> None:
    items = numbers((12, 5))
    array = blosc2.asarray(items, chunks=(5, 5), blocks=(2, 5))
    with pytest.raises(error, match=f"selection 2 of the batch: .*{text}"):
        array.read_many([0, 1, key, 3])
    out = np.zeros((4, 5), items.dtype)
    with pytest.raises(error, match="selection 2 of the batch"):
        array.read_many([0, 1, key, 3], out=out)
    assert not out.any()


def test_a_result_that_does_not_fit_is_refused_before_anything_is_read() -> None:
    items = numbers((12, 5))
    array = blosc2.asarray(items, chunks=(5, 5), blocks=(2, 5))
    keys = [0, [3]], [0, slice(2, 4)], [slice(0, 2), 3]
    for batch in keys:
        out = np.zeros((2, 5), items.dtype)
        with pytest.raises(ValueError, match="differ in shape"):
            array.read_many(batch, out=out)
        assert not out.any()
    batch = [0, 7]
    for out, what in (
        (np.zeros((2, 5), "i8"), "dtype"),
        (np.zeros((2, 5), ">i4"), "dtype"),
        (np.zeros((3, 5), "i4"), "shape"),
        (np.zeros((2, 1, 5), "i4"), "shape"),
        (np.zeros(10, "i4"), "shape"),
        (as_strided(np.zeros(5, "i4"), (2, 5), (0, 4), writeable=False), "read-only"),
    ):
        with pytest.raises(ValueError, match=what):
            array.read_many(batch, out=out)
        assert not out.any()
    with pytest.raises(TypeError, match="NumPy array"):
        array.read_many(batch, out=[[0] * 5] * 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="iterable"):
        array.read_many(3)  # type: ignore[arg-type]


def test_an_iterable_that_fails_changes_nothing() -> None:
    array = blosc2.arange(10)
    out = np.zeros((2,), array.dtype)

    def broken() -> Iterator[int]:
        yield 3
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        array.read_many(broken(), out=out)
    assert not out.any()


def test_arrays_without_axes_or_items() -> None:
    scalar = np.array(5, "i2")
    keys: list[Any] = [(), ..., ((...),), (None, ...)]
    array = blosc2.asarray(scalar)
    assert_rows(array.read_many(keys[:3]), scalar, keys[:3])
    assert_rows(array.read_many(keys), scalar, keys)
    with pytest.raises(IndexError, match="selection 1 of the batch: too many indices"):
        array.read_many([(), 0])
    empty = np.empty((0, 4), "i2")
    assert_rows(blosc2.asarray(empty).read_many([slice(None), ...]), empty, [slice(None), ...])


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.usefixtures("eager")
def test_a_damaged_chunk(tmp_path: Path, source: str | None, rng: np.random.Generator, nthreads: int) -> None:
    items = rng.integers(0, 99, (100, 100)).astype("i4")
    path = tmp_path / "damaged.b2nd"
    array = blosc2.asarray(items, urlpath=str(path), chunks=(20, 100), blocks=(5, 100))
    at, _, stored, *_ = array._handle.frame.chunk_info(3)
    content = bytearray(path.read_bytes())
    content[at + 32 : at + stored] = b"\xff" * (stored - 32)
    path.write_bytes(content)
    array = blosc2.open(str(path), mmap_mode=source, dparams={"nthreads": nthreads})
    whole = [slice(0, 20), slice(30, 50), slice(80, 100)]
    assert_rows(array.read_many(whole), items, whole)
    with pytest.raises(FormatError, match="chunk 3"):
        array.read_many([*whole, slice(55, 75)] * 5)


#: The rest of the shape, which a block holds all of.
RESTS = [(), (1,), (3,), (8, 2), (1, 5, 1)]
ROW_DTYPES = ["u1", ">i2", "f4", "i8", "S3", [("a", "u1"), ("b", "<f4", (2,))]]


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
    items = rows(length, rest, draw(st.sampled_from(ROW_DTYPES)), draw(st.integers(0, 3)))
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
