"""Stores that are never closed: garbage-collected, or still open when the interpreter exits.

Their pending changes are published then, with a `ResourceWarning`. A kill in that moment does no harm, as with any
publication; a forked child publishes nothing of its parent's stores.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from blosc2._core.io.forking import each, in_child

if TYPE_CHECKING:
    from blosc2._stores.store import Store

# Stores that are not only read. (They are no dictionary keys: stores compare by what they hold.)
_writable: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# The child of `multiprocessing` at the end of which stores are ended.
_seen_to = 0


def note_writable(store: Any) -> None:
    """See to a store that is open for writing, when this process forks and when it ends."""
    _writable[id(store)] = store
    _see_to_child()


def _begin_child() -> None:
    each(lambda store: store._begin_child(), list(_writable.values()))


in_child(_begin_child)


def end_forgotten(store: Store) -> None:
    """Publish what waits in a store that nobody closed, and end it.

    What waits in a transaction, or in a call that is under way in another thread, is dropped.
    """
    if store._closed or store._is_inherited or not store._is_open_end:
        return
    name = repr(store)
    lost = store._transaction is not None or store._streaming
    try:
        if not lost:
            store.close()
    finally:
        if not store._closed:
            store._drop()
            store._end()
    became = "lost with the transaction that was under way" if lost else "published now"
    warnings.warn(
        f"{name} was not closed: its changes are {became}; use it in a 'with' statement, or close() it",
        ResourceWarning,
        stacklevel=3,
    )


def end_all() -> None:
    """The interpreter ends: end all stores that are still open for writing."""
    first: BaseException | None = None
    for store in list(_writable.values()):
        try:
            end_forgotten(store)
        except Exception as error:  # noqa: BLE001 - the others are to be published all the same
            if first is None:
                first = error
            else:
                first.add_note(f"and another store failed: {error!r}")
    if first is not None:
        raise first


def _see_to_child() -> None:
    """See that stores are ended at the end of a child of `multiprocessing`, of which `atexit` knows nothing."""
    util = sys.modules.get("multiprocessing.util")
    parent = getattr(sys.modules.get("multiprocessing.process"), "parent_process", None)
    if util is not None and parent is not None and parent() is not None:
        global _seen_to
        if _seen_to != os.getpid():  # what a parent has seen to is forgotten in its children
            _seen_to = os.getpid()
            util.Finalize(None, end_all, exitpriority=0)
