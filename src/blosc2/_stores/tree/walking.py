"""Listing groups and leaves of a `TreeStore`. Paths are absolute; "" is the root."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from blosc2._core.keys.listing import KeyCursor
from blosc2._stores.contents import KEYS_AT_ONCE
from blosc2._stores.tree.foreign_objects import ATTRIBUTES

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable


def descendants(table: LeafTable, path: str) -> Iterator[list[str]]:
    """The keys of all groups and leaves below a group, some at a time; nothing inside of objects of other packages."""
    if path and table.foreign.above(path + "/") is not None:
        return
    objects = table.foreign.keys()
    cursor = KeyCursor(table.contents.listing(), path or "/", ATTRIBUTES, True)
    while batch := cursor.take(KEYS_AT_ONCE):
        yield [key for key in batch if not _is_below(key, objects)] if objects else batch


def count_below(table: LeafTable, path: str) -> int:
    """How many groups and leaves `descendants` gives."""
    listing = table.contents.listing()
    counted = table.counted
    if not path and counted is not None and counted[0] is listing:
        return counted[1]
    if table.foreign.keys():
        return sum(map(len, descendants(table, path)))
    count: int = listing.tree_count(path or "/", ATTRIBUTES)
    if not path:
        table.counted = listing, count
    return count


def children(table: LeafTable, path: str, most: int = -1) -> tuple[list[str], list[str]]:
    """The names of the groups and of the leaves right below a group; objects of other packages count as leaves.

    Of a large group only the first `most` names, if that is given.
    """
    foreign = table.foreign
    if path and foreign.above(path + "/") is not None:
        return [], []
    groups, leaves = table.contents.listing().children(path or "/", most + 1 if most >= 0 else most)
    leaves = [name for name in leaves if name != ATTRIBUTES]
    if most >= 0:  # one more was asked for, in place of the attributes
        groups = groups[:most]
        leaves = leaves[: most - len(groups)]
    if foreign.are_possible():
        objects = {name for name in groups if foreign.at(f"{path}/{name}") is not None}
        if objects:
            groups = [name for name in groups if name not in objects]
            leaves = sorted({*leaves, *objects})
    return groups, leaves


def walk(table: LeafTable, path: str, *, topdown: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """A group and all groups below it, the names of its groups, and of its leaves; the root is "/"."""
    if path and table.foreign.above(path + "/") is not None:
        yield path, [], []
        return
    objects = table.foreign.keys()
    for group, groups, leaves in table.contents.listing().walk(path or "/", topdown, ATTRIBUTES):
        if objects:
            if group in objects or _is_below(group, objects):
                continue
            leaves[:] = sorted({*leaves, *(name for name in groups if f"{group}/{name}" in objects)})
            groups[:] = [name for name in groups if f"{group}/{name}" not in objects]
        yield group or "/", groups, leaves


def _is_below(key: str, paths: Container[str]) -> bool:
    """Whether a key is below one of some paths."""
    end = key.find("/", 1)
    while end > 0:
        if key[:end] in paths:
            return True
        end = key.find("/", end + 1)
    return False
