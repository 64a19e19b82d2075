"""doc/reference/exceptions.md names every exception and warning, its bases, and messages as they really are."""

from __future__ import annotations

import ast
import errno
import gc
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blosc2
from blosc2 import exceptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "doc" / "reference" / "exceptions.md").read_text("utf-8")

# A block of code, with the comment before it and the message after it, if there are any.
BLOCK = re.compile(r"^(<!-- .+ -->\n)?```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = [(found[0] or "", found[1], found[2] or "") for found in BLOCK.findall(PAGE)]
ROW = re.compile(r"^\| \[(\w+)\]\(#(\w+)\) \| (.*?) \| (.*?) \|$", re.MULTILINE)

PUBLIC = {
    name: value
    for name, value in vars(exceptions).items()
    if isinstance(value, type) and issubclass(value, BaseException) and not name.startswith("_")
}


def outcome(code: str, names: dict[str, Any]) -> list[str]:
    """What a block says: its warnings, then its error."""
    said = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            exec(compile(code, "doc/reference/exceptions.md", "exec"), names)
            gc.collect()
        except Exception as error:  # noqa: BLE001 - what it is, is compared
            said = [f"{type(error).__name__}: {error}"]
    return [f"{one.category.__name__}: {one.message}" for one in told] + said


def as_shown(text: str, folder: Path) -> str:
    """A message as the page shows it, on one line."""
    text = re.sub(r"process \(\d+\)", "process (1234)", text.replace(str(folder), "/data"))
    return " ".join(text.split())


def mount(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a folder look like a mount point: no file can be renamed to it."""
    folder.mkdir(parents=True)

    def across(rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(old: str, new: str) -> None:
            if os.fspath(new).startswith(f"{folder}/"):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), old, None, new)
            rename(old, new)

        return renamed

    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, across(getattr(os, name)))


def test_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    wrong = []
    assert sum(bool(text) for _, _, text in BLOCKS) > 30
    for before, code, text in BLOCKS:
        with monkeypatch.context() as patched:
            if before:
                mounted = re.search(r"here /data/(\S+) is a mount point", before)
                assert mounted, before
                with blosc2.DictStore(mounted[1].partition("/")[0], mode="w") as store:
                    store["/first"] = [1]
                mount(tmp_path / mounted[1], patched)
            said = [as_shown(one, tmp_path) for one in outcome(code, names)]
        if said != ([" ".join(text.split())] if text else []):
            wrong.append((code, said))
    assert not wrong, "\n\n".join(f"{code}says\n{said}" for code, said in wrong)


def test_every_message_has_its_code() -> None:
    assert sum(bool(text) for _, _, text in BLOCKS) == PAGE.count("```text\n")
    assert len(BLOCKS) == PAGE.count("```python\n")


def test_the_table_has_every_exception() -> None:
    rows = {row[0]: row for row in ROW.findall(PAGE)}
    assert rows.keys() == PUBLIC.keys()
    for name, (_, anchor, bases, _) in rows.items():
        assert anchor == name.lower()
        assert getattr(blosc2, name) is PUBLIC[name]
        hidden = (PUBLIC[name], Exception, BaseException, object)
        mro = [kind for kind in PUBLIC[name].__mro__ if kind not in hidden and not kind.__name__.startswith("_")]
        assert sorted(re.findall(r"`(\w+)`", bases)) == sorted(kind.__name__ for kind in mro), name


@pytest.mark.parametrize("name", PUBLIC)
def test_every_exception_has_a_section(name: str) -> None:
    section = re.search(rf"^### {name}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert section
    assert re.search(rf"^```text\n{name}: ", section[1], re.MULTILINE)
    assert "**What to do:** " in section[1]


def test_every_warning_has_a_section() -> None:
    used = set()
    for path in (ROOT / "src" / "blosc2").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "warn"):
                given = [*node.args[1:2], *(one.value for one in node.keywords if one.arg == "category")]
                used.add(ast.unparse(given[0]) if given else "UserWarning")
    assert used >= {"UserWarning", "ResourceWarning"}
    for name in used:
        assert f"\n### {name.rpartition('.')[2]}\n" in PAGE, name
        assert f"```text\n{name}: " in PAGE
