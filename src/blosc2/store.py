"""The contract of a store: its keys, its modes, its leaves, and when a change is published.

A store maps keys such as ``/scans/007`` to leaves: arrays and super-chunks, each one compressed frame. The three
stores differ in where these frames lie. What they share is here:

- a key is looked up without touching any other leaf, and leads to a window (source, offset, length);
- leaves that are held somewhere are the same object at every access;
- in a store open for writing, changes gather and are published together, by `flush` or `close`;
- a leaf that was handed out stays readable whatever becomes of its store.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from abc import abstractmethod
from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from types import TracebackType
from typing import Any, Final, Never, Self

from blosc2._core.frame import Frame
from blosc2.checking import check, check_bytes
from blosc2.compaction import Compaction, Progress
from blosc2.embedded import Embedded
from blosc2.exceptions import ClosedStoreError, ReadOnlyError, StoreKeyError, StoreLockedError
from blosc2.findings import CheckReport
from blosc2.leaf import LiveCarrier, frame_of, live_carrier, read_only, window_of_bytes
from blosc2.recognise import wrap
from blosc2.store_keys import canonical_key, new_key, plain_key
from blosc2.store_layout import Moved, Window
from blosc2.store_lock import WriterLock
from blosc2.sums import check_reads
from blosc2.transaction import Transaction

_MODES: Final = ("r", "w", "a", "x")
# Unpublished frames are held in memory up to this; a store that can then puts them into files.
_MEMORY_LIMIT: Final = 64 << 20
# References to leaves that may be dead, before they are looked through.
_SWEEP: Final = 1024


def check_mode(mode: str) -> None:
    """Refuse what is not one of the modes of a store."""
    if mode not in _MODES:
        raise ValueError(f"mode must be 'r', 'w', or 'a', or 'x' to create only, not {mode!r}")


def refuse_locking(path: str | None, mmap_mode: str | None) -> Never:
    """Say why a store cannot be changed by several programs at a time."""
    if mmap_mode is not None:
        raise ValueError("locking=True and mmap_mode do not go together, and stores have no locking here")
    kind = "a zip store" if path is not None and path.endswith(".b2z") else "a store"
    raise ValueError(f"locking=True is not possible: {kind} has one writer at a time, and readers need no lock")


def check_mmap_mode(mmap_mode: str | None, mode: str) -> None:
    """Refuse a mapping mode that a store does not have, or not with this mode."""
    if mmap_mode not in (None, "r"):
        raise ValueError(f"mmap_mode must be None or 'r' for a store, not {mmap_mode!r}")
    if mmap_mode == "r" and mode != "r":
        raise ValueError(f"mmap_mode='r' requires mode='r', not {mode!r}: a mapped store is read-only")


class Store(MutableMapping[str, Any]):
    """What every store does; see `EmbedStore`, `DictStore` and `TreeStore`."""

    # Whether what is read is checked against checksums.
    _verify: bool = False
    # What the frame of embedded values holds; None where there is none yet.
    _embedded: Embedded | None

    def __init__(self, path: str | None, mode: str, mmap_mode: str | None, deserialize: str) -> None:
        self._path = path
        self._mode = mode
        self._mmap_mode = mmap_mode
        self._deserialize = deserialize
        self._closed = False
        # New frames by key, None for a key that goes; not published yet.
        self._changes: dict[str, Window | None] = {}
        # Whether the store itself is still to be written, even without keys.
        self._unwritten = False
        self._in_memory = 0
        # What keeps other writers out; None in mode "r" and in memory.
        self._writer_lock: WriterLock | None = None
        self._transaction: Transaction | None = None
        self._lock = threading.RLock()
        self._sweep_at: int = _SWEEP
        self._forget_leaves()

    # ------------------------------------------------------------------ what a kind of store provides
    @abstractmethod
    def _published(self, key: str) -> Window | None:
        """Where the published frame of a key lies; None where there is none, or the key is malformed."""

    @abstractmethod
    def _is_published(self, key: str) -> bool:
        """Whether there is a published key, be it one whose frame cannot be read."""

    @abstractmethod
    def _published_keys(self) -> list[str]:
        """All published keys, in the order in which they are listed."""

    @property
    @abstractmethod
    def _file(self) -> str | None:
        """The path, the same whatever becomes of the working directory."""

    @abstractmethod
    def _publish(self, changes: dict[str, Window | None], *, durable: bool = True) -> None:
        """Make the changes part of what is on disk, and look at that from now on."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of files; leaves keep the sources that they need."""

    @abstractmethod
    def _reload(self) -> bool:
        """Look at what is published now; whether that is another version."""

    @abstractmethod
    def _compact(self, progress: Progress | None) -> None:
        """Write what is published anew, without dead bytes."""

    @abstractmethod
    def _size(self) -> int:
        """Bytes of all files of the store."""

    def _abandon(self) -> None:
        """Forget unpublished changes without touching a file: in a forked child these are the parent's."""

    def _state(self) -> tuple[Any, ...]:
        """What a transaction must be able to bring back; see `_bring_back`."""
        return dict(self._changes), self._unwritten

    def _bring_back(self, state: tuple[Any, ...]) -> None:
        self._changes, self._unwritten = state

    def _drop_unpublished(self) -> None:
        """Remove what was written for changes that are not published."""

    def _stage(self, changes: dict[str, Window]) -> dict[str, Window]:
        """Move unpublished frames out of memory, where the store can."""
        return changes

    # ------------------------------------------------------------------ reading
    def __getitem__(self, key: str) -> Any:
        held = self._held.get(key)
        if held is not None:
            leaf = held()
            if leaf is not None:
                return leaf
        return self._open(key)

    def _open(self, key: str) -> Any:
        """The leaf of a key, opened and remembered for as long as somebody holds it."""
        if self._closed:
            raise self._closed_error()
        if type(key) is not str:
            return self[plain_key(key)]
        leaf = self._leaf(key)
        if leaf is None:
            canonical = canonical_key(key)
            if canonical == key:
                raise self._missing_key(key)
            return self[canonical]
        return leaf

    def _leaf(self, key: str) -> Any | None:
        """The leaf of a key, as it is spelled, opened and remembered; None where there is none."""
        window = self._window(key)
        return None if window is None else self._make(key, window)

    def _make(self, key: str, window: Window) -> Any:
        """A leaf over a window, remembered."""
        if self._mode == "r":
            frame = Frame.open(*window, key)
            if self._verify:
                self._verify_leaf(key, frame)
            leaf = read_only(frame, key, self._path, self._mmap_mode, self._deserialize, self._verify)
            self._hold(key, leaf)
            return leaf
        with self._lock:
            # Array, super-chunk and metadata views of one leaf share one carrier, or an edit would get lost.
            carrier = self._carriers.get(key)
            if carrier is None:
                carrier = live_carrier(window, key, self, self._path, self._deserialize)
                if self._verify:
                    self._verify_leaf(key, carrier.frame)
                    carrier.verify = True
                self._carriers[key] = carrier
            leaf = wrap(carrier)
            self._hold(key, leaf)
            return leaf

    def _verify_leaf(self, key: str, frame: Frame) -> None:
        """Check what can be checked of a leaf before its chunks are, and see that these are.

        Raises `FormatError` where a checksum says that something is not as it was written.
        """
        check_reads(frame)
        embedded = self._embedded
        if embedded is None or key not in embedded.entries:
            return
        if embedded.frame.checks_chunks or check_reads(embedded.frame):
            embedded.locate(key)  # which checks the chunks that hold the value

    def _hold(self, key: str, leaf: Any) -> None:
        held = self._held
        held[key] = weakref.ref(leaf)
        if len(held) > self._sweep_at:
            # References do not remove themselves, which would cost each leaf more than a sweep now and then.
            for name, reference in held.copy().items():
                if reference() is None and held.get(name) is reference:
                    gone = held.pop(name, reference)
                    if gone is not reference:  # another thread has opened the leaf just now
                        held.setdefault(name, gone)
            self._sweep_at = max(_SWEEP, 2 * len(held))

    def _window(self, key: str) -> Window | None:
        """Where the current frame of a key lies, published or not."""
        if self._changes:
            window = self._changes.get(key, ...)
            if window is not ...:
                return self._opened(window) if isinstance(window, Moved) and window.aside else window
        return self._published(key)

    def _opened(self, moved: Moved) -> Window:
        """The window of a frame that is to get another key and lies in a file of its own."""
        raise NotImplementedError(moved)

    def _forget_leaves(self) -> None:
        self._held: dict[str, weakref.ref[Any]] = {}
        self._sweep_at = _SWEEP
        for carrier in list(getattr(self, "_carriers", {}).values()):
            carrier.cut_off()
        self._carriers: weakref.WeakValueDictionary[str, LiveCarrier] = weakref.WeakValueDictionary()
        self._edited: dict[str, LiveCarrier] = {}

    def _forget_leaf(self, key: str) -> None:
        """The key stands for something else, or nothing, from now on."""
        self._held.pop(key, None)
        self._edited.pop(key, None)
        carrier = self._carriers.pop(key, None)
        if carrier is not None:
            carrier.cut_off()

    def _note_change(self, carrier: LiveCarrier) -> None:
        """A leaf was changed: keep it until it is published."""
        if carrier.key is None:
            return
        edited = None
        # Another thread may be taking the notes over: then this one belongs to the next.
        while edited is not self._edited:
            edited = self._edited
            edited[carrier.key] = carrier

    def __contains__(self, key: object) -> bool:
        if self._closed:
            raise self._closed_error()
        if not isinstance(key, str):
            return False
        return self._has(key) or (not key.startswith("/") and self._has("/" + key))

    def _has(self, key: str) -> bool:
        return self._window(key) is not None

    def _keys(self) -> list[str]:
        """All keys that are listed, in their order."""
        self._check_open()
        if not self._changes:
            return self._published_keys()
        published = [key for key in self._published_keys() if self._changes.get(key, ...) is not None]
        known = set(published)
        return published + [key for key, window in self._changes.items() if window is not None and key not in known]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def keys(self) -> KeysView[str]:
        """The keys, in a fixed order; the view compares and combines like a set."""
        self._check_open()
        return KeysView(self)

    def values(self) -> ValuesView[Any]:
        """The leaves, in the order of the keys; each is opened when it is reached."""
        self._check_open()
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:
        """Pairs of key and leaf."""
        self._check_open()
        return ItemsView(self)

    # ------------------------------------------------------------------ writing
    def __setitem__(self, key: str, value: Any) -> None:
        key = new_key(key)
        self._check_writable("set items", key)
        self._check_place(key)
        with self._lock:
            self._put(key, frame_of(value, key, self._path, self._encoding()), value)

    def __delitem__(self, key: str) -> None:
        key = canonical_key(key)
        self._check_writable("delete items", key)
        with self._lock:
            if not self._has(key):
                raise self._missing_key(key)
            self._remove(key)

    def clear(self) -> None:
        """Delete all keys."""
        self._check_writable("delete items")
        with self._lock:
            for key in self._keys():
                self._remove(key)

    def _check_place(self, key: str) -> None:
        """Refuse a key that cannot be given a value here, as it could elsewhere."""

    def _put(self, key: str, window: Window, value: Any = None) -> None:  # noqa: ARG002 - for tiers
        self._changes[key] = window
        self._forget_leaf(key)
        if isinstance(window, Moved):
            return
        self._in_memory += window[2]
        if self._in_memory > _MEMORY_LIMIT:
            self._changes.update(self._stage({k: w for k, w in self._changes.items() if w and _is_in_memory(w)}))
            self._in_memory = 0

    def _remove(self, key: str) -> None:
        self._forget_leaf(key)
        if self._is_published(key):
            self._changes[key] = None
        else:
            del self._changes[key]

    def _encoding(self) -> dict[str, Any]:
        """Keyword arguments for arrays that the store makes of plain values."""
        return {}

    def _gather(self) -> None:
        """Take over the leaves that were changed since they were handed out."""
        edited, self._edited = self._edited, {}
        while edited:
            # Out first: what is changed meanwhile is noted again.
            key, carrier = edited.popitem()
            try:
                self._changes[key] = window_of_bytes(carrier.to_cframe())
            except BaseException:
                for other, left in [(key, carrier), *edited.copy().items()]:
                    self._edited.setdefault(other, left)
                raise

    @property
    def _unpublished(self) -> bool:
        return bool(self._changes or self._edited)

    def flush(self, durable: bool = True) -> None:
        """Publish all changes: when it returns they are on disk, and other readers see them.

        A store without changes is left alone. Leaves that were handed out stay live.

        Parameters
        ----------
        durable : bool
            False does not wait until the disk has the bytes: quicker, safe when the process dies, but a power cut may
            then take the last changes, or damage files that were changed in place.

        Raises
        ------
        RuntimeError
            Within a transaction, which publishes when it ends.
        """
        self._check_open()
        if self._mode == "r":
            return
        self._check_own()
        with self._lock:
            if self._transaction is not None:
                raise RuntimeError("a transaction is under way: it publishes all its changes at its end")
            self._flush(durable)

    def _flush(self, durable: bool) -> None:
        self._gather()
        if self._changes or self._unwritten:
            self._publish(self._changes, durable=durable)
            self._changes = {}
            self._in_memory = 0
            self._unwritten = False

    def transaction(self) -> Transaction:
        """Publish all changes of a ``with`` block at once, or none of them when it raises.

        Changes that were made before the block and not published yet go with those of the block, and are kept if it
        raises. What others see at any moment, and after a crash, is told in `doc/durability.md`.

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
        """Give a leaf another key, with its data as it is; published with the next flush.

        In a `TreeStore` a group can be renamed too, with all that is below it. Bytes of leaves are not read, except in
        a `.b2z`, where a member's name stands before its data: there the stored bytes are copied.

        Raises
        ------
        KeyError
            There is no such key.
        ValueError
            The new key is taken, or not one that a store can have.
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
        if not self._edited.keys().isdisjoint(names):
            self._gather()
        windows = {old: self._changes.get(old) or self._moved(old) for old in names}
        for old, new in names.items():
            self._remove(old)
            self._put(new, windows[old])

    def _moved(self, key: str) -> Window:
        """A published frame for another key."""
        window = self._published(key)
        if window is None:
            raise self._missing_key(key)
        return Moved(window, key)

    def compact(self, progress: Progress | None = None) -> Compaction:
        """Write the store anew without its dead bytes: those of leaves that were replaced, deleted or moved.

        Unpublished changes are published first. The old files serve their readers until they let go of them; a crash
        leaves the old version or the new one. Memory is bounded, and the disk must have room for both.

        Parameters
        ----------
        progress : callable, optional
            Called with the bytes that are done and those in all.

        Returns
        -------
        Compaction
            Bytes of the store `before` and `after`.

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
            before = self._size()
            self._compact(progress)
            return Compaction(before, self._size())

    def refresh(self) -> bool:
        """Show the newest version; True when it is another one than before.

        Until then a store shows what it showed when it was opened. Leaves that were handed out stay what they are: ask
        the store for new ones.

        Raises
        ------
        ValueError
            There are unpublished changes.
        """
        self._check_open()
        with self._lock:
            if self._unpublished or self._unwritten:
                raise ValueError(f"{self!r} has unpublished changes: flush() or discard() them first")
            if not self._reload():
                return False
            self._forget_leaves()
            return True

    def check(self, *, progress: Progress | None = None) -> CheckReport:
        """Read all that is published and say what is damaged; see `blosc2.check`.

        Unpublished changes are not looked at.
        """
        self._check_open()
        path = self._file
        if path is None:
            in_memory: Any = self
            return check_bytes(in_memory.to_cframe(), progress)
        return check(path, progress=progress)

    def discard(self) -> None:
        """Drop all changes that were not published, in the leaves that were handed out too."""
        self._check_open()
        self._check_own()
        with self._lock:
            if self._transaction is not None:
                raise RuntimeError("a transaction is under way: it drops its changes when its block raises")
            self._drop()

    def _drop(self) -> None:
        self._changes = {}
        self._forget_leaves()
        self._in_memory = 0
        self._unwritten = False
        self._drop_unpublished()

    def close(self, durable: bool = True) -> None:
        """Publish what is left and end the store. Leaves handed out stay readable; closing twice is fine.

        Parameters
        ----------
        durable : bool
            As for `flush`.
        """
        if self._closed:
            return
        if self._writer_lock is not None and self._writer_lock.inherited:
            self._abandon()
        else:
            self.flush(durable)
        self._end()

    def _end(self) -> None:
        self._closed = True
        self._forget_leaves()
        self._changes = {}
        self._release()
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
            if kind is not None and not self._is_inherited:
                self.discard()
            self.close()
        finally:
            # What could not be published by now never will be.
            if not self._closed:
                self._drop()
                self._end()

    def __del__(self) -> None:
        # A store whose making failed has no state to speak of.
        if not getattr(self, "_closed", True) and self._unpublished and not self._is_inherited:
            warnings.warn(
                f"{self!r} was not closed and its unpublished changes are lost; use it in a 'with' statement",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_open()
        if self._mode != "r" or self._file is None:
            raise TypeError(f"{self!r} is open for writing; only a store in mode 'r' can be pickled")
        return _reopen, (type(self), self._file, self._mmap_mode, self._deserialize, self._verify)

    # ------------------------------------------------------------------ description
    @property
    def mode(self) -> str:
        """The mode that the store was opened with."""
        return self._mode

    @property
    def mmap_mode(self) -> str | None:
        """``"r"`` for a mapped store, else None."""
        return self._mmap_mode

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    # ------------------------------------------------------------------ errors
    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _check_writable(self, what: str, key: str | None = None) -> None:
        self._check_open()
        if self._mode == "r":
            raise ReadOnlyError(f"Cannot {what} in read-only mode", path=self._path, key=key)
        self._check_own()

    @property
    def _is_inherited(self) -> bool:
        """Whether this is the copy that a forked child has of a store open for writing."""
        return self._writer_lock is not None and self._writer_lock.inherited

    def _check_own(self) -> None:
        lock = self._writer_lock
        if lock is not None and lock.inherited:
            raise StoreLockedError(
                f"the store was opened for writing by process {lock.owner}, of which this one is a fork: "
                "only that one can change it; open it here with mode='r'",
                path=self._path,
            )

    def _closed_error(self) -> ClosedStoreError:
        return ClosedStoreError("this is a closed store; leaves taken from it before stay valid", path=self._path)

    def _missing_key(self, key: str) -> StoreKeyError:
        return StoreKeyError(f"Key {key!r} not found in the store", path=self._path)


def _reopen(kind: type[Store], path: str, mmap_mode: str | None, deserialize: str, verify: bool = False) -> Store:
    make: Any = kind
    store: Store = make(path, mode="r", mmap_mode=mmap_mode, deserialize=deserialize, verify=verify)
    return store


def _is_in_memory(window: Window) -> bool:
    return not isinstance(window, Moved) and window[0].path is None
