"""The HTML page: what is in it, in a parser and in a real browser."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._stores import Store
from blosc2._tools.viewer import html_page as making
from blosc2._tools.viewer.html_page import web_page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>[red]\x1b\n"
VOID = {"meta", "img", "line", "path"}


class Parsed(HTMLParser):
    """Checks that tags close in order, and keeps what is looked at."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree["/g/scan"] = np.arange(6 * 40 * 50, dtype="f4").reshape(6, 40, 50)
        tree["/g/scan"].attrs["who"] = EVIL
        tree["/g"].attrs["unit"] = "mm"
        tree["/photo"] = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
        tree["/empty"], tree["/zero"], tree["/line"] = np.zeros((0, 3)), np.array(7.5), np.arange(10)
        tree["/records"] = np.zeros(3, [("<b>n", "i4")])
        tree["/text"] = np.array([EVIL])
        tree["/bytes"] = blosc2.SChunk(data=b"0123" * 10)
        tree["/a&b'c"] = np.full((3, 4), np.nan)
        values = blosc2.ObjectArray()
        values.extend([EVIL])
        tree["/list"] = values
    return path


def page_of(path: Path, key: str = "") -> str:
    found = blosc2.open(str(path), mode="r", mmap_mode="r")
    try:
        return web_page(found, path.name, key)
    finally:
        if isinstance(found, Store):
            found.close()


def pixels(attributes: dict[str, str | None]) -> Any:
    images: Any = pytest.importorskip("PIL.Image")
    start, _, data = (attributes["src"] or "").partition(",")
    assert start == "data:image/png;base64"
    with images.open(io.BytesIO(base64.b64decode(data))) as image:
        return np.asarray(image)


def test_all_of_a_small_store(store: Path) -> None:
    page = Parsed(page_of(store))
    assert page.all("html")[0] == {"lang": "en"}
    assert len(page.all("h1")) == 1
    assert len(page.all("section")) == 10
    links = {attributes["href"] for attributes in page.all("a")}
    assert links == {f"#{attributes['id']}" for attributes in page.all("section")}
    assert "/a&b'c" in page.text
    assert "The value is 7.5." in page.text
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert not page.all("script")
    assert len(page.all("img")) == 4  # the scan, the photo, the line, and NaN
    assert "onerror" in page.text


def test_the_picture_and_its_statistics(store: Path, tmp_path: Path) -> None:
    page = Parsed(page_of(store, "/photo"))
    with blosc2.open(str(store), mode="r", mmap_mode="r") as tree:
        np.testing.assert_array_equal(pixels(page.all("img")[0]), tree["/photo"][:])
    scan = np.arange(6 * 40 * 50, dtype="f4").reshape(6, 40, 50)
    html = page_of(store, "/g/scan")
    found = pixels(Parsed(html).all("img")[0])
    assert found.shape == (40, 50)
    assert (found[0, 0], found[-1, -1]) == (0, 255)
    assert f"<td>{scan[3].max():g}</td>" in html
    assert f"<td>{scan[3].mean():g}</td>" in html
    large = np.add.outer(np.arange(2000), np.arange(1000))
    blosc2.asarray(large, urlpath=str(tmp_path / "large.b2nd"))
    assert pixels(Parsed(page_of(tmp_path / "large.b2nd")).all("img")[0]).shape == large[::7, ::7].shape


def test_nothing_is_loaded(store: Path) -> None:
    html = page_of(store)
    assert str(store.parent) not in html
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*\"|url\(|@import|https?:", html)
    assert "default-src 'none'" in html


def test_a_damaged_leaf_is_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(folder), mode="w") as tree:
        tree["/bad"], tree["/good"] = np.arange(1000), np.arange(1000)
    (folder / "bad.b2nd").write_bytes(b"no frame")
    page = Parsed(page_of(folder))
    assert page.text.count("This cannot be read") == 1
    assert "bad.b2nd" in page.text
    assert str(tmp_path) not in page.text  # nobody is told where the file lay
    assert len(page.all("img")) == 1


def test_a_large_store_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree.write_many((f"/g{n % 20:03}/l{n:06}", np.zeros(4, "u1")) for n in range(40_000))
    opened: list[str] = []
    plain = blosc2.TreeStore.__getitem__

    def watched(self: Any, key: str) -> Any:
        opened.append(key)
        return plain(self, key)

    monkeypatch.setattr(blosc2.TreeStore, "__getitem__", watched)
    html = page_of(path)
    page = Parsed(html)
    assert len(html) < 1 << 20
    assert len(set(opened)) == making.MOST_ARRAYS
    assert len(page.all("li")) <= 2 * making.MOST_NODES
    assert len(page.all("section")) == making.MOST_ARRAYS
    assert f"{40_000 - making.MOST_ARRAYS:,} more leaves have no section" in page.text
    assert page.text.count("... 1,900 more leaves") > 10


def test_pictures_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        for name in "abc":
            tree[f"/{name}"] = np.random.default_rng(0).integers(0, 256, (100, 100), np.uint8)
    monkeypatch.setattr(making, "PICTURE_BYTES", 30_000)
    page = Parsed(page_of(path))
    assert len(page.all("img")) == 2
    assert page.text.count("No picture: those of a page have at most") == 1
    monkeypatch.setattr(making, "DECODED", 25_000)
    page = Parsed(page_of(path))
    assert len(page.all("img")) == 2
    assert page.text.count("No picture: the pictures above have taken what a page may read") == 1
    monkeypatch.undo()
    huge = blosc2.zeros((1 << 17, 1 << 17), dtype="f8", chunks=(4096, 4096), blocks=(4096, 4096))
    assert "No picture: a picture needs 128 MiB" in web_page(huge, "huge")


def test_a_deep_tree(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree["/" + "/".join("d" * 200)] = np.arange(3)
    assert page_of(path).count("<details>") < making.DEPTH


# ------------------------------------------------------------------ in the browser
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no Chromium")
    driver: Any = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as play:
        found = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_shows_it(store: Path, tmp_path: Path, browser: Any, scheme: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(store), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert complaints == []
    assert page.title() == "s.b2z"  # no script of a name ran
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 382) == (scheme == "dark")
    assert page.inner_text("body").count("<script>document.title=") == 1
    context.close()


def test_browser_folds_by_keys(store: Path, tmp_path: Path, browser: Any) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(store), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    reached = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        where = page.evaluate("document.activeElement.tagName")
        if where == "SUMMARY" and "SUMMARY" not in reached:
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.parentElement.open")
        elif where == "A":
            href = page.evaluate("document.activeElement.getAttribute('href')")
            assert page.evaluate(f"document.querySelector('{href}') !== null")
        reached.add(where)
    assert {"SUMMARY", "A"} <= reached
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(store: Path, tmp_path: Path, browser: Any, scheme: str) -> None:
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright")
    file = tmp_path / "page.html"
    file.write_text(page_of(store), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # the page itself lets no script run
    page = context.new_page()
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    results = axe.Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    context.close()
