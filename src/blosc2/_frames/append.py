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
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import Any, BinaryIO, Final, cast

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths, with_checksums
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.io.checksum import crc32c, crc32c_of_parts
from blosc2._core.io.source import Source
from blosc2._files import NewFile, Owner, Part, Spooled, remove_leftovers, sync_descriptor, write_parts
from blosc2._frames.checksums import as_table, carried, from_table
from blosc2._frames.header_fields import CHUNK_HEADER
from blosc2._frames.payload_alignment import ALIGNMENT, PADDING
from blosc2._frames.update import Fields, FrameUpdate, Integers, appended, check_table, runs, write_frame
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
# Bytes that are read at a time, and written at a time from memory.
_PIECE: Final = 4 << 20
# A file is written anew when its dead bytes exceed the live ones this many times, and this many bytes.
_DEAD: Final = 2
_SLACK: Final = 1 << 20
# Entries in a block of a table, and in a table from which on blocks are used again.
_IN_BLOCK: Final = 2048
_LONG_TABLE: Final = 4 * _IN_BLOCK
_NOTHING: Final = np.zeros(0, np.int64)
# A file, and two of its sizes.
_Between = tuple[tuple[int, int] | None, int, int]
# Attributes of files that the system gives to new ones by itself.
_GIVEN: Final = {"security.selinux"}


class Growth:
    """Appends versions to one file, and decides when it is written anew instead.

    It knows how long each stored chunk of the current version is. Only the headers of chunks say that; they are read
    once, and not while a file is small.
    """

    __slots__ = ("_failed", "_frame", "_later", "_lengths", "_packed", "_pending", "_table", "slack")

    def __init__(self) -> None:
        #: Dead bytes that are always tolerated.
        self.slack = _SLACK
        # The frame whose chunks have these lengths, in the order of their numbers, 0 where nothing is stored.
        self._frame: Frame | None = None
        self._lengths: Integers = _NOTHING
        self._pending: Integers | None = None  # of the version that was written last
        # Sizes of a file between which it is not looked at again while others write to it too; and those between which
        # it is not tried again to replace it, after that failed. The lower one is what it had then: a smaller file is
        # another one, to which the system gave the number of the old one.
        self._later: _Between = (None, 0, 0)
        self._failed: _Between = (None, 0, 0)
        self._packed = PackedTable()
        # The offsets and checksums of the version that was appended last, until it is read.
        self._table: tuple[Any, bytes] | None = None

    def append_version(
        self, file: FileIO, path: str, update: FrameUpdate, *, variable: bool, owner: Owner, durable: bool = True
    ) -> None:
        """Publish an update in its file.

        Parameters
        ----------
        file : FileIO
            Open for writing, and locked.
        path : str
            Of the same file.
        update : FrameUpdate
            Of the frame that the file shows. Bytes that an unfinished append left behind it stay, and are not read.
        variable : bool
            Whether its chunks are of several sizes.
        owner : Owner
            Of the change.
        durable : bool
            Whether it is durable when this returns.

        Raises
        ------
        OSError
            It could not be written, or not be made durable: the file shows what it showed before, as far as that can be
            written.
        """
        frame = update.frame
        start = end_of_versions(path, frame)
        self._pending = self._table = None
        parts, header, sums = appended(update, start, variable=variable, pack=self._packed.pack)
        tables = len(parts[-2]) + len(parts[-1])
        if not self._written_anew(file, path, update, start + sum(map(len, parts)), tables, variable, owner):
            _append(file, frame, start, parts, header, durable=durable)
            if update.edits_chunks:
                self._table = update.offsets, sums

    def published(self, frame: Frame) -> None:
        """Be told the frame that was read after `append_version`, before others know it."""
        self._frame, self._lengths = (None, _NOTHING) if self._pending is None else (frame, self._pending)
        if self._table is not None:
            frame.know_table(*self._table)
        self._pending = self._table = None

    def _written_anew(
        self, file: FileIO, path: str, update: FrameUpdate, size: int, tables: int, variable: bool, owner: Owner
    ) -> bool:
        """Write a new file if the old one would have too many dead bytes. Returns whether that was done.

        What stands against it, such as a full disk or a folder that is not writable, makes it an append as usual.
        """
        if size <= self.slack:
            return False
        status = os.fstat(file.fileno())
        identity = _identity(status)
        if self._frame is not update.frame and _is_between(identity, size, self._later):
            return False  # somebody else published in between, and there cannot be that many dead bytes yet
        lengths = self._pending = self._after(update)
        live = int(lengths.sum()) + tables + header_length(update.metalayers)
        if PADDING in update.metalayers:
            live += ALIGNMENT * len(lengths)
        limit = live + max(_DEAD * live, self.slack)
        if size <= limit:
            self._later = identity, size, size + (limit - size) // 2
            return False
        if _is_between(identity, size, self._failed):
            return False
        try:
            _write_anew(path, status, update, lengths, owner, variable=variable)
        except StoreLockedError:
            raise
        except (OSError, FormatError, MemoryError):
            if _identity(os.stat(path)) != identity:
                raise  # the new file is there, and not durable; or somebody else's
            self._failed = identity, size, size + max(live, self.slack)
            return False
        self._later = self._failed = (None, 0, 0)
        return True

    def _of(self, frame: Frame) -> Integers:
        """The lengths of the chunks of a frame."""
        if self._frame is not frame:
            table = _table_of(frame)
            lengths = np.zeros(len(table), np.int64)
            stored = table >= 0
            lengths[stored] = np.frombuffer(stored_lengths(frame, table[stored]), np.int64)
            self._frame, self._lengths = frame, lengths
        return self._lengths

    def _after(self, update: FrameUpdate) -> Integers:
        """The same after an update, whose new chunks have their offsets already."""
        before = self._of(update.frame)
        if not update.edits_chunks:
            return before
        table, offsets = _table_of(update.frame), update.offsets
        lengths = np.zeros(len(offsets), np.int64)
        new = list(update.new)
        if np.array_equal(table, offsets[: len(table)]):  # chunks were appended
            lengths[: len(table)] = before
        else:
            both = min(len(table), len(offsets))
            same = table[:both] == offsets[:both]
            lengths[:both][same] = before[:both][same]
            moved = offsets >= 0
            moved[:both] &= ~same
            moved[new] = False
            if moved.any():
                order = np.argsort(table, kind="stable")
                lengths[moved] = before[order[np.searchsorted(table, offsets[moved], sorter=order)]]
        lengths[new] = [len(stored) for stored in update.new.values()]
        return lengths


class PackedTable:
    """Packs tables of chunks, of which each begins as the one before: what was compressed of that is used again.

    A table is a chunk of blocks that are compressed each by itself. Blocks of offsets that have not changed are copied.
    """

    __slots__ = ("_chunk", "_offsets")

    def __init__(self) -> None:
        self._offsets: Integers = _NOTHING
        self._chunk = b""

    def pack(self, offsets: Any, count: int) -> bytes:
        """The same as `pack_index`, perhaps in other bytes."""
        if isinstance(offsets, int) or count < _LONG_TABLE:
            return pack_index(offsets, count)
        chunk = self._continued(offsets) or pack_index(offsets, count)
        self._offsets, self._chunk = offsets, chunk
        return chunk

    def _continued(self, offsets: Integers) -> bytes | None:
        """The chunk of a table by the blocks of the last one; None if there is too little to gain, or it is special."""
        old = self._offsets
        both = min(len(old), len(offsets))
        unequal = old[:both] != offsets[:both]
        same = int(unequal.argmax()) if unequal.any() else both
        # What is compressed has a whole block at least: the block size of less would be smaller.
        keep = min(same // _IN_BLOCK, len(offsets) // _IN_BLOCK - 1)
        before = _blocks_of(self._chunk)
        if keep < 2 or before is None:
            return None
        rest = pack_index(offsets[keep * _IN_BLOCK :], len(offsets) - keep * _IN_BLOCK)
        after = _blocks_of(rest)
        if after is None or _kind_of(rest) != _kind_of(self._chunk):
            return None
        kept = self._chunk[before[0] : before[keep]]
        starts = np.concatenate([before[:keep] - before[0], after[:-1] - after[0] + len(kept)])
        starts += CHUNK_HEADER + 4 * len(starts)
        body = starts.astype("<i4").tobytes() + kept + rest[after[0] :]
        header = bytearray(rest[:CHUNK_HEADER])
        struct.pack_into("<i", header, 4, 8 * len(offsets))
        struct.pack_into("<i", header, 12, CHUNK_HEADER + len(body))
        return bytes(header) + body


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_between(identity: tuple[int, int], size: int, sizes: _Between) -> bool:
    """Whether a file is the one of these sizes, and between them."""
    return sizes[0] == identity and sizes[1] <= size < sizes[2]


def _kind_of(chunk: bytes) -> bytes:
    """What the header of a chunk says of how its blocks are compressed."""
    return chunk[:4] + chunk[8:12] + chunk[16:CHUNK_HEADER]


def _blocks_of(chunk: bytes) -> Integers | None:
    """Where the blocks of a table begin, and where the last one ends; None if they are not one behind the other."""
    if len(chunk) < CHUNK_HEADER + 4 or chunk[2] & 2 or chunk[31] & 0x70:  # stored as it is, or one value
        return None
    nbytes, blocksize, size = struct.unpack_from("<3i", chunk, 4)
    if blocksize != 8 * _IN_BLOCK or size != len(chunk):
        return None
    count = -(-nbytes // blocksize)
    starts = np.append(np.frombuffer(chunk, "<i4", count, CHUNK_HEADER), size).astype(np.int64)
    if starts[0] != CHUNK_HEADER + 4 * count or (np.diff(starts) <= 0).any():
        return None
    return starts


def _table_of(frame: Frame) -> Integers:
    """The offset of each chunk of a frame; none where one value without a chunk stands for all."""
    repeated = frame.repeated_offset
    if repeated is None:
        return np.frombuffer(frame.offsets_bytes(), np.int64)
    return np.array([repeated] if repeated >= 0 else [], np.int64)


def _append(
    file: FileIO, frame: Frame, start: int, parts: list[bytes | Spooled], header: bytes, *, durable: bool
) -> None:
    """Write a version behind the others, and then the header that makes it the current one."""
    size = sum(map(len, parts))
    try:
        _write_parts(file, start, parts)
        # Bytes behind the new end, left by an unfinished append, belong to no version.
        if os.fstat(file.fileno()).st_size != start + size:
            file.truncate(start + size)
        if durable:
            sync_descriptor(file.fileno())
    except BaseException:
        # The old version is untouched. Only the added bytes are removed, which nobody ever saw.
        with suppress(OSError):
            file.truncate(start)
        raise
    try:
        _write_at(file, _FIELDS, header[_FIELDS:])
        if durable:
            sync_descriptor(file.fileno())
    except BaseException:
        # A version that is not durable is a failure, so the old one is shown again. The added bytes stay, because
        # somebody may have mapped them meanwhile. The next append goes behind them.
        with suppress(OSError):
            _write_at(file, _FIELDS, frame.header_bytes()[_FIELDS:])
            sync_descriptor(file.fileno())
        raise


def _write_anew(
    path: str, status: os.stat_result, update: FrameUpdate, lengths: Integers, owner: Owner, *, variable: bool
) -> None:
    """Put a new file without dead bytes in the place of one that has this status.

    Always durably: if its name could come before its bytes, a power cut would take all of the file.

    Raises
    ------
    OSError
        Also if the new file would not be the same to others: it has several names, another owner, or an access list.
    """
    real = os.path.realpath(path)
    others = {*os.listxattr(real)} - _GIVEN if hasattr(os, "listxattr") else set()
    if status.st_nlink > 1 or others:
        raise OSError("a new file would have lost other names, or attributes")
    # Made by holders of the file's lock alone, so those that are there were left by killed processes.
    beside = real + ".grown"
    remove_leftovers(beside, owner)
    with NewFile(path, replace=True, owner=owner, beside=beside) as file:
        _keep_owner(file.fileno(), status)
        checksums = carried(update.frame)
        if checksums is None or not update.edits_chunks or PADDING in update.metalayers:
            write_frame(file, update)
        else:
            parts = _without_holes(update, lengths, from_table(checksums.chunks), variable=variable)
            write_parts(file, parts)


def _keep_owner(descriptor: int, status: os.stat_result) -> None:
    """Let a new file belong to whom the old one did."""
    if os.name != "posix":
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)


def _without_holes(update: FrameUpdate, lengths: Integers, checksums: array[int], *, variable: bool) -> list[Part]:
    """The next version of a frame with checksums, as buffers and byte ranges of its old chunks.

    Chunks that stay keep their checksums, by which damage is still found.
    """
    frame = update.frame
    fields = Fields(frame, update.chunksize, variable=variable, vlblocks=update.vlblocks)
    table, offsets = _table_of(frame), update.offsets
    stored = offsets >= 0
    position = table[table >= 0]
    if len(position) != len(checksums):
        raise FormatError(f"{len(checksums)} checksums for {len(position)} stored chunks", path=frame.source.path)
    sums = np.zeros(len(offsets), np.uint32)
    old = stored.copy()
    old[list(update.new)] = False
    order = np.argsort(position, kind="stable")
    sums[old] = np.array(checksums, np.uint32)[order[np.searchsorted(position, offsets[old], sorter=order)]]
    # Runs of old chunks, and new ones between them.
    parts: list[Any] = []
    begin = 0
    for number, kept in [*sorted(update.new.items()), (len(offsets), b"")]:
        run = slice(begin, number)
        parts += runs(frame, offsets[run][old[run]], lengths[run][old[run]])
        if number < len(offsets):
            parts.append(kept.byte_range if isinstance(kept, Spooled) else kept)
            sums[number] = kept.sum if isinstance(kept, Spooled) else crc32c(kept)
        begin = number + 1
    start = header_length(update.metalayers)
    held = lengths[stored]
    positions = offsets.copy()
    positions[stored] = np.cumsum(held) - held
    size = int(held.sum())
    check_table(len(positions), start + size)
    index = pack_index(positions, len(positions)) if update.nbytes else b""
    trailer = pack_trailer(update.vlmeta)
    before = start + size + len(index)
    header = pack_header(fields, update.metalayers, bool(update.vlmeta), before + len(trailer), update.nbytes, size)
    body = crc32c(index, crc32c_of_parts(0, sums[stored], held))
    packed = as_table(array("I", sums[stored].tobytes()))
    header, trailer = with_checksums(header, trailer, before, packed, body, crc32c(index))
    return [header, *parts, index, trailer]


@contextmanager
def closed_quietly(file: FileIO) -> Iterator[FileIO]:
    """Close a file at the end of a block. Its bytes are durable by then, so errors of closing do not matter."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def _write_parts(file: FileIO, offset: int, parts: list[bytes | Spooled]) -> None:
    """Write parts one after another, some MB at a time."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if not isinstance(part, Spooled):
            waiting.append(part)
            size += len(part)
        if isinstance(part, Spooled) or size >= _PIECE:
            _write_at(file, offset, b"".join(waiting))
            offset += size
            waiting, size = [], 0
        if isinstance(part, Spooled):
            file.seek(offset)
            write_parts(cast("BinaryIO", file), (part.byte_range,))
            offset += len(part)
    _write_at(file, offset, b"".join(waiting))


def _write_at(file: FileIO, offset: int, data: bytes) -> None:
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
