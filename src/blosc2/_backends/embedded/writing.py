"""Changes of a file of embedded values: appended and published, or the whole file rewritten.

An append leaves every byte of the published version where it is (FORMATS 8.1). Behind it come the last chunk again, if
it was short, with the new values after the old ones; further chunks; a new table of chunks and a new map. When these
are on the disk, one write of the header makes them current. Deleted or replaced values stay as unused bytes until the
file is rewritten, which happens by itself when they outweigh the bytes in use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from blosc2._backends.embedded.frame_layout import (
    RawChunks,
    is_checked,
    is_damaged,
    kept_entry,
    stored_map,
    with_own_checksums,
)
from blosc2._backends.embedded_map import MAP, Embedded
from blosc2._backends.layout import ByteRange, Renamed, is_worth_writing_anew
from blosc2._backends.temporary import is_mount_point
from blosc2._core.io.checksum import crc32c, crc32c_joined
from blosc2._core.leaves.embedded_values import are_new, laid_out
from blosc2._files import (
    NewFile,
    Progress,
    changed_by_others,
    check_same_file,
    file_identity,
    identity_of,
    sync_descriptor,
    through_link,
)
from blosc2._frames import ALIGNMENT, CHUNK_HEADER, SECTOR, NextVersion
from blosc2._options import tell

if TYPE_CHECKING:
    from blosc2._backends.embedded.file import EmbeddedFile
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges
    from blosc2._core.frame.frame import Frame


# Dead bytes may be this many times the live ones, plus so many bytes.
_DEAD_TO_LIVE: Final = 2
_SLACK: Final = 1 << 20
# Values that cross chunks are no byte ranges. When they are 1/n of all bytes, larger chunks are made for them.
_CROSSING_PART: Final = 8
# Each append rewrites a last chunk up to this size; a longer one only while filling it up costs more.
_SHORT_TAIL: Final = 64 << 10
# The part (1/n) of a longer one that is not worth using.
_NEARLY_FULL: Final = 8


def can_grow(old: Embedded, kind: str) -> bool:
    """Whether a frame is one that can be appended to."""
    frame = old.frame
    return bool(
        # The trailer of a frame without data must follow the header.
        frame.nbytes
        and frame.offset == 0
        and old.kind == kind
        and frame.header_len <= SECTOR
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
        overhead = _overhead(frame, count, self.map)
        added = self.end - self.begin + 2 * ALIGNMENT * (count - self.begin // self.size) if self.byte_ranges else 0
        dead = frame.frame_len + added - live - overhead
        return bool(dead > _DEAD_TO_LIVE * (live + overhead) + _SLACK)

    def write(self, version: NextVersion, vlmeta: Mapping[str, bytes]) -> None:
        """Have a version be what is planned, with further metadata entries."""
        offsets, sums = self.offsets, None if version.known is None else version.known.chunks
        if self.byte_ranges:
            first = self.begin // self.size
            positions, byte_ranges, known = self.positions, self.byte_ranges, None
            if self.tail is not None:
                positions, byte_ranges = [self.begin, *positions], [self.tail, *byte_ranges]
                if sums is not None:
                    known = _payload_checksum(self.tail, sums[4 * first : 4 * first + 4])
            chunks = RawChunks(positions, byte_ranges, self.begin, self.end).of_size(self.size, known)
            offsets = np.concatenate([offsets[:first], version.add_chunks(chunks, aligned=True, at_once=True)])
            if sums is not None and version.sums is not None:
                sums = sums[: 4 * first] + version.sums.table()
        header = bytearray(self.frame.header_bytes())
        version.end(header, offsets, len(offsets), {**vlmeta, MAP: self.map}, self.end, sums)


def _overhead(frame: Frame, count: int, packed: bytes) -> int:
    """Bytes around the values of a frame, at most: with so many chunks, and with this map."""
    return int(frame.header_len) + 12 * count + len(packed) + SECTOR


def used_bytes(old: Embedded) -> int:
    """Bytes that a new file with the same values would have, at most."""
    frame = old.frame
    packed, live, _ = stored_map(old.entries, frame.nbytes, max(int(frame.chunksize), 1))
    return int(live) + _overhead(frame, frame.nchunks, packed)


def is_worth_compacting(file: EmbeddedFile, old: Embedded) -> bool:
    """Whether a file that nobody changes any more is to be written anew: see `is_worth_writing_anew`."""
    live = used_bytes(old)
    dead = int(old.frame.frame_len) - live
    return (
        is_worth_writing_anew(live, dead, file.written)
        and not is_damaged(old)
        and not is_mount_point(through_link(file.path))
    )


def _payload_checksum(payload: ByteRange, whole: bytes) -> tuple[int, int]:
    """The length and the checksum of what a raw chunk holds, by the checksum of the chunk and its header."""
    source, start, length = payload
    header = source.read(start - CHUNK_HEADER, CHUNK_HEADER)
    return length, int.from_bytes(whole, "little") ^ crc32c_joined(crc32c(header), 0, length)


def written(
    file: EmbeddedFile, new: EmbeddedChanges, *, durable: bool, anew: bool, progress: Progress | None
) -> Append | Replacement:
    """Write all that changes need, where nobody looks; see `EmbeddedFile.prepare`."""
    old = new.old
    if old is not None and not anew and can_grow(old, new.kind):
        plan = Plan(old, new.changes)
        # A damaged file is not rewritten, which would hide the damage; nor one that cannot be replaced.
        if plan.is_possible() and (
            not plan.had_better_rewrite() or is_damaged(old) or is_mount_point(through_link(file.path))
        ):
            return Append(file, plan, new.metadata, durable)
        tell("INFO", "%s: is written anew", file.path, counted="rewrites")
    return Replacement(file, new, durable, progress)


class Replacement:
    """A new file that will be renamed into the place of the old one."""

    def __init__(self, file: EmbeddedFile, new: EmbeddedChanges, durable: bool, progress: Progress | None) -> None:
        self._file = file
        # The only durable copy of values is not replaced by one that may not be durable.
        self._durable = durable = durable or (new.old is not None and bool(new.old.frame.nbytes))
        self._identity = None if new.old is None else file.identity
        path = through_link(file.path)
        file.owner.makedirs(os.path.dirname(path))
        how: dict[str, Any] = {"lock": file.lock, "beside": file.beside, "owner": file.owner}
        self._new = NewFile(path, replace=file.was_there, **how)
        file.change = self
        try:
            self._entries = new.write(self._new.file, progress)
            file.owner.check(path)  # the progress callback may have forked
            self._new.file.flush()
            if durable:
                sync_descriptor(self._new.file.fileno())
        except BaseException:
            self.abandon()
            raise

    def commit(self) -> dict[str, dict[str, Any]]:
        """Make it current; returns the map that the file then has. If this fails, it is taken back."""
        file, identity = self._file, None
        try:
            file.owner.check(file.path)
            check_same_file(file.path, self._identity)
            identity = identity_of(os.fstat(self._new.file.fileno()))
            file.behind = file.unsettled = True
            self._new.commit(durable=self._durable)
            file.unsettled = not self._durable
            file.change = None
            file.identity, file.was_there = identity, True
            file.written += identity[2]
        except BaseException:
            self.abandon()
            now = file_identity(file.path)
            file.behind = identity is not None and now is not None and now[:2] == identity[:2]
            raise
        return self._entries

    def abandon(self) -> None:
        """Take it back."""
        self._file.change = None
        self._new.abandon()


class Append:
    """New bytes behind the published version of a file."""

    def __init__(self, file: EmbeddedFile, plan: Plan, vlmeta: Mapping[str, bytes], durable: bool) -> None:
        self._file = file
        self._plan = plan
        self._durable = durable
        self._version: NextVersion | None = None
        self._raw = raw = file.owner.open_raw(file.path, "r+b")
        try:
            file.change = self
            self._check_unchanged()
            self._version = version = NextVersion(raw, file.path, plan.frame)
            plan.write(version, vlmeta)
            file.owner.check(file.path)
            version.finish(durable=durable)
        except BaseException:
            self.abandon()
            raise

    def commit(self) -> dict[str, dict[str, Any]]:
        file, version = self._file, self._version
        assert version is not None
        try:
            file.owner.check(file.path)
            is_durable = self._durable and not file.lazy
            # Before it shows: an interrupt may come after any step.
            file.behind, file.unsettled = True, file.unsettled or not is_durable
            version.commit(durable=is_durable)
            file.unsettled = not is_durable
            file.written, file.has_appended = file.written + version.position - version.start, True
            try:
                self._end()
            except OSError:
                if not self._durable:  # else all of it is on the disk
                    raise
        except BaseException:
            self.abandon()
            raise
        return self._plan.entries

    def abandon(self) -> None:
        # However far it came: this may be done again, and does nothing then.
        if self._raw.closed or not self._file.owner.is_here:
            self._file.change = None
            self._raw.close()
            return
        if self._version is not None and self._version.take_back():
            self._file.behind = False
        with suppress(OSError):  # of what is durable, or not wanted
            self._end()

    def _end(self) -> None:
        """Leave the file as it is now: it is still the one that was read, though touched."""
        with self._raw as raw:
            if self._version is not None and self._version.is_written:
                with suppress(OSError):
                    self._file.identity = identity_of(os.fstat(raw.fileno()))
            self._file.change = None

    def _check_unchanged(self) -> None:
        """Refuse to write into a file that is no longer the one that was read."""
        file, header = self._file, self._plan.frame.header_bytes()
        opened = identity_of(os.fstat(self._raw.fileno()))
        if file.identity is not None and (opened != file.identity or file_identity(file.path) != opened):
            raise changed_by_others(file.path)
        if self._raw.read(len(header)) != header:
            raise changed_by_others(file.path)
