"""Making an array from other arrays, slab by slab, so that none of them has to fit into memory.

A slab is a box of whole chunks of the result, with consecutive numbers. The items of one slab are read and compressed
before those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays.chunk_shapes import can_hold_items
from blosc2._arrays.spec import ArrayPlan
from blosc2._core.ndim.gaps import as_dtype
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, work_of
from blosc2._core.ndim.grid_write import Write
from blosc2._frames import FrameUpdate, Stored
from blosc2._handles import FrameHandle
from blosc2._indexing import Items, Version
from blosc2._options import Codec, Filter, Support, compress, compressed, run
from blosc2.storage import CParams

#: Uncompressed bytes of the items of a slab, except where one chunk has more.
SLAB_NBYTES: Final = 24 << 20

Shape = tuple[int, ...]


class Slab(NamedTuple):
    """A box of whole chunks, clipped to the shape.

    Attributes
    ----------
    first, stop : int
        Numbers of its chunks.
    starts, counts : tuple of int
        Its first item and its items on each axis.
    """

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
    """The current version of an array, for reading box by box. Later versions are not seen.

    Parameters
    ----------
    version : tuple of Geometry, dtype and Frame
    nthreads : int
        For reading.
    """

    def __init__(self, version: Version, nthreads: int) -> None:
        self.version = version
        self.geometry, self.dtype, self.frame = version
        self.nthreads = nthreads
        self._offsets: list[int] | None = None

    @classmethod
    def of(cls, handle: FrameHandle) -> Snapshot:
        """The current version of an array."""
        return cls(handle.array, handle.nthreads)  # type: ignore[arg-type]  # a handle of an array

    def with_geometry(self, geometry: Geometry) -> Snapshot:
        """The same items under another geometry, whose chunks have the same bytes."""
        return Snapshot((geometry, self.dtype, self.frame), self.nthreads)

    def read(self, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int] | None = None,
             out: Items | None = None) -> Items:  # fmt: skip
        """A box of items, as a new array or in `out`, which has the shape of the box and any strides."""
        if out is None:
            out = np.empty(counts, self.dtype)
        if out.size:
            steps = (1,) * len(counts) if steps is None else steps
            operation = Read(self.frame, self.geometry, starts, steps, counts, out)
            run(operation, work_of(out.nbytes, self.frame), self.nthreads)
        return out

    def stored(self, nchunk: int) -> Stored:
        """A stored chunk, or the offset that stands for a special one."""
        if self._offsets is None:
            self._offsets = FrameUpdate(self.frame).offsets.tolist()
        offset = self._offsets[nchunk]
        return offset if offset < 0 else self.frame.chunk_stored_at(offset)


def compressed_box(plan: ArrayPlan, starts: Shape, items: Items) -> dict[int, Stored]:
    """The chunks, by number, of a box of whole chunks with these items, which may have any strides."""
    operation = Write(None, plan.geometry, starts, (1,) * items.ndim, items.shape, items, plan.encoding, plan.plugin())
    return dict(compressed(operation, plan.geometry.chunk_nbytes, plan.cparams.nthreads))


def compressed_in_order(plan: ArrayPlan, starts: Shape, items: Items) -> Iterator[Stored]:
    """The same for a slab, in the order of their numbers. Write or copy each chunk before taking the next."""
    for batch in batches_in_order(plan, starts, items):
        batch.reverse()
        while batch:
            yield batch.pop()


def batches_in_order(plan: ArrayPlan, starts: Shape, items: Items) -> Iterator[list[Stored]]:
    """The same in lists of some chunks; let go of those of one list before taking the next but one."""
    operation = Write(None, plan.geometry, starts, (1,) * items.ndim, items.shape, items, plan.encoding, plan.plugin())
    operation.summed = plan.summed
    for chunks in compress(operation, plan.geometry.chunk_nbytes, plan.cparams.nthreads):
        batch: list[Stored] = [chunks[number] for number in sorted(chunks)]
        chunks.clear()  # the caller says when their memory can be used again
        yield batch


def compressed_bands(plan: ArrayPlan, items_of: Callable[[Shape, Shape], Items]) -> Iterator[Stored]:
    """The chunks of an array in their order.

    `items_of` gives the items of a box, from its first item and its number of items on each axis.
    """
    for slab in slabs_in(plan.geometry):
        yield from compressed_in_order(plan, slab.starts, items_of(slab.starts, slab.counts))


def converted(source: Snapshot, plan: ArrayPlan) -> Iterator[Stored]:
    """The chunks of an array with the items of another of its shape, converted to its dtype."""
    return compressed_bands(plan, lambda starts, counts: as_dtype(source.read(starts, counts), plan.dtype))


def plan_like(array: Any, shape: Shape, dtype: np.dtype[Any], keywords: Mapping[str, Any], *,
              chunks: Shape | None = None, blocks: Shape | None = None) -> ArrayPlan:  # fmt: skip
    """A plan by the keywords of a caller and, where they say nothing, by another array.

    Parameters
    ----------
    array : NDArray
        Its compression parameters are taken over as far as they change no item.
    shape, dtype
    keywords : mapping
        Of a constructor.
    chunks, blocks : tuple of int, optional
        Where the caller names neither.
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
    for item in (old.codec, *old.filters):
        if not isinstance(item, (Codec, Filter)) or item.facts.support not in (Support.BLOCK, Support.WHOLE_CHUNK):
            return None
    if any(item.facts.lossy for item in old.filters):
        return None
    names = ["codec", "codec_meta", "clevel", "use_dict", "splitmode", "nthreads"]
    if dtype.itemsize == old_dtype.itemsize and (dtype.kind == "U") == (old_dtype.kind == "U"):
        names += ["filters", "filters_meta"]
    return {name: getattr(old, name) for name in names}
