"""What `DictStore` and `TreeStore` share: looking up, changing and publishing leaves through a backend.

Leaves lie behind a backend, each in a file or member of its own, or embedded in the one frame that all share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import Any, ClassVar, Final

import numpy as np

from blosc2._backends import (
    CATALOG_LEAST,
    KEY_RULES,
    LEAF_SUFFIXES,
    MAP_BYTES,
    MEMORY_LIMIT,
    RESERVED,
    LeafStream,
    Moved,
    NewKeys,
    NewVersion,
    TieredBackend,
    Window,
    filed_as,
    suffixed_folders,
)
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.folded_keys import KeySet, same_folded
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.leaves.leaf_batch import LeafBatch
from blosc2._stores.all_or_none import AllOrNone
from blosc2._stores.leaf_publishing import NOTHING, LeafPublishing
from blosc2._stores.leaves.leaf import leaf_reader, window_of_bytes
from blosc2._stores.leaves.read_many import read_leaf
from blosc2._stores.store import Store, is_in_memory
from blosc2._stores.write_many import PROGRESS_EACH, Filed, frames, no_progress, set_many
from blosc2.exceptions import FormatError, name_file
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
    _backend: TieredBackend
    _cparams: CParams | None
    _threshold: int | None

    _publishing: LeafPublishing = NOTHING
    # New objects of other kinds that the store declares, where these change.
    _new_registry: dict[str, Any] | None = None
    _listing_cache: KeyListing | None = None
    # The keys without regard to case; made when the first key is added.
    # With them, the groups that are named like the file of a leaf.
    _folded: tuple[KeySet, set[str]] | None = None
    # Whether some of these may be gone.
    _folded_more = False

    # ------------------------------------------------------------------ publishing by itself, in a directory
    def _is_due(self, nbytes: int, block: AllOrNone | None = None) -> bool:
        return self._publishing.is_due(self, nbytes, block)

    def _publish_now(self, block: AllOrNone) -> None:
        self._publishing.end_block(self, block)

    def _see_to_published(self, keys: list[str]) -> None:
        """Show it: files that went cannot come again."""
        try:
            self._load()
            self._recount()
        except (OSError, FormatError):
            self._backend.must_load = True
        others = {key: handle for key, handle in self._leaves.edited.items() if key not in keys}
        self._show_leaves_again(keys)
        self._leaves.edited.update(others)

    def _put_at_once(self, key: str, window: Window, value: Any) -> bool:
        return self._publishing.put(self, key, window, value)

    def _remove_one(self, key: str) -> None:
        if not self._publishing.remove(self, key):
            super()._remove_one(key)

    def _flush(self, durable: bool) -> None:
        self._unwritten = self._unwritten or bool(self._publishing.hidden)
        super()._flush(durable)
        if self._mode != "r":
            self._publishing.settle(self, durable=durable)

    def _list_placed(self) -> None:
        """List the keys that were published by themselves with the others."""
        self._publishing.placed = {}
        self._listing_cache = None
        self._backend.list_again()

    def _count_key(self, key: str, change: int) -> None:
        """A key was published by itself, or removed; for groups."""

    @property
    def _is_open_end(self) -> bool:
        # Of one whose making failed there is no backend.
        return super()._is_open_end or (hasattr(self, "_backend") and self._publishing.is_unsettled(self))

    # ------------------------------------------------------------------ what a store provides
    def _leaf(self, key: str) -> Any | None:
        if self._mode != "r":
            return super()._leaf(key)
        if self._reader is None and not self._verify and self._shows_at_once():
            members = self._backend.members
            if members is not None:
                # From now on leaves are opened without this method; this one, too, if it is a member.
                table = members.table()
                self._read_by(
                    leaf_reader(table, self._hidden_name, self._path, self._mmap_mode, self._deserialize,
                                check=self._verify is None)
                )  # fmt: skip
                hidden = self._hidden_name
                if table.find(key) >= 0 and (hidden is None or not key.endswith(hidden)):
                    return self[key]
        frame = self._backend.open_frame(key)
        return None if frame is None else self._leaf_of(key, frame)

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
        members = self._backend.members
        if members is None:
            return None
        batch = LeafBatch(members.table(), names, threads, self._hidden_name, self._verify is None)
        # One that is not there may be embedded; or the error is for others to raise.
        return None if batch.missing >= 0 else batch

    def _contains(self, key: object) -> bool:
        if self._mode == "r" and self._shows_at_once() and not self._looks_up:
            # From now on without this method.
            self._look_up_in(self._published_listing())
            return key in self
        return super()._contains(key)

    def _shows_at_once(self) -> bool:
        """Whether the keys that are shown are those of a listing, which does not change."""
        return self._backend.lists_cheaply and self._backend.embedded is not None

    def _keys_below(self, group: str) -> list[str]:
        below: list[str] = self._listing().below(group or "/")
        return [group, *below] if group and self._has(group) else below

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
        published = self._backend.listing()
        if not self._changes and not self._publishing.placed:
            return published
        if self._listing_cache is None:
            # Those that the embedded values add to the files are few; they are put together anew.
            table, find = published.table, published.table.find
            added = {} if self._embedded is None else dict.fromkeys(self._embedded.entries)
            removed = []
            changes = {key: window is not None for key, window in self._changes.items()}
            for key, there in {**self._publishing.placed, **changes}.items():
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
        if self._publishing.placed:
            self._recount()
        return self._backend.listing()

    def _put(self, key: str, window: Window, value: Any = None) -> None:
        new = not self._has(key)
        self._check_new(key, new)
        if new:
            self._listing_cache = None
        self._note(key)
        self._publishing.forget_key(key)
        if isinstance(window, Moved):
            self._publishing.origins.add(window.origin)
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
        return self._threshold == 0 and self._backend.streaming is not None

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
        stream, changes = self._backend.streaming, self._changes
        if (
            stream is None
            or self._leaves.edited
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
                self._write_stream(stream, admit, chain(_drained(first), source), no_progress)
        except BaseException:
            if not self._backend.must_load:  # nothing is published: what other threads set goes on waiting
                self._changes, self._external = waiting
                self._recount()
            raise

    def _write_many(self, items: Iterator[tuple[str, Any]], progress: Callable[[int, int], Any]) -> int:
        stream = self._backend.streaming
        if stream is None or not self._streams():
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
            return self._write_stream(stream, admit, chain(_drained(first), source), progress)

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
        stream: LeafStream,
        admit: NewKeys,
        leaves: Iterable[tuple[str, int, Filed]],
        progress: Callable[[int, int], Any],
    ) -> int:
        """Write frames as they come, and publish them."""
        self._settle()
        count = total = 0
        try:
            stream.begin()
            for key, nbytes, filed in leaves:
                stream.add(key, *filed)
                count += 1
                total += nbytes
                if count % PROGRESS_EACH == 0:
                    progress(count, total)
            progress(count, total)
            shadowed = [] if self._embedded is None else self._embedded.entries
            stream.end({key: None for key in shadowed if key in admit}, self._new_registry)
        except BaseException as error:
            name_file(error, self._file)
            self._backend.discard()
            raise
        self._unwritten = False
        self._new_registry = None
        self._forget_blocks()
        self._revision += 1
        # The new keys are in none of these.
        self._folded = None
        for key in self._leaves.all_keys():
            if admit.may_have(key):
                self._leaves.forget(key)
        self._load()
        return count

    def _goes_to_file(self, value: Any, window: Window) -> bool:
        if isinstance(window, Moved):
            return self._backend.has_file(window.origin)  # the tier that it was in
        if self._threshold is None:
            return getattr(value, "urlpath", None) is not None
        if self._threshold == 0:
            return True
        return int(Frame.open(*window).nbytes) >= self._threshold

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
        if self._publishing.placed:
            self._list_placed()

    def _remove(self, key: str) -> None:
        super()._remove(key)
        self._publishing.forget_key(key)
        if self._embedded is not None and key in self._embedded.entries:
            self._in_memory += MAP_BYTES
        self._folded_more = True
        self._external.pop(key, None)
        self._listing_cache = None

    def _new_version(self, changes: dict[str, Window | None], durable: bool) -> NewVersion:
        publishing = self._publishing
        return NewVersion(
            changes, self._external, self._new_registry, publishing.hidden, durable=durable, lazy=publishing.lazily
        )

    def _forget_published(self) -> None:
        super()._forget_published()
        self._external = {}
        self._publishing.forget_published()
        self._new_registry = None

    def _drop_unpublished(self) -> None:
        super()._drop_unpublished()
        self._publishing.forget_dropped()
        self._folded = None
        self._external = {}
        self._new_registry = None
        self._listing_cache = None

    def _state(self) -> tuple[Any, ...]:
        return super()._state(), dict(self._external), self._new_registry

    def _bring_back(self, state: tuple[Any, ...]) -> None:
        before, self._external, self._new_registry = state
        super()._bring_back(before)
        self._look_again_at_keys()

    def _look_again_at_keys(self) -> None:
        super()._look_again_at_keys()
        self._forget_keys()
        self._recount()

    def _forget_keys(self) -> None:
        """Forget what was made of the keys of the version that was shown."""
        super()._forget_keys()
        self._listing_cache = None
        self._publishing.placed = {}

    def _reload(self) -> bool:
        if self._mode == "r" and not self._backend.lists_cheaply:
            self._forget_leaves()  # one of them may be new, which nothing tells
        return super()._reload()

    def _encoding(self) -> dict[str, Any]:
        return {} if self._cparams is None else {"cparams": self._cparams}


def _drained(leaves: list[tuple[str, int, Filed]]) -> Iterator[tuple[str, int, Filed]]:
    """Give what a list holds, without holding it any longer."""
    leaves.reverse()
    while leaves:
        yield leaves.pop()
