"""Parsing NumPy keys: which items of each axis they select, and the shape of the result.

There is no input or output here, and no array: only the key and the shape. Assignments, views and keys with `None` come
here; reads of integers, slices and `...` are parsed in `_core` by the same rules.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

ONLY_THESE = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
    "are valid indices"
)
NOT_INTEGERS = "arrays used as indices must be of integer (or boolean) type"


class Selection(NamedTuple):
    """The items that a key of integers, slices, `Ellipsis` and `None` picks from an array.

    The first three have an entry for every axis of the array. Items are always named in ascending order:
    a negative step becomes a positive one that starts at the other end, and `flip` turns the result round.

    Attributes
    ----------
    starts : tuple of int
        First item on each axis.
    counts : tuple of int
        Number of items on each axis; 1 where the key has an integer.
    steps : tuple of int
        Distance between items, at least 1; it is 1 wherever count is 0 or 1.
    shape : tuple of int
        Shape of the result: as `counts`, without the axes of integers, and with a 1 for every `None`.
    flip : tuple of slice or None
        Index to apply to an array of `shape`, for the axes that the key runs through backwards (it is its own
        inverse, so that it serves assignments too); None where no axis is.
    unit : bool
        Whether all steps are 1.
    """

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    flip: tuple[slice, ...] | None
    unit: bool


# NamedTuple's own constructor parses keywords; this does not, and is three times as fast.
_new = tuple.__new__

_FORWARD = slice(None)
_BACKWARD = slice(None, None, -1)
_ONE = (1,)
_FLIP_ONE = (_BACKWARD,)
# All axes at step 1, for each number of dimensions that a key is likely to meet.
_ONES = tuple((1,) * ndim for ndim in range(65))


def basic_selection(key: Any, shape: tuple[int, ...]) -> Selection | None:
    """Turn a key into a selection.

    Parameters
    ----------
    key : object
        What stands between the brackets of ``array[key]``.
    shape : tuple of int
        Shape of the array.

    Returns
    -------
    Selection or None
        None when the key needs more than a selection can say: arrays, lists, booleans, and names of fields.

    Raises
    ------
    IndexError
        An integer out of bounds, too many indices, a second `Ellipsis`, or something that is no index.
    TypeError, ValueError
        A slice whose bounds are no integers, or whose step is zero.

    Examples
    --------
    >>> selection = basic_selection((slice(9, 2, -3), 4), (10, 20))
    >>> selection.starts, selection.counts, selection.steps, selection.shape
    ((3, 4), (3, 1), (3, 1), (3,))
    """
    if type(key) is slice and len(shape) == 1:
        return _of_one_axis(key, shape[0])
    if type(key) is not tuple:
        key = tuple(key) if isinstance(key, tuple) else (key,)

    starts: list[int] = []
    counts: list[int] = []
    result: list[int] = []
    steps: list[int] | None = None  # made when an axis has a step
    reversed_axes: list[int] | None = None
    axis = 0
    ndim = len(shape)
    ellipsis_seen = False
    for position, item in enumerate(key):
        kind = type(item)
        if kind is slice:
            if axis >= ndim:
                _check_no_axis_left(key, ndim)
                return None
            first, end, stride = item.indices(shape[axis])
            if stride == 1:
                count = end - first if end > first else 0
            else:
                count, first, step, reverse = _strided(first, end, stride)
                if step != 1:
                    steps = steps or [1] * ndim
                    steps[axis] = step
                if reverse:
                    reversed_axes = reversed_axes or []
                    reversed_axes.append(len(result))
            starts.append(first)
            counts.append(count)
            result.append(count)
            axis += 1
        elif item is None:
            result.append(1)
        elif item is Ellipsis:
            if ellipsis_seen:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis_seen = True
            until = ndim - _used(key[position + 1 :])
            while axis < until:
                starts.append(0)
                counts.append(shape[axis])
                result.append(shape[axis])
                axis += 1
        else:
            integer = item if kind is int else _as_integer(item)
            if integer is None:
                _check_rest(key)
                return None
            if axis >= ndim:
                _check_no_axis_left(key, ndim)
                return None
            first = integer + shape[axis] if integer < 0 else integer
            if not 0 <= first < shape[axis]:
                _check_out_of_bounds(key, integer, axis, shape)
                return None
            starts.append(first)
            counts.append(1)
            axis += 1
    if axis < ndim:
        rest = shape[axis:]
        starts.extend([0] * len(rest))
        counts.extend(rest)
        result.extend(rest)
    flip = None
    if reversed_axes is not None:
        flip = tuple([_BACKWARD if axis in reversed_axes else _FORWARD for axis in range(len(result))])
    all_steps = _ONES[ndim] if steps is None else tuple(steps)
    return _new(Selection, (tuple(starts), tuple(counts), all_steps, tuple(result), flip, steps is None))


def _of_one_axis(key: slice, length: int) -> Selection:
    """The selection of a slice in an array of one axis."""
    first, end, stride = key.indices(length)
    if stride == 1:
        counts = (end - first if end > first else 0,)
        return _new(Selection, ((first,), counts, _ONE, counts, None, True))
    count, first, step, reverse = _strided(first, end, stride)
    counts = (count,)
    return _new(Selection, ((first,), counts, (step,), counts, _FLIP_ONE if reverse else None, step == 1))


def _check_no_axis_left(key: tuple[Any, ...], ndim: int) -> None:
    """Raise for a key with too many items. Keys with arrays are not checked: an array may take several axes."""
    if not _has_arrays(key):
        raise _too_many(key, ndim)


def _check_out_of_bounds(key: tuple[Any, ...], index: int, axis: int, shape: tuple[int, ...]) -> None:
    """Raise for too many items, or else for an integer out of bounds. Keys with arrays are not checked."""
    if _has_arrays(key):
        return
    if _used(key) > len(shape):
        raise _too_many(key, len(shape))
    raise IndexError(f"index {index} is out of bounds for axis {axis} with size {shape[axis]}")


def ascending(key: slice, length: int) -> tuple[int, int, int, bool]:
    """Give (count, first item, positive step, whether the order was turned round) of a slice."""
    first, end, stride = key.indices(length)
    if stride == 1:
        return max(end - first, 0), first, 1, False
    return _strided(first, end, stride)


def _strided(first: int, end: int, stride: int) -> tuple[int, int, int, bool]:
    """Give (count, first item in ascending order, positive step, whether the order was turned round)."""
    count = len(range(first, end, stride))
    if count < 2:
        return count, first if count else 0, 1, False
    if stride < 0:
        return count, first + (count - 1) * stride, -stride, True
    return count, first, stride, False


def _as_integer(item: object) -> int | None:
    """Give the integer that NumPy takes this for. None if NumPy takes it for an array, a mask or a name."""
    # A tensor of one item may offer __index__ too, but is an array that keeps its axis.
    if isinstance(item, (bool, np.bool_)) or getattr(item, "ndim", 0) != 0:
        return None
    try:
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        return None


def _has_arrays(key: tuple[Any, ...]) -> bool:
    """Whether a key has anything besides integers, slices, `Ellipsis` and `None`."""
    for item in key:
        if not (item is None or item is Ellipsis or isinstance(item, slice) or _as_integer(item) is not None):
            _check_rest(key)
            return True
    return False


def _check_rest(key: tuple[Any, ...]) -> None:
    """Raise for an item of the key that is not an index of any kind."""
    for item in key:
        if item is None or item is Ellipsis or isinstance(item, slice):
            continue
        if isinstance(item, (str, bytes)):
            if len(key) == 1 and isinstance(item, str):  # the name of a field, or an expression: for the caller to say
                continue
            raise IndexError(ONLY_THESE)
        if _as_integer(item) is not None or isinstance(item, (bool, np.bool_)):
            continue
        dtype = getattr(item, "dtype", None)
        if not isinstance(dtype, np.dtype):
            array = np.asarray(item)
            if array.ndim == 0:
                raise IndexError(ONLY_THESE)
            if array.size == 0 and not isinstance(item, np.ndarray):
                continue  # an empty list selects nothing, whatever type NumPy gives it
            if len(key) == 1 and array.dtype.kind == "U":  # names of fields
                continue
            dtype = array.dtype
        if dtype.kind not in "iub":
            raise IndexError(NOT_INTEGERS)


def _too_many(key: tuple[Any, ...], ndim: int) -> IndexError:
    return IndexError(f"too many indices for array: array is {ndim}-dimensional, but {_used(key)} were indexed")


def _used(items: tuple[Any, ...]) -> int:
    """Count the items that take an axis."""
    return sum(1 for item in items if item is not None and item is not Ellipsis)


def list_index(index: Any, length: int, what: str) -> int:
    """The index of an existing element of a list, counted from its start."""
    try:
        number = operator.index(index)
    except TypeError:
        raise TypeError(f"{what} indices must be integers or slices, not {type(index).__name__}") from None
    if not -length <= number < length:
        raise IndexError(f"{what} index out of range: {number}, of {length}")
    return number % length
