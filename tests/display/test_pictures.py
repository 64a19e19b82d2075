"""Pictures: grey values, text, and PNG files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from blosc2._display import colour_picture, grey, limits, line_of_blocks, png_bytes, text_picture


@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "u8", "f2", "f4", "f8", "g"])
def test_grey_values(dtype: str) -> None:
    items = np.array([[0, 10, 20], [60, 99, 100]], dtype)
    assert limits(items) == (0.0, 100.0)
    expected = np.rint(items.astype(float) / 100 * 255 + 1e-9)
    np.testing.assert_array_equal(grey(items, 0, 100), expected)
    assert grey(items, 10, 60).tolist() == [[0, 0, 51], [255, 255, 255]]


def test_grey_values_of_what_is_no_number() -> None:
    items = np.array([np.nan, -np.inf, np.inf, 2.0, 4.0])
    assert limits(items) == (2.0, 4.0)
    assert grey(items, 2, 4).tolist() == [0, 0, 255, 0, 255]
    assert grey(items, 2, 2).tolist() == [0, 0, 255, 128, 255]
    assert limits(np.array([np.nan, np.inf])) is None


def test_grey_values_at_the_ends_of_floats() -> None:
    largest, smallest = np.finfo(float).max, 5e-324
    assert grey(np.array([-largest, 0, largest]), -largest, largest).tolist() == [0, 128, 255]
    grey(np.array([0, smallest]), 0, smallest)  # no warning
    integers = np.array([np.iinfo("i8").min, 0, np.iinfo("i8").max])
    assert grey(integers, *(limits(integers) or (0, 0))).tolist() == [0, 128, 255]


def test_percentiles() -> None:
    items = np.arange(101.0)
    items[100] = np.inf
    assert limits(items, (10, 90)) == tuple(np.percentile(np.arange(100.0), [10, 90]))


def test_plain_characters() -> None:
    ramp = np.arange(0, 256, 28, dtype=np.uint8)
    assert text_picture(np.stack([ramp, ramp, 255 - ramp])) == " .:-=+*#%@\n@%#*+=-:. "
    assert text_picture(np.array([[0], [255]], np.uint8)) == "="
    red = np.array([[[255, 0, 0], [0, 255, 0], [255, 255, 255]]], np.uint8)
    assert text_picture(red) == ":+@"
    assert text_picture(np.array([[[255, 255, 255, 0], [255, 255, 255, 255]]], np.uint8)) == " @"


def test_half_blocks() -> None:
    pixels = np.array([[1, 1, 2], [3, 3, 4], [5, 5, 6]], np.uint8)
    assert colour_picture(pixels).split("\n") == [
        "\x1b[38;2;1;1;1;48;2;3;3;3m▀▀\x1b[38;2;2;2;2;48;2;4;4;4m▀\x1b[0m",
        "\x1b[38;2;5;5;5m▀▀\x1b[38;2;6;6;6m▀\x1b[0m",
    ]
    half = np.array([[[200, 100, 0, 128]]], np.uint8)
    assert colour_picture(half) == "\x1b[38;2;100;50;0m▀\x1b[0m"


def test_a_line_of_blocks() -> None:
    assert line_of_blocks(np.array([0, 31, 32, 128, 255], np.uint8)) == "▁▁▂▅█"


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (5, 7, 3), (5, 7, 4), (300, 1), (1, 300, 3)])
def test_png(shape: tuple[int, ...]) -> None:
    images: Any = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    with images.open(io.BytesIO(png_bytes(pixels))) as image:
        image.verify()  # the checksums
    with images.open(io.BytesIO(png_bytes(pixels))) as image:
        assert image.mode == {2: "L", 3: "RGB", 4: "RGBA"}[2 if len(shape) == 2 else shape[2]]
        np.testing.assert_array_equal(np.asarray(image), pixels)
