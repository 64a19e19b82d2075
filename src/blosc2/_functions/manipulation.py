"""Functions that make arrays of other arrays: the same items in another order, shape or type.

They work on a part of the result at a time, so that neither it nor the arrays that it is made of need fit into memory;
with ``urlpath=`` the result goes straight into a file. `squeeze` and `expand_dims` copy nothing at all.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from blosc2._arrays import (
    CHUNK_NBYTES,
    Shape,
    Snapshot,
    ViewHandle,
    converted,
    expanded_axes,
    joined,
    matrix_axes,
    permuted,
    plan_like,
    reshaped,
    seen_through,
    shape_for,
    taken,
    taken_along,
)
from blosc2._functions.creation import asarray
from blosc2._functions.opaque_objects import OpaqueObject
from blosc2.ndarray import NDArray

#: Chunks so much smaller than those of a new array are not taken over from a part.
_TOO_SMALL = 8


def take(x: Any, indices: Any, axis: int | None = None) -> NDArray:
    """Make an array of items, along an axis, by their numbers.

    Parameters
    ----------
    x : NDArray or array_like
    indices : array_like of int
        Negative ones count from the end. Their shape takes the place of the axis.
    axis : int, optional
        Without it, items are counted in C order over all axes, and the result has the shape of `indices`.

    Raises
    ------
    IndexError
        An index out of bounds.
    TypeError
        Indices that are no integers.
    ValueError
        No such axis; it is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> array = blosc2.arange(6, shape=(2, 3))
    >>> blosc2.take(array, [2, 0, 2], axis=1)[:]
    array([[2, 0, 2],
           [5, 3, 5]])
    >>> blosc2.take(array, [-1, 1])[:]
    array([5, 1])
    """
    return NDArray._of(taken(_array(x), indices, axis, {}))


def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> NDArray:
    """Make an array of items by their numbers on an axis, each in the row of its number; as `numpy.take_along_axis`.

    Parameters
    ----------
    x : NDArray or array_like
    indices : array_like of int
        With as many axes as `x`; on the axes other than `axis`, of its lengths or 1. Negative ones count from the end.
    axis : int or None
        None takes all items as one axis, in C order.

    Raises
    ------
    IndexError
        An index out of bounds.
    TypeError
        Indices that are no integers.
    ValueError
        Indices that do not fit the shape, or no such axis, which is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> array = blosc2.arange(6, shape=(2, 3))
    >>> blosc2.take_along_axis(array, [[2], [0]])[:]
    array([[2],
           [3]])
    """
    return NDArray._of(taken_along(_array(x), indices, axis, {}))


def permute_dims(arr: Any, axes: Any = None, **kwargs: Any) -> NDArray:
    """Make an array with the axes in another order.

    Parameters
    ----------
    arr : NDArray or array_like
    axes : sequence of int, optional
        For each axis of the result, the axis of `arr` that it is; reversed by default.
    **kwargs
        As for `blosc2.asarray`. Chunks and blocks follow the axes unless said otherwise.

    Raises
    ------
    ValueError
        Not each axis named exactly once.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.permute_dims(blosc2.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    array = _array(arr)
    ndim = array.ndim
    if axes is None:
        order = tuple(reversed(range(ndim)))
    else:
        named = tuple(operator.index(n) for n in axes)
        order = tuple(n + ndim if n < 0 else n for n in named)
        if sorted(order) != list(range(ndim)):
            raise ValueError(f"axes {named} is not a valid permutation of {ndim} axes")
    return NDArray._of(permuted(array, order, kwargs))


def matrix_transpose(arr: Any, **kwargs: Any) -> NDArray:
    """Make an array with the last two axes swapped. See `permute_dims` for the keywords.

    Raises
    ------
    ValueError
        Fewer than two axes.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.matrix_transpose(blosc2.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    array = _array(arr)
    return NDArray._of(permuted(array, matrix_axes(array.ndim), kwargs))


def transpose(x: Any, **kwargs: Any) -> NDArray:
    """Make an array of one or two axes with the axes reversed.

    It warns: `permute_dims` does the same for any number of axes.

    Examples
    --------
    >>> import warnings
    >>> import blosc2
    >>> with warnings.catch_warnings(action="ignore"):
    ...     blosc2.transpose(blosc2.zeros((2, 3))).shape
    (3, 2)
    """
    warnings.warn("transpose is deprecated: use permute_dims or matrix_transpose", DeprecationWarning, stacklevel=2)
    array = _array(x)
    if array.ndim > 2:
        raise ValueError(f"transpose takes arrays of up to two axes, not {array.ndim}: use permute_dims")
    return permute_dims(array, **kwargs)


def squeeze(x: Any, axis: Any = None) -> NDArray:
    """Look at an array without axes of length 1.

    Parameters
    ----------
    x : NDArray or array_like
    axis : int or sequence of int, optional
        All axes of length 1 by default.

    Returns
    -------
    NDArray
        A view: what is written into it is written into `x`, and it shows what is written into `x`. It cannot be
        resized. Copies of it, saved or in memory, are arrays of their own, of its shape.

    Raises
    ------
    ValueError
        An axis of another length, or whose chunks have room for more than one item; no such axis, which is an
        `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> array = blosc2.zeros((3, 1, 2))
    >>> blosc2.squeeze(array, 1)[0] = 7
    >>> array[0]
    array([[7., 7.]])
    """
    return _array(x).squeeze(axis)


def expand_dims(array: Any, axis: Any = 0) -> NDArray:
    """Look at an array with more axes, of length 1.

    Parameters
    ----------
    array : NDArray or array_like
    axis : int or sequence of int
        Where the new axes are in the result.

    Returns
    -------
    NDArray
        A view; see `squeeze`.

    Raises
    ------
    ValueError
        An axis named twice, more than 16 axes, or no such axis, which is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.expand_dims(blosc2.zeros((3, 2)), (0, -1)).shape
    (1, 3, 2, 1)
    """
    below = _array(array)
    return NDArray._of(ViewHandle(below, expanded_axes(below.ndim, axis)))


def reshape(src: Any, shape: Any, c_order: bool = True, **kwargs: Any) -> NDArray:
    """Make an array with the same items, in C order, in another shape.

    Parameters
    ----------
    src : NDArray or array_like
    shape : int or sequence of int
        One length may be -1, for what the others leave.
    c_order : bool
        False allows any order; it is C order all the same.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        Another number of items.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.reshape(blosc2.arange(6), (2, -1))[1]
    array([3, 4, 5])
    """
    array = _array(src)
    return NDArray._of(reshaped(array, shape_for(array.shape, shape, c_order), kwargs))


def astype(array: Any, dtype: Any, casting: Any = "unsafe", copy: bool = True, **kwargs: Any) -> NDArray:
    """Make an array with the items converted to another type.

    Parameters
    ----------
    array : NDArray or array_like
    dtype : dtype
    casting : {"unsafe", "same_kind", "safe", "equiv", "no"}
        What kinds of conversions are allowed, as for `numpy.ndarray.astype`.
    copy : bool
        False gives `array` itself back where there is nothing to be done.
    **kwargs
        As for `blosc2.asarray`. Chunks and blocks are those of `array` where items keep their size.

    Raises
    ------
    TypeError
        A conversion that `casting` does not allow.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.astype(blosc2.linspace(0, 2, 3), "i4")[:]
    array([0, 1, 2], dtype=int32)
    """
    found = _array(array)
    # Some types leave something open, such as the length of a text: NumPy decides, without items.
    target = np.empty(0, found.dtype).astype(dtype).dtype
    if target.kind in "mM" and np.datetime_data(target)[0] == "generic":
        raise ValueError(f"{dtype!r} does not say its unit, as in 'M8[ns]'")
    if not np.can_cast(found.dtype, target, casting):
        raise TypeError(f"Cannot cast array data from {found.dtype!r} to {target!r} according to the rule {casting!r}")
    if target == found.dtype and not copy and not kwargs:
        return found
    source = Snapshot.of(found._handle)
    geometry = source.geometry
    parts = {"chunks": geometry.chunks, "blocks": geometry.blocks} if target.itemsize == geometry.itemsize else {}
    plan = plan_like(found, geometry.shape, target, kwargs, **parts)
    return NDArray._of(plan.write(converted(source, plan)))


def concat(arrays: Iterable[Any], /, axis: int | None = 0, **kwargs: Any) -> NDArray:
    """Make an array of others, one behind the other along an axis.

    Parameters
    ----------
    arrays : sequence of NDArray or array_like
        Their shapes differ on the axis only. Other types than that of the first are promoted as NumPy does.
    axis : int or None
        None joins all items in C order.
    **kwargs
        As for `blosc2.asarray`. Chunks and blocks are those of the first array unless said otherwise or they are
        very small. Chunks that stay whole are then copied as they are stored, without being decompressed.

    Raises
    ------
    ValueError
        No arrays, other shapes, or no such axis, which is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.concat([blosc2.zeros((2, 3)), blosc2.ones((1, 3))]).shape
    (3, 3)
    """
    parts = [_array(part) for part in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [part if part.ndim == 1 else part.reshape(-1) for part in parts], 0
    first = parts[0]
    if first.ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normalize_axis_index(axis, first.ndim)
    sources = [Snapshot.of(part._handle) for part in parts]
    for number, source in enumerate(sources):
        shape = source.geometry.shape
        if _without(shape, axis) != _without(first.shape, axis):
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match exactly: array 0 has "
                f"shape {first.shape} and array {number} {shape}, joined along axis {axis}"
            )
    return _joined(first, sources, axis, kwargs)


def stack(arrays: Iterable[Any], axis: int = 0, **kwargs: Any) -> NDArray:
    """Make an array of others of one shape, one beside the other along a new axis.

    Parameters
    ----------
    arrays : sequence of NDArray or array_like
    axis : int
        Where the new axis is in the result.
    **kwargs
        As for `concat`.

    Raises
    ------
    ValueError
        No arrays, arrays of different shapes, or no such axis, which is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.stack([blosc2.zeros(3), blosc2.ones(3)], axis=1)[0]
    array([0., 1.])
    """
    parts = [_array(part) for part in arrays]
    if not parts:
        raise ValueError("need at least one array to stack")
    first = parts[0]
    axis = normalize_axis_index(axis, first.ndim + 1)
    axes = expanded_axes(first.ndim, axis)
    sources = []
    for number, part in enumerate(parts):
        source = Snapshot.of(part._handle)
        if source.geometry.shape != first.shape:
            raise ValueError(
                f"all input arrays must have the same shape: array 0 has {first.shape} and array {number} "
                f"{source.geometry.shape}"
            )
        sources.append(source.with_geometry(seen_through(source.geometry, axes)))
    return _joined(first, sources, axis, kwargs)


def _joined(array: NDArray, sources: list[Snapshot], axis: int, kwargs: dict[str, Any]) -> NDArray:
    """An array of others along an axis; of the first, `array`, the parameters are taken over."""
    first = sources[0].geometry
    shape = list(first.shape)
    shape[axis] = sum(source.geometry.shape[axis] for source in sources)
    dtype = array.dtype
    if any(source.dtype != dtype for source in sources):
        dtype = np.result_type(*[source.dtype for source in sources])
    wanted = min(CHUNK_NBYTES, math.prod(shape) * dtype.itemsize)
    parts = {"chunks": first.chunks, "blocks": first.blocks}
    if dtype.itemsize != first.itemsize or first.chunk_nbytes * _TOO_SMALL < wanted:
        parts = {}
    plan = plan_like(array, tuple(shape), dtype, kwargs, **parts)
    return NDArray._of(plan.write(joined(sources, axis, plan, recompress=kwargs.get("cparams") is not None)))


def _array(value: Any) -> NDArray:
    """An array of this package, which can be read; others are compressed."""
    if isinstance(value, OpaqueObject):
        value._refuse()
    return asarray(value)


def _without(shape: Shape, axis: int) -> tuple[int | None, ...]:
    return tuple(None if n == axis else length for n, length in enumerate(shape))
