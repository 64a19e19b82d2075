"""What all stores do: find, set and delete leaves by key, and publish changes.

A store maps keys such as ``/scans/007`` to leaves: arrays and super-chunks, each one compressed frame. What it shows is
in its `LeafTable`, which handles of one process share; how values are compressed and leaves are opened is its own.

A view of a group has the table of its tree. Methods make keys absolute (`_absolute`); other code knows only such.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import ref

import numpy as np

from blosc2 import _frames, _stores
from blosc2._backends import canonical_key, new_key, plain_key
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import Lock, item_of
from blosc2._core.leaves.leaf_access import LeafAccess
from blosc2._core.leaves.leaf_reader import LeafBatch
from blosc2._core.leaves.store_state import Change, KeyIteration
from blosc2._files import lasting
from blosc2._frames import Stored
from blosc2._options import OF_STORES, StoreOptions, explain_absent, shown_names
from blosc2._stores import publish
from blosc2._stores.contents import Contents
from blosc2._stores.leaf_table import LeafTable
from blosc2._stores.leaves import open_leaves
from blosc2._stores.leaves.advice import advise
from blosc2._stores.leaves.leaf import leaf_of, maker_of, reader_of
from blosc2._stores.leaves.open_leaves import OpenLeaves
from blosc2._stores.leaves.read_many import Keys, LeafItems, Values, read_and_learn, read_many
from blosc2._stores.pending import PendingChanges
from blosc2._stores.session import Session
from blosc2._stores.write_many import Items, update_store, write_many
from blosc2.exceptions import StoreKeyError
from blosc2.info import InfoReporter
from blosc2.storage import Storage

if TYPE_CHECKING:
    from blosc2._backends import Backend
    from blosc2._files import Compaction, Progress
    from blosc2._integrity.report import CheckReport
    from blosc2._stores.leaves.compressing_anew import Recompression
    from blosc2._stores.transaction import Transaction

# Marks an argument that was not given.
_MISSING: Any = object()


@explain_absent(OF_STORES)
class Store(LeafAccess, MutableMapping[str, Any]):
    """What every store does; see `EmbedStore`, `DictStore` and `TreeStore`."""

    _table: LeafTable
    _metalayer: ClassVar[str]  # in the frame of embedded values, which names the kind of store
    _hidden_name: ClassVar[str | None] = None  # the last segment of keys that are not shown, if there are groups
    _threshold: int | None = 0  # values of fewer bytes are embedded
    _in_order: ClassVar[bool] = True  # whether keys come in sorted order, or in that in which they were added
    _prefix = ""  # the group that a view shows; keys that the view is given are relative to it
    _cparams: Any = None
    _asked = False  # whether somebody asked for a compression of values
    _absolute: Callable[[object], str] = staticmethod(canonical_key)  # a key of a caller as one of the whole store

    def __init__(
        self,
        path: str | None,
        options: StoreOptions,
        backend: Backend,
        publishing: publish.Publishing = publish.NOTHING,
    ) -> None:
        self._path = path
        self._mmap_mode, self._verify, advice, mode, self._deserialize, timeout, _, locking = options
        table = LeafTable()
        table.path, table.backend, table.publishing = path, backend, publishing
        table.hidden_name, table.threshold, table.handles = self._hidden_name, self._threshold, [ref(self)]
        session: Any
        table.session = session = _stores.SharedSession() if locking else Session()
        session.path, session.mode, session.writer_lock = path, mode, backend.lock
        table.lock = session.lock = Lock()
        if advice is not None:
            session.advice = lasting(advice)
        table.pending = pending = _stores.SharedPending() if locking else PendingChanges()
        table.contents = contents = Contents(backend, pending, in_order=self._in_order)
        table.followers = [contents]
        table.leaves = session.leaves = pending.leaves = leaves = OpenLeaves()
        self._table = table  # all of it is there
        self._use_open_leaves(leaves.held, self._hidden_name, not locking)
        self._sweep_at = open_leaves.LEAST_SWEPT
        if locking:
            session.share(table, timeout)
        if mode != "r":
            _stores.note_writable(self)

    def _join(self, other: Store, path: str, options: StoreOptions) -> bool:
        """Show what another handle of this process has open for writing; False if that was closed meanwhile.

        Both have the same table. How values are compressed and leaves are read is each handle's own.
        """
        table = other._table
        with table.lock:
            if table.session.closed or other._table is not table:
                return False
            self._path, self._mmap_mode = path, None
            self._verify, self._deserialize = options.verify, options.deserialize
            self._table = table
            table.handles = [*(one for one in table.handles if one() is not None), ref(self)]
            table.path = table.session.path = path  # the older one may be relative to a folder that was left since
            for one in table.handles_beside(self):
                one._maker = None  # which names the older one
            table.forget_answers()
            self._find_open_leaves()
        _stores.note_writable(self)
        return True

    # ------------------------------------------------------------------ what kinds of stores add
    def _encoding(self) -> dict[str, Any]:
        """How to compress arrays that the store makes of other values, as keyword arguments."""
        return {}

    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:
        """The leaves of some keys if they can be read together; None otherwise."""
        table = self._table
        # First what is not published, as in `LeafAccess`.
        if table.session.mode != "r" and not _are_published(table, names):
            return None
        members = table.backend.members
        if members is None or table.backend.replaces or self._verify:
            return None
        batch = LeafBatch(members.table(), names, threads, self._hidden_name, self._verify is None)
        # A missing key may be an embedded value; if not, the caller raises the error.
        return None if batch.missing >= 0 else batch

    # ------------------------------------------------------------------ reading
    @property
    def _owner(self) -> Store:
        return self  # a view is of another one

    def _open(self, key: str) -> Any:
        """The leaf of a key that is not open yet."""
        if self._table.session.asks:
            self._table.session.check_open()
        if type(key) is not str:
            return self[plain_key(key)]
        leaf = self._leaf(key)
        if leaf is None:
            canonical = canonical_key(key)
            if canonical == key:
                raise self._table.missing_key(key)
            return self[canonical]
        return leaf

    def get(self, key: Any, default: Any = None) -> Any:
        """The leaf of a key, or a default where there is none.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.EmbedStore().get("/nothing", "a default")
        'a default'
        """
        # To look for a key takes a tenth of what an error takes, unless each look is one for files.
        if type(key) is str:
            known = self._listed_as(key)
            if known is None and (
                self._table.backend.lists_cheaply or (not self._prefix and self._answers_by_listing())
            ):
                known = key in self
            if known is False:
                canonical_key(key)  # which refuses what can be no key
                return default
        try:
            return self[key]
        except KeyError:
            return default

    def _leaf(self, key: str) -> Any | None:
        """Open the leaf of a canonical key; None if there is none."""
        table = self._table
        if table.session.mode != "r":
            return _stores.live_leaf(table, self, key)
        # Both before what is looked at, which another thread may replace: see `_holding`.
        held, version = self._holding, self._answers_version
        maker = self._maker
        if maker is None:
            how = self._path, self._mmap_mode, self._deserialize, self._verify
            self._maker = maker = maker_of(*how)
        if self._reader is None and table.backend.lists_cheaply:
            # From now on arrays are opened without this method; unless another thread closes the store, or shows
            # another version, before it is there.
            reader = reader_of(table, maker, self._verify)
            if table.session.closed:
                raise table.session.closed_error()
            self._use_reader(reader, version)
            if reader is not None and reader.finds(key):
                return self[key]
        frame = table.backend.open_frame(key)
        if frame is None:
            self._answers_by_listing()  # who looks for many keys that are not there need not try to open files
            return None
        return self._leaf_of(key, frame, held)

    def _leaf_of(self, key: str, frame: Frame, held: dict[str, ref[Any]]) -> Any:
        """The leaf of a frame, in a store that is read only."""
        if self._verify:
            self._table.backend.verify(key, frame)
        assert self._maker is not None
        return self._hold(key, leaf_of(self._maker, frame, key, verify=bool(self._verify)), held)

    def _sweep(self) -> None:
        self._sweep_at = self._table.leaves.sweep()

    def _find_open_leaves(self) -> None:
        """Find open leaves where the table has them now."""
        table = self._table
        self._use_open_leaves(table.leaves.held, self._hidden_name, table.session.sharing is None)
        self._sweep()

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
        found = self._read_simple(key)
        if found is not None:
            return found
        if self._prefix:
            return self._owner.read(self._absolute(key))
        return read_and_learn(self, key)

    advise = advise
    read_many = read_many
    write_many = write_many

    # ------------------------------------------------------------------ keys
    def _contains(self, key: object) -> bool:
        """Whether a key exists, when `LeafAccess` has no listing to ask."""
        if self._answers_by_listing():
            return key in self
        session, has = self._table.session, self._table.contents.has
        if session.asks:
            session.check_open()
        if not isinstance(key, str):
            return False
        return session.if_open(has(key) or (key[:1] != "/" and has("/" + key)))

    def _answers_by_listing(self) -> bool:
        """Let a listing answer `key in store` from now on, if there is one, or making one is worth it."""
        table = self._table
        session, backend, foreign = table.session, table.backend, table.foreign
        # One that is there could not tell.
        if session.mode != "r" or session.sharing is not None or self._has_listing or backend.embedded is None:
            return False
        version = self._answers_version
        if session.closed:
            raise session.closed_error()
        known = backend.listing_for_looks()
        if known is None or (foreign is not None and foreign.are_in(known[0])):
            return False
        listing, holds = known
        self._use_listing(listing, holds, version)
        return True

    def _key_batches(self) -> Iterable[list[str]]:
        """The keys in their order, some at a time."""
        return self._table.contents.key_batches()

    def __iter__(self) -> Iterator[str]:
        table = self._table
        table.session.check_open()
        pending = table.pending
        return KeyIteration(pending, pending.revision, self._key_batches())

    def __len__(self) -> int:
        self._table.session.check_open()
        return self._table.contents.count()

    def keys(self) -> KeysView[str]:
        """The keys, in a fixed order, as a view with comparisons and operations of a set."""
        self._table.session.check_open()
        return Keys(self)

    def values(self) -> ValuesView[Any]:
        """The leaves, in the order of the keys; each is opened when it is reached."""
        self._table.session.check_open()
        return Values(self)

    def items(self) -> ItemsView[str, Any]:
        """Pairs of key and leaf."""
        self._table.session.check_open()
        return LeafItems(self)

    # ------------------------------------------------------------------ changing
    def _set(self, key: str, value: Any) -> None:
        """Set a leaf that `LeafSetter` has not set: it may not know this version of the store yet."""
        if self._prefix:
            self._owner[self._absolute(key)] = value
            return
        if _stores.set_small(self._table, self, key, value):
            return
        key = new_key(key)
        self._table.session.check_writable("set items", key)
        with self._table.lock:
            _stores.set_leaf(self, key, value)

    def _delete(self, key: str) -> None:
        """Delete a leaf that `LeafSetter` has not removed: it may not know this version of the store yet."""
        if _stores.remove_small(self._table, self, key):
            return
        key = self._absolute(key)
        self._table.session.check_writable("delete items", key)
        with self._table.lock, Change(self._table.session):
            if not self._table.contents.has(key):
                raise self._table.missing_key(key)
            _stores.changes.remove_at_once(self._table, key)

    def clear(self) -> None:
        """Delete all keys."""
        self._table.session.check_writable("delete items")
        with self._table.lock, Change(self._table.session), _stores.AllOrNone(self._table):
            _stores.changes.remove_group(self._table, "")
            for key in self._table.contents.keys():  # noqa: SIM118 - no mapping
                _stores.changes.remove(self._table, key)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a leaf and return it; it stays readable. For a missing key, return the default if given.

        Raises
        ------
        KeyError
            There is no such key, and no default is given.
        TypeError
            The key is that of a group, or of an object of another package; ``del`` removes these and all below them.
        """
        with self._table.lock:
            try:
                leaf = self[key]
            except KeyError:
                if default is _MISSING:
                    raise
                return default
            self._remove_taken(key, leaf)
            return leaf

    def _remove_taken(self, key: str, _: Any) -> None:
        """Remove a leaf that is taken out; a `TreeStore` refuses what is none."""
        del self[key]

    def popitem(self) -> tuple[str, Any]:
        """Remove the first leaf, in the order of the keys, and return its key and the leaf.

        Raises
        ------
        KeyError
            There is no leaf.
        """
        with self._table.lock:
            for key in self:
                leaf = self[key]
                del self[key]
                return key, leaf
        raise StoreKeyError("popitem(): there is no leaf", path=self._path)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the leaf of a key; if there is none, set it to the default first."""
        with self._table.lock:
            try:
                return self[key]
            except KeyError:
                self[key] = default
            return default

    def update(self, other: Items = (), /, **more: Any) -> None:  # type: ignore[override]  # one for all of its forms
        """Set many keys, from a mapping or from pairs of key and value, like a dict; if anything raises, none of them.

        They are published with the next flush, like all changes. Only 256 keys or more, for a `.b2z` without pending
        changes and outside a transaction, are published at once, when all are written, together with what other threads
        set meanwhile. A key that another thread sets meanwhile keeps that thread's value.
        """
        update_store(self, other, more)

    def rename(self, old: str, new: str) -> None:
        """Give a leaf another key; its data stay as they are. The change is published with the next flush.

        In a `TreeStore` a group can be renamed too, with everything below it. Leaves are not read, except in a `.b2z`:
        there the next flush copies the stored bytes, because the name of a member comes before its data.

        Raises
        ------
        KeyError
            There is no such key.
        ValueError
            The new key exists, or is not allowed in a store.
        """
        old, new = self._absolute(old), new_key(self._absolute(new) if self._prefix else new)
        self._table.session.check_writable("rename", old)
        with self._table.lock:
            _stores.changes.rename_leaf(_stores.table_to_change(self), old, new)

    def transaction(self) -> Transaction:
        """Publish all changes of a ``with`` block at once, or none of them if it raises.

        Changes that were pending before the block are published with those of the block, and stay pending if it raises.
        Until the block ends, only the thread that began it can change the store. The page 'What is safe, and when' says
        what others see at any moment, and after a crash.

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
        self._table.session.check_writable("begin a transaction")
        return _stores.Transaction(self._owner)

    # ------------------------------------------------------------------ publishing
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
        publish.flush_checked(self._table, durable=durable)

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
        return publish.compact(self._table, progress)

    def recompress(
        self, keys: str | Iterable[str] | None = None, cparams: Any = "auto", *,
        progress: Callable[[int, int], Any] | None = None,
    ) -> Recompression:  # fmt: skip
        """Compress arrays anew, each by its own data, where that makes them smaller.

        Others stay as they are, so no array becomes larger. Items, chunks, blocks and attributes are the same
        afterwards. It is published like any change, some arrays at a time; when it was interrupted, another call goes
        on, as what is compressed as it would be now is left alone. `compact` removes the bytes that it leaves behind.

        Parameters
        ----------
        keys : str or iterable of str, optional
            Of arrays, and of groups for all below them; by default all.
        cparams : CParams, dict or str
            As for `asarray`: how to compress, or "auto" and other goals of `blosc2.tune`. With a precision, items are
            rounded, but for coordinates, packed numbers, flags, and what is ``_FillValue`` or ``missing_value``.
        progress : callable, optional
            Called with the number of leaves done so far and the number of all.

        Returns
        -------
        Recompression
            The number of arrays, `leaves`, of those `changed`, and their bytes `before` and `after`.

        Raises
        ------
        KeyError
            There is nothing at a key.
        ReadOnlyError
            The store is open for reading.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> store = blosc2.TreeStore(os.path.join(tempfile.mkdtemp(), "scans.b2z"), mode="w")
        >>> store["/a"] = np.random.default_rng(0).integers(-3, 4, (300, 300)).cumsum(axis=1).astype("i2")
        >>> done = store.recompress(cparams="smallest")
        >>> done.changed, done.after < done.before
        (1, True)
        >>> store.close()
        """
        return _stores.recompress(self, keys, cparams, progress)

    def refresh(self) -> bool:
        """Show the newest version; True if it differs from the one before.

        Until then, a store shows the version that it opened; with ``locking=True`` each access does this. Leaves that
        you hold do not change: get them from the store again.

        Raises
        ------
        ValueError
            There are unpublished changes.
        """
        return publish.refresh(self)

    def check(self, *, progress: Progress | None = None) -> CheckReport:
        """Read everything that is published and report damage; see `blosc2.check`.

        Unpublished changes are not checked.
        """
        self._table.session.check_open()
        path = self._table.backend.named
        if path is None:
            in_memory: Any = self
            path = in_memory.to_cframe()
        assert Stored._checker is not None
        return Stored._checker(path, progress)

    def discard(self) -> None:
        """Drop all unpublished changes, also in leaves that you hold."""
        publish.discard(self._table)

    def close(self, durable: bool = True) -> None:
        """Publish pending changes and close the store. Leaves that you hold stay readable; closing twice is fine.

        Parameters
        ----------
        durable : bool
            As for `flush`.
        """
        if not self._table.session.closed:
            publish.close(self._table, self, durable=durable)

    def __enter__(self) -> Self:
        self._table.session.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        publish.leave(self, error)

    def __del__(self) -> None:
        # One that was interrupted while it was made has no changes.
        if hasattr(self, "_table") and not self._table.session.closed and self._table.session.mode != "r":
            try:
                _stores.end_forgotten(self)
            except OSError as error:  # Python shows it and goes on: where it came from says nothing to the user
                raise error.with_traceback(None) from None

    # ------------------------------------------------------------------ description
    def __dir__(self) -> list[str]:
        return shown_names(type(self), super().__dir__())

    def __repr__(self) -> str:
        return _stores.one_line(self)

    def _repr_html_(self) -> str:
        return _stores.html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return _stores.completions(self)

    @property
    def mode(self) -> str:
        """The mode that the store was opened with."""
        return self._table.session.mode

    @property
    def mmap_mode(self) -> str | None:
        """``"r"`` for a mapped store, else None."""
        return self._mmap_mode

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._table.session.closed

    @property
    def storage(self) -> Storage:
        """Path, modes and kind of the store as one object."""
        meta = {self._metalayer: {"version": 1}}
        locking = self._table.session.sharing is not None
        return Storage(urlpath=self._path, mode=self.mode, mmap_mode=self._mmap_mode, meta=meta, locking=locking)

    @property
    def info(self) -> InfoReporter:
        """A short description, for people."""
        return InfoReporter(self)

    # ------------------------------------------------------------------ pickling
    def __reduce__(self) -> tuple[Any, ...]:
        session = self._table.session
        if session.lost is not None:
            return session.lost[1]
        session.check_open()
        if session.mode != "r" or self._table.backend.named is None:
            raise TypeError(f"{self!r} is open for writing; only a store in mode 'r' can be pickled")
        how = {
            "mmap_mode": self._mmap_mode, "deserialize": self._deserialize, "verify": self._verify,
            "advise": session.advice, "locking": True if session.sharing else None, **self._pickled_arguments(),
        }  # fmt: skip
        path = _frames.path_to_pickle(self._table.backend.named, self._table.source)
        return _reopen, (type(self), path, {name: value for name, value in how.items() if value is not None})

    def _pickled_arguments(self) -> dict[str, Any]:
        """Further arguments of the constructor that a pickle keeps."""
        return {}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        """A closed store, whose every use says why it could not be opened."""
        raise NotImplementedError(path, error, recipe)


def _are_published(table: LeafTable, names: list[str]) -> bool:
    """Whether what a store that is open for writing has under some keys is what is published, if there is anything."""
    leaves, frames = table.leaves, table.pending.frames
    if table.session.sharing is not None:
        return False
    if not leaves.has_any_edits() and not frames:  # in this order: edits become pending changes
        return True
    return all(
        type(name) is str and name[:1] == "/" and not leaves.has_edits(name) and item_of(frames, name, ...) is ...
        for name in names
    )


def _reopen(kind: type[Store], path: str, how: dict[str, Any]) -> Any:
    """A store from its pickle; raises nothing, as `_opening.pickles` says."""
    make: Any = kind
    try:
        return make(path, mode="r", **how)
    except _frames.LOST_ERRORS as error:
        return kind._stand_in(_frames.path_of_any_version(path), error, (_reopen, (kind, path, how)))
