# cython: cdivision=True, boundscheck=False, wraparound=False
"""Blocks that are one byte throughout, recognised without decoding them.

A stream of zeros, or of another byte, takes 4 or 5 bytes however long it is (FORMATS 2.3). So a few hundred bytes can
claim 2 GiB: they are not decoded to find out that they are sound.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from blosc2._core.codec.chunk cimport (
    BAD_STREAM, CHUNK_OK, KIND_REGULAR, Chunk, block_bytes, block_span, filter_keeps_run)
from blosc2._core.codec.codec cimport DecodeContext, reserve_scratch
from blosc2._core.io.little_endian cimport i32

cdef enum:
    LARGE_BLOCK = 1 << 20   # whose runs are looked for before it is decoded; smaller ones are decoded as soon
    NOT_SPLIT = 0x10        # of the flags of a chunk


cdef inline int extent(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop, int *byte) noexcept nogil:
    """Where a loaded block lies, by its streams; and which one byte these stand for, or -1."""
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t streams = 1
    cdef int32_t i, size, position, end = 0
    cdef int value
    cdef int status = block_span(chunk, block, start, &end)
    if status:
        return status
    if chunk.split and nbytes == chunk.blocksize and nbytes % chunk.typesize == 0:
        streams = chunk.typesize
    position = start[0]
    byte[0] = -1
    for i in range(streams):
        if position > end - 4:
            return BAD_STREAM
        size = i32(chunk.data + position)
        position += 4
        value = -1
        if size == 0:
            value = 0
        elif size < 0:
            if position >= end:
                return BAD_STREAM
            if size >= -255 and chunk.data[position] & 1:
                value = -size
            size = 1
        if size > end - position:
            return BAD_STREAM
        position += size
        byte[0] = value if i == 0 or value == byte[0] else -1
    stop[0] = position
    if byte[0] >= 0 and not _stays(chunk, byte[0]):
        byte[0] = -1
    return CHUNK_OK


cdef inline bint _stays(const Chunk *chunk, int byte) noexcept nogil:
    """Whether filters make of one byte throughout the same byte throughout."""
    cdef int i
    for i in range(6):
        if not filter_keeps_run(chunk.data[16 + i], chunk.data[24 + i], byte):
            return False
    return not chunk.needs_geometry


cdef inline bint is_run(const Chunk *chunk, int32_t block, uint8_t *byte) noexcept nogil:
    """Whether a loaded block of a chunk whose blocks stand alone is one byte throughout."""
    cdef int32_t start = 0, stop = 0
    cdef int value = -1
    if chunk.kind != KIND_REGULAR or extent(chunk, block, &start, &stop, &value) or value < 0:
        return False
    byte[0] = <uint8_t> value
    return True


cdef inline uint8_t *run_of(DecodeContext *context, uint8_t byte, int64_t size) noexcept nogil:
    """Scratch of one byte throughout; NULL when there is no memory."""
    cdef uint8_t *room
    if byte == 0:
        # Fresh zeros of the system are no memory before somebody writes to them.
        free(context.scratch)
        context.scratch = <uint8_t *> calloc(<size_t> size, 1)
        context.scratch_size = size if context.scratch != NULL else 0
        return context.scratch
    room = reserve_scratch(context, size)
    if room != NULL:
        memset(room, byte, <size_t> size)
    return room
