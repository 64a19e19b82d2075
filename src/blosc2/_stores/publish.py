"""Publishing the pending changes of a store, and showing the version that is published."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import nullcontext, suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from blosc2 import _files
from blosc2._backends import ByteRange, NewVersion, TieredBackend
from blosc2._core.io.sharing import Block
from blosc2._core.leaves.store_state import Change
from blosc2._files import to_the_end
from blosc2._options import told_commit, told_rewrite
from blosc2._stores.leaf_table import table_of
from blosc2._stores.session import Session
from blosc2.exceptions import FormatError, StoreKeyError, explain, name_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from blosc2._files import Compaction, Progress
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store
    from blosc2._stores.transaction import AllOrNone


class Publishing:
    """When a store publishes changes without waiting for `flush`: never, as it is here, for stores that are read only.

    `PacedPublishing` and `LeafPublishing` say otherwise. The table of the store is an argument of each call and not
    kept, so a store that is dropped is freed at once.

    Attributes
    ----------
    lazily : bool
        Whether a power cut may lose the publication under way.
    hidden : set of str
        Keys of embedded values that files hide. The next publication removes these values.
    """

    __slots__ = ()

    lazily = False
    hidden: frozenset[str] | set[str] = frozenset()

    def is_due(self, table: LeafTable, nbytes: int, block: AllOrNone | None) -> bool:  # noqa: ARG002
        """Whether to publish now, with `nbytes` more than are pending; `block` is about to end."""
        return False

    def quiet_time(self, table: LeafTable) -> tuple[int, float]:  # noqa: ARG002
        """How many bytes may be pending, and until when, before `is_due` is asked again; -1 for any number."""
        return -1, 0.0

    def put(self, table: LeafTable, key: str, byte_range: ByteRange, value: Any) -> bool:  # noqa: ARG002
        """Publish a leaf alone; False if it is published with other changes."""
        return False

    def remove(self, table: LeafTable, key: str) -> bool:  # noqa: ARG002
        """Remove a leaf from what is published; False if that has to be published with other changes."""
        return False

    def end_block(self, table: LeafTable, block: AllOrNone) -> None:
        """Publish the changes of a block, as far as they are due."""

    def make_durable(self, table: LeafTable, *, durable: bool) -> None:
        """All changes are published: make them durable if `durable`, and remove what was kept for them."""

    def is_unsettled(self, table: LeafTable) -> bool:  # noqa: ARG002
        """Whether something was published that a power cut may undo, or an embedded value is still to be removed."""
        return False

    def note_removed(self, key: str) -> None:
        """The pending change of this key was replaced by its removal."""

    def clear(self, *, published: bool) -> None:
        """All pending changes were published, or dropped."""


NOTHING: Final = Publishing()


# ------------------------------------------------------------------ publishing
def flush(table: LeafTable, *, durable: bool) -> None:
    """Publish all pending changes of a store."""
    with Change(table.session):
        pending, publishing = table.pending, table.publishing
        table.leaves.collect(pending)
        pending.unwritten = pending.unwritten or bool(publishing.hidden)
        if pending.frames or pending.unwritten:
            _publish(table, durable=durable)
            _forget_published(table)
            if table.backend.may_be_large and not table.session.ending:
                _keep_small(table)
        if table.session.mode != "r":
            publishing.make_durable(table, durable=durable)


@to_the_end
def _forget_published(table: LeafTable) -> None:
    """All pending changes are published."""
    # First forget the changes, then what holds their bytes.
    table.pending.clear()
    table.backend.forget_staged()
    table.publishing.clear(published=True)
    if table.pending.blocks:
        table.pending.forget_undo()


def _keep_small(table: LeafTable) -> None:
    """Write a store anew that its publications have made far larger than it need be; nothing is lost if that fails."""
    backend = table.backend
    with suppress(OSError, FormatError, MemoryError):
        if backend.has_outgrown(shared=table.session.sharing is not None) and _files.is_replaceable(backend.named):
            _write_anew(table, None)


def _write_anew(table: LeafTable, progress: Progress | None, *, is_shown: bool = True) -> Compaction:
    """Rewrite the published version without unused bytes; show it, unless nobody will use it any more."""
    backend, before = table.backend, table.backend.size()
    with Publication(table):
        backend.compact(progress)
        if is_shown:
            show(table, backend.show_published)
    told_rewrite(backend.named, before, backend.size())
    return _files.Compaction(before, backend.size())


def flush_checked(table: LeafTable, *, durable: bool) -> None:
    """Publish all pending changes of a store, if it may be published now."""
    session = table.session
    if session.closed:
        raise session.closed_error()
    if session.mode == "r":
        return
    if session.is_changing:
        session.check_between("flush")
    _flush_now(table, durable=durable)


def _flush_now(table: LeafTable, *, durable: bool) -> None:
    session = table.session
    session.check_own()
    if session.writing is not None and (session.writing.is_gone or not table.needs_closing()):
        return  # and wait for nobody: all is published
    with table.lock:
        if session.streaming:
            session.check_not_streaming("flush")
        if session.unsure:
            session.check_open()
        if session.transaction is not None:
            raise _files.unfinished_transaction()
        try:
            flush(table, durable=durable)
        except BaseException as error:
            if table.needs_closing():  # an interrupt may come behind that, as the store is written anew
                explain_kept(table, error)
            raise


def explain_kept(table: LeafTable, error: BaseException) -> None:
    """Say in an error how the changes that were not published can be saved."""
    lost = isinstance(error, OSError) and error.errno in (errno.EBUSY, errno.ENOENT)
    if not lost:
        what = "flush() again, or discard() them"
    elif isinstance(table.backend, TieredBackend):
        what = "to_b2z('NEW.b2z') writes the whole store with them to a new file, or discard() them"
    else:
        what = "DictStore('NEW.b2z').update(store) writes the whole store with them to a new file, or discard() them"
    explain(error, f"your changes are kept in the store object: {what}")


def compact(table: LeafTable, progress: Progress | None) -> Compaction:
    """Publish pending changes, and rewrite a store without unused bytes."""
    session = table.session
    session.check_writable("compact")
    with table.lock, Change(session):
        if session.transaction is not None:
            raise RuntimeError("a transaction is under way: compact before or after it")
        flush(table, durable=True)
        backend = table.backend
        if backend.embedded is None:  # nothing was ever published, or all of it was dropped
            return _files.Compaction(0, 0)
        try:
            load_if_behind(table)
            return _write_anew(table, progress)
        except OSError as error:
            name_file(error, table.backend.named)
            raise


def _publish(table: LeafTable, *, durable: bool) -> None:
    backend, pending, publishing = table.backend, table.pending, table.publishing
    if backend.behind:
        load(table)
    new = NewVersion(
        pending.frames, pending.tiers, pending.registry, publishing.hidden, durable=durable, lazy=publishing.lazily
    )
    publication = Publication(table)
    try:
        with publication:
            backend.publish(new)
            if not table.session.ending:
                # The next version may have other leaves below groups that were removed.
                removed, pending.removed_groups = pending.removed_groups, ()
                try:
                    show(table, backend.show_published)
                    publication.is_shown = True
                except BaseException:
                    pending.removed_groups = removed
                    raise
    except BaseException as error:
        if publication.is_shown:  # the interrupt came behind that
            _keep_published(table)
        explain(error, publication.outcome())
        name_file(error, table.backend.named)
        raise


class Publication(Block):
    """The step that publishes something, and shows it. If it is left early, the store shows what is in the file then.

    From its beginning to its end the session is `unsure`. However the block is left, whoever uses the store next looks
    at the file first, if that was not done: `Session.check_open` and `load_if_behind`, without which nothing publishes.
    """

    __slots__ = ("_is_published", "_table", "is_shown")

    def __init__(self, table: LeafTable) -> None:
        self._table = table
        self._is_published = False
        #: Whether the pending changes are published, and shown: an interrupt may come before the block is left.
        self.is_shown = False

    def __enter__(self) -> None:
        session = self._table.session
        session.publishes = ref(self._table)
        session.unsure = True

    def _leave(self, failed: bool) -> None:
        table = self._table
        if not failed:
            table.session.unsure = table.session.ending  # what is not read, as the store is being closed
            told_commit(table.backend.named)
            return
        table.forget_published_keys()  # some files of a directory may be in place
        with suppress(OSError, FormatError):
            self._is_published = settle(table) or self._is_published

    def outcome(self) -> str:
        """What became of changes that could not be published."""
        backend = self._table.backend
        if not backend.all_or_none:
            return "some leaves may be new already, the others are as they were"
        if backend.behind or self._is_published or self.is_shown:
            return "the changes were written and others may see them, but that did not come to its end"
        return "nothing of the changes was published"


def _keep_published(table: LeafTable) -> None:
    """The pending changes are in the version that is shown: nobody takes them back; they are published once more."""
    table.pending.forget_undo()
    table.pending.frames, table.pending.removed_groups = table.pending.frames.copy(), ()


def settle(table: LeafTable) -> bool:
    """Show what is published, if something may be that is not shown; whether there was something."""
    session, backend, pending, leaves = table.session, table.backend, table.pending, table.leaves
    found = False
    if backend.behind:
        before = _version(table)
        load(table)
        found = _version(table) != before
        if found and backend.all_or_none:
            _keep_published(table)
        table.recount()
        settled = leaves.all_keys() - pending.frames.keys() - leaves.edited.keys()
        leaves.reload(settled, table.contents.byte_range)
    session.unsure = False
    if session.sharing is None:
        session.asks = session.closed
    return found


def settle_beside(table: LeafTable) -> None:
    """`settle`, for whoever uses the store next."""
    with table.lock, Change(table.session):
        if not table.session.closed:
            with suppress(OSError, FormatError):  # whoever publishes on top of it will be told
                settle(table)


def _version(table: LeafTable) -> tuple[Any, ...]:
    """What tells the version that is shown from others."""
    members, embedded = table.backend.members, table.backend.embedded
    header = None if embedded is None else embedded.frame.header_bytes()
    return None if members is None else members.version.record, header


def may_publish(table: LeafTable, block: AllOrNone | None) -> bool:
    """Whether a store may publish now without being told to.

    Not in a transaction, in an inner block of this thread, while another thread is
    within one, and in a forked child.
    """
    session = table.session
    return (
        session.transaction is None
        and list(table.pending.blocks.values()) == ([] if block is None else [block])
        and (block is None or not block.is_inner)
        and not (session.closed or session.streaming or session.is_inherited)
    )


# ------------------------------------------------------------------ showing
def show(table: LeafTable, read: Callable[[], bool | None]) -> bool:
    """Let the backend read a version, and show that.

    Returns False if the backend says that it is the version shown. If reading fails, the version shown stays.
    """
    backend = table.backend
    before = backend.shown()
    try:
        is_new = read() is not False
        if is_new:
            table.begin_version()
        return is_new
    except BaseException:
        backend.show(before)
        table.begin_version()
        with suppress(OSError, FormatError):
            table.recount()
        raise


def load(table: LeafTable) -> None:
    """Show the published version."""
    show(table, table.backend.load)


def load_if_behind(table: LeafTable) -> None:
    """Show the published version if this store has published a newer one than it shows."""
    if table.backend.behind:
        load(table)


def refresh(store: Store) -> bool:
    """Show the published version; False if it is the one shown."""
    table = table_of(store)
    session = table.session
    if session.sharing is not None and not session.closed:
        return session.sharing.follow()
    session.check_open()
    session.check_between("refresh")
    with table.lock, Change(session):
        session.check_not_streaming("refresh")
        if table.has_changes or table.pending.unwritten:
            raise ValueError(f"{store!r} has unpublished changes: flush() or discard() them first")
        return show_newest(table, by_others=session.mode == "r")


def show_newest(table: LeafTable, *, by_others: bool) -> bool:
    """Show the published version, which may be `by_others`; False if it is the one shown."""
    if by_others and not table.backend.lists_cheaply:
        table.forget_leaves()  # nothing tells which of them are new
    if not show(table, table.backend.reload):
        return False
    table.pending.revision += 1
    table.forget_leaves()
    return True


def show_published(table: LeafTable, keys: list[str]) -> None:
    """Show what is published, after changes were taken back that may be published already."""
    with suppress(OSError, FormatError):  # then it is read before the next publication
        load(table)
        table.recount()
    table.leaves.reload(keys, table.contents.byte_range)


# ------------------------------------------------------------------ dropping, closing
def discard(table: LeafTable) -> None:
    """Drop all pending changes of a store, and show what is published."""
    session = table.session
    session.check_open()
    session.check_own()
    session.check_between("discard changes")
    with table.lock, Change(session):
        session.check_not_streaming("discard changes")
        if session.transaction is not None:
            raise RuntimeError("a transaction is under way: it drops its changes when its block raises")
        if session.unsure:
            session.settle()
        touched = {*table.leaves.edited, *table.pending.frames}
        drop(table)
        if table.backend.behind:
            load(table)
            table.leaves.reload_edited(touched, table.contents.byte_range)


def drop(table: LeafTable) -> None:
    """Drop all pending changes, also those of leaves that somebody holds."""
    touched = {*table.leaves.edited, *table.pending.frames}
    table.pending.revision += bool(table.pending.frames or table.pending.removed_groups)
    _drop_now(table, touched)


@to_the_end
def _drop_now(table: LeafTable, touched: set[str]) -> None:
    """Drop all changes, which are of the keys in `touched`."""
    table.pending.clear()
    table.backend.discard()
    table.publishing.clear(published=False)
    table.recount()
    table.leaves.reload_edited(touched, table.contents.byte_range)


@to_the_end
def end(table: LeafTable) -> None:
    """Close a store without publishing, and release everything."""
    session = table.session
    session.end()
    table.pending.frames = {}
    try:
        table.forget_leaves()
        table.backend.close()
        table.forget_answers()
        table.contents.begin_version()
    finally:
        if session.writer_lock is not None:
            session.writer_lock.release()


def _among_threads(table: LeafTable) -> AbstractContextManager[Any]:
    """What keeps other threads of the process from changing a store.

    With locking=True the store's lock is that of all programs, and closing a store that has nothing to publish waits
    for none of these.
    """
    session = table.session
    if session.sharing is None:
        return table.lock
    return nullcontext() if session.writing is None else session.writing.threads


def close(table: LeafTable, store: Store, *, durable: bool) -> None:
    """Publish pending changes and close one handle of a table; others go on."""
    session = table.session
    if session.writer_lock is not None and session.writer_lock.inherited:
        if not detach(store):
            table.backend.abandon()
            end(table)
        return
    session.check_between("close the store")
    # What another thread sets is published, or refused: not set between the two steps, and lost.
    with _among_threads(table), Change(session) if session.sharing is None else nullcontext():
        if session.closed:
            return
        if table.handles_beside(store):
            if session.transaction is None:  # which publishes at its end
                _flush_now(table, durable=durable)
            detach(store)
            return
        try:
            table.leaves.refuse_all_edits(session)
            if session.mode != "r":
                _flush_now(table, durable=durable)
                if durable:
                    leave_compact(table)
            end(table)
        except BaseException:
            session.ending = False
            if not session.closed:
                with suppress(OSError, FormatError):  # show what was published all the same
                    settle(table)
            raise


def leave_compact(table: LeafTable) -> None:
    """Compact a store that is closed, if that costs little beside what was written, and hide its older versions.

    All of it is durable, and the compacted store is, too. Nothing is lost if this fails. Others may be reading older
    versions of a store that is shared.
    """
    if table.session.sharing is None and table.backend.named is not None:
        if table.backend.may_compact:
            _compact_at_end(table)
        table.backend.hide_older()


def _compact_at_end(table: LeafTable) -> None:
    session, backend = table.session, table.backend
    with table.lock, Change(session), suppress(OSError, FormatError, MemoryError):
        if (
            session.closed
            or session.streaming
            or session.transaction is not None
            or not _files.is_replaceable(backend.named)
        ):
            return
        if session.unsure:  # as the store is being closed, the last version was not shown
            show(table, backend.show_published)
        if backend.is_worth_compacting():
            _write_anew(table, None, is_shown=False)


def detach(store: Store) -> bool:
    """Close one handle of several that share a store, without publishing; False if there are no others."""
    table = table_of(store)
    if not table.handles_beside(store):
        return False
    closed, session = copy(table), table.session
    closed.handles, closed.session, closed.counted = [], Session(), None
    closed.session.path, closed.session.mode, closed.session.lock = session.path, session.mode, session.lock
    closed.session.writer_lock = None
    closed.session.end()
    store._table = closed
    store._use_open_leaves({}, table.hidden_name, False)
    store._setter = None
    store._forget_answers()
    return True


def replace(table: LeafTable) -> None:
    """Close a store whose path is about to be emptied by another handle; its changes are dropped."""
    session = table.session
    with _among_threads(table), Change(session):
        if session.closed:
            return
        session.is_replaced = True
        try:
            table.leaves.refuse_all_edits(session)
            with suppress(OSError, FormatError):  # of files that were removed
                drop(table)
        finally:
            end(table)


def leave(store: Store, error: BaseException | None) -> None:
    """Close a store at the end of its ``with`` block, which this error ends."""
    table = table_of(store)
    session = table.session
    if session.closed:
        return
    session.check_between("close the store")
    try:
        if isinstance(error, StoreKeyError):
            str(error)  # looks for keys like the missing one, as long as the store is open
        if error is None or session.is_inherited:
            store.close()
            return
        with _among_threads(table):
            if not (table.has_changes or store.closed or table.handles_beside(store)):
                drop(table)  # a new store is not made, and an old one not emptied, for nothing
                if session.sharing is None:  # else others may use it already
                    table.backend.unmake()
            store.close()
    finally:
        # What could not be published by now never will be.
        if not store.closed and not detach(store):
            try:
                drop(table)
            finally:
                end(table)
