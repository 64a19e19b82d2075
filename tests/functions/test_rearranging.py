"""Arrays made of others against NumPy: permuted, reshaped, joined, converted, picked from; and live views."""

from __future__ import annotations

import tracemalloc
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
from blosc2 import Codec, Filter
from blosc2._arrays import slabs
from blosc2._functions.from_frame import OpaqueArray
from blosc2.exceptions import FormatError, UnsupportedKindError

pytestmark = pytest.mark.usefixtures("no_sync")


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


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize(("key", "numbers"), [
    (slice(3, 9), range(3, 9)),
    (slice(6, None), range(6, 12)),  # with the last ones, which are not full
    ((slice(None), slice(4, 8)), range(1, 12, 3)),
    ((slice(3, 6), slice(4, None)), (4, 5)),
    (..., range(12)),
])  # fmt: skip
def test_slices_of_whole_chunks_have_the_stored_bytes(key: Any, numbers: Any, mmap_mode: Any, path: str) -> None:
    items = np.random.default_rng(1).integers(0, 9, (11, 10), dtype="i4")
    items[3:6, 4:8] = 0  # a chunk without bytes of its own
    cparams = {"codec": blosc2.Codec.LZ4, "clevel": 2, "filters": [blosc2.Filter.BITSHUFFLE]}
    made = blosc2.asarray(items, urlpath=path, mode="w", chunks=(3, 4), blocks=(2, 2), cparams=cparams)
    array = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    part = array.slice(key)
    assert np.array_equal(part[:], items[key])
    assert (part.chunks, part.blocks, part.cparams.codec) == (made.chunks, made.blocks, blosc2.Codec.LZ4)
    assert [part.get_chunk(n) for n in range(part.schunk.nchunks)] == [array.get_chunk(n) for n in numbers]
    # Whoever asks for something else gets it.
    other = array.slice(key, cparams={"codec": blosc2.Codec.ZSTD})
    assert np.array_equal(other[:], items[key])
    assert other.cparams.codec == blosc2.Codec.ZSTD
    assert any(other.get_chunk(n) != part.get_chunk(n) for n in range(part.schunk.nchunks))
    assert np.array_equal(array.slice(key, chunks=(2, 2))[:], items[key])
    part[:1] = 5  # the copy alone
    assert np.array_equal(array[:], items)


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
        with pytest.raises(KeyError, match="no keyword 'urlpth'"):
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


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_a_large_array_is_copied_to_memory(tmp_path: Path, mmap_mode: str | None) -> None:
    path = tmp_path / "large.b2nd"
    items = np.random.default_rng(8).integers(0, 256, 10 << 20, dtype=np.uint8)
    blosc2.asarray(items, urlpath=str(path), chunks=(1 << 20,), cparams={"clevel": 0}, meta={"m": 1})
    array = blosc2.open(path, mmap_mode=mmap_mode)
    copy = array.copy()
    assert copy.to_cframe() == array.to_cframe()
    np.testing.assert_array_equal(copy[...], items)
    copy[5] = 7
    assert copy[5] == 7
    assert array[5] == items[5]
    del array, copy
    data = bytearray(path.read_bytes())
    data[6 << 20] ^= 4
    path.write_bytes(data)
    with pytest.raises(FormatError, match="chunk"):
        blosc2.open(path, mmap_mode=mmap_mode).copy()


def test_a_permutation_that_changes_nothing_is_a_copy(path: str) -> None:
    items = np.arange(24.0).reshape(4, 6)
    array = blosc2.asarray(items, chunks=(2, 3), blocks=(1, 3))
    for one, axes in ((array, (0, 1)), (array, (-2, -1)), (array.slice((slice(1, 3),)), (0, 1)), (array[0], (0,))):
        got = blosc2.permute_dims(one, axes)
        before = np.array(one)
        check(got, before)
        got[...] = 0
        np.testing.assert_array_equal(one[...], before)
    check(blosc2.permute_dims(array, (0, 1), urlpath=path, mode="w"), items, {"urlpath": path})
    assert blosc2.permute_dims(array, (0, 1), chunks=(4, 4)).chunks == (4, 4)
    assert blosc2.permute_dims(array, (0, 1), cparams={"clevel": 7}).cparams.clevel == 7
    array.vlmeta["unit"] = "mm"
    for axes in ((0, 1), (1, 0)):
        assert not len(blosc2.permute_dims(array, axes).vlmeta)


def test_one_axis_is_the_array_itself_unless_another_is_asked_for(tmp_path: Path) -> None:
    array = blosc2.arange(5)
    assert blosc2.permute_dims(array) is array
    assert blosc2.permute_dims(array, (0,)) is array
    other = blosc2.permute_dims(array, urlpath=tmp_path / "x.b2nd")
    other[0] = 7
    assert array[:].tolist() == [0, 1, 2, 3, 4]
    assert blosc2.open(tmp_path / "x.b2nd")[:].tolist() == [7, 1, 2, 3, 4]
