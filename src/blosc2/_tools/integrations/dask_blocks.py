"""Chunk shapes for blocks of dask, so that each task has chunks of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from blosc2._arrays import ArrayPlan
from blosc2._frames import is_masked

# Chunks of fewer bytes are refused: the blocks have no boundaries in common with chunks worth having.
_LEAST: Final = 4 << 10


def bounds_of(blocks: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Where blocks begin on each axis, and the end of the last.

    Examples
    --------
    >>> bounds_of(((3, 3, 2), (5,)))
    ((0, 3, 6, 8), (0, 5))
    """
    return tuple(tuple(accumulate(lengths, initial=0)) for lengths in blocks)


def aligned_keywords(array: Any, keywords: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Keywords of a constructor with chunks of which each lies in one block.

    Parameters
    ----------
    array : dask.array.Array
    keywords : mapping
        With ``chunks``, these are checked; without, they are chosen.
    what : str
        For errors.

    Raises
    ------
    ValueError
        A block would end inside of a chunk; the message says which blocks would do.
    TypeError
        The array has a mask.
    """
    if is_masked(array._meta):
        raise TypeError(
            f"{what}: masked arrays would lose their mask: take dask.array.ma.getdata(array) and "
            "dask.array.ma.getmaskarray(array), or dask.array.ma.filled(array)"
        )
    if any(math.isnan(n) for lengths in array.chunks for n in lengths):
        raise ValueError(f"{what} has blocks of unknown lengths: call compute_chunk_sizes() first")
    keywords = {name: value for name, value in keywords.items() if value is not None}
    plan = ArrayPlan(array.shape, array.dtype, dict(keywords))
    if array.size == 0 or not array.shape:
        return keywords
    steps = [_step(lengths) for lengths in array.chunks]
    chunks = plan.geometry.chunks
    if "chunks" not in keywords:
        chunks = tuple(c if step == 0 else _nearest_divisor(step, c) for c, step in zip(chunks, steps, strict=True))
        smaller = math.prod(chunks) * array.dtype.itemsize
        if smaller < min(_LEAST, array.nbytes // 64):
            raise ValueError(
                f"{what}: its blocks have the lengths {_shown(array.chunks)}, which have only {chunks} in common, too "
                f"small for a chunk: {_advice(array, plan.geometry.chunks)}"
            )
        keywords["chunks"] = chunks
        if any(block > chunk for block, chunk in zip(keywords.get("blocks", ()), chunks)):
            keywords.pop("blocks")
        return keywords
    wrong = [axis for axis, (c, step) in enumerate(zip(chunks, steps, strict=True)) if step % c]
    if wrong:
        raise ValueError(
            f"{what}: on axis {wrong[0]}, blocks of {_shown((array.chunks[wrong[0]],))} items end inside of chunks of "
            f"{chunks[wrong[0]]}, and two tasks would write one chunk: {_advice(array, chunks)}"
        )
    return keywords


def rechunked(array: Any, chunks: tuple[int, ...] | None) -> Any:
    """The array with blocks that are multiples of chunks, of about the size that they have."""
    wanted = ArrayPlan(array.shape, array.dtype, {} if chunks is None else {"chunks": chunks}).geometry.chunks
    return array.rechunk(_multiples(array, wanted))


def _multiples(array: Any, chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths of blocks that are multiples of chunks, and about as long as the longest ones."""
    return tuple(
        min(max(round(max(lengths) / c), 1) * c, max(n, 1))
        for lengths, c, n in zip(array.chunks, chunks, array.shape, strict=True)
    )


def _advice(array: Any, chunks: tuple[int, ...]) -> str:
    return f"blocks of a multiple of {chunks} would do, for example array.rechunk({_multiples(array, chunks)})"


def _step(lengths: tuple[int, ...]) -> int:
    """What all inner boundaries of blocks are multiples of; 0 if there are none."""
    found = end = 0
    for length in lengths[:-1]:
        end += length
        found = math.gcd(found, end)
    return found


def _nearest_divisor(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to another, as a ratio."""
    found = [n for low in range(1, math.isqrt(number) + 1) if number % low == 0 for n in (low, number // low)]
    return min(found, key=lambda n: abs(math.log(n / max(wanted, 1))))


def _shown(blocks: tuple[tuple[int, ...], ...]) -> str:
    axes = [f"({', '.join(map(str, lengths[:4]))}{', ...' if len(lengths) > 4 else ''})" for lengths in blocks]
    return " x ".join(axes)
