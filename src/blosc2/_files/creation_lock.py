"""The lock of a store that does not exist yet: a hidden file beside its path.

A process that wants to create the store locks that file, and then checks again whether another process has created the
store meanwhile. Only the holder of the lock removes the file. So a process that got the lock of a file that was already
removed starts again, and two processes never hold the lock for one path.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from blosc2._files.owner import Owner

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


class CreationLock:
    """The file that is locked while a store is made.

    Parameters
    ----------
    store : str
        The path of the store. Links are followed, so all names of one store have one such file.
    owner : Owner
        Who makes the store.

    Attributes
    ----------
    path : str
        The file.
    """

    __slots__ = ("_folders", "_owner", "_store", "path")

    def __init__(self, store: str, owner: Owner) -> None:
        self._store = os.path.realpath(store)
        folder, name = os.path.split(self._store)
        self.path = os.path.join(folder, f".{name}.lock")
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
