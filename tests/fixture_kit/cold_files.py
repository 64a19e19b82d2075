"""Files of which the system has nothing in memory, and how many bytes a disk has read for this process."""

from __future__ import annotations

import os
import time
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


#: Seconds to wait for a disk that others keep busy.
PATIENCE = 20


def least_device_bytes(path: str, use: Callable[[], object], most: float) -> int:
    """What `use` reads of a file that is not in memory: the least of three counts, or of more while all exceed `most`.

    The process reads other things meanwhile, such as code that it has not used yet, and of a disk that answers late, as
    while others write to it, reads want what lies between their blocks as well. Both only ever add.
    """
    counts: list[int] = []
    until = time.monotonic() + PATIENCE
    while len(counts) < 3 or (min(counts) > most and time.monotonic() < until):
        blosc2.free_resources()  # mapped pages would stay
        drop(path)
        before = device_bytes()
        use()
        counts.append(device_bytes() - before)
    return min(counts)
