"""Frames as members of a `.b2z`: which carry checksums of their own, and how they are appended.

The directory has a CRC-32 of each member, which tells of all its bytes together. That is enough for what one read
brings in. A larger frame gets checksums, as files have them, so that each of its chunks can be checked alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from blosc2._core.archive_writer import ArchiveWriter
from blosc2._core.checksum import crc32c
from blosc2._core.frame import Frame
from blosc2._core.source import Source
from blosc2.byte_copies import NOT_WRITTEN, Part, check_unchanged, pieces_of
from blosc2.exceptions import FormatError
from blosc2.store_layout import Window, pieces, whole
from blosc2.sums import parts_with_sums

#: Members of more bytes get checksums of their own; `member_sum.pxd` has the same number.
SMALL_MEMBER: Final = 4096
# Larger ones are copied piece by piece.
_LARGE: Final = 8 << 20


def append_frame(
    writer: ArchiveWriter, name: bytes, frame: Window | bytes, about: bytes | None = None
) -> tuple[int, int]:
    """Append a frame, with checksums unless it is small; where it begins in the file, and its size."""
    if isinstance(frame, bytes):
        if len(frame) <= SMALL_MEMBER:
            return writer.append(name, frame, about=about), len(frame)
        frame = Source.of_buffer(frame), 0, len(frame)
    if frame[2] <= SMALL_MEMBER:
        return writer.append(name, whole(frame), about=about), frame[2]
    if frame[2] <= _LARGE and frame[0].is_joined:
        data = whole(frame)  # which checks it
        frame = Source.of_buffer(data), 0, len(data)
    try:
        parts = parts_with_sums(Frame.open(*frame))
    except FormatError:
        if frame[2] > _LARGE:
            return writer.append_pieces(name, pieces(frame), frame[2], about=about), frame[2]
        return writer.append(name, whole(frame), about=about), frame[2]
    size = sum(part[2] if isinstance(part, tuple) else len(part) for part in parts)
    if size > _LARGE:
        return writer.append_pieces(name, _pieces(parts, frame), size, about=about), size
    return writer.append(name, b"".join(_pieces(parts, frame)), about=about), size


def _pieces(parts: list[Part], window: Window) -> Iterator[bytes | memoryview]:
    """The bytes of parts of a frame; what lies between header and trailer is checked if its checksum is known."""
    source = window[0]
    known = source.sums if not window[1] and window[2] == source.size else None
    for part in parts:
        if not isinstance(part, tuple):
            yield part
            continue
        running = 0
        for piece in pieces_of(part):
            if known:
                running = crc32c(piece, running)
            yield piece
        if known and running != known.body:
            raise FormatError(NOT_WRITTEN, path=part[0].path, offset=known.start)
    check_unchanged(source)
