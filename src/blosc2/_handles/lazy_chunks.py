"""Chunks without their data, as in the C library: with one, a program can read single blocks from the file."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from blosc2._core.allocation import allowed, too_much
from blosc2._handles.handle import FrameHandle
from blosc2.exceptions import FormatError
from blosc2.storage import EXTENDED_HEADER_LENGTH

# The last byte of a header, and the bit that says that data are missing.
_BLOSC2_FLAGS: Final = 31
_LAZY: Final = 8
# Bytes of memory that it takes to put each block in order.
_FOR_BLOCK: Final = 48


def lazy_chunk(handle: FrameHandle, nchunk: int) -> bytes:
    """The header of a chunk; of one that has data in a file, also where its blocks are."""
    frame = handle.frame
    at, nbytes, cbytes, special, raw, blocksize = frame.chunk_info(nchunk)
    if at is None or special:
        return bytes(frame.chunk(nchunk))
    source = frame.source
    header = source.read(at, EXTENDED_HEADER_LENGTH)
    if source.identity is None or frame.vlblocks or not nbytes:
        return header
    # Of a chunk that is stored as it is, a block size says nothing.
    blocks = -(-nbytes // blocksize) if blocksize > 0 else 1
    held = min(4 * blocks, cbytes - EXTENDED_HEADER_LENGTH)
    if held < 4 * blocks and not raw:
        raise FormatError(f"chunk {nchunk} has {blocks} blocks in {cbytes} bytes", path=source.path, offset=at)
    if _FOR_BLOCK * blocks > allowed(source.size):
        what = f"where the {blocks} blocks of chunk {nchunk} are"
        raise FormatError(too_much(_FOR_BLOCK * blocks, what, allowed(source.size)), path=source.path, offset=at)
    starts = source.read(at + EXTENDED_HEADER_LENGTH, held).ljust(4 * blocks, b"\0")
    if raw:  # these are items, and blocks follow each other
        lengths = np.full(blocks, blocksize if blocksize > 0 else nbytes, "<i4")
        lengths[-1] = nbytes - (blocks - 1) * blocksize
    else:
        begins = np.frombuffer(starts, "<i4").astype(np.int64)
        # Blocks need not lie in their order: each ends where the next one begins in the chunk.
        order = np.argsort(begins, kind="stable")
        lengths = np.empty(blocks, "<i4")
        lengths[order] = np.append(begins[order][1:], cbytes) - begins[order]
    flags = bytes([header[_BLOSC2_FLAGS] | _LAZY])
    return header[:_BLOSC2_FLAGS] + flags + starts + struct.pack("<iq", nchunk, at - frame.offset) + lengths.tobytes()
