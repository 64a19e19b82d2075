"""Reading ranges of the uncompressed bytes of a super-chunk, in threads where that is faster.

To `_core.grid` the items are an array of one axis, of which a range is a selection. That holds as far as blocks
are whole; what is left over (the end of a chunk that blocks do not divide, a short last chunk) is read by `Frame`.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, work_of
from blosc2._options import run, worth_threads
from blosc2.exceptions import ChunkIndexError, FormatError
from blosc2.storage import MAX_BUFFERSIZE

Items = Any  # an array of bytes; the stubs of NumPy do not say that arrays are buffers


def read_bytes(frame: Frame, start: int, stop: int, nthreads: int) -> bytes:
    """Read the uncompressed bytes ``start .. stop``, in up to `nthreads` threads."""
    geometry = _geometry_for(frame, start, stop, nthreads)
    if geometry is None:
        result: bytes = frame.read_bytes(start, stop)
        return result
    # A buffer whose bytes can be written, and which gives them away without a copy (in CPython; elsewhere with one).
    fresh = io.BytesIO(bytes(stop - start))
    _read(frame, geometry, start, stop, np.frombuffer(fresh.getbuffer(), np.uint8), nthreads)
    return fresh.getvalue()


def read_into(frame: Frame, start: int, stop: int, out: memoryview, nthreads: int) -> None:
    """The same into a writable view of as many bytes."""
    geometry = _geometry_for(frame, start, stop, nthreads)
    if geometry is None:
        frame.read_into(start, stop, out)
    else:
        _read(frame, geometry, start, stop, np.frombuffer(out, np.uint8), nthreads)


def chunk_range(frame: Frame, nchunk: int) -> tuple[int, int] | None:
    """The range of uncompressed bytes of a chunk. None if sizes differ: only a pass over all chunks would tell."""
    if frame.variable:
        return None
    start = nchunk * int(frame.chunksize)
    return start, min(start + int(frame.chunksize), int(frame.nbytes))


def chunks_as_items(frame: Frame, dtype: Any, nthreads: int) -> Iterator[np.ndarray[Any, Any]]:
    """The items of one chunk after the other, in arrays of their own."""
    for nchunk in range(int(frame.nchunks)):
        span = chunk_range(frame, nchunk)
        items: Items
        if span is None:
            items = np.frombuffer(bytearray(frame.decode_chunk(nchunk)), np.uint8)
        else:
            items = np.empty(span[1] - span[0], np.uint8)
            read_into(frame, *span, memoryview(items), nthreads)
        yield items.view(dtype)


def _geometry_for(frame: Frame, start: int, stop: int, nthreads: int) -> Geometry | None:
    """The chunks of a range as chunks of an array. None if one thread reads the range as fast."""
    size = stop - start
    if nthreads == 1 or not worth_threads(work_of(size, frame)):
        return None
    if frame.variable or frame.vlblocks or frame.needs_geometry:
        return None
    chunksize, typesize = int(frame.chunksize), int(frame.typesize)
    first, last = start // chunksize, (stop - 1) // chunksize
    blocksize = min(int(frame.chunk_info(first)[5]), chunksize)
    if blocksize < 1:  # raw and special chunks have no blocks, so nobody checks what they say of them
        return None
    if first == last:
        length = min(chunksize, int(frame.nbytes) - first * chunksize)
        length -= length % blocksize  # a part of a block at the end is not for threads
        length += first * chunksize
    else:
        if chunksize % blocksize:
            blocksize = chunksize  # threads share chunks then, not their blocks
        length = int(frame.nbytes) // chunksize * chunksize
    # Values that fill a chunk are repeated from item to item.
    if start >= length or any(n % typesize for n in (start, stop, chunksize, blocksize)):
        return None
    if -(-chunksize // blocksize) * blocksize > MAX_BUFFERSIZE:
        return None
    return Geometry((length // typesize,), (chunksize // typesize,), (blocksize // typesize,), typesize)


def _read(frame: Frame, geometry: Geometry, start: int, stop: int, out: Items, nthreads: int) -> None:
    size = geometry.itemsize
    end = min(stop, geometry.size * size)
    threaded = out[: end - start].view(f"V{size}")
    try:
        operation = Read(frame, geometry, (start // size,), (1,), ((end - start) // size,), threaded)
        run(operation, work_of(end - start, frame), nthreads)
    except FormatError:
        # A chunk may be sound and still not hold such items. This raises an error that says where.
        end = start
    if end < stop:
        frame.read_into(end, stop, out[end - start :])


def existing_chunk(frame: Frame, nchunk: Any, what: str = "Error while getting the chunk") -> int:
    """Check the number of an existing chunk."""
    index = operator.index(nchunk)
    if not 0 <= index < frame.nchunks:
        raise ChunkIndexError(
            f"{what}: there is no chunk {index}, there are {frame.nchunks}", path=frame.source.path, key=frame.key
        )
    return index
