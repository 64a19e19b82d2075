"""Boxes that reach beyond a volume: what of them is read, and what is filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from blosc2._indexing import Items


def cut_box(
    shape: Sequence[int], corner: Sequence[int], size: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """What a box at `corner` takes of a volume, and where that lies in the box; both empty where they do not meet."""
    read, put = [], []
    for length, at, extent in zip(shape, corner, size, strict=True):
        start = min(max(at, 0), length)
        stop = max(min(at + extent, length), start)
        read.append(slice(start, stop))
        put.append(slice(start - at, stop - at) if stop > start else slice(0, 0))
    return tuple(read), tuple(put)


def outside(put: Sequence[slice], size: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """The slabs of a box that lie around a part of it; none overlaps another."""
    inner: list[slice] = []
    for axis, (part, extent) in enumerate(zip(put, size, strict=True)):
        rest = [slice(None)] * (len(size) - axis - 1)
        if part.start > 0:
            yield (*inner, slice(0, part.start), *rest)
        if part.stop < extent:
            yield (*inner, slice(part.stop, extent), *rest)
        inner.append(part)


def fill_outside(box: Items, put: Sequence[slice], value: object) -> None:
    """Set the items of a box that lie around a part of it. `put` has the last axes; those before are whole."""
    size = box.shape[box.ndim - len(put) :]
    for slab in outside(put, size):
        key: tuple[Any, ...] = (..., *slab)
        box[key] = value


def padding_value(dtype: np.dtype[Any], value: object, where: str) -> object:
    """A value for the items around a volume, which must be one that the dtype has."""
    try:
        with np.errstate(all="ignore"):
            item = np.asarray(value).astype(dtype)
            # Floats are rounded, but not to infinity.
            rounded = dtype.kind in "fc" and bool(np.isfinite(item) or not np.isfinite(np.asarray(value)))
            same = item.shape == () and (rounded or bool(item == np.asarray(value)))
    except (TypeError, ValueError, OverflowError):
        same = False
    if not same:
        raise ValueError(f"{where}dtype {dtype} has no value {value!r} to pad with")
    return item[()]
