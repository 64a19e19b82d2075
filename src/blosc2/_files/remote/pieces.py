"""Which bytes of an object are in memory or on their way, and which of them were not used for the longest time."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

#: Bytes of one request, where more are wanted: several requests bring them side by side.
PART: Final = 4 << 20
#: The fewest bytes that are fetched where nobody said what is needed.
LEAST: Final = 1 << 12
# Where reads follow each other, a part of what was read is fetched ahead: never much more than is needed.
_AHEAD: Final = 8
_MOST_AHEAD: Final = 8 << 20
# Reads of so many places are recognised as following each other, if no more than so many bytes lie between.
_STREAMS: Final = 4
_NEAR: Final = 1 << 12


class Piece:
    """Bytes ``start .. stop`` of an object; `data` is None as long as they are on their way, or if `error` is set."""

    __slots__ = ("data", "done", "error", "start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.data: bytes | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()


class Pieces:
    """The pieces of one object. They do not overlap. Whoever calls holds a lock.

    Parameters
    ----------
    size : int
        Of the object.
    limit : int
        How many bytes are kept; those that somebody is about to read come on top.
    stored : callable, optional
        Where the next run of bytes from a place on begins and ends that need not be fetched, because they are on disk.
    """

    def __init__(self, size: int, limit: int, stored: Callable[[int], tuple[int, int] | None] | None = None) -> None:
        self.size, self.limit = size, limit
        self.nbytes = 0
        self._stored = stored
        self._starts: list[int] = []
        self._table: OrderedDict[int, Piece] = OrderedDict()  # the one that was used last comes last
        self._streams: list[tuple[int, int]] = []  # where reads ended that others may follow, and after how many bytes

    def cover(self, start: int, stop: int, new: list[Piece], *, exact: bool) -> list[Piece]:
        """The pieces that hold some bytes. Those that are made are added to `new`: the caller has to fetch them.

        Unless it is `exact`ly known what is needed, no fewer than `LEAST` bytes are fetched. Where reads follow each
        other, some more are.
        """
        found = []
        at = start
        while at < stop:
            i = bisect_right(self._starts, at)
            piece = self._table[self._starts[i - 1]] if i else None
            if piece is not None and piece.stop > at:
                self._table.move_to_end(piece.start)
                found.append(piece)
                at = piece.stop
                continue
            limit = self._starts[i] if i < len(self._starts) else self.size
            end = min(stop, limit)
            end = min(max(end, at + self._ahead(at, end, 1 if exact else LEAST)), limit)
            made = len(new)
            self._make(at, end, new)
            found += [piece for piece in new[made:] if piece.start < stop]
            at = end
        return found

    def _make(self, at: int, end: int, new: list[Piece]) -> None:
        while at < end:
            upto = end if end - at <= PART + PART // 2 else at + PART
            stored = None if self._stored is None else self._stored(at)
            if stored is not None:
                upto = min(upto, stored[1] if stored[0] <= at else stored[0])
            piece = Piece(at, upto)
            new.append(piece)  # first, so that an interrupt leaves none in the table that nobody knows of
            self._table[at] = piece
            insort(self._starts, at)
            at = upto

    def _ahead(self, at: int, end: int, least: int) -> int:
        """How many bytes to fetch from a place on, where those up to another place are needed; no fewer than some."""
        so_far = 0
        for i, (last, count) in enumerate(self._streams):
            if last <= at <= last + _NEAR:
                so_far = count
                del self._streams[i]
                break
        wanted = max(end - at, least)
        if so_far:
            wanted = max(wanted, min(end - at + so_far // _AHEAD, _MOST_AHEAD))
        self._streams.append((at + wanted, so_far + wanted))
        del self._streams[:-_STREAMS]
        return wanted

    def settle(self, piece: Piece) -> None:
        """Take note that a piece has come, and let go of others; or that it has not come."""
        if self._table.get(piece.start) is not piece:
            return
        if piece.data is None:
            self._drop(piece)
            return
        self.nbytes += len(piece.data)
        if self.nbytes > self.limit:
            for other in list(self._table.values()):
                if other.data is not None and other is not piece:
                    self.nbytes -= len(other.data)
                    self._drop(other)
                    if self.nbytes <= self.limit:
                        break

    def put(self, start: int, data: bytes) -> None:
        """Take bytes that have come before any were asked for."""
        if data:
            piece = Piece(start, start + len(data))
            piece.data = data
            piece.done.set()
            self._table[start] = piece
            insort(self._starts, start)
            self.nbytes += len(data)

    def _drop(self, piece: Piece) -> None:
        del self._table[piece.start]
        del self._starts[bisect_right(self._starts, piece.start) - 1]
