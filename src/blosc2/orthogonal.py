"""Orthogonal indexing: each axis by a key of its own, all combinations."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2.advanced import orthogonal_selection
from blosc2.assignment import as_items, plain_key
from blosc2.reading import read_picked
from blosc2.writing import write_picked


class OrthogonalIndex:
    """What `NDArray.oindex` gives: ``array.oindex[[0, 2], 1:3]`` picks rows 0 and 2 of columns 1 and 2.

    There is a list, integer array, boolean array, slice or integer for each axis; integers drop theirs.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        carrier = self._array._carrier
        version = carrier.array
        picked = orthogonal_selection(plain_key(key), version[0].shape)
        out = np.empty(picked.shape, version[1])
        read_picked(version, picked, carrier.nthreads, out)
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        key = plain_key(key)

        def changed(version: Any) -> Any:
            picked = orthogonal_selection(key, version[0].shape)
            return write_picked(version, self._array._carrier, picked, as_items(value, version[1], picked.shape))

        self._array._assign(changed)
