"""Checking the file checksum of a `.b2z`, which is in the comment of its end record.

The comment is ``blosc2 <position> <checksum>``: the position of the end record, in 16 hexadecimal digits, and the
CRC-32C of every byte of the file before the last 8 digits. An archive of another program has no such comment, and one
that another program changed has one for another position: both are unverified. A comment with its own position and a
wrong checksum means damage.
"""

from __future__ import annotations

import enum
from typing import Final

from blosc2._backends import DIGITS, END, FEW_BITS, SEALED, sealed_end, wrong_bits
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._integrity.report import Findings

_PIECE: Final = 4 << 20


class Seal(enum.Enum):
    """What the seal of an archive says."""

    WHOLE = "whole"
    BROKEN = "broken"
    NONE = "none"


def check_seal(source: Source, archive: Archive | None, found: Findings) -> Seal:
    """Check an archive against its seal, reading all of it once."""
    places = [end_position(source, archive)] if archive is not None else []
    if source.size >= SEALED and source.size - SEALED not in places:
        places.append(source.size - SEALED)
    for place in reversed(places):  # the end of the file first: a damaged seal there hides behind an older one
        state = _check_place(source, place, found)
        if state is not Seal.NONE:
            return state
    found.unverified(
        "the archive has no seal of this package for its last version: it was written or changed by another program. "
        "Members are verified by their own checksums, the bytes between them are not"
    )
    return Seal.NONE


def end_position(source: Source, archive: Archive) -> int:
    """Where the end record of an archive begins."""
    at = int(archive.directory_offset + archive.directory_size)
    if source.read(at, 4) == b"PK\6\6":
        at += 12 + int.from_bytes(source.read(at + 4, 8), "little") + 20
    return at


def _check_place(source: Source, place: int, found: Findings) -> Seal:
    if place < 0 or place + SEALED > source.size:
        return Seal.NONE
    record = source.read(place, SEALED)
    right = sealed_end(place, record)
    wrong = [n for n in range(len(right)) if right[n] != record[n]]
    if wrong_bits(right, record) > FEW_BITS:
        return Seal.NONE
    if record[-DIGITS:] == b"%08x" % _checksum(source, place, right, found):
        if not wrong:
            return Seal.WHOLE
        found.add(
            "the end record of the archive is damaged, and nothing else",
            offset=place + wrong[0],
        )
        return Seal.BROKEN
    if any(n >= END + 7 for n in wrong):  # it names another position: somebody moved it
        return Seal.NONE
    found.add(
        "the file is not what was written: its bytes do not have the checksum that its end record states",
        offset=place + SEALED - DIGITS,
    )
    return Seal.BROKEN


def _checksum(source: Source, stop: int, more: bytes, found: Findings) -> int:
    crc = 0
    for at in range(0, stop, _PIECE):
        size = min(_PIECE, stop - at)
        crc = crc32c(source.read(at, size), crc)
        found.advance(size)
    return int(crc32c(more, crc))
