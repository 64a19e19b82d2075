"""Reading a store: its keys, and its leaves as objects.

A store maps keys such as ``/scans/007`` to leaves: arrays and super-chunks, each one compressed frame. The three
stores differ in where these frames lie. What they share when they are read is here:

- a key is looked up without touching any other leaf, and leads to a window (source, offset, length);
- leaves that are held somewhere are the same object at every access;
- a leaf that was handed out stays readable whatever becomes of its store.
"""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any, Final

from blosc2._core.frame import Frame
from blosc2._core.handles import hold, sweep
from blosc2.embedded import Embedded
from blosc2.exceptions import ClosedStoreError, ReadOnlyError, StoreKeyError, StoreLockedError
from blosc2.leaf import LiveCarrier, live_carrier, read_only
from blosc2.recognise import wrap
from blosc2.store_keys import canonical_key, plain_key
from blosc2.store_layout import Moved, Window
from blosc2.store_lock import WriterLock
from blosc2.sums import check_reads

# References to leaves that may be dead, before they are looked through.
_SWEEP: Final = 1024


class ReadableStore(MutableMapping[str, Any]):
    """The half of a store that reads; `Store` adds what changes it."""

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
            return self._hold(key, leaf)
        with self._lock:
            # Array, super-chunk and metadata views of one leaf share one carrier, or an edit would get lost.
            carrier = self._carriers.get(key)
            if carrier is None:
                carrier = live_carrier(window, key, self, self._path, self._deserialize)
                if self._verify:
                    self._verify_leaf(key, carrier.frame)
                    carrier.verify = True
                self._carriers[key] = carrier
            return self._hold(key, wrap(carrier))

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

    def _hold(self, key: str, leaf: Any) -> Any:
        """Remember a leaf for as long as somebody holds it; returns the one that another thread has opened before."""
        held = self._held
        leaf = hold(held, key, leaf)
        if len(held) > self._sweep_at:
            # References do not remove themselves, which would cost each leaf more than a sweep now and then. There are
            # never more dead ones than leaves that were held at the last sweep, or 1024.
            sweep(held)
            self._sweep_at = max(_SWEEP, 2 * len(held))
        return leaf

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
