"""Arrays made of others against NumPy: permuted, reshaped, joined, converted, picked from; and live views."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import os
import pickle
import sys
import tracemalloc
import weakref
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
from blosc2 import Codec, Filter, NDArray
from blosc2._arrays import slabs
from blosc2._functions.opaque_objects import OpaqueArray
from blosc2._opening.pickles import reduce_stored
from blosc2.exceptions import UnsupportedKindError


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced: others see to durability."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("arrays") / "array.b2nd")


#: Small enough for several slabs, down to one chunk each; or what it is.
LIMITS = st.sampled_from([1, 300, 5000, slabs.SLAB_NBYTES])


def keywords(draw: Any, shape: tuple[int, ...], path: str) -> dict[str, Any]:
    """Keywords of a constructor for a result: where it goes, and in what chunks and blocks."""
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more.update(urlpath=path, mode="w")
    if draw(st.booleans()) and 0 not in shape:
        more["chunks"] = chunks = tuple(draw(st.integers(1, n + 1)) for n in shape)
        if draw(st.booleans()):
            more["blocks"] = tuple(draw(st.integers(1, n)) for n in chunks)
    if draw(st.integers(0, 4)) == 0:
        more["cparams"] = {"codec": Codec.LZ4, "clevel": 3}
    return more


def check(got: Any, want: np.ndarray[Any, Any], more: dict[str, Any] | None = None) -> None:
    """The result is an array of its own with these items, also when it is opened again."""
    more = more or {}
    assert type(got) is NDArray
    assert_same(got[...], want)
    assert got.urlpath == more.get("urlpath")
    for name in ("chunks", "blocks"):
        assert name not in more or getattr(got, name) == more[name]
    if "urlpath" in more:
        assert_same(blosc2.open(more["urlpath"])[...], want)
    if "cparams" in more:
        assert (got.cparams.codec, got.cparams.clevel) == (Codec.LZ4, 3)
        for info in got.iterchunks_info():
            if info.special is blosc2.SpecialValue.NOT_SPECIAL and not info.lazychunk[2] & 2:  # not stored as it is
                assert info.lazychunk[2] >> 5 == 1  # LZ4, in the chunk's own header


# --------------------------------------------------------------------- against NumPy


@settings(max_examples=200, deadline=None)
@given(case=cases.cases(), limit=LIMITS, data=st.data())
def test_permuted_axes_are_those_of_numpy(case: cases.Case, limit: int, data: st.DataObject, path: str) -> None:
    array = cases.write(case)
    axes = data.draw(st.permutations(range(array.ndim)))
    want = np.ascontiguousarray(case.items.transpose(axes)).reshape([array.shape[n] for n in axes])
    more = keywords(data.draw, want.shape, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "SLAB_NBYTES", limit)
        got = blosc2.permute_dims(array, [n - array.ndim if n % 2 else n for n in axes], **more)
        check(got, want, more)
        if array.ndim >= 2:
            check(array.mT, np.ascontiguousarray(case.items.mT))
        check(blosc2.permute_dims(array), np.ascontiguousarray(case.items.T).reshape(array.shape[::-1]))


@settings(max_examples=200, deadline=None)
@given(case=cases.cases(), limit=LIMITS, data=st.data())
def test_shapes_are_those_of_numpy(case: cases.Case, limit: int, data: st.DataObject, path: str) -> None:
    array = cases.write(case)
    left = array.size
    shape: list[int] = []
    while left > 1 and len(shape) < 5:
        shape.append(data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= shape[-1]
    shape.append(left)
    want = case.items.reshape(shape)
    more = keywords(data.draw, want.shape, path)
    if left and data.draw(st.booleans()):
        shape[-1] = -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "SLAB_NBYTES", limit)
        check(blosc2.reshape(array, shape, **more), want, more)
        check(array.reshape(tuple(shape)), want)


@settings(max_examples=250, deadline=None)
@given(case=cases.cases(), limit=LIMITS, data=st.data())
def test_joined_arrays_are_those_of_numpy(case: cases.Case, limit: int, data: st.DataObject, path: str) -> None:
    first = cases.write(case)
    rng = case.rng()
    if first.ndim == 0:
        want = np.stack([case.items] * 3).astype(case.items.dtype)  # NumPy changes the order of bytes
        check(blosc2.stack([first] * 3), want)
        return
    axis = data.draw(st.integers(-first.ndim, first.ndim - 1))
    items, arrays = [case.items], [first]
    for _ in range(data.draw(st.integers(0, 3))):
        shape = list(first.shape)
        # Whole chunks of it now and then, so that what comes next can be copied.
        step = max(first.chunks[axis], 1) if data.draw(st.booleans()) else 1
        shape[axis] = data.draw(st.integers(0, 3)) * step
        items.append(cases.values(rng, case.items.dtype, tuple(shape)))
        alike = data.draw(st.booleans()) and 0 not in first.chunks
        like = {"chunks": first.chunks, "blocks": first.blocks} if alike else {}
        arrays.append(blosc2.asarray(items[-1], **like, cparams={"codec": data.draw(st.sampled_from(cases.CODECS))}))
    if data.draw(st.booleans()):
        items.reverse()
        arrays.reverse()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "SLAB_NBYTES", limit)
        want = np.concatenate(items, axis).astype(case.items.dtype, copy=False)
        more = keywords(data.draw, want.shape, path)
        check(blosc2.concat(arrays, axis=axis, **more), want, more)
        want = np.stack([case.items, case.items[...]], axis).astype(case.items.dtype, copy=False)
        more = keywords(data.draw, want.shape, path)
        check(blosc2.stack((first, case.items), axis=axis, **more), want, more)


@settings(max_examples=150, deadline=None)
@given(case=cases.cases(), limit=LIMITS, data=st.data())
def test_items_by_number_are_those_of_numpy(case: cases.Case, limit: int, data: st.DataObject) -> None:
    array = cases.write(case)
    axis = data.draw(st.sampled_from([None, *range(-array.ndim, array.ndim)]))
    length = array.size if axis is None else array.shape[axis]
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    if length == 0:
        shape = (*shape, 0)
    indices = case.rng().integers(-max(length, 1), max(length, 1), shape)
    want = np.take(case.items, indices, axis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "SLAB_NBYTES", limit)
        check(blosc2.take(array, indices, axis), np.array(want, case.items.dtype))
        check(array.take(indices.tolist() if indices.size else indices, axis=axis), np.array(want, case.items.dtype))


@settings(max_examples=150, deadline=None)
@given(case=cases.cases(), limit=LIMITS, data=st.data())
def test_slices_are_those_of_numpy(case: cases.Case, limit: int, data: st.DataObject, path: str) -> None:
    array = cases.write(case)
    key = basic_key(case.rng(), array.shape)
    want = cases.pick(case.items, key)
    more = keywords(data.draw, want.shape, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "SLAB_NBYTES", limit)
        check(array.slice(key, **more), want, more)


@pytest.mark.parametrize("old", ["?", "|i1", "<u2", ">i4", "<i8", "<f4", ">f8", "<c8", "|S3", "<U4", "<M8[s]"])
@pytest.mark.parametrize("new", ["?", "u1", ">i2", "<i8", "<f2", ">f4", "<c16", "S", "S9", "U", ">U2", "M8[ms]", "f8"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_conversions_are_those_of_numpy(old: str, new: str, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(slabs, "SLAB_NBYTES", 200)
    numbers = np.arange(77) % 90
    items = (numbers.astype("U") if old[1:2] in "SU" else numbers).astype(old).reshape(7, 11)
    array = blosc2.asarray(items, chunks=(3, 4), blocks=(2, 3))
    try:
        want = items.astype(new)
    except (TypeError, ValueError, RuntimeError) as error:
        with pytest.raises(type(error)):
            blosc2.astype(array, new)
        return
    got = blosc2.astype(array, new, urlpath=path, mode="w")
    check(got, want, {"urlpath": path})
    if want.dtype.itemsize == items.dtype.itemsize:
        assert (got.chunks, got.blocks) == (array.chunks, array.blocks)
    for casting in ("no", "equiv", "safe", "same_kind"):
        if np.can_cast(items.dtype, want.dtype, casting):  # type: ignore[arg-type]
            check(blosc2.astype(array, new, casting), want)
        else:
            with pytest.raises(TypeError, match="Cannot cast array data"):
                blosc2.astype(array, new, casting)


def test_a_conversion_that_changes_nothing_may_give_the_array_itself() -> None:
    array = blosc2.arange(5)
    assert blosc2.astype(array, array.dtype, copy=False) is array
    assert blosc2.astype(array, array.dtype) is not array
    assert blosc2.astype(array, "i4", copy=False) is not array
    with pytest.raises(ValueError, match="unit"):
        blosc2.astype(blosc2.asarray(np.array(["2020-01-01"])), "M8")


# --------------------------------------------------------------------- what is made, and where


def test_chunks_that_stay_whole_are_copied_as_they_are(path: str) -> None:
    rng = np.random.default_rng(1)
    items = rng.integers(0, 9, (10, 6))
    parts = [
        blosc2.asarray(items[:4], chunks=(2, 4), blocks=(1, 2), cparams={"codec": Codec.LZ4}),
        blosc2.asarray(items[4:9], chunks=(2, 4), blocks=(1, 2), cparams={"codec": Codec.ZLIB}),
        blosc2.asarray(items[9:], chunks=(1, 4), blocks=(1, 2)),
    ]
    got = blosc2.concat(parts, urlpath=path, mode="w")
    check(got, items, {"urlpath": path})
    stored = [parts[0].get_chunk(n) for n in range(4)] + [parts[1].get_chunk(n) for n in range(4)]
    assert [got.get_chunk(n) for n in range(8)] == stored
    other = blosc2.concat(parts, cparams={"codec": Codec.BLOSCLZ})
    check(other, items)
    assert other.get_chunk(0) != stored[0]
    stacked = blosc2.stack(parts[:1] * 2, axis=1)
    assert stacked.chunks == (2, 1, 4)
    assert stacked.blocks == (1, 1, 2)
    assert stacked.get_chunk(2) == stored[0]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("limit", [1, 100, 1 << 20])
def test_parts_that_end_anywhere_in_a_chunk(axis: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three items, in blocks that some parts have and others do not."""
    monkeypatch.setattr(slabs, "SLAB_NBYTES", limit)
    for lengths in itertools.product([0, 1, 3, 4, 6], [0, 2, 3, 6], [1, 3, 5]):
        for blocks in ([2, 2, 2], [2, 1, 2], [3, 3, 2]):
            parts, arrays = [], []
            for number, (length, block) in enumerate(zip(lengths, blocks, strict=True)):
                items = np.arange(length * 4, dtype="i2").reshape(length, 4) + 100 * number
                parts.append(items if axis == 0 else np.ascontiguousarray(items.T))
                shapes = [(3, 3), (block, 2)] if axis == 0 else [(3, 3), (2, block)]
                arrays.append(blosc2.asarray(parts[-1], chunks=shapes[0], blocks=shapes[1]))
            got = blosc2.concat(arrays, axis=axis, chunks=(3, 3), blocks=(2, 2))
            assert_same(got[...], np.concatenate(parts, axis))


def test_small_chunks_of_a_part_are_not_taken_over() -> None:
    parts = [blosc2.asarray(np.full(10, n)) for n in range(1000)]
    got = blosc2.concat(parts)
    check(got, np.repeat(np.arange(1000), 10))
    assert got.schunk.nchunks == 1


def test_special_chunks_stay_special() -> None:
    zeros = blosc2.zeros((4, 6), chunks=(2, 3))
    got = blosc2.concat([zeros, blosc2.nans((4, 6), chunks=(2, 3))])
    assert got.cbytes == 0
    np.testing.assert_array_equal(got[:], np.repeat([0, np.nan], 4)[:, None] * np.ones((8, 6)))
    assert blosc2.stack([zeros, zeros]).cbytes == 0


def test_other_types_are_promoted() -> None:
    check(blosc2.concat([blosc2.ones(3, "i2"), np.full(2, 0.5, "f4")]), np.array([1, 1, 1, 0.5, 0.5], "f4"))
    check(blosc2.stack([blosc2.ones(2, "i2"), np.zeros(2, "u2")]), np.array([[1, 1], [0, 0]], "i4"))
    check(blosc2.concat([blosc2.ones((2, 1), "i2"), np.zeros(2, "i2")], axis=None), np.array([1, 1, 0, 0], "i2"))


@pytest.mark.parametrize("codec", [Codec.ZFP_PREC, Codec.LZ4])
def test_parameters_that_lose_something_are_not_taken_over(codec: Codec) -> None:
    filters = [Filter.TRUNC_PREC] if codec is Codec.LZ4 else []
    cparams = {"codec": codec, "codec_meta": 16 if codec is Codec.ZFP_PREC else 0, "filters": filters,
               "filters_meta": [8] * len(filters)}  # fmt: skip
    array = blosc2.asarray(np.random.default_rng(2).random((8, 8, 8)), cparams=cparams)
    items = array[...]
    check(blosc2.permute_dims(array), np.ascontiguousarray(items.T))
    check(blosc2.stack([array, array]), np.stack([items, items]))
    check(blosc2.concat([array, array]), np.concatenate([items, items]))
    check(array.take([5, 1], axis=2), items.take([5, 1], 2))


def test_parameters_are_taken_over_unless_given() -> None:
    cparams = {"codec": Codec.LZ4, "clevel": 2, "filters": [Filter.BITSHUFFLE]}
    array = blosc2.asarray(np.arange(600).reshape(20, 30), chunks=(10, 6), blocks=(5, 3), cparams=cparams)
    turned = array.T
    assert (turned.chunks, turned.blocks) == ((6, 10), (3, 5))
    for got in (turned, array.slice(slice(3, 9)), array.reshape(600), array.take([1]), blosc2.astype(array, "f8")):
        assert (got.cparams.codec, got.cparams.clevel) == (Codec.LZ4, 2)
        assert got.cparams.filters == array.cparams.filters
    assert blosc2.permute_dims(array, cparams={"clevel": 7}).cparams.clevel == 7


def test_large_results_need_little_memory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 MB of items, in slabs of 1 MB: what Python and NumPy allocate stays far below."""
    monkeypatch.setattr(slabs, "SLAB_NBYTES", 1 << 20)
    array = blosc2.arange(4 << 20, shape=(256, 128, 128), chunks=(32, 32, 32), urlpath=path, mode="w")
    items = array[...]
    target = {"urlpath": path + "2", "mode": "w"}
    tracemalloc.start()
    try:
        for make, want in [
            (lambda: blosc2.permute_dims(array, (2, 0, 1), **target), lambda: items.transpose(2, 0, 1)),
            (lambda: blosc2.reshape(array, (1 << 11, 1 << 11), **target), lambda: items.reshape(1 << 11, 1 << 11)),
            (lambda: blosc2.concat([array, array], axis=2, **target), lambda: np.concatenate([items, items], 2)),
            (lambda: blosc2.stack([array, array], chunks=(2, 16, 64, 64), **target), lambda: np.stack([items, items])),
            (lambda: blosc2.astype(array, "f4", **target), lambda: items.astype("f4")),
            (lambda: array.slice((slice(None), slice(None, None, -1)), **target), lambda: items[:, ::-1]),
        ]:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            got = make()
            assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
            assert np.array_equal(got[...], want())
    finally:
        tracemalloc.stop()


def test_a_result_can_replace_the_file_that_it_is_made_of(path: str) -> None:
    items = np.arange(6.0).reshape(2, 3)
    array = blosc2.asarray(items, urlpath=path, mode="w")
    check(blosc2.permute_dims(array, urlpath=path, mode="w"), np.ascontiguousarray(items.T), {"urlpath": path})


def test_nothing_is_replaced_by_what_fails(path: str) -> None:
    blosc2.asarray(np.arange(3), urlpath=path, mode="w")
    before = Path(path).read_bytes()
    array = blosc2.zeros((2, 3))
    for make in (
        lambda **more: blosc2.permute_dims(array, **more), lambda **more: blosc2.reshape(array, 6, **more),
        lambda **more: blosc2.concat([array], **more), lambda **more: blosc2.stack([array], **more),
        lambda **more: blosc2.astype(array, "f4", **more), lambda **more: array.slice(0, **more),
    ):  # fmt: skip
        with pytest.raises(RuntimeError):
            make(urlpath=path)
        with pytest.raises(KeyError, match="Only"):
            make(urlpth=path)
        with pytest.raises(ValueError, match="already exist"):
            make(urlpath=path, mode="r")
    assert Path(path).read_bytes() == before
    damaged = bytearray(blosc2.asarray(np.arange(10000.0) ** 0.5, chunks=(1000,)).to_cframe())
    damaged[len(damaged) // 2 :][:400] = bytes(400)
    middle = len(damaged) // 2
    damaged[middle : middle + 400] = bytes(400)
    broken = blosc2.ndarray_from_cframe(bytes(damaged))
    with pytest.raises(RuntimeError):
        blosc2.reshape(broken, (100, 100), urlpath=path, mode="w")
    assert Path(path).read_bytes() == before
    assert [entry.name for entry in Path(path).parent.iterdir() if entry.name.endswith(".tmp")] == []


# --------------------------------------------------------------------- what is refused


def test_what_cannot_be_made() -> None:
    array = blosc2.asarray(np.arange(12).reshape(3, 4))
    for axes in [(0, 0), (0,), (0, 1, 2), (0, 2), (-3, 1)]:
        with pytest.raises(ValueError, match="not a valid permutation"):
            blosc2.permute_dims(array, axes)
    for shape in [(), (3,), (1, 2, 3), (30, 40), (10,)]:
        other = blosc2.zeros(shape)
        if len(shape) != 2:
            with pytest.raises(ValueError, match="only works for 2-dimensional"):
                _ = other.T
        if len(shape) < 2:
            with pytest.raises(ValueError, match="last two axes"):
                _ = other.mT
    with pytest.raises(ValueError, match="total size of new array must be unchanged"):
        array.reshape((5, 2))
    for bad in [(5, -1), (-1, -1), (0, -1)]:
        with pytest.raises(ValueError, match="total size of new array must be unchanged"):
            array.reshape(bad)
    with pytest.raises(ValueError, match="negative"):
        array.reshape((-2, -6))
    with pytest.raises(ValueError, match="need at least one array"):
        blosc2.concat([])
    with pytest.raises(ValueError, match="need at least one array"):
        blosc2.stack([])
    with pytest.raises(ValueError, match="zero-dimensional"):
        blosc2.concat([blosc2.asarray(1)])
    with pytest.raises(ValueError, match="must match exactly"):
        blosc2.concat([array, blosc2.zeros((3, 5))])
    with pytest.raises(ValueError, match="must match exactly"):
        blosc2.concat([array, blosc2.zeros(3)])
    with pytest.raises(ValueError, match="same shape"):
        blosc2.stack([array, blosc2.zeros((4, 3))])
    for function in (blosc2.concat, blosc2.stack):
        with pytest.raises(ValueError, match="out of bounds") as caught:
            function([array, array], axis=3)
        assert isinstance(caught.value, IndexError)


def test_what_cannot_be_taken() -> None:
    array = blosc2.asarray(np.arange(12).reshape(3, 4))
    for bad in ([1.5], [True, False], ["a"], np.zeros(0, "f4")):
        with pytest.raises(TypeError, match="integer"):
            array.take(bad, axis=0)
    for axis in (2, -3):
        with pytest.raises(ValueError, match="axis"):
            array.take([0], axis=axis)
    for axis in (1.0, True, "0"):
        with pytest.raises(TypeError, match="integer"):
            array.take([0], axis=axis)  # type: ignore[arg-type]
    for index, axis in [(3, 0), (-4, 0), (4, 1), (12, None), (-13, None), (np.uint64(2**63), None)]:
        with pytest.raises(IndexError, match="bounds"):
            array.take([index], axis=axis)
    with pytest.raises(IndexError, match="bounds"):
        blosc2.zeros((0, 3)).take([0])
    check(blosc2.zeros((0, 3)).take([], axis=0), np.zeros((0, 3)))
    check(blosc2.asarray(7).take([[0, -1]]), np.array([[7, 7]]))
    check(array.take(blosc2.asarray([1, 2])), np.array([1, 2]))


def test_transpose_says_what_to_use_instead() -> None:
    items = np.arange(12.0).reshape(3, 4)
    with pytest.warns(DeprecationWarning, match=r"^transpose is deprecated"):
        check(blosc2.transpose(blosc2.asarray(items)), np.ascontiguousarray(items.T))
    with pytest.warns(DeprecationWarning, match="permute_dims"), pytest.raises(ValueError, match="permute_dims"):
        blosc2.transpose(blosc2.zeros((2, 2, 2)))


def test_array_likes_are_taken_everywhere() -> None:
    items = np.arange(12).reshape(3, 4)
    check(blosc2.permute_dims(items), np.ascontiguousarray(items.T))
    check(blosc2.permute_dims(5), np.array(5))
    check(blosc2.reshape(items.tolist(), 12), items.reshape(12))
    check(blosc2.take(items, [1], 1), items[:, 1:2])
    check(blosc2.astype([1, 2], "f4"), np.array([1, 2], "f4"))
    check(blosc2.matrix_transpose(items), np.ascontiguousarray(items.T))
    assert_same(blosc2.expand_dims(items, 1)[...], items[:, None])
    assert_same(blosc2.squeeze(items[:1])[...], items[0])


OPAQUE = sorted((Path(__file__).parents[1] / "data").rglob("kind_*.b2nd"))


@pytest.mark.parametrize("file", OPAQUE, ids=lambda file: file.stem)
def test_nothing_is_made_of_opaque_arrays(file: Path) -> None:
    found = blosc2.open(str(file))
    if not isinstance(found, OpaqueArray):
        pytest.skip("a super-chunk")
    for make in (
        blosc2.permute_dims, blosc2.expand_dims, blosc2.squeeze, lambda array: blosc2.take(array, [0]),
        lambda array: blosc2.astype(array, "f4"), lambda array: blosc2.reshape(array, array.shape),
        lambda array: blosc2.concat([array]), lambda array: blosc2.stack([array]), lambda array: array.T,
        lambda array: array.mT, lambda array: array.take([0]), lambda array: array.squeeze(),
        lambda array: array.reshape(array.shape), lambda array: array.slice(0),
    ):  # fmt: skip
        with pytest.raises(UnsupportedKindError):
            make(found)


# --------------------------------------------------------------------- views


def with_axes_of_one(draw: Any, case: cases.Case) -> tuple[np.ndarray[Any, Any], blosc2.NDArray, dict[str, Any]]:
    """An array with axes of length 1 put in, in chunks of one item there."""
    many = draw(st.integers(0, 3))
    places = sorted(draw(st.lists(st.integers(0, case.items.ndim), min_size=many, max_size=many)), reverse=True)
    items, more = case.items, dict(case.keywords)
    for place in places:
        items = np.expand_dims(items, place)
        for name in ("chunks", "blocks"):
            if name in more:
                more[name] = (*more[name][:place], 1, *more[name][place:])
    return items, blosc2.asarray(items, **more), more


@settings(max_examples=300, deadline=None)
@given(case=cases.cases(most_items=600), data=st.data())
def test_views_read_and_write_the_array_below(case: cases.Case, data: st.DataObject, path: str) -> None:
    items, array, more = with_axes_of_one(data.draw, case)
    if data.draw(st.booleans()):
        array = blosc2.asarray(items, urlpath=path, mode="w", **more)
    below, view, seen = items.copy(), array, items
    # A view of a view, and so on: `seen` is NumPy's, of a copy that is written into beside it.
    seen = below
    for _ in range(data.draw(st.integers(1, 4))):
        ones = [n for n, length in enumerate(view.shape) if length == 1 and view.chunks[n] <= 1]
        if ones and data.draw(st.booleans()):
            axes = tuple(data.draw(st.sets(st.sampled_from(ones))))
            view, seen = blosc2.squeeze(view, axes), np.squeeze(seen, axes)
        elif view.ndim < 12:
            new = data.draw(st.integers(1, 2))
            axes = tuple(data.draw(st.permutations(range(-view.ndim - new, 0)))[:new])
            view, seen = blosc2.expand_dims(view, axes), np.expand_dims(seen, axes)
        assert_same(view[...], np.ascontiguousarray(seen).reshape(seen.shape))
    assert np.shares_memory(seen, below) or below.size == 0
    assert view.dtype == array.dtype
    assert view.schunk.nchunks == array.schunk.nchunks
    rng = case.rng()
    for _ in range(3):
        key = basic_key(rng, view.shape)
        assert_same(view[key], np.ascontiguousarray(cases.pick(seen, key)).reshape(cases.pick(seen, key).shape))
        value = cases.values(rng, items.dtype, cases.pick(seen, key).shape)
        view[key] = value
        seen[key] = value
        assert_same(array[...], below)
        key = basic_key(rng, array.shape)
        value = cases.values(rng, items.dtype, cases.pick(below, key).shape)
        array[key] = value
        below[key] = value
        assert_same(view[...], np.ascontiguousarray(seen).reshape(seen.shape))
    if array.urlpath is not None:
        assert_same(blosc2.open(path)[...], below)
    want = np.ascontiguousarray(seen).reshape(seen.shape)
    assert_same(view.copy()[...], want)
    assert_same(blosc2.from_cframe(view.to_cframe())[...], want)
    assert_same(blosc2.take(view, [0] if view.size else []).__array__(), seen.reshape(-1)[: min(view.size, 1)])


@pytest.mark.parametrize("in_file", [False, True])
def test_a_view_has_all_that_an_array_has(in_file: bool, path: str, tmp_path: Path) -> None:
    where = {"urlpath": path, "mode": "w"} if in_file else {}
    items = np.arange(60.0).reshape(3, 1, 20)
    array = blosc2.asarray(items, chunks=(2, 1, 8), blocks=(1, 1, 4), meta={"m": 5}, **where)
    array.vlmeta["v"] = [1, 2]
    view = array.squeeze(1)
    assert isinstance(view, NDArray)
    assert (view.shape, view.chunks, view.blocks, view.ndim) == ((3, 20), (2, 8), (1, 4), 2)
    assert (view.nbytes, view.cbytes, view.urlpath, view.mode) == (480, array.cbytes, array.urlpath, array.mode)
    assert (view.meta["m"], view.vlmeta[:]) == (5, {"v": [1, 2]})
    assert "(3, 20)" in repr(view)
    assert "(3, 20)" in repr(view.info)
    view.vlmeta["w"] = 3
    assert array.vlmeta["w"] == 3
    assert view.schunk.to_cframe() == view.to_cframe()
    assert [info.coords for info in view.iterchunks_info()] == [(i, j) for i in range(2) for j in range(3)]
    assert view.get_chunk(3) == array.get_chunk(3)
    for found in (view.copy(), blosc2.from_cframe(view.to_cframe()), view.copy(chunks=(3, 5)), view.copy("f4"),
                  blosc2.asarray(view, copy=True), view.copy(cparams={"codec": Codec.LZ4})):  # fmt: skip
        assert found.shape == (3, 20)
        assert found.urlpath is None
        np.testing.assert_array_equal(found[...], items[:, 0])
        assert (found.meta["m"], found.vlmeta[:]) == (5, {"v": [1, 2], "w": 3})
        assert found.meta["b2nd"][2] == [3, 20]
    same = view.copy()
    assert [same.get_chunk(n) for n in range(6)] == [array.get_chunk(n) for n in range(6)]
    assert (same.chunks, same.blocks, same.cparams) == (view.chunks, view.blocks, array.cparams)
    view.save(tmp_path / "view.b2nd")
    blosc2.save(view, tmp_path / "view2.b2nd")
    with blosc2.TreeStore(str(tmp_path / "store.b2z"), mode="w") as store:
        store["/view"] = view
    with blosc2.TreeStore(str(tmp_path / "store.b2z"), mode="r") as store:
        stored = store["/view"]
    for found in (blosc2.open(tmp_path / "view.b2nd"), blosc2.open(tmp_path / "view2.b2nd"), stored):
        np.testing.assert_array_equal(found[...], items[:, 0])
        assert (found.meta["m"], found.vlmeta["w"]) == (5, 3)
    found[...]  # copies are no views: what follows is not seen by them
    view[0] = -1
    assert array[0, 0, 0] == -1
    np.testing.assert_array_equal(same[...], items[:, 0])


@pytest.mark.parametrize("in_file", [False, True])
def test_a_view_travels_with_its_array(in_file: bool, path: str) -> None:
    where = {"urlpath": path, "mode": "w"} if in_file else {}
    array = blosc2.asarray(np.arange(6.0).reshape(2, 1, 3), **where)
    view = array.squeeze(1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))[1], [3, 4, 5])
    assert pickle.loads(pickle.dumps(view.schunk)).nbytes == view.schunk.nbytes
    both = pickle.loads(pickle.dumps((array, view)))
    both[1][0] = 7
    np.testing.assert_array_equal(both[0][:], [[[7, 7, 7]], [[3, 4, 5]]])
    if in_file:
        assert len(pickle.dumps(view)) < 2000
        assert reduce_stored(view)[1][0] is array
    else:
        assert array[0, 0, 0] == 0
        copied = copy.deepcopy(view)
        copied[1] = 9
        assert array[1, 0, 0] == 3


def test_a_view_of_a_leaf_is_stored_with_it(tmp_path: Path) -> None:
    file = str(tmp_path / "store.b2z")
    with blosc2.TreeStore(file, mode="w") as store:
        store["/a"] = np.zeros((2, 1, 3))
    with blosc2.TreeStore(file, mode="a") as store:
        view = store["/a"].squeeze(1)
        view[1] = 4
    with blosc2.TreeStore(file, mode="r") as store:
        array = store["/a"]
        np.testing.assert_array_equal(array[:], [[[0, 0, 0]], [[4, 4, 4]]])
        view = array.squeeze()
        with pytest.raises(ValueError, match="reading mode"):
            view[0] = 1
        with pytest.raises(ValueError, match="reading mode"):
            view.vlmeta["a"] = 1
    np.testing.assert_array_equal(view[1], [4, 4, 4])


def test_a_view_follows_the_shape_of_its_array() -> None:
    array = blosc2.asarray(np.arange(6.0).reshape(2, 1, 3), chunks=(2, 1, 3))
    view, other = array.squeeze(1), blosc2.expand_dims(array, 0)
    array.resize((4, 1, 3))
    assert (view.shape, other.shape) == ((4, 3), (1, 4, 1, 3))
    np.testing.assert_array_equal(view[2:], np.zeros((2, 3)))
    array.resize((4, 2, 3))
    with pytest.raises(ValueError, match="cannot show"):
        view[0]
    with pytest.raises(ValueError, match="cannot show"):
        _ = view.shape
    assert other.shape == (1, 4, 2, 3)
    array.resize((4, 1, 3))
    assert view[0, 1] == 1


def test_a_view_is_not_resized() -> None:
    array = blosc2.asarray(np.arange(6).reshape(6, 1))
    view = array.squeeze(1)
    before = array.to_cframe()
    with pytest.raises(ValueError, match="cannot resize"):
        view.resize(8)
    with pytest.raises(ValueError, match="cannot resize"):
        view.append([1])
    assert array.to_cframe() == before
    assert view.shape == (6,)


def test_axes_that_no_view_can_leave_out() -> None:
    array = blosc2.asarray(np.arange(10).reshape(1, 10), chunks=(4, 5), blocks=(2, 5))
    with pytest.raises(ValueError, match="reshape, which copies"):
        array.squeeze(0)
    check(array.reshape(10), np.arange(10))
    assert_same(blosc2.expand_dims(array, 1)[...], np.arange(10).reshape(1, 1, 10))
    with pytest.raises(ValueError, match="not equal to one"):
        blosc2.squeeze(array, 1)
    for axis in (2, -3):
        with pytest.raises(ValueError, match="out of bounds"):
            blosc2.squeeze(array, axis)
        with pytest.raises(IndexError, match="out of bounds"):
            blosc2.expand_dims(blosc2.zeros(()), axis)
    with pytest.raises(ValueError, match="repeated"):
        blosc2.squeeze(blosc2.zeros((1, 1)), (0, -2))
    with pytest.raises(ValueError, match="repeated"):
        blosc2.expand_dims(array, (0, 0))
    with pytest.raises(ValueError, match="16"):
        blosc2.expand_dims(array, tuple(range(15)))
    assert blosc2.expand_dims(array, tuple(range(14))).ndim == 16
    assert blosc2.zeros((1, 1)).squeeze().shape == ()


@pytest.mark.parametrize(
    ("codec", "meta", "filters"),
    [(Codec.ZFP_RATE, 37, []), (Codec.ZFP_PREC, 20, []), (Codec.NDLZ, 4, []), (Codec.LZ4, 0, [Filter.NDCELL])],
)
def test_views_of_what_depends_on_the_number_of_axes(codec: Codec, meta: int, filters: list[Filter]) -> None:
    """Such chunks mean something else under another number of axes: copies of a view are compressed anew."""
    dtype = "u1" if codec is Codec.NDLZ else "f4"
    items = (np.random.default_rng(3).random((32, 32)) * 99).astype(dtype)
    cparams = {"codec": codec, "codec_meta": meta, "filters": filters, "filters_meta": [4] * len(filters)}
    array = blosc2.asarray(items, chunks=(16, 32), blocks=(8, 16), cparams=cparams)
    read = array[...]
    view = blosc2.expand_dims(array, (0, 2))
    np.testing.assert_array_equal(view[0, :, 0], read)
    view[0, 3:9] = 5
    read = array[...]
    np.testing.assert_array_equal(view[0, :, 0], read)
    np.testing.assert_allclose(read[3:9], 5, rtol=0.05)
    for found in (view.copy(), blosc2.from_cframe(view.to_cframe())):
        np.testing.assert_array_equal(found[0, :, 0], read)


def test_views_hold_their_array_and_nothing_else() -> None:
    array = blosc2.asarray(np.arange(4))
    alone = sys.getrefcount(array)
    view = blosc2.expand_dims(array, 0)
    assert sys.getrefcount(array) == alone + 1
    second = blosc2.expand_dims(view, 0)
    assert sys.getrefcount(array) == alone + 2
    del view
    gone = weakref.ref(array)
    gc.disable()
    try:
        del array
        assert_same(second[...], np.arange(4).reshape(1, 1, 4))
        assert gone() is not None
        del second
        assert gone() is None
    finally:
        gc.enable()


def test_parameters_of_a_view_are_its_own() -> None:
    array = blosc2.asarray(np.zeros((1, 100)), chunks=(1, 100), cparams={"codec": Codec.ZSTD})
    view = array.squeeze(0)
    view.cparams = {"codec": Codec.LZ4}
    view.dparams = {"nthreads": 1}
    assert array.cparams.codec is Codec.ZSTD
    view[...] = np.arange(100.0)
    assert array.get_chunk(0)[2] >> 5 == 1
    np.testing.assert_array_equal(array[0], np.arange(100.0))


# --------------------------------------------------------------------- chunks of a key


@settings(max_examples=200, deadline=None)
@given(case=cases.cases())
def test_chunks_of_a_key_are_those_that_hold_its_items(case: cases.Case) -> None:
    array = cases.write(case)
    key = basic_key(case.rng(), array.shape)
    steps = [part.step for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, slice)]
    if any(step != 1 for step in steps):
        with pytest.raises(IndexError, match="step"):
            blosc2.get_slice_nchunks(array, key)
        return
    number = np.zeros(array.shape, np.int64)
    grid = [math.ceil(length / max(chunk, 1)) for length, chunk in zip(array.shape, array.chunks, strict=True)]
    if array.ndim and array.size:
        number[...] = np.ravel_multi_index(
            tuple(index // chunk for index, chunk in zip(np.indices(array.shape), array.chunks, strict=True)), grid
        )
    got = blosc2.get_slice_nchunks(array, key)
    assert got.dtype == np.int64
    assert got.tolist() == np.unique(number[key]).tolist()


@pytest.mark.parametrize("typesize", [1, 4])
def test_chunks_of_a_slice_of_a_super_chunk(typesize: int) -> None:
    data = np.arange(100, dtype=f"u{typesize}")
    schunk = blosc2.SChunk(chunksize=16 * typesize, data=data, cparams={"typesize": typesize})
    number = np.arange(100) // 16
    for key in (slice(5, 25), slice(None), slice(-5, None), slice(16, 32), slice(90, 500), slice(7, 7), slice(25, 5)):
        assert blosc2.get_slice_nchunks(schunk, key).tolist() == np.unique(number[key]).tolist()
        start, stop, _ = key.indices(100)
        assert blosc2.get_slice_nchunks(schunk, (start, stop)).tolist() == np.unique(number[key]).tolist()
    assert blosc2.get_slice_nchunks(schunk, -1).tolist() == [6]
    schunk.insert_data(1, data[:3])
    assert blosc2.get_slice_nchunks(schunk, slice(16, 19)).tolist() == [1]
    assert blosc2.get_slice_nchunks(schunk, slice(18, 20)).tolist() == [1, 2]
    assert blosc2.get_slice_nchunks(blosc2.SChunk(), slice(None)).tolist() == []


def test_chunks_of_what_is_no_such_key() -> None:
    array = blosc2.zeros((4, 4), chunks=(2, 2))
    for key in (slice(0, 4, 2), slice(None, None, -1), 4, [0, 1], np.array([True] * 4), "name", (0, 0, 0), 1.5):
        with pytest.raises(IndexError):
            blosc2.get_slice_nchunks(array, key)
    schunk = blosc2.SChunk(chunksize=8, data=bytes(20))
    for bad in (slice(0, 4, 2), 20, -21, "name", (1, 2, 3), 1.5):
        with pytest.raises(IndexError):
            blosc2.get_slice_nchunks(schunk, bad)
    with pytest.raises(TypeError, match="ndarray"):
        blosc2.get_slice_nchunks(np.zeros(3), 0)


# --------------------------------------------------------------------- slabs


@settings(max_examples=200, deadline=None)
@given(case=cases.cases(), limit=st.integers(1, 20000))
def test_bands_hold_every_chunk_once_and_in_order(case: cases.Case, limit: int) -> None:
    array = cases.write(case)
    geometry = array._geometry
    seen = np.zeros(array.shape, np.int64)
    number = 0
    for slab in slabs.slabs_in(geometry, limit):
        assert slab.first == number < slab.stop
        assert slab.stop - slab.first == 1 or (slab.stop - slab.first) * geometry.chunk_nbytes <= limit
        place = tuple(slice(start, start + count) for start, count in zip(slab.starts, slab.counts, strict=True))
        assert blosc2.get_slice_nchunks(array, place).tolist() == list(range(slab.first, slab.stop))
        seen[place] += 1
        number = slab.stop
    assert number == (geometry.nchunks if array.size else 0)
    assert (seen == 1).all()


@pytest.mark.parametrize(
    ("shape", "of_indices", "axis"),
    [
        ((7, 8, 9), (7, 3, 9), 1), ((7, 8, 9), (1, 3, 9), 1), ((7, 8, 9), (1, 3, 1), -2), ((1, 8, 9), (5, 3, 9), 1),
        ((7, 8, 9), (7, 8, 12), -1), ((7, 8, 9), (20,), None), ((7, 8, 9), (7, 0, 9), 1), ((0, 8), (0, 3), 1),
        ((5,), (9,), 0), ((3, 1), (3, 4), 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_take_along_axis(
    shape: tuple[int, ...], of_indices: tuple[int, ...], axis: int | None, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, "SLAB_NBYTES", limit)
    rng = np.random.default_rng(5)
    items = rng.integers(0, 1000, shape)
    array = blosc2.asarray(items, chunks=tuple(min(4, n) for n in shape), blocks=tuple(min(3, n) for n in shape))
    length = math.prod(shape) if axis is None else shape[axis]
    indices = rng.integers(-length, length, of_indices)
    found = blosc2.take_along_axis(array, indices, axis=axis)
    assert_same(found[()], np.take_along_axis(items, indices, axis=axis))
    assert_same(blosc2.take_along_axis(items, blosc2.asarray(indices), axis)[()], found[()])


def test_take_along_axis_refuses() -> None:
    array = blosc2.zeros((3, 4))
    for indices, axis, kind, text in (
        ([[4]], 1, IndexError, "out of bounds"), ([[-5]], 1, IndexError, "out of bounds"),
        ([0], 1, ValueError, "as many"), ([[0.5]], 1, TypeError, "integers"), ([[0]], 2, ValueError, "axis 2"),
        ([[0]], None, ValueError, "one axis"), ([[0], [0]], 1, ValueError, "broadcast"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            blosc2.take_along_axis(array, indices, axis)  # type: ignore[arg-type]


@pytest.mark.parametrize("keywords", [{"chunks": (1000, 1000)}, {"dtype": "f4"}, {"cparams": {"clevel": 1}}])
def test_copies_do_not_need_all_items_at_once(
    keywords: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, "SLAB_NBYTES", 1 << 20)
    array = blosc2.zeros((4000, 1000), chunks=(100, 1000), blocks=(10, 1000), meta={"unit": "mm"})
    array[3999] = 5
    array.vlmeta["note"] = "kept"
    tracemalloc.start()
    try:
        made = blosc2.asarray(array, urlpath=tmp_path / "copy.b2nd", **keywords)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20  # of 32 MB
    assert (made.meta["unit"], made.vlmeta["note"]) == ("mm", "kept")
    assert_same(made[3990:], array[3990:].astype(made.dtype))
