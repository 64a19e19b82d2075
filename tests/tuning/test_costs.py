"""The counts behind the model of reading, against data of which they are known."""

from __future__ import annotations

import numpy as np
import pytest

import blosc2
from blosc2._tuning import costs, read_time


def stream(data: bytes, clevel: int = 1) -> memoryview:
    """The zstd frame of a block."""
    chunk = blosc2.compress2(data, codec=blosc2.Codec.ZSTD, clevel=clevel, filters=[], typesize=1, blocksize=len(data))
    return memoryview(chunk)[40:]


@pytest.mark.parametrize("size", [300, 5000, 100_000])
def test_symbols_without_matches_are_huffman_literals(size: int) -> None:
    rng = np.random.default_rng(0)
    data = rng.choice(200, size, p=np.r_[np.full(8, 0.11), np.full(192, 0.12 / 192)]).astype("u1").tobytes()
    counts = costs._zstd_counts(stream(data))
    assert counts.literal >= 0.5 * size
    assert counts.huffman <= counts.literal <= size


def test_a_period_is_one_match() -> None:
    data = np.random.default_rng(1).integers(0, 256, 1000, dtype="u1").tobytes() * 100
    counts = costs._zstd_counts(stream(data))
    assert 1 <= counts.sequences < 20
    assert 1000 <= counts.literal < 1300


def test_what_is_stored_takes_the_least() -> None:
    rng = np.random.default_rng(2)
    data = rng.integers(0, 256, 1 << 16, dtype="u1")
    none = ((0,) * 6, (0,) * 6)
    raw = read_time(blosc2.compress2(data, filters=[], typesize=1), 5, *none, 1)
    small = read_time(blosc2.compress2(data % 16, filters=[], typesize=1), 5, *none, 1)
    zeros = read_time(blosc2.compress2(np.zeros(1 << 16, "u1"), filters=[], typesize=1), 5, *none, 1)
    assert zeros <= raw < small
