"""A `.b2z` store: one ZIP file in which each leaf is a stored member.

The directory of the archive is read in one pass, and leaves are byte ranges of the file. Changes of an existing archive
are appended: new members, a new directory, and only then an end record that makes both current. A new archive is
written beside its path and renamed. Nothing is ever unpacked.
"""

from __future__ import annotations

import errno
import os
import warnings
from contextlib import suppress
from typing import Any

from blosc2._backends.embedded.changes import EmbeddedChanges
from blosc2._backends.layout import (
    EMBED,
    LEAF_SUFFIXES,
    LOCK,
    NOT_REPLACED,
    RESERVED,
    Moved,
    Window,
    filed_as,
    missing,
    open_source,
    pieces,
    taken,
)
from blosc2._backends.writer_lock import WriterLock
from blosc2._backends.zip_compaction import copy_cataloged, copy_members
from blosc2._backends.zip_members import SMALL_MEMBER, append_frame
from blosc2._backends.zip_version import Version, open_version
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32, crc32c
from blosc2._core.io.forking import keep_from_child
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._core.zip.catalog import NAME as CATALOG
from blosc2._core.zip.catalog import Catalog
from blosc2._core.zip.catalog_writer import catalog_in_memory, write_cataloged
from blosc2._files import (
    NewFile,
    Owner,
    Progress,
    changed_by_others,
    check_writable_file,
    file_identity,
    identity_of,
    remove_leftovers,
)
from blosc2._frames import parse_dtype
from blosc2.exceptions import ClosedStoreError, FormatError

_SUFFIXES = tuple(suffix.encode() for suffix in LEAF_SUFFIXES)
_SKIPPED = tuple(name.encode() for name in (EMBED, LOCK, RESERVED))
_ALIGNMENT = 64
_EMBED = EMBED.encode()
_CATALOG = CATALOG.encode()
#: From so many leaves on an archive carries a catalog.
CATALOG_LEAST = 256
_of_member = Frame.of_member
# An embed.b2e up to this size that has no checksums of its own is checked as a whole.
_LARGEST_CHECKED = 1 << 20


class ZipBackend:
    """The members of one `.b2z` store.

    Parameters
    ----------
    path : str
        The file.
    mmap_mode : {None, 'r'}
        How it is opened.
    """

    suffix = ".b2z"
    #: Whether the keys are known without looking at each file.
    lists_cheaply = True
    #: What the file is told when it is opened.
    advice: str | None = None
    #: Whether what is read as a whole is checked against the checksums of members.
    checks = True
    #: What keeps other writers out, where the store is open for writing.
    lock: WriterLock | None = None

    def __init__(self, path: str, mmap_mode: str | None) -> None:
        self.root = path
        #: What users call it, which may be a link to it.
        self.named = path
        self._mmap_mode = mmap_mode
        self._writer: ArchiveWriter | None = None
        self._descriptor = -1
        self._new: NewFile | None = None
        # Names of the members that were written and not published, by key, and where their data lie.
        self._appended: dict[str, tuple[bytes, int]] = {}
        self._warned = self._closed = False
        self._version: Version | None = None
        # The version whose embedded values were checked.
        self._verified: Version | None = None
        # Device, inode, size and time of the archive as this backend read or left it.
        self._identity: tuple[int, ...] | None = None
        # Whether a file was there before this backend wrote anything.
        self._was_there = False
        # Whether frames lie behind the published archive that somebody still needs.
        self._staged = False
        # What lies before is never cut off: somebody may have mapped it while it was published.
        self._floor = 0
        # Whether another version is in the file than the one that is shown; and whether nothing may be built upon this.
        self.behind = self.must_load = False
        # Whether a write may have stopped in the middle, and whether somebody else's was seen.
        self._torn = self._foreign = False

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        """Whether there is a file."""
        self._was_there = os.path.lexists(self.root)
        return self._was_there

    def check_replaceable(self) -> None:
        """Refuse to put an archive in the place of a directory, or of a file that neither is nor is named like one."""
        self._check_no_directory()
        if ".b2z" in (os.path.splitext(path)[1] for path in (self.root, self.named)) or not os.path.isfile(self.root):
            return
        if os.path.getsize(self.root) and not self._is_store():
            raise taken(self.root, NOT_REPLACED)

    def _is_store(self) -> bool:
        try:
            return self._open().archive.embedded(_EMBED) is not None
        except FormatError:
            return False

    def _check_no_directory(self) -> None:
        if os.path.isdir(self.root):
            raise IsADirectoryError(errno.EISDIR, "a .b2z store is a file, and this is a directory", self.root)

    def embed_window(self) -> Window:
        """Where the frame of embedded values lies. Reads the archive's directory, at the first call."""
        try:
            version = self._open()
        except (OSError, ValueError):
            self._check_no_directory()  # which says it better
            raise
        try:
            window = version.archive.embedded(_EMBED, self.checks)
        except FormatError as error:
            if "compressed" not in error.reason:
                raise
            raise FormatError(
                f"the archive holds a compressed {EMBED}, and members are read in place: unzip it and open the folder, "
                "or pack that without compression (zip -0)", path=self.root, offset=error.offset,
            ) from None  # fmt: skip
        if window is None:
            raise FormatError(f"not a store: the archive has no member {EMBED}", path=self.root)
        self._version = version
        self._identity = version.source.identity
        self._floor = 0
        self.behind = self.must_load = False
        return version.source, *window

    def shown(self) -> tuple[Any, ...]:
        """What is shown, for `show`."""
        return self._version, self._identity, self._floor, self.behind, self.must_load

    def show(self, shown: tuple[Any, ...]) -> None:
        """Show again what was shown before something else was read that is of no use."""
        self._version, self._identity, self._floor, self.behind, self.must_load = shown

    def _open(self) -> Version:
        return open_version(
            self.root, self._mmap_mode, None if self._version is None else self._version.source, self.advice
        )

    def _absent(self) -> None:
        """There is no archive: not yet, or no more."""
        if self._closed:
            raise ClosedStoreError("this is a closed store; leaves taken from it before stay valid", path=self.root)

    def table(self) -> KeyTable:
        """The keys of all members."""
        version = self._version
        if version is None:
            self._absent()
            return KeyTable.of_keys(())
        return self._table_of(version)

    def archive_table(self) -> KeyTable | None:
        """The keys of the version that is shown, where they are those of an archive."""
        return None if self._version is None else self._table_of(self._version)

    def catalog(self) -> Catalog | None:
        """What says of leaves what they are, where the file has it."""
        version = self._version
        if version is None:
            return None
        table = self._table_of(version)
        return version.archive.catalog if table.cataloged else None

    def described(self) -> Catalog | None:
        """The same with all leaves described; those that are not in the file's catalog are opened for that, once."""
        version = self._version
        if version is None:
            return None
        catalog = self.catalog()
        if catalog is not None and catalog.vague == 0:
            return catalog
        if version.described is None and len(self._table_of(version)):
            version.described = catalog_in_memory(self._table_of(version), parse_dtype)
        return version.described

    def _table_of(self, version: Version) -> KeyTable:
        if version.keys is None:
            version.keys = keys = KeyTable.of_archive(version.archive, _SUFFIXES, _SKIPPED)
            version.find = keys.find
            if keys.strangers or keys.clashes or keys.packed:
                self._warn(keys)
        return version.keys

    def _warn(self, keys: KeyTable) -> None:
        if self._warned:
            return
        self._warned = True
        for key in keys.strangers:
            warnings.warn(f"{self.root}: {key!r} is a frame under an unusual suffix", UserWarning, stacklevel=2)
        for key in keys.packed:
            warnings.warn(
                f"{self.root}: {key!r} is not shown, because another tool has compressed its member, and members are "
                "read in place: unzip the file and pack it without compression (zip -0)",
                UserWarning,
                stacklevel=2,
            )
        for key in keys.clashes:
            warnings.warn(
                f"{self.root}: {key!r} has more than one member; of these, the suffixes "
                f"{', '.join(LEAF_SUFFIXES)} win in this order",
                UserWarning,
                stacklevel=2,
            )

    def is_packed(self, key: str) -> bool:
        """Whether a key has nothing but a member that another tool has compressed."""
        version = self._version
        return version is not None and (key if key.startswith("/") else "/" + key) in self._table_of(version).packed

    def locate(self, key: str) -> Window | None:
        """The member of a key; None where there is none."""
        version = self._version
        if version is None:
            self._absent()
            return None
        # In steps: calling an attribute of a slot at once is slower.
        find = version.find or self._table_of(version).find
        place = find(key)
        if place < 0:
            return None
        member = version.member
        offset, length = member(place)
        return version.source, offset, length

    def place(self, key: str) -> Window | None:
        """Where the member of a key lies, as far as the directory tells; None where there is none."""
        version = self._version
        place = -1 if version is None else (version.find or self._table_of(version).find)(key)
        if version is None or place < 0:
            return None
        offset, length = version.archive.extent_at(place)
        return version.source, offset, length

    def verify(self, key: str) -> None:
        """Check all bytes of a leaf against the checksum of its member; `FormatError` where they do not agree."""
        version = self._version
        if version is None:
            return
        place = (version.find or self._table_of(version).find)(key)
        if place < 0:  # an embedded value; their member is read as a whole, once
            self._verify_embedded(version, key)
        else:
            self._verify_member(version, place, key)

    def _verify_embedded(self, version: Version, key: str | None) -> None:
        place = -1 if self._verified is version else version.archive.place(_EMBED)
        if place >= 0:
            self._verify_member(version, place, key)
            self._verified = version

    def _verify_member(self, version: Version, place: int, key: str | None) -> None:
        offset, length = version.member(place)
        crc = 0
        for piece in pieces((version.source, offset, length)):
            crc = crc32(piece, crc)
        if crc != version.archive.crc_at(place):
            raise FormatError(
                "the bytes of the member are not those that were written, as its checksum says",
                path=self.root, key=key, offset=offset,
            )  # fmt: skip

    def check_embedded(self, frame: Frame) -> None:
        """Check the frame of embedded values when the first of them is opened, if it is not large and has no checksums.

        A small one was checked when the archive was opened.
        """
        if not self.checks or frame.sums_len or not SMALL_MEMBER < frame.frame_len <= _LARGEST_CHECKED:
            return
        version = self._version
        if version is not None and self._verified is not version and frame.source is version.source:
            self._verify_embedded(version, None)

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key, opened in as few reads as possible; None where there is none."""
        version = self._version
        if version is None:
            return None
        find = version.find or self._table_of(version).find
        place = find(key)
        return None if place < 0 else _of_member(version.archive, place, key, self.checks)

    def __contains__(self, key: str) -> bool:
        version = self._version
        if version is None:
            self._absent()
            return False
        found: bool = (version.find or self._table_of(version).find)(key) >= 0
        return found

    def window_in_archive(self, key: str) -> tuple[int, int] | None:
        """Offset and length of a leaf in the file."""
        window = self.locate(key)
        return None if window is None else window[1:]

    def name_of(self, key: str) -> str | None:
        """The name of a leaf's member."""
        version = self._version
        place = -1 if version is None else self._table_of(version).find(key)
        if place < 0 or version is None:
            return None
        name: str = version.archive.name_at(place)
        return name

    def close(self) -> None:
        """Let go of the file; leaves that need it keep it."""
        self.discard()
        self._closed = True
        self._version = None

    # ------------------------------------------------------------------ writing
    def stage(self, changes: dict[str, Window]) -> dict[str, Window]:
        """Move frames out of memory, behind what is published."""
        try:
            writer = self._begin()
            self._check_own()
            places = {key: self._append(key, window) for key, window in changes.items()}
            writer.drain()
            source = open_source(self._written_path, None, None if self._version is None else self._version.source)
        except BaseException:
            self._give_up()
            raise
        self._torn = False
        self._staged = True
        return {key: (source, offset, size) for key, (offset, size) in places.items()}

    def streams(self) -> bool:
        """Whether leaves can be written as they come, and sorted when all are there."""
        version = self._version
        return version is None or self._table_of(version).regular

    def begin_stream(self, *, fresh: bool) -> None:
        """Begin to write leaves for which nothing is kept but what the directory needs, in sorted runs."""
        try:
            writer = self._begin(fresh)
            self._check_own()
            writer.gather(self._folder)
        except BaseException:
            self._give_up()
            raise

    def stream(self, key: str, suffix: str, about: bytes, frame: Window | bytes) -> None:
        """Write a leaf; `end_stream` makes it part of the archive with all others."""
        append_frame(self._streaming_writer(), (key[1:] + suffix).encode(), frame, about)

    def end_stream(self, embed: EmbeddedChanges | None, *, fresh: bool) -> None:
        """Publish what was written since `begin_stream`."""
        self._streaming_writer()
        self.publish({}, embed, fresh=fresh)

    def _streaming_writer(self) -> ArchiveWriter:
        """What leaves are written to as they come: never another one than for those before."""
        self._owner.check(self.root)
        if self._writer is None:
            raise RuntimeError(f"{self.root}: the store was closed while many values were written; none is stored")
        return self._writer

    def publish(
        self, changes: dict[str, Window | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True
    ) -> None:
        """Make changes part of the archive; see `DirectoryBackend.publish`."""
        end = -1
        try:
            writer = self._begin(fresh)
            self._check_own()
            for key in [key for key in self._appended if changes.get(key) is None]:
                self._drop(key)
            for key, window in changes.items():
                if window is not None and not self._is_appended(key, window):
                    self._append(key, window)
            if embed is not None:
                self._append_embedded(writer, embed)
            writer.drain()
            self._check_own()
            self._write_directory(writer, changes, None if fresh else self._version, embedded=embed is not None)
            # Of a new file, which nobody sees yet, all is synced before it gets its name.
            in_place = durable and self._new is None
            if in_place:
                os.fsync(self._descriptor)
            self._check_own()
            end = writer.position
            writer.write_end()
            if in_place:
                os.fsync(self._descriptor)
            self._finish(durable)
        except BaseException:
            if end < 0:
                self._give_up()
            else:
                self._take_back(writer, end)
            raise

    def _append_embedded(self, writer: ArchiveWriter, embed: EmbeddedChanges) -> None:
        append_frame(writer, _EMBED, embed.window(self.root))

    def _write_directory(
        self, writer: ArchiveWriter, changes: dict[str, Window | None], version: Version | None, *, embedded: bool
    ) -> None:
        """Write the directory of the next version; nothing shows it yet.

        Of many leaves it is written in the order of their keys, with a catalog before it.
        """
        keys = None if version is None else self._table_of(version)
        most = len(changes) + writer.gathered + (0 if keys is None else len(keys))
        # What was streamed is sorted already, be it little.
        if not writer.gathered and (most < CATALOG_LEAST or (keys is not None and not keys.regular)):
            if version is None:
                writer.write_directory()
            else:
                writer.write_directory(*version.archive.records(self._outdated(version, changes, embedded)))
            return
        runs, others = writer.gather(self._folder)
        for key, window in changes.items():
            if window is None:
                writer.hide(key[1:].encode("utf-8", "surrogateescape"))
        if version is not None and keys is not None:
            sound = keys.sound()
            if sound is not keys:  # what the catalog said of the old version is not what its directory says
                version.keys, version.find, keys = sound, sound.find, sound
            others = keys.others((_CATALOG, _EMBED) if embedded else (_CATALOG,)) + others
        write_cataloged(writer, keys, runs, others, _EMBED)

    def _begin(self, fresh: bool | None = None) -> ArchiveWriter:
        """Open what new members are written to: the archive itself, or a file that will replace it."""
        self._owner.check(self.root)
        if self._writer is not None:
            return self._writer
        flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        if self._version is None or fresh:
            self._owner.makedirs(self._folder)
            # What was not there when the store was opened is somebody else's.
            replace = self._version is not None or self._was_there
            self._new = NewFile(self.root, replace=replace, owner=self._owner, buffered=False)
            self._descriptor = self._new.file.fileno()
            start = 0
            seal: int | None = 0
        else:
            self._descriptor = os.open(self.root, flags)
            keep_from_child(self)
            if self._now() != self._identity or not self._version.is_in(self.root):
                raise self._refusal()
            size = start = os.fstat(self._descriptor).st_size
            end, seal = self._version.archive.end, self._version.archive.seal
            if not self._staged:
                # What lies behind is left from an append that was not finished.
                start = max(end, self._floor)
                if size > start:
                    self._cut(start)
            if seal is not None and start > end:
                for piece in pieces((Source.open(self.root), end, start - end)):
                    seal = crc32c(piece, seal)
        self._writer = ArchiveWriter(self._descriptor, start, _ALIGNMENT, seal)
        return self._writer

    def _now(self) -> tuple[int, ...]:
        """The identity of the file that is open for appending."""
        return identity_of(os.fstat(self._descriptor))

    def _refusal(self) -> OSError:
        self._foreign = True
        return changed_by_others(self.root)

    def _check_own(self) -> None:
        """Refuse to write when the archive is not what this writer left, with nothing waiting to be written."""
        self._owner.check(self.root)
        self._torn = False
        if self._new is None and not self._is_own():
            raise self._refusal()
        self._torn = True

    def _is_own(self) -> bool:
        """Whether the file under the store's name is the open one, and nobody else wrote to it."""
        if self._foreign or self._writer is None:
            return False
        try:
            named = os.stat(self.root)
        except OSError:
            return False
        device, inode, size, _ = self._now()
        if (named.st_dev, named.st_ino) != (device, inode):
            return False
        if self._torn and self._version is not None:
            return size >= self._version.archive.end
        return bool(size == self._writer.written)

    @property
    def _owner(self) -> Owner:
        """Who may write."""
        return Owner() if self.lock is None else self.lock.owner

    @property
    def _is_inherited(self) -> bool:
        return self.lock is not None and self.lock.inherited

    def fileno(self) -> int:
        """The descriptor of what is open for writing, which a forked child must not have."""
        if self._descriptor < 0:
            raise ValueError("nothing is open for writing")
        return self._descriptor

    def _cut(self, size: int) -> None:
        self._owner.check(self.root)
        os.ftruncate(self._descriptor, size)
        # Else a sector of it could be beside new bytes after a crash, and both look like a damaged end record.
        os.fsync(self._descriptor)
        self._identity = self._now()

    def moved(self, key: str) -> Moved:
        """The published frame of a key that is to get another one."""
        window = self.locate(key)
        if window is None:
            raise self._refusal()
        return Moved(window, key)

    def opened(self, moved: Moved) -> Window:
        """All members are windows."""
        return moved

    def cut_tail(self) -> None:
        """Cut off what an append left that was not finished."""
        version = self._version
        if version is None or version.source.size <= version.archive.end or self.lock is None or not self.lock.held:
            return
        try:
            descriptor = os.open(self.root, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError:  # then nothing can be appended either
            return
        self._descriptor = descriptor
        try:
            if self._now() == self._identity:
                self._cut(version.archive.end)
        finally:
            self._close()

    def reload(self, header: bytes) -> bool:  # noqa: ARG002 - of the embedded values, for the other backend
        """Forget what was read when there is another version; whether there is."""
        version, old, new = self._version, self._identity, file_identity(self.root)
        if version is not None and old is not None and new is not None and not self.behind and version.is_in(self.root):
            if new == old:
                return False
            # A writer may be appending what it has not published yet.
            appended = self.lock is None and new[:2] == old[:2] and version.archive.seal is not None
            if appended and self._open().record == version.record:
                return False
        self._cut_off()
        self._warned = False
        return True

    def size(self) -> int:
        """Bytes of the file."""
        return os.stat(self.root).st_size

    def compact(self, progress: Progress | None) -> None:
        """Write the archive anew without its dead bytes."""
        self._owner.check(self.root)
        version = self._version
        if version is None:
            raise missing(self.root)
        if self._staged or self._descriptor >= 0:  # what was moved out of memory, and nobody needs any more
            self.discard()
        if file_identity(self.root) != self._identity or not version.is_in(self.root):
            raise self._refusal()
        check_writable_file(self.root)
        if self.lock is not None and self.lock.held and self._new is None:
            remove_leftovers(self.root, self._owner)
        keys = self._table_of(version).sound()
        new = NewFile(self.root, replace=True, lock=self.lock, owner=self._owner)
        try:
            writer = ArchiveWriter(new.file.fileno(), 0, _ALIGNMENT, seal=0)
            if len(keys) >= CATALOG_LEAST and keys.regular:
                copy_cataloged(version.source, version.archive, keys, writer, self._folder, progress)
            else:
                copy_members(version.source, version.archive, writer, progress)
            writer.write_end()
        except BaseException:
            new.abandon()
            raise
        self._commit(new, durable=True)
        self.must_load = True

    def forget_staged(self) -> None:
        """What was moved out of memory lies in the file, and is part of what was published."""

    def look_again(self) -> Window | None:
        """They are those of the version that is shown, as long as it is."""
        return None

    def forget_appended(self) -> None:
        """Frames that were moved out of memory are to be written again, under the keys that they will have then."""
        for key in list(self._appended):
            self._drop(key)

    def abandon(self) -> None:
        """Let go of what is open for writing as it is; it is another process's."""
        if self._new is not None:
            self._new.let_go()
        else:
            self._close(quietly=True)
        self._end_writing()

    def _append(self, key: str, window: Window) -> tuple[int, int]:
        suffix, about = filed_as(window)
        name = (key[1:] + suffix).encode()
        self._drop(key)
        place = append_frame(self._begin(), name, window, about)
        self._appended[key] = name, place[0]
        return place

    def _drop(self, key: str) -> None:
        name, _ = self._appended.pop(key, (None, 0))
        if name is not None and self._writer is not None:
            self._writer.drop(name)

    def _is_appended(self, key: str, window: Window) -> bool:
        """Whether a frame already lies in the file that is being written, under its key."""
        return self._appended.get(key, (b"", -1))[1] == window[1] and window[0].path == self._written_path

    def _outdated(self, version: Version, changes: dict[str, Window | None], embed: bool) -> set[int]:
        """Places of the records that the new directory leaves out."""
        archive = version.archive
        gone: set[int] = set()
        keys = self._table_of(version)
        shadowed = keys.shadowed
        for key in changes:
            place = keys.find(key)
            if place >= 0:
                gone.add(place)
                gone.update(shadowed.get(key, ()))
            gone.update(keys.packed.get(key, ()))
        if embed:
            gone.update(archive.places(_EMBED))
        gone.update(archive.places(_CATALOG))  # it would not fit any more
        return gone

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.root))

    @property
    def _written_path(self) -> str:
        return self.root if self._new is None else self._new.file.name

    def _finish(self, durable: bool) -> None:
        """The new end record is written: make the file the store's, where it is another one."""
        if self._new is None:
            self._leave()
            self._close(quietly=durable)
        else:
            self._commit(self._new, durable=durable)
        self._end_writing()

    def _commit(self, new: NewFile, *, durable: bool) -> None:
        """Give a new file the store's name. It has that even where it cannot be made durable."""
        place = identity_of(os.fstat(new.file.fileno()))[:2]
        try:
            new.commit(durable=durable, lock=self.lock)
            self._settle_place(place)
        except BaseException:
            self._settle_place(place)
            raise

    def _settle_place(self, place: tuple[int, ...]) -> None:
        """See whether a new file has the store's name now."""
        with suppress(OSError):
            now = file_identity(self.root)
            if now is not None and now[:2] == place:
                self._was_there = True
                self._identity, self._floor = now, 0
                self.behind = self.must_load = True

    def _leave(self) -> None:
        """The file is left as it is now, with another version than the one that is shown."""
        self._identity = self._now()
        self._floor = self._identity[2]
        self.behind = True

    def _take_back(self, writer: ArchiveWriter, end: int) -> None:
        """An end record was written at a place, or a part of it, and the version that it shows is no success."""
        if not self._owner.is_here:
            self.abandon()
            return
        if self._new is not None or self._descriptor < 0:
            if self._new is not None:
                self._new.abandon()
            self._end_writing()
            return
        shown = True
        with suppress(OSError):
            shown = os.fstat(self._descriptor).st_size >= writer.position
        if not shown:
            self._give_up(end)
            return
        # Somebody may have mapped it by now. So it stays, and the version before comes once more, behind it.
        with suppress(OSError):
            self._leave()
        with suppress(OSError, FormatError, MemoryError):
            self._write_again(writer)
        with suppress(OSError):
            self._identity = self._now()
            self._floor = self._identity[2]
        self._close(quietly=True)
        self._end_writing()

    def _write_again(self, writer: ArchiveWriter) -> None:
        """Write the directory of the version that is shown behind all others, and its end record."""
        assert self._version is not None
        archive = self._version.archive
        again = ArchiveWriter(self._descriptor, writer.position, _ALIGNMENT, writer.seal)
        again.write_directory(*archive.records(set(archive.places(_CATALOG))))
        os.fsync(self._descriptor)
        again.write_end()
        self.behind = False
        os.fsync(self._descriptor)

    def _close(self, *, quietly: bool = False) -> None:
        """Close what is open for appending, which is forgotten first: when closing fails, it is closed all the same."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError:
            if not quietly:
                raise

    def discard(self) -> None:
        """Cut off or remove what was written and not published; what is not this writer's stays as it is."""
        if not self._is_inherited and self._staged and self._descriptor < 0 and self._version is not None:
            # Left by an append that failed: opening the archive for the next one cuts it off.
            self._staged = False
            with suppress(OSError):
                self._begin()
        self._cut_off()

    def _cut_off(self) -> None:
        if self._is_inherited:
            self.abandon()
            return
        if self._new is not None:
            self._new.abandon()
        elif self._descriptor >= 0:
            if self._version is not None and self._is_own():
                with suppress(OSError):
                    self._cut(max(self._version.archive.end, self._floor))
            self._close(quietly=True)
        self._end_writing()

    def _give_up(self, end: int = -1) -> None:
        """An append failed: end it, so that another can begin. Staged frames stay where they can be read."""
        if self._is_inherited:
            self.abandon()
            return
        if self._new is not None or not self._staged or self._descriptor < 0 or not self._is_own():
            staged = self._staged and self._new is None
            self._cut_off()
            self._staged = staged
            return
        with suppress(OSError):
            # An end record would show what was not published.
            if end >= 0:
                self._cut(end)
            self._identity = self._now()
        self._close(quietly=True)
        self._end_writing()
        self._staged = True

    def _end_writing(self) -> None:
        self._descriptor = -1
        self._new = self._writer = None
        self._appended = {}
        self._staged = self._torn = self._foreign = False
