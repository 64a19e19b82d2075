"""The buffer for the chunks of a new array in memory."""

from __future__ import annotations

import numpy as np
import pytest

from blosc2._handles import chunk_buffer as module
from blosc2._handles.chunk_buffer import Arena


@pytest.mark.parametrize("expected", [0, 10, 3000, 1 << 20])
@pytest.mark.parametrize("sizes", [[], [5], [0, 5], [700, 0, 300, 1], [900, 200], [2000, 1], [10] * 500])
def test_what_is_written_is_stored(expected: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL", 1000)
    monkeypatch.setattr(module, "_LARGE", 4000)
    rng = np.random.default_rng(1)
    pieces = [rng.bytes(size) for size in sizes]
    arena = Arena(expected)
    for piece in pieces:
        arena.write(piece)
    assert bytes(arena.stored()) == b"".join(pieces)


def test_a_single_piece_is_not_copied() -> None:
    piece = b"abc" * 100
    arena = Arena(1000)
    arena.write(piece)
    assert arena.stored() is piece


def test_little_of_much_does_not_keep_the_room() -> None:
    arena = Arena(1 << 30)
    arena.write(b"a" * (2 << 20))
    assert arena.stored().base is None
    assert arena.stored().nbytes == 2 << 20
