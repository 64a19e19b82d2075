"""Selections: NumPy indices as text, what they name of an array, and reading that in pieces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from blosc2._indexing import basic_selection
from blosc2._stores import Store
from blosc2._tools.cli.locations import Location, LocationError, has_leaf, need_store, one_key, opened

#: What is selected of an axis: one item, or several.
Axis = int | range

_INDEX = re.compile(r"-?\d+|\.\.\.|(-?\d+)?:(-?\d+)?(:(-?\d+)?)?")


def parsed_selection(text: str) -> tuple[Any, ...]:
    """A NumPy index from its text; only integers, slices and `...`."""
    text = text.strip()
    parts = [part.strip() for part in (text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text).split(",")]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    keys: list[Any] = []
    for part in parts:
        if not _INDEX.fullmatch(part):
            raise click.BadParameter(f"{part!r} is no integer, slice or '...'", param_hint="SELECTION")
        if part == "...":
            keys.append(...)
        elif ":" in part:
            keys.append(slice(*(int(number) if number else None for number in part.split(":"))))
        else:
            keys.append(int(part))
    return tuple(keys)


def axes_of(key: tuple[Any, ...], shape: Sequence[int]) -> list[Axis]:
    """What an index selects of each axis of an array.

    Examples
    --------
    >>> axes_of((-1, ..., slice(None, None, 2)), (4, 5, 6))
    [3, range(0, 5), range(0, 6, 2)]
    """
    assert basic_selection(key, tuple(shape)) is not None  # it raises what is wrong with the index
    at = key.index(...) if ... in key else len(key)
    rest = key[at + 1 :]
    full = [*key[:at], *[slice(None)] * (len(shape) - at - len(rest)), *rest]
    return [
        range(length)[part] if isinstance(part, slice) else part % length
        for part, length in zip(full, shape, strict=True)
    ]


def index_of(axes: Sequence[Axis]) -> tuple[int | slice, ...]:
    """The index that selects these items.

    Examples
    --------
    >>> index_of([3, range(4, -1, -2)])
    (3, slice(4, None, -2))
    """
    return tuple(_slice_of(axis) if isinstance(axis, range) else axis for axis in axes)


def _slice_of(axis: range) -> slice:
    if not axis:
        return slice(0, 0)
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)


def shape_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The shape of what is selected."""
    return tuple(len(axis) for axis in axes if isinstance(axis, range))


def pieces(array: Any, axes: Sequence[Axis], most: int) -> Iterator[np.ndarray[Any, Any]]:
    """The selected items of an array in their order, about `most` bytes at a time.

    Each piece is a part along the first axis. If one row is larger, the pieces are those of the first row, then those
    of the second, and so on, without the first axis.
    """
    first = next((number for number, axis in enumerate(axes) if isinstance(axis, range)), None)
    size = math.prod(shape_of(axes)) * array.dtype.itemsize
    if first is None or size <= most:
        yield np.asarray(array[index_of(axes)])
        return
    items = axes[first]
    assert isinstance(items, range)
    row = size // len(items)
    if row > most:
        for item in items:
            yield from pieces(array, [*axes[:first], item, *axes[first + 1 :]], most)
        return
    height = most // row
    for unit in (array.chunks[first], array.blocks[first]):  # what is decoded at once is decoded once
        if height >= unit:
            height -= height % unit
            break
    for start in range(0, len(items), height):
        yield np.asarray(array[index_of([*axes[:first], items[start : start + height], *axes[first + 1 :]])])


@contextmanager
def one_leaf(where: Location) -> Iterator[Any]:
    """The single array or list that a location names."""
    with opened(where.path) as found:
        if not isinstance(found, Store):
            if where.key:
                need_store(found, where)
            yield found
            return
        key = one_key(found, where) if where.key else ""
        if not has_leaf(found, key):
            raise LocationError(f"{where} is a group or store: name one of its arrays, as 'blosc2 ls' shows them")
        yield found[key]
