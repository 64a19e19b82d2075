"""The contract of a backend as tests: a class of tests for each kind of backend inherits `BackendContract`.

A subclass says how its backend is made. `blosc2._backends.protocol` has the contract in words.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.layout import ByteRange, Renamed
from blosc2._backends.protocol import Backend, NewVersion
from blosc2._backends.writer_lock import WriterLock
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._options import StoreOptions
from blosc2.exceptions import ClosedStoreError, FormatError

ITEMS = {"/a": np.arange(5), "/g/b": np.arange(2000.0), "/g/c": np.zeros(3, "i2")}


def byte_range(items: Any) -> ByteRange:
    """A frame in memory."""
    data = blosc2.asarray(np.asarray(items)).to_cframe()
    return Source.of_buffer(data), 0, len(data)


def items_of(frame: Frame | None) -> list[Any]:
    assert frame is not None
    data = bytes(frame.source.read(frame.offset, frame.frame_len))
    found: list[Any] = blosc2.ndarray_from_cframe(data)[:].tolist()
    return found


def items_in(found: ByteRange | None) -> list[Any]:
    assert found is not None
    return items_of(Frame.open(*found))


class BackendContract:
    """Tests that each backend passes."""

    #: Whether leaves are files or members of their own.
    has_files = True
    #: Whether advice about all of it reaches what is open.
    is_told_as_a_whole = True

    def make(self, path: str, how: StoreOptions, lock: WriterLock | None) -> Backend:
        """A backend over a path, with nothing shown yet."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        return str(tmp_path / "store")

    def writer(self, path: str) -> Backend:
        """A backend with the lock of a writer, which shows what there is."""
        backend = self.make(path, StoreOptions(), WriterLock(path))
        if backend.exists():
            backend.load()
        else:
            backend.replaces = True
        return backend

    def reader(self, path: str, mmap_mode: str | None = None) -> Backend:
        backend = self.make(path, StoreOptions(mmap_mode), None)
        assert backend.exists()
        backend.load()
        return backend

    def end(self, backend: Backend) -> None:
        backend.close()
        if backend.lock is not None:
            backend.lock.release()

    def publish(self, backend: Backend, changes: dict[str, ByteRange | None], **how: Any) -> None:
        backend.publish(NewVersion(changes, {}, **how))
        backend.show_published()

    @pytest.fixture
    def filled(self, path: str) -> Iterator[Backend]:
        backend = self.writer(path)
        self.publish(backend, {key: byte_range(items) for key, items in ITEMS.items()})
        yield backend
        self.end(backend)

    # ------------------------------------------------------------------ open, locate, list
    def test_what_was_published_is_found(self, filled: Backend, path: str, source: str | None) -> None:
        for backend in (filled, self.reader(path, source)):
            assert sorted(backend.keys()) == sorted(ITEMS)
            assert sorted(backend.listing().below()) == sorted(ITEMS)
            for key, items in ITEMS.items():
                assert key in backend
                assert backend.contains_now(key)
                assert items_of(backend.open_frame(key)) == items.tolist()
                assert items_in(backend.locate(key)) == items.tolist()
                assert backend.stored_range(key) is not None
                assert backend.has_file(key) is self.has_files
                assert (backend.name_of(key) is not None) is self.has_files
                assert backend.stored_bytes(key) > 0
            if backend is not filled:
                backend.close()

    @pytest.mark.parametrize("key", ["/", "/g", "/missing", "/g/b/x", "/é", "/" + "x" * 300])
    def test_what_is_not_there_is_not_found(self, filled: Backend, path: str, key: str) -> None:
        for backend in (filled, self.reader(path)):
            assert key not in backend
            assert not backend.contains_now(key)
            assert backend.locate(key) is None
            assert backend.open_frame(key) is None
            assert backend.stored_range(key) is None
            assert not backend.has_file(key)
            assert backend.stored_bytes(key) == 0

    def test_nothing_is_there_before_anything_is_published(self, path: str) -> None:
        backend = self.writer(path)
        assert not backend.exists()
        assert backend.embedded is None
        assert backend.keys() == []
        assert backend.locate("/a") is None
        self.end(backend)
        assert not os.path.exists(path)

    def test_a_reader_finds_nothing_where_nothing_is(self, path: str) -> None:
        backend = self.make(path, StoreOptions(), None)
        assert not backend.exists()
        with pytest.raises(FileNotFoundError):
            backend.load()

    def test_what_is_no_store_is_refused(self, path: str) -> None:
        Path(path).write_bytes(b"no store" * 100)
        backend = self.make(path, StoreOptions(), None)
        with pytest.raises((FormatError, NotADirectoryError)):
            backend.exists() and backend.load()
        with pytest.raises((FileExistsError, NotADirectoryError)):
            backend.check_replaceable()

    def test_what_could_not_be_read_changes_nothing(self, filled: Backend, path: str) -> None:
        reader = self.reader(path)
        before = sorted(reader.keys())
        victim = Path(path) / "embed.b2e" if os.path.isdir(path) else Path(path)
        data = victim.read_bytes()
        victim.write_bytes(b"\0" * len(data))
        with pytest.raises(FormatError):
            reader.load()
        victim.write_bytes(data)
        assert sorted(reader.keys()) == before
        assert items_of(reader.open_frame("/a")) == ITEMS["/a"].tolist()

    # ------------------------------------------------------------------ publish
    def test_a_version_is_what_was_changed_of_the_one_before(self, filled: Backend, path: str) -> None:
        self.publish(filled, {"/a": None, "/g/c": byte_range([7]), "/new": byte_range([8, 9])})
        expected = {"/g/b": ITEMS["/g/b"].tolist(), "/g/c": [7], "/new": [8, 9]}
        for backend in (filled, self.reader(path)):
            assert {key: items_of(backend.open_frame(key)) for key in backend.keys()} == expected  # noqa: SIM118

    def test_nothing_is_shown_before_it_is_asked_for(self, filled: Backend, path: str) -> None:
        reader = self.reader(path)
        listed = sorted(reader.keys())
        filled.publish(NewVersion({"/new": byte_range([1])}, {}))
        assert filled.behind
        assert sorted(reader.keys()) == listed
        filled.show_published()
        assert not filled.behind
        assert items_of(filled.open_frame("/new")) == [1]
        assert reader.reload()
        assert not reader.reload()
        assert items_of(reader.open_frame("/new")) == [1]

    def test_what_is_open_stays_what_it_was(self, filled: Backend, path: str, source: str | None) -> None:
        reader = self.reader(path, source)
        frame = reader.open_frame("/g/b")
        self.publish(filled, {"/g/b": byte_range([1])})
        filled.compact(None)
        filled.show_published()
        assert items_of(frame) == ITEMS["/g/b"].tolist()
        assert items_of(filled.open_frame("/g/b")) == [1]

    def test_what_was_shown_can_be_shown_again(self, filled: Backend) -> None:
        before, embedded = filled.shown(), filled.embedded
        filled.load()
        assert filled.embedded is not embedded
        filled.show(before)
        assert filled.embedded is embedded
        assert sorted(filled.listing().below()) == sorted(ITEMS)
        self.publish(filled, {"/new": byte_range([1])})
        assert "/new" in filled

    @pytest.mark.parametrize("durable", [True, False])
    def test_what_is_not_durable_is_settled(self, filled: Backend, durable: bool) -> None:
        self.publish(filled, {"/new": byte_range([1])}, durable=durable, lazy=durable)
        unsettled = filled.unsettled
        if unsettled is not None:
            unsettled.make_durable()
        assert filled.unsettled is None

    def test_a_publication_that_fails_can_be_made_again(
        self, filled: Backend, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new = NewVersion({"/a": byte_range([1]), "/new": byte_range([2])}, {})

        def fail(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="No space"):
                filled.publish(new)
        filled.forget_shown_keys()
        if filled.behind:
            filled.load()
        filled.publish(new)
        filled.show_published()
        reader = self.reader(path)
        assert items_of(reader.open_frame("/a")) == [1]
        assert items_of(reader.open_frame("/new")) == [2]
        assert sorted(reader.keys()) == sorted([*ITEMS, "/new"])

    def test_a_new_store_replaces_all_that_was_there(self, filled: Backend, path: str) -> None:
        self.end(filled)
        backend = self.make(path, StoreOptions(), WriterLock(path))
        assert backend.exists()
        backend.replaces = True
        assert backend.locate("/a") is None
        self.publish(backend, {"/only": byte_range([1])})
        self.end(backend)
        assert self.reader(path).keys() == ["/only"]

    # ------------------------------------------------------------------ stage, move
    def test_staged_frames_are_published_as_others_are(self, filled: Backend, path: str) -> None:
        items = np.random.default_rng(1).integers(0, 1 << 62, 100_000)
        staged = filled.stage({"/large": byte_range(items), "/small": byte_range([1])}, {})
        assert items_in(staged["/large"]) == items.tolist()
        assert "/large" not in filled
        self.publish(filled, dict(staged))
        filled.forget_staged()
        assert items_of(self.reader(path).open_frame("/large")) == items.tolist()
        assert items_of(filled.open_frame("/small")) == [1]

    def test_nothing_is_left_of_staged_frames_that_are_dropped(self, filled: Backend, path: str) -> None:
        size, names = filled.size(), os.listdir(os.path.dirname(path))
        filled.stage({"/large": byte_range(np.random.default_rng(1).integers(0, 1 << 62, 100_000))}, {})
        filled.discard()
        assert filled.size() == size
        assert os.listdir(os.path.dirname(path)) == names
        assert sorted(self.reader(path).keys()) == sorted(ITEMS)

    def test_a_moved_frame_keeps_its_bytes(self, filled: Backend, path: str) -> None:
        moved = filled.begin_rename("/a")
        assert isinstance(moved, Renamed)
        assert items_in(filled.renamed_range(moved)) == ITEMS["/a"].tolist()
        tiers = {"/moved": filled.has_file("/a"), "/a": filled.has_file("/a")}
        filled.publish(NewVersion({"/a": None, "/moved": moved}, tiers))
        filled.show_published()
        filled.forget_staged()
        for backend in (filled, self.reader(path)):
            assert "/a" not in backend
            assert items_of(backend.open_frame("/moved")) == ITEMS["/a"].tolist()
        with pytest.raises(KeyError):
            filled.begin_rename("/missing")

    # ------------------------------------------------------------------ compact, verify, advise, describe
    def test_dead_bytes_go_when_it_is_compacted(self, filled: Backend, path: str) -> None:
        large = np.random.default_rng(2).integers(0, 1 << 62, 5000)
        self.publish(filled, {"/large": byte_range(large)})
        self.publish(filled, {"/large": None})
        told: list[tuple[int, int]] = []
        before = filled.size()
        filled.compact(lambda done, total: told.append((done, total)))
        filled.show_published()
        assert filled.size() <= before
        assert filled.size() < large.nbytes
        assert all(0 <= done <= total for done, total in told)
        assert sorted(self.reader(path).keys()) == sorted(ITEMS)
        assert blosc2.check(path).ok

    def test_a_changed_byte_is_found(self, filled: Backend, path: str) -> None:
        reader = self.reader(path)
        for key in ITEMS:
            frame = reader.open_frame(key)
            assert frame is not None
            reader.verify(key, frame)
        found = reader.locate("/g/b")
        assert found is not None
        file, offset, length = found
        with open(str(file.path), "r+b") as raw:
            raw.seek(offset + length // 2)
            byte = raw.read(1)
            raw.seek(offset + length // 2)
            raw.write(bytes([byte[0] ^ 1]))

        def read_all() -> None:
            frame = self.reader(path).open_frame("/g/b")
            assert frame is not None
            reader = self.reader(path)
            reader.verify("/g/b", frame)
            for number in range(frame.nchunks):
                frame.chunk(number)

        with pytest.raises(FormatError):
            read_all()

    @pytest.mark.parametrize("advice", ["normal", "random", "sequential", "willneed", "dontneed"])
    def test_advice_changes_nothing(self, filled: Backend, path: str, source: str | None, advice: str) -> None:
        reader = self.reader(path, source)
        told = reader.advise(advice)
        assert told is self.is_told_as_a_whole
        assert items_of(reader.open_frame("/g/b")) == ITEMS["/g/b"].tolist()

    def test_its_size_is_that_of_its_files(self, filled: Backend, path: str) -> None:
        files = [Path(path)] if os.path.isfile(path) else [p for p in Path(path).rglob("*") if p.is_file()]
        assert filled.size() == sum(file.stat().st_size for file in files)

    # ------------------------------------------------------------------ end
    def test_a_closed_one_finds_nothing(self, filled: Backend) -> None:
        frame = filled.open_frame("/a")
        self.end(filled)
        with pytest.raises(ClosedStoreError):
            filled.locate("/a")
        assert items_of(frame) == ITEMS["/a"].tolist()
        filled.close()

    def test_what_is_abandoned_stays_as_it_is(self, filled: Backend, path: str) -> None:
        filled.stage({"/large": byte_range(np.arange(100_000))}, {})
        filled.abandon()
        assert sorted(self.reader(path).keys()) == sorted(ITEMS)

    def test_parts_that_it_has_not_are_none(self, filled: Backend) -> None:
        for name in ("placing", "members", "streaming", "unsettled"):
            part = getattr(filled, name)
            assert part is None or not isinstance(part, (bool, int, str))
