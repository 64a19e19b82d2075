"""One writer at a time: the lock of a store that is open for writing.

It is an advisory lock of the operating system on the store's own file or directory, so it ends with its process and
leaves no file behind. (NFS cannot lock a directory: there the lock is on a file in it, which stays.) When a new file
replaces the store, it is locked before it gets the store's name. Readers never ask for the lock.

For a store that does not exist yet, a hidden file beside its path is locked (see `creation_lock`). The file is removed
when the store exists, or when its creator gives up. A file left by a killed process locks nothing: the next creator
uses it, and the next writer of a store that is there removes it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import weakref
from contextlib import suppress

from blosc2._backends.layout import LOCK, shared_lock_path
from blosc2._core.io.sharing import in_child
from blosc2._files import CreationLock, Owner, Turn, check_permission, flock, holder_of, remove_leftovers
from blosc2._options import told_wait
from blosc2.exceptions import StoreLockedError

if sys.platform != "win32":  # Windows locks would keep readers out too
    import fcntl

#: Seconds between two tries: doubled each time, from the first value to the second.
_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05
# Folders of some file systems, such as /proc, say for ever what a folder says that was just removed.
_MOST_TRIES = 1000
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """The lock of one store, held from its making until `release`.

    Parameters
    ----------
    path : str
        Of the store, which need not exist yet. In that case, the folders above it are made.
    timeout : float or None
        How many seconds to wait for another writer; None waits as long as it takes.
    exclusive : bool
        False takes no lock, for file systems that have none.
    shared : bool
        Whether it is held during changes alone: from `acquire` to `release`, and not from its making.
    """

    __slots__ = (
        "__weakref__",
        "_before",
        "_creation",
        "_exclusive",
        "_is_tidy",
        "_made",
        "_next",
        "descriptor",
        "owner",
        "path",
        "shared",
    )

    def __init__(self, path: str, timeout: float | None = 0, *, exclusive: bool = True, shared: bool = False) -> None:
        # By what the store is locked, and will be; -1 where it is not.
        self.descriptor = self._next = -1
        # What was locked before, until it is let go of.
        self._before = -1
        # What is locked instead of a store that is still to be made.
        self._creation: CreationLock | None = None
        # The same, when the store was made.
        self._made: CreationLock | None = None
        self.path = path
        self._is_tidy = False
        self.owner = Owner()
        self.shared = shared
        check_permission(path)
        self._exclusive = exclusive and sys.platform != "win32"
        if self._exclusive:
            _held.add(self)
            if not shared:
                try:
                    self.acquire(timeout)
                except BaseException:  # an interrupt may come when the lock is taken
                    self.release()
                    raise

    @property
    def held(self) -> bool:
        """Whether the store, or the path where it will be, is locked."""
        return self.descriptor >= 0

    @property
    def inherited(self) -> bool:
        """Whether this is a copy in a forked child. Such a copy locks nothing."""
        return not self.owner.is_here

    @property
    def is_alone(self) -> bool:
        """Whether nobody else may be changing the store now."""
        return not self.shared or self.descriptor >= 0

    @property
    def creates(self) -> bool:
        """Whether there was no store when it was locked."""
        return self._creation is not None

    def is_of_path(self) -> bool:
        """Whether what is locked still lies at the path, or is to be made there."""
        if self.descriptor < 0:
            return False
        return self._is_current(self.descriptor) if self._creation is None else not os.path.lexists(self.path)

    def acquire(self, timeout: float | None) -> None:
        """Wait for the lock, and hold it."""
        turns: list[Turn] = []
        try:
            self._acquire(None if timeout is None else time.monotonic() + timeout, turns)
        finally:
            for turn in turns:
                turn.end()

    def _acquire(self, deadline: float | None, turns: list[Turn]) -> None:
        pause, begun, tries = _PAUSE, 0.0, 0
        while True:
            creation, descriptor = None, -1
            try:
                try:
                    descriptor = os.open(self.path, _FLAGS)
                except (FileNotFoundError, NotADirectoryError):
                    creation = CreationLock(self.path, self.owner)
                    descriptor = creation.open()
                    if descriptor < 0:  # somebody has removed the folder again
                        tries += 1
                        if tries == _MOST_TRIES:
                            raise FileNotFoundError(errno.ENOENT, "its folder takes no files", self.path) from None
                        continue
                if self._try(descriptor, self.path if creation is None else creation.path):
                    # While this waited, the file may have been replaced, removed or created.
                    if self._is_current(descriptor) if creation is None else creation.is_current(descriptor):
                        self.descriptor, self._creation, descriptor, creation = descriptor, creation, -1, None
                        if self._creation is None and not self._is_tidy:
                            self._tidy()
                        if begun:
                            told_wait(self.path, begun)
                        return
                    continue
                if deadline is not None and time.monotonic() >= deadline:
                    raise self._refusal(descriptor)
            except BaseException:
                if creation is not None and descriptor >= 0:
                    self._give_up(descriptor, creation)
                raise
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
                if creation is not None:
                    creation.remove_folders()
            begun = begun or time.monotonic()
            if not (self.shared or turns) and self._wait_among_others(deadline, turns):
                continue
            wait = pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic()))
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _tidy(self) -> None:
        """Remove what a process left that was killed when it had just made the store. Once is enough."""
        self._is_tidy = True
        creation = CreationLock(self.path, self.owner)
        descriptor = creation.open_left()
        if descriptor < 0:
            return
        try:
            with suppress(OSError):
                if self._try(descriptor, creation.path) and not creation.is_current(descriptor):  # which removes it
                    remove_leftovers(os.path.realpath(self.path), self.owner)
        finally:
            os.close(descriptor)

    def _give_up(self, descriptor: int, creation: CreationLock) -> None:
        """Remove the file that is locked while a store is made, after an error, unless somebody else has locked it."""
        try:
            is_ours = self._try(descriptor, creation.path)
        except OSError:  # nobody can have locked it: there are no locks
            is_ours = True
        if is_ours and creation.is_current(descriptor):
            creation.remove()

    def _wait_among_others(self, deadline: float | None, turns: list[Turn]) -> bool:
        """Wait for one's turn if handles take turns with this store, which would seldom be found free; whether it came.

        The turn is put into `turns`, and ends when the lock was taken.
        """
        root = os.path.realpath(self.path)
        path = shared_lock_path(root, ".b2d" if os.path.isdir(root) else "")
        if not os.path.exists(path):
            return False
        turns.append(Turn(path, self.owner))
        try:
            turns[0].wait(deadline)
        except (StoreLockedError, PermissionError):
            return False
        return True

    def _try(self, descriptor: int, path: str) -> bool:
        """Lock an open file or directory, unless somebody else holds the lock. The descriptor may change."""
        try:
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path, stand_in=LOCK)
        except BlockingIOError:
            return False
        return True

    def _is_current(self, descriptor: int) -> bool:
        opened = os.fstat(descriptor)
        try:
            named = os.stat(self.path)
            if stat.S_ISDIR(named.st_mode) and not stat.S_ISDIR(opened.st_mode):
                named = os.stat(os.path.join(self.path, LOCK))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

    def _refusal(self, descriptor: int) -> StoreLockedError:
        who = holder_of(os.fstat(descriptor)) or "another process"
        return StoreLockedError(
            f"the store is open for writing by {who}: open it with mode='r', wait with timeout=, "
            "or close it there first",
            path=self.path,
        )

    def take(self, descriptor: int, path: str = "") -> None:
        """Lock an open file or directory that is about to become the store, or has just become it; then `make_durable`.

        A directory needs its path, too.
        """
        if not self._exclusive or self.inherited:
            return
        self.forget_taken()
        self._next = os.dup(descriptor)
        try:
            if not self._try(self._next, path or self.path):
                raise self._refusal(self._next)
        except BaseException:
            self.forget_taken()
            raise

    def adopt(self) -> None:
        """The file that was locked is the store now."""
        if self._next >= 0:
            # At each moment something is locked.
            self._before, self.descriptor, self._next = self.descriptor, self._next, -1
            self._forget_before()

    def _forget_before(self) -> None:
        """Let go of what was locked before. It may be called again, if it was interrupted."""
        if self._before < 0:
            return
        if self._creation is not None:
            self._creation.remove()
            self._made = self._creation
        self._unlock(self._before)
        before, self._before, self._creation = self._before, -1, None
        os.close(before)

    def _unlock(self, descriptor: int) -> None:
        if not self.inherited:
            # A forked child may still have a copy of the descriptor.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def adopt_if_current(self) -> None:
        """Something failed. The file that was locked may or may not be the store now."""
        if self._next >= 0 and self._is_current(self._next):
            self.adopt()
        else:
            self.forget_taken()

    def forget_taken(self) -> None:
        """The file that was locked did not become the store."""
        self._forget_before()
        taken, self._next = self._next, -1
        if taken >= 0:
            os.close(taken)

    def unmake(self) -> None:
        """Remove the file of the store that was made, and the folders that were made for it."""
        self.owner.unlink(self.path)
        if self._made is not None:
            self._made.remove_folders()

    def release(self) -> None:
        """Let others in, until the next `acquire` if there is one. A second call does nothing."""
        self.forget_taken()
        if self.descriptor < 0:
            return
        # Whatever an interrupt leaves out is done by another call, but nothing is closed twice.
        if self._creation is not None and not self.inherited:
            self._creation.remove()
            self._creation.remove_folders()
        self._unlock(self.descriptor)
        descriptor, self.descriptor, self._creation = self.descriptor, -1, None
        os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "shared"):  # an interrupt may leave it without, and then it locks nothing
            self.release()


def _forget_in_child() -> None:
    """In a forked child, close its copies of the descriptors, which would keep the lock when the parent ends."""
    for lock in list(_held):
        for descriptor in (lock.descriptor, lock._next, lock._before):
            if descriptor >= 0:
                with suppress(OSError):  # another thread may just have closed it
                    os.close(descriptor)
        lock.descriptor = lock._next = lock._before = -1


in_child(_forget_in_child)
