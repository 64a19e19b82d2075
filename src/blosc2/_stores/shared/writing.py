"""The lock of a store that several handles change in turns."""

from __future__ import annotations

import _thread
import errno
import os
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

from blosc2._backends import shared_lock_path
from blosc2._core.io.sharing import item_of
from blosc2._core.leaves.store_state import Change
from blosc2._core.leaves.weak_cache import OuterBlock
from blosc2._files import Turn
from blosc2._stores.publish import drop, flush, load_if_behind, show
from blosc2.exceptions import FormatError, MissingFileError, StoreLockedError, explain

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._stores.shared.following import SharedFollowing
    from blosc2._stores.store import Store

#: An archive is written anew when its unused bytes exceed twice the others and this.
_SLACK: Final = 1 << 20

# The thread that changes a store, and the object by which it does, by the path of the shared lock.
_changing: dict[str, tuple[int, int]] = {}


class SharedWriting(OuterBlock):
    """The lock of one store that is changed in turns, as a context manager for one change.

    Parameters
    ----------
    store : Store
    following : SharedFollowing
    timeout : float or None
        How many seconds a change waits for others.
    """

    def __init__(self, store: Store, following: SharedFollowing, timeout: float | None) -> None:
        lock = store._session.writer_lock
        assert lock is not None
        self._store = weakref.ref(store)
        self._following = following
        self._writer_lock: WriterLock = lock
        self._timeout = timeout
        self._root = str(store._backend.root)
        self._path = shared_lock_path(self._root, store._backend.suffix)
        self._turn = Turn(self._path, lock.owner)
        # Bytes of an archive up to which nobody has to look at how many of them are used.
        self._compact_at = _SLACK

    @property
    def is_held(self) -> bool:
        """Whether the store is being changed."""
        return self.depth > 0

    @property
    def is_gone(self) -> bool:
        """Whether somebody removed the store."""
        return not os.path.lexists(self._root)

    def _enter(self) -> None:
        self._following.__enter__()

    def _leave(self) -> None:
        self._following.__exit__(None, None, None)

    def _begin(self) -> None:
        """Wait for the turn and the lock, and show the newest version."""
        store = self._store()
        if store is None:
            raise self._missing()
        with Change(store._session):
            self._begin_change()

    def _begin_change(self) -> None:
        lock = self._writer_lock
        lock.owner.check(self._root)
        if item_of(_changing, self._path, (0, 0))[0] == _thread.get_ident():
            raise StoreLockedError(
                "this thread is changing the store through another handle, and would wait for itself: use one handle, "
                "or end that change first",
                path=self._root,
            )
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        if self.is_gone:
            raise self._missing()
        self._turn.wait(deadline)
        lock.acquire(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if lock.creates:
            raise self._missing()
        self._turn.count(deadline, lock.descriptor)
        _changing[self._path] = _thread.get_ident(), id(self)
        self._following.begin_change()

    def _missing(self) -> MissingFileError:
        return MissingFileError(errno.ENOENT, "the store is gone: somebody removed it while it was open", self._root)

    def _end(self, failed: bool) -> None:
        """Publish what was changed, or drop it; then let others have their turn."""
        store = self._own_store()
        if store is None:
            self._release(is_known=False)
            return
        with Change(store._session):  # to its end: what came in between would belong to a change that is over
            with self._following:
                if failed:
                    self._drop(store)
                else:
                    self._publish_or_drop(store)
            self._release(is_known=not failed)

    def _clean_up(self) -> None:
        """A change could not begin, or ended by an error."""
        store = self._own_store()
        with nullcontext() if store is None else Change(store._session):
            try:
                if store is not None and self._following.is_changing:
                    with self._following:
                        self._drop(store)
            finally:
                self._release(is_known=False)

    def _own_store(self) -> Store | None:
        """The store, unless it is closed, or that of the process of which this one is a fork."""
        store = None if self._writer_lock.inherited else self._store()
        return None if store is None or store._session.closed else store

    def _publish_or_drop(self, store: Store) -> None:
        try:
            self._publish(store)
        except BaseException as error:
            explain(error, "the handle shows what is published")
            raise

    def _publish(self, store: Store) -> None:
        backend = store._backend
        if not (store._unpublished or store._pending.unwritten or store._publishing.hidden):
            return
        # What an assignment publishes is durable in an archive at once, else after `flush`: doc/guide/publishing.md.
        store._publishing.lazily = backend.suffix == ".b2e"
        try:
            flush(store, durable=True)
        finally:
            store._publishing.lazily = False
        members = backend.members
        if members is not None and backend.size() > self._compact_at:
            self._compact_at = 3 * members.used_bytes() + _SLACK
            if backend.size() > self._compact_at:
                backend.compact(None)
                show(store, backend.show_published)

    def _drop(self, store: Store) -> None:
        """Show what is published: a change failed."""
        with suppress(OSError, FormatError):  # first: leaves show what it has
            load_if_behind(store)
        if store._unpublished or store._pending.unwritten:
            drop(store)

    def _release(self, *, is_known: bool) -> None:
        """Let others have their turn. It may be called again, if it was interrupted."""
        if self._writer_lock.inherited:
            return
        if item_of(_changing, self._path, (0, 0))[1] == id(self):
            _changing.pop(self._path, None)
        self._following.end_change(is_known=is_known)
        with suppress(OSError):  # of closing what is not locked any more
            self._writer_lock.let_go()
        with suppress(OSError):
            self._turn.end()

    def open(self, store: Store, begin: Callable[[], None]) -> None:
        """Open the store by `begin`; if it is new, or mode "w" replaces it, make it now, under the lock."""
        if store.mode == "a" and store._backend.exists():
            begin()
            return
        self._writer_lock.acquire(self._timeout)
        try:
            begin()
            if store._pending.unwritten:
                flush(store, durable=True)
        finally:
            self._writer_lock.let_go()

    def renew(self) -> bool:
        """In a forked child: see `Lock.renew`. The lock for writing is the parent's."""
        self._renew()
        _changing.pop(self._path, None)
        return self._following.renew()
