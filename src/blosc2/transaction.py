"""Changes of a store that are published together."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blosc2.store import Store


class Transaction:
    """The context manager of `Store.transaction`."""

    __slots__ = ("_before", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: tuple[Any, ...] | None = None

    def __enter__(self) -> Store:
        """Begin; the store itself is given."""
        store = self._store
        store._check_writable("begin a transaction")
        with store._lock:
            if store._transaction is not None:
                raise RuntimeError("a transaction is under way already: stores have one at a time")
            store._gather()
            self._before = store._state()
            store._transaction = self
        return store

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Publish, or bring back what was before."""
        store, before = self._store, self._before
        self._before = None
        if store.closed or before is None:
            return
        with store._lock:
            store._transaction = None
            if kind is None:
                try:
                    store._flush(durable=True)
                except BaseException:
                    self._undo(before)
                    raise
            else:
                self._undo(before)

    def _undo(self, before: tuple[Any, ...]) -> None:
        store = self._store
        # Leaves may show changes that are no more.
        store._forget_leaves()
        store._bring_back(before)
