"""Transactions, names, one writer, versions and dead bytes: the same for every store that has a file."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child, refused_elsewhere
from fixture_kit.isolated import environment
from store_makers import KINDS, Maker, values_of

import blosc2
from blosc2._backends import writer_lock as store_lock

POSIX = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")
FORKS = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    return Maker(request.param, tmp_path)


@pytest.fixture
def filled(make: Maker) -> Iterator[Any]:
    with make("w") as store:
        for i in range(6):
            store[f"/g/k{i}"] = np.arange(10 * i, 10 * i + 30)
        store["/small"] = [1]
        store.flush()
        yield store


def outside(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python of its own that runs some code and says when it is ready."""
    program = "import sys, time, numpy as np, blosc2\npath = sys.argv[1]\n" + code
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ transactions
def test_a_transaction_publishes_at_its_end(filled: Any, make: Maker) -> None:
    before = make.values()
    with filled.transaction() as same:
        assert same is filled
        filled["/new/a"] = [1, 2]
        filled["/g/k0"] = [5]
        del filled["/g/k1"]
        filled["/g/k2"][3] = -1
        if make.is_tree:
            filled["/g"].vlmeta["unit"] = "mm"
        assert make.values() == before
    after = make.values()
    assert after["/new/a"] == [1, 2]
    assert after["/g/k0"] == [5]
    assert "/g/k1" not in after
    assert after["/g/k2"][3] == -1
    if make.is_tree:
        with make("r") as store:
            assert store["/g"].vlmeta["unit"] == "mm"


def test_a_transaction_that_raises_changes_nothing(filled: Any, make: Maker) -> None:
    filled["/kept"] = [7]  # before the block, not published yet
    filled["/g/k5"][0] = 99
    del filled["/small"]
    leaf = filled["/g/k2"]
    published = make.values()
    pending = values_of(filled)
    with pytest.raises(ZeroDivisionError), filled.transaction():
        filled["/new/a"] = [1, 2]
        filled["/kept"] = [8]
        filled["/small"] = [2]
        leaf[3] = -1
        filled["/g/k5"][1] = 98
        del filled["/g/k1"]
        filled.rename("/g/k3", "/moved")
        if make.is_tree:
            filled["/g"].vlmeta["unit"] = "mm"
        1 / 0  # noqa: B018
    assert values_of(filled) == pending
    assert pending["/kept"] == [7]
    assert pending["/g/k5"][0] == 99
    assert make.values() == published
    if make.is_tree:
        assert dict(filled["/g"].vlmeta) == {}
    filled.flush()
    assert make.values() == pending


def test_a_transaction_of_more_than_memory_takes(filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 500)
    filled["/kept"] = np.arange(50)
    pending = values_of(filled)
    with pytest.raises(KeyError), filled.transaction():
        for i in range(10):
            filled[f"/t{i}"] = np.arange(40 + i)
        filled["/kept"] = np.arange(60)
        filled.rename("/t3", "/u3")
        raise KeyError("x")
    assert values_of(filled) == pending
    with filled.transaction():
        for i in range(10):
            filled[f"/t{i}"] = np.arange(40 + i)
        filled.rename("/t3", "/u3")
        filled.rename("/t4", "/t3")
    after = make.values()
    assert after == values_of(filled)
    assert after["/kept"] == list(range(50))
    assert after["/u3"] == list(range(43))
    assert after["/t3"] == list(range(44))
    assert "/t4" not in after


def test_what_a_transaction_refuses(filled: Any, make: Maker) -> None:
    with filled.transaction():
        for refused in (filled.flush, filled.discard, filled.compact, filled.close):
            with pytest.raises(RuntimeError, match="transaction"):
                refused()
        with pytest.raises(RuntimeError, match="one at a time"), filled.transaction():
            pass
        filled["/x"] = [1]
    assert make.values()["/x"] == [1]
    with make("r") as reader, pytest.raises(ValueError, match="read-only"):
        reader.transaction()


def test_an_empty_transaction_writes_nothing(filled: Any, make: Maker) -> None:
    before = {str(p): p.stat().st_mtime_ns for p in make.path.parent.rglob("*")}
    with filled.transaction():
        pass
    assert before == {str(p): p.stat().st_mtime_ns for p in make.path.parent.rglob("*")}


# ------------------------------------------------------------------------------------------------ names
def test_rename(filled: Any, make: Maker, source: str | None) -> None:
    value = filled["/g/k4"][:].tolist()
    held = filled["/g/k4"]
    filled.rename("/g/k4", "/other/place")
    for flush in (False, True):
        if flush:
            filled.flush()
        assert "/g/k4" not in filled
        assert filled["/other/place"][:].tolist() == value
    assert held[:].tolist() == value
    filled["/other/place"][0] = -7
    filled.close()
    after = make.values(mmap_mode=source)
    assert after["/other/place"] == [-7, *value[1:]]
    assert "/g/k4" not in after


def test_rename_in_a_circle(filled: Any, make: Maker) -> None:
    values = values_of(filled)
    filled["/g/k0"][0] = 1000  # an edit goes with its leaf
    filled.rename("/g/k0", "/t")
    filled.rename("/g/k1", "/g/k0")
    filled.rename("/g/k2", "/g/k1")
    filled.rename("/t", "/g/k2")
    filled.rename("/small", "/s1")
    filled.rename("/s1", "/s2")
    filled["/small"] = [2]
    filled.flush()
    assert make.values() == {
        **values, "/g/k0": values["/g/k1"], "/g/k1": values["/g/k2"], "/g/k2": [1000, *values["/g/k0"][1:]],
        "/s2": [1], "/small": [2],
    }  # fmt: skip
    filled.rename("/s2", "/s2")
    assert not filled._table.has_changes


def test_what_rename_refuses(filled: Any, make: Maker) -> None:
    with pytest.raises(KeyError, match="none"):
        filled.rename("/none", "/x")
    for taken in ("/g/k1", "/small"):
        with pytest.raises(ValueError, match=r"taken|already"):
            filled.rename("/g/k0", taken)
    for bad in ("/a/../b", "/a/", "", "/a\\b", "/C:x", "/.b2/x"):
        with pytest.raises(ValueError, match=r"[Kk]ey"):
            filled.rename("/g/k0", bad)
    assert not filled._table.has_changes
    with make("r") as reader, pytest.raises(ValueError, match="read-only"):
        reader.rename("/g/k0", "/x")


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
@pytest.mark.parametrize("threshold", [0, 100, None])
def test_rename_a_group(tmp_path: Path, suffix: str, threshold: int | None) -> None:
    path = str(tmp_path / f"tree{suffix}")
    with blosc2.TreeStore(path, mode="w", threshold=threshold) as tree:
        for key in ("/a/b/x", "/a/b/c/y", "/a/bb", "/z"):
            tree[key] = np.full(40, len(key))
        tree["/a/b"].vlmeta["unit"] = "mm"
        tree.flush()
        tree["/a/b/x"][0] = -1
        tree.rename("/a/b", "/new/b2")
        for _ in range(2):
            assert set(tree) == {"/a", "/a/bb", "/z", "/new", "/new/b2", "/new/b2/x", "/new/b2/c", "/new/b2/c/y"}
            assert tree["/new/b2"].vlmeta["unit"] == "mm"
            assert tree["/new/b2/x"][:2].tolist() == [-1, 6]
            assert tree["/new"].get_children("/") == ["/b2"]
            tree.flush()
        for old, new in (("/new", "/new/q"), ("/new", "/z"), ("/new", "/a"), ("/new", "/z/inside"), ("/none", "/q")):
            with pytest.raises((ValueError, KeyError)):
                tree.rename(old, new)
        tree["/new"].rename("b2/c", "c")
        assert "/new/c/y" in tree
        with pytest.raises(ValueError, match=r"too long|segments"):
            tree.rename("/new", "/" + "n" * 200 + "/m" * 400)
    with blosc2.TreeStore(path, mode="r") as tree:
        assert set(tree) == {"/a", "/a/bb", "/z", "/new", "/new/b2", "/new/b2/x", "/new/c", "/new/c/y"}
        assert list(tree.walk("/new")) == [("/new", ["b2", "c"], []), ("/new/b2", [], ["x"]), ("/new/c", [], ["y"])]


# ------------------------------------------------------------------------------------------------ one writer
@POSIX
@FORKS
def test_a_second_writer_is_refused(filled: Any, make: Maker) -> None:
    refused_elsewhere(lambda: make("a"))
    refused_elsewhere(lambda: blosc2.open(make.path, mode="a"))
    other = blosc2.TreeStore if type(filled) is blosc2.DictStore else blosc2.DictStore  # which does not share the store
    with pytest.raises(blosc2.StoreLockedError, match=rf"another handle of this process \({os.getpid()}\)"):
        other(make.path, mode="a")
    assert len(make.values()) == 7  # readers are not kept from anything
    filled.close()
    make("a").close()


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_mode_w_takes_the_path_over(
    waiting: bool, linked: bool, filled: Any, make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell of a notebook runs twice: the older handle is closed, without its changes."""
    before = values_of(filled)
    key = next(iter(before))
    held = filled[key]
    if waiting:
        filled["/more"] = [1]
        held[0] = 7
    if linked:
        (tmp_path / "link").symlink_to(make.path)
        monkeypatch.setattr(make, "path", tmp_path / "link" if make.path.suffix != ".b2d" else make.path)
    with make("w") as store:
        assert filled.closed
        for act in (lambda: filled["/more"], lambda: filled.update({"/x": [1]}), filled.flush, lambda: list(filled)):
            with pytest.raises(blosc2.exceptions.ClosedStoreError, match="opened with mode='w' in this process"):
                act()
        with pytest.raises((ValueError, blosc2.StoreLockedError)):
            held[0] = 8
        assert held[:].tolist() == before[key]
        store["/new"] = [2]
        filled.close()
    assert make.values() == {"/new": [2]}


def test_mode_w_does_not_take_what_is_being_changed(make: Maker) -> None:
    with make("w") as store:
        with store.transaction():
            with pytest.raises(blosc2.StoreLockedError):
                make("w")
            store["/a"] = [1]
        store["/b"] = [2]
    assert make.values() == {"/a": [1], "/b": [2]}
    with make("a", locking=True) as store:
        store["/c"] = [3]
        with make("w", locking=True) as other:
            other["/d"] = [4]
        assert list(store) == ["/d"]


@POSIX
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_mode_w_of_another_process_is_refused(filled: Any, make: Maker) -> None:
    before = values_of(filled)
    filled["/more"] = [1]

    def replace() -> None:
        with pytest.raises(blosc2.StoreLockedError):
            make("w")
        assert not filled.closed

    in_child(replace)
    code = "try:\n    blosc2.open(path, mode='w')\nexcept blosc2.StoreLockedError:\n    print('refused')"
    with outside(code, str(make.path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "refused\n"
    filled.close()
    assert make.values() == {**before, "/more": [1]}


@POSIX
def test_the_holder_in_another_process_is_named(filled: Any, make: Maker) -> None:
    filled.close()
    code = "store = blosc2.open(path, mode='a')\nprint('ready', flush=True)\nsys.stdin.read()"
    with outside(code, str(make.path)) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "ready\n"
        named = f"process {other.pid}" if sys.platform == "linux" else "process"
        with pytest.raises(blosc2.StoreLockedError, match=named):
            make("a")
        begin = time.monotonic()
        with pytest.raises(blosc2.StoreLockedError):
            make("a", timeout=0.2)
        assert time.monotonic() - begin >= 0.2
        threading.Timer(0.2, other.stdin.close).start()
        with make("a", timeout=60) as store:
            store["/later"] = [1]
    assert make.values()["/later"] == [1]


@POSIX
def test_a_holder_whose_turn_does_not_end_is_named(filled: Any, make: Maker) -> None:
    filled.close()
    code = (
        "store = blosc2.open(path, mode='a', locking=True)\n"
        "with store.transaction():\n    store['/x'] = [1]\n    print('ready', flush=True)\n    sys.stdin.read()"
    )
    with outside(code, str(make.path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        named = rf"; process {other.pid} \(.+\) has the lock now" if sys.platform == "linux" else "in time"
        with (
            pytest.raises(blosc2.StoreLockedError, match=f"not this one's turn in time.*{named}"),
            make("a", locking=True, timeout=0.2) as store,
        ):
            store["/y"] = [2]
    assert "/y" not in make.values()


@POSIX
def test_a_killed_writer_leaves_no_lock(filled: Any, make: Maker) -> None:
    filled.close()
    code = "store = blosc2.open(path, mode='a')\nstore['/x'] = [1]\nprint('ready', flush=True)\ntime.sleep(60)"
    with outside(code, str(make.path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        other.send_signal(signal.SIGKILL)
        other.wait()
        with make("a") as store:
            assert ("/x" in store) == make.at_once
            store["/y"] = [2]
    assert make.values()["/y"] == [2]


@POSIX
@FORKS
def test_the_lock_goes_over_to_a_new_file(make: Maker) -> None:
    for mode in ("w", "w"):
        store = make(mode)
        store["/a"] = [1]
        store.flush()  # another file, or a directory that was not there before
        refused_elsewhere(lambda: make("a"))
        store.compact()
        refused_elsewhere(lambda: make("a"))
        store.close()
    make("a").close()


@POSIX
@FORKS
def test_two_that_make_the_same_store(make: Maker) -> None:
    first = make("w")
    refused_elsewhere(lambda: make("a"))
    second = make("a", exclusive=False)  # who goes without the lock is found out
    first["/a"] = [1]
    first.flush()
    with pytest.raises(OSError, match=r"somebody else|open for writing"):
        second["/b"] = [2]
        second.flush()
    second.discard()
    second.close()
    first["/c"] = [3]
    first.close()
    assert make.values() == {"/a": [1], "/c": [3]}


def test_a_failed_open_keeps_no_lock(filled: Any, make: Maker) -> None:
    filled.close()
    with pytest.raises(FileExistsError):
        make("x")
    make("a").close()


@POSIX
def test_file_systems_without_locks(filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.close()

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    before = {str(p): p.stat().st_mtime_ns for p in make.path.parent.rglob("*")}
    monkeypatch.setattr(store_lock.fcntl, "flock", flock)
    with pytest.raises(OSError, match="exclusive=False"):
        make("a")
    assert before == {str(p): p.stat().st_mtime_ns for p in make.path.parent.rglob("*")}
    with make("a", exclusive=False) as store:
        store["/x"] = [1]
    assert make.values()["/x"] == [1]
    blosc2.open(make.path, mode="a", exclusive=False).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_cannot_write(filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 100)
    filled["/pending"] = np.arange(100)
    leaf = filled["/g/k1"]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            tries = (
                lambda: filled.__setitem__("/x", [1]), lambda: filled.__delitem__("/small"), filled.flush,
                filled.transaction, lambda: leaf.__setitem__(0, 5), filled.discard, filled.compact,
            )  # fmt: skip
            refused = 0
            for attempt in tries:
                try:
                    attempt()
                except blosc2.StoreLockedError as error:
                    refused += f"process {os.getppid()}" in str(error)
            right = leaf[1] == 11 and filled["/pending"][5] == 5
            with filled:
                pass
            code = 0 if refused == len(tries) and right and filled.closed else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    refused_elsewhere(lambda: make("a"))
    filled.close()
    assert make.values()["/pending"] == list(range(100))
    make("a").close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_lock(filled: Any, make: Maker) -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    try:
        filled.close()
        make("a").close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# ------------------------------------------------------------------------------------------------ versions
@contextmanager
def reading(make: Maker, source: str | None) -> Iterator[Any]:
    with make("r", mmap_mode=source) as reader:
        yield reader


@pytest.mark.local
@pytest.mark.usefixtures("changes_wait")
def test_refresh(filled: Any, make: Maker, source: str | None) -> None:
    with reading(make, source) as reader:
        assert not reader.refresh()
        held = reader["/g/k1"]
        old = values_of(reader)
        filled["/g/k1"] = [1]
        filled["/more"] = [2]
        del filled["/g/k0"]
        filled.flush()
        if not make.is_directory:  # whose leaves are files that are opened one by one
            assert values_of(reader) == old
        assert held[:].tolist() == old["/g/k1"]
        assert reader.refresh()
        assert not reader.refresh()
        assert values_of(reader) == values_of(filled)
        assert held[:].tolist() == old["/g/k1"]
        filled.compact()
        assert values_of(reader) == values_of(filled)
        reader.refresh()
        assert values_of(reader) == values_of(filled)
    assert not filled.refresh()
    filled["/x"] = [1]
    with pytest.raises(ValueError, match="unpublished"):
        filled.refresh()


@pytest.mark.local
def test_a_reader_beside_a_writer_that_commits_and_compacts(make: Maker, source: str | None) -> None:
    code = """
store = blosc2.open(path, mode='a')
print('ready', flush=True)
for version in range(1, 13):
    with store.transaction():
        for i in range(20):
            store[f'/k{i}'] = np.full(500 + i, version)
    if version % 4 == 0:
        store.compact()
store.close()
print('done', flush=True)
"""
    with make("w") as store:
        for i in range(20):
            store[f"/k{i}"] = np.zeros(500 + i, "i8")
    readers = [make("r", mmap_mode=source) for _ in range(3)]
    first = [readers[0][f"/k{i}"] for i in range(20)]
    with outside(code, str(make.path)) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        while writer.poll() is None:
            if not make.is_directory:
                assert {int(v) for i in range(20) for v in np.unique(readers[1][f"/k{i}"][:])} == {0}
            # A leaf is always of one version.
            readers[2].refresh()
            for i in range(20):
                assert len(np.unique(readers[2][f"/k{i}"][:])) == 1
        assert writer.wait() == 0
    assert all((leaf[:] == 0).all() for leaf in first)
    readers[2].refresh()
    assert {int(readers[2][f"/k{i}"][5]) for i in range(20)} == {12}
    for reader in readers:
        reader.close()


@pytest.mark.usefixtures("changes_wait")
def test_without_waiting_for_the_disk(filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    for name in ("fsync", "fdatasync", "sync"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, lambda *a, name=name: synced.append(name))
    filled["/x"] = [1]
    filled["/g/k0"] = np.arange(100)
    filled.flush(durable=False)
    filled["/y"] = [2]
    filled.close(durable=False)
    assert synced == []
    assert make.values()["/y"] == [2]
    with make("a") as store:
        store["/z"] = [3]
    assert synced != []


# ------------------------------------------------------------------------------------------------ dead bytes
def test_compact(make: Maker, source: str | None) -> None:
    rng = np.random.default_rng(1)
    with make("w") as fresh:
        for i in range(0, 200, 2):
            fresh[f"/g{i % 3}/k{i}"] = rng.integers(0, 1000, 30 + i)
        fresh.flush()
        size, values = fresh._table.backend.size(), values_of(fresh)
    with make("w") as store:
        for round_ in range(8):
            for i in range(200):
                key = f"/g{i % 3}/k{i}"
                store[key] = np.asarray(values[key]) if i % 2 == 0 and round_ == 7 else rng.integers(0, 9, 25 + i)
            store.flush()
        for i in range(1, 200, 2):
            del store[f"/g{i % 3}/k{i}"]
        seen: list[tuple[int, int]] = []
        store.flush()
        reader = make("r", mmap_mode=source)
        before, after = store.compact(lambda done, total: seen.append((done, total)))
        assert after <= before
        assert after <= 1.05 * size
        assert after == store._table.backend.size()
        assert seen[-1][0] == seen[-1][1] > 0
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert values_of(store) == values
        assert values_of(reader) == values
        reader.close()
        store["/after"] = [1]
    assert make.values(mmap_mode=source) == {**values, "/after": [1]}
    assert os.listdir(make.path.parent) == [make.path.name]


def test_compacting_that_fails_changes_nothing(filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(40):
        filled["/g/k1"] = np.arange(i)
        filled.flush()
    values, files = values_of(filled), sorted(str(p) for p in make.path.parent.rglob("*"))
    replace = os.replace

    def failing(old: str, new: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", failing)
    try:
        filled.compact()
    except OSError:
        pass
    else:
        assert make.is_directory  # its leaves are written whole, so there may be nothing to do
    monkeypatch.setattr(os, "replace", replace)
    assert values_of(filled) == make.values() == values
    assert sorted(str(p) for p in make.path.parent.rglob("*")) == files
    filled.compact()
    assert make.values() == values


def test_new_files_obey_the_umask(make: Maker) -> None:
    old = os.umask(0o027)
    try:
        with make("w") as store:
            store["/a"] = np.arange(100)
            store["/b"] = [1]
            store.compact()
    finally:
        os.umask(old)
    for path in [make.path, *make.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


# ------------------------------------------------------------------------------------------------ what others do
@pytest.mark.parametrize("how", ["deleted", "replaced", "truncated", "grown"])
@pytest.mark.usefixtures("changes_wait")
def test_a_store_that_others_touch_while_it_is_open(filled: Any, make: Maker, tmp_path: Path, how: str) -> None:
    values = make.values()
    target = make.path / "embed.b2e" if make.is_directory else make.path
    if how == "deleted":
        target.unlink()
    elif how == "replaced":
        other = tmp_path / "other"
        other.write_bytes(target.read_bytes())
        os.replace(other, target)
    elif how == "truncated":
        os.truncate(target, target.stat().st_size // 2)
    else:
        with target.open("ab") as file:
            file.write(b"more")
    before = {str(p): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    filled["/new"] = np.arange(10)
    if how != "truncated":  # else its bytes may be gone
        filled["/g/k1"][0] = 5
    del filled["/small"]
    with pytest.raises((OSError, ValueError)) as caught:
        filled.flush()
    assert str(make.path) in str(caught.value)
    filled.discard()
    assert before == {str(p): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    filled.close()
    if how in ("replaced", "grown") and not (make.is_directory and how == "grown"):
        assert make.values() == values


def test_a_reader_of_a_file_that_was_cut(filled: Any, make: Maker) -> None:
    filled["/large"] = np.random.default_rng(1).integers(0, 1 << 60, 200_000)
    filled.close()
    reader = make("r")
    file = make.path / "large.b2nd" if make.is_directory else make.path
    if not file.exists():
        file = make.path / "embed.b2e"
    leaf = reader["/large"]
    os.truncate(file, 1000)
    with pytest.raises((OSError, ValueError)) as caught:
        leaf[:]
    assert file.name in str(caught.value)
    reader.close()
