"""The HTML of stores and arrays in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._display import Node, as_html, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium")


def shown(html: str, folder: Path, script: str) -> str:
    """What a script of the page finds after it was laid out."""
    file = folder / "page.html"
    answer = f"<pre id=answer></pre><script>document.getElementById('answer').textContent = String({script})</script>"
    file.write_text(f"<!doctype html><html lang=en><meta charset=utf-8><body>{html}{answer}", encoding="utf-8")
    assert BROWSER is not None
    run = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         file.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="answer">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_store_is_a_tree_that_can_be_folded(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        for key in ("/a/x", "/a/y", "/b/z", "/top"):
            store[key] = np.arange(1000)
        store.flush()
        html = store._repr_html_()
    script = (
        "[document.querySelectorAll('details').length, document.querySelectorAll('details[open]').length,"
        " getComputedStyle(document.querySelector('.bar')).display, document.querySelector('summary').innerText,"
        " [...document.querySelectorAll('.bar span')].every(s => s.getBoundingClientRect().width > 0)].join('|')"
    )
    count, opened, display, first, wide = shown(html, tmp_path, script).split("|")
    assert (count, opened, display, wide) == ("2", "0", "flex", "true")
    assert first.startswith("a/ 2 leaves, 15.6 KiB in ")


def test_names_of_a_file_do_nothing(tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    html = page(evil, as_html(Node(evil, True, children=(Node(evil, False, evil),), more=evil)))
    script = "[document.title, document.images.length, document.querySelector('.blosc2-view').innerText].join('|')"
    title, images, text = shown(html, tmp_path, script).split("|")
    assert (title, images) == ("", "0")
    assert text.count("&lt;img") == 4


def test_chunks_are_drawn_inside_of_the_picture(tmp_path: Path) -> None:
    html = blosc2.zeros((40, 100, 60), chunks=(20, 25, 30))._repr_html_()
    script = (
        "(() => {const svg = document.querySelector('svg').getBoundingClientRect();"
        " return [...document.querySelectorAll('svg line, svg text')].map(e => e.getBoundingClientRect())"
        ".every(r => r.left >= svg.left - 1 && r.right <= svg.right + 1 && r.top >= svg.top - 1"
        " && r.bottom <= svg.bottom + 1)})()"
    )
    assert shown(html, tmp_path, script) == "true"
