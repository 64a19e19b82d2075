"""A flush of a `.b2d` in which a call fails: the files that were moved by then go back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker, values_of

import blosc2
from blosc2._backends.directory import leaf_files as directory_folders


def state_of(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(params=["b2d", "b2d-mixed", "tree-b2d"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    return Maker(request.param, tmp_path)


def fill(make: Maker) -> Any:
    store = make("w")
    for number in range(4):
        store[f"/g/k{number}"] = np.arange(30 + number)
        store[f"/s{number}"] = [number]
    store.flush()
    return store


def change(store: Any) -> None:
    store["/g/k0"] = np.arange(40)
    store["/new/deep/a"] = np.arange(41)
    store.rename("/g/k1", "/moved/k1")
    store.rename("/g/k2", "/g/k1")
    store["/s0"] = np.arange(42)  # of another tier, where there are two
    store["/g/k3"] = [1]
    store.rename("/s1", "/t1")
    store["/s1"] = np.arange(43)
    del store["/s2"]


def failing(monkeypatch: pytest.MonkeyPatch, name: str, at: int, inside: Path) -> None:
    """Let the n-th of such calls within a folder fail."""
    real = getattr(os, name)
    calls = [0]

    def call(*paths: Any, **how: Any) -> Any:
        if str(paths[-1]).startswith(str(inside) + os.sep):
            calls[0] += 1
            if calls[0] == at:
                raise OSError(errno.ENOSPC, "No space left on device", paths[-1])
        return real(*paths, **how)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("at", [1, 2, 3, 5, 6])
@pytest.mark.usefixtures("changes_wait")
def test_a_flush_whose_renames_fail(make: Maker, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    with fill(make) as store:
        before, files = make.values(), state_of(make.path)
        for publish in ("flush", "transaction", "write_many"):
            with monkeypatch.context() as patch:
                failing(patch, "replace", at, make.path)
                with pytest.raises(OSError, match="No space"):
                    if publish == "flush":
                        change(store)
                        store.flush()
                    elif publish == "transaction":
                        with store.transaction():
                            change(store)
                    else:
                        store.write_many({"/g/k0": np.arange(70), **{f"/m{n}": np.arange(50) for n in range(9)}})
            assert make.values() == before
            if make.cls is blosc2.DictStore and not make.options:
                assert state_of(make.path) == files
            if publish == "flush":
                store.discard()
            assert values_of(store) == before
        change(store)
        expected = values_of(store)
    assert make.values() == expected
    assert os.listdir(make.path.parent) == [make.path.name]


def test_a_flush_whose_removals_fail(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with fill(make) as store:
        before = make.values()
        keys = [key for key in before if key.startswith("/g")]
        for at in (1, 2, 4):
            with monkeypatch.context() as patch:
                failing(patch, "unlink", at, make.path)
                with pytest.raises(OSError, match="No space"), store.transaction():
                    for key in keys:
                        del store[key]
                    store["/new"] = np.arange(50)
            assert values_of(store) == make.values() == before


def test_where_there_are_no_links(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*paths: Any, **how: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with fill(make) as store, monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        failing(patch, "replace", 3, make.path)
        with pytest.raises(OSError, match="No space") as caught, store.transaction():
            for number in range(4):
                store[f"/g/k{number}"] = np.arange(60)
        assert "2 files are new already" in caught.value.__notes__[0]
        assert "flush() again" in str(caught.value)
        assert sum(len(value) == 60 for value in make.values().values()) == 2
        shown = values_of(store)  # what could not be taken back waits, as a whole
        assert sum(len(value) == 60 for value in shown.values()) == 4
        store.flush()
        assert make.values() == shown == values_of(store)


def test_a_failure_to_sync_is_taken_back_too(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with fill(make) as store:
        before = make.values()
        real = directory_folders.sync_files
        for at, change_keys in ((1, change), (1, lambda store: [store.pop(f"/g/k{n}") for n in range(4)])):
            left = [at]

            def sync(paths: Any, folders: Any = (), left: list[int] = left) -> None:
                left[0] -= bool(folders)
                if folders and left[0] == 0:
                    raise OSError(errno.EIO, "Input/output error")
                real(paths, folders)

            with monkeypatch.context() as patch:
                patch.setattr(directory_folders, "sync_files", sync)
                with pytest.raises(OSError, match="Input/output"), store.transaction():
                    change_keys(store)
            assert values_of(store) == make.values() == before
