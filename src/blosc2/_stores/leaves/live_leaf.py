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
from blosc2.exceptions import ClosedStoreError

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.session import Session
    from blosc2._stores.store import Store


# Where a handle has its frame and its array: subclasses have properties of these names.
_PLACES: Final = (FrameHandle.__dict__["frame"], FrameHandle.__dict__["array"])


class LiveHandle(MemoryHandle):
    """A leaf of a store open for writing.

    Changes stay in memory, where only holders of this leaf see them, until the store publishes them.
    """

    __slots__ = ("had_edits", "session")

    _owns_file = True

    def __init__(
        self, frame: Frame, session: Session, options: HandleOptions, path: str | None, key: str, beside: str | None
    ) -> None:
        super().__init__(frame, options, path, key)
        #: That of the store; None when the key has got another leaf.
        self.session: weakref.ref[Session] | None = weakref.ref(session)
        #: Whether edits waited for publication when the key got another leaf.
        self.had_edits = False
        if beside is not None:
            self._chunks.waiting = TemporaryFile(beside)

    def spool(self) -> Spool:
        return Spool(self._chunks.waiting)

    def require_writable(self) -> None:
        self._writable_session()

    def _writable_session(self) -> Session:
        """The session of the store, if this leaf may be changed now."""
        session = None if self.session is None else self.session()
        if session is None or session.closed or session.ending:
            raise ClosedStoreError(
                "the leaf can be read but no longer changed: its store was closed, or the key was given another value; "
                "open the store with mode='a', if it is closed, and take the leaf from it again",
                path=self.urlpath,
                key=self.key,
            )
        session.check_own()
        session.check_thread("change a leaf")
        return session

    def _adopt(self, frame: Frame) -> None:
        array = self._checked(frame)
        # The change began a while ago: another thread may have closed the store or replaced the leaf since then.
        session = self._writable_session()
        while not session.leaves.show_edit(session, self, _PLACES, frame, array):
            session = self._writable_session()  # which raises, unless edits are not refused any more
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

    def reattach(self, session: Session) -> None:
        """The key has this leaf again."""
        self.session = weakref.ref(session)


def live_leaf(table: LeafTable, store: Store, key: str) -> Any | None:
    """Open a leaf of a store that is open for writing; None if there is none."""
    session = table.session
    with session.lock:
        # Array, super-chunk and metadata views of one leaf share one handle, or an edit would get lost.
        leaves = table.leaves
        handles, handle = leaves.handles, leaves.handle(key)
        if handle is None:
            frame = table.contents.frame(key)
            if frame is None:
                return None
            verify = store._verify
            options = HandleOptions("a", None, store._deserialize, verify=None if verify is None else False)
            kind = LiveHandle if session.sharing is None else _stores.SharedLeaf
            made = kind(frame, session, options, table.path, key, table.beside)
            if verify:
                table.backend.verify(key, made.frame)
                made.verify = True
            # A finalizer or a signal handler may have opened it meanwhile.
            handle = hold(handles, key, made)
        return store._hold(key, wrap(handle), store._holding)
