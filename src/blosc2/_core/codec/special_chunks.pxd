# cython: cdivision=True, boundscheck=False, wraparound=False
"""Chunks that are zeros, NaN or one value throughout: nothing of them is decoded."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from blosc2._core.codec.chunk cimport BAD_TYPESIZE, CHUNK_HEADER, CHUNK_OK, KIND_NAN, KIND_UNINIT, KIND_ZERO, Chunk


cdef inline int fill(const Chunk *chunk, int64_t start, uint8_t *destination, int64_t nbytes) noexcept nogil:
    """Write bytes ``start .. start + nbytes`` of a special chunk."""
    cdef const uint8_t *item
    cdef uint32_t nan4 = 0x7FC00000
    cdef uint64_t nan8 = 0x7FF8000000000000ULL
    cdef int64_t size, done, i
    if chunk.kind == KIND_ZERO or chunk.kind == KIND_UNINIT:
        memset(destination, 0, <size_t> nbytes)
        return CHUNK_OK
    if chunk.kind == KIND_NAN:
        if chunk.typesize == 4:
            item = <const uint8_t *> &nan4
        elif chunk.typesize == 8:
            item = <const uint8_t *> &nan8
        else:
            return BAD_TYPESIZE
        size = chunk.typesize
    else:
        item = chunk.data + CHUNK_HEADER
        size = chunk.cbytes - CHUNK_HEADER
    done = size if size < nbytes else nbytes
    for i in range(done):
        destination[i] = item[(start + i) % size]
    while done < nbytes:  # double what is there
        size = done if done <= nbytes - done else nbytes - done
        memcpy(destination + done, destination, <size_t> size)
        done += size
    return CHUNK_OK
