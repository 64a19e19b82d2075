"""Publishing the pending changes of a store, and showing the version that is published."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

from blosc2 import _files
from blosc2._backends import ByteRange, NewVersion
from blosc2._core.io.sharing import Block
from blosc2._core.leaves.store_state import Change
from blosc2._stores.contents import begin_version, forget_published_keys, recount
from blosc2._stores.session import Session
from blosc2.exceptions import FormatError, StoreKeyError, explain, name_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from blosc2._files import Compaction, Progress
    from blosc2._stores.store import Store
    from blosc2._stores.transaction import AllOrNone


class Publishing(Protocol):
    """When a store publishes changes without waiting for `flush`; see `LeafPublishing` and `PacedPublishing`."""

    lazily: bool

    @property
    def hidden(self) -> frozenset[str] | set[str]: ...
    def is_due(self, store: Any, nbytes: int, block: AllOrNone | None) -> bool: ...
    def quiet_time(self, store: Any) -> tuple[int, float]: ...
    def put(self, store: Any, key: str, byte_range: ByteRange, value: Any) -> bool: ...
    def remove(self, store: Any, key: str) -> bool: ...
    def end_block(self, store: Any, block: AllOrNone) -> None: ...
    def make_durable(self, store: Any, *, durable: bool) -> None: ...
    def is_unsettled(self, store: Any) -> bool: ...
    def forget_key(self, key: str, *, removed: bool = False) -> None: ...
    def clear(self, *, published: bool) -> None: ...


class _NoPublishing:
    """For stores that are read only."""

    lazily = False
    hidden: Final[frozenset[str]] = frozenset()

    def is_due(self, *_: object) -> bool:
        return False

    put = remove = is_unsettled = is_due

    def quiet_time(self, store: Any) -> tuple[int, float]:  # noqa: ARG002
        return -1, 0.0

    def end_block(self, *_: object, **__: object) -> None:
        pass

    make_durable = forget_key = clear = end_block


NOTHING: Final[Publishing] = _NoPublishing()


# ------------------------------------------------------------------ publishing
def flush(store: Store, *, durable: bool) -> None:
    """Publish all pending changes of a store."""
    with Change(store._session):
        pending, publishing = store._pending, store._publishing
        store._leaves.collect(pending.frames)
        pending.unwritten = pending.unwritten or bool(publishing.hidden)
        if pending.frames or pending.unwritten:
            _publish(store, durable=durable)
            try:
                _forget_published(store)
            except BaseException:
                _forget_published(store)  # it was interrupted
                raise
        if store._session.mode != "r":
            publishing.make_durable(store, durable=durable)


def _forget_published(store: Store) -> None:
    """All pending changes are published; it may be called again."""
    # First forget the changes, then what holds their bytes.
    store._pending.clear()
    store._backend.forget_staged()
    store._publishing.clear(published=True)
    if store._pending.blocks:
        store._pending.forget_undo()


def flush_checked(store: Store, *, durable: bool) -> None:
    """Publish all pending changes of a store, if it may be published now."""
    session = store._session
    if session.closed:
        raise session.closed_error()
    if session.mode == "r":
        return
    if session.is_changing:
        session.check_between("flush")
    _flush_now(store, durable=durable)


def _flush_now(store: Store, *, durable: bool) -> None:
    session = store._session
    session.check_own()
    if session.writing is not None and (session.writing.is_gone or not store._needs_closing()):
        return  # and wait for nobody: all is published
    with store._lock:
        if session.streaming:
            session.check_not_streaming("flush")
        if session.unsure:
            session.check_open()
        if session.transaction is not None:
            raise RuntimeError("a transaction is under way: it publishes all its changes at its end")
        try:
            flush(store, durable=durable)
        except BaseException as error:
            explain(error, "your changes are kept in the store object: flush() again, or discard() them")
            raise


def compact(store: Store, progress: Progress | None) -> Compaction:
    """Publish pending changes, and rewrite a store without unused bytes."""
    session = store._session
    session.check_writable("compact")
    with store._lock, Change(session):
        if session.transaction is not None:
            raise RuntimeError("a transaction is under way: compact before or after it")
        flush(store, durable=True)
        backend = store._backend
        if backend.embedded is None:  # nothing was ever published, or all of it was dropped
            return _files.Compaction(0, 0)
        before = backend.size()
        try:
            load_if_behind(store)
            with Publication(store):
                backend.compact(progress)
                show(store, backend.show_published)
        except OSError as error:
            name_file(error, store._file)
            raise
        return _files.Compaction(before, backend.size())


def _publish(store: Store, *, durable: bool) -> None:
    backend, pending, publishing = store._backend, store._pending, store._publishing
    if backend.behind:
        load(store)
    new = NewVersion(
        pending.frames, pending.tiers, pending.registry, publishing.hidden, durable=durable, lazy=publishing.lazily
    )
    publication = Publication(store)
    try:
        with publication:
            backend.publish(new)
            if not store._session.ending:
                # The next version may have other leaves below groups that were removed.
                removed, pending.removed_groups = pending.removed_groups, ()
                try:
                    show(store, backend.show_published)
                except BaseException:
                    pending.removed_groups = removed
                    raise
    except BaseException as error:
        explain(error, publication.outcome())
        name_file(error, store._file)
        raise


class Publication(Block):
    """The step that publishes something, and shows it. If it is left early, the store shows what is in the file then.

    From its beginning to its end the session is `unsure`. However the block is left, whoever uses the store next looks
    at the file first, if that was not done: `Session.check_open` and `load_if_behind`, without which nothing publishes.
    """

    __slots__ = ("_is_published", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_published = False

    def __enter__(self) -> None:
        session = self._store._session
        session.publishes = ref(self._store)
        session.unsure = True

    def _leave(self, failed: bool) -> None:
        store = self._store
        if not failed:
            store._session.unsure = store._session.ending  # what is not read, as the store is being closed
            return
        forget_published_keys(store)  # some files of a directory may be in place
        with suppress(OSError, FormatError):
            self._is_published = settle(store) or self._is_published

    def outcome(self) -> str:
        """What became of changes that could not be published."""
        backend = self._store._backend
        if not backend.all_or_none:
            return "some leaves may be new already, the others are as they were"
        if backend.behind or self._is_published:
            return "the changes were written and others may see them, but that did not come to its end"
        return "nothing of the changes was published"


def settle(store: Store) -> bool:
    """Show what is published, if something may be that is not shown; whether there was something."""
    session, backend, pending, leaves = store._session, store._backend, store._pending, store._leaves
    found = False
    if backend.behind:
        before = _version(store)
        load(store)
        found = _version(store) != before
        if found and backend.all_or_none:
            # The pending changes are in it: nobody takes them back, and the next publication repeats them.
            pending.forget_undo()
            pending.frames, pending.removed_groups = pending.frames.copy(), ()
        recount(store)
        settled = leaves.all_keys() - pending.frames.keys() - leaves.edited.keys()
        leaves.reload(settled, store._contents.byte_range)
    session.unsure = False
    if session.sharing is None:
        session.asks = session.closed
    return found


def settle_beside(store: Store) -> None:
    """`settle`, for whoever uses the store next."""
    with store._lock, Change(store._session):
        if not store._session.closed:
            with suppress(OSError, FormatError):  # whoever publishes on top of it will be told
                settle(store)


def _version(store: Store) -> tuple[Any, ...]:
    """What tells the version that is shown from others."""
    members, embedded = store._backend.members, store._backend.embedded
    header = None if embedded is None else embedded.frame.header_bytes()
    return None if members is None else members.version.record, header


def may_publish(store: Store, block: AllOrNone | None) -> bool:
    """Whether a store may publish now without being told to.

    Not in a transaction, in an inner block of this thread, while another thread is
    within one, and in a forked child.
    """
    session = store._session
    return (
        session.transaction is None
        and list(store._pending.blocks.values()) == ([] if block is None else [block])
        and (block is None or not block.is_inner)
        and not (session.closed or session.streaming or session.is_inherited)
    )


# ------------------------------------------------------------------ showing
def show(store: Store, read: Callable[[], bool | None]) -> bool:
    """Let the backend read a version, and show that.

    Returns False if the backend says that it is the version shown. If reading fails, the version shown stays.
    """
    backend = store._backend
    before = backend.shown()
    try:
        return _show_now(store, read)
    except BaseException:
        backend.show(before)
        begin_version(store)
        with suppress(OSError, FormatError):
            recount(store)
        raise


def _show_now(store: Store, read: Callable[[], bool | None]) -> bool:
    if read() is False:
        return False
    begin_version(store)
    return True


def load(store: Store) -> None:
    """Show the published version."""
    show(store, store._backend.load)


def load_if_behind(store: Store) -> None:
    """Show the published version if this store has published a newer one than it shows."""
    if store._backend.behind:
        load(store)


def refresh(store: Store) -> bool:
    """Show the published version; False if it is the one shown."""
    session = store._session
    if session.sharing is not None and not session.closed:
        return session.sharing.follow()
    session.check_open()
    session.check_between("refresh")
    with store._lock, Change(session):
        session.check_not_streaming("refresh")
        if store._unpublished or store._pending.unwritten:
            raise ValueError(f"{store!r} has unpublished changes: flush() or discard() them first")
        return show_newest(store, by_others=session.mode == "r")


def show_newest(store: Store, *, by_others: bool) -> bool:
    """Show the published version, which may be `by_others`; False if it is the one shown."""
    if by_others and not store._backend.lists_cheaply:
        store._forget_leaves()  # nothing tells which of them are new
    if not show(store, store._backend.reload):
        return False
    store._pending.revision += 1
    store._forget_leaves()
    return True


def show_published(store: Store, keys: list[str]) -> None:
    """Show what is published, after changes were taken back that may be published already."""
    with suppress(OSError, FormatError):  # then it is read before the next publication
        load(store)
        recount(store)
    store._leaves.reload(keys, store._contents.byte_range)


# ------------------------------------------------------------------ dropping, closing
def discard(store: Store) -> None:
    """Drop all pending changes of a store, and show what is published."""
    session = store._session
    session.check_open()
    session.check_own()
    session.check_between("discard changes")
    with store._lock, Change(session):
        session.check_not_streaming("discard changes")
        if session.transaction is not None:
            raise RuntimeError("a transaction is under way: it drops its changes when its block raises")
        if session.unsure:
            session.settle()
        touched = {*store._leaves.edited, *store._pending.frames}
        drop(store)
        if store._backend.behind:
            load(store)
            store._leaves.reload_edited(touched, store._contents.byte_range)


def drop(store: Store) -> None:
    """Drop all pending changes, also those of leaves that somebody holds."""
    touched = {*store._leaves.edited, *store._pending.frames}
    store._pending.revision += bool(store._pending.frames or store._pending.removed_groups)
    try:
        _drop_now(store, touched)
    except BaseException:
        _drop_now(store, touched)  # an interrupt came between
        raise


def _drop_now(store: Store, touched: set[str]) -> None:
    """Drop all changes, which are of the keys in `touched`; it may be called again."""
    store._pending.clear()
    store._backend.discard()
    store._publishing.clear(published=False)
    recount(store)
    store._leaves.reload_edited(touched, store._contents.byte_range)


def end(store: Store) -> None:
    """Close a store without publishing."""
    try:
        _end_now(store)
    except BaseException:
        _end_now(store)  # an interrupt came between
        raise


def _end_now(store: Store) -> None:
    """Release everything; it may be called again."""
    session = store._session
    session.end()
    store._pending.frames = {}
    try:
        store._forget_leaves()
        store._backend.close()
        store._forget_answers()
        store._contents.begin_version()
    finally:
        if session.writer_lock is not None:
            session.writer_lock.release()


def _among_threads(store: Store) -> AbstractContextManager[Any]:
    """What keeps other threads of the process from changing a store.

    With locking=True the store's lock is that of all programs, and closing a store that has nothing to publish waits
    for none of these.
    """
    session = store._session
    if session.sharing is None:
        return store._lock
    return nullcontext() if session.writing is None else session.writing.threads


def close(store: Store, *, durable: bool) -> None:
    """Publish pending changes and close a store; other handles that share it go on."""
    session = store._session
    if session.writer_lock is not None and session.writer_lock.inherited:
        if not detach(store):
            store._backend.abandon()
            end(store)
        return
    session.check_between("close the store")
    # What another thread sets is published, or refused: not set between the two steps, and lost.
    with _among_threads(store), Change(session) if session.sharing is None else nullcontext():
        if session.closed:
            return
        if session.handles and session.handles_beside(store):
            if session.transaction is None:  # which publishes at its end
                _flush_now(store, durable=durable)
            detach(store)
            return
        try:
            store._leaves.refuse_all_edits(session)
            if session.mode != "r":
                _flush_now(store, durable=durable)
            end(store)
        except BaseException:
            session.ending = False
            if not session.closed:
                with suppress(OSError, FormatError):  # show what was published all the same
                    settle(store)
            raise


def detach(store: Store) -> bool:
    """Close one handle of several that share a store, without publishing; False if there are no others."""
    session = store._session
    others = session.handles_beside(store)
    if not others:
        return False
    session.publishes = ref(others[0])
    store._session = closed = Session()
    closed.path, closed.mode, closed.writer_lock, closed.lock = session.path, session.mode, None, session.lock
    closed.end()
    store._use_open_leaves({}, store._hidden_name, False)
    store._setter = None
    return True


def replace(store: Store) -> None:
    """Close a store whose path is about to be emptied by another handle; its changes are dropped."""
    session = store._session
    with _among_threads(store), Change(session):
        if session.closed:
            return
        session.is_replaced = True
        try:
            store._leaves.refuse_all_edits(session)
            with suppress(OSError, FormatError):  # of files that were removed
                drop(store)
        finally:
            end(store)


def leave(store: Store, error: BaseException | None) -> None:
    """Close a store at the end of its ``with`` block, which this error ends."""
    session = store._session
    if session.closed:
        return
    session.check_between("close the store")
    try:
        if isinstance(error, StoreKeyError):
            str(error)  # looks for keys like the missing one, as long as the store is open
        if error is None or session.is_inherited:
            store.close()
            return
        with _among_threads(store):
            if not (store._unpublished or store.closed or session.handles_beside(store)):
                drop(store)  # a new store is not made, and an old one not emptied, for nothing
            store.close()
    finally:
        # What could not be published by now never will be.
        if not store.closed and not detach(store):
            try:
                drop(store)
            finally:
                end(store)
