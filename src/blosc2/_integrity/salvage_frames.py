"""Recovering one frame: as it is, without its end, in an older version, or with a value in place of lost items.

A file that was appended to keeps its older versions (FORMATS 8.1). Each ends in a trailer, whose checksums tell which
offsets table and which header belong to it; so a version is found without the header of the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._backends import FRAME_MAGIC, ByteRange
from blosc2._core.allocation import allowed
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import pack_trailer, special_chunk
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.ndim.gaps import clear_gaps
from blosc2._frames import (
    CBYTES_AT,
    CHUNK_HEADER,
    CHUNK_SIZES,
    FLAGS_AT,
    FRAME_HEADER,
    HEADER_SIZE_AT,
    MARK,
    MARK_AT,
    TRAILER_START,
    TRAILER_TAIL,
    ZERO_OFFSET,
    FrameUpdate,
    array_of,
    frame_bytes,
    frame_chunksize,
    frame_nbytes,
    header_size,
    set_frame_fields,
    stated_at,
    stored_numbers,
    trailers,
    verify_frame,
    vlmeta_chunk,
)
from blosc2._integrity.check_frames import check_chunk, check_frame, check_packed, prepare, wrong_values
from blosc2._integrity.report import FAULTS, Findings
from blosc2._lists import LENGTHS, packed_lengths
from blosc2.exceptions import FormatError, UnsupportedKindError

_VARIABLE: Final = 0x40
_LARGEST_TABLE: Final = 64 << 20
_LARGEST_TRAILER: Final = 16 << 20
_PIECE: Final = 4 << 20
_MOST_VERSIONS: Final = 1000
# How many times what the rule of allocation gives is decoded of offsets tables.
_WORK: Final = 16


class Recovered(NamedTuple):
    """A frame that was recovered, whole; what is written in its place if that is not it; whether a part is made up."""

    frame: Frame
    update: FrameUpdate | None = None
    filled: bool = False

    def stored(self) -> tuple[Source, int, int]:
        """A byte range of its bytes."""
        frame = self.frame
        if self.update is None and frame.serialised:
            return frame.source, frame.offset, frame.frame_len
        data = frame_bytes(FrameUpdate(frame) if self.update is None else self.update)
        return Source.of_buffer(data), 0, len(data)


def recover_frame(
    source: Source, offset: int, length: int, lost: Findings, key: str | None = None, fill: Any = None
) -> Recovered | None:
    """Recover the frame in a byte range, of which a note is taken if it is not the version that should be there.

    `lost` is told what is lost, and why. `fill` is put into the place of items that are lost; without it, a frame that
    misses any is lost.
    """
    lost = lost.at(source.path, key)
    trouble = lost.apart()
    kept = _newest((source, offset, length), trouble, lost, key, fill)
    try:
        kept = kept or _newest_whole((source, offset, length), lost)
    except FAULTS as error:
        if not trouble.found:
            trouble.caught(error)
    if kept is None:
        lost.found += list(dict.fromkeys(trouble.damage))
    return kept


def _newest(byte_range: ByteRange, trouble: Findings, lost: Findings, key: str | None, fill: Any) -> Recovered | None:
    """The newest version, also without its end, and with a value in place of damaged chunks."""
    ending, found = lost.apart(), lost.apart()
    frame: Frame | None
    try:
        try:
            frame = Frame.open(*byte_range, key)
        except FAULTS as error:
            trouble.caught(error)
            frame = without_end(byte_range, ending)
        if frame is None:
            return None
        check_frame(frame, found)
        if not found.damage:
            lost.found += ending.found
            return Recovered(frame, FrameUpdate(frame) if ending.found else None)
        trouble.found += found.found
        kept = _repaired(frame, lost, fill)
        if kept is not None:
            lost.found += ending.found
            left = lost.apart()
            check_frame(kept.frame, left)
            # Of chunks it was told already what becomes of them.
            lost.found += [] if kept.filled else left.damage
    except FAULTS as error:
        if not trouble.found:
            trouble.caught(error)
        return None
    return kept


def _repaired(frame: Frame, lost: Findings, fill: Any) -> Recovered | None:
    """What is left of a frame that can be opened, and of which something is damaged."""
    bad: set[int] = set()
    trailer = False
    for wrong in verify_frame(frame):
        if wrong.chunk is not None:
            bad.add(wrong.chunk)
        elif wrong.offset < frame.offset + frame.header_len or wrong.offset == frame.chunks_range[1]:
            return None  # the header or the offsets table is not the one that was written
        else:
            trailer = True
    count = frame.nchunks
    prepare(frame)
    for number in stored_numbers(frame):
        try:
            check_chunk(frame, number)
        except FAULTS:
            bad.add(number)
    told = lost.apart()
    metalayers = _metalayers(frame, told)
    lengths: dict[int, int] = {}
    dropped = _lost_entries(frame, metalayers, bad, told, lengths)
    if dropped is None:
        return None
    if bad and fill is None and not dropped:
        if len(bad) < count:
            lost.note(
                f"{len(bad)} of {count} chunks are damaged ({_numbers(bad)}); with fill=0 the others are recovered"
            )
        return None
    lost.found += told.found
    vlmeta = _entries(frame, lost)
    if "batcharray" in metalayers:
        _put_lengths_right(frame, vlmeta, dropped, lengths)
    if trailer:
        lost.note("the end of the frame is damaged: its metadata entries are recovered as they are now")
    copy = _detached(frame, metalayers, vlmeta, dropped)
    update = FrameUpdate(copy)
    for number in sorted(bad - dropped):
        update.replace(number, _filling(copy, number, fill))
        lost.add(f"chunk {number} is lost; it is filled with {fill!r}")
    return Recovered(copy, update, bool(bad - dropped))


def _newest_whole(byte_range: ByteRange, lost: Findings) -> Recovered | None:
    """The newest version that is whole, whatever the header says."""
    bad: set[int] = set()  # where damaged chunks lie, which several versions may have
    for frame in older_versions(byte_range):
        if bad and np.isin(np.frombuffer(frame.offsets_bytes(), np.int64) + frame.chunks_range[0], list(bad)).any():
            continue
        trouble = lost.apart()
        check_frame(frame, trouble)
        bad.update(one.offset for one in trouble.found if one.offset is not None)
        if not trouble.damage:
            lost.note(
                "a version that the header does not lead to was recovered; changes made after it, if any, are lost"
            )
            return Recovered(frame, FrameUpdate(frame))
    return None


# ------------------------------------------------------------------ versions without a header that leads to them
def without_end(byte_range: ByteRange, lost: Findings) -> Frame | None:
    """The chunks of a frame by the offsets table that its header leads to, where its end is not where it should be.

    None where no table is there; also where a whole version ends behind it, whose checksums tell more than the header.
    """
    source, offset, stop, header = _with_header(byte_range)
    start = offset + len(header)
    nbytes, cbytes = frame_nbytes(header), int.from_bytes(header[CBYTES_AT : CBYTES_AT + 8], signed=True)
    end = start
    if nbytes:
        end += cbytes
        if cbytes < 0 or end > stop - CHUNK_HEADER:
            return None
        end += CHUNK_SIZES.unpack_from(source.read(end, CHUNK_HEADER))[2]
        if not start + cbytes + CHUNK_HEADER <= end <= stop:
            return None
    behind = deque(trailers(source, end, stop), 1)
    if behind and stated_at(source, behind[0][1]) is not None:
        return None
    begin = behind[0][0] if behind else end
    trailer = source.read(begin, min(stop - begin, _LARGEST_TRAILER))
    lost.note("the frame does not end where its header says: its chunks were found by the offsets table")
    header[MARK_AT] = 0
    if trailer.startswith(TRAILER_START):
        size = len(trailer) + TRAILER_TAIL
        trailer += b"\xce" + size.to_bytes(4) + b"\xd8" + bytes(17)
        try:
            set_frame_fields(header, end + size - offset, nbytes, cbytes, has_vlmeta=True)
            frame = _joined(header, (source, start, end - start), trailer)
            frame.vlmeta_chunks()
            return frame
        except FAULTS:
            pass
    trailer = pack_trailer({})
    lost.add("the metadata entries are lost, with the end of the frame")
    set_frame_fields(header, end + len(trailer) - offset, nbytes, cbytes, has_vlmeta=False)
    return _joined(header, (source, start, end - start), trailer)


def older_versions(byte_range: ByteRange) -> Iterator[Frame]:
    """Versions whose trailer and offsets table are there, and whose header is the one of now but for its sizes.

    The newest comes first. The checksums in the trailer tell which table and which sizes these are.
    """
    source, offset, stop, header = _with_header(byte_range)
    start = offset + len(header)
    found = list(deque(trailers(source, start, stop), _MOST_VERSIONS))
    tables: dict[int, tuple[int, int] | None] = {}
    # Bytes of tables that are decoded, one after the other: there may be many that claim much.
    work = _WORK * allowed(source.size)
    for number in reversed(range(len(found))):
        begin, end = found[number]
        stated = stated_at(source, end)
        if stated is None:
            continue
        table = None
        # A version that only changed metadata has no table of its own, but that of one before it.
        for n in range(number if begin > start else -1, -1, -1):
            if n not in tables:
                tables[n] = _table_before(source, found[n - 1][1] if n else start, found[n][0])
            at = tables[n]
            if at is not None and at[1] == stated[0]:
                table = at[0]
                break
        if table is None and begin > start:
            continue
        try:
            if table is not None:
                work -= int.from_bytes(source.read(table + 4, 4), "little")
                if work < 0:
                    return
            frame = _version(header, (source, start, end - start), table)
            if crc32c(frame.header_bytes()) == stated[1]:
                yield frame
        except FAULTS:
            continue


def _with_header(byte_range: ByteRange) -> tuple[Source, int, int, bytearray]:
    """A byte range as source, start and end, and the header of the frame in it, of which only the size is believed."""
    source, offset, length = byte_range
    stop = source.size if length < 0 else min(offset + length, source.size)
    fixed = source.read(offset, min(FRAME_HEADER, max(stop - offset, 0)))
    if len(fixed) < FRAME_HEADER or not fixed.startswith(FRAME_MAGIC):
        raise FormatError("not the header of a frame", path=source.path, offset=offset)
    size = header_size(fixed)
    if not FRAME_HEADER <= size <= stop - offset:
        raise FormatError(
            f"header length {size} does not fit the file", path=source.path, offset=offset + HEADER_SIZE_AT
        )
    return source, offset, stop, bytearray(source.read(offset, size))


def _joined(header: bytearray, rest: ByteRange, trailer: bytes = b"") -> Frame:
    """The frame of a header, of bytes of a file, and of a trailer, where that is not the one of the file."""
    parts = [(Source.of_buffer(bytes(header)), 0, len(header))]
    if rest[2]:
        parts.append(rest)
    if trailer:
        parts.append((Source.of_buffer(trailer), 0, len(trailer)))
    return Frame.open(Source.joined(parts, rest[0].path, False))


def _version(header: bytearray, rest: ByteRange, table: int | None) -> Frame:
    """The version in all bytes behind a header, with its offsets table at this offset of the file."""
    source, start, length = rest
    header = header[:]
    nbytes = cbytes = 0
    if table is not None:
        cbytes = table - start
        chunksize = 0 if header[FLAGS_AT] & _VARIABLE else frame_chunksize(header)
        count = int.from_bytes(source.read(table + 4, 4), "little") // 8
        set_frame_fields(header, len(header) + length, count * max(chunksize, 1), cbytes, has_vlmeta=True)
        frame = _joined(header, rest)
        nbytes = frame.nbytes
        if frame.repeated_offset is None:
            entries = np.frombuffer(frame.offsets_bytes(), np.int64)
            last = entries if not chunksize else entries[-1:]
            nbytes = (count - len(last)) * chunksize
            for entry in last.tolist():
                at = start + entry + 4  # in the header of a stored chunk
                nbytes += chunksize if entry < 0 else int.from_bytes(source.read(at, 4), "little", signed=True)
    set_frame_fields(header, len(header) + length, nbytes, cbytes, has_vlmeta=True)
    has_vlmeta = bool(_joined(header, rest).vlmeta_names())
    set_frame_fields(header, len(header) + length, nbytes, cbytes, has_vlmeta=has_vlmeta)
    header[MARK_AT] = MARK
    return _joined(header, rest)


def _table_before(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """Where the chunk begins that ends at an offset, by the size that its header states, and its checksum."""
    start = max(start, end - _LARGEST_TABLE)
    stop = end - CHUNK_HEADER + 1
    while stop > start:
        first = max(start, stop - _PIECE)
        # The stored size of a chunk that begins at each of these bytes.
        sizes = np.ndarray((stop - first,), "<i4", source.read(first + 12, stop - first + 3), strides=(1,))
        for at in (first + np.flatnonzero(sizes == end - np.arange(first, stop))[::-1]).tolist():
            versions, flags, nbytes = (
                int.from_bytes(source.read(at + i, n), "little") for i, n in ((0, 2), (2, 1), (4, 4))
            )
            if versions in (0x105, 0x106) and flags & 5 == 5 and 0 < nbytes < 1 << 31 and not nbytes % 8:
                return at, crc32c(source.read(at, end - at))
        stop = first
    return None


# ------------------------------------------------------------------ parts of a frame
def _entries(frame: Frame, lost: Findings) -> dict[str, bytes]:
    """The metadata entries that can be read, as they are stored."""
    kept: dict[str, bytes] = {}
    try:
        names = frame.vlmeta_names()
    except FAULTS as error:
        lost.caught(error)
        return kept
    for name in names:
        try:
            if _is_value(frame.vlmeta(name) or b"", f"the metadata entry {name!r}", frame, lost):
                kept[name] = frame.vlmeta_chunk(name) or b""
        except FAULTS as error:
            lost.caught(error)
    return kept


def _metalayers(frame: Frame, lost: Findings) -> dict[str, bytes]:
    """The metalayers whose content is a value, and that of the array."""
    kept: dict[str, bytes] = {}
    for name, content in frame.metalayers().items():
        if "\0" in name:
            lost.add(f"a metalayer has the name {name!r}, with a NUL")
        elif name == "b2nd" or _is_value(content, f"the metalayer {name!r}", frame, lost):
            kept[name] = content
    return kept


def _is_value(content: bytes, what: str, frame: Frame, lost: Findings) -> bool:
    """Whether packed metadata can be read; what cannot be is lost."""
    trouble = lost.apart()
    fits = check_packed(content, what, frame, trouble)
    lost.found += [] if fits else trouble.found
    return fits


def _lost_entries(
    frame: Frame, metalayers: dict[str, bytes], bad: set[int], lost: Findings, lengths: dict[int, int]
) -> set[int] | None:
    """The entries of a list of values that are left out, as their chunks or values are damaged; None if all are.

    `lengths` is told how many items others have, if they are batches.
    """
    wrong: set[int] = set()
    if "vlarray" not in metalayers and "batcharray" not in metalayers:
        return wrong
    why = ""
    wrong.update(bad)
    try:
        for number, error in wrong_values(frame, bad, lengths):
            if error is None:
                break
            wrong.add(number)
            why = why or str(getattr(error, "reason", error))
    except UnsupportedKindError:  # nobody can say of what is in it
        pass
    count, repeated = frame.nchunks, frame.repeated_offset
    if wrong and (len(wrong) == count or (repeated is not None and repeated < 0)):
        return None
    if wrong:
        lost.add(
            f"{len(wrong)} of {count} entries are damaged and left out ({_numbers(wrong)}); those behind them move up"
            + (f": {why}" if why else "")
        )
    return wrong


def _put_lengths_right(frame: Frame, vlmeta: dict[str, bytes], without: set[int], lengths: dict[int, int]) -> None:
    """Write how many items each batch that is left has; readers count where that is not known."""
    left = [number for number in range(frame.nchunks) if number not in without]
    vlmeta.pop(LENGTHS, None)
    if left and all(number in lengths for number in left):
        vlmeta[LENGTHS] = vlmeta_chunk(packed_lengths([lengths[number] for number in left]))


def _detached(frame: Frame, metalayers: dict[str, bytes], vlmeta: dict[str, bytes], without: set[int]) -> Frame:
    """A frame without some of its chunks, as one that does not know of checksums."""
    repeated = frame.repeated_offset
    start = frame.chunks_range[0]
    count, nbytes = frame.nchunks, frame.nbytes
    entries: Any
    if repeated is not None and repeated < 0:
        entries = int(repeated)
    else:
        entries = np.frombuffer(frame.offsets_bytes(), np.int64).copy()
        entries[entries >= 0] += start
        if without:
            entries = np.delete(entries, sorted(without))
            nbytes = sum(frame.chunk_info(number)[1] for number in range(count) if number not in without)
            count = len(entries)
    return Frame.assemble(
        frame.source, entries, count, nbytes, frame.chunksize, frame, metalayers, vlmeta,
        vlblocks=bool(frame.vlblocks), variable=bool(frame.variable),
    )  # fmt: skip


def _filling(frame: Frame, index: int, fill: Any) -> bytes | int:
    """A chunk of one value."""
    size = frame.chunksize
    if frame.variable:
        raise FormatError("chunks of different sizes cannot be filled", path=frame.source.path, key=frame.key)
    nbytes = min(size, frame.nbytes - index * size)
    if frame.metalayer("b2nd") is None:
        if fill:
            raise ValueError("what is lost of a super-chunk can only be filled with zeros: give fill=0")
        return ZERO_OFFSET
    dtype = array_of(frame)[1]
    item = clear_gaps(np.array(fill).astype(dtype)).tobytes()
    if not any(item):
        return ZERO_OFFSET
    return special_chunk(3, nbytes, frame.typesize, frame.blocksize, item)


def _numbers(bad: set[int]) -> str:
    some = sorted(bad)
    return ", ".join(map(str, some[:10])) + (", ..." if len(some) > 10 else "")
