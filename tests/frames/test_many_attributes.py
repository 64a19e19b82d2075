"""Attributes: how many there can be, and which values of a program become text."""

from __future__ import annotations

import datetime as dt
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames.metadata import MAX_ENTRIES, MOST_ENTRIES

#: Names as long as they can be, of which the table is longer than 64 KiB.
NAMES = [f"{n:04d}" + "n" * 27 for n in range(MOST_ENTRIES)]


@pytest.fixture(params=["memory", "array", "super-chunk", "sparse", "leaf", "group", "root", "embedded"])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """Something with attributes, and what opens it again after it was published."""
    kind = request.param
    path = tmp_path / "a.b2nd"
    if kind == "memory":
        array = blosc2.zeros(3)
        yield array, lambda: blosc2.from_cframe(array.to_cframe())
    elif kind in ("array", "sparse"):
        array = blosc2.zeros(3, urlpath=path, contiguous=kind == "array")
        yield array, lambda: blosc2.open(path)
    elif kind == "super-chunk":
        yield blosc2.SChunk(data=b"abc", urlpath=path), lambda: blosc2.open(path)
    elif kind == "embedded":
        path = tmp_path / "s.b2e"
        with blosc2.EmbedStore(str(path), mode="w") as store:
            store["/a"] = [1, 2]
            yield store["/a"], lambda: store.flush() or blosc2.open(path)["/a"]
    else:
        path = tmp_path / "s.b2z"
        key = {"leaf": "/g/a", "group": "/g", "root": "/"}[kind]
        with blosc2.TreeStore(str(path), mode="w") as tree:
            tree["/g/a"] = [1, 2]
            yield tree[key], lambda: tree.flush() or blosc2.open(path)[key]


def test_thousands(holder: Any) -> None:
    holding, again = holder
    want = {name: n for n, name in enumerate(NAMES)}
    holding.attrs["first"] = 0
    holding.attrs[:] = dict(list(want.items())[:-1])
    del holding.attrs["first"]
    holding.attrs[NAMES[-1]] = MOST_ENTRIES - 1
    assert holding.attrs[:] == want
    assert again().attrs[:] == want
    assert len(again().attrs) == MOST_ENTRIES == 8000
    for act in (lambda: holding.attrs.update(x=1), lambda: holding.attrs.__setitem__("x", 1)):
        with pytest.raises(ValueError, match="8000 entries of variable metadata, not 8001"):
            act()
    holding.attrs[NAMES[5]] = "changed"
    del holding.attrs[NAMES[6]]
    holding.attrs["x"] = 1
    assert len(again().attrs) == MOST_ENTRIES


def test_strict(holder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    holding, again = holder
    assert blosc2.strict_compatibility is False
    monkeypatch.setattr(blosc2, "strict_compatibility", True)
    assert blosc2.strict_compatibility is True
    few = {f"a{n}": n for n in range(MAX_ENTRIES)}
    holding.attrs[:] = few
    with pytest.raises(ValueError, match=r"16 entries.*strict_compatibility"):
        holding.attrs["x"] = 1
    with pytest.raises(ValueError, match="16 entries"):
        holding.attrs.update(x=1, y=2)
    assert again().attrs[:] == few
    blosc2.strict_compatibility = False
    holding.attrs["x"] = 1
    blosc2.strict_compatibility = True
    holding.attrs["x"] = 2  # what is there can be changed
    with pytest.raises(ValueError, match="16 entries"):
        holding.attrs["y"] = 1
    for wrong in (1, None, "yes"):
        with pytest.raises(TypeError, match="True or False"):
            blosc2.strict_compatibility = wrong


UTC = dt.UTC
TEXTS = [
    (dt.date(2026, 11, 22), "2026-11-22"),
    (dt.datetime(2026, 11, 22, 18, 35), "2026-11-22T18:35:00"),
    (dt.datetime(2026, 11, 22, 18, 35, 1, 250, tzinfo=UTC), "2026-11-22T18:35:01.000250+00:00"),
    (dt.time(18, 35), "18:35:00"),
    (np.datetime64("2026-11-22T18", "ms"), "2026-11-22T18:00:00.000"),
    (np.datetime64("2026-11"), "2026-11"),
    (np.datetime64("NaT", "s"), "NaT"),
    (PurePosixPath("/scans/007"), "/scans/007"),
    (Path("scans"), "scans"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[str(value) for value, _ in TEXTS])
def test_dates_and_paths_are_text(value: Any, text: str, holder: Any) -> None:
    holding, again = holder
    holding.attrs["a"] = value
    holding.attrs[:] = {"list": [1, value], "dict": {"x": (value, {"y": value})}, "set": {value},
                        "array": np.array([value, None], "O")}  # fmt: skip
    found = again().attrs[:]
    array = found.pop("array")
    assert array.tolist() == [text, None]
    assert found == {"a": text, "list": [1, text], "dict": {"x": (text, {"y": text})}, "set": {text}}


def test_scalars_of_numpy_are_plain(holder: Any) -> None:
    holding, again = holder
    values = {
        "f": np.float32(1.5), "i": np.int16(-3), "u": np.uint64(2**63), "b": np.True_, "c": np.complex64(1 + 2j),
        "s": np.str_("a"), "y": np.bytes_(b"x"),
    }  # fmt: skip
    holding.attrs[:] = values
    found = again().attrs[:]
    assert found == {"f": 1.5, "i": -3, "u": 2**63, "b": True, "c": 1 + 2j, "s": "a", "y": b"x"}
    assert {type(value) for value in found.values()} == {float, int, bool, complex, str, bytes}


@pytest.fixture(params=[".b2d", ".b2z"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with blosc2.TreeStore(str(tmp_path / f"s{request.param}"), mode="w") as store:
        yield store


def test_create_group(tree: Any) -> None:
    with pytest.raises(KeyError, match=r"; create_group\(key\) makes a group$"):
        tree["/b"]
    group = tree.create_group("a/b")
    assert list(tree) == ["/a", "/a/b"]
    assert (list(group), group.attrs[:]) == ([], {})
    group.attrs["x"] = 1
    group["leaf"] = [1, 2]
    inner = tree["/a"].create_group("c/d")
    assert inner.subtree_path == "/a/c/d"
    tree.create_group("/a/b").attrs["y"] = 2  # it is there, and stays as it is
    tree.create_group("/")
    tree.flush()
    again = blosc2.open(tree.localpath)
    assert list(again) == ["/a", "/a/b", "/a/b/leaf", "/a/c", "/a/c/d"]
    assert again["/a/b"].attrs[:] == {"x": 1, "y": 2}
    assert blosc2.check(tree.localpath).ok
    with pytest.raises(ValueError, match="read-only"):
        again.create_group("/z")
    for key, text in (
        ("/a/b/leaf", "is a leaf"), ("/a/b/leaf/x", "already contains data"), ("/a/__vlmeta__", "reserved"),
        ("a:b", "segments"), ("/a/", "end with"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            tree.create_group(key)
    del tree["/a/c/d"]
    assert "/a/c" not in tree
    with pytest.raises(KeyError):
        tree["/a/c"]


WRONG_KEYS = [
    ("a:b", "the character ':'"), ("a\n", r"the character '\\n'"), ("a/../b", r"the segment '\.\.'"), ("./a", r"'\.'"),
    ("a/b.", "ends in a dot"), ("a /b", "ends in a blank"), ("x/con", "'con', which is a device"),
    ("x/Com1.txt/a", "device"), ("a//b", "empty path segments"), ("a/", "end with"), ("", "end with"),
    ("n" * 241, "too long"), ("/".join(["n" * 200] * 21), "too long"), ("/".join("n" * 258), "more than 257"),
    ("\ud800", "UTF-8"), ("embed.b2e", "reserved"), (".b2/x", "reserved"), (5, "must be a string"),
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".b2e", ".b2d", ".b2z"])
@pytest.mark.parametrize(("key", "reason"), WRONG_KEYS, ids=[ascii(key)[:12] for key, _ in WRONG_KEYS])
def test_messages_about_keys_say_the_rules_that_they_break(key: Any, reason: str, suffix: str, tmp_path: Path) -> None:
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.DictStore
    with kind(str(tmp_path / f"s{suffix}"), mode="w") as store:
        with pytest.raises((ValueError, TypeError), match=reason) as caught:
            store[key] = [1]
        is_form = type(key) is not str or "//" in key or not key or key.endswith("/")  # which nobody takes for a rule
        for rule in ("257 segments", "240 bytes", "4000", "device", "ends in a dot", "case and accents"):
            assert (rule in str(caught.value)) is not is_form
        assert len(str(caught.value)) < 900


def test_keys_that_differ_in_case_or_accents(tree: Any) -> None:
    composed, apart = (unicodedata.normalize(form, "/caf\u00e9") for form in ("NFC", "NFD"))
    tree[composed] = [1]
    for key in (apart, composed.upper()):
        with pytest.raises(ValueError, match=r"in case only, or in how its accents are written.*257 segments"):
            tree[key] = [2]
    assert os.path.exists(tree.localpath) or tree.flush() is None
