"""How many functions of Python simple acts with a store call: they are not to become more without notice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

#: A fifth above what each takes.
LIMITS = {"set": 30, "set again": 0, "flush": 60, "close": 54}
PACKAGE = os.path.dirname(blosc2.__file__) + os.sep


def called(act: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What an act gives, and the functions of the package that it calls, one by one: file and name."""
    calls: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls.append(f"{frame.f_code.co_filename[len(PACKAGE) :]} {frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = act()
    finally:
        sys.setprofile(before)
    return found, calls


@pytest.fixture(params=[blosc2.DictStore, blosc2.TreeStore], ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def path(cls: Any, tmp_path: Path) -> str:
    path = str(tmp_path / "x.b2z")
    with cls(path, mode="w") as store:
        store["/a/b"], store["/c"] = np.arange(100), np.arange(5)
    with blosc2.open(path, mmap_mode="r") as store:  # what is imported or made once is there
        assert store["/a/b"][1] == 1
    return path


def test_a_mapped_archive_is_opened_in_a_few_calls(path: str) -> None:
    store, calls = called(lambda: blosc2.open(path, mmap_mode="r"))
    assert len(calls) <= 20, calls
    leaf, calls = called(lambda: store["/a/b"])
    assert len(calls) <= 7, calls
    _, calls = called(lambda: store["/c"])
    assert calls == []
    assert leaf[7] == 7
    store.close()


def test_options_are_checked_once(path: str) -> None:
    store, calls = called(lambda: blosc2.open(path, mmap_mode="r"))
    names = [call.split()[1] for call in calls]
    assert names.count("store_options") == 1
    assert not {"check_mode", "check_mmap_mode"} & set(names)
    store.close()


def test_what_is_written_is_published_in_a_few_calls(cls: Any, path: str) -> None:
    store = cls(path, mode="a")
    store["/x"] = np.arange(7)  # what is made once for a shape
    store.flush()
    value = np.arange(7)
    _, set_calls = called(lambda: store.__setitem__("/y", value))
    _, flush_calls = called(store.flush)
    store["/v"] = store["/z"] = value  # from here on, frames of this kind are made without Python
    _, next_calls = called(lambda: store.__setitem__("/w", value))
    store.flush()
    _, close_calls = called(store.close)
    assert len(set_calls) <= LIMITS["set"], set_calls
    assert len(next_calls) <= LIMITS["set again"], next_calls
    assert len(flush_calls) <= LIMITS["flush"], flush_calls
    assert len(close_calls) <= LIMITS["close"], close_calls


def test_closing_does_not_read_what_it_wrote(cls: Any, path: str) -> None:
    store = cls(path, mode="a")
    store["/new"] = np.arange(7)
    _, calls = called(store.close)
    names = {call.split()[1] for call in calls if not call.startswith("_files")}
    assert "publish" in names
    assert not names & {"open_version", "read_embedded", "load", "open"}
    with blosc2.open(path) as reader:
        assert reader["/new"][:].tolist() == list(range(7))


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_a_leaf_is_opened_for_changes_in_as_few_calls_as_for_reading(suffix: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"x{suffix}")
    kind: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.DictStore
    with kind(path, mode="w") as store:
        store.update((f"/g/{n}", np.arange(n, n + 5)) for n in range(8))
    counts = {}
    for mode in ("r", "a"):
        store = kind(path, mode=mode)
        for n in range(2):
            assert store[f"/g/{n}"][1] == n + 1  # what is made once is there
        leaf, calls = called(lambda store=store: store["/g/5"])  # type: ignore[misc]
        counts[mode] = len(calls)
        assert leaf[:].tolist() == list(range(5, 10))
        if suffix != ".b2d":  # where each leaf is a file
            assert calls == []
        if mode == "a":
            store["/g/1"] = np.arange(3)
            assert store["/g/2"][1] == 3  # that may have been published, as another version
            leaf, calls = called(lambda store=store: store["/g/6"])  # type: ignore[misc]
            assert len(calls) <= counts["a"]
            assert leaf[:].tolist() == list(range(6, 11))
            if suffix != ".b2d":
                leaf, calls = called(lambda store=store: store["/g/1"])  # type: ignore[misc]
                assert calls == []  # one that waits to be published
                assert leaf[:].tolist() == [0, 1, 2]
        store.close()
    assert counts["a"] <= counts["r"] + 1
