# The block cache of a decode context. Reads that follow each other often take parts of the same blocks: rows of an
# array, patches that overlap. Each context keeps the last blocks that were read in part.
#
# A published frame never changes, but a file may be changed by anybody, and the header of a chunk is read anew at each
# read. So a block is found again only where the chunk still says the same of it: what is copied out of the buffer is
# as long as what was decoded into it.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from blosc2._core.codec.codec cimport CACHED_BLOCKS, CachedBlock, DecodeContext
from blosc2._core.codec.chunk cimport Chunk, block_bytes

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
