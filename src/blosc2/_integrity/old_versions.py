"""Finding versions of a frame without its header, by searching for their trailers and offsets tables.

A file that was appended to keeps the tables of older versions (FORMATS 8.1), and one with a damaged header still has
its newest. If no table is left, chunks that follow each other behind the header are found by their own headers.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from blosc2._core.allocation import Allowance, allowed
from blosc2._core.codec.codec import decode_bytes
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import pack_trailer
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._frames import (
    CBYTES_AT,
    CHUNK_SIZES,
    CHUNKSIZE_AT,
    FLAGS_AT,
    FRAME_SIZE_AT,
    HEADER_SIZE_AT,
    MARK_AT,
    NAN_OFFSET,
    NBYTES_AT,
    TRAILER_START,
    TRAILER_TAIL,
    UNINIT_OFFSET,
    ZERO_OFFSET,
    Fields,
    frame_chunksize,
    frame_nbytes,
    frame_size,
    header_size,
    set_frame_fields,
    trailers,
)
from blosc2._integrity.report import FAULTS
from blosc2.exceptions import FormatError
from blosc2.storage import MAX_BUFFERSIZE

_FIXED: Final = 97
_MAGIC: Final = b"\x9e\xa8b2frame\0"
_CHUNK_HEADER: Final = 32
# What the header of an offsets table begins with: versions, flags, items of 8 bytes.
_TABLE_START: Final = rb"(?s)(?=[\x05\x06]\x01.\x08)"
_LARGEST_TABLE: Final = 64 << 20
_LARGEST_TRAILER: Final = 16 << 20
_PIECE: Final = 4 << 20
_MOST_VERSIONS: Final = 1000
# How many times what the rule of allocation gives is decoded of offsets tables.
_WORK: Final = 16
# Checksums in a trailer, and the byte of the header that says so (doc/design/checksums.md).
_CHECKSUMS_END: Final = 51
_CHECKSUMS_MAGIC: Final = b"\xc1b2sums\x01"
_MARK: Final = 0xB5
_VARIABLE: Final = 0x40
# Longer headers are not repaired.
_LONGEST_HEADER: Final = 1 << 14
# In longer trailers, damage of many bits might too easily look like that of one.
_LONGEST_TRAILER: Final = 1 << 16
_FIXED_CHECKSUMS: Final = 35 + 28

#: An offsets table: where it begins, and its entries.
Table = tuple[int, np.ndarray[Any, np.dtype[np.int64]]]


class Head:
    """The header of a frame, read without believing what it says about the rest.

    Parameters
    ----------
    source : Source
    offset : int
        Where the frame begins.

    Attributes
    ----------
    empty : Frame
        A frame without data, of the same parameters and metalayers.
    raw : bytes
        The header as it is.

    Raises
    ------
    FormatError
        It is damaged.
    """

    def __init__(self, source: Source, offset: int) -> None:
        self.source = source
        self.offset = offset
        fixed = source.read(offset, min(_FIXED, source.size - offset))
        if len(fixed) < _FIXED or fixed[:10] != _MAGIC:
            raise FormatError("not the header of a frame", path=source.path, offset=offset)
        length = header_size(fixed)
        if not _FIXED <= length <= source.size - offset:
            raise FormatError(
                f"header length {length} does not fit the file", path=source.path, offset=offset + HEADER_SIZE_AT
            )
        self.raw = source.read(offset, length)
        self.empty = self._with_trailer(pack_trailer({}))
        self.nbytes = frame_nbytes(self.raw)
        self.variable = bool(self.raw[FLAGS_AT] & _VARIABLE)

    @property
    def start(self) -> int:
        """Where chunks begin in the file."""
        return self.offset + len(self.raw)

    def _with_trailer(self, trailer: bytes) -> Frame:
        """The header and a trailer as a frame without data."""
        header = bytearray(self.raw)
        struct.pack_into(">Q", header, FRAME_SIZE_AT, len(header) + len(trailer))
        struct.pack_into(">q", header, NBYTES_AT, 0)
        struct.pack_into(">q", header, CBYTES_AT, 0)
        header[MARK_AT] = 0
        return Frame.open(Source.of_buffer(bytes(header) + trailer, self.source.path))

    def vlmeta_of(self, trailer: bytes) -> dict[str, bytes]:
        """The metadata entries of a trailer."""
        found: dict[str, bytes] = self._with_trailer(trailer).vlmeta_chunks()
        return found

    def frame(self, offsets: Any, nbytes: int, vlmeta: dict[str, bytes]) -> Frame:
        """A frame of chunks that lie at these offsets from the header's end; negative ones are special."""
        if not nbytes and len(offsets):
            raise FormatError("chunks that hold nothing", path=self.source.path, offset=self.offset)
        empty = self.empty
        entries = np.array(offsets, np.int64)
        entries[entries >= 0] += self.start
        # Where chunks have different sizes, the field has no meaning.
        chunksize = 0 if self.variable else frame_chunksize(self.raw)
        if not self.variable and not 1 <= chunksize <= MAX_BUFFERSIZE:
            raise FormatError("the size of chunks is damaged", path=self.source.path, offset=self.offset + CHUNKSIZE_AT)
        if (entries == NAN_OFFSET).any() and empty.typesize not in (4, 8):
            raise FormatError("the size of items is damaged", path=self.source.path, offset=self.offset + 48)
        fields = Fields(empty, chunksize, variable=self.variable, vlblocks=bool(empty.vlblocks))
        repeated = len(entries) > 0 and int(entries[0]) < 0 and bool((entries == entries[0]).all())
        return Frame.assemble(
            self.source, int(entries[0]) if repeated else entries, len(entries), nbytes, chunksize, fields,
            empty.metalayers(), vlmeta, vlblocks=bool(empty.vlblocks), variable=self.variable,
        )  # fmt: skip


def repaired_header(source: Source, offset: int, stop: int) -> bytes | None:
    """The header of a frame that ends at `stop`, where one bit of it is wrong by its checksum; else None.

    A frame without checksums gives None: nothing tells which bit is wrong.
    """
    if stop - offset < _FIXED + _CHECKSUMS_END:
        return None
    checksums = source.read(stop - _CHECKSUMS_END, _CHECKSUMS_END)
    if checksums[:8] != _CHECKSUMS_MAGIC:
        return None
    own = int.from_bytes(checksums[20:24], "little")
    raw = bytearray(source.read(offset, min(stop - offset, _LONGEST_HEADER)))
    length = header_size(raw)
    sane = _FIXED <= length <= len(raw)
    if sane and crc32c(memoryview(raw)[:length]) == own:
        return None
    # With a length that cannot be, the bit is one of the length.
    for bit in range(0 if sane else 88, 8 * length if sane else 120):
        raw[bit >> 3] ^= 1 << (bit & 7)
        size = header_size(raw)
        if _FIXED <= size <= len(raw) and crc32c(memoryview(raw)[:size]) == own:
            return bytes(raw[:size])
        raw[bit >> 3] ^= 1 << (bit & 7)
    return None


def repaired_trailer(source: Source, offset: int, stop: int) -> bytes | None:
    """The trailer of a frame whose header is right, where one bit of it is wrong by its checksum; else None."""
    if stop - offset < _FIXED + _CHECKSUMS_END:
        return None
    header = source.read(offset, _FIXED)
    length, end, nbytes = header_size(header), frame_size(header), frame_nbytes(header)
    if not _FIXED + _CHECKSUMS_END <= end <= stop - offset or length > end:
        return None
    tail = source.read(offset + end - TRAILER_TAIL, TRAILER_TAIL)
    size = int.from_bytes(tail[1:5]) if nbytes else end - length
    if not _FIXED_CHECKSUMS <= size <= min(end - length, _LONGEST_TRAILER):
        return None
    trailer = bytearray(source.read(offset + end - size, size))
    position = len(trailer) - TRAILER_TAIL - 4
    if (
        int.from_bytes(trailer[-_CHECKSUMS_END : 8 - _CHECKSUMS_END]) ^ int.from_bytes(_CHECKSUMS_MAGIC)
    ).bit_count() > 1:
        return None
    stated = int.from_bytes(trailer[position : position + 4], "little")
    trailer[position : position + 4] = bytes(4)
    wrong = crc32c(trailer) ^ stated
    if not wrong:
        return None
    if wrong.bit_count() == 1:
        stated ^= wrong
    else:
        found = wrong_bit(wrong, len(trailer))
        if found is None or position <= found[0] < position + 4:
            return None
        trailer[found[0]] ^= 1 << found[1]
    trailer[position : position + 4] = stated.to_bytes(4, "little")
    return bytes(trailer)


def wrong_bit(difference: int, length: int) -> tuple[int, int] | None:
    """The one bit of some bytes that makes this difference in their CRC-32C: its byte, and its number in that."""
    table = [crc32c(bytes((n,))) ^ crc32c(b"\0") for n in range(256)]
    last = {table[1 << bit]: bit for bit in range(8)}
    by_top = {value >> 24: n for n, value in enumerate(table)}
    for at in reversed(range(length)):
        if difference in last:
            return at, last[difference]
        # As it was before one more byte of zero.
        low = by_top[difference >> 24]
        difference = ((difference ^ table[low]) << 8 | low) & 0xFFFFFFFF
    return None


def versions(head: Head, stop: int) -> Iterator[Frame]:
    """Versions of a frame whose trailer and offsets table are there, the newest first.

    Parameters
    ----------
    head : Head
    stop : int
        Where the bytes end that may belong to the frame.
    """
    source = head.source
    found = list(deque(trailers(source, head.start, stop), _MOST_VERSIONS))
    cut = _cut_trailer(source, max([head.start, *(end for _, end in found)]), stop)
    if cut is not None:
        found.append((cut, stop))
    tables = _Tables(head, [start for start, _ in found])
    # Trailers may say that they are as long as all that lies before them.
    allowance = Allowance(source.size)
    for number in reversed(range(len(found))):
        start, end = found[number]
        try:
            allowance.take(end - start)
            trailer = source.read(start, end - start)
            if start == cut:
                trailer += b"\xce" + (len(trailer) + TRAILER_TAIL).to_bytes(4) + b"\xd8" + bytes(17)
            vlmeta = head.vlmeta_of(trailer)
            if start == head.start:
                yield head.frame([], 0, vlmeta)
                continue
            # A version that only changed metadata has no table of its own, but that of one before it.
            for earlier, _ in reversed(found[: number + 1]):
                table = tables.before(earlier)
                if table is None:
                    continue
                frame = _version(head, table, vlmeta)
                if frame is not None and _agrees(head, frame, table, trailer, start):
                    yield frame
                break
        except FAULTS:
            continue


def _cut_trailer(source: Source, start: int, stop: int) -> int | None:
    """Where a trailer begins whose end is missing; None where there seems to be none."""
    near = max(start, stop - _LARGEST_TRAILER)
    at = source.read(near, stop - near).rfind(TRAILER_START)
    return None if at < 0 else near + at


class _Tables:
    """Offsets tables that end where one of some trailers begins, all found in one pass; one is kept decoded.

    Parameters
    ----------
    head : Head
    ends : sequence of int
        Where the trailers begin, in order.
    """

    def __init__(self, head: Head, ends: Sequence[int]) -> None:
        self._source = head.source
        # Bytes of tables that are decoded, one after the other: there may be many that claim much.
        self._work = _WORK * allowed(head.source.size)
        self._last: Table | None = None
        self._begins = _begins_of_tables(head.source, head.start, ends)

    def before(self, end: int) -> Table | None:
        """The table that ends at an offset: where it begins, and its entries. None where there is none.

        Raises
        ------
        FormatError
            What looks like it is none, or too large.
        """
        begin = self._begins.get(end)
        if begin is None:
            return None
        if self._last is None or self._last[0] != begin:
            self._last = None
            stored = self._source.read(begin, end - begin)
            size = int.from_bytes(stored[4:8], "little")
            self._work -= size
            # What it takes to make a version of it.
            if self._work < 0 or 8 * size > allowed(self._source.size):
                raise FormatError(f"an offsets table of {size} bytes", path=self._source.path, offset=begin)
            table = decode_bytes(stored, path=self._source.path, offset=begin)
            self._last = begin, np.frombuffer(table, "<i8").astype(np.int64)
        return self._last


def _begins_of_tables(source: Source, start: int, ends: Sequence[int]) -> dict[int, int]:
    """Where chunks begin that could be offsets tables, by where they end, found in one pass over the bytes.

    Of several that end at one offset the last counts: the offsets table is what lies right before, and what looks like
    one in front of it is not.
    """
    wanted = set(ends)
    begins: dict[int, int] = {}
    at = start
    last = max(wanted, default=start)
    while at < last:
        block = source.read(at, min(_PIECE + _CHUNK_HEADER, last - at))
        for match in re.finditer(_TABLE_START, block):
            position = match.start()
            if position >= _PIECE or position + _CHUNK_HEADER > len(block):
                break
            size, _, cbytes = struct.unpack_from("<3i", block, position + 4)
            if block[position + 2] & 5 != 5 or block[position + 30] or size <= 0 or size % 8 or cbytes > _LARGEST_TABLE:
                continue
            if at + position + cbytes in wanted and cbytes >= _CHUNK_HEADER:
                begins[at + position + cbytes] = at + position
        at += _PIECE
    return begins


def _version(head: Head, table: Table, vlmeta: dict[str, bytes]) -> Frame | None:
    """The version of a table; None where its entries lie outside of what precedes it."""
    at, offsets = table
    room = at - head.start
    stored = offsets[offsets >= 0]
    if len(stored) and int(stored.max()) > room - _CHUNK_HEADER:
        return None
    if not np.isin(offsets[offsets < 0], (ZERO_OFFSET, NAN_OFFSET, UNINIT_OFFSET)).all():
        return None
    sizes = _sizes(head, offsets)
    if sizes is None:
        return None
    return head.frame(offsets, sizes, vlmeta)


def _sizes(head: Head, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> int | None:
    """Uncompressed bytes of all chunks."""
    chunksize = frame_chunksize(head.raw)
    if not head.variable:
        last = int(offsets[-1])
        size = chunksize if last < 0 else _chunk_size(head, last)
        return (len(offsets) - 1) * chunksize + size if 0 < size <= chunksize else None
    if (offsets < 0).any():
        return None
    return sum(_chunk_size(head, offset) for offset in offsets.tolist())


def _chunk_size(head: Head, offset: int) -> int:
    return int.from_bytes(head.source.read(head.start + offset + 4, 4), "little", signed=True)


def _agrees(head: Head, frame: Frame, table: Table, trailer: bytes, start: int) -> bool:
    """Whether a version agrees with the checksums in its trailer, where it has any."""
    position = len(trailer) - _CHECKSUMS_END
    if position < 12 or trailer[position : position + 8] != _CHECKSUMS_MAGIC:
        return True
    size = int.from_bytes(trailer[position + 8 : position + 12], "little")
    own, whole = struct.unpack_from("<II", trailer, position + 20)
    if crc32c(trailer[position + 28 :], crc32c(b"\0\0\0\0", crc32c(trailer[: position + 24]))) != whole:
        return False
    header = bytearray(head.raw)
    length = start + len(trailer) - head.offset
    set_frame_fields(header, length, frame.nbytes, table[0] - head.start, has_vlmeta=bool(frame.vlmeta_names()))
    header[MARK_AT] = _MARK
    if crc32c(header) != own:
        return False
    count = (size - 28) // 4
    if not 0 <= 4 * count <= position:
        return False
    checksums = struct.unpack_from(f"<{count}I", trailer, position - 4 * count)
    stored = [offset for offset in table[1].tolist() if offset >= 0]
    return len(stored) == count and all(
        crc32c(frame.chunk_stored_at(head.start + offset)) == known
        for offset, known in zip(stored, checksums, strict=True)
    )


def chain(head: Head, stop: int) -> tuple[list[int], int]:
    """Chunks that follow each other from the header on: their offsets, and how many there should be.

    Only for frames of equal chunks; there is no telling what variable ones are.
    """
    chunksize = frame_chunksize(head.raw)
    if head.variable or chunksize < 1 or head.nbytes < 1:
        return [], 0
    count = -(-head.nbytes // chunksize)
    offsets: list[int] = []
    at = head.start
    while len(offsets) < count:
        size = _chunk_at(head, at, stop, chunksize, head.nbytes - len(offsets) * chunksize)
        if size is None:
            # A hole that aligns the next payload.
            hole = -(at + _CHUNK_HEADER - head.offset) % 64
            if not hole or at + hole > stop or any(head.source.read(at, hole)):
                break
            at += hole
            size = _chunk_at(head, at, stop, chunksize, head.nbytes - len(offsets) * chunksize)
            if size is None:
                break
        offsets.append(at - head.start)
        at += size
    return offsets, count


def _chunk_at(head: Head, at: int, stop: int, chunksize: int, rest: int) -> int | None:
    """The stored size of the chunk at an offset; None where there is none of the right size."""
    if at + _CHUNK_HEADER > stop:
        return None
    header = head.source.read(at, _CHUNK_HEADER)
    nbytes, _, cbytes = CHUNK_SIZES.unpack_from(header)
    if header[0] not in (5, 6) or header[1] != 1 or header[2] & 5 != 5:
        return None
    if nbytes != min(chunksize, rest) or not _CHUNK_HEADER <= cbytes <= stop - at:
        return None
    return int(cbytes)


def filled_up(offsets: list[int], count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Offsets of all chunks, where those that are missing stand for zeros."""
    entries = np.full(count, ZERO_OFFSET, np.int64)
    entries[: len(offsets)] = offsets
    return entries
