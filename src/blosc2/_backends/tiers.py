"""What archives and directories have in common: leaves in files of their own, and small ones embedded in one frame.

A writer may move leaves of a `.b2d` while somebody reads: from a file to the embedded values, or to another file. The
writer ensures that a leaf is always in one of these tiers, usually in the new one before it leaves the old
(`doc/guide/durability.md`). A reader looks into one after the other, and so may miss the leaf in both. The leaf does
not exist if it was missed although the embedded values did not change meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from blosc2._backends import embedded as frames
from blosc2._backends.embedded_map import REGISTRY, Embedded, read_embedded
from blosc2._backends.layout import ByteRange, NewVersion
from blosc2._backends.protocol import Backend
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing

if TYPE_CHECKING:
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges
    from blosc2._files import Progress


class TieredBackend(Backend):
    """Files or members by key, and the embedded values beside them. Methods without own words: see `Backend`."""

    root: str
    named: str
    kind: str  #: the metalayer that marks a new store

    #: Whether `warn_early` may have something to say.
    warns_early = True
    _shown = (*Backend._shown, "_newer", "behind")
    # Embedded values of a newer version, read to find leaves that a writer has moved.
    _newer: Embedded | None = None

    # ------------------------------------------------------------------ what files and members provide
    @abstractmethod
    def embed_byte_range(self) -> ByteRange:
        """Where the frame of embedded values lies, in the newest version."""

    @abstractmethod
    def table(self) -> KeyTable:
        """The keys of all files or members."""

    @abstractmethod
    def warn_early(self) -> None:
        """Warn of leaves with unusual names when the store is opened, as far as looking for them takes little time."""

    @abstractmethod
    def write(
        self, files: dict[str, ByteRange | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True,
        lazy: bool = False, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Publish changes of files, and of embedded values if there are any, as the next version.

        With `fresh` a new store is made: leaves of an earlier one here are removed. For `durable` and `lazy` see
        `NewVersion`. `progress` is told of the files of a new store.
        """

    @abstractmethod
    def stage_files(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        """`stage` for frames that get files or members of their own."""

    # ------------------------------------------------------------------ open, list
    def load(self) -> None:
        self._show_or_stay(self.open)

    def _show_or_stay(self, read: Callable[[], None]) -> None:
        """Have a version read and shown. If that fails, the one before is shown again, and the new one is unread."""
        before = self.shown()
        try:
            read()
        except BaseException:
            self.show(before)
            raise

    def open(self) -> None:
        """Show what is published, where nothing was shown before."""
        embedded = read_embedded(self.embed_byte_range, self.how.verify)
        self.embedded, self._newer, self._listings, self.replaces = embedded, None, [], False
        if self.advice is not None and embedded.frame.source.advice != self.advice:
            embedded.frame.source.advise(self.advice)

    def _written(self, byte_range: ByteRange, entries: dict[str, dict[str, Any]] | None) -> Embedded:
        """Embedded values that were just written, with their map."""
        embedded = Embedded(byte_range, entries, verify=self.how.verify)
        embedded.frame.vlmeta(REGISTRY)  # which is asked for next, and by then others may have cut the file
        return embedded

    def close(self) -> None:
        super().close()
        self._newer = None

    @property
    def _is_alone(self) -> bool:
        """Whether nobody else may be changing the store now."""
        return self.lock is not None and self.lock.is_alone

    def keys(self) -> list[str]:
        found: list[str] = self.listing().below()
        return found

    def listing(self) -> KeyListing:
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

    def _list_tiers(self, embedded: Embedded) -> tuple[KeyTable, dict[str, Any]]:
        """The keys of all files, and those of all embedded values."""
        return self.table(), embedded.entries

    # ------------------------------------------------------------------ publish
    def publish(self, new: NewVersion) -> None:
        """Publish changes, split into those of files and of embedded values; `show_published` shows them."""
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
        self._publish_tiers(files, values, new)

    def _publish_tiers(
        self, files: dict[str, ByteRange | None], values: dict[str, ByteRange | None], new: NewVersion
    ) -> None:
        changes = self.embedded is None or values or new.registry is not None
        embed = self.changes_of(values, new.registry) if changes else None
        self.write(files, embed, fresh=self.embedded is None, durable=new.durable, lazy=new.lazy)

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
        return frames.frame_layout.EmbeddedChanges(kind, old, changes, metadata=metadata)

    def stage(self, changes: dict[str, ByteRange], tiers: Mapping[str, bool]) -> dict[str, ByteRange]:
        files = {key: byte_range for key, byte_range in changes.items() if tiers.get(key, True)}
        values = {key: byte_range for key, byte_range in changes.items() if key not in files}
        return {**super().stage(values, {}), **self.stage_files(files)}
