"""Files of which the system has nothing in memory, and how many bytes a disk has read for this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import blosc2


def drop(path: str) -> None:
    """Take a file out of the system's memory, where it lies on a disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def device_bytes() -> int:
    """Bytes that this process had a disk read so far; Linux only."""
    return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


def least_device_bytes(path: str, use: Callable[[], object]) -> int:
    """What `use` reads of a file that is not in memory: the least of three counts.

    The process reads other things meanwhile, such as code that it has not used yet. They only ever add.
    """
    counts = []
    for _ in range(3):
        blosc2.free_resources()  # mapped pages would stay
        drop(path)
        before = device_bytes()
        use()
        counts.append(device_bytes() - before)
    return min(counts)
