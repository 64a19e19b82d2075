"""The items of an array piece by piece, so that memory holds only some chunks of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from blosc2._tools.converting.items import ArrayItem, Box, Items

# Bytes of a box, unless a single chunk has more; rows of chunks may be so much larger where items must come in order.
_BOX, _ROWS = 8 << 20, 64 << 20


def boxes_of(item: ArrayItem, chunks: tuple[int, ...] | None = None, *, in_order: bool = False) -> Iterator[Box]:
    """All items in boxes of some MB, made of whole chunks.

    Parameters
    ----------
    item : ArrayItem
    chunks : tuple of int, optional
        By default those of the item.
    in_order : bool
        Whether the items of all boxes, one after the other, are in C order. Then boxes need not be of whole chunks.
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
