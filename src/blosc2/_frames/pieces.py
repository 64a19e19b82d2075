"""Frames as byte ranges, to be copied in pieces, instead of one buffer with all bytes.

Small or new parts (header, table, trailer) are in memory; chunks stay where they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.io.checksum import crc32c, crc32c_joined
from blosc2._core.io.source import Source
from blosc2._files import Window, check_unchanged, checked_pieces, held
from blosc2._frames.checksums import Known, as_table, carried
from blosc2._frames.payload_alignment import PADDING, hole_before
from blosc2._frames.update import Fields, FrameUpdate, check_table, numbered

#: Frames up to here are copied as a whole, which is sooner done.
SMALL_FRAME: Final = 8 << 20


def plain_window(frame: Frame, *, own: bool = False) -> Window:
    """A serialised frame without the checksums that files carry, which are remembered.

    `own` says that nobody else writes to its file.
    """
    header, trailer = frame.plain_ends()
    start = int(frame.header_len)
    stop = start if not frame.nbytes else int(frame.frame_len - frame.trailer_len)
    sums = carried(frame)
    known = (False if own else None) if sums is None else Known(sums.chunks, sums.body, sums.table, start, stop)
    body = frame.source, frame.offset + start, stop - start
    source = Source.joined((_buffer(header), body, _buffer(trailer)), checksums=known)
    return source, 0, source.size


def update_window(update: FrameUpdate, sum_at: Callable[[int], int | None] | None = None) -> Window:
    """A new frame without holes that shows an update, as `blosc2._frames.update.frame_bytes` makes it.

    Parameters
    ----------
    update : FrameUpdate
    sum_at : callable, optional
        Gives the checksum of the chunk at an offset, where it is known. The result knows them if all are known.
    """
    variable = update.settle()
    frame = update.frame
    fields = Fields(frame, update.chunksize, variable=variable, vlblocks=bool(frame.vlblocks))
    start = header_length(update.metalayers)
    repeated = None if update.edits_chunks else frame.repeated_offset
    parts: list[Window] = []
    offsets: Any
    position, count = 0, int(frame.nchunks)
    sums: array[int] | None = None if sum_at is None else array("I")
    body = 0
    if repeated is not None and repeated < 0:
        offsets = int(repeated)
    else:
        offsets = np.array(update.offsets)
        count = len(offsets)
        aligned = PADDING in update.metalayers
        for index, window, own in _stored(update, sum_at):
            hole = hole_before(start + position) if aligned else b""
            if hole:
                parts.append(_buffer(hole))
                position += len(hole)
            offsets[index] = position
            parts.append(window)
            position += window[2]
            if sums is not None and own is not None:
                body = crc32c_joined(crc32c(hole, body), own, window[2])
                sums.append(own)
            else:
                sums = None
        check_table(count, start + position)
    index_chunk = pack_index(offsets, count) if update.nbytes else b""
    trailer = pack_trailer(update.vlmeta)
    stop = start + position + len(index_chunk)
    header = pack_header(fields, update.metalayers, bool(update.vlmeta), stop + len(trailer), update.nbytes, position)
    known: Known | bool = False  # what is edited is not somebody else's
    if sums is not None:
        known = Known(as_table(sums), crc32c(index_chunk, body), crc32c(index_chunk), start, stop)
    every = (_buffer(header), *parts, _buffer(index_chunk), _buffer(trailer))
    source = Source.joined(every, checksums=known)
    return source, 0, source.size


def _stored(
    update: FrameUpdate, sum_at: Callable[[int], int | None] | None
) -> Iterator[tuple[int, Window, int | None]]:
    """Number, place and checksum of each stored chunk."""
    frame = update.frame
    for index, offset in numbered(update.offsets):
        if index in update.new:
            stored = held(update.new[index])
            yield index, _buffer(stored), crc32c(stored)
        elif offset >= 0:
            place, length = frame.chunk_offset_at(offset)
            yield index, (frame.source, place, length), None if sum_at is None else sum_at(offset)


def _buffer(data: bytes) -> Window:
    return Source.of_buffer(data), 0, len(data)


def settled(window: Window) -> Window:
    """The same window, in memory where its bytes are part of a file that may change before they are needed."""
    source = window[0]
    if not source.is_joined or all(part.in_memory for part, _, _ in source.byte_ranges(0, source.size)):
        return window
    data = in_bytes(window)
    check_unchanged(source)
    return _buffer(data)


def in_bytes(window: Window) -> bytes:
    """All of a window, as bytes that nothing can change any more."""
    return b"".join(checked_pieces(window)) if window[0].checksums else window[0].read(*window[1:])
