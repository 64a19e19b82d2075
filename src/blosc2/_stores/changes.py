"""Changing the keys of a store: each change is pending until it is published.

These functions take canonical keys, and are called with the lock of the table held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._backends import MAP_BYTES, ByteRange, Renamed, new_key
from blosc2._core.keys.key_admission import KeyAdmission
from blosc2._core.leaves.store_state import Change
from blosc2._stores.transaction import AllOrNone
from blosc2.exceptions import FormatError, name_file

#: Fewer keys than these are removed one by one.
MANY = 64

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.leaves.live_leaf import LiveHandle


def put(table: LeafTable, key: str, byte_range: ByteRange, value: Any = None) -> None:
    """Give a key a new frame; `value` is what it was made of, if known."""
    with Change(table.session):
        pending = table.pending
        is_new = not table.contents.has(key)
        tier = table.admit(key, byte_range, value, is_new=is_new)
        block = _block(table)
        try:
            pending.put(key, byte_range, tier, 0 if isinstance(byte_range, Renamed) else byte_range[2], is_new, block)
            for follower in table.followers:
                follower.key_changed(key, int(is_new))
            pending.stage(table.backend)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, table.backend.named)
            if pending.frames.get(key) is byte_range:  # perhaps some follower was not told
                table.recount()
            raise


def remove(table: LeafTable, key: str) -> LiveHandle | None:
    """Remove a key that exists; returns the handle of its leaf if that has edits that are not pending changes yet."""
    with Change(table.session):
        pending = table.pending
        # A version that is not shown may have it, too.
        is_published = table.backend.behind or key in table.backend
        change = pending.frames.get(key, ...)
        if change is None:
            raise table.missing_key(key)
        if change is ... and not is_published:
            raise FormatError(
                "the store lists this key and does not find it, so it is damaged, or another program changes it: run "
                "blosc2.check() on it",
                path=table.path,
                key=key,
            )
        block = _block(table)
        try:
            edited: LiveHandle | None = pending.remove(key, is_published, block)
            table.publishing.note_removed(key)
            embedded = table.backend.embedded
            if embedded is not None and key in embedded.entries:
                pending.in_memory += MAP_BYTES  # the map of embedded values has to be written again
            for follower in table.followers:
                follower.key_changed(key, -1)
        except BaseException:
            table.recount()
            if not table.contents.has(key):
                table.leaves.forget(key)
            raise
    return edited


def remove_group(table: LeafTable, group: str) -> bool:
    """Remove all keys below a group at once, within a block; False, and nothing is done, if it has to be key by key.

    "" stands for all keys.
    """
    pending, backend, start = table.pending, table.backend, group + "/"
    if not backend.can_remove_groups or pending.block() is None or backend.listing().count(group or "/") < MANY:
        return False
    with Change(table.session):
        table.session.check_thread("change keys")
        for key in _single_keys(table, start):
            remove(table, key)
        pending.remove_group(group)
        table.recount()
    return True


def _single_keys(table: LeafTable, start: str) -> list[str]:
    """Existing keys that begin like this, of leaves that are not published as members, or that somebody holds."""
    embedded = table.backend.embedded
    known = (table.pending.frames, table.leaves.all_keys(), () if embedded is None else embedded.entries)
    single = {key for keys_of in known for key in keys_of if key.startswith(start)}
    return [key for key in sorted(single) if table.contents.has(key)]


def rename_group(table: LeafTable, group: str, names: dict[str, str]) -> None:
    """Rename all leaves below a group, which exist, to keys that are free, within a block."""
    with Change(table.session):
        pending, block = table.pending, table.pending.block()
        table.session.check_thread("change keys")
        if block is None or not _can_rename_together(table, group, names):
            move(table, {old: new_key(new) for old, new in names.items()})
            return
        single = _renamed_singly(table, group, names)
        move(table, single)
        # What is published and nobody holds gets its new keys together, and the group is removed as a whole.
        renamed = _renamed_members(table, names, single)
        block.note_together(renamed)
        pending.frames.update(renamed)
        pending.tiers.update(dict.fromkeys(renamed, True))
        pending.remove_group(group)
        table.recount()


def _can_rename_together(table: LeafTable, group: str, names: dict[str, str]) -> bool:
    """Whether a group can be removed as a whole, and its leaves surely can have their new keys."""
    backend = table.backend
    if not backend.can_remove_groups or backend.listing().count(group) < MANY:
        return False
    folded = table.names.hashes(table.contents)
    if folded is None or folded.is_full:
        return False
    admission = KeyAdmission()
    admission.show(None, {}, None, folded)
    for name in names.values():
        # The name of the group is mostly what makes it legal, and unlike all others.
        if not admission.admit(name) and (".b2" in new_key(name) or folded.has_folded(name)):
            return False
    return True


def _renamed_singly(table: LeafTable, group: str, names: dict[str, str]) -> dict[str, str]:
    """Those of the leaves that are no members that wait for nothing, or whose new key was removed."""
    single, frames = set(_single_keys(table, group + "/")), table.pending.frames
    return {old: new for old, new in names.items() if old in single or new in frames}


def _renamed_members(table: LeafTable, names: dict[str, str], single: dict[str, str]) -> dict[str, ByteRange | None]:
    """The members of all other leaves, by their new keys."""
    backend = table.backend
    locate = backend.locate if backend.members is None else backend.members.locate
    return {
        new: Renamed(byte_range, old) if (byte_range := locate(old)) is not None else backend.begin_rename(old)
        for old, new in names.items()
        if old not in single
    }


def remove_all(table: LeafTable, group: str, keys: list[str]) -> None:
    """Remove all keys of a group, which exist, within a block."""
    with Change(table.session):
        block = table.pending.block()
        rest = keys
        if table.backend.placing is None and block is not None and len(keys) >= MANY:
            # Only what is published and nobody holds is removed together.
            together, rest = _parted(table, group, keys)
            _remove_together(table, block, together)
        for key in rest:
            remove(table, key)


def _parted(table: LeafTable, group: str, keys: list[str]) -> tuple[list[str], list[str]]:
    """The published keys of a group that have no pending change and no open leaf, and all others."""
    pending, embedded, start = table.pending, table.backend.embedded, group + "/"
    known = (pending.frames, pending.tiers, table.leaves.all_keys(), () if embedded is None else embedded.entries)
    single = {key for keys_of in known for key in keys_of if key.startswith(start) or key == group}
    if not single:
        return keys, []
    return [key for key in keys if key not in single], [key for key in keys if key in single]


def _remove_together(table: LeafTable, block: AllOrNone, keys: list[str]) -> None:
    """Remove published keys that have no pending change and no open leaf."""
    table.session.check_thread("change keys")
    try:
        removed: dict[str, Any] = dict.fromkeys(keys)
        block.note_together(removed)
        table.pending.frames.update(removed)
        table.pending.revision += 1
        for follower in table.followers:
            follower.keys_removed(keys)
    except BaseException:
        table.recount()
        raise


def remove_at_once(table: LeafTable, key: str) -> None:
    """Remove a key that exists, and publish that if the store publishes without `flush`."""
    with Change(table.session):
        publishing = table.publishing
        if publishing.remove(table, key):
            return
        if publishing.is_due(table, MAP_BYTES, None):
            with AllOrNone(table):
                remove(table, key)
        else:
            remove(table, key)


def rename_leaf(table: LeafTable, old: str, new: str) -> None:
    """Give a leaf a key that is free."""
    with Change(table.session):
        if not table.contents.has(old):
            raise table.missing_key(old)
        if old != new:
            check_free(table, new)
            table.check_assignable(new)
            move(table, {old: new})


def move(table: LeafTable, names: dict[str, str]) -> None:
    """Rename existing leaves to keys that are free: all, or none if anything fails."""
    with Change(table.session):
        frames = table.pending.frames
        if not table.leaves.edited.keys().isdisjoint(names):
            table.leaves.collect(table.pending)
        byte_ranges = {old: frames.get(old) or table.backend.begin_rename(old) for old in names}
        with AllOrNone(table):
            # Remove all old keys first: they might exclude new ones.
            for old in names:
                edited = remove(table, old)
                if edited is None:
                    continue
                byte_ranges[old] = edited.byte_range()  # another thread has edited it since then
            for old, new in names.items():
                put(table, new, byte_ranges[old])


def check_free(table: LeafTable, key: str) -> None:
    """Refuse a key that has a leaf."""
    if table.contents.has(key):
        raise ValueError(f"Key {key!r} is taken: delete it first")


def _block(table: LeafTable) -> AllOrNone | None:
    """The block of a change that is about to be made. Raises an error if it cannot be made."""
    session = table.session
    if session.closed:  # by another thread, while this one waited for the lock
        raise session.closed_error()
    session.check_thread("change keys")
    return table.pending.block()
