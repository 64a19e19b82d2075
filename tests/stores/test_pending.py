"""The table of changes that wait to be published, by itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from blosc2._backends import MEMORY_LIMIT, Renamed
from blosc2._core.io.source import Source
from blosc2._stores import pending as module
from blosc2._stores.pending import PendingChanges


def byte_range(nbytes: int) -> Any:
    """The byte range of a frame in memory; what is in it does not matter here."""
    return Source.of_buffer(bytes(nbytes)), 0, nbytes


class Block:
    """What a block is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def made(self, key: str, change: Any) -> None:
        self.told.append((key, change))

    def staged(self, before: Any, now: Any) -> None:
        self.told.append((dict(before), dict(now)))

    def forget(self) -> None:
        self.told.append("forget")


class Backend:
    """Stages frames as others of the same length."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.staged: dict[str, Any] = {}

    def stage(self, changes: dict[str, Any], tiers: Any) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        self.staged = {key: byte_range(old[2]) for key, old in changes.items()}
        return self.staged


def put(pending: PendingChanges, key: str, frame: Any, *, is_new: bool = True) -> None:
    pending.put(key, frame, None, pending.block(), is_new=is_new)


def test_a_new_key_and_a_replaced_one() -> None:
    pending, one, other = PendingChanges(), byte_range(10), byte_range(4)
    put(pending, "/a", one)
    assert (pending.frames, pending.in_memory, pending.revision) == ({"/a": one}, 10, 1)
    assert pending.tiers == {}
    pending.put("/b", one, True, None, is_new=True)
    assert pending.tiers == {"/b": True}
    pending.remove("/b", None, is_published=False)
    pending.in_memory, pending.revision = 10, 1
    put(pending, "/a", other, is_new=False)
    assert pending.frames == {"/a": other}
    assert pending.revision == 1
    pending.count_memory()
    assert pending.in_memory == 4


def test_a_removed_key_is_kept_only_if_it_is_published() -> None:
    pending = PendingChanges()
    put(pending, "/new", byte_range(1))
    pending.tiers["/new"] = True
    pending.remove("/new", None, is_published=False)
    assert (pending.frames, pending.tiers) == ({}, {})
    pending.remove("/old", None, is_published=True)
    assert pending.frames == {"/old": None}
    assert pending.revision == 3


def test_iterators_notice_new_revisions() -> None:
    pending = PendingChanges()
    revision = pending.revision
    put(pending, "/a", byte_range(1), is_new=False)
    pending.check_revision(revision)
    put(pending, "/b", byte_range(1))
    with pytest.raises(RuntimeError, match="during iteration"):
        pending.check_revision(revision)


def test_what_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PendingChanges().fits(MEMORY_LIMIT)
    assert not PendingChanges().fits(MEMORY_LIMIT + 1)
    monkeypatch.setattr(module, "MEMORY_LIMIT", 10)
    pending = PendingChanges()
    put(pending, "/a", byte_range(7))
    assert pending.fits(3)
    assert not pending.fits(4)


def test_frames_are_staged_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMORY_LIMIT", 10)
    pending, backend, block = PendingChanges(), Backend(), Block()
    moved = Renamed(byte_range(50), "/origin")
    put(pending, "/moved", moved)
    put(pending, "/a", byte_range(8))
    pending.remove("/gone", None, is_published=True)
    pending.stage(backend)  # type: ignore[arg-type]
    assert backend.staged == {}
    before = pending.frames["/a"]
    pending.blocks[0] = block  # type: ignore[assignment]
    put(pending, "/b", byte_range(3))
    pending.stage(backend)  # type: ignore[arg-type]
    assert set(backend.staged) == {"/a", "/b"}
    assert pending.frames["/a"] is backend.staged["/a"]
    assert pending.frames["/moved"] is moved
    assert pending.frames["/gone"] is None
    assert pending.in_memory == 0
    [(old, new)] = block.told
    assert old["/a"] is before
    assert new["/a"] is pending.frames["/a"]


def test_frames_that_cannot_be_staged_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMORY_LIMIT", 10)
    pending, frame = PendingChanges(), byte_range(11)
    put(pending, "/a", frame)
    with pytest.raises(OSError, match="full"):
        pending.stage(Backend(OSError("full")))  # type: ignore[arg-type]
    assert pending.frames == {"/a": frame}
    assert pending.in_memory == 11


def test_a_snapshot_brings_everything_back() -> None:
    pending, frame = PendingChanges(), byte_range(5)
    put(pending, "/a", frame)
    pending.tiers["/a"], pending.registry, pending.unwritten = True, {"/t": {}}, True
    snapshot, revision = pending.snapshot(), pending.revision
    put(pending, "/b", byte_range(100))
    pending.remove("/a", None, is_published=False)
    pending.registry, pending.unwritten = None, False
    pending.restore(snapshot)
    assert pending.frames == {"/a": frame}
    assert pending.tiers == {"/a": True}
    assert (pending.registry, pending.unwritten) == ({"/t": {}}, True)
    assert pending.in_memory == 5
    assert pending.revision > revision


def test_one_key_is_brought_back() -> None:
    pending, frame = PendingChanges(), byte_range(5)
    pending.restore_key("/a", frame, tier=False)
    assert (pending.frames, pending.tiers) == ({"/a": frame}, {"/a": False})
    pending.restore_key("/a", None, tier=None)
    assert (pending.frames, pending.tiers) == ({"/a": None}, {})
    pending.restore_key("/a", ..., tier=None)
    assert pending.frames == {}
    before = pending.without_keys()
    pending.unwritten, pending.registry = True, {}
    pending.restore_without_keys(before)
    assert (pending.unwritten, pending.registry) == (False, None)


def test_blocks_are_told_of_changes_of_their_thread() -> None:
    pending, block, other = PendingChanges(), Block(), Block()
    assert pending.block() is None
    pending.blocks = {threading.get_ident(): block, 0: other}  # type: ignore[dict-item]
    frame = byte_range(1)
    put(pending, "/a", frame)
    pending.remove("/a", pending.block(), is_published=False)
    pending.remove("/b", pending.block(), is_published=True)
    assert block.told == [("/a", frame), ("/a", ...), ("/b", None)]
    assert other.told == []
    pending.forget_undo()
    assert (block.told[-1], other.told) == ("forget", ["forget"])


def test_nothing_is_left_after_clearing() -> None:
    pending = PendingChanges()
    put(pending, "/a", byte_range(3))
    pending.tiers["/a"], pending.registry, pending.unwritten = True, {}, True
    pending.clear()
    assert (pending.frames, pending.tiers, pending.registry, pending.unwritten, pending.in_memory) == (
        {}, {}, None, False, 0,
    )  # fmt: skip
    assert pending.revision == 1
