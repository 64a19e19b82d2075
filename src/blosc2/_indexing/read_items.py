"""Reading the items that a key selects, into a new NumPy array or one of the caller."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.gaps import as_bytes
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, check_out, read_basic_into, work_of
from blosc2._core.ndim.grid_read_many import ReadMany
from blosc2._indexing.assignment import plain_key
from blosc2._indexing.fancy import FancySelection, advanced_selection, with_rows
from blosc2._indexing.parse_key import Selection, basic_selection
from blosc2._indexing.points import bounding_box, is_dense, is_rows, pieces, points_of, reads_whole, take
from blosc2._options import run

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
    run(operation, work_of(out.nbytes, frame), nthreads)
    return out


def read_whole(version: Version, nthreads: int, out: Items | None = None) -> Items:
    """All items."""
    return read(version, ..., nthreads, out)


def as_box(items: Items, selection: Selection) -> Items:
    """A view of an array of a selection's shape, with one axis for each axis of the source array."""
    # Only axes of length 1 are added or removed, so nothing is copied.
    return items if items.shape == selection.counts else items.reshape(selection.counts)


def _read_by_arrays(version: Version, key: Any, nthreads: int, out: Items | None) -> Items:
    geometry, dtype, _ = version
    if is_names(key):
        # NumPy's own view of some fields.
        fields = read_whole(version, nthreads)[key]
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
        run(operation, work_of(items.nbytes, frame), nthreads)
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
        run(operation, work_of(operation.touched_nbytes, frame), nthreads)


def _refuse_changed(_: int, key: Any) -> None:
    """Refuse what was not there when the rows were checked."""
    raise IndexError(f"row {key} is outside of the array: another thread has changed the index array meanwhile")


def _read_points(version: Version, fancy: FancySelection, nthreads: int, found: Items) -> None:
    """Points, to a C-contiguous array of the result's shape."""
    geometry, dtype, frame = version
    operation = Read(frame, geometry, fancy.starts, fancy.steps, fancy.counts, found, points_of(fancy, geometry))
    touched = fancy.size * math.prod(geometry.blocks) * dtype.itemsize
    run(operation, work_of(min(touched, frame.nbytes), frame), nthreads)
