"""Appending a version to the file of a frame, and publishing it (FORMATS 8.1)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import Final

from blosc2.draft import Draft, appended
from blosc2.frame_tail import end_of_versions

# Where the fields of a header begin that make a version current.
_FIELDS: Final = 16


def append_version(file: FileIO, path: str, draft: Draft, *, variable: bool) -> None:
    """Make a draft the version that a file shows, durably.

    Parameters
    ----------
    file : FileIO
        Open for writing, and locked.
    path : str
        Of the same file.
    draft : Draft
        Of the frame that the file shows; where that was appended to before, what is left of it is gone on behind.
    variable : bool
        Whether its chunks are of several sizes.

    Raises
    ------
    OSError
        It could not be written, or not be made durable: the file shows what it showed before, as far as that can be
        written.
    """
    frame = draft.frame
    start = end_of_versions(path, frame)
    added, header = appended(draft, start, variable=variable)
    try:
        _write_at(file, start, added)
        # What an unfinished append may have left behind the new end is no part of any version.
        file.truncate(start + len(added))
        os.fsync(file.fileno())
    except BaseException:
        # The old version is untouched; only what was added to it goes, and nobody ever saw that.
        with suppress(OSError):
            file.truncate(start)
        raise
    try:
        _write_at(file, _FIELDS, header[_FIELDS:])
        os.fsync(file.fileno())
    except BaseException:
        # What was not made durable is no success: the old version is shown again. What was added stays, as somebody
        # may have mapped it meanwhile; the next append goes on behind it.
        with suppress(OSError):
            _write_at(file, _FIELDS, frame.header_bytes()[_FIELDS:])
            os.fsync(file.fileno())
        raise


@contextmanager
def closed_quietly(file: FileIO) -> Iterator[FileIO]:
    """Close a file at the end of a block, of which all that was written is durable by then: no error tells more."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _write_at(file: FileIO, offset: int, data: bytes) -> None:
    """Write at a place of an unbuffered file, all of it."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
