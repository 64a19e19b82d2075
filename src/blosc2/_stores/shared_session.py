"""Stores that several handles change in turns: ``locking=True``.

Such a handle has a `Following` object, which looks at each access whether a newer version was published, and shows it.
If it may change the store, a `SharedWriting` object takes the place of the store's lock. Who enters that first waits
for the writer's lock and starts from the newest version; when that one leaves, the changes are published, or dropped if
they failed, and the lock is let go. So whatever holds the store's lock is one change for all others.
"""

from __future__ import annotations

import _thread
import errno
import math
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blosc2._backends import EMBED, ByteRange, shared_lock_path
from blosc2._core.io.sharing import OuterBlock, item_of
from blosc2._core.leaves.store_state import Change
from blosc2._core.on_demand import import_now
from blosc2._files import TICK, Turn, file_identity
from blosc2._frames import FollowingHandle
from blosc2._options import told_wait
from blosc2._stores.leaves.live_leaf import LiveHandle
from blosc2._stores.pending import PendingChanges
from blosc2._stores.publish import drop, flush, load_if_behind, show, show_newest
from blosc2._stores.session import Session
from blosc2.exceptions import FormatError, MissingFileError, StoreLockedError, explain

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._stores.leaf_table import LeafTable


_Result = TypeVar("_Result")


class Following(OuterBlock):
    """Shows the newest version of one store at each access. The store is not kept alive.

    As a context manager it lets the store show one version: the newest one when the block begins. Other threads do not
    wait for its end unless they need another version.
    """

    def __init__(self, table: LeafTable) -> None:
        backend = table.backend
        root = str(backend.root)
        self._table = weakref.ref(table)
        self._paths = (root, os.path.join(root, EMBED)) if backend.suffix == ".b2d" else (root,)
        # The files of the version that is shown; None if it is not known.
        self._seen: tuple[Any, ...] | None = None
        # Whether another version is being read just now; whether the last block began with another one.
        self._is_reading = self._took_up = False
        #: Whether nobody else can publish a version now.
        self.is_changing = False

    def follow(self) -> bool:
        """Show the newest version; whether another one was shown before."""
        if self.depth or self.is_changing or self._is_reading or self._is_newest():
            return False
        with self:
            return self._took_up

    def _begin(self) -> None:
        self._took_up = not (self.is_changing or self._is_newest()) and self._take_up()

    def _clean_up(self) -> None:
        self._is_reading = False

    def _is_newest(self) -> bool:
        seen = self._seen
        if seen is None or seen != tuple(map(file_identity, self._paths)):
            return False
        # Else it was changed so lately that another change may have left no trace.
        return time.time_ns() - max((identity[3] for identity in seen if identity), default=0) > TICK

    def _take_up(self) -> bool:
        """Show what is published now; whether that is another version."""
        table = self._table()
        if table is None or table.session.closed:
            return False
        self._is_reading = True
        try:
            self._seen = None
            seen = tuple(map(file_identity, self._paths))  # before it is read: a change meanwhile is then noticed
            changed = self._show_newest(table)
            self._seen = seen
            return changed
        finally:
            self._is_reading = False

    def _show_newest(self, table: LeafTable) -> bool:
        return show_newest(table, by_others=True)

    def of_one_version(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """What a function finds that reads several leaves."""
        with self:
            return function(*arguments)

    def renew(self) -> bool:
        """In a forked child: see `Lock.renew`."""
        self._is_reading = False
        return self._renew()


class SharedFollowing(Following):
    """What follows others for a store that is open for writing: open leaves show the newest version, too."""

    def __init__(self, table: LeafTable, lock: WriterLock) -> None:
        super().__init__(table)
        self._writer_lock = lock

    def follow(self) -> bool:
        # A forked child goes on showing what waited for publication in its parent.
        if self._writer_lock.inherited and self._is_changed():
            return False
        return super().follow()

    def _is_changed(self) -> bool:
        table = self._table()
        return table is not None and table.has_changes

    def _show_newest(self, table: LeafTable) -> bool:
        if not show(table, table.backend.reload):
            return False
        table.pending.revision += 1
        if table.names is not None:
            table.names.forget()
        unsettled = table.backend.unsettled
        if unsettled is not None:
            unsettled.followed()
        table.leaves.follow(table.contents.byte_range)
        return True

    # ------------------------------------------------------------------ while the store is changed
    def begin_change(self) -> None:
        """Show the newest version, which nobody else changes now, and stay there until `end_change`."""
        with self:
            self.is_changing = True
            self._take_up()

    def end_change(self, *, is_known: bool) -> None:
        """Others may change the store again; `is_known` says that the version shown is the published one."""
        self._seen = tuple(map(file_identity, self._paths)) if is_known else None
        self.is_changing = self._is_reading = False


# How long, in seconds, a handle waits for the lock before it looks whether somebody else has made the store.
_LOOK_AGAIN: Final = 0.05
# The thread that changes a store, and the object by which it does, by the path of the shared lock.
_changing: dict[str, tuple[int, int]] = {}


class SharedWriting(OuterBlock):
    """The lock of one store that is changed in turns, as a context manager for one change.

    A change waits for others up to `timeout` seconds, or without limit.
    """

    def __init__(self, table: LeafTable, following: SharedFollowing, timeout: float | None) -> None:
        lock = table.session.writer_lock
        assert lock is not None
        self._table = weakref.ref(table)
        self._following = following
        self._writer_lock: WriterLock = lock
        self._timeout = timeout
        self._root = str(table.backend.root)
        self._path = shared_lock_path(self._root, table.backend.suffix)
        self._turn = Turn(self._path, lock.owner)

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
        table = self._table()
        if table is None:
            raise self._missing()
        with Change(table.session):
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
        begun = time.monotonic()
        self._turn.wait(deadline)
        told_wait(lock.path, begun)
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
        table = self._own_table()
        if table is None:
            self._release(is_known=False)
            return
        with Change(table.session):  # to its end: what re-enters would belong to a change that is over
            with self._following:
                if failed:
                    self._drop(table)
                else:
                    self._publish_or_drop(table)
            self._release(is_known=not failed)

    def _clean_up(self) -> None:
        """A change could not begin, or ended by an error."""
        table = self._own_table()
        with nullcontext() if table is None else Change(table.session):
            try:
                if table is not None and self._following.is_changing:
                    with self._following:
                        self._drop(table)
            finally:
                self._release(is_known=False)

    def _own_table(self) -> LeafTable | None:
        """The store, unless it is closed, or that of the process of which this one is a fork."""
        table = None if self._writer_lock.inherited else self._table()
        return None if table is None or table.session.closed else table

    def _publish_or_drop(self, table: LeafTable) -> None:
        try:
            self._publish(table)
        except BaseException as error:
            explain(error, "the handle shows what is published")
            raise

    def _publish(self, table: LeafTable) -> None:
        backend = table.backend
        if not (table.has_changes or table.pending.unwritten or table.publishing.hidden):
            return
        # What an assignment publishes is durable in an archive at once, else after `flush`: doc/guide/publishing.md.
        table.publishing.lazily = backend.suffix == ".b2e"
        try:
            flush(table, durable=True)
        finally:
            table.publishing.lazily = False

    def _drop(self, table: LeafTable) -> None:
        """Show what is published: a change failed."""
        with suppress(OSError, FormatError):  # first: leaves show what it has
            load_if_behind(table)
        if table.has_changes or table.pending.unwritten:
            drop(table)

    def _release(self, *, is_known: bool) -> None:
        """Let others have their turn. It may be called again, if it was interrupted."""
        if self._writer_lock.inherited:
            return
        if item_of(_changing, self._path, (0, 0))[1] == id(self):
            _changing.pop(self._path, None)
        self._following.end_change(is_known=is_known)
        with suppress(OSError):  # of closing what is not locked any more
            self._writer_lock.release()
        with suppress(OSError):
            self._turn.end()

    def open(self, table: LeafTable, begin: Callable[[], None]) -> None:
        """Open the store by `begin`; if it is new, or mode "w" replaces it, make it now, under the lock."""
        if not self._take_to_make(table):
            begin()
            return
        try:
            begin()
            if table.pending.unwritten:
                flush(table, durable=True)
        finally:
            self._writer_lock.release()

    def _take_to_make(self, table: LeafTable) -> bool:
        """Take the lock for a store that is made or replaced; False if there is one to open, which needs none."""
        if table.session.mode != "a":
            self._writer_lock.acquire(self._timeout)
            return True
        begun = time.monotonic()
        waited = False
        while not table.backend.exists():
            left = math.inf if self._timeout is None else max(0.0, begun + self._timeout - time.monotonic())
            try:
                self._writer_lock.acquire(min(_LOOK_AGAIN, left))
            except StoreLockedError:  # by who makes the store, or by who changes it as soon as it is there
                if left == 0:
                    raise
                waited = True
                continue
            return True
        if waited:
            told_wait(self._writer_lock.path, begun)
        return False

    def renew(self) -> bool:
        """In a forked child: see `Lock.renew`. The lock for writing is the parent's."""
        self._renew()
        _changing.pop(self._path, None)
        return self._following.renew()


class SharedSession(Session):
    """The state of a store with ``locking=True``, which follows what others publish."""

    sharing: Following
    writing: SharedWriting | None = None

    def share(self, table: LeafTable, timeout: float | None) -> None:
        """Begin to share a store that was just made."""
        lock = self.writer_lock
        if lock is None:
            self.sharing = following = Following(table)
            changing: Any = following
        else:
            import_now("blosc2._stores", "SharedLeaf")
            self.sharing = following = SharedFollowing(table, lock)
            self.writing = changing = SharedWriting(table, following, timeout)
        reading: Any = following
        self.lock, table.lock = reading, changing
        self.asks = True

    def settle(self) -> None:
        """Nothing: `sharing` and `writing` look at the file."""

    def check_open(self) -> None:
        """Raise an error if the store is closed; else show its newest version."""
        super().check_open()
        self.sharing.follow()


class SharedPending(PendingChanges):
    """The pending changes of a store with ``locking=True``."""

    __slots__ = ()

    def check_revision(self, revision: int) -> None:
        """Do nothing: iterators give the keys of the version at their beginning."""


class SharedLeaf(FollowingHandle, LiveHandle):
    """A live leaf that follows its store: each change of it is a change of the store, which others see at once."""

    __slots__ = ()

    def _follow(self) -> None:
        session = None if self.session is None else self.session()
        if session is not None and session.sharing is not None and not session.closed:
            session.sharing.follow()

    def require_writable(self) -> None:
        session = None if self.session is None else self.session()
        if session is not None:
            session.check_between("change a leaf")  # what would be published at the end of that, or never
        super().require_writable()

    def _writing(self) -> SharedWriting:
        """What takes turns with others. Raises if the leaf cannot be changed."""
        self.require_writable()
        session = None if self.session is None else self.session()
        writing = None if session is None else session.writing
        assert writing is not None
        return writing

    def refresh(self) -> bool:
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
        self._writing().hold()

    def unlock(self) -> None:
        session = None if self.session is None else self.session()
        writing = None if session is None else session.writing
        if writing is None or not writing.is_held:
            raise RuntimeError("unlock() without lock()")
        writing.let_go(False)

    def editing(self) -> AbstractContextManager[Any]:
        """Block changes by everybody else, in any process, and start from the newest version."""
        return self._editing(self._writing())

    @contextmanager
    def _editing(self, writing: SharedWriting) -> Iterator[None]:
        with writing:
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
