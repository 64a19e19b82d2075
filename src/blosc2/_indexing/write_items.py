"""Writing items: the new chunks for a selection, compressed and ready to be published."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from blosc2._core.ndim.gaps import contiguous
from blosc2._core.ndim.grid_write import Write
from blosc2._files import BUDGET, Spool, Spooled
from blosc2._frames import FrameHandle
from blosc2._indexing.keys import (
    FancySelection,
    Selection,
    advanced_selection,
    as_items,
    basic_selection,
    orthogonal_selection,
    plain_key,
    with_rows,
)
from blosc2._indexing.read_items import (
    BoundingBox,
    Version,
    bounding_box,
    is_dense,
    is_mask,
    is_names,
    pieces,
    points_of,
    put,
    read,
    reads_whole,
)
from blosc2._options import compressed

Chunks = dict[int, bytes | Spooled | int]
Box = Selection | BoundingBox | FancySelection
Items = np.ndarray[Any, Any]


def chunks_with(version: Version, handle: FrameHandle, key: Any, value: Any) -> Chunks:
    """The chunks of an array after ``array[key] = value``, by number; only those that the key touches.

    `ShapeError`, a `ValueError`, for a value that does not fit the key.
    """
    geometry, dtype, _ = version
    selection = basic_selection(key, geometry.shape)
    if selection is not None:
        source = as_items(value, dtype, selection.shape)
        if selection.flip is not None:
            source = source[selection.flip]
        if source.shape != selection.counts:  # only axes of length 1 are added or removed
            source = source.reshape(selection.counts)
        return write_box(version, handle, selection, source)
    key = plain_key(key)
    if is_names(key):
        whole = read(version, ..., handle.nthreads)
        whole[key] = value
        everything: Any = basic_selection(..., geometry.shape)
        return write_box(version, handle, everything, whole)
    if is_mask(key, geometry.shape):
        return _write_masked(version, handle, key, value)
    fancy = advanced_selection(key, geometry.shape)
    return _write_fancy(version, handle, fancy, as_items(value, dtype, fancy.shape))


def orthogonal_chunks(version: Version, handle: FrameHandle, key: Any, value: Any) -> Chunks:
    """The chunks of an array after ``array.oindex[key] = value``; see `chunks_with`."""
    fancy = orthogonal_selection(key, version[0].shape)
    return _write_fancy(version, handle, fancy, as_items(value, version[1], fancy.shape))


def write_box(
    version: Version, handle: FrameHandle, box: Box, source: Items, spool: Spool | None = None, points: Any = None
) -> Chunks:
    """The new chunks after an assignment to a box of items, or to points in it."""
    geometry, _, frame = version
    encoding = handle.encoding(blocksize=int(geometry.block_nbytes))
    operation = Write(frame, geometry, box.starts, box.steps, box.counts, source, encoding, frame.plugin, points)
    keep: Callable[[Any], bytes | Spooled] = bytes
    if spool is not None or operation.tasks * geometry.chunk_nbytes > BUDGET:
        keep = (spool or handle.spool()).keep
    return compressed(operation, geometry.chunk_nbytes, handle.cparams.nthreads, keep)


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
            part: Any = basic_selection(slice(first, stop), geometry.shape)
            chunks |= write_box(version, handle, part, items, spool)
        else:
            fancy = with_rows(advanced_selection(mask[first:stop], rows), first)
            chunks |= _write_fancy(version, handle, fancy, source[begin:end], spool)
    return chunks


def _write_fancy(
    version: Version, handle: FrameHandle, fancy: FancySelection, source: Items, spool: Spool | None = None
) -> Chunks:
    """The new chunks after an assignment to a selection with arrays."""
    geometry, dtype, _ = version
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
        return write_box(version, handle, bounds, items, spool)
    source = contiguous(source).reshape(source.shape)
    return write_box(version, handle, fancy, source, spool, points_of(fancy, geometry))
