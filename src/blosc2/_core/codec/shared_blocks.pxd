from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from blosc2._core.codec.chunk cimport Chunk, block_bytes


cdef struct SharedBlock:    # a decoded block, which all threads may read; see shared_blocks.pyx
    SharedBlock *next       # in its bucket; or of those that are to be freed
    SharedBlock *newer
    SharedBlock *older
    uint64_t source         # serial number of the file's source
    int64_t position        # of the chunk in it
    int32_t block
    int32_t blocksize       # what the header of the chunk said
    int32_t nbytes
    int32_t cbytes
    bint found              # whether it was found again since it became the newest
    long users              # the cache, as long as it is there, and whoever reads it
    int64_t room            # bytes of memory
    uint8_t *data


# Whether blocks are cached: looked at before anything else, so that a cache that is off costs one load.
cdef long cache_is_on

cdef SharedBlock *take_block(uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil
cdef SharedBlock *new_block(uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil
cdef void put_block(SharedBlock *entry, const Chunk *chunk) noexcept nogil
cdef void leave_block(SharedBlock *entry) noexcept nogil


cdef inline bint is_block(
        const SharedBlock *entry, uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil:
    """Whether this is a block of a chunk, of which its header still says the same."""
    return (entry.source == source and entry.position == position and entry.block == block
            and entry.blocksize == chunk.blocksize and entry.nbytes == block_bytes(chunk, block)
            and entry.cbytes == chunk.cbytes)
