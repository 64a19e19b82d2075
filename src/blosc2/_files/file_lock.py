"""An exclusive lock on an open file while a change is published, and how file systems support locks."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from io import FileIO
from typing import Final

from blosc2._files.blocks import as_block
from blosc2._files.owner import Owner

if sys.platform != "win32":  # its own locks keep readers out too, which must not be
    import fcntl

#: What a file system without locks answers.
_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@as_block
def locked(file: FileIO | int, path: str, *, exclusive: bool = True, stand_in: str = "") -> Iterator[None]:
    """Wait for the lock of an open file, or of a descriptor, and hold it.

    It belongs to this opening of the file: other openings wait, in any process. Without `exclusive` nothing is locked.
    For `stand_in` see `flock`.

    It is advisory: readers do not ask for it. On Windows there is none, and only the checks around it remain.
    """
    if sys.platform == "win32" or not exclusive:
        yield
        return
    descriptor = file if isinstance(file, int) else file.fileno()
    flock(descriptor, fcntl.LOCK_EX, path, stand_in=stand_in)
    owner = Owner()
    try:
        yield
    finally:
        if owner.is_here:  # in a forked child it is its parent's
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def flock(descriptor: int, operation: int, path: str, *, stand_in: str = "", shared: bool = False) -> None:
    """Lock an open file. The error of a file system without locks says what to do.

    Parameters
    ----------
    descriptor, operation : int
        As for `fcntl.flock`.
    path : str
        What is open.
    stand_in : str
        Of a directory, the name of a file in it that is locked instead where a directory cannot be: NFS gives an
        exclusive lock only to who may write. The descriptor leads to that file then, which stays.
    shared : bool
        Whether somebody asked for ``locking=True``.
    """
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


def _open_for_writing(descriptor: int, path: str, stand_in: str) -> bool:
    """Have a descriptor lead to an opening that could write, of the same file or of one that stands for a directory."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        if not stand_in:
            return False
        path, flags = os.path.join(path, stand_in), flags | os.O_CREAT
    other = os.open(path, flags, 0o666)
    try:
        os.dup2(other, descriptor, inheritable=False)
    finally:
        os.close(other)
    return True
