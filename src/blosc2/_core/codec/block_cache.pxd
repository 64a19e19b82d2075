# The block cache of a decode context. Reads that follow each other often take parts of the same blocks: rows of an
# array, patches that overlap. Each worker keeps the last blocks of which it handed out a part.
#
# A published frame never changes, but a file may be changed by anybody, and the header of a chunk is read anew at each
# read. So a block is found again only where the chunk still says the same of it: what is copied out of the buffer is
# as long as what was decoded into it.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from blosc2._core.codec.codec cimport KEPT_BLOCKS, KeptBlock, Worker
from blosc2._core.codec.chunk cimport Chunk, block_bytes

cdef enum:
    KEPT_BYTES = 2 << 20     # of one worker, in all


cdef inline const uint8_t *kept_block(
        Worker *worker, uint64_t frame, int64_t index, const Chunk *chunk, int32_t block) noexcept nogil:
    """The bytes of a block that this worker still has, as many as the chunk says; or NULL."""
    cdef KeptBlock *kept
    cdef int i
    for i in range(KEPT_BLOCKS):
        kept = &worker.kept[i]
        if (kept.frame == frame and kept.chunk == index and kept.block == block
                and kept.blocksize == chunk.blocksize and kept.nbytes == block_bytes(chunk, block)):
            worker.clock += 1
            kept.used = worker.clock
            return kept.data
    return NULL


cdef inline KeptBlock *keep_block(Worker *worker, int64_t size) noexcept nogil:
    """Room for a block, in the place of the one that was not used for longest; NULL when it is too large."""
    cdef KeptBlock *oldest = NULL
    cdef KeptBlock *kept
    cdef uint8_t *data
    cdef int i
    if size > KEPT_BYTES // 2:
        return NULL
    for i in range(KEPT_BLOCKS):
        kept = &worker.kept[i]
        if oldest == NULL or kept.used < oldest.used:
            oldest = kept
    oldest.frame = 0
    if oldest.size < size:
        worker.kept_bytes -= oldest.size
        free(oldest.data)
        oldest.data = NULL
        oldest.size = 0
        for i in range(KEPT_BLOCKS):  # others go until there is room for this one
            kept = &worker.kept[i]
            if worker.kept_bytes + size > KEPT_BYTES and kept.size:
                worker.kept_bytes -= kept.size
                free(kept.data)
                kept.data = NULL
                kept.size = 0
                kept.frame = 0
        data = <uint8_t *> malloc(<size_t> size)
        if data == NULL:
            return NULL
        oldest.data = data
        oldest.size = size
        worker.kept_bytes += size
    return oldest


cdef inline void name_kept(Worker *worker, KeptBlock *kept, uint64_t frame, int64_t index, const Chunk *chunk,
                           int32_t block) noexcept nogil:
    """Say what was decoded into the room that `keep_block` gave."""
    worker.clock += 1
    kept.used = worker.clock
    kept.frame = frame
    kept.chunk = index
    kept.block = block
    kept.blocksize = chunk.blocksize
    kept.nbytes = block_bytes(chunk, block)
