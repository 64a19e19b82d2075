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
from blosc2._stores.publish import Publishing, flush, may_publish
from blosc2._stores.transaction import AllOrNone
from blosc2.exceptions import explain, name_file

if TYPE_CHECKING:
    from blosc2._backends.directory.placing import Placing
    from blosc2._stores.leaf_table import LeafTable


class PacedPublishing(Publishing):
    """Publishes all pending changes of one store together, at a pace that bounds the cost."""

    __slots__ = ("lazily", "pace")

    def __init__(self) -> None:
        self.pace = Pace()
        self.lazily = False

    def is_due(self, table: LeafTable, nbytes: int, block: AllOrNone | None) -> bool:
        # First the condition that is mostly false.
        if not self.pace.is_due(table.pending.in_memory + nbytes, len(_entries(table))):
            return False
        return table.path is not None and may_publish(table, block)

    def quiet_time(self, table: LeafTable) -> tuple[int, float]:
        return (-1, 0.0) if table.path is None else self.pace.quiet_time(len(_entries(table)))

    def end_block(self, table: LeafTable, block: AllOrNone) -> None:  # noqa: ARG002 - all pending changes are published
        with self.pace:
            self.lazily = True
            try:
                flush(table, durable=True)
            finally:
                self.lazily = False

    def make_durable(self, table: LeafTable, *, durable: bool) -> None:
        unsettled = table.backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            unsettled.make_durable()

    def is_unsettled(self, table: LeafTable) -> bool:
        return table.backend.unsettled is not None


#: Seconds that single leaves may wait for the disk in total, before they are published in groups.
ALLOWANCE: Final = 0.25
#: The most leaves of a group.
GROUP: Final = 256


def gets_file(table: LeafTable, value: Any, byte_range: ByteRange) -> bool:
    """Whether a leaf gets a file of its own."""
    if isinstance(byte_range, Renamed):
        # Where it was before; the file of a group that is removed is not shown.
        backend, origin = table.backend, byte_range.origin
        return backend.has_file(origin) or (backend.embedded is not None and origin not in backend.embedded.entries)
    threshold = table.threshold
    if threshold is None:
        return getattr(value, "urlpath", None) is not None
    return threshold == 0 or int(Frame.open(*byte_range).nbytes) >= threshold


class LeafPublishing(PacedPublishing):
    """Publishes single leaves of one store, if it is a directory; for a `.b2z` it does nothing.

    Attributes
    ----------
    pace, leaf_pace : Pace
        How much time was spent on publishing embedded values, and on waiting for the disk for single leaves.
    waiting : set of str
        Keys whose pending changes are published with the next group.
    origins : set of str
        Keys of leaves that pending changes rename.
    following : set of str
        New keys that are possible only because pending changes remove others: these are published with them.
    """

    __slots__ = ("_gone", "_gone_groups", "_gone_leaves", "following", "hidden", "leaf_pace", "origins", "waiting")

    def __init__(self) -> None:
        super().__init__()
        self.leaf_pace = Pace()
        self.waiting: set[str] = set()
        self.hidden: set[str] = set()
        self.origins: set[str] = set()
        self.following: set[str] = set()
        # Keys that pending changes remove, not looked at yet; of the others what new keys are compared with, without
        # regard to case: their groups, and for each its key, or "" for several.
        self._gone: set[str] = set()
        self._gone_groups: set[str] = set()
        self._gone_leaves: dict[str, str] = {}

    # ------------------------------------------------------------------ one leaf
    def put(self, table: LeafTable, key: str, byte_range: ByteRange, value: Any) -> bool:
        """Publish a leaf that gets a file of its own; False if it gets none, or is published with other changes."""
        placing = _placing(table)
        if placing is None or not gets_file(table, value, byte_range):
            return False
        backend = table.backend
        embedded = _shown_values(table)
        if embedded is not None and key not in self.origins:
            has_file = backend.has_file(key)
            # A file whose removal is pending is not shown.
            is_gone = has_file and table.pending.frames.get(key, ...) is None
            is_new = is_gone or not (has_file or table.contents.has(key))
            table.names.check_new(key, table.contents, is_new=is_new)
            waits = key in embedded or key in placing.removed or (has_file and placing.replaces(key))
            is_alone = not (is_new and self._follows(table, key)) and (not waits or self._is_cheap())
            if is_alone and self._place(table, placing, key, byte_range, has_file=has_file, is_new=is_new, waits=waits):
                if self.waiting and self._is_cheap():
                    self._publish_group(table, placing, [])
                return True
        with AllOrNone(table):
            put(table, key, held_in_memory(byte_range) if table.pending.fits(byte_range[2]) else byte_range, value)
        return True

    def _place(
        self,
        table: LeafTable,
        placing: Placing,
        key: str,
        byte_range: ByteRange,
        *,
        has_file: bool,
        is_new: bool,
        waits: bool,
    ) -> bool:
        """Write the file of a leaf; False if that cannot be published alone."""
        _list_before(table)
        try:
            if not waits:
                if not placing.put(key, byte_range, there=has_file, synced=False):
                    return False
            else:
                with self.leaf_pace:
                    if not placing.put(key, byte_range, there=has_file, synced=True):
                        return False
            table.pending.revision += is_new
            table.leaves.forget(key)
            self._note_placed(table, key, has_file=True)
            table.key_changed(key, int(is_new))
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt, perhaps after the file was published
                table.leaves.forget(key)
            table.forget_published_keys()
            raise
        return True

    def remove(self, table: LeafTable, key: str) -> bool:
        """Remove the file of a leaf; False if that has to be published with other changes."""
        placing, embedded = _placing(table), _shown_values(table)
        if placing is None or embedded is None or key in embedded:
            return False
        if isinstance(table.pending.frames.get(key), Renamed) or not table.backend.has_file(key):
            return False
        _list_before(table)
        try:
            if not placing.remove(key):
                return False
            table.pending.revision += 1
            table.leaves.forget(key)
            self._note_placed(table, key, has_file=False)
            table.key_changed(key, -1)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, table.backend.named)
            elif not isinstance(error, Exception):
                table.leaves.forget(key)
            table.forget_published_keys()
            raise
        return True

    def _note_placed(self, table: LeafTable, key: str, *, has_file: bool) -> None:
        """A leaf was given its file, or lost it: no change of its key is pending any more."""
        pending, embedded = table.pending, table.backend.embedded
        byte_range = pending.frames.pop(key, None)
        if byte_range is not None and not isinstance(byte_range, Renamed):
            pending.in_memory -= min(pending.in_memory, byte_range[2])
        pending.tiers.pop(key, None)
        self.waiting.discard(key)
        if has_file and embedded is not None and key in embedded.entries:
            self.hidden.add(key)
        table.contents.placed[key] = has_file

    def _is_cheap(self) -> bool:
        """Whether waiting for the disk has taken little time so far."""
        return self.leaf_pace.is_cheap(ALLOWANCE)

    # ------------------------------------------------------------------ several changes
    def is_due(self, table: LeafTable, nbytes: int, block: AllOrNone | None) -> bool:
        if table.backend.placing is None:
            return False
        if block is not None:  # `end_block` looks at what it has changed
            session = table.session
            return session.transaction is None and not (block.is_inner or session.streaming or session.is_inherited)
        return super().is_due(table, nbytes, None)  # which is asked of embedded values

    def quiet_time(self, table: LeafTable) -> tuple[int, float]:  # noqa: ARG002 - one for all stores
        return -1, 0.0

    def end_block(self, table: LeafTable, block: AllOrNone) -> None:
        pending, placing = table.pending, table.backend.placing
        changes = {key: pending.frames[key] for key in list(block.before) if key in pending.frames}
        if placing is None or (not changes and not pending.unwritten):
            return
        is_shown = _shown_values(table) is not None
        if is_shown and all(self._concerns_files(table, key, byte_range) for key, byte_range in changes.items()):
            self._publish_group(table, placing, list(changes))
            return
        with_file = any(byte_range is not None and pending.tiers.get(key) for key, byte_range in changes.items())
        # A new leaf under the old key of a renamed one must follow the renaming, and one that others excluded their
        # removal: publish all changes.
        is_urgent = with_file and (not is_shown or not (self.origins | self.following).isdisjoint(changes))
        if (is_urgent and may_publish(table, block)) or super().is_due(table, 0, block):
            super().end_block(table, block)

    def _concerns_files(self, table: LeafTable, key: str, byte_range: ByteRange | None) -> bool:
        """Whether a change concerns files alone, and no embedded value."""
        entries = _entries(table)
        if key in self.following:
            return False
        if byte_range is None:
            return key not in entries
        if isinstance(byte_range, Renamed):
            return byte_range.aside is not None and byte_range.origin not in entries and key not in entries
        return bool(table.pending.tiers.get(key)) and key not in self.origins

    def _publish_group(self, table: LeafTable, placing: Placing, keys: list[str]) -> None:
        """Publish changes of files and those that wait; if that costs too much now, let all of them wait."""
        frames, entries = table.pending.frames, _entries(table)
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
        _list_before(table)
        # From now on a file hides the embedded value of its key, and that value counts as replaced.
        placing.removed.update(key for key in group if key in entries)
        try:
            if waits or waiting:
                with self.leaf_pace:
                    placing.publish(group)
            else:
                placing.publish(group)
            for block in list(table.pending.blocks.values()):
                block.forget_keys(group)
            for key, byte_range in group.items():
                self._note_placed(table, key, has_file=byte_range is not None)
            placing.forget_aside(group)
        except BaseException as error:  # perhaps an interrupt after the files were published
            if isinstance(error, OSError):
                name_file(error, table.backend.named)
            table.forget_published_keys()
            raise
        if not frames:
            table.backend.discard()

    # ------------------------------------------------------------------ after publishing or dropping all changes
    def is_unsettled(self, table: LeafTable) -> bool:
        return bool(self.hidden) or super().is_unsettled(table)

    def make_durable(self, table: LeafTable, *, durable: bool) -> None:
        unsettled = table.backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            try:
                unsettled.make_durable()
            except BaseException as error:
                explain(error, "all changes are published, but may not be durable")
                name_file(error, table.backend.named)
                raise
        if table.contents.placed and not self.lazily:
            table.list_placed()
        if not table.pending.frames and table.backend.placing is not None:
            table.backend.discard()

    def note_removed(self, key: str) -> None:
        self.waiting.discard(key)
        self._gone.add(key)

    def note_pending(self, table: LeafTable, key: str, byte_range: ByteRange, *, is_new: bool) -> None:
        """A key is about to get a pending change."""
        self.waiting.discard(key)
        if isinstance(byte_range, Renamed):
            self.origins.add(byte_range.origin)
        if is_new and table.backend.placing is not None and self._follows(table, key):
            self.following.add(key)

    def _follows(self, table: LeafTable, key: str) -> bool:
        """Whether a new key may be possible only because pending changes remove others.

        If it were published alone, and these changes dropped, the store would have both.
        """
        if not table.pending.frames:
            self._gone, self._gone_groups, self._gone_leaves = set(), set(), {}
            return False
        while self._gone:
            gone = self._gone.pop()
            name = folded(gone)
            self._gone_leaves[name] = gone if self._gone_leaves.get(name, gone) == gone else ""
            self._gone_groups.update(_excluding(table, name))
        name = folded(key)
        return (
            self._gone_leaves.get(name, key) != key
            or name in self._gone_groups
            or not self._gone_leaves.keys().isdisjoint(_excluding(table, name))
        )

    def clear(self, *, published: bool) -> None:
        if published:
            self.hidden = set()
        self.waiting, self.origins, self.following = set(), set(), set()
        self._gone, self._gone_groups, self._gone_leaves = set(), set(), {}


def _list_before(table: LeafTable) -> None:
    """List what is published before files come or go: from there on the leaves of groups are counted."""
    if table.hidden_name:
        table.backend.listing()


def _placing(table: LeafTable) -> Placing | None:
    """What publishes single leaves; None if the store cannot do that, or not now."""
    if table.session.transaction is not None or _thread.get_ident() in table.pending.blocks:
        return None
    placing: Placing | None = table.backend.placing
    return placing


def _shown_values(table: LeafTable) -> Any:
    """The embedded values by key, if the store shows the published version; None otherwise."""
    backend = table.backend
    embedded = backend.embedded
    if embedded is None or table.pending.unwritten or backend.behind:
        return None
    return embedded.entries


def _excluding(table: LeafTable, name: str) -> list[str]:
    """Which leaves exclude a key: in a tree those at its groups, and those whose files are named like one of these."""
    found = [os.path.splitext(folder)[0] for folder in suffixed_folders(name)]
    if table.hidden_name:
        end = name.find("/", 1)
        while end > 0:
            found.append(name[:end])
            end = name.find("/", end + 1)
    return found


def _entries(table: LeafTable) -> Any:
    """The published embedded values by key."""
    embedded = table.backend.embedded
    return () if embedded is None else embedded.entries
