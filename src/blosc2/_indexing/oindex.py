"""Orthogonal indexing: each axis by a key of its own, all combinations."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2 import _indexing
from blosc2._indexing.keys import as_items, orthogonal_selection, plain_key
from blosc2._indexing.read_items import read_fancy


class OrthogonalIndex:
    """The result of `NDArray.oindex`: ``array.oindex[[0, 2], 1:3]`` selects rows 0 and 2 of columns 1 and 2.

    A key has a list, integer array, boolean array, slice or integer for each axis; an integer drops its axis. A list of
    such keys means a tuple of them.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        handle = self._array._handle
        try:
            return _read(handle.array, key, handle.nthreads)
        except IndexError:
            return handle.once_grown(_read, key)  # type: ignore[no-any-return]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array._assign(_chunks_with, key, value)


def _chunks_with(version: Any, handle: Any, key: Any, value: Any) -> Any:
    fancy = orthogonal_selection(_keys(key), version[0].shape)
    return _indexing.write_fancy(version, handle, fancy, as_items(value, version[1], fancy.shape))


def _read(version: Any, key: Any, nthreads: int) -> np.ndarray[Any, Any]:
    fancy = orthogonal_selection(_keys(key), version[0].shape)
    out = np.empty(fancy.shape, version[1])
    read_fancy(version, fancy, nthreads, out)
    return out


def _keys(key: Any) -> Any:
    """A key for each axis. A list of lists or arrays means the same as a tuple of them."""
    if isinstance(key, list) and key and all(isinstance(part, (list, tuple, slice, np.ndarray)) for part in key):
        key = tuple(key)
    return plain_key(key)
