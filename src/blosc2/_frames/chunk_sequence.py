"""The chunks of an array with unpublished changes: old chunks stay in their file, new ones wait elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._files import BUDGET, Spooled, TemporaryFile, Window
from blosc2._frames.update import Draft, sums_by_offset

# Bytes of a temporary file that nobody needs any more, beyond as many as are needed, before it is written anew.
_SLACK: Final = 256 << 20


class JoinedChunks:
    """Where the chunks of an array are that is edited: those of a frame in a file, and newer ones.

    Parameters
    ----------
    frame : Frame
        A serialised one.
    waiting : TemporaryFile or None
        Where new chunks go beyond a budget; None keeps them in memory.
    """

    def __init__(self, frame: Frame, waiting: TemporaryFile | None) -> None:
        start, stop = frame.chunks_window
        self._base: Window = (frame.source, start, stop - start)
        self._frame = frame
        self._sums: dict[int, int] | None = None
        self.waiting = waiting
        self._fresh: dict[int, bytes | Spooled] = {}

    def source(self) -> Source:
        """A source of all chunks as they are."""
        return Source.joined((self._base, *map(_window, self._fresh.values())))

    def source_after(self, draft: Draft) -> Source:
        """The same after a change, which gets the offsets of its new chunks in that."""
        offsets, new = draft.offsets, draft.new
        behind = self._base[2]
        kept: dict[int, bytes | Spooled] = dict(new)
        for index in np.flatnonzero(offsets >= behind).tolist():
            if index not in new:
                kept[index] = self._fresh[int(offsets[index])]
        fresh = {}
        for index in sorted(kept):
            offsets[index] = behind
            fresh[behind] = kept[index]
            behind += len(kept[index])
        self._fresh = self._within_budget(fresh)
        return self.source()

    def _within_budget(self, fresh: dict[int, bytes | Spooled]) -> dict[int, bytes | Spooled]:
        """The same chunks, with no more in memory than may be, and no more dead bytes in the file."""
        waiting = self.waiting
        if waiting is None:
            return fresh
        in_file = sum(len(stored) for stored in fresh.values() if isinstance(stored, Spooled))
        anew = waiting.size > 2 * in_file + _SLACK
        if anew:
            self.waiting = waiting = waiting.another()
        if sum(map(len, fresh.values())) - in_file <= BUDGET:
            if anew:
                return {
                    at: waiting.keep(stored) if isinstance(stored, Spooled) else stored for at, stored in fresh.items()
                }
            return fresh
        return {
            at: waiting.keep(stored) if anew or not isinstance(stored, Spooled) else stored
            for at, stored in fresh.items()
        }

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
