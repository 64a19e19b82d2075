"""Leaves of a `.b2d` that have files of their own: published by their assignment, removed by their deletion."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.interrupts import Interrupt
from fixture_kit.isolated import environment
from fixture_kit.recount import recount

import blosc2
from blosc2._backends import publish_pace as pace
from blosc2._backends.directory import placing
from blosc2._stores import automatic_publishing
from blosc2.exceptions import FormatError

CLASSES = [blosc2.DictStore, blosc2.TreeStore]


@pytest.fixture(params=CLASSES, ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pace, "_ALLOWANCE", 1e9)
    monkeypatch.setattr(automatic_publishing, "ALLOWANCE", 1e9)
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2d"


def values(path: Path) -> dict[str, list[Any]]:
    with blosc2.DictStore(path, mode="r") as store:
        return {key: store[key][:].tolist() for key in store}


def dying(how: str, path: Path, threshold: int, number: int) -> None:
    code = f"""
import os, signal, sys, numpy as np, blosc2
from blosc2._backends import publish_pace
from blosc2._stores import automatic_publishing
publish_pace._ALLOWANCE = automatic_publishing.ALLOWANCE = 1e9  # however slow the disk of this machine is
store = blosc2.DictStore(sys.argv[1], threshold={threshold})
for n in range({number}):
    store[f"/g{{n % 3}}/k{{n}}"] = np.full(1 + n % 40, n)
del store["/g0/k0"]
store.rename("/g1/k1", "/moved/k1")
{how}
"""
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment(), check=False)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("how", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "raise ZeroDivisionError"])
@pytest.mark.parametrize(("threshold", "number"), [(0, 500), (100, 8)])
def test_a_program_that_dies_keeps_what_it_assigned(how: str, threshold: int, number: int, path: Path) -> None:
    dying(how, path, threshold, number)
    expected = {f"/g{n % 3}/k{n}": [n] * (1 + n % 40) for n in range(number)}
    del expected["/g0/k0"]
    expected["/moved/k1"] = expected.pop("/g1/k1")
    assert values(path) == expected
    assert blosc2.check(path).ok
    with blosc2.DictStore(path) as store:
        store["/after"] = [1]
        store.compact()
    assert os.listdir(path.parent) == [path.name]


def test_an_assignment_waits_for_no_disk(cls: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cls(path, mode="w") as store:
        store["/first"] = [0]
        store.flush()
        synced: list[int] = []
        fsync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor) or fsync(descriptor))
        for n in range(5):
            store[f"/g/k{n}"] = [n]
            store[f"/g/k{n}"] = [n, n]
        del store["/g/k0"]
        assert not synced
        store["/first"] = [1]  # durable, so its new value is synced before it gets the name
        assert len(synced) == 1
        synced.clear()
        store.flush()
        assert len(synced) >= 4  # files, and their folders
        synced.clear()
        store.flush()
        assert not synced
    assert values(path) == {"/first": [1], **{f"/g/k{n}": [n, n] for n in range(1, 5)}}


def test_what_replaces_durable_leaves_is_published_in_groups(
    cls: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When waiting for the disk, each by itself, is no longer cheap."""
    with cls(path, mode="w") as store:
        store.update({f"/k{n}": [n] for n in range(200)})
        store.flush()
        monkeypatch.setattr(automatic_publishing, "ALLOWANCE", -1.0)
        monkeypatch.setattr(automatic_publishing, "GROUP", 64)
        monkeypatch.setattr(pace.Pace, "part", 1e9)
        store._table.publishing.leaf_pace._took = 1.0
        for n in range(200):
            store[f"/k{n}"] = [n, n]
            store[f"/new{n}"] = [n]
            now = values(path)
            assert sum(now[f"/k{m}"] == [m] for m in range(n + 1)) < automatic_publishing.GROUP
            assert now[f"/new{n}"] == [n]
            assert store[f"/k{n}"][:].tolist() == [n, n]
        store.discard()
        kept = values(path)
        assert {key: leaf[:].tolist() for key, leaf in store.items()} == kept
        store["/k199"] = [7]
        store.flush()
        assert values(path) == {**kept, "/k199": [7]}


def set_both(store: Any) -> None:
    with store.transaction():
        store["/g/a"], store["/g/b"] = [7], [8]


def set_in_place_of_a_renamed_one(store: Any) -> None:
    with store.transaction():
        store.rename("/g/b", "/g/e")
        store["/g/b"] = np.arange(500)


BEFORE = {"/g/a": [1], "/g/b": [2], "/g/moved": [3]}
BOTH = {"/g/a": [7], "/g/b": [8], "/g/moved": [3]}
ACTS: dict[str, tuple[Callable[[Any], Any], dict[str, list[int]]]] = {
    "rename": (lambda store: store.rename("/g/b", "/g/e"), {"/g/a": [1], "/g/e": [2], "/g/moved": [3]}),
    "update": (lambda store: store.update({"/g/a": [7], "/g/b": [8]}), BOTH),
    "transaction": (set_both, BOTH),
    "in its place": (set_in_place_of_a_renamed_one, {**BEFORE, "/g/b": list(range(500)), "/g/e": [2]}),
}


# What was opened when the interrupt came, and is known to nobody yet, is closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed (file|scandir iterator):ResourceWarning")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("how", ["at once", "waits", "embedded"])
def test_an_interrupt_loses_no_leaf(how: str, act: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes: neither of those that were listed before, nor of those that wait for the disk together."""
    monkeypatch.setattr(automatic_publishing, "GROUP", 3)
    monkeypatch.setattr(pace.Pace, "part", 1e9)
    monkeypatch.setattr(automatic_publishing, "ALLOWANCE", -1.0 if how == "waits" else 1e9)
    do, after = ACTS[act]
    lines, step = 1, 1 if FULL else 29
    for at in (-1, *range(0, 2000, step)):
        if at > lines:
            break
        with blosc2.TreeStore(path, mode="w", threshold=100 if how == "embedded" else 0) as store:
            store.update({"/g/a": [1], "/g/b": [2], "/g/k": [3]})
            store.flush()
            store._table.publishing.leaf_pace._took = 1.0 if how == "waits" else 0.0
            store.rename("/g/k", "/g/moved")
            assert list(store) == ["/g", "/g/a", "/g/b", "/g/moved"]
            with Interrupt(at) as interrupt, suppress(KeyboardInterrupt):
                do(store)
            lines = max(lines, interrupt.lines)
            now = {key: store[key][:].tolist() for key in list(store)[1:]}
            if act == "rename" or how == "embedded":
                assert now in (BEFORE, after), interrupt.where
            else:  # each leaf is published by itself
                assert BEFORE.keys() <= now.keys() <= after.keys(), interrupt.where
                assert all(items in (BEFORE.get(key), after[key]) for key, items in now.items()), interrupt.where
            recount(store, now)
        assert values(path) == now, interrupt.where


def test_a_leaf_between_the_tiers_is_always_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a reader that was open before, and where the embedded one goes later than its file comes."""
    monkeypatch.setattr(pace.Pace, "is_due", lambda self, waiting, values: False)
    small, large = [1], list(range(100))
    with blosc2.DictStore(path, mode="w", threshold=100) as store:
        store["/a"], store["/b"] = small, large
        store.flush()
        readers = [blosc2.DictStore(path, mode="r") for _ in range(2)]
        assert list(readers[1]) == ["/a", "/b"]
        store["/a"] = large
        assert values(path)["/a"] == large
        assert readers[0]["/a"][:].tolist() == large
        store["/b"] = small  # embedded values wait here
        assert values(path)["/b"] == large
        assert {key: leaf[:].tolist() for key, leaf in store.items()} == {"/a": large, "/b": small}
        store.flush()
        assert values(path) == {"/a": large, "/b": small}
        for reader in readers:
            assert reader["/b"][:].tolist() == small
            reader.close()
        store["/b"] = large
        del store["/b"]
        store.flush()
        assert values(path) == {"/a": large}
    assert sorted(os.listdir(path)) == ["a.b2nd", "embed.b2e"]


def test_a_file_in_the_place_of_a_value_that_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace.Pace, "is_due", lambda self, waiting, values: False)
    with blosc2.DictStore(path, mode="w", threshold=100) as store:
        store["/a"] = [1]
        store.flush()
        store.rename("/a", "/b")
        store["/a"] = np.arange(100)
        assert values(path) == {"/a": list(range(100)), "/b": [1]}


@pytest.mark.parametrize("content", [b"", bytes(200), None])
def test_a_leaf_that_a_power_cut_left_half_written_is_refused_by_name(
    content: bytes | None, cls: Any, path: Path, source: Any
) -> None:
    with cls(path, mode="w") as store:
        store["/good"] = [1]
        store["/g/partial"] = np.arange(5000)
    file = path / "g" / "partial.b2nd"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 100] = bytes(100)
    file.write_bytes(data if content is None else content)
    with cls(path, mode="r", mmap_mode=source) as store:
        with pytest.raises(FormatError, match="partial"):
            store["/g/partial"][:]
        assert store["/good"][:].tolist() == [1]
    assert not blosc2.check(path).ok
    with cls(path) as store:  # and can be replaced
        store["/g/partial"] = [2]
    assert values(path) == {"/good": [1], "/g/partial": [2]}


def test_a_flush_that_fails_writes_again(cls: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the system takes for written what it could not write."""
    with cls(path, mode="w") as store:
        store["/a"] = [1]
        store["/b"] = [2]
        inode = os.stat(path / "b.b2nd").st_ino
        with monkeypatch.context() as broken:

            def fsync(descriptor: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            broken.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match=r"x\.b2d"):
                store.flush()
        assert values(path) == {"/a": [1], "/b": [2]}
        held = os.open(path / "b.b2nd", os.O_RDONLY)  # so that its number is not used again
        store.flush()
        assert os.stat(path / "b.b2nd").st_ino != inode
        os.close(held)
        assert not store._table.backend.placing.unsettled
    assert values(path) == {"/a": [1], "/b": [2]}


def test_an_assignment_that_fails_names_the_file(cls: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cls(path, mode="w") as store:
        store["/a"] = [1]
        leaf = store["/a"]
        with monkeypatch.context() as broken:

            def full(*given: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            broken.setattr(placing, "write_new", full)
            with pytest.raises(OSError, match=r"No space.*a\.b2nd"):
                store["/a"] = [2]
            with pytest.raises(OSError, match=r"No space.*new\.b2nd"):
                store["/deep/new"] = [2]
        assert store["/a"] is leaf
        leaf[0] = 5
        assert list(store) == ["/a"]
        assert not (path / "deep").exists()
    assert values(path) == {"/a": [5]}


def test_readers_refresh(cls: Any, path: Path, source: Any) -> None:
    with cls(path, mode="w") as store:
        store["/g/a"] = [1]
        reader = cls(path, mode="r", mmap_mode=source)
        assert reader["/g/a"][:].tolist() == [1]
        for n in range(20):
            store["/g/a"] = [n]
            assert reader.refresh()
            assert reader["/g/a"][:].tolist() == [n]
            assert not reader.refresh()
        del store["/g/a"]
        assert reader.refresh()
        assert "/g/a" not in reader
        reader.close()
        assert not store.refresh()


def test_a_group_that_has_attributes_alone_is_named_so(path: Path) -> None:
    with blosc2.TreeStore(path, mode="w") as store:
        store.create_group("/g")
        store["/a"] = [1]
        with pytest.raises(ValueError, match="'/g' that already has children: none that is listed, but attributes"):
            store.rename("/a", "/g")
        del store["/g"]
        store.rename("/a", "/g")
    assert values(path) == {"/g": [1]}


@pytest.mark.skipif(os.name == "nt", reason="links need privileges there")
def test_a_link_out_of_the_store_is_not_written_through(cls: Any, path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.b2nd"
    blosc2.asarray(np.arange(10), urlpath=outside)
    before = outside.read_bytes()
    with cls(path, mode="w") as store:
        store["/a"] = [1]
    (path / "out.b2nd").symlink_to(outside)
    with cls(path) as store:
        with pytest.raises(ValueError, match="leads out of the store"):
            store["/out"] = [1]
        assert store["/out"][:].tolist() == list(range(10))
        store["/a"] = [2]
        del store["/out"]
        store["/out"] = [3]
    assert values(path) == {"/a": [2], "/out": [3]}
    assert outside.read_bytes() == before
