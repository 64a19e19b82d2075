"""A `.b2z` store: one ZIP file in which each leaf is a stored member.

The directory of the archive is read in one pass, and leaves are byte ranges of the file. Changes of an existing archive
are appended: new members, a new directory, and only then an end record that makes both current. A new archive is
written beside its path and renamed. Nothing is ever unpacked.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from blosc2 import _files
from blosc2._backends import zip as archives
from blosc2._backends.layout import (
    EMBED,
    NOT_REPLACED,
    ByteRange,
    is_worth_writing_anew,
    open_source,
    pieces,
    taken,
)
from blosc2._backends.tiers import TieredBackend
from blosc2._backends.zip.members import (
    EMBED_NAME,
    END_WITH_CHECKSUM,
    Members,
    OwnCatalog,
    Version,
    open_version,
)
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.sharing import keep_from_child
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.on_demand import import_now
from blosc2._core.zip.archive import Archive
from blosc2._files import changed_by_others, file_identity, identity_of, sync_descriptor
from blosc2._options import RemotePath, StoreOptions, absolute_path
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges
    from blosc2._backends.zip.publishing import LeafStream
    from blosc2._core.zip.archive_writer import ArchiveWriter
    from blosc2._files import NewFile, Owner, Progress

# Flags of `os.open` for changes: bytes as they are, and not for programs that this one starts.
_PLAINLY: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# Bytes of a catalog and a directory on a server that come as a whole when an archive is opened.
_SMALL: Final = 1 << 18
# An archive is not compacted when it is closed if it has more members: these if one byte in so many was appended, else
# those.
_PART: Final = 16
_MOST_MEMBERS: Final = 100_000
_FEW_MEMBERS: Final = 1000


class ZipBackend(TieredBackend):
    """The members of one `.b2z` store, and the embedded values among them; see `TieredBackend`."""

    suffix = ".b2z"
    lists_cheaply = all_or_none = True
    _shown = (*TieredBackend._shown, "members", "identity", "floor")

    def __init__(self, root: str, how: StoreOptions = StoreOptions(), kind: str = "b2dict") -> None:  # noqa: B008 - never changes
        super().__init__(root, how)
        self.kind = kind
        if how.mode != "r":
            import_now("blosc2._backends.zip", "publishing", "unfinished_append")
        self.writer: ArchiveWriter | None = None
        self.descriptor = -1
        self.new_file: NewFile | None = None
        # Name and data offset of each member that was written and not published, by key.
        self.appended: dict[str, tuple[bytes, int]] = {}
        # Archives warned about; shared with the members of each version.
        self._told: set[str] = set()
        self.members: Members | None = None
        # Device, inode, size and time of the archive as this backend read or left it.
        self.identity: tuple[int, ...] | None = None
        # Whether a file was there before this backend wrote anything.
        self.was_there = False
        # Whether staged frames that are still needed lie after the published archive.
        self.is_staged = False
        # The catalog that this backend wrote last, which needs no check before the next one is made of it.
        self.own_catalog: OwnCatalog | None = None
        # The map of embedded values that were published last and are not shown yet; None if they are as before.
        self.new_entries: dict[str, dict[str, Any]] | None = None
        # Bytes that were appended to a published archive, and its size up to which nobody looks at how many are used.
        self.written = self.limit = 0
        # Bytes before this offset are never cut off: somebody may have mapped them.
        self.floor = 0
        # Where end records lie that a version after them replaces.
        self.older: list[int] = []
        # Whether bytes cut off may come back, a write may have stopped halfway, another's was seen, a stream began, an
        # append is neither published nor known to be cut off.
        self._is_cut = self.is_dirty = self._modified_externally = self.is_streaming = self.is_unfinished = False

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        self.was_there = os.path.lexists(self.root)
        return self.was_there

    def check_replaceable(self) -> None:
        """Refuse to replace a directory, or a file that is no store and is not named like one."""
        self._check_no_directory()
        if ".b2z" in (os.path.splitext(path)[1] for path in (self.root, self.named)) or not os.path.isfile(self.root):
            return
        if os.path.getsize(self.root) and not self._is_store():
            raise taken(self.root, NOT_REPLACED.format("TreeStore or DictStore", ".b2z"))

    def _is_store(self) -> bool:
        try:
            return self._open().archive.embedded(EMBED_NAME) is not None
        except FormatError:
            return False

    def _check_no_directory(self) -> None:
        if os.path.isdir(self.root):
            raise IsADirectoryError(errno.EISDIR, "a .b2z store is a file, and this is a directory", self.root)

    def embed_byte_range(self) -> ByteRange:
        """Where the frame of embedded values lies. Reads the archive's directory, at the first call."""
        try:
            members = self.members
            old = None if members is None else members.source
            version = open_version(self.root, self.how.mmap_mode, old, self.advice)
        except (OSError, ValueError):
            self._check_no_directory()  # whose error is clearer
            raise
        try:
            byte_range = version.archive.embedded(EMBED_NAME, self.how.verify is not False)
        except FormatError as error:
            if "compressed" not in error.reason:
                raise
            raise FormatError(
                f"the archive holds a compressed {EMBED}, and members are read in place: unzip it and open the folder, "
                "or pack that without compression (zip -0)", path=self.root, offset=error.offset,
            ) from None  # fmt: skip
        if byte_range is None:
            raise FormatError(f"not a store: the archive has no member {EMBED}", path=self.root)
        self._show_members(version)
        return version.source, *byte_range

    def _show_members(self, version: Version) -> None:
        self.members = members = Members(version, self.root, self.how.verify, self._told)
        self.warns_early = members.warns
        self.identity = version.source.identity
        self.floor = 0
        self.new_entries = None
        self.behind = False

    def show_published(self) -> None:
        """Show what was just published: its end is known, and embedded values that did not change are not read."""
        old, embedded, how = None if self.members is None else self.members.source, self.embedded, self.how
        source = open_source(self.root, None, old)
        identity = source.identity
        if identity is None or identity != self.identity:  # somebody else has published since
            self.load()
            return
        if how.mmap_mode is not None:
            source = source.mapped_to(source.size, old)
        if self.advice is not None:
            source.advise(self.advice)
        archive = Archive(source)
        found = archive.embedded(EMBED_NAME)
        if found is None or archive.end != source.size:
            self.load()
            return
        if (
            self.new_entries is not None
            or embedded is None
            or (embedded.frame.offset, embedded.frame.frame_len) != found
            or (embedded.frame.source.identity or ())[:2] != identity[:2]
        ):
            embedded = self._written((source, *found), self.new_entries)
        start = max(0, archive.end - END_WITH_CHECKSUM)
        self._show_members(Version(source, archive, source.read(start, archive.end - start)))
        self.embedded, self._newer, self._listings, self.replaces = embedded, None, [], False

    def _open(self) -> Version:
        members = self.members
        return open_version(self.root, self.how.mmap_mode, None if members is None else members.source, self.advice)

    def table(self) -> KeyTable:
        members = self.members
        if members is None:
            self._check_open()
            return KeyTable.of_keys(())
        return members.listed or members.table()

    def warn_early(self) -> None:
        self.table()

    def locate_file(self, key: str) -> ByteRange | None:
        members = self.members
        if members is None:
            self._check_open()
            return None
        return members.locate(key)

    def open_frame(self, key: str) -> Frame | None:
        members = self.members
        frame = None if members is None or self.replaces else members.open_frame(key)
        return super().open_frame(key) if frame is None else frame

    def file_byte_range(self, key: str) -> ByteRange | None:
        return None if self.members is None else self.members.stored_range(key)

    def has_file(self, key: str) -> bool:
        members = self.members
        if members is None:
            self._check_open()
            return False
        return key in members

    def name_of(self, key: str) -> str | None:
        return None if self.members is None else self.members.name_of(key)

    def verify(self, key: str, frame: Frame) -> None:
        """Check what can be checked of a leaf before its chunks are, and its member as a whole."""
        super().verify(key, frame)
        if self.members is not None:
            self.members.verify(key)

    def _locate_embedded(self, key: str) -> ByteRange | None:
        byte_range = super()._locate_embedded(key)
        if byte_range is not None and self.members is not None and self.embedded is not None:
            self.members.check_embedded(self.embedded.frame)
        return byte_range

    def close(self) -> None:
        self.discard()
        self.members = self.unsettled = None
        super().close()

    @property
    def can_remove_groups(self) -> bool:  # type: ignore[override]  # never assigned
        return self.members is not None and not self.replaces and self.members.can_remove_groups

    def remove_groups(self, groups: tuple[str, ...]) -> bool:
        members = self.members
        if members is None or members.removed_groups == groups:
            return False
        members.remove_groups(groups)
        self._listings = []
        return True

    # ------------------------------------------------------------------ writing
    def stage_files(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        if not changes:
            return {}
        append = archives.publishing.append_leaf
        try:
            writer = self.begin_append()
            appended = {key: append(self, writer, key, byte_range) for key, byte_range in changes.items()}
            writer.drain()
            source = open_source(self.written_path, None, None if self.members is None else self.members.source)
        except BaseException:
            self.give_up()
            raise
        self.is_dirty = False
        self.is_staged = True
        return {key: (source, offset, size) for key, (offset, size) in appended.items()}

    @property
    def streaming(self) -> LeafStream | None:  # type: ignore[override]  # never assigned
        """The stream that takes leaves one by one, if it is possible to sort them at the end."""
        members = self.members
        return archives.publishing.LeafStream(self) if members is None or members.table().regular else None

    def write(
        self, files: dict[str, ByteRange | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True,
        lazy: bool = False,  # noqa: ARG002 - all of an archive becomes durable at once
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Publish changes: write members, then the directory, then the end record that makes both current."""
        archives.publishing.publish(self, files, embed, fresh, durable, progress)

    def make_durable(self) -> None:
        archives.publishing.make_durable(self)

    def followed(self) -> None:
        self.unsettled, self.older = None, []

    def hide_older(self) -> None:
        if self.older:
            archives.publishing.hide_older(self)

    def is_worth_compacting(self) -> bool:
        members, size = self.members, self.size()
        # Members of other programs have dates and permissions, which would be lost.
        if members is None or members.archive.file_checksum is None:
            return False
        # Looking at all of many members costs more than it may gain.
        if len(members.archive) > (_MOST_MEMBERS if _PART * self.written > size else _FEW_MEMBERS):
            return False
        live = members.used_bytes()
        return is_worth_writing_anew(live, size - live, self.written)

    def has_outgrown(self, *, shared: bool) -> bool:
        members, size = self.members, self.size()
        if members is None or members.archive.file_checksum is None:
            return False
        if not shared and 2 * self.written < size and len(members.archive) > _FEW_MEMBERS:  # as when it is closed
            return False
        # It takes long to find out: not before it has grown as much again, also where it cannot be written anew.
        enough = 2 * members.used_bytes() + archives.publishing.SLACK
        self.limit = 2 * size if size > enough else enough
        return size > enough

    def compact(self, progress: Progress | None) -> None:
        archives.publishing.compact(self, progress)

    def begin_append(self, fresh: bool | None = None) -> ArchiveWriter:
        """Open what new members are written to: the archive itself, or a file that will replace it.

        An archive that is not as this writer left it is refused.
        """
        if self.lock is not None:
            self.lock.owner.check(self.root)
        if self.is_streaming:  # an interrupt left it, and nobody asked for its leaves
            self._cut_off()
        if self.writer is not None:
            self.check_own()
            return self.writer
        members = self.members
        if members is None or fresh:
            self.owner.makedirs(self.folder)
            # A file that did not exist when the store was opened belongs to somebody else.
            replace = members is not None or self.was_there
            self.new_file = _files.NewFile(self.root, replace=replace, owner=self.owner, buffered=False)
            self.descriptor = self.new_file.file.fileno()
            start = 0
            checksum: int | None = 0
        else:
            self.descriptor = os.open(self.root, os.O_RDWR | _PLAINLY)
            keep_from_child(self)
            if self.lock is not None and self.lock.owner.pid != os.getpid():  # forked before it was kept from children
                self.lock.owner.check(self.root)
            source = Source.open(self.root)
            self.check_as_left(source)
            size = start = source.size
            end, checksum = members.archive.end, members.archive.file_checksum
            if not self.is_staged:
                # Bytes behind the end are left from an unfinished append.
                start = size if self.behind else max(end, self.floor)
                if size > start or (self._is_cut and size == start):
                    self._cut(start)
            if checksum is not None and start > end:
                for piece in pieces((source, end, start - end)):
                    checksum = crc32c(piece, checksum)
            self.is_unfinished = True
        self.writer = archives.publishing.ArchiveWriter(self.descriptor, start, file_checksum=checksum)
        self.is_dirty = True
        return self.writer

    def check_as_left(self, source: Source) -> None:
        """Refuse to change an archive that is not as its writer read or left it.

        After an append of the writer that failed, and of which it is not known what the disk took, there may be bytes
        behind the version. If they are no version they are that append, as nobody else may write while it has the lock.
        """
        members, left, now = self.members, self.identity, source.identity
        assert members is not None
        fits = now == left
        may_fit = self.is_unfinished and now is not None and left is not None and now[:2] == left[:2]
        if not fits and may_fit and now is not None and now[2] >= members.archive.end:
            self.floor = min(self.floor, now[2])  # of an end record it may not be known whether it was written
            fits = archives.unfinished_append.lost_end(source, members.archive, self.floor) is None
        if not fits or not members.version.is_in(source):
            raise self.refusal()
        self.identity = now

    def refusal(self) -> OSError:
        self._modified_externally, self.is_unfinished = True, False
        return changed_by_others(self.root)

    def check_own(self) -> None:
        """Refuse to write on if the archive is not as this writer left it."""
        if self.lock is not None:
            self.lock.owner.check(self.root)
        self.is_dirty = False
        if self.new_file is None and not self._is_own():
            raise self.refusal()
        self.is_dirty = True

    def _is_own(self) -> bool:
        """Whether the store's path still leads to the open file, and nobody else wrote to it."""
        if self._modified_externally or self.writer is None:
            return False
        written = self.writer.written  # first: it waits
        try:
            named = os.stat(self.root)
        except (FileNotFoundError, NotADirectoryError):
            return False
        there = os.fstat(self.descriptor)
        if (named.st_dev, named.st_ino) != (there.st_dev, there.st_ino):
            return False
        if self.is_dirty and self.members is not None:
            return there.st_size >= self.members.archive.end
        return bool(there.st_size == written)

    @property
    def owner(self) -> Owner:
        """Who may write."""
        return _files.Owner() if self.lock is None else self.lock.owner

    @property
    def _is_inherited(self) -> bool:
        return self.lock is not None and self.lock.inherited

    def fileno(self) -> int:
        """The descriptor of the file that is open for writing. A forked child must not have it."""
        if self.descriptor < 0:
            raise ValueError("nothing is open for writing")
        return self.descriptor

    def _cut(self, size: int) -> None:
        self.owner.check(self.root)
        self._is_cut = True
        os.ftruncate(self.descriptor, size)
        self.identity = identity_of(os.fstat(self.descriptor))
        self.is_unfinished = False
        # Else old sectors could be beside new bytes after a crash, and look like a damaged end record.
        sync_descriptor(self.descriptor)
        self._is_cut = False

    def cut_tail(self) -> None:
        members = self.members
        if members is None or members.source.size <= members.archive.end or self.lock is None or not self.lock.held:
            return
        try:
            self.descriptor = os.open(self.root, os.O_RDWR | _PLAINLY)
        except OSError:  # then nothing can be appended either
            return
        try:
            if identity_of(os.fstat(self.descriptor)) == self.identity:
                self._cut(members.archive.end)
        finally:
            self.end_writing(quietly=False)

    def reload(self) -> bool:
        members, old, new = self.members, self.identity, file_identity(self.root)
        if (
            not (members is None or old is None or new is None or self.behind)
            and members.version.is_in(Source.open(self.root))
        ):  # fmt: skip
            if new == old:
                return False
            # A writer may be appending bytes that it has not published yet.
            appended = not self._is_alone and new[:2] == old[:2] and members.archive.file_checksum is not None
            if appended and self._open().record == members.version.record:
                return False
        self._cut_off()
        self._told.clear()
        self.load()
        return True

    def size(self) -> int:
        return os.stat(self.root).st_size

    def used_bytes(self) -> int | None:
        return None if self.members is None else self.members.used_bytes()

    def forget_shown_keys(self) -> None:
        """Forget the keys. Staged frames are written again, under their new keys."""
        super().forget_shown_keys()
        for key in list(self.appended):
            self.drop_appended(key)

    def abandon(self) -> None:
        if self.new_file is not None:
            self.new_file.let_go()
        self.end_writing()

    def drop_appended(self, key: str) -> None:
        name, _ = self.appended.pop(key, (None, 0))
        if name is not None and self.writer is not None:
            self.writer.drop(name)

    @property
    def folder(self) -> str:
        return os.path.dirname(absolute_path(self.root))

    @property
    def written_path(self) -> str:
        return self.root if self.new_file is None else self.new_file.file.name

    def discard(self) -> None:
        """Cut off or remove unpublished bytes. Files of other writers stay as they are."""
        if not self._is_inherited and self.is_staged and self.descriptor < 0 and self.members is not None:
            # Left by an append that failed: opening the archive for the next one cuts it off.
            self.is_staged = False
            with suppress(OSError):
                self.begin_append()
        self._cut_off()

    def _cut_off(self) -> None:
        if self._is_inherited:
            self.abandon()
            return
        if self.new_file is not None:
            self.new_file.abandon()
        elif self.descriptor >= 0:
            with suppress(OSError):
                if self.members is not None and not self.behind and self._is_own():
                    self._cut(max(self.members.archive.end, self.floor))
        self.end_writing()

    def give_up(self, end: int = -1) -> None:
        """End a failed append, so that another can begin. Staged frames can still be read."""
        if self._is_inherited:
            self.abandon()
            return
        keeps = False
        with suppress(OSError):
            keeps = self.new_file is None and self.is_staged and self.descriptor >= 0 and self._is_own()
        if not keeps:
            staged = self.is_staged and self.new_file is None
            self._cut_off()
            self.is_staged = staged
            return
        with suppress(OSError):
            # An end record would show what was not published.
            if end >= 0:
                self._cut(end)
            self.identity = identity_of(os.fstat(self.descriptor))
        self.end_writing()
        self.is_staged = True

    def end_writing(self, *, quietly: bool = True) -> None:
        """Close the file that is open for appending, and forget what was written to it or to a new one."""
        descriptor, self.descriptor = self.descriptor, -1  # first, since a failed close closes it too
        if descriptor >= 0 and self.new_file is None:
            try:
                os.close(descriptor)
            except OSError:
                if not quietly:
                    raise
        self.new_file = self.writer = None
        self.appended = {}
        self.is_staged = self.is_dirty = self._modified_externally = self.is_streaming = False


class RemoteZipBackend(ZipBackend):
    """The members of a `.b2z` on a server."""

    root: RemotePath

    def embed_byte_range(self) -> ByteRange:
        """See `ZipBackend`. Asks for all of a small catalog and directory, which are needed next."""
        byte_range = super().embed_byte_range()
        assert self.members is not None
        archive = self.members.archive
        start = archive.directory_offset if archive.catalog is None else archive.catalog.start
        if archive.source.size - start <= _SMALL:
            archive.source.advise("willneed", start)
        return byte_range

    def exists(self) -> bool:
        """Opening it tells whether there is something."""
        return True

    def _check_no_directory(self) -> None:
        """Servers have none."""

    def reload(self) -> bool:
        if not _files.renewed_source(self.root):
            return False
        self._told.clear()
        self.load()
        return True

    def size(self) -> int:
        return _files.remote_source(self.root).size

    def used_bytes(self) -> int | None:
        return None
