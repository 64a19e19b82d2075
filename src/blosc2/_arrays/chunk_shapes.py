"""Chunk and block shapes: the defaults, and checks of given shapes.

The defaults depend only on the shape and the item size, never on the machine, so the same program writes the same file
everywhere. A block is the unit of random access and has 64 to 256 KiB, depending on its item size
(doc/design/chunk-shapes.md has the figures). A chunk is the unit of parallel work and of the offsets table, and has
about 2 MiB. The longest axis is halved until they fit, which keeps them close to cubes: a patch of a volume then
touches few blocks in any orientation. An array whose first axis is much longer than the others (a stack of images, a
table) is read sample by sample: its blocks hold a few whole samples, or part of one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from blosc2._core.ndim.geometry import Geometry
from blosc2.exceptions import ChunkSizeError, ParameterError
from blosc2.storage import MAX_BUFFERSIZE

#: Uncompressed bytes that a default chunk does not exceed, where items allow it.
CHUNK_NBYTES = 2 << 20
# So many chunks there are at most by default: those of larger arrays are larger. Each takes 8 bytes of a table.
_MOST_CHUNKS = 1 << 19
# What a block does not exceed: its bytes are compressed as one stream for each byte of an item, and streams of 16 KiB
# and less take zstd twice as long. Halving an axis leaves more than that of 32.
_STREAM_NBYTES = 32 << 10
_LEAST_BLOCK_NBYTES, _MOST_BLOCK_NBYTES = 64 << 10, 256 << 10
# An array is a stack of samples if its first axis is so many times as long as any other: a matrix, which may be read by
# columns, too, and an array of more axes.
_STACKED_ROWS, _STACKED = 64, 8
# Blocks of a stack hold more than one sample up to this part of the limit: a sample is not to cost what many do.
_STACK_PART = 4
# Of blocks for patches: the part of a patch that they are long, and the bytes below which they gain nothing.
_PATCH_PART, _LEAST_PATCH_NBYTES = 4, 16 << 10
# Samples smaller than this share a block: it takes some 50 bytes and a microsecond however small it is.
_LEAST_SAMPLES_NBYTES = 4 << 10
# What an axis without items is taken to become.
_LONG = 1 << 20
# Of a chunk on one axis, as metadata can say.
_MOST_ITEMS = (1 << 31) - 1

Shape = tuple[int, ...]


def compute_chunks_blocks(
    shape: Any, chunks: Any = None, blocks: Any = None, dtype: Any = np.uint8, *, layout: Any = None, **_: Any
) -> tuple[Shape, Shape]:
    """Compute chunk and block shapes for an array.

    Parameters
    ----------
    shape : int or sequence of int
    chunks, blocks : int or sequence of int, optional
        Shapes that are given are kept; the others are chosen. Blocks without chunks are clamped to the shape.
    dtype : dtype
        Only its item size is used.
    layout : str or tuple, optional
        How the array will be read, instead of `chunks` and `blocks`: "samples" (one index along the first axis at a
        time), "planes" (of the last two axes), "columns" (along the first axis), "patches" (boxes anywhere), or
        ("patches", shape of a patch).
    **_
        Accepted and ignored, so that the keywords of a constructor can be passed on.

    Returns
    -------
    chunks, blocks : tuple of int

    Raises
    ------
    ValueError
        The number of axes differs from that of the shape, a length is zero, blocks are larger than chunks, or there is
        no such layout.

    Examples
    --------
    >>> compute_chunks_blocks((512, 512, 300), dtype="f4")
    ((64, 64, 76), (32, 32, 19))
    >>> compute_chunks_blocks((512, 512, 300), dtype="f4", layout=("patches", (64, 64, 32)))
    ((128, 64, 64), (16, 16, 16))
    """
    shape = as_shape(shape, "shape")
    itemsize = np.dtype(dtype).itemsize
    if layout is not None:
        if not (chunks is None and blocks is None):
            raise ValueError("give either layout= or chunks= and blocks=")
        layout = _checked_layout(layout, shape)
    wanted_chunks = None if chunks is None else _axes(chunks, shape, "chunks")
    wanted_blocks = None if blocks is None else _axes(blocks, shape, "blocks")
    if 0 in shape:
        if wanted_chunks is None or 0 in wanted_chunks:
            # Other axes may be of any length.
            chunks = tuple(min(n, _MOST_ITEMS) for n in shape)
            return chunks, chunks
        # An array without items that may grow.
        if wanted_blocks is not None and 0 in wanted_blocks:
            wanted_blocks = None
    if wanted_chunks is None:
        if wanted_blocks is None:
            if layout is not None:
                name, *patch = layout
                return _LAYOUTS[name](shape, itemsize, *patch) if shape else ((), ())
            return default_partitions(shape, itemsize, chunk_nbytes=_chunk_limit(shape, itemsize))
        block = tuple(min(b, n) for b, n in zip(wanted_blocks, shape, strict=True))
        return _multiply(block, shape, _chunk_limit(shape, itemsize), itemsize), block
    if wanted_blocks is None:
        return wanted_chunks, _halve(wanted_chunks, block_limit(itemsize), itemsize)
    for axis, (b, c) in enumerate(zip(wanted_blocks, wanted_chunks, strict=True)):
        if b > c:
            raise ValueError(f"on axis {axis} blocks of {b} items are larger than chunks of {c}")
    return wanted_chunks, wanted_blocks


def grown_partitions(old: Geometry, shape: Shape) -> tuple[Shape, Shape]:
    """Chunk and block shapes for an array that was made without items: axes that had none are taken to become long."""
    long = tuple(max(n, _LONG) if was == 0 else n for was, n in zip(old.shape, shape, strict=True))
    return default_partitions(long, old.itemsize, chunk_nbytes=_chunk_limit(shape, old.itemsize))


def _chunk_limit(shape: Shape, itemsize: int) -> int:
    """Uncompressed bytes that a default chunk of an array does not exceed, where items allow it."""
    return min(max(CHUNK_NBYTES, _nbytes(shape, itemsize) // _MOST_CHUNKS), MAX_BUFFERSIZE)


def block_limit(itemsize: int) -> int:
    """Uncompressed bytes that a default block does not exceed, where items allow it."""
    return min(max(_STREAM_NBYTES * itemsize, _LEAST_BLOCK_NBYTES), _MOST_BLOCK_NBYTES)


def default_partitions(
    shape: Shape, itemsize: int, block_nbytes: int | None = None, chunk_nbytes: int = CHUNK_NBYTES
) -> tuple[Shape, Shape]:
    """Chunk and block shapes where the caller names neither, of so many bytes at most; a block by its item size."""
    limit = block_limit(itemsize) if block_nbytes is None else block_nbytes
    times = _STACKED_ROWS if len(shape) == 2 else _STACKED
    if len(shape) > 1 and shape[0] >= times * max(shape[1:]) and _nbytes(shape, itemsize) > limit:
        return _stack_partitions(shape, itemsize, limit, chunk_nbytes, limit // _STACK_PART)
    block = _halve(shape, limit, itemsize)
    if len(shape) == 1 and 8 * _nbytes(block, itemsize) < 7 * min(limit, _nbytes(shape, itemsize)):
        # Much less than could be: larger ones compress better, and their streams are not so short.
        most = max(limit // itemsize, 1)
        block = (-(-shape[0] // -(-shape[0] // most)),)
    return _multiply(block, shape, chunk_nbytes, itemsize), block


def _stack_partitions(
    shape: Shape, itemsize: int, block_nbytes: int, chunk_nbytes: int, together: int
) -> tuple[Shape, Shape]:
    """Chunks and blocks of whole samples, as far as these fit; those of a block have `together` bytes at most."""
    sample = _halve(shape[1:], block_nbytes, itemsize)
    count = 1
    if sample == shape[1:]:
        count = min(max(1, together // _nbytes(sample, itemsize)), shape[0])
    larger = _multiply(sample, shape[1:], chunk_nbytes, itemsize * count)
    many = max(1, chunk_nbytes // _nbytes(larger, itemsize * count)) * count
    return (min(many, shape[0]), *larger), (count, *sample)


def _checked_layout(layout: Any, shape: Shape) -> tuple[Any, ...]:
    """A layout as its name, and the shape of a patch if there is one."""
    name, *patch = layout if isinstance(layout, (tuple, list)) and layout else (layout,)
    if not isinstance(name, str) or name not in _LAYOUTS or len(patch) > (name == "patches"):
        raise ValueError(
            f"layout should be one of {', '.join(_LAYOUTS)}, or ('patches', shape of a patch), not {layout!r}"
        )
    lengths = [_axes(given, shape, "a patch") for given in patch]
    if any(0 in of_patch for of_patch in lengths):
        raise ValueError(f"a patch cannot hold zeros: {lengths[0]}")
    return name, *lengths


def _samples(shape: Shape, itemsize: int) -> tuple[Shape, Shape]:
    """Blocks of one sample, or of some small ones."""
    limit = _chunk_limit(shape, itemsize)
    return _stack_partitions(shape, itemsize, _MOST_BLOCK_NBYTES, limit, _LEAST_SAMPLES_NBYTES)


def _planes(shape: Shape, itemsize: int) -> tuple[Shape, Shape]:
    """Blocks of the last two axes."""
    outer = max(len(shape) - 2, 0)
    block = (1,) * outer + _halve(shape[outer:], _MOST_BLOCK_NBYTES, itemsize)
    return _extend(block, shape, itemsize), block


def _columns(shape: Shape, itemsize: int) -> tuple[Shape, Shape]:
    """Blocks along the first axis."""
    block = (min(shape[0], max(1, block_limit(itemsize) // itemsize)), *(1 for _ in shape[1:]))
    return _extend(block, shape, itemsize), block


def _patches(shape: Shape, itemsize: int, patch: Shape | None = None) -> tuple[Shape, Shape]:
    """Blocks that bring little with a patch that does not belong to it, wherever it lies."""
    lengths = patch or shape
    part = 1 if patch is None else _PATCH_PART
    block = _halve(
        tuple(-(-min(p, n) // part) for p, n in zip(lengths, shape, strict=True)), block_limit(itemsize), itemsize
    )
    block = _multiply(block, shape, _LEAST_PATCH_NBYTES, itemsize)
    return _multiply(block, shape, _chunk_limit(shape, itemsize), itemsize), block


_LAYOUTS: Final[dict[str, Callable[..., tuple[Shape, Shape]]]] = {
    "samples": _samples, "patches": _patches, "planes": _planes, "columns": _columns,
}  # fmt: skip


def _extend(block: Shape, shape: Shape, itemsize: int) -> Shape:
    """A chunk of such blocks, longer by one axis after the other, the last one first."""
    chunk = list(block)
    for axis in reversed(range(len(shape))):
        chunk[axis] = min(shape[axis], chunk[axis] * max(1, _chunk_limit(shape, itemsize) // _nbytes(chunk, itemsize)))
    return tuple(chunk)


def _halve(shape: Shape, limit: int, itemsize: int) -> Shape:
    """Halve the longest axis until an item block of this shape fits the limit."""
    block = list(shape)
    while _nbytes(block, itemsize) > limit and max(block, default=1) > 1:
        axis = block.index(max(block))
        block[axis] = -(-block[axis] // 2)
    return tuple(block)


def _multiply(block: Shape, shape: Shape, limit: int, itemsize: int) -> Shape:
    """Double the shortest axis that can still grow, as long as the chunk fits the limit."""
    chunk = list(block)
    while True:
        growing = [axis for axis in range(len(shape)) if chunk[axis] < shape[axis]]
        for axis in sorted(growing, key=lambda axis: chunk[axis]):
            larger = chunk.copy()
            larger[axis] = min(2 * chunk[axis], shape[axis])
            if _nbytes(larger, itemsize) <= limit:
                chunk = larger
                break
        else:
            return tuple(chunk)


def _nbytes(lengths: Sequence[int], itemsize: int) -> int:
    return math.prod(lengths, start=itemsize)


def decoded_nbytes(shape: Shape, chunks: Shape, blocks: Shape, itemsize: int, axis: int | None = None) -> int:
    """Uncompressed bytes of the blocks that hold one item, or all items at one index of an axis."""
    count = 1
    for d, (n, c, b) in enumerate(zip(shape, chunks, blocks, strict=True)):
        if axis is not None and d != axis:
            count *= n // c * -(-c // b) + -(-(n % c) // b)
    return count * _nbytes(blocks, itemsize)


def as_shape(value: Any, name: str) -> Shape:
    """Lengths of axes as a tuple of plain, non-negative integers."""
    if type(value) is tuple:
        for n in value:
            if type(n) is not int or n < 0:
                break
        else:
            return value  # as shapes mostly are
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, (tuple, list, np.ndarray)):
        raise TypeError(f"{name} should be a tuple or a list of integers, or an integer, not {value!r}")
    lengths = []
    for n in value:
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(f"{name} should hold integers only, not {n!r}")
        lengths.append(operator.index(n))
    if any(n < 0 for n in lengths):
        raise ParameterError(f"{name} cannot hold negative lengths: {tuple(lengths)}")
    return tuple(lengths)


def _axes(value: Any, shape: Shape, name: str) -> Shape:
    lengths = as_shape(value, name)
    if len(lengths) != len(shape):
        raise ValueError(f"{name} has {len(lengths)} axes and the shape {len(shape)}")
    if 0 in lengths and 0 not in shape:
        raise ValueError(f"{name} cannot hold zeros: {lengths}")
    return lengths


def geometry_of(shape: Shape, chunks: Any, blocks: Any, dtype: np.dtype[Any]) -> Geometry:
    """The checked geometry of a new array."""
    if len(shape) > 16:
        raise ParameterError(f"the number of dimensions, {len(shape)}, is too large: at most 16 are possible")
    chunks, blocks = compute_chunks_blocks(shape, chunks, blocks, dtype)
    if padded_chunk_nbytes(chunks, blocks, dtype.itemsize) > MAX_BUFFERSIZE:
        raise ChunkSizeError(
            f"chunks of {chunks} items in blocks of {blocks} have more than {MAX_BUFFERSIZE} bytes: "
            "choose smaller chunks")  # fmt: skip
    return Geometry(shape, chunks, blocks, dtype.itemsize)


def can_hold_items(chunks: Shape, blocks: Shape, itemsize: int) -> bool:
    """Whether chunks of this shape are small enough; those of an array without items may not be."""
    return padded_chunk_nbytes(chunks, blocks, itemsize) <= MAX_BUFFERSIZE


def padded_chunk_nbytes(chunks: Shape, blocks: Shape, itemsize: int) -> int:
    """Bytes of a chunk, padded to whole blocks; 0 for chunks without items."""
    return _nbytes([b and b * -(-c // b) for c, b in zip(chunks, blocks, strict=True)], itemsize)


def are_partitions_behaved(shape: Any, chunks: Any, blocks: Any) -> bool:
    """Whether the items, chunk after chunk and block after block, are in C order, without padding.

    Examples
    --------
    >>> are_partitions_behaved((10, 10), (5, 10), (1, 10)), are_partitions_behaved((10, 10), (5, 5), (5, 5))
    (True, False)
    """
    shape = as_shape(shape, "shape")
    chunks, blocks = _axes(chunks, shape, "chunks"), _axes(blocks, shape, "blocks")
    if any(map(operator.gt, chunks, shape)):  # which are padded
        return False
    return _one_run(shape, chunks) and _one_run(chunks, blocks)


def are_partitions_aligned(shape: Any, chunks: Any, blocks: Any) -> bool:
    """Whether whole chunks fill the shape, and whole blocks the chunks, so that nothing is padded.

    Examples
    --------
    >>> are_partitions_aligned((10, 10), (5, 10), (1, 5)), are_partitions_aligned((10, 10), (3, 10), (3, 10))
    (True, False)
    """
    shape = as_shape(shape, "shape")
    chunks, blocks = _axes(chunks, shape, "chunks"), _axes(blocks, shape, "blocks")
    for n, c, b in zip(shape, chunks, blocks, strict=True):
        if n % c if c else n:
            return False
        if c % b if b else c:
            return False
    return True


def _one_run(outer: Shape, inner: Shape) -> bool:
    """Whether tiles of `inner` follow each other in the C order of `outer`."""
    axis = len(outer) - 1
    while axis >= 0 and inner[axis] >= outer[axis]:
        axis -= 1
    # What is before the axis that they part has one item a tile.
    return axis < 0 or (outer[axis] % inner[axis] == 0 and inner[:axis].count(1) == axis)
