"""Whether all that a store counts, lists and finds is what a plain dictionary has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import blosc2
from blosc2._backends.directory.leaf_files import scan


def groups_of(leaves: Iterable[str], described: Iterable[str] = ()) -> set[str]:
    """The groups that a tree has with these leaves, and with these groups that have attributes."""
    found = set(described)
    for path in [*leaves, *described]:
        end = path.rfind("/")
        while end > 0:
            found.add(path[:end])
            end = path.rfind("/", 0, end)
    return found


def recount(
    store: Any, leaves: Mapping[str, list[int]], described: Collection[str] = (), others: Iterable[str] = ()
) -> None:
    """Compare a store, open in any mode, with what it must hold.

    Parameters
    ----------
    store : EmbedStore, DictStore or TreeStore
        The store itself, not the view of a group.
    leaves : dict
        The items of each leaf.
    described : collection of str
        The groups of a tree that have attributes.
    others : iterable of str
        Keys that may be there: each that is neither a leaf nor a group here must not be found.
    """
    is_tree = isinstance(store, blosc2.TreeStore)
    groups = groups_of(leaves, described) if is_tree else set()
    assert not groups & set(leaves), "a name is both leaf and group"
    keys = sorted({*leaves, *groups})
    _lists(store, keys)
    _finds(store, leaves, groups, {*others, *groups_of(others), *(key + "/x" for key in keys)} - {*keys})
    if is_tree:
        for path in ["", *sorted(groups)]:
            _group(store, path, keys, groups)
    _counts(store, leaves, described, groups)


def _lists(store: Any, keys: list[str]) -> None:
    listed = list(store)
    if isinstance(store, blosc2.EmbedStore):  # in the order in which they came
        assert len(listed) == len(set(listed))
        listed.sort()
    assert listed == keys
    assert sorted(store.keys()) == keys == sorted(key for key, _ in store.items())
    assert len(store) == len(keys) == len(list(store.values()))


def _finds(store: Any, leaves: Mapping[str, list[int]], groups: set[str], missing: set[str]) -> None:
    for key, items in leaves.items():
        assert key in store, key
        assert store[key][:].tolist() == items, key
        assert store.get(key) is store[key] is not None
    for group in groups:
        assert group in store, group
        assert isinstance(store[group], blosc2.TreeStore), group
    for key in missing:
        assert key not in store, key
        assert store.get(key) is None, key


def _group(store: Any, path: str, keys: list[str], groups: set[str]) -> None:
    """What the group of a tree holds; "" is the root."""
    inside = [key for key in keys if key.startswith(path + "/")]
    children = [key for key in inside if "/" not in key[len(path) + 1 :]]
    view = store[path or "/"]
    relative = [key[len(path) :] for key in inside]
    assert list(view) == relative, path
    assert len(view) == len(relative), path
    assert all(key in view for key in relative), path
    assert store.get_descendants(path or "/") == inside, path
    assert store.get_children(path or "/") == children, path
    for topdown in (True, False):
        walked = [
            f"{group}/{name}".replace("//", "/")
            for group, inner, names in store.walk(path or "/", topdown=topdown)
            for name in [*inner, *names]
        ]
        assert sorted(walked) == inside, (path, topdown)
    drawn = str(store.tree(path or "/")).splitlines()
    assert len(drawn) == min(1001, 1 + len(inside)), (path, drawn)


def _counts(store: Any, leaves: Mapping[str, list[int]], described: Collection[str], groups: set[str]) -> None:
    """What is counted on the way, against a count from the start."""
    backend, pending = store._table.backend, store._table.pending
    assert not store._table.session.is_changing
    assert pending.in_memory >= 0
    if store._table.groups is not None:
        hidden = [*leaves, *(group + "/__vlmeta__" for group in described)]
        shows_published = backend.embedded is not None and not backend.replaces
        listing = backend.listing() if shows_published else None
        for group in {*groups, *store._table.groups.added}:
            counted = store._table.groups.added.get(group, 0) + (0 if listing is None else listing.count(group))
            assert counted == sum(key.startswith(group + "/") for key in hidden), group
    files = getattr(backend, "files", None)
    if files is not None and files.listed is not None and not backend.replaces:
        there: dict[str, str] = {}
        for ranked in reversed(scan(backend.root)):
            there.update(ranked)
        assert files.listed == there
