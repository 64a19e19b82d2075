"""The chunks of a frame that is edited, wherever they lie, and the frame after each change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._files import BUDGET, ByteRange, Spooled, TemporaryFile, held
from blosc2._frames.checksums import carried, check_chunks
from blosc2._frames.update import (
    SMALL_FRAME,
    Checksums,
    FrameUpdate,
    Integers,
    checksums_by_number,
    frame_byte_range,
    kept_range,
    table_of,
)

# A buffer is compacted when its dead bytes exceed the live ones by this much.
_DEAD: Final = 1 << 16


class EditedChunks:
    """Where the chunks are of a frame that is edited.

    Few lie in one buffer. A change appends to it, so that readers of older versions keep theirs; when it is full, it is
    copied to a larger one. Many stay in a file, or go to one where they may: see `JoinedChunks`.

    Parameters
    ----------
    waiting : TemporaryFile, optional
        For new chunks that are too many for memory.
    joins : bool
        Whether also few chunks stay where they are.

    Attributes
    ----------
    frame : Frame or None
        The version whose chunks these are. None during a change, and after one that failed.
    """

    __slots__ = ("_buffer", "_joined", "_joins", "_used", "frame", "waiting")

    def __init__(self, waiting: TemporaryFile | None = None, *, joins: bool = False) -> None:
        self.waiting = waiting
        self._joins = joins
        self.frame: Frame | None = None
        self._buffer: bytearray | None = None
        self._used = 0
        self._joined: JoinedChunks | None = None

    def joins(self, update: FrameUpdate) -> bool:
        """Whether the next version lies where its chunks are: not where these are few, or have to be in memory."""
        frame, (start, stop) = update.frame, update.frame.chunks_range
        if self._joins or (self._joined is not None and self.frame is frame):
            return True
        if not frame.source.in_memory:
            return frame.repeated_offset is None and stop - start > SMALL_FRAME
        return self.waiting is not None and stop - start + sum(map(len, update.new.values())) > SMALL_FRAME

    def after(self, update: FrameUpdate) -> Frame:
        """The frame after a change."""
        update.settle()
        frame = update.frame
        check_chunks(frame)  # what is copied to memory has no checksums there
        if self.frame is not frame:
            self._buffer = self._joined = None
        joined = (self._joined or JoinedChunks(frame, self.waiting)) if self.joins(update) else None
        self.frame = None
        entries, count = update.entries()
        if joined is not None:
            source = joined.source() if update.table is None else joined.source_after(update)
            self._buffer = None
        else:
            if not isinstance(entries, int):
                self._append(update)
            if self._buffer is not None:
                source = Source.of_buffer(memoryview(self._buffer)[: self._used])
            elif frame.serialised:
                start, stop = frame.chunks_range
                source = Source.of_buffer(frame.source.read(start, stop - start))
            else:
                source = frame.source
        made = Frame.assemble(
            source, entries, count, update.nbytes, update.chunksize, update.fields(), update.metalayers, update.vlmeta,
            vlblocks=update.vlblocks, variable=update.variable,
        )  # fmt: skip
        self.frame, self._joined = made, joined
        return made

    def byte_range(self, frame: Frame) -> ByteRange | None:
        """A version, and the checksums of its chunks, as far as these are known; None if it is not made of many."""
        if self._joined is None or self.frame is not frame:
            return None
        update = FrameUpdate(frame)
        offsets = update.offsets
        return frame_byte_range(update, checksums=self._joined.checksums_of(offsets[offsets >= 0]))

    def newer(self, offsets: Integers) -> dict[int, bytes | Spooled]:
        """The chunks of a table that were not in the first version, by their numbers."""
        assert self._joined is not None
        return self._joined.newer(offsets)

    def _append(self, update: FrameUpdate) -> None:
        """Append new chunks to the buffer."""
        frame = update.frame
        more = sum(len(stored) for stored in update.new.values())
        if self._buffer is None:
            start, stop = frame.chunks_range
            live = stop - start
            self._buffer = bytearray(live + more + max(live, more, 64))
            self._buffer[:live] = frame.source.read(start, live)
            self._used = live
        elif self._used + more > len(self._buffer):
            kept = {i: o for i, o in enumerate(update.offsets.tolist()) if o >= 0 and i not in update.new}
            at = np.array(list(kept.values()), np.int64)
            live = int(np.frombuffer(stored_lengths(frame, at), np.int64).sum())
            if self._used > 2 * live + _DEAD:
                self._buffer, self._used = bytearray(2 * (live + more)), 0
                self._put(update, {i: frame.chunk_stored_at(o) for i, o in kept.items()})
            else:
                larger = bytearray(2 * self._used + more)
                larger[: self._used] = memoryview(self._buffer)[: self._used]
                self._buffer = larger
        self._put(update, update.new)

    def _put(self, update: FrameUpdate, chunks: Mapping[int, bytes | Spooled]) -> None:
        assert self._buffer is not None
        for index, kept in sorted(chunks.items()):
            stored = held(kept)
            self._buffer[self._used : self._used + len(stored)] = stored
            update.offsets[index] = self._used
            self._used += len(stored)


# Bytes of a temporary file that nobody needs any more, beyond as many as are needed, before it is written anew.
_SLACK: Final = 256 << 20


class JoinedChunks:
    """Where the chunks of an array are that is edited: those of a frame in a file, and newer ones.

    Parameters
    ----------
    frame : Frame
        Its chunks stay where they are.
    waiting : TemporaryFile or None
        Where new chunks go beyond a budget; None keeps them in memory.
    """

    def __init__(self, frame: Frame, waiting: TemporaryFile | None) -> None:
        start, stop = frame.chunks_range
        self._base: ByteRange = (frame.source, start, stop - start)
        self._frame = frame
        self.waiting = waiting
        # Newer chunks by where they are in the source, one behind the other; some of them nobody needs any more.
        self._fresh: dict[int, bytes | Spooled] = {}
        self._end = stop - start
        self._in_memory = 0
        # Up to where the source may reach before such chunks are looked for.
        self._room = self._end + self._slack
        self._source: Source | None = None

    @property
    def _slack(self) -> int:
        return BUDGET if self.waiting is None else _SLACK

    def source(self) -> Source:
        """A source of all current chunks."""
        if self._source is None:
            self._source = Source.joined((self._base, *map(kept_range, self._fresh.values())))
        return self._source

    def source_after(self, update: FrameUpdate) -> Source:
        """A source of all chunks after a change, which gets the offsets of its new chunks in that."""
        source = self.source()
        added: dict[int, bytes | Spooled] = {}
        for index, stored in sorted(update.new.items()):
            update.offsets[index] = self._end
            added[self._end] = stored
            self._end += len(stored)
            self._in_memory += 0 if isinstance(stored, Spooled) else len(stored)
        self._fresh.update(added)
        if self._end > self._room:
            self._tidy(update)
        if self.waiting is not None and self._in_memory > BUDGET:
            self._fresh = {
                at: stored if isinstance(stored, Spooled) else self.waiting.keep(stored)
                for at, stored in self._fresh.items()
            }
            self._in_memory, self._source = 0, None
        elif self._source is not None:
            # Of what was joined already, only the runs are gone through.
            self._source = Source.joined(((source, 0, source.size), *map(kept_range, added.values())))
        return self.source()

    def newer(self, offsets: Integers) -> dict[int, bytes | Spooled]:
        """The chunks of a table that are not in the file, by their numbers."""
        numbers = np.flatnonzero(offsets >= self._base[2])
        return {n: self._fresh[at] for n, at in zip(numbers.tolist(), offsets[numbers].tolist(), strict=True)}

    def _tidy(self, update: FrameUpdate) -> None:
        """Leave out what an update does not need any more; so far, that is of no use in the temporary file."""
        offsets, first = update.offsets, self._base[2]
        used = np.sort(offsets[offsets >= first])
        # Not by `np.unique`, which imports `numpy.ma`.
        fresh = {at: self._fresh[at] for at in used[np.diff(used, prepend=-1) > 0].tolist()}
        in_file = sum(len(stored) for stored in fresh.values() if isinstance(stored, Spooled))
        waiting = self.waiting
        if waiting is not None and waiting.size > 2 * in_file + _SLACK:
            self.waiting = waiting = waiting.another()
            fresh = {at: waiting.keep(kept) if isinstance(kept, Spooled) else kept for at, kept in fresh.items()}
        lengths = np.array([len(stored) for stored in fresh.values()], np.int64)
        starts = first + np.cumsum(lengths) - lengths
        moved = offsets >= first
        offsets[moved] = starts[np.searchsorted(np.array(list(fresh), np.int64), offsets[moved])]
        self._fresh = dict(zip(starts.tolist(), fresh.values(), strict=True))
        live = int(lengths.sum())
        self._end, self._in_memory, self._source = first + live, live - in_file, None
        self._room = first + 2 * live + self._slack

    @cached_property
    def _known(self) -> tuple[Integers, Checksums] | None:
        """The offsets of its chunks in the file, in order, and their checksums; None if these are not known."""
        carries = carried(self._frame)
        if carries is None:
            return None
        table = table_of(self._frame)
        order = np.argsort(table, kind="stable")  # which is quick where they are in order already
        return table[order], checksums_by_number(self._frame, carries, table)[order]

    def checksums_of(self, offsets: Integers) -> Checksums | None:
        """The checksums of the chunks at offsets; None where the frame in the file carries none."""
        if self._known is None:
            return None
        positions, checksums = self._known
        every = np.zeros(len(offsets), np.uint32)
        old = offsets < self._base[2]
        at = np.searchsorted(positions, offsets[old])
        if not np.array_equal(positions[at[at < len(positions)]], offsets[old]):
            return None
        every[old] = checksums[at]
        fresh = (self._fresh[at] for at in offsets[~old].tolist())
        every[~old] = [stored.sum if isinstance(stored, Spooled) else crc32c(stored) for stored in fresh]
        return every
