"""What a store keeps of the leaves that it has handed out."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._stores.leaves import open_leaves
from blosc2._stores.leaves.open_leaves import OpenLeaves
from blosc2.exceptions import ClosedStoreError


@pytest.fixture
def store() -> Any:
    store = blosc2.EmbedStore()
    store.update({"/a": np.arange(4), "/b": np.arange(4)})
    store.flush()
    return store


def test_nothing_is_found_of_what_nobody_holds(store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    assert leaves.find("/a") is None
    leaf = store["/a"]
    assert leaves.find("/a") is leaf
    assert list(leaves.find_all(["/a", "/b", "/c"])) == [leaf]
    del leaf
    gc.collect()
    assert leaves.find("/a") is None


def test_a_sweep_bounds_dead_references(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    monkeypatch.setattr(open_leaves, "LEAST_SWEPT", 1)
    leaves: OpenLeaves = store._leaves
    held = store["/a"]
    store["/b"][:]
    gc.collect()
    assert set(leaves.held) == {"/a", "/b"}
    assert leaves.sweep() == 2
    assert set(leaves.held) == {"/a"}
    assert leaves.find("/a") is held


def test_changes_are_gathered_once(store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    store["/a"][0] = 7
    assert set(leaves.edited) == {"/a"}
    changes: dict[str, Any] = {}
    leaves.collect(changes)
    assert set(changes) == {"/a"}
    assert leaves.edited == {}
    leaves.collect(changes)
    assert set(changes) == {"/a"}


def test_a_change_that_cannot_be_gathered_stays(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    leaf = store["/a"]
    leaf[0] = 7
    real = type(leaf._handle).byte_range

    def fail(handle: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(leaf._handle), "byte_range", fail)
    changes: dict[str, Any] = {}
    with pytest.raises(OSError, match="No space"):
        leaves.collect(changes)
    monkeypatch.setattr(type(leaf._handle), "byte_range", real)
    assert changes == {}
    leaves.collect(changes)
    assert set(changes) == {"/a"}


def test_a_leaf_whose_key_is_forgotten_can_be_read_alone(store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    one, other = store["/a"], store["/b"]
    leaves.forget("/a")
    assert leaves.all_keys() == {"/b"}
    assert one[:].tolist() == [0, 1, 2, 3]
    with pytest.raises(ClosedStoreError):
        one[0] = 5
    other[0] = 5
    leaves.forget_all()
    assert leaves.all_keys() == set()
    with pytest.raises(ClosedStoreError):
        other[0] = 6
    assert other[0] == 5


def test_leaves_show_again_what_there_is(store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    one = store["/a"]
    one[0] = 9
    leaves.reload(["/a"], store._contents.byte_range)
    assert leaves.edited == {}
    assert one[:].tolist() == [0, 1, 2, 3]
    assert leaves.find("/a") is one
    leaves.reload(["/a"], lambda key: None)
    assert leaves.find("/a") is None
    assert one[:].tolist() == [0, 1, 2, 3]


def test_a_leaf_is_brought_back_with_its_change(store: Any) -> None:
    leaves: OpenLeaves = store._leaves
    one = store["/a"]
    one[0] = 9
    handle = one._handle
    leaves.forget("/a")
    leaves.restore("/a", store, handle, one, edited=True)
    assert store["/a"] is one
    one[1] = 8
    store.flush()
    store._leaves.forget_all()
    assert store.read("/a").tolist() == [9, 8, 2, 3]
