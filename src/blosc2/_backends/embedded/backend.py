"""An `EmbedStore`: all of its values in one frame, which is a file or lies in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2 import _files
from blosc2._backends import embedded as frames
from blosc2._backends.embedded_map import Embedded, open_embedded
from blosc2._backends.layout import NOT_REPLACED, ByteRange, NewVersion, open_source, taken
from blosc2._backends.protocol import Backend
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.on_demand import import_now
from blosc2._files import Progress, begins_with, file_identity, remove_leftovers
from blosc2._options import RemotePath, StoreOptions
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._backends.embedded.file import EmbeddedFile
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges
    from blosc2._backends.writer_lock import WriterLock


class EmbeddedBackend(Backend):
    """The frame of one store, in memory where `root` is None. `meta` and `chunksize` are for a new one."""

    suffix = ".b2e"
    lists_cheaply = all_or_none = True
    _shown = (*Backend._shown, "identity")

    def __init__(
        self,
        root: str | None,
        how: StoreOptions,
        lock: WriterLock | None = None,
        meta: Mapping[str, bytes] | None = None,
        chunksize: int = 0,
    ) -> None:
        super().__init__(root, how)
        #: The path that errors name.
        self.called = root
        self.lock = lock
        self.meta = meta
        self.chunksize = chunksize
        if how.mode != "r":
            import_now("blosc2._backends.embedded")
        # Identity of the file when it was last read or written here.
        self.identity: tuple[int, ...] | None = None
        #: That of the file that was made when the store was opened, and whether `close` removes it.
        self.made: tuple[int, ...] | None = None
        self._goes = False
        self._file = None if root is None or lock is None else frames.file.EmbeddedFile(root, lock)
        # What was published and is not shown yet: the map of values, or in memory the whole frame.
        self._entries: dict[str, dict[str, Any]] | None = None
        self._composed: Source | None = None

    @property
    def behind(self) -> bool:  # type: ignore[override]  # never assigned
        return self._file is not None and self._file.behind

    @property
    def unsettled(self) -> EmbeddedFile | None:  # type: ignore[override]  # never assigned
        file = self._file
        return file if file is not None and file.unsettled else None

    # ------------------------------------------------------------------ open
    def exists(self) -> bool:
        # A link that leads nowhere is followed when the file is made.
        exists = self.root is not None and (isinstance(self.root, RemotePath) or os.path.exists(self.root))
        if self._file is not None:
            self._file.was_there = exists
        if exists and os.path.isdir(str(self.root)):
            raise IsADirectoryError(errno.EISDIR, "an EmbedStore is a file, and this is a directory", self.root)
        return exists

    def check_replaceable(self) -> None:
        """Refuse to replace a file that neither is a store of this kind nor is named like one."""
        path = str(self.root)
        if ".b2e" in (os.path.splitext(path)[1], os.path.splitext(str(self.called))[1]) or not os.path.isfile(path):
            return
        if os.path.getsize(path) and not self._is_store(path):
            raise taken(path, NOT_REPLACED.format("EmbedStore", ".b2e"))

    def _is_store(self, path: str) -> bool:
        try:
            return open_embedded(path, None).kind == "b2embed"
        except FormatError:
            return False

    def load(self) -> None:
        if self.root is not None:
            self._load(None)

    def _load(self, old: Source | None) -> None:
        how = self.how
        assert self.root is not None
        embedded = open_embedded(self.root, how.mmap_mode, old, self.advice, verify=how.verify)
        if self.lock is not None:
            self._check_kind(embedded)
        self._show(embedded)

    def load_frame(self, source: Source) -> None:
        """Show a frame that lies in memory."""
        embedded = Embedded((source, 0, -1))
        self._check_kind(embedded)
        self._show(embedded)

    def _check_kind(self, embedded: Embedded) -> None:
        if embedded.kind != "b2embed":
            raise FormatError("not an EmbedStore: this frame belongs to a DictStore or TreeStore", path=self.called)

    def _show(self, embedded: Embedded) -> None:
        self.embedded, self.replaces = embedded, False
        self._listings = []
        source = embedded.frame.source
        self.identity = source.identity
        if self._file is not None:
            self._file.was_read(source.identity)
        if self.advice is not None and source.advice != self.advice:
            source.advise(self.advice)

    def reload(self) -> bool:
        path, before = self.root, self.embedded
        if isinstance(path, RemotePath):
            if _files.renewed_source(path):
                self._load(None)
                return True
            return False
        identity = None if path is None else file_identity(path)
        if path is None or (identity is None and before is None):
            return False
        header = b"" if before is None else before.frame.header_bytes()
        if identity == self.identity and not self.behind and begins_with(path, header):
            return False
        self._load(None if before is None else before.frame.source)
        after = self.embedded
        # A writer makes the file longer before it publishes a version.
        return before is None or after is None or not _are_same(before.frame, after.frame)

    def shown(self) -> tuple[Any, ...]:
        return super().shown(), None if self._file is None else self._file.state()

    def show(self, shown: tuple[Any, ...]) -> None:
        common, state = shown
        super().show(common)
        if self._file is not None:
            self._file.bring_back(state)

    def cut_tail(self) -> None:
        if self._file is not None and self.embedded is not None and self.lock is not None and self.lock.held:
            self._file.cut_tail(self.embedded.frame)
            self.identity = self._file.identity

    def close(self) -> None:
        super().close()
        self._entries = self._composed = None
        if self._goes and self.lock is not None:
            with suppress(OSError):
                self.lock.unmake()

    def unmake(self) -> None:
        self._goes = self.made is not None and file_identity(str(self.root)) == self.made

    def abandon(self) -> None:
        self._waiting = None

    discard = abandon  # their file is freed with its last user

    # ------------------------------------------------------------------ locate
    def __contains__(self, key: str) -> bool:
        embedded = self.embedded
        return embedded is not None and key in embedded.entries

    def size(self) -> int:
        if isinstance(self.root, RemotePath):
            return _files.remote_source(self.root).size
        if self.root is not None:
            return os.stat(self.root).st_size
        return 0 if self.embedded is None else int(self.embedded.frame.frame_len)

    def used_bytes(self) -> int | None:
        return None if self.embedded is None else frames.writing.used_bytes(self.embedded)

    # ------------------------------------------------------------------ publish, compact
    def changes_of(self, changes: Mapping[str, ByteRange | None]) -> EmbeddedChanges:
        """The changes as `EmbeddedChanges`."""
        return frames.frame_layout.EmbeddedChanges(
            "b2embed", self.embedded, changes, meta=self.meta, chunksize=self.chunksize
        )

    def publish(self, new: NewVersion) -> None:
        changes = self.changes_of(new.changes)
        if self._file is None:
            self._composed = Source.of_buffer(changes.compose())
        else:
            self._file.lazy = new.lazy
            self._entries = self._file.publish(changes, durable=new.durable)

    def show_published(self) -> None:
        """Show what was just published: its map is known, and not read again."""
        entries, self._entries = self._entries, None
        source, self._composed = self._composed, None
        if source is None:
            assert self.root is not None
            source = open_source(self.root, None, None if self.embedded is None else self.embedded.frame.source)
            if self._file is None or source.identity != self._file.identity:  # somebody else has published since
                self.load()
                return
        self._show(Embedded((source, 0, -1), entries))

    @property
    def may_compact(self) -> bool:  # type: ignore[override]  # never assigned
        return self._file is not None and self._file.has_appended

    def is_worth_compacting(self) -> bool:
        assert self._file is not None
        return self.embedded is not None and frames.writing.is_worth_compacting(self._file, self.embedded)

    def compact(self, progress: Progress | None) -> None:
        """Write the frame anew, without dead bytes; `show_published` shows that."""
        if self._file is None:
            self.publish(NewVersion({}, {}))
            return
        if self.lock is not None and self.lock.held:
            remove_leftovers(self._file.path, self._file.owner)
        self._entries = self._file.publish(self.changes_of({}), anew=True, progress=progress)


def _are_same(one: Frame, other: Frame) -> bool:
    """Whether two frames are the same version of the same file."""
    first, second = one.source.identity, other.source.identity
    if first is None or second is None:
        return False
    return first[:2] == second[:2] and one.header_bytes() == other.header_bytes()
