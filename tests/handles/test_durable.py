"""What waits for the disk: by default `flush` and the end of a transaction; with ``durable=True`` each change."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.syncs import is_of_others

import blosc2
from blosc2._frames import append

MAKERS: dict[str, Callable[..., Any]] = {
    "array": lambda path, **how: blosc2.asarray(np.arange(100), chunks=(10,), urlpath=path, mode="w", **how),
    "zeros": lambda path, **how: blosc2.zeros(100, "i8", chunks=(10,), urlpath=path, mode="w", **how),
    "super-chunk": lambda path, **how: blosc2.SChunk(
        chunksize=80, data=np.arange(100), urlpath=str(path), mode="w", **how
    ),
    "list": lambda path, **how: blosc2.ObjectArray(urlpath=str(path), mode="w", **how),
    "copy": lambda path, **how: blosc2.arange(100).copy(urlpath=path, mode="w", **how),
}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if not is_of_others():
            made.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return made


def change(found: Any) -> None:
    if isinstance(found, blosc2.NDArray):
        found[3] = 7
        found.resize(len(found) + 10)
    elif isinstance(found, blosc2.SChunk):
        found.append_data(np.arange(10))
        found.delete_chunk(0)
    else:
        found.append("x")
        found.extend([1, 2, 3])
    found.vlmeta["unit"] = "mm"


@pytest.mark.parametrize("name", MAKERS)
def test_each_change_waits_if_it_is_to_be_durable(name: str, tmp_path: Path, syncs: list[int]) -> None:
    found = MAKERS[name](tmp_path / "x.b2nd", durable=True)
    assert len(syncs) == 2  # the file, and its name
    change(found)
    assert len(syncs) == 2 + 3 * 2  # the new bytes, and the header that points to them
    found.flush()
    assert blosc2.check(tmp_path / "x.b2nd").ok


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_waits_until_flush(name: str, tmp_path: Path, syncs: list[int]) -> None:
    path = tmp_path / "x.b2nd"
    found = MAKERS[name](path)
    change(found)
    assert not syncs
    found.flush()
    assert len(syncs) == 2  # the file, and its name
    assert blosc2.check(path).ok


@pytest.mark.parametrize("name", MAKERS)
def test_what_may_be_durable_is_kept(name: str, tmp_path: Path, syncs: list[int]) -> None:
    """Its header waits behind it: once for all changes of a handle, at the first that needs another header."""
    path = tmp_path / "x.b2nd"
    change(MAKERS[name](path))
    found = blosc2.open(path, mode="a")
    found.vlmeta["unit"] = "cm"
    assert not syncs
    for _ in range(3):
        change(found)
    once = len(syncs)
    assert once == isinstance(found, blosc2.NDArray)
    found.flush()
    change(found)
    change(found)
    assert len(syncs) == once + 2 + once
    copy = pickle.loads(pickle.dumps(found))
    change(copy)
    assert len(syncs) == once + 2 + once + once
    assert blosc2.check(path).ok


@pytest.mark.parametrize("name", MAKERS)
def test_a_transaction_is_durable(name: str, tmp_path: Path, syncs: list[int]) -> None:
    found = MAKERS[name](tmp_path / "x.b2nd")
    for waits in (3, 2):  # the new bytes, the header, and the first time the name of the file
        with found.transaction():
            change(found)
            with pytest.raises(RuntimeError, match="a transaction is under way"):
                found.flush()
            assert not syncs
        assert len(syncs) == waits
        syncs.clear()


def test_a_file_without_checksums_is_changed_in_order(tmp_path: Path, syncs: list[int]) -> None:
    """Nothing would tell that the new bytes did not come to the disk before the header that points to them."""
    path = tmp_path / "x.b2nd"
    path.write_bytes(blosc2.arange(100).to_cframe())
    array = blosc2.open(path, mode="a")
    array[3] = 7
    assert len(syncs) == 1


def test_a_new_file_in_the_place_of_one_that_was_durable_waits(
    tmp_path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its name came before its bytes, a power cut would take what was durable long before."""
    monkeypatch.setattr(append, "_SLACK", 0)
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(np.arange(100), chunks=(10,), urlpath=path)
    array.compact()
    assert not syncs
    array.flush()
    array.compact()
    assert len(syncs) == 4
    inode = path.stat().st_ino
    while path.stat().st_ino == inode:
        assert len(syncs) == 4
        array[:20] = np.random.default_rng(1).integers(0, 1 << 60, 20)
    assert len(syncs) == 6


def test_links_are_followed(tmp_path: Path, syncs: list[int]) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "x.b2nd"
    link.symlink_to(tmp_path / "folder" / "y.b2nd")
    array = blosc2.zeros(3, urlpath=link, mode="w")
    array.flush()
    assert len(syncs) == 2
    assert link.is_symlink()


def test_where_there_is_nothing_to_wait_for(tmp_path: Path, syncs: list[int]) -> None:
    blosc2.zeros(3).flush()
    blosc2.zeros(3).squeeze().flush()
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/a"] = np.arange(3)
        store["/a"].flush()
        assert not syncs
    for path in ("s.b2z", "s.b2d", "s.b2e"):
        with pytest.raises(ValueError, match=r"flush\(\) waits"):
            blosc2.open(tmp_path / path, mode="a", durable=True)


def test_a_change_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(np.arange(100), chunks=(10,), urlpath=path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(append, "_write_at", full)
        with pytest.raises(OSError, match="No space"):
            array[0] = 5
    assert path.read_bytes() == before
    assert array[0] == 0
    array[0] = 6
    assert blosc2.open(path)[0] == 6


@pytest.mark.usefixtures("publishes_at_once")
def test_what_another_handle_has_flushed_is_kept(tmp_path: Path, syncs: list[int]) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.arange(100, chunks=(10,), urlpath=path)
    array.append([1])
    assert not syncs
    blosc2.open(path, mode="a").flush()
    syncs.clear()
    array.append([2])
    assert len(syncs) == 1  # with a copy of the header
    array.compact()
    assert len(syncs) == 3


def test_a_flush_waits_for_a_change_that_is_under_way(
    tmp_path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise that might put a new file, which nobody has flushed, in the place of the flushed one."""
    path = tmp_path / "x.b2nd"
    array = blosc2.arange(100, chunks=(10,), urlpath=path)
    real, began, flushed = append.Growth.append_version, threading.Event(), threading.Event()

    def waiting(*given: Any, **how: Any) -> Any:
        began.set()
        assert not flushed.wait(0.2)
        return real(*given, **how)

    monkeypatch.setattr(append.Growth, "append_version", waiting)
    thread = threading.Thread(target=array.append, args=([1],))
    thread.start()
    began.wait()
    array.flush()
    flushed.set()
    thread.join()
    assert len(syncs) == 2
    assert len(blosc2.open(path)) == 101


def test_the_flushed_version_is_found_behind_many_others(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    items = np.random.default_rng(1).integers(0, 1 << 60, 200_000)
    array = blosc2.asarray(items, chunks=(10_000,), urlpath=path)
    array.flush()
    size = path.stat().st_size
    array[:10_000] = items[10_000:20_000]
    for n in range(1100):
        array.vlmeta["n"] = n
    data = bytearray(path.read_bytes())
    data[size : size + 4096] = bytes(4096)  # one page did not come to the disk before a power cut
    path.write_bytes(data)
    with pytest.raises(blosc2.FormatError):
        blosc2.open(path)[:]
    blosc2.salvage(path, tmp_path / "y.b2nd")
    assert np.array_equal(blosc2.open(tmp_path / "y.b2nd")[:], items)
