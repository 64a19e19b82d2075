"""An exclusive lock on an open file, for as long as a change is being published."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

if sys.platform != "win32":  # its own locks keep readers out too, which must not be
    import fcntl


@contextmanager
def locked(file: FileIO | int) -> Iterator[None]:
    """Wait for the lock of an open file, or of a descriptor, and hold it.

    It belongs to this opening of the file: other openings wait, in any process.

    It is advisory: readers do not ask for it. On Windows there is none, and only the checks around it remain.
    """
    if sys.platform == "win32":
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
