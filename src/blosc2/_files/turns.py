"""Taking turns: the order in which handles with ``locking=True`` change a store.

Beside each such store lies a small file, as beside arrays (see `shared_lock`): 8 bytes of zero and the count of
changes, with which C-Blosc2 locks, and behind these the number of the ticket that was given out last. Who wants to
change the store takes the next ticket and locks the byte of that ticket (one far behind the end of the file, where
locks may lie). Then it waits for a lock on the bytes of all tickets before: each of these ends when its handle has had
its turn, gave up, or was killed. So handles come in the order in which they asked, and nobody starves.

The locks are those of an open file: they end with it, and two handles of one process wait for each other. They decide
about the order alone: at its turn, each takes the lock of the store itself. Where there are no such locks, all try.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
from contextlib import suppress
from typing import Final

from blosc2._files.file_lock import flock
from blosc2._files.owner import Descriptor, Owner
from blosc2.exceptions import StoreLockedError

if sys.platform != "win32":
    import fcntl

#: The count of changes, and the last ticket, are at these offsets.
_COUNT: Final = 8
_TICKET: Final = 16
#: The byte that is locked while a ticket is taken, and the first of those of the tickets.
_DOOR: Final = 1 << 40
_FIRST: Final = _DOOR + 1
#: So many bytes are used for tickets, over and over again.
_TICKETS: Final = 1 << 40
#: So many may wait.
_MOST: Final = 1 << 16
#: Seconds between two tries of those who wait for some time only.
_PAUSE: Final = 0.001
# Linux alone has these locks in all Python versions, in this form.
_HAS_QUEUE: Final = sys.platform == "linux" and struct.calcsize("P") == 8 and hasattr(fcntl, "F_OFD_SETLKW")


class Turn:
    """The place of one handle among those that change a store.

    Parameters
    ----------
    path : str
        The file that they share, which is made if it is missing. It stays.
    owner : Owner
        The process of the handle.
    """

    __slots__ = ("_descriptor", "_owner", "_path")

    def __init__(self, path: str, owner: Owner) -> None:
        self._path = path
        self._owner = owner
        self._descriptor: Descriptor | None = None

    def wait(self, deadline: float | None) -> None:
        """Wait until it is this handle's turn, which lasts until `end`.

        Parameters
        ----------
        deadline : float or None
            Until when, as `time.monotonic` has it.

        Raises
        ------
        StoreLockedError
            It is not its turn by then.
        """
        # Opened each time: a child process would share the locks of a file that stays open.
        self._descriptor = file = Descriptor(self._owner.open_lock(self._path, os.O_RDWR | os.O_CLOEXEC))
        if not _HAS_QUEUE:
            return
        try:
            number = file.fileno()
            try:
                self._lock(number, _DOOR, deadline)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    return  # no such locks here: all try at once
                raise
            ticket = int.from_bytes(os.pread(number, 8, _TICKET), "little") + 1
            os.pwrite(number, (ticket % (1 << 63)).to_bytes(8, "little"), _TICKET)
            self._lock(number, _FIRST + ticket % _TICKETS, deadline)
            _unlock(number, _DOOR)
            mine = _FIRST + ticket % _TICKETS
            first = max(_FIRST, mine - _MOST)
            if first < mine:
                self._lock(number, first, deadline, mine - first)
                _unlock(number, first, mine - first)
        except BaseException:
            self.end()
            raise

    def count(self, deadline: float | None, store: int) -> None:
        """Keep out handles of C-Blosc2, and let them know that there will be a change.

        Parameters
        ----------
        deadline : float or None
            As for `wait`.
        store : int
            The descriptor by which the store is locked already. Where that leads to the same file, this is done.
        """
        assert self._descriptor is not None
        number = self._descriptor.fileno()
        if store < 0 or not os.path.sameopenfile(number, store):
            operation = fcntl.LOCK_EX if deadline is None else fcntl.LOCK_EX | fcntl.LOCK_NB
            while True:
                try:
                    flock(number, operation, self._path, shared=True)
                    break
                except BlockingIOError:
                    self._pause(deadline)
        count = int.from_bytes(os.pread(number, 8, _COUNT), "little")
        os.pwrite(number, ((count + 1) % (1 << 63)).to_bytes(8, "little"), _COUNT)

    def end(self) -> None:
        """Let the next one have its turn. A second call does nothing, or goes on with one that was interrupted."""
        file = self._descriptor
        if file is None:
            return
        try:
            if self._owner.is_here:  # a child process may have a copy of the descriptor
                with suppress(OSError, ValueError):  # it is closed
                    fcntl.flock(file.fileno(), fcntl.LOCK_UN)
                    if _HAS_QUEUE:
                        _unlock(file.fileno(), _DOOR, 0)
        finally:
            file.close()
        self._descriptor = None

    def _lock(self, number: int, position: int, deadline: float | None, nbytes: int = 1) -> None:
        """Lock bytes."""
        wanted = _request(fcntl.F_WRLCK, position, nbytes)
        if deadline is None:
            fcntl.fcntl(number, fcntl.F_OFD_SETLKW, wanted)
            return
        while True:
            try:
                fcntl.fcntl(number, fcntl.F_OFD_SETLK, wanted)
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            self._pause(deadline)

    def _pause(self, deadline: float | None) -> None:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise StoreLockedError(
                "other handles are changing the store or wait to, and it was not this one's turn in time: wait longer "
                "with timeout=, or make fewer and larger changes with transaction()",
                path=self._path.removesuffix(".b2lock"),
            )
        time.sleep(_PAUSE if deadline is None else max(0.0, min(_PAUSE, deadline - now)))


def _request(kind: int, position: int, nbytes: int) -> bytes:
    """What `fcntl` takes: ``struct flock``."""
    return struct.pack("@hhqqi4x", kind, os.SEEK_SET, position, nbytes, 0)


def _unlock(number: int, position: int, nbytes: int = 1) -> None:
    """Unlock bytes; 0 stands for all that follow."""
    fcntl.fcntl(number, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, position, nbytes))
