"""Frames of embedded values: where each value goes, raw chunks, a whole new frame; and what changes in one.

Values do not cross chunks, if they fit into one: each is then a byte range of the file. Those whose payloads are
aligned within their frames lie at multiples of 64.
The checksum of a chunk stands for the values in a small one; others have checksums of their own, as leaves in files do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Final, cast

from blosc2._backends.embedded_map import MAP, Embedded, chunks_of_value
from blosc2._backends.layout import ByteRange, Renamed, pieces, whole
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c, crc32c_joined
from blosc2._core.io.source import Source
from blosc2._core.leaves.embedded_values import counted, gathered, laid_out
from blosc2._files import DrawnChunk, Progress, TemporaryFile
from blosc2._frames import (
    ALIGNMENT,
    PADDING,
    Fields,
    FrameContent,
    carried,
    encode,
    lay_out,
    pack,
    pack_checked,
    parts_with_checksums,
    verify_frame,
    with_padding,
    write_content,
)
from blosc2._options import Filter, zstd_encoding
from blosc2.exceptions import FormatError

#: The byte range of a value's frame; or the entry of a value without bytes here, to be kept as it is.
Value = ByteRange | dict[str, Any]

# A chunk holds several of the largest value, so that unused ends are a fraction of the whole; but not
# more than all of them, as an append writes the last chunk again.
_LEAST_CHUNK: Final = 64 << 10
LARGEST_CHUNK: Final = 64 << 20
_CHUNK_TO_VALUE: Final = 4
# A last chunk with at most this many free bytes is filled up, so that an append need not rewrite it.
_FILLED: Final = 2 * ALIGNMENT
# What is written at once; up to here a value is one piece.
_PIECE: Final = 1 << 20
# Chunks of up to so many bytes are checked when the first value in them is opened: `SMALL_CHUNK` of frame.pyx.
_CHECKED: Final = (1 << 20) - 32

# Values are compressed already.
_ENCODING: Final = zstd_encoding(0, Filter.SHUFFLE)
_MAP_ENCODING: Final = zstd_encoding(1)
_RAW_MAP: Final = 4096
_RAW_CHUNK: Final = struct.Struct("<4B3i6B2B6B2B")


def stored_value(value: Any) -> bytes:
    """A metadata value as it is stored: packed, and in a chunk."""
    return _stored(pack(value))


def stored_map(entries: dict[str, dict[str, Any]], nbytes: int, size: int) -> tuple[bytes, int, int]:
    """The map of values as it is stored; their bytes, and those of values that cross chunks of this size."""
    count, total, crossing = counted(entries, nbytes, size, LARGEST_CHUNK)
    packed = pack_checked({"embed_map": entries, "current_offset": nbytes})
    return _stored(packed), total + ALIGNMENT * count, crossing


def _stored(packed: bytes) -> bytes:
    # A map is written with each change, so compressing it must take less time than packing it.
    return raw_header(len(packed)) + packed if len(packed) <= _RAW_MAP else encode(_MAP_ENCODING, packed)


def raw_header(nbytes: int) -> bytes:
    """The header of a chunk that holds its bytes as they are."""
    return _RAW_CHUNK.pack(
        5, 1, 7, 1, nbytes, nbytes, nbytes + _RAW_CHUNK.size, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0
    )


def aligned(length: int) -> int:
    """A length, rounded up to where a value may begin."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def chunksize_for(lengths: Sequence[int], least: int) -> int:
    """A size of chunks for values of these lengths."""
    total = sum(lengths) + ALIGNMENT * len(lengths)
    size = min(_CHUNK_TO_VALUE * aligned(max(lengths, default=0)), total, LARGEST_CHUNK)
    return aligned(max(least, _LEAST_CHUNK, size))


def is_checked(length: int, size: int) -> bool:
    """Whether a value lies in one chunk, of a size that is checked as a whole when its first value is opened."""
    return length <= size <= _CHECKED


def with_own_checksums(byte_range: ByteRange) -> ByteRange:
    """A value with checksums of its own; one that has them, or is not sound, stays as it is."""
    source = byte_range[0]
    try:
        frame = Frame.open(*byte_range)
        if frame.checksums_len:
            return byte_range
        parts = parts_with_checksums(frame)
    except FormatError:
        return byte_range
    made = [part if isinstance(part, tuple) else (Source.of_buffer(part), 0, len(part)) for part in parts]
    # Known checksums are those of the body, which has not moved.
    joined = Source.joined(made, source.path, source.checksums if source.is_joined else False)
    return joined, 0, joined.size


class RawChunks:
    """Values, in the order of their positions, as the raw chunks of the bytes ``begin .. end`` of a frame."""

    def __init__(self, positions: list[int], byte_ranges: list[ByteRange], begin: int, end: int) -> None:
        self._positions = positions
        self._byte_ranges = byte_ranges
        self._at, self._end = begin, end
        # The next value; what is left of the one before, and of its piece.
        self._number = 0
        self._value: Iterator[Any] = iter(())
        self._rest = memoryview(b"")

    def of_size(self, size: int, known: tuple[int, int] | None = None) -> Iterator[DrawnChunk]:
        """The chunks, of so many bytes each.

        `known` is the length of the first value, and its checksum: it is not summed again. If it is damaged, the new
        checksums show it as the old ones did.
        """
        for start in range(self._at, self._end, size):
            stop = min(start + size, self._end)
            yield DrawnChunk(_RAW_CHUNK.size + stop - start, partial(self._draw, stop, known))
            known = None
        next(self._value, None)  # bytes are checked after the last of them

    def _draw(self, stop: int, known: tuple[int, int] | None, chunk: DrawnChunk) -> Iterator[bytes]:
        begin = raw_header(stop - self._at)
        if known is not None:
            length, checksum = known
            chunk.sum = crc32c_joined(crc32c(begin), checksum, length)
            yield from self._pieces(begin, self._at + length)
            begin = b""
        for piece in self._pieces(begin, stop):
            chunk.sum = crc32c(piece, chunk.sum)
            yield piece

    def _pieces(self, begin: bytes, stop: int) -> Iterator[bytes]:
        """What comes up to a position, behind a beginning: copies, as mapped bytes may change."""
        waiting, size = [begin], len(begin)
        while self._at < stop:
            piece = self._next(min(stop, self._at + _PIECE))
            self._at += len(piece)
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
        if size:
            yield b"".join(waiting)

    def _next(self, stop: int) -> Any:
        """The next bytes, up to a position at the most: of a value, or zeros between two."""
        while True:
            self._rest = self._rest or memoryview(next(self._value, b""))
            if self._rest:
                piece, self._rest = self._rest[: stop - self._at], self._rest[stop - self._at :]
                return piece
            number = self._number
            if number == len(self._positions):
                return bytes(stop - self._at)
            # Small values in memory are taken together.
            data, self._number = gathered(self._positions, self._byte_ranges, number, self._at, stop)
            if data:
                return data
            if self._number == number:
                if self._positions[number] > self._at:
                    return bytes(min(stop, self._positions[number]) - self._at)
                byte_range = self._byte_ranges[number]
                self._value = iter((whole(byte_range),)) if byte_range[2] <= _PIECE else pieces(byte_range)
                self._number += 1


# Values of more bytes are put together in a temporary file, not in memory.
_IN_MEMORY: Final = 32 << 20


class EmbeddedChanges:
    """What becomes of embedded values.

    Parameters
    ----------
    kind : str
        The metalayer that marks the frame, one of `STORE_KINDS`.
    old : Embedded or None
        The present values; None for a store that is new, or replaces another one.
    changes : mapping
        New frames by key, None for a removed key; a `Renamed` frame only gets another key.
    metadata, meta : mapping, optional
        Stored chunks of metadata entries that are new, and packed metalayers of a new frame; an old one keeps its own.
    chunksize : int
        The least size of chunks of a frame that is written anew.
    """

    __slots__ = ("changes", "chunksize", "entries", "kind", "meta", "metadata", "old")

    def __init__(
        self,
        kind: str,
        old: Embedded | None,
        changes: Mapping[str, ByteRange | None],
        *,
        metadata: Mapping[str, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
        chunksize: int = 0,
    ) -> None:
        self.kind = kind
        self.old = old
        self.changes = changes
        self.chunksize = chunksize
        #: The map of all values, after they were written.
        self.entries: dict[str, dict[str, Any]] | None = None
        self.meta = dict(meta or {})
        self.metadata: dict[str, bytes] = {}
        if old is not None:
            own = {old.kind, PADDING}
            self.meta = {name: content for name, content in old.frame.metalayers().items() if name not in own}
            self.metadata = {name: chunk for name, chunk in old.frame.vlmeta_chunks().items() if name != MAP}
        self.metadata |= metadata or {}

    def compose(self) -> bytes:
        """All of the new frame, for memory and archives: without checksums of its own."""
        return _composed(self._content())

    def byte_range(self, beside: str) -> ByteRange:
        """All of the new frame as a byte range: in memory, or where that would take much, in a temporary file."""
        content = self._content()
        if content.nbytes <= _IN_MEMORY:
            data = _composed(content)
            return Source.of_buffer(data), 0, len(data)
        waiting = TemporaryFile(beside)
        header = lay_out(waiting.add, content, aligned=True)
        source = Source.joined(((Source.of_buffer(header), 0, len(header)), waiting.byte_range(0)), checksums=False)
        return source, 0, source.size

    def write(self, file: BinaryIO, progress: Progress | None = None) -> dict[str, dict[str, Any]]:
        """Write all of the new frame to an empty file; returns its map. Values that are damaged are not copied."""
        if self.old is not None:
            check_whole(self.old, self.changes)
        write_content(file, self._content(progress), aligned=True)
        assert self.entries is not None
        return self.entries

    def _content(self, progress: Progress | None = None) -> FrameContent:
        """What the new frame holds; its values are read when they are written."""
        values = values_after(self.old, self.changes)
        kept = {key: value for key, value in values.items() if isinstance(value, dict)}
        local = cast("dict[str, ByteRange]", dict(values))
        for key in kept:
            del local[key]
        size = _chunksize_with_checksums(local, self.chunksize)
        made: dict[str, dict[str, Any]] = {}
        positions, byte_ranges, total, nbytes = laid_out(made, local, size, 0, ALIGNMENT)
        if -nbytes % size <= _FILLED:
            nbytes += -nbytes % size
        self.entries = entries = {key: made.get(key) or kept[key] for key in values} if kept else made
        chunks: Iterable[DrawnChunk] = RawChunks(positions, byte_ranges, 0, nbytes).of_size(size)
        if progress is not None:
            chunks = _telling(chunks, progress, total)
        vlmeta = {MAP: stored_map(entries, nbytes, size)[0], **self.metadata}
        metalayers = with_padding({self.kind: pack({"version": 1}), **self.meta})
        return FrameContent(Fields(_ENCODING, size), metalayers, vlmeta, chunks, -(-nbytes // size), nbytes)


def _composed(content: FrameContent) -> bytes:
    parts: list[bytes] = []
    header = lay_out(parts.append, content, aligned=True)
    return b"".join([header, *parts])


def _telling(chunks: Iterable[DrawnChunk], progress: Progress, total: int) -> Iterator[DrawnChunk]:
    """Tell of each chunk that was written."""
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        progress(min(done, total), total)


def _chunksize_with_checksums(values: dict[str, ByteRange], least: int) -> int:
    """A size of chunks for values; those that would not be checked with their chunk get checksums of their own."""
    done: set[str] = set()
    while True:
        lengths = [byte_range[2] for byte_range in values.values()]
        size = chunksize_for(lengths, least)
        if is_checked(max(lengths, default=0), size):
            return size
        bare = {key for key, length in zip(values, lengths, strict=True) if not is_checked(length, size)} - done
        if not bare:
            return size
        values.update((key, with_own_checksums(values[key])) for key in bare)
        done |= bare


def values_after(old: Embedded | None, changes: Mapping[str, ByteRange | None]) -> dict[str, Value]:
    """All values with these changes, in order: the byte range of each, or the entry of one without bytes."""
    values: dict[str, Value] = {}
    if old is not None:
        for key in old.entries:
            if key not in changes:
                values[key] = _kept(old, key)
            elif changes[key] is not None:
                values[key] = {}  # keeps its position in the order
    # Also of those that only get another key: their bytes never change.
    values.update(cast("Mapping[str, ByteRange]", changes))
    for key in [key for key, byte_range in changes.items() if byte_range is None]:
        del values[key]
    return values


def _kept(old: Embedded, key: str) -> Value:
    byte_range = old.kept(key)
    return old.entries[key] if byte_range is None else byte_range


def kept_entry(old: Embedded, byte_range: ByteRange) -> dict[str, Any] | None:
    """The entry of a value that only gets another key, if its bytes can stay where they are; else None.

    By now the old key may have another value, and the file may have been replaced.
    """
    if not isinstance(byte_range, Renamed) or byte_range.origin not in old.entries:
        return None
    entry, source, now = old.entries[byte_range.origin], byte_range[0], old.stored_range(byte_range.origin)
    if now is None or now[1:] != byte_range[1:] or source.identity is None or now[0].identity is None:
        return None
    return entry if now[0].identity[:2] == source.identity[:2] else None


def is_damaged(old: Embedded) -> bool:
    """Whether a frame contradicts its checksums; False for one without checksums."""
    try:
        check_whole(old, {})
    except FormatError:
        return True
    return False


def check_whole(old: Embedded, changes: Mapping[str, ByteRange | None]) -> None:
    """Refuse to copy values out of chunks that are damaged: the copies would pass for whole."""
    frame = old.frame
    carried(frame)
    damaged = set()
    for finding in verify_frame(frame):
        if finding.chunk is not None:
            damaged.add(finding.chunk)
        elif finding.offset != frame.offset + frame.header_len:  # dead bytes do not matter
            raise FormatError(finding.what, path=frame.source.path, offset=finding.offset)
    if not damaged:
        return
    moved = {byte_range.origin for byte_range in changes.values() if isinstance(byte_range, Renamed)}
    for key, entry in old.entries.items():
        offset, length = entry.get("offset"), entry.get("length")
        if (key in changes and key not in moved) or type(offset) is not int or type(length) is not int:
            continue
        if not damaged.isdisjoint(chunks_of_value(frame, offset, length)):
            raise FormatError(
                "the bytes around this value are not those that were written, so the store cannot be written anew; "
                "check() tells more, and salvage() saves what is whole",
                path=frame.source.path, key=key,
            )  # fmt: skip
