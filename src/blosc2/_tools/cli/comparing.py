"""How two arrays or stores differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from blosc2._stores import Store
from blosc2._tools.cli.locations import leaves_below
from blosc2._tools.equality import equal_items, same_value
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.tree_store import TreeStore


class Difference(NamedTuple):
    """One difference.

    Attributes
    ----------
    key : str
        Where; "" for arrays that are no leaves.
    what : str
        "only in the first", "only in the second", "kind", "shape", "dtype", "attributes" or "values".
    text : str
        What is different.
    """

    key: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.key or 'the array'}: {self.what}{': ' if self.text else ''}{self.text}"


def differences(first: Any, second: Any, *, values: bool) -> Iterator[Difference]:
    """The differences of two arrays, lists or stores. Only some MB of both are in memory at a time."""
    if isinstance(first, Store) != isinstance(second, Store):
        yield Difference("", "kind", f"{type(first).__name__}, {type(second).__name__}")
        return
    if not isinstance(first, Store):
        yield from _of_leaves("", first, second, values=values)
        return
    one, other = _keys(first), _keys(second)
    for mine, theirs, what in ((one, other, "only in the first"), (other, one, "only in the second")):
        yield from (Difference(key, what, "") for key in mine if key not in theirs)
    for group in sorted({*_groups(first), *_groups(second)}):
        yield from _of_attributes(group, _group_values(first, group), _group_values(second, group))
    for key in one:
        if key in other:
            yield from _of_leaves(key, first[key], second[key], values=values)


def _keys(store: Any) -> dict[str, None]:
    """The keys of all leaves, relative to the group that a view shows."""
    cut = len(store._prefix)
    return dict.fromkeys(key[cut:] for key in leaves_below(store, store._prefix))


def _groups(store: Any) -> list[str]:
    return [group for group, _, _ in store.walk()] if isinstance(store, TreeStore) else []


def _group_values(store: Any, group: str) -> Mapping[str, Any]:
    if not isinstance(store, TreeStore):
        return {}
    found: Mapping[str, Any] = store.get_subtree(group).attrs[:]
    return found


def _of_leaves(key: str, a: Any, b: Any, *, values: bool) -> Iterator[Difference]:
    if type(a) is not type(b):
        yield Difference(key, "kind", f"{type(a).__name__}, {type(b).__name__}")
        return
    yield from _of_attributes(key, a.vlmeta[:], b.vlmeta[:])
    names = ("shape", "dtype") if isinstance(a, NDArray) else ("nbytes", "typesize")
    for name in names if isinstance(a, (NDArray, SChunk)) else ():
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine != theirs:
            yield Difference(key, name, f"{mine}, {theirs}")
            return
    if values:
        yield from _of_values(key, a, b)


def _of_attributes(key: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    both = sorted({*mine, *theirs})
    names = [name for name in both if not same_value(mine.get(name, _NONE), theirs.get(name, _NONE))]
    if names:
        yield Difference(key, "attributes", ", ".join(names))


_NONE = object()
# How many bytes are compared at a time.
_PIECE = 16 << 20


def _of_values(key: str, a: Any, b: Any) -> Iterator[Difference]:
    if not isinstance(a, NDArray):
        if isinstance(a, SChunk):
            step = max(1, _PIECE // a.typesize)
            equal = all(a[at : at + step] == b[at : at + step] for at in range(0, len(a), step))
        else:
            equal = len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
        if not equal:
            yield Difference(key, "values", "")
        return
    count, first = 0, None
    for at, mine, theirs in _slabs(a, b):
        wrong = np.argwhere(~np.atleast_1d(equal_items(mine, theirs)))
        if len(wrong):
            count += len(wrong)
            if first is None:
                first = (int(wrong[0][0]) + at, *map(int, wrong[0][1:]))[: max(1, a.ndim)]
    if count:
        where = "" if a.ndim == 0 else f", the first at {first}"
        yield Difference(key, "values", f"{count:,} of {a.size:,} items{where}")


def _slabs(a: Any, b: Any) -> Iterator[tuple[int, Any, Any]]:
    """Pieces of both along the first axis, of whole chunks and some MB."""
    if a.ndim == 0 or a.size == 0:
        yield 0, a[...], b[...]
        return
    row = max(1, a.nbytes // a.shape[0])
    height = max(1, _PIECE // row)
    height = max(1, height // a.chunks[0]) * a.chunks[0] if height >= a.chunks[0] else height
    for start in range(0, a.shape[0], height):
        yield start, a[start : start + height], b[start : start + height]
