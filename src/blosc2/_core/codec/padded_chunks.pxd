"""Chunks for codecs that work on the blocks of arrays."""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec cimport cblosc2 as c
from blosc2._core.codec.chunk cimport BAD_LENGTH, CHUNK_OK, KIND_REGULAR, NO_MEMORY, Chunk
from blosc2._core.codec.chunk_checks cimport check_starts, inspect

cdef extern from "codec/library_memory.h" nogil:
    void enter_library()
    int leave_library(int status)
    void leave_reserve()

cdef enum:
    # Bytes from which the C library gives fresh pages, which are zeros already.
    LARGE = 8 << 20


cdef inline int padded_copy(const Chunk *chunk, uint8_t **copy) noexcept nogil:
    """Make a copy of a loaded chunk with zeros behind it; a status. It is what the chunk was, whatever a file shows by now.

    Codecs that work on array blocks do not stop at the end of damaged input: what lies behind it must be ours, and
    always the same.
    """
    cdef size_t behind = 2 * <size_t> chunk.blocksize + 4096
    cdef size_t size = <size_t> chunk.cbytes + behind
    cdef uint8_t *padded
    cdef Chunk own
    cdef int status
    if size > LARGE:
        padded = <uint8_t *> calloc(1, size)    # pages that nobody touches take no memory
    else:
        padded = <uint8_t *> malloc(size)
        if padded != NULL:
            memset(padded + chunk.cbytes, 0, behind)
    if padded == NULL:
        return NO_MEMORY
    memcpy(padded, chunk.data, <size_t> chunk.cbytes)
    status = inspect(padded, chunk.cbytes, &own)
    if status == CHUNK_OK and (own.kind != chunk.kind or own.variable != chunk.variable or own.cbytes != chunk.cbytes
                               or own.nbytes != chunk.nbytes or own.blocksize != chunk.blocksize):
        status = BAD_LENGTH
    if status == CHUNK_OK and own.kind == KIND_REGULAR:
        status = check_starts(&own)
    if status:
        free(padded)
    else:
        copy[0] = padded
    return status


cdef inline void *new_schunk(c.blosc2_cparams *cparams, bytes geometry, int32_t chunksize) except NULL:
    """The C library's super-chunk that tells such codecs about the array."""
    cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
    cdef c.blosc2_storage storage = c.blosc2_get_blosc2_storage_defaults()
    cdef c.blosc2_schunk *schunk
    cdef int status = 0
    dparams.nthreads = 1
    storage.cparams = cparams
    storage.dparams = &dparams
    enter_library()
    schunk = c.blosc2_schunk_new(&storage)
    if schunk != NULL:
        schunk.chunksize = chunksize
        status = c.blosc2_meta_add(schunk, b"b2nd", geometry, <int32_t> len(geometry))
    status = leave_library(status)
    if schunk != NULL and status >= 0:
        return schunk
    if schunk != NULL:
        c.blosc2_schunk_free(schunk)
    leave_reserve()
    if status == NO_MEMORY:
        raise MemoryError
    raise ValueError("the C library does not take these compression parameters, or this array geometry")
