"""`tune`: the compression of data, and the layout for reads, chosen from the data themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays import ArrayPlan, as_shape, compute_chunks_blocks
from blosc2._core.io.sharing import item_of
from blosc2._core.ndim.gaps import as_dtype
from blosc2._indexing import basic_selection, lossless
from blosc2._tuning import chosen_for_bytes
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import AutoCParams, TunedCParams, cparams_from

#: Bytes of an iterable that are looked at.
_FIRST_PART: Final = 8 << 20
#: What size weighs against bytes that a read decodes: with 3, half the bytes are worth a fourth part more of size.
_WEIGHTS: Final = {"balanced": 3.0, "size": 8.0, "read": 1.0}


class _Data(NamedTuple):
    """What is to be compressed: a box of its items at a time, of the part of the shape that is known."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[tuple[slice, ...]], np.ndarray[Any, Any]]
    known: tuple[int, ...]


def tune(
    data: Any, goal: str = "balanced", *, min_read: Any = None, max_size: Any = None, precision: Any = None,
    reads: Iterable[Any] | None = None, shape: Any = None, **layout: Any,
) -> TunedCParams:  # fmt: skip
    """Choose compression parameters for data, by trying some on a sample of their blocks.

    The same data give the same answer on every machine, whatever else it does: sizes are those of the sample, and the
    speed of reading follows from counts in its compressed bytes. It takes about a tenth of a second. All parameters
    that are tried can be read by every program with Blosc2; nothing is rounded unless `precision` is given.

    Parameters
    ----------
    data : array_like, NDArray, SChunk, bytes, or iterable of array_like
        Of an iterable, blocks along axis 0, the first ones are taken from it and looked at.
    goal : {"balanced", "size", "read", "write"}
        "balanced" is smaller, unless reading becomes more than 20 % slower; writing may take 30 times as long where
        that saves 4 % and more. "size", "read" and "write" are as small, and as fast to read or write, as can be. With
        "size", reading keeps about half of its speed. "auto", "smallest" and "fastest" stand for the first three.
    min_read : str or float, optional
        The smallest that is read at so many bytes a second or more, such as "2 GB/s". It is counted for one core of the
        machine that the model was fitted to, so it is a guide on others.
    max_size : str or float, optional
        The fastest to read of at most so many compressed bytes, such as "10 MB", or up to 1 such a part of the data.
    precision : float, str or dict, optional
        The largest error that decoded numbers may have: absolute (0.01, ``{"absolute": 0.01}``), relative ("0.1%",
        ``{"relative": 0.001}``), or so that decimal digits behind the point hold ("2 digits", ``{"digits": 2}``). It is
        kept by rounding floats of 4 and 8 bytes, and integers, to the nearest number with fewer bits; other types, NaN
        and infinity stay exact. An array that is made by the result is rounded; what is assigned to it later is not.
        `why` states the largest error of these data.
    reads : iterable of keys, optional
        Examples of what will be read, as between brackets: chunks and blocks are chosen with the compression, so that
        few bytes are decoded for them.
    shape : tuple of int, optional
        The whole shape, where `data` is an iterable.
    **layout
        ``chunks`` and ``blocks``, or ``layout``, as for `asarray`; by default those of the array, or of a new one.

    Returns
    -------
    TunedCParams
        `blosc2.CParams` with `why`, a line that tells what was chosen; `tried`, a table; and `chunks` and `blocks`.

    Raises
    ------
    TypeError, ValueError
        The data cannot be stored, or there is no such goal, limit or key.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> steps = np.random.default_rng(0).integers(-3, 4, (300, 300)).cumsum(axis=1).astype("i2")
    >>> found = blosc2.tune(steps, "size")
    >>> smaller = blosc2.asarray(steps, cparams=found)
    >>> smaller.cbytes < blosc2.asarray(steps).cbytes
    True

    A column at a time will be read:

    >>> found = blosc2.tune(steps, reads=[(slice(None), 7)])
    >>> array = blosc2.asarray(steps, cparams=found, chunks=found.chunks, blocks=found.blocks)
    """
    asked = AutoCParams(goal=goal, min_read=min_read, max_size=max_size, precision=precision)
    if isinstance(data, SChunk) or (isinstance(data, (bytes, bytearray, memoryview)) and shape is None):
        return _of_bytes(data, asked)
    found = _data_of(data, shape)
    if isinstance(data, NDArray) and not layout and reads is None:
        layout = {"chunks": data.chunks, "blocks": data.blocks}
    if reads is None:
        return _chosen(found, asked, layout)
    if layout:
        raise ValueError("give either reads=, or chunks= and blocks= or layout=")
    return _for_reads(found, asked, list(reads))


def _of_bytes(data: Any, asked: AutoCParams) -> TunedCParams:
    """The choice for a super-chunk, or a buffer."""
    typesize = data.typesize if isinstance(data, SChunk) else 1
    view = memoryview(data[:] if isinstance(data, SChunk) else data).cast("B")
    return _tuned(chosen_for_bytes(asked, view, cparams_from(None, typesize=typesize)), "")


def _data_of(data: Any, shape: Any) -> _Data:
    """What is known of the data."""
    if isinstance(data, NDArray):
        return _Data(data.shape, data.dtype, data.__getitem__, data.shape)
    if shape is None and isinstance(data, Iterator):
        raise TypeError("an iterator does not say its shape: pass shape= for one of blocks along axis 0")
    if shape is None or isinstance(data, np.ndarray):
        items = lossless(data)
        return _Data(items.shape, items.dtype, items.__getitem__, items.shape)
    whole = as_shape(shape, "shape")
    parts: list[np.ndarray[Any, Any]] = []
    rest = iter(data)
    for block in rest:
        parts.append(lossless(block))
        if sum(part.nbytes for part in parts) >= _FIRST_PART:
            break
    if not parts:
        raise ValueError("there is no block to look at")
    first = np.concatenate([as_dtype(part, parts[0].dtype) for part in parts])
    return _Data(whole, first.dtype, first.__getitem__, first.shape)


def _chosen(data: _Data, asked: AutoCParams, layout: dict[str, Any]) -> TunedCParams:
    """The choice for one layout."""
    plan = ArrayPlan(data.shape, data.dtype, {**layout, "cparams": replace(asked)})
    plan.settle(data.read, data.known)
    return _tuned(
        plan.chosen or plan.cparams, f"{asked.goal}: the default; there is nothing to choose from",
        plan.geometry.chunks, plan.geometry.blocks,
    )  # fmt: skip


def _tuned(found: Any, otherwise: str, chunks: Any = None, blocks: Any = None) -> TunedCParams:
    """Parameters with the shapes that go with them."""
    made = found if isinstance(found, TunedCParams) else TunedCParams(**found.__dict__, why=otherwise)
    made.chunks, made.blocks = chunks, blocks
    return made


# ---------------------------------------------------------------- layouts
def _for_reads(data: _Data, asked: AutoCParams, reads: list[Any]) -> TunedCParams:
    """The choice with the layout that is best for reads, by the bytes that they decode and by its size."""
    boxes = [_indices(key, data.shape) for key in reads]
    if not boxes:
        raise ValueError("reads= needs at least one key")
    itemsize = data.dtype.itemsize
    costs: dict[tuple[Any, Any], float] = {}
    for layout in _layouts(data.shape, boxes):
        chunks, blocks = compute_chunks_blocks(data.shape, dtype=data.dtype, layout=layout)
        costs[chunks, blocks] = sum(_decoded(box, chunks, blocks) for box in boxes) * itemsize / len(boxes)
    best = sorted(costs, key=lambda shapes: costs[shapes])[:_FINALISTS]
    default = compute_chunks_blocks(data.shape, dtype=data.dtype)
    found = {
        shapes: _chosen(data, asked, {"chunks": shapes[0], "blocks": shapes[1]})
        for shapes in dict.fromkeys((default, *best))
    }
    weight = item_of(_WEIGHTS, asked.goal) or _WEIGHTS["balanced"]
    shapes = min(found, key=lambda one: costs[one] / _ratio(found[one]) ** weight)
    chosen = found[shapes]
    chosen.why += f"; a read decodes {_kib(costs[shapes])}, with default chunks and blocks {_kib(costs[default])}"
    return chosen


_FINALISTS: Final = 3


def _kib(nbytes: float) -> str:
    return f"{nbytes / 1024:.4g} KiB"


def _ratio(found: TunedCParams) -> float:
    """The ratio of what was chosen."""
    return max(
        (one.ratio for one in found.tried if one.clevel == found.clevel and one.codec is found.codec), default=1.0
    )


def _layouts(shape: tuple[int, ...], boxes: list[tuple[np.ndarray[Any, Any], ...]]) -> Iterator[Any]:
    """Layouts that may suit."""
    yield None
    if not shape or 0 in shape:
        return
    yield from ("samples", "planes", "columns", "patches")
    sizes = dict.fromkeys(tuple(max(len(axis), 1) for axis in box) for box in boxes)
    yield from (("patches", size) for size in sizes)


def _indices(key: Any, shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], ...]:
    """For each axis the indices that a key picks."""
    selection = basic_selection(key, shape)
    if selection is None:
        raise TypeError(f"reads= takes keys of integers and slices, not {key!r}")
    return tuple(
        start + step * np.arange(count)
        for start, step, count in zip(selection.starts, selection.steps, selection.counts, strict=True)
    )


def _decoded(box: tuple[np.ndarray[Any, Any], ...], chunks: tuple[int, ...], blocks: tuple[int, ...]) -> int:
    """Items of the blocks that a read touches."""
    counts = []
    for indices, chunk, block in zip(box, chunks, blocks, strict=True):
        if not len(indices):
            return 0
        counts.append(len(np.unique(indices // chunk * -(-chunk // block) + indices % chunk // block)))
    return prod(counts) * prod(blocks)
