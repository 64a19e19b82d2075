"""Modes and what goes with them: one module says what is legal, and every opener asks it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

# Each makes or opens something at a path, with keywords of its modes.
OPENERS: dict[str, Callable[..., Any]] = {
    "asarray": lambda path, **how: blosc2.asarray(np.arange(9), urlpath=path, **{"mode": "w", **how}),
    "SChunk": lambda path, **how: blosc2.SChunk(urlpath=path, **{"mode": "w", **how}),
    "SChunk 'r'": lambda path, **how: blosc2.SChunk(urlpath=path, mode="r", **how),
    "ObjectArray": lambda path, **how: blosc2.ObjectArray(urlpath=path, **{"mode": "w", **how}),
    "ObjectArray 'a'": lambda path, **how: blosc2.ObjectArray(urlpath=path, **{"mode": "a", **how}),
    "BatchArray 'a'": lambda path, **how: blosc2.BatchArray(urlpath=path, **{"mode": "a", **how}),
    "open": lambda path, **how: blosc2.open(path, **how),
    "blosc2_ext.open": lambda path, **how: blosc2.blosc2_ext.open(path, how.pop("mode", "a"), 0, **how),
}
# What to put there before.
EXISTING: dict[str, Callable[[str], Any]] = {
    "ObjectArray": lambda path: blosc2.ObjectArray(urlpath=path).append(1),
    "BatchArray": lambda path: blosc2.BatchArray(urlpath=path).append([1]),
}


def put(opener: str, path: str) -> None:
    make = EXISTING.get(opener.split(" ")[0])
    if make is not None:
        make(path)
    elif opener.startswith("SChunk"):
        blosc2.SChunk(data=b"there", urlpath=path)
    else:
        blosc2.asarray(np.arange(3), urlpath=path)


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("mmap_mode", ["r", "r+", "c"])
def test_a_shared_lock_and_a_mapping_do_not_go_together(tmp_path: Path, opener: str, mmap_mode: str) -> None:
    path = str(tmp_path / "x.b2frame")
    put(opener, path)
    before = {found.name: found.read_bytes() for found in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="leave one of them out"):
        OPENERS[opener](path, locking=True, mmap_mode=mmap_mode)
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == before


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("how", "message"), [
    ({"mmap_mode": "rw"}, "Invalid mmap_mode 'rw'"),
    ({"initial_mapping_size": 9}, "initial_mapping_size can only be used with mmap_mode"),
    ({"mmap_mode": "r", "initial_mapping_size": 9}, "can only be used with writing modes"),
])  # fmt: skip
def test_every_opener_refuses_the_same(tmp_path: Path, opener: str, how: dict[str, Any], message: str) -> None:
    path = str(tmp_path / "x.b2frame")
    put(opener, path)
    before = {found.name: found.read_bytes() for found in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=re.escape(message)):
        OPENERS[opener](path, **how)
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == before


@pytest.mark.parametrize("opener", ["SChunk 'r'", "open", "blosc2_ext.open"])
def test_a_directory_frame_cannot_be_mapped_for_changes(tmp_path: Path, opener: str) -> None:
    path = str(tmp_path / "x.b2frame")
    blosc2.SChunk(data=b"there", urlpath=path, contiguous=False)
    assert OPENERS[opener](path, mmap_mode="r")[:] == b"there"
    if opener != "SChunk 'r'":
        with pytest.raises(ValueError, match="Only contiguous storage is supported with mmap_mode"):
            OPENERS[opener](path, mmap_mode="r+")


def test_windows_has_no_stores_with_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "platform", "win32")
            with pytest.raises(NotImplementedError, match="Windows"):
                make(str(tmp_path / "store.b2e"), mode="w", locking=True)
    assert not os.listdir(tmp_path)
