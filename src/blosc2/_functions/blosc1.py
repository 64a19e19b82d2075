"""Converting chunks of Blosc 1, whose header has 16 bytes, to chunks of this format.

The bytes behind the header are the same in both, so only the header is rewritten, and block starts move by the 16 bytes
that it grows. With bitshuffle, Blosc 1 filters a block differently if its number of items is not a multiple of 8: such
chunks are refused.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from blosc2._frames import CHUNK_SIZES
from blosc2.exceptions import FormatError

HEADER: Final = 16
_ADDED: Final = 16
_SHUFFLE, _RAW, _BITSHUFFLE, _DELTA = 1, 2, 4, 8  # bits of the flags
_NEWEST_VERSION: Final = 5
# Format bits of the flags -> codec id. Number 2 was a codec that is in no library any more.
_CODECS: Final = {0: 0, 1: 1, 3: 4, 4: 5}


def has_old_header(chunk: bytes | memoryview) -> bool:
    """Whether 16 bytes or more start like a chunk of Blosc 1: the bits that mark a longer header are not both set."""
    return chunk[2] & 5 != 5 and 1 <= chunk[0] <= _NEWEST_VERSION


def with_new_header(chunk: bytes | memoryview) -> bytes:
    """A chunk of Blosc 1 as one of this format; what decodes it checks the rest.

    Raises
    ------
    FormatError
        Sizes that do not fit each other, or something that cannot be decoded.
    """
    _, codec_version, flags, typesize = chunk[:4]
    nbytes, blocksize, cbytes = CHUNK_SIZES.unpack_from(chunk)
    if not HEADER <= cbytes <= len(chunk) or nbytes < 0 or typesize == 0:
        raise FormatError(f"a chunk of Blosc 1 of {len(chunk)} bytes states {cbytes} bytes, {nbytes} uncompressed")
    if flags >> 5 not in _CODECS or flags & _DELTA:
        raise FormatError("a chunk of Blosc 1 with a codec or filter that this package does not have")
    filters = bytearray(6)
    starts = b""
    if flags & _RAW or nbytes == 0:
        flags |= _RAW
        payload = bytes(chunk[HEADER:cbytes])
    else:
        if flags & _BITSHUFFLE:
            if any(size // typesize % 8 for size in (blocksize, nbytes % max(blocksize, 1))):
                raise FormatError("a chunk of Blosc 1 with bitshuffle, whose items are not a multiple of 8")
            filters[5] = 2
        elif flags & _SHUFFLE:
            filters[5] = 1
        nblocks = -(-nbytes // blocksize) if blocksize > 0 else 0
        end = HEADER + 4 * nblocks
        if nblocks == 0 or end > cbytes:
            raise FormatError(f"a chunk of Blosc 1 of {cbytes} bytes cannot have {nblocks} blocks")
        moved = np.frombuffer(chunk, "<i4", nblocks, HEADER).astype(np.int64) + _ADDED
        if moved.min() < end + _ADDED or moved.max() >= cbytes + _ADDED:
            raise FormatError("a block of a chunk of Blosc 1 starts outside it")
        starts = moved.astype("<i4").tobytes()
        payload = bytes(chunk[end:cbytes])
    header = bytes((5, codec_version, flags | 5, typesize)) + struct.pack("<iii", nbytes, blocksize, cbytes + _ADDED)
    return header + filters + bytes((_CODECS[flags >> 5], 0)) + bytes(8) + starts + payload
