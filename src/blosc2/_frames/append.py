"""Appending a version to the file of a frame, and publishing it (FORMATS 8.1).

Each version has a table of all chunks, so the tables of old versions soon outweigh the chunks. When too many bytes of a
file would be dead, the new version is written to a new file instead, which takes the place of the old one.

Only the header says where a frame ends. Bytes behind it are the remains of an append that did not finish, or was
undone. If they end in a whole trailer they may have been a version: one that was visible until it could not be made
durable, and that a reader may have mapped; or the newest one, whose header is damaged. They are neither cut off nor
overwritten: an append continues behind them. Other bytes there were never part of a version.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import range_checksum, stored_lengths, with_checksums
from blosc2._core.frame.frame_writer import header_length, pack_index, pack_trailer
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._files import (
    NewFile,
    Owner,
    Spooled,
    has_names_or_attributes,
    remove_leftovers,
    sync_descriptor,
    write_parts,
)
from blosc2._frames.checksums import MARK_AT, Running, carried, parts_with_checksums
from blosc2._frames.handle import open_frame
from blosc2._frames.header_fields import CHUNKSIZE_AT, FLAGS_AT, PADDING, set_frame_fields
from blosc2._frames.update import (
    ALIGNMENT,
    FRAME_FLAGS,
    SMALL_FRAME,
    FrameUpdate,
    Integers,
    check_table,
    checksums_by_number,
    frame_byte_range,
    table_of,
    write_chunks,
)
from blosc2._options import tell, told_rewrite
from blosc2.exceptions import FormatError, StoreLockedError

#: The end of a trailer that has a fixed size.
TRAILER_TAIL: Final = 23
#: What a trailer begins with.
TRAILER_START: Final = b"\x94\x01\x93\xcd"

# The length of the trailer, and a fingerprint that nobody uses.
_TRAILER_END: Final = rb"(?s)\xce(....)\xd8\0{17}"
_SHORTEST: Final = 35
# Where the header fields that make a version current begin.
_FIELDS: Final = 16
# Bytes that are read at a time, and that are written at a time from memory.
_PIECE: Final = 4 << 20
_AT_ONCE: Final = 1 << 20
# So many dead bytes are always tolerated; and so many times as many where a new file waits for the disk.
_SLACK: Final = 1 << 12
_WAITING: Final = 16
# Bytes that are written for each chunk before it is looked at how long the chunks are.
_LOOK: Final = 64
# Dead bytes that a small file may have when its handle ends, and a larger one: a part of it.
_LITTLE: Final = 512, 128
_NOTHING: Final = np.zeros(0, np.int64)
# A file, and two of its sizes.
_Between = tuple[tuple[int, int] | None, int, int]


class NextVersion:
    """A version of a frame: written behind the others in its file, where nobody looks, and then made current.

    The file is open for writing without a buffer, and locked, and shows the frame that is given. Bytes that an
    unfinished append left behind it stay. `FormatError` if the checksums of the frame say that it is damaged.

    Attributes
    ----------
    start, position : int
        Where in the file it begins, and where the next part goes.
    known : Sums or None
        The checksums of the frame; None if it carries none, as the new version does not either then.
    sums : Running or None
        Those of the new version, continued over what is added.
    tables : int
        Bytes of its table of chunks and its trailer, after `end`.
    keeps_header : bool
        Whether the header before, which tells more than sizes of the version before, lies before the table.
    is_written : bool
        Whether bytes of the file may have changed.
    """

    def __init__(self, file: Any, path: str, frame: Frame) -> None:
        self._file, self._frame = file, frame
        start = int(frame.frame_len)
        if os.fstat(file.fileno()).st_size > start:
            start = end_of_versions(path, frame)
        self.start = self._written = self.position = start
        self._parts: list[bytes | Spooled] = []  # that wait to be written
        self._header = b""
        self.tables = 0
        # Whether the version may show; whether it shows for good.
        self.is_written = self._may_show = self._shows = self.keeps_header = False
        self.known = known = carried(frame)
        self.sums: Running | None = None
        if known is not None:
            end = frame.header_len if frame.nbytes == 0 else frame.frame_len - frame.trailer_len
            source = frame.source if start <= frame.source.size else Source.open(path)
            self.sums = Running(range_checksum(source, end, start - end, known.body))

    def add_chunks(self, chunks: Iterable[Any], *, aligned: bool, at_once: bool) -> Integers:
        """Add chunks; returns their offsets. Many of them are written `at_once`, or wait for `finish`."""
        start = self.position
        write = self._write if at_once else self._parts.append
        offsets, size = write_chunks(write, chunks, start if aligned else None, self.sums)
        self.position = start + size
        return np.frombuffer(offsets, np.int64) + (start - self._frame.header_len)

    def keep_header(self) -> None:
        """Add the header of the version before, for `salvage`."""
        header = self._frame.header_bytes()
        self._parts.append(header)
        self.position += len(header)
        if self.sums is not None:
            self.sums.add(header)
        self.keeps_header = True

    def _write(self, part: bytes) -> None:
        self._parts.append(part)
        self.position += len(part)
        if self.position - self._written >= _AT_ONCE:
            self._drain()

    def end(
        self, header: bytearray, offsets: Integers | int, count: int, vlmeta: dict[str, bytes], nbytes: int,
        chunk_sums: bytes | None,
    ) -> None:  # fmt: skip
        """Take the table of chunks, with their number, and the trailer; the header that will make these current.

        That is the frame's `header`, in which what each version has of its own is filled in here. `nbytes` are the
        uncompressed bytes, `chunk_sums` the checksums of all stored chunks, where the frame carries any.
        """
        index, trailer = pack_index(offsets, count), pack_trailer(vlmeta)
        stop = self.position + len(index)
        cbytes = self.position - self._frame.header_len
        set_frame_fields(header, stop + len(trailer), nbytes, cbytes, has_vlmeta=bool(vlmeta))
        header[MARK_AT] = 0
        self._header = bytes(header)
        if self.sums is not None and chunk_sums is not None:
            body = crc32c(index, self.sums.body)
            self._header, trailer = with_checksums(self._header, trailer, stop, chunk_sums, body, crc32c(index))
        self._parts += (index, trailer)
        self.position = stop + len(trailer)
        self.tables = len(index) + len(trailer)

    def finish(self, *, durable: bool) -> None:
        """Write what is waiting; it is on the disk then if it is to be `durable`."""
        self._drain()
        # Bytes behind the new end, left by an unfinished append, belong to no version.
        if os.fstat(self._file.fileno()).st_size != self.position:
            self._file.truncate(self.position)
        if durable:
            sync_descriptor(self._file.fileno())

    def commit(self, *, durable: bool) -> None:
        """Make the version the current one."""
        self._may_show = True
        _write_at(self._file, _FIELDS, self._header[_FIELDS:])  # in one call
        if durable:
            sync_descriptor(self._file.fileno())
        self._shows = True

    def take_back(self) -> bool:
        """Have the file show the version before, unless the new one shows for good; it may be called again.

        Returns whether the version before, which may not have shown meanwhile, certainly shows again.
        """
        is_back = False
        with suppress(OSError):
            if self._may_show and not self._shows:
                # What was not made durable is no success. The added bytes stay, because somebody may have mapped them
                # meanwhile; the next append goes behind them.
                _write_at(self._file, _FIELDS, self._frame.header_bytes()[_FIELDS:])
                is_back = True
                sync_descriptor(self._file.fileno())
            elif self.is_written and not self._shows:
                # The old version is untouched. Only the added bytes are removed, which nobody ever saw.
                self._file.truncate(self.start)
        return is_back

    def _drain(self) -> None:
        """Write what is waiting, a MB at a time; what lies in other files is copied from there."""
        file, offset = self._file, self._written
        self.is_written = True
        waiting: list[bytes] = []
        size = 0
        for part in self._parts:
            if not isinstance(part, Spooled):
                waiting.append(part)
                size += len(part)
            if isinstance(part, Spooled) or size >= _AT_ONCE:
                _write_at(file, offset, b"".join(waiting))
                offset += size
                waiting, size = [], 0
            if isinstance(part, Spooled):
                file.seek(offset)
                write_parts(file, (part.byte_range,))
                offset += len(part)
        _write_at(file, offset, b"".join(waiting))
        self._parts, self._written = [], self.position


class Growth:
    """Appends versions to one file, of which its handle has written `size` bytes, and decides when it is written anew.

    It knows how long each stored chunk of the current version is. Only the headers of chunks say that; they are read
    once, and not while a file is small.
    """

    __slots__ = ("_failed", "_frame", "_has_dead", "_is_tidy", "_later", "_lengths", "_pending", "kept_header",
                 "owner", "slack", "written")  # fmt: skip

    def __init__(self, size: int = 0) -> None:
        #: Dead bytes that are always tolerated.
        self.slack = _SLACK
        #: Bytes written since the file was made or written anew, and by which process.
        self.written = size
        self.owner = Owner()
        self._has_dead = False  # made by this
        # Whether files that killed processes have left beside it were looked for: that lists the whole folder.
        self._is_tidy = False
        #: Whether the last append left a copy of the header before.
        self.kept_header = False
        # The frame whose chunks have these lengths, in the order of their numbers, 0 where nothing is stored.
        self._frame: Frame | None = None
        self._lengths: Integers = _NOTHING
        self._pending: Integers = _NOTHING  # of the version that is being written, if they were needed
        # Sizes of a file between which it is not looked at again while others write to it too; and those between which
        # it is not tried again to replace it, after that failed. The lower one is what it had then: a smaller file is
        # another one, to which the system gave the number of the old one.
        self._later: _Between = (None, 0, 0)
        self._failed: _Between = (None, 0, 0)

    def append_version(
        self, file: BinaryIO, path: str, update: FrameUpdate, owner: Owner, *, durable: bool, has_durable: bool,
        keeps_header: bool, verify: bool | None,
    ) -> Frame:  # fmt: skip
        """Publish an update in its file; returns the frame that this shows then.

        `has_durable` is whether a durable version may be in the file, `keeps_header` whether one may need the header
        that is there, in more than sizes: if that is changed, a copy stays, and is durable before. What was just
        written is known to it, and not read again. After an `OSError` the file shows what it showed before, as far as
        that can be written.
        """
        frame, version = update.frame, NextVersion(file, path, update.frame)
        chunk_sums = _add_update(version, update, keeps_header=keeps_header and not durable)
        self._pending = _NOTHING
        self.written += version.position - version.start
        is_new = version.position > self.slack and self._written_anew(
            file, path, update, version, chunk_sums, owner, durable=durable or has_durable
        )
        if not is_new:
            try:
                # Without checksums nothing would tell whether all of it was there before a power cut.
                version.finish(durable=durable or version.keeps_header or version.known is None)
                version.commit(durable=durable)
            except BaseException:
                version.take_back()
                raise
        self.kept_header = version.keeps_header and not is_new
        self._has_dead = not is_new
        shown = open_frame(path, "r" if frame.source.mapped else None, old=frame.source)
        if verify is None:
            shown.check_wholes()
        if not verify and owner.is_here:  # a forked child reads the old version
            self._frame, self._lengths = None if self._pending is _NOTHING else shown, self._pending
            if update.variable:
                update.tell_sizes(shown)
        return shown

    def _written_anew(
        self, file: BinaryIO, path: str, update: FrameUpdate, version: NextVersion, sums: bytes | None, owner: Owner,
        *, durable: bool,
    ) -> bool:  # fmt: skip
        """Write a new file if the old one would have too many dead bytes. Returns whether that was done.

        What stands against it, such as a full disk or a folder that is not writable, makes it an append as usual.
        """
        status = os.fstat(file.fileno())
        identity, size = _identity(status), version.position
        if self._frame is not update.frame:
            if _is_between(identity, size, self._later):
                return False  # somebody else published in between, and there cannot be that many dead bytes yet
            # To look costs a read for each chunk: that is done once for as many bytes as are written meanwhile.
            step, shrinks = max(self.slack, _LOOK * update.frame.nchunks), update.nbytes < update.frame.nbytes
            if durable and not shrinks and version.start // step == size // step:
                return False
        lengths = self._pending = self._after(update)
        live = _live(update, lengths, version.tables)
        # Where it costs half of what was written, a sixteenth may be dead; else as much as is not.
        paid = self.written >= 2 * live and not durable
        limit = live + (max(live >> 4, self.slack) if paid else live + self.slack * (_WAITING if durable else 1))
        if size <= limit:
            self._later = identity, size, size + (limit - size) // 2
            return False
        if _is_between(identity, size, self._failed):
            return False
        try:
            self._write_anew(path, status, update, lengths, sums, owner, durable=durable)
        except StoreLockedError:
            raise
        except (OSError, FormatError, MemoryError) as error:
            if _identity(os.stat(path)) != identity:
                raise  # the new file is there, and not durable; or somebody else's
            self._failed = identity, size, size + max(live, self.slack)
            tell("WARNING", "%s: %d bytes are dead, and it cannot be written anew: %s", path, size - live, error)
            return False
        self._note_written_anew(path, size)
        return True

    def _write_anew(
        self, path: str, status: os.stat_result, update: FrameUpdate, lengths: Integers, sums: bytes | None,
        owner: Owner, *, durable: bool,
    ) -> None:  # fmt: skip
        """Put a new file without dead bytes in the place of one that has this status.

        Chunks that stay keep their checksums, by which damage is still found. If a version of the old file is
        `durable`, so is the new one before it gets the name: otherwise a power cut could take all of the file.
        `OSError` also if the new file would not be the same to others: it has several names, another owner, or an
        access list.
        """
        real = os.path.realpath(path)
        if has_names_or_attributes(real, status):
            raise OSError("a new file would have lost other names, or attributes")
        # Made by holders of the file's lock alone, so those that are there were left by killed processes.
        beside = real + ".grown"
        if not self._is_tidy:
            remove_leftovers(beside, owner)
            self._is_tidy = True
        with NewFile(path, replace=True, owner=owner, beside=beside, durable=durable) as file:
            _keep_owner(file.fileno(), status)
            checksums = None if sums is None else np.frombuffer(sums, "<u4")
            source, _, _ = frame_byte_range(update, lengths[lengths > 0], checksums)
            write_parts(file, parts_with_checksums(Frame.open(source)))

    def _note_written_anew(self, path: str, size: int) -> None:
        now = os.stat(path).st_size
        told_rewrite(path, size, now)
        self._later = self._failed = (None, 0, 0)
        self.written = now
        self._has_dead = False

    def may_be_compacted(self, size: int) -> bool:
        """Whether a file of this size is looked at when its handle ends: not where this has written little of it."""
        return self._has_dead and 2 * self.written >= size and self.owner.is_here

    def leave_compact(self, file: BinaryIO, path: str, frame: Frame, owner: Owner, *, durable: bool) -> bool:
        """Write the file anew when its handle ends, and too much of it is dead; returns whether that was done.

        That may cost what the handle has written itself.
        """
        status, size = os.fstat(file.fileno()), frame.frame_len
        update = FrameUpdate(frame)
        lengths = self._after(update)
        # What lies behind the frame does not count: without it the file is no other one to handles that show it.
        live = _live(update, lengths, frame.frame_len - frame.chunks_range[1])
        if size - live <= size // _LITTLE[size > SMALL_FRAME] or live > self.written:
            return False
        sums = carried(frame)
        self._write_anew(path, status, update, lengths, None if sums is None else sums.chunks, owner, durable=durable)
        self._note_written_anew(path, size)
        return True

    def _after(self, update: FrameUpdate) -> Integers:
        """The lengths of the chunks after an update, whose new chunks have their offsets already."""
        frame = update.frame
        table = table_of(frame)
        if self._frame is not frame:
            lengths = np.zeros(len(table), np.int64)
            stored = table >= 0
            lengths[stored] = np.frombuffer(stored_lengths(frame, table[stored]), np.int64)
            self._frame, self._lengths = frame, lengths
        if update.table is None:
            return self._lengths
        lengths = _kept(self._lengths, table, update.table, list(update.new))
        lengths[list(update.new)] = [len(stored) for stored in update.new.values()]
        return lengths


def _live(update: FrameUpdate, lengths: Integers, tables: int) -> int:
    """Bytes of a file without dead ones."""
    holes = ALIGNMENT * len(lengths) if PADDING in update.metalayers else 0
    return int(lengths.sum()) + tables + header_length(update.metalayers) + holes


def _kept(before: np.ndarray[Any, Any], table: Integers, offsets: Integers, new: list[int]) -> np.ndarray[Any, Any]:
    """What is known of each chunk of an edited table, by that of an old one; 0 for those that are new or not stored."""
    after = np.zeros(len(offsets), before.dtype)
    if len(table) <= len(offsets) and not (table != offsets[: len(table)]).any():  # chunks were appended
        after[: len(table)] = before
        return after
    both = min(len(table), len(offsets))
    same = table[:both] == offsets[:both]
    after[:both][same] = before[:both][same]
    moved = offsets >= 0
    moved[:both] &= ~same
    moved[new] = False
    if moved.any():
        order = np.argsort(table, kind="stable")  # which is quick where they are in order already
        after[moved] = before[order[np.searchsorted(table, offsets[moved], sorter=order)]]
    return after


def _add_update(version: NextVersion, update: FrameUpdate, *, keeps_header: bool) -> bytes | None:
    """Have a version be what an update says. Returns the checksums of its stored chunks; None if it carries none."""
    frame, known, running = update.frame, version.known, version.sums
    numbers = sorted(update.new)
    offsets, count = update.entries()
    if numbers and not isinstance(offsets, int):
        check_table(count, version.position)
        chunks = map(update.new.__getitem__, numbers)
        offsets[numbers] = version.add_chunks(chunks, aligned=PADDING in update.metalayers, at_once=False)
    header = bytearray(frame.header_bytes())
    struct.pack_into(">i", header, CHUNKSIZE_AT, update.chunksize)
    header[FLAGS_AT] = FRAME_FLAGS[update.variable, update.vlblocks]
    if "b2nd" in update.metalayers:
        content = frame.metalayer_offset("b2nd")
        header[content : content + len(update.metalayers["b2nd"])] = update.metalayers["b2nd"]
    if keeps_header and header != frame.header_bytes():
        version.keep_header()
    sums = None
    if known is not None and running is not None:
        sums = known.chunks
        if update.table is not None and not isinstance(offsets, int):
            every = _kept(checksums_by_number(frame, known, old := table_of(frame)), old, offsets, numbers)
            every[numbers] = running.chunks
            sums = every[offsets >= 0].astype("<u4", copy=False).tobytes()
    version.end(header, offsets, count, update.vlmeta, update.nbytes, sums)
    return sums


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_between(identity: tuple[int, int], size: int, sizes: _Between) -> bool:
    """Whether a file is the one of these sizes, and between them."""
    return sizes[0] == identity and sizes[1] <= size < sizes[2]


def _keep_owner(descriptor: int, status: os.stat_result) -> None:
    """Let a new file belong to whom the old one did."""
    if os.name != "posix":
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)


def _write_at(file: BinaryIO, offset: int, data: bytes) -> None:
    """Write all of a buffer at a position of an unbuffered file."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def end_of_versions(path: str, frame: Frame) -> int:
    """Where an append to the file of a frame begins: behind everything that may be a version."""
    end = int(frame.frame_len)
    if os.stat(path).st_size > end:
        source = Source.open(path)
        for _, stop in trailers(source, end, source.size):
            end = stop
    return end


def trailers(source: Source, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where trailers begin and end, in order."""
    at = start
    last = start
    while at < stop:
        piece = source.read(at, min(_PIECE, stop - at))
        for match in re.finditer(_TRAILER_END, piece):
            end = at + match.end()
            begin = end - int.from_bytes(match[1])
            if start <= begin <= end - _SHORTEST and end > last and source.read(begin, 4) == TRAILER_START:
                last = end
                yield begin, end
        if at + len(piece) >= stop:
            return
        at += len(piece) - TRAILER_TAIL
