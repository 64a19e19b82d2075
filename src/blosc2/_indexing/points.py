"""Reading and writing the items of index arrays and masks: point by point, or through their bounding box."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from blosc2._core.ndim.geometry import Geometry
from blosc2._indexing.fancy import Indices, Picked

# A point costs about as much as decoding and copying so many bytes, so a box of fewer of them for each point is read
# whole, up to a size.
_BYTES_PER_POINT = 512
_MOST_BOX_BYTES = 256 << 20


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


class Hull(NamedTuple):
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


def hull_of(picked: Picked) -> Hull:
    """The smallest box around the points of a selection."""
    starts, counts = list(picked.starts), list(picked.counts)
    indices = []
    for axis, index in zip(picked.axes, picked.indices, strict=True):
        low = int(index.min())
        starts[axis], counts[axis] = low, int(index.max()) - low + 1
        indices.append(index - low)
    return Hull(tuple(starts), tuple(counts), picked.steps, tuple(indices))


def is_dense(picked: Picked, hull: Hull, itemsize: int) -> bool:
    """Whether reading the whole box costs less than reading its points."""
    nbytes = math.prod(count * step for count, step in zip(hull.counts, hull.steps, strict=True)) * itemsize
    return reads_whole(picked.size, math.prod(picked.counts) * itemsize, nbytes)


def reads_whole(count: int, each: int, nbytes: int) -> bool:
    """Whether reading a box of `nbytes` costs less than reading so many points of `each` bytes in it."""
    return nbytes <= min(_MOST_BOX_BYTES, count * (_BYTES_PER_POINT + each))


def points_first(picked: Picked, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view of an array of the result's shape: one axis of points, if they can be one, then the box's axes."""
    lengths = [*picked.points, *(picked.counts[axis] for axis in picked.box_axes)]
    view = items.reshape([lengths[n] for n in picked.layout])
    return view.transpose(np.argsort(picked.layout)) if picked.layout else view


def as_bytes(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory for copies, with the bytes between fields.

    NumPy leaves these out, and what lay in the memory of a fresh result would show there.
    """
    return items if items.dtype.names is None else items.view(np.dtype((np.void, items.dtype.itemsize)))


def take(picked: Picked, hull: Hull, items: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """Pick points out of the items of the box around them, into an array of the result's shape."""
    order = (*picked.axes, *picked.box_axes)
    found = as_bytes(items).transpose(order)[hull.indices]
    target = points_first(picked, as_bytes(out))
    target[...] = found.reshape(target.shape)


def put(picked: Picked, hull: Hull, items: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> None:
    """The reverse: put values of the result's shape at points of the box around them."""
    order = (*picked.axes, *picked.box_axes)
    source = points_first(picked, value)
    counts = [picked.counts[axis] for axis in picked.box_axes]
    # Without index arrays, as after one boolean, there is one point and no axis for it.
    items.transpose(order)[hull.indices] = source.reshape([picked.size, *counts] if hull.indices else counts)


def points_of(picked: Picked, geometry: Geometry) -> Points:
    """Points in the order of chunks and blocks, with their places in a C-contiguous array of the result's shape."""
    itemsize = int(geometry.itemsize)
    lengths = [*picked.points, *(picked.counts[axis] for axis in picked.box_axes)]
    strides = [0] * len(lengths)
    step = itemsize
    for n in reversed(picked.layout):
        strides[n] = step
        step *= lengths[n]
    offsets = np.zeros(picked.points, np.int64)
    for n, length in enumerate(picked.points):
        offsets += (np.arange(length) * strides[n]).reshape((length,) + (1,) * (len(picked.points) - n - 1))
    offsets = offsets.ravel()
    axis_strides = [0] * len(picked.counts)
    for n, axis in enumerate(picked.box_axes):
        axis_strides[axis] = strides[len(picked.points) + n]

    chunk = np.zeros(len(offsets), np.int64)
    block = np.zeros(len(offsets), np.int64)
    # Copies: the caller's own arrays may be changed by another thread once they have been checked.
    indices = tuple(index.copy() for index in picked.indices)
    for axis, index in zip(picked.axes, indices, strict=True):
        length, part = geometry.chunks[axis], geometry.blocks[axis]
        nchunk = index // length
        chunk = chunk * geometry.grid[axis] + nchunk
        block = block * (-(-length // part)) + (index - nchunk * length) // part
    position = chunk * (int(block.max()) + 1) + block if len(block) else chunk
    if np.any(position[1:] < position[:-1]):
        # Stable, so that of two values for one item the last one counts.
        order = np.argsort(position, kind="stable")
        chunk, offsets = chunk[order], offsets[order]
        indices = tuple(index[order] for index in indices)
    groups = np.concatenate(([0], np.flatnonzero(chunk[1:] != chunk[:-1]) + 1, [len(chunk)]))
    return Points(
        picked.axes, indices, np.ascontiguousarray(offsets),
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
