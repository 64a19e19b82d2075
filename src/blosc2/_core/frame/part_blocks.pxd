# cython: cdivision=True, boundscheck=False, wraparound=False
"""Blocks of which a part is wanted: through the block cache, and decoded as far as they are needed."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from blosc2._core.codec.block_cache cimport find_cached, label_cached, reserve_cached
from blosc2._core.codec.block_runs cimport LARGE_BLOCK, is_run, run_of
from blosc2._core.codec.chunk cimport CHUNK_OK, NO_MEMORY, Chunk, block_bytes
from blosc2._core.codec.chunk_checks cimport decodes_starts, is_split, is_unfiltered
from blosc2._core.codec.codec cimport CachedBlock, DecodeContext, decode_block, decode_streams, reserve_scratch
from blosc2._core.frame.chunk_table cimport ChunkTable


cdef inline int part_block(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block, bint shuffled, int32_t wanted,
        const uint8_t **decoded) noexcept nogil:
    """The bytes of a block of which a part is wanted, and which may be wanted again soon.

    The first `wanted` bytes are enough. With `shuffled` the block is one of a plain chunk and stays shuffled: the
    first bytes of all items, then the second ones, and so on; `wanted` of each are enough. A block that is wanted
    again, and of which too little was decoded, is decoded as a whole.
    """
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t whole = nbytes // chunk.typesize if shuffled else nbytes
    cdef CachedBlock *cached = find_cached(context, table.serial, index, chunk, block, shuffled)
    cdef uint8_t *room
    cdef uint8_t byte = 0
    cdef int status
    wanted = min(wanted, whole)
    if cached != NULL:
        decoded[0] = cached.data
        if cached.decoded >= wanted:
            return CHUNK_OK
        cached.frame = 0
        wanted = whole
    status = table.load_block(index, context, chunk, block)
    if status:
        return status
    if chunk.blocksize > LARGE_BLOCK and is_run(chunk, block, &byte):
        decoded[0] = run_of(context, byte, chunk.blocksize)
        return CHUNK_OK if decoded[0] != NULL else NO_MEMORY
    if cached == NULL:
        cached = reserve_cached(context, chunk.blocksize)
    room = cached.data if cached != NULL else reserve_scratch(context, chunk.blocksize)
    if room == NULL:
        return NO_MEMORY
    if not chunk.plain or is_split(chunk, nbytes) != shuffled or not (shuffled or is_unfiltered(chunk)):
        wanted = whole
    # Whoever reads more of the block next decodes it again: less than half of it has to be saved.
    if wanted > whole // 2 or not decodes_starts(chunk.codec):
        wanted = whole
    if shuffled:
        status = decode_streams(context, chunk, block, room, nbytes if wanted == whole else wanted)
    elif wanted < whole:
        status = decode_streams(context, chunk, block, room, wanted)
    else:
        status = decode_block(context, chunk, block, room)
    if status:
        return status
    if cached != NULL:
        label_cached(context, cached, table.serial, index, chunk, block, shuffled, wanted)
    decoded[0] = room
    return CHUNK_OK
