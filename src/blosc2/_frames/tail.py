"""Bytes behind a frame in its file: the remains of an append that did not finish, or was undone.

Only the header says where a frame ends. So bytes behind it that end in a whole trailer may have been a version: one
that was visible until it could not be made durable, and that a reader may have mapped; or the newest one, whose header
is damaged. They are neither cut off nor overwritten: an append continues behind them. Other bytes there were never part
of a version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source

#: The end of a trailer that has a fixed size.
TRAILER_TAIL: Final = 23
#: What a trailer begins with.
TRAILER_START: Final = b"\x94\x01\x93\xcd"

# Its length, and a fingerprint that nobody uses.
_TRAILER_END: Final = rb"(?s)\xce(....)\xd8\0{17}"
_SHORTEST: Final = 35
_PIECE: Final = 4 << 20


def end_of_versions(path: str, frame: Frame) -> int:
    """Behind what an append goes to the file of a frame that begins with it: behind all that may be a version."""
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
