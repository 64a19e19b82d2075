"""view: when it runs, and the page that it writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Answer, failing

from blosc2._tools.cli import printing


def test_the_page_gets_a_name(folder: Path, run: Answer) -> None:
    assert run("view", "s.b2z", "--html") == ""
    assert run.err.startswith("s.html: ")
    assert "<h1>s.b2z</h1>" in Path("s.html").read_text("utf-8")
    run("view", "--html", "s.b2z/mri/007/raw")
    assert "<h1>s.b2z/mri/007/raw</h1>" in Path("s-mri-007-raw.html").read_text("utf-8")
    run("view", "s.b2z/mri", "--html", "out.html")
    assert "<h1>s.b2z/mri</h1>" in Path("out.html").read_text("utf-8")
    for path in ("a.b2nd", "o.b2frame", "e.b2e", "d.b2d"):
        assert f"<h1>{path}</h1>" in run("view", path, "--html", "-")


def test_a_page_is_replaced_only_when_asked(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.html").write_text("mine")
    assert failing(run, "view", "a.b2nd", "out.html", "--html") == "out.html exists; --force replaces a file"
    assert Path("out.html").read_text() == "mine"
    before = sorted(os.listdir())

    def fail(*_: Any) -> str:
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(printing, "web_page", fail)
        assert failing(run, "view", "a.b2nd", "out.html", "--html", "--force") == "no more"
    assert sorted(os.listdir()) == before
    assert Path("out.html").read_text() == "mine"
    run("view", "a.b2nd", "out.html", "--html", "--force")
    assert "<h1>a.b2nd</h1>" in Path("out.html").read_text("utf-8")


def test_without_a_terminal(folder: Path, run: Answer) -> None:
    assert failing(run, "view", "a.b2nd") == "the viewer needs a terminal; 'blosc2 view --html' writes a page instead"


def test_without_textual(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    for name in list(sys.modules):
        if name.startswith(("textual.", "blosc2._tools.viewer.app")):
            monkeypatch.delitem(sys.modules, name)
    assert "pip install 'python-blosc2[view]'" in failing(run, "view", "a.b2nd")
    run("view", "a.b2nd", "--html")
    assert Path("a.html").exists()


def test_the_viewer_is_given_what_is_open(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = pytest.importorskip("blosc2._tools.viewer.app")
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    seen = []

    class Seen:
        def __init__(self, *given: Any) -> None:
            found, *rest = given
            seen.append((found.mode, found.mmap_mode, *rest))

        def run(self) -> None:
            pass

    monkeypatch.setattr(app, "Viewer", Seen)
    run("view", "s.b2z/mri/*/raw", code=2)
    assert "one is needed" in run.err
    run("view", "s.b2z/mri/007")
    run("view", "a.b2nd")
    assert seen == [("r", "r", "s.b2z", "/mri/007"), ("r", "r", "a.b2nd", "")]


def test_what_cannot_be_viewed(folder: Path, run: Answer) -> None:
    assert "is it '/mri'" in failing(run, "view", "--html", "s.b2z/mr")
    assert "none.b2z" in failing(run, "view", "--html", "none.b2z")
    run("view", "a.b2nd", "out.html", code=2)
    assert "--html" in run.err
