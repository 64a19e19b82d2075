"""Publishing leaves of a `.b2d` as files: written at their assignment, removed at their deletion.

That needs no disk (`placing`), but where something durable is replaced or renamed. Such changes wait for the disk each;
as soon as that is no longer cheap, they are published in groups, which wait for it together. Embedded values are
published together, at the pace of an `EmbedStore`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from blosc2._backends import Moved, Window
from blosc2._frames import settled
from blosc2._stores.all_or_none import AllOrNone
from blosc2.exceptions import name_file

if TYPE_CHECKING:
    from blosc2._backends.directory import DirectoryBackend
    from blosc2._stores.backed import BackedStore

#: Seconds that changes of single leaves may wait for the disk in all, before they are taken together.
ALLOWANCE: Final = 0.25
#: How many then wait at most.
GROUP: Final = 256


def put_leaf(store: BackedStore, backend: DirectoryBackend, key: str, window: Window, value: Any) -> bool:
    """Publish a leaf that gets a file of its own; False where it gets none, or something else publishes it."""
    if store._transaction is not None or threading.get_ident() in store._blocks:
        return False
    if not store._goes_to_file(value, window):
        return False
    embedded = store._embedded
    if not (embedded is None or store._unwritten or backend.behind or backend.must_load or key in store._origins):
        there = key in backend
        new = not (there or store._has(key))
        store._check_new(key, new)
        placing = backend.placing
        durable = key in embedded.entries or key in placing.removed or (there and placing.replaces(key))
        if (not durable or _is_cheap(store)) and _put(store, backend, key, window, there, new, durable):
            if store._waiting_leaves and _is_cheap(store):
                _publish(store, backend, [])
            return True
    with AllOrNone(store):
        store._put(key, settled(window) if store._fits(window) else window, value)
    return True


def _is_cheap(store: BackedStore) -> bool:
    return store._leaf_pace.is_cheap(ALLOWANCE)


def _put(
    store: BackedStore, backend: DirectoryBackend, key: str, window: Window, there: bool, new: bool, durable: bool
) -> bool:
    try:
        if not durable:
            if not backend.placing.put(key, window, there=there, synced=False):
                return False
        else:
            with store._leaf_pace:
                if not backend.placing.put(key, window, there=there, synced=True):
                    return False
        store._revision += new
        store._forget_leaf(key)
        _is_there(store, key, there=True)
        store._count_key(key, int(new))
    except BaseException as error:
        if not isinstance(error, Exception):  # an interrupt, perhaps when it was published
            store._forget_leaf(key)
        store._look_again_at_keys()
        raise
    return True


def _is_there(store: BackedStore, key: str, *, there: bool) -> None:
    """A key was given its file, or lost it: no change of it waits any more."""
    pending = store._changes.pop(key, None)
    if pending is not None and not isinstance(pending, Moved):
        store._in_memory -= min(store._in_memory, pending[2])
    store._external.pop(key, None)
    store._waiting_leaves.discard(key)
    if there and store._embedded is not None and key in store._embedded.entries:
        store._hidden.add(key)
    if store._placed.get(key) is not there:
        store._placed[key] = there
        store._listing_cache = None


def remove_leaf(store: BackedStore, backend: DirectoryBackend, key: str) -> bool:
    """Remove the file of a leaf that has nothing else; False where something else has to be done."""
    if store._transaction is not None or threading.get_ident() in store._blocks:
        return False
    embedded = store._embedded
    if embedded is None or store._unwritten or backend.behind or backend.must_load or key in embedded.entries:
        return False
    if isinstance(store._changes.get(key), Moved) or key not in backend:
        return False
    try:
        if not backend.placing.remove(key):
            return False
        store._revision += 1
        store._forget_leaf(key)
        store._folded_more = True
        _is_there(store, key, there=False)
        store._count_key(key, -1)
    except BaseException as error:
        if isinstance(error, OSError):
            name_file(error, backend.root)
        elif not isinstance(error, Exception):
            store._forget_leaf(key)
        store._look_again_at_keys()
        raise
    return True


def end_block(store: BackedStore, backend: DirectoryBackend, block: AllOrNone) -> None:
    """Publish what a block has changed, as far as that is due."""
    changes = {key: store._changes[key] for key in block.keys if key in store._changes}
    if not changes and not store._unwritten:
        return
    shown = store._embedded is not None and not (store._unwritten or backend.behind or backend.must_load)
    if shown and all(_is_of_files(store, key, window) for key, window in changes.items()):
        _publish(store, backend, list(changes))
        return
    with_file = any(window is not None and store._external.get(key) for key, window in changes.items())
    # A file in the place of a value that gets another key comes after that.
    first = with_file and (not shown or not store._origins.isdisjoint(changes))
    entries = () if store._embedded is None else store._embedded.entries
    if (first or store._pace.is_due(store._in_memory, len(entries))) and store._may_publish(block):
        with store._pace:
            store._flush_lazily()


def _is_of_files(store: BackedStore, key: str, window: Window | None) -> bool:
    """Whether a change is one of files alone."""
    entries = {} if store._embedded is None else store._embedded.entries
    if window is None:
        return key not in entries
    if isinstance(window, Moved):
        return window.aside is not None and window.origin not in entries and key not in entries
    return bool(store._external.get(key)) and key not in store._origins


def _publish(store: BackedStore, backend: DirectoryBackend, keys: list[str]) -> None:
    """Publish changes of files, and those that wait; or let them wait, where that is not cheap and they are few."""
    changes = store._changes
    durable = [
        key
        for key in keys
        if (window := changes[key]) is not None and (isinstance(window, Moved) or backend.placing.replaces(key))
    ]
    waiting = store._waiting_leaves & changes.keys()
    if durable and len(waiting) + len(keys) < GROUP and not _is_cheap(store):
        store._waiting_leaves.update(keys)
        return
    taken = {key: changes[key] for key in {*waiting, *keys}}
    waits = bool(durable or waiting)
    try:
        if waits:
            with store._leaf_pace:
                backend.placing.publish(taken)
        else:
            backend.placing.publish(taken)
    except BaseException as error:
        if isinstance(error, OSError):
            name_file(error, backend.root)
        store._look_again_at_keys()
        raise
    for block in list(store._blocks.values()):
        block.forget_keys(taken)
    for key, window in taken.items():
        _is_there(store, key, there=window is not None)
    if not changes:
        backend.discard()
