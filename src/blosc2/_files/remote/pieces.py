"""Which bytes of an object are kept: in memory or on their way, and on disk.

In memory, those go first that were not used for the longest time. On disk each version of an object has a folder, whose
name comes from its URL and from what the server tells of the version. Each run of bytes is a file in it, which appears
whole, is never changed, and ends with its checksum. So processes share a folder without a lock. What is damaged is
fetched again.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from blosc2._core.io.checksum import crc32c
from blosc2._files.remote.answers import Version

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


# Bytes in a second: a guess until a server has shown how fast it is, and the most that is believed.
_RATE: Final = 1e8
_FASTEST: Final = 1e9
# A busy machine makes answers slower, never faster: of the fastest one so much stays when another one is slower.
_STAYS: Final = 0.8
# An answer of up to so many bytes shows how long an answer takes, a longer one how fast bytes come.
_SHORT: Final = 1 << 16
# What is fetched beside what is needed has no more than so many times the bytes that have shown how fast bytes come.
_GROWS: Final = 8
# Seconds that this machine is busy with a request.
_REQUEST: Final = 5e-4
# It takes no longer than one answer, and than so many of those that were waited for.
_WAITS: Final = 8
# Bytes that are fetched although nobody has asked for them: how many more for each that was of use; and for each that
# is asked for, so many at first, and twice as many each time.
_ALLOWED: Final = 4
_TIMES: Final = 2
# Bytes around those that are needed take no more than one of so many parts of what may still come: reads elsewhere have
# more of it.
_SHARE: Final = 4


class Piece:
    """Bytes ``start .. stop`` of an object; `data` is None as long as they are on their way, or if `error` is set."""

    __slots__ = ("data", "done", "error", "start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.data: bytes | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()


class ServerPace:
    """How long a server takes to answer, how fast bytes come then, and what is worth fetching with others.

    Who reads random parts one after the other waits for an answer each time, unless the bytes came with earlier ones.
    So what is fetched is widened to whole pages and chunks, as large as costs no more than one more answer, and than
    some of those that were waited for: what is fetched for later reads never doubles the time. As long as little is
    known of a server, answers become larger step by step. No more than `most` bytes are fetched and never needed; each
    that is read without a request allows for some more.
    """

    def __init__(self, most: int) -> None:
        self._seconds = 0.0  # of the short answer that came soonest
        self._rate = 0.0  # of long answers, in bytes a second; 0 if there was none
        self._shown = _SHORT // 2
        self._waited = 0.0  # for answers, as far as it may be spent
        self._under_way = 0
        self._most = self._left = most
        self._times = _TIMES

    def begin(self) -> None:
        """A request is sent, for whose answer somebody waits who would not if the bytes had come with earlier ones."""
        cost = self._busy() if self._under_way else self._seconds
        self._waited = min(self._waited + cost, _WAITS * self._seconds)
        self._under_way += 1

    def end(self) -> None:
        """A request was answered, or has failed."""
        self._under_way -= 1

    def note(self, nbytes: int, seconds: float) -> None:
        """An answer of so many bytes has taken so long."""
        if nbytes <= _SHORT and not 0 < self._seconds < seconds:
            self._seconds = seconds
        elif self._seconds and nbytes > _SHORT:
            rate = nbytes / max(seconds - self._seconds, nbytes / _FASTEST)
            self._rate = max(rate, _STAYS * self._rate + (1 - _STAYS) * rate)
            self._shown += nbytes

    def note_use(self, nbytes: int) -> None:
        """So many bytes were there already when they were needed."""
        self._left = min(self._left + _ALLOWED * nbytes, self._most)

    def worth(self) -> int:
        """How many bytes cost no more than one more answer, and than those that were waited for."""
        return min(self._left, int((self._seconds + self._waited) * (self._rate or _RATE)), _GROWS * self._shown)

    def _busy(self) -> float:
        """Seconds that one more request takes side by side with others."""
        return min(_REQUEST, self._seconds / 2)

    def spend(self, nbytes: int) -> None:
        """So many bytes are fetched although nobody needs them yet."""
        self._left = max(self._left - nbytes, 0)
        self._waited = max(self._waited - nbytes / (self._rate or _RATE), 0.0)

    def widened(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """What to fetch where some bytes are needed; nothing where it is these alone."""
        needed = length(spans)
        gap = min(int(self._busy() * (self._rate or _RATE)), self._left // len(spans))
        near = _joined(spans, gap) if gap else spans
        wide = near if len(near) < len(spans) else []
        most = min(self.worth(), self._left // _SHARE, max(needed, LEAST) * self._times)
        if self._seconds:
            self._times = min(2 * self._times, self._most)
        page = PART
        while page > LEAST and most >= LEAST:
            paged = _joined([(start // page * page, -(-stop // page) * page) for start, stop in near], 0)
            if length(paged) - needed <= most:
                wide = paged
                break
            page //= 2
        if wide:
            self.spend(length(wide) - needed)
        return wide


def length(spans: Iterable[tuple[int, int]]) -> int:
    """How many bytes some spans have."""
    return sum(stop - start for start, stop in spans)


def _joined(spans: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Spans in order, as one where so many bytes or fewer lie between."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


class Pieces:
    """The pieces of one object of some size. They do not overlap. Whoever calls holds a lock.

    `limit` bytes are kept; those that somebody is about to read come on top. `stored` tells where the next run of bytes
    from a place on begins and ends that need not be fetched, because they are on disk.
    """

    def __init__(self, size: int, limit: int, stored: Callable[[int], tuple[int, int] | None] | None = None) -> None:
        self.size, self.limit = size, limit
        self.nbytes = 0
        self._stored = stored
        self._starts: list[int] = []
        self._table: OrderedDict[int, Piece] = OrderedDict()  # the one that was used last comes last
        self._streams: list[tuple[int, int]] = []  # where reads ended that others may follow, and after how many bytes

    def at(self, offset: int) -> Piece | None:
        """The piece that holds a byte, which is used now."""
        i = bisect_right(self._starts, offset)
        piece = self._table[self._starts[i - 1]] if i else None
        if piece is None or piece.stop <= offset:
            return None
        self._table.move_to_end(piece.start)
        return piece

    def cover(self, start: int, stop: int, new: list[Piece], *, exact: bool) -> list[Piece]:
        """The pieces that hold some bytes. Those that are made are added to `new`: the caller has to fetch them.

        Unless it is `exact`ly known what is needed, no fewer than `LEAST` bytes are fetched. Where reads follow each
        other, some more are.
        """
        found = []
        at = start
        while at < stop:
            piece = self.at(at)
            if piece is not None:
                found.append(piece)
                at = piece.stop
                continue
            i = bisect_right(self._starts, at)
            limit = self._starts[i] if i < len(self._starts) else self.size
            end = min(stop, limit)
            end = min(max(end, at + self._ahead(at, end, 1 if exact else LEAST)), limit)
            made = len(new)
            self._make(at, end, new)
            found += [piece for piece in new[made:] if piece.start < stop]
            at = end
        return found

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """What of some bytes no piece holds."""
        found = []
        while start < stop:
            i = bisect_right(self._starts, start)
            piece = self._table[self._starts[i - 1]] if i else None
            if piece is not None and piece.stop > start:
                start = piece.stop
                continue
            end = min(stop, self._starts[i] if i < len(self._starts) else self.size)
            if end <= start:
                break
            found.append((start, end))
            start = end
        return found

    def around(self, needed: list[tuple[int, int]], wide: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """What of widened spans no piece holds, as far as it touches what is needed: the rest would take requests."""
        needed = sorted(needed)
        number = 0
        for span in wide:
            for start, stop in self.missing(*span):
                while number < len(needed) and needed[number][1] <= start:
                    number += 1
                if number < len(needed) and needed[number][0] < stop:
                    yield start, stop

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


_NAME: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_FOLDER: Final = re.compile(r"b2-[0-9a-f]{40}")
_SUM: Final = 4
# All files are looked at after so many bytes were written.
_LOOK: Final = 16


class DiskBlocks:
    """The bytes of one version of an object, in a folder where all objects are kept; it is made if it is missing.

    The folder takes no more than `limit` bytes; those that were written first go first.
    """

    def __init__(self, folder: str, limit: int, url: str, version: Version) -> None:
        self._root, self._limit = folder, limit
        name = hashlib.sha256(repr((url, *version)).encode()).hexdigest()[:40]
        self._folder = os.path.join(folder, f"b2-{name}")
        self._starts: list[int] = []
        self._stops: dict[int, int] = {}
        self._written = 0
        os.makedirs(self._folder, exist_ok=True)
        for entry in os.listdir(self._folder):
            if _NAME.fullmatch(entry):
                start, stop = map(int, entry.split("-"))
                if start < stop <= version.size:
                    self._note(start, stop)

    def _note(self, start: int, stop: int) -> None:
        if start not in self._stops:
            insort(self._starts, start)
        self._stops[start] = max(stop, self._stops.get(start, 0))

    def run_from(self, at: int) -> tuple[int, int] | None:
        """Where the run begins and ends that holds a byte, or else the next one behind it."""
        i = bisect_right(self._starts, at)
        if i and self._stops[self._starts[i - 1]] > at:
            return self._starts[i - 1], self._stops[self._starts[i - 1]]
        return (self._starts[i], self._stops[self._starts[i]]) if i < len(self._starts) else None

    def read(self, start: int, stop: int) -> bytes | None:
        """Bytes that are kept; None of others, and of those that are gone or damaged."""
        i = bisect_right(self._starts, start)
        if not i:
            return None
        first = self._starts[i - 1]
        last = self._stops.get(first, 0)
        if last < stop:
            return None
        try:
            with open(os.path.join(self._folder, f"{first}-{last}"), "rb") as file:
                data = file.read(last - first + _SUM + 1)
        except OSError:
            data = b""
        if len(data) != last - first + _SUM or crc32c(data[:-_SUM]) != int.from_bytes(data[-_SUM:], "little"):
            self._forget(first, last)
            return None
        return data[start - first : stop - first]

    def _forget(self, first: int, last: int) -> None:
        if self._stops.pop(first, None) is not None:
            del self._starts[bisect_right(self._starts, first) - 1]
        with suppress(OSError):
            os.remove(os.path.join(self._folder, f"{first}-{last}"))

    def write(self, start: int, data: bytes) -> None:
        """Keep bytes. A disk that is full keeps nothing, and that is no error."""
        stop = start + len(data)
        try:
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                    file.write(crc32c(data).to_bytes(_SUM, "little"))
                os.replace(name, os.path.join(self._folder, f"{start}-{stop}"))
            except BaseException:
                with suppress(OSError):
                    os.remove(name)
                raise
        except OSError:
            return
        self._note(start, stop)
        self._written += len(data)
        if self._written >= self._limit // _LOOK:
            self._written = 0
            self._make_room()

    def _make_room(self) -> None:
        """Remove files that were written first, of all objects, until the rest fits."""
        files = []
        for folder in self._folders():
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not _NAME.fullmatch(entry.name):
                        continue
                    status = entry.stat()
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= self._limit:
                break
            with suppress(OSError):
                os.remove(path)
                used -= size

    def _folders(self) -> list[str]:
        try:
            return [os.path.join(self._root, name) for name in os.listdir(self._root) if _FOLDER.fullmatch(name)]
        except OSError:
            return []
