"""Changing the keys of a store: each change is pending until it is published.

These functions take canonical keys. All but `rename_leaf` are called with the store's lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._backends import MAP_BYTES, ByteRange, Renamed, new_key
from blosc2._core.leaves.store_state import Change
from blosc2._stores.contents import recount
from blosc2._stores.transaction import AllOrNone
from blosc2.exceptions import FormatError, name_file

#: Fewer keys than these are removed one by one.
MANY = 64

if TYPE_CHECKING:
    from blosc2._stores.leaves.live_leaf import LiveHandle
    from blosc2._stores.store import Store


def put(store: Store, key: str, byte_range: ByteRange, value: Any = None) -> None:
    """Give a key a new frame; `value` is what it was made of, if known."""
    with Change(store._session):
        pending = store._pending
        is_new = not store._contents.has(key)
        tier = store._prepare(key, byte_range, value, is_new=is_new)
        block = _note(store, key)
        try:
            pending.put(key, byte_range, tier, block, is_new=is_new)
            store._leaves.forget(key)
            for follower in store._followers:
                follower.key_changed(key, int(is_new))
            pending.stage(store._backend)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, store._file)
            if pending.frames.get(key) is byte_range:  # perhaps some follower was not told
                recount(store)
            raise


def remove(store: Store, key: str) -> LiveHandle | None:
    """Remove a key that exists; returns the handle of its leaf if that has edits that are not pending changes yet."""
    with Change(store._session):
        pending = store._pending
        # A version that is not shown may have it, too.
        is_published = store._backend.behind or key in store._backend
        change = pending.frames.get(key, ...)
        if change is None:
            raise store._missing_key(key)
        if change is ... and not is_published:
            raise FormatError(
                "the store lists this key and does not find it, so it is damaged, or another program changes it: run "
                "blosc2.check() on it",
                path=store._path,
                key=key,
            )
        block = _note(store, key)
        try:
            pending.remove(key, block, is_published=is_published)
            edited = store._leaves.forget(key)  # last: a finalizer may open the leaf
            store._publishing.forget_key(key, removed=True)
            embedded = store._backend.embedded
            if embedded is not None and key in embedded.entries:
                pending.in_memory += MAP_BYTES  # the map of embedded values has to be written again
            for follower in store._followers:
                follower.key_changed(key, -1)
        except BaseException:
            recount(store)
            if not store._contents.has(key):
                store._leaves.forget(key)
            raise
    return edited


def remove_group(store: Store, group: str) -> bool:
    """Remove all keys below a group at once, within a block; False, and nothing is done, if it has to be key by key.

    "" stands for all keys.
    """
    pending, backend, start = store._pending, store._backend, group + "/"
    if not backend.can_remove_groups or pending.block() is None or backend.listing().count(group or "/") < MANY:
        return False
    with Change(store._session):
        store._session.check_thread("change keys")
        for key in _single_keys(store, start):
            remove(store, key)
        pending.remove_group(group)
        recount(store)
    return True


def _single_keys(store: Store, start: str) -> list[str]:
    """Existing keys that begin like this, of leaves that are not published as members, or that somebody holds."""
    embedded = store._backend.embedded
    known = (store._pending.frames, store._leaves.all_keys(), () if embedded is None else embedded.entries)
    single = {key for keys_of in known for key in keys_of if key.startswith(start)}
    return [key for key in sorted(single) if store._contents.has(key)]


def rename_group(store: Store, group: str, names: dict[str, str]) -> None:
    """Rename all leaves below a group, which exist, to keys that are free, within a block."""
    with Change(store._session):
        pending, block = store._pending, store._pending.block()
        store._session.check_thread("change keys")
        if block is None or not _can_rename_together(store, group, names):
            move(store, {old: new_key(new) for old, new in names.items()})
            return
        single = _renamed_singly(store, group, names)
        move(store, single)
        # What is published and nobody holds gets its new keys together, and the group is removed as a whole.
        renamed = _renamed_members(store, names, single)
        block.note_together(renamed)
        pending.frames.update(renamed)
        pending.tiers.update(dict.fromkeys(renamed, True))
        pending.remove_group(group)
        recount(store)


def _can_rename_together(store: Store, group: str, names: dict[str, str]) -> bool:
    """Whether a group can be removed as a whole, and its leaves surely can have their new keys."""
    backend = store._backend
    if not backend.can_remove_groups or backend.listing().count(group) < MANY:
        return False
    folded = store._names.hashes(store._contents)
    return folded is not None and folded.admits(names.values(), new_key)


def _renamed_singly(store: Store, group: str, names: dict[str, str]) -> dict[str, str]:
    """Those of the leaves that are no members that wait for nothing, or whose new key was removed."""
    single, frames = set(_single_keys(store, group + "/")), store._pending.frames
    return {old: new for old, new in names.items() if old in single or new in frames}


def _renamed_members(store: Store, names: dict[str, str], single: dict[str, str]) -> dict[str, ByteRange | None]:
    """The members of all other leaves, by their new keys."""
    backend = store._backend
    locate = backend.locate if backend.members is None else backend.members.locate
    return {
        new: Renamed(byte_range, old) if (byte_range := locate(old)) is not None else backend.begin_rename(old)
        for old, new in names.items()
        if old not in single
    }


def remove_all(store: Store, group: str, keys: list[str]) -> None:
    """Remove all keys of a group, which exist, within a block."""
    with Change(store._session):
        block = store._pending.block()
        rest = keys
        if store._backend.placing is None and block is not None and len(keys) >= MANY:
            # Only what is published and nobody holds is removed together.
            together, rest = _parted(store, group, keys)
            _remove_together(store, block, together)
        for key in rest:
            remove(store, key)


def _parted(store: Store, group: str, keys: list[str]) -> tuple[list[str], list[str]]:
    """The published keys of a group that have no pending change and no open leaf, and all others."""
    pending, embedded, start = store._pending, store._backend.embedded, group + "/"
    known = (pending.frames, pending.tiers, store._leaves.all_keys(), () if embedded is None else embedded.entries)
    single = {key for keys_of in known for key in keys_of if key.startswith(start) or key == group}
    if not single:
        return keys, []
    return [key for key in keys if key not in single], [key for key in keys if key in single]


def _remove_together(store: Store, block: AllOrNone, keys: list[str]) -> None:
    """Remove published keys that have no pending change and no open leaf."""
    store._session.check_thread("change keys")
    try:
        removed: dict[str, Any] = dict.fromkeys(keys)
        block.note_together(removed)
        store._pending.frames.update(removed)
        store._pending.revision += 1
        for follower in store._followers:
            follower.keys_removed(keys)
    except BaseException:
        recount(store)
        raise


def remove_at_once(store: Store, key: str) -> None:
    """Remove a key that exists, and publish that if the store publishes without `flush`."""
    with Change(store._session):
        publishing = store._publishing
        if publishing.remove(store, key):
            return
        if publishing.is_due(store, MAP_BYTES, None):
            with AllOrNone(store):
                remove(store, key)
        else:
            remove(store, key)


def rename_leaf(store: Store, old: str, new: str) -> None:
    """Give a leaf a key that is free."""
    with store._lock, Change(store._session):
        if not store._contents.has(old):
            raise store._missing_key(old)
        if old != new:
            check_free(store, new)
            store._check_assignable(new)
            move(store, {old: new})


def move(store: Store, names: dict[str, str]) -> None:
    """Rename existing leaves to keys that are free: all, or none if anything fails."""
    with Change(store._session):
        frames = store._pending.frames
        if not store._leaves.edited.keys().isdisjoint(names):
            store._leaves.collect(frames)
        byte_ranges = {old: frames.get(old) or store._backend.begin_rename(old) for old in names}
        with AllOrNone(store):
            # Remove all old keys first: they might exclude new ones.
            for old in names:
                edited = remove(store, old)
                if edited is None:
                    continue
                byte_ranges[old] = edited.byte_range()  # another thread has edited it since then
            for old, new in names.items():
                put(store, new, byte_ranges[old])


def check_free(store: Store, key: str) -> None:
    """Refuse a key that has a leaf."""
    if store._contents.has(key):
        raise ValueError(f"Key {key!r} is taken: delete it first")


def _note(store: Store, key: str) -> AllOrNone | None:
    """Note that a key is about to change; returns the block of that change."""
    session = store._session
    if session.closed:  # by another thread, while this one waited for the lock
        raise session.closed_error()
    session.check_thread("change keys")
    block = store._pending.block()
    if block is not None:
        block.note(key)
    return block
