"""Numbers, outlines and HTML, made of plain values."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from blosc2._display import Node, as_html, as_text, byte_bar, chunk_grid, definition_table, human_size, page, sizes_text
from blosc2._display.drawing import printable, ratio_text


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
