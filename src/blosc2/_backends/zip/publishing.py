"""Publishing changes of a `.b2z`: members, a directory, the record that makes both current; and undoing that."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from blosc2._backends import zip as archives
from blosc2._backends.embedded.changes import EmbeddedChanges
from blosc2._backends.layout import ByteRange, NewFrame, Renamed, missing
from blosc2._backends.zip import directory_records
from blosc2._backends.zip.directory_records import CATALOG_NAME, write_directory
from blosc2._backends.zip.member_frames import append_frame
from blosc2._backends.zip.members import EMBED_NAME
from blosc2._core.leaves.leaf_stream import append_frames
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._files import (
    NewFile,
    Progress,
    check_writable_file,
    file_identity,
    identity_of,
    remove_leftovers,
    sync_descriptor,
)
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._backends.zip.backend import ZipBackend
    from blosc2._backends.zip.members import Members

#: Members begin at multiples of this.
ALIGNMENT = 64


def new_writer(descriptor: int, start: int, file_checksum: int | None) -> ArchiveWriter:
    """What writes members to a file from an offset on."""
    return ArchiveWriter(descriptor, start, ALIGNMENT, file_checksum)


class Publishing:
    """Publishes changes of one `.b2z`; made for each publication, as it refers to the backend.

    Parameters
    ----------
    backend : ZipBackend
        The file, and what is being written to it.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: ZipBackend) -> None:
        self._backend = backend

    def write(
        self, files: dict[str, ByteRange | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True,
    ) -> None:  # fmt: skip
        """Publish changes: write members, then the directory, then the end record that makes both current."""
        backend = self._backend
        end = -1
        try:
            writer = backend._begin(fresh)
            backend._check_own()
            self._append_members(writer, files, None if fresh else backend.members)
            if embed is not None:
                append_frame(writer, EMBED_NAME, embed.byte_range(backend.root))
            writer.drain()
            backend._check_own()
            members = None if fresh else backend.members
            writer.eager = durable
            own = backend._own_catalog
            write_directory(writer, files, members, backend._folder, embedded=embed is not None, own=own)
            # All of a new file is synced before it gets its name. Nobody sees it before.
            in_place = durable and backend._new is None
            if in_place:
                sync_descriptor(backend._descriptor)
            backend._check_own()
            end = writer.position
            backend.behind = backend._new is None  # until it is read, or taken back
            writer.write_end()
            if in_place:
                sync_descriptor(backend._descriptor)
            self._finish(durable)
            backend._own_catalog = writer.cataloged
        except BaseException:
            if end < 0:
                backend._give_up()
            else:
                self._take_back(writer, end)
            raise

    def _append_members(self, writer: ArchiveWriter, files: dict[str, ByteRange | None], shown: Members | None) -> None:
        """Write the members that are not there yet; `shown` has those of the file, None for a new one."""
        backend = self._backend
        for key in [key for key in backend._appended if files.get(key) is None]:
            backend._drop(key)
        keys: Iterable[str] = files
        if (len(files) >= directory_records.CATALOG_LEAST or (shown is not None and shown.removed_groups)) and (
            shown is None or shown.table().regular
        ):  # their records are to be sorted, so nothing else is kept of them
            writer.collect(backend._folder)
            members = None if shown is None else shown.whole_table()
            keys = append_frames(writer, files, backend._appended, NewFrame, Renamed, members)
        for key in keys:
            byte_range = files[key]
            if byte_range is not None and not backend._is_appended(key, byte_range):
                backend._append(key, byte_range)

    def compact(self, progress: Progress | None) -> None:
        """Rewrite the archive without dead bytes."""
        backend = self._backend
        backend._owner.check(backend.root)
        members = backend.members
        if members is None:
            raise missing(backend.root)
        if backend._staged or backend._descriptor >= 0:  # what was moved out of memory, and nobody needs any more
            backend.discard()
        archives.unfinished_append.check_as_left(backend, file_identity(backend.root))
        check_writable_file(backend.root)
        if backend.lock is not None and backend.lock.held and backend._new is None:
            remove_leftovers(backend.root, backend._owner)
        keys = members.table().sound()
        new = NewFile(backend.root, replace=True, lock=backend.lock, owner=backend._owner)
        try:
            writer = new_writer(new.file.fileno(), 0, 0)
            if len(keys) >= directory_records.CATALOG_LEAST and keys.regular:
                archives.compaction.copy_cataloged(
                    members.source, members.archive, keys, writer, backend._folder, progress
                )
            else:
                archives.compaction.copy_members(members.source, members.archive, writer, progress)
            writer.write_end()
        except BaseException:
            new.abandon()
            raise
        self._commit(new, durable=True)

    def _finish(self, durable: bool) -> None:
        """After the end record is written, give a new file the store's name."""
        backend = self._backend
        if backend._new is None:
            self._leave()
            backend._close(quietly=durable)
        else:
            self._commit(backend._new, durable=durable)
        backend._end_writing()

    def _commit(self, new: NewFile, *, durable: bool) -> None:
        """Give a new file the store's name. It keeps the name even if that cannot be made durable."""
        backend = self._backend
        identity = identity_of(os.fstat(new.file.fileno()))[:2]
        try:
            backend.behind = True
            new.commit(durable=durable, lock=backend.lock)
        finally:
            self._settle_name(identity)

    def _settle_name(self, identity: tuple[int, ...]) -> None:
        """Find out whether a new file has the store's name now."""
        backend = self._backend
        with suppress(OSError):
            now = file_identity(backend.root)
            backend.behind = now is not None and now[:2] == identity
            if backend.behind:
                backend._was_there = True
                backend._identity, backend._floor = now, 0

    def _leave(self) -> None:
        """Note the file as it is now: it has a newer version than the shown one."""
        backend = self._backend
        backend.behind = True
        backend._identity = backend._now()
        backend._floor = backend._identity[2]
        backend._unfinished = False

    def _take_back(self, writer: ArchiveWriter, end: int) -> None:
        """Undo an end record that was written, at least in part, but whose version failed to become durable."""
        backend = self._backend
        if not backend._owner.is_here:
            backend.abandon()
            return
        if backend._new is not None or backend._descriptor < 0:
            if backend._new is not None:
                backend._new.abandon()
            backend._end_writing()
            return
        shown = True
        with suppress(OSError):
            shown = os.fstat(backend._descriptor).st_size >= writer.position
        if not shown:
            backend._give_up(end)
            backend.behind = False
            return
        # Somebody may have mapped the failed version. So it stays, and the version before is written again behind it.
        backend._floor = max(backend._floor, writer.position)
        with suppress(OSError):
            self._leave()
        with suppress(OSError, FormatError, MemoryError):
            self._write_again(writer)
        with suppress(OSError):
            backend._identity = backend._now()
            backend._floor = backend._identity[2]
        backend._close(quietly=True)
        backend._end_writing()

    def _write_again(self, writer: ArchiveWriter) -> None:
        """Write the directory and end record of the version that is shown again, behind all others."""
        backend = self._backend
        assert backend.members is not None
        archive = backend.members.archive
        again = new_writer(backend._descriptor, writer.position, writer.file_checksum)
        again.write_directory(*archive.records(set(archive.find_offsets(CATALOG_NAME))))
        sync_descriptor(backend._descriptor)
        again.write_end()
        backend.behind = False
        sync_descriptor(backend._descriptor)
