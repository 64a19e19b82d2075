"""The chunks of an array with unpublished changes: old chunks stay in place, new ones wait elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._files import BUDGET, Spooled, TemporaryFile, Window
from blosc2._frames.update import FrameUpdate, sums_by_offset

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
        self._base: Window = (frame.source, start, stop - start)
        self._frame = frame
        self._sums: dict[int, int] | None = None
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
        """A source of all chunks as they are."""
        if self._source is None:
            self._source = Source.joined((self._base, *map(_window, self._fresh.values())))
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
            self._source = Source.joined(((source, 0, source.size), *map(_window, added.values())))
        return self.source()

    def _tidy(self, update: FrameUpdate) -> None:
        """Leave out what an update does not need any more; so far, that is of no use in the temporary file."""
        offsets, first = update.offsets, self._base[2]
        fresh = {at: self._fresh[at] for at in np.unique(offsets[offsets >= first]).tolist()}
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

    def sum_at(self) -> Callable[[int], int | None]:
        """What knows the checksum of the chunk at an offset, where the frame in the file carries any."""
        if self._sums is None:
            self._sums = sums_by_offset(self._frame)
        known, fresh = self._sums, self._fresh

        def find(offset: int) -> int | None:
            if not known:
                return None
            stored = fresh.get(offset)
            if stored is None:
                return known.get(offset)
            return stored.sum if isinstance(stored, Spooled) else int(crc32c(stored))

        return find


def _window(stored: bytes | Spooled) -> Window:
    if isinstance(stored, Spooled):
        return stored.window
    return Source.of_buffer(stored), 0, len(stored)
