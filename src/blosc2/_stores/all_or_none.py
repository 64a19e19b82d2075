"""Changes of several keys of a store: all of them, or none if something raises."""

from __future__ import annotations

import _thread
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self

from blosc2._core.leaves.store_state import Change
from blosc2._core.leaves.weak_cache import Block
from blosc2._stores.followers import recount
from blosc2._stores.publish import show_published
from blosc2.exceptions import explain

if TYPE_CHECKING:
    from blosc2._stores.leaves.live_leaf import LiveHandle
    from blosc2._stores.store import Store

#: The state of a key before it is changed: its pending change (... for none), its tier, the handle and the object of
#: its leaf if that is open, and whether the leaf was edited.
Before = tuple[Any, "bool | None", "LiveHandle | None", Any, bool]


_NOTHING: Before = (..., None, None, None, False)
#: What an error says that leaves changes pending.
KEPT: Final = "your changes are kept in the store object: flush() again, or discard() them"


class AllOrNone(Block):
    """A block that takes back this thread's changes of a store's keys if it raises.

    The store names each key to the block right before changing it. So a block costs what it changes, whatever else is
    pending. Open leaves of these keys become live again. At the end of the outermost block, a store that publishes
    without `flush` does so; if that fails, the changes of the block are taken back. What is half done on the disk is
    not: its changes stay pending, so that the next publication completes them.
    """

    __slots__ = ("_before", "_before_without_keys", "_ended", "_made", "_outer", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        # None for a key that had no pending change, and whose leaf nobody held.
        self._before: dict[str, Before | None] = {}
        # The pending changes that the block made. If a key has a different one now, another thread set it.
        self._made: dict[str, Any] = {}
        self._before_without_keys: tuple[Any, ...] = ()
        self._outer: AllOrNone | None = None
        self._ended = False

    def __enter__(self) -> Self:
        pending = self._store._pending
        self._before_without_keys = pending.without_keys()
        thread = _thread.get_ident()
        self._outer = pending.blocks.get(thread)
        pending.blocks[thread] = self
        return self

    @property
    def is_inner(self) -> bool:
        """Whether there is a block around it."""
        return self._outer is not None

    def note(self, key: str) -> None:
        """A key is about to be changed."""
        if key in self._before:
            return
        pending, leaves = self._store._pending, self._store._leaves
        change: Any = pending.frames.get(key, ...)
        handle, leaf = leaves.handles.get(key), leaves.find(key)
        self._before[key] = change, pending.tiers.get(key), handle, leaf, key in leaves.edited

    def note_together(self, changes: dict[str, Any]) -> None:
        """Keys without a pending change are about to get these; nobody holds a leaf of theirs."""
        before: dict[str, Before | None] = dict.fromkeys(changes)
        self._before = {**before, **self._before} if self._before else before
        self._made.update(changes)

    def made(self, key: str, change: Any) -> None:
        """A key got a pending change, or lost its change (`...`)."""
        self._made[key] = change

    def staged(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Bytes of pending changes were moved, perhaps of changes by this block or an outer one."""
        for key, byte_range in now.items():
            if key in self._made and self._made[key] is before[key]:
                self._made[key] = byte_range
        if self._outer is not None:
            self._outer.staged(before, now)

    @property
    def keys(self) -> list[str]:
        """The keys that were changed."""
        return list(self._before)

    def forget_keys(self, keys: Iterable[str]) -> None:
        """The changes of these keys are published, and are not taken back."""
        for key in keys:
            self._before.pop(key, None)
            self._made.pop(key, None)

    def forget(self) -> None:
        """All changes so far are published, and are not taken back."""
        self._before, self._made = {}, {}
        self._before_without_keys = self._store._pending.without_keys()

    def _leave(self, failed: bool) -> None:
        """Take back the changes, or hand them to the block around this one. A second call does nothing."""
        if self._ended:
            return
        store, outer, thread = self._store, self._outer, _thread.get_ident()
        if not failed and self._before and store._publishing.is_due(store, 0, self):
            with store._lock, Change(store._session):
                try:
                    store._publishing.end_block(store, self)
                except BaseException as error:
                    if store._backend.half_done:
                        self.forget()
                        explain(error, KEPT)
                    raise
        if not failed and outer is not None:
            for key, before in list(self._before.items()):
                outer._before.setdefault(key, before)
            outer._made.update(self._made)
        pending = store._pending
        if (
            failed
            and not store._session.closed
            and (self._before or self._before_without_keys != pending.without_keys())
        ):
            with store._lock, Change(store._session):
                self._take_back()
        if outer is None:
            pending.blocks.pop(thread, None)
        else:
            pending.blocks[thread] = outer
        self._ended = True

    def _take_back(self) -> None:
        store = self._store
        pending, leaves = store._pending, store._leaves
        pending.revision += 1
        for key, before in self._before.items():
            byte_range, tier, handle, leaf, edited = before or _NOTHING
            if key in self._made and pending.frames.get(key, ...) is not self._made[key]:
                continue
            leaves.forget(key)
            pending.restore_key(key, byte_range, tier)
            leaves.restore(key, store._owner, handle, leaf, edited=edited)
        pending.restore_without_keys(self._before_without_keys)
        recount(store)
        pending.count_memory()
        if store._backend.behind:  # the changes may be published
            show_published(store, list(self._before))
        else:
            for key in self._before:
                if not store._contents.has(key):  # its removal was published
                    leaves.forget(key)
