"""Frames as byte ranges, to be copied in pieces, instead of one buffer with all bytes.

Small or new parts (header, table, trailer) are in memory; chunks stay where they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.io.checksum import crc32c, crc32c_joined, crc32c_of_parts
from blosc2._core.io.source import Source
from blosc2._files import ByteRange, check_unchanged, checked_pieces
from blosc2._frames.checksums import Known, as_table, carried
from blosc2._frames.payload_alignment import PADDING, aligned_offsets
from blosc2._frames.update import Fields, FrameUpdate, check_table

#: Frames up to here are copied as a whole, which is sooner done.
SMALL_FRAME: Final = 8 << 20

Integers = np.ndarray[Any, np.dtype[np.int64]]
#: Gives the checksums of the chunks at offsets of a frame; None where they are not known.
ChecksumsOf = Callable[[Integers], "np.ndarray[Any, np.dtype[np.uint32]] | None"]


def plain_byte_range(frame: Frame, *, own: bool = False) -> ByteRange:
    """A serialised frame without the checksums that files carry. The checksums are remembered.

    `own` says that nobody else writes to its file.
    """
    header, trailer = frame.plain_ends()
    start = int(frame.header_len)
    stop = start if not frame.nbytes else int(frame.frame_len - frame.trailer_len)
    checksums = carried(frame)
    known = (
        (False if own else None)
        if checksums is None
        else Known(checksums.chunks, checksums.body, checksums.table, start, stop)
    )
    body = frame.source, frame.offset + start, stop - start
    source = Source.joined((_buffer(header), body, _buffer(trailer)), checksums=known)
    return source, 0, source.size


def frame_byte_range(frame: Frame, checksums_of: ChecksumsOf | None = None) -> ByteRange:
    """A frame without holes of the chunks of another, as `blosc2._frames.update.frame_bytes` makes it.

    Parameters
    ----------
    frame : Frame
    checksums_of : callable, optional
        Gives the checksums of the chunks at offsets, where they are known. The result knows them then.
    """
    update = FrameUpdate(frame)
    fields = Fields(frame, update.chunksize, variable=update.settle(), vlblocks=bool(frame.vlblocks))
    start = header_length(update.metalayers)
    repeated = frame.repeated_offset
    parts: list[ByteRange] = []
    offsets: Any
    position, count = 0, int(frame.nchunks)
    checksums: np.ndarray[Any, np.dtype[np.uint32]] | None = None if checksums_of is None else np.zeros(0, np.uint32)
    body = 0
    if repeated is not None and repeated < 0:
        offsets = int(repeated)
    else:
        offsets = np.array(update.offsets)
        count = len(offsets)
        stored = offsets >= 0
        at = offsets[stored]
        lengths = np.frombuffer(stored_lengths(frame, at), np.int64)
        checksums = None if checksums_of is None else checksums_of(at)
        if PADDING in update.metalayers:
            positions = aligned_offsets(start, lengths)
            parts = list(_aligned(frame, at, lengths, positions))
            if checksums is not None:
                body = _body_of_aligned(checksums, lengths, positions)
        else:
            positions = np.cumsum(lengths) - lengths
            parts = list(runs(frame, at, lengths))
            if checksums is not None:
                body = crc32c_of_parts(0, checksums, lengths)
        offsets[stored] = positions
        position = int(positions[-1] + lengths[-1]) if len(lengths) else 0
        check_table(count, start + position)
    index_chunk = pack_index(offsets, count) if update.nbytes else b""
    trailer = pack_trailer(update.vlmeta)
    stop = start + position + len(index_chunk)
    header = pack_header(fields, update.metalayers, bool(update.vlmeta), stop + len(trailer), update.nbytes, position)
    known: Known | bool = False  # what is edited is not somebody else's
    if checksums is not None:
        table = as_table(array("I", checksums.tobytes()))
        known = Known(table, crc32c(index_chunk, body), crc32c(index_chunk), start, stop)
    every = (_buffer(header), *parts, _buffer(index_chunk), _buffer(trailer))
    source = Source.joined(every, checksums=known)
    return source, 0, source.size


def runs(frame: Frame, at: Integers, lengths: Integers) -> Iterator[ByteRange]:
    """Where the chunks at offsets lie: those that lie one behind the other are one byte range."""
    if not len(at):
        return
    start = int(frame.chunks_range[0])
    ends = at + lengths
    first = np.concatenate([[0], np.flatnonzero(at[1:] != ends[:-1]) + 1])
    last = np.concatenate([first[1:], [len(at)]]) - 1
    for begin, end in zip(at[first].tolist(), ends[last].tolist(), strict=True):
        yield frame.source, start + begin, end - begin


def _aligned(frame: Frame, at: Integers, lengths: Integers, positions: Integers) -> Iterator[ByteRange]:
    """Where the chunks of an aligned frame lie, and between them the holes before their new offsets."""
    start, end = int(frame.chunks_range[0]), 0
    for begin, length, position in zip(at.tolist(), lengths.tolist(), positions.tolist(), strict=True):
        if position > end:
            yield _buffer(bytes(position - end))
        yield frame.source, start + begin, length
        end = position + length


def _body_of_aligned(checksums: np.ndarray[Any, np.dtype[np.uint32]], lengths: Integers, positions: Integers) -> int:
    """The checksum of chunks with holes of zeros between them."""
    body = end = 0
    for own, length, position in zip(checksums.tolist(), lengths.tolist(), positions.tolist(), strict=True):
        body = crc32c_joined(crc32c(bytes(position - end), body), own, length)
        end = position + length
    return body


def _buffer(data: bytes) -> ByteRange:
    return Source.of_buffer(data), 0, len(data)


def held_in_memory(byte_range: ByteRange) -> ByteRange:
    """The same byte range, in memory where its bytes are part of a file that may change before they are needed."""
    source = byte_range[0]
    if not source.is_joined or all(part.in_memory for part, _, _ in source.byte_ranges(0, source.size)):
        return byte_range
    data = in_bytes(byte_range)
    check_unchanged(source)
    return _buffer(data)


def in_bytes(byte_range: ByteRange) -> bytes:
    """All of a byte range, as bytes that nothing can change any more."""
    return b"".join(checked_pieces(byte_range)) if byte_range[0].checksums else byte_range[0].read(*byte_range[1:])
