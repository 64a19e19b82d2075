"""Where the fields lie that Python reads from the headers of frames and chunks; FORMATS describes all of them."""

from __future__ import annotations

import os
import struct
from typing import Any, Final

from blosc2._options import FILTER_SLOTS, Encoding

#: Bytes of a frame's header before the metalayers, and of a chunk's header.
FRAME_HEADER: Final = 87
CHUNK_HEADER: Final = 32

#: The metalayer that fills a header up; frames that have it keep their chunks aligned (FORMATS 8.4).
PADDING: Final = "_pad"
#: The name of a metalayer that says why compression was chosen.
CHOICE: Final = "_why"

#: The file of a directory frame that is its header.
HEADER_FILE: Final = "chunks.b2frame"

# Fields of a frame's header, which are big-endian.
HEADER_SIZE_AT: Final = 11
FRAME_SIZE_AT: Final = 16
FLAGS_AT: Final = 25
FRAME_TYPE_AT: Final = 26
LEVEL_AT: Final = 27
SPLIT_MODE_AT: Final = 28
NBYTES_AT: Final = 30
CBYTES_AT: Final = 39
TYPESIZE_AT: Final = 48
BLOCKSIZE_AT: Final = 53
CHUNKSIZE_AT: Final = 58
HAS_VLMETA_AT: Final = 68
FILTERS_AT: Final = 71
CODEC_AT: Final = 77
CODEC_META_AT: Final = 78
FILTERS_META_AT: Final = 79
_TRUE: Final = 0xC3
_FALSE: Final = 0xC2

#: Uncompressed bytes, those of a block and compressed bytes of a chunk, at the start of its header.
CHUNK_SIZES: Final = struct.Struct("<4x3i")
CHUNK_TYPESIZE_AT: Final = 3
_CHUNK_FILTERS_AT: Final = 16
_CHUNK_CODEC_AT: Final = 22
_CHUNK_METAS_AT: Final = 24
_VL_BLOCKS_AT: Final = 30
_KIND_AT: Final = 31


def header_size(header: Any) -> int:
    """Bytes of a frame's header, with the metalayers."""
    return int.from_bytes(header[HEADER_SIZE_AT : HEADER_SIZE_AT + 4])


def frame_nbytes(header: Any) -> int:
    """Uncompressed bytes of a frame."""
    return int.from_bytes(header[NBYTES_AT : NBYTES_AT + 8], signed=True)


def frame_chunksize(header: Any) -> int:
    """Uncompressed bytes of a frame's chunks."""
    return int.from_bytes(header[CHUNKSIZE_AT : CHUNKSIZE_AT + 4], signed=True)


def set_frame_fields(header: bytearray, size: int, nbytes: int, cbytes: int, *, has_vlmeta: bool) -> None:
    """Change the fields of a header that differ between versions of a frame: sizes, and whether there is metadata.

    `nbytes` are the uncompressed bytes, `cbytes` those from the header to the offsets table.
    """
    struct.pack_into(">Q", header, FRAME_SIZE_AT, size)
    struct.pack_into(">q", header, NBYTES_AT, nbytes)
    struct.pack_into(">q", header, CBYTES_AT, cbytes)
    header[HAS_VLMETA_AT] = _TRUE if has_vlmeta else _FALSE


def chunk_encoding(chunk: Any) -> Encoding:
    """How a chunk was compressed, by its header. The header does not tell the level."""
    filters = tuple(chunk[_CHUNK_FILTERS_AT : _CHUNK_FILTERS_AT + FILTER_SLOTS])
    metas = tuple(chunk[_CHUNK_METAS_AT : _CHUNK_METAS_AT + FILTER_SLOTS])
    codec, codec_meta = chunk[_CHUNK_CODEC_AT], chunk[_CHUNK_CODEC_AT + 1]
    return Encoding(codec, codec_meta, 0, False, chunk[CHUNK_TYPESIZE_AT], 0, 0, filters, metas)


def has_vl_blocks(chunk: Any) -> bool:
    """Whether the blocks of a chunk differ in size."""
    return bool(chunk[_VL_BLOCKS_AT] & 1)


def special_kind(chunk: Any) -> int:
    """The kind of special value that a chunk stands for: 0 for none, 1 for zeros."""
    kind: int = chunk[_KIND_AT] >> 4 & 7
    return kind


def is_directory_frame(path: str) -> bool:
    """Whether a directory looks like a frame."""
    return os.path.isfile(os.path.join(path, HEADER_FILE))
