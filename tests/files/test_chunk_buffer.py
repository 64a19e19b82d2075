"""The buffer for the chunks of a new array in memory."""

from __future__ import annotations

import numpy as np
import pytest

from blosc2._files import copies as module
from blosc2._files.copies import ChunkBuffer


@pytest.mark.parametrize("expected", [0, 10, 3000, 1 << 20])
@pytest.mark.parametrize("sizes", [[], [5], [0, 5], [700, 0, 300, 1], [900, 200], [2000, 1], [10] * 500])
def test_what_is_written_is_stored(expected: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL", 1000)
    monkeypatch.setattr(module, "_LARGE", 4000)
    rng = np.random.default_rng(1)
    pieces = [rng.bytes(size) for size in sizes]
    buffer = ChunkBuffer(expected)
    for piece in pieces:
        buffer.write(piece)
    assert bytes(buffer.stored()) == b"".join(pieces)


def test_a_single_piece_is_not_copied() -> None:
    piece = b"abc" * 100
    buffer = ChunkBuffer(1000)
    buffer.write(piece)
    assert buffer.stored() is piece


def test_little_of_much_does_not_keep_the_room() -> None:
    buffer = ChunkBuffer(1 << 30)
    buffer.write(b"a" * (2 << 20))
    assert buffer.stored().base is None
    assert buffer.stored().nbytes == 2 << 20
