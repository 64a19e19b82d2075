"""A path with ".." behind a link to a folder: the folder above the one that the link leads to, as for all programs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._options import absolute_path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows takes .. for the folder before it, behind links too")

RIGHT, WRONG = np.arange(6) + 100, np.arange(6)


def write_array(path: str, items: Any) -> None:
    blosc2.asarray(items, urlpath=path, mode="w")


def write_folder(path: str, items: Any) -> None:
    blosc2.asarray(items, urlpath=path, mode="w", contiguous=False)


def write_list(path: str, items: Any) -> None:
    blosc2.ObjectArray(urlpath=path, mode="w").extend(items.tolist())


def write_embed(path: str, items: Any) -> None:
    with blosc2.EmbedStore(path, mode="w") as store:
        store["/a"] = items


def write_store(path: str, items: Any) -> None:
    with blosc2.DictStore(path, mode="w") as store:
        store["/a"] = items


WAYS: dict[str, tuple[str, Callable[[str, Any], None]]] = {
    "array": ("x.b2nd", write_array), "folder": ("y.b2nd", write_folder), "list": ("x.b2frame", write_list),
    "embed": ("x.b2e", write_embed), "directory": ("x.b2d", write_store), "zip": ("x.b2z", write_store),
}  # fmt: skip


def items_of(found: Any) -> list[int]:
    if isinstance(found, (blosc2.EmbedStore, blosc2.DictStore)):
        with found:
            return list(found["/a"][:])
    return list(found[:])


def change(path: str, kind: str, **how: Any) -> None:
    found = blosc2.open(path, mode="a", **how)
    if kind == "list":
        found.append(5)
    elif kind in ("array", "folder"):
        found[0] = 5
    else:
        with found:
            found["/b"] = RIGHT


def is_changed(path: str, kind: str) -> bool:
    found = blosc2.open(path)
    if isinstance(found, (blosc2.EmbedStore, blosc2.DictStore)):
        with found:
            return "/b" in found
    return list(found[:]) != list(RIGHT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: `link` leads to `real/deep`, so that `link/..` is `real`."""
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["relative", "absolute"])
def parent(request: pytest.FixtureRequest, folder: Path) -> str:
    return "link/.." if request.param == "relative" else f"{folder}/link/.."


@pytest.mark.parametrize("kind", WAYS)
def test_what_is_there_is_read_and_changed(folder: Path, parent: str, kind: str) -> None:
    name, write = WAYS[kind]
    write(str(folder / "real" / name), RIGHT)
    write(str(folder / name), WRONG)
    for how in ({}, {"mmap_mode": "r"}, {"mode": "a"}):
        if how != {"mmap_mode": "r"} or kind != "folder":
            assert items_of(blosc2.open(f"{parent}/{name}", **how)) == list(RIGHT), how
    there = str(folder / "real" / name)
    change(f"{parent}/{name}", kind)
    assert items_of(blosc2.open(str(folder / name))) == list(WRONG)
    assert is_changed(there, kind)


@pytest.mark.parametrize("kind", WAYS)
def test_what_is_new_lies_there(folder: Path, parent: str, kind: str) -> None:
    name, write = WAYS[kind]
    write(f"{parent}/{name}", RIGHT)
    write(f"{parent}/{name}", RIGHT)  # and is replaced there
    assert sorted(os.listdir(folder)) == ["link", "real"]
    assert [found for found in os.listdir(folder / "real") if found != "deep"] == [name]
    assert items_of(blosc2.open(str(folder / "real" / name))) == list(RIGHT)


@pytest.mark.parametrize("kind", WAYS)
def test_checking_and_salvaging(folder: Path, parent: str, kind: str) -> None:
    name, write = WAYS[kind]
    write(f"{parent}/{name}", RIGHT)
    assert blosc2.check(f"{parent}/{name}").ok
    out = "out.b2d" if kind in ("embed", "directory", "zip") else "out.b2nd"
    if kind not in ("list", "folder"):
        blosc2.salvage(f"{parent}/{name}", f"{parent}/{out}")
        assert items_of(blosc2.open(str(folder / "real" / out))) == list(RIGHT)
    assert sorted(os.listdir(folder)) == ["link", "real"]


@pytest.mark.parametrize("kind", ["array", "embed", "directory", "zip"])
def test_changes_together_with_others(folder: Path, parent: str, kind: str) -> None:
    name, write = WAYS[kind]
    write(str(folder / "real" / name), RIGHT)
    write(str(folder / name), WRONG)
    before = os.listdir(folder)
    change(f"{parent}/{name}", kind, locking=True)
    assert is_changed(str(folder / "real" / name), kind)
    assert items_of(blosc2.open(str(folder / name))) == list(WRONG)
    assert os.listdir(folder) == before  # the lock, too, lies beside what is changed


def test_pickles(folder: Path, parent: str) -> None:
    write_array(f"{parent}/x.b2nd", RIGHT)
    write_array("x.b2nd", WRONG)
    sent = pickle.dumps(blosc2.open(f"{parent}/x.b2nd"))
    os.chdir("/")
    assert list(pickle.loads(sent)[:]) == list(RIGHT)


def test_copies_of_stores(folder: Path, parent: str) -> None:
    write_store(f"{parent}/x.b2d", RIGHT)
    with blosc2.DictStore(f"{parent}/x.b2d", mode="r") as store:
        store.to_b2z(filename=f"{parent}/copy.b2z")
    assert items_of(blosc2.open(str(folder / "real" / "copy.b2z"))) == list(RIGHT)
    assert sorted(os.listdir(folder)) == ["link", "real"]


@pytest.mark.parametrize(("path", "full"), [
    ("a", "{here}/a"), ("./a//b/", "{here}/a/b"), ("", "{here}"), ("/a/./b/", "/a/b"), ("/", "/"),
    ("a..b/..c", "{here}/a..b/..c"), ("link/../a", "{here}/link/../a"), ("link/../a/", "{here}/link/../a"),
    ("link/..", "{here}/real"), ("link/../", "{here}/real"),
])  # fmt: skip
def test_absolute_paths(folder: Path, path: str, full: str) -> None:
    assert absolute_path(path) == full.format(here=folder)
