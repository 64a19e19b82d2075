"""Boxes of chunks that are one value, of which nothing is stored: rows of the value are copied into the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blosc2

SHAPE = (40, 30, 50)
VALUES: list[Any] = [
    np.int8(7),
    np.uint16(513),
    np.float32(np.nan),
    np.float64(-1.5),
    np.complex128(1 + 2j),
    np.bytes_(b"abc"),
    np.bytes_(b"a value of 29 different bytes"),
]


def keys(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = [(slice(None), slice(None), 3), (5, ...), (slice(None), 4, slice(None, None, -1)), (1, 2, 3)]
    for number in range(40):
        key = []
        for length in SHAPE:
            low, high = sorted(rng.integers(0, length, 2).tolist())
            key.append(slice(low, high + 1, int(rng.integers(1, 4)) if number % 3 == 2 else 1))
        found.append(tuple(key))
    return found


@pytest.mark.parametrize("value", [None, *VALUES], ids=lambda value: "zeros" if value is None else value.dtype.str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_boxes_of_one_value(value: Any, order: Any) -> None:
    dtype = np.dtype("f8") if value is None else value.dtype
    layout: dict[str, Any] = {"chunks": (16, 16, 24), "blocks": (8, 8, 8)}
    if value is None:
        array, items = blosc2.zeros(SHAPE, dtype=dtype, **layout), np.zeros(SHAPE, dtype)
    else:
        array, items = blosc2.full(SHAPE, value, dtype=dtype, **layout), np.full(SHAPE, value, dtype)
    assert array._handle.array[2].chunk_info(0)[2] < 64  # no more than a header and a value
    for key in keys(np.random.default_rng(5)):
        expected = items[key]
        found = array[key]
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
        if expected.ndim:
            out = np.full_like(expected, np.ones(1, dtype)[0] if dtype.kind != "S" else b"x", order=order)
            array.read(key, out=out)
            assert out.tobytes() == expected.tobytes()


def test_rows_longer_than_what_is_made_first() -> None:
    array = blosc2.full((3, 400_000), 9, dtype="i4", chunks=(2, 300_000), blocks=(1, 100_000))
    assert (array[1:, 5:399_999] == 9).all()
    out = np.zeros((2, 800_000), "i4")
    array.read((slice(1, 3), slice(None)), out=out[:, ::2])
    assert (out[:, ::2] == 9).all()
    assert (out[:, 1::2] == 0).all()
