"""What an index names of each axis of an array, and reading that in pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from blosc2._indexing import basic_selection

#: What is selected of an axis: one item, or several.
Axis = int | range


def axes_of(key: tuple[Any, ...], shape: Sequence[int]) -> list[Axis]:
    """What an index selects of each axis of an array.

    Examples
    --------
    >>> axes_of((-1, ..., slice(None, None, 2)), (4, 5, 6))
    [3, range(0, 5), range(0, 6, 2)]
    """
    assert basic_selection(key, tuple(shape)) is not None  # it raises what is wrong with the index
    at = key.index(...) if ... in key else len(key)
    rest = key[at + 1 :]
    full = [*key[:at], *[slice(None)] * (len(shape) - at - len(rest)), *rest]
    return [
        range(length)[part] if isinstance(part, slice) else part % length
        for part, length in zip(full, shape, strict=True)
    ]


def index_of(axes: Sequence[Axis]) -> tuple[int | slice, ...]:
    """The index that selects these items.

    Examples
    --------
    >>> index_of([3, range(4, -1, -2)])
    (3, slice(4, None, -2))
    """
    return tuple(_slice_of(axis) if isinstance(axis, range) else axis for axis in axes)


def _slice_of(axis: range) -> slice:
    if not axis:
        return slice(0, 0)
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)


def shape_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The shape of what is selected."""
    return tuple(len(axis) for axis in axes if isinstance(axis, range))


def pieces(array: Any, axes: Sequence[Axis], most: int) -> Iterator[np.ndarray[Any, Any]]:
    """The selected items of an array in their order, about `most` bytes at a time.

    Each piece is a part along the first axis. If one row is larger, the pieces are those of the first row, then those
    of the second, and so on, without the first axis.
    """
    first = next((number for number, axis in enumerate(axes) if isinstance(axis, range)), None)
    size = math.prod(shape_of(axes)) * array.dtype.itemsize
    if first is None or size <= most:
        yield np.asarray(array[index_of(axes)])
        return
    items = axes[first]
    assert isinstance(items, range)
    row = size // len(items)
    if row > most:
        for item in items:
            yield from pieces(array, [*axes[:first], item, *axes[first + 1 :]], most)
        return
    height = most // row
    for unit in (array.chunks[first], array.blocks[first]):  # what is decoded at once is decoded once
        if height >= unit:
            height -= height % unit
            break
    for start in range(0, len(items), height):
        yield np.asarray(array[index_of([*axes[:first], items[start : start + height], *axes[first + 1 :]])])
