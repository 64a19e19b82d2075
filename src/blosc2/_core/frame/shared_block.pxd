# cython: cdivision=True, boundscheck=False, wraparound=False
"""Blocks through the block cache of the process."""

from libc.stdint cimport int32_t, int64_t

from blosc2._core.codec.block_runs cimport LARGE_BLOCK
from blosc2._core.codec.chunk cimport CHUNK_OK, KIND_REGULAR, Chunk
from blosc2._core.codec.codec cimport DecodeContext, decode_block
from blosc2._core.codec.shared_blocks cimport (
    SharedBlock, cache_is_on, is_block, leave_block, new_block, put_block, take_block)
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.io.steps cimport state_get


cdef inline bint is_shared(ChunkTable table, int64_t index, const Chunk *chunk) noexcept nogil:
    """Whether the blocks of a chunk are cached. Special chunks, raw ones and those in memory are at hand anyway."""
    return (state_get(&cache_is_on) != 0 and chunk.kind == KIND_REGULAR and chunk.data != NULL and chunk.blocksize <= LARGE_BLOCK
            and table.source.serial != 0 and not chunk.needs_geometry and not chunk.variable)


cdef inline int shared_block(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block, SharedBlock **found) noexcept nogil:
    """A block of a chunk that `is_shared`, for `leave_block`; NULL where it has to be decoded in another way.

    `found` has the block that was read before, or NULL. It is left, unless it is the same.
    """
    cdef int64_t position = table.chunks_start + table.entry(index)
    cdef SharedBlock *entry = found[0]
    cdef int status
    if entry != NULL:
        if is_block(entry, table.source.serial, position, chunk, block):
            return CHUNK_OK
        leave_block(entry)
    found[0] = entry = take_block(table.source.serial, position, chunk, block)
    if entry != NULL:
        return CHUNK_OK
    entry = new_block(table.source.serial, position, chunk, block)
    if entry == NULL:
        return CHUNK_OK
    status = table.load_block(index, context, chunk, block)
    if status == CHUNK_OK:
        status = decode_block(context, chunk, block, entry.data)
    if status:
        leave_block(entry)
        return status
    put_block(entry, chunk)
    found[0] = entry
    return CHUNK_OK
