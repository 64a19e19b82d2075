"""Samples of data: some blocks, as they are compressed, drawn by a fixed rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._options import Encoding

#: Bytes of a sample at most; few enough that trying all candidates takes a tenth of a second.
SAMPLE: Final = 384 << 10
#: Bytes that are taken of a block at most.
_BLOCK: Final = 192 << 10
#: The same of one that tells whether a choice for other data suits these.
CHECKED: Final = 64 << 10
#: Bytes of a block that tell noise.
_THIN: Final = 4 << 10
#: The fraction of the golden ratio: its multiples are spread evenly, however many there are.
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
#: The widest items that BYTEDELTA takes, and SHUFFLE where the width is not that of the items.
_WIDEST: Final = 127

Items = np.ndarray[Any, Any]


class Sample(NamedTuple):
    """Blocks of data, one behind the other, and how all data are compressed if nothing better is found.

    After as many bytes as the widths say, bytes of the same kind come: of an item, of a row of colours, of a part.
    """

    data: bytes
    blocksize: int
    default: Encoding
    widths: tuple[int, ...]
    whole: int  # bytes of all data

    def part(self, limit: int) -> Sample:
        """A smaller sample: the middle of the first blocks, and of no block but one if that is large."""
        width = max(self.widths)
        size = max(min(self.blocksize, limit) // width * width, width)
        start = (self.blocksize - size) // 2 // width * width
        count = max(1, min(limit // size, len(self.data) // self.blocksize))
        parts = (self.data[n * self.blocksize + start :][:size] for n in range(count))
        return self._replace(data=b"".join(parts), blocksize=size)

    def thin(self) -> Sample:
        """A little of each block, which is enough to tell noise."""
        width = max(self.widths)
        size = max(min(self.blocksize, _THIN) // width * width, width)
        starts = range((self.blocksize - size) // 2 // width * width, len(self.data) - size + 1, self.blocksize)
        return self._replace(data=b"".join(self.data[start : start + size] for start in starts), blocksize=size)


def _drawn(count: int, most: int) -> list[int]:
    """So many numbers below `count`, or all."""
    if count <= most:
        return list(range(count))
    found = dict.fromkeys(int(count * ((n + 0.5) * _GOLDEN % 1)) for n in range(most))
    return list(found)


def array_sample(
    shape: Sequence[int], blocks: Sequence[int], dtype: np.dtype[Any], default: Encoding,
    read: Callable[[tuple[slice, ...]], Items], limit: int = SAMPLE,
) -> Sample:  # fmt: skip
    """A sample of the blocks of an array; `read` gives the items of a box. Blocks at the edge are padded with zeros."""
    itemsize = dtype.itemsize
    whole = math.prod(shape) * itemsize
    widths = _widths(dtype, shape, blocks)
    if not whole:
        return Sample(b"", itemsize, default, widths, 0)
    taken = math.prod(blocks) * itemsize
    if taken > _BLOCK:  # its first rows, of the width that all widths divide
        taken = max(_BLOCK // max(widths) * max(widths), max(widths))
    counts = [-(-n // b) for n, b in zip(shape, blocks, strict=True)]
    parts = []
    for number in _drawn(math.prod(counts), max(limit // taken, 1)):
        starts = [int(n) * b for n, b in zip(np.unravel_index(number, counts), blocks, strict=True)]
        box = tuple(slice(s, min(s + b, n)) for s, b, n in zip(starts, blocks, shape, strict=True))
        items = read(box)
        if items.shape != tuple(blocks):
            padded = np.zeros(blocks, dtype)
            padded[tuple(slice(n) for n in items.shape)] = items
            items = padded
        parts.append(np.ascontiguousarray(items).tobytes()[:taken])
    return Sample(b"".join(parts), taken, default, widths, whole)


def bytes_sample(view: memoryview, blocksize: int, default: Encoding) -> Sample:
    """A sample of bytes that are compressed in blocks of this size."""
    itemsize = default.typesize
    taken = max(min(blocksize, _BLOCK, len(view)) // itemsize * itemsize, 1)
    numbers = _drawn(len(view) // taken, max(SAMPLE // taken, 1))
    data = b"".join(view[n * taken : (n + 1) * taken] for n in numbers)
    return Sample(data, taken, default, (itemsize,), len(view))


def _widths(dtype: np.dtype[Any], shape: Sequence[int], blocks: Sequence[int]) -> tuple[int, ...]:
    """Bytes of an item, of a part of it, and of a short last axis, such as that of colours or channels."""
    itemsize = dtype.itemsize
    widths = [itemsize]
    if dtype.kind == "c":
        widths.append(itemsize // 2)
    elif dtype.kind == "U":
        widths.append(4)
    if len(shape) > 1 and 1 < shape[-1] == blocks[-1] and shape[-1] * itemsize <= _WIDEST:
        widths.append(shape[-1] * itemsize)
    return tuple(dict.fromkeys(widths))
