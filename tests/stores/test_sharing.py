"""Stores with ``locking=True``: handles that change one store in turns, and follow each other."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker, values_of

import blosc2
from blosc2._files import locks
from blosc2.exceptions import ClosedStoreError, StoreLockedError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")


@pytest.fixture
def both(make: Maker) -> Any:
    """Two handles of one new store."""
    with make("w", locking=True) as first, make(locking=True) as second:
        yield first, second


def test_each_change_is_seen_by_the_others(make: Maker, both: Any) -> None:
    first, second = both
    with make("r", locking=True) as reader:
        expected: dict[str, list[Any]] = {}

        def compare() -> None:
            leaves = {key: values for key, values in expected.items() if values is not None}
            for store in (first, second, reader):
                assert values_of(store) == leaves
                assert all(key in store for key in leaves)
                assert "/none" not in store
                assert store.get("/none") is None
                found = {key: leaf[:].tolist() for key, leaf in store.items() if isinstance(leaf, blosc2.NDArray)}
                assert found == leaves
                assert len(list(store.values())) == len(store) == len(list(store.keys()))
            assert make.values() == leaves  # a handle that is opened now, without locking

        compare()
        for n, store in enumerate((first, second, second, first)):
            store[f"/{n % 2}/leaf{n}"] = np.arange(n + 1)
            expected[f"/{n % 2}/leaf{n}"] = list(range(n + 1))
            compare()
        first["/0/leaf0"] = np.arange(200)  # replaced, and in the stores of two tiers moved to the other
        expected["/0/leaf0"] = list(range(200))
        compare()
        for store, act in ((second, "update"), (first, "write_many")):
            getattr(store, act)({f"/{act}/a": [1, 2], f"/{act}/b": np.arange(300), "/0/leaf2": [9]})
            expected |= {f"/{act}/a": [1, 2], f"/{act}/b": list(range(300)), "/0/leaf2": [9]}
            compare()
        second.rename("/update/b", "/x/b")
        expected["/x/b"] = expected.pop("/update/b")
        compare()
        for key in ("/update/a", "/x/b"):
            assert second.pop(key)[:].tolist() == expected.pop(key)
            compare()
        for store in (first, second):
            assert store.setdefault("/u/c", np.full(1, store is second, "i8"))[:].tolist() == [0]
            expected["/u/c"] = [0]
            compare()
        before, after = second.compact()
        assert after <= before
        key, leaf = first.popitem()
        assert leaf[:].tolist() == expected.pop(key)
        compare()
        second.clear()
        expected.clear()
        compare()
    assert blosc2.check(make.path).ok


def test_leaves_follow_and_are_changed_in_turns(make: Maker, both: Any) -> None:
    first, second = both
    first["/a"] = np.arange(5)
    one, other = first["/a"], second["/a"]
    assert one.schunk._handle.locking
    one[0] = 7
    assert other[0] == 7
    other[1] = 8
    assert one[:].tolist() == make.values()["/a"] == [7, 8, 2, 3, 4]
    other.vlmeta["x"] = 1
    assert one.vlmeta["x"] == first["/a"].vlmeta["x"] == 1
    one.resize((6,))
    assert other[:].shape == (6,)
    other.append(np.arange(2))
    assert one[:].tolist() == [7, 8, 2, 3, 4, 0, 0, 1]
    with one.holding_lock():
        one[0] = one[0] + 1
        one[1] = one[1] + 1
        assert make.values()["/a"][:2] == [7, 8]
    assert make.values()["/a"][:2] == [8, 9]
    second["/a"] = np.zeros(3)  # the leaf of another handle shows what its key has now
    assert one[:].tolist() == [0, 0, 0]
    assert first["/a"] is one
    del second["/a"]
    with pytest.raises(ClosedStoreError, match="given another value"):
        one[0] = 1
    assert one[:].tolist() == [0, 0, 0]
    assert make.values() == {}


def test_a_reader_that_follows_keeps_the_leaves_that_it_has(make: Maker) -> None:
    with make("w", locking=True) as store, make("r", locking=True) as reader:
        store["/a"] = np.arange(1000)
        leaf = reader["/a"]
        store["/a"] = np.arange(5)
        np.testing.assert_array_equal(leaf[:], np.arange(1000))
        assert reader["/a"].shape == (5,)
        assert reader.read("/a").tolist() == [0, 1, 2, 3, 4]
        assert reader["/a"][:].tolist() == reader.read_many(["/a", "/a"])[0].tolist()
        store["/b"] = np.arange(5)
        assert reader.read_many(["/a", "/b"]).shape == (2, 5)
        again = pickle.loads(pickle.dumps(reader))
        store["/c"] = [1]
        assert "/c" in again
        again.close()
        assert not reader.refresh() or "/c" in reader
        assert not reader.refresh()


def test_a_handle_without_locking_keeps_its_version(make: Maker, both: Any) -> None:
    first, _ = both
    first["/a"] = [1]
    with make("r") as reader:
        assert list(reader) == ["/a"]
        first["/b"] = [2]
        if not make.is_directory or make.cls is not blosc2.DictStore:
            assert list(reader) == ["/a"]
        assert reader.refresh() or "/b" in reader
        assert list(reader) == ["/a", "/b"]


def test_transactions(make: Maker, both: Any) -> None:
    first, second = both
    with make("r", locking=True) as reader:
        first["/count"] = np.zeros(1, "i8")
        held = second["/count"]
        with first.transaction():
            first["/count"][0] += 5
            first["/other"] = [1]
            if not make.is_directory:
                assert values_of(reader) == {"/count": [0]}
            assert first["/count"][0] == 5
        assert values_of(reader) == values_of(second) == {"/count": [5], "/other": [1]}
        with second.transaction():
            held[0] = held[0] + 1  # which was opened before
        assert first["/count"][0] == 6
        before = make.values()
        with pytest.raises(ZeroDivisionError), first.transaction():
            first["/count"][0] = 0
            first["/new"] = [1]
            del first["/other"]
            _ = 1 / 0
        assert values_of(first) == values_of(second) == values_of(reader) == make.values() == before
        with first.transaction(), pytest.raises(RuntimeError, match="one at a time"):
            first.transaction().__enter__()
        second["/other"] = [2]  # the lock is free
        assert first["/other"][0] == 2


def test_a_change_that_is_refused_changes_nothing_and_lets_go(make: Maker, both: Any) -> None:
    first, second = both
    first["/a"] = np.arange(3)
    before = make.values()

    def values() -> Any:
        yield "/b", [1]
        raise ZeroDivisionError

    with pytest.raises(KeyError):
        del first["/none"]
    with pytest.raises(KeyError):
        first.pop("/none")
    with pytest.raises(ValueError, match="//"):
        first["//"] = [1]
    with pytest.raises((TypeError, ValueError)):
        first["/b"] = object()
    with pytest.raises(ZeroDivisionError):
        first.update(values())
    with pytest.raises(ZeroDivisionError):
        first.write_many(values())
    with pytest.raises(ValueError, match="taken"):
        first.rename("/a", "/a") or first.update({"/c": [1]}) or first.rename("/a", "/c")
    del first["/c"]
    with pytest.raises(IndexError):
        first["/a"][7] = 1
    assert values_of(first) == values_of(second) == make.values() == before
    second["/z"] = [1]
    assert "/z" in first


def test_a_change_that_leaves_no_trace_in_the_time(make: Maker, both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = both
    now = time.time_ns() + 10**12
    monkeypatch.setattr("blosc2._stores.shared_session.file_identity", lambda path: (1, 2, 3, now))
    assert "/a" not in second
    first["/a"] = [1]
    assert "/a" in second
    del second["/a"]
    assert "/a" not in first


def test_holding_a_leaf_publishes_what_it_changed(make: Maker, both: Any) -> None:
    """As that of an array in a file of its own does, also when it raises."""
    first, second = both
    first["/a"] = [1, 2]
    with pytest.raises(ZeroDivisionError), first["/a"].holding_lock() as _:
        first["/a"][0] = 5
        _ = 1 / 0
    assert second["/a"][:].tolist() == make.values()["/a"] == [5, 2]
    leaf = second["/a"].schunk
    leaf.lock()
    leaf.unlock()
    with pytest.raises(RuntimeError, match="without lock"):
        leaf.unlock()


def test_a_publication_that_fails_is_dropped(make: Maker, both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = both
    first.update({"/a": np.arange(3), "/leaf": np.arange(3)})
    leaf = first["/leaf"]
    before = make.values()

    def fail(*given: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "link", "rename"):
            patch.setattr(os, name, fail)
        with pytest.raises(OSError, match="No space left"):
            first.update({"/b": np.arange(7), "/a": np.arange(400)})
        with pytest.raises(OSError, match="No space left"):
            leaf[0] = 100
    assert not first._table.has_changes
    assert values_of(first) == values_of(second) == make.values() == before
    assert leaf[:].tolist() == [0, 1, 2]
    second["/c"] = [3]
    first["/b"] = [2]
    assert values_of(second) == make.values() == {**before, "/b": [2], "/c": [3]}
    assert blosc2.check(make.path).ok


def test_a_handle_that_holds_the_lock_makes_others_wait(make: Maker) -> None:
    with make("w", locking=True) as shared:
        shared["/a"] = [1]
    alone = make("a")
    alone["/b"] = [2]
    with make(locking=True, timeout=0.1) as shared:  # it opens all the same
        began = time.monotonic()
        with pytest.raises(StoreLockedError, match=r"another handle of this process.*timeout=") as raised:
            shared["/c"] = [3]
        assert make.path.name in str(raised.value)
        assert time.monotonic() - began >= 0.1
        with pytest.raises(StoreLockedError):
            shared["/a"][0] = 4
        with pytest.raises(StoreLockedError):
            shared.transaction().__enter__()
        assert shared["/a"][0] == 1
        threading.Timer(0.2, alone.close).start()
        with make(locking=True) as patient:
            patient["/c"] = [3]
        shared["/d"] = [4]
        # And it does not hold the lock itself.
        with make("a") as alone:
            alone["/e"] = [5]
            with pytest.raises(StoreLockedError):
                shared["/f"] = [6]
        assert values_of(shared) == {"/a": [1], "/b": [2], "/c": [3], "/d": [4], "/e": [5]}


def test_a_transaction_makes_others_wait(make: Maker) -> None:
    with make("w", locking=True) as first, make(locking=True, timeout=0.1) as second:
        first["/a"] = [1]
        caught: list[BaseException] = []

        def change() -> None:
            try:
                second["/b"] = [2]
            except StoreLockedError as error:
                caught.append(error)

        with first.transaction():
            thread = threading.Thread(target=change)
            thread.start()
            thread.join()
            first["/c"] = [3]
            with pytest.raises(StoreLockedError, match="would wait for itself"):
                second["/b"] = [2]
        assert len(caught) == 1
        assert make.path.name in str(caught[0])
        second["/b"] = [2]
        assert make.values() == {"/a": [1], "/b": [2], "/c": [3]}


def test_who_wants_the_lock_alone_gets_it_in_turn(make: Maker) -> None:
    with make("w", locking=True) as store:
        store["/a"] = [0]
        ends = threading.Event()

        def change(me: int) -> None:
            with make(locking=True) as other:
                while not ends.is_set():
                    with other.transaction():
                        other["/a"][0] += 1
                        time.sleep(0.002)

        threads = [threading.Thread(target=change, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        try:
            for n in range(5):
                with make("a", timeout=20) as alone:
                    alone[f"/alone{n}"] = [n]
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        assert all(store[f"/alone{n}"][0] == n for n in range(5))


@pytest.mark.parametrize("queue", [True, False])
def test_threads_lose_nothing(make: Maker, queue: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads, of which two share a handle; without the queue they try as they come."""
    monkeypatch.setattr(locks, "_HAS_QUEUE", queue and locks._HAS_QUEUE)
    with make("w", locking=True) as first, make(locking=True) as second:
        first["/count"] = np.zeros(1, "i8")
        failed: list[BaseException] = []

        def change(me: int, store: Any) -> None:
            try:
                for n in range(6):
                    store[f"/t{me}/{n}"] = np.full(n + 1, me)
                    with store.transaction():
                        store["/count"][0] += 1
                    assert store.read(f"/t{me}/{n}").tolist() == [me] * (n + 1)
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=change, args=(n, (first, second)[n % 2])) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        expected = {f"/t{me}/{n}": [me] * (n + 1) for me in range(4) for n in range(6)}
        assert values_of(first) == values_of(second) == make.values() == {**expected, "/count": [24]}
    assert blosc2.check(make.path).ok


def test_iterating_gives_one_version(make: Maker, both: Any) -> None:
    first, second = both
    first.update({f"/{n}": [n] for n in range(5)})
    seen = []
    for key in first:
        seen.append(key)
        second[f"/more{len(seen)}"] = [1]
        second.pop("/4", None)
    assert seen == [f"/{n}" for n in range(5)]
    assert [key for key, _ in first.items() if key < "/9"] == [f"/{n}" for n in range(4)]


def test_what_is_not_closed(make: Maker) -> None:
    """All was published when it was changed; at the end it is made durable, if it is not yet."""
    store = make("w", locking=True)
    store["/a"] = [1]
    store.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del store
        gc.collect()
    assert make.values() == {"/a": [1]}


def test_a_store_that_is_gone(make: Maker) -> None:
    with make("w", locking=True) as store:
        store["/a"] = [1]
        blosc2.remove_urlpath(str(make.path))
        with pytest.raises(FileNotFoundError, match="the store is gone") as raised:
            store["/b"] = [2]
        assert make.path.name in str(raised.value)
        assert os.listdir(make.path.parent) == []
        store._table.publishing.clear(published=False)


def test_modes(make: Maker) -> None:
    with pytest.raises(FileNotFoundError):
        make("r", locking=True)
    with make("x", locking=True) as store:
        store["/a"] = [1]
        with pytest.raises(FileExistsError):
            make("x", locking=True)
    with make("r", locking=True) as reader:
        assert reader.storage.locking
        with make("w", locking=True) as store:
            assert list(store) == []
            assert list(reader) == []  # at once: others may begin to fill it
            store["/b"] = [2]
            assert values_of(reader) == {"/b": [2]}
    with blosc2.open(str(make.path), mode="a", locking=True) as store, make("a", locking=True) as other:
        store["/c"] = [3]
        assert values_of(other) == {"/b": [2], "/c": [3]}
    with make("a", storage=blosc2.Storage(urlpath=str(make.path), mode="a", locking=True)) as store:
        assert store.storage.locking
    with make("r") as store:
        assert not store.storage.locking
    with pytest.raises(ValueError, match="mmap_mode"):
        make("r", locking=True, mmap_mode="r")
    with pytest.raises(ValueError, match="exclusive=False"):
        make("a", locking=True, exclusive=False)
    with pytest.raises(ValueError, match="urlpath"):
        blosc2.EmbedStore(locking=True)


def test_nothing_else_lies_about(make: Maker, both: Any) -> None:
    first, second = both
    first["/a"] = np.arange(1000)
    second["/a"] = np.arange(10)
    del first["/a"]
    second.compact()
    name = make.path.name
    if make.is_directory:
        assert os.listdir(make.path.parent) == [name]
        assert sorted(os.listdir(make.path)) == ["embed.b2e", "embed.b2e.b2lock"]
    else:
        assert sorted(os.listdir(make.path.parent)) == [name, name + ".b2lock"]


def test_an_archive_does_not_grow_without_bound(tmp_path: Path) -> None:
    """Each publication writes a directory of all members: the old ones are removed in time."""
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path, locking=True) as store, blosc2.DictStore(path, locking=True) as other:
        store.update({f"/{n}": np.arange(n) for n in range(300)})
        used = path.stat().st_size
        for n in range(150):
            (store, other)[n % 2]["/again"] = np.arange(n)
            assert path.stat().st_size < 3 * used + (2 << 20)
        assert len(store) == len(other) == 301
        assert other["/again"].shape == (149,)
    assert blosc2.check(path).ok
