"""An image at full size, half, a quarter, ... and the tiles that it is cut into."""

from collections.abc import Iterator
from typing import Any

import numpy as np

# A pyramid ends with the first level none of whose spatial axes is longer than this.
SMALLEST = 32

# Longest edge of a chunk and of a block along a spatial axis, by the number of spatial axes. A block is what
# a reader decompresses at least, so it has about the size of a patch: 4096 pixels, 4096 voxels.
CHUNK_EDGE = {2: 256, 3: 48}
BLOCK_EDGE = {2: 64, 3: 16}


def halve(image: np.ndarray[Any, Any], spatial: int) -> np.ndarray[Any, Any]:
    """Average neighbours in pairs along each spatial axis; integers, rounded half up.

    A last plane without a neighbour is averaged with itself; an axis of length 1 stays.
    """
    total = image.astype(np.int64)
    count = 1
    for axis in range(spatial):
        length = total.shape[axis]
        if length == 1:
            continue
        if length % 2:
            total = np.concatenate([total, total.take([-1], axis)], axis)
        before = (slice(None),) * axis
        total = total[(*before, slice(0, None, 2))] + total[(*before, slice(1, None, 2))]
        count *= 2
    return ((total + count // 2) // count).astype(image.dtype)


def levels(image: np.ndarray[Any, Any], spatial: int) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the image itself and then ever smaller ones.

    Examples
    --------
    >>> import numpy as np
    >>> [level.shape for level in levels(np.zeros((100, 60, 3), "u1"), spatial=2)]
    [(100, 60, 3), (50, 30, 3), (25, 15, 3)]
    """
    yield image
    while max(image.shape[:spatial]) > SMALLEST:
        image = halve(image, spatial)
        yield image


def tiles(shape: tuple[int, ...], spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a chunk and of a block for a level of this shape.

    Colours are read together, so they share a block. Volumes in time are read one at a time, so each has
    its own chunks.
    """
    other = shape[spatial:] if spatial == 2 else (1,) * (len(shape) - spatial)
    chunk = tuple(min(length, CHUNK_EDGE[spatial]) for length in shape[:spatial])
    block = tuple(min(length, BLOCK_EDGE[spatial]) for length in chunk)
    return chunk + other, block + other
