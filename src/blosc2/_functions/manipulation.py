"""Functions that make arrays from other arrays: the same items in another order, shape or type.

They work on one part of the result at a time, so neither the result nor the other arrays have to fit into memory; with
``urlpath=`` the result goes straight into a file. `squeeze` and `expand_dims` copy nothing.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from blosc2._arrays import (
    CHUNK_NBYTES,
    Shape,
    Snapshot,
    ViewHandle,
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
from blosc2._functions.from_frame import OpaqueObject
from blosc2.ndarray import NDArray
from blosc2.storage import ArrayKeywords, takes

#: So many chunks, each of them so much smaller than those of a new array, are not taken over from a part.
_TOO_MANY = 64
_TOO_SMALL = 8


def take(x: Any, indices: Any, axis: int | None = None) -> NDArray:
    """Take items of an array along an axis, by their indices.

    Parameters
    ----------
    x : NDArray or array_like
    indices : array_like of int
        Negative indices count from the end. The shape of `indices` replaces the axis.
    axis : int, optional
        By default, indices count items in C order over all axes, and the result has the shape of `indices`.

    Raises
    ------
    IndexError
        An index is out of bounds.
    TypeError
        The indices are not integers.
    ValueError
        There is no such axis; this is an `IndexError` too.

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
    """Take items of an array by matching index arrays along an axis, like `numpy.take_along_axis`.

    Parameters
    ----------
    x : NDArray or array_like
    indices : array_like of int
        It has as many axes as `x`; on axes other than `axis`, its length is that of `x` or 1. Negative indices count
        from the end.
    axis : int or None
        None treats all items as one axis, in C order.

    Raises
    ------
    IndexError
        An index is out of bounds.
    TypeError
        The indices are not integers.
    ValueError
        The indices do not fit the shape, or there is no such axis, which is an `IndexError` too.

    Examples
    --------
    >>> import blosc2
    >>> array = blosc2.arange(6, shape=(2, 3))
    >>> blosc2.take_along_axis(array, [[2], [0]])[:]
    array([[2],
           [3]])
    """
    return NDArray._of(taken_along(_array(x), indices, axis, {}))


@takes(ArrayKeywords)
def permute_dims(arr: Any, axes: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array with the axes in another order. By default, chunks and blocks follow the axes.

    An array of one axis is given back as it is, unless keywords ask for another one.

    Parameters
    ----------
    arr : NDArray or array_like
    axes : sequence of int, optional
        For each axis of the result, the axis of `arr` that it comes from; reversed by default.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        Not every axis is named exactly once.

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
    if ndim == 1 and not kwargs:  # as the published package does
        return array
    return NDArray._of(permuted(array, order, kwargs))


@takes(ArrayKeywords)
def matrix_transpose(arr: Any, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array with the last two axes swapped. By default, chunks and blocks follow the axes.

    Parameters
    ----------
    arr : array_like
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.matrix_transpose(blosc2.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    array = _array(arr)
    return NDArray._of(permuted(array, matrix_axes(array.ndim), kwargs))


@takes(ArrayKeywords)
def transpose(x: Any, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of one or two axes with the axes reversed.

    It warns, because `permute_dims` does the same for any number of axes.

    Parameters
    ----------
    x : array_like
    **kwargs
        As for `blosc2.asarray`.

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
    """Return a view of an array without its axes of length 1.

    Parameters
    ----------
    x : NDArray or array_like
    axis : int or sequence of int, optional
        All axes of length 1 by default.

    Returns
    -------
    NDArray
        A view: writing to it writes to `x`, and it shows changes of `x`. It cannot be resized. Copies of it, saved or
        in memory, are independent arrays with its shape.

    Raises
    ------
    ValueError
        The axis has another length, or its chunks have a length above 1; or there is no such axis, which is an
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
    """Return a view of an array with more axes, of length 1.

    Parameters
    ----------
    array : NDArray or array_like
    axis : int or sequence of int
        The positions of the new axes in the result.

    Returns
    -------
    NDArray
        A view; see `squeeze`.

    Raises
    ------
    ValueError
        An axis is named twice, there would be more than 16 axes, or there is no such axis, which is an `IndexError`
        too.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.expand_dims(blosc2.zeros((3, 2)), (0, -1)).shape
    (1, 3, 2, 1)
    """
    below = _array(array)
    return NDArray._of(ViewHandle(below, expanded_axes(below.ndim, axis)))


@takes(ArrayKeywords)
def reshape(src: Any, shape: Any, c_order: bool = True, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array with the same items, in C order, and another shape.

    Parameters
    ----------
    src : NDArray or array_like
    shape : int or sequence of int
        One length may be -1; it follows from the others.
    c_order : bool
        Accepted for compatibility: the order is always C order.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        The shape has a different number of items.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.reshape(blosc2.arange(6), (2, -1))[1]
    array([3, 4, 5])
    """
    array = _array(src)
    return NDArray._of(reshaped(array, shape_for(array.shape, shape, c_order), kwargs))


@takes(ArrayKeywords)
def astype(
    array: Any, dtype: Any, casting: Any = "unsafe", copy: bool = True, **kwargs: Unpack[ArrayKeywords]
) -> NDArray:
    """Make an array with the items converted to another type.

    By default, chunks and blocks are those of `array` if items keep their size.

    Parameters
    ----------
    array : NDArray or array_like
    dtype : dtype
    casting : {"unsafe", "same_kind", "safe", "equiv", "no"}
        Which conversions are allowed, as for `numpy.ndarray.astype`.
    copy : bool
        False returns `array` itself if it needs no conversion.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    TypeError
        `casting` does not allow the conversion.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.astype(blosc2.linspace(0, 2, 3), "i4")[:]
    array([0, 1, 2], dtype=int32)
    """
    return _array(array).astype(dtype, casting, copy, **kwargs)


@takes(ArrayKeywords)
def concat(arrays: Iterable[Any], /, axis: int | None = 0, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Join arrays along an existing axis.

    By default, chunks and blocks are those of the first array, unless more than 64 chunks would be very small. Chunks
    that stay whole are then copied without decompressing them.

    Parameters
    ----------
    arrays : sequence of NDArray or array_like
        Their shapes differ only on the axis. Different dtypes are promoted as in NumPy.
    axis : int or None
        None joins the items of all arrays in C order.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        There are no arrays, their shapes do not fit, or there is no such axis, which is an `IndexError` too.

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
    others = _without(first.shape, axis)
    for number, source in enumerate(sources):
        shape = source.geometry.shape
        if len(shape) != first.ndim or _without(shape, axis) != others:
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match exactly: array 0 has "
                f"shape {first.shape} and array {number} {shape}, joined along axis {axis}"
            )
    return _joined(first, sources, axis, kwargs)


@takes(ArrayKeywords)
def stack(arrays: Iterable[Any], axis: int = 0, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Join arrays of one shape along a new axis; chunks and blocks as for `concat`.

    Parameters
    ----------
    arrays : sequence of NDArray or array_like
    axis : int
        The position of the new axis in the result.
    **kwargs
        As for `blosc2.asarray`.

    Raises
    ------
    ValueError
        There are no arrays, their shapes differ, or there is no such axis, which is an `IndexError` too.

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


def _joined(array: NDArray, sources: list[Snapshot], axis: int, kwargs: Mapping[str, Any]) -> NDArray:
    """An array of others along an axis; of the first, `array`, the parameters are taken over."""
    first = sources[0].geometry
    shape = list(first.shape)
    shape[axis] = sum(source.geometry.shape[axis] for source in sources)
    dtype = array.dtype
    if any(source.dtype != dtype for source in sources):
        dtype = np.result_type(*[source.dtype for source in sources])
    wanted = min(CHUNK_NBYTES, math.prod(shape) * dtype.itemsize)
    parts = {"chunks": first.chunks, "blocks": first.blocks}
    count = math.prod(-(-side // max(chunk, 1)) for side, chunk in zip(shape, first.chunks, strict=True))
    is_small = first.chunk_nbytes * _TOO_SMALL < wanted
    if dtype.itemsize != first.itemsize or first.chunk_nbytes == 0 or (is_small and count > _TOO_MANY):
        parts = {}
    plan = plan_like(array, tuple(shape), dtype, kwargs, **parts)
    return NDArray._of(plan.write(joined(sources, axis, plan, recompress=kwargs.get("cparams") is not None)))


def _array(value: Any) -> NDArray:
    """An array of this package, which can be read; others are compressed."""
    if isinstance(value, OpaqueObject):
        value._refuse()
    return asarray(value)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]
