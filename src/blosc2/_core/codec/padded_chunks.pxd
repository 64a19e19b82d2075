"""Chunks for codecs that work on the blocks of arrays."""

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec.chunk cimport Chunk

cdef enum:
    # Bytes from which the C library gives fresh pages, which are zeros already.
    LARGE = 8 << 20


cdef inline uint8_t *padded_copy(const Chunk *chunk) noexcept nogil:
    """A loaded chunk with zeros behind it; NULL when there is no memory.

    Codecs that work on array blocks do not stop at the end of damaged input: what lies behind it must be ours, and
    always the same.
    """
    cdef size_t behind = 2 * <size_t> chunk.blocksize + 4096
    cdef size_t size = <size_t> chunk.cbytes + behind
    cdef uint8_t *padded
    if size > LARGE:
        padded = <uint8_t *> calloc(1, size)    # pages that nobody touches take no memory
    else:
        padded = <uint8_t *> malloc(size)
        if padded != NULL:
            memset(padded + chunk.cbytes, 0, behind)
    if padded != NULL:
        memcpy(padded, chunk.data, <size_t> chunk.cbytes)
    return padded
