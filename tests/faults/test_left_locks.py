"""A program that is killed while it makes a store: the next one that opens it for changes leaves nothing beside it."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import blosc2
from faults.recorder import Recorder, Stopped

KINDS = {
    "b2e": (blosc2.EmbedStore, "x.b2e"),
    "b2z": (blosc2.DictStore, "x.b2z"),
    "tree b2z": (blosc2.TreeStore, "x.b2z"),
    "b2d": (blosc2.DictStore, "x.b2d"),
    "tree b2d": (blosc2.TreeStore, "x.b2d"),
}


def create(make: Any, path: Path, locking: bool) -> None:
    how = {"locking": True} if locking else {}
    with make(str(path), mode="w", **how) as store:
        store["/a"] = np.arange(5)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("locking", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_of_a_creation(kind: str, locking: bool, tmp_path: Path) -> None:
    make, name = KINDS[kind]
    left_behind = 0
    for at in range(1, 1000):
        made, found = tmp_path / "made", tmp_path / "found"
        made.mkdir()
        stopped = False
        with mock.patch("blosc2._stores.end_forgotten"), Recorder(made, "stop", at) as recorder:
            try:
                create(make, made / name, locking)
            except Stopped as error:
                error.__traceback__ = None
                stopped = True
                recorder.bury()
                gc.collect()
        shutil.copytree(made, found)  # where this process holds no lock
        left_behind += any(entry.endswith(".lock") for entry in os.listdir(found))
        with make(str(found / name), mode="a", **({"locking": True} if locking else {})) as store:
            assert "/a" not in store or list(store["/a"][...]) == list(range(5))
            store["/b"] = np.arange(3)
        left = [entry for entry in os.listdir(found) if entry.endswith(".lock")]
        assert not left, at
        shutil.rmtree(made)
        shutil.rmtree(found)
        if not stopped:
            break
    assert left_behind > 1


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    create(blosc2.DictStore, path, locking=False)
    (tmp_path / ".x.b2z.lock").write_text("mine")
    blosc2.DictStore(str(path), mode="a").close()
    assert (tmp_path / ".x.b2z.lock").read_text() == "mine"
