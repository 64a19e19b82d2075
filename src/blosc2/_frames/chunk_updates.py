"""Changes of a super-chunk, chunk by chunk: what a caller gives is checked, compressed, and published in one update.

Each function works out the whole change before anything is published, and the caller holds the lock of the
handle (`FrameHandle.editing`) meanwhile.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.chunk_buffer import offset_or_chunk, stated_nbytes
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import special_chunk
from blosc2._core.ndim.gaps import contiguous
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_write import Write
from blosc2._frames.chunks import existing_chunk
from blosc2._frames.handle import FrameHandle, Stored, vlmeta_chunk
from blosc2._frames.header_fields import CHUNKSIZE_AT, has_vl_blocks
from blosc2._frames.metadata import pack
from blosc2._frames.parameters import encode
from blosc2._frames.update import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET, AnyChunk, FrameUpdate
from blosc2._options import Encoding, compress
from blosc2.exceptions import ChunkIndexError, ChunkSizeError, FormatError
from blosc2.storage import MAX_BUFFERSIZE, SpecialValue

#: The metadata where other programs keep indexes of an array.
INDEXES: Final = "blosc2_indexes"
#: Bytes of a chunk where nothing says how many.
DEFAULT_CHUNK: Final = 16 << 20
_LARGEST_DEFAULT_CHUNK: Final = 256 << 20
#: Chunks larger than this are compressed by one thread: each has a buffer of a chunk's size.
_LARGEST_IN_THREADS: Final = 64 << 20
# What a chunk of a few bytes takes until it is written.
_HELD_FOR_A_CHUNK: Final = 256
_SPECIAL_OFFSETS = {
    SpecialValue.ZERO: ZERO_OFFSET, SpecialValue.NAN: NAN_OFFSET, SpecialValue.UNINIT: UNINIT_OFFSET,
}  # fmt: skip


def integer(name: str, given: Any, advice: str) -> int:
    """A size that is the first argument of a class, where others take a path or values."""
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(given).__name__}: {advice}") from None


def chunk_nbytes(chunksize: Any, nbytes: int, typesize: int) -> int:
    """Bytes of a chunk: what a caller says, else whole items for up to as many bytes as there are."""
    if chunksize is None:
        wanted = min(nbytes, _LARGEST_DEFAULT_CHUNK)
        return max(wanted - wanted % typesize, typesize)
    chunksize = operator.index(chunksize)
    if not 1 <= chunksize <= MAX_BUFFERSIZE:
        raise ValueError(f"chunksize must be between 1 and {MAX_BUFFERSIZE} bytes, not {chunksize}")
    return int(chunksize)


def bytes_of(data: Any) -> memoryview:
    """The bytes of any buffer, in C order; copied where they do not lie in that order."""
    if isinstance(data, np.ndarray) and data.dtype.hasobject:
        raise TypeError(f"items of {data.dtype} are pointers, which mean nothing in a file: convert them first")
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"a bytes-like object is needed, not {type(data).__name__}") from None
    except ValueError:  # dtypes that the buffer protocol does not know
        items: Any = contiguous(data).view(np.uint8)
        view = memoryview(items)
    return (view if view.c_contiguous else memoryview(view.tobytes())).cast("B") if view.nbytes else memoryview(b"")


def position_for_chunk(frame: Frame, nchunk: Any) -> int:
    """Check the number that a new chunk is to get."""
    index = operator.index(nchunk)
    if not 0 <= index <= frame.nchunks:
        raise ChunkIndexError(
            f"Could not insert the desired chunk: position {index} of {frame.nchunks}",
            path=frame.source.path, key=frame.key,
        )  # fmt: skip
    return index


def compressed(handle: FrameHandle, data: Any, what: str) -> tuple[bytes, int]:
    """A chunk of a caller's data, and its uncompressed size."""
    view = bytes_of(data)
    size, largest = len(view), int(handle.frame.chunksize)
    if 0 < largest < size:
        raise ChunkSizeError(
            f"Could not {what} the data: {size} bytes, a chunk has at most {largest}: split the data, or make a "
            "super-chunk with a larger chunksize=", path=handle.urlpath, key=handle.key,
        )  # fmt: skip
    if size == 0:
        raise ChunkSizeError(f"Could not {what} the data: a chunk cannot be empty")
    return encode(handle.encoding(), view, handle.cparams.nthreads), size


def compressed_pieces(encoding: Encoding, view: memoryview, chunksize: int, nthreads: int) -> Iterator[AnyChunk]:
    """Chunks of this size, the last one shorter where need be; compressed in threads, a batch at a time."""
    count = len(view) // chunksize
    if nthreads > 1 and count > 1 and chunksize <= _LARGEST_IN_THREADS:
        source = np.frombuffer(view, np.uint8, count * chunksize)
        geometry = Geometry(source.shape, (chunksize,), (chunksize,), 1)
        operation = Write(None, geometry, (0,), (1,), source.shape, source, encoding)
        for chunks in compress(operation, chunksize, nthreads):
            for nchunk in sorted(chunks):
                yield chunks.pop(nchunk)
        view = view[count * chunksize :]
    for start in range(0, len(view), chunksize):
        yield offset_or_chunk(encode(encoding, view[start : start + chunksize], nthreads), encoding.typesize)


def checked_chunk(handle: FrameHandle, chunk: Any, what: str) -> tuple[bytes, int]:
    """A chunk from a caller and its uncompressed size.

    It is not decoded: what is damaged in its blocks is found by whoever reads them, as in any file.
    """
    stored = chunk if type(chunk) is bytes else bytes(bytes_of(chunk))
    if len(stored) < 32:
        raise FormatError(f"a chunk has at least 32 bytes, not {len(stored)}")
    size = stated_nbytes(stored)
    if size == 0:
        raise ChunkSizeError("a chunk of a super-chunk cannot be empty")
    largest = int(handle.frame.chunksize)
    if 0 < largest < size:
        raise ChunkSizeError(f"Could not {what} the desired chunk: it has {size} bytes, a chunk here {largest}")
    if has_vl_blocks(stored):
        raise NotImplementedError("chunks with blocks of variable length can only be read")
    return stored, size


def splice(handle: FrameHandle, index: int, removed: int, added: list[tuple[AnyChunk, int]]) -> int:
    """Publish chunks, given with their sizes, instead of `removed` ones; returns the number of chunks."""
    nchunks = handle.spliced(index, removed, added)
    if nchunks:
        return nchunks
    _check_equal_blocks(handle)
    update = FrameUpdate(handle.frame)
    if "b2nd" in update.metalayers and [size for _, size in added] != [update.chunksize] * removed:
        raise ChunkSizeError(
            f"the shape of the array says how many chunks there are, and that each has {update.chunksize} bytes: "
            "resize the array instead", path=handle.urlpath, key=handle.key,
        )  # fmt: skip
    update.splice(index, removed, added)
    handle.publish(update)
    return int(handle.frame.nchunks)


def reorder(handle: FrameHandle, order: Any) -> None:
    """Publish the same chunks in another order."""
    frame = handle.frame
    indices = np.asarray(order)
    if indices.dtype == np.int64 and indices.ndim == 1 and handle.has_reordered(indices):
        return
    if indices.dtype.kind not in "iu" or indices.shape != (frame.nchunks,):
        raise ValueError(f"order must be {frame.nchunks} integers, one for each chunk")
    if not np.array_equal(np.sort(indices), np.arange(frame.nchunks)):
        raise RuntimeError("order must name each chunk exactly once")
    update = FrameUpdate(frame)
    sizes = update.sizes[indices]
    update.offsets = update.offsets[indices]
    update.sizes = sizes
    handle.publish(update)


def append_special(handle: FrameHandle, nitems: Any, special: Any, value: Any) -> int:
    """Publish chunks without data behind the others, as many as the items need; returns the number of chunks."""
    kind = _special(special)
    frame = handle.frame
    nbytes = operator.index(nitems) * int(frame.typesize)
    if nbytes < 0:
        raise IndexError(f"nitems must not be negative: {nitems}")
    step = int(frame.chunksize) if frame.chunksize > 0 else DEFAULT_CHUNK
    added: list[tuple[AnyChunk, int]] = []
    for count, size in ((nbytes // step, step), (1, nbytes % step)):
        if count and size:  # chunks of one size are alike
            added += [(offset_or_chunk(special_stored(handle, kind, size, value), frame.typesize), size)] * count
    return splice(handle, int(frame.nchunks), 0, added) if added else int(frame.nchunks)


def update_special(handle: FrameHandle, nchunk: Any, special: Any, value: Any) -> int:
    """Publish a chunk without data instead of another; returns the number of chunks."""
    index = existing_chunk(handle.frame, nchunk, "Could not update the desired chunk")
    size = int(handle.frame.chunk_info(index)[1])
    return splice(handle, index, 1, [(special_stored(handle, _special(special), size, value), size)])


def special_stored(handle: FrameHandle, special: SpecialValue, nbytes: int, value: Any) -> AnyChunk:
    """What is stored for a chunk of zeros, NaN, undefined or one repeated item."""
    frame = handle.frame
    typesize = int(frame.typesize)
    if special in _SPECIAL_OFFSETS:
        if special is SpecialValue.NAN and typesize not in (4, 8):
            raise ValueError(f"NaN needs items of 4 or 8 bytes, not {typesize}")
        return _SPECIAL_OFFSETS[special]
    if value is None:
        raise ValueError("SpecialValue.VALUE needs a value")
    blocksize = int(frame.blocksize) if frame.blocksize > 0 else nbytes
    chunk: bytes = special_chunk(3, nbytes, typesize, blocksize, _item_bytes(value, typesize))
    return chunk


def overwrite(handle: FrameHandle, position: int, data: memoryview) -> None:
    """Publish bytes at an uncompressed position, growing where they reach past the end."""
    _check_equal_blocks(handle)
    frame = handle.frame
    count, step = int(frame.nchunks), int(frame.chunksize) if frame.chunksize > 0 else DEFAULT_CHUNK
    encoding, nthreads = handle.encoding(), handle.cparams.nthreads
    end, at, first = position + len(data), 0, 0
    sizes = np.frombuffer(frame.chunk_sizes(), np.int64) if frame.variable and count else None
    if not frame.variable:
        first = position // step
        at = first * step
    filled = max(int(frame.nbytes), min(end, count * step))  # the last chunk is filled up before new ones come
    chunks: list[tuple[AnyChunk, int]] = []
    for index in range(first, count):
        if at >= end:
            break
        size = min(step, filled - at) if sizes is None else int(sizes[index])
        low, high = max(position, at), min(end, at + size)
        if low < high:
            content: Any = data[low - position : high - position]
            if high - low < size:
                whole = bytearray(frame.decode_chunk(index).ljust(size, b"\0"))
                whole[low - at : high - at] = content
                content = whole
            chunks.append((encode(encoding, content, nthreads), size))
        else:
            first = index + 1
        at += size
    rest = data[max(at - position, 0) :] if end > at else data[:0]
    needed, most = _HELD_FOR_A_CHUNK * (len(rest) // step), allowed(frame.file_size, 2 * len(rest))
    if needed > most:
        raise FormatError(
            too_much(needed, f"{len(rest)} bytes in chunks of {step}", most),
            path=frame.source.path, key=frame.key, offset=frame.offset + CHUNKSIZE_AT,
        )  # fmt: skip
    pieces = [rest[i : i + step] for i in range(0, len(rest), step)]
    replaced = len(chunks)
    chunks += [(encode(encoding, piece, nthreads), len(piece)) for piece in pieces]
    splice(handle, first, replaced, chunks)


def _check_equal_blocks(handle: FrameHandle) -> None:
    if handle.frame.vlblocks:
        raise NotImplementedError("chunks with blocks of variable length can only be read")


def _special(value: Any) -> SpecialValue:
    if not isinstance(value, SpecialValue) or value is SpecialValue.NOT_SPECIAL:
        raise TypeError(f"special_value must be a blosc2.SpecialValue other than NOT_SPECIAL, not {value!r}")
    return value


def _item_bytes(value: Any, typesize: int) -> bytes:
    """One item from a Python number or from its bytes."""
    if isinstance(value, bytes):
        item = value
    elif isinstance(value, float):
        if typesize not in (4, 8):
            raise ValueError(f"a float does not fit items of {typesize} bytes")
        item = np.array(value, f"f{typesize}").tobytes()
    elif isinstance(value, (int, np.integer)):
        item = int(value).to_bytes(typesize, "little", signed=bool(value < 0))
    else:
        item = np.asarray(value).tobytes()
    if len(item) != typesize:
        raise ValueError(f"the value has {len(item)} bytes, an item {typesize}")
    return item


def mark_indexes_stale(array: Stored, update: FrameUpdate) -> None:
    """Mark indexes that other programs stored with an array as out of date."""
    stored = array.vlmeta[INDEXES]
    indexes = stored.get("indexes") if isinstance(stored, dict) else None
    if isinstance(indexes, dict):
        for entry in indexes.values():
            if isinstance(entry, dict):
                entry["stale"] = True
        update.vlmeta[INDEXES] = vlmeta_chunk(pack(stored))
