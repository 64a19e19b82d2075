"""Showing the newest version of a store at each access."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blosc2._backends import EMBED
from blosc2._core.io.forking import Lock
from blosc2._files import file_identity
from blosc2._stores.publish import show

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._stores.store import Store

_Result = TypeVar("_Result")

#: Nanoseconds in which a file system may not tell two changes of a file apart.
_TICK: Final = 20 * 10**6


class Following:
    """Shows the newest version of one store at each access. The store is not kept alive.

    As a context manager it lets the store show one version: the newest one when the block begins.
    """

    def __init__(self, store: Store) -> None:
        backend = store._backend
        root = str(backend.root)
        self._store = weakref.ref(store)
        self._paths = (root, os.path.join(root, EMBED)) if backend.suffix == ".b2d" else (root,)
        # Held by a thread that shows another version, or needs that none is shown.
        self._showing = Lock()
        # How often it was asked that the version stays, by threads that had the lock then.
        self._stay = 0
        # The files of the version that is shown; None if it is not known.
        self._seen: tuple[Any, ...] | None = None

    def follow(self) -> bool:
        """Show the newest version; whether another one was shown before."""
        return False if self._stay or self._is_newest() else self._follow_now()

    def _follow_now(self) -> bool:
        with self._showing:
            return False if self._stay else self._take_up()

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
        self._stay += 1
        try:
            self._seen = None
            seen = tuple(map(file_identity, self._paths))  # before it is read: a change meanwhile is then noticed
            changed = self._show_newest(store)
            self._seen = seen
            return changed
        finally:
            self._stay -= 1

    def _show_newest(self, store: Store) -> bool:
        if not store._backend.lists_cheaply:
            store._forget_leaves()  # nothing tells which of them are new
        if not show(store, store._backend.reload):
            return False
        store._pending.revision += 1
        store._forget_leaves()
        return True

    def __enter__(self) -> None:
        self._showing.__enter__()
        try:
            self.follow()
            self._stay += 1
        except BaseException:
            self._showing.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stay -= 1
        self._showing.__exit__(None, None, None)

    def of_one_version(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """What a function finds that reads several leaves."""
        with self:
            return function(*arguments)

    def renew(self) -> bool:
        """In a forked child: see `Lock.renew`."""
        lost = self._showing.renew()
        if lost:
            self._stay = 0
        return lost


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
        """Show the newest version, which nobody changes now, and stay there."""
        with self._showing:
            self._stay += 1
            try:
                self._take_up()
            except BaseException:
                self._stay -= 1
                raise

    def end_change(self, *, is_known: bool) -> None:
        """Others may change the store again; `is_known` says that the version shown is the published one."""
        with self._showing:
            self._stay -= 1
            self._seen = tuple(map(file_identity, self._paths)) if is_known else None
