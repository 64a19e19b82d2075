"""What passes from a source to a target: arrays, lists of objects and groups, and what could not be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from blosc2._arrays import ArrayPlan
from blosc2._frames import Stored
from blosc2.ndarray import NDArray

#: A slice with start and stop for each axis.
Box = tuple[slice, ...]
Items = np.ndarray[Any, Any]
#: What is left out if that is all of an array.
WHOLE = "all of it"


class LeftOut(NamedTuple):
    """Something of the source that the target cannot hold.

    Attributes
    ----------
    key : str
        Where; "/" for the whole source.
    what : str
        What was left out: "attribute 'units'", "soft link".
    why : str
    """

    key: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: {self.why}"


class TakenChunks(NamedTuple):
    """Compressed chunks that can be stored as they are.

    Attributes
    ----------
    keywords : dict
        Keywords of a constructor for an array of such chunks.
    chunks : callable
        Gives the chunks, in order, for the plan of the new array.
    """

    keywords: dict[str, Any]
    chunks: Callable[[ArrayPlan], Iterator[Stored]]


@dataclass
class ArrayItem:
    """An array of a source, which is read box by box.

    Attributes
    ----------
    key : str
        Absolute, such as "/mri/raw".
    shape : tuple of int
    dtype : dtype
    read : callable
        Takes a box and gives its items.
    chunks : tuple of int, optional
        Those of the source.
    attributes : mapping
    taken : TakenChunks, optional
        If the chunks can be taken over without decoding.
    array : NDArray, optional
        The array itself, if it is one of this package.
    """

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[Box], Items]
    chunks: tuple[int, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    taken: TakenChunks | None = None
    array: NDArray | None = None

    @property
    def nbytes(self) -> int:
        """Uncompressed bytes."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def whole(self) -> Items:
        """All items."""
        return self.read(tuple(slice(0, n) for n in self.shape))

    @classmethod
    def of(cls, key: str, items: Items, attributes: Mapping[str, Any] | None = None) -> Self:
        """An array that is in memory, or mapped."""
        return cls(key, items.shape, items.dtype, lambda box: items[box], attributes=attributes or {})


class ObjectItem(NamedTuple):
    """A list of texts, bytes or other small objects."""

    key: str
    values: list[Any]
    attributes: Mapping[str, Any]


class GroupItem(NamedTuple):
    """A group, given before what is in it."""

    key: str
    attributes: Mapping[str, Any]


Item = ArrayItem | ObjectItem | GroupItem | LeftOut


class Source(Protocol):
    """What is converted. Its items come in the same order each time."""

    def items(self) -> Iterator[Item]:
        """All items."""

    def close(self) -> None:
        """Let the files go."""


class Target(Protocol):
    """Where items are written. What it cannot hold it gives back.

    Attributes
    ----------
    partial : str
        The path at which it is written.
    """

    partial: str

    def has(self, key: str) -> bool:
        """Whether an item was written already, by a run that was interrupted."""

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        """Write one item."""

    def finish(self) -> None:
        """All items are there: close the file."""

    def abandon(self) -> None:
        """Something failed: remove what cannot be resumed. May come after `finish`."""


def rows_of(item: ArrayItem, nbytes: int = 16 << 20) -> Iterator[Box]:
    """Boxes along axis 0, each of whole chunks and about this many bytes."""
    if not item.shape:
        yield ()
        return
    rest = tuple(slice(0, n) for n in item.shape[1:])
    row = max(1, item.nbytes // max(1, item.shape[0]))
    step = max(1, nbytes // row)
    if item.chunks and item.chunks[0]:
        step = max(1, step // item.chunks[0]) * item.chunks[0]
    for start in range(0, item.shape[0], step):
        yield (slice(start, min(start + step, item.shape[0])), *rest)


def bytes_of(items: Items) -> memoryview:
    """The bytes of items in C order."""
    return np.ascontiguousarray(items).reshape(-1).view("u1").data
