"""Bytes between the fields of structured items.

NumPy does not set them where it converts or copies such items to fresh memory, so what was in that memory before stays
there. In a file, others could read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def as_bytes(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One memory for copies, with the bytes between fields."""
    return items if items.dtype.names is None else items.view(np.dtype((np.void, items.dtype.itemsize)))


def contiguous(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`numpy.ascontiguousarray` with the bytes between fields."""
    if items.flags.c_contiguous or items.dtype.names is None:
        return np.ascontiguousarray(items)
    return np.ascontiguousarray(as_bytes(items)).view(items.dtype)


def as_dtype(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """`numpy.asarray`; where it converts, the bytes between fields are zeros."""
    try:
        items = np.asarray(value, dtype)
    except TypeError as error:
        if "unsupported ScalarType" not in str(error):  # of PyTorch
            raise
        raise TypeError(
            f"{error}, which NumPy has not: give the bits, tensor.view(torch.uint16), or torch.uint8 of float8, and "
            "view what is read as the type again; or give tensor.float()"
        ) from None
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype != items.dtype):
        clear_gaps(items)  # of memory of our own
    return items


def clear_gaps(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Set these bytes of an array that was made by a conversion to zero; returns the array."""
    if items.dtype.names is not None:
        _clear(items)
    return items


def _clear(items: np.ndarray[Any, Any]) -> None:
    gaps, nested = _gaps_of(items.dtype)
    if gaps is not None:
        view = items.view(gaps)
        for name in gaps.names or ():
            view[name] = np.zeros((), gaps[name])
    for name in nested:
        _clear(items[name])


def _gaps_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any] | None, tuple[str, ...]]:
    """The gaps as a dtype of the same size, and the names of fields that may have some within."""
    fields: Mapping[str, Any] = dtype.fields or {}
    # That of a field with a shape is counted from its base: where NumPy makes one dtype of two, its size may be wrong.
    places = [(field[1], field[0].base.itemsize * math.prod(field[0].shape)) for field in fields.values()]
    gaps, end = [], 0
    for offset, size in sorted(places):
        if offset > end:
            gaps.append((end, offset - end))
        end = max(end, offset + size)
    if dtype.itemsize > end:
        gaps.append((end, dtype.itemsize - end))
    nested = tuple(name for name, field in fields.items() if field[0].base.names is not None)
    if not gaps:
        return None, nested
    return np.dtype(
        {
            "names": [f"gap {at}" for at, _ in gaps],
            "formats": [f"V{size}" for _, size in gaps],
            "offsets": [at for at, _ in gaps],
            "itemsize": dtype.itemsize,
        }
    ), nested
