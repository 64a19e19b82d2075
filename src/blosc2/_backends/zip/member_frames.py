"""Frames as members of a `.b2z`: which carry checksums of their own, and how they are appended.

The directory has a CRC-32 of each member, which covers all of its bytes together. That is enough for a member that one
read loads. A larger frame gets checksums like those in files, so that each chunk can be verified alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blosc2._backends.layout import ByteRange, pieces, whole
from blosc2._backends.zip.members import SMALL_MEMBER
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import checked_parts
from blosc2._frames import parts_with_checksums
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._core.zip.archive_writer import ArchiveWriter

# Larger ones are copied piece by piece.
_LARGE: Final = 8 << 20


def append_frame(
    writer: ArchiveWriter, name: bytes, frame: ByteRange | bytes, description: bytes | None = None
) -> tuple[int, int]:
    """Append a frame, with checksums unless it is small. Returns its offset in the file and its size."""
    if isinstance(frame, bytes):
        if len(frame) <= SMALL_MEMBER:
            return writer.append(name, frame, description=description), len(frame)
        frame = Source.of_buffer(frame), 0, len(frame)
    if frame[2] <= SMALL_MEMBER:
        return writer.append(name, whole(frame), description=description), frame[2]
    if frame[2] <= _LARGE and frame[0].is_joined:
        data = whole(frame)  # which checks it
        frame = Source.of_buffer(data), 0, len(data)
    try:
        parts = parts_with_checksums(Frame.open(*frame))
    except FormatError:
        if frame[2] > _LARGE:
            return writer.append_pieces(name, pieces(frame), frame[2], description=description), frame[2]
        return writer.append(name, whole(frame), description=description), frame[2]
    size = sum(part[2] if isinstance(part, tuple) else len(part) for part in parts)
    if size > _LARGE:
        return writer.append_pieces(name, checked_parts(parts, frame), size, description=description), size
    return writer.append(name, b"".join(checked_parts(parts, frame)), description=description), size
