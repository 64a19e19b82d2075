"""Chunks of HDF5 files that the Blosc2 filter has compressed, taken over without decoding, and given back so.

The filter has the number 32026 (registered with The HDF Group). Each chunk of the file is a frame of one chunk: with a
metalayer "b2nd" if it is divided along several axes, without it else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box
from blosc2._frames import Stored
from blosc2._opening import schunk_from_cframe
from blosc2._tools.converting.items import TakenChunks
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import Codec, Filter

_FILTER = 32026


def taken_chunks(found: Any, dtype: np.dtype[Any]) -> TakenChunks | None:
    """The compressed chunks of a dataset; None if they cannot be taken over."""
    if not found.chunks or not found.size or found.dtype.hasobject:
        return None
    pipeline = found.id.get_create_plist()
    if pipeline.get_nfilters() != 1 or pipeline.get_filter(0)[0] != _FILTER:
        return None
    if not found.id.get_num_chunks():
        return None
    first = _frame(found, found.id.get_chunk_info(0).chunk_offset)
    blocks = None if first is None else _blocks(first, found.chunks, dtype)
    if first is None or blocks is None:
        return None
    keywords = {"chunks": found.chunks, "blocks": blocks, "cparams": first.cparams}

    def chunks(plan: ArrayPlan) -> Iterator[Stored]:
        """Each chunk as it is stored, or compressed anew where it is not like the first one."""
        expected = int(plan.geometry.chunk_nbytes)
        for index in np.ndindex(*plan.geometry.grid):
            start = tuple(i * c for i, c in zip(index, found.chunks, strict=True))
            frame = _frame(found, start)
            if frame is not None and frame.nbytes == expected and _blocks(frame, found.chunks, dtype) == blocks:
                yield frame.get_chunk(0)
                continue
            box = tuple(slice(s, min(s + c, n)) for s, c, n in zip(start, found.chunks, found.shape, strict=True))
            yield from compressed_box(plan, start, np.asarray(found[box]).view(dtype)).values()

    return TakenChunks(keywords, chunks)


def _frame(found: Any, start: tuple[int, ...]) -> SChunk | None:
    """The super-chunk that is stored for a chunk; None if there is none, or another filter made it."""
    try:
        mask, stored = found.id.read_direct_chunk(start)
        frame = schunk_from_cframe(stored) if mask == 0 else None
    except (ValueError, RuntimeError, OSError):  # a chunk that was never written, or is no frame
        return None
    return frame if frame is not None and frame.nchunks == 1 else None


def _blocks(frame: SChunk, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """The block shape of an array with chunks like this one; None if it cannot have such."""
    if frame.typesize != dtype.itemsize:
        return None
    if "b2nd" in frame.meta:
        _, ndim, shape, chunk, block, *_ = frame.meta["b2nd"]
        fits = ndim == len(chunks) and tuple(shape) == tuple(chunk) == tuple(chunks)
        return tuple(block) if fits else None
    items = frame.blocksize // dtype.itemsize
    whole = len(chunks) == 1 and items and chunks[0] % items == 0 and frame.blocksize % dtype.itemsize == 0
    return (items,) if whole else None


# The codecs that the filter knows, and the filters before them.
_CODECS = {Codec.BLOSCLZ: "blosclz", Codec.LZ4: "lz4", Codec.LZ4HC: "lz4hc", Codec.ZLIB: "zlib", Codec.ZSTD: "zstd"}
_FILTERS = {Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE, Filter.DELTA}


def codec_of(array: NDArray) -> tuple[str, int]:
    """The name of the codec for the filter of HDF5, and its level."""
    name = _CODECS.get(array.cparams.codec)
    return (name, array.cparams.clevel) if name else ("zstd", 5)


def can_give_chunks(array: NDArray) -> bool:
    """Whether the filter of HDF5 can decode the chunks of an array."""
    parameters = array.cparams
    return (
        array.size > 0
        and array.ndim > 0
        and all(c <= n for c, n in zip(array.chunks, array.shape, strict=True))
        and parameters.codec in _CODECS
        and not parameters.use_dict
        and set(parameters.filters) <= _FILTERS
    )


def give_chunks(array: NDArray, found: Any) -> None:
    """Write the chunks of an array to a dataset as they are, each as a frame of one chunk."""
    keywords = {"chunks": array.chunks, "blocks": array.blocks, "cparams": array.cparams}
    plan = ArrayPlan(array.chunks, array.dtype, keywords)
    grid = (-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    for number, index in enumerate(np.ndindex(*grid)):
        frame = NDArray._of(plan.write([array.schunk.get_chunk(number)])).to_cframe()
        found.id.write_direct_chunk(tuple(i * c for i, c in zip(index, array.chunks, strict=True)), frame)
