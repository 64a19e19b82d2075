"""Syncs of files and folders: which errors count, and what becomes of a file that could not be written."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._files.sync import SyncsBeside, sync_descriptor, sync_files, sync_folder, sync_names

if sys.platform != "win32":
    import fcntl

POSIX = pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems alone")
FCNTL = pytest.mark.skipif(os.name != "posix", reason="Windows has no fcntl")


def failing_fsync(monkeypatch: pytest.MonkeyPatch, number: int, *, folders: bool) -> list[int]:
    """Make syncs fail of folders, or of files; the descriptors that were to be synced are noted."""
    seen: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == folders:
            seen.append(descriptor)
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@POSIX
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_syncs_of_folders(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = failing_fsync(monkeypatch, number, folders=True)
    sync_folder(str(tmp_path / "name"))
    sync_files((), [str(tmp_path)])
    assert len(seen) == 2
    blosc2.asarray(np.arange(9), urlpath=tmp_path / "a.b2nd").resize((12,))
    blosc2.asarray(np.arange(9), urlpath=tmp_path / "sparse.b2nd", contiguous=False).resize((12,))
    for suffix in ("e", "z", "d"):
        make = blosc2.EmbedStore if suffix == "e" else blosc2.TreeStore
        with make(str(tmp_path / f"store.b2{suffix}"), mode="w") as store:
            store["/g/a"] = [1]
            store.flush()
            store["/g/a"] = [2]
            store.compact()
        with blosc2.open(tmp_path / f"store.b2{suffix}") as store:
            assert store["/g/a"][0] == 2


@POSIX
@pytest.mark.usefixtures("changes_wait")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_fsync(monkeypatch, errno.EIO, folders=True)
    with pytest.raises(OSError, match="Input/output"):
        sync_names(str(tmp_path))
    store = blosc2.TreeStore(str(tmp_path / "store.b2d"), mode="w")
    store["/a"] = [1]
    with pytest.raises(OSError, match="Input/output"):
        store.flush()
    monkeypatch.undo()
    store.close()


# --------------------------------------------------------------------------- the cache of the drive, on macOS
FULL_SYNC = 51


def full_sync(monkeypatch: pytest.MonkeyPatch, number: int = 0) -> list[str]:
    """A system that empties the cache of a drive when it is asked to, or answers with an error; the calls are noted."""
    calls: list[str] = []
    real = fcntl.fcntl

    def control(descriptor: int, command: int, argument: Any = 0) -> Any:
        if command != FULL_SYNC:
            return real(descriptor, command, argument)
        calls.append("full")
        if number:
            raise OSError(number, os.strerror(number))
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("plain"))
    return calls


@FCNTL
@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ["full"]), *((number, ["full", "plain"]) for number in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY))],
)
def test_the_cache_of_the_drive_is_emptied_where_it_can_be(
    number: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = full_sync(monkeypatch, number)
    with open(tmp_path / "file", "wb") as file:
        sync_descriptor(file.fileno())
    assert calls == expected


@FCNTL
def test_a_drive_that_cannot_write_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = full_sync(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        sync_files([str(tmp_path)])
    assert calls == ["full"]


@FCNTL
@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize("suffix", ["e", "z", "d", "nd"])
def test_nothing_is_synced_otherwise(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = full_sync(monkeypatch)
    path = tmp_path / f"file.b2{suffix}"
    if suffix == "nd":
        array = blosc2.asarray(np.arange(9), urlpath=path, durable=True)
        calls.clear()
        array.resize((12,))
        array[:] = 5
    else:
        with (blosc2.EmbedStore if suffix == "e" else blosc2.TreeStore)(str(path), mode="w") as store:
            store["/g/a"] = [1]
            store.flush()
            calls.clear()
            store["/g/b"] = [2]
            store.flush()
            store.compact()
    assert set(calls) == {"full"}


def noting_fsync(monkeypatch: pytest.MonkeyPatch, bad: int = -1) -> list[int]:
    """Have syncs noted by the inodes of their files, of which one cannot be written."""
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino  # several threads append to the list
        synced.append(inode)
        if inode == bad:
            raise OSError(errno.EIO, "cannot be written")

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


def some_files(folder: Path, count: int) -> list[str]:
    paths = [str(folder / str(number)) for number in range(count)]
    for path in paths:
        Path(path).touch()
    return paths


@pytest.mark.parametrize("count", [1, 2, 40])
def test_one_bad_file_among_many_is_told(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = some_files(tmp_path, count)
    synced = noting_fsync(monkeypatch, bad=os.stat(paths[count // 2]).st_ino)
    with pytest.raises(OSError, match="cannot be written"):
        sync_files(paths)
    assert len(set(synced)) == count


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_all_are_synced_that_were_added(
    count: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blosc2._files.sync.THREADS", threads)
    paths = some_files(tmp_path, count)
    synced = noting_fsync(monkeypatch)
    before = threading.active_count()
    with SyncsBeside() as syncs:
        for path in paths:
            syncs.add(path)
    assert sorted(synced) == sorted(os.stat(path).st_ino for path in paths)
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("raises", [False, True])
def test_a_forked_child_leaves_the_block_at_once(raises: bool, tmp_path: Path) -> None:
    """Its parent has the threads, for which it would wait without end."""
    code = """
import os, sys, blosc2
from blosc2._files.sync import SyncsBeside
child = 1
try:
    with SyncsBeside() as syncs:
        for number in range(20):
            open(f"{sys.argv[1]}/{number}", "w").close()
            syncs.add(f"{sys.argv[1]}/{number}")
        child = os.fork()
        if sys.argv[2] == "True" and not child:
            raise ZeroDivisionError
except ZeroDivisionError:
    assert not child
if not child:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path), str(raises)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("change", ["copy", "new chunks"])
def test_chunk_files_are_durable_before_they_are_published(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = blosc2.asarray(np.arange(4000).reshape(40, 100), chunks=(1, 100))
    path = tmp_path / "a"
    if change != "copy":
        array.copy(urlpath=path, contiguous=False)
    synced = noting_fsync(monkeypatch)
    seen: list[tuple[set[int], set[int]]] = []
    replace = os.replace

    def note(old: str, new: str) -> None:
        if os.path.basename(new) == "chunks.b2frame":
            folder = Path(new).parent
            seen.append(({file.stat().st_ino for file in folder.glob("*.chunk")}, set(synced)))
        replace(old, new)

    monkeypatch.setattr(os, "replace", note)
    if change == "copy":
        array.copy(urlpath=path, contiguous=False)
        new = 40
    else:
        blosc2.open(path, mode="a")[:] = -array[:]
        new = 80  # those that it replaces are still there
    ((files, durable),) = seen
    assert len(files) == new
    assert len(files & durable) == 40
    assert np.array_equal(blosc2.open(path)[:], array[:] if change == "copy" else -array[:])


def test_a_store_of_many_files_is_closed_when_the_program_ends(tmp_path: Path) -> None:
    code = """
import atexit, sys, blosc2
store = blosc2.DictStore(sys.argv[1], mode="w")
for number in range(20):
    store[f"/k{number}"] = [number]
atexit.register(store.close)
"""
    path = tmp_path / "store.b2d"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(blosc2.open(path)) == 20


@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize(("there", "sound"), [(False, True), (True, True), (True, False)])
def test_a_file_whose_sync_failed_is_not_synced_once_more(
    there: bool, sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second sync of it says that all is well, and nothing is on the disk."""
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 1000)
    path = str(tmp_path / "store.b2d")
    values = {f"/k{n}": np.random.default_rng(n).integers(0, 1 << 62, 100) for n in range(3)}
    if there:
        with blosc2.DictStore(path, mode="w") as store:
            store["/old"] = [1]
    store = blosc2.DictStore(path, mode="a")
    store.update(values)
    staged: dict[str, Any] = {
        key: byte_range[0].path for key, byte_range in store._table.pending.frames.items() if byte_range
    }
    aside = [name for name in staged.values() if name is not None]
    inodes = {os.stat(name).st_ino for name in aside}
    assert aside
    failing_fsync(monkeypatch, errno.EIO, folders=False)
    with pytest.raises(OSError, match="Input/output"):
        store.flush()
    monkeypatch.undo()
    if not sound:
        # What the system has forgotten reads as something else.
        for name in aside:
            Path(name).write_bytes(bytes(os.path.getsize(name)))
        with pytest.raises(blosc2.exceptions.FormatError):
            store.flush()
        store.discard()
        store.close()
        return
    store.close()
    found = {os.stat(os.path.join(path, name)).st_ino for name in os.listdir(path)}
    assert not found & inodes
    with blosc2.open(path) as store:
        for key, value in values.items():
            np.testing.assert_array_equal(store[key][:], value)
