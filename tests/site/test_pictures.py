"""The pictures of the pages: made by scripts, for light and dark themes, described in words, on every second page."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

DOC = Path(__file__).resolve().parents[2] / "doc"
IMAGES = DOC / "images"
GUIDE = sorted(path for path in (DOC / "guide").glob("*.md") if path.name != "index.md")
USED = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = [path for path in DOC.rglob("*.md") if not {"gallery", "notebooks"} & set(path.parts)]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(IMAGES))


@pytest.mark.parametrize("name", ["diagrams", "charts"])
def test_scripts_make_them(name: str, scripts: None) -> None:
    """What is committed is what the scripts draw; the charts of the tables as they are now."""
    made = importlib.import_module(name).pictures()
    assert made
    for file, text in made.items():
        assert (IMAGES / file).read_text("utf-8") == text, f"{file}: run python doc/images/{name}.py"
        assert ET.fromstring(text).find("{http://www.w3.org/2000/svg}title") is not None


def contrast(one: str, two: str) -> float:
    """How well two colours are told apart, by the formula of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_their_text_can_be_read(scripts: None) -> None:
    for palette in importlib.import_module("drawing").PALETTES.values():
        for fill in (palette.back, palette.plain, palette.one_fill, palette.two_fill):
            assert contrast(palette.ink, fill) >= 4.5
        for colour in (palette.muted, palette.one, palette.two):
            assert contrast(colour, palette.back) >= 4.5
        assert contrast(palette.one, palette.one_fill) >= 4.5


def test_each_has_words_and_both_versions() -> None:
    found = [(page, *match) for page in PAGES for match in USED.findall(page.read_text("utf-8"))]
    assert len(found) > 15
    for page, words, link in found:
        assert len(words.split()) >= 4, (page, link)
        if "-light." in link:
            assert (page.parent / link.replace("-light.", "-dark.")).is_file(), link


def test_every_second_page_of_the_guide_has_one() -> None:
    with_one = [page for page in GUIDE if USED.search(page.read_text("utf-8"))]
    assert len(with_one) * 2 >= len(GUIDE), [page.name for page in GUIDE if page not in with_one]
