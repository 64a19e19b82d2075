"""Leaves of a store that is open for writing: arrays and super-chunks that can be changed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from blosc2 import _stores
from blosc2._backends import ByteRange
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import hold
from blosc2._files import Spool, TemporaryFile
from blosc2._frames import FrameHandle, HandleOptions, MemoryHandle
from blosc2._functions import wrap
from blosc2._options import absolute_path
from blosc2.exceptions import ClosedStoreError

if TYPE_CHECKING:
    from blosc2._stores.store import Store


# Where a handle has its frame and its array: subclasses have properties of these names.
_PLACES: Final = (FrameHandle.__dict__["frame"], FrameHandle.__dict__["array"])


class LiveHandle(MemoryHandle):
    """A leaf of a store open for writing.

    Changes stay in memory, where only holders of this leaf see them, until the store publishes them.
    """

    __slots__ = ("_store", "had_edits")

    _owns_file = True

    def __init__(self, frame: Frame, store: Store, options: HandleOptions, path: str | None, key: str) -> None:
        super().__init__(frame, options, path, key)
        self._store: weakref.ref[Store] | None = weakref.ref(store)
        #: Whether edits waited for publication when the key got another leaf.
        self.had_edits = False
        if self.urlpath is not None:
            self._chunks.waiting = TemporaryFile(absolute_path(self.urlpath))

    def spool(self) -> Spool:
        return Spool(self._chunks.waiting)

    def require_writable(self) -> None:
        self._writable_store()

    def _writable_store(self) -> Store:
        """The store, if this leaf may be changed now."""
        store = None if self._store is None else self._store()
        if store is None or store.closed or store._session.ending:
            raise ClosedStoreError(
                "the leaf can be read but no longer changed: its store was closed, or the key was given another value; "
                "open the store with mode='a', if it is closed, and take the leaf from it again",
                path=self.urlpath,
                key=self.key,
            )
        store._session.check_own()
        store._session.check_thread("change a leaf")
        return store

    def _adopt(self, frame: Frame) -> None:
        array = self._checked(frame)
        # The change began a while ago: another thread may have closed the store or replaced the leaf since then.
        store = self._writable_store()
        while not store._leaves.show_edit(store._session, self, _PLACES, frame, array):
            store = self._writable_store()  # which raises, unless edits are not refused any more
        self.version += 1

    def reload(self, byte_range: ByteRange) -> bool:
        """Show the frame in a byte range instead of the edited one; False if it is of another kind."""
        frame = Frame.open(*byte_range, self.key)
        if frame.metalayers().keys() != self.frame.metalayers().keys():
            return False
        with self._lock:
            super()._adopt(frame)
            self.forget_cparams()
        return True

    def reattach(self, store: Store) -> None:
        """The key has this leaf again."""
        self._store = weakref.ref(store)


def live_leaf(store: Store, key: str) -> Any | None:
    """Open a leaf of a store that is open for writing; None if there is none."""
    session = store._session
    with session.lock:
        # Array, super-chunk and metadata views of one leaf share one handle, or an edit would get lost.
        leaves = store._leaves
        handles, handle = leaves.handles, leaves.handle(key)
        if handle is None:
            frame = store._contents.frame(key)
            if frame is None:
                return None
            verify = store._verify
            options = HandleOptions("a", None, store._deserialize, verify=None if verify is None else False)
            kind = LiveHandle if session.sharing is None else _stores.SharedLeaf
            made = kind(frame, store, options, store._path, key)
            if verify:
                store._backend.verify(key, made.frame)
                made.verify = True
            # A finalizer or a signal handler may have opened it meanwhile.
            handle = hold(handles, key, made)
        return store._hold(key, wrap(handle), store._holding)
