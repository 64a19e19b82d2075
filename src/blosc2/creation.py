"""Making arrays: `asarray`, `zeros`, `arange` and their like.

`c_order=False` allows items in any order that is convenient; C order is, so it is taken and changes nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from blosc2._core.frame import special_chunk
from blosc2.array_plan import ArrayPlan
from blosc2.draft import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET
from blosc2.dtypes import format_dtype
from blosc2.exceptions import ChunkSizeError
from blosc2.ndarray import NDArray, copied
from blosc2.partitions import as_shape
from blosc2.schunk import SChunk


def asarray(array: Any, copy: bool | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Compress an array.

    Parameters
    ----------
    array : array_like
        Anything that NumPy takes, with any strides and byte order. An `NDArray` is returned as it is when no
        keyword asks for something else.
    copy : bool, optional
        True always makes a new array; False raises `ValueError` where that would be needed.
    dtype : dtype, optional
    **kwargs
        ``chunks``, ``blocks``, ``cparams``, ``dparams``, ``meta``, ``urlpath``, ``mode`` and the other fields of
        `blosc2.Storage`.

    Returns
    -------
    NDArray

    Raises
    ------
    FileExistsError
        The file exists, and ``mode="w"`` does not say to replace it.
    TypeError
        Items that cannot be stored, such as Python objects.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.asarray(np.eye(3))[1]
    array([0., 1., 0.])
    """
    if isinstance(array, NDArray):
        same = not kwargs and (dtype is None or np.dtype(dtype) == array.dtype)
        if same and not copy:
            return array
        if copy is False:
            raise ValueError("a new array is needed, which copy=False forbids")
        return array.copy(dtype, **kwargs) if "meta" not in kwargs else copied(array, dtype, kwargs)
    if isinstance(array, SChunk):
        raise TypeError("a super-chunk has no shape: use np.frombuffer(schunk[:], dtype) to say what its items are")
    if isinstance(array, (Mapping, AbstractSet)):
        raise TypeError(f"a {type(array).__name__} is no array: store its values one by one")
    if copy is False:
        raise ValueError("compressing needs a copy, which copy=False forbids")
    items = np.asarray(_unmasked(array), dtype)
    return _compressed(items, kwargs)


def array(array: Any, copy: bool | None = True, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Compress an array; always a new one. See `asarray` for the parameters."""
    return asarray(array, copy, dtype, **kwargs)


def _compressed(items: np.ndarray[Any, Any], kwargs: dict[str, Any]) -> NDArray:
    plan = ArrayPlan(items.shape, items.dtype, kwargs)
    return NDArray._of(plan.write(plan.compressed(items)))


def _unmasked(array: Any) -> Any:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("masked arrays would lose their mask: compress array.data and array.mask, or array.filled()")
    return array


def copy(array: NDArray, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Copy an array with its metadata; see `NDArray.copy`."""
    return array.copy(dtype, **kwargs)


def _special(shape: Any, dtype: Any, offset: int, kwargs: dict[str, Any]) -> NDArray:
    return NDArray._of(ArrayPlan(shape, dtype, kwargs).write((offset,)))


def empty(shape: Any, dtype: Any = np.float64, **kwargs: Any) -> NDArray:
    """Make an array whose items are not defined; reading gives zeros. See `zeros` for the parameters."""
    return _special(shape, dtype, UNINIT_OFFSET, kwargs)


uninit = empty


def zeros(shape: Any, dtype: Any = np.float64, **kwargs: Any) -> NDArray:
    """Make an array of zeros, which needs no space.

    Parameters
    ----------
    shape : int, tuple or list
    dtype : dtype
    **kwargs
        As for `asarray`.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.zeros((1000, 1000), dtype="f4").cbytes
    0
    """
    return _special(shape, dtype, ZERO_OFFSET, kwargs)


def nans(shape: Any, dtype: Any = np.float64, **kwargs: Any) -> NDArray:
    """Make an array of NaN; the dtype must be a floating one. See `zeros` for the parameters."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fc":
        raise ValueError(f"there is no NaN in {dtype}; choose a floating dtype")
    if dtype in (np.dtype("<f4"), np.dtype("<f8")):
        return _special(shape, dtype, NAN_OFFSET, kwargs)
    return full(shape, np.nan, dtype, **kwargs)


def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of one value. See `zeros` for the parameters; the dtype is the value's unless given.

    Raises
    ------
    OverflowError
        The dtype cannot hold the value.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.full(3, 7, dtype="i2")[:]
    array([7, 7, 7], dtype=int16)
    """
    item = np.empty((), np.asarray(fill_value).dtype if dtype is None else dtype)
    format_dtype(item.dtype)  # refuses what cannot be stored, before NumPy is asked to convert to it
    item[()] = fill_value
    plan = ArrayPlan(shape, item.dtype, kwargs)
    raw = item.tobytes()
    if not any(raw):
        return NDArray._of(plan.write((ZERO_OFFSET,)))
    geometry = plan.geometry
    chunk = special_chunk(3, geometry.chunk_nbytes, geometry.itemsize, geometry.block_nbytes, raw)
    return NDArray._of(plan.write(chunk for _ in range(geometry.nchunks)))


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of ones, of float64 unless given. See `zeros` for the parameters."""
    return full(shape, 1, np.float64 if dtype is None else dtype, **kwargs)


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, shape: Any = None, c_order: bool = True,  # noqa: ARG001
    **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Make an array of evenly spaced values, as `numpy.arange`, of any shape.

    Raises
    ------
    ValueError
        The shape has another number of items, or the step is zero.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.arange(6, shape=(2, 3))[1]
    array([3, 4, 5])
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("the step of arange cannot be zero")
    count = max(math.ceil((stop - start) / step), 0)
    target = (count,) if shape is None else as_shape(shape, "shape")
    if math.prod(target) != count:
        raise ValueError(f"shape is not consistent: {target} has {math.prod(target)} items, the range {count}")

    items: np.ndarray[Any, Any] = np.arange(start, stop, step, dtype)  # type: ignore[call-overload]
    return _compressed(items.reshape(target), kwargs)


def linspace(
    start: Any, stop: Any, num: int | None = None, dtype: Any = None, endpoint: bool = True, shape: Any = None,
    c_order: bool = True, **kwargs: Any,  # noqa: ARG001
) -> NDArray:  # fmt: skip
    """Make an array of `num` evenly spaced values from `start` to `stop`, as `numpy.linspace`, of any shape.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.linspace(0, 1, 5)[:]
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if num is None and shape is None:
        raise ValueError("Either `shape` or `num` must be given")
    target = (operator.index(num),) if shape is None else as_shape(shape, "shape")  # type: ignore[arg-type]
    if num is not None and math.prod(target) != num:
        raise ValueError(f"shape is not consistent: {target} has {math.prod(target)} items, num is {num}")
    items = np.linspace(start, stop, math.prod(target), endpoint, dtype=dtype)
    return _compressed(items.reshape(target), kwargs)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = np.float64, **kwargs: Any) -> NDArray:
    """Make a 2-d array with ones on a diagonal, as `numpy.eye`."""
    return asarray(np.eye(N, M, k, dtype=dtype), **kwargs)


def frombuffer(buffer: Any, shape: Any, dtype: Any = np.uint8, **kwargs: Any) -> NDArray:
    """Compress the items that a buffer holds, in C order; it may be longer than the shape.

    Raises
    ------
    ValueError
        The buffer is too short; it is a `RuntimeError` too.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.frombuffer(b"abcd", (2, 2), dtype="S1")[1]
    array([b'c', b'd'], dtype='|S1')
    """
    shape = as_shape(shape, "shape")
    dtype = np.dtype(dtype)
    format_dtype(dtype)
    needed = math.prod(shape) * dtype.itemsize
    view = memoryview(buffer).cast("B")
    if len(view) < needed:
        raise ChunkSizeError(f"the buffer has {len(view)} bytes, {shape} items of {dtype} need {needed}")
    return asarray(np.frombuffer(view[:needed], dtype).reshape(shape), **kwargs)


def fromiter(iterable: Any, shape: Any, dtype: Any, c_order: bool = True, **kwargs: Any) -> NDArray:  # noqa: ARG001
    """Compress as many items of an iterable as the shape has."""
    shape = as_shape(shape, "shape")
    items = np.fromiter(iterable, dtype, math.prod(shape))
    return asarray(items.reshape(shape), **kwargs)


def empty_like(x: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of undefined items with the shape of another."""
    return empty(x.shape, x.dtype if dtype is None else dtype, **kwargs)


def zeros_like(x: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of zeros with the shape of another."""
    return zeros(x.shape, x.dtype if dtype is None else dtype, **kwargs)


def ones_like(x: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of ones with the shape of another."""
    return ones(x.shape, x.dtype if dtype is None else dtype, **kwargs)


def full_like(x: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Make an array of one value with the shape of another."""
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype, **kwargs)


def save(array: Any, urlpath: Any, contiguous: bool = True, **kwargs: Any) -> None:
    """Copy an array into a file.

    Parameters
    ----------
    array : NDArray, SChunk or array_like
    urlpath : str, bytes or path
    **kwargs
        As for `asarray`; ``mode="w"`` replaces a file.

    Examples
    --------
    >>> import blosc2, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     blosc2.save(blosc2.zeros(3), os.path.join(folder, "zeros.b2nd"))
    ...     blosc2.open(os.path.join(folder, "zeros.b2nd")).shape
    (3,)
    """
    if isinstance(array, SChunk):
        array.copy(urlpath=urlpath, contiguous=contiguous, **kwargs)
    elif isinstance(array, NDArray):
        copy(array, urlpath=urlpath, contiguous=contiguous, **kwargs)
    else:
        asarray(array, urlpath=urlpath, contiguous=contiguous, **kwargs)


__all__ = [
    "arange", "array", "asarray", "copy", "empty", "empty_like", "eye", "frombuffer",
    "fromiter", "full", "full_like", "linspace", "nans", "ones", "ones_like", "save", "uninit", "zeros", "zeros_like",
]  # fmt: skip
