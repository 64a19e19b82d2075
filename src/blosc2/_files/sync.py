"""Making files and names durable; and when to read a file again that a writer may be changing."""

from __future__ import annotations

import _queue
import _thread
import errno
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Self

from blosc2._files.owner import Owner
from blosc2._options import absolute_path

if sys.platform != "win32":
    import fcntl

# A reader does not wait longer than this for a writer.
_MOST: Final = 100


class Retry:
    """Counts failed attempts to read a file.

    An attempt may fail because a writer changed the file meanwhile. It did if the file looks different now, and then
    another attempt is worth it. A file that fails twice with the same content is damaged.

    Examples
    --------
    >>> retry = Retry()
    >>> retry.again(b"half a header"), retry.again(b"a header"), retry.again(b"a header")
    (True, True, False)
    """

    _last: object = None
    _tries = 0

    def again(self, state: object) -> bool:
        """Whether to read once more; `state` says how the file looks now."""
        self._tries += 1
        if state == self._last or self._tries == _MOST:
            return False
        self._last = state
        return True


# What makes something durable, and its path.
_Work = tuple[Callable[[str], None], str]
#: Syncs that wait for the disk at the same time; more are hardly quicker.
THREADS: Final = 8
# Seconds of a sync for which threads are worth it: of a file system in memory none are, as they take turns anyway.
_LONG: Final = 100e-6
#: What file systems answer that have no syncs of folders: they keep the order of changes by themselves, or not at all.
_NO_FOLDER_SYNC: Final = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
#: What file systems answer on macOS that cannot empty the cache of a drive, such as those of a network.
_NO_FULL_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.ENODEV)


def sync_files(paths: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Make files durable, and the names in folders. All are tried, whichever fails."""
    work: list[_Work] = [(sync_file, path) for path in paths]
    work += [(sync_names, folder) for folder in folders]
    for number, (sync, path) in enumerate(work):
        began = time.perf_counter()
        try:
            sync(path)
        except OSError:
            with suppress(OSError):
                _sync_together(work[number + 1 :])
            raise
        if time.perf_counter() - began > _LONG and number + 2 < len(work):
            _sync_together(work[number + 1 :])
            return


def _sync_together(work: list[_Work]) -> None:
    """Do all of it, in several threads."""
    with SyncsBeside() as syncs:
        for sync, path in work:
            syncs.put(sync, path)


class SyncsBeside:
    """Makes files durable while others are written, so that the disk has not all of it to do at the end.

    A context manager: at the end of its block all files that were added are durable, or it raises. A block that raises
    leaves them as they are.

    Its threads are plain ones: a store that the collector of garbage drops is made durable wherever the program was at
    that moment, be it in the locks of a `ThreadPoolExecutor`.
    """

    __slots__ = ("_added", "_ended", "_failed", "_owner", "_stopped", "_threads", "_work")

    def __init__(self) -> None:
        self._owner = Owner()
        self._work: _queue.SimpleQueue[_Work | None] = _queue.SimpleQueue()
        self._ended: _queue.SimpleQueue[None] = _queue.SimpleQueue()
        self._failed: list[BaseException] = []
        self._stopped = False
        self._added = self._threads = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if not self._owner.is_here:  # in a forked child there are none of these threads
            return
        for _ in range(self._threads + 1):
            self._work.put(None)
        if kind is None:
            self._sync_files()
        else:
            self._stopped = True
        for _ in range(self._threads):
            self._ended.get()
        if kind is None and self._failed:
            self._raise()

    def add(self, path: str) -> None:
        """A file was written and closed.

        Raises
        ------
        OSError
            One of those that were added before could not be made durable.
        """
        if self._failed:
            self._raise()
        self.put(sync_file, path)

    def put(self, sync: Callable[[str], None], path: str) -> None:
        """Have a path synced in this way."""
        self._work.put((sync, path))
        self._added += 1
        # Another thread where those that there are have more to do than they can.
        if self._added > 1 and self._threads < THREADS - 1 and self._work.qsize() > 2 * self._threads:
            with suppress(RuntimeError):  # no thread is to be had, as when the interpreter ends
                _thread.start_new_thread(self._run, ())
                self._threads += 1

    def _run(self) -> None:
        try:
            self._sync_files()
        finally:
            self._ended.put(None)

    def _sync_files(self) -> None:
        while (work := self._work.get()) is not None:
            if self._stopped:
                continue
            sync, path = work
            try:
                sync(path)
            except BaseException as error:  # noqa: BLE001 - for the thread that waits
                self._failed.append(error)

    def _raise(self) -> None:
        error = self._failed.pop()  # else it would hold itself, by its frames
        try:
            raise error
        finally:
            del error


def sync_descriptor(descriptor: int) -> None:
    """Make an open file durable, or the names in an open folder.

    On macOS `os.fsync` leaves bytes in the cache of the drive, which a power cut empties; the drive is asked to write
    them if the file system can ask.
    """
    full_sync: int | None = None if sys.platform == "win32" else getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_file(path: str) -> None:
    """Make a file durable."""
    # Some systems need a descriptor that can write, and a renamed leaf may be read-only.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC if os.name == "posix" else os.O_RDWR)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def sync_names(folder: str) -> None:
    """Make created, renamed and removed names in a folder durable, if the system can sync folders."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_descriptor(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make the name of a file durable: see `sync_names`."""
    sync_names(os.path.dirname(absolute_path(path)))
