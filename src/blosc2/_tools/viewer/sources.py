"""Leaves of all kinds as something with a shape, of which a part is read: arrays, bytes of super-chunks, lists."""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from blosc2.batch_array import BatchArray
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.schunk import SChunk

#: So many bytes of a super-chunk, or items of an array of one axis, are a row.
BYTES_IN_ROW = 16
# So many values of a batch are shown.
_OF_BATCH = 8


class Bytes:
    """The bytes of a super-chunk as rows of sixteen."""

    def __init__(self, schunk: SChunk) -> None:
        self._schunk = schunk
        self.nbytes = int(schunk.nbytes)
        self.shape = (self.nbytes,)
        self.dtype = np.dtype(np.uint8)
        self.chunks = self.blocks = (max(1, int(schunk.chunksize)),)

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        start, stop, step = index[0].indices(self.nbytes)
        size = int(self._schunk.typesize)
        first = start // size
        data = self._schunk[first : -(-stop // size)] if stop > start else b""
        assert isinstance(data, bytes)
        found: np.ndarray[Any, Any] = np.frombuffer(data, np.uint8)[start - first * size : stop - first * size : step]
        return found


class Values:
    """The values of a list."""

    def __init__(self, values: ObjectArray | BatchArray) -> None:
        self._values = values
        self.shape = (len(values),)
        self.dtype = np.dtype(object)

    def __getitem__(self, index: Any) -> list[Any]:
        found = self._values[index[0]]
        if isinstance(self._values, BatchArray):
            return [_Start(list(islice(batch, _OF_BATCH)), len(batch)) for batch in found]
        return list(found)


class _Start(NamedTuple):
    """The first values of a batch, and how many it has."""

    values: list[Any]
    length: int

    def __repr__(self) -> str:
        more = ", ..." if self.length > len(self.values) else ""
        return f"{self.length:,}: {', '.join(map(reprlib.repr, self.values))}{more}"


#: What has items to show.
Source = NDArray | Bytes | Values


def source_of(thing: Any) -> Source | None:
    """What can be read of a leaf; None of a group or of an object of another package."""
    if isinstance(thing, NDArray):
        return thing
    if isinstance(thing, (ObjectArray, BatchArray)):
        return Values(thing)
    if isinstance(thing, SChunk):
        return Bytes(thing)
    return None
