"""What archives and directories have in common: leaves in files of their own, and small ones embedded in one frame.

A writer may move leaves of a `.b2d` while somebody reads: from a file to the embedded values, or to another file. The
writer ensures that a leaf is always in one of these tiers, usually in the new one before it leaves the old
(`doc/guide/durability.md`). A reader looks into one after the other, and so may miss the leaf in both. The leaf does
not exist if it was missed although the embedded values did not change meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blosc2._backends import embedded as frames
from blosc2._backends.embedded.frame_map import REGISTRY, Embedded, read_embedded, verify_value
from blosc2._backends.layout import ByteRange, NewVersion, Renamed
from blosc2._backends.spilled_values import SpilledValues
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._files import LASTING, lasting
from blosc2._options import StoreOptions
from blosc2.exceptions import CLOSED_STORE, ClosedStoreError, StoreKeyError

if TYPE_CHECKING:
    from blosc2._backends.directory.placing import Placing
    from blosc2._backends.embedded.changes import EmbeddedChanges
    from blosc2._backends.protocol import Settles
    from blosc2._backends.writer_lock import WriterLock
    from blosc2._backends.zip.members import Members
    from blosc2._backends.zip.streaming import LeafStream
    from blosc2._files import Progress


class TieredBackend(ABC):
    """Files or members by key, and the embedded values beside them.

    Parameters
    ----------
    root : str
        The directory or file.
    how : StoreOptions
        How files are opened.
    kind : str
        The metalayer that marks a new store.
    """

    suffix: str
    lists_cheaply: bool
    all_or_none: bool
    embedded: Embedded | None = None
    replaces = half_done = False
    #: Whether `warn_early` may have something to say.
    warns_early = True
    lock: WriterLock | None = None
    placing: Placing | None = None
    members: Members | None = None
    streaming: LeafStream | None = None
    unsettled: Settles | None = None

    def __init__(self, root: str, how: StoreOptions, kind: str) -> None:
        self.root = self.named = root
        self.how = how
        self.kind = kind
        #: The advice for files when they are opened.
        self.advice = None if how.advise is None else lasting(how.advise)
        # Embedded values of a newer version, read to find leaves that a writer has moved.
        self._newer: Embedded | None = None
        # What is in it holds until another list takes its place: see `Contents`.
        self._listings: list[KeyListing] = []
        self._waiting: SpilledValues | None = None  # made when something waits
        self._closed = False
        self.behind = False

    # ------------------------------------------------------------------ what files and members provide
    @abstractmethod
    def embed_byte_range(self) -> ByteRange:
        """Where the frame of embedded values lies, in the newest version."""

    @abstractmethod
    def locate_file(self, key: str) -> ByteRange | None:
        """The file or member of a key; None where there is none."""

    @abstractmethod
    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key, in a file or embedded, opened in as few reads as possible; None where there is none."""

    @abstractmethod
    def file_byte_range(self, key: str) -> ByteRange | None:
        """The byte range of a frame, as far as it is known without reading it."""

    @abstractmethod
    def has_file(self, key: str) -> bool:
        """Whether a key has a file or a member of its own."""

    @abstractmethod
    def table(self) -> KeyTable:
        """The keys of all files or members."""

    @abstractmethod
    def warn_early(self) -> None:
        """Warn of leaves with unusual names when the store is opened, as far as looking for them takes little time."""

    @abstractmethod
    def write(
        self, files: dict[str, ByteRange | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True,
        lazy: bool = False,
    ) -> None:  # fmt: skip
        """Publish changes of files, and of embedded values if there are any, as the next version.

        With `fresh` a new store is made: leaves of an earlier one here are removed. For `durable` and `lazy` see
        `NewVersion`.
        """

    @abstractmethod
    def exists(self) -> bool:
        """See `Backend`, also for the methods below."""

    @abstractmethod
    def check_replaceable(self) -> None: ...
    @abstractmethod
    def reload(self) -> bool: ...
    @abstractmethod
    def cut_tail(self) -> None: ...
    @abstractmethod
    def abandon(self) -> None: ...
    @abstractmethod
    def name_of(self, key: str) -> str | None: ...
    @abstractmethod
    def size(self) -> int: ...
    @abstractmethod
    def discard(self) -> None: ...
    @abstractmethod
    def forget_staged(self) -> None: ...
    @abstractmethod
    def renamed_range(self, renamed: Renamed) -> ByteRange: ...
    @abstractmethod
    def compact(self, progress: Progress | None) -> None: ...

    # ------------------------------------------------------------------ open
    def load(self) -> None:
        """Show the published version. If that fails, the version shown before stays."""
        before = self.shown()
        try:
            self.open()
        except BaseException:
            self.show(before)
            raise

    def open(self) -> None:
        """Show what is published, where nothing was shown before."""
        self.embedded = embedded = read_embedded(self.embed_byte_range, self.how.verify)
        self._newer, self._listings = None, []
        self.replaces = False
        if self.advice is not None and embedded.frame.source.advice != self.advice:
            embedded.frame.source.advise(self.advice)

    def shown(self) -> tuple[Any, ...]:
        """The version that is shown, for `show`."""
        return self.embedded, self._newer, self.replaces, self.behind

    def show(self, shown: tuple[Any, ...]) -> None:
        """Show an earlier version again, because the newer one that was read is unusable."""
        self.embedded, self._newer, self.replaces, self.behind = shown
        self._listings = []

    def forget_shown_keys(self) -> None:
        """Forget the listing of the existing keys."""
        self._listings = []

    def close(self) -> None:
        """Release everything. Leaves keep the sources that they need."""
        self._closed = self.replaces = True
        self.embedded = self._newer = None
        self._listings = []

    @property
    def _is_alone(self) -> bool:
        """Whether nobody else may be changing the store now."""
        return self.lock is not None and self.lock.is_alone

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedStoreError(CLOSED_STORE, path=self.root)

    # ------------------------------------------------------------------ locate
    def locate(self, key: str) -> ByteRange | None:
        """The byte range of the frame of a key. None if there is none."""
        if self.replaces:
            self._check_open()
            return None
        byte_range = self.locate_file(key)
        return self._locate_embedded(key) if byte_range is None else byte_range

    def _embedded_frame(self, key: str) -> Frame | None:
        """The frame of a leaf that has no file; None where there is none."""
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
        """The same by a single look, which may miss a leaf that a writer is moving."""
        embedded = self.embedded
        return embedded is not None and (self.has_file(key) or key in embedded.entries)

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
        """All keys, in their order."""
        found: list[str] = self.listing().below()
        return found

    def listing(self) -> KeyListing:
        """A listing of all keys with their groups. It is kept until other keys are published."""
        kept = self._listings  # another thread may replace it meanwhile
        if not kept:
            embedded = self.embedded
            if embedded is None:
                self._check_open()
                return KeyListing(KeyTable.of_keys(()))
            if self.lists_cheaply:
                files, entries = self.table(), embedded.entries
            else:
                files, entries = self._list_tiers(embedded)
            values = [key for key in entries if files.find(key) < 0] if entries else []
            more = KeyTable.of_keys(values) if values else None
            kept.append(KeyListing(files, more, path=self.named))
        return kept[0]

    @property
    def can_remove_groups(self) -> bool:
        """Whether one more group of members can be removed as it is."""
        return self.members is not None and not self.replaces and self.members.can_remove_groups

    def remove_groups(self, groups: tuple[str, ...]) -> bool:
        """Show all members but those below some groups; whether others were shown before."""
        if self.members is None or not self.members.remove_groups(groups):
            return False
        self._listings = []
        return True

    def forget_listing(self) -> None:
        """Keys were added or removed: list them anew."""
        self._listings = []

    def _list_tiers(self, embedded: Embedded) -> tuple[KeyTable, dict[str, Any]]:
        """The keys of all files, and those of all embedded values."""
        return self.table(), embedded.entries

    def stored_bytes(self, key: str) -> int:
        """The stored bytes of a leaf, as far as they are known without opening it."""
        byte_range = self.file_byte_range(key)
        if byte_range is not None:
            return byte_range[2]
        return 0 if self.embedded is None else self.embedded.stored_bytes(key)

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

    # ------------------------------------------------------------------ publish
    def publish(self, new: NewVersion) -> None:
        """Publish changes; `show_published` shows them."""
        files, values = self._split(new)
        self._publish_tiers(files, values, new)

    def show_published(self) -> None:
        """Show what was just published. If that fails, the version shown before stays."""
        self.load()

    def _split(self, new: NewVersion) -> tuple[dict[str, ByteRange | None], dict[str, ByteRange | None]]:
        """Split changes into those of files and of embedded values."""
        embedded = self.embedded
        entries: Mapping[str, Any] = {} if embedded is None else embedded.entries
        files: dict[str, ByteRange | None] = {}
        values: dict[str, ByteRange | None] = {}
        for key, byte_range in new.changes.items():
            to_file = new.tiers.get(key)
            is_value = key in entries
            if to_file is None:
                # A leaf that was edited stays where it is.
                to_file = not is_value or self.has_file(key)
            # Whether a file is there is asked only where it matters: that takes as long as all the rest.
            if to_file:
                files[key] = byte_range
                if is_value:
                    values[key] = None
            else:
                values[key] = byte_range
                if embedded is not None and self.has_file(key):
                    files[key] = None
        return files, values

    def _publish_tiers(
        self, files: dict[str, ByteRange | None], values: dict[str, ByteRange | None], new: NewVersion
    ) -> None:
        embed = self.changes_of(values, new.registry) if self._changes_embedded(values, new.registry) else None
        self.write(files, embed, fresh=self.embedded is None, durable=new.durable, lazy=new.lazy)

    def _changes_embedded(self, values: Mapping[str, ByteRange | None], registry: dict[str, Any] | None) -> bool:
        return bool(self.embedded is None or values or registry is not None)

    def changes_of(
        self, changes: Mapping[str, ByteRange | None], registry: dict[str, Any] | None = None, old: Any = ...
    ) -> EmbeddedChanges:
        """The changes as `EmbeddedChanges`, of the embedded values or of those in `old`."""
        old = self.embedded if old is ... else old
        kind = self.kind
        if old is not None:
            # Stores of old releases bear the mark of an EmbedStore, which misleads other readers.
            kind = kind if old.kind in (None, "b2embed") else old.kind
        metadata = None if registry is None else {REGISTRY: frames.frame_layout.stored_value(registry)}
        return frames.changes.EmbeddedChanges(kind, old, changes, metadata=metadata)

    def stage(self, changes: dict[str, ByteRange], tiers: Mapping[str, bool]) -> dict[str, ByteRange]:
        """Move unpublished frames out of memory. Returns where they are now."""
        files = {key: byte_range for key, byte_range in changes.items() if tiers.get(key, True)}
        values = {key: byte_range for key, byte_range in changes.items() if key not in files}
        return {**self._stage_values(values), **self.stage_files(files)}

    def _stage_values(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        if self._waiting is None:
            self._waiting = SpilledValues(self.root)
        return self._waiting.stage(changes)

    @abstractmethod
    def stage_files(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        """`stage` for frames that get files or members of their own."""

    def begin_rename(self, key: str) -> Renamed:
        """The frame of a key that will get another key."""
        if self.has_file(key):
            return self.moved_file(key)
        byte_range = self.locate(key)
        if byte_range is None:
            raise StoreKeyError(f"Key {key!r} not found in the store", path=self.root)
        return Renamed(byte_range, key)

    @abstractmethod
    def moved_file(self, key: str) -> Renamed:
        """`begin_rename` for a key that has a file or member of its own."""
