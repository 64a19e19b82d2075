"""Which chunks of an array or super-chunk a key touches."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from blosc2._core.geometry import Geometry
from blosc2.draft import Draft
from blosc2.indexing import Selection, basic_selection
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.stored import Stored


def get_slice_nchunks(schunk: Any, key: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which chunks a key touches.

    Parameters
    ----------
    schunk : NDArray or SChunk
    key : object
        For an array, integers and slices; for a super-chunk, a slice, an integer, or a tuple of start and stop.
        Slices have no step.

    Returns
    -------
    ndarray of int64
        Numbers of chunks, in ascending order.

    Raises
    ------
    IndexError
        A step, an integer out of bounds, or a key of another kind.

    Examples
    --------
    >>> import blosc2
    >>> array = blosc2.zeros((4, 6), chunks=(2, 2))
    >>> blosc2.get_slice_nchunks(array, (slice(0, 1), slice(1, 4)))
    array([0, 1])
    """
    if isinstance(schunk, NDArray):
        return _chunks_of_array(schunk, key)
    if isinstance(schunk, SChunk):
        return _chunks_of_schunk(schunk, key)
    raise TypeError(f"chunks are those of an NDArray or SChunk, not of a {type(schunk).__name__}")


def _chunks_of_array(array: NDArray, key: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    geometry = array._geometry
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, slice) and item.step not in (None, 1):
            raise IndexError(f"a step of {item.step} is not supported here: leave it out")
    selection = basic_selection(key, geometry.shape)
    if selection is None:
        raise IndexError("only integers and slices are supported here, no arrays or names")
    return _chunks_of_selection(geometry, selection)


def _chunks_of_selection(geometry: Geometry, selection: Selection) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The chunks from the first item of a selection to the last one, on each axis."""
    numbers = np.zeros(1, np.int64)
    if 0 in selection.counts:
        return numbers[:0]
    for start, count, step, chunk, grid in zip(
        selection.starts, selection.counts, selection.steps, geometry.chunks, geometry.grid, strict=True
    ):
        rows = np.arange(start // chunk, (start + (count - 1) * step) // chunk + 1)
        numbers = (numbers[:, None] * grid + rows).ravel()
    return numbers


def _touched(stored: Any, key: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The chunks that advice about a key is about; None for all."""
    if isinstance(stored, NDArray):
        geometry = stored._geometry
        selection = basic_selection(key, geometry.shape)
        return None if selection is None else _chunks_of_selection(geometry, selection)
    return _chunks_of_schunk(stored, key) if isinstance(stored, SChunk) else None


Stored.touched = staticmethod(_touched)


def _chunks_of_schunk(schunk: SChunk, key: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    length = len(schunk)
    if isinstance(key, tuple) and len(key) == 2:
        key = slice(*key)
    if isinstance(key, slice):
        if key.step not in (None, 1):
            raise IndexError(f"a step of {key.step} is not supported here: leave it out")
        start, stop, _ = key.indices(length)
    elif hasattr(key, "__index__"):
        index = operator.index(key)
        if not -length <= index < length:
            raise IndexError(f"index {index} is out of bounds for {length} items")
        start = index % length
        stop = start + 1
    else:
        raise IndexError(f"a super-chunk takes a slice, an integer or a tuple of start and stop, not {key!r}")
    if start >= stop:
        return np.zeros(0, np.int64)
    ends = np.cumsum(Draft(schunk._carrier.frame).sizes)
    first, last = np.searchsorted(ends, [start * schunk.typesize, stop * schunk.typesize - 1], side="right")
    return np.arange(first, last + 1)
