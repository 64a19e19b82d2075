"""How a frame is changed: the change, the bytes of the next version, and where chunks are meanwhile.

New chunks and tables are in memory; old chunks stay where they are, as byte ranges. Payloads of uncompressed chunks may
lie at multiples of 64 bytes in their file (FORMATS 8.4), for views without a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from blosc2._core.allocation import FREE, allowed, table_limit
from blosc2._core.frame.chunk_buffer import ChunkBuffer, offset_or_chunk
from blosc2._core.frame.frame import Frame, copied_chunks
from blosc2._core.frame.frame_checksums import range_checksum, stored_lengths, with_checksums
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer, special_chunk
from blosc2._core.io.checksum import crc32c, crc32c_joined, crc32c_of_parts
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files import BUDGET, ByteRange, DrawnChunk, Spooled, TemporaryFile, check_unchanged, checked_pieces, held
from blosc2._frames.checksums import Known, Running, Sums, carried, check_chunks
from blosc2._frames.header_fields import CHUNK_HEADER, PADDING
from blosc2._options import FIELDS
from blosc2.exceptions import FormatError

#: What payloads are aligned to: a cache line, and more than any item needs.
ALIGNMENT = 64

_MOST_METALAYERS = 16


def with_padding(metalayers: dict[str, bytes]) -> dict[str, bytes]:
    """Metalayers with padding that aligns the first payload. Unchanged if one more does not fit."""
    if len(metalayers) >= _MOST_METALAYERS:
        return metalayers
    size = (CHUNK_HEADER - header_length({**metalayers, PADDING: b"\xc4\0"})) % ALIGNMENT
    return {**metalayers, PADDING: bytes((0xC4, size)) + bytes(size)}


def most_live(frame: Frame) -> int:
    """The largest size of a frame's file without dead bytes."""
    index = 8 * frame.nchunks + 64
    sums = frame.checksums_len
    return int(frame.header_len + frame.stored_nbytes + frame.nchunks * ALIGNMENT + index + frame.trailer_len + sums)


def aligned_offsets(start: int, lengths: Integers) -> Integers:
    """Where chunks of these lengths lie in an aligned frame: their offsets from the first byte behind its header."""
    taken = -(-lengths // ALIGNMENT) * ALIGNMENT
    offsets: Integers = (CHUNK_HEADER - start) % ALIGNMENT + np.cumsum(taken) - taken
    return offsets


#: Frames up to here are copied as a whole, which is sooner done.
SMALL_FRAME: Final = 8 << 20

Integers = np.ndarray[Any, np.dtype[np.int64]]
Checksums = np.ndarray[Any, np.dtype[np.uint32]]


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


def frame_byte_range(
    update: FrameUpdate, lengths: Integers | None = None, checksums: Checksums | None = None
) -> ByteRange:
    """The next version of a frame, without holes, as a byte range: its chunks stay where they are.

    The update is settled, and has offsets of its new chunks, if there are any: they go where the order of the table
    says. With `lengths` and `checksums` of the stored chunks, in their order, the result knows its checksums.
    """
    start = header_length(update.metalayers)
    entries, count = update.entries()
    parts: list[ByteRange] = []
    position = body = 0
    if isinstance(entries, int) and entries >= 0:
        entries = np.array([entries], np.int64)
    if not isinstance(entries, int):
        numbers = np.flatnonzero(entries >= 0)
        at = entries[numbers]
        if lengths is None:
            lengths = np.frombuffer(stored_lengths(update.frame, at), np.int64)
        if PADDING in update.metalayers:
            positions = aligned_offsets(start, lengths)
            parts = list(_aligned(update, numbers, at, lengths, positions))
            if checksums is not None:
                body = _body_of_aligned(checksums, lengths, positions)
        else:
            positions = np.cumsum(lengths) - lengths
            parts = list(_runs(update, numbers, at, lengths))
            if checksums is not None:
                body = crc32c_of_parts(0, checksums, lengths)
        entries = entries.copy()
        entries[numbers] = positions
        position = int(positions[-1] + lengths[-1]) if len(lengths) else 0
        check_table(count, start + position)
    index_chunk = pack_index(entries, count) if update.nbytes else b""
    trailer = pack_trailer(update.vlmeta)
    stop = start + position + len(index_chunk)
    header = pack_header(
        update.fields(), update.metalayers, bool(update.vlmeta), stop + len(trailer), update.nbytes, position
    )
    known: Known | bool = False  # what is edited is not somebody else's
    if checksums is not None:
        known = Known(
            checksums.astype("<u4", copy=False).tobytes(), crc32c(index_chunk, body), crc32c(index_chunk), start, stop
        )
    every = (_buffer(header), *parts, _buffer(index_chunk), _buffer(trailer))
    source = Source.joined(every, checksums=known)
    return source, 0, source.size


def _runs(update: FrameUpdate, numbers: Integers, at: Integers, lengths: Integers) -> Iterator[ByteRange]:
    """Where stored chunks lie: old ones that lie one behind the other are one byte range."""
    if not len(at):
        return
    source, start = update.frame.source, int(update.frame.chunks_range[0])
    ends = at + lengths
    begins = np.ones(len(at), bool)
    begins[1:] = at[1:] != ends[:-1]
    fresh = np.searchsorted(numbers, sorted(update.new))
    begins[fresh] = begins[fresh[fresh + 1 < len(at)] + 1] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(at)) - 1
    for number, begin, end in zip(numbers[first].tolist(), at[first].tolist(), ends[last].tolist(), strict=True):
        stored = update.new.get(number)
        yield (source, start + begin, end - begin) if stored is None else kept_range(stored)


def _aligned(
    update: FrameUpdate, numbers: Integers, at: Integers, lengths: Integers, positions: Integers
) -> Iterator[ByteRange]:
    """Where the chunks of an aligned frame lie, and between them the holes before their new offsets."""
    source, start, end = update.frame.source, int(update.frame.chunks_range[0]), 0
    every = (numbers.tolist(), at.tolist(), lengths.tolist(), positions.tolist())
    for number, begin, length, position in zip(*every, strict=True):
        if position > end:
            yield _buffer(bytes(position - end))
        stored = update.new.get(number)
        yield (source, start + begin, length) if stored is None else kept_range(stored)
        end = position + length


def _body_of_aligned(checksums: Checksums, lengths: Integers, positions: Integers) -> int:
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


def kept_range(stored: bytes | Spooled) -> ByteRange:
    """Where a stored chunk lies."""
    return stored.byte_range if isinstance(stored, Spooled) else _buffer(stored)


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

#: A chunk as it is stored, or one of the offsets above.
AnyChunk = bytes | memoryview | StoredChunk | Spooled | int


class FrameUpdate:
    """The next version of a frame: its edited tables and metadata, and new chunks.

    Attributes
    ----------
    table : int64 array or None
        `offsets`, as soon as they are edited or needed.
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
    variable : bool
        Whether its chunks are of several sizes, as of `settle`.
    nbytes : int
        Uncompressed bytes of all, as of `settle`.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.metalayers: dict[str, bytes] = frame.metalayers()
        self.vlmeta: dict[str, bytes] = frame.vlmeta_chunks()
        self.new: dict[int, bytes | Spooled] = {}
        self.chunksize: int = frame.chunksize
        self.vlblocks = bool(frame.vlblocks)
        self.variable = bool(frame.variable)
        self.nbytes = int(frame.nbytes)
        self.table: Integers | None = None
        self._sizes: Integers | None = None
        # While `_sizes` is None, all chunks but the last are full: by how many, and by how many bytes, they are more.
        self._more = self._grown = 0
        self._is_settled = False

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
    def offsets(self) -> Integers:
        if self.table is None:
            repeated = self.frame.repeated_offset
            if repeated is not None:
                self.require_table(self.frame.nchunks)
                self.table = np.full(self.frame.nchunks, repeated, np.int64)
            else:
                self.table = np.frombuffer(self.frame.offsets_bytes(), np.int64).copy()
        return self.table

    @offsets.setter
    def offsets(self, value: Integers) -> None:
        self.table = value

    def entries(self) -> tuple[Integers | int, int]:
        """The offsets, or the one that stands for all chunks; and the number of chunks."""
        table = self.table
        if table is None:
            repeated = self.frame.repeated_offset
            if repeated is not None:
                return int(repeated), int(self.frame.nchunks)
            table = np.frombuffer(self.frame.offsets_bytes(), np.int64)
        return table, len(table)

    @property
    def sizes(self) -> Integers:
        if self._sizes is None:
            frame = self.frame
            if frame.variable and frame.nbytes:
                self._sizes = np.frombuffer(frame.chunk_sizes(), np.int64).copy()
            else:
                nbytes = int(frame.nbytes) + self._grown
                self.require_table(frame.nchunks)
                self._sizes = np.full(frame.nchunks + self._more, frame.chunksize, np.int64)
                if nbytes and nbytes % frame.chunksize:
                    self._sizes[-1] = nbytes % frame.chunksize
        return self._sizes

    @sizes.setter
    def sizes(self, value: Integers) -> None:
        self._sizes = value

    def fields(self) -> Fields:
        """What the header says besides sizes."""
        return Fields(self.frame, self.chunksize, variable=self.variable, vlblocks=self.vlblocks)

    def content(self) -> FrameContent:
        """All of the next version, to be written anew."""
        self.settle()
        entries, count = self.entries()
        chunks: Iterable[Any] = all_chunks(self)
        if self.table is None:  # all are as they are in the frame
            chunks = (entries,) if isinstance(entries, int) else Copies([(self.frame, 0, count)])
        return FrameContent(self.fields(), self.metalayers, self.vlmeta, chunks, count, self.nbytes)

    def _own(self, stored: Any) -> bytes | Spooled | int:
        """A chunk to keep, copied from memory that will be used again."""
        if isinstance(stored, int):
            return stored
        kept = bytes(stored) if isinstance(stored, StoredChunk) else stored
        return offset_or_chunk(kept, self.frame.typesize)  # type: ignore[no-any-return]

    def replace(self, index: int, stored: AnyChunk, nbytes: int | None = None) -> None:
        """Give a chunk new content."""
        self.replace_all({index: self._own(stored)})
        if nbytes is not None:
            self.sizes[index] = nbytes

    def replace_all(self, chunks: Mapping[int, bytes | Spooled | int]) -> None:
        """Give chunks new content, by their numbers; they keep their sizes."""
        offsets = self.offsets
        for index, stored in chunks.items():
            if isinstance(stored, int):
                offsets[index] = stored
                self.new.pop(index, None)
            else:
                self.new[index] = stored

    def splice(self, index: int, removed: int, added: Iterable[tuple[AnyChunk, int]]) -> None:
        """Put chunks, given with their sizes, instead of `removed` ones from `index` on."""
        marks: list[int] = []
        lengths: list[int] = []
        new: dict[int, bytes | Spooled] = {}
        for stored, size in added:
            own = stored if type(stored) is int else self._own(stored)
            if not isinstance(own, int):
                new[index + len(marks)] = own
                own = 0
            marks.append(own)
            lengths.append(size)
        end, shift = index + removed, len(marks) - removed
        if not self._stay_full(index, end, lengths):
            sizes = self.sizes
            self._sizes = np.concatenate([sizes[:index], np.array(lengths, np.int64), sizes[end:]])
        if self.new:
            self.new = {n if n < index else n + shift: stored for n, stored in self.new.items() if not index <= n < end}
        offsets = self.offsets
        if shift:
            self.table = np.concatenate([offsets[:index], np.array(marks, np.int64), offsets[end:]])
        else:
            offsets[index:end] = marks
        self.new.update(new)

    def _stay_full(self, index: int, end: int, added: list[int]) -> bool:
        """Whether all chunks but the last stay full, if chunks of these sizes come instead of those up to `end`.

        Then no table of sizes is needed, and it is noted what becomes of their number and bytes.
        """
        frame = self.frame
        chunksize, count = int(frame.chunksize), int(frame.nchunks) + self._more
        if self._sizes is not None or frame.variable or chunksize < 1:
            return False
        self.require_table(count)
        nbytes, is_end, more = int(frame.nbytes) + self._grown, end == count, len(added) - (end - index)
        if count + more == 0:
            return False
        if added:
            last = added[-1]
            may_be_short = is_end and last != chunksize
            if not 0 < last <= chunksize or added.count(chunksize) < len(added) - may_be_short:
                return False
            if index == count and nbytes % chunksize:
                return False
        removed = (nbytes if is_end else end * chunksize) - min(index * chunksize, nbytes)
        self._more += more
        self._grown += sum(added) - removed
        return True

    def settle(self) -> None:
        """Decide by the current sizes whether chunks are equal or variable, and how many bytes they have.

        A frame of variable chunks cannot have offsets without a chunk: they become stored ones.
        """
        if self._is_settled:  # a second time it would go by what was decided
            return
        sizes = self._sizes
        self.nbytes = int(self.frame.nbytes) + self._grown if sizes is None else int(sizes.sum())
        if sizes is not None:
            self._settle_sizes(sizes)
        self._is_settled = True

    def _settle_sizes(self, sizes: Integers) -> None:
        frame = self.frame
        if len(sizes) == 0:
            self.vlblocks = self.variable = False
            return
        size = int(sizes[0]) if frame.variable or self.chunksize < 1 else self.chunksize
        self.variable = bool((sizes[:-1] != size).any() or sizes[-1] > size)
        self.chunksize = 0 if self.variable else size
        if not self.variable:
            return
        unstored = np.flatnonzero(self.offsets < 0)
        if _MADE * len(unstored) > allowed(frame.file_size):
            raise self._too_many(len(unstored))
        for index in unstored.tolist():
            if index not in self.new:
                kind = int(self.offsets[index]) >> 56 & 7
                self.new[index] = special_chunk(kind, int(sizes[index]), frame.typesize, frame.blocksize)

    def rebase(self, frame: Frame) -> None:
        """Go on from the same frame elsewhere, whose chunks have other offsets."""
        if self.table is not None:
            old, new = table_of(self.frame), table_of(frame)
            kept = self.table >= 0
            kept[list(self.new)] = False
            order = np.argsort(old, kind="stable")  # which is quick where they are in order already
            self.table[kept] = new[order[np.searchsorted(old, self.table[kept], sorter=order)]]
        self.frame = frame

    def tell_sizes(self, shown: Frame) -> None:
        """Have the frame that this update has become know the sizes of its chunks, which only their headers say."""
        if self._sizes is not None:
            sizes: Any = self._sizes  # NumPy does not say that its arrays are buffers
            shown.know_sizes(sizes)


#: Byte 25 of a header (FORMATS 1.2), by whether chunks differ in size, and blocks.
FRAME_FLAGS: Final = {(False, False): 0x12, (True, False): 0x53, (False, True): 0x93, (True, True): 0xD3}


class Fields:
    """The fixed fields of a header that do not follow from the chunks."""

    __slots__ = (*FIELDS, "chunksize", "flags")

    def __init__(self, like: Any, chunksize: int, *, variable: bool = False, vlblocks: bool = False) -> None:
        self.chunksize = chunksize
        self.flags = FRAME_FLAGS[variable, vlblocks]
        for name in FIELDS:
            setattr(self, name, getattr(like, name))


class FrameContent(NamedTuple):
    """What a new frame holds.

    Attributes
    ----------
    fields : Fields
        What the header says besides sizes.
    metalayers, vlmeta : dict
        Name -> packed content; name -> stored chunk.
    chunks : iterable
        Of `AnyChunk` or `DrawnChunk`, drawn one by one; one negative offset may stand for all.
    nchunks, nbytes : int
        How many chunks these are, and their uncompressed bytes.
    """

    fields: Fields
    metalayers: dict[str, bytes]
    vlmeta: dict[str, bytes]
    chunks: Iterable[Any]
    nchunks: int
    nbytes: int


def lay_out(
    write: Callable[[Any], Any], content: FrameContent, checksums: Running | None = None, *, aligned: bool = False
) -> bytes:
    """Write everything behind the header of a new frame, chunk after chunk, and return the header.

    `write` takes the parts in their order, each a buffer, and copies them at once. `checksums` asks for a frame that
    carries checksums, as files do, `aligned` for aligned payloads also where the metalayers have no padding.
    """
    fields, metalayers, vlmeta, chunks, count, nbytes = content
    start = header_length(metalayers)
    offsets, position = write_chunks(write, chunks, start if aligned or PADDING in metalayers else None, checksums)
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


def write_content(file: BinaryIO, content: FrameContent, *, aligned: bool = False) -> None:
    """Write a new frame, with checksums, at the start of an empty file; see `lay_out`."""
    file.seek(header_length(content.metalayers))
    header = lay_out(file.write, content, Running(), aligned=aligned)
    file.seek(0)
    file.write(header)


def write_chunks(
    write: Callable[[Any], Any], chunks: Iterable[Any], start: int | None = None, checksums: Running | None = None
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
                hole = bytes((CHUNK_HEADER - start - position) % ALIGNMENT)
                if hole:
                    write(hole)
                    position += len(hole)
                    if checksums is not None:
                        checksums.add(hole)
            offsets.append(position)
            position += len(stored)
            if isinstance(stored, DrawnChunk):
                for piece in stored.pieces():
                    write(piece)
            else:
                write(stored)
            if checksums is not None:
                checksums.add_chunk(stored)
        del stored  # so that its memory can be used again for the next one
    return offsets, position


class StoredChunks:
    """The chunks of a frame as they are stored. A wrong checksum of one is an error: a copy would get a valid one."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        checksums = carried(frame)
        self._known = {} if checksums is None else _checksums_by_offset(frame, checksums)

    def at(self, index: int, offset: int) -> bytes | memoryview:
        """The chunk of a number, which has this offset in the table; a view of it where it has an address."""
        stored: bytes | memoryview = self._frame.chunk_stored_at(offset)
        if self._known and crc32c(stored) != self._known[offset]:
            raise _not_written(self._frame, index, offset)
        return stored


class Copies:
    """Chunks of frames, to be copied as they are stored: one by one, or all at once into memory.

    Each run is a frame, and the numbers of the first chunk and of the one behind the last. A wrong checksum of a chunk
    is a `FormatError` when it is copied: the copy would get a valid one.
    """

    def __init__(self, runs: list[tuple[Frame, int, int]]) -> None:
        self._runs = runs
        for frame, _, _ in runs:
            if frame.repeated_offset is not None:
                FrameUpdate(frame).require_table(frame.nchunks)

    def __iter__(self) -> Iterator[AnyChunk]:
        known: dict[Frame, tuple[StoredChunks, Integers]] = {}
        for frame, first, stop in self._runs:
            if frame not in known:
                known[frame] = StoredChunks(frame), FrameUpdate(frame).offsets
            chunks, offsets = known[frame]
            for index, offset in numbered(offsets[first:stop]):
                yield offset if offset < 0 else chunks.at(first + index, offset)

    def in_memory(self) -> tuple[bytes, Integers]:
        """All of them, one behind the other, and their offsets."""
        sums: dict[Frame, bytes | None] = {}
        for frame, _, _ in self._runs:
            if frame not in sums:
                found = None if frame.checks_copies else carried(frame)
                sums[frame] = None
                if found is not None:
                    sums[frame] = checksums_by_number(frame, found, FrameUpdate(frame).offsets).tobytes()
        stored, table = copied_chunks([(*run, sums[run[0]]) for run in self._runs])
        return stored, np.frombuffer(table, np.int64)


def all_chunks(update: FrameUpdate) -> Iterator[AnyChunk]:
    """The stored form of each chunk."""
    chunks = StoredChunks(update.frame)
    for index, offset in numbered(update.offsets):
        if index in update.new:
            yield held(update.new[index])
        elif offset < 0:
            yield offset
        else:
            yield chunks.at(index, offset)


def _not_written(frame: Frame, index: int, offset: int) -> FormatError:
    return FormatError(
        f"chunk {index} is not the one that was written, as its checksum says",
        path=frame.source.path, key=frame.key, offset=frame.chunks_range[0] + offset,
    )  # fmt: skip


def checksums_by_number(frame: Frame, checksums: Sums, offsets: Integers) -> Checksums:
    """The checksum of each chunk of a frame that carries them and has these offsets; 0 for what is not stored."""
    stored = offsets >= 0
    known, count = len(checksums.chunks) // 4, int(stored.sum())
    if known != count:
        raise FormatError(
            f"{known} checksums for {count} stored chunks", path=frame.source.path, key=frame.key,
            offset=frame.chunks_range[1],
        )  # fmt: skip
    every = np.zeros(len(offsets), np.uint32)
    every[stored] = np.frombuffer(checksums.chunks, "<u4")
    return every


def _checksums_by_offset(frame: Frame, checksums: Sums) -> dict[int, int]:
    """The checksum of each stored chunk of a frame that carries them, by its offset in the table."""
    table = table_of(frame)
    return dict(zip(table.tolist(), checksums_by_number(frame, checksums, table).tolist(), strict=True))


def table_of(frame: Frame) -> Integers:
    """The offset of each chunk of a frame; none where one value without a chunk stands for all."""
    repeated = frame.repeated_offset
    if repeated is None:
        return np.frombuffer(frame.offsets_bytes(), np.int64)
    return np.array([repeated] if repeated >= 0 else [], np.int64)


def is_without_dead(old: Frame, new: Frame) -> bool:
    """Whether a frame is another one without its dead bytes, as their checksums say."""
    if new.frame_len >= old.frame_len:  # a copy, which somebody may have put there for a reason
        return False
    sums, new_sums = carried(old), carried(new)
    if sums is None or new_sums is None or sums.chunks != new_sums.chunks or old.repeated_offset != new.repeated_offset:
        return False
    return (
        (old.nbytes, old.chunksize, old.nchunks) == (new.nbytes, new.chunksize, new.nchunks)
        and np.array_equal(np.minimum(table_of(old), 0), np.minimum(table_of(new), 0))
        and old.metalayers() == new.metalayers()
        and old.vlmeta_chunks() == new.vlmeta_chunks()
    )


def numbered(offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Number and offset of each chunk. Only a few at a time are plain integers."""
    for first in range(0, len(offsets), _PIECE):
        yield from enumerate(offsets[first : first + _PIECE].tolist(), first)


def check_table(count: int, stored: int) -> None:
    """Refuse a table of offsets that readers would refuse in a file of so many bytes."""
    if 8 * count > FREE // 2 and 8 * count > table_limit(stored):
        raise ValueError(
            f"{count} chunks, most of which take no room, are too many for one frame: choose larger chunks"
        )


def frame_bytes(update: FrameUpdate) -> bytes:
    """The frame written anew, without holes, as bytes."""
    parts: list[bytes] = []
    header = lay_out(parts.append, update.content())
    return b"".join([header, *parts])


def write_frame(file: BinaryIO, update: FrameUpdate) -> None:
    """Write the frame anew, without holes and with checksums, at the start of an empty file."""
    carried(update.frame)
    write_content(file, update.content())


def in_large_pages(size: int) -> memoryview:
    """Memory to be filled, in large pages where the system has them: first touching it costs as much as filling it."""
    return np.empty(size, np.uint8).data


def _kept_chunks(update: FrameUpdate) -> memoryview:
    """The chunks of a frame, to be copied. A wrong checksum of one of them is an error: the copy gets a valid one."""
    frame = update.frame
    start, stop = frame.chunks_range
    data = memoryview(frame.source.read(start, stop - start))
    sums = carried(frame)
    rest = frame.offset + frame.frame_len - frame.trailer_len - stop
    if sums is None or not frame.nbytes or range_checksum(frame.source, stop, rest, crc32c(data)) == sums.body:
        return data
    known = _checksums_by_offset(frame, sums)
    for index, offset in numbered(update.offsets):
        if offset >= 0 and index not in update.new:
            length = int.from_bytes(data[offset + 12 : offset + 16], "little")
            if crc32c(data[offset : offset + length]) != known[offset]:
                raise _not_written(frame, index, offset)
    return data


# A buffer is compacted when its dead bytes exceed the live ones by this much.
_DEAD: Final = 1 << 16


class EditedChunks:
    """Where the chunks are of a frame that is edited.

    Few lie in one buffer. A change adds to it, so that readers of older versions keep theirs; when it is full, what is
    needed is copied to another one. Many stay in a file, or go to one where they may, `waiting`: see `JoinedChunks`.
    With `joins` few chunks stay where they are, too.

    Attributes
    ----------
    frame : Frame or None
        The version whose chunks these are. None during a change, and after one that failed.
    buffer : ChunkBuffer or None
        Makes the next version by itself, where that is easily done.
    """

    __slots__ = ("_joined", "_joins", "buffer", "frame", "waiting")

    def __init__(self, waiting: TemporaryFile | None = None, *, joins: bool = False) -> None:
        self.waiting = waiting
        self._joins = joins
        self.frame: Frame | None = None
        self.buffer: ChunkBuffer | None = None
        self._joined: JoinedChunks | None = None

    def joins(self, update: FrameUpdate) -> bool:
        """Whether the next version lies where its chunks are: not where these are few, or have to be in memory."""
        frame, (start, stop) = update.frame, update.frame.chunks_range
        if self._joins or (self._joined is not None and self.frame is frame):
            return True
        if not frame.source.in_memory:
            return frame.repeated_offset is None and stop - start > SMALL_FRAME
        return self.waiting is not None and stop - start + sum(map(len, update.new.values())) > SMALL_FRAME

    def after(self, update: FrameUpdate) -> Frame:
        """The frame after a change."""
        update.settle()
        frame = update.frame
        check_chunks(frame)  # what is copied to memory has no checksums there
        if self.frame is not frame:
            self._joined = None
        joined = (self._joined or JoinedChunks(frame, self.waiting)) if self.joins(update) else None
        self.frame = None
        entries, count = update.entries()
        if joined is not None:
            source = joined.source() if update.table is None else joined.source_after(update)
            self.buffer = None
        elif not isinstance(entries, int):
            source = self._place(update)
        else:
            source = Source.of_buffer(_kept_chunks(update)) if frame.serialised else frame.source
        made = Frame.assemble(
            source, entries, count, update.nbytes, update.chunksize, frame, update.metalayers, update.vlmeta,
            vlblocks=update.vlblocks, variable=update.variable,
        )  # fmt: skip
        if update.variable:
            update.tell_sizes(made)
        self.frame, self._joined = made, joined
        return made

    def follow(self, frame: Frame, made: Frame) -> None:
        """Another version has its chunks where those of one lie."""
        if self.frame is frame or self._joined is None:
            self.frame = made

    def byte_range(self, frame: Frame) -> ByteRange | None:
        """A version, and the checksums of its chunks, as far as these are known; None if it is not made of many."""
        if self._joined is None or self.frame is not frame:
            return None
        update = FrameUpdate(frame)
        offsets = update.offsets
        return frame_byte_range(update, checksums=self._joined.checksums_of(offsets[offsets >= 0]))

    def newer(self, offsets: Integers) -> dict[int, bytes | Spooled]:
        """The chunks of a table that were not in the first version, by their numbers."""
        assert self._joined is not None
        return self._joined.newer(offsets)

    def _place(self, update: FrameUpdate) -> Source:
        """Put new chunks into the buffer, and note where they lie there. Returns a source of all."""
        frame, offsets, buffer = update.frame, update.offsets, self.buffer
        chunks: dict[int, Any] = {index: held(stored) for index, stored in update.new.items()}
        more = sum(map(len, chunks.values()))
        if buffer is None or not buffer.holds(frame):
            old = _kept_chunks(update)
            buffer = _buffer_of(old, len(old) + more + max(len(old), more, 64), frame)
        placed = buffer.place(frame, list(chunks.values()))
        if placed is None:
            kept = {i: o for i, o in enumerate(offsets.tolist()) if o >= 0 and i not in chunks}
            at = np.array(list(kept.values()), np.int64)
            live = int(np.frombuffer(stored_lengths(frame, at), np.int64).sum())
            if buffer.used > 2 * live + _DEAD:
                chunks.update((i, frame.chunk_stored_at(o)) for i, o in kept.items())
                buffer = _buffer_of(b"", 2 * (live + more))
            else:
                buffer = _buffer_of(memoryview(frame.source), 2 * buffer.used + more, frame)
            placed = buffer.place(frame, list(chunks.values()))
            assert placed is not None
        self.buffer = buffer
        source, places = placed
        for index, place in zip(chunks, places, strict=True):
            offsets[index] = place
        return source


def _buffer_of(chunks: Any, size: int, frame: Frame | None = None) -> ChunkBuffer:
    """A buffer of so many bytes that begins with the chunks of a frame, which lie elsewhere."""
    room = in_large_pages(size)
    room[: len(chunks)] = chunks
    return ChunkBuffer(room, len(chunks), frame)


# Bytes of a temporary file that nobody needs any more, beyond as many as are needed, before it is written anew.
_SLACK: Final = 256 << 20


class JoinedChunks:
    """Where the chunks of an array are that is edited: those of a frame in a file, which stay there, and newer ones.

    These go to the file `waiting` beyond a budget; None keeps them in memory.
    """

    def __init__(self, frame: Frame, waiting: TemporaryFile | None) -> None:
        start, stop = frame.chunks_range
        self._base: ByteRange = (frame.source, start, stop - start)
        self._frame = frame
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
            self._source = Source.joined((self._base, *map(kept_range, self._fresh.values())))
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
            self._source = Source.joined(((source, 0, source.size), *map(kept_range, added.values())))
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

    @cached_property
    def _known(self) -> tuple[Integers, Checksums] | None:
        """The offsets of its chunks in the file, in order, and their checksums; None if these are not known."""
        carries = carried(self._frame)
        if carries is None:
            return None
        table = table_of(self._frame)
        order = np.argsort(table, kind="stable")  # which is quick where they are in order already
        return table[order], checksums_by_number(self._frame, carries, table)[order]

    def checksums_of(self, offsets: Integers) -> Checksums | None:
        """The checksums of the chunks at offsets; None where the frame in the file carries none."""
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
