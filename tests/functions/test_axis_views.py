"""Live views of arrays, chunks of a key, and slabs."""

from __future__ import annotations

import copy
import gc
import math
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
from fixture_kit.rearranging import check
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter, NDArray
from blosc2._arrays import slabs
from blosc2._opening.pickles import reduce_stored

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("arrays") / "array.b2nd")


# --------------------------------------------------------------------- views


def with_axes_of_one(draw: Any, case: cases.Case) -> tuple[np.ndarray[Any, Any], blosc2.NDArray, dict[str, Any]]:
    """An array with axes of length 1 put in, in chunks of one item there."""
    many = draw(st.integers(0, 3))
    axes = sorted(draw(st.lists(st.integers(0, case.items.ndim), min_size=many, max_size=many)), reverse=True)
    items, more = case.items, dict(case.keywords)
    for axis in axes:
        items = np.expand_dims(items, axis)
        for name in ("chunks", "blocks"):
            if name in more:
                more[name] = (*more[name][:axis], 1, *more[name][axis:])
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


@pytest.mark.parametrize(("shape", "of_indices", "axis"), [
    ((7, 8, 9), (7, 3, 9), 1), ((7, 8, 9), (1, 3, 9), 1), ((7, 8, 9), (1, 3, 1), -2), ((1, 8, 9), (5, 3, 9), 1),
    ((7, 8, 9), (7, 8, 12), -1), ((7, 8, 9), (20,), None), ((7, 8, 9), (7, 0, 9), 1), ((0, 8), (0, 3), 1),
    ((5,), (9,), 0), ((3, 1), (3, 4), 1),
])  # fmt: skip
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
