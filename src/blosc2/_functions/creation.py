"""Functions that make arrays: of other arrays, of iterables, of one value, of ranges."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, islice, repeat
from numbers import Real
from typing import Any, Unpack

import numpy as np

from blosc2._arrays import (
    ArrayPlan,
    Box,
    as_shape,
    compressed_box,
    copied,
    joined_rows,
    made,
    plain_dtype,
    slab_height,
    slabs_in,
    slabs_of,
)
from blosc2._core.frame.frame_writer import special_chunk
from blosc2._core.ndim.gaps import clear_gaps, contiguous
from blosc2._files import waiting_items
from blosc2._frames import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET, AnyChunk, format_dtype
from blosc2._indexing import lossless
from blosc2._options import as_flag
from blosc2.exceptions import ChunkSizeError
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import ArrayKeywords, takes


def one_by_one(item: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterable[Any]:
    """The numbers of an item that has axes."""
    found = np.asarray(item, dtype)
    if found.shape != shape:
        raise ValueError(f"an item has the shape {found.shape}, and that of the dtype is {shape}")
    numbers: Iterable[Any] = found.flat
    return numbers


def inserted(plan: ArrayPlan, items: Iterator[Any]) -> Iterator[AnyChunk]:
    """The chunks of items that fill one chunk after the other."""
    for slab in slabs_in(plan.geometry, 1):
        chunks = compressed_box(plan, slab.starts, next_items(items, slab.counts, plan.shape, plan.dtype))
        yield chunks.pop(slab.first)


def next_items(
    items: Iterator[Any], shape: tuple[int, ...], whole: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """The next items, in an array of this shape."""
    count = math.prod(shape)
    drawn = list(islice(items, count)) if dtype.kind in "SU" else np.fromiter(islice(items, count), dtype)
    if len(drawn) < count:
        raise ValueError(f"iterator too short: it has fewer than the {math.prod(whole)} items of the shape {whole}")
    return clear_gaps(np.array(drawn, dtype)).reshape(shape)


#: Bytes of a sequence from which it is made in parts, not as one NumPy array.
_LONG_NBYTES = 16 << 20


@takes(ArrayKeywords)
def asarray(
    array: Any, copy: bool | None = None, dtype: Any = None, *, shape: Any = None, **kwargs: Unpack[ArrayKeywords]
) -> NDArray:
    """Compress an array, or an iterable of blocks that form one.

    Parameters
    ----------
    array : array_like or iterable of array_like
        Anything that NumPy accepts, with any strides and byte order. It is compressed from where it is, without a
        second copy. An `NDArray` is returned unchanged if no keyword asks for something else.
    copy : bool, optional
        True always makes a new array; False raises `ValueError` if a new array would be needed.
    dtype : dtype, optional
        By default that of the array, or of the first block.
    shape : tuple of int, optional
        The shape of the whole array. With it, `array` may be an iterable, such as a generator, of blocks along axis 0:
        each block has any number of rows, and the other axes as in the shape. Blocks are taken one by one, and
        compressed when a row of chunks is full. So memory holds at most ``chunks[0]`` rows and one block, besides what
        is stored.
    **kwargs
        ``chunks``, ``blocks`` or ``layout`` (see `compute_chunks_blocks`), ``cparams`` ("auto" and other goals of
        `tune` choose it from the data), ``dparams``, ``meta``, ``urlpath``, ``mode`` and the other fields of
        `blosc2.Storage`.

    Returns
    -------
    NDArray

    Raises
    ------
    FileExistsError
        The file exists, and ``mode="w"`` is not given to replace it.
    TypeError
        The items cannot be stored, such as Python objects; or `copy` is none of its values, such as a path.
    ValueError
        Blocks do not fit the shape, or have fewer or more rows in all. No file is left then.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.asarray(np.eye(3))[1]
    array([0., 1., 0.])

    From slices that arrive one by one, for instance from a camera or a file of another format:

    >>> slices = (np.full((1, 2), n) for n in range(1000))
    >>> blosc2.asarray(slices, shape=(1000, 2))[998:]
    array([[998, 998],
           [999, 999]])
    """
    if copy is not None and copy is not True:
        copy = as_flag(copy, "copy")
    if type(array) is np.ndarray and shape is None and (dtype is None or dtype == array.dtype) and copy is not False:
        return _compressed(array, kwargs)  # as in most calls
    if isinstance(array, NDArray):
        _check_shape(array.shape, shape)
        same = not kwargs and (dtype is None or np.dtype(dtype) == array.dtype)
        if same and not copy:
            return array
        if copy is False:
            raise ValueError("a new array is needed, which copy=False forbids")
        return array.copy(dtype, **kwargs) if "meta" not in kwargs else NDArray._of(copied(array, dtype, kwargs))
    if isinstance(array, SChunk):
        raise TypeError("a super-chunk has no shape: use np.frombuffer(schunk[:], dtype) to say what its items are")
    if isinstance(array, (Mapping, AbstractSet)):
        raise TypeError(f"a {type(array).__name__} is no array: store its values one by one")
    if copy is False:
        raise ValueError("compressing needs a copy, which copy=False forbids")
    if isinstance(array, Iterable) and not _whole(array):
        if shape is not None:
            return _of_blocks(array, as_shape(shape, "shape"), dtype, kwargs)
        if isinstance(array, Iterator):
            raise TypeError(
                "an iterator does not say its shape: pass shape= for one of blocks; fromiter takes one of items"
            )
    items = lossless(array, dtype)
    _check_shape(items.shape, shape)
    return _compressed(items, kwargs)


def _whole(array: Any) -> bool:
    """Whether this is an array, and not an iterable of arrays."""
    if isinstance(array, (str, bytes)) or hasattr(array, "__array__") or hasattr(array, "__array_interface__"):
        return True
    try:
        memoryview(array)
    except TypeError:
        return hasattr(array, "__array_struct__")
    return True


def _check_shape(shape: tuple[int, ...], declared: Any) -> None:
    if declared is not None and as_shape(declared, "shape") != shape:
        raise ValueError(f"the array has the shape {shape}, not {declared}; see reshape")


def _of_blocks(blocks: Iterable[Any], shape: tuple[int, ...], dtype: Any, kwargs: Mapping[str, Any]) -> NDArray:
    """An array of this shape from blocks that follow each other along axis 0."""
    if not shape:
        raise ValueError("an array of no axes has no blocks: pass the item itself, without shape=")
    remaining = iter(blocks)
    if dtype is None:
        first = next(remaining, None)
        if first is None:
            raise ValueError("there is no block to take the dtype from: pass dtype=")
        first = lossless(first)
        dtype, remaining = first.dtype, chain((first,), remaining)
    plan = ArrayPlan(shape, dtype, kwargs)
    target = plan.keywords.storage.urlpath
    slabs = slabs_of(
        remaining, lambda block: lossless(block, plan.dtype), shape, plan.dtype, slab_height(plan),
        np.empty if target is None else partial(waiting_items, target),
    )  # fmt: skip
    if plan.geometry.size == 0:
        for _ in slabs:  # only to see that they fit
            pass
    return NDArray._of(plan.write(joined_rows(plan, slabs)))


@takes(ArrayKeywords)
def array(array: Any, copy: bool | None = True, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Compress an array; always a new one unless `copy` is None.

    Parameters
    ----------
    array, copy, dtype
        As for `asarray`.
    **kwargs
        As for `asarray`.

    Examples
    --------
    >>> import blosc2
    >>> first = blosc2.array([1, 2])
    >>> blosc2.array(first) is first
    False
    """
    return asarray(array, copy, dtype, **kwargs)


def _compressed(items: np.ndarray[Any, Any], kwargs: Mapping[str, Any]) -> NDArray:
    plan = ArrayPlan(items.shape, items.dtype, kwargs)
    return NDArray._of(plan.write(plan.compressed(items)))


@takes(ArrayKeywords)
def copy(array: NDArray, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Copy an array with its metadata.

    Parameters
    ----------
    array : NDArray
    dtype : dtype, optional
    **kwargs
        As for `asarray`.
    """
    return array.copy(dtype, **kwargs)


def _made(plan: ArrayPlan, make: Callable[[Box], np.ndarray[Any, Any] | None]) -> NDArray:
    return NDArray._of(plan.write(made(plan, make)))


def _special(shape: Any, dtype: Any, offset: int, kwargs: Mapping[str, Any]) -> NDArray:
    return NDArray._of(ArrayPlan(shape, dtype, kwargs).write((offset,)))


@takes(ArrayKeywords)
def empty(shape: Any, dtype: Any = np.float64, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array whose items are undefined; reading it gives zeros.

    Parameters
    ----------
    shape : int, tuple or list
    dtype : dtype
    **kwargs
        As for `asarray`.
    """
    return _special(shape, dtype, UNINIT_OFFSET, kwargs)


uninit = empty


@takes(ArrayKeywords)
def zeros(shape: Any, dtype: Any = np.float64, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of zeros, which takes no space.

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


@takes(ArrayKeywords)
def nans(shape: Any, dtype: Any = np.float64, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of NaN; the dtype must be floating-point.

    Parameters
    ----------
    shape : int, tuple or list
    dtype : dtype
    **kwargs
        As for `asarray`.
    """
    dtype, more = plain_dtype(dtype)
    if dtype.kind not in "fc":
        raise ValueError(f"there is no NaN in {dtype}; choose a floating dtype")
    if more:
        return full(shape, np.nan, (dtype, more), **kwargs)
    if dtype in (np.dtype("<f4"), np.dtype("<f8")):
        return _special(shape, dtype, NAN_OFFSET, kwargs)
    return full(shape, np.nan, dtype, **kwargs)


@takes(ArrayKeywords)
def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array with one repeated value.

    Parameters
    ----------
    shape : int, tuple or list
    fill_value : object
    dtype : dtype, optional
        By default that of the value.
    **kwargs
        As for `asarray`.

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
    # Of a dtype with a shape it has axes.
    item = np.zeros((), np.asarray(fill_value).dtype if dtype is None else dtype)  # also between its fields
    format_dtype(item.dtype)  # refuses what cannot be stored, before NumPy is asked to convert to it
    item[...] = fill_value
    plan = ArrayPlan(shape, (item.dtype, item.shape) if item.ndim else item.dtype, kwargs)
    raw = item.tobytes()
    if item.ndim and raw:
        one = raw[: item.itemsize]
        if raw != one * item.size:
            return _made(plan, lambda box: contiguous(np.broadcast_to(item, plan.shape)[box]))
        raw = one
    if not any(raw):
        return NDArray._of(plan.write((ZERO_OFFSET,)))
    geometry = plan.geometry
    chunk = special_chunk(3, geometry.chunk_nbytes, geometry.itemsize, geometry.block_nbytes, raw)
    return NDArray._of(plan.write(repeat(chunk, geometry.nchunks)))


@takes(ArrayKeywords)
def ones(shape: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of ones.

    Parameters
    ----------
    shape : int, tuple or list
    dtype : dtype, optional
        float64 by default.
    **kwargs
        As for `asarray`.
    """
    return full(shape, 1, np.float64 if dtype is None else dtype, **kwargs)


@takes(ArrayKeywords)
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, shape: Any = None, c_order: bool = True,  # noqa: ARG001
    **kwargs: Unpack[ArrayKeywords],
) -> NDArray:  # fmt: skip
    """Make an array of evenly spaced values, like `numpy.arange`, with any shape.

    Parameters
    ----------
    start, stop, step : number or date
        As for `numpy.arange`.
    dtype : dtype, optional
    shape : int, tuple or list, optional
        With as many items as the range has; by default one axis.
    c_order : bool
        Accepted for compatibility: items are in C order.
    **kwargs
        As for `asarray`.

    Raises
    ------
    ValueError
        The shape has a different number of items, or the step is zero.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.arange(6, shape=(2, 3))[1]
    array([3, 4, 5])
    """
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    numbers = all(isinstance(value, Real) for value in (start, stop, step))
    if numbers:
        if step == 0:
            raise ValueError("the step of arange cannot be zero")
        count = max(math.ceil((stop - start) / step), 0)
    else:  # dates, for instance: NumPy knows how many
        # To dates NumPy adds no number without a unit: it is not told of a step that is its own.
        items = _numpy_range(start, stop, None if type(step) is int and step == 1 else step, dtype)
        count = len(items)
    target = (count,) if shape is None else as_shape(shape, "shape")
    if math.prod(target) != count:
        raise ValueError(f"shape is not consistent: {target} has {math.prod(target)} items, the range {count}")
    if numbers:
        # From stop to start there are no items, only their type.
        final = _numpy_range(stop, start, step, None).dtype if dtype is None else np.dtype(dtype)
        if count > 1 and count * final.itemsize > _LONG_NBYTES and Range.known(final.newbyteorder("=")):
            whole = Range(start, step, final)
            return _made(ArrayPlan(target, final, kwargs), lambda box: whole.items(positions(target, box)))
        items = _numpy_range(start, stop, step, dtype)
    return _compressed(items.reshape(target), kwargs)


def _numpy_range(start: Any, stop: Any, step: Any, dtype: Any) -> np.ndarray[Any, Any]:
    items: np.ndarray[Any, Any] = np.arange(start, stop, step, dtype)  # type: ignore[call-overload]
    return items


@takes(ArrayKeywords)
def linspace(
    start: Any, stop: Any, num: int | None = None, dtype: Any = None, endpoint: bool = True, shape: Any = None,
    c_order: bool = True, **kwargs: Unpack[ArrayKeywords],  # noqa: ARG001
) -> NDArray:  # fmt: skip
    """Make an array of `num` evenly spaced values from `start` to `stop`, like `numpy.linspace`, with any shape.

    Parameters
    ----------
    start, stop : number
    num : int, optional
        How many; by default as many items as the shape has.
    dtype : dtype, optional
    endpoint : bool
        Whether `stop` is the last value.
    shape : int, tuple or list, optional
        By default one axis.
    c_order : bool
        Accepted for compatibility: items are in C order.
    **kwargs
        As for `asarray`.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.linspace(0, 1, 5)[:]
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if num is None and shape is None:
        raise ValueError("Either `shape` or `num` must be given")
    target = (operator.index(num),) if shape is None else as_shape(shape, "shape")  # type: ignore[arg-type]
    count = math.prod(target)
    if num is not None and count != num:
        raise ValueError(f"shape is not consistent: {target} has {count} items, num is {num}")
    if count * 8 > _LONG_NBYTES:
        whole = Spaced(start, stop, count, endpoint, dtype)
        return _made(ArrayPlan(target, whole.dtype, kwargs), lambda box: whole.items(positions(target, box)))
    items = np.linspace(start, stop, count, endpoint, dtype=dtype)
    return _compressed(items.reshape(target), kwargs)


@takes(ArrayKeywords)
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = np.float64, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make a 2-d array with ones on a diagonal, like `numpy.eye`.

    Parameters
    ----------
    N, M : int
        Rows and columns; as many columns as rows by default.
    k : int
        Which diagonal: above the main one, or below it if negative.
    dtype : dtype
    **kwargs
        As for `asarray`.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.eye(2, 3, k=1)[:]
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    target = as_shape((N, N if M is None else M), "shape")
    dtype, diagonal = np.dtype(dtype), operator.index(k)
    if math.prod(target) * dtype.itemsize > _LONG_NBYTES:
        return _made(ArrayPlan(target, dtype, kwargs), lambda box: eye_part(box, diagonal, dtype))
    return _compressed(np.eye(target[0], target[1], diagonal, dtype=dtype), kwargs)


@takes(ArrayKeywords)
def frombuffer(buffer: Any, shape: Any, dtype: Any = np.uint8, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Compress the items of a buffer, in C order; the buffer may be longer than the shape needs.

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
    dtype, more = plain_dtype(dtype)
    shape = as_shape(shape, "shape") + more
    format_dtype(dtype)
    needed = math.prod(shape) * dtype.itemsize
    view = memoryview(buffer)
    if view.nbytes < needed:
        raise ChunkSizeError(f"the buffer has {view.nbytes} bytes, {shape} items of {dtype} need {needed}")
    if needed == 0:
        return _compressed(np.empty(shape, dtype), kwargs)
    return _compressed(np.frombuffer(view.cast("B")[:needed], dtype).reshape(shape), kwargs)


@takes(ArrayKeywords)
def fromiter(iterable: Any, shape: Any, dtype: Any, c_order: bool = True, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Compress items of an iterable, as many as the shape has.

    Items are taken and compressed whenever a row of chunks is full, so they are not all in memory at once. For an
    iterable of whole blocks see `asarray`.

    Parameters
    ----------
    iterable : iterable
        An iterable of items; or of arrays, if the dtype has a shape: ``("f8", (10,))`` means arrays of ten numbers,
        whose axis becomes the last one. A NumPy array with any axes, and as many items as the shape has, is compressed
        in C order, as by `asarray`.
    shape : int, tuple or list
        Without the axes of the dtype.
    dtype : dtype
    c_order : bool
        False fills one chunk after the other, in the order in which they are stored, which needs the least memory.
    **kwargs
        As for `asarray`.

    Raises
    ------
    ValueError
        There are fewer items than the shape has, or an array with several axes has more.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.fromiter((n * n for n in range(100)), (2, 3), "i4")[:]
    array([[ 0,  1,  4],
           [ 9, 16, 25]], dtype=int32)
    """
    c_order, more = as_flag(c_order, "c_order"), plain_dtype(dtype)[1]
    if isinstance(iterable, np.ndarray) and not more:
        target = as_shape(shape, "shape")
        if iterable.size == math.prod(target):
            return asarray(iterable.reshape(target), dtype=dtype, **kwargs)
        if iterable.ndim != 1:
            raise ValueError(f"an array of the shape {iterable.shape} does not have the items of {target}")
    plan = ArrayPlan(shape, dtype, kwargs)
    target, items = plan.shape, iter(iterable)
    if more:
        items = chain.from_iterable(one_by_one(item, more, plan.dtype) for item in items)
    if not c_order and plan.geometry.size:
        return NDArray._of(plan.write(inserted(plan, items)))
    if plan.geometry.size == 0 or not target:
        return NDArray._of(plan.write(plan.compressed(next_items(items, target, target, plan.dtype))))
    height, width = slab_height(plan), target[1:]
    slabs = (
        next_items(items, (min(height, target[0] - first), *width), target, plan.dtype)
        for first in range(0, target[0], height)
    )
    return NDArray._of(plan.write(joined_rows(plan, slabs)))


@takes(ArrayKeywords)
def empty_like(x: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of undefined items with the shape of another array.

    Parameters
    ----------
    x : array_like
        Anything with a shape and a dtype.
    dtype : dtype, optional
        By default that of `x`.
    **kwargs
        As for `asarray`.
    """
    return empty(x.shape, x.dtype if dtype is None else dtype, **kwargs)


@takes(ArrayKeywords)
def zeros_like(x: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of zeros with the shape of another array.

    Parameters
    ----------
    x : array_like
        Anything with a shape and a dtype.
    dtype : dtype, optional
        By default that of `x`.
    **kwargs
        As for `asarray`.
    """
    return zeros(x.shape, x.dtype if dtype is None else dtype, **kwargs)


@takes(ArrayKeywords)
def ones_like(x: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array of ones with the shape of another array.

    Parameters
    ----------
    x : array_like
        Anything with a shape and a dtype.
    dtype : dtype, optional
        By default that of `x`.
    **kwargs
        As for `asarray`.
    """
    return ones(x.shape, x.dtype if dtype is None else dtype, **kwargs)


@takes(ArrayKeywords)
def full_like(x: Any, fill_value: Any, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
    """Make an array with one repeated value and the shape of another array.

    Parameters
    ----------
    x : array_like
        Anything with a shape and a dtype.
    fill_value : object
    dtype : dtype, optional
        By default that of `x`.
    **kwargs
        As for `asarray`.
    """
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype, **kwargs)


@takes(ArrayKeywords)
def save(array: Any, urlpath: Any, contiguous: bool = True, **kwargs: Any) -> None:
    """Copy an array into a file.

    Parameters
    ----------
    array : NDArray, SChunk or array_like
    urlpath : str, bytes or path
    **kwargs
        As for `asarray`; ``mode="w"`` replaces an existing file.

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


# ------------------------------------------------------------------ items of ranges by their positions
# Any part can be made alone. The values are those of NumPy to the last bit: the formulas are NumPy's, in the arithmetic
# of the items' type.
_FORMULA_KINDS = np.dtype("f4"), np.dtype("f8")


def positions(shape: tuple[int, ...], box: Box) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions of the items of a box in the C order of an array of this shape."""
    result: np.ndarray[Any, np.dtype[np.int64]] = np.zeros((), np.int64)
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        along = np.arange(box[axis].start * stride, box[axis].stop * stride, stride, dtype=np.int64)
        along = along.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
        result = result + along if result.ndim else along
        stride *= shape[axis]
    return result


class Range:
    """The items of `numpy.arange` by their numbers. The formula is worked out in the native byte order of the dtype."""

    def __init__(self, start: Any, step: Any, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        # As in NumPy, the first two items, converted to the type, decide over the others.
        self._first, self._second = np.empty(1, dtype.newbyteorder("=")), np.empty(1, dtype.newbyteorder("="))
        self._first[0] = start
        self._second[0] = start + step
        self._delta = self._second - self._first  # arrays, since integers wrap in silence only there

    @staticmethod
    def known(dtype: np.dtype[Any]) -> bool:
        """Whether the items of this type can be made here."""
        return dtype.kind in "iu" or dtype in _FORMULA_KINDS

    def items(self, numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
        """The items with these numbers, whose memory may become theirs."""
        dtype = self._first.dtype
        if dtype.kind in "iu":  # the formula is exact
            out: np.ndarray[Any, Any] = numbers.astype(dtype, copy=False)
            if self._delta != 1:
                out *= self._delta
            if self._first:
                out += self._first
            return out.astype(self.dtype, copy=False)
        out = numbers.astype(dtype)
        out *= self._delta
        out += self._first
        if numbers.flat[0] <= 1:
            # The formula misses these because of rounding, and of a negative zero.
            out[numbers == 0] = self._first
            out[numbers == 1] = self._second
        return out.astype(self.dtype, copy=False)


class Spaced:
    """The items of `numpy.linspace(start, stop, num, endpoint, dtype=dtype)` by their numbers."""

    def __init__(self, start: Any, stop: Any, num: int, endpoint: bool, dtype: Any) -> None:
        first, last = np.asarray(start) * 1.0, np.asarray(stop) * 1.0
        if first.ndim or last.ndim:
            raise ValueError("start and stop must be numbers")
        self._working = np.result_type(first, last, float(num))
        self.dtype = self._working if dtype is None else np.dtype(dtype)
        self._first, self._last = first, last
        self._delta = np.subtract(last, first, dtype=self._working)
        self._num = num
        self._endpoint = endpoint

    def items(self, numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
        """The items with these numbers."""
        steps = self._num - 1 if self._endpoint else self._num
        out = numbers.astype(self._working)
        step = self._delta / steps if steps > 0 else None
        if step is None:
            out *= self._delta
        elif step == 0:  # too small a number: divided first
            out /= steps
            out *= self._delta
        else:
            out *= step
        out += self._first
        if self._endpoint and self._num > 1:
            out[numbers == self._num - 1] = self._last
        if self.dtype.kind in "iu":
            np.floor(out, out=out)
        return out.astype(self.dtype, copy=False)


def eye_part(box: Box, k: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """A part of a matrix with ones on its diagonal `k`. None if it has only zeros."""
    rows, columns = box
    diagonal = k + rows.start - columns.start
    height, width = rows.stop - rows.start, columns.stop - columns.start
    if not -height < diagonal < width:
        return None
    return np.eye(height, width, diagonal, dtype=dtype)
