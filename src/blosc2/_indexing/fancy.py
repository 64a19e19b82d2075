"""Parsing NumPy keys with integer and boolean arrays: which items they select, and where each goes in the result.

As in `keys`, there is no input or output here, and no array except those of the key.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from blosc2._indexing.parse_key import NOT_INTEGERS, ONLY_THESE, ascending

Indices = np.ndarray[Any, np.dtype[np.int64]]


class FancySelection(NamedTuple):
    """The items that a key with arrays picks from an array.

    Index arrays, broadcast against each other to `points`, name items on some axes; a box with positive steps does on
    the others.

    Attributes
    ----------
    starts, counts, steps : tuple of int
        The box, for each axis of the array; 0, 1 and 1 on the axes of index arrays.
    axes : tuple of int
        The axes with index arrays.
    indices : tuple of int64 arrays
        For each of these, the index of each point, in C order of `points`; never negative, always in bounds.
    points : tuple of int
        Shape that the index arrays have together.
    layout : tuple of int
        The axes of the result, without those of `None`: below ``len(points)`` an axis of `points`, from there on one
        of the box's axes, in their order.
    shape : tuple of int
        Shape of the result.
    flip : tuple of slice or None
        As for `keys.Selection`.
    """

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    axes: tuple[int, ...]
    indices: tuple[Indices, ...]
    points: tuple[int, ...]
    layout: tuple[int, ...]
    shape: tuple[int, ...]
    flip: tuple[slice, ...] | None

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.indices[0]) if self.indices else int(np.prod(self.points))

    @property
    def box_axes(self) -> list[int]:
        """The axes without index arrays."""
        return [axis for axis in range(len(self.counts)) if axis not in self.axes]


class _Builder:
    """Builds a `FancySelection`, axis by axis of the array."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = shape
        self.axis = 0
        self.starts: list[int] = []
        self.counts: list[int] = []
        self.steps: list[int] = []
        self.axes: list[int] = []
        self.reversed_axes: set[int] = set()

    def box(self, key: slice) -> int:
        """Take the next axis by a slice; returns the axis."""
        count, first, step, reverse = ascending(key, self.shape[self.axis])
        if reverse:
            self.reversed_axes.add(self.axis)
        self.starts.append(first)
        self.counts.append(count)
        self.steps.append(step)
        self.axis += 1
        return self.axis - 1

    def point(self) -> int:
        """Take the next axis by an index array."""
        self.axes.append(self.axis)
        self.starts.append(0)
        self.counts.append(1)
        self.steps.append(1)
        self.axis += 1
        return self.axis - 1

    def done(
        self, indices: list[np.ndarray[Any, Any]], points: tuple[int, ...], parts: list[int | None]
    ) -> FancySelection:
        """`parts` are the axes of the result: -1 - n for axis n of the points, an axis of the box, or None."""
        boxes = [axis for axis in range(len(self.shape)) if axis not in self.axes]
        layout, shape, flip = [], [], []
        for part in parts:
            flip.append(slice(None, None, -1) if part is not None and part in self.reversed_axes else slice(None))
            if part is None:
                shape.append(1)
            elif part < 0:
                shape.append(points[-1 - part])
                layout.append(-1 - part)
            else:
                shape.append(self.counts[part])
                layout.append(len(points) + boxes.index(part))
        if 0 in points:  # no item of the index arrays is used, but integers are checked
            indices = [index if index.ndim == 0 else np.zeros(points, np.int64) for index in indices]
        wrapped = [_in_bounds(index, axis, self.shape[axis]) for index, axis in zip(indices, self.axes, strict=True)]
        flat = [np.broadcast_to(index, points).ravel() for index in wrapped]
        return FancySelection(
            tuple(self.starts), tuple(self.counts), tuple(self.steps), tuple(self.axes), tuple(flat), points,
            tuple(layout), tuple(shape), tuple(flip) if self.reversed_axes else None,
        )  # fmt: skip


def advanced_selection(key: Any, shape: tuple[int, ...]) -> FancySelection:
    """Turn a key into points.

    Parameters
    ----------
    key : object
        What stands between the brackets of ``array[key]``; arrays of this package as NumPy arrays.
    shape : tuple of int
        Shape of the array.

    Raises
    ------
    IndexError
        As NumPy raises it.

    Examples
    --------
    >>> fancy = advanced_selection(([4, 0], slice(1, 3)), (5, 6))
    >>> fancy.indices[0].tolist(), fancy.counts, fancy.shape
    ([4, 0], (1, 2), (2, 2))
    """
    items: list[Any] = [_plain(item) for item in (key if isinstance(key, tuple) else (key,))]
    ndim = len(shape)
    used = sum(_width(item) for item in items)
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    elif sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    builder = _Builder(shape)
    indices: list[np.ndarray[Any, Any]] = []
    extra: list[np.ndarray[Any, Any]] = []  # 0-d booleans: they only take part in broadcasting
    parts: list[int | None] = []
    axis_of_points = -1  # of the points in the result
    last_array = -1
    together = True
    for position, item in enumerate(items):
        if item is None:
            parts.append(None)
        elif item is Ellipsis:
            parts.extend(builder.box(slice(None)) for _ in range(ndim - used))
        elif isinstance(item, slice):
            parts.append(builder.box(item))
        else:
            if axis_of_points < 0:
                axis_of_points = len(parts)
            elif last_array != position - 1:
                together = False
            last_array = position
            if item.dtype.kind == "b":
                _check_mask(item, builder.axis, shape)
                if item.ndim == 0:
                    extra.append(np.zeros(int(item), np.int64))
                for index in item.nonzero() if item.ndim else ():
                    indices.append(index)
                    builder.point()
            else:
                indices.append(item)
                builder.point()
    points = _broadcast(indices + extra)
    ours: list[int | None] = [-1 - n for n in range(len(points))]
    parts[(axis_of_points if together else 0) : (axis_of_points if together else 0)] = ours
    return builder.done(indices, points, parts)


def orthogonal_selection(key: Any, shape: tuple[int, ...]) -> FancySelection:
    """Turn a key for each axis into points: all combinations of what they name; see `NDArray.oindex`."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) != len(shape):
        raise ValueError(f"oindex takes a key for each of the {len(shape)} axes, not {len(keys)}")
    builder = _Builder(shape)
    indices: list[np.ndarray[Any, Any]] = []
    parts: list[int | None] = []
    for axis, part in enumerate(keys):
        if isinstance(part, slice):
            parts.append(builder.box(part))
            continue
        item = _plain(part)
        if not isinstance(item, np.ndarray):
            raise IndexError(ONLY_THESE)
        if item.ndim > 1:
            raise IndexError(f"the key of axis {axis} has {item.ndim} axes; it may have one")
        if item.dtype.kind == "b":
            if item.ndim == 0:
                raise IndexError(f"the key of axis {axis} is one boolean; it has to have one for each item")
            _check_mask(item, axis, shape)
            item = item.nonzero()[0]
        if item.ndim:
            parts.append(-1 - sum(other.ndim for other in indices))
        indices.append(item)
        builder.point()
    lists = sum(index.ndim for index in indices)
    spread: list[np.ndarray[Any, Any]] = []
    before = 0
    for index in indices:
        spread.append(index.reshape((1,) * before + index.shape + (1,) * (lists - before - index.ndim)))
        before += index.ndim
    return builder.done(spread, _broadcast(spread), parts)


def with_rows(fancy: FancySelection, first: int) -> FancySelection:
    """The same selection in an array that has more items at the front of axis 0, which has index arrays."""
    return fancy._replace(indices=(fancy.indices[0] + first, *fancy.indices[1:]))


def _plain(item: Any) -> Any:
    """An item of a key as None, Ellipsis, a slice or an array of integers or booleans."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (str, bytes)):
        raise IndexError(ONLY_THESE)
    if not isinstance(item, np.ndarray):
        if not isinstance(item, (bool, list, tuple)) and not hasattr(item, "__array__"):
            with suppress(TypeError):
                item = operator.index(item)
        array = np.asarray(item)
        if array.size == 0 and array.dtype.kind == "f" and not hasattr(item, "dtype"):
            array = array.astype(np.int64)  # an empty list, which NumPy makes one of float64
        elif array.ndim == 0 and array.dtype.kind not in "iub":
            raise IndexError(ONLY_THESE)
        item = array
    if item.dtype.kind not in "iub":
        raise IndexError(NOT_INTEGERS)
    return item


def _width(item: Any) -> int:
    """How many axes an item of a key takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def _check_mask(mask: np.ndarray[Any, Any], axis: int, shape: Sequence[int]) -> None:
    for n, length in enumerate(mask.shape):
        if length not in (0, shape[axis + n]):  # NumPy accepts a mask without items
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + n}; size of axis is {shape[axis + n]} "
                f"but size of corresponding boolean axis is {length}"
            )


def _in_bounds(index: np.ndarray[Any, Any], axis: int, length: int) -> Indices:
    """An index array of int64 without negative ones."""
    if index.size == 0:
        return index.astype(np.int64)
    low, high = int(index.min()), int(index.max())
    if high >= length or low < -length:
        bad = high if high >= length else low
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {length}")
    index = index.astype(np.int64, copy=False)
    return index if low >= 0 else np.where(index < 0, index + length, index)


def _broadcast(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        shapes = " ".join(str(array.shape) for array in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
