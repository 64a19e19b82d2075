"""Reductions, compared with NumPy's of the same items: any shape, chunks, dtype, axes, source and number of threads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_kit import in_memory, running

import blosc2
from blosc2._arrays import reductions

NAMES = ("sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax")
ROUNDED = ("sum", "prod", "mean", "var", "std")
NUMBERS = ("?", "i1", "u1", "<i2", ">i4", "u4", "i8", "u8", "f2", "f4", ">f4", "f8", "c8", "c16")
Items = np.ndarray[Any, Any]


@contextmanager
def small_pieces(nbytes: int = 1, share: int = 1) -> Iterator[None]:
    """Pieces of so many bytes, so that arrays of a test have many, and shares of so many."""
    changed = {"PIECE_NBYTES": nbytes, "SHARE_NBYTES": (share, share)}
    with mock.patch.multiple(reductions, **changed):
        yield


@contextmanager
def watched(method: str, tell: Any) -> Iterator[None]:
    """Tell what a method that finds items is called with."""
    original = getattr(reductions._Source, method)

    def told(self: Any, *given: Any) -> Any:
        tell(*given)
        return original(self, *given)

    with mock.patch.object(reductions._Source, method, told):
        yield


def wide(items: Items) -> Items:
    return items.astype(np.clongdouble if items.dtype.kind == "c" else np.longdouble)


def exact(name: str, items: Items, **given: Any) -> tuple[Items, Any]:
    """A rounded reduction in a wider type, and by how much one in the type of the items may differ from it.

    The bound is the classical one for sums in any order, (n - 1) u sum |x|, and its like: Higham, "Accuracy and
    Stability of Numerical Algorithms", chapters 1 and 4.
    """
    dtype = np.dtype(items.dtype if items.dtype.kind in "fc" else "f8")
    unit = np.finfo(np.float32 if dtype.char == "e" else dtype).eps
    last = np.finfo(dtype).eps
    x = wide(items)
    count = x.size / max(np.sum(x, **given).size, 1)
    found = getattr(np, name)(x, **given)
    with np.errstate(all="ignore"):
        if name in ("sum", "mean"):
            room = unit * (count + 1) * getattr(np, name)(np.abs(x), **given)
        elif name == "prod":
            room = unit * (count + 1) * np.abs(found)
        else:
            variance = np.var(x, **given)
            room = unit * (count + 4) * variance + (unit * (count + 4)) ** 2 * np.mean(np.abs(x), **given) ** 2
            if name == "std":
                room = np.sqrt(variance + room) - np.sqrt(np.maximum(variance - room, 0))
        return np.asarray(found), room + 2 * last * np.abs(found) + np.finfo(dtype).tiny


def assert_reduced(name: str, found: Any, items: Items, **given: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = getattr(np, name)(items, **given)
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if name not in ROUNDED or expected.dtype.kind not in "fc":
            np.testing.assert_array_equal(found, expected)
            return
        near, room = exact(name, items, **given)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.where(np.isfinite(expected), 0, found), np.where(np.isfinite(expected), 0, expected)
        )
    fine = np.isfinite(expected)
    assert np.all(np.abs(wide(np.asarray(found))[fine] - near[fine]) <= np.asarray(room)[fine])


@st.composite
def arrays(draw: Any, dtypes: tuple[str, ...]) -> tuple[Items, blosc2.NDArray]:
    """Items, and an array of them: some chunks of one value, written so that they are stored as such."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n + 1)) for n in shape)
    blocks = tuple(draw(st.integers(1, n)) for n in chunks)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    items = (rng.integers(-2, 3, shape) / rng.choice([1, 2], shape)).astype("f8")
    kind = draw(st.sampled_from(["zeros", "ones", "nans"]))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        items = rng.choice(np.array([0, 1, 2, info.max, info.min], dtype), shape)
    elif dtype.kind in "fc" and draw(st.booleans()):
        items[rng.random(shape) < 0.05] = draw(
            st.sampled_from([np.nan, -0.0] + [np.inf, -np.inf] * (dtype.kind == "f"))
        )
    elif dtype.kind in "mM":
        items = rng.integers(-3, 4, shape)
        items[rng.random(shape) < draw(st.sampled_from([0, 0.1]))] = np.iinfo("i8").min  # NaT
    items = items.astype(dtype)
    base = np.nan if kind == "nans" and dtype.kind == "f" else int(kind == "ones")
    constant = rng.random([-(-n // c) for n, c in zip(shape, chunks)]) < draw(st.sampled_from([0, 0.5, 1]))
    if dtype.kind in "mM":
        constant[...] = False
    array = blosc2.full(shape, base, dtype=dtype, chunks=chunks, blocks=blocks) if base else blosc2.zeros(
        shape, dtype=dtype, chunks=chunks, blocks=blocks)  # fmt: skip
    for corner in np.ndindex(constant.shape):
        box = tuple(slice(n * c, n * c + c) for n, c in zip(corner, chunks))
        if constant[corner]:
            items[box] = base
        else:
            array[box] = items[box]
    np.testing.assert_array_equal(array[...], items)
    return items, array


def axes_of(draw: Any, name: str, ndim: int) -> Any:
    one = st.integers(-ndim, ndim - 1)
    several = st.sets(st.integers(0, ndim - 1)).map(tuple)
    return draw(st.none() | one if name.startswith("arg") else st.none() | one | several)


@settings(max_examples=400, deadline=None)
@given(data=st.data(), pair=arrays(NUMBERS), name=st.sampled_from(NAMES), keepdims=st.booleans())
def test_as_numpy(data: Any, pair: Any, name: str, keepdims: bool) -> None:
    items, array = pair
    axis = axes_of(data.draw, name, items.ndim)
    nbytes = data.draw(st.sampled_from([1, 40, 400]))
    found = []
    for threads in (1, 3):
        array.dparams = {"nthreads": threads}
        with small_pieces(nbytes, 64), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(getattr(array, name)(axis=axis, keepdims=keepdims))
    assert_reduced(name, found[0], items, axis=axis, keepdims=keepdims)
    assert found[0].tobytes() == found[1].tobytes()  # whatever the number of threads


@settings(max_examples=100, deadline=None)
@given(data=st.data(), pair=arrays(("m8[s]", "M8[D]")), name=st.sampled_from(["min", "max", "argmin", "argmax"]))
def test_dates_and_times(data: Any, pair: Any, name: str) -> None:
    items, array = pair
    axis = axes_of(data.draw, name, items.ndim)
    with small_pieces():
        assert_reduced(name, getattr(array, name)(axis=axis), items, axis=axis)
        if items.dtype.kind == "m":
            assert_reduced("sum", array.sum(axis=axis), items, axis=axis)


@pytest.mark.parametrize("name", NAMES[:9])
def test_where_all_items_count(name: str) -> None:
    items = np.arange(6.0).reshape(2, 3)
    array = blosc2.asarray(items)
    for found in (getattr(array, name)(where=True), getattr(np, name)(array, where=True),
                  getattr(blosc2, name)(array, where=True), getattr(blosc2, name)(items, where=True)):  # fmt: skip
        assert found == getattr(np, name)(items, where=True)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), pair=arrays(("i2", "f4", "f8")), name=st.sampled_from(NAMES[:9]))
def test_where_and_initial(data: Any, pair: Any, name: str) -> None:
    items, array = pair
    axis = axes_of(data.draw, name, items.ndim)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    mask = rng.random(items.shape if data.draw(st.booleans()) else items.shape[-1:]) < 0.6
    options: dict[str, Any] = {"axis": axis}
    if name in ("min", "max", "sum", "prod"):
        options["initial"] = data.draw(st.sampled_from([0, 2]))
    stored = blosc2.asarray(mask) if data.draw(st.booleans()) else mask
    with small_pieces(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = getattr(array, name)(where=stored, **options)
        expected = getattr(np, name)(items, where=mask, **options)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if name not in ROUNDED or expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:  # of at most 729 items between -2 and 2
        np.testing.assert_allclose(
            found, expected, rtol=1000 * np.finfo(expected.dtype).eps, atol=1e-3 if items.dtype == "f4" else 1e-12
        )


def test_types_of_sums_are_numpys() -> None:
    items = np.arange(-60, 60, dtype="i2").reshape(12, 10)
    array = blosc2.asarray(items, chunks=(5, 4), blocks=(2, 3))
    with small_pieces():
        for name in ROUNDED:
            for dtype in ("f4", "f8", "c16") if name in ("var", "std") else ("i2", "u8", "f4", "f8", "c16"):
                if name == "prod" and dtype == "f4":
                    continue  # which overflows
                found, expected = (
                    getattr(array, name)(axis=1, dtype=dtype),
                    getattr(np, name)(items, axis=1, dtype=dtype),
                )
                assert found.dtype == expected.dtype, (name, dtype)
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert array.var(ddof=1) == pytest.approx(np.var(items, ddof=1), rel=1e-14)
        np.testing.assert_allclose(array.std(axis=0, ddof=2), np.std(items, axis=0, ddof=2), rtol=1e-14)
        with pytest.raises(TypeError, match="dtype of var should be a floating point type, not int64"):
            array.var(dtype="i8")


@pytest.mark.parametrize("name", NAMES)
def test_no_items(name: str) -> None:
    """The same results, errors and warnings."""
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
        for axis in (None, *range(len(shape))):
            array, items = blosc2.zeros(shape, dtype="f4"), np.zeros(shape, "f4")
            outcomes = []
            for one in (array, items):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    try:
                        found = getattr(one, name)(axis=axis)
                        outcomes.append((type(found), found.dtype, found.shape, found.tobytes()))
                    except (ValueError, TypeError) as error:
                        outcomes.append((type(error), str(error)))
                    outcomes.append([(w.category, str(w.message)) for w in told])
            assert outcomes[:2] == outcomes[2:]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [1, 1 << 20], ids=["many pieces", "one piece"])
def test_what_numpy_refuses(name: str, pieces: int) -> None:
    """Axes, dtypes and options that NumPy refuses are refused by the same class of error."""
    numbers, words = np.arange(24.0).reshape(4, 6), np.array([["a", "b"], ["c", "d"]])
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]")
    calls: list[tuple[Items, dict[str, Any]]] = [
        (numbers, {"axis": 2}), (numbers, {"axis": (0, 0)}), (numbers, {"axis": "x"}), (numbers, {"axis": 1.0}),
        (words, {}), (dates, {}), (numbers, {"axis": 0, "out": np.zeros(6, "i1")}),
        (numbers, {"out": np.zeros(3, int if name.startswith("arg") else float)}),
    ]  # fmt: skip
    for items, options in calls:
        expected: Any = None
        try:
            expected = getattr(np, name)(items, **options)
        except Exception as error:  # noqa: BLE001
            expected = type(error)
        with small_pieces(pieces):
            array = blosc2.asarray(items, chunks=(2,) * items.ndim, blocks=(1,) * items.ndim)
            if isinstance(expected, type):
                with pytest.raises(
                    expected.__bases__[0] if expected.__module__.startswith("numpy._core") else expected
                ):
                    getattr(array, name)(**options)
            else:
                np.testing.assert_array_equal(getattr(array, name)(**options), expected)


def test_into_an_array() -> None:
    items = np.arange(60.0).reshape(6, 10)
    array = blosc2.asarray(items, chunks=(4, 3), blocks=(2, 2))
    with small_pieces():
        out = np.zeros(10)
        assert array.sum(axis=0, out=out) is out
        np.testing.assert_array_equal(out, items.sum(axis=0))
        whole = np.zeros((), "f4")
        assert array.mean(out=whole) is whole
        assert whole == items.mean()


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "c8", "i2"])
def test_into_an_array_of_another_type(dtype: str) -> None:
    """The result is converted at the end, or computed with as many digits as `out` has, as by NumPy."""
    items = (np.random.default_rng(0).normal(size=(50, 7)) * 9).astype(dtype)
    array = blosc2.asarray(items, chunks=(4, 3), blocks=(2, 2))
    exact = items.astype("c16" if dtype == "c8" else "f8").sum(axis=0)
    with small_pieces():
        for kind in ("i4", "i8", "f4", "f8", "c16"):
            out = array.sum(axis=0, out=np.zeros(7, kind))
            expected = np.zeros(7, kind)
            np.copyto(expected, exact, casting="unsafe")
            np.testing.assert_allclose(out, expected, rtol=1e-13 if kind in ("f8", "c16") else 1e-6)
            np.testing.assert_array_equal(out.dtype, kind)
        np.testing.assert_array_equal(array.mean(axis=0, out=np.zeros(7, "i4")), (exact / 50).real.astype("i4"))
        if dtype != "c8":
            np.testing.assert_array_equal(array.max(axis=0, out=np.zeros(7, "i1")), items.max(axis=0).astype("i1"))


def test_other_keywords_are_refused() -> None:
    array = blosc2.arange(10)
    for call in (lambda: np.var(array, mean=4.5), lambda: array.std(mean=4.5)):
        with pytest.raises(TypeError, match=r"(var|std) has no keyword 'mean': it finds the mean in one pass"):
            call()
    for call in (lambda: array.sum(urlpath="x.b2nd"), lambda: blosc2.sum(array, fp_accuracy=1)):
        with pytest.raises(TypeError, match=r"sum has no keyword '(urlpath|fp_accuracy)'.*blosc2.asarray"):
            call()
    with pytest.raises(TypeError):
        array.min(dtype="f4")


RECORDS = np.dtype([("id", "i4"), ("value", ">f4"), ("place", "f8", (2,))])


def test_fields_of_records() -> None:
    items = np.zeros((7, 5), RECORDS)
    items["id"] = np.arange(35).reshape(7, 5) % 11
    items["value"] = np.linspace(0, 1, 35).reshape(7, 5)
    items["place"] = np.arange(70).reshape(7, 5, 2)
    items[:3, :2] = np.array((4, 0.5, (1, 2)), RECORDS)
    array = blosc2.full(items.shape, items[0, 0], dtype=RECORDS, chunks=(3, 2), blocks=(2, 1))
    for start in range(0, 7, 3):
        for column in range(0, 5, 2):
            if start or column:
                box = slice(start, start + 3), slice(column, column + 2)
                array[box] = items[box]
    for nbytes in (1, 1 << 20):
        with small_pieces(nbytes):
            for field in RECORDS.names or ():
                for name in NAMES:
                    for axis in (None, 0, -1):
                        found = getattr(array[field], name)(axis=axis)
                        assert_reduced(name, found, np.ascontiguousarray(items[field]), axis=axis)
            assert blosc2.sum(array.fields["id"]) == items["id"].sum()
            with pytest.raises(TypeError):
                array.sum()


def test_without_axes() -> None:
    array, items = blosc2.asarray(np.float32(2.5)), np.array(2.5, "f4")
    for name in NAMES:
        with small_pieces():
            assert_reduced(name, getattr(array, name)(), items)
            if name in ("sum", "min", "argmax"):  # of the others NumPy refuses some
                assert_reduced(name, getattr(array, name)(axis=0), items, axis=0)


def test_functions_take_what_numpy_takes() -> None:
    items = [[3, 1], [2, 0]]
    for name in NAMES:
        np.testing.assert_array_equal(getattr(blosc2, name)(items, axis=1), getattr(np, name)(items, axis=1))
        np.testing.assert_array_equal(getattr(blosc2, name)(blosc2.asarray(items), 1), getattr(np, name)(items, 1))


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_numpy_come_here(name: str) -> None:
    """`numpy.sum(array)` and its like decode piece by piece."""
    items = np.arange(600, dtype="i4").reshape(20, 30)
    array = blosc2.asarray(items, chunks=(7, 8), blocks=(2, 3))
    with small_pieces(), mock.patch.object(type(array), "__array__", side_effect=AssertionError):
        found = getattr(np, name)(array, axis=1, keepdims=True)
    np.testing.assert_allclose(found, getattr(np, name)(items, axis=1, keepdims=True))


SOURCES = ("memory", "file", "mapped", "checked", "directory", "leaf", "archive", "view", "remote", "growing")


@pytest.mark.parametrize("kind", SOURCES)
def test_sources(kind: str, tmp_path: Path) -> None:
    items = np.random.default_rng(3).normal(size=(40, 50)).astype("f4")
    path = str(tmp_path / "a.b2nd")
    given: dict[str, Any] = {"chunks": (16, 12), "blocks": (5, 5)}
    array: Any = blosc2.asarray(items, **given)
    store: Any = None
    if kind in ("file", "mapped", "checked", "remote"):
        blosc2.asarray(items, urlpath=path, **given)
        modes: dict[str, Any] = {"mapped": {"mmap_mode": "r"}, "checked": {"verify": True}}
        array = blosc2.open(in_memory(path) if kind == "remote" else path, mode="r", **modes.get(kind, {}))
    elif kind == "directory":
        array = blosc2.asarray(items, urlpath=path, contiguous=False, **given)
    elif kind in ("leaf", "archive"):
        path = str(tmp_path / ("s.b2d" if kind == "leaf" else "s.b2z"))
        with blosc2.TreeStore(path, mode="w") as new:
            new["/a"] = array
        store = blosc2.open(path, mode="r")
        array = store["/a"]
    elif kind == "view":
        array = blosc2.expand_dims(array, 1).squeeze(1)
    elif kind == "growing":
        blosc2.asarray(items[:30], urlpath=path, locking=True, **given)
        array = blosc2.open(path, mode="r", locking=True)
        blosc2.open(path, mode="a", locking=True).append(items[30:])
    with small_pieces(100, 200):
        for name in NAMES:
            for axis in (None, 0, 1):
                assert_reduced(name, getattr(array, name)(axis=axis), items, axis=axis)
    if store is not None:
        store.close()


def test_bytes_of_a_server_come_side_by_side(tmp_path: Path) -> None:
    """Each once, and those of several shares at a time."""
    pytest.importorskip("aiohttp", reason="an extra")
    items = np.random.default_rng(0).random((1000, 2000))
    blosc2.asarray(items, urlpath=str(tmp_path / "a.b2nd"))
    with running() as server:
        server.delay = 0.05
        array = blosc2.open(server.put("a.b2nd", tmp_path / "a.b2nd"))
        assert_reduced("max", array.max(axis=0), items, axis=0)
        assert server.most > 1
        assert server.sent == len(server.objects["a.b2nd"])


@pytest.mark.parametrize("cparams", [{"clevel": 0}, {"filters": [blosc2.Filter.DELTA], "filters_meta": [0]},
                                     {"codec": blosc2.Codec.ZSTD, "use_dict": True}], ids=str)  # fmt: skip
def test_chunks_that_are_larger_than_pieces(cparams: dict[str, Any]) -> None:
    items = np.arange(30000, dtype="i4").reshape(150, 200) % 1000
    array = blosc2.asarray(items, chunks=(150, 200), blocks=(40, 60), cparams=cparams)
    with small_pieces(10_000, 20_000):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(array.sum(axis=axis), items.sum(axis=axis))
            np.testing.assert_array_equal(array.argmax(axis=axis), items.argmax(axis=axis))


@pytest.mark.parametrize("value", [0.0, np.nan, 2.5])
def test_chunks_of_one_value_are_not_decoded(value: float) -> None:
    """Neither those of zeros, NaN, nor of another value."""
    items = np.full((100, 1000), value)
    array = blosc2.full(items.shape, value, dtype="f8", chunks=(10, 500))
    array[:10] = items[:10] = np.ones((10, 1000))
    sizes: list[int] = []
    with (
        small_pieces(40_000),
        np.errstate(over="ignore"),
        watched("read", lambda _, counts, __: sizes.append(math.prod(counts))),
    ):
        for name in NAMES:
            for axis in (None, 0, 1):
                assert_reduced(name, getattr(array, name)(axis=axis), items, axis=axis)
    assert max(sizes) == 5000
    assert len(sizes) <= 2 * 3 * len(NAMES)


def test_an_array_of_one_value_takes_no_time() -> None:
    """A petabyte of zeros, whose sum nobody could wait for otherwise."""
    array = blosc2.zeros((1 << 20, 1 << 27), dtype="f8", chunks=(1 << 10, 1 << 16))
    assert array.sum() == 0
    assert array.std() == 0
    assert array.argmax() == 0
    assert not array.any()
    assert blosc2.full((1 << 18, 1 << 10), 3, dtype="u1").sum() == 3 << 28


def test_any_and_all_stop_early() -> None:
    array = blosc2.zeros((1000, 100), dtype="u1", chunks=(10, 100))
    array[:] = 1
    read: list[Any] = []
    with small_pieces(1000, 1000), watched("constant", lambda starts, _: read.append(starts)):
        assert array.any()
        assert len(read) <= 10
        assert array.all()
        assert len(read) >= 100


def test_ties_and_zeros() -> None:
    """The first of equal items in C order, wherever chunks lie; NaN before all others."""
    items = np.zeros((8, 8), "f8")
    items[5, 1] = items[2, 6] = -1
    items[6, 0] = items[3, 7] = np.nan
    array = blosc2.asarray(items, chunks=(8, 3), blocks=(8, 3))
    plain = blosc2.asarray(np.nan_to_num(items), chunks=(8, 3), blocks=(8, 3))
    with small_pieces():
        assert array.argmin() == array.argmax() == np.argmin(items) == 3 * 8 + 7
        assert plain.argmin() == 2 * 8 + 6
        assert plain.argmax() == 0
        negative = blosc2.full((50,), -0.0, dtype="f4", chunks=(10,))
        assert np.signbit(negative.sum()) == np.signbit(np.full(50, -0.0, "f4").sum())


def test_precision_of_many_items() -> None:
    """No worse than NumPy's pairwise sums, and than its variance far from zero."""
    rng = np.random.default_rng(5)
    items = rng.random((2000, 1500), dtype="f4")
    array = blosc2.asarray(items, chunks=(500, 400), blocks=(100, 200))
    true = math.fsum(items.ravel().tolist())
    with small_pieces(1 << 18, 1 << 19):
        for found in (array.sum(), array.sum(axis=0, dtype="f4").astype("f8").sum(), array.mean() * items.size):
            assert abs(float(found) - true) / true < 1e-6
        far = blosc2.asarray(1e9 + items.astype("f8"), chunks=(500, 400), blocks=(100, 200))
        assert far.var() == pytest.approx(np.var(np.asarray(far[...], np.longdouble)), rel=1e-12)
        narrow = (1000 + items).astype("f4")
        close = blosc2.asarray(narrow, chunks=(500, 400), blocks=(100, 200))
        assert close.std() == pytest.approx(float(np.std(narrow.astype("f8"))), rel=1e-5)


def test_floating_point_warnings_are_numpys() -> None:
    items = np.full((100, 10), 3e38, "f4")
    array = blosc2.asarray(items + np.arange(10, dtype="f4"), chunks=(10, 10))
    array[0, 0] = 1
    ends = np.array([np.inf, -np.inf] * 20, "f8")
    with small_pieces(80, 160):
        with pytest.warns(RuntimeWarning, match="overflow encountered in sum"):
            assert array.sum() == np.inf
        with pytest.warns(RuntimeWarning, match="invalid value encountered in sum"):
            assert np.isnan(blosc2.asarray(ends, chunks=(1,)).sum())
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            array.sum()
        with np.errstate(over="ignore"):
            array.sum()
        with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0 for slice"), np.errstate(all="ignore"):
            blosc2.asarray(np.ones((500, 1))).var(axis=1, ddof=1)


def test_all_threads_work() -> None:
    """The one that joins what they found, too."""
    array = blosc2.asarray(np.arange(1 << 14), chunks=(1 << 10,), dparams={"nthreads": 2})
    who: list[str] = []

    class Watched(reductions.Fold):
        def partial(self, *given: Any) -> Any:
            who.append(threading.current_thread().name)
            return super().partial(*given)

    with small_pieces(), mock.patch.object(reductions, "kind_of", Watched):
        assert array.sum() == (1 << 14) * ((1 << 14) - 1) // 2
    assert sorted(map(who.count, set(who))) == [8, 8]
    assert threading.current_thread().name in who


def test_damage_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.random.default_rng(0).integers(0, 99, 40000), chunks=(10000,), urlpath=path)
    raw = bytearray(Path(path).read_bytes())
    raw[len(raw) // 2 - 2000 : len(raw) // 2 + 2000] = os.urandom(4000)
    Path(path).write_bytes(raw)
    threads = threading.active_count()
    with small_pieces(80000, 80000), pytest.raises(blosc2.FormatError):
        blosc2.open(path, mode="r", verify=True).sum()
    assert threading.active_count() == threads


FIXTURES = sorted((Path(__file__).parents[1] / "data" / "fixtures").rglob("*.b2nd"))


@pytest.mark.parametrize("folder", sorted({path.parent.name for path in FIXTURES}))
def test_files_of_others_and_hostile_ones(folder: str) -> None:
    """Where all items can be read, NumPy's result or its refusal; where they cannot be, an error of this package."""
    for path in [path for path in FIXTURES if path.parent.name == folder]:
        try:
            array: Any = blosc2.open(str(path), mode="r")
        except blosc2.FormatError:
            continue
        if not isinstance(array, blosc2.NDArray) or array.size > 2_000_000:
            continue
        items = error = None
        try:
            items = array[...]
        except (blosc2.FormatError, NotImplementedError, OSError) as failed:
            error = type(failed)
        # Whether a product overflows before it becomes 0 depends on the order.
        for name in [name for name in NAMES if name != "prod"]:
            with small_pieces(), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if error is not None:
                    if name not in ("any", "all"):  # which may end before what is damaged
                        with pytest.raises((error, TypeError)):  # NumPy's, of a type that it does not reduce
                            getattr(array, name)()
                    continue
                try:
                    getattr(np, name)(items)
                except (TypeError, ValueError) as refused:
                    with pytest.raises((TypeError, type(refused))):
                        getattr(array, name)()
                    continue
                assert_reduced(name, getattr(array, name)(), np.asarray(items))


PROGRAM = """
import resource, sys
import numpy as np, blosc2
blosc2.set_nthreads(2)
array = blosc2.zeros((16, 1 << 22), dtype="f4", chunks=eval(sys.argv[1]), blocks=(1, 1 << 16))
row = np.arange(1 << 22, dtype="f4") % 7
for n in range(16):
    array[n] = row
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert array.sum() == 16 * row.sum(dtype="f8")
array.var(), array.max(axis=1), array.argmin(axis=1), array.any(axis=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.parametrize("chunks", ["(1, 1 << 19)", "(16, 1 << 22)"], ids=["small chunks", "one chunk"])
def test_memory(chunks: str) -> None:
    """256 MB are reduced in less than 64, also where it is one chunk."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, chunks], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64


def test_variances_of_very_large_numbers() -> None:
    items = np.full((700, 1000), 1e300)
    items[650:] = -1e300
    array = blosc2.asarray(items, chunks=(100, 1000), blocks=(50, 1000))
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for where in (True, np.arange(1000) % 3 > 0):
            np.testing.assert_array_equal(array.var(where=where), items.var(where=where))
            np.testing.assert_array_equal(array.var(axis=0, where=where), items.var(axis=0, where=where))
