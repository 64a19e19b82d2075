"""Checking what is one array, super-chunk or list: a file, a directory of chunk files, or an object that is open."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Final

import numpy as np

from blosc2._core.codec import decode_bytes
from blosc2._core.frame import Frame
from blosc2._core.source import Source
from blosc2.carrier import Carrier, make_plugin
from blosc2.check_frames import check_frame, check_frame_file, check_metadata, open_regular
from blosc2.directory_frame import HEADER_FILE, chunk_file, is_directory_frame
from blosc2.draft import Fields
from blosc2.exceptions import FormatError
from blosc2.findings import FAULTS, MOST, CheckReport, Findings

_FRAME_TYPE: Final = 26
_CBYTES: Final = 39
# An offsets table may hold this many times its stored bytes.
_EXPANSION: Final = 4096


def check_path(path: str, found: Findings) -> None:
    """Check what is one array, super-chunk or list: a file, or a directory frame."""
    if os.path.isdir(path) and is_directory_frame(path):
        check_directory_frame(path, found)
    else:
        found.total = _size(path)
        check_frame_file(path, found)


def check_opened(carrier: Carrier, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Check what is below an open array or super-chunk: all of its file, or its frame in a store or in memory."""
    frame = carrier.frame
    # The first that stays right when the process goes to another folder.
    path = getattr(carrier, "_path", None) or frame.source.path or carrier.urlpath
    if path is not None and carrier.key is None and frame.offset == 0 and os.path.exists(path):
        found = Findings(os.path.abspath(path), progress)
        check_path(found.path, found)
        return found.report()
    found = Findings(path or "in memory", progress)
    found.total = frame.frame_len or frame.cbytes
    check_frame(frame, found, carrier.key)
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
        frame, numbers = _read_head(name)
    except FAULTS as error:
        found.caught(error, path=name)
        return
    sound = check_metadata(frame, found, None)
    files = {os.path.basename(chunk_file(path, number)) for number in numbers if number >= 0}
    with os.scandir(path) as entries:
        there = {
            entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name != HEADER_FILE
        }
    found.total = sum(there.values())
    for extra in sorted(there.keys() - files):
        if extra.endswith((".chunk", ".tmp")):
            found.note("no version refers to this file; it may be deleted", path=os.path.join(path, extra))
    _check_files(path, frame, numbers, found, sound)


def _read_head(name: str) -> tuple[Frame, list[int]]:
    """The header file as a frame without chunks, and the number of the file of each chunk, or its special offset."""
    source = open_regular(name)
    data = bytearray(source.read(0, source.size))
    if len(data) < 87 or data[_FRAME_TYPE] & 15 != 1:
        raise FormatError("this is not the header of a directory frame", path=name, offset=_FRAME_TYPE)
    data[_FRAME_TYPE] &= 0xF0
    struct.pack_into(">q", data, _CBYTES, 0)
    frame = Frame.open(Source.of_buffer(bytes(data), name))
    if not frame.nbytes:
        return frame, []
    start, stop = frame.header_len, frame.frame_len - frame.trailer_len
    table = decode_bytes(bytes(data[start:stop]), _EXPANSION * (stop - start), name, None, start)
    count = -(-frame.nbytes // frame.chunksize) if not frame.variable else len(table) // 8
    if len(table) != 8 * count:
        raise FormatError(f"the offsets table has {len(table)} bytes, for {count} chunks", path=name, offset=start)
    numbers = np.frombuffer(table, "<i8")
    used = numbers[numbers >= 0]
    if len(np.unique(used)) != len(used) or (len(used) and int(used.max()) > 0xFFFFFFFF):
        raise FormatError(
            "the offsets table names one chunk file twice, or one that cannot be", path=name, offset=start
        )
    return frame, numbers.tolist()


def _check_files(path: str, frame: Frame, numbers: list[int], found: Findings, sound: bool) -> None:
    total = faults = 0
    for index, number in enumerate(numbers):
        rest = frame.nbytes - index * frame.chunksize
        if number < 0:
            continue
        name = chunk_file(path, number)
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
    if len(stored) < 32 or int.from_bytes(stored[12:16], "little") != len(stored):
        raise FormatError("the file is not one chunk: cut short, or damaged", path=name, offset=12)
    size = int.from_bytes(stored[4:8], "little", signed=True)
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
    one.decode_chunk(0)
    return size
