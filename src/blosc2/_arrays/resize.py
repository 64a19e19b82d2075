"""Resizing: which chunks stay, which numbers they get, and what new items read.

Padding is never shown, so its contents are not known: a shrunk array, or another program, may have left items there.
Where an axis grows into the padding of chunks, they are compressed again if that is not zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from blosc2._arrays.axis_view import ViewHandle
from blosc2._arrays.chunk_shapes import as_shape, grown_partitions
from blosc2._core.ndim.gaps import contiguous
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read
from blosc2._core.ndim.grid_write import Write
from blosc2._frames import UNINIT_OFFSET, ZERO_OFFSET, FrameHandle, FrameUpdate, check_table

# In b2nd, behind three bytes and a marker, each length is 8 bytes after a marker of its own. Then, after a marker each,
# come chunks and blocks, of which each length is 4 bytes after a marker.
_NDIM, _FIRST_LENGTH = 2, 5
_LENGTH_STEP = 9


def resized_geometry(old: Geometry, shape: Any, axis: int | None = None) -> Geometry:
    """The geometry of an array with other lengths of its axes, or of one axis.

    An array that was made without items gets chunks when it gets items. `ValueError` for another number of axes, or
    chunks that can hold no items.
    """
    lengths = as_shape(shape, "shape")
    if axis is not None:
        axis = normalize_axis_index(axis, old.ndim)
        lengths = (*old.shape[:axis], *lengths, *old.shape[axis + 1 :])
    if len(lengths) != old.ndim:
        raise ValueError(f"Cannot resize array: it has {old.ndim} axes, the new shape {lengths} has {len(lengths)}")
    if 0 in old.chunks and 0 not in lengths:
        return Geometry(lengths, *grown_partitions(old, lengths), old.itemsize)
    if old.size == 0 and 0 not in lengths:  # they have not been checked yet
        try:
            Geometry((1,) * old.ndim, old.chunks, old.blocks, old.itemsize)
        except ValueError as error:
            raise ValueError(
                f"Cannot resize array: its chunks cannot hold items ({error}); make a new one with chunks"
            ) from None
    return Geometry(lengths, old.chunks, old.blocks, old.itemsize)


def rows_to_append(items: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Items in the shape that they have at the end of the first axis of an array; `ValueError` if they do not fit."""
    if not shape:
        raise ValueError("an array without axes has no end to append to")
    if len(shape) == 1:
        return contiguous(items).reshape(-1)
    rows = items[None] if items.shape == shape[1:] else items
    if rows.shape[1:] != shape[1:] or rows.ndim != len(shape):
        raise ValueError(
            f"rows to append to an array of shape {shape} need the shape {('n', *shape[1:])}, not {items.shape}"
        )
    return contiguous(rows)


def resize_update(handle: FrameHandle, update: FrameUpdate, new: Geometry, *, filled: bool = False) -> bool:
    """Give an update of the current frame another geometry. New items read as zeros, unless all of them are `filled`.

    It returns whether chunks that stay get another number, so that the frame has to be written anew.
    """
    if isinstance(handle, ViewHandle):
        raise ValueError("cannot resize this array: it is a view; resize the array below it, or a copy")
    old, dtype, _ = handle.array  # type: ignore[misc]
    stored = update.metalayers["b2nd"][_NDIM]
    if old.shape[stored:] != new.shape[stored:] or (old.chunks != new.chunks and stored < new.ndim):
        raise ValueError(
            f"cannot resize this array: axes from {stored} on belong to the dtype in its file; resize a copy"
        )
    update.require_table(old.nchunks)
    check_table(new.nchunks, update.frame.file_size)
    if old.size and new.size and not filled:
        for nchunk in _chunks_with_padding_to_show(old, new):
            offset = int(update.offsets[nchunk])
            if offset not in (ZERO_OFFSET, UNINIT_OFFSET) and _has_items_in_padding(handle, old, new, dtype, nchunk):
                update.replace(nchunk, _with_zero_padding(handle, old, dtype, nchunk))
    renumbered = _keep_chunks(update, _grid(old), _grid(new))
    update.sizes = np.full(new.nchunks, new.chunk_nbytes, np.int64)
    if new.size:
        update.chunksize = new.chunk_nbytes
    packed = bytearray(update.metalayers["b2nd"])
    for axis, length in enumerate(new.shape[:stored]):
        at = _FIRST_LENGTH + _LENGTH_STEP * axis
        packed[at : at + 8] = length.to_bytes(8, "big")
    at = _FIRST_LENGTH + _LENGTH_STEP * stored - 1
    for lengths in (new.chunks, new.blocks) if old.chunks != new.chunks else ():
        for length in lengths:
            packed[at + 2 : at + 6] = length.to_bytes(4, "big")
            at += 5
        at += 1
    update.metalayers["b2nd"] = bytes(packed)
    return renumbered


def _keep_chunks(update: FrameUpdate, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Give the table of an update the chunks of a new grid. Returns whether some that stay get another number."""
    offsets = np.full(math.prod(new), ZERO_OFFSET, np.int64)
    if old[1:] == new[1:]:  # rows of chunks come, or go, at the end
        kept = min(len(offsets), math.prod(old))  # a frame may have more chunks than the array
        offsets[:kept] = update.offsets[:kept]
        update.offsets = offsets
        update.new = {number: stored for number, stored in update.new.items() if number < kept}
        return False
    numbers = np.full(new, -1, np.int64)
    both = tuple(slice(0, min(pair)) for pair in zip(old, new, strict=True))
    numbers[both] = np.arange(math.prod(old)).reshape(old)[both]
    before = numbers.reshape(-1)
    stays = before >= 0
    offsets[stays] = update.offsets[before[stays]]
    if update.new:
        replaced = np.zeros(math.prod(old), bool)
        replaced[list(update.new)] = True
        indices = {int(before[index]): int(index) for index in np.flatnonzero(stays & replaced[before])}
        update.new = {indices[number]: stored for number, stored in update.new.items() if number in indices}
    update.offsets = offsets
    return bool(np.any(np.flatnonzero(stays) != before[stays]))


def _grid(geometry: Geometry) -> tuple[int, ...]:
    """Chunks on each axis, also of an array without items."""
    return geometry.grid if geometry.size else (0,) * geometry.ndim


def _chunks_with_padding_to_show(old: Geometry, new: Geometry) -> list[int]:
    """Numbers, in the old grid, of chunks whose padding becomes part of the array."""
    last = [
        was - 1 if now > length and length % chunk else None
        for was, length, now, chunk in zip(old.grid, old.shape, new.shape, old.chunks, strict=True)
    ]
    if not any(edge is not None for edge in last):
        return []
    chosen = np.zeros(old.grid, bool)
    for axis, edge in enumerate(last):
        if edge is not None:
            chosen[(slice(None),) * axis + (edge,)] = True
    # Chunks that are dropped need no change.
    for axis, (length, chunk) in enumerate(zip(new.shape, old.chunks, strict=True)):
        chosen[(slice(None),) * axis + (slice(-(-length // chunk), None),)] = False
    return [int(number) for number in np.flatnonzero(chosen)]


def _has_items_in_padding(handle: FrameHandle, old: Geometry, new: Geometry, dtype: np.dtype[Any], nchunk: int) -> bool:
    """Whether anything but zeros lies in the padding of a chunk that a new shape shows."""
    frame = handle.frame
    first = [int(n) * chunk for n, chunk in zip(np.unravel_index(nchunk, old.grid), old.chunks, strict=True)]
    last = [min(at + chunk, length) for at, chunk, length in zip(first, old.chunks, new.shape, strict=True)]
    # With the padding as items, the chunks have the same numbers.
    padded = Geometry(
        [n * chunk for n, chunk in zip(old.grid, old.chunks, strict=True)], old.chunks, old.blocks, old.itemsize
    )
    for axis, length in enumerate(old.shape):
        starts = first.copy()
        starts[axis] = length
        if first[axis] < length < last[axis]:
            items = np.empty([stop - start for start, stop in zip(starts, last, strict=True)], dtype)
            operation = Read(frame, padded, starts, (1,) * old.ndim, items.shape, items)
            operation.run()
            operation.finish()
            if items.view(np.uint8).any():
                return True
    return False


def _with_zero_padding(handle: FrameHandle, geometry: Geometry, dtype: np.dtype[Any], nchunk: int) -> bytes | int:
    """A chunk compressed anew: its visible items, and zeros in the padding."""
    frame = handle.frame
    index = np.unravel_index(nchunk, geometry.grid)
    starts = tuple(int(n) * chunk for n, chunk in zip(index, geometry.chunks, strict=True))
    counts = tuple(
        min(chunk, length - start) for start, chunk, length in zip(starts, geometry.chunks, geometry.shape, strict=True)
    )
    steps = (1,) * geometry.ndim
    items = np.empty(counts, dtype)
    for operation in (
        Read(frame, geometry, starts, steps, counts, items),
        Write(None, geometry, starts, steps, counts, items,
              handle.encoding(blocksize=int(geometry.block_nbytes)), frame.plugin),
    ):  # fmt: skip
        operation.run()
        operation.finish()
    chunks: dict[int, bytes | int] = operation.take_chunks()  # type: ignore[union-attr]
    return chunks[nchunk]
