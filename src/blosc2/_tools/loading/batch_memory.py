"""Memory of large batches, which is used again, or goes back to the system.

What one thread allocates and another one frees stays in the allocator of the C library, which has some memory for each
thread: with loaders that read in threads, many times what all batches take.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Final

import numpy as np

from blosc2._core.io.forking import in_child

#: Bytes above which memory is taken from the system. For less, the allocator keeps little.
LARGE: Final = 1 << 20
# Pieces that nobody has any more, which the next batches of the same size get: memory that was never touched costs as
# much as a fifth of reading a batch. Where a loop takes batches and lets go of them, some are enough.
_spare: deque[mmap.mmap] = deque(maxlen=8)
# What makes batches in threads now: only then there is such memory.
_loops: weakref.WeakSet[Any] = weakref.WeakSet()


def begin_loop(loop: object) -> None:
    """Have large batches get such memory, until the end of this loop."""
    _loops.add(loop)


def end_loop(loop: object) -> None:
    """It may be called again."""
    _loops.discard(loop)
    if not _loops:
        _spare.clear()


def _begin_child() -> None:
    """The threads of all loops stayed with the parent, and so did who ends them."""
    _loops.clear()
    _spare.clear()


in_child(_begin_child)


def large_memory(nbytes: int) -> np.ndarray[Any, Any] | None:
    """So many bytes for a batch as an array of bytes; None where the usual way is the better one."""
    if nbytes <= LARGE or not _loops or not hasattr(mmap, "MAP_PRIVATE"):
        return None
    try:
        pages = _spare_pages(nbytes) or _new_pages(nbytes)
    except OSError:  # the usual way raises MemoryError, if that has none either
        return None
    memory = np.frombuffer(pages, "u1")
    weakref.finalize(memory, _give_back, pages).atexit = False
    return memory


def _give_back(pages: mmap.mmap) -> None:
    """No array or tensor over it is left. The deque drops the oldest piece if it is full."""
    if _loops:
        _spare.append(pages)
        if not _loops:  # the last loop has ended meanwhile
            _spare.clear()


def _spare_pages(nbytes: int) -> mmap.mmap | None:
    for _ in range(len(_spare)):
        try:
            pages = _spare.popleft()
        except IndexError:  # another thread was faster
            return None
        if len(pages) == nbytes:
            return pages
        _spare.append(pages)
    return None


def _new_pages(nbytes: int) -> mmap.mmap:
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # where the system has none
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages
