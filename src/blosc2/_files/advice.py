"""Advice to the operating system on how stored bytes will be read: its kinds, and the bytes that it applies to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import ADVICE, Source

#: How all of a file is read, for as long as it is open; what else there is, is about bytes.
LASTING: Final = ("normal", "random", "sequential")
# Ranges that are no farther apart are read ahead as one: reading the gap costs less than a call.
_GAP: Final = 128 << 10
# How many bytes a stored chunk may exceed its uncompressed bytes.
_CHUNK_HEADER: Final = 32

Integers = np.ndarray[Any, np.dtype[np.int64]]


def check_advice(advice: object, *, part: bool = False) -> None:
    """Refuse unknown advice, and advice that does not apply to a part of the data."""
    if not isinstance(advice, str) or advice not in ADVICE:
        raise ValueError(f"advice must be one of {', '.join(map(repr, ADVICE))}, not {advice!r}")
    if part and advice in LASTING:
        raise ValueError(f"{advice!r} is about all of a file; for a part there are 'willneed' and 'dontneed'")


def lasting(advice: str | None) -> str | None:
    """The advice to give when a file is opened, before anything is read."""
    return advice if advice in LASTING else None


def advise_byte_ranges(advice: str, byte_ranges: Iterable[tuple[Source, int, int]]) -> None:
    """Give advice about byte ranges of any sources, with as few calls as it takes."""
    by_source: dict[int, tuple[Source, list[int], list[int]]] = {}
    for source, offset, length in byte_ranges:
        found = by_source.get(id(source))
        if found is None:
            found = by_source[id(source)] = (source, [], [])
        found[1].append(offset)
        found[2].append(length)
    for source, offsets, lengths in by_source.values():
        begins, ends = merged(np.array(offsets, np.int64), np.array(lengths, np.int64), _gap(advice))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            source.advise(advice, begin, end - begin)


def _gap(advice: str) -> int:
    # What is still needed must not go.
    return _GAP if advice == "willneed" else 0


def merged(offsets: Integers, lengths: Integers, gap: int) -> tuple[Integers, Integers]:
    """Begin and end of the pieces that byte ranges make up, in order: those no farther apart than a gap are one.

    Examples
    --------
    >>> begins, ends = merged(np.array([500, 0, 40]), np.array([10, 50, 20]), 100)
    >>> begins.tolist(), ends.tolist()
    ([0, 500], [60, 510])
    """
    if not offsets.size:
        return offsets, offsets
    order = np.argsort(offsets, kind="stable")
    begins = offsets[order]
    # An earlier byte range may end behind a later one.
    ends = np.maximum.accumulate(begins + lengths[order])
    breaks = np.flatnonzero(begins[1:] - ends[:-1] > gap) + 1
    firsts = np.concatenate([np.zeros(1, np.int64), breaks])
    lasts = np.concatenate([breaks - 1, np.array([begins.size - 1])])
    return begins[firsts], ends[lasts]


def advise_frame(advice: str, frame: Frame, numbers: Iterable[Integers] | None = None) -> None:
    """Give advice about a frame, or about some of its chunks, whose numbers come in pieces.

    How a file is read is said of all of it, also where the frame is one of many.
    """
    source = frame.source
    if source.identity is None and not source.far:
        return
    if advice in LASTING:
        source.advise(advice)
    elif numbers is None:
        advise_byte_ranges(advice, [(source, frame.offset, frame.frame_len)])
    else:
        offsets, lengths = _stored_ranges(frame, numbers)
        begins, ends = merged(offsets, lengths, _gap(advice))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            source.advise(advice, begin, end - begin)


def _stored_ranges(frame: Frame, numbers: Iterable[Integers]) -> tuple[Integers, Integers]:
    """Where chunks lie, by the table alone: each ends where the next one begins, or before.

    Chunks of one value are left out: nothing is stored for them, and there can be far more than the file has bytes.
    """
    if frame.repeated_offset is not None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, stop = frame.chunks_range
    table = np.frombuffer(frame.offsets_bytes(), np.int64)
    positions = [table[piece] for piece in (piece[table[piece] >= 0] for piece in numbers) if len(piece)]
    wanted = np.concatenate([np.zeros(0, np.int64), *positions])
    begins = np.sort(table[table >= 0])
    begins = begins[np.diff(begins, prepend=-1) > 0]  # `np.unique` would import `numpy.ma`, which takes 30 ms
    ends = np.append(begins[1:], stop - start)
    lengths = ends[np.searchsorted(begins, wanted)] - wanted
    if frame.chunksize:
        lengths = np.minimum(lengths, frame.chunksize + _CHUNK_HEADER)
    return wanted + start, lengths
