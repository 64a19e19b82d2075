"""Reductions as functions: of arrays, fields of records, and what NumPy makes an array of."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._indexing import Reducible


def _reduce(name: str, ndarr: Any, axis: Any, keepdims: bool, **options: Any) -> Any:
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(ndarr, Reducible):
        return getattr(ndarr, name)(axis=axis, keepdims=keepdims, **given)
    return getattr(np, name)(np.asarray(ndarr), axis=axis, keepdims=keepdims, **given)


def sum(
    ndarr: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    initial: Any = None,
    **absent: Any,
) -> Any:
    """Return the sum of the items.

    The array is read piece by piece, by its threads, each of which needs a few MB. Chunks of one value are not decoded.
    Sums of floating point numbers are made of the sums of pieces, and do not depend on the number of threads.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    dtype : dtype, optional
        Of the result, and of the sums that lead to it. By default as with NumPy: integers of 64 bits for those of
        fewer, else that of the items.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.
    initial : scalar, optional
        Is added.

    Returns
    -------
    scalar or ndarray

    Raises
    ------
    TypeError
        NumPy does not reduce items of this type so, or a keyword is unknown, such as ``urlpath``: results are NumPy
        arrays.
    numpy.exceptions.AxisError, ValueError
        As with NumPy.
    FormatError
        A chunk is damaged.

    Examples
    --------
    >>> import blosc2
    >>> image = blosc2.arange(6, shape=(2, 3))
    >>> int(blosc2.sum(image)), blosc2.sum(image, axis=0)
    (15, array([3, 5, 7]))
    """
    return _reduce("sum", ndarr, axis, keepdims, dtype=dtype, where=where, out=out, initial=initial, **absent)


def prod(
    ndarr: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    initial: Any = None,
    **absent: Any,
) -> Any:
    """Return the product of the items.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    dtype : dtype, optional
        Of the result, and of the products that lead to it. By default as with NumPy: integers of 64 bits for those of
        fewer, else that of the items.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.
    initial : scalar, optional
        Is multiplied with.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> blosc2.prod(blosc2.arange(6, shape=(2, 3)), axis=0)
    array([ 0,  4, 10])
    """
    return _reduce("prod", ndarr, axis, keepdims, dtype=dtype, where=where, out=out, initial=initial, **absent)


def mean(
    ndarr: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    **absent: Any,
) -> Any:
    """Return the mean of the items.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    dtype : dtype, optional
        Of the result, and of the sums that lead to it. By default as with NumPy: float64 for integers, else that of
        the items.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> float(blosc2.mean(blosc2.arange(6)))
    2.5
    """
    return _reduce("mean", ndarr, axis, keepdims, dtype=dtype, where=where, out=out, **absent)


def std(
    ndarr: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    **absent: Any,
) -> Any:
    """Return the standard deviation of the items.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    dtype : dtype, optional
        Of the result, a floating point type. By default as with NumPy: float64 for integers, else that of the items.
    ddof : float
        The divisor is the number of items minus `ddof`.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> blosc2.std(blosc2.arange(6, shape=(2, 3)), axis=0)
    array([1.5, 1.5, 1.5])
    """
    return _reduce("std", ndarr, axis, keepdims, dtype=dtype, ddof=ddof, where=where, out=out, **absent)


def var(
    ndarr: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    **absent: Any,
) -> Any:
    """Return the variance of the items.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    dtype : dtype, optional
        Of the result, a floating point type. By default as with NumPy: float64 for integers, else that of the items.
    ddof : float
        The divisor is the number of items minus `ddof`.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> float(blosc2.var(blosc2.arange(5))), float(blosc2.var(blosc2.arange(5), ddof=1))
    (2.0, 2.5)
    """
    return _reduce("var", ndarr, axis, keepdims, dtype=dtype, ddof=ddof, where=where, out=out, **absent)


def min(
    ndarr: Any,
    axis: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    initial: Any = None,
    **absent: Any,
) -> Any:
    """Return the smallest of the items; NaN where there is one.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.
    initial : scalar, optional
        Is compared with the items; the result where there are none.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> blosc2.min(blosc2.arange(6, shape=(2, 3)), axis=1, keepdims=True)
    array([[0],
           [3]])
    """
    return _reduce("min", ndarr, axis, keepdims, where=where, out=out, initial=initial, **absent)


def max(
    ndarr: Any,
    axis: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    out: Any = None,
    initial: Any = None,
    **absent: Any,
) -> Any:
    """Return the largest of the items; NaN where there is one.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.
    initial : scalar, optional
        Is compared with the items; the result where there are none.

    Returns
    -------
    scalar or ndarray

    Examples
    --------
    >>> import blosc2
    >>> int(blosc2.max(blosc2.arange(6)))
    5
    """
    return _reduce("max", ndarr, axis, keepdims, where=where, out=out, initial=initial, **absent)


def any(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, **absent: Any
) -> Any:
    """Return whether any item is true. Chunks behind the first true item may not be read.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    bool or ndarray of bool

    Examples
    --------
    >>> import blosc2
    >>> bool(blosc2.any(blosc2.zeros(10)))
    False
    """
    return _reduce("any", ndarr, axis, keepdims, where=where, out=out, **absent)


def all(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, **absent: Any
) -> Any:
    """Return whether all items are true. Chunks behind the first one that is not may not be read.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int or tuple of int, optional
        Axes that are reduced; negative ones count from the end. By default all.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    where : array_like of bool, optional
        Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
        piece by piece.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    bool or ndarray of bool

    Examples
    --------
    >>> import blosc2
    >>> bool(blosc2.all(blosc2.ones(10)))
    True
    """
    return _reduce("all", ndarr, axis, keepdims, where=where, out=out, **absent)


def argmin(ndarr: Any, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
    """Return the index of the smallest item: the first one, where several are.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int, optional
        The axis to look along. By default all items, whose index is then that in C order.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    int64 or ndarray of int64

    Examples
    --------
    >>> import blosc2
    >>> int(blosc2.argmin(blosc2.asarray([3, 1, 2, 1])))
    1
    """
    return _reduce("argmin", ndarr, axis, keepdims, out=out, **absent)


def argmax(ndarr: Any, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
    """Return the index of the largest item: the first one, where several are.

    Read piece by piece, as `blosc2.sum` does.

    Parameters
    ----------
    ndarr : NDArray, NDField or array_like
    axis : int, optional
        The axis to look along. By default all items, whose index is then that in C order.
    keepdims : bool
        Whether reduced axes stay, with length 1.
    out : ndarray, optional
        Where the result goes. It is of the shape of that, and returned.

    Returns
    -------
    int64 or ndarray of int64

    Examples
    --------
    >>> import blosc2
    >>> blosc2.argmax(blosc2.arange(6, shape=(2, 3)), axis=1)
    array([2, 2])
    """
    return _reduce("argmax", ndarr, axis, keepdims, out=out, **absent)
