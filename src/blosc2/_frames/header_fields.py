"""Where the fields lie that Python reads from the headers of frames and chunks; FORMATS describes all of them."""

from __future__ import annotations

import struct
from typing import Any, Final

#: Bytes of a frame's header before the metalayers, and of a chunk's header.
FRAME_HEADER: Final = 87
CHUNK_HEADER: Final = 32

# Fields of a frame's header, which are big-endian.
HEADER_SIZE_AT: Final = 11
FRAME_SIZE_AT: Final = 16
FRAME_TYPE_AT: Final = 26
NBYTES_AT: Final = 30
CBYTES_AT: Final = 39
CHUNKSIZE_AT: Final = 58

#: Uncompressed bytes, those of a block and compressed bytes of a chunk, at the start of its header.
CHUNK_SIZES: Final = struct.Struct("<4x3i")
_KIND_AT: Final = 31


def header_size(header: Any) -> int:
    """Bytes of a frame's header, with the metalayers."""
    return int.from_bytes(header[HEADER_SIZE_AT : HEADER_SIZE_AT + 4])


def frame_size(header: Any) -> int:
    """Bytes of a frame."""
    return int.from_bytes(header[FRAME_SIZE_AT : FRAME_SIZE_AT + 8])


def frame_nbytes(header: Any) -> int:
    """Uncompressed bytes of a frame."""
    return int.from_bytes(header[NBYTES_AT : NBYTES_AT + 8], signed=True)


def frame_chunksize(header: Any) -> int:
    """Uncompressed bytes of a frame's chunks."""
    return int.from_bytes(header[CHUNKSIZE_AT : CHUNKSIZE_AT + 4], signed=True)


def special_kind(chunk: Any) -> int:
    """Which special value a chunk stands for: 1 for zeros; 0 for none."""
    kind: int = chunk[_KIND_AT] >> 4 & 7
    return kind
