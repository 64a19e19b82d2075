"""Appending a version to the file of a frame, and publishing it (FORMATS 8.1).

Only the header says where a frame ends. Bytes behind it are the remains of an append that did not finish, or was
undone. If they end in a whole trailer they may have been a version: one that was visible until it could not be made
durable, and that a reader may have mapped; or the newest one, whose header is damaged. They are neither cut off nor
overwritten: an append continues behind them. Other bytes there were never part of a version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import BinaryIO, Final, cast

from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import Spooled, write_parts
from blosc2._frames.update import FrameUpdate, appended

#: The end of a trailer that has a fixed size.
TRAILER_TAIL: Final = 23
#: What a trailer begins with.
TRAILER_START: Final = b"\x94\x01\x93\xcd"

# The length of the trailer, and a fingerprint that nobody uses.
_TRAILER_END: Final = rb"(?s)\xce(....)\xd8\0{17}"
_SHORTEST: Final = 35
# Where the header fields that make a version current begin.
_FIELDS: Final = 16
# Bytes that are read at a time, and written at a time from memory.
_PIECE: Final = 4 << 20


def append_version(file: FileIO, path: str, update: FrameUpdate, *, variable: bool) -> None:
    """Append an update to its file and publish it, durably.

    Parameters
    ----------
    file : FileIO
        Open for writing, and locked.
    path : str
        Of the same file.
    update : FrameUpdate
        Of the frame that the file shows. Bytes that an unfinished append left behind it stay, and are not read.
    variable : bool
        Whether its chunks are of several sizes.

    Raises
    ------
    OSError
        It could not be written, or not be made durable: the file shows what it showed before, as far as that can be
        written.
    """
    frame = update.frame
    start = end_of_versions(path, frame)
    parts, header = appended(update, start, variable=variable)
    size = sum(map(len, parts))
    try:
        _write_parts(file, start, parts)
        # Bytes behind the new end, left by an unfinished append, belong to no version.
        file.truncate(start + size)
        os.fsync(file.fileno())
    except BaseException:
        # The old version is untouched. Only the added bytes are removed, which nobody ever saw.
        with suppress(OSError):
            file.truncate(start)
        raise
    try:
        _write_at(file, _FIELDS, header[_FIELDS:])
        os.fsync(file.fileno())
    except BaseException:
        # A version that is not durable is a failure, so the old one is shown again. The added bytes stay, because
        # somebody may have mapped them meanwhile. The next append goes behind them.
        with suppress(OSError):
            _write_at(file, _FIELDS, frame.header_bytes()[_FIELDS:])
            os.fsync(file.fileno())
        raise


@contextmanager
def closed_quietly(file: FileIO) -> Iterator[FileIO]:
    """Close a file at the end of a block. Its bytes are durable by then, so errors of closing do not matter."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _write_parts(file: FileIO, offset: int, parts: list[bytes | Spooled]) -> None:
    """Write parts one after another, some MB at a time."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if not isinstance(part, Spooled):
            waiting.append(part)
            size += len(part)
        if isinstance(part, Spooled) or size >= _PIECE:
            _write_at(file, offset, b"".join(waiting))
            offset += size
            waiting, size = [], 0
        if isinstance(part, Spooled):
            file.seek(offset)
            write_parts(cast("BinaryIO", file), (part.byte_range,))
            offset += len(part)
    _write_at(file, offset, b"".join(waiting))


def _write_at(file: FileIO, offset: int, data: bytes) -> None:
    """Write all of a buffer at a position of an unbuffered file."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def end_of_versions(path: str, frame: Frame) -> int:
    """Where an append to the file of a frame begins: behind everything that may be a version."""
    end = int(frame.frame_len)
    if os.stat(path).st_size > end:
        source = Source.open(path)
        for _, stop in trailers(source, end, source.size):
            end = stop
    return end


def trailers(source: Source, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where trailers begin and end, in order."""
    at = start
    last = start
    while at < stop:
        piece = source.read(at, min(_PIECE, stop - at))
        for match in re.finditer(_TRAILER_END, piece):
            end = at + match.end()
            begin = end - int.from_bytes(match[1])
            if start <= begin <= end - _SHORTEST and end > last and source.read(begin, 4) == TRAILER_START:
                last = end
                yield begin, end
        if at + len(piece) >= stop:
            return
        at += len(piece) - TRAILER_TAIL
