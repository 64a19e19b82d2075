"""Arrays in pieces that fit into memory: slabs, and streams of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays.chunk_shapes import can_hold_items
from blosc2._arrays.spec import ArrayPlan
from blosc2._core.io.sharing import remembered
from blosc2._core.ndim.gaps import as_bytes, as_dtype
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read
from blosc2._frames import ZERO_OFFSET, AnyChunk, FrameHandle, FrameUpdate, StoredChunks
from blosc2._indexing import Items, Version
from blosc2._options import Codec, Filter, Support, run
from blosc2.storage import CParams

#: Uncompressed bytes of the items of a slab, except where one chunk has more.
SLAB_NBYTES: Final = 24 << 20

Shape = tuple[int, ...]
#: A slice with start and stop for each axis.
Box = tuple[slice, ...]


class Slab(NamedTuple):
    """A box of whole chunks, clipped to the shape: their numbers, its first item, and its items on each axis."""

    first: int
    stop: int
    starts: Shape
    counts: Shape


def slabs_in(geometry: Geometry, limit: int | None = None) -> Iterator[Slab]:
    """Divide an array into slabs, in the order of their chunks.

    A slab takes as many of the last axes whole as fit the limit, a piece of the axis before these, and one chunk along
    each other axis.
    """
    limit = SLAB_NBYTES if limit is None else limit
    if geometry.size == 0:
        return
    grid, shape, chunks = geometry.grid, geometry.shape, geometry.chunks
    axis = len(grid)
    inner, nbytes = 1, int(geometry.chunk_nbytes)
    while axis and nbytes * grid[axis - 1] <= limit:
        axis -= 1
        inner *= grid[axis]
        nbytes *= grid[axis]
    if axis == 0:
        yield Slab(0, inner, (0,) * len(shape), shape)
        return
    axis -= 1
    step = max(limit // nbytes, 1)
    number = 0
    for corner in np.ndindex(grid[:axis]):
        for row in range(0, grid[axis], step):
            low = (*corner, row) + (0,) * (len(grid) - axis - 1)
            high = (*(n + 1 for n in corner), min(row + step, grid[axis]), *grid[axis + 1 :])
            starts = tuple(n * chunk for n, chunk in zip(low, chunks))
            counts = tuple(min(n * c, length) - s for n, c, length, s in zip(high, chunks, shape, starts))
            stop = number + (high[axis] - row) * inner
            yield Slab(number, stop, starts, counts)
            number = stop


class Snapshot:
    """The current version of an array, for reading box by box. Later versions are not seen."""

    def __init__(self, version: Version, nthreads: int) -> None:
        self.version = version
        self.geometry, self.dtype, self.frame = version
        self.nthreads = nthreads
        self._offsets: list[int] = []
        self._chunks: StoredChunks | None = None  # made when one is asked for

    @classmethod
    def of(cls, handle: FrameHandle) -> Snapshot:
        """The current version of an array."""
        return cls(handle.array, handle.nthreads)  # type: ignore[arg-type]  # a handle of an array

    def with_geometry(self, geometry: Geometry) -> Snapshot:
        """The items under another geometry, whose chunks have the same bytes."""
        return Snapshot((geometry, self.dtype, self.frame), self.nthreads)

    def read(self, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int] | None = None,
             out: Items | None = None) -> Items:  # fmt: skip
        """A box of items, as a new array or in `out`, which has the shape of the box and any strides."""
        if out is None:
            out = np.empty(counts, self.dtype)
        if out.size:
            steps = (1,) * len(counts) if steps is None else steps
            operation = Read(self.frame, self.geometry, starts, steps, counts, out)
            run(operation, operation.cost, self.nthreads)
        return out

    def stored(self, nchunk: int) -> AnyChunk:
        """A stored chunk, where it lies if that has an address; or the offset that stands for a special one."""
        if self._chunks is None:
            self._offsets = FrameUpdate(self.frame).offsets.tolist()
            self._chunks = StoredChunks(self.frame)
        offset = self._offsets[nchunk]
        return offset if offset < 0 else self._chunks.at(nchunk, offset)


def compressed_box(plan: ArrayPlan, starts: Shape, items: Items) -> dict[int, AnyChunk]:
    """The chunks, by number, of a box of whole chunks with these items, which may have any strides."""
    made: dict[int, AnyChunk] = {}
    for chunks in plan.batches(starts, items, summed=False):
        made.update((number, one if isinstance(one, int) else bytes(one)) for number, one in chunks.items())
        chunks.clear()  # so that their memory can be used again for the next ones
    return made


def compressed_bands(
    plan: ArrayPlan, items_of: Callable[[Shape, Shape], Items], limit: int | None = None
) -> Iterator[AnyChunk]:
    """The chunks of an array in their order.

    `items_of` gives the items of a box, from its first item and its number of items on each axis. The limit is that of
    `slabs_in`.
    """
    for slab in slabs_in(plan.geometry, limit):
        yield from plan.compressed(items_of(slab.starts, slab.counts), slab.starts)


def converted(source: Snapshot, plan: ArrayPlan) -> Iterator[AnyChunk]:
    """The chunks of an array with the items of another of its shape, converted to its dtype."""
    limit = None
    if source.geometry.chunks == plan.geometry.chunks:
        # No block is decoded twice, and what was just decoded is compressed while it lies in the cache.
        limit = max(_PIECE_NBYTES, plan.cparams.nthreads * int(plan.geometry.chunk_nbytes))
    return compressed_bands(plan, lambda starts, counts: as_dtype(source.read(starts, counts), plan.dtype), limit)


def plan_like(array: Any, shape: Shape, dtype: np.dtype[Any], keywords: Mapping[str, Any], *,
              chunks: Shape | None = None, blocks: Shape | None = None) -> ArrayPlan:  # fmt: skip
    """A plan by the keywords of a caller and, where they say nothing, by another array.

    Its compression parameters are taken over as far as they change no item; `chunks` and `blocks` where the caller
    names neither.
    """
    keywords = dict(keywords)
    if keywords.get("cparams") is None:
        keywords["cparams"] = _parameters_like(array._handle.usable_cparams, array.dtype, dtype)
    if chunks is not None and blocks is not None and 0 in shape and not can_hold_items(chunks, blocks, dtype.itemsize):
        chunks = blocks = None
    if keywords.get("chunks") is None and keywords.get("blocks") is None:
        keywords.update(chunks=chunks, blocks=blocks)
    return ArrayPlan(shape, dtype, keywords)


def _parameters_like(old: CParams, old_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """Compression parameters of an array for the same items in another order, or of another type.

    None, for the default ones, where the old ones lose something, or depend on what lies beside what: that was a
    choice for those items in their order.
    """
    if not _serve_others(old.codec, *old.filters):
        return None
    names = ["codec", "codec_meta", "clevel", "use_dict", "splitmode", "nthreads"]
    if dtype.itemsize == old_dtype.itemsize and (dtype.kind == "U") == (old_dtype.kind == "U"):
        names += ["filters", "filters_meta"]
    return {name: getattr(old, name) for name in names}


@remembered(64)
def _serve_others(codec: Codec | int, *filters: Filter | int) -> bool:
    """Whether these change no item, and depend on none beside it."""
    for item in (codec, *filters):
        if not isinstance(item, (Codec, Filter)) or item.facts.support not in (Support.BLOCK, Support.WHOLE_CHUNK):
            return False
    return not any(isinstance(item, Filter) and item.facts.lossy for item in filters)


#: Uncompressed bytes of a piece, unless its chunks or the threads need more.
_PIECE_NBYTES: Final = 8 << 20


def made(plan: ArrayPlan, make: Callable[[Box], Items | None], *, start: int = 0) -> Iterator[AnyChunk]:
    """The chunks of items that are made when they are needed: `make` gives the items of a box, or None for zeros.

    Those before the number `start` are left out.
    """
    for slab in slabs_in(plan.geometry, _limit(plan)):
        if slab.stop <= start:
            continue
        items = make(tuple(slice(low, low + n) for low, n in zip(slab.starts, slab.counts, strict=True)))
        chunks: Iterator[AnyChunk] = repeat(ZERO_OFFSET, slab.stop - slab.first)
        chunks = chunks if items is None else plan.compressed(items, slab.starts)
        yield from islice(chunks, max(start - slab.first, 0), None)


def joined_rows(plan: ArrayPlan, slabs: Iterable[Items]) -> Iterator[AnyChunk]:
    """The chunks of items that come in slabs of `slab_height` rows. The last slab may have fewer."""
    geometry = plan.geometry
    row = 0
    for slab in slabs:
        # The slab's own numbering is the array's, less the chunks before it.
        part = Geometry(slab.shape, geometry.chunks, geometry.blocks, geometry.itemsize)
        for inner in slabs_in(part, _limit(plan)):
            box = tuple(slice(start, start + n) for start, n in zip(inner.starts, inner.counts, strict=True))
            yield from plan.compressed(slab[box], (row + inner.starts[0], *inner.starts[1:]))
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

    `as_array` turns a block into an array of the dtype, and `room` gives one of a shape and dtype in which rows wait.
    `ValueError` for a block of other axes, or too few or too many rows for the shape.
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
