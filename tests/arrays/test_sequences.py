"""Items of long sequences are those of NumPy, wherever a part of them begins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fixture_kit.cases import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._arrays import slabs as piecewise
from blosc2._functions import creation

DTYPES = ["i1", "u1", "i2", "u4", "i8", "u8", "f4", "f8", "c8", "c16", ">i4", ">f8", "f2", None]
NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-50, 50, allow_nan=False), st.just(10**6))


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything made in parts, small ones."""
    monkeypatch.setattr(creation, "_LONG_NBYTES", 0)
    monkeypatch.setattr(piecewise, "_PIECE_NBYTES", 300)


@st.composite
def shapes(draw: Any, size: int) -> tuple[int, ...]:
    shape = []
    for _ in range(draw(st.integers(0, 2))):
        shape.append(draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0] or [1])))
        size //= shape[-1]
    return (*shape, size)


def _cut(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    chunks = tuple(draw(st.integers(1, max(n, 1))) for n in shape)
    return {"chunks": chunks, "blocks": tuple(draw(st.integers(1, c)) for c in chunks)} if 0 not in shape else {}


@settings(max_examples=300, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), start=NUMBERS, count=st.integers(0, 300))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arange(data: Any, dtype: Any, start: Any, count: int) -> None:
    step = data.draw(st.sampled_from([1, 2, -1, -7, 0.1, 0.3, -0.7, 1e-3]))
    stop = start + count * step
    try:
        want = np.arange(start, stop, step, dtype)
    except (ValueError, OverflowError):  # an item that the dtype cannot hold
        with pytest.raises((ValueError, OverflowError)):
            blosc2.arange(start, stop, step, dtype)
        return
    shape = data.draw(shapes(len(want)))
    array = blosc2.arange(start, stop, step, dtype, shape, **_cut(data.draw, shape))
    assert_same(array[...], want.reshape(shape))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), ends=st.tuples(NUMBERS, NUMBERS), endpoint=st.booleans())
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_linspace(data: Any, dtype: Any, ends: tuple[Any, Any], endpoint: bool) -> None:
    shape = data.draw(shapes(data.draw(st.integers(0, 300))))
    size = math.prod(shape)
    want = np.linspace(*ends, size, endpoint, dtype=dtype)
    array = blosc2.linspace(*ends, size, dtype, endpoint, shape, **_cut(data.draw, shape))
    assert_same(array[...], want.reshape(shape))


@pytest.mark.parametrize("ends", [(0, 5e-324), (2, 2), (1 + 2j, 3 - 4j), (0.0, 1e300)])
@pytest.mark.parametrize("num", [1, 2, 7, 100])
def test_linspace_of_odd_ends(ends: tuple[Any, Any], num: int) -> None:
    for endpoint in (True, False):
        assert_same(blosc2.linspace(*ends, num, endpoint=endpoint)[:], np.linspace(*ends, num, endpoint))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), rows=st.integers(1, 40), columns=st.integers(1, 40), k=st.integers(-45, 45))
def test_eye(data: Any, rows: int, columns: int, k: int) -> None:
    array = blosc2.eye(rows, columns, k, "i4", **_cut(data.draw, (rows, columns)))
    assert_same(array[:], np.eye(rows, columns, k, "i4"))


def test_parts_of_eye_without_ones_cost_nothing() -> None:
    array = blosc2.eye(64, chunks=(8, 8), blocks=(8, 8))
    special = [info.special for info in array.iterchunks_info()]
    assert special.count(blosc2.SpecialValue.ZERO) == 64 - 8


def test_steps_of_none_and_dates() -> None:
    assert blosc2.arange(5, None, None, shape=(5, 1))[:].tolist() == [[0], [1], [2], [3], [4]]
    days = np.arange(np.datetime64("2020-01-01"), np.datetime64("2020-02-01"))
    assert_same(blosc2.arange(days[0], days[-1] + np.timedelta64(1, "D"))[:], days)
