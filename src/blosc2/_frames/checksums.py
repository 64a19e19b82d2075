"""Checksums of frames in files: making, verifying and continuing them (doc/design/checksums.md).

A file that another program wrote or changed has no valid checksums. It is *unverified*, which is not an error.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import (
    checksums_of,
    has_odd_parity,
    index_size,
    range_checksum,
    stored_chunks,
    with_checksums,
)
from blosc2._core.io.checksum import crc32c, crc32c_both, crc32c_joined
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files import DrawnChunk, Part, Spooled
from blosc2.exceptions import FormatError

#: The byte of the header that says whether checksums hold; who publishes a header writes it anew.
MARK_AT: Final = 86
#: What it is where the checksums are valid.
MARK: Final = 0xB5
_MAGIC: Final = b"\xc1b2sums\x01"
# Bytes of the fixed part at the end of the checksums, and of the trailer after them.
_FIXED: Final = 28
_NUMBERS: Final = struct.Struct("<5I")
_TAIL: Final = 23
# If at most so many of its 64 bits are wrong, a number is taken for a damaged magic number.
_NEAR: Final = 8
# Frames up to this size are written in one piece, larger ones in pieces of bounded size.
_SMALL: Final = 1 << 16


class Sums(NamedTuple):
    """What a frame carries: 4 bytes for each stored chunk, by number; one of its body; one of its table."""

    chunks: bytes
    body: int
    table: int


class Known(NamedTuple):
    """What is known of the checksums of a frame that is a byte range: `Sums` of what lies from `start` to `stop`."""

    chunks: bytes
    body: int
    table: int
    start: int
    stop: int


class Finding(NamedTuple):
    """Damage: its offset in the file, the number of its chunk, and what is wrong."""

    offset: int
    chunk: int | None
    what: str


class Running:
    """The checksums of a frame while it is written, piece after piece, of everything behind the header."""

    def __init__(self, body: int = 0) -> None:
        self.body = body
        self.chunks = array("I")

    def add(self, piece: Any) -> None:
        """Add bytes that are not a chunk."""
        self.body = crc32c(piece, self.body)

    def add_chunk(self, stored: Any) -> None:
        """Add a stored chunk."""
        own = stored.sum if type(stored) in (StoredChunk, Spooled, DrawnChunk) else None
        if own is None:
            own, self.body = crc32c_both(stored, self.body)
        else:
            self.body = crc32c_joined(self.body, own, len(stored))
        self.chunks.append(own)

    def table(self) -> bytes:
        """What `Sums.chunks` is, when the chunks came in the order of their numbers."""
        checksums = self.chunks
        if sys.byteorder == "big":
            checksums = checksums[:]
            checksums.byteswap()
        return checksums.tobytes()


def carried(frame: Frame) -> Sums | None:
    """The checksums of a frame, None when it is unverified; `FormatError` if they contradict its header or trailer."""
    checksums, findings = _carried(frame)
    if findings:
        raise _error(frame, findings[0])
    return checksums


def check_reads(frame: Frame) -> bool:
    """Check the header, index and trailer of a frame now, and from now on each chunk before it is decoded.

    False when the frame is unverified: then nothing is checked. `FormatError` if something is not as it was written.
    """
    checksums = carried(frame)
    if checksums is None:
        return False
    finding = _wrong_index(frame, checksums)
    if finding is not None:
        raise _error(frame, finding)
    try:
        frame.check_chunks(checksums.chunks)
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(str(error), path=frame.source.path, key=frame.key, offset=frame.offset) from None
    return True


def check_chunks(frame: Frame) -> None:
    """Check all chunks of a frame whose reads are checked, before they are copied as they are."""
    frame.check_member()
    if frame.checks_chunks:
        for number in stored_numbers(frame):
            frame.chunk_info(number)  # which reads all of the chunk for that


def check_body(frame: Frame, body: int) -> None:
    """Check what is copied of a frame without its checksums, as damage could not be noticed in the copy.

    `body` is the checksum of the copy of all between header and trailer.
    """
    checksums = carried(frame)
    if checksums is not None and body != checksums.body:
        finding = next(verify_frame(frame), None)
        at = frame.offset + frame.header_len
        raise _error(frame, finding or Finding(at, None, "the frame changed while it was read"))


def stored_numbers(frame: Frame) -> list[int]:
    """Numbers of the chunks that are stored, and not merely named in the table."""
    if frame.repeated_offset is not None or not frame.nbytes:
        return []
    return [number for number, offset in enumerate(array("q", frame.offsets_bytes())) if offset >= 0]


def stated_at(source: Source, end: int) -> tuple[int, int] | None:
    """The checksums of the index and of the header in the trailer that ends at an offset; None where it has none."""
    stated = source.read(end - _TAIL - _FIXED, _FIXED) if end >= _TAIL + _FIXED else b""
    if stated[:8] != _MAGIC:
        return None
    return int.from_bytes(stated[16:20], "little"), int.from_bytes(stated[20:24], "little")


def is_verifiable(frame: Frame) -> bool:
    """Whether a frame carries checksums that `verify_frame` can check, or what is left of them."""
    checksums, findings = _carried(frame)
    return checksums is not None or bool(findings)


def verify_frame(frame: Frame) -> Iterator[Finding]:
    """Check all bytes of a frame against the checksums that it carries; nothing is found in one without any.

    Chunks are read but not decoded.
    """
    checksums, findings = _carried(frame)
    yield from findings
    if checksums is None:
        return
    source = frame.source
    start = frame.offset + frame.header_len
    stop = start if frame.nbytes == 0 else frame.offset + frame.frame_len - frame.trailer_len
    if range_checksum(source, start, stop - start) == checksums.body:
        stored = stored_chunks(frame)
        if 4 * stored != len(checksums.chunks):
            yield Finding(stop, None, f"there are {len(checksums.chunks) // 4} checksums for {stored} stored chunks")
        return
    found = _wrong_parts(frame, checksums)
    if found:
        yield from found
    else:
        yield Finding(start, None, f"some of {stop - start} bytes, in no chunk, are not those that were written")


def parts_with_checksums(frame: Frame) -> list[Part]:
    """A frame with checksums: buffers, and byte ranges of what stays as it is, to be copied from where they lie."""
    source, offset, length = frame.source, frame.offset, frame.frame_len
    header = frame.header_bytes()
    start = frame.header_len
    if frame.checksums_len:
        return [header, (source, offset + start, length - start)]
    stop = length - frame.trailer_len if frame.nbytes else start
    known = source.checksums
    if not known or offset:
        chunks, body, index = checksums_of(frame)
    else:
        chunks, body, index = known[:3]
    header, trailer = with_checksums(header, source.read(offset + stop, length - stop), stop, chunks, body, index)
    if length <= _SMALL:
        return [b"".join((header, source.read(offset + start, stop - start), trailer))]
    return [header, (source, offset + start, stop - start), trailer]


def _carried(frame: Frame) -> tuple[Sums | None, list[Finding]]:
    """What `carried` returns, and what is wrong."""
    if not frame.serialised:
        return None, []
    header = frame.header_bytes()
    mark = header[MARK_AT]
    if (mark ^ MARK).bit_count() > 1:
        return None, []
    offset, end = frame.offset, frame.offset + frame.frame_len
    start = frame.header_len if frame.nbytes == 0 else frame.frame_len - frame.trailer_len
    last = frame.source.read(end - _TAIL - _FIXED, _FIXED)
    findings = []
    if mark == MARK and has_odd_parity(frame.frame_len):
        findings.append(Finding(offset + 16, None, f"the frame cannot have been {frame.frame_len} bytes long"))
    if (int.from_bytes(last[:8]) ^ int.from_bytes(_MAGIC)).bit_count() > _NEAR:
        return None, findings
    if mark != MARK:
        findings.append(Finding(offset + MARK_AT, None, "the mark of checksums in the header is damaged"))
    size, body, index, own, whole = _NUMBERS.unpack_from(last, 8)
    room = frame.trailer_len - 35
    if last[:8] != _MAGIC or not _FIXED <= size <= room or (size - _FIXED) % 4 == 3:
        findings.append(Finding(end - _TAIL - _FIXED, None, "the checksums of the frame are damaged"))
        return None, findings
    if crc32c(header) != own:
        findings.append(Finding(offset, None, "the header is not the one that was written, as its checksum says"))
    trailer = frame.source.read(offset + start, frame.frame_len - start)
    position = len(trailer) - _TAIL - 4
    if crc32c(trailer[position + 4 :], crc32c(b"\0\0\0\0", crc32c(memoryview(trailer)[:position]))) != whole:
        findings.append(
            Finding(offset + start, None, "the trailer (metadata and checksums) is not the one that was written")
        )
    if findings:
        return None, findings
    count = (size - _FIXED) // 4
    at = len(trailer) - _TAIL - _FIXED
    return Sums(trailer[at - 4 * count : at], body, index), findings


def _wrong_index(frame: Frame, checksums: Sums) -> Finding | None:
    at = frame.chunks_range[1]
    try:
        length = index_size(frame)
    except FormatError as error:
        return Finding(at, None, error.reason)
    if (range_checksum(frame.source, at, length) if length else 0) != checksums.table:
        return Finding(at, None, "the offsets table is not the one that was written, as its checksum says")
    return None


def _wrong_parts(frame: Frame, checksums: Sums) -> list[Finding]:
    """The damaged parts of a frame."""
    found = []
    finding = _wrong_index(frame, checksums)
    if finding is not None:
        found.append(finding)
    again = Frame.open(frame.source, frame.offset, key=frame.key)
    try:
        again.check_chunks(checksums.chunks)
        numbers = stored_numbers(again)
    except ValueError as error:  # the table of offsets is what is damaged
        if not found:
            found.append(Finding(frame.chunks_range[1], None, str(error)))
        return found
    for number in numbers:
        try:
            again.chunk_info(number)
        except FormatError as error:
            position = frame.offset if error.offset is None else error.offset
            found.append(Finding(position, number, error.reason))
    return found


def _error(frame: Frame, finding: Finding) -> FormatError:
    return FormatError(finding.what, path=frame.source.path, key=frame.key, offset=finding.offset)
