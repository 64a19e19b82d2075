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

from blosc2 import _stores
from blosc2._arrays import ready_to_change
from blosc2._core.io.sharing import each, in_child, item_of
from blosc2._core.on_demand import import_now
from blosc2._options import absolute_path
from blosc2._stores.leaf_table import table_of
from blosc2._stores.publish import detach, drop, end, leave_compact, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blosc2._options import StoreOptions
    from blosc2._stores.store import Store

# Stores that are open for writing, by id: a store cannot be hashed, because it compares like a mapping.
_writable: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# Id of the `multiprocessing` child process that ends its stores at exit.
_child = 0


def _open_for_writing() -> list[Any]:
    """The stores that are open for writing. Other threads may be opening some: iterators of the table would raise."""
    data: dict[int, Any] = _writable.data.copy()  # type: ignore[attr-defined]  # the stubs lack it
    return [store for reference in data.values() if (store := reference()) is not None]


def note_writable(store: Any) -> None:
    """Remember a store that is open for writing, for when this process forks or ends.

    What sets leaves is imported now, and with it all that publishes them: then nothing may be imported any more.
    """
    _writable[id(store)] = store
    ready_to_change()
    import_now("blosc2._stores", "live_leaf", "set_leaf", "tree_changes")
    _end_with_child()


def _begin_child() -> None:
    each(lambda table: table.begin_child(), [table_of(store) for store in _open_for_writing()])


in_child(_begin_child)


def end_forgotten(store: Store) -> None:
    """Publish the pending changes of a store that nobody closed, and close it.

    The changes of a transaction, or of a call that another thread has under way, are dropped.
    """
    table = table_of(store)
    session = table.session
    if session.closed or detach(store) or session.is_inherited:
        return
    if not table.needs_closing():
        if not sys.is_finalizing():
            leave_compact(table)
        return
    # Not its repr: that counts leaves, and imports what nothing else needs now.
    name = f"<{type(store).__name__} {table.path or 'in memory'}: mode {store.mode!r}>"
    streaming = session.streaming  # by another thread, which goes on: its file is left as by a kill
    lost = session.transaction is not None or streaming
    try:
        if not lost:
            store.close()
    finally:
        if not (streaming or session.closed):
            drop(table)
            end(table)
    became = "lost with the transaction that was under way" if lost else "published now"
    warnings.warn(
        f"{name} was not closed: its changes are {became}; use it in a 'with' statement, or close() it",
        ResourceWarning,
        stacklevel=3,
    )


def close_replaced(path: str) -> None:
    """Close what this process has open for writing at a path, with its changes dropped: a new store takes the path.

    Stores that take turns, and what is in the middle of a change, are left to the lock of the new store.
    """
    for store in _open_at(path):
        session = table_of(store).session
        if not (session.transaction is not None or session.streaming or session.is_changing):
            replace(table_of(store))


def _open_at(path: str) -> Iterator[Any]:
    """The stores that this process, and nobody else, may change at a path."""
    target = os.path.realpath(path)
    for store in _open_for_writing():
        session = table_of(store).session
        lock = session.writer_lock
        if session.closed or lock is None or lock.shared or lock.inherited:
            continue
        if os.path.realpath(lock.path) == target:
            yield store


def open_already(path: str, options: StoreOptions, kind: str | None = None) -> Any:
    """A store that this process has open at a path, and which another handle with these options is to share; or None.

    `kind` is the metalayer that names the class, if it is known.
    """
    if options.mode != "a" or options.locking or not options.exclusive:
        return None
    for store in _open_at(path):
        lock = table_of(store).session.writer_lock
        if kind in (None, store._metalayer) and lock is not None and lock.is_of_path():
            return store
    return None


def join_open(store: Any, path: str, options: StoreOptions) -> bool:
    """Let a new handle share the store that this process has open at its path; False if there is none."""
    other = open_already(absolute_path(path), options, store._metalayer)
    if other is None or not store._join(other, path, options):
        return False
    if options.advise is not None:
        _stores.advise_all(table_of(store), options.advise)
    return True


def end_all() -> None:
    """Close all stores that are still open for writing: the interpreter ends. What fails is told in one line each."""
    for store in _open_for_writing():
        try:
            end_forgotten(store)
        except Exception as error:  # noqa: BLE001 - the other stores are published all the same
            why = str(error).partition("; your changes are kept")[0]
            what = f"changes of {table_of(store).path} are lost at the end of the program"
            print(f"blosc2: {what}: {why}", file=sys.stderr)


def _end_with_child() -> None:
    """Close stores when a child of `multiprocessing` exits, which runs no `atexit` functions."""
    util = item_of(sys.modules, "multiprocessing.util")
    parent = getattr(item_of(sys.modules, "multiprocessing.process"), "parent_process", None)
    if util is not None and parent is not None and parent() is not None:
        global _child
        if _child != os.getpid():  # children forget the finalizers of their parents
            _child = os.getpid()
            util.Finalize(None, end_all, exitpriority=0)
