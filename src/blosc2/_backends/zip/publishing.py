"""Publishing the next version of a `.b2z`: members, a directory, the record that makes both current; and undoing that.

The directory has a CRC-32 of each member, which covers all of its bytes together. That is enough for a member that one
read loads. A larger frame gets checksums like those in files, so that each chunk can be verified alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from blosc2._backends.embedded.frame_layout import EmbeddedChanges
from blosc2._backends.layout import (
    ByteRange,
    NewFrame,
    Renamed,
    described,
    filed_as,
    missing,
    open_source,
    pieces,
    whole,
)
from blosc2._backends.zip.members import EMBED_NAME, END, END_WITH_CHECKSUM, SMALL_MEMBER, Members
from blosc2._backends.zip.unfinished_append import DIGITS
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.leaves.catalog_writer import write_cataloged
from blosc2._core.leaves.leaf_stream import SmallLeaves, append_frames
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter as ArchiveWriter
from blosc2._core.zip.catalog import NAME
from blosc2._files import (
    NewFile,
    Progress,
    check_writable_file,
    checked_parts,
    file_identity,
    identity_of,
    remove_leftovers,
    sync_descriptor,
    sync_folder,
    to_the_end,
    told,
)
from blosc2._frames import parts_with_checksums
from blosc2.exceptions import FormatError, legible

if TYPE_CHECKING:
    from blosc2._backends.zip.backend import ZipBackend
    from blosc2._core.frame.frame_writer import RawKinds
    from blosc2._core.keys.key_admission import KeyAdmission

#: Archives of at least this many leaves carry a catalog.
CATALOG_LEAST = 1024
CATALOG_NAME: Final = NAME.encode()
# Larger frames are copied piece by piece.
_LARGE: Final = 8 << 20
# A smaller archive is not looked at for dead bytes when it is closed.
_LEAST: Final = 1 << 14
#: An archive that is written to is written anew when it has twice the bytes that it needs, and these.
SLACK: Final = 1 << 20
# The first bytes of an end record, and what they become when its archive is closed with a later version. They differ by
# the polynomial of CRC-32C, so that the file checksum stays as it is.
_END_MARK: Final = b"PK\5\6\0"
_OLDER_MARK: Final = (int.from_bytes(_END_MARK, "little") ^ (0x82F63B78 << 1 | 1)).to_bytes(5, "little")
_SECTOR: Final = 512
# Leaves whose record offsets are looked up at a time when an archive is compacted.
_TOGETHER: Final = 4096


# ------------------------------------------------------------------ members
def append_frame(
    writer: ArchiveWriter, name: bytes, frame: ByteRange | bytes, description: bytes | None = None
) -> tuple[int, int]:
    """Append a frame, with checksums unless it is small. Returns its offset in the file and its size."""
    if isinstance(frame, bytes):
        if len(frame) <= SMALL_MEMBER:
            return writer.append(name, frame, description=description), len(frame)
        frame = Source.of_buffer(frame), 0, len(frame)
    if frame[2] <= SMALL_MEMBER:
        return writer.append(name, whole(frame), description=description), frame[2]
    if frame[2] <= _LARGE and frame[0].is_joined:
        data = whole(frame)  # which checks it
        frame = Source.of_buffer(data), 0, len(data)
    try:
        parts = parts_with_checksums(Frame.open(*frame))
    except FormatError:
        if frame[2] > _LARGE:
            return writer.append_pieces(name, pieces(frame), frame[2], description=description), frame[2]
        return writer.append(name, whole(frame), description=description), frame[2]
    size = sum(part[2] if isinstance(part, tuple) else len(part) for part in parts)
    if size > _LARGE:
        return writer.append_pieces(name, checked_parts(parts, frame), size, description=description), size
    return writer.append(name, b"".join(checked_parts(parts, frame)), description=description), size


def append_leaf(backend: ZipBackend, writer: ArchiveWriter, key: str, byte_range: ByteRange) -> tuple[int, int]:
    """Append a leaf, and note it as written but not published."""
    suffix, description = filed_as(byte_range)
    name = (key[1:] + suffix).encode()
    if key in backend.appended:
        backend.drop_appended(key)
    extent = append_frame(writer, name, byte_range, description)
    backend.appended[key] = name, extent[0]
    return extent


def _append_leaves(
    backend: ZipBackend,
    writer: ArchiveWriter,
    files: dict[str, ByteRange | None],
    shown: Members | None,
    progress: Progress | None,
) -> None:
    """Write the members that are not there yet; `shown` has those of the file, None for a new one."""
    appended = backend.appended
    if appended:
        for key in [key for key in appended if files.get(key) is None]:
            backend.drop_appended(key)
    keys: Iterable[str] = files
    if (len(files) >= CATALOG_LEAST or (shown is not None and shown.removed_groups)) and (
        shown is None or shown.table().regular
    ):  # their records are to be sorted, so nothing else is kept of them
        writer.collect(backend.folder)
        members = None if shown is None else shown.whole_table()
        keys = append_frames(writer, files, appended, NewFrame, Renamed, members)
    for key, byte_range in told(files, keys, progress):
        if not (key in appended and _is_appended(backend, key, byte_range)):
            append_leaf(backend, writer, key, byte_range)


def _is_appended(backend: ZipBackend, key: str, byte_range: ByteRange) -> bool:
    """Whether a frame already lies in the file that is being written, under its key."""
    return backend.appended[key][1] == byte_range[1] and byte_range[0].path == backend.written_path


# ------------------------------------------------------------------ the directory
def write_directory(
    backend: ZipBackend,
    writer: ArchiveWriter,
    changes: dict[str, ByteRange | None],
    members: Members | None,
    *,
    embedded: bool,
) -> None:
    """Write the directory of the next version; nothing shows it yet.

    For many leaves it is written in the order of their keys, with a catalog before it.

    Parameters
    ----------
    changes : dict
        Keys that have new members, and None for removed keys.
    members : Members or None
        Those of the version before.
    embedded : bool
        Whether there are new embedded values.
    """
    keys = None if members is None else members.whole_table()
    most = len(changes) + writer.collected + (0 if keys is None else len(keys))
    # Streamed records are sorted already, even if they are few.
    if not writer.collected and (most < CATALOG_LEAST or (keys is not None and not keys.regular)):
        if members is None or keys is None:
            writer.write_directory()
        else:
            writer.write_directory(*members.archive.records(_outdated(members, keys, changes, embedded)))
        return
    runs, others = writer.collect(backend.folder)  # where files for sorting many records may lie
    for key, byte_range in changes.items():
        if byte_range is None:
            writer.hide(key[1:].encode("utf-8", "surrogateescape"))
    if members is not None:
        keys = members.sound_table(backend.own_catalog)
        others = keys.others((CATALOG_NAME, EMBED_NAME) if embedded else (CATALOG_NAME,)) + others
    write_cataloged(writer, keys, runs, others, EMBED_NAME, () if members is None else members.removed_groups)


def _outdated(members: Members, keys: KeyTable, changes: dict[str, ByteRange | None], embedded: bool) -> set[int]:
    """Offsets of the records that the new directory leaves out."""
    archive = members.archive
    gone: set[int] = set()
    shadowed = keys.shadowed
    for group in members.removed_groups:
        gone.update(keys.record_offsets(*KeyListing(keys).positions(group or "/")))
    for key in changes:
        record = keys.find(key)
        if record >= 0:
            gone.add(record)
            gone.update(shadowed.get(key, ()))
        gone.update(keys.packed.get(key, ()))
    if embedded:
        gone.update(archive.find_offsets(EMBED_NAME))
    gone.update(archive.find_offsets(CATALOG_NAME))  # it would not fit any more
    return gone


# ------------------------------------------------------------------ publishing
def publish(
    backend: ZipBackend,
    files: dict[str, ByteRange | None],
    embed: EmbeddedChanges | None,
    fresh: bool,
    durable: bool,
    progress: Progress | None,
) -> None:
    """Publish changes: write members, then the directory, then the end record that makes both current."""
    end = -1
    try:
        writer = backend.begin_append(fresh)
        members = None if fresh else backend.members
        _append_leaves(backend, writer, files, members, progress)
        if embed is not None:
            append_frame(writer, EMBED_NAME, embed.byte_range(backend.root))
        writer.drain()
        writer.eager = durable
        write_directory(backend, writer, files, members, embedded=embed is not None)
        # All of a new file is synced before it gets its name. Nobody sees it before.
        in_place = durable and backend.new_file is None
        if in_place:
            sync_descriptor(backend.descriptor)
        backend.check_own()
        end = writer.position
        backend.behind = backend.new_file is None  # until it is read, or taken back
        writer.write_end()
        if backend.new_file is None:
            if members is not None:
                backend.older.append(members.archive.end - END_WITH_CHECKSUM)
            if durable:
                sync_descriptor(backend.descriptor)
            before, backend.identity = backend.identity, identity_of(os.fstat(backend.descriptor))
            backend.written += backend.identity[2] - (before[2] if before is not None else 0)
            backend.may_compact = backend.identity[2] > _LEAST
            backend.may_be_large = backend.identity[2] > max(backend.limit, SLACK)
            backend.floor, backend.is_unfinished = backend.identity[2], False
        else:
            _commit(backend, backend.new_file, durable=durable)
        backend.unsettled = None if durable else backend
        backend.end_writing(quietly=durable)
        backend.own_catalog = writer.cataloged
        backend.new_entries = None if embed is None else embed.entries
    except BaseException:
        if end < 0:
            backend.give_up()
        else:
            _take_back(backend, writer, end)
        raise


def make_durable(backend: ZipBackend) -> None:
    """Make durable what was published without waiting for the disk; nothing is left to do if it is gone."""
    with suppress(FileNotFoundError), backend.owner.open_raw(backend.root, "r+b") as file:
        sync_descriptor(file.fileno())
        sync_folder(backend.root)
    backend.unsettled = None


@to_the_end
def hide_older(backend: ZipBackend) -> None:
    """Change the end records of versions before the last one. See `Backend.hide_older`."""
    if backend.unsettled is None and backend.owner.is_here:
        with suppress(OSError), backend.owner.open(backend.root, "r+b", buffered=False) as file:
            identity = identity_of(os.fstat(file.fileno()))
            if backend.identity is not None and identity[:3] == backend.identity[:3]:
                _hide(backend, file, identity[2] - END_WITH_CHECKSUM)


def _hide(backend: ZipBackend, file: BinaryIO, last: int) -> None:
    for position in backend.older:
        file.seek(position)
        record = file.read(END_WITH_CHECKSUM)
        is_whole = record.startswith(_END_MARK) and record[END:-DIGITS] == b"blosc2 %016x " % position
        # A disk writes sectors: of a part of the new bytes the file checksum would be another.
        if is_whole and position < last and position % _SECTOR <= _SECTOR - len(_END_MARK):
            file.seek(position)
            mark = memoryview(_OLDER_MARK)
            while mark:
                mark = mark[file.write(mark) :]
    backend.identity = identity_of(os.fstat(file.fileno()))


def _commit(backend: ZipBackend, new: NewFile, *, durable: bool) -> None:
    """Give a new file the store's name. It keeps the name even if that cannot be made durable."""
    identity = identity_of(os.fstat(new.file.fileno()))[:2]
    try:
        backend.behind = True
        new.commit(durable=durable, lock=backend.lock)
    finally:
        with suppress(OSError):  # whether it has the name now
            now = file_identity(backend.root)
            backend.behind = now is not None and now[:2] == identity
            if backend.behind:
                backend.was_there = True
                backend.identity, backend.floor, backend.older = now, 0, []


def _take_back(backend: ZipBackend, writer: ArchiveWriter, end: int) -> None:
    """Undo an end record that was written, at least in part, but whose version failed to become durable."""
    if not backend.owner.is_here:
        backend.abandon()
        return
    if backend.new_file is not None or backend.descriptor < 0:
        if backend.new_file is not None:
            backend.new_file.abandon()
        backend.end_writing()
        return
    shown = True
    with suppress(OSError):
        shown = os.fstat(backend.descriptor).st_size >= writer.position
    if not shown:
        backend.give_up(end)
        backend.behind = False
        return
    # Somebody may have mapped the failed version. So it stays, and the version before is written again behind it.
    backend.floor = max(backend.floor, writer.position)
    backend.behind, backend.is_unfinished = True, False
    with suppress(OSError, FormatError, MemoryError):
        _write_again(backend, writer)
    with suppress(OSError):
        backend.identity = identity_of(os.fstat(backend.descriptor))
        backend.floor = backend.identity[2]
    backend.end_writing()


def _write_again(backend: ZipBackend, writer: ArchiveWriter) -> None:
    """Write the directory and end record of the version that is shown again, behind all others."""
    assert backend.members is not None
    archive = backend.members.archive
    again = ArchiveWriter(backend.descriptor, writer.position, file_checksum=writer.file_checksum)
    again.write_directory(*archive.records(set(archive.find_offsets(CATALOG_NAME))))
    sync_descriptor(backend.descriptor)
    again.write_end()
    backend.behind = False
    sync_descriptor(backend.descriptor)


# ------------------------------------------------------------------ compacting
def compact(backend: ZipBackend, progress: Progress | None) -> None:
    """Copy the members of the version that is shown to a new archive, without dead bytes."""
    backend.owner.check(backend.root)
    members = backend.members
    if members is None:
        raise missing(backend.root)
    if backend.is_staged or backend.descriptor >= 0:  # what was moved out of memory, and nobody needs any more
        backend.discard()
    try:
        backend.check_as_left(Source.open(backend.root))
    except FileNotFoundError:
        raise backend.refusal() from None
    check_writable_file(backend.root)
    if backend.lock is not None and backend.lock.held and backend.new_file is None:
        remove_leftovers(backend.root, backend.owner)
    keys = members.table().sound()
    new = NewFile(backend.root, replace=True, lock=backend.lock, owner=backend.owner)
    try:
        writer = ArchiveWriter(new.file.fileno(), file_checksum=0)
        if len(keys) >= CATALOG_LEAST and keys.regular:
            writer.collect(backend.folder)
            _copy_cataloged(members.source, members.archive, keys, writer, progress)
        else:
            _copy_members(members.source, members.archive, writer, progress)
        writer.write_end()
        backend.owner.check(backend.root)  # the progress callback may have forked
        sync_descriptor(new.file.fileno())
        backend.check_as_left(Source.open(backend.root))  # nobody has published meanwhile
        _commit(backend, new, durable=True)
    except BaseException:
        new.abandon()
        raise
    backend.new_entries, backend.limit = None, 0


def _copy_members(source: Source, archive: Archive, writer: ArchiveWriter, progress: Progress | None) -> None:
    """Copy the members of some version, and write their directory."""
    # If names are equal, the last one counts.
    live = {name: number for number, name in enumerate(archive.names()) if not archive.is_folder(number)}
    live.pop(NAME, None)
    total = sum(archive.byte_range(number)[1] for number in live.values())
    done = 0
    for name, number in live.items():
        offset, length = archive.byte_range(number)
        writer.append_pieces(name.encode(), pieces((source, offset, length)), length, archive.crc(number))
        done += length
        if progress is not None:
            progress(done, total)
    writer.write_directory()


def _copy_cataloged(
    source: Source, archive: Archive, keys: KeyTable, writer: ArchiveWriter, progress: Progress | None
) -> None:
    """Copy many leaves in the order of their keys, and write directory and catalog; nothing is held for each leaf."""
    total = source.size
    done = 0

    def copy(record: int, *, leaf: bool) -> None:
        nonlocal done
        offset, length = archive.byte_range_at(record)
        byte_range = source, offset, length
        # From the leaf itself: the old catalog may be incomplete or wrong.
        description = described(byte_range) if leaf else None
        name, crc = archive.name_at(record).encode(), archive.crc_at(record)
        writer.append_pieces(name, pieces(byte_range), length, crc, description=description)
        done += length
        if progress is not None:
            progress(done, total)

    for record in {archive.name_at(record): record for record in keys.other_offsets((CATALOG_NAME,))}.values():
        if not archive.name_at(record).endswith("/"):
            copy(record, leaf=False)
    for start in range(0, len(keys), _TOGETHER):
        for record in keys.record_offsets(start, start + _TOGETHER):
            copy(record, leaf=True)
    runs, others = writer.collect()
    write_cataloged(writer, None, runs, others, EMBED_NAME)
    if progress is not None:
        progress(total, total)


# ------------------------------------------------------------------ many leaves, one by one
class LeafStream:
    """Takes leaves one by one, and publishes them together.

    Parameters
    ----------
    backend : ZipBackend
        Where they go; it is asked for its writer each time, as somebody may close it meanwhile.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: ZipBackend) -> None:
        self._backend = backend

    def begin(self) -> None:
        """Begin to write after what is published, or to a file that will replace it.

        Only directory records are kept of the leaves, in sorted runs.
        """
        backend = self._backend
        try:
            writer = backend.begin_append(backend.embedded is None)
            writer.collect(backend.folder)
            writer.eager = backend.is_streaming = True  # `end` waits for the disk
        except BaseException:
            backend.give_up()
            raise

    def _writer(self) -> ArchiveWriter:
        """The writer of streamed leaves. It never changes during a stream."""
        backend = self._backend
        backend.owner.check(backend.root)
        if backend.writer is None:
            raise RuntimeError(
                f"{legible(backend.root)}: the store was closed while many values were written; none is stored"
            )
        return backend.writer

    def add(self, key: str, suffix: str, description: bytes, frame: ByteRange | bytes) -> None:
        """Write a leaf. `end` publishes all of them."""
        append_frame(self._writer(), (key[1:] + suffix).encode(), frame, description)

    def small_leaves(
        self, admission: KeyAdmission, kinds: RawKinds | None, progress: Callable[[int, int], Any]
    ) -> SmallLeaves:
        """What writes most small leaves, after `begin`; see there."""
        return SmallLeaves(self._writer(), admission, kinds, self._writer, progress)

    def lay_out(
        self, key: str, suffix: str, most: int, room: int, rest: Callable[[Callable[[Any], None]], bytes]
    ) -> NewFrame:
        """Write one large leaf behind what is published, while its bytes are made: it need not be copied there later.

        It is staged, so `publish` makes it visible under its key. If anything is raised, its bytes are cut off.

        Parameters
        ----------
        most : int
            Bytes that its frame has at most.
        room : int
            Those of its header.
        rest : callable
            Takes a function that writes what follows the header, buffer by buffer, and returns the header.
        """
        backend = self._backend
        name = (key[1:] + suffix).encode()
        begin = -1
        try:
            writer = backend.begin_append(backend.embedded is None)
            backend.drop_appended(key)
            writer.drain()
            begin = writer.position
            writer.eager = True  # what comes behind it waits for the disk
            start, size = writer.lay_out(name, most, room, self._by_owner(rest))
            source = open_source(
                backend.written_path, None, None if backend.members is None else backend.members.source
            )
            frame = NewFrame((source, start, size), suffix)
            writer.descriptions[name] = described(frame)
            backend.appended[key] = name, start
        except BaseException:
            backend.give_up(begin)
            raise
        backend.is_dirty = False
        backend.is_staged = True
        return frame

    def _by_owner(self, rest: Callable[[Callable[[Any], None]], bytes]) -> Callable[[Callable[[Any], None]], bytes]:
        """Make them in this process alone: a forked child would write to the file of its parent."""
        owner, root = self._backend.owner, self._backend.root

        def checked(write: Callable[[Any], None]) -> bytes:
            def write_here(data: Any) -> None:
                owner.check(root)
                write(data)

            return rest(write_here)

        return checked

    def end(self, gone: Mapping[str, None], registry: dict[str, Any] | None) -> None:
        """Publish what was written, and remove the embedded values in `gone`. That is not shown yet."""
        backend = self._backend
        self._writer()  # raises if the store was closed meanwhile
        backend.is_streaming = False
        fresh = backend.embedded is None
        embed = backend.changes_of(gone, registry) if fresh or gone or registry is not None else None
        backend.write({}, embed, fresh=fresh)
