"""Reading and writing the items of index arrays and masks: point by point, or through their bounding box."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from blosc2._core.ndim.gaps import as_bytes
from blosc2._core.ndim.geometry import Geometry
from blosc2._indexing.fancy import FancySelection, Indices

# A point costs about as much as decoding and copying so many bytes. A box with fewer bytes for each point is read
# as a whole, up to a limit.
_BYTES_PER_POINT = 512
_MOST_BOX_BYTES = 256 << 20
# Rows whose numbers become a list: more of them would take more memory than is worth it.
_MOST_ROWS = 1 << 20


class Points(NamedTuple):
    """Points as `_core.grid` takes them.

    Attributes
    ----------
    axes : tuple of int
        The axes that have them; there the box has start 0, step 1 and count 1.
    indices : tuple of int64 arrays
        For each of these axes, the index of each point; sorted by chunk, then by block.
    offsets : int64 array
        Where the items of each point begin in the NumPy array that is read into or written from, in bytes.
    groups : int64 array
        The first point of each chunk, then the number of points.
    strides : tuple of int
        Of the NumPy array in bytes, for each axis of the compressed one; 0 for those of points.
    """

    axes: tuple[int, ...]
    indices: tuple[Indices, ...]
    offsets: Indices
    groups: Indices
    strides: tuple[int, ...]


class BoundingBox(NamedTuple):
    """The smallest box around points.

    Attributes
    ----------
    starts, counts, steps : tuple of int
        For each axis of the array.
    indices : tuple of int64 arrays
        As those of the points, counted from the box's first item.
    """

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    indices: tuple[Indices, ...]


def bounding_box(fancy: FancySelection) -> BoundingBox:
    """The smallest box around the points of a selection."""
    starts, counts = list(fancy.starts), list(fancy.counts)
    indices = []
    for axis, index in zip(fancy.axes, fancy.indices, strict=True):
        low = int(index.min())
        starts[axis], counts[axis] = low, int(index.max()) - low + 1
        indices.append(index - low)
    return BoundingBox(tuple(starts), tuple(counts), fancy.steps, tuple(indices))


def is_dense(fancy: FancySelection, bounds: BoundingBox, itemsize: int) -> bool:
    """Whether reading the whole box costs less than reading its points."""
    nbytes = math.prod(count * step for count, step in zip(bounds.counts, bounds.steps, strict=True)) * itemsize
    return reads_whole(fancy.size, math.prod(fancy.counts) * itemsize, nbytes)


def reads_whole(count: int, each: int, nbytes: int) -> bool:
    """Whether reading a box of `nbytes` costs less than reading so many points of `each` bytes in it."""
    return nbytes <= min(_MOST_BOX_BYTES, count * (_BYTES_PER_POINT + each))


def is_rows(fancy: FancySelection, geometry: Geometry) -> bool:
    """Whether a selection picks whole rows by their numbers, each of which lies in one block."""
    rest = geometry.shape[1:]
    return (
        fancy.axes == (0,)
        and fancy.counts[1:] == rest == geometry.blocks[1:]
        and fancy.layout == tuple(range(len(fancy.layout)))
        and fancy.size <= _MOST_ROWS
    )


def points_first(fancy: FancySelection, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view of an array of the result's shape: one axis of points if possible, then the axes of the box."""
    lengths = [*fancy.points, *(fancy.counts[axis] for axis in fancy.box_axes)]
    view = items.reshape([lengths[n] for n in fancy.layout])
    return view.transpose(np.argsort(fancy.layout)) if fancy.layout else view


def take(fancy: FancySelection, bounds: BoundingBox, items: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """Copy points out of the box around them, to an array of the result's shape."""
    order = (*fancy.axes, *fancy.box_axes)
    found = as_bytes(items).transpose(order)[bounds.indices]
    target = points_first(fancy, as_bytes(out))
    target[...] = found.reshape(target.shape)


def put(fancy: FancySelection, bounds: BoundingBox, items: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> None:
    """The reverse: copy values of the result's shape to points of the box around them."""
    order = (*fancy.axes, *fancy.box_axes)
    source = points_first(fancy, value)
    counts = [fancy.counts[axis] for axis in fancy.box_axes]
    # Without index arrays, as after one boolean, there is one point and no axis for it.
    items.transpose(order)[bounds.indices] = source.reshape([fancy.size, *counts] if bounds.indices else counts)


def points_of(fancy: FancySelection, geometry: Geometry) -> Points:
    """Points in the order of chunks and blocks, with their offsets in a C-contiguous array of the result's shape."""
    itemsize = int(geometry.itemsize)
    lengths = [*fancy.points, *(fancy.counts[axis] for axis in fancy.box_axes)]
    strides = [0] * len(lengths)
    step = itemsize
    for n in reversed(fancy.layout):
        strides[n] = step
        step *= lengths[n]
    offsets = np.zeros(fancy.points, np.int64)
    for n, length in enumerate(fancy.points):
        offsets += (np.arange(length) * strides[n]).reshape((length,) + (1,) * (len(fancy.points) - n - 1))
    offsets = offsets.ravel()
    axis_strides = [0] * len(fancy.counts)
    for n, axis in enumerate(fancy.box_axes):
        axis_strides[axis] = strides[len(fancy.points) + n]

    chunk = np.zeros(len(offsets), np.int64)
    block = np.zeros(len(offsets), np.int64)
    # Copies, because another thread may change the caller's arrays after they were checked.
    indices = tuple(index.copy() for index in fancy.indices)
    for axis, index in zip(fancy.axes, indices, strict=True):
        length, part = geometry.chunks[axis], geometry.blocks[axis]
        nchunk = index // length
        chunk = chunk * geometry.grid[axis] + nchunk
        block = block * (-(-length // part)) + (index - nchunk * length) // part
    position = chunk * (int(block.max()) + 1) + block if len(block) else chunk
    if np.any(position[1:] < position[:-1]):
        # A stable sort, so that the last of two values for one item counts.
        order = np.argsort(position, kind="stable")
        chunk, offsets = chunk[order], offsets[order]
        indices = tuple(index[order] for index in indices)
    groups = np.concatenate(([0], np.flatnonzero(chunk[1:] != chunk[:-1]) + 1, [len(chunk)]))
    return Points(
        fancy.axes, indices, np.ascontiguousarray(offsets),
        groups if len(chunk) else np.zeros(1, np.int64), tuple(axis_strides),
    )  # fmt: skip


def pieces(mask: np.ndarray[Any, Any], geometry: Geometry) -> Iterator[tuple[int, int, int, int]]:
    """Parts of a mask over the leading axes: first row, last row + 1, and which of its true items lie there.

    They end where chunks end and are small enough to be read whole.
    """
    row = int(geometry.itemsize) * math.prod(geometry.shape[1:])
    step = max(int(geometry.chunks[0]), 1)
    step *= max(_MOST_BOX_BYTES // 4 // max(row * step, 1), 1)
    done = 0
    for first in range(0, geometry.shape[0], step):
        stop = min(first + step, geometry.shape[0])
        here = int(np.count_nonzero(mask[first:stop]))
        if here:
            yield first, stop, done, done + here
        done += here
