"""Frames that are a directory: ``chunks.b2frame`` with header, offsets and trailer, and a file for each chunk.

Other programs write them (contiguous=False). They are read into memory as one contiguous frame, and only read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np

from blosc2._core.codec import decode_bytes
from blosc2._core.frame import Frame
from blosc2._core.source import Source
from blosc2.draft import Fields, Stored, lay_out
from blosc2.exceptions import FormatError

HEADER_FILE = "chunks.b2frame"
_FRAME_TYPE = 26
_CBYTES = 39


def is_directory_frame(path: str) -> bool:
    """Whether a directory looks like a frame."""
    return os.path.isfile(os.path.join(path, HEADER_FILE))


def read_directory_frame(path: str) -> Frame:
    """The frame of a directory, all of it in memory.

    Raises
    ------
    FormatError
        A file is missing or is not what its name says.
    """
    name = os.path.join(path, HEADER_FILE)
    source = Source.open(name)
    data = bytearray(source.read(0, source.size))
    if len(data) < 87 or data[_FRAME_TYPE] & 15 != 1:
        raise FormatError("this is not the header of a directory frame", path=name, offset=_FRAME_TYPE)
    # Without chunks between header and offsets table, it reads as a contiguous frame with 0 bytes of chunks.
    data[_FRAME_TYPE] &= 0xF0
    struct.pack_into(">q", data, _CBYTES, 0)
    frame = Frame.open(Source.of_buffer(bytes(data), name))
    if frame.vlblocks:
        raise FormatError("a directory frame with blocks of variable length is not known", path=name, offset=25)
    start, stop = frame.header_len, frame.frame_len - frame.trailer_len
    numbers: list[int] = []
    if frame.nbytes:
        table = decode_bytes(bytes(data[start:stop]), 4096 * (stop - start), name, None, start)
        if len(table) % 8:
            raise FormatError("the offsets table is not made of 8-byte entries", path=name, offset=start)
        numbers = np.frombuffer(table, "<i8").tolist()
    parts: list[bytes] = []
    fields = Fields(frame, frame.chunksize, variable=bool(frame.variable))
    header = lay_out(
        parts.append, fields, frame.metalayers(), frame.vlmeta_chunks(), _chunks(path, numbers), len(numbers),
        int(frame.nbytes),
    )  # fmt: skip
    return Frame.open(Source.of_buffer(b"".join([header, *parts]), path))


def _chunks(path: str, numbers: list[int]) -> Iterator[Stored]:
    for number in numbers:
        if number < 0:
            yield number
            continue
        name = os.path.join(path, f"{number:08X}.chunk")
        try:
            source = Source.open(name)
        except FileNotFoundError:
            raise FormatError("a chunk file of this directory frame is missing", path=name) from None
        yield source.read(0, source.size)
