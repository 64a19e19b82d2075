"""Joining arrays along an axis. Chunks that stay whole are copied without decompressing them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from blosc2._arrays.slabs import Shape, Snapshot, compressed_box, slabs_in
from blosc2._arrays.spec import ArrayPlan
from blosc2._core.ndim.gaps import clear_gaps
from blosc2._frames import Stored
from blosc2._indexing import Items

_ENCODING = ("codec", "codec_meta", "clevel", "use_dict", "splitmode", "filters", "filters_meta")


class _Origin(NamedTuple):
    """The source of the chunks with one number on the axis: a part, and their number in the part."""

    part: int
    row: int


def joined(parts: Sequence[Snapshot], axis: int, plan: ArrayPlan, *, recompress: bool = False) -> Iterator[Stored]:
    """The chunks of an array that joins others along an axis.

    Parameters
    ----------
    parts : sequence of Snapshot
        Their shapes differ on the axis only; their items are converted to the dtype of the plan.
    axis : int
    plan : ArrayPlan
    recompress : bool
        Whether chunks are to be as the plan says, and not only their items.
    """
    geometry = plan.geometry
    if geometry.size == 0:
        return
    parts = [part for part in parts if part.geometry.size]
    ends = [0, *accumulate(part.geometry.shape[axis] for part in parts)]
    origins = _origins(parts, ends, axis, plan, recompress)
    inner = int(np.prod(geometry.grid[axis + 1 :], dtype=np.int64))
    for slab in slabs_in(geometry):
        made: dict[int, Stored] = {}
        chunk = geometry.chunks[axis]
        rows = range(slab.starts[axis] // chunk, -(-(slab.starts[axis] + slab.counts[axis]) // chunk))
        for copies, group in groupby(rows, lambda row: origins[row] is not None):
            if not copies:
                run = list(group)
                start = run[0] * chunk
                stop = min((run[-1] + 1) * chunk, geometry.shape[axis])
                starts, counts = list(slab.starts), list(slab.counts)
                starts[axis], counts[axis] = start, stop - start
                items = _gathered(parts, ends, axis, plan.dtype, tuple(starts), tuple(counts))
                made.update(compressed_box(plan, tuple(starts), items))
        for number in range(slab.first, slab.stop):
            before, row, behind = number // inner // len(origins), number // inner % len(origins), number % inner
            origin = origins[row]
            if origin is None:
                yield made.pop(number)
            else:
                part = parts[origin.part]
                yield part.stored((before * part.geometry.grid[axis] + origin.row) * inner + behind)


def _origins(
    parts: Sequence[Snapshot], ends: Sequence[int], axis: int, plan: ArrayPlan, recompress: bool
) -> list[_Origin | None]:
    """For each chunk number on the axis, where its chunks can be copied from. None if they cannot be copied."""
    geometry = plan.geometry
    chunk, length = geometry.chunks[axis], geometry.shape[axis]
    same = [_has_equal_chunks(part, plan, recompress) for part in parts]
    origins: list[_Origin | None] = []
    for row in range(geometry.grid[axis]):
        start, stop = row * chunk, min((row + 1) * chunk, length)
        number = bisect_right(ends, start) - 1
        within = start - ends[number]
        whole = same[number] and within % chunk == 0 and stop <= ends[number + 1]
        origins.append(_Origin(number, within // chunk) if whole else None)
    return origins


def _has_equal_chunks(part: Snapshot, plan: ArrayPlan, recompress: bool) -> bool:
    """Whether chunks of a part mean the same in the result."""
    frame, geometry = part.frame, plan.geometry
    return (
        part.dtype == plan.dtype
        and part.geometry.chunks == geometry.chunks
        and part.geometry.blocks == geometry.blocks
        and frame.typesize == plan.encoding.typesize
        # Such codecs and filters look at the number of axes too, and the header says what they need.
        and not frame.needs_geometry
        and not (recompress and any(getattr(frame, name) != getattr(plan.encoding, name) for name in _ENCODING))
    )


def _gathered(
    parts: Sequence[Snapshot], ends: Sequence[int], axis: int, dtype: np.dtype[Any], starts: Shape, counts: Shape
) -> Items:
    """A box of the result, read from the parts that it touches."""
    begin, end = starts[axis], starts[axis] + counts[axis]
    first = bisect_right(ends, begin) - 1
    out: Items | None = None
    for number, (low, high) in enumerate(pairwise(ends[first:]), first):
        if low >= end:
            break
        start, stop = max(begin, low), min(end, high)
        where, many = list(starts), list(counts)
        where[axis], many[axis] = start - low, stop - start
        part = parts[number]
        if out is None:
            if stop == end and part.dtype == dtype:
                return part.read(where, many)
            out = np.empty(counts, dtype)
        target = out[(slice(None),) * axis + (slice(start - begin, stop - begin),)]
        if part.dtype == dtype:
            part.read(where, many, out=target)
        else:
            target[...] = part.read(where, many)
            clear_gaps(target)
    assert out is not None
    return out
