"""The frame of embedded values: a `.b2e` file, and `embed.b2e` inside the other stores.

Its uncompressed bytes are the frames of the values, end to end, and one metadata entry says where each begins. Values
are compressed already, so this frame is written without compression, in chunks that no value of common size crosses:
a value is then a window of the file, opened like any other leaf. Frames written by others may be compressed; there a
value is decoded first.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from blosc2._core.codec import Encoder, Encoding
from blosc2._core.frame import Frame
from blosc2._core.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.source import Source
from blosc2.alignment import ALIGNMENT, with_padding
from blosc2.exceptions import FormatError, UnsupportedKindError
from blosc2.serialization import pack, unpack
from blosc2.store_keys import all_safe, is_safe
from blosc2.store_layout import FRAME_MAGIC, Window, whole

#: Metalayers that mark such a frame, and the kind of store that each stands for.
KINDS: Final = ("b2embed", "b2dict", "b2tree")
MAP: Final = "estore_metadata"
REGISTRY: Final = "_object_registry"

# Small frames get one chunk. In larger ones the end of a chunk stays unused where the next value does not fit: with
# chunks of several times the largest value that is a fraction of the whole.
_ONE_CHUNK = 1 << 20
_LARGEST_CHUNK = 64 << 20
_CHUNK_TO_VALUE = 4
# A compressed frame may claim values far larger than itself; beyond both limits this is no longer believed.
_FREE_EXPANSION = 64 << 20
_EXPANSION = 1024

_NO_FILTERS = (0, 0, 0, 0, 0, 0)
_RAW_MAP = 4096


class Embedded:
    """What one frame of embedded values holds.

    Parameters
    ----------
    window : tuple
        Where the frame lies.

    Attributes
    ----------
    kind : str or None
        The metalayer that marks it, one of `KINDS`.
    entries : dict
        The entry of each key, as stored, in order of insertion.
    """

    def __init__(self, window: Window) -> None:
        source, offset, length = window
        self._source = source
        self.frame = Frame.open(source, offset, length)
        self.kind = kind_of(self.frame)
        self.entries: dict[str, dict[str, Any]] = {}
        if self.kind is None:
            raise self._error("not a store: its frame bears none of the metalayers b2embed, b2dict and b2tree")
        packed = self.frame.vlmeta(MAP)
        if packed is None:
            raise self._error(f"the metadata entry {MAP} is missing, so there is no map of values")
        content = unpack(packed, location=f"{source.path}: {MAP}")
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

    def locate(self, key: str) -> Window | None:
        """Where the frame of a value lies: in the file, or in memory if it had to be decoded."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if "urlbase" in entry:
            raise UnsupportedKindError(
                f"the entry refers to {entry.get('urlbase')!r}, a server; remote values cannot be read",
                path=self._source.path,
                key=key,
            )
        offset, length = entry.get("offset"), entry.get("length")
        if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
            raise self._error(f"offset {offset!r} and length {length!r} must be integers that are not negative", key)
        frame = self.frame
        if offset > frame.nbytes or length > frame.nbytes - offset:
            raise self._error(f"the value would end at {offset} + {length}, of {frame.nbytes} bytes", key)
        start = frame.window_of(offset, length)
        if start is not None:
            return self._source, start, length
        if length < len(FRAME_MAGIC) or frame.read_bytes(offset, offset + len(FRAME_MAGIC)) != FRAME_MAGIC:
            raise self._error("no frame begins where the value should", key)
        return self._decoded(key, offset, length)

    def kept(self, key: str) -> Window | None:
        """The bytes of a value that is to be copied, whatever they are; None for an entry without any.

        Such an entry refers to a server or outside of the frame, and can only be copied itself.
        """
        entry = self.entries[key]
        offset, length = entry.get("offset"), entry.get("length")
        frame = self.frame
        if "urlbase" in entry or type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
            return None
        if offset > frame.nbytes or length > frame.nbytes - offset:
            return None
        start = frame.window_of(offset, length)
        return self._decoded(key, offset, length) if start is None else (self._source, start, length)

    def _decoded(self, key: str, offset: int, length: int) -> Window:
        """A value of a compressed frame, in memory."""
        frame = self.frame
        if length > _FREE_EXPANSION and length > _EXPANSION * frame.cbytes:
            raise self._error(f"a value of {length} bytes in a frame of {frame.cbytes} is not believed", key)
        return Source.of_buffer(frame.read_bytes(offset, offset + length), self._source.path), 0, length

    def registry(self) -> dict[str, Any]:
        """Objects of other kinds, by key: what the store says about each."""
        packed = self.frame.vlmeta(REGISTRY)
        if packed is None:
            return {}
        content = unpack(packed, location=f"{self._source.path}: {REGISTRY}")
        if not isinstance(content, dict) or not all(is_safe(key) for key in content):
            raise self._error(f"the metadata entry {REGISTRY} is not a map of keys")
        return content

    def other_metadata(self) -> dict[str, bytes]:
        """Stored metadata entries besides the map, to be kept as they are."""
        chunks: dict[str, bytes] = self.frame.vlmeta_chunks()
        return {name: chunk for name, chunk in chunks.items() if name != MAP}


def check_same_file(path: str, identity: tuple[int, ...] | None) -> None:
    """Refuse to replace a file that is not the one that was read."""
    if identity is not None and file_identity(path) != identity:
        raise OSError(errno.EBUSY, "the file was changed by somebody else since it was opened; open it again", path)


def file_identity(path: str) -> tuple[int, ...] | None:
    """Device, inode, size and time of a file, as sources have them; None where there is none."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def kind_of(frame: Frame) -> str | None:
    """The metalayer that marks a frame of embedded values."""
    return next((kind for kind in KINDS if frame.metalayer(kind) is not None), None)


def compose(
    kind: str,
    values: Mapping[str, Window],
    *,
    remote: Mapping[str, dict[str, Any]] | None = None,
    metadata: Mapping[str, bytes] | None = None,
    meta: Mapping[str, bytes] | None = None,
    chunksize: int = 8192,
) -> bytes:
    """A new frame of embedded values.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    values : mapping
        Where the frame of each value lies now.
    remote : mapping, optional
        Entries that refer to something outside, to be kept.
    metadata : mapping, optional
        Stored chunks of further metadata entries.
    meta : mapping, optional
        Packed content of further metalayers.
    chunksize : int
        The least size of a chunk.
    """
    chunksize, places = _arrange({key: window[2] for key, window in values.items()}, chunksize)
    nbytes = max((offset + values[key][2] for key, offset in places.items()), default=0)
    entries: dict[str, Any] = {key: {"offset": offset, "length": values[key][2]} for key, offset in places.items()}
    entries.update(remote or {})
    vlmeta = {MAP: stored_value({"embed_map": entries, "current_offset": nbytes}), **(metadata or {})}
    metalayers = with_padding({kind: pack({"version": 1}), **(meta or {})})

    raw = bytearray(nbytes)
    for key, offset in places.items():
        raw[offset : offset + values[key][2]] = whole(values[key])
    body, offsets = _chunks(raw, chunksize)
    index = pack_index(np.array(offsets, dtype="<i8"), len(offsets)) if offsets else b""
    trailer = pack_trailer(vlmeta)
    encoding = Encoding(5, 0, 0, False, 1, 0, 3, (0, 0, 0, 0, 0, 1), _NO_FILTERS)
    frame = Frame.assemble(
        Source.of_buffer(bytes(body)),
        np.array(offsets, dtype=np.int64),
        len(offsets),
        nbytes,
        chunksize,
        encoding,
        metalayers,
        vlmeta,
    )
    total = header_length(metalayers) + len(body) + len(index) + len(trailer)
    header = pack_header(frame, metalayers, True, total, nbytes, len(body))
    return b"".join((header, body, index, trailer))


def stored_value(value: Any) -> bytes:
    """A metadata value as it is stored: packed, and in a chunk."""
    packed = pack(value)
    level = 0 if len(packed) <= _RAW_MAP else 5
    chunk: bytes = Encoder(Encoding(5, 0, level, False, 1, 0, 3, (0, 0, 0, 0, 0, 1), _NO_FILTERS)).encode_bytes(packed)
    return chunk


def _arrange(lengths: Mapping[str, int], least: int) -> tuple[int, dict[str, int]]:
    """A size of chunks, and where each value begins so that none crosses a chunk which fits into one."""
    total = sum(_aligned(length) for length in lengths.values())
    largest = max(lengths.values(), default=0)
    size = total if total <= _ONE_CHUNK else _CHUNK_TO_VALUE * largest
    size = _aligned(max(least, min(size, _LARGEST_CHUNK), min(total, _ONE_CHUNK)))
    places = {}
    position = 0
    for key, length in lengths.items():
        room = size - position % size
        if length > room:
            position += room % size
        places[key] = position
        position += _aligned(length)
    return size, places


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def _chunks(raw: bytearray, chunksize: int) -> tuple[bytearray, list[int]]:
    """Stored chunks of uncompressed bytes, with holes that align each payload, and their offsets."""
    body = bytearray()
    offsets = []
    for start in range(0, len(raw), chunksize):
        part = raw[start : start + chunksize]
        # Offsets count from the header's end, which lies 32 bytes before a multiple of the alignment.
        body += bytes(-len(body) % ALIGNMENT)
        offsets.append(len(body))
        encoding = Encoding(5, 0, 0, False, 1, len(part), 3, (0, 0, 0, 0, 0, 1), _NO_FILTERS)
        body += Encoder(encoding).encode_bytes(part)
    return body, offsets
