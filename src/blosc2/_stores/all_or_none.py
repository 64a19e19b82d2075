"""Changes of several keys of a store: all of them, or none if something raises."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from blosc2._core.leaves.weak_cache import Block

if TYPE_CHECKING:
    from blosc2._stores.leaves.leaf import LiveHandle
    from blosc2._stores.store import Store

#: What is known of a key before it is changed: its pending change (... where there is none), its tier, the handle and
#: the object of its leaf where that is open, and whether that was edited.
Before = tuple[Any, "bool | None", "LiveHandle | None", Any, bool]


class AllOrNone(Block):
    """A block whose changes of a store's keys, by this thread, are taken back when it raises.

    The store tells of each key right before it changes it, so a block costs what it changes and not what waits to be
    published. Leaves that were handed out go on as they were. At the end of the outermost block a store that publishes
    by itself does so; if that fails, the changes of the block are taken back.
    """

    __slots__ = ("_before", "_beside", "_ended", "_made", "_outer", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: dict[str, Before] = {}
        # The pending changes that it made: a key that has another one by now was set by another thread.
        self._made: dict[str, Any] = {}
        self._beside: tuple[Any, ...] = ()
        self._outer: AllOrNone | None = None
        self._ended = False

    def __enter__(self) -> Self:
        store = self._store
        self._beside = store._beside_keys()
        thread = threading.get_ident()
        self._outer = store._blocks.get(thread)
        store._blocks[thread] = self
        return self

    @property
    def is_inner(self) -> bool:
        """Whether there is a block around it."""
        return self._outer is not None

    def note(self, key: str) -> None:
        """A key is about to be changed."""
        if key in self._before:
            return
        store = self._store
        leaves = store._leaves
        change: Any = store._changes.get(key, ...)
        handle, leaf = leaves.handles.get(key), leaves.find(key)
        self._before[key] = change, store._external.get(key), handle, leaf, key in leaves.edited

    def made(self, key: str, change: Any) -> None:
        """A key was given a pending change, or lost it, for which ... stands."""
        self._made[key] = change

    def staged(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Pending changes were moved, in this block or one around it."""
        for key, window in now.items():
            if key in self._made and self._made[key] is before[key]:
                self._made[key] = window
        if self._outer is not None:
            self._outer.staged(before, now)

    @property
    def keys(self) -> list[str]:
        """The keys that were changed."""
        return list(self._before)

    def forget_keys(self, keys: Iterable[str]) -> None:
        """What was made of these keys is published, and stays."""
        for key in keys:
            self._before.pop(key, None)
            self._made.pop(key, None)

    def forget(self) -> None:
        """What was changed by now is published, and stays."""
        self._before, self._made = {}, {}
        self._beside = self._store._beside_keys()

    def _leave(self, failed: bool) -> None:
        """Take back what was changed; or tell the block around this one of it. Nothing when that is done."""
        if self._ended:
            return
        store, outer, thread = self._store, self._outer, threading.get_ident()
        if not failed and self._before and store._is_due(0, self):
            with store._lock:
                store._publish_now(self)
        if not failed and outer is not None:
            for key, before in self._before.items():
                outer._before.setdefault(key, before)
            outer._made.update(self._made)
        if failed and not store.closed and (self._before or self._beside != store._beside_keys()):
            with store._lock:
                self._take_back()
        if outer is None:
            store._blocks.pop(thread, None)
        else:
            store._blocks[thread] = outer
        self._ended = True

    def _take_back(self) -> None:
        store = self._store
        store._revision += 1
        for key, (window, tier, handle, leaf, edited) in self._before.items():
            if key in self._made and store._changes.get(key, ...) is not self._made[key]:
                continue
            store._leaves.forget(key)
            if window is ...:
                store._changes.pop(key, None)
            else:
                store._changes[key] = window
            if tier is None:
                store._external.pop(key, None)
            else:
                store._external[key] = tier
            store._leaves.bring_back(key, store, handle, leaf, edited=edited)
        store._bring_back_beside(self._beside)
        store._count_memory()
        if store._is_behind:  # what was taken back may be published
            store._see_to_published(list(self._before))
