"""What a store holds: published keys with pending changes. Expected keys come from a plain dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._stores.contents import Contents
from blosc2._stores.leaves.value_to_frame import frame_of
from blosc2._stores.pending import PendingChanges

PUBLISHED = ["/a", "/b/x", "/b/y", "/c"]


def frame(value: int) -> Any:
    return frame_of(np.full(3, value), "/k", None, {})


@pytest.fixture(params=[".b2z", ".b2d", ".b2e"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = str(tmp_path / f"x{request.param}")
    kind: Any = blosc2.EmbedStore if request.param == ".b2e" else blosc2.DictStore
    with kind(path, mode="w") as store:
        for key in reversed(PUBLISHED):
            store[key] = np.full(3, 1)
    reader = kind(path, mode="r")
    yield reader._backend
    reader.close()


@pytest.fixture
def pending() -> PendingChanges:
    pending = PendingChanges()
    pending.frames = {"/b/x": None, "/new": frame(2), "/c": frame(3)}
    return pending


EXPECTED = {"/a": 1, "/b/y": 1, "/c": 3, "/new": 2}


def value_of(contents: Contents, key: str) -> int | None:
    found = contents.frame(key)
    return None if found is None else int(blosc2.ndarray_from_cframe(found.plain_bytes())[0])


def test_leaves_are_found_by_key(backend: Any, pending: PendingChanges) -> None:
    contents = Contents(backend, pending)
    for key in [*PUBLISHED, "/new", "/none"]:
        assert contents.has(key) == (key in EXPECTED)
        assert value_of(contents, key) == EXPECTED.get(key)
        assert (contents.byte_range(key) is None) == (key not in EXPECTED)
        assert (contents.location(key) is None) == (key not in EXPECTED)
    assert contents.byte_range("/new") is pending.frames["/new"]


def test_keys_in_sorted_order(backend: Any, pending: PendingChanges) -> None:
    contents = Contents(backend, pending)
    assert contents.keys() == sorted(EXPECTED)
    assert [key for batch in contents.key_batches() for key in batch] == sorted(EXPECTED)
    assert contents.count() == len(EXPECTED)
    assert Contents(backend, PendingChanges()).keys() == PUBLISHED


def test_keys_in_the_order_in_which_they_came(pending: PendingChanges) -> None:
    store = blosc2.EmbedStore()
    for key in reversed(PUBLISHED):
        store[key] = [1]
    store.flush()
    contents = Contents(store._backend, pending, in_order=False)
    expected = dict.fromkeys(reversed(PUBLISHED))
    del expected["/b/x"]
    expected["/new"] = None
    assert contents.keys() == list(expected)
    assert [key for batch in contents.key_batches() for key in batch] == list(expected)
    assert contents.count() == len(expected)


def test_the_leaves_of_a_group(backend: Any, pending: PendingChanges) -> None:
    contents = Contents(backend, pending)
    assert contents.leaf_keys("") == sorted(EXPECTED)
    assert contents.leaf_keys("/b") == ["/b/y"]
    assert contents.leaf_keys("/c") == ["/c"]
    assert contents.leaf_keys("/none") == []


def test_the_listing_follows_the_keys(backend: Any, pending: PendingChanges) -> None:
    contents = Contents(backend, pending)
    listing = contents.listing()
    assert contents.listing() is listing
    pending.frames["/a"] = frame(5)
    contents.key_changed("/a", 0)
    assert contents.listing() is listing
    del pending.frames["/new"]
    contents.key_changed("/new", -1)
    assert contents.keys() == sorted(set(EXPECTED) - {"/new"})
    pending.frames = {"/other": frame(1)}
    contents.recount()
    assert contents.keys() == sorted([*PUBLISHED, "/other"])


def test_leaves_that_are_published_singly(backend: Any) -> None:
    contents = Contents(backend, PendingChanges())
    contents.placed = {"/b/x": False, "/placed": True}
    assert contents.keys() == ["/a", "/b/y", "/c", "/placed"]
    contents.list_placed()
    assert contents.placed == {}
    assert contents.keys() == PUBLISHED  # as the backend knows them
    contents.placed = {"/placed": True}
    contents.begin_version()
    assert contents.placed == {}
