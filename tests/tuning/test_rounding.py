"""Rounding keeps its bounds, states its largest error, and touches nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blosc2

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
    "items",
    [WALK.astype("f2"), WALK.astype(">f4"), WALK + 1j, np.arange(50_000), np.array(["ab"] * 9000), WALK > 0,
     np.array([0x7F800001, 0x3F800000] * 9000, "u4").view("f4")],
    ids=["f2", "big-endian", "complex", "integers", "text", "bool", "NaN that would be lost"],
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
