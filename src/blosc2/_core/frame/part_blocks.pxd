# cython: cdivision=True, boundscheck=False, wraparound=False
"""Blocks of which a part is wanted: through the block cache, and decoded as far as they are needed."""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from blosc2._core.codec.chunk cimport (
    CHUNK_OK, KIND_REGULAR, NO_MEMORY, Chunk, block_bytes, decodes_starts, extent, is_split, is_unfiltered)
from blosc2._core.codec.codec cimport (
    CACHED_BLOCKS, CachedBlock, DecodeContext, decode_block, decode_streams, reserve_scratch)
from blosc2._core.frame.chunk_table cimport ChunkTable


# The block cache of a decode context. Reads that follow each other often take parts of the same blocks: rows of an
# array, patches that overlap. Each context keeps the last blocks that were read in part.
#
# A published frame never changes, but a file may be changed by anybody, and the header of a chunk is read anew at each
# read. So a block is found again only where the chunk still says the same of it: what is copied out of the buffer is
# as long as what was decoded into it.


cdef enum:
    CACHE_BYTES = 2 << 20   # of one context, in all


cdef inline CachedBlock *find_cached(
        DecodeContext *context, uint64_t frame, int64_t index, const Chunk *chunk, int32_t block, bint shuffled) noexcept nogil:
    """A block in the cache, of as many bytes as the chunk says; NULL where it is not there."""
    cdef CachedBlock *cached
    cdef int i
    for i in range(CACHED_BLOCKS):
        cached = &context.cached[i]
        if (cached.frame == frame and cached.chunk == index and cached.block == block
                and cached.blocksize == chunk.blocksize and cached.nbytes == block_bytes(chunk, block)
                and cached.shuffled == shuffled):
            context.clock += 1
            cached.used = context.clock
            return cached
    return NULL


cdef inline CachedBlock *reserve_cached(DecodeContext *context, int64_t size) noexcept nogil:
    """Room for a block, that of the least recently used one; NULL when the block is too large."""
    cdef CachedBlock *oldest = NULL
    cdef CachedBlock *cached
    cdef uint8_t *data
    cdef int i
    if size > CACHE_BYTES // 2:
        return NULL
    for i in range(CACHED_BLOCKS):
        cached = &context.cached[i]
        if oldest == NULL or cached.used < oldest.used:
            oldest = cached
    oldest.frame = 0
    if oldest.size < size:
        context.cached_bytes -= oldest.size
        free(oldest.data)
        oldest.data = NULL
        oldest.size = 0
        for i in range(CACHED_BLOCKS):  # others go until there is room for this one
            cached = &context.cached[i]
            if context.cached_bytes + size > CACHE_BYTES and cached.size:
                context.cached_bytes -= cached.size
                free(cached.data)
                cached.data = NULL
                cached.size = 0
                cached.frame = 0
        data = <uint8_t *> malloc(<size_t> size)
        if data == NULL:
            return NULL
        oldest.data = data
        oldest.size = size
        context.cached_bytes += size
    return oldest


cdef inline void label_cached(DecodeContext *context, CachedBlock *cached, uint64_t frame, int64_t index, const Chunk *chunk,
                           int32_t block, bint shuffled, int32_t decoded) noexcept nogil:
    """Say what was decoded into the room that `reserve_cached` gave."""
    context.clock += 1
    cached.used = context.clock
    cached.frame = frame
    cached.chunk = index
    cached.block = block
    cached.blocksize = chunk.blocksize
    cached.nbytes = block_bytes(chunk, block)
    cached.shuffled = shuffled
    cached.decoded = decoded


# A stream of zeros, or of another byte, takes 4 or 5 bytes however long it is (FORMATS 2.3). So a few hundred bytes can
# claim 2 GiB: large blocks that are one byte throughout are recognised without decoding them.
cdef enum:
    LARGE_BLOCK = 1 << 20   # whose runs are looked for before it is decoded; smaller ones are decoded as soon


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
