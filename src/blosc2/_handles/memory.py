"""Frames in memory, and the buffer that a change appends to; versions of a file that are not published yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Self

from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._core.io.source import Source
from blosc2._core.leaves.weak_cache import Block
from blosc2._core.on_demand import import_now
from blosc2._files import Owner, TemporaryFile, as_block, held
from blosc2._frames import SMALL_FRAME, Fields, FrameUpdate, JoinedChunks, check_chunks, frame_byte_range
from blosc2._handles.handle import IN_MEMORY, FrameHandle, HandleOptions, array_of
from blosc2.exceptions import FormatError, explain, name_file

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

    @as_block
    def transaction(self) -> Iterator[None]:
        """See `Stored.transaction`. Changes are made at once, and taken back if the block raises."""
        with self.editing():
            if self.key is not None:
                raise RuntimeError(
                    "the changes of a leaf are published with its store: use the transaction() of the store"
                )
            with _TakenBack(self):
                yield

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


class _TakenBack(Block):
    """Has a frame in memory show again what it showed, if the block raises."""

    __slots__ = ("_before", "_handle")

    def __init__(self, handle: MemoryHandle) -> None:
        self._handle = handle
        self._before = handle.frame, handle.array

    def __enter__(self) -> None:
        pass

    def _leave(self, failed: bool) -> None:
        handle = self._handle
        if failed and not handle._lock.inherited:
            handle.frame, handle.array = self._before
            handle._buffer_of = handle._joined_of = None
            handle.version += 1


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


class _Drafted(Block):
    """Ends the draft of a handle, which shows what is on disk again; `changes` is what the draft has changed."""

    __slots__ = ("_array", "_handle", "changes", "draft")

    def __init__(self, handle: Drafting) -> None:
        self._handle = handle
        self.draft, self._array = Draft(handle.frame, str(handle.urlpath)), handle.array
        self.changes: tuple[FrameUpdate, bool] | None = None

    def __enter__(self) -> Self:
        return self

    def _leave(self, failed: bool) -> None:
        handle, draft = self._handle, self.draft
        if not failed and draft.owner.is_here:
            self.changes = draft.changes()
        # The draft last: what is left out by an interrupt is done again.
        if (handle.frame, handle.array) != (draft.base, self._array):
            handle.frame, handle.array = draft.base, self._array
            handle.version += 1
        handle._draft = None  # type: ignore[misc]


class Drafting(FrameHandle):
    """What handles of frames on disk share: transactions, and looking at the disk after a change that failed."""

    __slots__ = ()
    _draft: Draft | None  # each kind has slots for these
    _path: str
    # Whether the last change failed, so that another version may be on disk than the one shown.
    _behind: bool

    def editing(self) -> AbstractContextManager[Any]:
        """See `FrameHandle.editing`. If the last change failed, the file is read again first."""
        if self._behind or (self._draft is not None and not self._in_transaction()):
            self.refresh()
        return super().editing()

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        with self._lock:
            if self._in_transaction():
                return False  # it shows its own version until it ends
            changed = super().refresh()
            self._behind = False  # type: ignore[misc]
            return changed

    def _version(self) -> bytes:
        """Bytes that tell the version shown from others."""
        raise NotImplementedError

    def _look_again(self, error: BaseException) -> None:
        """After a failed change, show what is on disk, and say so in the error."""
        before = self._version()
        try:
            self.refresh()
        except (OSError, FormatError, MemoryError):
            what = "the change may be in the file: refresh() tells"
        else:
            shows = self._version() != before
            what = "the change is in the file all the same, and shows" if shows else "the file is what it was"
        explain(error, what)
        name_file(error, self._path)

    @as_block
    def transaction(self) -> Iterator[None]:
        """See `Stored.transaction`."""
        with self.editing():
            if self._draft is not None:
                raise RuntimeError("transactions do not nest: the changes belong to the one that began before")
            with _Drafted(self) as drafted:
                self._draft = drafted.draft  # type: ignore[misc]
                yield
            if drafted.changes is not None:
                update, fresh = drafted.changes
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
