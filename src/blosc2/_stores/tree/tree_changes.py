"""Changing the groups of a `TreeStore`, and which keys a leaf or group may have beside those that exist.

A key is either a group or a leaf, and objects of other packages cannot be changed in part. Paths are absolute; "" is
the root.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from blosc2._backends import new_key
from blosc2._core.leaves.store_state import Change
from blosc2._stores import changes
from blosc2._stores.leaves.leaf_setting import frame_of, metadata_frame
from blosc2._stores.new_keys import check_not_below
from blosc2._stores.transaction import AllOrNone
from blosc2._stores.tree import walking
from blosc2._stores.tree.foreign_objects import ATTRIBUTES, DESCRIPTION, HIDDEN, ForeignObject
from blosc2.exceptions import FormatError, StoreKeyError, UnsafeDeserializationError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2._backends import NewFrame
    from blosc2._stores.leaf_table import LeafTable

# What the description of a table says of its indexes.
_INDEXES: Final = "index_catalog"


def create_group(table: LeafTable, path: str) -> None:
    """Make a group without leaves."""
    with Change(table.session):
        check_new_group(table, path)
        if table.foreign.at(path) is not None:
            raise ValueError(f"Key {path!r} is an object of another kind; delete it first")
        if not table.has_group(path):
            with AllOrNone(table):
                changes.put(table, path + HIDDEN, metadata_frame({}))


def rename(table: LeafTable, old: str, new: str) -> None:
    """Give a leaf, or a group with everything below it, a key that is free."""
    with Change(table.session):
        check_not_inside(table, old)
        is_leaf = table.contents.has(old) and not old.endswith(HIDDEN)
        if not is_leaf and not table.has_group(old) and table.foreign.at(old) is None:
            raise table.missing_key(old)
        if old == new:
            return
        if new.startswith(old + "/"):
            raise ValueError(f"Key {new!r} is inside of {old!r}, which cannot become a part of itself")
        changes.check_free(table, new)
        check_assignable(table, new)
        objects = table.foreign.keys()
        renamed = _at_or_below(objects, old)
        with AllOrNone(table):
            below = table.contents.listing().below(old)
            if is_leaf:
                changes.move(table, {key: new_key(new + key[len(old) :]) for key in [old, *below]})
            else:
                changes.rename_group(table, old, {key: new + key[len(old) :] for key in below})
            table.foreign.rename(old, new)
            _follow(table, {key: new + key[len(old) :] for key in renamed})


def _at_or_below(keys: Iterable[str], path: str) -> list[str]:
    return sorted(key for key in keys if key == path or key.startswith(path + "/"))


def _follow(table: LeafTable, names: dict[str, str]) -> None:
    """Have the descriptions of renamed objects name their leaves by their new keys."""
    for old, new in names.items():
        description = _describing(table, new, old, new)
        if description is not None:
            changes.put(table, f"{new}/{DESCRIPTION}", description)


def put_object(table: LeafTable, key: str, value: ForeignObject) -> None:
    """Give a key an object of another package: all of its leaves, with their bytes."""
    source, old = value._table, value.key
    with Change(table.session):
        check_assignable(table, key)
        description = _describing(source, old, old, key)
        registry = source.foreign.registry
        entries = {key + name[len(old) :]: registry[name] for name in _at_or_below(registry, old)}
        table.threshold = 0  # each leaf gets a file of its own, where the package that made it looks for it
        with AllOrNone(table):
            for below, leaf in value.leaves():
                frame = frame_of(leaf, old + below, source.path, {})
                if below == f"/{DESCRIPTION}" and description is not None:
                    frame = description
                changes.put(table, new_key(key + below), frame)
            if entries:
                table.foreign.declare(entries)


def _describing(table: LeafTable, at: str, old: str, new: str) -> NewFrame | None:
    """The description of the object at a key, for one that was at `old` and gets another key.

    None if it stays as it is. The package that writes tables notes the file of each index, from the root of the store.
    """
    try:
        leaf = table.foreign.inner_leaf(f"{at}/{DESCRIPTION}")
        indexes = None if leaf is None or old == new else leaf.vlmeta.get(_INDEXES)
    except (FormatError, UnsupportedKindError, UnsafeDeserializationError):
        return None  # what cannot be read refers to nothing
    if not isinstance(indexes, dict):
        return None
    moved = _with_paths(indexes, old[1:] + "/", new[1:] + "/")
    if moved == indexes:
        return None
    changed = leaf.copy()
    changed.vlmeta[_INDEXES] = moved
    return frame_of(changed, f"{new}/{DESCRIPTION}", table.path, {})


def _with_paths(value: Any, old: str, new: str) -> Any:
    """A description of indexes, with other folders in its paths."""
    if isinstance(value, dict):
        return {
            name: new + inner[len(old) :]
            if name == "path" and isinstance(inner, str) and inner.startswith(old)
            else _with_paths(inner, old, new)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_paths(inner, old, new) for inner in value]
    return value


def delete(table: LeafTable, path: str, key: str) -> None:
    """Delete a leaf, or a group with everything below it; `key` is the path as the caller gave it."""
    with Change(table.session):
        if path:
            check_not_inside(table, path)
        is_leaf = bool(path) and not path.endswith(HIDDEN) and table.contents.has(path)
        if is_leaf and not table.has_group(path):
            changes.remove_at_once(table, path)
            return
        listing = table.contents.listing()
        if path and not is_leaf and listing.count(path) == 0 and table.foreign.at(path) is None:
            raise StoreKeyError(f"Key {key!r} not found", path=table.path, key=key)
        with AllOrNone(table):
            if not changes.remove_group(table, path):
                below = listing.below(path or "/")
                changes.remove_all(table, path, [*below, path] if is_leaf else below)
            elif is_leaf:
                changes.remove(table, path)
            table.foreign.remove(path)


# ------------------------------------------------------------------ which keys are possible
def check_assignable(table: LeafTable, key: str) -> None:
    """Refuse a key that cannot be a leaf."""
    if ATTRIBUTES in key.split("/"):
        raise ValueError(f"Key {key!r}: the name {ATTRIBUTES} is reserved for attributes; use .vlmeta of the group")
    if key == "/" + DESCRIPTION:
        raise ValueError(f"Key {key!r} is reserved for the description of a table")
    check_not_inside(table, key)
    if table.foreign.are_possible() and table.foreign.at(key) is not None:
        raise ValueError(f"Key {key!r} is an object of another kind; delete it first")
    if table.has_group(key):
        groups, leaves = walking.children(table, key)
        held: Any = [f"{key}/{name}" for name in sorted({*groups, *leaves})]
        held = held or "none that is listed, but attributes"
        raise ValueError(
            f"Cannot assign array to structural path {key!r} that already has children: {held}; use a key below it, or "
            "delete the group first"
        )
    check_not_below(key, table.contents.has)


def check_new_group(table: LeafTable, group: str) -> None:
    """Refuse a key that cannot be a group."""
    new_key(group)
    check_not_inside(table, group)
    if table.contents.has(group):
        raise ValueError(f"{group!r} is a leaf: its attributes are those of the array")
    if ATTRIBUTES in group.split("/"):
        raise ValueError(f"Group {group!r}: the name {ATTRIBUTES} is reserved for attributes")
    check_not_below(group, table.contents.has)


def check_not_inside(table: LeafTable, key: str) -> None:
    """Refuse a key inside of an object of another package."""
    owner = table.foreign.above(key)
    if owner is not None:
        raise ValueError(f"Key {key!r} is an internal component of {owner!r}, an object of another kind")
