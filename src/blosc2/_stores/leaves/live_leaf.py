"""Leaves of a store that is open for writing: arrays and super-chunks that can be changed."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Self

from blosc2 import _stores
from blosc2._backends import ByteRange
from blosc2._core.frame.frame import Frame
from blosc2._core.leaves.leaf_access import LiveLeaves
from blosc2._core.leaves.leaf_reader import LeafMaker
from blosc2._files import Spool, TemporaryFile
from blosc2._frames import FrameHandle, HandleOptions, MemoryHandle, parse_dtype
from blosc2._functions import wrap
from blosc2._stores.leaves.leaf import leaf_of, reader_of
from blosc2.exceptions import ClosedStoreError
from blosc2.ndarray import NDArray

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

    # The session of the store, weakly: None when the key has got another leaf. And whether edits waited for publication
    # at that moment.
    __slots__ = ("had_edits", "session")
    session: weakref.ref[Session] | None
    had_edits: bool

    _owns_file = True

    def _waiting_file(self) -> TemporaryFile | None:
        session = None if self.session is None else self.session()
        return None if session is None or session.beside is None else TemporaryFile(session.beside)

    def spool(self) -> Spool:
        return Spool(self._edited_chunks().waiting)

    def shared(self) -> Self:
        session = None if self.session is None else self.session()
        if session is not None:
            session.leaves.note_shared(self)
        return self

    def require_writable(self) -> None:
        self._writable_session()

    def editing(self) -> AbstractContextManager[Any]:
        self._writable_session()
        return self._lock

    def _writable_session(self) -> Session:
        """The session of the store, if this leaf may be changed now."""
        session = None if self.session is None else self.session()
        if session is None or session.closed or session.ending:
            raise ClosedStoreError(
                "the leaf can be read but no longer changed: its store was closed, or nothing holds it any more, or "
                "the key was given another value; open the store with mode='a', keep it in a variable as long as its "
                "leaves are changed, and take the leaf from it again",
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
    """Open a leaf of a store that is open for writing; None if there is none.

    From now on arrays are opened without this function, where the store has a reader.
    """
    with table.session.lock:
        version, maker = store._answers_version, store._maker or _live_maker(table, store)
        if store._reader is None and table.backend.lists_cheaply:
            reader = reader_of(table, maker, store._verify)
            if reader is not None:
                live = LiveLeaves(table.session, table.pending, table.leaves, table.lock, table.foreign)
                store._use_reader(reader, version, live)
        # Array, super-chunk and metadata views of one leaf share one handle, or an edit would get lost.
        handle = table.leaves.handle(key)
        if handle is None:
            frame = table.contents.frame(key)
            if frame is None:
                return None
            if store._verify:
                table.backend.verify(key, frame)
            leaf = leaf_of(maker, frame, key, verify=bool(store._verify))
            # A finalizer or a signal handler may have opened it meanwhile.
            handle = table.leaves.handle(key)
        return store._hold(key, leaf if handle is None else wrap(handle), store._holding)


def _live_maker(table: LeafTable, store: Store) -> LeafMaker:
    """What makes the leaves of a store that is open for writing."""
    session = table.session
    kind = LiveHandle if session.sharing is None else _stores.SharedLeaf
    session.beside  # noqa: B018 - as long as a relative path is surely that of the store
    more = {"session": weakref.ref(session), "had_edits": False, "_chunks": None, "_contiguous": True}
    options = HandleOptions("a", None, store._deserialize, verify=None if store._verify is None else False)
    store._maker = maker = LeafMaker(NDArray, kind, parse_dtype, options, table.path, more)
    return maker
