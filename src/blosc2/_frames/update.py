"""Frames as byte ranges, to be copied in pieces, instead of one buffer with all bytes.

Small or new parts (header, table, trailer) are in memory; chunks stay where they are.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final

import numpy as np

from blosc2._core.allocation import FREE, allowed, table_limit
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import range_checksum, stored_lengths, with_checksums
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer, special_chunk
from blosc2._core.io.checksum import crc32c, crc32c_joined, crc32c_of_parts
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files import BUDGET, ByteRange, Spooled, TemporaryFile, check_unchanged, checked_pieces, held
from blosc2._frames.checksums import MARK_AT, Known, Running, Sums, as_table, carried, from_table
from blosc2._frames.header_fields import CHUNKSIZE_AT, FLAGS_AT, set_frame_fields
from blosc2._frames.payload_alignment import PADDING, aligned_offsets, hole_before
from blosc2._options import FIELDS
from blosc2.exceptions import FormatError

#: Frames up to here are copied as a whole, which is sooner done.
SMALL_FRAME: Final = 8 << 20

Integers = np.ndarray[Any, np.dtype[np.int64]]
#: Gives the checksums of the chunks at offsets of a frame; None where they are not known.
ChecksumsOf = Callable[[Integers], "np.ndarray[Any, np.dtype[np.uint32]] | None"]


def plain_byte_range(frame: Frame, *, own: bool = False) -> ByteRange:
    """A serialised frame without the checksums that files carry. The checksums are remembered.

    `own` says that nobody else writes to its file.
    """
    header, trailer = frame.plain_ends()
    start = int(frame.header_len)
    stop = start if not frame.nbytes else int(frame.frame_len - frame.trailer_len)
    checksums = carried(frame)
    known = (
        (False if own else None)
        if checksums is None
        else Known(checksums.chunks, checksums.body, checksums.table, start, stop)
    )
    body = frame.source, frame.offset + start, stop - start
    source = Source.joined((_buffer(header), body, _buffer(trailer)), checksums=known)
    return source, 0, source.size


def frame_byte_range(frame: Frame, checksums_of: ChecksumsOf | None = None) -> ByteRange:
    """A frame without holes of the chunks of another, as `blosc2._frames.update.frame_bytes` makes it.

    Parameters
    ----------
    frame : Frame
    checksums_of : callable, optional
        Gives the checksums of the chunks at offsets, where they are known. The result knows them then.
    """
    update = FrameUpdate(frame)
    fields = Fields(frame, update.chunksize, variable=update.settle(), vlblocks=bool(frame.vlblocks))
    start = header_length(update.metalayers)
    repeated = frame.repeated_offset
    parts: list[ByteRange] = []
    offsets: Any
    position, count = 0, int(frame.nchunks)
    checksums: np.ndarray[Any, np.dtype[np.uint32]] | None = None if checksums_of is None else np.zeros(0, np.uint32)
    body = 0
    if repeated is not None and repeated < 0:
        offsets = int(repeated)
    else:
        offsets = np.array(update.offsets)
        count = len(offsets)
        stored = offsets >= 0
        at = offsets[stored]
        lengths = np.frombuffer(stored_lengths(frame, at), np.int64)
        checksums = None if checksums_of is None else checksums_of(at)
        if PADDING in update.metalayers:
            positions = aligned_offsets(start, lengths)
            parts = list(_aligned(frame, at, lengths, positions))
            if checksums is not None:
                body = _body_of_aligned(checksums, lengths, positions)
        else:
            positions = np.cumsum(lengths) - lengths
            parts = list(runs(frame, at, lengths))
            if checksums is not None:
                body = crc32c_of_parts(0, checksums, lengths)
        offsets[stored] = positions
        position = int(positions[-1] + lengths[-1]) if len(lengths) else 0
        check_table(count, start + position)
    index_chunk = pack_index(offsets, count) if update.nbytes else b""
    trailer = pack_trailer(update.vlmeta)
    stop = start + position + len(index_chunk)
    header = pack_header(fields, update.metalayers, bool(update.vlmeta), stop + len(trailer), update.nbytes, position)
    known: Known | bool = False  # what is edited is not somebody else's
    if checksums is not None:
        table = as_table(array("I", checksums.tobytes()))
        known = Known(table, crc32c(index_chunk, body), crc32c(index_chunk), start, stop)
    every = (_buffer(header), *parts, _buffer(index_chunk), _buffer(trailer))
    source = Source.joined(every, checksums=known)
    return source, 0, source.size


def runs(frame: Frame, at: Integers, lengths: Integers) -> Iterator[ByteRange]:
    """Where the chunks at offsets lie: those that lie one behind the other are one byte range."""
    if not len(at):
        return
    start = int(frame.chunks_range[0])
    ends = at + lengths
    first = np.concatenate([[0], np.flatnonzero(at[1:] != ends[:-1]) + 1])
    last = np.concatenate([first[1:], [len(at)]]) - 1
    for begin, end in zip(at[first].tolist(), ends[last].tolist(), strict=True):
        yield frame.source, start + begin, end - begin


def _aligned(frame: Frame, at: Integers, lengths: Integers, positions: Integers) -> Iterator[ByteRange]:
    """Where the chunks of an aligned frame lie, and between them the holes before their new offsets."""
    start, end = int(frame.chunks_range[0]), 0
    for begin, length, position in zip(at.tolist(), lengths.tolist(), positions.tolist(), strict=True):
        if position > end:
            yield _buffer(bytes(position - end))
        yield frame.source, start + begin, length
        end = position + length


def _body_of_aligned(checksums: np.ndarray[Any, np.dtype[np.uint32]], lengths: Integers, positions: Integers) -> int:
    """The checksum of chunks with holes of zeros between them."""
    body = end = 0
    for own, length, position in zip(checksums.tolist(), lengths.tolist(), positions.tolist(), strict=True):
        body = crc32c_joined(crc32c(bytes(position - end), body), own, length)
        end = position + length
    return body


def _buffer(data: bytes) -> ByteRange:
    return Source.of_buffer(data), 0, len(data)


def held_in_memory(byte_range: ByteRange) -> ByteRange:
    """A byte range, in memory where its bytes are part of a file that may change before they are needed."""
    source = byte_range[0]
    if not source.is_joined or all(part.in_memory for part, _, _ in source.byte_ranges(0, source.size)):
        return byte_range
    data = in_bytes(byte_range)
    check_unchanged(source)
    return _buffer(data)


def in_bytes(byte_range: ByteRange) -> bytes:
    """All of a byte range, as bytes that nothing can change any more."""
    return b"".join(checked_pieces(byte_range)) if byte_range[0].checksums else byte_range[0].read(*byte_range[1:])


# Bytes of a temporary file that nobody needs any more, beyond as many as are needed, before it is written anew.
_SLACK: Final = 256 << 20


class JoinedChunks:
    """Where the chunks of an array are that is edited: those of a frame in a file, and newer ones.

    Parameters
    ----------
    frame : Frame
        Its chunks stay where they are.
    waiting : TemporaryFile or None
        Where new chunks go beyond a budget; None keeps them in memory.
    """

    def __init__(self, frame: Frame, waiting: TemporaryFile | None) -> None:
        start, stop = frame.chunks_range
        self._base: ByteRange = (frame.source, start, stop - start)
        self._frame = frame
        # Offsets and checksums of its chunks, in order, where it carries any; read when they are asked for.
        self._known: tuple[Integers, np.ndarray[Any, np.dtype[np.uint32]]] | None = None
        self._has_asked = False
        self.waiting = waiting
        # Newer chunks by where they are in the source, one behind the other; some of them nobody needs any more.
        self._fresh: dict[int, bytes | Spooled] = {}
        self._end = stop - start
        self._in_memory = 0
        # Up to where the source may reach before such chunks are looked for.
        self._room = self._end + self._slack
        self._source: Source | None = None

    @property
    def _slack(self) -> int:
        return BUDGET if self.waiting is None else _SLACK

    def source(self) -> Source:
        """A source of all current chunks."""
        if self._source is None:
            self._source = Source.joined((self._base, *map(_byte_range, self._fresh.values())))
        return self._source

    def source_after(self, update: FrameUpdate) -> Source:
        """A source of all chunks after a change, which gets the offsets of its new chunks in that."""
        source = self.source()
        added: dict[int, bytes | Spooled] = {}
        for index, stored in sorted(update.new.items()):
            update.offsets[index] = self._end
            added[self._end] = stored
            self._end += len(stored)
            self._in_memory += 0 if isinstance(stored, Spooled) else len(stored)
        self._fresh.update(added)
        if self._end > self._room:
            self._tidy(update)
        if self.waiting is not None and self._in_memory > BUDGET:
            self._fresh = {
                at: stored if isinstance(stored, Spooled) else self.waiting.keep(stored)
                for at, stored in self._fresh.items()
            }
            self._in_memory, self._source = 0, None
        elif self._source is not None:
            # Of what was joined already, only the runs are gone through.
            self._source = Source.joined(((source, 0, source.size), *map(_byte_range, added.values())))
        return self.source()

    def newer(self, offsets: Integers) -> dict[int, bytes | Spooled]:
        """The chunks of a table that are not in the file, by their numbers."""
        numbers = np.flatnonzero(offsets >= self._base[2])
        return {n: self._fresh[at] for n, at in zip(numbers.tolist(), offsets[numbers].tolist(), strict=True)}

    def _tidy(self, update: FrameUpdate) -> None:
        """Leave out what an update does not need any more; so far, that is of no use in the temporary file."""
        offsets, first = update.offsets, self._base[2]
        used = np.sort(offsets[offsets >= first])
        # Not by `np.unique`, which imports `numpy.ma`.
        fresh = {at: self._fresh[at] for at in used[np.diff(used, prepend=-1) > 0].tolist()}
        in_file = sum(len(stored) for stored in fresh.values() if isinstance(stored, Spooled))
        waiting = self.waiting
        if waiting is not None and waiting.size > 2 * in_file + _SLACK:
            self.waiting = waiting = waiting.another()
            fresh = {at: waiting.keep(kept) if isinstance(kept, Spooled) else kept for at, kept in fresh.items()}
        lengths = np.array([len(stored) for stored in fresh.values()], np.int64)
        starts = first + np.cumsum(lengths) - lengths
        moved = offsets >= first
        offsets[moved] = starts[np.searchsorted(np.array(list(fresh), np.int64), offsets[moved])]
        self._fresh = dict(zip(starts.tolist(), fresh.values(), strict=True))
        live = int(lengths.sum())
        self._end, self._in_memory, self._source = first + live, live - in_file, None
        self._room = first + 2 * live + self._slack

    def checksums_of(self, offsets: Integers) -> np.ndarray[Any, np.dtype[np.uint32]] | None:
        """The checksums of the chunks at offsets; None where the frame in the file carries none."""
        if not self._has_asked:
            found = positions_and_checksums(self._frame)
            if found is not None:
                order = np.argsort(found[0], kind="stable")  # which is quick where they are in order already
                self._known = found[0][order], found[1][order]
            self._has_asked = True
        if self._known is None:
            return None
        positions, checksums = self._known
        every = np.zeros(len(offsets), np.uint32)
        old = offsets < self._base[2]
        at = np.searchsorted(positions, offsets[old])
        if not np.array_equal(positions[at[at < len(positions)]], offsets[old]):
            return None
        every[old] = checksums[at]
        fresh = (self._fresh[at] for at in offsets[~old].tolist())
        every[~old] = [stored.sum if isinstance(stored, Spooled) else crc32c(stored) for stored in fresh]
        return every


def _byte_range(stored: bytes | Spooled) -> ByteRange:
    if isinstance(stored, Spooled):
        return stored.byte_range
    return Source.of_buffer(stored), 0, len(stored)


#: Offsets of chunks for which nothing is stored (FORMATS 1.4).
ZERO_OFFSET = -0x7F00000000000000
NAN_OFFSET = -0x7E00000000000000
UNINIT_OFFSET = -0x7C00000000000000

# Entries of a table that are converted to plain integers at a time.
_PIECE: Final = 1 << 16

# Bytes of memory for each chunk while a table is made: offsets as they were and as they are, sizes, and what is packed.
_MAKING: Final = 40

# Bytes of memory for a special chunk that must be stored because others differ in size.
_MADE: Final = 256

Stored = bytes | StoredChunk | Spooled | int  # a chunk, or one of the offsets above


def own(stored: Stored) -> bytes | Spooled | int:
    """A chunk to keep, copied from memory that will be used again."""
    return bytes(stored) if isinstance(stored, StoredChunk) else stored


class FrameUpdate:
    """The next version of a frame: its edited tables and metadata, and new chunks.

    Attributes
    ----------
    offsets : int64 array
        One for each chunk; meaningless where `new` has the chunk.
    new : dict
        Chunk number -> stored bytes that are not in the frame yet, or where these wait.
    sizes : int64 array
        Uncompressed bytes of each chunk.
    metalayers, vlmeta : dict
        Name -> packed content; name -> stored chunk.
    vlblocks : bool
        Whether its chunks have blocks of variable length.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.metalayers: dict[str, bytes] = frame.metalayers()
        self.vlmeta: dict[str, bytes] = frame.vlmeta_chunks()
        self.new: dict[int, bytes | Spooled] = {}
        self.chunksize: int = frame.chunksize
        self.vlblocks = bool(frame.vlblocks)
        self._offsets: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._sizes: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._appended = 0  # bytes of an appended last chunk, while `_sizes` is None

    def require_table(self, count: int) -> None:
        """Refuse a table of so many chunks instead of one value for all: making it takes too much (`allocation`)."""
        if _MAKING * count > FREE and _MAKING * count > allowed(self.frame.file_size):
            raise self._too_many(count)

    def _too_many(self, count: int) -> FormatError:
        return FormatError(
            f"{count} chunks, for most of which nothing is stored, are too many to change some of them: choose "
            "larger chunks, with copy(chunks=...). If it never had as many, it is damaged",
            path=self.frame.source.path, key=self.frame.key,
        )  # fmt: skip

    @property
    def offsets(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        if self._offsets is None:
            repeated = self.frame.repeated_offset
            if repeated is not None:
                self.require_table(self.frame.nchunks)
                self._offsets = np.full(self.frame.nchunks, repeated, np.int64)
            else:
                self._offsets = np.frombuffer(self.frame.offsets_bytes(), np.int64).copy()
        return self._offsets

    @offsets.setter
    def offsets(self, value: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._offsets = value

    @property
    def sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        if self._sizes is None:
            frame = self.frame
            if frame.variable and frame.nbytes:
                self._sizes = np.frombuffer(frame.chunk_sizes(), np.int64).copy()
            else:
                nbytes = self.nbytes
                self.require_table(frame.nchunks)
                self._sizes = np.full(frame.nchunks + bool(self._appended), frame.chunksize, np.int64)
                if nbytes and nbytes % frame.chunksize:
                    self._sizes[-1] = nbytes % frame.chunksize
        return self._sizes

    @sizes.setter
    def sizes(self, value: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._sizes = value

    @property
    def nbytes(self) -> int:
        if self._sizes is None:
            return int(self.frame.nbytes) + self._appended
        return int(self._sizes.sum())

    @property
    def edits_chunks(self) -> bool:
        """Whether any chunk, or their number or order, changes."""
        return self._offsets is not None

    def replace(self, index: int, stored: Stored, nbytes: int | None = None) -> None:
        """Give a chunk new content."""
        offsets = self.offsets
        stored = own(stored)
        if isinstance(stored, int):
            offsets[index] = stored
            self.new.pop(index, None)
        else:
            self.new[index] = stored
        if nbytes is not None:
            self.sizes[index] = nbytes

    def splice(self, index: int, removed: int, added: Iterable[tuple[Stored, int]]) -> None:
        """Put chunks, given with their sizes, instead of `removed` ones from `index` on."""
        chunks = [(own(stored), size) for stored, size in added]
        if not removed and len(chunks) == 1 and self._append(index, *chunks[0]):
            return
        shift = len(chunks) - removed
        self.new = {
            n if n < index else n + shift: stored for n, stored in self.new.items() if not index <= n < index + removed
        }
        marks = np.array([stored if isinstance(stored, int) else 0 for stored, _ in chunks], np.int64)
        lengths = np.array([size for _, size in chunks], np.int64)
        sizes = self.sizes
        offsets = self.offsets
        self._sizes = np.concatenate([sizes[:index], lengths, sizes[index + removed :]])
        self._offsets = np.concatenate([offsets[:index], marks, offsets[index + removed :]])
        for n, (stored, _) in enumerate(chunks):
            if not isinstance(stored, int):
                self.new[index + n] = stored

    def _append(self, index: int, stored: bytes | Spooled | int, size: int) -> bool:
        """Append a chunk after full chunks, the most common change. Returns False if this is another case."""
        frame = self.frame
        chunksize = int(frame.chunksize)
        if self._offsets is not None or self._sizes is not None or frame.variable or index != frame.nchunks:
            return False
        if not 0 < size <= chunksize or frame.nbytes % chunksize:
            return False
        self.require_table(index + 1)
        offsets = np.empty(index + 1, np.int64)
        repeated = frame.repeated_offset
        offsets[:index] = np.frombuffer(frame.offsets_bytes(), np.int64) if repeated is None else repeated
        offsets[index] = stored if isinstance(stored, int) else 0
        if not isinstance(stored, int):
            self.new[index] = stored
        self._offsets = offsets
        self._appended = size
        return True

    def settle(self) -> bool:
        """Decide by the current sizes whether chunks are equal or variable. Returns True for variable.

        A frame of variable chunks cannot have offsets without a chunk: they become stored ones.
        """
        frame = self.frame
        if self._sizes is None:
            return bool(frame.variable)
        sizes = self._sizes
        if len(sizes) == 0:
            self.vlblocks = False
            return False
        size = int(sizes[0]) if frame.variable or self.chunksize < 1 else self.chunksize
        variable = bool((sizes[:-1] != size).any() or sizes[-1] > size)
        if not variable:
            self.chunksize = size
            return False
        self.chunksize = 0
        unstored = np.flatnonzero(self.offsets < 0)
        if _MADE * len(unstored) > allowed(frame.file_size):
            raise self._too_many(len(unstored))
        for index in unstored:
            if int(index) not in self.new:
                kind = int(self.offsets[index]) >> 56 & 7
                nbytes = int(sizes[index])
                self.new[int(index)] = special_chunk(kind, nbytes, frame.typesize, frame.blocksize)
        return True


def frame_flags(variable: bool, vlblocks: bool) -> int:
    """Byte 25 of a header (FORMATS 1.2)."""
    return 0x12 if not (variable or vlblocks) else 0x13 | variable << 6 | vlblocks << 7


class Fields:
    """The fixed fields of a header that do not follow from the chunks."""

    __slots__ = (*FIELDS, "chunksize", "flags")

    def __init__(self, like: Any, chunksize: int, *, variable: bool = False, vlblocks: bool = False) -> None:
        self.chunksize = chunksize
        self.flags = frame_flags(variable, vlblocks)
        for name in FIELDS:
            setattr(self, name, getattr(like, name))


def lay_out(
    write: Callable[[Any], Any],
    fields: Fields,
    metalayers: dict[str, bytes],
    vlmeta: dict[str, bytes],
    chunks: Iterable[Stored],
    count: int,
    nbytes: int,
    checksums: Running | None = None,
) -> bytes:
    """Write everything behind the header of a new frame, chunk after chunk, and return the header.

    Parameters
    ----------
    write : callable
        Takes the parts in their order, each a buffer, and copies them at once.
    fields : Fields
    metalayers, vlmeta : dict
        Name -> packed content; name -> stored chunk.
    chunks : iterable of bytes or int
        Drawn one by one; one single offset may stand for all.
    count, nbytes : int
        Chunks, and their uncompressed bytes.
    checksums : Running, optional
        Asks for a frame that carries checksums, as files do.
    """
    start = header_length(metalayers)
    offsets, position = write_chunks(write, chunks, start if PADDING in metalayers else None, checksums)
    index = b""
    if nbytes:
        one = len(offsets) == 1 and offsets[0] < 0
        if not one:
            check_table(count, start + position)
        index = pack_index(offsets[0] if one else np.frombuffer(offsets, np.int64), count)
    trailer = pack_trailer(vlmeta)
    before = start + position + len(index)
    header = pack_header(fields, metalayers, bool(vlmeta), before + len(trailer), nbytes, position)
    if checksums is not None:
        checksums.add(index)
        header, trailer = with_checksums(header, trailer, before, checksums.table(), checksums.body, crc32c(index))
    write(index + trailer)
    return header


def write_chunks(
    write: Callable[[Any], Any], chunks: Iterable[Stored], start: int | None = None, checksums: Running | None = None
) -> tuple[array[int], int]:
    """Write chunks one after another. Returns their offsets from the first, and the bytes that they take.

    With the position where they start, each payload is aligned. With checksums, these go on over what is written.
    """
    offsets = array("q")
    position = 0
    for stored in chunks:
        if isinstance(stored, int):
            offsets.append(stored)
        else:
            if start is not None:
                hole = hole_before(start + position)
                if hole:
                    write(hole)
                    position += len(hole)
                    if checksums is not None:
                        checksums.add(hole)
            offsets.append(position)
            position += len(stored)
            if checksums is not None:
                checksums.add_chunk(stored)
            write(stored)
        del stored  # so that its memory can be used again for the next one
    return offsets, position


def _lay_out_update(write: Callable[[Any], Any], update: FrameUpdate, checksums: Running | None = None) -> bytes:
    variable = update.settle()
    frame = update.frame
    fields = Fields(frame, update.chunksize, variable=variable, vlblocks=update.vlblocks)
    repeated = None if update.edits_chunks else frame.repeated_offset
    if repeated is not None and repeated < 0:
        chunks: Iterable[Stored] = (int(repeated),)
        count = int(frame.nchunks)
    else:
        chunks = all_chunks(update)
        count = len(update.offsets)
    return lay_out(write, fields, update.metalayers, update.vlmeta, chunks, count, update.nbytes, checksums)


def all_chunks(update: FrameUpdate) -> Iterator[Stored]:
    """The stored form of each chunk. A chunk with a wrong checksum raises an error."""
    frame = update.frame
    known = sums_by_offset(frame)
    for index, offset in numbered(update.offsets):
        if index in update.new:
            yield held(update.new[index])
        elif offset < 0:
            yield offset
        else:
            stored = frame.chunk_stored_at(offset)
            if known and crc32c(stored) != known[offset]:
                start = frame.chunks_range[0]
                raise FormatError(
                    f"chunk {index} is not the one that was written, as its checksum says",
                    path=frame.source.path, key=frame.key, offset=start + offset,
                )  # fmt: skip
            yield stored


def sums_by_offset(frame: Frame) -> dict[int, int]:
    """The checksum of the chunk at each offset of a frame; none of one that is unverified."""
    found = positions_and_checksums(frame)
    return {} if found is None else dict(zip(found[0].tolist(), found[1].tolist(), strict=True))


def positions_and_checksums(frame: Frame) -> tuple[Integers, np.ndarray[Any, np.dtype[np.uint32]]] | None:
    """The offsets of the stored chunks of a frame, and their checksums; None for one that is unverified."""
    checksums = carried(frame)
    if checksums is None:
        return None
    positions = np.frombuffer(frame.offsets_bytes(), np.int64)
    positions, known = positions[positions >= 0], from_table(checksums.chunks)
    if len(known) != len(positions):
        raise _other_number(frame, len(known), len(positions))
    return positions, np.array(known, np.uint32)


def _other_number(frame: Frame, known: int, stored: int) -> FormatError:
    return FormatError(
        f"{known} checksums for {stored} stored chunks", path=frame.source.path, key=frame.key,
        offset=frame.chunks_range[1],
    )  # fmt: skip


def numbered(offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Number and offset of each chunk. Only a few at a time are plain integers."""
    for first in range(0, len(offsets), _PIECE):
        yield from enumerate(offsets[first : first + _PIECE].tolist(), first)


def check_table(count: int, stored: int) -> None:
    """Refuse a table of offsets that readers would refuse in a file of so many bytes."""
    if 8 * count > table_limit(stored):
        raise ValueError(
            f"{count} chunks, most of which take no room, are too many for one frame: choose larger chunks"
        )


def appended(
    update: FrameUpdate, start: int, *, variable: bool, pack: Callable[[Any, int], bytes] = pack_index
) -> tuple[list[bytes | Spooled], bytes, bytes]:
    """The bytes to append to a frame so that it shows an update (FORMATS 8.1).

    The new version carries checksums if those of the old one hold.

    Parameters
    ----------
    update : FrameUpdate
    start : int
        Where in the file of the frame it is to begin.
    variable : bool
        Whether its chunks are of several sizes.
    pack : callable
        Makes the table from the offsets and their number.

    Returns
    -------
    what goes there, in its parts, of which the last two are the table and the trailer; the header that then makes it
    current; and the checksums of its stored chunks, if the frame carries any.

    Raises
    ------
    FormatError
        The checksums of the old version say that it is damaged.
    """
    frame = update.frame
    checksums = carried(frame)
    header_len = frame.header_len
    position = start
    running = Running()
    if checksums is not None:
        known = header_len if frame.nbytes == 0 else frame.frame_len - frame.trailer_len
        source = frame.source if start <= frame.source.size else Source.open(str(frame.source.path))
        running.body = range_checksum(source, known, start - known, checksums.body)
    parts: list[Any] = []
    added: dict[int, int] = {}
    if not update.edits_chunks and frame.repeated_offset is not None:
        offsets: Any = int(frame.repeated_offset)
        count = int(frame.nchunks)
    else:
        offsets, count = update.offsets, len(update.offsets)
        check_table(count, start)
        for number, stored in sorted(update.new.items()):
            hole = hole_before(position) if PADDING in update.metalayers else b""
            parts += [hole, stored]
            position += len(hole)
            offsets[number] = position - header_len
            position += len(stored)
            if checksums is not None:
                running.add(hole)
                running.add_chunk(stored)
                added[number] = running.chunks[-1]
    index = pack(offsets, count)
    trailer = pack_trailer(update.vlmeta)
    before = position + len(index)
    header = bytearray(frame.header_bytes())
    set_frame_fields(
        header, before + len(trailer), update.nbytes, position - header_len, has_vlmeta=bool(update.vlmeta)
    )
    struct.pack_into(">i", header, CHUNKSIZE_AT, update.chunksize)
    header[FLAGS_AT] = frame_flags(variable, update.vlblocks)
    header[MARK_AT] = 0
    if "b2nd" in update.metalayers:
        content = frame.metalayer_offset("b2nd")
        header[content : content + len(update.metalayers["b2nd"])] = update.metalayers["b2nd"]
    current, table = bytes(header), b""
    if checksums is not None:
        running.add(index)
        table = checksums.chunks if isinstance(offsets, int) else _table_after(update, checksums, added)
        current, trailer = with_checksums(current, trailer, before, table, running.body, crc32c(index))
    return [*parts, index, trailer], current, table


def _table_after(update: FrameUpdate, checksums: Sums, added: dict[int, int]) -> bytes:
    """The checksums of the chunks of an appended version. Chunks that stay keep theirs."""
    frame, offsets = update.frame, update.offsets
    repeated = frame.repeated_offset
    old = np.frombuffer(frame.offsets_bytes(), np.int64) if repeated is None else np.full(frame.nchunks, repeated)
    positions = old[old >= 0]
    if 4 * len(positions) != len(checksums.chunks):
        raise _other_number(frame, len(checksums.chunks) // 4, len(positions))
    if np.array_equal(old, offsets[: len(old)]):  # chunks were appended
        return checksums.chunks + as_table(array("I", added.values()))
    kept = np.array(from_table(checksums.chunks), np.uint32)
    every = np.zeros(len(offsets), np.uint32)
    stays = offsets >= 0
    stays[list(added)] = False
    order = np.argsort(positions, kind="stable")  # which is quick where they are in order already
    every[stays] = kept[order[np.searchsorted(positions, offsets[stays], sorter=order)]]
    every[list(added)] = list(added.values())
    return as_table(array("I", every[offsets >= 0].tobytes()))


def frame_bytes(update: FrameUpdate) -> bytes:
    """The frame written anew, without holes, as bytes."""
    parts: list[bytes] = []
    header = _lay_out_update(parts.append, update)
    return b"".join([header, *parts])


def write_frame(file: BinaryIO, update: FrameUpdate) -> None:
    """Write the frame anew, without holes and with checksums, at the start of an empty file.

    Raises
    ------
    FormatError
        The checksums of the old one say that it is damaged.
    """
    carried(update.frame)
    file.seek(header_length(update.metalayers))
    header = _lay_out_update(file.write, update, Running())
    file.seek(0)
    file.write(header)
