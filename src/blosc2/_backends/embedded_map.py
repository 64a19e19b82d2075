"""The frame of embedded values: a `.b2e` file, and `embed.b2e` inside the other stores.

Its uncompressed bytes are the frames of the values, end to end, and one metadata entry says where each begins. Values
are compressed already, so this frame is written without compression, in chunks that no value of common size crosses. A
value is then a byte range of the file, opened like any other leaf. Frames of other programs may be compressed; there a
value is decoded first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from blosc2 import _frames
from blosc2._backends.key_rules import all_safe, is_safe
from blosc2._backends.layout import AN_ARCHIVE, FRAME_MAGIC, ByteRange, is_archive, open_source
from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._core.io.source import Source
from blosc2._files import Retry, file_identity
from blosc2._frames import unpack
from blosc2.exceptions import FormatError, UnsupportedKindError

#: Metalayers that mark such a frame, and the kind of store that each stands for.
STORE_KINDS: Final = ("b2embed", "b2dict", "b2tree")
MAP: Final = "estore_metadata"
REGISTRY: Final = "_object_registry"

# The map of most archives.
_NO_VALUES: Final = b"\x82\xa9embed_map\x80\xaecurrent_offset\x00"
# A value that crosses chunks is read in place if it is longer than this, and copied otherwise.
_LONG: Final = 1 << 20


class Embedded:
    """What one frame of embedded values holds.

    Who wrote it gives the `entries` of its map; otherwise the map is read. With `verify` None, what is read as a whole
    is checked where the frame carries checksums; small values with the chunk around them.
    """

    def __init__(
        self, byte_range: ByteRange, entries: dict[str, dict[str, Any]] | None = None, *, verify: bool | None = None
    ) -> None:
        source, offset, length = byte_range
        self._source = source
        self.verify = verify
        self.frame = Frame.open(source, offset, length)
        if verify is None:
            self.frame.check_wholes()
        #: The metalayer that marks it, one of `STORE_KINDS`.
        self.kind = next(filter(self.frame.metalayer, STORE_KINDS), None)
        #: The entry of each key, as stored, in order of insertion.
        self.entries: dict[str, dict[str, Any]] = {} if entries is None else entries
        if self.kind is None:
            raise self._error("not a store: its frame bears none of the metalayers b2embed, b2dict and b2tree")
        if entries is None:
            packed = self.frame.vlmeta(MAP)
            if packed != _NO_VALUES:
                self._read_map(packed)

    def _read_map(self, packed: bytes | None) -> None:
        source = self._source
        if packed is None:
            raise self._error(f"the metadata entry {MAP} is missing, so there is no map of values")
        content = unpack(packed, location=f"{source.path}: {MAP}", file_size=source.size)
        entries = content.get("embed_map") if isinstance(content, dict) else None
        if not isinstance(entries, dict):
            raise self._error(f"the metadata entry {MAP} holds no map of values")
        if entries and not all_safe(entries):
            wrong = [key for key in entries if not is_safe(key)]
            raise self._error(f"the key {wrong[0]!r} of an embedded value is not one that a store can have")
        if set(map(type, entries.values())) - {dict}:
            raise self._error("the entry of an embedded value is not a map")
        self.entries = entries

    def _error(self, reason: str, key: str | None = None) -> FormatError:
        return FormatError(reason, path=self._source.path, key=key, offset=self.frame.offset)

    def locate(self, key: str) -> ByteRange | None:
        """Where the frame of a value lies: in the file, or in memory if it had to be decoded."""
        entry = item_of(self.entries, key)
        if entry is None:
            return None
        if "urlbase" in entry:
            raise UnsupportedKindError(
                f"the entry refers to {entry['urlbase']!r}, a server; remote values cannot be read",
                path=self._source.path,
                key=key,
            )
        offset, length = item_of(entry, "offset"), item_of(entry, "length")
        if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
            raise self._error(f"offset {offset!r} and length {length!r} must be integers that are not negative", key)
        frame = self.frame
        if offset > frame.nbytes or length > frame.nbytes - offset:
            raise self._error(f"the value would end at {offset} + {length}, of {frame.nbytes} bytes", key)
        start = frame.byte_range_of(offset, length, True)
        if start is not None:
            return self._source, start, length
        if length < len(FRAME_MAGIC) or frame.read_bytes(offset, offset + len(FRAME_MAGIC)) != FRAME_MAGIC:
            raise self._error("no frame begins where the value should", key)
        return self._decoded(key, offset, length)

    def stored_bytes(self, key: str) -> int:
        """The bytes of a value, as its entry says; 0 if it says nothing."""
        entry = item_of(self.entries, key)
        length = None if entry is None else item_of(entry, "length")
        return length if type(length) is int else 0

    def stored_range(self, key: str) -> ByteRange | None:
        """Where a value is stored, for advice: nothing of it is read. All of the frame if it cannot be told."""
        entry = item_of(self.entries, key)
        if entry is None:
            return None
        offset, length = item_of(entry, "offset"), item_of(entry, "length")
        frame = self.frame
        if type(offset) is int and type(length) is int and 0 <= offset <= offset + length <= frame.nbytes:
            start = frame.byte_range_of(offset, length)
            if start is not None:
                return self._source, start, length
        return self._source, frame.offset, frame.frame_len

    def kept(self, key: str) -> ByteRange | None:
        """The bytes of a value that is to be copied, whatever they are; None for an entry without any.

        Such an entry refers to a server or outside of the frame, and can only be copied itself.
        """
        entry = self.entries[key]
        offset, length = item_of(entry, "offset"), item_of(entry, "length")
        frame = self.frame
        if "urlbase" in entry or type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
            return None
        if offset > frame.nbytes or length > frame.nbytes - offset:
            return None
        start = frame.byte_range_of(offset, length)
        return self._decoded(key, offset, length) if start is None else (self._source, start, length)

    def _decoded(self, key: str, offset: int, length: int) -> ByteRange:
        """A value that is not one byte range: in memory or, if it is long, joined from its chunks."""
        frame = self.frame
        joined = joined_value(frame, offset, length)
        if joined is not None:
            return joined, 0, length
        if length > allowed(self._source.size):
            raise self._error(too_much(length, "the value", allowed(self._source.size)), key)
        return Source.of_buffer(frame.read_bytes(offset, offset + length), self._source.path), 0, length

    def registry(self) -> dict[str, Any]:
        """Objects of other kinds, by key: what the store says about each."""
        packed = self.frame.vlmeta(REGISTRY)
        if packed is None:
            return {}
        content = unpack(packed, location=f"{self._source.path}: {REGISTRY}", file_size=self._source.size)
        if not isinstance(content, dict) or not all(is_safe(key) for key in content):
            raise self._error(f"the metadata entry {REGISTRY} is not a map of keys")
        return content


def chunks_of_value(frame: Frame, offset: int, length: int) -> range:
    """The numbers of the chunks that hold the bytes of a value."""
    last = offset + max(length, 1) - 1
    if frame.variable:
        ends = np.cumsum(np.frombuffer(frame.chunk_sizes(), np.int64))
        return range(int(np.searchsorted(ends, offset, "right")), int(np.searchsorted(ends, last, "right")) + 1)
    return range(offset // frame.chunksize, last // frame.chunksize + 1)


def joined_value(frame: Frame, offset: int, length: int) -> Source | None:
    """A long value, joined from its chunks; None if these are compressed, or it is not long."""
    if length <= _LONG or frame.variable:
        return None
    parts = []
    stop = offset + length
    while offset < stop:
        size = min(frame.chunksize - offset % frame.chunksize, stop - offset)
        start = frame.byte_range_of(offset, size)
        if start is None:
            return None
        parts.append((frame.source, start, size))
        offset += size
    return Source.joined(parts, frame.source.path, False)


def open_embedded(path: str, mmap_mode: str | None, old: Source | None = None, advice: str | None = None, *,
                  verify: bool | None = None) -> Embedded:  # fmt: skip
    """Open a file of embedded values, which a writer may be changing just now.

    For `old` see `open_source`; `advice` is given before anything is read; `verify` is that of `Embedded`.
    """

    def byte_range() -> ByteRange:
        source = open_source(path, mmap_mode, old)
        if advice is not None:
            source.advise(advice)
        if source.size == 0:
            raise FormatError("the file is empty, so it is no store", path=path)
        return source, 0, -1

    try:
        return read_embedded(byte_range, verify)
    except FormatError as error:
        if error.offset == 0 and is_archive(open_source(path, None)):
            raise FormatError(AN_ARCHIVE, path=path, offset=0) from None
        raise


def read_embedded(open_byte_range: Callable[[], ByteRange], verify: bool | None = None) -> Embedded:
    """Read a frame of embedded values, which a writer may be changing just now."""
    retry = Retry()
    while True:
        byte_range = open_byte_range()
        try:
            return Embedded(byte_range, verify=verify)
        except FormatError:
            # The header was read while being written, or covers bytes that came after the file was opened.
            path = byte_range[0].path
            if not retry.again(None if path is None else file_identity(path)):
                raise


def verify_value(embedded: Embedded | None, key: str, frame: Frame) -> None:
    """Check a leaf as far as possible without its chunks, and let reads check these.

    Raises `FormatError` where a checksum says that something is not as it was written.
    """
    _frames.check_reads(frame)
    if embedded is None or key not in embedded.entries:
        return
    if embedded.frame.checks_chunks or _frames.check_reads(embedded.frame):
        embedded.locate(key)  # which checks the chunks that hold the value
