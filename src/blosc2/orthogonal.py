"""Orthogonal indexing: each axis by a list of its own, all combinations."""

from __future__ import annotations

from typing import Any

import numpy as np


class OrthogonalIndex:
    """What `NDArray.oindex` gives: ``array.oindex[[0, 2], 1:3]`` picks rows 0 and 2 of columns 1 and 2.

    There is a list, integer array, boolean array, slice or integer for each axis; integers drop theirs.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def _indices(self, key: Any) -> tuple[tuple[np.ndarray[Any, Any], ...], tuple[int, ...]]:
        """The items of each axis, and the axes to drop."""
        keys = key if isinstance(key, tuple) else (key,)
        shape = self._array.shape
        if len(keys) != len(shape):
            raise ValueError(f"oindex takes a key for each of the {len(shape)} axes, not {len(keys)}")
        picked = []
        dropped = []
        for axis, (part, length) in enumerate(zip(keys, shape, strict=True)):
            items = np.arange(length)[np.zeros(0, int) if isinstance(part, list) and not part else part]
            if items.ndim == 0:
                dropped.append(axis)
            elif items.ndim > 1:
                raise IndexError(f"the key of axis {axis} has {items.ndim} axes; it may have one")
            picked.append(np.atleast_1d(items))
        return np.ix_(*picked), tuple(dropped)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        indices, dropped = self._indices(key)
        result: np.ndarray[Any, Any] = self._array[...][indices].squeeze(dropped)
        return np.ascontiguousarray(result).reshape(result.shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        indices, dropped = self._indices(key)
        with self._array._carrier.editing():
            items = self._array[...]
            target = np.empty([n for axis, n in enumerate(items[indices].shape) if axis not in dropped], items.dtype)
            target[...] = value
            items[indices] = np.expand_dims(target, dropped)
            self._array[...] = items
