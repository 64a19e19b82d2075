"""A store that was appended to is compacted when it is closed, if that costs little and loses nothing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import before_sync

import blosc2
from blosc2.exceptions import FormatError

VALUES = {f"/g/k{n}": np.random.default_rng(n).integers(0, 1 << 60, 400) for n in range(60)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(path, mode="w") as store:
        store.update(VALUES)
    return path


#: What makes a new file, by the suffix of a store.
WRITERS = {
    ".b2z": "blosc2._backends.zip.publishing.ArchiveWriter",
    ".b2e": "blosc2._backends.embedded.writing.Replacement.__init__",
}


def published_twice(path: Path) -> Any:
    """A store, open, all of whose values were replaced after they were published."""
    cls = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    with cls(path, mode="w") as store:
        store.update(VALUES)
    store = cls(path, mode="a")
    for key, value in VALUES.items():
        store[key] = value + 1
    store.flush()
    return store


def replaced(path: Path, count: int = 60, **how: Any) -> Any:
    """The store, open, after new values of so many leaves were published."""
    store = blosc2.TreeStore(path, mode="a", **how)
    for key, value in list(VALUES.items())[:count]:
        store[key] = value + 1
    store.flush()
    return store


def test_what_was_replaced_is_gone(path: Path) -> None:
    store = replaced(path)
    leaf, reader, before = store["/g/k7"], blosc2.open(path, mmap_mode="r"), path.stat().st_size
    store.close()
    assert path.stat().st_size < 0.6 * before
    for found in (leaf, reader["/g/k7"], blosc2.open(path)["/g/k7"]):
        assert np.array_equal(found[:], VALUES["/g/k7"] + 1)
    assert blosc2.check(path).ok
    with blosc2.TreeStore(path, mode="a") as again:
        before, after = again.compact()
        assert after >= before - 200


def test_what_was_deleted_is_gone(path: Path) -> None:
    before = path.stat().st_size
    with blosc2.TreeStore(path, mode="a") as store:
        for key in list(VALUES)[:50]:
            del store[key]
    assert path.stat().st_size < 0.3 * before
    assert sorted(blosc2.open(path)) == sorted(["/g", *list(VALUES)[50:]])


def test_a_small_change_is_appended(path: Path) -> None:
    inode = path.stat().st_ino
    replaced(path, 3).close()
    assert path.stat().st_ino == inode


@pytest.mark.parametrize("how", [{"locking": True}, {"durable": False}])
def test_where_others_may_write_and_where_nothing_waits(path: Path, how: dict[str, Any]) -> None:
    store = replaced(path, **({} if "durable" in how else how))
    inode = path.stat().st_ino
    store.close(**({} if "locking" in how else how))
    assert path.stat().st_ino == inode


@pytest.mark.skipif(os.name != "posix", reason="names of files are those of POSIX")
@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_with_two_names_keeps_them(tmp_path: Path, suffix: str) -> None:
    path, other = tmp_path / f"x{suffix}", tmp_path / f"y{suffix}"
    store = published_twice(path)
    os.link(path, other)
    store.close()
    assert path.stat().st_ino == other.stat().st_ino


def test_members_of_other_programs_stay_what_they_are(tmp_path: Path, path: Path) -> None:
    """They have dates and permissions."""
    other = tmp_path / "other.b2z"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as copy:
        for name in archive.namelist():
            copy.writestr(zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6)), archive.read(name))
        copy.writestr(zipfile.ZipInfo("notes.txt", (2001, 2, 3, 4, 5, 6)), b"mine")
    replaced(other).close()
    with zipfile.ZipFile(other) as archive:
        assert archive.getinfo("notes.txt").date_time == (2001, 2, 3, 4, 5, 6)


def test_a_version_that_came_meanwhile_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock another handle may publish while the archive is copied: it is not replaced then."""
    store = replaced(path, exclusive=False)
    real = os.fsync

    def publish_first(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        with blosc2.TreeStore(path, mode="a", exclusive=False) as other:
            other["/late"] = np.arange(5)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", publish_first)
    store.close()
    assert blosc2.open(path)["/late"][:].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("error", [OSError("full"), FormatError("damaged"), MemoryError("no memory")])
def test_a_store_that_cannot_be_compacted_is_closed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, error: Exception
) -> None:
    path = tmp_path / f"x{suffix}"
    store = published_twice(path)
    before = path.read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(WRITERS[suffix], refuse)
    store.close()
    assert before_sync(path.read_bytes()) == before
    assert store.closed
    assert os.listdir(path.parent) == [path.name]
    monkeypatch.undo()
    assert blosc2.open(path)["/g/k59"][0] == VALUES["/g/k59"][0] + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("act", ["close", "drop"])
def test_a_forked_child_compacts_nothing(tmp_path: Path, suffix: str, act: str) -> None:
    path = tmp_path / f"x{suffix}"
    store = published_twice(path)
    before, inode = path.read_bytes(), path.stat().st_ino
    child = os.fork()
    if child == 0:
        try:
            if act == "close":
                store.close()
            del store
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)
    store.close()
    size = path.stat().st_size
    assert size < len(before)
    with blosc2.open(path, mode="a") as again:
        assert again.compact().after > 0.9 * size  # how much of `before` was dead is a matter of time


LARGE = np.random.default_rng(0).integers(0, 1 << 60, 30_000)  # 240 KB that hardly compress


@pytest.mark.parametrize("how", [{}, {"locking": True}], ids=["alone", "locking"])
@pytest.mark.parametrize("act", ["flush", "transaction"])
def test_a_writer_that_stays_open_keeps_its_archive_small(tmp_path: Path, how: dict[str, Any], act: str) -> None:
    path, largest = tmp_path / "x.b2z", 0
    with blosc2.TreeStore(path, mode="a", **how) as store:
        store["/first"] = LARGE
        store.flush()
        first, reader = store["/first"], blosc2.open(path, mmap_mode="r")
        for n in range(40):
            if act == "flush":
                store["/x"] = LARGE + n
                store.flush()
            else:
                with store.transaction():
                    store["/x"] = LARGE + n
            largest = max(largest, path.stat().st_size)
            np.testing.assert_array_equal(store["/x"][:], LARGE + n)
        assert largest < 2 * 2 * LARGE.nbytes + (3 << 19)
        for found in (first, reader["/first"], store["/first"]):
            np.testing.assert_array_equal(found[:], LARGE)
        reader.refresh()
        np.testing.assert_array_equal(reader["/x"][:], LARGE + 39)
    assert blosc2.check(path).ok


def test_a_store_that_cannot_be_written_anew_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(path, mode="w") as store:
        store["/first"] = LARGE

    tries = []

    def full(*_: Any, **__: Any) -> Any:
        tries.append(path.stat().st_size)
        raise OSError(28, "No space left on device")

    with blosc2.TreeStore(path, mode="a") as store:
        with monkeypatch.context() as patch:
            patch.setattr("blosc2._backends.zip.publishing.NewFile", full)
            for n in range(20):
                store["/x"] = LARGE + n
                store.flush()
                np.testing.assert_array_equal(store["/x"][:], LARGE + n)
                np.testing.assert_array_equal(blosc2.open(path)["/x"][:], LARGE + n)
        assert path.stat().st_size > 18 * LARGE.nbytes
        assert 1 <= len(tries) <= 3, "each try may fill the disk: not at each flush"
        inode = path.stat().st_ino
        for n in range(20):
            store["/x"] = LARGE - n
            store.flush()
        assert path.stat().st_ino != inode
        assert path.stat().st_size < 12 * LARGE.nbytes
    assert [file for file in os.listdir(tmp_path) if not file.endswith("lock")] == ["x.b2z"]


def test_an_interrupt_while_it_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes are published before, and the error says nothing else."""
    path = tmp_path / "x.b2z"

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with blosc2.TreeStore(path, mode="w") as store:
        store["/x"] = LARGE
        store.flush()
        monkeypatch.setattr("blosc2._backends.zip.publishing.NewFile", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            for n in range(20):
                store["/x"] = LARGE + n
                store.flush()
        monkeypatch.undo()
        assert "kept in the store object" not in str(getattr(caught.value, "__notes__", ""))
        assert n < 19
        for shown in (store, blosc2.open(path)):
            np.testing.assert_array_equal(shown["/x"][:], LARGE + n)
    assert blosc2.check(path).ok


def test_a_store_whose_writers_are_killed_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    blosc2.TreeStore(path, mode="w").close()
    code = f"""if True:
        import blosc2, numpy as np, os
        store = blosc2.open({str(path)!r}, mode="a")
        for n in range(5):
            store["/a"] = np.random.default_rng(n).random(20_000)
            store.flush()
        os._exit(9)"""
    for _ in range(6):
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 9
        assert path.stat().st_size < 2 * 160_000 + (1 << 20) + 160_000
