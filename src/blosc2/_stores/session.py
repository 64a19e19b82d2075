"""One opened store: how it was opened, and whether it may be read or changed now."""

from __future__ import annotations

import _thread
import copy
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from blosc2 import _stores
from blosc2._core.leaves.store_state import SessionState
from blosc2._options import absolute_path, how_to_change
from blosc2.exceptions import CLOSED_STORE, REPLACED_STORE, ClosedStoreError, ReadOnlyError

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._core.io.sharing import Lock
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.leaves.open_leaves import OpenLeaves
    from blosc2._stores.shared_session import Following, SharedWriting
    from blosc2._stores.transaction import AllOrNone

_T = TypeVar("_T")


class Session(SessionState):
    """The state that all operations on one opened store check. A view of a group shares it with its tree.

    It has no constructor, so that opening a store takes few calls: `Store` fills it in.

    Attributes
    ----------
    path : str or None
        The path as the user gave it, for errors; None for a store in memory.
    mode : str
        The mode that the store was opened with.
    advice : str or None
        The advice for the whole store that lasts until the next one.
    lock : Lock
        Held by a thread that changes the store or opens a leaf. With ``locking=True`` that of the store is another one.
    writer_lock : WriterLock or None
        Keeps other writers out; None in mode "r" and in memory.
    ending : bool
        Whether `close` is publishing: what it publishes need not be read again, and leaves are not changed any more.
    streaming : bool
        Whether a call writes many leaves as they come. Nothing else may change the store meanwhile.
    unsure : bool
        Whether something is being published, or may have been and is not shown: see `publish.Publication`.
    publishes : weakref or None
        The table, once something of it was published.
    transaction : AllOrNone or None
        What takes back the transaction under way. Until it ends, no other thread than its own can change the store.
    is_changing : bool
        Whether this thread is in the middle of a `Change`.
    asks : bool
        Whether `check_open` is called before each use: the store is closed, follows others, or is not sure what is
        published.
    sharing : Following or None
        What follows others, with ``locking=True``.
    writing : SharedWriting or None
        What takes turns with others, with ``locking=True`` and for writing.
    lost : tuple or None
        For a store that was unpickled and could not be opened: the error, and what pickles it again.
    is_replaced : bool
        Whether it was closed because this process opened its path with mode "w".
    """

    path: str | None
    mode: str
    lock: Lock
    writer_lock: WriterLock | None
    advice: str | None = None
    publishes: weakref.ref[LeafTable] | None = None
    transaction: AllOrNone | None
    sharing: Following | None = None
    writing: SharedWriting | None = None
    lost: tuple[Exception, tuple[Any, ...]] | None = None
    is_replaced = False
    leaves: OpenLeaves

    @cached_property
    def beside(self) -> str | None:
        """The file beside which unpublished chunks wait, if they are too many for memory; None in memory."""
        return None if self.path is None else absolute_path(self.path)

    def end(self) -> None:
        """The store is closed."""
        self.closed = self.asks = True

    def check_open(self) -> None:
        """Raise an error if the store is closed; look at the file if it is not sure what is published."""
        if self.closed:
            raise self.closed_error()
        # Not while something is being published: `asks` is set at its end.
        if self.unsure and self.asks and not self.is_changing:
            self.settle()

    def settle(self) -> None:
        """Show what is published, after an interrupt."""
        table = None if self.publishes is None else self.publishes()
        if table is not None:
            _stores.publish.settle_beside(table)

    def if_open(self, answer: _T) -> _T:
        """An answer, unless another thread has closed the store while it was looked up."""
        if self.closed:
            raise self.closed_error()
        return answer

    def closed_error(self) -> Exception:
        """The error for any use of a closed store."""
        if self.lost is not None:
            return copy.copy(self.lost[0])  # each with a traceback of its own
        return ClosedStoreError(REPLACED_STORE if self.is_replaced else CLOSED_STORE, path=self.path)

    def check_writable(self, what: str, key: str | None = None) -> None:
        """Raise an error if the store cannot be changed; `what` completes "cannot ..."."""
        if self.closed:
            raise self.closed_error()
        if self.mode == "r":
            how = how_to_change(self.path, "the store")
            raise ReadOnlyError(f"Cannot {what} in read-only mode: {how}", path=self.path, key=key)
        if self.is_changing:
            self.check_between(what)
        self.check_not_streaming(what)
        self.check_own()
        if self.unsure:
            self.check_open()

    def check_between(self, what: str) -> None:
        """Raise an error if this thread is in the middle of a change or a publication, and re-enters it."""
        if self.is_changing:
            raise RuntimeError(
                f"cannot {what}: this thread is in the middle of changing or publishing the store, and a finalizer, a "
                "signal handler or a callback came in between; let that only note what is to be done, and do it after "
                "the call, or in another thread"
            )

    def check_not_streaming(self, what: str) -> None:
        """Raise an error while a call writes many leaves."""
        if self.streaming:
            raise RuntimeError(f"cannot {what}: write_many is under way, and publishes at its end")

    def check_thread(self, what: str) -> None:
        """Raise an error if another thread has a transaction: it would publish or undo changes of this thread."""
        transaction = self.transaction
        if transaction is not None and transaction.thread != _thread.get_ident():
            raise RuntimeError(
                f"cannot {what}: another thread has a transaction under way; wait for its end, or do it in that thread"
            )

    def check_own(self) -> None:
        """Raise an error in a forked child: only the process that opened a store for writing may change it."""
        lock = self.writer_lock
        if lock is not None:
            lock.owner.check(self.path)

    def begin_child(self) -> None:
        """In a forked child: another thread of the parent may have been changing the store, and is not here."""
        self.streaming = False
        if not self.is_changing:
            self.forget_change()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child's copy of a store that is open for writing."""
        return self.writer_lock is not None and self.writer_lock.inherited
