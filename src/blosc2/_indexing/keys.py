"""Keys of arrays: what is between brackets, as a selection; and what is assigned to it, as items."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._core.ndim.gaps import as_dtype, clear_gaps
from blosc2._frames import is_masked
from blosc2.exceptions import ShapeError

_SCALARS: Final = (int, float, bool, complex)


def as_items(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    """A value as an array of this dtype and shape, cast and broadcast as NumPy does on assignment.

    Without a shape it keeps its own, and numbers are not taken for records: each would fill all fields of one.
    """
    if type(value) is not np.ndarray and hasattr(type(value), "__array__"):
        _refuse_mask(value)
        value = plain(value)
    if not (isinstance(value, np.ndarray) and value.dtype == dtype):
        if shape is None and dtype.names is not None:
            _require_records(value)
        if dtype.names is not None and not isinstance(value, np.ndarray):
            value = np.array(value, dtype)  # tuples are items there, so only NumPy knows the shape
        else:
            items = np.empty(() if type(value) in _SCALARS else np.shape(value), dtype)
            items[...] = value
            value = items
        if dtype.names is not None:
            clear_gaps(value)
    if shape is None:
        return np.asarray(value)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    value_now: np.ndarray[Any, Any] = value
    if value_now.shape == shape:
        return value_now
    if value.ndim == 0 and value.dtype.kind in "biufc":  # as `broadcast_to` has it, which takes longer than the rest
        return np.ndarray(shape, value.dtype, value, 0, (0,) * len(shape))
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ShapeError(
            f"a value of shape {value.shape} cannot be assigned to a selection of shape {shape}: give it that shape, "
            "or one that NumPy broadcasts to it"
        ) from None


def lossless(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """A value as an array, which has all of it.

    `TypeError` for a masked array, which would lose its mask, and for a table of pandas whose columns have several
    types, which would lose them. `ValueError` for bytes or texts with zeros at their end, which NumPy's types of fixed
    length do not tell from what fills them up.
    """
    _refuse_mask(value)
    array = as_dtype(value, dtype)
    kinds = set(value.dtypes) if dtype is None and type(value).__name__ == "DataFrame" else ()
    if len(kinds) > 1 and not array.dtype.hasobject:
        raise TypeError(
            f"the columns of a table have several types, and one array has one, {array.dtype}: take "
            "table.to_records(index=False), or name a dtype"
        )
    if array.dtype.kind in "SU" and array is not value:
        _check_ends(value)
    return array


def _require_records(value: Any) -> None:
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, np.ndarray) and value.dtype == object and value.size:
        value = value.flat[0]
    if isinstance(value, tuple):
        return
    items = np.asarray(value)
    if items.dtype.names is None and items.size and (items is value or not items.ndim):
        raise TypeError(
            "the items have fields, and what is given has none: give records, such as tuples in a list; of a table "
            "take table.to_records(index=False)"
        )


def _refuse_mask(value: Any) -> None:
    if type(value) is not np.ndarray and is_masked(value):
        raise TypeError("masked arrays would lose their mask: take array.data and array.mask, or array.filled()")


def _check_ends(value: Any) -> None:
    if isinstance(value, (bytes, str)):
        if value[-1:] in (b"\0", "\0"):
            other = "value" if isinstance(value, bytes) else "value.encode()"
            raise ValueError(
                f"{type(value).__name__} that end in zeros would lose them: take np.frombuffer({other}, 'u1'), or "
                f"blosc2.SChunk(data={other})"
            )
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_ends(item)


def plain(value: Any) -> Any:
    """A NumPy array instead of one of ours; anything else as it is."""
    is_other = hasattr(type(value), "__array__") and not isinstance(value, np.ndarray)
    return as_dtype(value, None) if is_other else value


def plain_key(key: Any) -> Any:
    """A key with NumPy arrays instead of ours."""
    if isinstance(key, tuple):
        return tuple(plain(part) for part in key)
    return plain(key)


ONLY_THESE = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
    "are valid indices"
)
NOT_INTEGERS = "arrays used as indices must be of integer (or boolean) type"


class Selection(NamedTuple):
    """The items that a key of integers, slices, `Ellipsis` and `None` picks from an array.

    For every axis of the array: the first item, the number of items (1 for an integer), and the distance between items,
    at least 1, and 1 wherever the count is 0 or 1. Items are always named in ascending order: a negative step becomes a
    positive one that starts at the other end, and `flip` turns the result round.

    `shape` is that of the result: as `counts`, without the axes of integers, and with a 1 for every `None`. `flip` is
    an index for an array of this shape, which serves assignments too, as it is its own inverse; None where no axis is
    run through backwards. `unit` is whether all steps are 1.
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
_FLIP_ONE = (_BACKWARD,)
# All axes at step 1, for each number of dimensions that a key is likely to meet.
_ONES = tuple((1,) * ndim for ndim in range(65))


def basic_selection(key: Any, shape: tuple[int, ...]) -> Selection | None:
    """Turn what stands between the brackets of ``array[key]`` into a selection from an array of this shape.

    None when the key needs more than a selection can say: arrays, lists, booleans, and names of fields. `IndexError`
    for an integer out of bounds, too many indices, a second `Ellipsis`, or something that is no index; `TypeError` or
    `ValueError` for a slice whose bounds are no integers, or whose step is zero.
    """
    if type(key) is slice and len(shape) == 1:
        count, first, step, reverse = ascending(key, shape[0])
        length = (count,)
        return _new(Selection, ((first,), length, (step,), length, _FLIP_ONE if reverse else None, step == 1))
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
                advanced_selection(key, shape)  # raises what is wrong
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
                advanced_selection(key, shape)  # raises what is wrong
                return None
            first = integer + shape[axis] if integer < 0 else integer
            if not 0 <= first < shape[axis]:
                advanced_selection(key, shape)  # raises what is wrong
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


Indices = np.ndarray[Any, np.dtype[np.int64]]


class FancySelection(NamedTuple):
    """The items that a key with arrays picks from an array.

    Index arrays, broadcast against each other to the shape `points`, name items on some axes, `axes`; a box with
    positive steps does on the others, and has 0, 1 and 1 on these. `indices` has, for each of `axes`, the index of each
    point, in C order of `points`; never negative, always in bounds.

    `layout` has the axes of the result, without those of `None`: below ``len(points)`` an axis of `points`, from there
    on one of the box's axes, in their order. `shape` is that of the result, and `flip` as in `Selection`.
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
        wrapped = [in_bounds(i, self.shape[axis], f"axis {axis}") for i, axis in zip(indices, self.axes, strict=True)]
        flat = [(i if i.shape == points else np.broadcast_to(i, points)).ravel() for i in wrapped]
        return FancySelection(
            tuple(self.starts), tuple(self.counts), tuple(self.steps), tuple(self.axes), tuple(flat), points,
            tuple(layout), tuple(shape), tuple(flip) if self.reversed_axes else None,
        )  # fmt: skip


def advanced_selection(key: Any, shape: tuple[int, ...]) -> FancySelection:
    """Turn a key into points of an array of this shape; arrays of this package are NumPy arrays in it.

    `IndexError` as NumPy raises it.
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
                for index in _true_items(item) if item.ndim else ():
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
    # A list of lists or arrays means the same as a tuple of them.
    if isinstance(key, list) and key and all(isinstance(part, (list, tuple, slice, np.ndarray)) for part in key):
        key = tuple(key)
    key = plain_key(key)
    keys = key if isinstance(key, tuple) else (key,)
    at = next((n for n, part in enumerate(keys) if part is Ellipsis), len(keys))
    given = (*keys[:at], *keys[at + 1 :])
    if len(given) > len(shape):
        raise ValueError(f"oindex takes a key for each of the {len(shape)} axes, not {len(given)}")
    keys = (*given[:at], *(slice(None),) * (len(shape) - len(given)), *given[at:])
    builder = _Builder(shape)
    indices: list[np.ndarray[Any, Any]] = []
    parts: list[int | None] = []
    for axis, part in enumerate(keys):
        if isinstance(part, slice):
            parts.append(builder.box(part))
            continue
        item = _plain(part)
        if not isinstance(item, np.ndarray):
            raise IndexError("oindex takes no newaxis (`None`), and one ellipsis (`...`)")
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
    """A selection in an array that has more items at the front of axis 0, which has index arrays."""
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
                return np.asarray(operator.index(item))  # what int64 cannot hold is an object, and out of all bounds
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


def _true_items(mask: np.ndarray[Any, Any]) -> tuple[Indices, ...]:
    """What `nonzero` gives, which looks at items one by one where there are several axes."""
    return np.unravel_index(np.flatnonzero(mask), mask.shape) if mask.size and mask.ndim > 1 else mask.nonzero()


def _check_mask(mask: np.ndarray[Any, Any], axis: int, shape: Sequence[int]) -> None:
    for n, length in enumerate(mask.shape):
        if length not in (0, shape[axis + n]):  # NumPy accepts a mask without items
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + n}; size of axis is {shape[axis + n]} "
                f"but size of corresponding boolean axis is {length}"
            )


def in_bounds(index: np.ndarray[Any, Any], length: int, what: str) -> Indices:
    """An index array of int64 without negative ones, which count from the end."""
    if index.size == 0:
        return index.astype(np.int64)
    low, high = int(index.min()), int(index.max())
    if high >= length or low < -length:
        bad = high if high >= length else low
        raise IndexError(f"index {bad} is out of bounds for {what} with size {length}")
    index = index.astype(np.int64, copy=False)
    return index if low >= 0 else np.where(index < 0, index + length, index)


def _broadcast(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[int, ...]:
    if len(arrays) == 1:  # as mostly, and NumPy takes microseconds for it
        shape: tuple[int, ...] = arrays[0].shape
        return shape
    try:
        return np.broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        shapes = " ".join(str(array.shape) for array in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
