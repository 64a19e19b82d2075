"""The contract between a store and its backend, and what all backends have in common: one frame of embedded values.

A backend shows one version of a store, which `load` reads, and publishes the next. Keys are canonical. Each backend has
a frame of embedded values; `TieredBackend` adds leaves with files or members of their own. A new backend is a subclass
that says what is abstract here, and passes `tests/backend_kit.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from blosc2 import _files
from blosc2._backends.embedded_map import Embedded, verify_value
from blosc2._backends.layout import ByteRange, Renamed
from blosc2._backends.layout import NewVersion as NewVersion
from blosc2._backends.temporary import stage_values
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._files import LASTING, lasting
from blosc2._options import StoreOptions
from blosc2.exceptions import CLOSED_STORE, ClosedStoreError, StoreKeyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blosc2._backends.directory.placing import Placing
    from blosc2._backends.writer_lock import WriterLock
    from blosc2._backends.zip.members import Members
    from blosc2._backends.zip.publishing import LeafStream
    from blosc2._core.leaves.leaf_access import FolderTime
    from blosc2._files import Progress, TemporaryFile


class Settles(Protocol):
    """Published changes that a power cut may still lose."""

    def make_durable(self) -> None:
        """Make it durable."""

    def followed(self) -> None:
        """Others have changed the store since, and may have made their changes durable."""


class Backend(ABC):
    """Where the leaves of one store lie."""

    #: Its path, and the path that users gave, which may be a link to it; None in memory.
    root: str | None
    named: str | None
    suffix: str
    #: Whether the keys are known without looking at each file.
    lists_cheaply: bool
    #: Whether a publication that fails leaves all as it was.
    all_or_none: bool
    #: Whether the last publication failed, and a part of it could not be taken back: only all of it, published again,
    #: makes up one version.
    half_done = False
    #: Keeps other writers out; None if the store is open to be read only.
    lock: WriterLock | None = None
    #: What publishes leaves one by one.
    placing: Placing | None = None
    #: The members of an archive: what it knows of leaves without opening them.
    members: Members | None = None
    #: What takes many leaves as they come.
    streaming: LeafStream | None = None
    #: What was published, and may not be durable yet.
    unsettled: Settles | None = None
    #: Whether one more group can be removed as it is.
    can_remove_groups = False
    #: Whether a newer version than the shown one may have been published. Nothing may build on the shown one then.
    behind = False
    #: Whether `is_worth_compacting` is asked when the store is closed.
    may_compact = False
    #: Whether `has_outgrown` is asked after a publication.
    may_be_large = False
    #: Names of what `shown` gives.
    _shown: tuple[str, ...] = ("embedded", "replaces")

    def __init__(self, root: str | None, how: StoreOptions) -> None:
        self.root = self.named = root
        self.how = how
        #: The values that share a frame, of the version that is shown; None before anything is published.
        self.embedded: Embedded | None = None
        #: Whether the next publication makes a new store, and nothing is shown of the existing one.
        self.replaces = False
        #: The advice for files when they are opened.
        self.advice = None if how.advise is None else lasting(how.advise)
        # What is in it holds until another list takes its place: see `Contents`.
        self._listings: list[KeyListing] = []
        self._waiting: TemporaryFile | None = None  # of staged values; freed with the last of these
        self._closed = False

    # ------------------------------------------------------------------ open
    @abstractmethod
    def exists(self) -> bool:
        """Whether something exists that may be a store. Raises an error if it cannot be one."""

    @abstractmethod
    def check_replaceable(self) -> None:
        """Refuse to replace anything but a store."""

    @abstractmethod
    def load(self) -> None:
        """Show the published version. If that fails, the version shown before stays."""

    @abstractmethod
    def reload(self) -> bool:
        """Show the published version. Returns whether it is another one."""

    def shown(self) -> tuple[Any, ...]:
        """The version that is shown, for `show`."""
        found: tuple[Any, ...] = attrgetter(*self._shown)(self)
        return found

    def show(self, shown: tuple[Any, ...]) -> None:
        """Show an earlier version again, because the newer one that was read is unusable."""
        self.__dict__.update(zip(self._shown, shown, strict=True))
        self._listings = []

    def remove_groups(self, groups: tuple[str, ...]) -> bool:  # noqa: ARG002 - for backends that can
        """Show all leaves but those with files of their own below some groups.

        The next publication removes these. Returns whether others were shown before. Only if `can_remove_groups`, else
        `groups` is empty.
        """
        return False

    def forget_shown_keys(self) -> None:
        """Forget the listing of the existing keys."""
        self._listings = []

    @abstractmethod
    def cut_tail(self) -> None:
        """Cut off the bytes of an unfinished append."""

    def close(self) -> None:
        """Release everything. Leaves keep the sources that they need."""
        self._closed = self.replaces = True
        self.embedded = None
        self._listings = []

    def unmake(self) -> None:  # noqa: B027 - where the file is made when the store is opened
        """Let `close` remove a new store of which nothing was published but that it is there."""

    @abstractmethod
    def abandon(self) -> None:
        """Forget the file that is being written: it belongs to another process."""

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedStoreError(CLOSED_STORE, path=self.root)

    # ------------------------------------------------------------------ locate
    def locate_file(self, key: str) -> ByteRange | None:  # noqa: ARG002 - for backends that have any
        """The file or member of a key; None where there is none."""
        return None

    def file_byte_range(self, key: str) -> ByteRange | None:  # noqa: ARG002 - for backends that have any
        """The file or member of a key, as far as it is known without reading it; None where there is none."""
        return None

    def has_file(self, key: str) -> bool:  # noqa: ARG002 - for backends that have any
        """Whether a key has a file or a member of its own."""
        return False

    def name_of(self, key: str) -> str | None:  # noqa: ARG002 - for backends that have any
        """The name of the file or member of a key. None if it has none."""
        return None

    def locate(self, key: str) -> ByteRange | None:
        """The byte range of the frame of a key. None if there is none."""
        if self.replaces:
            self._check_open()
            return None
        byte_range = self.locate_file(key)
        return self._locate_embedded(key) if byte_range is None else byte_range

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key, opened with as few reads as possible. None if there is none."""
        byte_range = None if self.replaces else self._locate_embedded(key)
        return None if byte_range is None else Frame.open(*byte_range, key)

    def stored_range(self, key: str) -> ByteRange | None:
        """The byte range of a frame, as far as it is known without reading it. None if there is none."""
        if self.replaces:
            return None
        byte_range = self.file_byte_range(key)
        if byte_range is None and self.embedded is not None:
            byte_range = self.embedded.stored_range(key)
        return self.locate(key) if byte_range is None else byte_range

    def __contains__(self, key: str) -> bool:
        return self.contains_now(key) or (self.embedded is not None and self._find_again(key) is not None)

    def contains_now(self, key: str) -> bool:
        """Whether there is a leaf, by a single look, which may miss one that a writer is moving."""
        embedded = self.embedded
        return embedded is not None and (key in embedded.entries or self.has_file(key))

    def _locate_embedded(self, key: str) -> ByteRange | None:
        """The byte range of a leaf without a file."""
        embedded = self.embedded
        if embedded is None:
            self._check_open()
            return None
        byte_range = embedded.locate(key)
        return self._find_again(key) if byte_range is None else byte_range

    def _find_again(self, key: str) -> ByteRange | None:  # noqa: ARG002 - where leaves are moved
        """The byte range of a leaf found in neither tier, which a writer may just have moved."""
        return None

    # ------------------------------------------------------------------ list, describe
    def keys(self) -> list[str]:
        """All keys, in their order: of embedded values, that in which they came."""
        embedded = self.embedded
        return [] if embedded is None else list(embedded.entries)

    def listing(self) -> KeyListing:
        """A listing of all keys with their groups. It is kept until other keys are published."""
        kept = self._listings  # another thread may replace it meanwhile
        if not kept:
            kept.append(KeyListing(KeyTable.of_keys(self.keys()), path=self.named))
        return kept[0]

    def listing_for_looks(self) -> tuple[KeyListing, FolderTime | None] | None:
        """A listing to look for single keys in, and what tells how long it holds; None if looking for each is better.

        This is called with each key that is looked for without such a listing. None in place of the second says that
        the listing holds as long as this version is shown.
        """
        return self.listing(), None

    def forget_listing(self) -> None:
        """Keys were added or removed: list them anew."""
        self._listings = []

    def stored_bytes(self, key: str) -> int:
        """The stored bytes of a leaf, as far as they are known without opening it."""
        byte_range = self.file_byte_range(key)
        if byte_range is not None:
            return byte_range[2]
        return 0 if self.embedded is None else self.embedded.stored_bytes(key)

    @abstractmethod
    def size(self) -> int:
        """Bytes of all files."""

    def used_bytes(self) -> int | None:
        """About so many of them would be left after `compact`; None if that is not known at little cost."""
        return None

    # ------------------------------------------------------------------ verify, advise
    def verify(self, key: str, frame: Frame) -> None:
        """Check a leaf as far as possible without its chunks. Raises `FormatError` if it is not as written."""
        verify_value(self.embedded, key, frame)

    def advise(self, advice: str) -> bool:
        """Give the system advice about all files. Returns False if files of leaves did not get it."""
        if advice in LASTING:
            self.advice = advice
        if self.embedded is not None:
            self.embedded.frame.source.advise(advice)
        return True

    # ------------------------------------------------------------------ stage, publish, compact
    def stage(self, changes: dict[str, ByteRange], tiers: Mapping[str, bool]) -> dict[str, ByteRange]:  # noqa: ARG002 - where there are two
        """Move unpublished frames out of memory. Returns where they are now."""
        if self._waiting is None and self.root is not None and changes:
            self._waiting = _files.TemporaryFile(self.root)
        return stage_values(changes, self._waiting)

    def forget_staged(self) -> None:
        """All staged frames are published and read."""
        self._waiting = None

    @abstractmethod
    def discard(self) -> None:
        """Remove the staged frames."""

    @abstractmethod
    def publish(self, new: NewVersion) -> None:
        """Publish changes. They are not shown before `show_published`."""

    @abstractmethod
    def show_published(self) -> None:
        """Show what was just published. If that fails, the version shown before stays."""

    def begin_rename(self, key: str) -> Renamed:
        """The frame of a key that will get another key."""
        byte_range = self.locate(key)
        if byte_range is None:
            raise StoreKeyError(f"Key {key!r} not found in the store", path=self.root, key=key)
        return Renamed(byte_range, key)

    def renamed_range(self, renamed: Renamed) -> ByteRange:
        """The byte range of what `begin_rename` gave."""
        return renamed

    def is_worth_compacting(self) -> bool:
        """Whether so many bytes of the published version are dead that it is compacted when the store is closed."""
        return False

    def has_outgrown(self, *, shared: bool) -> bool:  # noqa: ARG002 - only archives do
        """Whether what was published made the store twice as large as it need be; `shared` if others write it, too."""
        return False

    def hide_older(self) -> None:  # noqa: B027 - only archives do
        """Let a file that is cut short show no older version; as the store ends, and its last one is durable."""

    @abstractmethod
    def compact(self, progress: Progress | None) -> None:
        """Rewrite the store without dead bytes. The result is not shown before `show_published`."""
