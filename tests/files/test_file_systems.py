"""File systems that lack something: locks, a writable folder beside a store, renames across their borders."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import refused_elsewhere

import blosc2
from blosc2.exceptions import OtherFileSystemError

if sys.platform == "win32":
    pytest.skip("Windows has no advisory locks and mounts nothing in folders", allow_module_level=True)

import fcntl

STORES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "embed": (blosc2.EmbedStore, ".b2e", {}),
    "zip": (blosc2.TreeStore, ".b2z", {}),
    "directory": (blosc2.TreeStore, ".b2d", {}),
    "directory tiers": (blosc2.DictStore, ".b2d", {"threshold": 1000}),
}
KINDS = pytest.mark.parametrize("kind", STORES)
SPARSE = pytest.mark.parametrize("contiguous", [True, False])
WITHOUT = pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])


def change(store: Any) -> None:
    """All kinds of changes."""
    store["/a"], store["/g/b"] = [1], np.arange(500)
    store.flush()
    store["/g/b"] = np.arange(400)
    store.rename("/a", "/c")
    store.compact()


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


@pytest.fixture
def nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give an exclusive lock only by a descriptor that could write, as NFS does."""
    real = fcntl.flock

    def flock(file: Any, operation: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        reads_only = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if reads_only and operation & fcntl.LOCK_EX:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.fixture
def lockless(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no locks at all."""

    def flock(file: Any, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@KINDS
@pytest.mark.usefixtures("nfs")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_one_writer_over_nfs(kind: str, tmp_path: Path) -> None:
    make, suffix, how = STORES[kind]
    path = str(tmp_path / f"store{suffix}")
    for mode in ("w", "a", "w"):
        with make(path, mode=mode, **how) as store:
            change(store)
            refused_elsewhere(lambda: make(path, mode="a", **how))
            store.discard()
        with blosc2.open(path) as store:
            assert sorted(key for key in store if isinstance(store[key], blosc2.NDArray)) == ["/c", "/g/b"]
            assert store["/g/b"].shape == (400,)
        if mode == "a":
            blosc2.remove_urlpath(path)
        else:
            with make(path, mode="a", **how) as store:
                for key in ("/c", "/g/b"):
                    del store[key]
    assert names(tmp_path) == {f"store{suffix}"}
    assert blosc2.check(path).ok


@pytest.mark.usefixtures("nfs")
def test_an_empty_directory_becomes_a_store_over_nfs(tmp_path: Path) -> None:
    path = tmp_path / "store.b2d"
    path.mkdir()
    for mode in ("a", "w"):
        blosc2.DictStore(str(path), mode="a").discard()
        with blosc2.DictStore(str(path), mode=mode) as store:
            store["/a"] = [1]
        assert list(blosc2.open(path)) == ["/a"]


@SPARSE
@pytest.mark.usefixtures("nfs")
def test_arrays_over_nfs(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    for locking in (False, True):
        array = blosc2.asarray(np.arange(10), chunks=(4,), urlpath=path, contiguous=contiguous, mode="w")
        array = blosc2.open(path, "a", locking=locking)
        array.resize((12,))
        array[3] = 7
        array.compact()
        np.testing.assert_array_equal(blosc2.open(path)[:], [0, 1, 2, 7, 4, 5, 6, 7, 8, 9, 0, 0])


@KINDS
@WITHOUT
@pytest.mark.usefixtures("lockless")
def test_a_store_without_locks(kind: str, tmp_path: Path) -> None:
    make, suffix, how = STORES[kind]
    path = str(tmp_path / f"store{suffix}")
    with pytest.raises(OSError, match="exclusive=False") as caught, make(path, mode="w", **how) as store:
        store["/a"] = [1]
    assert caught.value.filename is not None
    for mode in ("w", "a"):
        with make(path, mode=mode, exclusive=False, **how) as store:
            if mode == "a":
                del store["/c"]
            change(store)
    with pytest.raises(OSError, match="exclusive=False"):
        make(path, mode="a", **how)
    assert blosc2.open(path)["/g/b"].shape == (400,)
    assert names(tmp_path) == {f"store{suffix}"}


@SPARSE
@WITHOUT
@pytest.mark.usefixtures("lockless")
def test_an_array_without_locks(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.asarray(np.arange(10), chunks=(4,), urlpath=path, contiguous=contiguous)
    before = blosc2.open(path)[:]
    for attempt in (
        lambda: array.resize((12,)),
        lambda: blosc2.open(path, "a").vlmeta.__setitem__("note", 1),
        lambda: blosc2.open(path, "a", locking=True),
    ):
        with pytest.raises(OSError, match="exclusive=False") as caught:
            attempt()
        assert caught.value.filename is not None
    np.testing.assert_array_equal(blosc2.open(path)[:], before)
    with pytest.raises(ValueError, match="leave one of them out"):
        blosc2.open(path, "a", locking=True, exclusive=False)
    alone = blosc2.open(path, "a", exclusive=False)
    alone.resize((12,))
    alone[:] = 3
    alone.compact()
    assert blosc2.open(path, exclusive=False)[:].tolist() == [3] * 12


class TestTemporaryFolders:
    """Temporary files of a `.b2d` where none can lie beside it."""

    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """A store in a folder that cannot be written, with all that is done beside it noted."""
        folder = tmp_path / "folder"
        folder.mkdir()
        path = folder / "store.b2d"
        with blosc2.TreeStore(str(path), mode="w", threshold=1000) as store:
            store["/a"] = [1]
        monkeypatch.setattr("blosc2._backends.temporary._may_write", lambda folder: folder == str(path))
        real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in ("mkdir", "open")}

        def watched(name: str) -> Callable[..., Any]:
            def call(path: Any, *rest: Any, **how: Any) -> Any:
                made = (name == "mkdir" or (rest and rest[0] & os.O_CREAT)) and not os.path.lexists(path)
                assert not made or os.path.dirname(os.path.abspath(path)) != str(folder), path
                return real[name](path, *rest, **how)

            return call

        for name in ("mkdir", "open"):
            monkeypatch.setattr(os, name, watched(name))
        yield path
        monkeypatch.undo()
        assert names(folder) == {"store.b2d"}
        assert not (path / ".b2").exists()

    @pytest.mark.usefixtures("changes_wait")
    def test_changes(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 1000)
        with blosc2.TreeStore(str(path), mode="a", threshold=1000) as store:
            del store["/a"]
            store["/staged"] = np.random.default_rng(1).integers(0, 1 << 62, 300)
            with blosc2.open(path) as reader:
                assert list(reader) == ["/a"]
            assert blosc2.check(path).ok
            change(store)
        assert sorted(blosc2.open(path).keys()) == ["/c", "/g", "/g/b", "/staged"]

    def test_a_store_that_is_replaced(self, path: Path) -> None:
        for number in range(2):
            with blosc2.TreeStore(str(path), mode="w", threshold=1000 * number) as store:
                store[f"/only{number}"] = np.arange(400)
            assert list(blosc2.open(path)) == [f"/only{number}"]

    def test_an_empty_directory(self, path: Path) -> None:
        os.unlink(path / "embed.b2e")
        with blosc2.TreeStore(str(path), mode="w") as store:
            store["/a"] = [1]
        assert list(blosc2.open(path)) == ["/a"]

    @pytest.mark.usefixtures("changes_wait")
    def test_a_failed_change_leaves_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = blosc2.TreeStore(str(path), mode="a")
        store["/b"] = np.arange(300)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "no")))
            with pytest.raises(OSError, match="no"):
                store.flush()
        assert list(blosc2.open(path)) == ["/a"]
        store.discard()
        store.close()


@KINDS
def test_what_killed_writers_left_is_removed_wherever_it_is(kind: str, tmp_path: Path) -> None:
    make, suffix, how = STORES[kind]
    path = tmp_path / f"store{suffix}"
    with make(str(path), mode="w", **how) as store:
        store["/a"] = [1]
    folders = [tmp_path]
    if path.is_dir():
        folders.append(path / ".b2")
        folders[1].mkdir()
    for folder in folders:
        (folder / f".store{suffix}.0123abcd.tmp").mkdir()
        (folder / f".store{suffix}.0123abcd.tmp" / "1").touch()
        (folder / f".store{suffix}.89abcdef.tmp").write_bytes(b"x")
    assert [key for key in blosc2.open(path) if key != "/a"] == []
    assert blosc2.check(path).ok
    with make(str(path), mode="a", **how) as store:
        store.compact()
    assert names(tmp_path) == {f"store{suffix}"}
    assert not (path / ".b2").exists()


# ------------------------------------------------------------------------------------------------------- mount points
@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts something on a folder or file, if this system lets us."""
    mounted = []

    def mount(point: Path, *arguments: str) -> Path:
        try:
            done = subprocess.run(["mount", *arguments, str(point)], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            done = False
        if not done:
            pytest.skip("a file system cannot be mounted here")
        mounted.append(point)
        return point

    yield mount
    for point in reversed(mounted):
        subprocess.run(["umount", "-l", str(point)], check=True)  # whatever is still held


@pytest.mark.parametrize("how", ["bind", "tmpfs"])
@pytest.mark.parametrize("threshold", [0, 1000])
def test_a_store_that_is_a_mount_point(how: str, threshold: int, tmp_path: Path, mount: Callable[..., Path]) -> None:
    point, real = tmp_path / "store.b2d", tmp_path / "real"
    point.mkdir()
    real.mkdir()
    if how == "bind":
        mount(point, "--bind", str(real))
    else:
        mount(point, "-t", "tmpfs", "-o", "size=1m", "tmpfs")
    for mode in ("a", "w", "a"):
        with blosc2.DictStore(str(point), mode=mode, threshold=threshold) as store:
            for key in [key for key in ("/c", "/g/b") if key in store]:
                del store[key]
            change(store)
        assert sorted(blosc2.open(point)) == ["/c", "/g/b"]
        assert names(tmp_path) == {"store.b2d", "real"}
        assert names(point) <= {"embed.b2e", "c.b2nd", "g"}


@pytest.mark.parametrize("kind", ["embed", "zip", "array"])
def test_a_file_that_is_a_mount_point(kind: str, tmp_path: Path, mount: Callable[..., Path]) -> None:
    """What can be appended is; a file that would have to be replaced stays, and the error says why."""
    make, suffix, how = STORES.get(kind, (None, ".b2nd", {}))
    point, real = tmp_path / f"point{suffix}", tmp_path / f"real{suffix}"
    point.touch()
    if make is None:
        blosc2.asarray(np.arange(10), chunks=(4,), urlpath=real)
        mount(point, "--bind", str(real))
        array = blosc2.open(point, "a")
        array.resize((12,))
        array[:] = 3
        with pytest.raises(OSError, match="mount point") as caught:
            array.compact()
        assert blosc2.open(point)[:].tolist() == [3] * 12
    else:
        with make(str(real), mode="w", **how) as store:
            store["/a"] = np.arange(100)
        mount(point, "--bind", str(real))
        with make(str(point), mode="a", **how) as store:
            for number in range(30):  # far more dead bytes than live ones
                store["/a"] = np.random.default_rng(number).integers(0, 1 << 62, 300)
                store.flush()
            with pytest.raises(OSError, match="mount point") as caught:
                store.compact()
            store["/b"] = [1]
        assert sorted(blosc2.open(point)) == ["/a", "/b"]
    assert caught.value.filename == str(point)
    assert names(tmp_path) == {point.name, real.name}


@pytest.mark.parametrize("threshold", [0, 1000])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_folder_inside_that_is_a_mount_point(
    threshold: int, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file can be renamed to it: the error says so, nothing changes, and other keys go on."""
    path = tmp_path / "s.b2d"
    with blosc2.DictStore(path, mode="w", threshold=threshold) as store:
        store["/a"], store["/g/old"] = np.arange(300), np.arange(400)
    names = sorted(os.listdir(tmp_path)), sorted(os.listdir(path)), sorted(os.listdir(path / "g"))
    rename = {name: getattr(os, name) for name in ("replace", "rename")}

    def across(name: str) -> Callable[..., None]:
        def renamed(old: str, new: str) -> None:
            if "/s.b2d/g/" in os.fspath(new) and "/s.b2d/g/" not in os.fspath(old):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), old, None, new)
            rename[name](old, new)

        return renamed

    for name in rename:
        monkeypatch.setattr(os, name, across(name))
    with blosc2.DictStore(path, mode="a", threshold=threshold) as store:
        key, before = ("/g/new", None) if fresh else ("/g/old", np.arange(400))
        with pytest.raises(OtherFileSystemError, match="mount point of another file system") as caught:
            store[key] = np.arange(500)
            store.flush()
        assert caught.value.errno == errno.EXDEV
        assert str(path / "g") in str(caught.value)
        if key in store._table.pending.frames:
            store.discard()
        assert (key in store) is not fresh
        if before is not None:
            np.testing.assert_array_equal(store[key][:], before)
        with pytest.raises(OtherFileSystemError):
            store.rename("/a", "/g/a")
            store.flush()
        store.discard()
        store["/b"] = np.arange(600)
    assert sorted(os.listdir(path / "g")) == names[2]
    assert os.listdir(tmp_path) == ["s.b2d"]
    with blosc2.DictStore(path, mode="r") as store:
        assert sorted(store) == ["/a", "/b", "/g/old"]
        np.testing.assert_array_equal(store["/a"][:], np.arange(300))
        np.testing.assert_array_equal(store["/g/old"][:], np.arange(400))
    assert blosc2.check(path).ok
