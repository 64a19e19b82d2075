"""Bytes behind the last whole version of an archive.

Usually there are none. They may be the remains of an unfinished append: members, a directory, the start of an end
record. These are not a version, and the next change cuts them off. Or they are a published version that was damaged
later: its end record is there, or almost, and states its own position. Such a version is never skipped for the one
before it, and never cut off.

The end record is written in one write, after everything before it is durable. So if a whole end record does not fit its
directory, the directory is damaged. An incomplete record belongs to an unfinished append if the file ends in it, or if
its start or end, up to a sector, is zeros. Anything else that differs in a few bits from a record for its position was
a record.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from blosc2._backends.zip.members import END, END_WITH_CHECKSUM
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2.exceptions import FormatError

#: Digits of a file checksum that state the checksum of the rest of the file.
DIGITS: Final = 8
#: Bytes are taken for a damaged file checksum when at most so many bits differ from what every file checksum has there.
#: In other bytes, over a hundred would differ.
FEW_BITS: Final = 24

_SIGNATURE: Final = b"PK\5\6"
_CHECKSUM_MARK: Final = b"blosc2 "
_CHECKSUM_MARK_BYTES: Final = np.frombuffer(_CHECKSUM_MARK, np.uint8)
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_BITS: Final = np.array([byte.bit_count() for byte in range(256)], np.uint8)
_FAR_MARK: Final = int.from_bytes(b"PK\6\6", "little")
_LOCATOR_MARK: Final = int.from_bytes(b"PK\6\7", "little")
# Positions of a piece that are looked at together.
_AT_ONCE: Final = 50_000
_SECTOR: Final = 512
_LOCATOR: Final = 20
_FAR_END: Final = 56
_PIECE: Final = 4 << 20
# Directory records that are checked.
_ENOUGH: Final = 64


def check_tail(source: Source, archive: Archive) -> None:
    """Refuse to show a version of an archive if a newer one, which is damaged, was published behind it."""
    position = lost_end(source, archive)
    if position is not None:
        raise FormatError(
            "the newest version in this file is damaged, in its directory or in the end record here, and an older one "
            "must not take its place: nothing is read or changed. blosc2.check tells more, and blosc2.salvage recovers "
            "what is whole",
            path=source.path, offset=position,
        )  # fmt: skip


def lost_end(source: Source, archive: Archive, floor: int = 0) -> int | None:
    """The position of the end record of a version that was published behind the one shown. None if there is none.

    Bytes before `floor` are known, and not looked at.
    """
    end = max(int(archive.end), floor)
    if end >= source.size:
        return None
    with_checksum = archive.file_checksum is not None
    for position in _candidates(source, end):
        if _was_end_with_checksum(source, position, end) or (
            position >= end and _was_plain(source, position, with_checksum)
        ):
            return position
    return None


def _candidates(source: Source, end: int) -> Iterator[int]:
    """Where end records may be: at the end of the file, and wherever a part of one is."""
    for length in (END_WITH_CHECKSUM, END):
        if source.size - length >= end - END:
            yield source.size - length
    start = max(0, end - END)  # the length of a file checksum may be what is damaged
    # Each piece with the bytes before and behind a record that begins in it.
    before, behind = _LOCATOR + _FAR_END, END_WITH_CHECKSUM
    for at in range(start, source.size, _PIECE):
        first = max(0, at - before)
        piece = source.read(first, min(at + _PIECE + behind, source.size) - first)
        positions = sorted({*_found(piece, _SIGNATURE, 0, first), *_found(piece, _CHECKSUM_MARK, END, first)})
        positions = positions[bisect_left(positions, at) : bisect_left(positions, at + _PIECE)]
        if positions:
            yield from _possible(piece, first, np.array(positions))


def _found(piece: bytes, mark: bytes, behind: int, first: int) -> Iterator[int]:
    """Where records begin in a piece of the file, by a mark `behind` bytes after their start."""
    at = piece.find(mark)
    while at >= 0:
        yield first + at - behind
        at = piece.find(mark, at + 1)


def _possible(piece: bytes, first: int, positions: np.ndarray[Any, Any]) -> Iterator[int]:
    """Those of some positions where a record may be. At the others there is certainly none."""
    before = _LOCATOR + _FAR_END
    rows = np.frombuffer(bytes(before) + piece + bytes(END_WITH_CHECKSUM), np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(rows, before + END_WITH_CHECKSUM)
    for begin in range(0, len(positions), _AT_ONCE):
        some = positions[begin : begin + _AT_ONCE]
        found = rows[some - first]

        def number(at: int, size: int, found: np.ndarray[Any, Any] = found) -> np.ndarray[Any, Any]:
            return np.ascontiguousarray(found[:, at : at + size]).view(f"<u{size}")[:, 0].astype(np.uint64)

        position = some.astype(np.uint64)
        far = position - np.uint64(before)
        said = number(before + 12, 4) + number(before + 16, 4)
        # The record states its own position, with at most one wrong bit; or one of the two records before it does.
        fits = _one_bit(said - position) | _one_bit(position - said)
        fits |= (number(0, 4) == _FAR_MARK) & (number(40, 8) + number(48, 8) == far)
        fits |= (number(_FAR_END, 4) == _LOCATOR_MARK) & (number(_FAR_END + 8, 8) == far)
        # The text of a file checksum has the position in hexadecimal digits.
        digits = (position[:, None] >> np.arange(60, -4, -4, dtype=np.uint64) & np.uint64(15)).astype(np.intp)
        text = np.concatenate(
            [np.broadcast_to(_CHECKSUM_MARK_BYTES, (len(some), len(_CHECKSUM_MARK))), _DIGITS[digits]], axis=1
        )
        at = before + END
        wrong = _BITS[found[:, at : at + text.shape[1]] ^ text].sum(axis=1)
        yield from some[fits | (wrong <= FEW_BITS)].tolist()


def _one_bit(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whether numbers have at most one bit set."""
    return np.asarray(numbers & (numbers - np.uint64(1)) == 0)


def end_with_checksum(position: int, record: bytes) -> bytes:
    """The end record with a file checksum that belongs at a position, but for the checksum itself."""
    return _SIGNATURE + bytes(4) + record[8:20] + b"\x20\0blosc2 %016x " % position


def wrong_bits(one: bytes, other: bytes) -> int:
    """How many bits differ, over the length of the first."""
    return (int.from_bytes(one) ^ int.from_bytes(other[: len(one)])).bit_count()


def _was_end_with_checksum(source: Source, position: int, end: int) -> bool:
    """Whether what is at a position was an end record with a file checksum."""
    if position + END_WITH_CHECKSUM > source.size or position < end - END:
        return False
    record = source.read(position, END_WITH_CHECKSUM)
    right = end_with_checksum(position, record)
    wrong = wrong_bits(right, record)
    if wrong > FEW_BITS or (wrong > 1 and is_half_written(position, record)):
        return False
    # It may belong to an archive among the values.
    if right[END:] != record[END:-DIGITS] and not _fits(source, position, record):
        return False
    # The record of the version that is shown is found again only if it lost its file checksum.
    return position >= end or (position == end - END and wrong > 0)


def is_half_written(position: int, record: bytes) -> bool:
    """Whether a record is one of which a disk wrote one sector and not the other."""
    cut = -position % _SECTOR
    return 0 < cut < len(record) and not (any(record[:cut]) and any(record[cut:]))


def _was_plain(source: Source, position: int, with_checksum: bool) -> bool:
    """Whether an end record was at a position, by the fields that every program writes."""
    if position + END > source.size:
        return False
    record = source.read(position, END)
    _, _, count, again, size, offset, comment = struct.unpack("<4sIHHIIH", record)
    if not any(record[8:20]):  # no store is without members
        return False
    wrong = wrong_bits(_SIGNATURE + bytes(4), record) + (count ^ again).bit_count()
    if position + END + comment > source.size:
        # A file checksum of which the file has only a part was never written to its end.
        if (
            comment.bit_count() > 1
            or position + END != source.size
            or (with_checksum and comment == END_WITH_CHECKSUM - END)
        ):
            return False
        wrong += 1
    fits = _fits(source, position, record)
    if not fits and position + END == source.size and abs(offset + size - position).bit_count() == 1:
        wrong += 1  # in one of both
        fits = any(_is_directory(source, at, position) for at in (position - size, offset))
    return fits and wrong <= (0 if with_checksum else 1)


def _fits(source: Source, position: int, record: bytes) -> bool:
    """Whether an end record, or one of the two before it in large archives, states its position."""
    size, offset = struct.unpack_from("<II", record, 12)
    if offset + size == position:
        return True
    before = position - _LOCATOR - _FAR_END
    if before < 0:
        return False
    both = source.read(before, _FAR_END + _LOCATOR)
    size, offset = struct.unpack_from("<QQ", both, 40)
    locator = both[_FAR_END:]
    return (both[:4] == b"PK\6\6" and offset + size == before) or (
        locator[:4] == b"PK\6\7" and int.from_bytes(locator[8:16], "little") == before
    )


def _is_directory(source: Source, at: int, stop: int) -> bool:
    """Whether the directory records from a position on lead to members of their names. Only the first are checked."""
    found = 0
    while at < stop and found < _ENOUGH:
        record = source.read(at, 46) if 0 <= at <= stop - 46 else b""
        if record[:4] != b"PK\1\2":
            return False
        length, extra, comment = struct.unpack_from("<3H", record, 28)
        header = int.from_bytes(record[42:46], "little")
        if at + 46 + length > stop or header + 30 + length > at:
            return False
        local = source.read(header, 30 + length)
        if local[:4] != b"PK\3\4" or local[30:] != source.read(at + 46, length):
            return False
        at += 46 + length + extra + comment
        found += 1
    return found > 0
