"""Chunk and block shapes: what is asked for, what is chosen, and that nothing depends on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blosc2._arrays.chunk_shapes import (
    CHUNK_NBYTES,
    are_partitions_behaved,
    as_shape,
    block_limit,
    compute_chunks_blocks,
)

SHAPES = st.lists(st.integers(0, 5000), max_size=6).map(tuple)


@settings(max_examples=300, deadline=None)
@given(shape=SHAPES, itemsize=st.sampled_from([1, 2, 8, 100, 70000, 3 << 20]))
def test_what_is_chosen_fits(shape: tuple[int, ...], itemsize: int) -> None:
    dtype = f"V{itemsize}"
    chunks, blocks = compute_chunks_blocks(shape, dtype=dtype)
    if 0 in shape:
        assert chunks == blocks == shape
        return
    assert all(1 <= b <= c <= n for b, c, n in zip(blocks, chunks, shape, strict=True))
    assert int(np.prod(blocks)) == 1 or int(np.prod(blocks)) * itemsize <= block_limit(itemsize)
    small = int(np.prod(shape, dtype=object)) * itemsize
    # Where there would be more than half a million of them, they are larger.
    assert int(np.prod(chunks)) == 1 or int(np.prod(chunks)) * itemsize <= max(CHUNK_NBYTES, small >> 19)
    # as much as fits: no axis could be doubled
    if small <= block_limit(itemsize):
        assert blocks == shape
    if small <= CHUNK_NBYTES // 2**6:
        assert chunks == shape


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_what_is_given_is_kept(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 100), max_size=4)))
    chunks = tuple(data.draw(st.integers(1, 150)) for _ in shape)
    blocks = tuple(data.draw(st.integers(1, c)) for c in chunks)
    assert compute_chunks_blocks(shape, chunks, blocks) == (chunks, blocks)
    got, chosen = compute_chunks_blocks(shape, chunks, None, "f8")
    assert got == chunks
    assert all(1 <= b <= c for b, c in zip(chosen, chunks, strict=True))
    chosen, got = compute_chunks_blocks(shape, None, blocks, "f8")
    assert got == tuple(min(b, n) for b, n in zip(blocks, shape, strict=True))
    assert all(b <= c <= n for b, c, n in zip(got, chosen, shape, strict=True))


def test_integers_and_sequences() -> None:
    assert compute_chunks_blocks(100, 10, 5) == ((10,), (5,))
    assert compute_chunks_blocks([100], [10], np.array([5])) == ((10,), (5,))
    assert compute_chunks_blocks((3, 0), (2, 2), (1, 1)) == ((2, 2), (1, 1))
    assert compute_chunks_blocks((3, 0), (2, 0)) == ((3, 0), (3, 0))
    assert compute_chunks_blocks((3,), clevel=5, codec=None) == ((3,), (3,))
    assert as_shape(np.int32(4), "shape") == (4,)


def brute_force_behaved(shape: tuple[int, ...], chunks: tuple[int, ...], blocks: tuple[int, ...]) -> bool:
    """Whether items, written chunk by chunk and in them block by block, come in C order."""

    def order(outer: tuple[int, ...], inner: tuple[int, ...], numbers: np.ndarray[Any, Any]) -> list[Any]:
        return [
            numbers[tuple(slice(p * c, (p + 1) * c) for p, c in zip(index, inner, strict=True))]
            for index in np.ndindex(*(-(-n // c) for n, c in zip(outer, inner, strict=True)))
        ]

    if any(n % c for n, c in zip(shape, chunks, strict=True)) or any(
        c % b for c, b in zip(chunks, blocks, strict=True)
    ):
        return False
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    flat = [item.ravel() for chunk in order(shape, chunks, numbers) for item in order(chunk.shape, blocks, chunk)]
    return bool((np.concatenate(flat) == np.arange(numbers.size)).all())


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_behaved_partitions(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 4, 6, 8]), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    blocks = tuple(data.draw(st.integers(1, c)) for c in chunks)
    assert are_partitions_behaved(shape, chunks, blocks) is brute_force_behaved(shape, chunks, blocks)
