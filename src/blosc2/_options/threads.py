"""How many threads are used: what users set, and what this machine is best with."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from blosc2._core.codec import thread_pool
from blosc2._core.codec.thread_pool import share_from, worth_threads
from blosc2._options.codecs import Codec

if TYPE_CHECKING:
    from blosc2._core.codec.codec import Encoding
    from blosc2._core.ndim.grid_write import StoredChunk, Write


_MAX_NTHREADS = 2**31 - 1


def detect_number_of_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # macOS and Windows do not tell
        return os.cpu_count() or 1


ncores = detect_number_of_cores()
_nthreads = ncores
_followers: list[dict[str, Any]] = []


def get_nthreads() -> int:
    """Give the number of threads that objects use unless told otherwise."""
    return _nthreads


def set_nthreads(nthreads: int) -> int:
    """Set the default number of threads for objects made from now on.

    Parameters
    ----------
    nthreads : int
        At least 1.

    Returns
    -------
    int
        The previous number.

    Raises
    ------
    TypeError
        Not an integer.
    ValueError
        Out of range.

    Examples
    --------
    >>> old = set_nthreads(2)
    >>> set_nthreads(old)
    2
    """
    global _nthreads
    number = check_nthreads(nthreads)
    old, _nthreads = _nthreads, number
    for defaults in _followers:
        defaults["nthreads"] = number
    return old


def check_nthreads(nthreads: object) -> int:
    """Give a number of threads as a plain int, or raise TypeError or ValueError."""
    if type(nthreads) is int and 0 < nthreads <= _MAX_NTHREADS:  # as nearly all are
        return nthreads
    if isinstance(nthreads, bool) or not hasattr(nthreads, "__index__"):
        raise TypeError(f"nthreads must be a positive integer, not {nthreads!r}")
    number = operator.index(nthreads)
    if number < 1:
        raise ValueError(f"nthreads must be a positive integer, not {number}")
    if number > _MAX_NTHREADS:
        raise ValueError(f"nthreads must be less or equal than 2^31 - 1, not {number}")
    return number


def keep_in_step(defaults: dict[str, Any]) -> None:
    """Have `set_nthreads` write the number into this dictionary too, under "nthreads"."""
    defaults["nthreads"] = _nthreads
    _followers.append(defaults)


#: Work (see `work_of` of `grid_read`) below which a second thread does not pay: waking it takes 20 us, or 40 when its
#: core sleeps.
PARALLEL_WORK = 3 << 16
share_from(PARALLEL_WORK)

#: Bytes of an array from which compressing it in another thread takes less time than handing it over.
COMPRESSED_BESIDE = 64 << 10

#: What is compressed at a time at least: as much as caches hold, as long as all threads have something to do.
BATCH_NBYTES = 4 << 20

_FAST: Final = tuple(codec.value for codec in Codec if codec.facts.fast)

# More threads than cores would only take turns.
thread_pool.limit(detect_number_of_cores() - 1)


#: What is kept of a stored chunk.
Kept = TypeVar("Kept")


class Operation(Protocol):
    """Work that can be shared by threads."""

    def run(self, threads: int = 1) -> None:
        """Do all the work, in up to `threads` threads."""

    def finish(self) -> None:
        """Raise what went wrong in any thread."""


def reads_beside(count: int, nbytes: int, nthreads: int) -> bool:
    """Whether several whole arrays, of `nbytes` on average, are read faster together than one by one."""
    return nthreads > 1 and nbytes * count >= 4 * PARALLEL_WORK and nbytes >= PARALLEL_WORK // 4


def run(operation: Operation, work: int, nthreads: int) -> None:
    """Do an operation, in up to `nthreads` threads if that is faster."""
    operation.run(nthreads if worth_threads(work) else 1)
    operation.finish()


def compressing_work(encoding: Encoding, nbytes: int) -> int:
    """The work of compressing so many bytes.

    Two threads are faster than one from 64 KB on with zstd, zlib and LZ4HC, from 384 KB on with LZ4 and BloscLZ.
    """
    return nbytes // 2 if encoding.codec in _FAST or not encoding.clevel else 3 * nbytes


def shares_chunk(encoding: Encoding, nbytes: int) -> bool:
    """Whether threads pay for one chunk of so many bytes, whose blocks they share."""
    return worth_threads(compressing_work(encoding, nbytes)) and encoding.shares_blocks


def compress(operation: Write, chunk_nbytes: int, nthreads: int) -> Iterator[dict[int, StoredChunk | int]]:
    """Compress the chunks of a write in batches, so that their memory is used again.

    Each batch is a dictionary of chunks by number, for the caller to copy or write, and to let go of.
    """
    count = operation.tasks
    batch = max(BATCH_NBYTES // max(chunk_nbytes, 1), 2 * nthreads if nthreads > 1 else 1)
    batch += -batch % nthreads  # or a thread would have nothing to do at the end of each
    for first in range(0, count, batch):
        stop = min(first + batch, count)
        operation.limit(first, stop)
        run(operation, compressing_work(operation.encoding, (stop - first) * chunk_nbytes), nthreads)
        yield operation.take_buffers()


def compressed(
    operation: Write,
    chunk_nbytes: int,
    nthreads: int,
    keep: Callable[[StoredChunk], Kept] = bytes,  # type: ignore[assignment]
) -> dict[int, Kept | int]:
    """The chunks of a write, by number, as `keep` keeps them."""
    chunks: dict[int, Kept | int] = {}
    for batch in compress(operation, chunk_nbytes, nthreads):
        for number, stored in batch.items():
            chunks[number] = stored if isinstance(stored, int) else keep(stored)
        batch.clear()  # so that their memory can be used again for the next ones
    return chunks
