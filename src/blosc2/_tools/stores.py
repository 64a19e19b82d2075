"""Whether items and values are equal, where NaN is NaN, and whether JSON can hold them."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_value(a: Any, b: Any) -> bool:
    """Whether two values of attributes or lists are the same: of one type, and NaN is NaN."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(equal_items(a, b)))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_value(value, b[name]) for name, value in a.items())
    if not isinstance(a, (str, bytes)) and hasattr(a, "__len__") and hasattr(a, "__getitem__"):  # lists, batches
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or bool(a != a and b != b)


def equal_items(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which items of two arrays of one shape and dtype are equal. NaN is NaN, and NaT is NaT."""
    if a.size == 0:
        return np.ones(a.shape, bool)
    if a.dtype.names is not None:
        same = np.ones(a.shape, bool)
        for name in a.dtype.names:
            field = equal_items(a[name], b[name])
            same &= field.reshape(*a.shape, -1).all(axis=-1)  # a field may have axes of its own
        return same
    same = np.asarray(a == b)
    if a.dtype.kind in "fc":
        same = same | (np.isnan(a) & np.isnan(b))
    elif a.dtype.kind in "mM":
        same = same | (np.isnat(a) & np.isnat(b))
    return same


def is_json(value: Any) -> bool:
    """Whether JSON can hold a value, and gives it back as it is."""
    if isinstance(value, list):
        return all(map(is_json, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(inner) for name, inner in value.items())
    return value is None or isinstance(value, (bool, int, float, str))
