"""Whether a file is the one that was read: a change by somebody else is noticed, not overwritten."""

from __future__ import annotations

import errno
import os


def check_same_file(path: str, identity: tuple[int, ...] | None) -> None:
    """Refuse to replace a file that is not the one that was read."""
    if identity is not None and file_identity(path) != identity:
        raise changed_by_others(path)


def changed_by_others(path: str) -> OSError:
    """The error for a file that is not the one that was read."""
    return OSError(errno.EBUSY, "the file was changed by somebody else since it was opened; open it again", path)


def file_identity(path: str) -> tuple[int, ...] | None:
    """Device, inode, size and time of a file, as sources have them; None where there is none."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return identity_of(status)


def identity_of(status: os.stat_result) -> tuple[int, ...]:
    """The same, of what the system says of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
