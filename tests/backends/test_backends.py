"""Each kind of backend has the contract of all; and what only some of them have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_kit import ITEMS, BackendContract, byte_range, items_of

from blosc2._backends.directory.backend import DirectoryBackend
from blosc2._backends.embedded.backend import EmbeddedBackend
from blosc2._backends.layout import filed_as
from blosc2._backends.protocol import Backend, NewVersion
from blosc2._backends.writer_lock import WriterLock
from blosc2._backends.zip.backend import ZipBackend
from blosc2._options import StoreOptions


class TestZip(BackendContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        return str(tmp_path / "store.zip")

    def make(self, path: str, how: StoreOptions, lock: WriterLock | None) -> Backend:
        backend = ZipBackend(path, how)
        backend.lock = lock
        return backend

    def test_leaves_are_streamed(self, filled: Backend, path: str) -> None:
        stream = filled.streaming
        assert stream is not None
        stream.begin()
        for number in range(300):
            value = byte_range([number])
            stream.add(f"/many/{number}", *filed_as(value), value)
        stream.end({}, None)
        filled.load()
        reader = self.reader(path)
        assert len(reader.keys()) == 300 + len(ITEMS)
        assert items_of(reader.open_frame("/many/217")) == [217]

    def test_members_are_described(self, filled: Backend) -> None:
        members = filled.members
        assert members is not None
        assert len(members.table()) == len(ITEMS)
        catalog = members.described()
        assert catalog is not None
        assert catalog.count == len(ITEMS)
        assert members.explain_missing("/a") is None


class TestDirectory(BackendContract):
    is_told_as_a_whole = False

    def make(self, path: str, how: StoreOptions, lock: WriterLock | None) -> Backend:
        backend = DirectoryBackend(path, how)
        backend.lock = lock
        return backend

    def test_leaves_are_placed_one_by_one(self, filled: Backend, path: str) -> None:
        placing = filled.placing
        assert placing is not None
        assert placing.put("/one", byte_range([1]), there=False, synced=False)
        assert placing.remove("/a")
        assert filled.unsettled is not None
        reader = self.reader(path)
        assert items_of(reader.open_frame("/one")) == [1]
        assert "/a" not in reader
        placing.make_durable()
        assert filled.unsettled is None


class TestEmbedded(BackendContract):
    has_files = False

    def make(self, path: str, how: StoreOptions, lock: WriterLock | None) -> Backend:
        return EmbeddedBackend(path, how, lock)

    def test_a_frame_in_memory(self) -> None:
        backend = EmbeddedBackend(None, StoreOptions())
        backend.publish(NewVersion({key: byte_range(items) for key, items in ITEMS.items()}, {}))
        backend.show_published()
        assert backend.keys() == list(ITEMS)
        assert items_of(backend.open_frame("/g/b")) == ITEMS["/g/b"].tolist()
        assert backend.size() > np.asarray(ITEMS["/a"]).nbytes
        backend.compact(None)
        backend.show_published()
        assert backend.keys() == list(ITEMS)
        assert not backend.behind


class TestTiers(TestDirectory):
    """The same with all that is new embedded beside the files."""

    has_files = False

    def publish(self, backend: Backend, changes: dict[str, object], **how: object) -> None:  # type: ignore[override]
        tiers = dict.fromkeys(changes, False)
        backend.publish(NewVersion(changes, tiers, **how))  # type: ignore[arg-type]
        backend.show_published()

    def test_a_leaf_changes_its_tier(self, filled: Backend, path: str) -> None:
        filled.publish(NewVersion({"/a": byte_range([1])}, {"/a": True}))
        filled.show_published()
        for backend in (filled, self.reader(path)):
            assert backend.has_file("/a")
            assert items_of(backend.open_frame("/a")) == [1]
            assert sorted(backend.keys()) == sorted(ITEMS)
        self.publish(filled, {"/a": byte_range([2])})
        reader = self.reader(path)
        assert not reader.has_file("/a")
        assert items_of(reader.open_frame("/a")) == [2]

    test_leaves_are_placed_one_by_one = None  # type: ignore[assignment]  # of leaves that have files
