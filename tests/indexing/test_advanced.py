"""Keys with arrays give, and change, what they do in NumPy; what NumPy refuses is refused likewise."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import blosc2
from blosc2._core.ndim.grid_read import Read
from blosc2._indexing import read_items as picking

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9) | hnp.array_shapes(
    min_dims=5, max_dims=8, min_side=1, max_side=3
)
KINDS = ["slice", "int", "0d", "none", "...", "mask", "mask2", "bool", "array", "array", "list"]
DTYPES = st.sampled_from(["i2", ">i4", "f8", "S3", "c16"])


@st.composite
def parts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Chunks and blocks that need not divide the shape, and how densely points must lie to be read as a box."""
    chunks = tuple(draw(st.integers(1, max(n, 1))) for n in shape)
    blocks = tuple(draw(st.integers(1, n)) for n in chunks)
    how: dict[str, Any] = {"cparams": {"clevel": draw(st.sampled_from([0, 1]))}}
    if 0 not in shape:
        how |= {"chunks": chunks, "blocks": blocks}
    return how, {
        "_BYTES_PER_POINT": draw(st.sampled_from([0, 512])),
        "_MOST_BOX_BYTES": draw(st.sampled_from([0, 2**30])),
        "_PIECE_BYTES": draw(st.sampled_from([0, 4 << 20])),
    }


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Keys of all kinds, mixed; a few do not fit the shape."""
    points = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    key: list[Any] = []
    axis, ellipsis = 0, False
    while axis < len(shape) and draw(st.integers(0, 9)):
        n = shape[axis]
        low, high = (-n, n - 1) if n else (0, 0)
        number = st.integers(low, high + (draw(st.integers(0, 30)) == 0))
        kind = draw(st.sampled_from(KINDS))
        if kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2]))))
        elif kind == "int":
            key.append(draw(number))
        elif kind == "0d":
            key.append(np.array(draw(number)))
        elif kind == "none":
            key.append(None)
            continue
        elif kind == "bool":
            key.append(draw(st.sampled_from([True, False, np.True_, np.array(False)])))
            continue
        elif kind == "...":
            if not ellipsis:
                key.append(...)
                axis += draw(st.integers(0, len(shape) - axis))
            ellipsis = True
            continue
        elif kind == "mask2" and axis + 1 < len(shape):
            key.append(draw(hnp.arrays(bool, shape[axis : axis + 2])))
            axis += 1
        elif kind.startswith("mask"):
            key.append(draw(hnp.arrays(bool, n)))
        else:
            array = draw(hnp.arrays("i8", draw(st.sampled_from([points, points[-1:], ()])), elements=number))
            key.append(array.tolist() if kind == "list" and array.ndim else array)
        axis += 1
    return key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


@settings(max_examples=600)
@given(st.data())
def test_as_numpy(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    dtype = np.dtype(data.draw(DTYPES))
    items = np.random.default_rng(1).integers(0, 1000, shape).astype(dtype)
    if data.draw(st.integers(0, 9)) == 0:
        items[...] = items.flat[0] if items.size else 0
    how, limits = data.draw(parts(shape))
    key = data.draw(keys(shape))
    array = blosc2.asarray(items, **how)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(picking, name, value)
        try:
            expected = np.asarray(items[key], dtype)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                array[key]
            with pytest.raises(type(error)):
                array[key] = items.flat[0] if items.size else 0
            np.testing.assert_array_equal(array[...], items)
            return
        got = array[key]
        np.testing.assert_array_equal(got, expected, strict=True)
        assert got.flags.c_contiguous
        assert got.flags.writeable
        out = np.zeros((*expected.shape, 2), dtype)[..., 1]
        assert array.read(key, out=out) is out
        np.testing.assert_array_equal(out, expected)
        value = np.random.default_rng(2).integers(0, 99, expected.shape).astype(dtype)
        if data.draw(st.booleans()):
            value = value[..., :1] if value.ndim else value
        changed = items.copy()
        changed[key] = value
        array[key] = value
        np.testing.assert_array_equal(array[...], changed)


@settings(max_examples=300)
@given(st.data())
def test_oindex_as_numpy(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=9))
    items = np.random.default_rng(1).integers(0, 1000, shape)
    how, limits = data.draw(parts(shape))
    key = []
    for n in shape:
        number = st.integers(-n, n - 1)
        key.append(data.draw(st.one_of(
            st.lists(number, max_size=6), hnp.arrays("i4", 3, elements=number), hnp.arrays(bool, n), number,
            st.builds(slice, number, number, st.sampled_from([None, 2, -1])),
        )))  # fmt: skip
    picked = [np.arange(n)[np.asarray(k, int) if isinstance(k, list) else k] for n, k in zip(shape, key, strict=True)]
    index = np.ix_(*[np.atleast_1d(p) for p in picked])
    result_shape = tuple(len(p) for p in picked if p.ndim)
    array = blosc2.asarray(items, **how)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(picking, name, value)
        got = array.oindex[tuple(key)]
        np.testing.assert_array_equal(got, items[index].reshape(result_shape), strict=True)
        new = np.random.default_rng(2).integers(0, 99, result_shape)
        changed = items.copy()
        changed[index] = new.reshape(items[index].shape)
        array.oindex[tuple(key)] = new
        np.testing.assert_array_equal(array[...], changed)


@pytest.mark.parametrize("mmap_mode", ["r", None])
@pytest.mark.parametrize(
    "cparams",
    [{"clevel": 0}, {"clevel": 5}, {"use_dict": True}, {"filters": [blosc2.Filter.DELTA]},
     {"codec": blosc2.Codec.NDLZ, "codec_meta": 4, "filters": []}],
    ids=["raw", "zstd", "dictionary", "delta", "ndlz"],
)  # fmt: skip
def test_every_kind_of_chunk(mmap_mode: str | None, cparams: dict[str, Any], tmp_path: Path) -> None:
    items = np.random.default_rng(0).integers(0, 50, (96, 80)).astype("u1")
    items[:32] = 0  # and one that is all zeros
    items[32:64, :40] = 7
    path = tmp_path / "a.b2nd"
    blosc2.asarray(items, chunks=(32, 40), blocks=(8, 8), cparams=cparams, urlpath=path)
    array = blosc2.open(path, mmap_mode=mmap_mode)
    rows, columns = np.random.default_rng(1).integers(0, 80, (2, 30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picking, "_BYTES_PER_POINT", 0)
        for key in ((rows, columns), rows, (slice(None), columns), items > 48, [0, -1, 5]):
            np.testing.assert_array_equal(array[key], items[key])
        if mmap_mode is None:
            changed = blosc2.open(path, mode="a")
            changed[rows, columns] = np.arange(30)
            items[rows, columns] = np.arange(30)
            np.testing.assert_array_equal(blosc2.open(path)[...], items)


def test_only_touched_blocks_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    items = np.random.default_rng(0).integers(0, 16, (64, 4096)).astype("u1")
    array = blosc2.asarray(items, chunks=(8, 4096), blocks=(1, 4096), urlpath=path)
    frame = array._handle.frame
    damaged = bytearray(path.read_bytes())
    start = frame.chunk_info(3)[0]
    assert start is not None
    damaged[start + 32 + 4 * 8 + 2000 : start + frame.chunk_info(3)[2]] = b"\x7f" * (
        frame.chunk_info(3)[2] - 32 - 4 * 8 - 2000)  # fmt: skip
    path.write_bytes(damaged)
    array = blosc2.open(path, mmap_mode="r")
    np.testing.assert_array_equal(array[[0, 16, 32, 63]], items[[0, 16, 32, 63]])
    with pytest.raises(blosc2.FormatError, match="chunk 3"):
        array[[0, 30]]


def test_one_key_of_two_versions_is_not_mixed() -> None:
    array = blosc2.zeros(1000, dtype="i4", chunks=10, blocks=5)
    array[[3, 3, 3]] = [1, 2, 3]
    assert array[3] == 3  # the last value counts
    array[np.array([5, 5])] += 1
    assert array[5] == 1


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("key", [True, (True, ...), (None, True), (True, True), False])
def test_a_boolean_alone_assigns_as_in_numpy(shape: tuple[int, ...], key: Any) -> None:
    items = np.zeros(shape)
    array = blosc2.asarray(items)
    for value in (7, [8]):
        items[key] = value
        array[key] = value
        np.testing.assert_array_equal(array[...], items)


@pytest.mark.parametrize("stride", [1, 2])
def test_index_arrays_that_another_thread_changes(stride: int) -> None:
    """What was checked is what is used: an error or right items, and never memory outside."""
    array = blosc2.asarray(np.arange(1_000_000), chunks=(100_000,), blocks=(10_000,))
    good = np.arange(0, 1_000_000, 40)
    index = np.repeat(good, stride)[::stride]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            index[:] = 1 << 40
            index[:] = good
            time.sleep(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(picking, "_BYTES_PER_POINT", 0)
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                try:
                    np.testing.assert_array_equal(array[index], good)
                    array[index] = good
                except (IndexError, ValueError):
                    pass
    finally:
        stop.set()
        thread.join()
    np.testing.assert_array_equal(array[...], np.arange(1_000_000))


@pytest.mark.parametrize("key", [(slice(None), slice(0, 200)), (np.arange(0, 400, 49), 5), slice(None, None, 2)])
def test_what_cannot_be_read_fails_an_assignment_as_it_does_a_read(key: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    items = np.random.default_rng(0).integers(0, 9, (400, 300))
    frame = blosc2.asarray(items, chunks=(50, 300), blocks=(10, 300), urlpath=path)._handle.frame
    start, _, nbytes = frame.chunk_info(5)[:3]
    assert start is not None
    damaged = bytearray(path.read_bytes())
    # The streams of its blocks, which only their codec can tell to be damaged.
    first = min(int.from_bytes(damaged[start + 32 + 4 * n : start + 36 + 4 * n], "little") for n in range(5))
    damaged[start + first + 4 : start + nbytes] = b"\xff" * (nbytes - first - 4)
    path.write_bytes(damaged)
    array = blosc2.open(path, mode="a")
    with pytest.raises(blosc2.FormatError, match="chunk 5"):
        array[250:300]
    with pytest.raises(blosc2.FormatError, match="chunk 5"):
        array[key] = 7
    assert path.read_bytes() == damaged
    np.testing.assert_array_equal(array[:250], items[:250])


def test_out_that_does_not_fit() -> None:
    array = blosc2.arange(12).reshape((3, 4))
    readonly = np.zeros((3, 4), array.dtype)
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="shape"):
        array.read(out=np.zeros((4, 3), array.dtype))
    with pytest.raises(ValueError, match="dtype"):
        array.read(out=np.zeros((3, 4), "f4"))
    with pytest.raises(ValueError, match="read-only"):
        array.read(out=readonly)
    with pytest.raises(TypeError, match="NumPy array"):
        array.read(out=bytearray(96))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        array.read([0, 1], out=np.zeros((3, 4), array.dtype))
    for key in (..., slice(None), [0, 1, 2], array[...] >= 0, (slice(None, None, -1), [0, 1, 2, 3])):
        whole = np.asarray(array[key])
        out = np.empty_like(whole)
        assert array.read(key, out) is out
        np.testing.assert_array_equal(out, whole)


@pytest.mark.parametrize(
    ("key", "match"),
    [([0, 3], "out of bounds for axis 0 with size 3"), (([0], [-5]), "out of bounds for axis 1"),
     (np.zeros((2, 4), bool), "boolean index did not match"), (([0, 1], [0, 1, 2]), "could not be broadcast"),
     (([0], [0], [0]), "too many indices"), (([0], ..., ...), "single ellipsis"), (np.zeros(3), "integer"),
     ([0.5], "integer"), ({1}, "only integers"), (([0], "a"), "only integers"), ([slice(0, 1)], "integer"),
     (([1], None, 1.0), "only integers")],
)  # fmt: skip
def test_keys_that_numpy_refuses(key: Any, match: str) -> None:
    array = blosc2.arange(12).reshape((3, 4))
    with pytest.raises((IndexError, ValueError), match=match):
        array[key]
    with pytest.raises((IndexError, ValueError), match=match):
        array[key] = 1
    np.testing.assert_array_equal(array[...], np.arange(12).reshape(3, 4))


def test_points_that_do_not_fit_are_refused_before_anything_is_touched() -> None:
    array = blosc2.arange(100, chunks=(10,), blocks=(5,))
    geometry, dtype, frame = array._handle.array  # type: ignore[misc]

    def points(**changes: Any) -> Any:
        good = {"axes": (0,), "indices": (np.array([1, 2, 55]),), "offsets": np.array([0, 8, 16]),
                "groups": np.array([0, 2, 3]), "strides": (0,)}  # fmt: skip
        return SimpleNamespace(**{**good, **changes})

    out = np.zeros(3, dtype)
    operation = Read(frame, geometry, (0,), (1,), (1,), out, points())
    operation.run()
    assert out.tolist() == [1, 2, 55]
    for changes in (
        {"indices": (np.array([1, 2, 100]),)}, {"indices": (np.array([-1, 2, 55]),)}, {"indices": (np.array([1, 2]),)},
        {"offsets": np.array([0, 8, 17])}, {"offsets": np.array([-8, 8, 16])}, {"groups": np.array([0, 3])},
        {"groups": np.array([0, 2, 4])}, {"groups": np.array([1, 3])}, {"groups": np.array([0, 2, 2, 3])},
        {"axes": (1,)}, {"strides": (-8,)},
    ):  # fmt: skip
        with pytest.raises((ValueError, IndexError)):
            Read(frame, geometry, (0,), (1,), (1,), out, points(**changes))


def test_many_points_take_no_time_for_each_chunk() -> None:
    """A minute would mean that chunks are decoded again and again."""
    items = np.arange(1_000_000)
    array = blosc2.asarray(items, chunks=(10_000,), blocks=(1_000,))
    index = np.random.default_rng(0).permutation(items)[:200_000]
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picking, "_BYTES_PER_POINT", 0)
        np.testing.assert_array_equal(array[index], index)
    assert time.monotonic() - begun < 20


def test_fields_into_an_array_that_is_there() -> None:
    items = np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "i4"), ("b", "f8")])
    array = blosc2.asarray(items)
    out = np.zeros(3)
    assert array.read("b", out) is out
    assert out.tolist() == [2.5, 4.5, 6.5]
    pair = np.zeros(2, "i4")
    assert array.fields["a"].read([2, 0], pair) is pair
    assert pair.tolist() == [5, 1]
    assert array["a"].read(slice(1, None)).tolist() == [3, 5]
    with pytest.raises(ValueError, match="dtype"):
        array.read("a", out)


def test_fields_of_fields() -> None:
    items = np.zeros(3, [("at", [("x", "f4"), ("at", "i2")]), ("v", "f8", (2,))])
    items["at"]["x"] = [1, 2, 3]
    array = blosc2.asarray(items)
    for key in ("x", "at", ["x"], ["at", "x"]):
        assert array["at"][key].tolist() == items["at"][key].tolist()
    assert array["at"].read("x", np.zeros(3, "f4")).tolist() == [1, 2, 3]
    array["at"]["at"] = items["at"]["at"] = [7, 8, 9]
    array["at"][["x"]] = np.array([(4,), (5,), (6,)], [("x", "f4")])
    items["at"]["x"] = [4, 5, 6]
    assert array[:].tobytes() == items.tobytes()
    with pytest.raises(ValueError, match="read-only"):  # it is a copy
        array["at"]["x"][1] = 7
    with pytest.raises(KeyError, match="no field 'v'; there are 'x', 'at'"):
        array["at"]["v"]
    with pytest.raises(KeyError, match="no field 'v'; there are 'x', 'at'"):
        array["at"]["v"] = 0
    with pytest.raises(KeyError, match="no field 'x'; there are none"):
        array["v"]["x"]


def test_bytes_between_fields_are_those_of_the_file():
    """Not those that lay in the memory of the result."""
    dtype = np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True)
    raw = np.full(400 * dtype.itemsize, 0x5A, "u1")
    items = raw.view(dtype).reshape(20, 20)
    array = blosc2.asarray(items, chunks=(7, 8), blocks=(3, 4))
    gaps = sorted(set(range(dtype.itemsize)) - {0, *range(8, 18)})

    def between(found):
        return set(np.unique(np.ascontiguousarray(found).view("u1").reshape(-1, dtype.itemsize)[:, gaps]))

    stored = between(array[...])
    for key in ([3, 9], ([1, 2, 19], [5, 6, 7]), ([19, 2], slice(None, None, -3)), items["a"] == 0x5A):
        out = np.full(array[key].size * dtype.itemsize, 0x77, "u1").view(dtype).reshape(array[key].shape)
        assert between(array.read(key, out=out)) == stored
        np.testing.assert_array_equal(out, items[key])
    np.testing.assert_array_equal(array[["a", "c"]], items[["a", "c"]])
