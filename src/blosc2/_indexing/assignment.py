"""Converting values that are assigned to items of an array, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._core.ndim.gaps import as_dtype, clear_gaps
from blosc2._frames import is_masked
from blosc2.exceptions import ShapeError


def as_items(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    """A value as an array of this dtype and shape, cast and broadcast as NumPy does on assignment.

    Without a shape it keeps its own.
    """
    _refuse_mask(value)
    value = plain(value)
    if not (isinstance(value, np.ndarray) and value.dtype == dtype):
        if dtype.names is not None and not isinstance(value, np.ndarray):
            value = np.array(value, dtype)  # tuples are items there, so only NumPy knows the shape
        else:
            items = np.empty(np.shape(value), dtype)
            items[...] = value
            value = items
        clear_gaps(value)
    if shape is None:
        return np.asarray(value)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ShapeError(
            f"a value of shape {value.shape} cannot be assigned to a selection of shape {shape}: give it that shape, "
            "or one that NumPy broadcasts to it"
        ) from None


def lossless(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """A value as an array, which has all of it.

    Raises
    ------
    TypeError
        A masked array, which would lose its mask.
    ValueError
        Bytes or texts with zeros at their end, which NumPy's types of fixed length do not tell from what fills them up.
    """
    _refuse_mask(value)
    array = as_dtype(value, dtype)
    if array.dtype.kind in "SU" and array is not value:
        _check_ends(value)
    return array


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
    return np.asarray(value) if hasattr(type(value), "__array__") and not isinstance(value, np.ndarray) else value


def plain_key(key: Any) -> Any:
    """A key with NumPy arrays instead of ours."""
    if isinstance(key, tuple):
        return tuple(plain(part) for part in key)
    return plain(key)
