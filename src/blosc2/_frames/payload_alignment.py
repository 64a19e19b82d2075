"""Payloads of uncompressed chunks at multiples of 64 bytes in their file (FORMATS 8.4), for views without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._core.frame.frame_writer import header_length

Integers = np.ndarray[Any, np.dtype[np.int64]]

#: What payloads are aligned to: a cache line, and more than any item needs.
ALIGNMENT = 64
#: The metalayer that fills the header up; frames that have it keep their chunks aligned.
PADDING = "_pad"

_CHUNK_HEADER = 32
_MOST_METALAYERS = 16


def with_padding(metalayers: dict[str, bytes]) -> dict[str, bytes]:
    """Metalayers with padding that aligns the first payload. Unchanged if one more does not fit."""
    if len(metalayers) >= _MOST_METALAYERS:
        return metalayers
    size = (_CHUNK_HEADER - header_length({**metalayers, PADDING: b"\xc4\0"})) % ALIGNMENT
    return {**metalayers, PADDING: bytes((0xC4, size)) + bytes(size)}


def hole_before(position: int) -> bytes:
    """The filling before a chunk that would start at this position of an aligned frame."""
    return bytes((_CHUNK_HEADER - position) % ALIGNMENT)


def aligned_offsets(start: int, lengths: Integers) -> Integers:
    """Where chunks of these lengths lie in an aligned frame: their offsets from the first byte behind its header."""
    taken = -(-lengths // ALIGNMENT) * ALIGNMENT
    offsets: Integers = len(hole_before(start)) + np.cumsum(taken) - taken
    return offsets
