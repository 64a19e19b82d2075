"""One version of an object on a server: bytes are fetched when somebody reads them, or before, by threads.

The threads are shared by all objects of a process; a forked child gets its own. They are daemons: a program ends
although a server does not answer.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final
from weakref import WeakSet

from blosc2._core.io.sharing import Lock, free_in_child, in_child, item_of
from blosc2._core.io.source import RemoteSource, Source
from blosc2._files.remote import servers
from blosc2._files.remote.answers import Answer, Failure, Server, Version, changed, changed_since_pickled, truncated
from blosc2._files.remote.pieces import DiskBlocks, Piece, Pieces, ServerPace, length
from blosc2._options import RemotePath, count, tell
from blosc2.exceptions import RemoteChangedError


class _Pool:
    """So many threads, each of which is started when there is work for it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = self._idle = 0
        self._lock = threading.Lock()
        self._work: SimpleQueue[tuple[Callable[..., Any], Any]] = SimpleQueue()

    def submit(self, work: Callable[..., Any], given: Any) -> None:
        with self._lock:
            waiting = self._idle <= self._work.qsize()
            if waiting and self._started < self._count:
                threading.Thread(target=self._run, name="blosc2-remote", daemon=True).start()
                self._started += 1
        self._work.put((work, given))

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work, given = self._work.get()
            with self._lock:
                self._idle -= 1
            work(given)
            del work, given  # what it was about may go


_pools: dict[int, _Pool] = free_in_child({})
in_child(_pools.clear)  # behind that


def submit(count: int, work: Callable[[Any], Any], given: Any) -> bool:
    """Have one of so many threads do something that raises nothing; False where no thread can be started."""
    pool = item_of(_pools, count)
    if pool is None:
        pool = _pools.setdefault(count, _Pool(count))
    try:
        pool.submit(work, given)
    except RuntimeError:  # the interpreter is ending, or there are too many threads
        return False
    return True


# Bytes that the first request asks for: of an archive the last ones, of anything else the first.
_FIRST: Final = 1 << 15
# Seconds before a request is repeated for the first time, and at most.
_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 10.0
# Seconds after which a thread of the pool looks whether the user has interrupted the read.
_LOOK: Final = 0.1

_open: WeakSet[RemoteFile] = WeakSet()


class _Interrupted(Exception):  # noqa: N818 - never seen outside
    """The thread that fetched bytes for others was interrupted."""


class RemoteFile:
    """The bytes of an object, all of the version that was there when it was opened, or was pickled.

    Any number of threads read it. Bytes that one of them fetches are waited for by the others.

    Raises
    ------
    RemoteChangedError
        The version that the path wants is not there any more.

    Attributes
    ----------
    requests, received : int
        How many requests were answered, and the bytes that came.
    """

    def __init__(self, path: RemotePath) -> None:
        self.path, self.shown, self._options = path, str(path), path.options
        self.requests = self.received = self._interrupts = 0
        self._lock = Lock()
        self._server: Server | None = None
        self._changed: RemoteChangedError | None = None
        self.version: Version | None = None
        first = self._first()
        if path.wanted is not None and not Version(*path.wanted).is_as(first.version):
            raise changed_since_pickled(self.shown)
        self.version = first.version
        self.size = first.version.size
        self._disk = self._open_disk(first.version)
        self._begin()
        self._pieces.put(first.start, first.data)
        _open.add(self)

    def _open_disk(self, version: Version) -> DiskBlocks | None:
        """What is kept on disk; nothing of an object of which another version would not be noticed."""
        folder, limit = self._options.disk, self._options.disk_bytes
        return None if folder is None or not version.is_certain else DiskBlocks(folder, limit, self.path.url, version)

    def _begin(self) -> None:
        stored = None if self._disk is None else self._disk.run_from
        self._pieces = Pieces(self.size, self._options.memory, stored)
        # What came with other bytes must not push out what is needed.
        self._pace = ServerPace(min(self._options.ahead, self._options.memory // 4))

    def begin_in_child(self) -> None:
        """Have nothing of what the parent did: its threads and connections are not there."""
        self._server = None
        if self._disk is not None and self.version is not None:
            self._disk = None
            with suppress(OSError):
                self._disk = self._open_disk(self.version)
        self._begin()

    # ------------------------------------------------------------------ what a source asks
    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from an offset on, which are fetched as far as they are missing."""
        stop = offset + len(buffer)
        while True:
            found = self._held(offset, stop) or self._fetched([(offset, stop)], exact=False)
            try:
                for piece in found:
                    self._await(piece)
                    if piece.error is not None:
                        raise piece.error
            except _Interrupted:
                continue
            break
        for piece in found:
            assert piece.data is not None
            first, last = max(piece.start, offset), min(piece.stop, stop)
            buffer[first - offset : last - offset] = memoryview(piece.data)[first - piece.start : last - piece.start]

    def _await(self, piece: Piece) -> None:
        """Wait for a piece; not any longer when the user interrupts the read that this thread takes part in.

        Only the main thread is interrupted. The threads of the pool that decode for it would wait for their bytes.
        """
        if piece.done.is_set():
            return
        if isinstance(threading.current_thread(), threading._DummyThread):  # of the pool: Python has not started it
            before = self._interrupts
            while not piece.done.wait(_LOOK):
                if self._interrupts != before:
                    raise KeyboardInterrupt
            return
        try:
            piece.done.wait()
        except KeyboardInterrupt:
            self._interrupts += 1
            raise

    def ask(self, spans: Iterable[tuple[int, int]], spare: int = 0) -> None:
        """Have bytes fetched that are read soon. Nobody waits, and what fails is told to who reads them.

        Of these, `spare` bytes need not be read soon.
        """
        if spare:
            with self._lock:
                self._pace.spend(spare)
        self._fetched(spans, exact=True)

    def worth(self) -> int:
        """How many bytes it costs no more to fetch than another request later."""
        with self._lock:
            return self._pace.worth()

    def renewed(self) -> RemoteFile:
        """This, if the object still is the version that was opened, or what reads the newer one."""
        other = RemoteFile(self.path)
        assert self.version is not None
        assert other.version is not None
        return self if self._changed is None and self.version.is_as(other.version) else other

    # ------------------------------------------------------------------ fetching
    def _held(self, start: int, stop: int) -> list[Piece]:
        """The piece that holds all of some bytes, as one often does; nothing where there is none."""
        with self._lock:
            piece = self._pieces.at(start)
            if piece is None or piece.stop < stop:
                return []
            self._pace.note_use(stop - start)
        return [piece]

    def _fetched(self, spans: Iterable[tuple[int, int]], *, exact: bool) -> list[Piece]:
        """The pieces that hold some bytes. New ones are fetched by other threads, as far as these take them.

        What is missing is fetched with bytes around it. Unless it is `exact`ly known what is needed, the caller waits,
        and fetches the first one itself.
        """
        left: list[Piece] = []  # new ones that nobody has taken on
        spans = list(spans)
        try:
            with self._lock:
                pieces, pace = self._pieces, self._pace
                missing = [span for start, stop in spans for span in pieces.missing(start, stop)]
                pace.note_use(length(spans) - length(missing))
                if missing:
                    for start, stop in list(pieces.around(missing, pace.widened(missing))):
                        pieces.cover(start, stop, left, exact=True)
                found = [piece for start, stop in spans for piece in pieces.cover(start, stop, left, exact=exact)]
            self._have_brought(left, 0 if exact else 1)
        except BaseException:
            for piece in left:
                self._give_up(piece)
            raise
        return found

    def _have_brought(self, left: list[Piece], own: int) -> None:
        """Have pieces fetched, but for the first `own` ones by other threads, as far as these take them."""
        for piece in left[own:]:
            if submit(self._options.requests, self._bring, piece):
                left.remove(piece)
        while left:
            self._bring(left[0])
            del left[0]

    def _give_up(self, piece: Piece) -> None:
        """Tell who waits for a piece that nobody fetches it, if that is so."""
        if not piece.done.is_set():
            piece.error = _Interrupted()
            with self._lock:
                self._pieces.settle(piece)
            piece.done.set()

    def _bring(self, piece: Piece) -> None:
        try:
            piece.data = self._bytes(piece.start, piece.stop)
        except Exception as error:  # noqa: BLE001 - for whoever waits for the bytes
            piece.error = error.with_traceback(None)
        except BaseException:
            piece.error = _Interrupted()
            raise
        finally:
            with self._lock:
                self._pieces.settle(piece)
            piece.done.set()

    def _bytes(self, start: int, stop: int) -> bytes:
        disk, data = self._disk, None
        if disk is not None:
            with self._lock:
                data = disk.read(start, stop)
        if data is not None:
            count("disk_hits")
        else:
            data = self._request(lambda server: server.get(start, stop), stop - start).data
            if disk is not None:
                with self._lock:
                    disk.write(start, data)
        return data

    def _first(self) -> Answer:
        """The first request, which tells the version, too."""
        if self.path.suffix == ".b2z":
            return self._request(lambda server: server.get_end(_FIRST))
        return self._request(lambda server: server.get(0, _FIRST))

    def _request(self, ask: Callable[[Server], Answer], length: int | None = None) -> Answer:
        """An answer of the version that was opened, after some attempts where these may help."""
        for attempt in range(self._options.retries + 1):
            if self._changed is not None:
                raise self._changed.with_traceback(None)
            try:
                return self._attempt(ask, length)
            except Failure as failure:
                if isinstance(failure.error, RemoteChangedError):
                    self._changed = failure.error
                if not failure.passing or attempt == self._options.retries:
                    raise failure.after(attempt) from None
                seconds = _delay(attempt, failure.wait)
                said = "%s; attempt %d, the next one in %.1f s"
                tell("WARNING", said, failure.first, attempt + 1, seconds, counted="retries")
                time.sleep(seconds)
        raise AssertionError

    def _attempt(self, ask: Callable[[Server], Answer], length: int | None) -> Answer:
        server = self._server
        if server is None:
            self._server = server = servers.server_of(self.path)
        pace = None if self.version is None else self._pace  # the first answer comes with a connection
        if pace is not None:
            with self._lock:
                pace.begin()
        begun = time.monotonic()
        try:
            answer = ask(server)
            took = time.monotonic() - begun
        finally:
            if pace is not None:
                with self._lock:
                    pace.end()
        with self._lock:
            self.requests += 1
            self.received += len(answer.data)
            if pace is not None:
                pace.note(len(answer.data), took)
        count("received", len(answer.data))
        tell("DEBUG", "%s: %d bytes in %.3f s", self.shown, len(answer.data), took, counted="requests")
        if self.version is not None and not self.version.is_as(answer.version):
            raise Failure(changed(self.shown))
        if length is not None and len(answer.data) != length:
            raise truncated(self.shown, len(answer.data), length)
        return answer


def _delay(attempt: int, asked: float | None) -> float:
    """Seconds to wait: longer after each attempt, not the same for all that wait, and as long as a server asks for."""
    seconds: float = min(_WAIT * 2**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
    return seconds if asked is None else min(max(asked, seconds), _LONGEST_WAIT)


def remote_source(path: RemotePath) -> Source:
    """The source of an object; all that is opened by one path shares what was fetched."""
    if path.reader is None:
        path.reader = RemoteFile(path)
        path.wanted = None  # from now on the reader refuses others, until it is renewed
    return RemoteSource(path.reader, str(path))


def renewed_source(path: RemotePath) -> bool:
    """Look whether there is another version of an object by now; `remote_source` gives that one then."""
    before = path.reader
    if before is not None:
        path.reader = before.renewed()
    return path.reader is not before


def _in_child() -> None:
    for file in list(_open):
        file.begin_in_child()


in_child(_in_child)

__all__ = ["RemoteFile", "remote_source", "renewed_source"]
