"""Reductions, as functions and as methods: of arrays, fields of records, and what NumPy makes an array of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Never, TypeVar

import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

#: What `help` says of each parameter, where a reduction does not say it.
_PARAMETERS: Final = {
    "ndarr": "NDArray, NDField or array_like",
    "axis": """int or tuple of int, optional
    Axes that are reduced; negative ones count from the end. By default all.""",
    "ddof": """float
    The divisor is the number of items minus `ddof`.""",
    "keepdims": """bool
    Whether reduced axes stay, with length 1.""",
    "where": """array_like of bool, optional
    Which items count, of a shape that broadcasts to that of the array; an `NDArray` of the same shape is read
    piece by piece.""",
    "out": """ndarray, optional
    Where the result goes. It is of the shape of that, and returned.""",
}
_ONE_AXIS: Final = """int, optional
    The axis to look along. By default all items, whose index is then that in C order."""
_DTYPE: Final = """dtype, optional
    Of the result, {}. By default as with NumPy: float64 for integers, else that of the items."""
_DTYPE_OF_SUMS: Final = """dtype, optional
    Of the result, and of the {} that lead to it. By default as with NumPy: integers of 64 bits for those of
    fewer, else that of the items."""
_COMPARED: Final = """scalar, optional
    Is compared with the items; the result where there are none."""


def _reduction(result: str = "scalar or ndarray", **texts: str) -> Callable[[_F], _F]:
    """Decorate a reduction: `help` describes each parameter and the result, and hides what other keywords go to."""

    def decorate(function: _F) -> _F:
        described: Any = function
        signature = inspect.signature(function)
        shown = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        described.__signature__ = signature.replace(parameters=shown)
        entries = [f"{each.name} : {texts.get(each.name) or _PARAMETERS[each.name]}" for each in shown]
        lines = ["Parameters", "----------", *entries, "", "Returns", "-------", result, "", ""]
        text = inspect.cleandoc(function.__doc__ or "")
        section = "Raises\n---" if "Raises\n---" in text else "Examples\n---"
        described.__doc__ = text.replace(section, "\n".join(lines) + section, 1)
        return function

    return decorate


def _reduce(name: str, ndarr: Any, axis: Any, keepdims: bool, absent: dict[str, Any], **options: Any) -> Any:
    if options.get("where") is True:  # with which NumPy says that all items count
        del options["where"]
    if isinstance(ndarr, Reducible):
        return ndarr._reduced(name, axis, keepdims, absent, **options)
    given = {key: value for key, value in options.items() if value is not None}
    return getattr(np, name)(np.asarray(ndarr), axis=axis, keepdims=keepdims, **given, **absent)


@_reduction(dtype=_DTYPE_OF_SUMS.format("sums"), initial="scalar, optional\n    Is added.")
def sum(
    ndarr: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None,
    initial: Any = None, **absent: Any,
) -> Any:  # fmt: skip
    """Return the sum of the items.

    The array is read piece by piece, by its threads, each of which needs a few MB. Chunks of one value are not decoded.
    Sums of floating point numbers are made of the sums of pieces, and do not depend on the number of threads.

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
    return _reduce("sum", ndarr, axis, keepdims, absent, dtype=dtype, where=where, out=out, initial=initial)


@_reduction(dtype=_DTYPE_OF_SUMS.format("products"), initial="scalar, optional\n    Is multiplied with.")
def prod(
    ndarr: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None,
    initial: Any = None, **absent: Any,
) -> Any:  # fmt: skip
    """Return the product of the items.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.prod(blosc2.arange(6, shape=(2, 3)), axis=0)
    array([ 0,  4, 10])
    """
    return _reduce("prod", ndarr, axis, keepdims, absent, dtype=dtype, where=where, out=out, initial=initial)


@_reduction(dtype=_DTYPE.format("and of the sums that lead to it"))
def mean(
    ndarr: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None,
    **absent: Any,
) -> Any:  # fmt: skip
    """Return the mean of the items.

    Examples
    --------
    >>> import blosc2
    >>> float(blosc2.mean(blosc2.arange(6)))
    2.5
    """
    return _reduce("mean", ndarr, axis, keepdims, absent, dtype=dtype, where=where, out=out)


@_reduction(dtype=_DTYPE.format("a floating point type"))
def std(
    ndarr: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, where: Any = None, *,
    out: Any = None, **absent: Any,
) -> Any:  # fmt: skip
    """Return the standard deviation of the items.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.std(blosc2.arange(6, shape=(2, 3)), axis=0)
    array([1.5, 1.5, 1.5])
    """
    return _reduce("std", ndarr, axis, keepdims, absent, dtype=dtype, ddof=ddof, where=where, out=out)


@_reduction(dtype=_DTYPE.format("a floating point type"))
def var(
    ndarr: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, where: Any = None, *,
    out: Any = None, **absent: Any,
) -> Any:  # fmt: skip
    """Return the variance of the items.

    Examples
    --------
    >>> import blosc2
    >>> float(blosc2.var(blosc2.arange(5))), float(blosc2.var(blosc2.arange(5), ddof=1))
    (2.0, 2.5)
    """
    return _reduce("var", ndarr, axis, keepdims, absent, dtype=dtype, ddof=ddof, where=where, out=out)


@_reduction(initial=_COMPARED)
def min(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, initial: Any = None,
    **absent: Any,
) -> Any:  # fmt: skip
    """Return the smallest of the items; NaN where there is one.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.min(blosc2.arange(6, shape=(2, 3)), axis=1, keepdims=True)
    array([[0],
           [3]])
    """
    return _reduce("min", ndarr, axis, keepdims, absent, where=where, out=out, initial=initial)


@_reduction(initial=_COMPARED)
def max(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, initial: Any = None,
    **absent: Any,
) -> Any:  # fmt: skip
    """Return the largest of the items; NaN where there is one.

    Examples
    --------
    >>> import blosc2
    >>> int(blosc2.max(blosc2.arange(6)))
    5
    """
    return _reduce("max", ndarr, axis, keepdims, absent, where=where, out=out, initial=initial)


@_reduction("bool or ndarray of bool")
def any(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, **absent: Any
) -> Any:
    """Return whether any item is true. Chunks behind the first true item may not be read.

    Examples
    --------
    >>> import blosc2
    >>> bool(blosc2.any(blosc2.zeros(10)))
    False
    """
    return _reduce("any", ndarr, axis, keepdims, absent, where=where, out=out)


@_reduction("bool or ndarray of bool")
def all(
    ndarr: Any, axis: Any = None, keepdims: bool = False, where: Any = None, *, out: Any = None, **absent: Any
) -> Any:
    """Return whether all items are true. Chunks behind the first one that is not may not be read.

    Examples
    --------
    >>> import blosc2
    >>> bool(blosc2.all(blosc2.ones(10)))
    True
    """
    return _reduce("all", ndarr, axis, keepdims, absent, where=where, out=out)


@_reduction("int64 or ndarray of int64", axis=_ONE_AXIS)
def argmin(ndarr: Any, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
    """Return the index of the smallest item: the first one, where several are.

    Examples
    --------
    >>> import blosc2
    >>> int(blosc2.argmin(blosc2.asarray([3, 1, 2, 1])))
    1
    """
    return _reduce("argmin", ndarr, axis, keepdims, absent, out=out)


@_reduction("int64 or ndarray of int64", axis=_ONE_AXIS)
def argmax(ndarr: Any, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
    """Return the index of the largest item: the first one, where several are.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.argmax(blosc2.arange(6, shape=(2, 3)), axis=1)
    array([2, 2])
    """
    return _reduce("argmax", ndarr, axis, keepdims, absent, out=out)


class Reducible:
    """Base of `NDArray` and `NDField`, which have the functions above as methods, and no operators."""

    __slots__ = ()

    sum, prod, mean, std, var, min, max, any, all = sum, prod, mean, std, var, min, max, any, all
    argmin, argmax = argmin, argmax

    def _reduced(self, name: str, axis: Any, keepdims: bool, absent: dict[str, Any], **options: Any) -> Any:
        """What the methods do; keywords that they do not know are in `absent`."""
        raise NotImplementedError

    def _no_operators(self, *_: Any) -> Never:
        raise TypeError("compressed arrays have no operators: use np.asarray(a) or a[:], which are NumPy arrays")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_operators
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _no_operators
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _no_operators
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = __lshift__ = __rshift__ = _no_operators
    __neg__ = __pos__ = __abs__ = __invert__ = _no_operators
    __hash__ = None  # type: ignore[assignment]
