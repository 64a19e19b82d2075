"""Opening one version of a `.b2z`: its file and its directory, which belong together."""

from __future__ import annotations

import struct
import warnings
from contextlib import suppress
from typing import Final, NamedTuple

from blosc2._backends import zip as archives
from blosc2._backends.layout import (
    EMBED,
    FRAME_MAGIC,
    LEAF_SUFFIXES,
    LOCK,
    RESERVED,
    ByteRange,
    kind_of_frame,
    open_source,
    pieces,
    unusual_name,
)
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import MOST_REMOVED_GROUPS, KeyTable
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.catalog import Catalog
from blosc2._files import Retry
from blosc2._frames import parse_dtype
from blosc2.exceptions import FormatError

EMBED_NAME: Final = EMBED.encode()
#: Bytes of an end record, without and with a file checksum.
END: Final = 22
END_WITH_CHECKSUM: Final = END + 32
# The end record as writers leave it: without a comment, or with a file checksum.
_ENDS: Final = (END, END_WITH_CHECKSUM)
#: Bytes at the end of a file in which opening looks around: directory and catalog of some hundred leaves lie in them.
USUAL_END: Final = 1 << 16


class Version(NamedTuple):
    """One version of an archive: its file and its directory belong together.

    A reader takes the version once; a writer replaces it as a whole and never changes it.
    """

    source: Source
    archive: Archive
    #: Its last bytes when it was opened: if these differ now, the file has changed.
    record: bytes

    def is_in(self, source: Source) -> bool:
        """Whether the end record is unchanged. The time of a file does not tell of every change."""
        size, end = len(self.record), int(self.archive.end)
        return bool(source.size >= end and source.read(end - size, size) == self.record)


def open_version(path: str, mmap_mode: str | None, old: Source | None, advice: str | None) -> Version:
    """Open a file, while a writer may be cutting off an unfinished append.

    For `old` see `open_source`; `advice` is given before anything is read.
    """
    retry = Retry()
    while True:
        source = open_source(path, None, old)
        if not source.far:  # else the end came with the first answer
            source.advise("willneed", max(0, source.size - USUAL_END))  # one request, and not one for each piece
        try:
            record = _last_record(source)
            archive = None
            if not record:
                archive = Archive(source)
                archives.unfinished_append.check_tail(source, archive)
            if mmap_mode is not None:
                # Mapped bytes that were cut off must not be touched, not even to look for the end.
                source = source.mapped_to(source.size if archive is None else archive.end, old)
                archive = None
            if advice is not None:
                source.advise(advice)
            if archive is None:
                archive = Archive(source)
                if archive.end < source.size:
                    archives.unfinished_append.check_tail(source, archive)
            if not record or archive.end < source.size:
                start = max(0, archive.end - END_WITH_CHECKSUM)
                record = source.read(start, archive.end - start)
            return Version(source, archive, record)
        except FormatError:
            if not retry.again(source.identity):
                if source.size >= len(FRAME_MAGIC) and source.read(0, len(FRAME_MAGIC)) == FRAME_MAGIC:
                    raise FormatError(kind_of_frame(source), path=path, offset=0) from None
                raise


def _last_record(source: Source) -> bytes:
    """The end record at the end of a file. Empty if the file ends in an unfinished append."""
    length = min(source.size, END_WITH_CHECKSUM)
    last = source.read(source.size - length, length)
    for end in _ENDS:
        if last[-end:].startswith(b"PK\5\6") and end <= length:
            count, size, offset, more = struct.unpack_from("<HIIH", last, length - end + 10)
            # In a large archive, or one with many members, they are in another record, right before.
            fits = offset + size == source.size - end or count == 0xFFFF or 0xFFFFFFFF in (offset, size)
            return last if fits and more == end - END else b""
    return b""


#: Members of more bytes get checksums of their own; `archive.pxd` has the same number.
SMALL_MEMBER: Final = 4096

_SUFFIXES: Final = tuple(suffix.encode() for suffix in LEAF_SUFFIXES)
_SKIPPED: Final = tuple(name.encode() for name in (EMBED, LOCK, RESERVED))
#: A catalog that this process wrote: its offset, size and checksum, and how many keys and groups it has.
OwnCatalog = tuple[tuple[int, int, int], int]
# Archives with fewer members are listed when they are opened; others when a key is wanted, unless there is a catalog.
_FEW: Final = 256
# An embed.b2e up to this size that has no checksums of its own is checked as a whole.
_LARGEST_CHECKED: Final = 1 << 20


class Members:
    """The members of one version of an archive, by key. It never changes, but loads parts when they are needed.

    `verify` False does not check what is read as a whole; `told` has the archives that were warned about.
    """

    __slots__ = ("_check", "_described", "_is_checked", "_root", "_told", "_whole", "archive", "listed",
                 "removed_groups", "source", "version", "warns")  # fmt: skip

    def __init__(self, version: Version, root: str, verify: bool | None, told: set[str]) -> None:
        #: Groups that are removed, and that is not published yet.
        self.removed_groups: tuple[str, ...] = ()
        self.version = version
        self.source = version.source
        self.archive = version.archive
        self._root = root
        self._check = verify is not False
        self._told = told
        #: What `table` gives, once it is made: when the archive is opened if it has few members, or when first needed.
        self.listed: KeyTable | None = None
        self._whole: KeyTable | None = None
        # A catalog made in memory, if the file's lacks leaves.
        self._described: Catalog | None = None
        # Whether its embedded values were checked.
        self._is_checked = False
        #: Whether listing its keys will warn of some.
        self.warns = False
        if version.archive.count < _FEW and version.archive.catalog is None:
            try:
                self._whole = keys = KeyTable.of_archive(version.archive, _SUFFIXES, _SKIPPED)
                self.warns = not keys.regular
                if keys.regular:
                    self.listed = keys
            except (FormatError, OSError):  # whoever needs what cannot be read gets the error
                pass

    def table(self) -> KeyTable:
        """The keys of all members."""
        if self.listed is None:
            keys = self._whole
            if keys is None:
                keys = KeyTable.of_archive(self.archive, _SUFFIXES, _SKIPPED)
            self.listed = self._whole = keys
            if keys.unknown_suffixes or keys.clashes or keys.packed:
                self._tell(keys)
        return self.listed

    @property
    def can_remove_groups(self) -> bool:
        """Whether one more group can be removed; without a catalog that would not be worth while."""
        return len(self.removed_groups) < MOST_REMOVED_GROUPS and self.table().cataloged

    def remove_groups(self, groups: tuple[str, ...]) -> None:
        """Show all members but those below some groups."""
        self.table()
        assert self._whole is not None
        self.listed = self._whole.without_groups(groups) if groups else self._whole
        self.removed_groups = groups

    def whole_table(self) -> KeyTable:
        """The keys of all members, those that are not shown included."""
        return self.table() if self._whole is None else self._whole

    def sound_table(self, own: OwnCatalog | None = None) -> KeyTable:
        """The keys of all members; by the directory if the catalog was wrong. `own` is one that needs no check."""
        keys = self.whole_table()
        catalog = self.catalog()
        if own is not None and catalog is not None and own[0] == (catalog.start, catalog.size, catalog.footer_crc):
            keys.trust(own[1])
        sound = keys.sound()
        if sound is not keys:
            self._whole = sound
            self.listed = sound.without_groups(self.removed_groups) if self.removed_groups else sound
        return sound

    def locate(self, key: str) -> ByteRange | None:
        """The member of a key; None where there is none."""
        record = self.table().find(key)
        if record < 0:
            return None
        offset, length = self.archive.byte_range_at(record)
        return self.source, offset, length

    def stored_range(self, key: str) -> ByteRange | None:
        """The byte range of the member of a key, by the directory. None if there is no member."""
        record = self.table().find(key)
        if record < 0:
            return None
        offset, length = self.archive.extent_at(record)
        return self.source, offset, length

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key, opened with as few reads as possible. None if there is none."""
        record = self.table().find(key)
        return None if record < 0 else Frame.of_member(self.archive, record, key, self._check)

    def __contains__(self, key: str) -> bool:
        found: bool = self.table().find(key) >= 0
        return found

    def name_of(self, key: str) -> str | None:
        """The name of a leaf's member."""
        record = self.table().find(key)
        if record < 0:
            return None
        name: str = self.archive.name_at(record)
        return name

    def explain_missing(self, key: str) -> str | None:
        """The error for a key whose member cannot be read. None if there is no such member.

        Raises `FormatError` if a name in the archive is damaged, which may be that of the key.
        """
        key = key if key.startswith("/") else "/" + key
        table = self.table()
        if key not in table.packed:
            table.look_for(key)
            return None
        return (
            f"Key {key!r} cannot be read: another tool has compressed its member, and members are read in place; "
            "unzip the file and pack it without compression (zip -0)"
        )

    def used_bytes(self) -> int:
        """Bytes of the archive that a new one with the same members would have, about."""
        archive = self.archive
        stored = sum(archive.extent_at(archive.record_offset(number))[1] for number in range(len(archive)))
        return stored + 2 * archive.directory_size

    # ------------------------------------------------------------------ what a catalog knows
    def catalog(self) -> Catalog | None:
        """The catalog, if the file has one."""
        return self.archive.catalog if self.table().cataloged else None

    def described(self) -> Catalog | None:
        """A catalog that describes all leaves. Leaves that the file's catalog lacks are opened once."""
        catalog = self.catalog()
        if catalog is not None and catalog.undescribed == 0:
            return catalog
        if self._described is None and len(self.table()):
            from blosc2._core.leaves.catalog_writer import catalog_in_memory

            self._described = catalog_in_memory(self.table(), parse_dtype)
        return self._described

    # ------------------------------------------------------------------ checks
    def verify(self, key: str) -> None:
        """Check all bytes of a leaf against the checksum of its member. Raises `FormatError` if they differ."""
        record = self.table().find(key)
        if record < 0:  # an embedded value: the member of all is checked, once
            self._verify_embedded(key)
        else:
            self._verify_member(record, key)

    def check_embedded(self, frame: Frame) -> None:
        """Check the frame of embedded values when the first of them is opened, if it is not large and has no checksums.

        A small one was checked when the archive was opened.
        """
        if not self._check or frame.checksums_len or not SMALL_MEMBER < frame.frame_len <= _LARGEST_CHECKED:
            return
        if not self._is_checked:
            self._verify_embedded(None)

    def _verify_embedded(self, key: str | None) -> None:
        record = -1 if self._is_checked else self.archive.find_offset(EMBED_NAME)
        if record >= 0:
            self._verify_member(record, key)
            self._is_checked = True

    def _verify_member(self, record: int, key: str | None) -> None:
        offset, length = self.archive.byte_range_at(record)
        crc = 0
        for piece in pieces((self.source, offset, length)):
            crc = crc32(piece, crc)
        if crc != self.archive.crc_at(record):
            raise FormatError(
                "the bytes of the member are not those that were written, as its checksum says",
                path=self._root, key=key, offset=offset,
            )  # fmt: skip

    def _tell(self, keys: KeyTable) -> None:
        """Warn once of keys that writers of this package would not leave."""
        root = self._root
        if root in self._told:
            return
        self._told.add(root)
        for key in keys.unknown_suffixes:
            frame, record = None, keys.find(key)
            with suppress(FormatError, OSError):
                frame = Frame.of_member(self.archive, record, key, self._check)
            warnings.warn(unusual_name(root, self.archive.name_at(record), key, frame), UserWarning, stacklevel=2)
        for key in keys.packed:
            warnings.warn(
                f"{root}: {key!r} is not shown, because another tool has compressed its member, and members are "
                "read in place: unzip the file and pack it without compression (zip -0)",
                UserWarning,
                stacklevel=2,
            )
        for key in keys.clashes:
            warnings.warn(
                f"{root}: {key!r} has more than one member; of these, the suffixes "
                f"{', '.join(LEAF_SUFFIXES)} win in this order: pack it again without the others",
                UserWarning,
                stacklevel=2,
            )
