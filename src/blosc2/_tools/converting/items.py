"""The items of an array piece by piece, so that memory holds only some chunks of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from blosc2._arrays import ArrayPlan
from blosc2._frames import AnyChunk
from blosc2.ndarray import NDArray

# Bytes of a box, unless a single chunk has more; rows of chunks may be so much larger where items must come in order.
_BOX, _ROWS = 8 << 20, 64 << 20


def boxes_of(item: ArrayItem, chunks: tuple[int, ...] | None = None, *, in_order: bool = False) -> Iterator[Box]:
    """All items in boxes of some MB, made of whole chunks: of these, or of those of the item.

    With `in_order`, the items of all boxes, one after the other, are in C order; then boxes need not be of whole
    chunks.
    """
    chunks = chunks or item.chunks or (1,) * len(item.shape)
    counts = [max(1, min(c, n)) for c, n in zip(chunks, item.shape, strict=True)]
    if in_order:
        whole_rows = counts[:1] + list(item.shape[1:])
        counts = whole_rows if math.prod(whole_rows) * item.dtype.itemsize <= _ROWS else [1] * len(counts)
    for axis in reversed(range(len(counts))):
        others = math.prod(counts[:axis] + counts[axis + 1 :]) * item.dtype.itemsize
        fits = max(1, _BOX // max(1, others) // counts[axis])
        counts[axis] = min(item.shape[axis], counts[axis] * fits)
        if counts[axis] < item.shape[axis]:
            break
    starts = (range(0, n, count) for n, count in zip(item.shape, counts, strict=True))
    for box in itertools.product(*starts):
        yield tuple(slice(at, min(at + count, n)) for at, count, n in zip(box, counts, item.shape, strict=True))


def bytes_of(items: Items) -> memoryview:
    """The bytes of items in C order."""
    return np.ascontiguousarray(items).reshape(-1).view("u1").data


#: A slice with start and stop for each axis.
Box = tuple[slice, ...]
Items = np.ndarray[Any, Any]
#: What is left out if that is all of an array.
WHOLE = "all of it"
#: No store has keys with more segments.
DEEPEST = 256
#: The attribute of an array that lists the names of its axes, as zarr 2 has it.
DIMENSIONS = "_ARRAY_DIMENSIONS"


def are_names(found: Any, ndim: int) -> bool:
    """Whether a list can be the names of so many axes, of which each may have none."""
    return (
        isinstance(found, (list, tuple))
        and len(found) == ndim
        and all(name is None or isinstance(name, str) for name in found)
    )


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
    """Compressed chunks that can be stored as they are: keywords of a constructor for an array of such chunks, and what
    gives the chunks, in order, for the plan of the new array.
    """

    keywords: dict[str, Any]
    chunks: Callable[[ArrayPlan], Iterator[AnyChunk]]


@dataclass
class ArrayItem:
    """An array of a source, which is read box by box.

    Its key is absolute, such as "/mri/raw"; `chunks` are those of the source. `taken` is there if chunks can be taken
    over without decoding, and `array` if it is one of this package.
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


class Source:
    """What is converted. Its items come in the same order each time."""

    def items(self) -> Iterator[Item]:
        """All items."""
        raise NotImplementedError

    def close(self) -> None:
        """Let the files go."""
