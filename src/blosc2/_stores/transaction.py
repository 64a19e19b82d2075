"""Changes that are published together or taken back: inside a call, and in a `with` block."""

from __future__ import annotations

import _thread
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self

from blosc2._core.io.sharing import Block, Hold
from blosc2._core.leaves.store_state import Change, KeyUndo
from blosc2._stores.leaf_table import table_of
from blosc2._stores.publish import explain_kept, flush, show_published

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store


# What a key had that had no pending change, and whose leaf nobody held; see `KeyUndo`.
_NOTHING: Final = (..., None, None, None, False)


class AllOrNone(KeyUndo):
    """A block that takes back this thread's changes of a store's keys if it raises.

    The store names each key to the block right before changing it. So a block costs what it changes, whatever else is
    pending. Open leaves of these keys become live again. At the end of the outermost block, a store that publishes
    without `flush` does so; if that fails, the changes of the block are taken back. What is half done on the disk is
    not: its changes stay pending, so that the next publication completes them.
    """

    __slots__ = ("_before_without_keys", "_ended", "_outer", "_table", "thread")

    def __init__(self, table: LeafTable) -> None:
        self._table = table
        self._before_without_keys: tuple[Any, ...] = ()
        self.thread = _thread.get_ident()
        self._outer: AllOrNone | None = None
        self._ended = False

    def __enter__(self) -> Self:
        pending = self._table.pending
        self._before_without_keys = pending.without_keys()
        self._outer = pending.blocks.get(self.thread)
        pending.blocks[self.thread] = self
        return self

    def end(self) -> None:
        """Further changes of the thread belong to the block around this one, if there is one."""
        blocks, thread, outer = self._table.pending.blocks, self.thread, self._outer
        inner = blocks.get(thread)
        if inner is self and outer is not None:
            blocks[thread] = outer
        elif inner is self:
            del blocks[thread]
        while inner is not None and inner is not self:  # a transaction began within the block, and is not over yet
            if inner._outer is self:
                inner._outer = outer
            inner = inner._outer
        self._ended = True

    @property
    def is_inner(self) -> bool:
        """Whether there is a block around it."""
        return self._outer is not None

    def note_together(self, changes: dict[str, Any]) -> None:
        """Keys without a pending change are about to get these; nobody holds a leaf of theirs."""
        before: dict[str, Any] = dict.fromkeys(changes)
        self.before = {**before, **self.before} if self.before else before
        self.changes.update(changes)

    def staged(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Bytes of pending changes were moved, perhaps of changes by this block or an outer one."""
        for key, byte_range in now.items():
            if key in self.changes and self.changes[key] is before[key]:
                self.changes[key] = byte_range
        if self._outer is not None:
            self._outer.staged(before, now)

    def forget_keys(self, keys: Iterable[str]) -> None:
        """The changes of these keys are published, and are not taken back."""
        for key in keys:
            self.before.pop(key, None)
            self.changes.pop(key, None)

    def forget(self) -> None:
        """All changes so far are published, and are not taken back."""
        self.before, self.changes = {}, {}
        self._before_without_keys = self._table.pending.without_keys()
        if self._outer is not None:
            self._outer.forget()

    def _leave(self, failed: bool) -> None:
        """Take back the changes, or hand them to the block around this one. A second call does nothing."""
        if self._ended:
            return
        table, outer = self._table, self._outer
        if not failed and self.before and table.publishing.is_due(table, 0, self):
            with table.lock, Change(table.session):
                try:
                    table.publishing.end_block(table, self)
                except BaseException as error:
                    if table.backend.half_done:
                        self.forget()
                        explain_kept(self._table, error)
                    raise
        if not failed and outer is not None:
            for key, before in list(self.before.items()):
                outer.before.setdefault(key, before)
            outer.changes.update(self.changes)
        unlike = self.before or self._before_without_keys != table.pending.without_keys()
        if failed and unlike and not table.session.closed:
            with table.lock, Change(table.session):
                self.take_back()
        self.end()

    def take_back(self) -> None:
        """Take back the changes, with the lock of the store held; it may be called again if it was interrupted."""
        block = self._table.pending.blocks.get(self.thread)
        while block is not None and block is not self:  # it began within this one, and is not over yet
            block._take_back()
            block = block._outer
        self._take_back()

    def _take_back(self) -> None:
        table = self._table
        pending, leaves = table.pending, table.leaves
        pending.revision += 1
        for key, before in self.before.items():
            byte_range, tier, handle, leaf, edited = before or _NOTHING
            if key in self.changes and pending.frames.get(key, ...) is not self.changes[key]:
                continue
            leaves.forget(key)
            leaves.restore(key, table.session, handle, leaf, edited=edited)
            pending.restore_key(key, byte_range, tier)
        pending.restore_without_keys(self._before_without_keys)
        table.recount()
        pending.count_memory()
        if table.backend.behind:  # the changes may be published
            show_published(table, list(self.before))
        else:
            for key in self.before:
                if not table.contents.has(key):  # its removal was published
                    leaves.forget(key)
        self.before, self.changes = {}, {}


class Transaction(Block):
    """The context manager of `Store.transaction`: an `AllOrNone` block to which edits of leaves belong, too.

    The session knows the block and not this object, so a transaction that is dropped ends.
    """

    __slots__ = ("_held", "_order", "_store", "_table", "_touched", "_undo")

    def __init__(self, store: Store) -> None:
        self._store, self._table = store, table_of(store)
        # What takes back the changes; None before the beginning, and after the end.
        self._undo: AllOrNone | None = None
        # The keys with a pending change at the beginning: files have their frames in this order.
        self._order: list[str] = []
        # Keys whose changes are taken back, also if that is interrupted and begins again.
        self._touched: set[str] = set()
        # The lock of a store that others change, too: until the end, they wait.
        self._held: Hold | None = None

    def __enter__(self) -> Store:
        """Begin, and return the store itself."""
        table = self._table
        session = table.session
        table_of(self._store).session.check_writable("begin a transaction")  # it may have been closed alone
        try:
            if session.writing is not None:
                self._held = Hold(session.writing)
                self._held.begin()
            with table.lock, Change(session):
                if session.transaction is not None:
                    raise RuntimeError("a transaction is under way already: stores have one at a time")
                self._undo = undo = AllOrNone(table)
                table.leaves.refuse_edits_of_others(session, undo)
                table.leaves.collect(table.pending)
                self._order = list(table.pending.frames)
                undo.__enter__()
            return self._store
        except BaseException:
            if session.transaction is self._undo:  # nobody would end it
                self._forget()
            self._let_go(failed=True)
            raise

    def _let_go(self, *, failed: bool) -> None:
        if self._held is not None:
            self._held.let_go(failed)

    def __del__(self) -> None:
        undo = getattr(self, "_undo", None)
        if undo is not None and self._table.session.transaction is undo:
            self._leave(failed=True)

    def _leave(self, failed: bool) -> None:
        """Publish the changes, or take them back. A second call does nothing."""
        try:
            self._end(failed=failed)
        except BaseException:
            self._let_go(failed=True)
            raise
        self._let_go(failed=failed)

    def _end(self, *, failed: bool) -> None:
        table, undo = self._table, self._undo
        session = table.session
        if undo is None:
            return
        if session.closed or session.is_inherited:  # a forked child leaves this to its parent
            self._undo = None
            return
        session.check_between("end a transaction")
        with table.lock, Change(session):
            try:
                if not failed:
                    flush(table, durable=True)
            except BaseException as error:
                if table.backend.half_done:  # as at the end of other blocks: the changes stay pending
                    explain_kept(table, error)
                else:
                    # While the lock is held, so that later changes of other threads are not taken back.
                    self._take_back(undo)
                self._forget()
                raise
            if failed:
                self._take_back(undo)
            self._forget()

    def _forget(self) -> None:
        """The transaction is over."""
        if self._undo is not None:
            self._undo.end()
        self._table.session.transaction = self._undo = None

    def _take_back(self, undo: AllOrNone) -> None:
        leaves, pending = self._table.leaves, self._table.pending
        self._touched.update(leaves.edited, undo.before)
        undo.take_back()
        frames = pending.frames
        pending.frames = {key: frames[key] for key in self._order if key in frames} | frames
        # Leaves may show changes that were taken back.
        leaves.reload_edited(self._touched, self._table.contents.byte_range)
