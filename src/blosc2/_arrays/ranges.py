"""The items of `arange`, `linspace` and `eye`, computed from their positions, so that any part can be made alone.

The values are those of NumPy to the last bit: the formulas are NumPy's, in the arithmetic of the items' type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Box = tuple[slice, ...]
_FORMULA_KINDS = tuple(np.dtype(name) for name in ("f4", "f8", "c8", "c16"))


def positions(shape: tuple[int, ...], box: Box) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions of the items of a part in the C order of the whole.

    Parameters
    ----------
    shape : tuple of int
        Of the whole.
    box : tuple of slice
        One for each axis, with start and stop.

    Examples
    --------
    >>> positions((4, 10), (slice(1, 3), slice(0, 2)))
    array([[10, 11],
           [20, 21]])
    """
    result = np.zeros((1,) * len(shape), np.int64)
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        along = np.arange(box[axis].start, box[axis].stop, dtype=np.int64) * stride
        result = result + along.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
        stride *= shape[axis]
    return result


class Range:
    """The items of `numpy.arange` by their numbers.

    Parameters
    ----------
    start, step : number
    dtype : dtype
        Of the items; the formula is worked out in its native byte order.
    """

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
        """The items with these numbers."""
        out = np.empty(numbers.shape, self._first.dtype)
        if out.dtype.kind == "c":
            for part, delta, first in (
                (out.real, self._delta.real, self._first.real),
                (out.imag, self._delta.imag, self._first.imag),
            ):
                part[...] = numbers
                part *= delta
                part += first
        else:
            np.copyto(out, numbers, casting="unsafe")
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
    """A part of a matrix with ones on its diagonal `k`. None if it has only zeros.

    Examples
    --------
    >>> eye_part((slice(1, 3), slice(2, 4)), 0, np.dtype("i4"))
    array([[0, 0],
           [1, 0]], dtype=int32)
    """
    rows, columns = box
    diagonal = k + rows.start - columns.start
    height, width = rows.stop - rows.start, columns.stop - columns.start
    if not -height < diagonal < width:
        return None
    return np.eye(height, width, diagonal, dtype=dtype)
