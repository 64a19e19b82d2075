"""Changes of a store that are published together."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2._core.leaves.weak_cache import Block
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class Transaction(Block):
    """The context manager of `Store.transaction`.

    Attributes
    ----------
    thread : int
        The thread that began it, which alone can change the store until it ends.
    """

    __slots__ = ("_before", "_pending", "_store", "_touched", "thread")

    def __init__(self, store: Store) -> None:
        self._store = store
        self.thread = 0
        self._before: tuple[Any, ...] | None = None
        self._touched: set[str] = set()
        # The changes that are being published at its end: they are others afterwards.
        self._pending: dict[str, Any] | None = None

    def __enter__(self) -> Store:
        """Begin; the store itself is given."""
        store = self._store
        store._check_writable("begin a transaction")
        try:
            with store._lock:
                if store._transaction is not None:
                    raise RuntimeError("a transaction is under way already: stores have one at a time")
                store._gather()
                self._before = store._state()
                self.thread = threading.get_ident()
                store._transaction = self
            return store
        except BaseException:
            if store._transaction is self:  # nobody would end it
                store._transaction = None
            raise

    def _leave(self, failed: bool) -> None:
        """Publish, or bring back what was before. Nothing when that is done."""
        store = self._store
        if self._before is None:
            return
        if store.closed or store._is_inherited:  # a forked child leaves both to its parent
            self._before = None
            return
        with store._lock:
            if not failed:
                store._transaction = None
                self._pending = store._changes
                try:
                    store._flush(durable=True)
                except BaseException:
                    # With the lock still held: what other threads set afterwards is not part of it.
                    self._take_back(self._before)
                    self._before = None
                    raise
            else:
                self._take_back(self._before)
            store._transaction = None
            self._before = None

    def _take_back(self, before: tuple[Any, ...]) -> None:
        store = self._store
        if self._pending is not None and store._changes is not self._pending:
            return
        self._undo(before)
        if self._pending is not None:
            # What was published of it all the same is shown, as it is in the file.
            with suppress(OSError, FormatError):
                store._catch_up()
            store._show_leaves_again(self._touched)

    def _undo(self, before: tuple[Any, ...]) -> None:
        store = self._store
        now: dict[str, Any] = store._changes
        # Kept, as it may have to be done again.
        self._touched |= store._leaves.edited.keys() | now.keys()
        store._bring_back(before)
        was: dict[str, Any] = store._changes
        self._touched |= {key for key in was if now.get(key, ...) is not was[key]}
        # Leaves may show changes that are no more.
        store._show_leaves_again(self._touched)
