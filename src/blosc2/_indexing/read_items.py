"""Reading the items of a selection: one, many together, single items, and without a copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.gaps import as_bytes
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, ReadMany, check_out, read_basic_into, work_of
from blosc2._frames import CHUNK_HEADER
from blosc2._indexing.keys import (
    FancySelection,
    Indices,
    Selection,
    advanced_selection,
    basic_selection,
    orthogonal_selection,
    plain_key,
    with_rows,
)
from blosc2._options import run


def view_items(version: Version, key: Any) -> np.ndarray[Any, Any]:
    """A read-only view of the items of a key, of integers and slices; it keeps the mapping or buffer alive.

    `ValueError` with the reason why they cannot be had without a copy.
    """
    geometry, dtype, frame = version
    selection = basic_selection(key, geometry.shape)
    if selection is None:
        raise _needs_copy("a view takes integers and slices")
    if 0 in selection.counts:
        empty = np.empty(selection.shape, dtype)
        empty.flags.writeable = False
        return empty
    last = [a + s * (n - 1) for a, s, n in zip(selection.starts, selection.steps, selection.counts, strict=True)]
    coords = _part(selection.starts, last, geometry.chunks)
    if coords is None:
        raise _needs_copy(
            f"they lie in more than one chunk, with other bytes between; chunks have shape {geometry.chunks}: "
            "view the parts, or store the array in one chunk"
        )
    nchunk = 0
    for coord, length in zip(coords, geometry.grid, strict=True):
        nchunk = nchunk * length + coord
    offset, _, _, _, raw, _ = frame.chunk_info(nchunk)
    if not raw or offset is None:
        raise _needs_copy(f"chunk {nchunk} is compressed; arrays written with clevel=0 can be viewed")
    try:
        memory = memoryview(frame.source)
    except BufferError:
        raise _needs_copy("the file is not mapped: open it with mmap_mode='r'") from None
    data = memory[offset + CHUNK_HEADER : offset + CHUNK_HEADER + int(geometry.chunk_nbytes)]
    return _select(data, geometry, dtype, selection, coords, last)


def _select(
    data: memoryview, geometry: Geometry, dtype: np.dtype[Any], selection: Selection, coords: list[int], last: list[int]
) -> np.ndarray[Any, Any]:
    """The items of a selection in the bytes of its chunk."""
    origin = [coord * length for coord, length in zip(coords, geometry.chunks, strict=True)]
    shape = tuple(-(-c // b) * b for c, b in zip(geometry.chunks, geometry.blocks, strict=True))
    if not _follow_each_other(geometry):
        # Items are in C order within a block only.
        first = [a - o for a, o in zip(selection.starts, origin, strict=True)]
        block = _part(first, [b - o for b, o in zip(last, origin, strict=True)], geometry.blocks)
        if block is None:
            raise _needs_copy(
                f"they lie in more than one block of shape {geometry.blocks}, which do not follow each other in C "
                "order: view the parts, or store the array with blocks that do"
            )
        nblock = 0
        for coord, length, whole in zip(block, geometry.blocks, geometry.chunks, strict=True):
            nblock = nblock * -(-whole // length) + coord
        nbytes = int(geometry.block_nbytes)
        data = data[nblock * nbytes : (nblock + 1) * nbytes]
        origin = [o + coord * length for o, coord, length in zip(origin, block, geometry.blocks, strict=True)]
        shape = geometry.blocks
    items: np.ndarray[Any, Any] = np.ndarray(shape, dtype, data)
    local: Any = tuple(
        slice(a - o, b - o + 1, s) for a, b, s, o in zip(selection.starts, last, selection.steps, origin, strict=True)
    )
    # Without the ellipsis, NumPy would give a scalar instead of a 0-d array. Only axes of length 1 come or go.
    found = items[(*local, ...)].reshape(selection.shape)
    return found if selection.flip is None else found[selection.flip]


def _follow_each_other(geometry: Geometry) -> bool:
    """Whether the blocks of a chunk lie along one axis, so that its padded items are in C order."""
    whole = True
    for block, chunk in zip(reversed(geometry.blocks), reversed(geometry.chunks), strict=True):
        if not whole and block != 1:
            return False
        whole = whole and block == chunk
    return True


def _needs_copy(why: str) -> ValueError:
    return ValueError(f"the items cannot be had without a copy: {why}")


def _part(first: Any, last: Any, lengths: tuple[int, ...]) -> list[int] | None:
    """The chunk or block that holds a whole box. None if the box lies in several."""
    parts = [a // n for a, n in zip(first, lengths, strict=True)]
    return parts if parts == [b // n for b, n in zip(last, lengths, strict=True)] else None


# A point costs about as much as decoding and copying so many bytes. A box with fewer bytes for each point is read
# as a whole, up to a limit.
_BYTES_PER_POINT = 512
_MOST_BOX_BYTES = 256 << 20
# Bytes that a mask is applied to at a time: they and the numbers of its true items stay in the processor's cache.
_PIECE_BYTES = 4 << 20
# Rows whose numbers become a list: more of them would take more memory than is worth it.
_MOST_ROWS = 1 << 20


class Points(NamedTuple):
    """Points as `_core.ndim.geometry` takes them.

    `axes` are those that have them; there the box has start 0, step 1 and count 1. For each of these, `indices` has the
    index of each point, sorted by chunk, then by block. `offsets` says where the items of each point begin in the NumPy
    array that is read into or written from, in bytes, `groups` the first point of each chunk, then the number of
    points. `strides` are those of the NumPy array in bytes, for each axis of the compressed one; 0 for those of points.
    """

    axes: tuple[int, ...]
    indices: tuple[Indices, ...]
    offsets: Indices
    groups: Indices
    strides: tuple[int, ...]


class BoundingBox(NamedTuple):
    """The smallest box around points; `indices` are those of the points, counted from the box's first item."""

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
    if fancy.layout == tuple(range(items.ndim)):
        return items
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
    step *= max(_PIECE_BYTES // max(row * step, 1), 1)
    done = 0
    for first in range(0, geometry.shape[0], step):
        stop = min(first + step, geometry.shape[0])
        here = int(np.count_nonzero(mask[first:stop]))
        if here:
            yield first, stop, done, done + here
        done += here


#: What is read: geometry, dtype and frame of one version of an array.
Version = tuple[Geometry, np.dtype[Any], Frame]
Items = np.ndarray[Any, Any]


def read(version: Version, key: Any, nthreads: int, out: Items | None = None) -> Items:
    """The items of a key, as NumPy would give them; in `out` if it was given."""
    items = read_basic_into(version, key, nthreads, out)
    return read_other(version, key, nthreads, out) if items is None else items


def read_other(version: Version, key: Any, nthreads: int, out: Items | None = None) -> Items:
    """The items of a key that `_core` does not handle: with `None`, arrays, a mask or names of fields."""
    geometry, dtype, frame = version
    selection = basic_selection(key, geometry.shape)
    if selection is None:
        return _read_by_arrays(version, plain_key(key), nthreads, out)
    out = _new_or_checked(out, selection.shape, dtype)
    target = out if selection.flip is None else out[selection.flip]
    operation = Read(frame, geometry, selection.starts, selection.steps, selection.counts, as_box(target, selection))
    run(operation, operation.cost, nthreads)
    return out


def read_orthogonal(version: Version, key: Any, nthreads: int) -> Items:
    """The items of a key for each axis, and all combinations of these; see `NDArray.oindex`."""
    fancy = orthogonal_selection(key, version[0].shape)
    out = np.empty(fancy.shape, version[1])
    read_fancy(version, fancy, nthreads, out)
    return out


def as_box(items: Items, selection: Selection) -> Items:
    """A view of an array of a selection's shape, with one axis for each axis of the source array."""
    # Only axes of length 1 are added or removed, so nothing is copied.
    return items if items.shape == selection.counts else items.reshape(selection.counts)


def _read_by_arrays(version: Version, key: Any, nthreads: int, out: Items | None) -> Items:
    geometry, dtype, _ = version
    if is_names(key):
        # NumPy's own view of some fields.
        fields = read(version, ..., nthreads)[key]
        found = np.zeros(fields.shape, fields.dtype)  # the bytes of other fields stay, and are not copied
        found[...] = fields
        if out is None:
            return found
        check_out(out, found.shape, found.dtype)
        out[...] = found
        return out
    if is_mask(key, geometry.shape):
        count = int(np.count_nonzero(key))
        out = _new_or_checked(out, (count, *geometry.shape[key.ndim :]), dtype)
        for first, stop, begin, end in pieces(key, geometry):
            _read_rows(version, key[first:stop], first, nthreads, out[begin:end])
        return out
    fancy = advanced_selection(key, geometry.shape)
    out = _new_or_checked(out, fancy.shape, dtype)
    read_fancy(version, fancy, nthreads, out)
    return out


def _read_rows(version: Version, mask: Items, first: int, nthreads: int, out: Items) -> None:
    """The items that a mask selects from the rows from `first` on."""
    geometry, dtype, _ = version
    shape = (len(mask), *geometry.shape[1:])
    if reads_whole(len(out), math.prod(out.shape[1:]) * dtype.itemsize, math.prod(shape) * dtype.itemsize):
        items = read(version, slice(first, first + len(mask)), nthreads)
        if out.flags.c_contiguous:
            rows = as_bytes(items).reshape(mask.size, *out.shape[1:])
            np.compress(mask.ravel(), rows, axis=0, out=as_bytes(out))
        else:
            as_bytes(out)[...] = as_bytes(items)[mask]
        return
    read_fancy(version, with_rows(advanced_selection(mask, shape), first), nthreads, out)


def is_mask(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether a key is one boolean array over the leading axes, or all of them."""
    return bool(isinstance(key, np.ndarray) and key.dtype.kind == "b" and key.ndim and key.shape == shape[: key.ndim])


def is_names(key: Any) -> bool:
    """Whether a key is a list of names of fields."""
    return isinstance(key, list) and bool(key) and all(type(name) is str for name in key)


def _new_or_checked(out: Items | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Items:
    if out is None:
        return np.empty(shape, dtype)
    check_out(out, shape, dtype)
    return out


def read_fancy(version: Version, fancy: FancySelection, nthreads: int, out: Items) -> None:
    """Read the items of a key with arrays to an array of the result's shape."""
    geometry, dtype, frame = version
    if out.size == 0:
        return
    target = out if fancy.flip is None else out[fancy.flip]
    bounds = bounding_box(fancy)
    if is_dense(fancy, bounds, dtype.itemsize):
        items = np.empty(bounds.counts, dtype)
        operation = Read(frame, geometry, bounds.starts, bounds.steps, bounds.counts, items)
        run(operation, operation.cost, nthreads)
        take(fancy, bounds, items, target)
        return
    # Points are scattered over a C-contiguous array.
    found = target if target.flags.c_contiguous else np.empty(target.shape, dtype)
    if is_rows(fancy, geometry):
        _read_rows_by_number(version, fancy.indices[0].tolist(), nthreads, found)
    else:
        _read_points(version, fancy, nthreads, found)
    if found is not target:
        as_bytes(target)[...] = as_bytes(found)


def _read_rows_by_number(version: Version, rows: list[int], nthreads: int, found: Items) -> None:
    """Rows that lie in one block each, by their numbers, to a C-contiguous array."""
    geometry, _, frame = version
    operation = ReadMany(frame, geometry, rows, _refuse_changed)
    operation.into(found.reshape(len(rows), *geometry.shape[1:]))
    first = 0
    while first < len(rows):
        first = operation.prepare(first)
        run(operation, operation.cost, nthreads)


def _refuse_changed(_: int, key: Any) -> None:
    """Refuse what was not there when the rows were checked."""
    raise IndexError(f"row {key} is outside of the array: another thread has changed the index array meanwhile")


def _read_points(version: Version, fancy: FancySelection, nthreads: int, found: Items) -> None:
    """Points, to a C-contiguous array of the result's shape."""
    geometry, dtype, frame = version
    operation = Read(frame, geometry, fancy.starts, fancy.steps, fancy.counts, found, points_of(fancy, geometry))
    touched = fancy.size * math.prod(geometry.blocks) * dtype.itemsize
    run(operation, work_of(min(touched, frame.nbytes), frame), nthreads)


#: Reads a key into an array of its shape.
Reader = Callable[[Items], object]


def read_many(version: Version, keys: list[Any], nthreads: int, out: Items | None) -> Items | list[Items]:
    """The items of many keys: stacked where their shapes agree, else as a list."""
    geometry, dtype, frame = version
    shape_now = geometry.shape
    operation = ReadMany(frame, geometry, keys, lambda number, key: _named(number, basic_selection, key, shape_now))
    readers: dict[int, Reader] = {number: reading(version, keys[number], nthreads) for number in operation.large}
    shapes: dict[int, tuple[int, ...]] = {}
    for number in operation.others:
        shapes[number], readers[number] = _named(number, planned, version, keys[number], nthreads)
    common = _common_shape(operation, shapes, len(keys))
    if out is not None:
        _check_out(out, len(keys), common, dtype)
    elif not keys:
        return np.empty((0, *geometry.shape[1:]), dtype)
    elif common is not None:
        out = np.empty((len(keys), *common), dtype)

    rows: Items | list[Items]
    if out is not None:
        operation.into(out)
        rows = out
    else:
        rows = operation.into_arrays(dtype)
        for number, shape in shapes.items():
            rows[number] = np.empty(shape, dtype)
    first = 0
    while first < len(keys):
        first = operation.prepare(first)
        run(operation, operation.cost, nthreads)
    for number, reader in readers.items():
        # With an ellipsis a row of no axes is a 0-d array, too.
        reader(rows[number][...] if out is None else out[number, ...])
    return rows


def _common_shape(operation: ReadMany, others: dict[int, tuple[int, ...]], number: int) -> tuple[int, ...] | None:
    """The shape that all selections have; None where they differ, or where there are none."""
    shapes = set(others.values())
    if len(others) < number:
        if operation.shape is None:
            return None
        shapes.add(operation.shape)
    return shapes.pop() if len(shapes) == 1 else None


def _check_out(out: Any, number: int, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> None:
    """Refuse an `out` that the batch cannot be read into."""
    if shape is not None:
        check_out(out, (number, *shape), dtype)
    elif number:
        raise ValueError("the selections differ in shape, so that they cannot be read into one array")
    else:
        check_out(out, (0, *getattr(out, "shape", ())[1:]), dtype)  # rows of any shape will do


def _named(number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function. An error about a key names the key."""
    try:
        return function(*arguments)
    except (IndexError, TypeError, ValueError) as error:
        if type(error) not in (IndexError, TypeError, ValueError):  # it may be made in another way
            error.add_note(f"selection {number} of the batch")
            raise
        raise type(error)(f"selection {number} of the batch: {error}") from error


def reading(version: Version, key: Any, nthreads: int) -> Reader:
    return lambda row: read(version, key, nthreads, row)


def planned(version: Version, key: Any, nthreads: int) -> tuple[tuple[int, ...], Reader]:
    """Shape of a key with arrays, and what reads it."""
    key = plain_key(key)
    shape = version[0].shape
    if isinstance(key, str) or is_names(key):
        raise IndexError("names of fields are no selections of items; read these and take the fields from them")
    if is_mask(key, shape):
        return (int(np.count_nonzero(key)), *shape[key.ndim :]), reading(version, key, nthreads)
    fancy = advanced_selection(key, shape)
    return fancy.shape, lambda row: read_fancy(version, fancy, nthreads, row)
