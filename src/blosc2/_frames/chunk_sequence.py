"""The chunks of an array with unpublished changes: old chunks stay in place, new ones wait elsewhere."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._files import BUDGET, ByteRange, Spooled, TemporaryFile
from blosc2._frames.update import FrameUpdate, Integers, positions_and_checksums

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
        # Offsets and checksums of its chunks, in order, where it carries any; read when they are asked for.
        self._known: tuple[Integers, np.ndarray[Any, np.dtype[np.uint32]]] | None = None
        self._has_asked = False
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
            self._source = Source.joined((self._base, *map(_byte_range, self._fresh.values())))
        return self._source

    def source_after(self, update: FrameUpdate) -> Source:
        """The same after a change, which gets the offsets of its new chunks in that."""
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
            self._source = Source.joined(((source, 0, source.size), *map(_byte_range, added.values())))
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

    def checksums_of(self, offsets: Integers) -> np.ndarray[Any, np.dtype[np.uint32]] | None:
        """The checksums of the chunks at offsets; None where the frame in the file carries none."""
        if not self._has_asked:
            found = positions_and_checksums(self._frame)
            if found is not None:
                order = np.argsort(found[0], kind="stable")  # which is quick where they are in order already
                self._known = found[0][order], found[1][order]
            self._has_asked = True
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


def _byte_range(stored: bytes | Spooled) -> ByteRange:
    if isinstance(stored, Spooled):
        return stored.byte_range
    return Source.of_buffer(stored), 0, len(stored)
