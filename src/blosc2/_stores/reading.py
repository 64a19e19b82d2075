"""Reading a store: its keys, and its leaves as objects.

A store maps keys such as ``/scans/007`` to leaves: arrays and super-chunks, each one compressed frame. The three stores
differ in where these frames lie. This module has what they share for reading:

- a key is looked up without touching any other leaf, and gives a byte range (source, offset, length);
- while a leaf is held, every access returns the same object;
- a leaf stays readable, whatever happens to its store.
"""

from __future__ import annotations

import copy
from collections.abc import ItemsView, Iterable, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any, ClassVar

import numpy as np

from blosc2._backends import Backend, Embedded, Moved, Window, WriterLock, canonical_key, plain_key
from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._core.leaves.leaf_batch import LeafBatch
from blosc2._core.leaves.leaf_lookup import LeafLookup
from blosc2._core.leaves.weak_cache import hold
from blosc2._files import LASTING, advise_windows, check_advice, lasting
from blosc2._functions import wrap
from blosc2._options import StoreOptions
from blosc2._stores.all_or_none import AllOrNone
from blosc2._stores.leaves.leaf import live_handle, read_only
from blosc2._stores.leaves.open_leaves import OpenLeaves
from blosc2._stores.leaves.read_many import read_leaf, read_leaves
from blosc2._stores.unclosed import note_writable
from blosc2.exceptions import ClosedStoreError, ReadOnlyError, StoreKeyError


class ReadableStore(LeafLookup, MutableMapping[str, Any]):
    """The half of a store that reads; `Store` adds what changes it."""

    # The last segment of keys that are not shown.
    _hidden_name: ClassVar[str | None] = None
    # Whether what is read is checked against checksums; None checks what is read as a whole.
    _verify: bool | None
    # Why a store could not be opened that travelled here, and how it was to be made.
    _lost: tuple[Exception, tuple[Any, ...]] | None = None
    # What was advised for all of it; None where nothing was.
    _advice: str | None
    # Where its leaves lie.
    _backend: Backend

    def __init__(self, path: str | None, options: StoreOptions) -> None:
        self._path = path
        self._mmap_mode, self._verify, advice, self._mode, self._deserialize, *_ = options
        self._advice = None if advice is None else lasting(advice)
        self._closed = False
        # New frames by key, None for a key that goes; not published yet.
        self._changes: dict[str, Window | None] = {}
        # Whether the store itself is still to be written, even without keys.
        self._unwritten = False
        self._in_memory = 0
        # Goes up when a key comes or goes: who iterates notices.
        self._revision = 0
        # Whether many keys are being set in one call, whose values may come from anywhere.
        self._streaming = False
        # What keeps other writers out; None in mode "r" and in memory.
        self._writer_lock: WriterLock | None = None
        self._lock = Lock()
        self._leaves = leaves = OpenLeaves()
        self._look_among(leaves.held, self._hidden_name)
        self._sweep_at = leaves.limit
        # What takes changes back, by the thread that makes them.
        self._blocks: dict[int, AllOrNone] = {}
        # Of pending changes, whether they get files of their own, where that is decided.
        self._external: dict[str, bool] = {}
        if self._mode != "r":
            note_writable(self)

    # ------------------------------------------------------------------ what a kind of store provides
    def _published(self, key: str) -> Window | None:
        """Where the published frame of a key lies; None where there is none, or the key is malformed."""
        return self._backend.locate(key)

    def _is_published(self, key: str) -> bool:
        """Whether there is a published key, be it one whose frame cannot be read."""
        return key in self._backend

    def _published_keys(self) -> list[str]:
        """All published keys, in the order in which they are listed."""
        return self._backend.keys()

    @property
    def _embedded(self) -> Embedded | None:
        """What the frame of embedded values holds; None where there is none yet."""
        return self._backend.embedded

    @property
    def _file(self) -> str | None:
        """The path, the same whatever becomes of the working directory."""
        return self._backend.named

    # ------------------------------------------------------------------ reading
    def _open(self, key: str) -> Any:
        """The leaf of a key that is not held, opened and remembered for as long as somebody holds it."""
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
        if self._mode == "r":
            frame = self._frame(key)
            return None if frame is None else self._leaf_of(key, frame)
        with self._lock:
            # Array, super-chunk and metadata views of one leaf share one handle, or an edit would get lost.
            handle = self._leaves.handles.get(key)
            if handle is None:
                frame = self._frame(key)
                if frame is None:
                    return None
                handle = live_handle(frame, key, self, self._path, self._deserialize, self._verify)
                if self._verify:
                    self._verify_leaf(key, handle.frame)
                    handle.verify = True
                self._leaves.handles[key] = handle
            return self._hold(key, wrap(handle))

    def _frame(self, key: str) -> Frame | None:
        """The current frame of a key, published or not; None where there is none."""
        if key in self._changes:
            window = self._window(key)
            return None if window is None else Frame.open(*window, key)
        return self._backend.open_frame(key)

    def _leaf_of(self, key: str, frame: Frame) -> Any:
        """The leaf that a frame is, of a store that is only read, remembered."""
        if self._verify:
            self._verify_leaf(key, frame)
        return self._hold(key, read_only(frame, key, self._path, self._mmap_mode, self._deserialize, self._verify))

    def _verify_leaf(self, key: str, frame: Frame) -> None:
        """Check what can be checked of a leaf before its chunks are, and see that these are.

        Raises `FormatError` where a checksum says that something is not as it was written.
        """
        self._backend.verify(key, frame)

    def _hold(self, key: str, leaf: Any) -> Any:
        """Remember a leaf for as long as somebody holds it; returns the one that another thread has opened before."""
        held = self._leaves.held
        leaf = hold(held, key, leaf)
        if len(held) > self._sweep_at:
            self._sweep()
        return leaf

    def _sweep(self) -> None:
        self._sweep_at = self._leaves.sweep()

    def _window(self, key: str) -> Window | None:
        """Where the current frame of a key lies, published or not."""
        if self._changes:
            window = self._changes.get(key, ...)
            if window is not ...:
                return self._opened(key, window) if isinstance(window, Moved) and window.aside else window
        return self._published(key)

    def _opened(self, key: str, moved: Moved) -> Window:
        """The window of a frame that is to get this key and lies in a file of its own."""
        try:
            return self._backend.opened(moved)
        except OSError:
            # Another thread, or the process of which this one is a fork, may just have published it.
            window = self._published(key)
            if window is None:
                raise
            return window

    def _forget_leaves(self) -> None:
        """All keys stand for something else from now on."""
        self._leaves.forget_all()
        self._look_among(self._leaves.held, self._hidden_name)
        self._sweep_at = self._leaves.sweep()

    def _show_leaves_again(self, keys: Iterable[str]) -> None:
        """Leaves of keys whose changes were dropped show what there is now; where there is nothing, what they did."""
        self._leaves.show_again(keys, self._window)

    # ------------------------------------------------------------------ advice
    def advise(self, advice: str, *, keys: Iterable[str] | None = None, prefix: str | None = None) -> None:
        """Tell the operating system how the stored bytes will be read, so that it can read ahead.

        Advice never changes a result. It has no effect if the system takes no advice.

        Parameters
        ----------
        advice : {"normal", "random", "sequential", "willneed", "dontneed"}
            "normal", "random" and "sequential" apply to the whole store until the next advice: read some ahead,
            nothing, or much. "willneed" starts to read, without waiting; give it all keys of a batch at once, since
            neighbours become one request. "dontneed" frees the memory that the bytes take in this process.
        keys : iterable of str, optional
            With "willneed" and "dontneed", the leaves to which the advice applies.
        prefix : str, optional
            The same, for all leaves of a group: those whose keys begin with this prefix and a "/".

        Raises
        ------
        ValueError
            The advice is unknown, or applies to the whole store and keys are given.
        KeyError
            There is no such leaf, or none with this prefix. No advice is given then.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "scans.b2z")
        >>> with blosc2.TreeStore(path, mode="w") as store:
        ...     store["/a/x"], store["/a/y"], store["/b"] = [1, 2], [3], [4]
        >>> store = blosc2.open(path, mmap_mode="r", advise="random")
        >>> store.advise("willneed", keys=["/a/x", "/b"])
        >>> store.advise("dontneed", prefix="/a")
        >>> store.close()
        """
        check_advice(advice, part=keys is not None or prefix is not None)
        self._check_open()
        if keys is None and prefix is None:
            self._advise_all(advice)
            return
        wanted = [] if keys is None else [keys] if isinstance(keys, str) else list(keys)
        if prefix is not None:
            group = "" if prefix in ("", "/") else canonical_key(prefix)
            below = self._keys_below(group)
            if not below and group:
                raise StoreKeyError(f"No key begins with {group!r}", path=self._path)
            wanted += below
        self._advise_leaves(advice, wanted)

    def _advise_leaves(self, advice: str, keys: list[str]) -> None:
        windows = []
        known = []
        for key in keys:
            name = plain_key(key)
            place = self._stored_place(name)
            if place is None:
                name = canonical_key(key)
                place = self._stored_place(name)
            if place is None:
                raise self._missing_key(key)
            windows.append(place)
            known.append(name)
        if advice == "dontneed":
            # Of another version, or in a file of its own, a leaf may have been brought in elsewhere.
            for leaf in self._leaves.find_all(known):
                leaf.advise(advice)
        advise_windows(advice, windows)

    def _advise_all(self, advice: str) -> None:
        if advice in LASTING:
            self._advice = advice
        if self._backend.advise(advice):
            return
        if advice not in LASTING:
            self._advise_leaves(advice, self._keys_below(""))
            return
        for leaf in self._leaves.find_all(list(self._leaves.held)):
            leaf.advise(advice)

    def _stored_place(self, key: str) -> Window | None:
        """Where a leaf is stored, without reading anything of it; None where there is none."""
        return self._window(key) if key in self._changes else self._backend.place(key)

    def _keys_below(self, group: str) -> list[str]:
        """The keys of leaves that are a group or below it."""
        return [key for key in self._keys() if key == group or key.startswith(group + "/")]

    # ------------------------------------------------------------------ keys
    def _contains(self, key: object) -> bool:
        """Whether a key is there, where no listing tells it at once; see `LeafLookup`."""
        if self._closed:
            raise self._closed_error()
        if not isinstance(key, str):
            return False
        return self._has(key) or (not key.startswith("/") and self._has("/" + key))

    def _has(self, key: str) -> bool:
        if self._changes:
            window = self._changes.get(key, ...)
            if window is not ...:
                return window is not None
        return key in self._backend

    def _keys(self) -> list[str]:
        """All keys that are listed, in their order."""
        self._check_open()
        if not self._changes:
            return self._published_keys()
        published = [key for key in self._published_keys() if self._changes.get(key, ...) is not None]
        known = set(published)
        return published + [key for key, window in self._changes.items() if window is not None and key not in known]

    def _key_batches(self) -> Iterator[list[str]]:
        """The keys that are listed, in their order, some at a time."""
        yield self._keys()

    def __iter__(self) -> Iterator[str]:
        self._check_open()
        return self._iterate(self._revision)

    def _iterate(self, revision: int) -> Iterator[str]:
        for batch in self._key_batches():
            for key in batch:
                if self._revision != revision:
                    raise RuntimeError("keys of the store were added or deleted during iteration")
                yield key
        if self._revision != revision:  # after the last one too, as dicts have it
            raise RuntimeError("keys of the store were added or deleted during iteration")

    def __len__(self) -> int:
        return len(self._keys())

    def keys(self) -> KeysView[str]:
        """The keys, in a fixed order, as a view with comparisons and operations of a set."""
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

    def read(self, key: str) -> np.ndarray[Any, Any]:
        """Read all items of an array: ``store[key][...]`` in one step, without an object for the array.

        For small arrays of a mapped read-only `.b2z` it takes about a third of the time, if each has the shape, dtype
        and compression of the one read before.

        Raises
        ------
        KeyError
            There is no such key.
        TypeError
            The key is that of a group, or of something else that is not an array.

        Examples
        --------
        >>> import numpy as np
        >>> import blosc2
        >>> store = blosc2.EmbedStore()
        >>> store["/a"] = np.arange(3)
        >>> store.read("/a")
        array([0, 1, 2])
        """
        return read_leaf(self, key)[0]

    def read_many(
        self, keys: Iterable[str | tuple[str, Any]], out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]:
        """Read the items of many arrays in one call, in several threads, such as the batch of a data loader.

        Parameters
        ----------
        keys : iterable of str, or of (str, selection)
            Keys may be repeated. A selection is what you would write between the brackets of an array, for instance a
            patch of a volume. Selections of one array are read together, and a block that several need is usually
            decoded only once.
        out : ndarray, optional
            An array to read into, of shape ``(len(keys), *shape)`` and the dtype of the arrays, with any strides.

        Returns
        -------
        ndarray or list of ndarray
            `out` if it was given. Otherwise the arrays stacked, if they have one shape and dtype, or a list of them.
            Without keys, an empty list.

        Raises
        ------
        KeyError
            A key does not exist. Nothing has been read then.
        ValueError
            `out` does not fit the arrays, or their shapes differ. Nothing has been written to `out` then.
        IndexError
            A selection is outside its array; the error says which one.
        TypeError
            A key is that of a group or of something else that is not an array; or some items are keys and others pairs.
        FormatError
            An array is damaged. The contents of `out` are undefined then.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "tiles.b2z")
        >>> with blosc2.DictStore(path, mode="w") as store:
        ...     store.write_many((f"/tile/{n}", np.full(3, n)) for n in range(5))
        5
        >>> with blosc2.DictStore(path, mode="r", mmap_mode="r") as store:
        ...     store.read_many(["/tile/4", "/tile/1"])
        array([[4, 4, 4],
               [1, 1, 1]])
        >>> with blosc2.DictStore(path, mode="r", mmap_mode="r") as store:
        ...     store.read_many([("/tile/4", slice(0, 2)), ("/tile/1", slice(1, 3))])
        array([[4, 4],
               [1, 1]])
        """
        self._check_open()
        return read_leaves(self, keys, out)

    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:  # noqa: ARG002 - for stores that have one
        """The leaves of some keys where they can be read together; None where they cannot."""
        return None

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
        self._check_not_streaming(what)
        self._check_own()

    def _check_thread(self, what: str) -> None:
        """Refuse changes while another thread has a transaction: they would be published, or undone, with it."""

    def _check_not_streaming(self, what: str) -> None:
        if self._streaming:
            raise RuntimeError(f"cannot {what}: write_many is under way, and publishes at its end")

    @property
    def _is_inherited(self) -> bool:
        """Whether this is the copy that a forked child has of a store open for writing."""
        return self._writer_lock is not None and self._writer_lock.inherited

    def _check_own(self) -> None:
        lock = self._writer_lock
        if lock is not None:
            lock.owner.check(self._path)

    def _begin_child(self) -> None:
        """In a forked child: bring into order what another thread may have been changing."""
        self._streaming = False
        if self._lock.renew():
            self._look_again_at_keys()

    def _look_again_at_keys(self) -> None:
        """Forget what is known of the keys that are there, published or not."""
        self._backend.look_again()

    def _closed_error(self) -> Exception:
        if self._lost is not None:
            return copy.copy(self._lost[0])  # each with a traceback of its own
        return ClosedStoreError("this is a closed store; leaves taken from it before stay valid", path=self._path)

    def _missing_key(self, key: str) -> StoreKeyError:
        members = self._backend.members
        why = None if members is None else members.explain_missing(key)
        return StoreKeyError(why or f"Key {key!r} not found in the store", path=self._path)
