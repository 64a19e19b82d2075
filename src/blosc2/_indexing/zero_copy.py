"""NumPy views of chunks that are stored uncompressed, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._core.ndim.geometry import Geometry
from blosc2._frames import CHUNK_HEADER
from blosc2._indexing.parse_key import Selection, basic_selection
from blosc2._indexing.read_items import Version


def view_items(version: Version, key: Any) -> np.ndarray[Any, Any]:
    """A read-only view of the items of a key, of integers and slices; it keeps the mapping or buffer alive.

    Raises
    ------
    ValueError
        With the reason why they cannot be had without a copy.
    """
    geometry, dtype, frame = version
    selection = basic_selection(key, geometry.shape)
    if selection is None:
        raise _needs_copy("a view takes integers and slices")
    if 0 in selection.counts:
        empty = np.empty(selection.shape, dtype)
        empty.flags.writeable = False
        return empty
    last = [a + s * (n - 1) for a, s, n in zip(selection.starts, selection.steps, selection.counts, strict=True)]
    coords = _part(selection.starts, last, geometry.chunks)
    if coords is None:
        raise _needs_copy(
            f"they lie in more than one chunk, with other bytes between; chunks have shape {geometry.chunks}: "
            "view the parts, or store the array in one chunk"
        )
    nchunk = 0
    for coord, length in zip(coords, geometry.grid, strict=True):
        nchunk = nchunk * length + coord
    offset, _, _, _, raw, _ = frame.chunk_info(nchunk)
    if not raw or offset is None:
        raise _needs_copy(f"chunk {nchunk} is compressed; arrays written with clevel=0 can be viewed")
    try:
        memory = memoryview(frame.source)
    except BufferError:
        raise _needs_copy("the file is not mapped: open it with mmap_mode='r'") from None
    data = memory[offset + CHUNK_HEADER : offset + CHUNK_HEADER + int(geometry.chunk_nbytes)]
    return _select(data, geometry, dtype, selection, coords, last)


def _select(
    data: memoryview, geometry: Geometry, dtype: np.dtype[Any], selection: Selection, coords: list[int], last: list[int]
) -> np.ndarray[Any, Any]:
    """The items of a selection in the bytes of its chunk."""
    origin = [coord * length for coord, length in zip(coords, geometry.chunks, strict=True)]
    shape = tuple(-(-c // b) * b for c, b in zip(geometry.chunks, geometry.blocks, strict=True))
    if not _follow_each_other(geometry):
        # Items are in C order within a block only.
        first = [a - o for a, o in zip(selection.starts, origin, strict=True)]
        block = _part(first, [b - o for b, o in zip(last, origin, strict=True)], geometry.blocks)
        if block is None:
            raise _needs_copy(
                f"they lie in more than one block of shape {geometry.blocks}, which do not follow each other in C "
                "order: view the parts, or store the array with blocks that do"
            )
        nblock = 0
        for coord, length, whole in zip(block, geometry.blocks, geometry.chunks, strict=True):
            nblock = nblock * -(-whole // length) + coord
        nbytes = int(geometry.block_nbytes)
        data = data[nblock * nbytes : (nblock + 1) * nbytes]
        origin = [o + coord * length for o, coord, length in zip(origin, block, geometry.blocks, strict=True)]
        shape = geometry.blocks
    items: np.ndarray[Any, Any] = np.ndarray(shape, dtype, data)
    local: Any = tuple(
        slice(a - o, b - o + 1, s) for a, b, s, o in zip(selection.starts, last, selection.steps, origin, strict=True)
    )
    # Without the ellipsis, NumPy would give a scalar instead of a 0-d array. Only axes of length 1 come or go.
    found = items[(*local, ...)].reshape(selection.shape)
    return found if selection.flip is None else found[selection.flip]


def _follow_each_other(geometry: Geometry) -> bool:
    """Whether the blocks of a chunk lie along one axis, so that its padded items are in C order."""
    whole = True
    for block, chunk in zip(reversed(geometry.blocks), reversed(geometry.chunks), strict=True):
        if not whole and block != 1:
            return False
        whole = whole and block == chunk
    return True


def _needs_copy(why: str) -> ValueError:
    return ValueError(f"the items cannot be had without a copy: {why}")


def _part(first: Any, last: Any, lengths: tuple[int, ...]) -> list[int] | None:
    """The chunk or block that holds a whole box. None if the box lies in several."""
    parts = [a // n for a, n in zip(first, lengths, strict=True)]
    return parts if parts == [b // n for b, n in zip(last, lengths, strict=True)] else None
