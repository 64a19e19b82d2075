"""What `DictStore` and `TreeStore` share: looking up, changing and publishing leaves through a backend.

Leaves lie behind a backend, each in a file or member of its own, or embedded in the one frame that all share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import Any, ClassVar, Final

import numpy as np

from blosc2._backends import (
    CATALOG_LEAST,
    KEY_RULES,
    LEAF_SUFFIXES,
    MAP_BYTES,
    REGISTRY,
    RESERVED,
    DirectoryBackend,
    Embedded,
    EmbeddedChanges,
    Moved,
    NewKeys,
    Pace,
    Window,
    ZipBackend,
    filed_as,
    find_again,
    list_tiers,
    read_embedded,
    stored_value,
    suffixed_folders,
)
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.folded_keys import KeySet, same_folded
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.leaves.leaf_batch import LeafBatch
from blosc2._files import LASTING, Progress
from blosc2._stores.all_or_none import AllOrNone
from blosc2._stores.leaf import leaf_reader, window_of_bytes
from blosc2._stores.leaf_publishing import end_block, put_leaf, remove_leaf
from blosc2._stores.read_many import read_leaf
from blosc2._stores.store import MEMORY_LIMIT, Store, is_in_memory
from blosc2._stores.write_many import PROGRESS_EACH, Filed, frames, no_progress, set_many
from blosc2.exceptions import FormatError, StoreKeyError, explain, name_file
from blosc2.storage import CParams

#: Keys that are made at a time when many are gone through.
KEYS_AT_ONCE: Final = 1024


class BackedStore(Store):
    """A store whose leaves are those of a directory or an archive."""

    # What the metalayer of the embed frame says that a store is.
    _metalayer: ClassVar[str]
    # Whether a key is a leaf or a group, never both.
    _has_groups: ClassVar[bool] = False
    # Whether new keys may differ in case only, or be like the folder of others.
    _any_names = False
    _backend: DirectoryBackend | ZipBackend
    _cparams: CParams | None
    _threshold: int | None

    def __init__(self, path: str, mode: str, mmap_mode: str | None, deserialize: str) -> None:
        super().__init__(path, mode, mmap_mode, deserialize)
        self._embedded: Embedded | None = None
        # Those of a later version, which were looked at for leaves that a writer has moved.
        self._newer_embedded: Embedded | None = None
        self._external: dict[str, bool] = {}
        self._new_registry: dict[str, Any] | None = None
        self._published_cache: KeyListing | None = None
        self._listing_cache: KeyListing | None = None
        self._replaces = False
        # Of a directory: what publishing embedded values takes, and publishing leaves that wait for the disk; those
        # that do so together; and whether a publication need not be durable.
        self._pace, self._leaf_pace = Pace(), Pace()
        self._waiting_leaves: set[str] = set()
        self._lazily = False
        # Keys that were published by themselves since keys were listed, and whether they are there.
        self._placed: dict[str, bool] = {}
        # Keys of embedded values that go with the next publication: files hide them.
        self._hidden: set[str] = set()
        # Keys that others get with what waits.
        self._origins: set[str] = set()
        # The keys without regard to case; made when the first key is added.
        # With them, the groups that are named like the file of a leaf.
        self._folded: tuple[KeySet, set[str]] | None = None
        # Whether some of these may be gone.
        self._folded_more = False

    def _load(self) -> None:
        """Read what is published. If that fails, what was shown before still is."""
        shown, embedded = self._backend.shown(), self._embedded
        try:
            self._embedded = read_embedded(self._backend.embed_window, self._verify)
            self._start()
        except BaseException:
            self._backend.show(shown)
            self._embedded = embedded
            self._forget_keys()
            raise

    def _catch_up(self) -> None:
        if self._backend.behind:
            self._load()

    def _outcome(self) -> str:
        if isinstance(self._backend, DirectoryBackend):
            return "some leaves may be new already, the others are as they were"
        return super()._outcome()

    def _settle(self) -> None:
        """Before anything is built upon what is shown: see that it is what is published, where it has to be that."""
        if self._backend.must_load:
            self._load()

    @property
    def _is_behind(self) -> bool:
        return self._backend.behind

    def _start(self) -> None:
        """Begin to show what is published."""
        self._forget_keys()
        self._newer_embedded = None
        self._replaces = False
        self._advise_again()

    # ------------------------------------------------------------------ publishing by itself, in a directory
    def _is_due(self, nbytes: int, block: AllOrNone | None = None) -> bool:
        if not isinstance(self._backend, DirectoryBackend):
            return False
        if block is not None:  # what it has changed is looked at then
            return self._transaction is None and not (block.is_inner or self._streaming or self._is_inherited)
        entries = () if self._embedded is None else self._embedded.entries
        return self._pace.is_due(self._in_memory + nbytes, len(entries)) and self._may_publish(None)

    def _publish_now(self, block: AllOrNone) -> None:
        backend = self._backend
        if isinstance(backend, DirectoryBackend):
            end_block(self, backend, block)

    def _see_to_published(self, keys: list[str]) -> None:
        """Show it: files that went cannot come again."""
        try:
            self._load()
            self._recount()
        except (OSError, FormatError):
            self._backend.must_load = True
        others = {key: carrier for key, carrier in self._edited.items() if key not in keys}
        self._show_leaves_again(keys)
        self._edited.update(others)

    def _put_at_once(self, key: str, window: Window, value: Any) -> bool:
        backend = self._backend
        return isinstance(backend, DirectoryBackend) and put_leaf(self, backend, key, window, value)

    def _remove_one(self, key: str) -> None:
        backend = self._backend
        if not (isinstance(backend, DirectoryBackend) and remove_leaf(self, backend, key)):
            super()._remove_one(key)

    def _flush_lazily(self) -> None:
        """Publish all changes; a power cut may then show the version before."""
        self._lazily = True
        try:
            self._flush(durable=True)
        finally:
            self._lazily = False

    def _flush(self, durable: bool) -> None:
        backend = self._backend
        self._unwritten = self._unwritten or bool(self._hidden)
        super()._flush(durable)
        if isinstance(backend, DirectoryBackend) and self._mode != "r":
            if durable and not self._lazily:
                try:
                    backend.placing.settle()
                except BaseException as error:
                    explain(error, "all changes are published, but may not be durable")
                    name_file(error, self._file)
                    raise
            if self._placed and not self._lazily:
                self._list_placed()
            if not self._changes:
                backend.discard()

    def _list_placed(self) -> None:
        """List the keys that were published by themselves with the others."""
        self._placed = {}
        self._published_cache = self._listing_cache = None

    def _count_key(self, key: str, change: int) -> None:
        """A key was published by itself, or removed; for groups."""

    @property
    def _is_open_end(self) -> bool:
        backend = getattr(self, "_backend", None)  # whose making may have failed
        return super()._is_open_end or bool(self._hidden) or (
            isinstance(backend, DirectoryBackend) and backend.placing.unsettled
        )  # fmt: skip

    # ------------------------------------------------------------------ what a store provides
    def _published(self, key: str) -> Window | None:
        if self._replaces:
            return None
        window = self._backend.locate(key)
        return self._embedded_window(key) if window is None else window

    def _missing_key(self, key: str) -> StoreKeyError:
        if isinstance(self._backend, ZipBackend) and self._backend.is_packed(key):
            return StoreKeyError(
                f"Key {key!r} cannot be read: another tool has compressed its member, and members are read in place; "
                "unzip the file and pack it without compression (zip -0)", path=self._path,
            )  # fmt: skip
        return super()._missing_key(key)

    def _embedded_window(self, key: str) -> Window | None:
        """Where a leaf lies that has no file."""
        embedded = self._embedded
        if embedded is not None:
            window = embedded.locate(key)
            if window is None:
                return self._find_again(key)
            self._backend.check_embedded(embedded.frame)
            return window
        self._check_open()
        return None

    def _find_again(self, key: str) -> Window | None:
        """Where a leaf lies that was in neither tier, and that a writer may just have moved."""
        return find_again(self, key) if self._mode == "r" and not self._backend.lists_cheaply else None

    def _leaf(self, key: str) -> Any | None:
        if self._mode != "r":
            return super()._leaf(key)
        frame = self._backend.open_frame(key)
        if frame is None:
            window = self._embedded_window(key)
            if window is None:
                return None
            frame = Frame.open(*window, key)
        if self._reader is None and not self._verify and self._shows_at_once():
            table = self._backend.archive_table()
            if table is not None:
                # Others will be opened without this method.
                self._read_by(
                    leaf_reader(table, self._hidden_name, self._path, self._mmap_mode, self._deserialize,
                                check=self._verify is None)
                )  # fmt: skip
        return self._leaf_of(key, frame)

    def read(self, key: str) -> np.ndarray[Any, Any]:
        """Read all items of an array in one step; see `EmbedStore.read`."""
        reader = self._reader
        if reader is not None:
            found = reader.read(key)
            if found is not None:
                return found
        items, (geometry, dtype, frame) = read_leaf(self, key)
        if reader is not None:
            reader.learn(frame, geometry, dtype)
        return items

    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:
        if self._mode != "r" or self._verify:
            return None
        table = self._backend.archive_table()
        if table is None:
            return None
        batch = LeafBatch(table, names, threads, self._hidden_name, self._verify is None)
        # One that is not there may be embedded; or the error is for others to raise.
        return None if batch.missing >= 0 else batch

    def _frame(self, key: str, window: Window) -> Frame:
        if key not in self._changes and not self._replaces:
            frame = self._backend.open_frame(key)
            if frame is not None and frame.source is window[0] and frame.offset == window[1]:
                return frame
        return super()._frame(key, window)

    def _verify_leaf(self, key: str, frame: Frame) -> None:
        super()._verify_leaf(key, frame)
        self._backend.verify(key)

    def _contains(self, key: object) -> bool:
        if self._mode == "r" and self._shows_at_once() and not self._looks_up:
            # From now on without this method.
            self._look_up_in(self._published_listing())
            return key in self
        return super()._contains(key)

    def _shows_at_once(self) -> bool:
        """Whether the keys that are shown are those of a listing, which does not change."""
        return self._backend.lists_cheaply and self._embedded is not None

    def _has(self, key: str) -> bool:
        if self._changes:
            window = self._changes.get(key, ...)
            if window is not ...:
                return window is not None
        return self._is_published(key)

    def _stored_place(self, key: str) -> Window | None:
        place = None if key in self._changes or self._replaces else self._backend.place(key)
        return super()._stored_place(key) if place is None else place

    def _keys_below(self, group: str) -> list[str]:
        below: list[str] = self._listing().below(group or "/")
        return [group, *below] if group and self._has(group) else below

    def _advise_all(self, advice: str) -> None:
        super()._advise_all(advice)
        if advice in LASTING:
            self._backend.advice = advice
        if isinstance(self._backend, DirectoryBackend):
            if advice not in LASTING:
                self._advise_leaves(advice, self._keys_below(""))
                return
            for leaf in self._held_leaves(list(self._held)):
                leaf.advise(advice)

    @property
    def _file(self) -> str:
        return self._backend.named

    def _is_published(self, key: str) -> bool:
        return self._is_in_tier(key) or (self._embedded is not None and self._find_again(key) is not None)

    def _is_in_tier(self, key: str) -> bool:
        """Whether there is such a leaf, by one look, during which a writer may move it."""
        embedded = self._embedded
        return embedded is not None and (key in self._backend or key in embedded.entries)

    def _published_keys(self) -> list[str]:
        keys: list[str] = self._published_listing().below()
        return keys

    def _keys(self) -> list[str]:
        self._check_open()
        keys: list[str] = self._listing().below()
        return keys

    def _key_batches(self) -> Iterator[list[str]]:
        yield from self._batches_of_leaves()

    def __len__(self) -> int:
        self._check_open()
        return len(self._listing())

    def _listing(self) -> KeyListing:
        """The keys of all leaves, in order, unpublished changes included."""
        published = self._published_before()
        if not self._changes and not self._placed:
            return published
        if self._listing_cache is None:
            # Those that the embedded values add to the files are few; they are put together anew.
            table, find = published.table, published.table.find
            added = {} if self._embedded is None else dict.fromkeys(self._embedded.entries)
            removed = []
            changes = {key: window is not None for key, window in self._changes.items()}
            for key, there in {**self._placed, **changes}.items():
                if there:
                    added[key] = None
                else:
                    added.pop(key, None)
                    if find(key) >= 0:
                        removed.append(key)
            more = KeyTable.of_keys([key for key in added if find(key) < 0])
            self._listing_cache = KeyListing(table, more, KeyTable.of_keys(removed), self._path)
        return self._listing_cache

    def _published_listing(self) -> KeyListing:
        """The keys of all published leaves."""
        if self._placed:
            self._recount()
        return self._published_before()

    def _published_before(self) -> KeyListing:
        """The keys of all leaves published when they were listed; `_placed` tells which came or went since."""
        if self._published_cache is None:
            if self._embedded is None:
                return KeyListing(KeyTable.of_keys(()))
            entries = self._embedded.entries
            if self._mode == "r" and isinstance(self._backend, DirectoryBackend):
                files, newer = list_tiers(self._backend, self._newer_embedded or self._embedded)
                if newer is not self._embedded:  # as `find_again` finds them
                    self._newer_embedded = newer
                    entries = {**newer.entries, **entries}
            else:
                files = self._backend.table()
            embedded = [key for key in entries if files.find(key) < 0] if entries else []
            more = KeyTable.of_keys(embedded) if embedded else None
            self._published_cache = KeyListing(files, more, path=self._path)
        return self._published_cache

    def _put(self, key: str, window: Window, value: Any = None) -> None:
        new = not self._has(key)
        self._check_new(key, new)
        if new:
            self._listing_cache = None
        self._note(key)
        self._waiting_leaves.discard(key)
        if isinstance(window, Moved):
            self._origins.add(window.origin)
        self._external[key] = self._goes_to_file(value, window)
        super()._put(key, window, value)

    def _check_new(self, key: str, new: bool) -> None:
        """Refuse a key that no leaf can have; `new` says that none has it yet."""
        if key.startswith("/" + RESERVED):
            raise ValueError(f"Key {key!r}: what begins with {RESERVED!r} is reserved for the store itself")
        if new and not self._any_names:
            self._check_name(key)

    def _check_name(self, key: str) -> None:
        """Refuse a new key whose file could not be beside those that are there."""
        if self._folded is None:
            self._folded = KeySet(), set()
            self._folded_more = False
            for batch in self._batches_of_leaves():
                for other in batch:
                    self._note_name(other)
        folded, suffixed = self._folded
        self._check_folders(key, suffixed)
        if folded.add_folded(key):
            for batch in self._batches_of_leaves():
                for other in same_folded(batch, key):
                    if other != key:
                        raise self._differs_in_case(key, other)
            if self._streaming:  # one that came before it, of which nothing is kept but this
                raise self._differs_in_case(key, "another new key")
        suffixed.update(suffixed_folders(key))

    def _note_name(self, key: str) -> None:
        if self._folded is not None:
            folded, suffixed = self._folded
            folded.add_folded(key)
            if ".b2" in key:
                suffixed.update(suffixed_folders(key))

    def _differs_in_case(self, key: str, other: str) -> ValueError:
        other = repr(other) if other.startswith("/") else other
        return ValueError(
            f"Key {key!r} differs from {other} in case only, or in how its accents are written, which not every file "
            f"system allows {KEY_RULES}"
        )

    def _batches_of_leaves(self) -> Iterator[list[str]]:
        """The keys of all leaves, some at a time."""
        cursor = KeyCursor(self._listing())
        while batch := cursor.take(KEYS_AT_ONCE):
            yield batch

    def _check_folders(self, key: str, suffixed: set[str]) -> None:
        """Refuse a new key if a file would have the name of a folder: "/x" and "/x.b2nd/y"."""
        clashes = [folder for folder in suffixed_folders(key) if self._has(os.path.splitext(folder)[0])]
        for suffix in LEAF_SUFFIXES if suffixed else ():
            if key + suffix in suffixed:
                clashes += [key + suffix] if self._listing().count(key + suffix) else []
        if clashes:
            raise self._folder_clash(key, clashes[0])

    def _folder_clash(self, key: str, folder: str) -> ValueError:
        return ValueError(f"Key {key!r}: the group {folder!r} would have the name of the file of a leaf")

    def _streams(self) -> bool:
        """Whether many leaves can be written as they come."""
        return isinstance(self._backend, ZipBackend) and self._threshold == 0 and self._backend.streams()

    def _update(self, items: Iterator[tuple[str, Any]]) -> None:
        if self._mode == "r" or self._transaction is not None or self._unpublished or not self._streams():
            # What waits to be published must not depend on whether all of these can be set.
            super()._update(items)
            return
        # One by one: of the values, nobody says that they stay what they are.
        set_many(self, islice(items, CATALOG_LEAST - 1))
        for item in items:
            with self._lock:
                self._update_many(chain((item,), items))

    def _update_many(self, items: Iterator[tuple[str, Any]]) -> None:
        """Set further values, which are many with those that were set before, and publish all."""
        self._check_writable("set items")
        backend, changes = self._backend, self._changes
        if (
            not isinstance(backend, ZipBackend)
            or self._edited
            or any(window is None or not is_in_memory(window) for window in changes.values())
        ):
            set_many(self, items)
            self._flush(durable=True)
            return
        first: list[tuple[str, int, Filed]] = [
            (key, 0, (*filed_as(window), window)) for key, window in changes.items() if window is not None
        ]
        waiting = self._changes, self._external
        self._changes, self._external = {}, {}
        self._recount()
        try:
            with self._streamed(items) as (admit, source):
                for key, *_ in first:
                    admit(key)
                self._write_stream(backend, admit, chain(_drained(first), source), no_progress)
        except BaseException:
            if not backend.must_load:  # nothing is published: what other threads set goes on waiting
                self._changes, self._external = waiting
                self._recount()
            raise

    def _write_many(self, items: Iterator[tuple[str, Any]], progress: Callable[[int, int], Any]) -> int:
        backend = self._backend
        if not isinstance(backend, ZipBackend) or not self._streams():
            return super()._write_many(items, progress)
        with self._streamed(items) as (admit, source):
            # As frames: of the values, nobody says that they stay what they are.
            first: list[tuple[str, int, Filed]] = []
            held = 0
            while len(first) < CATALOG_LEAST and held <= MEMORY_LIMIT:
                found = next(source, None)
                if found is None:
                    # A few are like any other change.
                    self._streaming = False
                    return self._write_few(first, progress)
                first.append(found)
                frame = found[2][2]
                held += len(frame) if isinstance(frame, bytes) else frame[2]
            return self._write_stream(backend, admit, chain(_drained(first), source), progress)

    @contextmanager
    def _streamed(self, items: Iterator[tuple[str, Any]]) -> Iterator[tuple[NewKeys, Iterator[tuple[str, int, Filed]]]]:
        """Check the keys of many values, and give their frames, as they come; meanwhile nothing else can be changed."""
        if self._folded_more:  # a key that was deleted is not another new one
            self._folded = None
        admit = NewKeys(self)
        pairs = ((admit(key), value) for key, value in items)
        try:
            self._streaming = True
            with closing(frames(pairs, self._path, self._encoding())) as source:
                yield admit, source
        except BaseException:
            # Names were noted that do not come.
            self._look_again_at_keys()
            raise
        finally:
            self._streaming = False

    def _write_few(self, leaves: list[tuple[str, int, Filed]], progress: Callable[[int, int], Any]) -> int:
        """Publish frames in a transaction."""
        with self.transaction():
            for key, _, (_, _, frame) in leaves:
                self._put(key, window_of_bytes(frame) if isinstance(frame, bytes) else frame)
            progress(len(leaves), sum(nbytes for _, nbytes, _ in leaves))
        return len(leaves)

    def _write_stream(
        self,
        backend: ZipBackend,
        admit: NewKeys,
        leaves: Iterable[tuple[str, int, Filed]],
        progress: Callable[[int, int], Any],
    ) -> int:
        """Write frames as they come, and publish them."""
        self._settle()
        embedded = self._embedded
        count = total = 0
        try:
            backend.begin_stream(fresh=embedded is None)
            for key, nbytes, filed in leaves:
                backend.stream(key, *filed)
                count += 1
                total += nbytes
                if count % PROGRESS_EACH == 0:
                    progress(count, total)
            progress(count, total)
            shadowed = {key: None for key in self._embedded_keys() if key in admit}
            frame = None
            if embedded is None or shadowed or self._new_registry is not None:
                frame = self._after(shadowed)
            backend.end_stream(frame, fresh=embedded is None)
        except BaseException as error:
            name_file(error, self._file)
            backend.discard()
            raise
        backend.must_load = True  # nothing of it waits any more
        self._unwritten = False
        self._new_registry = None
        self._forget_blocks()
        self._revision += 1
        # The new keys are in none of these.
        self._folded = None
        for key in {*self._held, *self._carriers, *self._edited}:
            if admit.may_have(key):
                self._forget_leaf(key)
        self._load()
        return count

    def _is_empty(self) -> bool:
        """Whether there are no leaves, hidden ones and parts of other objects included."""
        return len(self._listing()) == 0

    def _embedded_keys(self) -> list[str]:
        return [] if self._embedded is None else list(self._embedded.entries)

    def _goes_to_file(self, value: Any, window: Window) -> bool:
        if isinstance(window, Moved):
            return window.origin in self._backend  # the tier that it was in
        if self._threshold is None:
            return getattr(value, "urlpath", None) is not None
        if self._threshold == 0:
            return True
        return int(Frame.open(*window).nbytes) >= self._threshold

    def _tier(self, key: str) -> bool | None:
        return self._external.get(key)

    def _set_tier(self, key: str, tier: bool | None) -> None:
        if tier is None:
            self._external.pop(key, None)
        else:
            self._external[key] = tier

    def _beside_keys(self) -> tuple[Any, ...]:
        return *super()._beside_keys(), self._new_registry

    def _bring_back_beside(self, state: tuple[Any, ...]) -> None:
        *before, self._new_registry = state
        super()._bring_back_beside(tuple(before))
        self._recount()

    def _recount(self) -> None:
        """Pending changes are others than those that were counted."""
        self._listing_cache = None
        self._folded = None
        if self._placed:
            self._list_placed()

    def _remove(self, key: str) -> None:
        super()._remove(key)
        self._waiting_leaves.discard(key)
        if self._embedded is not None and key in self._embedded.entries:
            self._in_memory += MAP_BYTES
        self._folded_more = True
        self._external.pop(key, None)
        self._listing_cache = None

    def _stage(self, changes: dict[str, Window]) -> dict[str, Window]:
        external = {key: window for key, window in changes.items() if self._external.get(key, True)}
        embedded = {key: window for key, window in changes.items() if key not in external}
        return {**super()._stage(embedded), **self._backend.stage(external)}

    def _moved(self, key: str) -> Window:
        return self._backend.moved(key) if key in self._backend else super()._moved(key)

    def _opened(self, key: str, moved: Moved) -> Window:
        try:
            return self._backend.opened(moved)
        except OSError:
            # Another thread, or the process of which this one is a fork, may just have published it.
            window = self._published(key)
            if window is None:
                raise
            return window

    def _publish(self, changes: dict[str, Window | None], *, durable: bool = True) -> None:
        self._settle()
        embedded = self._embedded
        entries: dict[str, dict[str, Any]] = {} if embedded is None else embedded.entries
        files: dict[str, Window | None] = {}
        values: dict[str, Window | None] = {}
        for key, window in changes.items():
            to_file = self._external.get(key)
            if to_file is None:
                # A leaf that was edited stays where it is.
                to_file = key not in entries or (embedded is not None and key in self._backend)
            if key in entries or not to_file:
                values[key] = None if to_file else window
            if to_file or (embedded is not None and key in self._backend):
                files[key] = window if to_file else None
        kept: dict[str, Window | None] = {}
        backend = self._backend
        hidden = {key for key in self._hidden if key in entries and key not in changes and key in backend}
        if hidden and isinstance(backend, DirectoryBackend):
            backend.placing.settle()  # the files that stand for them
            values.update(dict.fromkeys(hidden))
        try:
            kept = self._keep_moved(files, values, durable)
            frame = None
            if embedded is None or values or self._new_registry is not None:
                frame = self._after(values)
            fresh = embedded is None
            if isinstance(backend, DirectoryBackend):
                backend.publish(files, frame, fresh=fresh, durable=durable, lazy=self._lazily)
            else:
                backend.publish(files, frame, fresh=fresh, durable=durable)
        except BaseException as error:
            if kept:
                self._take_back_moved(kept, error, durable)
            # Of a directory some files may be in place.
            self._look_again_at_keys()
            raise
        self._load()

    def _forget_published(self) -> None:
        super()._forget_published()
        self._backend.forget_staged()
        self._external = {}
        self._waiting_leaves, self._hidden, self._origins = set(), set(), set()
        self._new_registry = None

    def _keep_moved(
        self, files: dict[str, Window | None], values: dict[str, Window | None], durable: bool
    ) -> dict[str, Window | None]:
        """In a directory, give embedded values their new keys first where files are to come under the old ones.

        These win as soon as they are there, and the value would be under no key until the embedded ones are published.
        What was under the new keys is returned.
        """
        moved: dict[str, Window | None] = {
            key: window
            for key, window in values.items()
            if isinstance(window, Moved) and files.get(window.origin) is not None
        }
        embedded = self._embedded
        if not moved or embedded is None or not isinstance(self._backend, DirectoryBackend):
            return {}
        before = {key: embedded.kept(key) if key in embedded.entries else None for key in moved}
        self._backend.publish_embedded(self._after(moved), durable=durable)
        self._embedded = Embedded(self._backend.embed_window(), verify=self._verify)
        for key in moved:
            del values[key]
        return before

    def _take_back_moved(self, before: dict[str, Window | None], error: BaseException, durable: bool) -> None:
        """The flush failed for which embedded values were given their new keys: take these away again."""
        backend = self._backend
        try:
            if isinstance(backend, DirectoryBackend):
                backend.publish_embedded(self._after(before), durable=durable)
        except (OSError, FormatError):
            error.add_note(f"{self._path}: renamed values are there under their new keys, too: {list(before)[:5]}")

    def _after(self, changes: Mapping[str, Window | None], old: Any = ...) -> EmbeddedChanges:
        """What becomes of the embedded values, or of others that were shown before them."""
        old = self._embedded if old is ... else old
        kind = self._metalayer
        if old is not None:
            # Stores of old releases bear the mark of an EmbedStore, which misleads other readers.
            kind = kind if old.kind in (None, "b2embed") else old.kind
        registry = self._new_registry
        metadata = None if registry is None else {REGISTRY: stored_value(registry)}
        return EmbeddedChanges(kind, old, changes, metadata=metadata)

    def _drop_unpublished(self) -> None:
        self._backend.discard()
        self._waiting_leaves, self._origins = set(), set()
        self._folded = None
        self._external = {}
        self._new_registry = None
        self._listing_cache = None

    def _state(self) -> tuple[Any, ...]:
        return super()._state(), dict(self._external), self._new_registry

    def _bring_back(self, state: tuple[Any, ...]) -> None:
        before, self._external, self._new_registry = state
        super()._bring_back(before)
        self._backend.forget_appended()
        self._look_again_at_keys()

    def _look_again_at_keys(self) -> None:
        """Forget what is known of the keys that are there, published or not."""
        window = self._backend.look_again()
        if window is not None and self._embedded is not None:
            self._embedded = Embedded(window, verify=self._verify)
        self._forget_keys()
        self._recount()

    def _forget_keys(self) -> None:
        """Forget what was made of the keys of the version that was shown."""
        self._published_cache = self._listing_cache = None
        self._placed = {}
        self._forget_answers()

    def _reload(self) -> bool:
        header = b"" if self._embedded is None else self._embedded.frame.header_bytes()
        if isinstance(self._backend, DirectoryBackend) and self._mode == "r":
            self._forget_leaves()  # one of them may be new, which nothing tells
        if not self._backend.reload(header):
            return False
        self._load()
        return True

    def _compact(self, progress: Progress | None) -> None:
        self._catch_up()
        self._backend.compact(progress)
        self._load()

    def _size(self) -> int:
        return self._backend.size()

    def _abandon(self) -> None:
        self._backend.abandon()

    def _release(self) -> None:
        self._backend.close()
        self._embedded = None
        self._forget_keys()

    def _encoding(self) -> dict[str, Any]:
        return {} if self._cparams is None else {"cparams": self._cparams}


def _drained(leaves: list[tuple[str, int, Filed]]) -> Iterator[tuple[str, int, Filed]]:
    """Give what a list holds, without holding it any longer."""
    leaves.reverse()
    while leaves:
        yield leaves.pop()
