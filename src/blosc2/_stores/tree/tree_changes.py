"""Changing the groups of a `TreeStore`, and which keys a leaf or group may have beside those that exist.

A key is either a group or a leaf, and objects of other packages cannot be changed in part. Paths are absolute; "" is
the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._backends import new_key
from blosc2._core.leaves.store_state import Change
from blosc2._stores import changes
from blosc2._stores.leaves.leaf_setting import metadata_frame
from blosc2._stores.new_keys import below_leaf
from blosc2._stores.transaction import AllOrNone
from blosc2._stores.tree import walking
from blosc2._stores.tree.foreign_objects import ATTRIBUTES, DESCRIPTION, HIDDEN
from blosc2.exceptions import StoreKeyError

if TYPE_CHECKING:
    from blosc2.tree_store import TreeStore


def create_group(store: TreeStore, path: str) -> None:
    """Make a group without leaves."""
    with store._lock, Change(store._session):
        check_new_group(store, path)
        if store._foreign.at(path, store) is not None:
            raise ValueError(f"Key {path!r} is an object of another kind; delete it first")
        if not store._has_group(path):
            with AllOrNone(store):
                changes.put(store, path + HIDDEN, metadata_frame({}))


def rename(store: TreeStore, old: str, new: str) -> None:
    """Give a leaf, or a group with everything below it, a key that is free."""
    with store._lock, Change(store._session):
        check_not_inside(store, old)
        is_leaf = store._contents.has(old) and not old.endswith(HIDDEN)
        if not is_leaf and not store._has_group(old) and store._foreign.at(old, store) is None:
            raise store._missing_key(old)
        if old == new:
            return
        if new.startswith(old + "/"):
            raise ValueError(f"Key {new!r} is inside of {old!r}, which cannot become a part of itself")
        changes.check_free(store, new)
        check_assignable(store, new)
        with AllOrNone(store):
            below = store._contents.listing().below(old)
            if is_leaf:
                changes.move(store, {key: new_key(new + key[len(old) :]) for key in [old, *below]})
            else:
                changes.rename_group(store._owner, old, {key: new + key[len(old) :] for key in below})
            store._foreign.rename(old, new)


def delete(store: TreeStore, path: str, key: str) -> None:
    """Delete a leaf, or a group with everything below it; `key` is the path as the caller gave it."""
    with store._lock, Change(store._session):
        if path:
            check_not_inside(store, path)
        is_leaf = bool(path) and not path.endswith(HIDDEN) and store._contents.has(path)
        if is_leaf and not store._has_group(path):
            changes.remove_at_once(store, path)
            return
        listing = store._contents.listing()
        if path and not is_leaf and listing.count(path) == 0 and store._foreign.at(path, store) is None:
            raise StoreKeyError(f"Key {key!r} not found", path=store._path)
        with AllOrNone(store):
            if not changes.remove_group(store._owner, path):
                below = listing.below(path or "/")
                changes.remove_all(store, path, [*below, path] if is_leaf else below)
            elif is_leaf:
                changes.remove(store, path)
            store._foreign.remove(path)


# ------------------------------------------------------------------ which keys are possible
def check_assignable(store: TreeStore, key: str) -> None:
    """Refuse a key that cannot be a leaf."""
    if ATTRIBUTES in key.split("/"):
        raise ValueError(f"Key {key!r}: the name {ATTRIBUTES} is reserved for attributes; use .vlmeta of the group")
    if key == "/" + DESCRIPTION:
        raise ValueError(f"Key {key!r} is reserved for the description of a table")
    check_not_inside(store, key)
    if store._foreign.are_possible(store) and store._foreign.at(key, store) is not None:
        raise ValueError(f"Key {key!r} is an object of another kind; delete it first")
    if store._has_group(key):
        groups, leaves = walking.children(store, key)
        held: Any = [f"{key}/{name}" for name in sorted({*groups, *leaves})]
        held = held or "none that is listed, but attributes"
        raise ValueError(
            f"Cannot assign array to structural path {key!r} that already has children: {held}; use a key below it, or "
            "delete the group first"
        )
    _check_not_below_leaf(store, key)


def check_new_group(store: TreeStore, group: str) -> None:
    """Refuse a key that cannot be a group."""
    new_key(group)
    check_not_inside(store, group)
    if store._contents.has(group):
        raise ValueError(f"{group!r} is a leaf: its attributes are those of the array")
    if ATTRIBUTES in group.split("/"):
        raise ValueError(f"Group {group!r}: the name {ATTRIBUTES} is reserved for attributes")
    _check_not_below_leaf(store, group)


def check_not_inside(store: TreeStore, key: str) -> None:
    """Refuse a key inside of an object of another package."""
    owner = store._foreign.above(key, store)
    if owner is not None:
        raise ValueError(f"Key {key!r} is an internal component of {owner!r}, an object of another kind")


def _check_not_below_leaf(store: TreeStore, key: str) -> None:
    end = key.find("/", 1)
    while end > 0:
        if store._contents.has(key[:end]):
            raise below_leaf(key, key[:end])
        end = key.find("/", end + 1)
