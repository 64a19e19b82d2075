"""How stores show themselves: one line, HTML, completions of keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker

import blosc2
from blosc2._stores import showing


def fill(store: Any, groups: int = 3, leaves: int = 4) -> None:
    for group in range(groups):
        for leaf in range(leaves):
            store[f"/g{group}/l{leaf:04}"] = np.arange(1000.0)


def test_one_line(make: Maker) -> None:
    with make("w") as store:
        fill(store)
        assert "12 leaves" in repr(store)
    with make("r") as store:
        line = repr(store)
        assert line.startswith(f"<{make.cls.__name__} {make.path}: mode 'r', 12 leaves")
        assert ("in 3 groups" in line) == make.is_tree
        assert ("on disk" in line) == (not make.is_directory)
        assert "unpublished" not in line
    assert repr(store) == f"<{make.cls.__name__} {make.path}, closed>"


def test_one_line_follows_changes_that_wait(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether changes are published at once depends on the speed of the disk; what is shown must not."""
    monkeypatch.setattr("blosc2._backends.publish_pace.Pace.is_due", lambda *_: False)
    monkeypatch.setattr("blosc2._backends.publish_pace.Pace.quiet_time", lambda *_: (1 << 62, float("inf")))

    def shown(store: Any) -> str:
        found = re.search(r"\d+ (leaf|leaves)", repr(store))
        return found[0] if found else repr(store)

    with make("w") as store:
        store["/a"] = np.arange(5)
        assert shown(store) == "1 leaf"
        store["/b"] = np.arange(5)
        assert shown(store) == "2 leaves"
        store.rename("/b", "/c")
        with pytest.raises(KeyError, match="is it '/c'"):
            store["/C"]
        store.update({"/d": np.arange(5), "/e": np.arange(5)})
        assert shown(store) == "4 leaves"
        with pytest.raises(ZeroDivisionError), store.transaction():
            store["/f"] = np.arange(5)
            assert shown(store) == "5 leaves"
            raise ZeroDivisionError
        assert shown(store) == "4 leaves"
        del store["/a"]
        assert shown(store) == "3 leaves"


def test_one_line_opens_no_leaf(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with make("w") as store:
        fill(store, 3, 400)
    with make("r") as store:

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a leaf was opened")

        monkeypatch.setattr(type(store._table.backend), "open_frame", refuse)
        monkeypatch.setattr(type(store._table.backend), "locate", refuse)
        assert "1,200 leaves" in repr(store)


def test_a_large_directory_is_not_counted_for_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="w") as store:
        fill(store)
    monkeypatch.setattr(showing, "_FEW_FILES", 10)
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="r") as store:
        assert repr(store) == f"<TreeStore {tmp_path / 's.b2d'}: mode 'r'>"
        monkeypatch.setattr(showing, "_FEW_FILES", 100)
        assert "12 leaves in 3 groups" in repr(store)


def test_sizes_are_those_of_the_catalog(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        fill(store, 5, 100)
        store["/g1"].attrs["note"] = "hidden leaves do not count"
    with blosc2.TreeStore(path, mode="r", mmap_mode="r") as store:
        total = store.stats()[0]
        line = repr(store)
        assert f"mode 'r', mapped, {total.leaves} leaves in 5 groups, 3.81 MiB in " in line
        assert f"({total.cratio:.1f}x)" in line
        group = repr(store["/g1"])
        assert group.startswith(f"<TreeStore group '/g1' of {path}: mode 'r', mapped, 100 leaves, 781 KiB in ")


def test_html(make: Maker) -> None:
    with make("w") as store:
        fill(store)
        store._repr_html_()
    with make("r") as store:
        html = store._repr_html_()
    assert "12 leaves" in html
    assert "l0003" in html
    assert "(1000,) float64" in html
    assert html.count("<details>") == 3
    assert "closed" in store._repr_html_()


def test_html_is_bounded(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.write_many((f"/g{i % 30:02}/l{i:05}", np.arange(3)) for i in range(3000))
        store.write_many((f"/flat/l{i:05}", np.arange(3)) for i in range(2000))
    with blosc2.TreeStore(path, mode="r") as store:
        html = store._repr_html_()
        assert len(html) < 60_000
        assert "... 1,980 more leaves" in html
        assert "5,000 leaves" in html
        assert "... 1,900 more leaves" in store["/flat"]._repr_html_()
        assert len(repr(store.info).splitlines()) < 40


def test_a_tree_a_thousand_levels_deep_is_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/" + "/".join("d" * 200)] = np.arange(3)
    with blosc2.TreeStore(path, mode="r") as store:
        assert "1 leaf" in repr(store)
        assert store._repr_html_().count("<details>") < 200
        assert store._ipython_key_completions_()


def test_damage_is_shown_as_such(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/a"] = np.arange(1000)
        store["/b"] = np.arange(1000)
    (path / "a.b2nd").write_bytes(b"no frame")
    with blosc2.TreeStore(str(path), mode="r") as store:
        html = store._repr_html_()
        assert "cannot be read" in html
        assert "(1000,) int64" in html
        assert "2 leaves" in repr(store)


# ------------------------------------------------------------------ completion
def test_completions_without_what_was_typed(make: Maker) -> None:
    with make("w") as store:
        fill(store)
        found = store._ipython_key_completions_()
        assert {"/g0", "/g2/l0003"} < set(found)
        assert len(found) == 3 + 12
    assert store._ipython_key_completions_() == []


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ('store["', {"/g0", "/g1", "/g2", "/g1/l0003"}),
        ('store["/g1/l00', {"/g1/l0000", "/g1/l0003"}),
        ("x = store['/g1/", {"/g1/l0000", "/g1/l0003"}),
        ('store["g1/', {"g1/l0000", "g1/l0003"}),
        ('store["/none/', set()),
    ],
)
def test_completions_of_half_typed_keys(
    tmp_path: Path, typed: str, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        fill(store)
        match = showing._TYPED.search(typed)
        monkeypatch.setattr(showing, "_typed", lambda: match and (match[1] or match[2]))
        answers = set(store._ipython_key_completions_())
        assert found <= answers
        if "/g1/" in typed or "none" in typed:
            assert all(key.strip("/").startswith("g1/") for key in answers)
        assert set(store["/g1"]._ipython_key_completions_()) <= {f"/l{i:04}" for i in range(4)} or "g1" in typed


def test_completions_are_bounded(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store.write_many((f"/flat/l{i:05}", np.arange(3)) for i in range(2000))
        assert len(store._ipython_key_completions_()) == showing.MOST_COMPLETED


def test_ipython_completes_keys(tmp_path: Path) -> None:
    """The real completer; in a program of its own, since it changes the interpreter it runs in."""
    pytest.importorskip("IPython")
    program = """
import sys, numpy as np, blosc2
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
with blosc2.TreeStore(sys.argv[1], mode="w") as store:
    for key in ("/mri/007/raw", "/mri/008/raw", "/age"):
        store[key] = np.arange(3)
    shell.user_ns["store"] = store
    for text in ('store["/m', 'store["/mri/00', 'store["/mri/007/', "store['/a"):
        print(*shell.Completer.complete(line_buffer=text, cursor_pos=len(text))[1])
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s.b2z")], capture_output=True, text=True, check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    first, second, third, last = run.stdout.splitlines()
    assert "/mri" in first
    assert "/mri/007" in second
    assert "/mri/008" in second
    assert "/mri/007/raw" in third
    assert "/age" in last
