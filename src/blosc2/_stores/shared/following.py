"""Showing the newest version of a store at each access."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blosc2._backends import EMBED
from blosc2._core.leaves.weak_cache import OuterBlock
from blosc2._files import file_identity
from blosc2._stores.publish import show

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._stores.store import Store

_Result = TypeVar("_Result")

#: Nanoseconds in which a file system may not tell two changes of a file apart.
_TICK: Final = 20 * 10**6


class Following(OuterBlock):
    """Shows the newest version of one store at each access. The store is not kept alive.

    As a context manager it lets the store show one version: the newest one when the block begins. Other threads do not
    wait for its end unless they need another version.
    """

    def __init__(self, store: Store) -> None:
        backend = store._backend
        root = str(backend.root)
        self._store = weakref.ref(store)
        self._paths = (root, os.path.join(root, EMBED)) if backend.suffix == ".b2d" else (root,)
        # The files of the version that is shown; None if it is not known.
        self._seen: tuple[Any, ...] | None = None
        # Whether another version is being read just now; whether the last block began with another one.
        self._is_reading = self._took_up = False
        #: Whether nobody else can publish a version now.
        self.is_changing = False

    def follow(self) -> bool:
        """Show the newest version; whether another one was shown before."""
        if self.depth or self.is_changing or self._is_reading or self._is_newest():
            return False
        with self:
            return self._took_up

    def _begin(self) -> None:
        self._took_up = not (self.is_changing or self._is_newest()) and self._take_up()

    def _clean_up(self) -> None:
        self._is_reading = False

    def _is_newest(self) -> bool:
        seen = self._seen
        if seen is None or seen != tuple(map(file_identity, self._paths)):
            return False
        # Else it was changed so lately that another change may have left no trace.
        return time.time_ns() - max((identity[3] for identity in seen if identity), default=0) > _TICK

    def _take_up(self) -> bool:
        """Show what is published now; whether that is another version."""
        store = self._store()
        if store is None or store._session.closed:
            return False
        self._is_reading = True
        try:
            self._seen = None
            seen = tuple(map(file_identity, self._paths))  # before it is read: a change meanwhile is then noticed
            changed = self._show_newest(store)
            self._seen = seen
            return changed
        finally:
            self._is_reading = False

    def _show_newest(self, store: Store) -> bool:
        if not store._backend.lists_cheaply:
            store._forget_leaves()  # nothing tells which of them are new
        if not show(store, store._backend.reload):
            return False
        store._pending.revision += 1
        store._forget_leaves()
        return True

    def of_one_version(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """What a function finds that reads several leaves."""
        with self:
            return function(*arguments)

    def renew(self) -> bool:
        """In a forked child: see `Lock.renew`."""
        self._is_reading = False
        return self._renew()


class SharedFollowing(Following):
    """The same for a store that is open for writing: with it, open leaves show the newest version, too."""

    def __init__(self, store: Store, lock: WriterLock) -> None:
        super().__init__(store)
        self._writer_lock = lock

    def follow(self) -> bool:
        # A forked child goes on showing what waited for publication in its parent.
        if self._writer_lock.inherited and self._is_changed():
            return False
        return super().follow()

    def _is_changed(self) -> bool:
        store = self._store()
        return store is not None and store._unpublished

    def _show_newest(self, store: Store) -> bool:
        if not show(store, store._backend.reload):
            return False
        store._pending.revision += 1
        if store._names is not None:
            store._names.forget()
        unsettled = store._backend.unsettled
        if unsettled is not None:
            unsettled.followed()
        store._leaves.follow(store._contents.byte_range)
        return True

    # ------------------------------------------------------------------ while the store is changed
    def begin_change(self) -> None:
        """Show the newest version, which nobody else changes now, and stay there until `end_change`."""
        with self:
            self.is_changing = True
            self._take_up()

    def end_change(self, *, is_known: bool) -> None:
        """Others may change the store again; `is_known` says that the version shown is the published one."""
        self._seen = tuple(map(file_identity, self._paths)) if is_known else None
        self.is_changing = self._is_reading = False
