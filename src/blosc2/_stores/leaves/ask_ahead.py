"""Asking the system for leaves before they are opened, so that the disk has many requests to serve and not one."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from blosc2._stores.store import Store

# Stands for a leaf that was deleted.
_GONE: Final = object()
#: Leaves that are asked for at a time while a store is iterated over.
ASKED: Final = 64


def ask_for_leaves(store: Store, names: list[str], *, heads: bool = False) -> None:
    """Ask for leaves of an archive that are opened next: for small ones as a whole, for both ends of others.

    With `heads` for both ends of all.
    Nothing where the last bytes that were needed were in memory, or where the leaves are not all members.
    """
    members = store._backend.members
    if members is None or len(names) < 2 or not members.source.awaits_leaves():
        return
    batch = store._batch(names, 1)
    if batch is not None:
        batch.ask(heads)


def ask_for_heads(store: Store, items: list[Any]) -> None:
    """Ask for what is needed to open the leaves of pairs of key and selection."""
    held = store._leaves.held
    try:
        names = [name for name in {item[0]: None for item in items} if isinstance(name, str) and name not in held]
    except (TypeError, LookupError):  # what is wrong with an item is told where it is read
        return
    ask_for_leaves(store, names, heads=True)


def _asked(store: Store) -> Iterator[list[str]]:
    """The keys, some at a time, whose leaves are about to be opened."""
    for names in store._key_batches():
        for start in range(0, len(names), ASKED):
            part = names[start : start + ASKED]
            ask_for_leaves(store, part)
            yield part


def _keys(store: Store) -> Iterator[str]:
    store._session.check_open()
    return store._iterate(store._pending.revision, _asked)


class Values(ValuesView[Any]):
    """The leaves of a store."""

    _mapping: Store

    def __iter__(self) -> Iterator[Any]:
        store = self._mapping
        if _may_go(store):
            yield from (leaf for _, leaf in _still_there(store))
            return
        for key in _keys(store):
            yield store[key]


class LeafItems(ItemsView[str, Any]):
    """The keys and leaves of a store."""

    _mapping: Store

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        store = self._mapping
        if _may_go(store):
            yield from _still_there(store)
            return
        for key in _keys(store):
            yield key, store[key]


def _may_go(store: Store) -> bool:
    """Whether leaves that are listed may be gone when it is their turn: others delete them."""
    return store._session.sharing is not None or not store._backend.lists_cheaply


def _still_there(store: Store) -> Iterator[tuple[str, Any]]:
    """The leaves of a store that others change: those that are deleted before it is their turn are left out."""
    for key in _keys(store):
        leaf = store.get(key, _GONE)
        if leaf is not _GONE:
            yield key, leaf
