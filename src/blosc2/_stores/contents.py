"""What a store holds: its published version, with pending changes applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from blosc2._backends import ByteRange, Renamed
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._stores.pending import PendingChanges

if TYPE_CHECKING:
    from blosc2._backends import Backend


#: How many keys an iteration makes at a time.
KEYS_AT_ONCE: Final = 1024


class Contents:
    """Finds the leaves of one store by canonical key. Keys come `in_order`, or as they were added.

    Attributes
    ----------
    placed : dict
        Keys of leaves published one by one since the backend listed its keys; False for a removed key.
    """

    __slots__ = ("_backend", "_few", "_pending", "_sorted", "listings", "placed")

    def __init__(self, backend: Backend, pending: PendingChanges, *, in_order: bool = True) -> None:
        self._backend = backend
        self._pending = pending
        self._sorted = in_order
        # What is in it holds until another list takes its place: whoever still makes a listing of keys that have
        # changed since puts it into the list that nobody looks at any more.
        self.listings: list[KeyListing] = []
        self._few: tuple[KeyListing, list[str]] | None = None
        self.placed: dict[str, bool] = {}

    def has(self, key: str) -> bool:
        """Whether there is a leaf with this key."""
        frames = self._pending.frames
        if frames:
            byte_range = item_of(frames, key, ...)
            if byte_range is not ...:
                return byte_range is not None
        return key in self._backend

    def byte_range(self, key: str) -> ByteRange | None:
        """The byte range of a leaf's frame; None if there is no such leaf."""
        frames = self._pending.frames
        if frames:
            byte_range = item_of(frames, key, ...)
            if byte_range is not ...:
                if isinstance(byte_range, Renamed) and byte_range.aside:
                    return self._opened(key, byte_range)
                return byte_range
        return self._backend.locate(key)

    def _opened(self, key: str, renamed: Renamed) -> ByteRange:
        """The byte range of a frame that waits in a file aside until it gets this key."""
        try:
            return self._backend.renamed_range(renamed)
        except OSError:
            # Another thread, or the parent of this process, may just have published it.
            byte_range = self._backend.locate(key)
            if byte_range is None:
                raise
            return byte_range

    def frame(self, key: str) -> Frame | None:
        """The frame of a leaf; None if there is no such leaf."""
        if key in self._pending.frames:
            byte_range = self.byte_range(key)
            return None if byte_range is None else Frame.open(*byte_range, key)
        return self._backend.open_frame(key)

    def location(self, key: str) -> ByteRange | None:
        """The byte range of a leaf as far as it is known without reading any of it; None if there is no such leaf."""
        return self.byte_range(key) if key in self._pending.frames else self._backend.stored_range(key)

    # ------------------------------------------------------------------ keys
    def keys(self) -> list[str]:
        """All keys."""
        if self._sorted:
            below: list[str] = self.listing().below()
            return below
        frames, published = self._pending.frames, self._backend.keys()
        if not frames:
            return published
        kept = [key for key in published if frames.get(key, ...) is not None]
        known = set(kept)
        return kept + [key for key, byte_range in frames.copy().items() if byte_range is not None and key not in known]

    def listing(self) -> KeyListing:
        """All keys in sorted order; kept until they change."""
        kept = self.listings
        # First what is not published yet: another thread may publish it meanwhile, and it would be in neither.
        frames, placed = self._pending.frames, self.placed
        published = self._backend.listing()
        if not frames and not placed:
            return published
        if not kept:
            kept.append(self._list(published, frames, placed))
        return kept[0]

    def _list(self, published: KeyListing, frames: dict[str, ByteRange | None], placed: dict[str, bool]) -> KeyListing:
        # Embedded values are far fewer than files, so their keys are added anew.
        embedded, table = self._backend.embedded, published.table
        find = table.find
        added = {} if embedded is None else dict.fromkeys(embedded.entries)
        removed = []
        changes = {key: byte_range is not None for key, byte_range in frames.copy().items()}
        for key, is_there in {**placed, **changes}.items():
            if is_there:
                added[key] = None
            else:
                added.pop(key, None)
                if find(key) >= 0:
                    removed.append(key)
        gone = KeyTable.of_keys(removed)
        new = [key for key in added if find(key) < 0]
        return KeyListing(table, KeyTable.of_keys(new), gone, self._backend.named)

    def count(self) -> int:
        """How many keys there are."""
        if self._sorted:
            return len(self.listing())
        # In this order: what is published meanwhile is counted once, then, and not missed.
        frames, embedded = self._pending.frames, self._backend.embedded
        published = {} if embedded is None else embedded.entries
        if not frames:
            return len(published)
        return len(published) + sum((there is not None) - (key in published) for key, there in frames.copy().items())

    def key_batches(self) -> Iterable[list[str]]:
        """All keys, some at a time. Nobody may change these lists."""
        if not self._sorted:
            return (self.keys(),)
        listing, known = self.listing(), self._few
        return (known[1],) if known is not None and known[0] is listing else self._listed(listing)

    def _listed(self, listing: KeyListing) -> Iterator[list[str]]:
        """The keys of a listing; few of them are kept."""
        cursor = KeyCursor(listing)
        first = batch = cursor.take(KEYS_AT_ONCE)
        while batch:
            yield batch
            last, batch = batch, cursor.take(KEYS_AT_ONCE)
            if not batch and last is first:
                self._few = listing, first

    def leaf_keys(self, group: str) -> list[str]:
        """The key of the leaf at a path, if there is one, and those of all leaves below it."""
        below: list[str] = self.listing().below(group or "/")
        return [group, *below] if group and self.has(group) else below

    def list_placed(self) -> None:
        """Let the backend list its keys again, with those published one by one."""
        # In this order: whoever takes `placed` first finds its keys there or in the new listing.
        self._backend.forget_listing()
        self.placed = {}
        self.listings = []

    # ------------------------------------------------------------------ as a follower of the keys: see `KeyFollower`
    def key_changed(self, key: str, change: int) -> None:  # noqa: ARG002 - the same for all keys
        if change:
            self.listings = []

    def keys_removed(self, keys: list[str]) -> None:  # noqa: ARG002 - the same for all keys
        self.listings = []

    def recount(self) -> None:
        self.listings = []
        if self.placed:
            self.list_placed()

    def begin_version(self) -> None:
        self.placed = {}
        self.listings = []


class KeyFollower(Protocol):
    """An object that keeps something about a store's keys, and is told when keys change."""

    def key_changed(self, key: str, change: int) -> None:
        """The leaf of a key was replaced (0), added (1) or removed (-1)."""

    def keys_removed(self, keys: list[str]) -> None:
        """The leaves of many keys were removed."""

    def recount(self) -> None:
        """Pending changes were replaced, or the published keys may differ from those listed."""

    def begin_version(self) -> None:
        """Another version of the store is shown."""
