"""What is told of changes of keys, and what an `EmbedStore` publishes without `flush`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import blosc2
from blosc2._backends import publish_pace
from blosc2._stores import PacedPublishing, changes
from blosc2._stores.followers import begin_version, forget_published_keys, recount
from blosc2._stores.leaves.value_to_frame import frame_of
from blosc2._stores.transaction import AllOrNone


class Follower:
    def __init__(self, told: list[Any], error: BaseException | None = None) -> None:
        self.told = told
        self.error = error

    def key_changed(self, key: str, change: int) -> None:
        self.told.append((key, change))
        if self.error is not None:
            raise self.error

    def recount(self) -> None:
        self.told.append("recount")

    def begin_version(self) -> None:
        self.told.append("begin_version")


def frame(value: int) -> Any:
    return frame_of([value], "/k", None, {})


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with blosc2.DictStore(str(tmp_path / "x.b2z"), mode="w") as store:
        store["/a"] = [1]
        store.flush()
        yield store


def test_followers_are_told_of_each_key(store: Any) -> None:
    told: list[Any] = []
    store._followers = (*store._followers, Follower(told))
    changes.put(store, "/b", frame(2))
    changes.put(store, "/a", frame(3))
    changes.remove(store, "/b")
    changes.move(store, {"/a": "/c"})
    assert told == [("/b", 1), ("/a", 0), ("/b", -1), ("/a", -1), ("/c", 1)]
    assert {key: store[key][:].tolist() for key in store} == {"/c": [3]}


def test_all_followers_recount_when_one_was_interrupted(store: Any) -> None:
    first: list[Any] = []
    last: list[Any] = []
    store._followers = (Follower(first), *store._followers, Follower([], KeyboardInterrupt()), Follower(last))
    with pytest.raises(KeyboardInterrupt):
        changes.put(store, "/b", frame(2))
    assert first == [("/b", 1), "recount"]
    assert last == ["recount"]
    with pytest.raises(KeyboardInterrupt):
        changes.remove(store, "/a")
    assert last == ["recount", "recount"]


def test_a_put_that_is_refused_changes_nothing(store: Any) -> None:
    told: list[Any] = []
    store._followers = (*store._followers, Follower(told))
    with pytest.raises(ValueError, match="in case only"):
        changes.put(store, "/A", frame(2))
    assert (told, store._pending.frames, store._pending.tiers) == ([], {}, {})
    revision = store._pending.revision
    with pytest.raises(ValueError, match="in case only"), AllOrNone(store):
        changes.put(store, "/A", frame(2))
    assert (told, store._pending.revision) == ([], revision)  # nothing had to be taken back


def test_what_else_followers_are_told(store: Any) -> None:
    told: list[Any] = []
    store._followers = (*store._followers, Follower(told))
    recount(store)
    begin_version(store)
    forget_published_keys(store)
    assert told == ["recount", "begin_version", "begin_version", "recount"]
    del told[:]
    changes.put(store, "/b", frame(2))
    store.flush()
    assert told == [("/b", 1), "begin_version"]
    del told[:]
    with pytest.raises(ZeroDivisionError), AllOrNone(store):
        changes.remove(store, "/a")
        raise ZeroDivisionError
    assert told == [("/a", -1), "recount"]
    assert sorted(store) == ["/a", "/b"]


# ------------------------------------------------------------------ an EmbedStore
@pytest.fixture
def embed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(publish_pace, "_ALLOWANCE", 1e9)
    with blosc2.EmbedStore(str(tmp_path / "x.b2e"), mode="w") as store:
        yield store


def test_single_leaves_are_never_published_alone(embed: Any) -> None:
    publishing: PacedPublishing = embed._publishing
    assert not publishing.put(embed, "/a", frame(1), [1])
    assert not publishing.remove(embed, "/a")


def test_it_is_due_outside_of_transactions_and_inner_blocks(embed: Any) -> None:
    publishing: PacedPublishing = embed._publishing
    assert publishing.is_due(embed, 100, None)
    with embed.transaction():
        assert not publishing.is_due(embed, 100, None)
    with AllOrNone(embed) as outer:
        assert not publishing.is_due(embed, 100, None)
        assert publishing.is_due(embed, 100, outer)
        with AllOrNone(embed) as inner:
            assert not publishing.is_due(embed, 100, inner)
    in_memory = blosc2.EmbedStore()
    assert not in_memory._publishing.is_due(in_memory, 100, None)


def test_the_end_of_a_block_publishes_and_may_be_lost(embed: Any) -> None:
    publishing: PacedPublishing = embed._publishing
    size, count = os.path.getsize(embed.urlpath), publishing.pace.count
    embed["/a"] = [1]
    assert embed._pending.frames == {}
    assert publishing.pace.count == count + 1
    assert os.path.getsize(embed.urlpath) > size
    assert not publishing.lazily
    with blosc2.EmbedStore(embed.urlpath, mode="r") as reader:
        assert reader["/a"][:].tolist() == [1]
    embed.flush()
    assert not publishing.is_unsettled(embed)
