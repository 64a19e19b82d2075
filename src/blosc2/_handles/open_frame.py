"""Opening the frame in a file, which a writer may be changing just now."""

from __future__ import annotations

import errno
from typing import Final

from blosc2 import _files
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2.exceptions import FormatError, MissingFileError

# The header fields that make a version current lie in one sector when they end before this byte.
SECTOR: Final = 512


def open_frame(
    path: str, mmap_mode: str | None, offset: int = 0, *, old: Source | None = None, advice: str | None = None
) -> Frame:
    """Open the frame at an offset of a file, mapped or for positional reads.

    An older source of the path, opened in the same way, shares with the new one what it can: see `Source.reopen`.
    `advice` is given before anything is read.
    """
    retry = None
    while True:
        try:
            if old is not None and old.path == path:
                source = old.reopen()
            else:
                source = Source.map(path) if mmap_mode is not None else Source.open(path)
        except FileNotFoundError:
            raise MissingFileError(errno.ENOENT, "No such file or directory", path) from None
        if advice is not None:
            source.advise(advice)
        try:
            frame = Frame.open(source, offset)
            header = frame.header_bytes()
            # Read again: what was read while it was written may be made of two versions, and look sound.
            if source.read(offset, len(header)) == header:
                return frame
            retry = retry or _files.Retry()
            if not retry.again(object()):  # it has changed, that is certain
                return frame
        except FormatError:
            # A header that was read while it was written, or that tells of bytes which came after the file was opened.
            size = min(SECTOR, source.size)
            retry = retry or _files.Retry()
            if not retry.again((source.identity, source.read(max(0, min(offset, source.size - size)), size))):
                raise
