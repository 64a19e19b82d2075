"""Appending to a frame of embedded values: the positions of new values, and the bytes that are appended."""

from __future__ import annotations

from collections.abc import Mapping
from io import FileIO
from typing import Any, Final

import numpy as np

from blosc2._backends.embedded.changes import kept_entry
from blosc2._backends.embedded.frame_layout import (
    RawChunks,
    is_checked,
    stored_map,
    with_own_checksums,
)
from blosc2._backends.embedded_map import MAP, Embedded
from blosc2._backends.layout import ByteRange, Renamed
from blosc2._core.frame.frame_checksums import range_checksum, with_checksums
from blosc2._core.frame.frame_writer import pack_index, pack_trailer
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.leaves.embedded_values import are_new, laid_out
from blosc2._frames import ALIGNMENT, MARK_AT, Running, as_table, carried, from_table, set_frame_fields

# The header fields that make a version current lie in one sector when they end before this byte.
_SECTOR: Final = 512
# Dead bytes may be this many times the live ones, plus so many bytes.
_DEAD_TO_LIVE: Final = 2
_SLACK: Final = 1 << 20
# Values that cross chunks are no byte ranges. When they are 1/n of all bytes, larger chunks are made for them.
_CROSSING_PART: Final = 8
# Each append rewrites a last chunk up to this size; a longer one only while filling it up costs more.
_SHORT_TAIL: Final = 64 << 10
# The part (1/n) of a longer one that is not worth using.
_NEARLY_FULL: Final = 8
_CHUNK_HEADER: Final = 32
# What is written at once.
_PIECE: Final = 1 << 20


def can_grow(old: Embedded, kind: str) -> bool:
    """Whether a frame is one that can be appended to."""
    frame = old.frame
    return bool(
        # The trailer of a frame without data must follow the header.
        frame.nbytes
        and frame.offset == 0
        and old.kind == kind
        and frame.header_len <= _SECTOR
        and frame.clevel == 0
        and frame.typesize == 1
        and not (frame.variable or frame.vlblocks)
        and frame.chunksize % ALIGNMENT == 0
        and frame.repeated_offset is None
    )


class Plan:
    """Where new values go in a frame that is appended to, and what its map says then."""

    def __init__(self, old: Embedded, changes: Mapping[str, ByteRange | None]) -> None:
        self.frame = frame = old.frame
        self.old = old
        self.size = size = int(frame.chunksize)
        entries = dict(old.entries)
        # Most changes are new values of small arrays: for them there is no step by itself.
        new: Any = changes
        checked = size if is_checked(size, size) else -1  # bytes of values that are checked as they are
        if not (isinstance(changes, dict) and are_new(changes, checked, Renamed)):
            new = self._settled(changes, entries)
        positions, byte_ranges, total, end = laid_out(entries, new, size, frame.nbytes, ALIGNMENT)
        self.positions, self.byte_ranges, self.entries = positions, byte_ranges, entries
        #: The uncompressed bytes that are written: from the start of a chunk that was short, or is new.
        self.begin = frame.nbytes // size * size
        self.end = self._end(end, total) if positions else int(frame.nbytes)
        # Bytes of all values, and of those that are too long for a chunk.
        self.map, self.live, self.crossing = stored_map(entries, self.end, size)
        self.offsets = np.frombuffer(frame.offsets_bytes(), np.int64)
        self.tail = self._tail() if byte_ranges and self.begin < frame.nbytes else None

    def _settled(
        self, changes: Mapping[str, ByteRange | None], entries: dict[str, dict[str, Any]]
    ) -> dict[str, ByteRange]:
        """New values as they are written; keys that are removed, or whose bytes stay, change in `entries` at once."""
        new: dict[str, ByteRange] = {}
        for key, byte_range in changes.items():
            if byte_range is None:
                entries.pop(key, None)
            elif isinstance(byte_range, Renamed) and (entry := kept_entry(self.old, byte_range)) is not None:
                entries[key] = entry
            else:
                new[key] = byte_range if is_checked(byte_range[2], self.size) else with_own_checksums(byte_range)
        return new

    def _end(self, end: int, added: int) -> int:
        last = end % self.size
        left = self.size - last
        if last > _SHORT_TAIL and (last * last > 2 * added * self.size or left < last // _NEARLY_FULL):
            # Many appends of this size would rewrite the last chunk, which costs more than filling it up.
            return end + left
        return end

    def _tail(self) -> ByteRange | None:
        """Where the bytes of the short last chunk lie; None if they are compressed."""
        length = self.frame.nbytes - self.begin
        start = self.frame.byte_range_of(self.begin, length)
        return None if start is None else (self.frame.source, start, length)

    def is_possible(self) -> bool:
        """Whether this plan can be appended to the frame."""
        if self.byte_ranges and self.begin < self.frame.nbytes and self.tail is None:
            return False
        # A store without values has no chunks, or others could not change its metadata.
        return bool((self.offsets >= 0).all()) and any("urlbase" not in entry for entry in self.entries.values())

    def had_better_rewrite(self) -> bool:
        """Whether dead bytes, or values that are no byte ranges, have become too many."""
        frame, live = self.frame, self.live
        if self.crossing * _CROSSING_PART > live:
            return True
        count = -(-self.end // self.size)
        overhead = frame.header_len + 12 * count + len(self.map) + _SECTOR
        added = self.end - self.begin + 2 * ALIGNMENT * (count - self.begin // self.size) if self.byte_ranges else 0
        dead = frame.frame_len + added - live - overhead
        return bool(dead > _DEAD_TO_LIVE * (live + overhead) + _SLACK)

    def write(self, output: Output, vlmeta: Mapping[str, bytes]) -> bytes:
        """Write all that is new after the old trailer and what may follow it; returns the header that makes it current.

        What may follow is read for the checksums.
        """
        frame = self.frame
        known = carried(frame)
        checksums = None
        if known is not None:
            source = frame.source if output.position <= frame.source.size else Source.open(str(frame.source.path))
            start = frame.frame_len - frame.trailer_len
            checksums = Running(range_checksum(source, start, output.position - start, known.body))
            own = from_table(known.chunks)
        offsets = self.offsets
        position = output.position
        if self.byte_ranges:
            first = self.begin // self.size
            chunks = RawChunks(output.write, position, self.begin, self.end, self.size, checksums)
            if self.tail is not None and known is not None:
                source, start, _ = self.tail
                chunks.add_again(self.tail, source.read(start - _CHUNK_HEADER, _CHUNK_HEADER), own[first])
            elif self.tail is not None:
                chunks.add(self.begin, self.tail)
            chunks.add_all(self.positions, self.byte_ranges)
            chunks.finish()
            offsets = np.concatenate([offsets[:first], np.array(chunks.offsets, np.int64) - frame.header_len])
            position = chunks.position
            if known is not None:
                del own[first:]
        index = pack_index(offsets, len(offsets))
        trailer = pack_trailer({**vlmeta, MAP: self.map})
        header = bytearray(frame.header_bytes())
        stop = position + len(index)
        set_frame_fields(header, stop + len(trailer), self.end, position - int(frame.header_len), has_vlmeta=True)
        header[MARK_AT] = 0
        checked_header = bytes(header)
        if checksums is not None:
            checksums.add(index)
            table = as_table(own + checksums.chunks)
            checked_header, trailer = with_checksums(
                checked_header, trailer, stop, table, checksums.body, crc32c(index)
            )
        output.write(index)
        output.write(trailer)
        output.drain()
        return checked_header


class Output:
    """Writes to an unbuffered file from a position on, in large pieces."""

    def __init__(self, file: FileIO, position: int) -> None:
        self.position = position
        self._file = file
        self._parts: list[bytes] = []
        self._waiting = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._parts.append(data)
        self._waiting += len(data)
        if self._waiting >= _PIECE:
            self.drain()

    def drain(self) -> None:
        """Write what was taken."""
        _write_at(self._file, self.position, b"".join(self._parts))
        self.position += self._waiting
        self._parts = []
        self._waiting = 0


def _write_at(file: FileIO, offset: int, data: bytes) -> None:
    """Write all bytes at an offset of an unbuffered file."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
