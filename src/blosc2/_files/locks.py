"""Locks of files that several programs use: of a file, of one that is being made, and turns."""

from __future__ import annotations

import _thread
import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import BinaryIO, Final

from blosc2._core.io.sharing import Block, Lock, in_child
from blosc2._files.blocks import as_block
from blosc2._files.owner import Descriptor, Owner, give_access, refusal
from blosc2._options import shortened, told_wait
from blosc2.exceptions import StoreLockedError

if sys.platform != "win32":  # its own locks keep readers out too, which must not be
    import fcntl

#: What a file system without locks answers.
_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


# What is locked, by its descriptors, and by which threads.
_held: Final[dict[int, int]] = {}
in_child(_held.clear)  # the locks are the parent's


def superseded() -> RuntimeError:
    """The error for a change of another version than the current one."""
    return RuntimeError("the array was changed by another thread at the same time; try again")


def unfinished_transaction() -> RuntimeError:
    """The error for `flush` within a transaction."""
    return RuntimeError("a transaction is under way: it publishes all its changes at its end")


class LockedFile(Block):
    """Waits for the lock of an open file, or of a descriptor, and holds it. A file is closed at the end.

    The lock belongs to this opening of the file: other openings wait, in any process. Without `exclusive` nothing is
    locked. It is advisory: readers do not ask for it. On Windows there is none, and only the checks around it remain.
    For `stand_in` see `flock`. Without `waits`, a lock that somebody else has is a `BlockingIOError`.

    Raises
    ------
    StoreLockedError
        Somebody else has the lock for all of the `timeout`.
    RuntimeError
        This thread has locked the file by another descriptor: it is in the middle of a change, and would wait for ever.
    """

    __slots__ = ("_file", "_number", "_owner")

    def __init__(
        self, file: BinaryIO | int, path: str, owner: Owner, *, exclusive: bool = True, stand_in: str = "",
        waits: bool = True, timeout: float | None = None,
    ) -> None:  # fmt: skip
        self._file, self._owner, self._number = file, owner, -1
        if sys.platform != "win32" and exclusive:
            number = file if isinstance(file, int) else file.fileno()
            try:
                flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB, path, stand_in=stand_in)
            except BlockingIOError:
                if not waits:
                    raise
                if _is_own(number):
                    raise superseded() from None
                _wait(number, fcntl.LOCK_EX, path, timeout, stand_in=stand_in)
            self._number = number
            _held[number] = _thread.get_ident()

    def __enter__(self) -> None:
        pass

    def _leave(self, failed: bool) -> None:  # noqa: ARG002
        if self._number >= 0 and self._owner.pid == os.getpid():
            _held.pop(self._number, None)
            fcntl.flock(self._number, fcntl.LOCK_UN)
        self._number = -1
        if not isinstance(self._file, int):
            try:  # each change comes here, and `suppress` takes three calls
                self._file.close()
            except OSError:
                pass  # what was written is durable, or has failed already


def _is_own(number: int) -> bool:
    """Whether this thread has locked the file of a descriptor by another one."""
    status, thread = os.fstat(number), _thread.get_ident()
    for other, holder in list(_held.items()):
        with suppress(OSError):  # just closed
            if holder == thread and os.path.samestat(os.fstat(other), status):
                return True
    return False


def flock(descriptor: int, operation: int, path: str, *, stand_in: str = "", shared: bool = False) -> None:
    """Lock an open file. The error of a file system without locks says what to do; `shared` is ``locking=True``.

    `stand_in` is the name of a file in a directory that is locked instead where a directory cannot be: NFS gives an
    exclusive lock only to who may write. The descriptor leads to that file then, which stays.
    """
    begun = time.monotonic()
    try:
        try:
            fcntl.flock(descriptor, operation)
        except OSError as error:
            if error.errno != errno.EBADF or not _open_for_writing(descriptor, path, stand_in):
                raise
            fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        instead = "leave out locking=True and open it" if shared else "open it"
        raise OSError(
            error.errno,
            "this file system has no locks, so other writers cannot be kept out: make changes on a local file system, "
            f"or {instead} with exclusive=False and see to it that nobody else writes to it",
            path,
        ) from None
    if not operation & fcntl.LOCK_NB:  # of a lock that is tried again and again, `_wait` tells
        told_wait(path, begun)


def _wait(
    descriptor: int, operation: int, path: str, timeout: float | None, *, stand_in: str = "", shared: bool = False
) -> None:
    """Lock an array, for which it waits some seconds or, with None, as long as it takes; see `flock`."""
    if timeout is None:
        flock(descriptor, operation, path, stand_in=stand_in, shared=shared)
        return
    begun = time.monotonic()
    while True:
        try:
            flock(descriptor, operation | fcntl.LOCK_NB, path, stand_in=stand_in, shared=shared)
        except BlockingIOError:
            left = begun + timeout - time.monotonic()
            if left <= 0:
                who = holder_of(os.fstat(descriptor)) or "another process"
                raise StoreLockedError(
                    f"{who} has the lock, and did not let go of it in time: wait longer with timeout=",
                    path=path.removesuffix(".b2lock").removesuffix(os.sep),
                ) from None
            time.sleep(min(_PAUSE, left))
        else:
            told_wait(path, begun)
            return


def holder_of(status: os.stat_result) -> str:
    """Which process holds the lock of a file, as far as the system tells; "" if it does not."""
    number = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="utf-8") as locks:
            fields = [line.split() for line in locks]
        pids = [int(line[4]) for line in fields if line[1] == "FLOCK" and line[5] == number]
    except (OSError, IndexError, ValueError):  # Linux alone has this list
        pids = []
    if not pids or pids[0] <= 0:
        return ""
    if pids[0] == os.getpid():
        return f"another handle of this process ({pids[0]})"
    try:
        with open(f"/proc/{pids[0]}/comm", encoding="utf-8", errors="replace") as name:
            return f"process {pids[0]} ({name.read().strip()})"
    except OSError:
        return f"process {pids[0]}"


def _open_for_writing(descriptor: int, path: str, stand_in: str) -> bool:
    """Have a descriptor lead to an opening that could write, of the same file or of one that stands for a directory."""
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        other = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    elif stand_in:
        other = open_shared_lock(os.path.join(path, stand_in), Owner())
    else:
        return False
    try:
        os.dup2(other, descriptor, inheritable=False)
    finally:
        os.close(other)
    return True


_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def open_shared_lock(path: str, owner: Owner) -> int:
    """A descriptor for locking ``x.b2lock``, which is made if it is missing: whoever may write ``x`` may lock it.

    Raises
    ------
    OSError
        It cannot be opened or made; the message says what to do.
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        while True:
            try:
                return owner.open_lock(path, flags, create=False)
            except FileNotFoundError:
                with suppress(FileExistsError):  # somebody else has just made it
                    number = owner.open_lock(path, flags | os.O_EXCL)
                    break
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        why = f"changes with locking=True lock this file, {_what_to_do(path, error.errno)}"
        raise OSError(error.errno, why, path) from None
    with suppress(OSError):  # what it belongs to is not there yet, or is not for this user to judge
        before = os.stat(path.removesuffix(".b2lock"))
        give_access(number, before, stat.S_IMODE(before.st_mode) & 0o666)
    return number


def _what_to_do(path: str, number: int) -> str:
    if number == errno.EROFS:
        return "and this file system is read-only: open it with mode='r'"
    if os.path.lexists(path):
        return (
            "which this user may not write: give it the permissions of the store (chmod g+w), or delete it while no "
            "program has the store open with locking=True"
        )
    return "which cannot be made: it takes permission to write the folder"


_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


class CreationLock:
    """The file that is locked while a store is made: the same one for all of its names, as links are followed."""

    __slots__ = ("_folders", "_owner", "_store", "path")

    def __init__(self, store: str, owner: Owner) -> None:
        self._store = os.path.realpath(store)
        folder, name = os.path.split(self._store)
        self.path = os.path.join(folder, f".{shortened(name)}.lock")
        self._owner = owner
        # The folders that were made for the file, the innermost first.
        self._folders: list[str] = []

    def open(self) -> int:
        """Create and open the file, with its folders. Returns -1 if one of the folders is gone again."""
        self._make_folders(os.path.dirname(self.path))
        try:
            try:
                return self._owner.open_lock(self.path, _FLAGS | os.O_RDWR)
            except PermissionError:
                # A file that another user left can be locked too.
                if not os.path.lexists(self.path):
                    raise
                return os.open(self.path, _FLAGS | os.O_RDONLY)
        except FileNotFoundError:
            return -1

    def open_left(self) -> int:
        """Open the file if a process left it that was killed when the store was there already; else -1."""
        try:
            descriptor = os.open(self.path, _FLAGS | os.O_RDONLY)
        except OSError:
            return -1
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            return descriptor
        os.close(descriptor)  # not one of ours
        return -1

    def is_current(self, descriptor: int) -> bool:
        """Whether the lock of the opened file excludes others: the file has its name, and there is no store yet.

        A file that is of no use any more is removed; it must be locked.
        """
        opened = os.fstat(descriptor)
        try:
            named = os.lstat(self.path)
        except FileNotFoundError:
            return False
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            return False
        if os.path.lexists(self._store):
            self.remove()
            return False
        return True

    def remove(self) -> None:
        """Remove the locked file."""
        with suppress(OSError):  # of another user, where only the owner of a file may do that: it locks nothing
            self._owner.unlink(self.path)

    def remove_folders(self) -> None:
        """Remove the folders that were made for the file and are still empty."""
        folders, self._folders = self._folders, []
        with suppress(OSError):
            for folder in folders:
                self._owner.rmdir(folder)

    def _make_folders(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            try:
                self._owner.mkdir(folder)
            except (FileExistsError, FileNotFoundError):  # by somebody else just now; or gone again
                if os.path.lexists(folder) and not os.path.isdir(folder):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
                continue
            self._folders.insert(0, folder)


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
    """The place of one handle among those that change a store, by a file that they share; it stays."""

    __slots__ = ("_descriptor", "_owner", "_path")

    def __init__(self, path: str, owner: Owner) -> None:
        self._path = path
        self._owner = owner
        self._descriptor: Descriptor | None = None

    def wait(self, deadline: float | None) -> None:
        """Wait until it is this handle's turn, which lasts until `end`.

        Raises
        ------
        StoreLockedError
            It is not its turn by then.
        """
        # Opened each time: a child process would share the locks of a file that stays open.
        self._descriptor = file = Descriptor(open_shared_lock(self._path, self._owner))
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
        _count_up(number)

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

    def _holder(self) -> str:
        """Who has its turn, as far as the system tells: that one has locked the store, be it a file or a folder."""
        store = self._path.removesuffix(".b2lock")
        for path in (store, os.path.dirname(store), self._path):
            with suppress(OSError):
                if who := holder_of(os.stat(path)):
                    return who
        return ""

    def _pause(self, deadline: float | None) -> None:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            who = self._holder()
            raise StoreLockedError(
                "other handles are changing the store or wait to, and it was not this one's turn in time: wait longer "
                "with timeout=, or make fewer and larger changes with transaction()"
                f"{f'; {who} has the lock now' if who else ''}",
                path=self._path.removesuffix(".b2lock"),
            )
        time.sleep(_PAUSE if deadline is None else max(0.0, min(_PAUSE, deadline - now)))


def _count_up(number: int) -> None:
    """Count one more change in a file that handles share."""
    count = int.from_bytes(os.pread(number, 8, _COUNT), "little")
    os.pwrite(number, ((count + 1) % (1 << 63)).to_bytes(8, "little"), _COUNT)


def _request(kind: int, position: int, nbytes: int) -> bytes:
    """What `fcntl` takes: ``struct flock``."""
    return struct.pack("@hhqqi4x", kind, os.SEEK_SET, position, nbytes, 0)


def _unlock(number: int, position: int, nbytes: int = 1) -> None:
    """Unlock bytes; 0 stands for all that follow."""
    fcntl.fcntl(number, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, position, nbytes))


class Sidecar:
    """The lock of one handle of the data at a path. Other handles wait for it, also those of this process.

    Data that are not `writable`, in a folder that cannot be written, are read without a lock.

    Attributes
    ----------
    seen : int
        The number of the change that the handle shows. The handle sets this and all others.
    refreshing : set of tuple of int
        Processes and threads that are reading the newest version.
    settled : tuple of int or None
        What the system told of the watched file when the handle showed its version for certain.
    watched : str
        The file whose bytes make a version current.
    entered : list of context manager
        What the handle entered without ``with``.
    """

    __slots__ = ("_owner", "_path", "_thread", "_timeout", "_writable", "entered", "refreshing", "seen", "settled",
                 "watched")  # fmt: skip

    def __init__(self, path: str, *, writable: bool, timeout: float | None = None) -> None:
        if sys.platform == "win32":
            raise NotImplementedError("locking=True needs advisory locks, which Windows does not have")
        # The lock of the file itself, or of a directory frame, whichever link leads to it.
        found = os.path.realpath(path)
        self._path = os.path.join(found, ".b2lock") if os.path.isdir(found) else found + ".b2lock"
        self._writable = writable
        self._timeout = timeout
        self._thread = Lock()
        self.seen = -1
        self.refreshing: set[tuple[int, int]] = set()
        self.settled: tuple[int, ...] | None = None
        self.watched = ""
        self.entered: list[AbstractContextManager[None]] = []
        self._owner: tuple[int, int] | None = None

    @property
    def held(self) -> bool:
        """Whether this thread has the lock for changes."""
        return self._owner == (os.getpid(), _thread.get_ident())

    def count(self) -> int:
        """The number of the last change."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                return int.from_bytes(file.read(_COUNT + 8)[_COUNT:], "little")
        except FileNotFoundError:
            return 0

    @as_block
    def exclusive(self) -> Iterator[bool]:
        """Wait for the lock and hold it; gives whether it was not held before."""
        with self._thread:
            if self.held:
                yield False
                return
            with _Held(self._open(), self) as descriptor:
                self._check_own()
                if descriptor is not None:
                    _wait(descriptor.fileno(), fcntl.LOCK_EX, self._path, self._timeout, shared=True)
                    if self._writable:
                        _count_up(descriptor.fileno())
                self._check_own()
                self._owner = (os.getpid(), _thread.get_ident())
                yield True

    def _check_own(self) -> None:
        """Refuse to continue what began before this process was forked: the parent may be waiting for it."""
        if self._thread.inherited:
            raise refusal(self._path, self._thread.holder)

    @as_block
    def shared(self) -> Iterator[None]:
        """Keep others from changes for a moment, but not from reading."""
        # In a child that is forked in a block, the parent has the lock and may wait for the child.
        if self.held or self._thread.inherited:
            yield
            return
        with _Held(self._open()) as descriptor:
            if descriptor is not None:
                _wait(descriptor.fileno(), fcntl.LOCK_SH, self._path, self._timeout, shared=True)
            yield

    def _open(self) -> Descriptor | None:
        # Opened each time: a lock belongs to an open file, and a child process would share one that stays open.
        try:
            return Descriptor(open_shared_lock(self._path, Owner()))
        except OSError:
            if self._writable:
                raise
        try:
            return Descriptor(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return None


class _Held(Block):
    """Lets the lock of a descriptor go at its end. A child that was forked meanwhile leaves it to its parent."""

    __slots__ = ("_descriptor", "_owner", "_sidecar")

    def __init__(self, descriptor: Descriptor | None, sidecar: Sidecar | None = None) -> None:
        self._descriptor = descriptor
        self._sidecar = sidecar
        self._owner = Owner()

    def __enter__(self) -> Descriptor | None:
        return self._descriptor

    def _leave(self, failed: bool) -> None:  # noqa: ARG002
        if self._sidecar is not None:
            self._sidecar._owner = None
        if self._descriptor is None:
            return
        with self._descriptor:
            if self._owner.is_here:
                # Closing it gives the lock back too, and there may be no locks here.
                with suppress(OSError, ValueError):
                    fcntl.flock(self._descriptor.fileno(), fcntl.LOCK_UN)
