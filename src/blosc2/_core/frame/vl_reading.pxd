# cython: cdivision=True, boundscheck=False, wraparound=False
"""Finding the blocks of a chunk whose blocks have lengths of their own."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from blosc2._core.codec.chunk cimport BAD_LENGTH, BAD_STARTS, CHUNK_HEADER, CHUNK_OK, Chunk
from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.codec.vl_blocks cimport dictionary_size
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.little_endian cimport i32


cdef inline int open_vl(Frame frame, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Open a chunk of blocks of variable length, and bring its table of starts."""
    cdef int64_t table
    cdef int status = frame.open_chunk(index, context, chunk)
    if status:
        return status
    if not chunk.variable or chunk.needs_geometry or chunk.data == NULL:
        return BAD_LENGTH
    table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    if chunk.loaded < table:
        status = frame.load_span(index, chunk, chunk.loaded, table)
        if status == CHUNK_OK:
            chunk.loaded = table
    return status


cdef inline int locate_vl(Frame frame, int64_t index, Chunk *chunk, int32_t block, int32_t *start, int32_t *stop,
                          int32_t *size, int64_t *dictionary) noexcept nogil:
    """Bring one block of variable length, and the dictionary; say where they lie. What is read is checked."""
    cdef const uint8_t *starts = chunk.data + CHUNK_HEADER + 4 * <int64_t> block
    cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t lowest
    cdef int32_t first = i32(starts)
    cdef int32_t end = chunk.cbytes
    cdef int status
    if block + 1 < chunk.nblocks:
        end = i32(starts + 4)
    if chunk.dictionary:
        status = frame.load_span(index, chunk, table, min(table + 4, <int64_t> chunk.cbytes))
        if status:
            return status
    dictionary[0] = dictionary_size(chunk)
    if dictionary[0] < 0:
        return <int> dictionary[0]
    lowest = table + dictionary[0]
    if first < lowest or end > chunk.cbytes or end - 4 < first:
        return BAD_STARTS
    status = frame.load_span(index, chunk, table, lowest)
    if status == CHUNK_OK:
        status = frame.load_span(index, chunk, first, end)
    if status:
        return status
    size[0] = i32(chunk.data + first)
    if size[0] < 0 or size[0] > chunk.nbytes:
        return BAD_STARTS
    start[0] = first
    stop[0] = end
    return CHUNK_OK


cdef inline list vl_parts(bytes stored, bytes data):
    """The uncompressed blocks of a chunk that was decoded, which checked its table of starts."""
    cdef int32_t start, size, i
    cdef Py_ssize_t at = 0
    cdef list blocks = []
    for i in range(int.from_bytes(stored[8:12], "little")):
        start = int.from_bytes(stored[CHUNK_HEADER + 4 * i:CHUNK_HEADER + 4 * i + 4], "little")
        size = int.from_bytes(stored[start:start + 4], "little")
        blocks.append(data[at:at + size])
        at += size
    return blocks
