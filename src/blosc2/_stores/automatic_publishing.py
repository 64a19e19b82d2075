"""Stores that publish without `flush`: leaf by leaf, or when enough waits."""

from __future__ import annotations

import _thread
import os
from typing import TYPE_CHECKING, Any, Final

from blosc2._backends import ByteRange, Pace, Renamed, suffixed_folders
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.key_admission import folded
from blosc2._frames import held_in_memory
from blosc2._stores.changes import put
from blosc2._stores.contents import forget_published_keys, key_changed
from blosc2._stores.publish import flush, may_publish
from blosc2._stores.transaction import AllOrNone
from blosc2.exceptions import explain, name_file

if TYPE_CHECKING:
    from blosc2._backends.directory.placing import Placing
    from blosc2._stores.store import Store
    from blosc2.dict_store import DictStore


class PacedPublishing:
    """Publishes all pending changes of one store together, at a pace that bounds the cost.

    The store is an argument of each call and not kept here, so a store that is dropped is freed at once.

    Attributes
    ----------
    pace : Pace
        How much time publications have taken.
    lazily : bool
        Whether a power cut may lose the publication under way.
    """

    __slots__ = ("lazily", "pace")

    #: Keys of embedded values to remove with the next publication: this kind of store has none.
    hidden: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.pace = Pace()
        self.lazily = False

    def is_due(self, store: Store, nbytes: int, block: AllOrNone | None) -> bool:
        """Whether to publish now, with `nbytes` more than are pending; `block` is about to end."""
        embedded = store._backend.embedded
        # First the condition that is mostly false.
        if not self.pace.is_due(store._pending.in_memory + nbytes, 0 if embedded is None else len(embedded.entries)):
            return False
        return store._path is not None and may_publish(store, block)

    def quiet_time(self, store: Store) -> tuple[int, float]:
        """How many bytes may be pending, and until when, before `is_due` is asked again; -1 for any number."""
        embedded = store._backend.embedded
        return (
            (-1, 0.0) if store._path is None else self.pace.quiet_time(0 if embedded is None else len(embedded.entries))
        )

    def end_block(self, store: Store, block: AllOrNone) -> None:  # noqa: ARG002 - all pending changes are published
        """Publish now."""
        with self.pace:
            self.lazily = True
            try:
                flush(store, durable=True)
            finally:
                self.lazily = False

    def make_durable(self, store: Store, *, durable: bool) -> None:
        """All changes are published: make them durable, if that is asked for."""
        unsettled = store._backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            unsettled.make_durable()

    def is_unsettled(self, store: Store) -> bool:
        """Whether something was published that a power cut may undo."""
        return store._backend.unsettled is not None

    def put(self, store: Store, key: str, byte_range: ByteRange, value: Any) -> bool:  # noqa: ARG002
        """Publish one leaf alone: never."""
        return False

    def remove(self, store: Store, key: str) -> bool:  # noqa: ARG002
        """Remove one leaf alone: never."""
        return False

    def forget_key(self, key: str, *, removed: bool = False) -> None:
        """Another change of this key is pending."""

    def clear(self, *, published: bool) -> None:
        """All pending changes were published, or dropped."""


#: Seconds that single leaves may wait for the disk in total, before they are published in groups.
ALLOWANCE: Final = 0.25
#: The most leaves of a group.
GROUP: Final = 256


def gets_file(store: DictStore, value: Any, byte_range: ByteRange) -> bool:
    """Whether a leaf gets a file of its own."""
    if isinstance(byte_range, Renamed):
        # Where it was before; the file of a group that is removed is not shown.
        backend, origin = store._backend, byte_range.origin
        return backend.has_file(origin) or (backend.embedded is not None and origin not in backend.embedded.entries)
    threshold = store._threshold
    if threshold is None:
        return getattr(value, "urlpath", None) is not None
    return threshold == 0 or int(Frame.open(*byte_range).nbytes) >= threshold


class LeafPublishing:
    """Publishes single leaves of one store, if it is a directory; for a `.b2z` it does nothing.

    The store is an argument of each call and not kept here, so a store that is dropped is freed at once.

    Attributes
    ----------
    pace, leaf_pace : Pace
        How much time was spent on publishing embedded values, and on waiting for the disk for single leaves.
    waiting : set of str
        Keys whose pending changes are published with the next group.
    hidden : set of str
        Keys of embedded values that files hide. The next publication removes these values.
    origins : set of str
        Keys of leaves that pending changes rename.
    following : set of str
        New keys that are possible only because pending changes remove others: these are published with them.
    lazily : bool
        Whether a power cut may lose the publication under way.
    """

    __slots__ = (
        "_gone", "_gone_groups", "_gone_leaves", "following", "hidden", "lazily", "leaf_pace", "origins", "pace",
        "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pace, self.leaf_pace = Pace(), Pace()
        self.waiting: set[str] = set()
        self.hidden: set[str] = set()
        self.origins: set[str] = set()
        self.following: set[str] = set()
        # Keys that pending changes remove, not looked at yet; of the others what new keys are compared with, without
        # regard to case: their groups, and for each its key, or "" for several.
        self._gone: set[str] = set()
        self._gone_groups: set[str] = set()
        self._gone_leaves: dict[str, str] = {}
        self.lazily = False

    # ------------------------------------------------------------------ one leaf
    def put(self, store: DictStore, key: str, byte_range: ByteRange, value: Any) -> bool:
        """Publish a leaf that gets a file of its own; False if it gets none, or is published with other changes."""
        placing = _placing(store)
        if placing is None or not gets_file(store, value, byte_range):
            return False
        backend = store._backend
        embedded = _shown_values(store)
        if embedded is not None and key not in self.origins:
            has_file = backend.has_file(key)
            # A file whose removal is pending is not shown.
            is_gone = has_file and store._pending.frames.get(key, ...) is None
            is_new = is_gone or not (has_file or store._contents.has(key))
            store._names.check_new(key, store._contents, is_new=is_new)
            waits = key in embedded or key in placing.removed or (has_file and placing.replaces(key))
            is_alone = not (is_new and self._follows(store, key)) and (not waits or self._is_cheap())
            if is_alone and self._place(store, placing, key, byte_range, has_file=has_file, is_new=is_new, waits=waits):
                if self.waiting and self._is_cheap():
                    self._publish_group(store, placing, [])
                return True
        with AllOrNone(store):
            put(store, key, held_in_memory(byte_range) if store._pending.fits(byte_range[2]) else byte_range, value)
        return True

    def _place(
        self,
        store: DictStore,
        placing: Placing,
        key: str,
        byte_range: ByteRange,
        *,
        has_file: bool,
        is_new: bool,
        waits: bool,
    ) -> bool:
        """Write the file of a leaf; False if that cannot be published alone."""
        _list_before(store)
        try:
            if not waits:
                if not placing.put(key, byte_range, there=has_file, synced=False):
                    return False
            else:
                with self.leaf_pace:
                    if not placing.put(key, byte_range, there=has_file, synced=True):
                        return False
            store._pending.revision += is_new
            store._leaves.forget(key)
            self._note_placed(store, key, has_file=True)
            key_changed(store, key, int(is_new))
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt, perhaps after the file was published
                store._leaves.forget(key)
            forget_published_keys(store)
            raise
        return True

    def remove(self, store: DictStore, key: str) -> bool:
        """Remove the file of a leaf; False if that has to be published with other changes."""
        placing, embedded = _placing(store), _shown_values(store)
        if placing is None or embedded is None or key in embedded:
            return False
        if isinstance(store._pending.frames.get(key), Renamed) or not store._backend.has_file(key):
            return False
        _list_before(store)
        try:
            if not placing.remove(key):
                return False
            store._pending.revision += 1
            store._leaves.forget(key)
            self._note_placed(store, key, has_file=False)
            key_changed(store, key, -1)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, store._file)
            elif not isinstance(error, Exception):
                store._leaves.forget(key)
            forget_published_keys(store)
            raise
        return True

    def _note_placed(self, store: DictStore, key: str, *, has_file: bool) -> None:
        """A leaf was given its file, or lost it: no change of its key is pending any more."""
        pending, embedded = store._pending, store._backend.embedded
        byte_range = pending.frames.pop(key, None)
        if byte_range is not None and not isinstance(byte_range, Renamed):
            pending.in_memory -= min(pending.in_memory, byte_range[2])
        pending.tiers.pop(key, None)
        self.waiting.discard(key)
        if has_file and embedded is not None and key in embedded.entries:
            self.hidden.add(key)
        store._contents.placed[key] = has_file

    def _is_cheap(self) -> bool:
        """Whether waiting for the disk has taken little time so far."""
        return self.leaf_pace.is_cheap(ALLOWANCE)

    # ------------------------------------------------------------------ several changes
    def is_due(self, store: DictStore, nbytes: int, block: AllOrNone | None) -> bool:
        """Whether to publish now, with `nbytes` more than are pending; `block` is about to end."""
        if store._backend.placing is None:
            return False
        if block is not None:  # `end_block` looks at what it has changed
            session = store._session
            return session.transaction is None and not (block.is_inner or session.streaming or session.is_inherited)
        return self._is_due(store, nbytes) and may_publish(store, None)

    def _is_due(self, store: DictStore, nbytes: int) -> bool:
        """Whether it is time to publish embedded values."""
        return self.pace.is_due(store._pending.in_memory + nbytes, len(_entries(store)))

    def quiet_time(self, store: DictStore) -> tuple[int, float]:  # noqa: ARG002 - one for all stores
        """How many bytes may be pending, and until when, before `is_due` is asked again; -1 for any number."""
        return -1, 0.0

    def end_block(self, store: DictStore, block: AllOrNone) -> None:
        """Publish the changes of a block, as far as they are due."""
        pending, placing = store._pending, store._backend.placing
        changes = {key: pending.frames[key] for key in block.keys if key in pending.frames}
        if placing is None or (not changes and not pending.unwritten):
            return
        is_shown = _shown_values(store) is not None
        if is_shown and all(self._concerns_files(store, key, byte_range) for key, byte_range in changes.items()):
            self._publish_group(store, placing, list(changes))
            return
        with_file = any(byte_range is not None and pending.tiers.get(key) for key, byte_range in changes.items())
        # A new leaf under the old key of a renamed one must follow the renaming, and one that others excluded their
        # removal: publish all changes.
        is_urgent = with_file and (not is_shown or not (self.origins | self.following).isdisjoint(changes))
        if (is_urgent or self._is_due(store, 0)) and may_publish(store, block):
            with self.pace:
                self._flush_lazily(store)

    def _flush_lazily(self, store: DictStore) -> None:
        """Publish all changes; a power cut may still bring back the previous version."""
        self.lazily = True
        try:
            flush(store, durable=True)
        finally:
            self.lazily = False

    def _concerns_files(self, store: DictStore, key: str, byte_range: ByteRange | None) -> bool:
        """Whether a change concerns files alone, and no embedded value."""
        entries = _entries(store)
        if key in self.following:
            return False
        if byte_range is None:
            return key not in entries
        if isinstance(byte_range, Renamed):
            return byte_range.aside is not None and byte_range.origin not in entries and key not in entries
        return bool(store._pending.tiers.get(key)) and key not in self.origins

    def _publish_group(self, store: DictStore, placing: Placing, keys: list[str]) -> None:
        """Publish changes of files and those that wait; if that costs too much now, let all of them wait."""
        frames, entries = store._pending.frames, _entries(store)
        waits = [
            key
            for key in keys
            if (byte_range := frames[key]) is not None
            and (isinstance(byte_range, Renamed) or key in entries or placing.replaces(key))
        ]
        waiting = self.waiting & frames.keys()
        if waits and len(waiting) + len(keys) < GROUP and not self._is_cheap():
            self.waiting.update(keys)
            return
        group = {key: frames[key] for key in sorted({*waiting, *keys})}
        _list_before(store)
        # From now on a file hides the embedded value of its key, and that value counts as replaced.
        placing.removed.update(key for key in group if key in entries)
        try:
            if waits or waiting:
                with self.leaf_pace:
                    placing.publish(group)
            else:
                placing.publish(group)
            for block in list(store._pending.blocks.values()):
                block.forget_keys(group)
            for key, byte_range in group.items():
                self._note_placed(store, key, has_file=byte_range is not None)
            placing.forget_aside(group)
        except BaseException as error:  # perhaps an interrupt after the files were published
            if isinstance(error, OSError):
                name_file(error, store._file)
            forget_published_keys(store)
            raise
        if not frames:
            store._backend.discard()

    # ------------------------------------------------------------------ after publishing or dropping all changes
    def is_unsettled(self, store: DictStore) -> bool:
        """Whether something was published that a power cut may undo, or an embedded value is still to be removed."""
        return bool(self.hidden) or store._backend.unsettled is not None

    def make_durable(self, store: DictStore, *, durable: bool) -> None:
        """All changes are published: make them durable if `durable`, and remove what was kept for them."""
        unsettled = store._backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            try:
                unsettled.make_durable()
            except BaseException as error:
                explain(error, "all changes are published, but may not be durable")
                name_file(error, store._file)
                raise
        if store._contents.placed and not self.lazily:
            store._list_placed()
        if not store._pending.frames and store._backend.placing is not None:
            store._backend.discard()

    def forget_key(self, key: str, *, removed: bool = False) -> None:
        """The change of this key that waits for a group was replaced by another one, perhaps by its removal."""
        self.waiting.discard(key)
        if removed:
            self._gone.add(key)

    def note_pending(self, store: DictStore, key: str, byte_range: ByteRange, *, is_new: bool) -> None:
        """A key is about to get a pending change."""
        self.waiting.discard(key)
        if isinstance(byte_range, Renamed):
            self.origins.add(byte_range.origin)
        if is_new and store._backend.placing is not None and self._follows(store, key):
            self.following.add(key)

    def _follows(self, store: DictStore, key: str) -> bool:
        """Whether a new key may be possible only because pending changes remove others.

        If it were published alone, and these changes dropped, the store would have both.
        """
        if not store._pending.frames:
            self._gone, self._gone_groups, self._gone_leaves = set(), set(), {}
            return False
        while self._gone:
            gone = self._gone.pop()
            name = folded(gone)
            self._gone_leaves[name] = gone if self._gone_leaves.get(name, gone) == gone else ""
            self._gone_groups.update(_excluding(store, name))
        name = folded(key)
        return (
            self._gone_leaves.get(name, key) != key
            or name in self._gone_groups
            or not self._gone_leaves.keys().isdisjoint(_excluding(store, name))
        )

    def clear(self, *, published: bool) -> None:
        """All pending changes were published, or dropped."""
        if published:
            self.hidden = set()
        self.waiting, self.origins, self.following = set(), set(), set()
        self._gone, self._gone_groups, self._gone_leaves = set(), set(), {}


def _list_before(store: DictStore) -> None:
    """List what is published before files come or go: from there on the leaves of groups are counted."""
    if store._has_groups:
        store._backend.listing()


def _placing(store: DictStore) -> Placing | None:
    """What publishes single leaves; None if the store cannot do that, or not now."""
    if store._session.transaction is not None or _thread.get_ident() in store._pending.blocks:
        return None
    return store._backend.placing


def _shown_values(store: DictStore) -> Any:
    """The embedded values by key, if the store shows the published version; None otherwise."""
    backend = store._backend
    embedded = backend.embedded
    if embedded is None or store._pending.unwritten or backend.behind:
        return None
    return embedded.entries


def _excluding(store: DictStore, name: str) -> list[str]:
    """Which leaves exclude a key: in a tree those at its groups, and those whose files are named like one of these."""
    found = [os.path.splitext(folder)[0] for folder in suffixed_folders(name)]
    if store._has_groups:
        end = name.find("/", 1)
        while end > 0:
            found.append(name[:end])
            end = name.find("/", end + 1)
    return found


def _entries(store: DictStore) -> Any:
    """The published embedded values by key."""
    embedded = store._backend.embedded
    return () if embedded is None else embedded.entries
