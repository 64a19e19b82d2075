"""Checking the file checksum of a `.b2z`, which is in the comment of its end record.

The comment is ``blosc2 <position> <checksum>``: the position of the end record, in 16 hexadecimal digits, and the
CRC-32C of every byte of the file before the last 8 digits. An archive of another program has no such comment, and one
that another program changed has one for another position: both are unverified. A comment with its own position and a
wrong checksum means damage.
"""

from __future__ import annotations

import enum
from typing import Final

from blosc2._backends import DIGITS, END, END_WITH_CHECKSUM, FEW_BITS, end_with_checksum, is_half_written, wrong_bits
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._integrity.report import Findings

_PIECE: Final = 4 << 20


class FileChecksum(enum.Enum):
    """What the file checksum of an archive says."""

    WHOLE = "whole"
    BROKEN = "broken"
    NONE = "none"


def check_file_checksum(source: Source, archive: Archive | None, found: Findings) -> FileChecksum:
    """Check an archive against its file checksum, reading all of it once."""
    positions = [end_position(source, archive)] if archive is not None else []
    if source.size >= END_WITH_CHECKSUM and source.size - END_WITH_CHECKSUM not in positions:
        positions.append(source.size - END_WITH_CHECKSUM)
    for position in reversed(positions):  # the end of the file first: an older checksum may be whole
        state = _check_at(source, position, found)
        if state is not FileChecksum.NONE:
            return state
    found.unverified(
        "the archive has no file checksum of this package for its last version: another program wrote or changed it. "
        "Members are verified by their own checksums, the bytes between them are not"
    )
    return FileChecksum.NONE


def end_position(source: Source, archive: Archive) -> int:
    """Where the end record of an archive begins."""
    at = int(archive.directory_offset + archive.directory_size)
    if source.read(at, 4) == b"PK\6\6":
        at += 12 + int.from_bytes(source.read(at + 4, 8), "little") + 20
    return at


def _check_at(source: Source, position: int, found: Findings) -> FileChecksum:
    if position < 0 or position + END_WITH_CHECKSUM > source.size:
        return FileChecksum.NONE
    record = source.read(position, END_WITH_CHECKSUM)
    right = end_with_checksum(position, record)
    wrong = [n for n in range(len(right)) if right[n] != record[n]]
    bits = wrong_bits(right, record)
    if bits > FEW_BITS or (bits > 1 and is_half_written(position, record)):  # it was never written to its end
        return FileChecksum.NONE
    if record[-DIGITS:] == b"%08x" % _checksum(source, position, right, found):
        if not wrong:
            return FileChecksum.WHOLE
        found.add(
            "the end record of the archive is damaged, and nothing else",
            offset=position + wrong[0],
        )
        return FileChecksum.BROKEN
    if any(n >= END + 7 for n in wrong):  # it names another position: somebody moved it
        return FileChecksum.NONE
    found.add(
        "the file is not what was written: its bytes do not have the checksum that its end record states",
        offset=position + END_WITH_CHECKSUM - DIGITS,
    )
    return FileChecksum.BROKEN


def _checksum(source: Source, stop: int, more: bytes, found: Findings) -> int:
    crc = 0
    for at in range(0, stop, _PIECE):
        size = min(_PIECE, stop - at)
        crc = crc32c(source.read(at, size), crc)
        found.advance(size)
    return int(crc32c(more, crc))
