"""Changes of a store that are published together."""

from __future__ import annotations

import _thread
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2._core.leaves.store_state import Change
from blosc2._core.leaves.weak_cache import Block, Hold
from blosc2._stores.all_or_none import KEPT
from blosc2._stores.followers import forget_published_keys
from blosc2._stores.publish import flush, settle
from blosc2.exceptions import FormatError, explain

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class UnderWay:
    """What a session knows of its transaction, without keeping it alive: that ends when it is dropped, at the latest.

    Attributes
    ----------
    thread : int
        The thread that began it. Until it ends, no other thread can change the store.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = _thread.get_ident()


class Transaction(Block):
    """The context manager of `Store.transaction`."""

    __slots__ = ("_before", "_held", "_mark", "_published", "_store", "_touched")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: UnderWay | None = None
        self._before: tuple[Any, ...] | None = None
        # Keys whose changes were taken back.
        self._touched: set[str] = set()
        # The table of changes that is published at the end. After success the store has a new table.
        self._published: dict[str, Any] | None = None
        # The lock of a store that others change, too: until the end, they wait.
        self._held: Hold | None = None

    def __enter__(self) -> Store:
        """Begin, and return the store itself."""
        store = self._store
        session = store._session
        session.check_writable("begin a transaction")
        try:
            if session.writing is not None:
                self._held = Hold(session.writing)
                self._held.begin()
            with store._lock, Change(session):
                if session.transaction is not None:
                    raise RuntimeError("a transaction is under way already: stores have one at a time")
                self._mark = UnderWay()
                store._leaves.refuse_edits_of_others(session, self._mark)
                store._leaves.collect(store._pending.frames)
                self._before = store._pending.snapshot()
            return store
        except BaseException:
            if session.transaction is self._mark:  # nobody would end it
                session.transaction = None
            self._let_go(failed=True)
            raise

    def _let_go(self, *, failed: bool) -> None:
        if self._held is not None:
            self._held.let_go(failed)

    def __del__(self) -> None:
        if getattr(self, "_before", None) is not None and self._store._session.transaction is self._mark:
            self._leave(failed=True)

    def _leave(self, failed: bool) -> None:
        """Publish the changes, or take them back. A second call does nothing."""
        try:
            self._end(failed=failed)
        except BaseException:
            self._let_go(failed=True)
            raise
        self._let_go(failed=failed)

    def _end(self, *, failed: bool) -> None:
        store = self._store
        session = store._session
        if self._before is None:
            return
        if session.closed or session.is_inherited:  # a forked child leaves this to its parent
            self._before = None
            return
        session.check_between("end a transaction")
        with store._lock, Change(session):
            if not failed:
                self._published = store._pending.frames
                try:
                    flush(store, durable=True)
                except BaseException as error:
                    if store._backend.half_done:  # as at the end of other blocks: the changes stay pending
                        explain(error, KEPT)
                    else:
                        # While the lock is held, so that later changes of other threads are not taken back.
                        self._take_back(self._before)
                    session.transaction = self._before = None
                    raise
            else:
                self._take_back(self._before)
            session.transaction = None
            self._before = None

    def _take_back(self, before: tuple[Any, ...]) -> None:
        store = self._store
        if self._published is not None and store._pending.frames is not self._published:
            return
        self._restore(before)
        if self._published is not None:
            # Some changes may be published although publishing failed: show what is in the file.
            with suppress(OSError, FormatError):
                settle(store)
            store._leaves.reload_edited(self._touched, store._contents.byte_range)

    def _restore(self, before: tuple[Any, ...]) -> None:
        """Bring back the pending changes from before; it may be called again."""
        store = self._store
        now: dict[str, Any] = store._pending.frames
        self._touched |= store._leaves.edited.keys() | now.keys()
        store._pending.restore(before)
        forget_published_keys(store)
        was: dict[str, Any] = store._pending.frames
        self._touched |= {key for key in was if now.get(key, ...) is not was[key]}
        # Leaves may show changes that were taken back.
        store._leaves.reload_edited(self._touched, store._contents.byte_range)
