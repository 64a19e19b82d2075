"""Checking one array, super-chunk or list: a file, a directory of chunk files, or an open object."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames import (
    CHUNK_HEADER,
    CHUNK_SIZES,
    HEADER_FILE,
    Fields,
    Integers,
    chunk_file,
    chunk_number,
    frame_of_head,
    is_directory_frame,
)
from blosc2._handles import FrameHandle, make_plugin
from blosc2._integrity.check_frames import (
    check_byte_range,
    check_chunk,
    check_frame,
    check_frame_file,
    check_metadata,
    open_regular,
)
from blosc2._integrity.report import FAULTS, MOST, CheckReport, Findings
from blosc2._options import absolute_path
from blosc2.exceptions import FormatError


def check_path(path: str, found: Findings) -> None:
    """Check what is one array, super-chunk or list: a file, or a directory frame."""
    if os.path.isdir(path) and is_directory_frame(path):
        check_directory_frame(path, found)
    else:
        found.total = _size(path)
        check_frame_file(path, found)


def check_opened(handle: FrameHandle, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Check what is below an open array or super-chunk: all of its file, or its frame in a store or in memory."""
    frame = handle.frame
    # The first that stays right when the process goes to another folder.
    path = getattr(handle, "_path", None) or frame.source.path or handle.urlpath
    if path is not None and handle.key is None and frame.offset == 0 and os.path.exists(path):
        found = Findings(absolute_path(path), progress)
        check_path(found.path, found)
        return found.report()
    found = Findings(path or "in memory", progress)
    found.total = frame.frame_len or frame.cbytes
    if frame.needs_geometry and frame.plugin is None:
        # What checking needs goes to a frame of its own: others may be reading this one.
        source, at = (frame.source, frame.offset) if frame.serialised else (Source.of_buffer(handle.to_cframe()), 0)
        check_byte_range(source, at, -1, found, handle.key)
    else:
        check_frame(frame, found, handle.key)
    return found.report()


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


# ------------------------------------------------------------------ directories of chunk files
def check_directory_frame(path: str, found: Findings) -> None:
    """Check a frame whose chunks are files, one after the other."""
    name = os.path.join(path, HEADER_FILE)
    try:
        source = open_regular(name)
        frame, numbers = frame_of_head(name, source.read(0, source.size))
    except FAULTS as error:
        found.caught(error, path=name)
        return
    sound = check_metadata(frame, found, None)
    with os.scandir(path) as entries:
        there = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    there.pop(HEADER_FILE, None)
    found.total = sum(there.values())
    extras = sorted(name for name in there if name.endswith((".chunk", ".tmp")))
    theirs = [-1 if number is None else number for number in map(chunk_number, extras)]
    for extra, known in zip(extras, np.isin(theirs, numbers[numbers >= 0]).tolist(), strict=True):
        if not known:
            found.note("no version refers to this file; it may be deleted", path=os.path.join(path, extra))
    _check_files(path, frame, numbers, found, sound)


def _check_files(path: str, frame: Frame, numbers: Integers, found: Findings, sound: bool) -> None:
    total = faults = 0
    for index in map(int, np.flatnonzero(numbers >= 0)):
        rest = frame.nbytes - index * frame.chunksize
        name = chunk_file(path, int(numbers[index]))
        try:
            total += _check_chunk_file(name, frame, None if frame.variable else min(frame.chunksize, rest))
        except FAULTS as error:
            if isinstance(error, FileNotFoundError):
                found.add(f"the file of chunk {index} is missing: restore it from a copy", path=name)
            else:
                found.caught(error, path=name)
            faults += 1
            if faults == MOST:
                return
        found.advance(_size(name))
    if sound and not faults and frame.variable and total != frame.nbytes:
        found.add(
            f"the chunks hold {total} bytes, the header says {frame.nbytes}", path=os.path.join(path, HEADER_FILE)
        )


def _check_chunk_file(name: str, like: Frame, nbytes: int | None) -> int:
    """Decode a file that is one chunk; how many bytes that gives."""
    source = open_regular(name)
    stored = source.read(0, source.size)
    size: int
    size, _, cbytes = CHUNK_SIZES.unpack_from(stored) if len(stored) >= CHUNK_HEADER else (0, 0, -1)
    if cbytes != len(stored):
        raise FormatError("the file is not one chunk: cut short, or damaged", path=name, offset=12)
    if size < 0 or (nbytes is not None and size != nbytes):
        raise FormatError(f"the chunk has {size} bytes, and should have {nbytes}", path=name, offset=4)
    if size == 0:
        return 0
    chunksize = size if nbytes is None else like.chunksize
    fields = Fields(like, chunksize, vlblocks=bool(like.vlblocks))
    one = Frame.assemble(
        Source.of_buffer(stored, name), np.zeros(1, np.int64), 1, size, chunksize, fields, like.metalayers(), {},
        vlblocks=bool(like.vlblocks),
    )  # fmt: skip
    if like.needs_geometry:
        one.set_plugin(like.plugin or make_plugin(like))
    check_chunk(one, 0)
    return size
