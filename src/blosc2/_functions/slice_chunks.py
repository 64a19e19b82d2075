"""Which chunks of an array or super-chunk a key touches."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from blosc2._core.ndim.geometry import Geometry
from blosc2._indexing import Selection, basic_selection
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Chunks that are looked at together.
_PIECE: Final = 1 << 16


def get_slice_nchunks(schunk: Any, key: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the numbers of the chunks that a key touches.

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
        The key has a step, an integer is out of bounds, or the key is of another kind.

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
        chunks = _chunks_of_schunk(schunk, key)
        return np.arange(chunks.start, chunks.stop)
    raise TypeError(f"chunks are those of an NDArray or SChunk, not of a {type(schunk).__name__}")


def _chunks_of_array(array: NDArray, key: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    geometry = array._geometry
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, slice) and item.step is not None and item.step != 1:
            raise IndexError(f"a step of {item.step} is not supported here: leave it out")
    selection = basic_selection(key, geometry.shape)
    if selection is None:
        raise IndexError("only integers and slices are supported here, no arrays or names")
    rows = _rows_of(geometry, selection)
    return _numbers(rows, geometry.grid, 0, math.prod(map(len, rows)))


def _rows_of(geometry: Geometry, selection: Selection) -> list[range]:
    """On each axis the chunks from the first item of a selection to the last one."""
    if 0 in selection.counts:
        return [range(0)] * max(geometry.ndim, 1)
    return [
        range(start // chunk, (start + (count - 1) * step) // chunk + 1)
        for start, count, step, chunk in zip(
            selection.starts, selection.counts, selection.steps, geometry.chunks, strict=True
        )
    ]


def _numbers(rows: list[range], grid: tuple[int, ...], first: int, count: int) -> Integers:
    """The numbers of the chunks that these make up, in ascending order: `count` of them from number `first` on."""
    if not count or not rows:
        return np.zeros(count, np.int64)
    places = np.unravel_index(np.arange(first, first + count), [len(row) for row in rows])
    return np.ravel_multi_index([row.start + place for row, place in zip(rows, places, strict=True)], grid)


def _pieces(rows: list[range], grid: tuple[int, ...]) -> Iterator[Integers]:
    """The numbers of the chunks that these make up, in ascending order, a bounded number of them at a time.

    A file may claim any number of chunks that take no room in it.
    """
    total = math.prod(map(len, rows))
    for first in range(0, total, _PIECE):
        yield _numbers(rows, grid, first, min(_PIECE, total - first))


def touched_chunks(stored: Any, key: Any) -> Iterator[Integers] | None:
    """The chunks that advice about a key is about, in pieces; None for all."""
    if isinstance(stored, NDArray):
        geometry = stored._geometry
        selection = basic_selection(key, geometry.shape)
        return None if selection is None else _pieces(_rows_of(geometry, selection), geometry.grid)
    if isinstance(stored, SChunk):
        numbers = _chunks_of_schunk(stored, key)
        return _pieces([numbers], (int(stored.nchunks),))
    return None


def _chunks_of_schunk(schunk: SChunk, key: Any) -> range:
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
        return range(0)
    frame = schunk._handle.frame
    begin, end = start * schunk.typesize, stop * schunk.typesize - 1
    if not frame.variable:
        return range(begin // frame.chunksize, end // frame.chunksize + 1)
    ends = np.cumsum(np.frombuffer(frame.chunk_sizes(), np.int64))
    first, last = np.searchsorted(ends, [begin, end], side="right")
    return range(int(first), int(last) + 1)
