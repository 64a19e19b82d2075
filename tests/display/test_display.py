"""Numbers, trees, HTML and pictures as people see them."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from blosc2._display import (
    Node,
    as_html,
    as_text,
    byte_bar,
    chunk_grid,
    colour_picture,
    definition_table,
    grey,
    human_size,
    limits,
    line_of_blocks,
    page,
    png_bytes,
    printable,
    ratio_text,
    sizes_text,
    text_picture,
)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "0.98 KiB"), (1024, "1.00 KiB"), (10_240, "10.0 KiB"),
        (102_400, "100 KiB"), (1023 * 1024, "1.00 MiB"), (5 << 30, "5.00 GiB"), (1 << 63, "8.00 EiB"),
        (1 << 73, "8192 EiB"),
    ],
)  # fmt: skip
def test_sizes_have_three_digits(nbytes: int, text: str) -> None:
    assert human_size(nbytes) == text


def test_ratios_are_left_out_where_there_is_nothing() -> None:
    assert sizes_text(2048, 1024) == "2.00 KiB in 1.00 KiB (2.0x)"
    assert sizes_text(2048, 0) == "2.00 KiB"
    assert ratio_text(0, 5) == ""
    assert ratio_text(123_456_000, 1000) == "123,456x"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "plain"),
        ("a\nb", r"a\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\udc80", r"\udc80"),
        ("\u202ertl", r"\u202ertl"),
    ],
)
def test_names_take_one_line_and_change_no_terminal(name: str, shown: str) -> None:
    assert printable(name) == shown
    printable(name).encode()


TREE = Node(
    "/", True, "", 5, 3000, 1000, (
        Node("a<b>", True, "", 3, 2000, 500, (Node("x&y\n", False, "(3,) int64", None, 24, 300),), "... 2 more leaves"),
        Node("c", False, "(2, 2) float32", None, 16, 100),
    ), "... 1 more leaf",
)  # fmt: skip


def test_text_of_an_outline() -> None:
    assert as_text(TREE).splitlines() == [
        "/  5 leaves, 2.93 KiB in 0.98 KiB (3.0x)",
        "├── a<b>/  3 leaves, 1.95 KiB in 500 bytes (4.0x)",
        "│   ├── x&y\\n  (3,) int64, 24 bytes in 300 bytes",
        "│   └── ... 2 more leaves",
        "├── c  (2, 2) float32, 16 bytes in 100 bytes",
        "└── ... 1 more leaf",
    ]


class Balanced(HTMLParser):
    """Checks that tags close in order, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def test_html_of_an_outline() -> None:
    html = parsed(as_html(TREE))
    assert "b" not in html.seen
    assert "script" not in html.seen
    assert html.seen.count("details") == 1
    assert "<details>" in as_html(TREE)  # which is folded
    assert "a<b>/" in html.text
    assert r"x&y\n" in html.text
    assert "... 1 more leaf" in html.text


def test_text_of_files_is_escaped() -> None:
    evil = "<script>alert('\"&\n\udc80')</script>"
    shown = page(evil, definition_table([(evil, evil)]), byte_bar([(evil, 5)], 10))
    html = parsed(shown)
    assert "script" not in html.seen
    assert html.text.count("<script>") == 4
    shown.encode()


def test_a_bar_names_the_largest_parts() -> None:
    html = byte_bar([(f"part{i}", i) for i in range(20)], 200)
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", html)]
    assert sum(widths) == pytest.approx(100, abs=0.1)
    assert "part19: 19 bytes, 10 %" in html
    assert "others: 101 bytes" in html
    assert "part3:" not in html
    assert byte_bar([], 0) == byte_bar([("a", 0)], 0) == ""


@pytest.mark.parametrize(
    ("shape", "chunks", "lines"),
    [
        ((10,), (10,), 2 + 2),
        ((10,), (3,), 2 + 5),
        ((4, 6), (2, 2), 3 + 4),
        ((4, 4, 4), (2, 2, 2), 3 + 3 + 3 + 3 + 3 + 3),
        ((9, 4, 4, 4), (1, 2, 2, 2), 18),
        ((10**9,), (1,), 2 + 25),
    ],
)
def test_a_drawing_has_the_borders_of_chunks(shape: tuple[int, ...], chunks: tuple[int, ...], lines: int) -> None:
    root = ET.fromstring(chunk_grid(shape, chunks))
    assert len(root.findall(".//line")) == lines
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    for line in root.findall(".//line"):
        at = {name: float(value) for name, value in line.attrib.items()}
        assert x <= at["x1"] <= x + width
        assert y <= at["y2"] <= y + height


@pytest.mark.parametrize(("shape", "chunks"), [((), ()), ((0, 5), (0, 5)), ((3, 0), (3, 1))])
def test_nothing_is_drawn_of_nothing(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    assert chunk_grid(shape, chunks) == ""


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
