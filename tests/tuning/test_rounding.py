"""Rounding keeps its bounds, states its largest error, and touches nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import _tuning

RNG = np.random.default_rng(0)
WALK = RNG.standard_normal(200_000).cumsum()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("precision", "kind", "bound"),
    [(0.01, "absolute", 0.01), ("3 digits", "absolute", 0.0005), ({"digits": 0}, "absolute", 0.5),
     ("0.1%", "relative", 0.001), ({"relative": 1e-5}, "relative", 1e-5)],
)  # fmt: skip
def test_errors_stay_below_the_bound_and_are_stated(dtype: str, precision: Any, kind: str, bound: float) -> None:
    items = WALK.astype(dtype)
    array = blosc2.asarray(items, cparams={"goal": "size", "precision": precision})
    given, decoded = items.astype("f8"), array[...].astype("f8")
    errors = np.abs(decoded - given)
    if kind == "relative":
        errors = errors[given != 0] / np.abs(given[given != 0])
    assert 0 < errors.max() <= bound
    line = dict(array.info_items)["chosen"]
    assert f"the largest is {errors.max():.3g}" in line
    assert array.cbytes < 0.8 * blosc2.asarray(items, cparams="smallest").cbytes


def test_a_stream_that_grows_keeps_the_bound() -> None:
    items = np.concatenate([WALK / 1e5, WALK * 1e4] * 4)
    blocks = (items[n : n + 50_000] for n in range(0, len(items), 50_000))
    array = blosc2.asarray(blocks, shape=items.shape, chunks=(50_000,), cparams={"precision": 0.001})
    errors = np.abs(array[...] - items)
    assert 0 < errors.max() <= 0.001


def test_integers() -> None:
    items = RNG.integers(-1000, 1000, 100_000).cumsum().astype("i4")
    array = blosc2.asarray(items, cparams={"precision": 7})
    assert 0 < np.abs(array[...].astype("i8") - items).max() <= 7


@pytest.mark.parametrize(
    ("precision", "items", "expected"),
    [(1.0, [0.5, 1.1, 2.9, 1, 3, 5, -1.1, -3, 0.6, 1e30], [0, 2, 2, 0, 4, 4, -2, -4, 0, 1e30]),
     ("50%", [0.5, 1.1, 2.9, 1.25, 1.75, 5, 7, -7, 0.6, 1e-40], [0.5, 1, 3, 1, 2, 4, 8, -8, 0.5, 1e-40])],
    ids=["multiples of 2", "one bit behind the first"],
)  # fmt: skip
def test_the_nearest_number_is_taken_and_of_two_the_even_one(precision: Any, items: Any, expected: Any) -> None:
    found = blosc2.asarray(np.array(items * 500, "f4"), cparams={"precision": precision})[...]
    assert found.tolist() == np.array(expected * 500, "f4").tolist()


@pytest.mark.parametrize("precision", ["0.1%", 0.1])
def test_errors_have_both_signs(precision: Any) -> None:
    """So a mean stays: the mean of 200,000 even errors is far below the largest one."""
    items = (280 + RNG.standard_normal(200_000)).astype("f4")
    errors = blosc2.asarray(items, cparams={"precision": precision})[...].astype("f8") - items
    assert errors.min() < -0.02 < 0.02 < errors.max()
    assert abs(errors.mean()) < 0.001


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u8", "i8"])
def test_integers_at_their_limits(dtype: str) -> None:
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 3, 5, 6, 7, 100]
    items = np.array(ends * 400, dtype)
    found = blosc2.asarray(items, cparams={"precision": 3})[...]
    assert max(abs(int(one) - int(other)) for one, other in zip(found[:11], items[:11], strict=True)) <= 3
    assert found[4:11].tolist() == [0, 0, 4, 4, 8, 8, 100]  # multiples of 4


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_a_copy_keeps_what_its_attributes_count_as_missing(dtype: str) -> None:
    items = (WALK * 100).astype(dtype)
    items[::7], items[1::7] = -9999, 1235
    array = blosc2.asarray(items)
    array.vlmeta.update({"_FillValue": items[0], "missing_value": [1235, "none", [1, [2]]]})
    found = array.copy(cparams={"precision": 100})[...]
    assert np.array_equal(found[::7], items[::7])
    assert np.array_equal(found[1::7], items[1::7])
    assert 0 < np.abs(found - items).max() <= 100


def test_what_a_tuning_has_chosen_rounds_too() -> None:
    found = blosc2.tune(WALK, precision=0.01)
    array = blosc2.asarray(WALK, cparams=found)
    assert 0 < np.abs(array[...] - WALK).max() <= 0.01
    assert array.cratio > 1.5 * blosc2.asarray(WALK).cratio
    array[:3] = WALK[:3]  # what comes later is stored as it is
    assert array[:3].tolist() == WALK[:3].tolist()


@pytest.mark.parametrize("size", [1, 100, 5000, 200_000])
def test_arrays_of_stores(size: int, tmp_path: Any) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w", cparams={"precision": 0.01}) as store:
        store["/x"] = WALK[:size]
        store.update({"/y": WALK[:size]})
        for key in ("/x", "/y"):
            assert np.abs(store[key][...] - WALK[:size]).max() <= 0.01
            assert (store[key][...] != WALK[:size]).any() == (size * 8 > 256)


@pytest.mark.parametrize(
    "items",
    [WALK.astype("f2"), WALK.astype(">f4"), WALK + 1j, np.arange(50_000), np.array(["ab"] * 9000), WALK > 0,
     np.array([0x7F800001, 0x3F800000] * 9000, "u4").view("f4"), np.full(9000, np.finfo("f4").max)],
    ids=["f2", "big-endian", "complex", "integers", "text", "bool", "NaN that would be lost", "the largest float"],
)  # fmt: skip
def test_what_cannot_be_rounded_stays_exact(items: Any) -> None:
    array = blosc2.asarray(items, cparams={"precision": 0.01})
    assert array[...].tobytes() == items.tobytes()


def test_values_that_are_no_numbers_stay() -> None:
    items = WALK.astype("f4")
    items[::7], items[1::7], items[2::7] = np.nan, np.inf, -np.inf
    found = blosc2.asarray(items, cparams={"precision": 0.1})[...]
    assert np.array_equal(np.isnan(found), np.isnan(items))
    assert np.array_equal(np.isinf(found), np.isinf(items))
    finite = np.isfinite(items)
    assert np.abs(found[finite].astype("f8") - items[finite]).max() <= 0.1


def test_nothing_is_rounded_unless_asked() -> None:
    for goal in ("auto", "smallest", "fastest", "write"):
        assert blosc2.asarray(WALK, cparams=goal)[...].tobytes() == WALK.tobytes()


@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
@pytest.mark.parametrize(("dtype", "missing", "precision"), [("f4", -9999.9, 1), ("f8", 0.0, 0.01), ("i2", 0, 3)])
def test_nothing_becomes_missing_or_ceases_to_be(kind: Any, dtype: str, missing: float, precision: Any) -> None:
    items = (np.abs(RNG.standard_normal(5000)) * 5 * precision).astype(dtype)
    items[::7] = missing
    array = blosc2.asarray(items)
    array.vlmeta["_FillValue"] = missing
    rounded = array.copy(cparams={"precision": precision})
    cparams = _tuning.sparing({"precision": precision}, {"missing_value": kind(missing)})
    for found in (rounded[:], blosc2.asarray(items, cparams=cparams)[:]):
        np.testing.assert_array_equal(found == np.array(missing, dtype), items == np.array(missing, dtype))
        assert 0 < np.abs(found.astype("f8") - items).max() <= precision


def test_one_integer_is_rounded_without_a_warning() -> None:
    assert blosc2.asarray(np.array(127, "i1"), cparams={"precision": 3})[()] == 127


@pytest.mark.parametrize("make", [blosc2.SChunk, blosc2.ObjectArray, blosc2.BatchArray])
def test_bytes_are_not_rounded_and_it_is_said(make: Any) -> None:
    tuned = blosc2.tune(np.random.default_rng(0).random(10_000), precision=0.01)
    for asked in (tuned, {"precision": 0.01}):
        with pytest.raises(ValueError, match="bytes are none"):
            make(cparams=asked)
    for compress in (blosc2.compress2, blosc2.pack_tensor):
        with pytest.raises(ValueError, match="bytes are none"):
            compress(np.ones(9), cparams=tuned)
