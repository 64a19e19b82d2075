"""Publishing leaves of a `.b2d` as files: written at their assignment, removed at their deletion.

That needs no disk (`placing`), but where something durable is replaced or renamed. Such changes wait for the disk each;
as soon as that is no longer cheap, they are published in groups, which wait for it together. Embedded values are
published together, at the pace of an `EmbedStore`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from blosc2._backends import Moved, Pace, Window
from blosc2._frames import settled
from blosc2._stores.all_or_none import AllOrNone
from blosc2.exceptions import explain, name_file

if TYPE_CHECKING:
    from blosc2._backends.directory.placing import Placing
    from blosc2._stores.backed import BackedStore

#: Seconds that changes of single leaves may wait for the disk in all, before they are taken together.
ALLOWANCE: Final = 0.25
#: How many then wait at most.
GROUP: Final = 256


class LeafPublishing:
    """What one store publishes by itself, and what it knows of that.

    Of a `.b2z` it does nothing. The store is given to each call and not kept: a store that is dropped ends at once.

    Attributes
    ----------
    pace, leaf_pace : Pace
        What publishing embedded values takes, and publishing leaves that wait for the disk.
    waiting : set of str
        Keys of leaves that are to wait for the disk together.
    placed : dict
        Keys that were published by themselves since keys were listed, and whether they are there.
    hidden : set of str
        Keys of embedded values that go with the next publication: files hide them.
    origins : set of str
        Keys that others get with what waits.
    lazily : bool
        Whether the publication that is under way need not be durable.
    """

    __slots__ = ("hidden", "lazily", "leaf_pace", "origins", "pace", "placed", "waiting")

    def __init__(self) -> None:
        self.pace, self.leaf_pace = Pace(), Pace()
        self.waiting: set[str] = set()
        self.placed: dict[str, bool] = {}
        self.hidden: set[str] = set()
        self.origins: set[str] = set()
        self.lazily = False

    def is_unsettled(self, store: BackedStore) -> bool:
        """Whether something was published that a power cut may take, or is hidden and still to go."""
        return bool(self.hidden) or store._backend.unsettled is not None

    def is_due(self, store: BackedStore, nbytes: int, block: AllOrNone | None) -> bool:
        """Whether what waits, and so many bytes more, are published now; a `block` is about to end."""
        if store._backend.placing is None:
            return False
        if block is not None:  # what it has changed is looked at then
            return store._transaction is None and not (block.is_inner or store._streaming or store._is_inherited)
        return self._is_due(store, nbytes) and store._may_publish(None)

    def _is_due(self, store: BackedStore, nbytes: int) -> bool:
        entries = () if store._embedded is None else store._embedded.entries
        return self.pace.is_due(store._in_memory + nbytes, len(entries))

    def put(self, store: BackedStore, key: str, window: Window, value: Any) -> bool:
        """Publish a leaf that gets a file of its own; False where it gets none, or something else publishes it."""
        backend = store._backend
        placing = backend.placing
        if placing is None or store._transaction is not None or threading.get_ident() in store._blocks:
            return False
        if not store._goes_to_file(value, window):
            return False
        embedded = store._embedded
        if not (embedded is None or store._unwritten or backend.behind or backend.must_load or key in self.origins):
            there = backend.has_file(key)
            new = not (there or store._has(key))
            store._check_new(key, new)
            durable = key in embedded.entries or key in placing.removed or (there and placing.replaces(key))
            if (not durable or self._is_cheap()) and self._put(store, placing, key, window, there, new, durable):
                if self.waiting and self._is_cheap():
                    self._publish(store, placing, [])
                return True
        with AllOrNone(store):
            store._put(key, settled(window) if store._fits(window) else window, value)
        return True

    def _is_cheap(self) -> bool:
        return self.leaf_pace.is_cheap(ALLOWANCE)

    def _put(
        self, store: BackedStore, placing: Placing, key: str, window: Window, there: bool, new: bool, durable: bool
    ) -> bool:
        try:
            if not durable:
                if not placing.put(key, window, there=there, synced=False):
                    return False
            else:
                with self.leaf_pace:
                    if not placing.put(key, window, there=there, synced=True):
                        return False
            store._revision += new
            store._leaves.forget(key)
            self._is_there(store, key, there=True)
            store._count_key(key, int(new))
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt, perhaps when it was published
                store._leaves.forget(key)
            store._look_again_at_keys()
            raise
        return True

    def _is_there(self, store: BackedStore, key: str, *, there: bool) -> None:
        """A key was given its file, or lost it: no change of it waits any more."""
        pending = store._changes.pop(key, None)
        if pending is not None and not isinstance(pending, Moved):
            store._in_memory -= min(store._in_memory, pending[2])
        store._external.pop(key, None)
        self.waiting.discard(key)
        if there and store._embedded is not None and key in store._embedded.entries:
            self.hidden.add(key)
        if self.placed.get(key) is not there:
            self.placed[key] = there
            store._listing_cache = None

    def remove(self, store: BackedStore, key: str) -> bool:
        """Remove the file of a leaf that has nothing else; False where something else has to be done."""
        backend = store._backend
        placing = backend.placing
        if placing is None or store._transaction is not None or threading.get_ident() in store._blocks:
            return False
        embedded = store._embedded
        if embedded is None or store._unwritten or backend.behind or backend.must_load or key in embedded.entries:
            return False
        if isinstance(store._changes.get(key), Moved) or not backend.has_file(key):
            return False
        try:
            if not placing.remove(key):
                return False
            store._revision += 1
            store._leaves.forget(key)
            store._folded_more = True
            self._is_there(store, key, there=False)
            store._count_key(key, -1)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, store._file)
            elif not isinstance(error, Exception):
                store._leaves.forget(key)
            store._look_again_at_keys()
            raise
        return True

    def end_block(self, store: BackedStore, block: AllOrNone) -> None:
        """Publish what a block has changed, as far as that is due."""
        backend = store._backend
        changes = {key: store._changes[key] for key in block.keys if key in store._changes}
        placing = backend.placing
        if placing is None or (not changes and not store._unwritten):
            return
        shown = store._embedded is not None and not (store._unwritten or backend.behind or backend.must_load)
        if shown and all(self._is_of_files(store, key, window) for key, window in changes.items()):
            self._publish(store, placing, list(changes))
            return
        with_file = any(window is not None and store._external.get(key) for key, window in changes.items())
        # A file in the place of a value that gets another key comes after that.
        first = with_file and (not shown or not self.origins.isdisjoint(changes))
        if (first or self._is_due(store, 0)) and store._may_publish(block):
            with self.pace:
                self._flush_lazily(store)

    def _flush_lazily(self, store: BackedStore) -> None:
        """Publish all changes; a power cut may then show the version before."""
        self.lazily = True
        try:
            store._flush(durable=True)
        finally:
            self.lazily = False

    def _is_of_files(self, store: BackedStore, key: str, window: Window | None) -> bool:
        """Whether a change is one of files alone."""
        entries = {} if store._embedded is None else store._embedded.entries
        if window is None:
            return key not in entries
        if isinstance(window, Moved):
            return window.aside is not None and window.origin not in entries and key not in entries
        return bool(store._external.get(key)) and key not in self.origins

    def _publish(self, store: BackedStore, placing: Placing, keys: list[str]) -> None:
        """Publish changes of files, and those that wait; or let them wait, where that is not cheap and they are few."""
        changes = store._changes
        entries = () if store._embedded is None else store._embedded.entries
        durable = [
            key
            for key in keys
            if (window := changes[key]) is not None
            and (isinstance(window, Moved) or key in entries or placing.replaces(key))
        ]
        waiting = self.waiting & changes.keys()
        if durable and len(waiting) + len(keys) < GROUP and not self._is_cheap():
            self.waiting.update(keys)
            return
        taken = {key: changes[key] for key in sorted({*waiting, *keys})}
        # A file hides the embedded value of its key at once: that counts as replaced, too.
        placing.removed.update(key for key in taken if key in entries)
        waits = bool(durable or waiting)
        try:
            if waits:
                with self.leaf_pace:
                    placing.publish(taken)
            else:
                placing.publish(taken)
            for block in list(store._blocks.values()):
                block.forget_keys(taken)
            for key, window in taken.items():
                self._is_there(store, key, there=window is not None)
            placing.forget_aside(taken)
        except BaseException as error:  # an interrupt, perhaps when it was published
            if isinstance(error, OSError):
                name_file(error, store._file)
            store._look_again_at_keys()
            raise
        if not changes:
            store._backend.discard()

    def settle(self, store: BackedStore, *, durable: bool) -> None:
        """All changes are published: see that they are durable, and that what was kept for them goes."""
        unsettled = store._backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            try:
                unsettled.settle()
            except BaseException as error:
                explain(error, "all changes are published, but may not be durable")
                name_file(error, store._file)
                raise
        if self.placed and not self.lazily:
            store._list_placed()
        if not store._changes and store._backend.placing is not None:
            store._backend.discard()

    def forget_key(self, key: str) -> None:
        """Something else becomes of a leaf than what waits for the disk."""
        self.waiting.discard(key)

    def forget_published(self) -> None:
        """All that waits was published."""
        self.waiting, self.hidden, self.origins = set(), set(), set()

    def forget_dropped(self) -> None:
        """All that waits was dropped."""
        self.waiting, self.origins = set(), set()


#: Of all stores that are open to be read only, which publish nothing.
NOTHING: Final = LeafPublishing()
