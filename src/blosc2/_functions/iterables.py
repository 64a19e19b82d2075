"""Collecting the items of an iterable into arrays and chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box, slabs_in
from blosc2._core.ndim.gaps import clear_gaps
from blosc2._frames import Stored


def one_by_one(item: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterable[Any]:
    """The numbers of an item that has axes."""
    found = np.asarray(item, dtype)
    if found.shape != shape:
        raise ValueError(f"an item has the shape {found.shape}, and that of the dtype is {shape}")
    numbers: Iterable[Any] = found.flat
    return numbers


def inserted(plan: ArrayPlan, items: Iterator[Any]) -> Iterator[Stored]:
    """The chunks of items that fill one chunk after the other."""
    for slab in slabs_in(plan.geometry, 1):
        chunks = compressed_box(plan, slab.starts, next_items(items, slab.counts, plan.shape, plan.dtype))
        yield chunks.pop(slab.first)


def next_items(
    items: Iterator[Any], shape: tuple[int, ...], whole: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """The next items, in an array of this shape."""
    count = math.prod(shape)
    drawn = list(islice(items, count)) if dtype.kind in "SU" else np.fromiter(islice(items, count), dtype)
    if len(drawn) < count:
        raise ValueError(f"iterator too short: it has fewer than the {math.prod(whole)} items of the shape {whole}")
    return clear_gaps(np.array(drawn, dtype)).reshape(shape)
