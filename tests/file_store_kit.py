"""The contract of stores that have a file: what `store_kit` asks of all, and more."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_kit import VALUES, StoreContract, tree_state


class FileStoreContract(StoreContract):
    """What every store with a file or directory must do besides."""

    #: Whether assignments and deletions are published when they return.
    at_once = False

    def test_a_leaf_of_a_closed_store_is_read_only(self, path: Path) -> None:
        store = self.make(path)
        store["/a"] = np.arange(5)
        leaf = store["/a"]
        store.close()
        np.testing.assert_array_equal(leaf[:], np.arange(5))
        with pytest.raises(ValueError, match="closed"):
            leaf[0] = 1
        with pytest.raises(ValueError, match="closed"):
            leaf.vlmeta["x"] = 1

    @pytest.mark.usefixtures("publishes_at_once")
    def test_changes_are_seen_when_published(self, path: Path) -> None:
        with self.make(path) as store:
            store["/a"] = [1]
            store.flush()
            reader = self.kind(str(path), mode="r")
            store["/a"][0] = 4  # no assignment to a key: it waits in every store
            before = reader["/a"]
            store["/b"] = [2]
            store["/a"] = [3]
            with self.kind(str(path), mode="r") as newer:
                assert sorted(newer) == (["/a", "/b"] if self.at_once else ["/a"])
                assert newer["/a"][0] == (3 if self.at_once else 1)
            assert before[0] == reader["/a"][0] == 1
            reader.close()
            store.flush()
            with self.kind(str(path), mode="r") as other:
                assert sorted(other) == ["/a", "/b"]
                assert other["/a"][0] == 3

    def test_a_reader_keeps_its_version(self, path: Path, source: str | None) -> None:
        with self.make(path) as store:
            store["/a"] = np.arange(50_000)
        reader = self.kind(str(path), mode="r", mmap_mode=source)
        leaf = reader["/a"]
        with self.make(path) as store:
            store["/a"] = [1]
            del store["/a"]
            store["/b"] = [2]
        np.testing.assert_array_equal(leaf[:], np.arange(50_000))
        reader.close()
        np.testing.assert_array_equal(leaf[::100], np.arange(0, 50_000, 100))

    def test_an_exception_publishes_what_was_assigned(self, filled: Any, path: Path) -> None:
        filled.close()
        with pytest.raises(ZeroDivisionError), self.make(path) as store:
            store["/new"] = [1]
            store["/numpy"][0] = 5
            del store["/list"]
            _ = 1 / 0
        assert store.closed
        with self.kind(str(path), mode="r") as store:
            assert {*VALUES, "/new"} - set(store) == {"/list"}
            assert "/list" not in store
            assert store["/new"][:].tolist() == [1]
            assert (store["/numpy"][0] == 5).all()
        assert sorted(os.listdir(path.parent)) == self.beside(path)

    def test_an_exception_makes_a_new_store_of_what_was_assigned(self, path: Path) -> None:
        with pytest.raises(ZeroDivisionError), self.make(path, "w") as store:
            store["/new"] = [1]
            _ = 1 / 0
        with self.kind(str(path), mode="r") as store:
            assert {key: store[key][:].tolist() for key in store} == {"/new": [1]}
        assert sorted(os.listdir(path.parent)) == self.beside(path)

    def test_an_exception_before_any_assignment_replaces_nothing(self, filled: Any, path: Path) -> None:
        filled.close()
        before = tree_state(path)
        with pytest.raises(ZeroDivisionError), self.make(path, "w"):
            _ = 1 / 0
        assert tree_state(path) == before
        assert sorted(os.listdir(path.parent)) == self.beside(path)

    def test_who_wants_nothing_of_it_discards(self, filled: Any, path: Path) -> None:
        filled.close()
        before = tree_state(path)
        with pytest.raises(ZeroDivisionError), self.make(path) as store, store.transaction():
            store["/new"] = [1]
            del store["/list"]
            _ = 1 / 0
        assert tree_state(path) == before
        with self.make(path) as store:
            store["/numpy"][0] = 5
            store.discard()
        assert tree_state(path) == before

    @pytest.mark.usefixtures("changes_wait")
    def test_discard(self, filled: Any, path: Path) -> None:
        filled.flush()
        before = tree_state(path)
        leaf = filled["/numpy"]
        leaf[0] = 5
        filled["/new"] = [1]
        del filled["/list"]
        filled.discard()
        assert set(VALUES) <= set(filled)
        assert "/new" not in filled
        np.testing.assert_array_equal(filled["/numpy"][:], VALUES["/numpy"])
        filled.close()
        assert tree_state(path) == before

    def test_a_store_that_was_only_read_is_not_written(self, filled: Any, path: Path) -> None:
        filled.close()
        before = tree_state(path)
        with self.make(path) as store:
            for key in VALUES:
                store[key][()]
            store.flush()
        assert tree_state(path) == before

    def test_what_is_dropped_is_published_and_warned_of(self, path: Path) -> None:
        store = self.make(path)
        store["/a"] = [1]
        store["/a"][0] = 2  # which waits in every kind of store
        holder = [store]
        del store
        with pytest.warns(ResourceWarning, match=r"not closed: its changes are published now"):
            holder.clear()
        with self.kind(str(path), mode="r") as store:
            assert store["/a"][:].tolist() == [2]
        store = self.make(path)
        store.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del store
            gc.collect()

    def test_a_missing_path(self, path: Path, source: str | None) -> None:
        for error in (FileNotFoundError, RuntimeError):
            with pytest.raises(error, match="does not exist") as raised:
                self.make(path, "r", mmap_mode=source)
            assert path.name in str(raised.value)
        assert not path.exists()

    def test_create_only(self, path: Path) -> None:
        with self.make(path, "x") as store:
            store["/a"] = [1]
        before = tree_state(path)
        for error in (FileExistsError, RuntimeError):
            with pytest.raises(error) as raised:
                self.make(path, "x")
            assert path.name in str(raised.value)
            assert raised.value.errno == errno.EEXIST
        assert tree_state(path) == before

    def test_start_empty(self, filled: Any, path: Path, source: str | None) -> None:
        filled.close()
        before = tree_state(path)
        store = self.make(path, "w")
        assert list(store) == []
        assert "/numpy" not in store
        assert tree_state(path) == before  # until the first changes are published
        store["/only"] = [1]
        if self.at_once:
            with self.kind(str(path), mode="r") as other:
                assert list(other) == ["/only"]
        else:
            assert tree_state(path) == before
        store = self.read_back(store, path, source)
        assert list(store) == ["/only"]
        assert store["/only"][0] == 1

    def test_path_types(self, path: Path) -> None:
        for given in (str(path), os.fsencode(path), path):
            with self.kind(given, mode="a", **self.options) as store:
                store["/a"] = [1]
            with self.kind(given, mode="r") as store:
                assert store["/a"][0] == 1
        with pytest.raises(TypeError):
            self.kind(5)

    @pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
    def test_permissions_follow_the_umask(self, path: Path) -> None:
        old = os.umask(0o027)
        try:
            with self.make(path) as store:
                store["/g/a"] = [1]
                store["/b"] = np.arange(100_000)
            for p in [path, *path.rglob("*")]:
                assert stat.S_IMODE(p.stat().st_mode) == (0o750 if p.is_dir() else 0o640), p
            for p in [path, *path.rglob("*")]:
                if p.is_file():
                    p.chmod(0o600)
            with self.make(path) as store:
                store["/c"] = [1]
            if path.is_file():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600  # a rewrite keeps it
        finally:
            os.umask(old)

    def test_a_store_open_for_writing_is_not_pickled(self, filled: Any) -> None:
        with pytest.raises(TypeError, match="open for writing"):
            pickle.dumps(filled)
