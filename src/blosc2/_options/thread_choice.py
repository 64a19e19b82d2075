"""How many threads an operation gets.

The threads are those of `_core.codec.thread_pool`, which the loops of `_core` run in without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from blosc2._core.codec import thread_pool
from blosc2._core.codec.thread_pool import share_from, worth_threads
from blosc2._options.codecs import Codec
from blosc2._options.default_threads import detect_number_of_cores

if TYPE_CHECKING:
    from blosc2._core.codec.codec import Encoding
    from blosc2._core.ndim.grid_write import StoredChunk, Write

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
    """Whether whole arrays, of `nbytes` on average, are read faster one by each thread than one by all threads."""
    return count > 1 and nthreads > 1 and nbytes * count >= 4 * PARALLEL_WORK and nbytes >= PARALLEL_WORK // 4


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
