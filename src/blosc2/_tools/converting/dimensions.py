"""To which group a named axis belongs: that of the array, or one around it, as netCDF and its scales have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from blosc2._tools.converting.conversion import (
    DEFINED,
    DIMENSIONS,
    UNLIMITED,
    ArrayItem,
    GroupItem,
    Item,
    ObjectItem,
    are_names,
    shape_of_texts,
    taken_names,
)


def around(group: str) -> Iterator[str]:
    """A group, and those around it, from the inside: "" is the root."""
    while True:
        yield group
        if not group:
            return
        group = group.rpartition("/")[0]


class Dimensions:
    """The groups of dimensions, found out from all items before the first is written.

    A dimension belongs to the nearest group that lists it, or has a coordinate of its name; else to the outermost one
    with an array that has it; and never to one where arrays have it with another length.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # Where dimensions are listed or have coordinates, and the lengths that they have in arrays of a group.
        self._claimed: set[tuple[str, str]] = set()
        self._lengths: dict[tuple[str, str], set[int]] = {}
        for item in items:
            if isinstance(item, GroupItem):
                attributes = dict(item.attributes)
                names = taken_names(attributes, UNLIMITED) + taken_names(attributes, DEFINED)
                self._claimed.update((item.key.rstrip("/"), name) for name in names)
            elif isinstance(item, (ArrayItem, ObjectItem)):
                self._note(item)

    def _note(self, item: ArrayItem | ObjectItem) -> None:
        if isinstance(item, ArrayItem):
            shape = item.shape
        else:
            shape = shape_of_texts(dict(item.attributes), len(item.values))
        names: Any = item.attributes.get(DIMENSIONS)
        if not are_names(names, len(shape)):
            return
        group, _, own = item.key.rpartition("/")
        for name, length in zip(names, shape, strict=True):
            if name is not None:
                self._lengths.setdefault((group, name), set()).add(length)
        if own in names:
            self._claimed.add((group, own))

    def group_of(self, group: str, name: str, length: int) -> str:
        """The group of a dimension that an array in `group` has."""
        outermost = group
        for path in around(group):
            lengths = self._lengths.get((path, name), {length})
            if lengths != {length}:
                continue
            if (path, name) in self._claimed:
                return path
            if (path, name) in self._lengths:
                outermost = path
        return outermost
