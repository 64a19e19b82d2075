"""Whether a file is still the one that was read: changes by other programs are noticed, not overwritten."""

from __future__ import annotations

import errno
import os
from typing import Final

from blosc2._files.owner import special_file


def check_same_file(path: str, identity: tuple[int, ...] | None, header: bytes = b"") -> None:
    """Refuse to replace a file that is not the one that was read, or whose first bytes differ."""
    if identity is not None and (file_identity(path) != identity or not begins_with(path, header)):
        raise changed_by_others(path)


def check_writable_file(path: str) -> None:
    """Refuse to replace a read-only file: the permission is meant to protect its content."""
    os.close(os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)))


def check_permission(path: str) -> None:
    """Refuse to open a read-only file for writing, before any work is done in vain.

    Where nothing is there yet, the folder counts in which it, or the first folder above it, would be made.

    Raises
    ------
    PermissionError, ExistingFileError
    """
    effective = os.access in os.supports_effective_ids
    if os.path.isfile(path) and os.access(path, os.W_OK, effective_ids=effective):
        return
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise special_file(path)
    existing = os.path.realpath(path)
    while not os.path.lexists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    needed = os.W_OK | os.X_OK if os.path.isdir(existing) else os.W_OK
    if not os.access(existing, needed, effective_ids=effective):
        instead = "nothing can be made in this folder"
        if os.path.lexists(path):
            readable = os.access(existing, os.R_OK, effective_ids=effective)
            instead = "open it with mode='r'" if readable else "it may not be read either"
        if _is_read_only(existing):
            raise PermissionError(errno.EROFS, f"cannot write here, the file system is read-only: {instead}", existing)
        raise PermissionError(errno.EACCES, f"no permission to write here: {instead}", existing)


def _is_read_only(path: str) -> bool:
    """Whether a whole file system is."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


#: Nanoseconds in which a file system may not tell two changes of a file apart.
TICK: Final = 20 * 10**6


def begins_with(path: str, header: bytes) -> bool:
    """Whether a file begins with these bytes. Its time misses changes within one tick of the clock."""
    if not header:
        return True
    with open(path, "rb", buffering=0) as file:
        return file.read(len(header)) == header


def changed_by_others(path: str) -> OSError:
    """The error for a file that is not the one that was read, or that is gone."""
    what = "changed" if os.path.lexists(path) else "removed"
    return OSError(errno.EBUSY, f"the file was {what} by somebody else since it was opened", path)


def file_identity(path: str) -> tuple[int, ...] | None:
    """Device, inode, size and time of a file, as in `Source.identity`. None if there is no file."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return identity_of(status)


def identity_of(status: os.stat_result) -> tuple[int, ...]:
    """Device, inode, size and time, from the result of `os.stat`."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
