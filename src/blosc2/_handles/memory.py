"""Frames in memory, and the buffer that a change appends to; versions of a file that are not published yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._core.io.source import Source
from blosc2._core.on_demand import import_now
from blosc2._files import Owner, TemporaryFile, held
from blosc2._frames import SMALL_FRAME, Fields, FrameUpdate, JoinedChunks, check_chunks, frame_byte_range
from blosc2._handles.handle import FrameHandle, array_of
from blosc2._handles.options import IN_MEMORY, HandleOptions

# Each handle that can be changed is one of those below. What changes need of these packages is imported now.
import_now("blosc2._frames", "VLMeta", "check_declared", "encode")
import_now("blosc2._handles", "lazy_chunk", "splice")

# An array in memory is compacted when its dead bytes exceed the live ones by this much.
_SLACK: Final = 1 << 16


class MemoryHandle(FrameHandle):
    """A frame in memory that nobody else sees.

    Chunks lie in one buffer. A change appends to it, so that readers of older versions keep theirs; when it is
    full it is copied to a larger one. Many chunks stay in a file, or go to one where they may: see `JoinedChunks`.
    """

    __slots__ = ("_buffer", "_buffer_of", "_contiguous", "_joined", "_joined_of", "_lock", "_used", "_waiting")

    writable = True

    def __init__(
        self,
        frame: Frame,
        options: HandleOptions = IN_MEMORY,
        urlpath: str | None = None,
        key: str | None = None,
        *,
        contiguous: bool | None = None,
    ) -> None:
        super().__init__(frame, options, urlpath, key)
        # As asked for, or else as the frame came. In memory it makes no difference.
        self._contiguous = bool(frame.serialised) if contiguous is None else contiguous
        self._buffer: bytearray | None = None
        self._used = 0
        # The frame whose chunks the buffer holds. None during a change, and after a change that failed.
        self._buffer_of: Frame | None = None
        # The same for chunks that stay where they are.
        self._joined: JoinedChunks | None = None
        self._joined_of: Frame | None = None
        self._waiting: TemporaryFile | None = None  # for new ones that are too many for memory, where that may be
        self._lock = Lock()

    @property
    def contiguous(self) -> bool:
        return self._contiguous

    def detach(self) -> None:
        """Copy the frame to memory, so that it no longer depends on its file."""
        self.frame = Frame.open(Source.of_buffer(self.to_cframe()))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Stored.transaction`. Changes are made at once, and taken back if the block raises."""
        with self.editing():
            if self.key is not None:
                raise RuntimeError(
                    "the changes of a leaf are published with its store: use the transaction() of the store"
                )
            before = self.frame, self.array
            try:
                yield
            except BaseException:
                if not self._lock.inherited:
                    self.frame, self.array = before
                    self._buffer_of = self._joined_of = None
                    self.version += 1
                raise

    def publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:  # noqa: ARG002
        with self._lock:
            if update.frame is not self.frame:
                raise RuntimeError("the array was changed by another thread at the same time; try again")
            variable = update.settle()
            frame = self.frame
            check_chunks(frame)  # what is copied to memory has no checksums there
            if self._buffer_of is not frame:
                self._buffer = None
            self._joined = self._joined if self._joined_of is frame else None
            joined = (self._joined or JoinedChunks(frame, self._waiting)) if self.joins(update) else None
            self._buffer_of = self._joined_of = None  # until this has come to its end
            fields = Fields(frame, update.chunksize, variable=variable, vlblocks=update.vlblocks)
            if not update.edits_chunks and frame.repeated_offset is not None:
                offsets: Any = int(frame.repeated_offset)
                count = int(frame.nchunks)
            else:
                offsets = update.offsets
                count = len(offsets)
                if joined is None:
                    self._append(update)
            source = frame.source if self._buffer is None else Source.of_buffer(memoryview(self._buffer)[: self._used])
            if joined is not None:
                source, self._buffer = joined.source_after(update) if update.edits_chunks else joined.source(), None
            elif self._buffer is None and frame.serialised:
                start, stop = frame.chunks_range
                source = Source.of_buffer(frame.source.read(start, stop - start))
            assembled = Frame.assemble(
                source, offsets, count, update.nbytes, update.chunksize, fields, update.metalayers, update.vlmeta,
                vlblocks=update.vlblocks, variable=variable,
            )  # fmt: skip
            self._adopt(assembled)
            self._buffer_of = assembled
            self._joined, self._joined_of = joined, assembled

    def joins(self, update: FrameUpdate) -> bool:
        """Whether the next version lies where its chunks are: not where these are few, or have to be in memory."""
        frame, (start, stop) = update.frame, update.frame.chunks_range
        if self._joined is not None and self._joined_of is frame:
            return True
        if not frame.source.in_memory:
            return frame.repeated_offset is None and stop - start > SMALL_FRAME
        return self._waiting is not None and stop - start + sum(map(len, update.new.values())) > SMALL_FRAME

    def byte_range(self) -> tuple[Source, int, int]:
        joined = self._joined
        if joined is None or self._joined_of is not self.frame:
            return super().byte_range()
        return frame_byte_range(self.frame, joined.checksums_of)

    def _append(self, update: FrameUpdate) -> None:
        """Append new chunks to the buffer."""
        more = sum(len(stored) for stored in update.new.values())
        if self._buffer is None:
            start, stop = self.frame.chunks_range
            live = stop - start
            self._buffer = bytearray(live + more + max(live, more, 64))
            self._buffer[:live] = self.frame.source.read(start, live)
            self._used = live
        elif self._used + more > len(self._buffer):
            live = sum(
                len(self.frame.chunk_stored_at(int(o)))
                for i, o in enumerate(update.offsets)
                if o >= 0 and i not in update.new
            )
            if self._used > 2 * live + _SLACK:
                self._compact(update, more)
            else:
                larger = bytearray(2 * self._used + more)
                larger[: self._used] = memoryview(self._buffer)[: self._used]
                self._buffer = larger
        for index, kept in sorted(update.new.items()):
            stored = held(kept)
            self._buffer[self._used : self._used + len(stored)] = stored
            update.offsets[index] = self._used
            self._used += len(stored)

    def _compact(self, update: FrameUpdate, more: int) -> None:
        """Move the live chunks to a fresh buffer."""
        kept = {
            i: self.frame.chunk_stored_at(int(o))
            for i, o in enumerate(update.offsets)
            if o >= 0 and i not in update.new
        }
        live = sum(map(len, kept.values()))
        self._buffer = bytearray(2 * (live + more))
        self._used = 0
        for index, stored in kept.items():
            self._buffer[self._used : self._used + len(stored)] = stored
            update.offsets[index] = self._used
            self._used += len(stored)


class Draft(MemoryHandle):
    """The version that a transaction makes of a frame on disk: old chunks stay there, new ones wait beside it."""

    __slots__ = ("_broken", "_edits_chunks", "_fresh", "base", "owner")

    def __init__(self, frame: Frame, path: str) -> None:
        super().__init__(frame)
        self.base = frame
        self._waiting = TemporaryFile(path)
        self._broken = self._edits_chunks = self._fresh = False
        self.owner = Owner()

    def joins(self, update: FrameUpdate) -> bool:  # noqa: ARG002
        return True

    def publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:
        before = self.frame
        try:
            super().publish(update)
        except BaseException:
            # If it was interrupted in its middle, it is not known any more where the new chunks are.
            self._broken = self._broken or (self._joined_of is not before and before is not self.base)
            raise
        self._edits_chunks |= update.edits_chunks
        self._fresh |= fresh

    def changes(self) -> tuple[FrameUpdate, bool] | None:
        """All changes as one of the frame on disk, and whether it has to be written anew; None without any."""
        if self._broken:
            raise RuntimeError("a change in this transaction ended in its middle: none of its changes is published")
        if self.frame is self.base:
            return None
        update, now = FrameUpdate(self.base), FrameUpdate(self.frame)
        update.metalayers, update.vlmeta = now.metalayers, now.vlmeta
        if self._edits_chunks:
            assert self._joined is not None
            update.offsets, update.sizes = now.offsets, now.sizes
            update.chunksize, update.vlblocks = now.chunksize, now.vlblocks
            update.new = self._joined.newer(update.offsets)
        return update, self._fresh


class Drafting(FrameHandle):
    """What handles of frames on disk share: transactions."""

    __slots__ = ()
    _draft: Draft | None  # each kind has a slot for it

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Stored.transaction`."""
        with self.editing():
            if self._draft is not None:
                raise RuntimeError("transactions do not nest: the changes belong to the one that began before")
            draft, array = Draft(self.frame, str(self.urlpath)), self.array
            self._draft = draft  # type: ignore[misc]
            try:
                yield
                changes = draft.changes() if draft.owner.is_here else None
            finally:
                self._draft = None  # type: ignore[misc]
                if self.frame is not draft.base:
                    self.frame, self.array = draft.base, array
                    self.version += 1
            if changes is not None:
                update, fresh = changes
                self.publish(update, fresh=fresh)

    @property
    def published(self) -> Frame:
        return self.frame if self._draft is None else self._draft.base

    def _drafted(self, update: FrameUpdate, *, fresh: bool) -> bool:
        """Make a change in a transaction; False if there is none."""
        draft = self._draft
        if draft is None:
            return False
        draft.publish(update, fresh=fresh)
        self._adopt(draft.frame)
        return True

    def _in_transaction(self) -> bool:
        """Whether a transaction has begun. That of a parent process, in another thread, is none."""
        draft = self._draft
        if draft is not None and not draft.owner.is_here and not self._lock.inherited:
            self._draft = None  # type: ignore[misc]
            if self.array is not None:
                self.array = array_of(draft.base)
            self.frame = draft.base
        return self._draft is not None
