"""A child that is forked in the middle of something reads what it inherited, waits for nobody, and changes nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child
from fixture_kit.lines import AtLine, lines_of

import blosc2
from blosc2._core.io import sharing
from blosc2._core.io.sharing import Lock, before_fork
from blosc2._files.owner import Owner
from blosc2._frames.changeable import FileHandle

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    # from Python 3.12 on; that it works is what is tested here
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

STORES = {
    "e": (blosc2.EmbedStore, "store.b2e", {}),
    "z": (blosc2.TreeStore, "store.b2z", {}),
    "zt": (blosc2.TreeStore, "store.b2z", {"threshold": 2000}),
    "d": (blosc2.DictStore, "store.b2d", {}),
    "dt": (blosc2.TreeStore, "store.b2d", {"threshold": 2000}),
}


@contextmanager
def elsewhere(context: AbstractContextManager[Any]) -> Iterator[None]:
    """Have another thread be in a context as long as this one."""
    inside, enough = threading.Event(), threading.Event()

    def stay() -> None:
        with context:
            inside.set()
            enough.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert inside.wait(60)
        yield
    finally:
        enough.set()
        thread.join()


# ---------------------------------------------------------------------- locks
def test_a_lock_of_another_thread_is_free_in_a_child() -> None:
    lock = Lock()

    def take() -> None:
        with lock, lock:
            assert not lock.inherited
        with elsewhere(lock):
            pass

    with elsewhere(lock):
        in_child(take)
        in_child(lambda: in_child(take))
    take()


def test_a_lock_of_the_thread_that_forks_stays_with_it() -> None:
    lock = Lock()

    def go_on() -> None:
        assert lock.inherited
        with lock:
            assert lock.inherited
        lock.__exit__(None, None, None)
        assert not lock.inherited
        with elsewhere(lock):
            pass
        with lock:
            assert not lock.inherited

    with lock:
        assert not lock.inherited
        in_child(go_on)
        with lock:
            assert not lock.inherited


def test_a_lock_is_for_one_thread_at_a_time() -> None:
    lock, count, held = Lock(), [0], []

    def work() -> None:
        for _ in range(200):
            with lock, lock:
                held.append(None)
                assert len(held) == 1
                count[0] += 1
                held.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == [800]


# ---------------------------------------------------------------------- what is read under a lock
@pytest.mark.parametrize("kind", STORES)
def test_a_child_reads_a_store_that_another_thread_was_changing(kind: str, tmp_path: Path, source: str | None) -> None:
    make, name, how = STORES[kind]
    with make(str(tmp_path / name), mode="w", **how) as store:
        store["/a"] = np.arange(500)
        store["/g/b"] = np.arange(5)
    store = make(str(tmp_path / name), mode="a", mmap_mode=None, **how)
    store["/g/new"] = np.arange(7)

    def read() -> None:
        assert sorted(key for key in store if key != "/g") == ["/a", "/g/b", "/g/new"]
        assert "/g/new" in store
        assert "/none" not in store
        np.testing.assert_array_equal(store["/a"][:], np.arange(500))
        np.testing.assert_array_equal(store.read("/g/new"), np.arange(7))
        assert [len(items) for items in store.read_many(["/g/b", "/g/new"])] == [5, 7]
        with pytest.raises(blosc2.StoreLockedError, match=f"process {os.getppid()}"):
            store["/x"] = 1
        with pytest.raises(blosc2.StoreLockedError):
            store.flush()
        store.close()

    with elsewhere(store._table.lock):
        in_child(read)
    store.close()
    with blosc2.open(str(tmp_path / name), mmap_mode=source) as store:
        np.testing.assert_array_equal(store["/g/new"][:], np.arange(7))


class Stops(AtLine):
    """Waits before the n-th line of the package."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.half, self.enough = threading.Event(), threading.Event()

    def come(self) -> None:
        self.half.set()
        self.enough.wait(60)


@pytest.mark.parametrize("first", range(4))
def test_a_child_finds_groups_where_a_change_was_half_done(tmp_path: Path, first: int) -> None:
    """Another thread was at any line of it: the group is there with its leaf, or it is not."""
    store = blosc2.TreeStore(str(tmp_path / "tree.b2z"), mode="w")
    store["/first/x"] = store["/second/x"] = [1]
    lines = lines_of(lambda: store.__setitem__("/third/x", [1]))
    for at in range(3 * first, lines, 12):
        group = f"/g{at:03}"

        def change(stops: Stops, group: str = group) -> None:
            with stops:
                store[group + "/x"] = [1]

        def read(group: str = group) -> None:
            found = group + "/x" in store
            assert (group in store) == found
            assert list(store.get_subtree(group)) == ["/x"] * found
            assert [key for key in store if key.startswith(group)] == [group, group + "/x"] * found
            assert len(store) == len(list(store))

        stops = Stops(at)
        thread = threading.Thread(target=change, args=(stops,))
        thread.start()
        try:
            assert stops.half.wait(60)
            in_child(read)
        finally:
            stops.enough.set()
            thread.join()
    store.discard()
    store.close()


def arrays(tmp_path: Path) -> dict[str, Callable[[], Any]]:
    return {
        "memory": lambda: blosc2.zeros(100, chunks=(10,)),
        "file": lambda: blosc2.zeros(100, chunks=(10,), urlpath=tmp_path / "x.b2nd"),
        "directory": lambda: blosc2.zeros(100, chunks=(10,), urlpath=tmp_path / "x.b2nd", contiguous=False),
        "locking": lambda: blosc2.zeros(100, chunks=(10,), urlpath=tmp_path / "x.b2nd", locking=True),
    }


@pytest.mark.parametrize("kind", ["memory", "locking"])
def test_a_child_reads_and_changes_an_array_that_another_thread_was_changing(kind: str, tmp_path: Path) -> None:
    array = arrays(tmp_path)[kind]()

    def use() -> None:
        assert array[5] == 0
        array[5] = 1
        assert array[5] == 1

    with elsewhere(array.schunk._handle._lock):
        in_child(use)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_child_changes_nothing_through_the_handle_of_its_parent(
    kind: str, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would make the handle of the parent stale. What it opens itself, it changes like any other process."""
    array = arrays(tmp_path)[kind]()
    path = tmp_path / "x.b2nd"
    if waits and kind == "file":
        monkeypatch.setattr(FileHandle, "is_due", False)
        array[7] = 9.0

    def use() -> None:
        assert array[5] == 0
        assert array[7] == (9 if waits and kind == "file" else 0)
        for change in (
            lambda: array.__setitem__(5, 1), lambda: array.append(np.ones(3)), lambda: array.append(np.ones(50)),
            lambda: array.resize((20,)), lambda: array.vlmeta.__setitem__("k", 1), lambda: array.compact(),
            lambda: array.transaction().__enter__(), lambda: array.schunk.append_data(np.ones(10)),
            lambda: array.schunk.update_data(0, np.ones(10)),
        ):  # fmt: skip
            before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
            with pytest.raises(blosc2.StoreLockedError, match=f"process {os.getppid()}"):
                change()
            assert before == {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
            assert array.shape == (100,)
        array.flush()
        assert array[5] == 0

    # What waits is published before the fork, unless another thread has the array for long.
    with nullcontext() if waits else elsewhere(array.schunk._handle._lock):
        in_child(use)
    array[5] = 2
    assert array[5] == 2
    array.flush()

    def change_own() -> None:
        blosc2.open(path, mode="a").append(np.ones(1))

    in_child(change_own)
    assert len(blosc2.open(path)) == 101


@pytest.mark.parametrize("kind", ["file", "directory", "locking"])
def test_an_update_that_was_begun_before_the_fork_is_not_ended_by_the_child(kind: str, tmp_path: Path) -> None:
    array = arrays(tmp_path)[kind]()

    class Forks:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            in_child(finish)
            return np.ones(100)

    def finish() -> None:
        with pytest.raises(blosc2.StoreLockedError, match=f"process {os.getppid()}"), array.schunk._handle.editing():
            array[:] = 2.0

    with array.schunk._handle.editing():
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        array_like = Forks()
        value = np.asarray(array_like)
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        array[:] = value
    assert (array[:] == 1).all()
    assert (blosc2.open(tmp_path / "x.b2nd")[:] == 1).all()


def test_what_a_process_does_before_it_forks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each time; what fails keeps neither the others nor the child from going on."""
    monkeypatch.setattr(sharing, "_preparations", [])
    found: list[int] = []
    before_fork(lambda: found.append(1 // 0))
    before_fork(lambda: found.append(os.getpid()))
    here = os.getpid()
    for count in (1, 2):
        in_child(lambda: found.remove(here))  # which raises where it was not done
        assert found == [here] * count
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_file_that_cannot_be_closed_leaves_no_other_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child, each of the files that its parent writes to leads nowhere."""
    parent, real = os.getpid(), os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        if os.getpid() != parent and descriptor in numbers:
            raise OSError(errno.EIO, "Input/output error")

    files = [Owner().open_raw(str(tmp_path / name), "xb") for name in "abc"]
    numbers = [file.fileno() for file in files]

    def write() -> None:
        for file in files:
            file.write(b"child")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", close)
        in_child(write)
    for file in files:
        file.close()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"", b"", b""]


def test_a_child_in_the_block_of_a_common_lock(tmp_path: Path) -> None:
    """It reads, is refused changes, and leaves the lock with its parent."""
    array = blosc2.zeros(3, urlpath=tmp_path / "x.b2nd", locking=True)
    block = array.holding_lock()

    def leave() -> None:
        assert array[0] == 1
        with pytest.raises(blosc2.StoreLockedError, match=f"process {os.getppid()}"):
            array[0] = 5
        block.__exit__(None, None, None)
        assert array[0] == 1

    with block:
        array[0] = 1
        in_child(leave)
        array[1] = 2
    other = blosc2.open(tmp_path / "x.b2nd", "a", locking=True)
    other[2] = 3
    assert list(array[:]) == [1, 2, 3]


def test_what_was_half_changed_in_memory_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer of an array in memory may hold the chunks of a version that never came."""
    array = blosc2.asarray(np.arange(40_000), chunks=(5_000,), cparams={"clevel": 0})
    handle = array.schunk._handle
    values = np.arange(40_000)
    stopped = 0

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    for round in range(12):
        values[round * 3_000 : round * 3_000 + 100] = -round
        array[round * 3_000 : round * 3_000 + 100] = np.full(100, -round)
        monkeypatch.setattr(type(handle), "_adopt", stop)
        with pytest.raises(KeyboardInterrupt):
            array[:20_000] = 7
        monkeypatch.undo()
        stopped += 1
        np.testing.assert_array_equal(array[:], values)
    assert stopped == 12
