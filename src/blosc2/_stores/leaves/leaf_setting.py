"""Setting one leaf: step by step here, and by `LeafSetter` in one native step what is simple and like others before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from blosc2._arrays import ArrayPlan, raw_kinds
from blosc2._backends import MAP_BYTES, NewFrame, new_key
from blosc2._core.leaves.leaf_access import LeafSetter
from blosc2._core.leaves.store_state import Change
from blosc2._frames import AnyChunk, held_in_memory
from blosc2._stores import pending
from blosc2._stores.changes import put
from blosc2._stores.leaves import value_to_frame
from blosc2._stores.leaves.laid_out import lay_out, takes_chunks
from blosc2._stores.leaves.value_to_frame import FramedValue, compressed, frame_of
from blosc2._stores.transaction import AllOrNone

if TYPE_CHECKING:
    from blosc2._stores.store import Store


def set_small(store: Store, key: object, value: Any) -> bool:
    """Give a key a small array in one native call; False, and nothing is done, where `set_leaf` has to look closer."""
    if type(value) is not np.ndarray or store._session.sharing is not None:
        return False
    with store._lock:
        setter = ready_setter(store)
        return setter is not None and setter.set(key, value)


def remove_small(store: Store, key: object) -> bool:
    """Remove a leaf in one native call; False, and nothing is done, where that takes more."""
    if store._prefix or store._session.sharing is not None:
        return False
    with store._lock:
        setter = ready_setter(store)
        return setter is not None and setter.remove(key)


def set_leaf(store: Store, key: str, value: Any) -> None:
    """Give a key that is legal by itself a leaf, with the store's lock held."""
    session = store._session
    begun = session.begun + 1
    store._check_assignable(key)
    is_large = type(value) is np.ndarray and value.nbytes > value_to_frame.LARGE and not value.dtype.hasobject
    if is_large and takes_chunks(store):
        plan = ArrayPlan(value.shape, value.dtype, store._encoding())
        value = FramedValue(lay_out(store, key, plan, plan.compressed(value), {}), value.nbytes)
        begun += 1
    byte_range = frame_of(value, key, store._path, store._encoding(), asked=store._asked)
    with Change(session):
        if session.begun != begun:  # the value, a finalizer or a signal handler has changed the store meanwhile
            store._check_assignable(key)
        if store._publishing.put(store, key, byte_range, value):
            return
        if store._pending.fits(byte_range[2]) and not store._publishing.is_due(store, byte_range[2], None):
            put(store, key, held_in_memory(byte_range), value)
        else:  # something is to be written, which may fail
            with AllOrNone(store):
                put(store, key, byte_range, value)


def set_chunks(store: Store, key: str, plan: ArrayPlan, chunks: Iterable[AnyChunk], vlmeta: dict[str, bytes]) -> bool:
    """Give a key an array whose compressed chunks come one by one, without keeping them meanwhile.

    Returns
    -------
    bool
        False, and no chunk is taken, where the store cannot do that: make the array first, then assign it.
    """
    key = new_key(store._absolute(key))
    store._session.check_writable("set items", key)
    with store._lock:
        if not takes_chunks(store):
            return False
        store._check_assignable(key)
        nbytes = plan.geometry.size * plan.dtype.itemsize
        set_leaf(store, key, FramedValue(lay_out(store, key, plan, chunks, vlmeta), nbytes))
    return True


def ready_setter(store: Store) -> LeafSetter | None:
    """What sets and removes leaves in one native call, with all that it has to know of the version that is shown.

    None for stores that need more steps, and where nothing may be changed now. With the store's lock held.
    """
    session = store._session
    if session.closed or session.mode == "r" or session.streaming or session.unsure or session.is_changing:
        return None
    with Change(session):  # no finalizer shows another version meanwhile
        setter = store._setter
        if setter is None:
            setter = _new_setter(store)
            if setter is None:
                return None
            store._setter = setter
            store._followers = (*store._followers, setter)
        if not setter.is_ready:
            _show_version(store, setter)
        if setter.wants_kinds:
            _tell_kinds(store, setter)
        if store._foreign is not None:
            store._foreign.are_possible(store)
        setter.be_quiet(*store._publishing.quiet_time(store))
        return setter


def _new_setter(store: Store) -> LeafSetter | None:
    """What sets leaves of a store in one native call; None for stores whose leaves may get files of their own.

    Nor for stores that others change, too.
    """
    backend, session = store._backend, store._session
    is_archive = backend.suffix == ".b2z"
    if session.sharing is not None:
        return None
    if store._threshold != 0 or not (is_archive or backend.suffix == ".b2e"):
        return None
    owner = None if session.writer_lock is None else session.writer_lock.owner
    process = -1 if owner is None else owner.pid
    setter = LeafSetter(session, store._pending, store._contents, store._leaves, store._lock, NewFrame, process)
    setter.keep(
        store._names,
        store._groups,
        store._foreign,
        tiered=is_archive,
        memory_limit=pending.MEMORY_LIMIT,
        map_bytes=MAP_BYTES,
    )
    return setter


def _show_version(store: Store, setter: LeafSetter) -> None:
    """Tell a setter what is published."""
    backend = store._backend
    embedded = backend.embedded
    if embedded is None or backend.replaces:
        setter.show(None, {}, None)
    else:
        table = None if backend.members is None else backend.members.table()
        setter.show(table, embedded.entries, backend.listing() if table is not None else None)


def _tell_kinds(store: Store, setter: LeafSetter) -> None:
    """Tell a setter how values are compressed."""
    encoding, path, asked = store._encoding(), store._path, store._asked

    def frame_of_items(items: Any) -> NewFrame:
        return compressed(items, path, encoding, asked=asked)

    setter.use_kinds(None if asked else raw_kinds(encoding), frame_of_items)
