"""An exclusive lock on an open file, for as long as a change is being published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

try:
    import fcntl
except ImportError:  # Windows has no such call; its own locks keep readers out too, which must not be
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(file: FileIO) -> Iterator[None]:
    """Wait for the lock and hold it. It belongs to this opening of the file: other openings wait, in any process.

    It is advisory: readers do not ask for it. Where the system has no such lock, only the checks around it remain.
    """
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
