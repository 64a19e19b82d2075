"""Arrays against NumPy: any shape, type and compression, in memory and in files, read, written and resized."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import cases
from fixture_kit.cases import assert_same
from fixture_kit.keys import basic_key
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter
from blosc2.exceptions import ShapeError

SOURCES: tuple[str | None, ...] = (None, "r")


pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("arrays") / "array.b2nd")


def value_for(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Something to be assigned to a selection: of its shape, broadcast, reversed, or not contiguous."""
    kind = rng.integers(5)
    if kind == 0:
        return cases.values(rng, dtype, ())
    if kind == 1 and shape:
        lengths = tuple(1 if rng.random() < 0.4 else n for n in shape)
        return cases.values(rng, dtype, lengths[int(rng.integers(len(lengths) + 1)) :])
    if kind == 2:
        return np.flip(cases.values(rng, dtype, shape))
    if kind == 3:
        return cases.values(rng, dtype, shape[::-1]).T
    return cases.values(rng, dtype, shape)


# --------------------------------------------------------------------- against NumPy


@pytest.mark.parametrize("quarter", range(4))
@settings(max_examples=200, deadline=None)
@given(case=cases.cases())
def test_reads_and_writes_are_those_of_numpy(case: cases.Case, path: str, quarter: int) -> None:
    want, rng = case.items.copy(), case.rng()
    memory = cases.write(case)
    file = cases.write(case, urlpath=path, mode="w")
    readers = [blosc2.open(path, mmap_mode=mmap_mode) for mmap_mode in SOURCES]
    before = want.copy()
    for _ in range(3):
        for array in (memory, file, *(blosc2.open(path, mmap_mode=mmap_mode) for mmap_mode in SOURCES)):
            assert_same(array[...], want)
            for _ in range(3):
                key = basic_key(rng, want.shape)
                assert_same(array[key], cases.pick(want, key))
        key = basic_key(rng, want.shape)
        value = value_for(rng, want.dtype, np.shape(want[key]))
        want[key] = value
        memory[key] = value
        file[key] = value
    for array in (memory, file, blosc2.open(path), blosc2.from_cframe(memory.to_cframe())):
        assert_same(array[...], want)
        assert (array.shape, array.dtype) == (want.shape, want.dtype)
    # Whoever opened the file before goes on with what was there then.
    for array in readers:
        assert_same(array[...], before)


@pytest.mark.parametrize("quarter", range(4))
@settings(max_examples=125, deadline=None)
@given(case=cases.cases(), steps=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
def test_resize_is_as_cutting_and_padding_with_zeros(
    case: cases.Case, steps: list[int], path: str, quarter: int
) -> None:
    memory = cases.write(case)
    file = cases.write(case, urlpath=path, mode="w")
    want = case.items
    for step in steps:
        rng = np.random.default_rng(step)
        shape = tuple(
            int(rng.integers(0, min(n + 3 * max(c, 1), 60 // want.ndim + 2) + 1)) if rng.random() < 0.6 else n
            for n, c in zip(want.shape, memory.chunks, strict=True)
        )
        grown = np.zeros(shape, want.dtype)
        kept = tuple(slice(0, min(pair)) for pair in zip(shape, want.shape, strict=True))
        grown[kept] = want[kept]
        want = grown
        if want.size and step % 2:
            key = basic_key(rng, want.shape)
            value = cases.values(rng, want.dtype, np.shape(want[key]))
        else:
            key, value = (), None
        if value is not None:
            want[key] = value
        for array in (memory, file):
            array.resize(shape)
            assert array.shape == shape
            if value is not None:
                array[key] = value
            assert_same(array[...], want)
        for mmap_mode in SOURCES:
            assert_same(blosc2.open(path, mmap_mode=mmap_mode)[...], want)
    assert (file.chunks, file.blocks) == (memory.chunks, memory.blocks)


@settings(max_examples=150, deadline=None)
@given(
    chunk=st.integers(1, 9), block=st.integers(1, 9), pieces=st.lists(st.integers(0, 20), max_size=6),
    start=st.integers(0, 20), clevel=st.sampled_from([0, 5]),
)  # fmt: skip
def test_append_is_as_concatenate(
    chunk: int, block: int, pieces: list[int], start: int, clevel: int, path: str
) -> None:
    rng = np.random.default_rng(chunk * 100 + block)
    want = rng.integers(1, 1000, start).astype("<i4")
    keywords: dict[str, Any] = {"chunks": (chunk,), "blocks": (min(block, chunk),), "cparams": {"clevel": clevel}}
    arrays = [blosc2.asarray(want, **keywords), blosc2.asarray(want, urlpath=path, mode="w", **keywords)]
    for piece in pieces:
        more = rng.integers(1, 1000, piece).astype("<i4")
        want = np.concatenate([want, more])
        for array in arrays:
            assert array.append(more) == len(want)
            assert_same(array[:], want)
    assert_same(blosc2.open(path)[:], want)


def test_append_casts_and_refuses() -> None:
    array = blosc2.asarray(np.arange(3, dtype="i2"), chunks=(2,), blocks=(2,))
    assert array.append(7) == 4
    assert array.append([[8], [9]]) == 6
    np.testing.assert_array_equal(array[:], [0, 1, 2, 7, 8, 9])
    with pytest.raises(OverflowError):
        array.append([1 << 20])
    with pytest.raises(ValueError, match="rows to append"):
        blosc2.zeros((2, 2)).append([1.0])
    assert array.shape == (6,)


@pytest.mark.parametrize("shape", [(4,), (4, 4, 4), (-1, 4), 5, "ab", (1.5, 2)])
def test_resize_refuses_other_kinds_of_shapes(shape: Any) -> None:
    array = blosc2.asarray(np.arange(6).reshape(2, 3))
    with pytest.raises((ValueError, TypeError)):
        array.resize(shape)
    np.testing.assert_array_equal(array[:], np.arange(6).reshape(2, 3))


def test_growth_reads_zeros_over_padding_that_was_not_zero(tmp_path: Path) -> None:
    """Other programs may leave anything in the padding; a shrunk array has its old items there."""
    urlpath = str(tmp_path / "padded.b2nd")
    array = blosc2.full((10, 10), 7, dtype="i4", chunks=(4, 4), blocks=(3, 2), urlpath=urlpath)
    want = np.zeros((13, 12), "i4")
    want[:10, :10] = 7
    array.resize((13, 12))
    np.testing.assert_array_equal(array[:], want)
    array.resize((5, 5))
    array.resize((12, 12))
    want = np.zeros((12, 12), "i4")
    want[:5, :5] = 7
    np.testing.assert_array_equal(blosc2.open(urlpath)[:], want)


@pytest.mark.parametrize(
    ("before", "after", "appended"),
    [((8, 8), (20, 8), True), ((8, 8), (3, 8), True), ((7, 7), (7, 8), True), ((8, 8), (8, 9), False)],
)
def test_resize_rewrites_only_when_chunks_get_other_numbers(
    tmp_path: Path, before: tuple[int, ...], after: tuple[int, ...], appended: bool
) -> None:
    urlpath = tmp_path / "a.b2nd"
    array = blosc2.asarray(np.ones(before), chunks=(4, 4), blocks=(2, 4), urlpath=str(urlpath))
    old, inode = urlpath.read_bytes(), urlpath.stat().st_ino
    array.resize(after)
    new = urlpath.read_bytes()
    assert (urlpath.stat().st_ino == inode) is appended
    if appended:  # nothing that the old version used was overwritten
        header_len = int.from_bytes(old[11:15], "big")
        assert new[header_len : len(old)] == old[header_len:]
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd"]


def test_an_empty_array_with_chunks_can_grow(tmp_path: Path) -> None:
    urlpath = str(tmp_path / "growing.b2nd")
    array = blosc2.empty((0, 5), dtype="i2", chunks=(4, 5), blocks=(2, 5), urlpath=urlpath)
    assert (array.chunks, array.blocks, array.nbytes) == ((4, 5), (2, 5), 0)
    array.resize((6, 5))
    array[4:] = 3
    want = np.zeros((6, 5), "i2")
    want[4:] = 3
    np.testing.assert_array_equal(blosc2.open(urlpath)[:], want)
    assert blosc2.open(urlpath).schunk.blocksize == 2 * 5 * 2


# --------------------------------------------------------------------- reading

KINDS = [
    {"codec": Codec.BLOSCLZ}, {"codec": Codec.LZ4, "filters": [Filter.NOFILTER]}, {"codec": Codec.ZSTD},
    {"clevel": 0}, {"codec": Codec.ZSTD, "use_dict": True}, {"codec": Codec.LZ4, "use_dict": True},
    {"filters": [Filter.DELTA, Filter.SHUFFLE]},
]  # fmt: skip


@pytest.mark.parametrize("cparams", KINDS, ids=str)
def test_slices_as_long_as_a_block_from_any_start(
    cparams: dict[str, Any], path: str, source: str | None, rng: np.random.Generator
) -> None:
    block, count = 32, 150
    items = np.repeat(rng.integers(0, 9, count // 3).astype("<i4"), 3)
    blosc2.asarray(items, chunks=(2 * block + 8,), blocks=(block,), cparams=cparams, urlpath=path, mode="w")
    array = blosc2.open(path, mmap_mode=source)
    for length in range(block - 2, block + 3):
        for start in range(count - length):
            assert_same(array[start : start + length], items[start : start + length])


@pytest.mark.parametrize("cparams", KINDS, ids=str)
def test_boxes_as_large_as_a_block_from_any_corner(
    cparams: dict[str, Any], path: str, source: str | None, rng: np.random.Generator
) -> None:
    items = rng.integers(0, 5, (23, 21)).astype("<f8")
    blosc2.asarray(items, chunks=(12, 10), blocks=(4, 5), cparams=cparams, urlpath=path, mode="w")
    array = blosc2.open(path, mmap_mode=source)
    for i in range(20):
        for j in range(17):
            assert_same(array[i : i + 4, j : j + 5], items[i : i + 4, j : j + 5])


SPECIAL = [
    (blosc2.zeros, {"dtype": ">i4"}, np.zeros((9, 7), ">i4")),
    (blosc2.uninit, {"dtype": "S5"}, np.zeros((9, 7), "S5")),
    (blosc2.empty, {"dtype": [("a", "i2"), ("b", "f8")]}, np.zeros((9, 7), [("a", "i2"), ("b", "f8")])),
    (blosc2.nans, {"dtype": "f4"}, np.full((9, 7), np.nan, "f4")),
    (blosc2.nans, {"dtype": "f8"}, np.full((9, 7), np.nan, "f8")),
    (blosc2.nans, {"dtype": ">f8"}, np.full((9, 7), np.nan, ">f8")),
    (blosc2.nans, {"dtype": "c16"}, np.full((9, 7), np.nan, "c16")),
    (blosc2.nans, {"dtype": "f2"}, np.full((9, 7), np.nan, "f2")),
    (lambda shape, **k: blosc2.full(shape, b"abcde", **k), {}, np.full((9, 7), b"abcde")),
    (lambda shape, **k: blosc2.full(shape, 3, **k), {"dtype": ">u2"}, np.full((9, 7), 3, ">u2")),
    (lambda shape, **k: blosc2.full(shape, "x" * 80, **k), {}, np.full((9, 7), "x" * 80)),
]


@pytest.mark.parametrize(("make", "keywords", "want"), SPECIAL)
def test_special_chunks(
    make: Any, keywords: dict[str, Any], want: np.ndarray[Any, Any], path: str, source: str | None,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    make((9, 7), chunks=(4, 4), blocks=(2, 3), urlpath=path, mode="w", **keywords)
    array = blosc2.open(path, mmap_mode=source)
    assert array.cbytes <= 32 * 6 + 6 * want.itemsize
    assert_same(array[...], want)
    for _ in range(30):
        key = basic_key(rng, want.shape)
        assert_same(array[key], cases.pick(want, key))
    # One item written into each kind of special chunk leaves the rest as it was.
    changed = blosc2.open(path, mode="a")
    want = want.copy()
    want[5, 6] = changed[5, 6] = np.zeros((), want.dtype)[()]
    want[0, 1:3] = changed[0, 1:3] = (
        np.ones((), "V1") if want.dtype.kind == "V" and not want.dtype.names else want[8, 0]
    )
    assert_same(blosc2.open(path)[...], want)


def test_results_are_fresh_writable_and_contiguous() -> None:
    array = blosc2.asarray(np.arange(60).reshape(5, 12), chunks=(3, 5), blocks=(2, 2))
    for key in (..., slice(None), (), 1, (slice(None), 3), (slice(4, 0, -2), slice(None, None, -1)), (None, 2), (1, 1)):
        got = array[key]
        assert type(got) is np.ndarray
        assert got.flags.c_contiguous
        assert got.flags.writeable
        assert got.flags.owndata or got.base is None or got.base.base is None
        got[...] = -1
    np.testing.assert_array_equal(array[:], np.arange(60).reshape(5, 12))


def test_keys_of_arrays_and_masks(rng: np.random.Generator) -> None:
    items = rng.integers(0, 100, (6, 7, 8))
    array = blosc2.asarray(items, chunks=(4, 3, 5), blocks=(2, 2, 2))
    mask = items > 50
    keys: list[Any] = [
        [0, -1, 3], np.array([[1, 2], [3, 0]]), ([1, 2], [3, 4]), mask, mask[:, 0, 0], (slice(None), mask[0, :, 0]),
        np.ix_([0, 2], [1, 5], [7]), ([0, 1], slice(None), [2, 3]), (None, [1, 2]), np.array(3), range(3), [],
        (0, [1, 2], slice(1, 3)), True, False, (..., [0, 1]), np.nonzero(mask), np.int8(2),
    ]  # fmt: skip
    for key in keys:
        want = np.asarray(items[key if not isinstance(key, range) else list(key)])
        np.testing.assert_array_equal(array[key], want)
        assert array[key].shape == want.shape
    as_key = blosc2.asarray(np.array([4, 0]))
    np.testing.assert_array_equal(array[as_key], items[[4, 0]])
    np.testing.assert_array_equal(array[blosc2.asarray(mask)], items[mask])


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (9, IndexError, "bounds"), ((0, -8), IndexError, "bounds"), ((0, 0, 0), IndexError, "too many indices"),
        ((..., ...), IndexError, "single ellipsis"), (slice(None, None, 0), ValueError, "zero"),
        (1.5, IndexError, "only integers"), (np.array([0.5]), IndexError, "integer"), (slice("a"), TypeError, "slice"),
        ([9], IndexError, "bounds"), (np.ones(4, bool), IndexError, "boolean index did not match"),
    ],
)  # fmt: skip
def test_keys_that_are_refused(key: Any, kind: type[Exception], text: str) -> None:
    array = blosc2.zeros((5, 7), dtype="i4")
    with pytest.raises(kind, match=text):
        array[key]
    with pytest.raises(kind, match=text):
        array[key] = 1
    np.testing.assert_array_equal(array[:], np.zeros((5, 7)))


def test_a_key_that_is_a_string() -> None:
    array = blosc2.zeros(3)
    with pytest.raises(ValueError, match="not structured"):
        array["name"]
    with pytest.raises(NotImplementedError, match="expressions"):
        array["a + 1"]
    with pytest.raises(KeyError, match="nothing"):
        blosc2.zeros(3, dtype=[("a", "i4")])["nothing"]


# --------------------------------------------------------------------- writing


def test_values_are_cast_as_numpy_does() -> None:
    array = blosc2.zeros(4, dtype="i1")
    with pytest.raises(OverflowError):
        array[0] = 300
    with pytest.raises(OverflowError):
        array[:2] = [1, 300]
    np.testing.assert_array_equal(array[:], [0, 0, 0, 0])
    array[:] = np.array([1, 300, -129, 2.9])
    np.testing.assert_array_equal(array[:], np.array([1, 300, -129, 2.9]).astype("i1"))
    floats = blosc2.zeros(3)
    with pytest.warns(np.exceptions.ComplexWarning):
        floats[:] = np.array([1j, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.exceptions.ComplexWarning):
            floats[0] = np.array(5j)
    np.testing.assert_array_equal(floats[:], [0, 2, 3])
    with pytest.raises(TypeError):
        array[0] = None
    times = blosc2.zeros(2, dtype="M8[s]")
    times[1] = np.datetime64("2020-01-02")
    assert times[1] == np.datetime64("2020-01-02T00:00:00")
    texts = blosc2.zeros(2, dtype="U3")
    texts[:] = "abcdef"
    assert texts[:].tolist() == ["abc", "abc"]


@pytest.mark.parametrize("shape", [(3,), (2, 2), (4, 5, 1), (2, 4, 5), (0,)])
def test_a_value_of_another_shape(shape: tuple[int, ...]) -> None:
    array = blosc2.ones((4, 5))
    with pytest.raises(ShapeError) as caught:
        array[:] = np.zeros(shape)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RuntimeError)
    assert str(shape) in str(caught.value)
    assert "(4, 5)" in str(caught.value)
    np.testing.assert_array_equal(array[:], np.ones((4, 5)))


def test_leading_ones_of_a_value_are_dropped() -> None:
    array = blosc2.zeros((4, 5))
    array[1] = np.ones((1, 1, 5))
    array[:, 2:4] = np.full((1, 4, 2), 3)
    want = np.zeros((4, 5))
    want[1] = 1
    want[:, 2:4] = 3
    np.testing.assert_array_equal(array[:], want)


def test_a_tuple_is_one_structured_item() -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8")])
    array = blosc2.zeros(3, dtype=dtype)
    want = np.zeros(3, dtype)
    array[1] = want[1] = (5, 2.5)
    array[:1] = want[:1] = [(7, 1.5)]
    assert_same(array[:], want)


def test_assignment_of_parts_of_itself() -> None:
    array = blosc2.arange(10, chunks=(3,), blocks=(2,))
    array[2:] = array[:-2]
    np.testing.assert_array_equal(array[:], [0, 1, 0, 1, 2, 3, 4, 5, 6, 7])
    array[:] = blosc2.arange(10)
    np.testing.assert_array_equal(array[:], np.arange(10))
    array[::-1] = array
    np.testing.assert_array_equal(array[:], np.arange(10)[::-1])


def test_assignment_with_arrays_as_keys(rng: np.random.Generator) -> None:
    want = rng.integers(0, 9, (6, 5))
    array = blosc2.asarray(want, chunks=(4, 3), blocks=(2, 2))
    mask = want > 4
    for key, value in (([0, 2], 50), (mask, -1), ((slice(None), [1, 1]), 7), (True, 3), (([0], [1]), 4)):
        want[key] = array[key] = value
        np.testing.assert_array_equal(array[:], want)


def test_a_handle_for_reading_changes_nothing(tmp_path: Path, source: str | None) -> None:
    urlpath = tmp_path / "a.b2nd"
    blosc2.arange(10, urlpath=str(urlpath), meta={"m": 1})
    before, state = urlpath.read_bytes(), urlpath.stat()
    array = blosc2.open(str(urlpath), mmap_mode=source)

    def changes(array: Any) -> Any:
        yield lambda: array.__setitem__(0, 1)
        yield lambda: array.__setitem__(slice(0, 0), 1)
        yield lambda: array.resize((5,))
        yield lambda: array.resize((10,))
        yield lambda: array.append([1])
        yield lambda: array.append([])
        yield lambda: array.vlmeta.__setitem__("a", 1)
        yield lambda: array.vlmeta.update(a=1)
        yield lambda: array.vlmeta.clear()
        yield lambda: array.meta.__setitem__("m", 2)
        yield lambda: array.schunk.update_data(0, np.arange(10))
        yield lambda: array.schunk.append_data(b"x")
        yield lambda: array.schunk.delete_chunk(0)
        yield lambda: array.schunk.reorder_offsets([0])
        yield lambda: array.schunk.fill_special(1, blosc2.SpecialValue.ZERO)
        yield lambda: array.schunk.__setitem__(slice(0, 1), b"12345678")

    for change in changes(array):
        with pytest.raises(ValueError, match="reading mode"):
            change()
    assert urlpath.read_bytes() == before
    assert urlpath.stat().st_mtime_ns == state.st_mtime_ns
    assert os.listdir(tmp_path) == ["a.b2nd"]
    np.testing.assert_array_equal(array[:], np.arange(10))


def test_what_is_assigned_imports_no_masked_arrays() -> None:
    """Which takes as long as many assignments; some versions of NumPy have done it already."""
    code = """
import sys
import numpy as np
before = "numpy.ma" in sys.modules
import blosc2
array = blosc2.zeros((10, 3), chunks=(4, 3))
array[1] = 5
array[2:4] = np.ones((2, 3))
array[0] = [1, 2, 3]
array.vlmeta["a"] = np.arange(3)
blosc2.pack_tensor(np.arange(3))
assert ("numpy.ma" in sys.modules) is before
masked = np.ma.masked_array([1, 2, 3], [False, True, False])
for act in (lambda: array.__setitem__(0, masked), lambda: blosc2.pack_tensor(masked)):
    try:
        act()
    except TypeError as error:
        assert "mask" in str(error)
    else:
        raise AssertionError("the mask was lost")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
