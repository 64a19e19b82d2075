# cython: cdivision=True, boundscheck=False, wraparound=False
"""Chunks whose blocks have lengths of their own."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from blosc2._core.codec.chunk cimport BAD_STARTS, CHUNK_HEADER, Chunk
from blosc2._core.codec.chunk_checks cimport inspect
from blosc2._core.io.little_endian cimport i32, put32

cdef enum:
    ALONE = 36          # bytes before the dictionary and the one block of a chunk


cdef inline int64_t dictionary_size(const Chunk *chunk) noexcept nogil:
    """Bytes of the dictionary of a chunk, with those that tell its size; 0 without one, or a negative status."""
    cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t size
    if not chunk.dictionary:
        return 0
    if table + 4 > chunk.cbytes:
        return BAD_STARTS
    size = i32(chunk.data + table)
    return 4 + size if 0 <= size <= chunk.cbytes - table - 4 else <int64_t> BAD_STARTS


cdef inline int copy_block(const Chunk *chunk, int64_t dictionary, int32_t start, int32_t stop, int32_t nbytes,
                           uint8_t *to, Chunk *own) noexcept nogil:
    """Make a chunk of its own of one block of variable length, whose bytes and size in memory these are.

    The library then sees nothing else of the file, and nothing that may change meanwhile. There must be room for
    ``ALONE + dictionary + stop - start`` bytes.
    """
    cdef int64_t at = CHUNK_HEADER + 4
    cdef int64_t size = at + dictionary + stop - start
    memcpy(to, chunk.data, CHUNK_HEADER)
    if dictionary:
        memcpy(to + at, chunk.data + CHUNK_HEADER + 4 * <int64_t> chunk.nblocks, <size_t> dictionary)
        put32(to + at, <int32_t> (dictionary - 4))
        at += dictionary
    memcpy(to + at, chunk.data + start, <size_t> (stop - start))
    put32(to + 4, nbytes)
    put32(to + 8, 1)
    put32(to + 12, <int32_t> size)
    put32(to + CHUNK_HEADER, <int32_t> at)
    put32(to + at, nbytes)
    return inspect(to, size, own)
