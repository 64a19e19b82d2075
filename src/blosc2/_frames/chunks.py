"""Chunks of a super-chunk as byte ranges and as items, and the methods that read and change them."""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2 import _frames
from blosc2._core.allocation import FREE, allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, bytes_to_fill, work_of
from blosc2._frames.handle import StoredFrame
from blosc2._frames.header_fields import CHUNK_HEADER
from blosc2._options import run, worth_threads
from blosc2.exceptions import ChunkIndexError, FormatError
from blosc2.storage import MAX_BUFFERSIZE, SpecialValue

Items = Any  # an array of bytes; the stubs of NumPy do not say that arrays are buffers


def read_bytes(frame: Frame, start: int, stop: int, nthreads: int) -> bytes:
    """Read the uncompressed bytes ``start .. stop``, in up to `nthreads` threads."""
    geometry = _geometry_for(frame, start, stop, nthreads)
    if geometry is None:
        result: bytes = frame.read_bytes(start, stop)
        return result
    result, room = bytes_to_fill(stop - start)
    _read(frame, geometry, start, stop, room, nthreads)
    return result


def read_into(frame: Frame, start: int, stop: int, out: memoryview, nthreads: int) -> None:
    """Read the uncompressed bytes ``start .. stop`` into a writable view of as many bytes."""
    geometry = _geometry_for(frame, start, stop, nthreads)
    if geometry is None:
        frame.read_into(start, stop, out)
    else:
        _read(frame, geometry, start, stop, np.frombuffer(out, np.uint8), nthreads)


def chunk_range(frame: Frame, nchunk: int) -> tuple[int, int] | None:
    """The range of uncompressed bytes of a chunk. None if sizes differ: only a pass over all chunks would tell."""
    if frame.variable:
        return None
    size = frame.chunksize
    start = nchunk * size
    return start, min(start + size, frame.nbytes)


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


# The bit of the last byte of a chunk's header that says that data are missing.
_LAZY = 8
# Bytes of memory that it takes to put each block in order.
_FOR_BLOCK = 240


def lazy_chunk(frame: Frame, index: int) -> bytes:
    """The header of a chunk; of one that has data in a file, also where its blocks are: see `SChunk.get_lazychunk`."""
    at, nbytes, cbytes, special, raw, blocksize = frame.chunk_info(index)
    if at is None or special:
        stored: bytes = frame.chunk(index)
        return stored
    header: bytes = frame.source.read(at, CHUNK_HEADER)
    if frame.source.identity is None or frame.vlblocks or not nbytes:
        return header
    # Of a chunk that is stored as it is, a block size says nothing.
    blocks = (nbytes - 1) // blocksize + 1 if blocksize > 0 else 1
    room = cbytes - CHUNK_HEADER
    if not raw and 4 * blocks > room:
        raise FormatError(f"chunk {index} has {blocks} blocks in {cbytes} bytes", path=frame.source.path, offset=at)
    if _FOR_BLOCK * blocks > max(FREE, allowed(frame.source.size)):
        what = f"where the {blocks} blocks of chunk {index} are"
        raise FormatError(
            too_much(_FOR_BLOCK * blocks, what, allowed(frame.source.size)), path=frame.source.path, offset=at
        )
    table = frame.source.read(at + CHUNK_HEADER, min(4 * blocks, room)).ljust(4 * blocks, b"\0")
    if raw:  # these are items, and blocks follow each other
        lengths = [blocksize] * (blocks - 1) + [nbytes - (blocks - 1) * blocksize]
    else:
        # Blocks need not lie in their order: each ends where the next one begins in the chunk.
        starts = struct.unpack(f"<{blocks}I", table)
        in_order = sorted(starts)
        ends = dict(zip(in_order, [*in_order[1:], cbytes], strict=True))
        lengths = [ends[start] - start & 0xFFFFFFFF for start in starts]
    where = struct.pack("<IQ", index, at - frame.offset)
    return b"".join((header[:-1], bytes((header[-1] | _LAZY,)), table, where, struct.pack(f"<{blocks}I", *lengths)))


class ChangeableChunks(StoredFrame):
    """The methods of `SChunk` that change it. All of them raise `ValueError` when it was opened for reading."""

    __slots__ = ()

    # ------------------------------------------------------------ whole chunks, from data
    def append_data(self, data: Any) -> int:
        """Compress a buffer into a new last chunk.

        Parameters
        ----------
        data : buffer
            At most `chunksize` bytes. Other chunks may follow a shorter chunk.

        Returns
        -------
        int
            The number of chunks.

        Raises
        ------
        RuntimeError
            The data is longer than a chunk, or empty.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, cparams={"typesize": 1})
        >>> schunk.append_data(b"abcd"), schunk.append_data(b"ef")
        (1, 2)
        """
        with self._handle.editing():
            chunk = _frames.compressed(self._handle, data, "append")
            return _frames.splice(self._handle, int(self._handle.frame.nchunks), 0, [chunk])

    def insert_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Compress a buffer into a new chunk before the one of this number; see `append_data`.

        `copy` has no effect: the data is always compressed into memory of its own.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.insert_data(1, b"----")
        3
        >>> schunk[:]
        b'abcd----efgh'
        """
        with self._handle.editing():
            index = _frames.position_for_chunk(self._handle.frame, nchunk)
            return _frames.splice(self._handle, index, 0, [_frames.compressed(self._handle, data, "insert")])

    def update_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Replace a chunk with a compressed buffer; see `insert_data`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_data(0, b"----"), schunk[:]
        (2, b'----efgh')
        """
        with self._handle.editing():
            index = existing_chunk(self._handle.frame, nchunk, "Could not update the desired chunk")
            return _frames.splice(self._handle, index, 1, [_frames.compressed(self._handle, data, "update")])

    # ------------------------------------------------------------ whole chunks, compressed already
    def append_chunk(self, chunk: Any) -> int:
        """Append a compressed chunk, as returned by `get_chunk`.

        Parameters
        ----------
        chunk : bytes-like
            At most `chunksize` uncompressed bytes. It is decoded once, to check it.

        Returns
        -------
        int
            The number of chunks.

        Raises
        ------
        RuntimeError
            The chunk is larger than those of this super-chunk.
        ValueError
            The bytes are not a chunk.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 1})
        >>> schunk.append_chunk(schunk.get_chunk(0)), schunk[:]
        (2, b'abcdabcd')
        """
        return self._exchange(None, 0, [(chunk, None)], "append")

    def insert_chunk(self, nchunk: int, chunk: Any) -> int:
        """Insert a compressed chunk before the one of this number; see `append_chunk`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.insert_chunk(0, schunk.get_chunk(1)), schunk[:]
        (3, b'efghabcdefgh')
        """
        return self._exchange(nchunk, 0, [(chunk, None)], "insert")

    def update_chunk(self, nchunk: int, chunk: Any) -> int:
        """Replace a chunk with another compressed chunk; see `append_chunk`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_chunk(0, schunk.get_chunk(1)), schunk[:]
        (2, b'efghefgh')
        """
        return self._exchange(nchunk, 1, [(chunk, None)], "update")

    def delete_chunk(self, nchunk: int) -> int:
        """Remove a chunk; those behind it move up.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.delete_chunk(0), schunk[:]
        (1, b'efgh')
        """
        return self._exchange(nchunk, 1, [], "delete")

    def _exchange(self, nchunk: Any, removed: int, given: list[tuple[Any, None]], what: str) -> int:
        """Put chunks that were given instead of `removed` ones from a number on; None for the end."""
        handle = self._handle
        with handle.editing():
            number = handle.frame.nchunks if nchunk is None else nchunk
            count = handle.spliced(number, removed, given)
            if count:
                return count
            if removed:
                number = existing_chunk(handle.frame, number, f"Could not {what} the desired chunk")
            elif nchunk is not None:
                number = _frames.position_for_chunk(handle.frame, number)
            return _frames.splice(handle, number, removed, [_frames.checked_chunk(handle, c, what) for c, _ in given])

    # ------------------------------------------------------------ chunks without data
    def fill_special(self, nitems: int, special_value: SpecialValue, value: Any = None) -> int:
        """Append chunks of zeros, NaN, undefined items or one repeated item, which take almost no space.

        Parameters
        ----------
        nitems : int
            How many items to append, over as many chunks as they need.
        special_value : SpecialValue
            ``ZERO``, ``NAN`` (of items of 4 or 8 bytes), ``UNINIT`` or ``VALUE``.
        value : int, float, bytes or scalar, optional
            The item to repeat; only with ``VALUE``.

        Returns
        -------
        int
            The number of chunks.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=8, cparams={"typesize": 2})
        >>> schunk.fill_special(6, blosc2.SpecialValue.VALUE, b"ab"), schunk[:]
        (2, b'abababababab')
        """
        with self._handle.editing():
            return _frames.append_special(self._handle, nitems, special_value, value)

    def update_special(self, nchunk: int, special_value: SpecialValue, value: Any = None) -> int:
        """Replace the items of a chunk with zeros, NaN, undefined items or one repeated item; see `fill_special`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_special(0, blosc2.SpecialValue.VALUE, b"-"), schunk[:]
        (2, b'----efgh')
        """
        with self._handle.editing():
            return _frames.update_special(self._handle, nchunk, special_value, value)

    def reorder_offsets(self, order: Any) -> None:
        """Reorder the chunks: chunk ``order[i]`` becomes chunk ``i``. No chunk is moved or read.

        Parameters
        ----------
        order : sequence of int
            The number of each chunk, exactly once.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.reorder_offsets([1, 0])
        >>> schunk[:]
        b'efghabcd'
        """
        with self._handle.editing():
            _frames.reorder(self._handle, order)

    # ------------------------------------------------------------ items
    def set_slice(self, value: Any, start: int = 0, stop: int | None = None) -> None:
        """Replace items ``start .. stop``; the super-chunk grows if the slice reaches beyond its end.

        Parameters
        ----------
        value : buffer
            Exactly the bytes of the slice.
        start, stop : int, optional
            In items; negative numbers count from the end. Without `stop` the slice ends at the end of the super-chunk
            or of `value`, whichever is further.

        Raises
        ------
        ValueError
            The value is shorter or longer than the slice, or the slice starts beyond the end.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 1})
        >>> schunk.set_slice(b"-----", start=2)
        >>> schunk[:]
        b'ab-----'
        """
        with self._handle.editing():
            data = _frames.bytes_of(value)
            frame = self._handle.frame
            typesize = int(frame.typesize)
            length = int(frame.nbytes) // typesize
            if start < 0:
                start = max(start + length, 0)
            if stop is None:
                stop = max(length, start + len(data) // typesize)
            elif stop < 0:
                stop += length
            if start > length:
                raise ValueError(f"`start` cannot be greater than the number of items, {length}")
            size = (stop - start) * typesize
            if size > len(data):
                raise ValueError(f"Not enough data: {size} bytes are needed for the slice, not {len(data)}")
            if size < len(data):
                raise ValueError(f"{len(data)} bytes do not fit a slice of {max(size, 0)} bytes")
            if frame.metalayer("b2nd") is not None and start * typesize + size > frame.nbytes:
                raise ValueError("the super-chunk of an array cannot grow on its own: resize the array instead")
            if size > 0:
                _frames.overwrite(self._handle, start * typesize, data)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice):
            raise TypeError("only slices can be assigned to")
        if key.step not in (None, 1):
            raise IndexError("`step` must be 1")
        self.set_slice(value, 0 if key.start is None else key.start, key.stop)
