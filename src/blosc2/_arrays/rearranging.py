"""New arrays out of others: joined, copied, and with their items in another place."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from blosc2 import _tuning
from blosc2._arrays.axis_view import ViewHandle
from blosc2._arrays.chunk_shapes import as_shape, can_hold_items
from blosc2._arrays.slabs import Shape, Snapshot, compressed_bands, compressed_box, converted, plan_like, slabs_in
from blosc2._arrays.spec import ArrayPlan
from blosc2._core.ndim.gaps import as_dtype, clear_gaps
from blosc2._core.ndim.geometry import Geometry
from blosc2._frames import (
    CHOICE,
    PADDING,
    AnyChunk,
    Copies,
    FrameHandle,
    FrameUpdate,
    HandleOptions,
    check_declared,
    copy_frame,
)
from blosc2._indexing import Chunks, Items, Selection, Version, basic_selection, chunks_with, in_bounds, plain, read
from blosc2._options import Encoding, as_flag


def copied(array: Any, dtype: Any, kwargs: Mapping[str, Any]) -> FrameHandle:
    """A copy of an array with these keywords of a constructor.

    Chunks are copied as they are stored, unless something asks for others; then they are made slab by slab.
    """
    handle = array._handle
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if isinstance(handle, ViewHandle):
        return handle.copied(dtype, kwargs)
    frame = handle.frame
    keywords = dict(kwargs)
    if keywords.get("cparams") is None:
        check_declared(frame, array.dtype)
        keywords["cparams"] = array.cparams
    else:
        keywords["cparams"] = _tuning.sparing(keywords["cparams"], array.vlmeta)
    if (
        all(keywords.get(name) is None for name in ("chunks", "blocks", "layout"))
        and dtype.itemsize == array.dtype.itemsize
        # Unchecked chunks of an array without items may be too large for any item.
        and (array.size or can_hold_items(array.chunks, array.blocks, dtype.itemsize))
    ):
        keywords.update(chunks=array.chunks, blocks=array.blocks)
    plan = ArrayPlan(array.shape, dtype, keywords)
    same = (
        dtype == array.dtype and plan.geometry.chunks == array.chunks and plan.geometry.blocks == array.blocks
        and kwargs.get("cparams") is None and "meta" not in kwargs
    )  # fmt: skip
    if same:
        options = HandleOptions(deserialize="full", dparams=plan.keywords.dparams, cparams=plan.cparams)
        return copy_frame(frame, plan.keywords.storage, options)
    source = array._snapshot()
    left_out = ("b2nd", PADDING) if kwargs.get("cparams") is None else ("b2nd", PADDING, CHOICE)
    kept = {name: packed for name, packed in source.frame.metalayers().items() if name not in left_out}
    plan.metalayers = {"b2nd": plan.metalayers["b2nd"], **kept, **plan.metalayers}
    plan.settle(lambda box: as_dtype(array[box], plan.dtype), array.shape)
    return plan.write(converted(source, plan), vlmeta=FrameUpdate(source.frame).vlmeta)


def retyped(array: Any, dtype: Any, casting: Any, copy: bool, kwargs: Mapping[str, Any]) -> FrameHandle | None:
    """An array of the same items, converted to another type; None where it is the array itself."""
    # Some types leave something open, such as the length of a text: NumPy decides, without items.
    target = np.empty(0, array.dtype).astype(dtype).dtype
    if target.kind in "mM" and np.datetime_data(target)[0] == "generic":
        raise ValueError(f"{target} does not say its unit, as in 'M8[ns]'")
    if not np.can_cast(array.dtype, target, casting):
        raise TypeError(f"Cannot cast array data from {array.dtype!r} to {target!r} according to the rule {casting!r}")
    if not as_flag(copy, "copy") and target == array.dtype and not kwargs:
        return None
    source = Snapshot.of(array._handle)
    geometry = source.geometry
    parts = {"chunks": geometry.chunks, "blocks": geometry.blocks} if target.itemsize == geometry.itemsize else {}
    plan = plan_like(array, geometry.shape, target, kwargs, **parts)
    return plan.write(converted(source, plan))


_ENCODING = ("codec", "codec_meta", "clevel", "use_dict", "splitmode", "filters", "filters_meta")


#: The source of the chunks with one number on the axis: a part, and their number in the part.
_Origin = tuple[int, int]


def joined(parts: Sequence[Snapshot], axis: int, plan: ArrayPlan, *, recompress: bool = False) -> Iterable[AnyChunk]:
    """The chunks of an array that joins others along an axis, where alone their shapes differ.

    Their items are converted to the dtype of the plan. With `recompress`, chunks are as the plan says, too.
    """
    grid = plan.geometry.grid
    if plan.geometry.size == 0:
        return ()
    parts = [part for part in parts if part.geometry.size]
    ends = [0, *accumulate(part.geometry.shape[axis] for part in parts)]
    origins = _origins(parts, ends, axis, plan, recompress)
    if None in origins:
        return _joined(parts, ends, axis, plan, origins)
    counts = [math.prod(part.geometry.grid[axis:]) for part in parts]
    before = range(math.prod(grid[:axis]))
    return Copies([(part.frame, n * count, (n + 1) * count) for n in before for part, count in zip(parts, counts)])


def _joined(
    parts: Sequence[Snapshot], ends: Sequence[int], axis: int, plan: ArrayPlan, origins: Sequence[_Origin | None]
) -> Iterator[AnyChunk]:
    """The chunks of `joined`, where some are made."""
    geometry = plan.geometry
    inner = math.prod(geometry.grid[axis + 1 :])
    counts_on_axis = [part.geometry.grid[axis] for part in parts]
    for slab in slabs_in(geometry):
        made: dict[int, AnyChunk] = {}
        chunk = geometry.chunks[axis]
        rows = range(slab.starts[axis] // chunk, -(-(slab.starts[axis] + slab.counts[axis]) // chunk))
        for copies, group in groupby(rows, lambda row: origins[row] is not None):
            if not copies:
                run = list(group)
                start = run[0] * chunk
                stop = min((run[-1] + 1) * chunk, geometry.shape[axis])
                starts, counts = list(slab.starts), list(slab.counts)
                starts[axis], counts[axis] = start, stop - start
                items = _gathered(parts, ends, axis, plan.dtype, tuple(starts), tuple(counts))
                made.update(compressed_box(plan, tuple(starts), items))
        for number in range(slab.first, slab.stop):
            before, row = divmod(number // inner, len(origins))
            origin = origins[row]
            if origin is None:
                yield made.pop(number)
            else:
                part, row = origin
                yield parts[part].stored((before * counts_on_axis[part] + row) * inner + number % inner)


def _origins(
    parts: Sequence[Snapshot], ends: Sequence[int], axis: int, plan: ArrayPlan, recompress: bool
) -> list[_Origin | None]:
    """For each chunk number on the axis, where its chunks can be copied from. None if they cannot be copied."""
    geometry = plan.geometry
    chunk, length = geometry.chunks[axis], geometry.shape[axis]
    origins: list[_Origin | None] = [None] * geometry.grid[axis]
    for number, (part, start, stop) in enumerate(zip(parts, ends, ends[1:], strict=False)):
        same = plan.takes_chunks and _has_equal_chunks(part, geometry, plan.dtype, plan.encoding, recompress)
        if same and start % chunk == 0:
            first, behind = start // chunk, -(-stop // chunk) if stop == length else stop // chunk
            origins[first:behind] = [(number, row) for row in range(behind - first)]
    return origins


def _has_equal_chunks(
    part: Snapshot, geometry: Geometry, dtype: np.dtype[Any], encoding: Encoding, recompress: bool
) -> bool:
    """Whether chunks of a part mean the same in an array; with `recompress`, whether it would have made the same."""
    frame = part.frame
    return (
        part.dtype == dtype
        and part.geometry.chunks == geometry.chunks
        and part.geometry.blocks == geometry.blocks
        and frame.typesize == encoding.typesize
        # Such codecs and filters look at the number of axes too, and the header says what they need.
        and not frame.needs_geometry
        and not (recompress and any(getattr(frame, name) != getattr(encoding, name) for name in _ENCODING))
    )


def _gathered(
    parts: Sequence[Snapshot], ends: Sequence[int], axis: int, dtype: np.dtype[Any], starts: Shape, counts: Shape
) -> Items:
    """A box of the result, read from the parts that it touches."""
    begin, end = starts[axis], starts[axis] + counts[axis]
    first = bisect_right(ends, begin) - 1
    out: Items | None = None
    for number, (low, high) in enumerate(pairwise(ends[first:]), first):
        if low >= end:
            break
        start, stop = max(begin, low), min(end, high)
        where, many = list(starts), list(counts)
        where[axis], many[axis] = start - low, stop - start
        part = parts[number]
        if out is None:
            if stop == end and part.dtype == dtype:
                return part.read(where, many)
            out = np.empty(counts, dtype)
        target = out[(slice(None),) * axis + (slice(start - begin, stop - begin),)]
        if part.dtype == dtype:
            part.read(where, many, out=target)
        else:
            target[...] = part.read(where, many)
            clear_gaps(target)
    assert out is not None
    return out


def matrix_axes(ndim: int) -> Shape:
    """The axes with the last two swapped."""
    if ndim < 2:
        raise ValueError(f"the last two axes can only be swapped where there are two; this array has {ndim}")
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def permuted(array: Any, axes: Shape, keywords: Mapping[str, Any]) -> FrameHandle:
    """An array whose axis ``i`` is axis ``axes[i]`` of another; chunks and blocks turn with it."""
    source = Snapshot.of(array._handle)
    old = source.geometry
    shape, chunks, blocks = (tuple(lengths[n] for n in axes) for lengths in (old.shape, old.chunks, old.blocks))
    plan = plan_like(array, shape, source.dtype, keywords, chunks=chunks, blocks=blocks)
    if axes and axes == tuple(range(len(axes))):
        return plan.write(joined([source], 0, plan, recompress=keywords.get("cparams") is not None))
    order = np.argsort(axes).tolist()

    def items_of(starts: Shape, counts: Shape) -> Items:
        return source.read([starts[n] for n in order], [counts[n] for n in order]).transpose(axes)

    return plan.write(compressed_bands(plan, items_of))


def shape_for(old: Shape, shape: Any, c_order: Any = True) -> Shape:
    """Check new lengths of axes for the same number of items. One of them may be -1: it is computed.

    `TypeError` for a second length where the order belongs.
    """
    if c_order not in (True, False):
        raise TypeError(
            f"the shape is one argument, a tuple: reshape(({shape}, {c_order}, ...)); c_order is True or False"
        )
    size = math.prod(old)
    lengths = [shape] if isinstance(shape, (int, np.integer)) else list(shape)
    if lengths.count(-1) == 1:
        at = lengths.index(-1)
        others = math.prod(as_shape([*lengths[:at], *lengths[at + 1 :]], "shape"))
        if others and size % others == 0:
            lengths[at] = size // others
    new = () if -1 in lengths else as_shape(lengths, "shape")
    if -1 in lengths or math.prod(new) != size:
        raise ValueError(f"total size of new array must be unchanged: {old} has {size} items, {tuple(lengths)} has not")
    return new


def reshaped(array: Any, shape: Shape, keywords: Mapping[str, Any]) -> FrameHandle:
    """An array with the items of another, in C order, in another shape."""
    source = Snapshot.of(array._handle)
    plan = plan_like(array, shape, source.dtype, keywords)

    def items_of(starts: Shape, counts: Shape) -> Items:
        out = np.empty(counts, source.dtype)
        cut = len(shape)
        while cut and counts[cut - 1] == shape[cut - 1]:
            cut -= 1
        if cut == 0:
            read_flat(source, 0, out.reshape(-1))
            return out
        # The items of all axes after the last one that is cut are contiguous in the whole array, too.
        inner = math.prod(shape[cut:])
        for row, index in zip(out.reshape(-1, counts[cut - 1] * inner), np.ndindex(counts[: cut - 1]), strict=True):
            first = [start + n for start, n in zip(starts, (*index, 0))]
            read_flat(source, int(np.ravel_multi_index(first, shape[:cut])) * inner, row)
        return out

    return plan.write(compressed_bands(plan, items_of))


def read_flat(source: Snapshot, start: int, out: Items) -> None:
    """Read items that follow each other in C order from `start` on."""
    _read_run(source, (), source.geometry.shape, start, out)


def _read_run(source: Snapshot, index: Shape, shape: Shape, start: int, out: Items) -> None:
    """Read from the part of an array at an index of its first axes. `shape` has the lengths of the others."""
    if not shape or not out.size:
        if out.size:
            source.read(index, (1,) * len(index), out=out.reshape((1,) * len(index)))
        return
    inner = math.prod(shape[1:])
    first, skipped = divmod(start, inner)
    if skipped:
        head = min(inner - skipped, out.size)
        _read_run(source, (*index, first), shape[1:], skipped, out[:head])
        first, out = first + 1, out[head:]
    rows = out.size // inner
    if rows:
        starts = (*index, first) + (0,) * (len(shape) - 1)
        counts = (1,) * len(index) + (rows, *shape[1:])
        source.read(starts, counts, out=out[: rows * inner].reshape(counts))
    _read_run(source, (*index, first + rows), shape[1:], 0, out[rows * inner :])


def selected(array: Any, selection: Selection, keywords: Mapping[str, Any]) -> FrameHandle:
    """An array of the items that a key of slices and integers picks. Whole chunks are copied as they are stored."""
    source = Snapshot.of(array._handle)
    chunks = blocks = None
    whole = selection.shape == selection.counts and _is_of_whole_chunks(selection, source.geometry)
    if whole and keywords.get("layout") is None:
        chunks, blocks = source.geometry.chunks, source.geometry.blocks
    plan = plan_like(array, selection.shape, source.dtype, keywords, chunks=chunks, blocks=blocks)
    if (
        chunks is not None
        and plan.takes_chunks
        and _has_equal_chunks(source, plan.geometry, plan.dtype, plan.encoding, keywords.get("cparams") is not None)
    ):
        return plan.write(map(source.stored, _numbers_of_chunks(selection, source.geometry)))
    # Only axes of length 1 are added or removed. The others keep their order.
    mine = [n for n, count in enumerate(selection.counts) if count != 1]
    theirs = [n for n, length in enumerate(selection.shape) if length != 1]
    flip = selection.flip
    reversed_axes = [] if flip is None else [n for n in theirs if flip[n].step == -1]

    def items_of(starts: Shape, counts: Shape) -> Items:
        low, number = list(selection.starts), list(selection.counts)
        for axis, other in zip(mine, theirs, strict=True):
            begin = starts[other]
            if other in reversed_axes:
                begin = selection.counts[axis] - begin - counts[other]
            low[axis] += begin * selection.steps[axis]
            number[axis] = counts[other]
        steps = [step if count > 1 else 1 for step, count in zip(selection.steps, number, strict=True)]
        found = source.read(low, number, steps).reshape(counts)
        return found if flip is None else found[flip]

    return plan.write(compressed_bands(plan, items_of))


def _is_of_whole_chunks(selection: Selection, geometry: Geometry) -> bool:
    """Whether a selection begins and ends, on each axis, between chunks or where the array does."""
    return (
        selection.unit
        and selection.flip is None
        and all(
            0 < chunk <= count and start % chunk == 0 and ((start + count) % chunk == 0 or start + count == length)
            for start, count, chunk, length in zip(
                selection.starts, selection.counts, geometry.chunks, geometry.shape, strict=True
            )
        )
    )


def _numbers_of_chunks(selection: Selection, geometry: Geometry) -> list[int]:
    """The numbers of the chunks that a selection of whole chunks takes, in their order."""
    box = tuple(
        slice(start // chunk, -(-(start + count) // chunk))
        for start, count, chunk in zip(selection.starts, selection.counts, geometry.chunks, strict=True)
    )
    numbers: list[int] = np.arange(geometry.nchunks).reshape(geometry.grid)[box].ravel().tolist()
    return numbers


def chunks_from(version: Version, handle: FrameHandle, key: Any, value: Any) -> Chunks:
    """The chunks of an array after ``array[key] = value`` with another array; see `chunks_with`.

    Where they are whole chunks, and compressed alike, those of the other array are copied as they are stored.
    """
    geometry, dtype, _ = version
    selection = basic_selection(key, geometry.shape)
    if selection is not None and _is_of_whole_chunks(selection, geometry):
        source = _with_all_axes(Snapshot.of(value._handle), selection)
        encoding = handle.encoding(blocksize=int(geometry.block_nbytes))
        if source is not None and _has_equal_chunks(source, geometry, dtype, encoding, recompress=True):
            keep = handle.spool().keep
            stored: Iterator[Any] = map(source.stored, range(source.geometry.nchunks))
            pairs = zip(_numbers_of_chunks(selection, geometry), stored, strict=True)
            return {number: chunk if isinstance(chunk, int) else keep(chunk) for number, chunk in pairs}
    return chunks_with(version, handle, key, value)


def _with_all_axes(source: Snapshot, selection: Selection) -> Snapshot | None:
    """An array that has the shape of a selection, with the axes that integers took from that; None if it has not."""
    geometry = source.geometry
    if geometry.shape != selection.shape:
        return None
    if selection.shape == selection.counts:
        return source
    sides = [side for side in zip(geometry.shape, geometry.chunks, geometry.blocks, strict=True) if side != (1, 1, 1)]
    if not selection.counts or len(sides) != sum(count != 1 for count in selection.counts):
        return None
    rest = iter(sides)
    shape, chunks, blocks = zip(*[(1, 1, 1) if count == 1 else next(rest) for count in selection.counts], strict=True)
    return source.with_geometry(Geometry(shape, chunks, blocks, geometry.itemsize))


def taken(array: Any, indices: Any, axis: int | None, keywords: Mapping[str, Any]) -> FrameHandle:
    """An array of the items with these numbers: along an axis, or without one in C order."""
    numbers = np.asarray(plain(indices))
    if numbers.size == 0 and not hasattr(indices, "dtype"):
        numbers = numbers.astype(np.int64)  # an empty list, which NumPy makes one of float64
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"indices of take must be integers, not {numbers.dtype}")
    source = Snapshot.of(array._handle)
    shape = source.geometry.shape
    before: Shape = ()
    behind: Shape = ()
    if axis is None:
        numbers = _from_0_on(numbers, math.prod(shape), "the array")
    else:
        if isinstance(axis, bool) or not hasattr(axis, "__index__"):
            raise TypeError(f"axis must be an integer or None, not {axis!r}")
        axis = normalize_axis_index(axis, len(shape))
        numbers = _from_0_on(numbers, shape[axis], f"axis {axis}")
        before, behind = shape[:axis], shape[axis + 1 :]
    plan = plan_like(array, (*before, *numbers.shape, *behind), source.dtype, keywords)
    first, last = len(before), len(before) + numbers.ndim

    def items_of(starts: Shape, counts: Shape) -> Items:
        if not shape:  # the one item, repeated
            return np.broadcast_to(source.read((), ()), counts)
        box = tuple(slice(start, start + count) for start, count in zip(starts, counts, strict=True))
        chosen = numbers[box[first:last]]
        # In C order, an index for each axis.
        key = np.unravel_index(chosen, shape) if axis is None else (*box[:first], chosen, *box[last:])
        return read(source.version, key, source.nthreads)

    return plan.write(compressed_bands(plan, items_of))


def taken_along(array: Any, indices: Any, axis: int | None, keywords: Mapping[str, Any]) -> FrameHandle:
    """An array of the items with these numbers on an axis, like `numpy.take_along_axis`."""
    numbers = np.asarray(plain(indices))
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"indices of take_along_axis must be integers, not {numbers.dtype}")
    source = Snapshot.of(array._handle)
    shape = source.geometry.shape
    if axis is None:
        if numbers.ndim != 1:
            raise ValueError(f"without an axis the indices have one axis, not {numbers.ndim}")
        return taken(array, numbers, None, keywords)
    axis = normalize_axis_index(operator.index(axis), len(shape))
    if numbers.ndim != len(shape):
        raise ValueError(f"indices have {numbers.ndim} axes and the array {len(shape)}: they must have as many")
    numbers = _from_0_on(numbers, shape[axis], f"axis {axis}")
    # On the other axes, length 1 is broadcast, on either side.
    new = np.broadcast_shapes(numbers.shape, (*shape[:axis], 1, *shape[axis + 1 :]))
    plan = plan_like(array, (*new[:axis], numbers.shape[axis], *new[axis + 1 :]), source.dtype, keywords)

    def items_of(starts: Shape, counts: Shape) -> Items:
        key: list[Any] = []
        for n, (start, count) in enumerate(zip(starts, counts, strict=True)):
            along = np.arange(start, start + count) if shape[n] != 1 else np.zeros(count, np.int64)
            key.append(along.reshape([-1 if n == other else 1 for other in range(len(shape))]))
        box = tuple(
            slice(start, start + count) if length != 1 or n == axis else slice(None)
            for n, (start, count, length) in enumerate(zip(starts, counts, numbers.shape, strict=True))
        )
        key[axis] = np.broadcast_to(numbers[box], counts)
        return read(source.version, tuple(key), source.nthreads)

    return plan.write(compressed_bands(plan, items_of))


def _from_0_on(numbers: np.ndarray[Any, Any], length: int, what: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers of items, negative ones counted from the end."""
    if numbers.size and length == 0:
        raise IndexError(f"cannot take from {what}: it is empty, so every index is out of bounds")
    return in_bounds(numbers, length, what)
