"""Changing a store: pending changes, and when they are published.

A store open for writing collects changes, also those of its live leaves, and `flush` or `close` publishes them
together. One writer at a time holds the store's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from blosc2._backends import MAP_BYTES, MEMORY_LIMIT, Moved, NewVersion, Window, canonical_key, new_key
from blosc2._files import Compaction, Progress
from blosc2._frames import settled
from blosc2._handles import LOST_ERRORS
from blosc2._stores.all_or_none import AllOrNone
from blosc2._stores.leaves.leaf import frame_of
from blosc2._stores.reading import ReadableStore
from blosc2._stores.transaction import Transaction
from blosc2._stores.unclosed import end_forgotten
from blosc2._stores.write_many import Items, no_progress, pairs, set_many
from blosc2.exceptions import FormatError, explain, name_file

if TYPE_CHECKING:
    from blosc2._integrity.report import CheckReport


class Store(ReadableStore):
    """What every store does; see `EmbedStore`, `DictStore` and `TreeStore`."""

    #: Checks what lies at a path, or the bytes of a store in memory; see `hooks`.
    checker: ClassVar[Callable[..., CheckReport] | None] = None
    _transaction: Transaction | None = None
    # Whether the publication that is under way need not be durable; and whether the store ends with it.
    _lazily = _is_ending = False

    # ------------------------------------------------------------------ what a kind of store provides
    def _publish(self, changes: dict[str, Window | None], *, durable: bool = True) -> None:
        """Make the changes part of what is on disk, and look at that from now on."""
        self._settle()
        new = self._new_version(changes, durable)
        try:
            self._backend.publish(new)
        except BaseException:
            # Of a directory some files may be in place.
            self._look_again_at_keys()
            raise
        if not self._is_ending:
            self._show_published()

    def _new_version(self, changes: dict[str, Window | None], durable: bool) -> NewVersion:
        """What is to be published."""
        return NewVersion(changes, self._external, durable=durable, lazy=self._lazily)

    def _show_published(self) -> None:
        """Look at what was just published."""
        self._show(self._backend.show_published)

    def _load(self) -> None:
        """Read what is published."""
        self._show(self._backend.load)

    def _show(self, read: Callable[[], bool | None]) -> bool:
        """Show what a backend reads, unless it says that it is what is shown. If that fails, that still is."""
        before = self._backend.shown()
        try:
            if read() is False:
                return False
            self._start()
        except BaseException:
            self._backend.show(before)
            self._forget_keys()
            raise
        return True

    def _start(self) -> None:
        """Begin to show what is published."""
        self._forget_keys()

    def _forget_keys(self) -> None:
        """Forget what was made of the keys of the version that was shown."""
        self._forget_answers()

    def _settle(self) -> None:
        """Before anything is built upon what is shown: see that it is what is published, where it has to be that."""
        if self._backend.must_load:
            self._load()

    def _reload(self) -> bool:
        """Look at what is published now; whether that is another version."""
        return self._show(self._backend.reload)

    @property
    def _is_behind(self) -> bool:
        """Whether something was published here that could not be made durable, or not be read afterwards."""
        return self._backend.behind

    def _is_due(self, nbytes: int, block: AllOrNone | None = None) -> bool:  # noqa: ARG002 - for those that do
        """Whether the store publishes by itself now what waits, and so many bytes more; a `block` is about to end."""
        return False

    def _may_publish(self, block: AllOrNone | None) -> bool:
        """Whether what waits may be published now: not within what is published at once, nor in a forked child."""
        return (
            self._transaction is None
            and list(self._blocks.values()) == ([] if block is None else [block])  # nor in a block of another thread
            and (block is None or not block.is_inner)
            and not (self._closed or self._streaming or self._is_inherited)
        )

    def _publish_now(self, block: AllOrNone) -> None:
        """Do that, at the end of a block."""

    def _see_to_published(self, keys: list[str]) -> None:  # noqa: ARG002 - for those that show it
        """Pending changes of these keys were dropped that may be published: the version before is to come again."""
        self._unwritten = True

    def _put_at_once(self, key: str, window: Window, value: Any) -> bool:  # noqa: ARG002 - for those that do
        """Set a key whose value is published by itself; False where it is one of the changes that gather."""
        return False

    def _catch_up(self) -> None:
        """Show that, after pending changes were dropped."""
        if self._backend.behind:
            self._load()

    def _state(self) -> tuple[Any, ...]:
        """What a transaction must be able to bring back; see `_bring_back`."""
        return dict(self._changes), self._unwritten

    def _bring_back(self, state: tuple[Any, ...]) -> None:
        self._revision += 1
        self._changes, self._unwritten = state

    def _beside_keys(self) -> tuple[Any, ...]:
        """What may wait to be published besides the changes of keys."""
        return (self._unwritten,)

    def _bring_back_beside(self, state: tuple[Any, ...]) -> None:
        """The same again, and keys are as they were then: forget what was made of others."""
        self._unwritten = state[0]

    def _drop_unpublished(self) -> None:
        """Remove what was written for changes that are not published."""
        self._backend.discard()

    # ------------------------------------------------------------------ writing
    def __setitem__(self, key: str, value: Any) -> None:
        key = new_key(key)
        self._check_writable("set items", key)
        with self._lock:
            self._check_place(key)
            window = frame_of(value, key, self._path, self._encoding())
            if self._put_at_once(key, window, value):
                return
            if self._fits(window) and not self._is_due(window[2]):
                self._put(key, settled(window), value)
            else:  # something is to be written, which may fail
                with AllOrNone(self):
                    self._put(key, window, value)

    def _fits(self, window: Window) -> bool:
        """Whether a frame may wait in memory."""
        return self._in_memory + window[2] <= MEMORY_LIMIT

    def __delitem__(self, key: str) -> None:
        key = canonical_key(key)
        self._check_writable("delete items", key)
        with self._lock:
            if not self._has(key):
                raise self._missing_key(key)
            self._remove_one(key)

    def _remove_one(self, key: str) -> None:
        if self._is_due(MAP_BYTES):
            with AllOrNone(self):
                self._remove(key)
        else:
            self._remove(key)

    def clear(self) -> None:
        """Delete all keys."""
        self._check_writable("delete items")
        with self._lock:
            self._remove_all(self._keys())

    def _check_place(self, key: str) -> None:
        """Refuse a key that cannot be given a value here, as it could elsewhere."""

    def _check_thread(self, what: str) -> None:
        transaction = self._transaction
        if transaction is not None and transaction.thread != threading.get_ident():
            raise RuntimeError(
                f"cannot {what}: another thread has a transaction under way; wait for its end, or do it in that thread"
            )

    def _note(self, key: str) -> AllOrNone | None:
        """A key is about to be changed; the block to which that belongs, if there is one."""
        self._check_thread("change keys")
        block = self._blocks.get(threading.get_ident()) if self._blocks else None
        if block is not None:
            block.note(key)
        return block

    def _put(self, key: str, window: Window, value: Any = None) -> None:  # noqa: ARG002 - for tiers
        block = self._note(key)
        self._revision += not self._has(key)
        self._changes[key] = window
        if block is not None:
            block.made(key, window)
        self._leaves.forget(key)
        if isinstance(window, Moved):
            return
        self._in_memory += window[2]
        if self._in_memory > MEMORY_LIMIT:
            try:
                before = {k: w for k, w in self._changes.items() if w and is_in_memory(w)}
                staged = self._backend.stage(before, self._external)
                self._changes.update(staged)
                for block in list(self._blocks.values()):
                    block.staged(before, staged)
            except OSError as error:
                name_file(error, self._file)
                raise
            self._in_memory = 0

    def _remove_all(self, keys: Iterable[str]) -> None:
        with AllOrNone(self):
            for key in keys:
                self._remove(key)

    def _remove(self, key: str) -> None:
        published = self._is_published(key)
        if not published and self._changes.get(key) is None:
            raise FormatError(
                "the store lists this key and does not find it, so it is damaged, or another program changes it: run "
                "blosc2.check() on it",
                path=self._path,
                key=key,
            )
        block = self._note(key)
        self._revision += 1
        self._leaves.forget(key)
        if published:
            self._changes[key] = None
        else:
            del self._changes[key]
        if block is not None:
            block.made(key, None if published else ...)

    def _count_memory(self) -> None:
        """Pending changes are others than those that were counted."""
        self._in_memory = sum(window[2] for window in self._changes.values() if window and is_in_memory(window))

    def update(self, other: Items = (), /, **more: Any) -> None:  # type: ignore[override]  # one for all of its forms
        """Set many keys, from a mapping or from pairs of key and value, like a dict; if anything raises, none of them.

        They are published with the next flush, like all changes. Only 256 keys or more, for a `.b2z` without pending
        changes and outside a transaction, are published at once, when all are written, together with what other threads
        set meanwhile. A key that another thread sets meanwhile keeps that thread's value.
        """
        with AllOrNone(self):
            self._update(pairs(other, more))

    def _update(self, items: Iterator[tuple[str, Any]]) -> None:
        set_many(self, items)

    def write_many(self, items: Items, *, progress: Callable[[int, int], Any] | None = None) -> int:
        """Set many keys at once: values are taken one by one, compressed in several threads, and published together.

        Changes made before the call are published first. The values become visible in one step, after the last one is
        written; if anything raises, none of them is stored. Inside a transaction, they are published with it.

        A `.b2z` is written as the values come, and memory is bounded, whatever their number: the records of the
        directory are sorted in files when they exceed 96 MiB. (To notice keys that exclude each other, hashes of 24 to
        60 bytes are kept for up to 4 million leaves; further keys are not compared with each other.) The other stores
        keep some hundred bytes for each leaf until the end.

        Parameters
        ----------
        items : mapping, or iterable of (str, array_like)
            Keys and values. If a key comes twice, the last value counts. An array may be used again for the next value.
        progress : callable, optional
            Called from time to time, and at the end, with the number of leaves written and their uncompressed bytes.

        Returns
        -------
        int
            The number of values written.

        Raises
        ------
        ValueError, TypeError
            A key or value cannot be stored, as for ``store[key] = value``.
        RuntimeError
            The iterable changes, flushes or closes the `.b2z` meanwhile. It may read it.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "tiles.b2z")
        >>> with blosc2.TreeStore(path, mode="w") as store:
        ...     store.write_many((f"/{n % 3}/{n}", np.full((8, 8), n)) for n in range(12))
        12
        """
        self._check_writable("write many items")
        with self._lock:
            if self._streaming:  # since the lock was asked for
                self._check_writable("write many items")
            if self._transaction is not None:
                with AllOrNone(self):
                    return set_many(self, pairs(items), progress or no_progress)
            self._gather()
            if self._changes:
                self._flush(durable=True)
            count = self._write_many(pairs(items), progress or no_progress)
        self._check_own()  # a child that the giver of the values has forked has stored none
        return count

    def _write_many(self, items: Iterator[tuple[str, Any]], progress: Callable[[int, int], Any]) -> int:
        with self.transaction():
            return set_many(self, items, progress)

    def _encoding(self) -> dict[str, Any]:
        """Keyword arguments for arrays that the store makes of plain values."""
        return {}

    def _gather(self) -> None:
        """Take over the leaves that were changed since they were handed out."""
        self._leaves.gather(self._changes)

    @property
    def _unpublished(self) -> bool:
        return bool(self._changes or self._leaves.edited)

    @property
    def _is_open_end(self) -> bool:
        """Whether there is something to do at the end: to publish, or to make durable what was published."""
        return self._unpublished

    def flush(self, durable: bool = True) -> None:
        """Publish all changes: when it returns, they are on disk and visible to new readers.

        Without changes it does nothing. Leaves that you hold stay live.

        Parameters
        ----------
        durable : bool
            False does not wait for the disk. This is faster, and safe if the process dies, but a power cut may lose the
            last changes, or damage files that were changed in place.

        Raises
        ------
        RuntimeError
            Called inside a transaction, which publishes when it ends.
        """
        self._check_open()
        if self._mode == "r":
            return
        self._check_own()
        with self._lock:
            self._check_not_streaming("flush")
            if self._transaction is not None:
                raise RuntimeError("a transaction is under way: it publishes all its changes at its end")
            try:
                self._flush(durable)
            except BaseException as error:
                explain(error, "your changes are kept in the store object: flush() again, or discard() them")
                raise

    def _flush(self, durable: bool) -> None:
        self._gather()
        if self._changes or self._unwritten:
            try:
                self._publish(self._changes, durable=durable)
            except BaseException as error:
                explain(error, self._outcome())
                name_file(error, self._file)
                raise
            self._forget_published()
            self._forget_blocks()

    def _forget_published(self) -> None:
        """All changes are published, and shown: first they, then what they lay in."""
        self._changes = {}
        self._in_memory = 0
        self._unwritten = False
        self._backend.forget_staged()

    def _outcome(self) -> str:
        """What became of changes that could not be published."""
        if not self._backend.all_or_none:
            return "some leaves may be new already, the others are as they were"
        if self._is_behind:
            return "the changes were written and others may see them, but that did not come to its end"
        return "nothing of the changes was published"

    def _forget_blocks(self) -> None:
        """What was changed by now is published, and stays."""
        for block in list(self._blocks.values()):
            block.forget()

    def transaction(self) -> Transaction:
        """Publish all changes of a ``with`` block at once, or none of them if it raises.

        Changes that were pending before the block are published with those of the block, and stay pending if it raises.
        Until the block ends, only the thread that began it can change the store. `doc/durability.md` says what others
        see at any moment, and after a crash.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> store = blosc2.EmbedStore(os.path.join(tempfile.mkdtemp(), "probes.b2e"), mode="w")
        >>> with store.transaction():
        ...     store["/a"] = [1, 2]
        ...     store["/b"] = [3, 4]
        >>> try:
        ...     with store.transaction():
        ...         del store["/a"]
        ...         store["/b"] = 5 / 0
        ... except ZeroDivisionError:
        ...     pass
        >>> sorted(store)
        ['/a', '/b']
        >>> store.close()
        """
        self._check_writable("begin a transaction")
        return Transaction(self)

    def rename(self, old: str, new: str) -> None:
        """Give a leaf another key; its data stay as they are. The change is published with the next flush.

        In a `TreeStore` a group can be renamed too, with everything below it. Leaves are not read, except in a `.b2z`:
        there the stored bytes are copied, because the name of a member comes before its data.

        Raises
        ------
        KeyError
            There is no such key.
        ValueError
            The new key exists, or is not allowed in a store.
        """
        old, new = canonical_key(old), new_key(new)
        self._check_writable("rename", old)
        with self._lock:
            if not self._has(old):
                raise self._missing_key(old)
            if old != new:
                self._check_free(new)
                self._check_place(new)
                self._move({old: new})

    def _check_free(self, key: str) -> None:
        if self._has(key):
            raise ValueError(f"Key {key!r} is taken: delete it first")

    def _move(self, names: dict[str, str]) -> None:
        """Rename leaves, which exist, to keys that are free: all, or none if anything fails."""
        if not self._leaves.edited.keys().isdisjoint(names):
            self._gather()
        windows = {old: self._changes.get(old) or self._backend.moved(old) for old in names}
        with AllOrNone(self):
            # All old ones first: what goes is in nobody's way.
            for old in names:
                self._remove(old)
            for old, new in names.items():
                self._put(new, windows[old])

    def compact(self, progress: Progress | None = None) -> Compaction:
        """Rewrite the store without unused bytes, which replaced, deleted or renamed leaves leave behind.

        Unpublished changes are published first. Open readers keep the old files; a crash leaves the old version or the
        new one. Memory is bounded, and the disk must have space for both versions.

        Parameters
        ----------
        progress : callable, optional
            Called with the bytes done so far and the bytes in all.

        Returns
        -------
        Compaction
            The bytes of the store `before` and `after`.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> store = blosc2.DictStore(os.path.join(tempfile.mkdtemp(), "scans.b2z"), mode="w")
        >>> store["/a"], store["/b"] = np.arange(1000), np.arange(50)
        >>> store.flush()
        >>> del store["/a"]
        >>> before, after = store.compact()
        >>> after < before
        True
        >>> store.close()
        """
        self._check_writable("compact")
        with self._lock:
            if self._transaction is not None:
                raise RuntimeError("a transaction is under way: compact before or after it")
            self._flush(durable=True)
            if self._embedded is None:  # nothing was ever published, or all of it was dropped
                return Compaction(0, 0)
            before = self._backend.size()
            try:
                self._catch_up()
                self._backend.compact(progress)
                self._show_published()
            except OSError as error:
                name_file(error, self._file)
                raise
            return Compaction(before, self._backend.size())

    def refresh(self) -> bool:
        """Show the newest version; True if it differs from the one before.

        Until then, a store shows the version that it opened. Leaves that you hold do not change: get them from the
        store again.

        Raises
        ------
        ValueError
            There are unpublished changes.
        """
        self._check_open()
        with self._lock:
            self._check_not_streaming("refresh")
            if self._unpublished or self._unwritten:
                raise ValueError(f"{self!r} has unpublished changes: flush() or discard() them first")
            if not self._reload():
                return False
            self._revision += 1
            self._forget_leaves()
            return True

    def check(self, *, progress: Progress | None = None) -> CheckReport:
        """Read everything that is published and report damage; see `blosc2.check`.

        Unpublished changes are not checked.
        """
        self._check_open()
        path = self._file
        if path is None:
            in_memory: Any = self
            path = in_memory.to_cframe()
        assert self.checker is not None
        return self.checker(path, progress)

    def discard(self) -> None:
        """Drop all unpublished changes, also in leaves that you hold."""
        self._check_open()
        self._check_own()
        with self._lock:
            self._check_not_streaming("discard changes")
            if self._transaction is not None:
                raise RuntimeError("a transaction is under way: it drops its changes when its block raises")
            touched = {*self._leaves.edited, *self._changes}
            self._drop()
            if self._is_behind:
                self._catch_up()
                self._show_leaves_again(touched)

    def _drop(self) -> None:
        touched = {*self._leaves.edited, *self._changes}
        self._revision += bool(self._changes)
        try:
            self._drop_now(touched)
        except BaseException:
            self._drop_now(touched)  # an interrupt came between
            raise

    def _drop_now(self, touched: set[str]) -> None:
        """Forget all changes, of which these are the keys; it may be done again."""
        self._changes = {}
        self._in_memory = 0
        self._unwritten = False
        self._drop_unpublished()
        self._show_leaves_again(touched)

    def close(self, durable: bool = True) -> None:
        """Publish pending changes and close the store. Leaves that you hold stay readable; closing twice is fine.

        Parameters
        ----------
        durable : bool
            As for `flush`.
        """
        if self._closed:
            return
        if self._writer_lock is not None and self._writer_lock.inherited:
            self._backend.abandon()
        else:
            try:
                self._is_ending = True  # what is published is not read again
                self.flush(durable)
            except BaseException:
                self._is_ending = False
                with suppress(OSError, FormatError):  # what is published of it all the same is shown
                    self._catch_up()
                raise
        self._end()

    def _end(self) -> None:
        try:
            self._end_now()
        except BaseException:
            self._end_now()  # an interrupt came between
            raise

    def _end_now(self) -> None:
        """Let go of all; it may be done again."""
        self._closed = True
        self._changes = {}
        try:
            self._forget_leaves()
            self._backend.close()
            self._forget_keys()
        finally:
            if self._writer_lock is not None:
                self._writer_lock.release()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._closed:
            return
        try:
            if kind is not None and not self._unpublished and not self._is_inherited:
                self._drop()  # a new store is not made, and an old one not emptied, for nothing
            self.close()
        finally:
            # What could not be published by now never will be.
            if not self._closed:
                try:
                    self._drop()
                finally:
                    self._end()

    def __del__(self) -> None:
        # A store whose making failed has no state to speak of.
        if not getattr(self, "_closed", True):
            end_forgotten(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._lost is not None:
            return self._lost[1]
        self._check_open()
        if self._mode != "r" or self._file is None:
            raise TypeError(f"{self!r} is open for writing; only a store in mode 'r' can be pickled")
        how = {
            "mmap_mode": self._mmap_mode, "deserialize": self._deserialize, "verify": self._verify,
            "advise": self._advice, **self._given(),
        }  # fmt: skip
        return _reopen, (type(self), self._file, {name: value for name, value in how.items() if value is not None})

    def _given(self) -> dict[str, Any]:
        """What else the store was made with, by the names of the parameters."""
        return {}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        """A closed store, whose every use says why it could not be opened."""
        raise NotImplementedError(path, error, recipe)


def _reopen(kind: type[Store], path: str, how: dict[str, Any]) -> Store:
    """A store from its pickle; raises nothing, as `_opening.pickles` says."""
    make: Any = kind
    try:
        store: Store = make(path, mode="r", **how)
    except LOST_ERRORS as error:
        return kind._stand_in(path, error, (_reopen, (kind, path, how)))
    return store


def is_in_memory(window: Window) -> bool:
    """Whether the bytes of a pending change are nowhere else."""
    return not isinstance(window, Moved) and window[0].path is None
