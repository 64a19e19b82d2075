"""Writing items: the new chunks for a selection, compressed and ready to be published."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blosc2._core.ndim.gaps import contiguous
from blosc2._core.ndim.grid_write import Write
from blosc2._files import Spool, Spooled
from blosc2._handles import FrameHandle
from blosc2._indexing.keys import FancySelection, advanced_selection, as_items, basic_selection, plain_key, with_rows
from blosc2._indexing.read_items import (
    Version,
    as_box,
    bounding_box,
    is_dense,
    is_mask,
    is_names,
    pieces,
    points_of,
    put,
    read,
    read_whole,
    reads_whole,
)
from blosc2._options import compressed

Chunks = dict[int, bytes | Spooled | int]
Items = np.ndarray[Any, Any]


def chunks_with(version: Version, handle: FrameHandle, key: Any, value: Any) -> Chunks:
    """The chunks of an array after ``array[key] = value``, by number; only those that the key touches.

    Raises
    ------
    ValueError
        The value does not fit the key (`ShapeError`).
    """
    geometry, dtype, _ = version
    selection = basic_selection(key, geometry.shape)
    if selection is not None:
        source = as_items(value, dtype, selection.shape)
        if selection.flip is not None:
            source = source[selection.flip]
        return _write_box(
            version, handle, handle.spool(), selection.starts, selection.steps, selection.counts,
            as_box(source, selection),
        )  # fmt: skip
    key = plain_key(key)
    if is_names(key):
        whole = read_whole(version, handle.nthreads)
        whole[key] = value
        return _write_all(version, handle, whole)
    if is_mask(key, geometry.shape):
        return _write_masked(version, handle, key, value)
    fancy = advanced_selection(key, geometry.shape)
    return write_fancy(version, handle, fancy, as_items(value, dtype, fancy.shape))


def _write_all(version: Version, handle: FrameHandle, items: Items) -> Chunks:
    geometry = version[0]
    ndim = geometry.ndim
    return _write_box(version, handle, handle.spool(), (0,) * ndim, (1,) * ndim, geometry.shape, items)


def _write_box(
    version: Version, handle: FrameHandle, spool: Spool, starts: Any, steps: Any, counts: Any, source: Items,
    points: Any = None,
) -> Chunks:  # fmt: skip
    geometry, _, frame = version
    operation = Write(
        frame, geometry, starts, steps, counts, source, handle.encoding(blocksize=int(geometry.block_nbytes)),
        handle.plugin(), points,
    )  # fmt: skip
    return compressed(operation, geometry.chunk_nbytes, handle.cparams.nthreads, spool.keep)


def _write_masked(version: Version, handle: FrameHandle, mask: Items, value: Any) -> Chunks:
    """Write part by part, so that the memory depends on the size of a part."""
    geometry, dtype, _ = version
    count = int(np.count_nonzero(mask))
    source = as_items(value, dtype, (count, *geometry.shape[mask.ndim :]))
    chunks: Chunks = {}
    spool = handle.spool()
    for first, stop, begin, end in pieces(mask, geometry):
        rows = (stop - first, *geometry.shape[1:])
        if reads_whole(end - begin, math.prod(source.shape[1:]) * dtype.itemsize, math.prod(rows) * dtype.itemsize):
            items = read(version, slice(first, stop), handle.nthreads)
            items[mask[first:stop]] = source[begin:end]
            starts = (first,) + (0,) * (geometry.ndim - 1)
            chunks |= _write_box(version, handle, spool, starts, (1,) * geometry.ndim, rows, items)
        else:
            fancy = with_rows(advanced_selection(mask[first:stop], rows), first)
            chunks |= write_fancy(version, handle, fancy, source[begin:end], spool)
    return chunks


def write_fancy(
    version: Version, handle: FrameHandle, fancy: FancySelection, source: Items, spool: Spool | None = None
) -> Chunks:
    """The new chunks after an assignment to a selection with arrays."""
    geometry, dtype, _ = version
    spool = handle.spool() if spool is None else spool
    if source.size == 0:
        return {}
    if fancy.flip is not None:
        source = source[fancy.flip]
    bounds = bounding_box(fancy)
    if is_dense(fancy, bounds, dtype.itemsize):
        box = tuple(
            slice(start, start + step * (count - 1) + 1, step)
            for start, step, count in zip(bounds.starts, bounds.steps, bounds.counts, strict=True)
        )
        items = read(version, box, handle.nthreads)
        put(fancy, bounds, items, source)
        return _write_box(version, handle, spool, bounds.starts, bounds.steps, bounds.counts, items)
    source = contiguous(source).reshape(source.shape)
    points = points_of(fancy, geometry)
    return _write_box(version, handle, spool, fancy.starts, fancy.steps, fancy.counts, source, points)
