"""Leaves of a store that is open for writing with ``locking=True``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from blosc2._backends import ByteRange
from blosc2._frames import FollowingHandle
from blosc2._stores.leaves.live_leaf import LiveHandle

if TYPE_CHECKING:
    from blosc2._stores.shared.session import SharedWriting


class SharedLeaf(FollowingHandle, LiveHandle):
    """A live leaf that follows its store: each change of it is a change of the store, which others see at once."""

    __slots__ = ()

    def _follow(self) -> None:
        store = None if self._store is None else self._store()
        if store is not None and store._session.sharing is not None and not store._session.closed:
            store._session.sharing.follow()

    def require_writable(self) -> None:
        store = None if self._store is None else self._store()
        if store is not None:
            store._session.check_between("change a leaf")  # what would be published at the end of that, or never
        super().require_writable()

    def _writing(self) -> SharedWriting:
        """What takes turns with others. Raises if the leaf cannot be changed."""
        self.require_writable()
        store = None if self._store is None else self._store()
        writing = None if store is None else store._session.writing
        assert writing is not None
        return writing

    def refresh(self) -> bool:
        """Show the newest version; whether it is another one."""
        before = self.version
        self._follow()
        return self.version != before

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Block changes by all other handles, start from the newest version, and publish at the end in any case."""
        writing = self._writing()
        writing.hold()
        try:
            yield
        finally:
            writing.let_go(False)

    def lock(self) -> None:
        """Enter `holding`; `unlock` leaves it."""
        self._writing().hold()

    def unlock(self) -> None:
        """Leave what `lock` entered."""
        store = None if self._store is None else self._store()
        writing = None if store is None else store._session.writing
        if writing is None or not writing.is_held:
            raise RuntimeError("unlock() without lock()")
        writing.let_go(False)

    def editing(self) -> AbstractContextManager[Any]:
        """Block changes by everybody else, in any process, and start from the newest version."""
        self.require_writable()
        return self._editing()

    @contextmanager
    def _editing(self) -> Iterator[None]:
        store = None if self._store is None else self._store()
        assert store is not None
        with store._lock:
            self.require_writable()  # others may have deleted it meanwhile
            with self._lock:
                yield

    def take_up(self, byte_range: ByteRange) -> bool:
        """Show the frame that the store has now; False if it is of another kind."""
        source, offset, _ = byte_range
        mine = self.shown
        if source.identity is not None and (mine.source.identity, mine.offset) == (source.identity, offset):
            return True
        return self.reload(byte_range)
