"""Reading many selections of one array in one call, in several threads, for data loaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blosc2._core.ndim.grid_read import check_out, work_of
from blosc2._core.ndim.grid_read_many import ReadMany
from blosc2._indexing.assignment import plain_key
from blosc2._indexing.fancy import advanced_selection
from blosc2._indexing.parse_key import Selection, basic_selection
from blosc2._indexing.read_items import Items, Version, is_mask, is_names, read, read_fancy
from blosc2._options import run

#: Reads a key into an array of its shape.
Reader = Callable[[Items], object]


def read_many(version: Version, keys: list[Any], nthreads: int, out: Items | None) -> Items | list[Items]:
    """The items of many keys: stacked where their shapes agree, else as a list."""
    geometry, dtype, frame = version
    operation = ReadMany(frame, geometry, keys, _selecting(geometry.shape))
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
        run(operation, work_of(operation.touched_nbytes, frame), nthreads)
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


def _selecting(shape: tuple[int, ...]) -> Callable[[int, Any], Selection | None]:
    """`basic_selection` for keys with a number."""
    return lambda number, key: _named(number, basic_selection, key, shape)


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
