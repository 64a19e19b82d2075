"""Chunks of new arrays whose items are made, or arrive, in pieces: only one piece is in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, Final

import numpy as np

from blosc2._arrays.ranges import Box
from blosc2._arrays.slabs import Slab, batches_in_order, compressed_in_order, slabs_in
from blosc2._arrays.spec import ArrayPlan
from blosc2._core.ndim.gaps import as_bytes
from blosc2._core.ndim.geometry import Geometry
from blosc2._frames import ZERO_OFFSET, Stored

#: Uncompressed bytes of a piece, unless its chunks or the threads need more.
_PIECE_NBYTES: Final = 8 << 20

Items = np.ndarray[Any, Any]


def made(plan: ArrayPlan, make: Callable[[Box], Items | None], *, ahead: bool = False) -> Iterator[Stored]:
    """The chunks of items that are made when they are needed.

    Parameters
    ----------
    plan : ArrayPlan
    make : callable
        Takes a box (a slice with start and stop for each axis) and gives its items, or None for zeros.
    ahead : bool
        Whether threads make the next items and compress others, while the caller writes chunks.
    """

    def items_of(slab: Slab) -> Items | None:
        return make(tuple(slice(start, start + n) for start, n in zip(slab.starts, slab.counts, strict=True)))

    slabs = slabs_in(plan.geometry, _limit(plan))
    begin = list(islice(slabs, 2))
    slabs = chain(begin, slabs)
    if ahead and len(begin) == 2:
        yield from _compressed_ahead(plan, _ahead(items_of, slabs))
        return
    for slab in slabs:
        items = items_of(slab)
        if items is None:
            yield from [ZERO_OFFSET] * (slab.stop - slab.first)
        else:
            yield from compressed_in_order(plan, slab.starts, items)


def _compressed_ahead(plan: ArrayPlan, made: Generator[tuple[Slab, Items | None], None, None]) -> Iterator[Stored]:
    """The chunks of slabs. A thread compresses the next batch while the caller writes one."""
    from concurrent.futures import wait

    from blosc2._files import Pool

    def in_batches() -> Generator[list[Stored], None, None]:
        for slab, items in made:
            if items is None:
                yield [ZERO_OFFSET] * (slab.stop - slab.first)
            else:
                yield from batches_in_order(plan, slab.starts, items)

    batches = in_batches()
    with Pool(1, "blosc2-compressing") as thread, closing(made), closing(batches):
        waiting = thread.submit(next, batches, None)
        try:
            while True:
                batch = waiting.result()
                if batch is None:
                    break
                waiting = thread.submit(next, batches, None)
                yield from _emptied(batch)
        finally:
            wait((waiting,))  # the generators cannot be closed while they run


def _emptied(chunks: list[Stored]) -> Iterator[Stored]:
    """The items of a list, which is emptied meanwhile to free their memory."""
    chunks.reverse()
    while chunks:
        yield chunks.pop()


def _ahead(
    items_of: Callable[[Slab], Items | None], slabs: Iterator[Slab]
) -> Generator[tuple[Slab, Items | None], None, None]:
    """Slabs with their items. A thread makes those of the next slab while the caller works with one."""
    from blosc2._files import Pool

    slab = next(slabs)
    with Pool(1, "blosc2-reading") as thread:
        waiting = thread.submit(items_of, slab)
        for following in slabs:
            items = waiting.result()
            waiting = thread.submit(items_of, following)
            yield slab, items
            slab = following
        yield slab, waiting.result()


def joined_rows(plan: ArrayPlan, slabs: Iterable[Items]) -> Iterator[Stored]:
    """The chunks of items that come in slabs of `slab_height` rows. The last slab may have fewer."""
    geometry = plan.geometry
    row = 0
    for slab in slabs:
        # The slab's own numbering is the array's, less the chunks before it.
        part = Geometry(slab.shape, geometry.chunks, geometry.blocks, geometry.itemsize)
        for inner in slabs_in(part, _limit(plan)):
            box = tuple(slice(start, start + n) for start, n in zip(inner.starts, inner.counts, strict=True))
            yield from compressed_in_order(plan, (row + inner.starts[0], *inner.starts[1:]), slab[box])
        row += len(slab)


def slab_height(plan: ArrayPlan) -> int:
    """Rows that are compressed at a time: one or more whole chunks."""
    geometry = plan.geometry
    if geometry.size == 0:
        return max(plan.shape[0], 1)
    row_of_chunks = geometry.chunk_nbytes * math.prod(geometry.grid[1:])
    return int(geometry.chunks[0] * max(_PIECE_NBYTES // row_of_chunks, 1))


def _limit(plan: ArrayPlan) -> int:
    return max(_PIECE_NBYTES, 4 * plan.cparams.nthreads * int(plan.geometry.chunk_nbytes))


def slabs_of(
    blocks: Iterable[Any], as_array: Callable[[Any], Items], shape: tuple[int, ...], dtype: np.dtype[Any], height: int,
    room: Callable[[tuple[int, ...], np.dtype[Any]], Items] = np.empty,
) -> Iterator[Items]:  # fmt: skip
    """Join blocks along axis 0, and cut them to slabs of `height` rows. The last slab may have fewer.

    Parameters
    ----------
    blocks : iterable
    as_array : callable
        Turns a block into an array of the dtype.
    shape : tuple of int
        Of all blocks together.
    room : callable
        Gives the array of a shape and dtype in which rows wait.

    Raises
    ------
    ValueError
        A block of other axes, or too few or too many rows.
    """
    done = filled = 0  # rows that were yielded, and rows that wait in `slab`
    slab: Items | None = None  # one for all: its chunks are compressed before the next rows come
    for number, block in enumerate(blocks):
        items = as_array(block)
        if items.shape[1:] != shape[1:] or items.ndim != len(shape):
            expected = ", ".join(("any number", *map(str, shape[1:])))
            row = "; fromiter takes single items" if len(shape) == 1 else "; block[None] makes one row of it"
            hint = row if items.shape == shape[1:] else ""
            raise ValueError(f"block {number} has the shape {items.shape}, not ({expected}){hint}")
        if done + filled + len(items) > shape[0]:
            raise ValueError(f"with block {number} there are {done + filled + len(items)} rows, not {shape[0]}")
        while len(items):
            rows = min(height, shape[0] - done)
            if not filled and len(items) >= rows:
                yield items[:rows]  # without a copy
                done += rows
                items = items[rows:]
                continue
            if slab is None:
                slab = room((rows, *shape[1:]), dtype)
            taken = min(rows - filled, len(items))
            as_bytes(slab)[filled : filled + taken] = as_bytes(items[:taken])
            items = items[taken:]
            filled += taken
            if filled == rows:
                yield slab[:rows]
                done, filled = done + rows, 0
    if done < shape[0]:
        raise ValueError(f"the blocks have {done + filled} rows, not {shape[0]}")
