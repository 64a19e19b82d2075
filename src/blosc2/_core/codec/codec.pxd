from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport realloc

from blosc2._core.codec.chunk cimport Chunk


cdef extern from "codec/block_threads.h" nogil:
    ctypedef void (*BlocksJob)(void *) noexcept nogil
    ctypedef void (*RunBlocks)(void *helpers, BlocksJob job, int count, size_t size, void *data) noexcept nogil
    ctypedef struct BlockThreads:
        RunBlocks run
        void *helpers

cdef enum:
    CACHED_BLOCKS = 8


cdef struct CachedBlock:    # a decoded block of which a read took only a part
    uint8_t *data
    int64_t size
    uint64_t frame          # serial number of its frame; 0 for none
    int64_t chunk
    int32_t block
    int32_t blocksize       # of the chunk as it was then
    int32_t nbytes          # that were decoded into `data`
    bint shuffled           # whether the filter is still to be undone
    int32_t decoded         # bytes of each stream that were decoded
    uint64_t used           # when, by the context's clock


cdef struct DecodeContext:
    void *dctx              # blosc2_context *, for one thread at a time
    int32_t blocksize       # of its last chunk: the C library rebuilds temporaries when it changes
    uint8_t *stored         # stored bytes of a chunk that came from a positional read
    int64_t stored_size
    void *zstd              # ZSTD_DCtx *, made when it is needed
    uint8_t *unfiltered     # a decoded block before its filter is undone
    int64_t unfiltered_size
    uint8_t *scratch        # decoded bytes
    int64_t scratch_size
    CachedBlock cached[CACHED_BLOCKS]
    int64_t cached_bytes
    uint64_t clock


cdef class Plugin:
    """The C library's super-chunk for codecs and filters that ask it for the array's geometry."""

    cdef void *schunk
    cdef PyThread_type_lock lock
    cdef bint decoding      # whether a thread is inside its context
    cdef object __weakref__
    cdef void renew(self) noexcept nogil
    cdef int decode(self, Chunk *chunk, uint8_t *destination) noexcept nogil


cdef class Encoder:
    """One thread's compression context, with fixed parameters; others may help it with the blocks of a chunk."""

    cdef void *cctx
    cdef object encoding
    cdef Plugin plugin
    cdef Encoder of_block   # for two blocks as these chunks have them, where single ones may be replaced
    cdef int32_t nbytes     # of the chunks that the context was made for
    cdef int32_t blocksize  # of the last chunk: the context has temporaries of that size
    cdef uint8_t *copy      # of their data, for filters that would write into it
    cdef uint8_t *undone    # room to decode what filters gave that cannot always be undone
    cdef void *interrupts   # what may stop it within a chunk; NULL where no chunk takes long
    cpdef bint is_small(self) noexcept
    cdef int prepare(self, int32_t nbytes, int threads=*) except -1
    cdef void free_context(self) noexcept nogil
    cdef int32_t encode(self, const uint8_t *source, uint8_t *destination, int32_t room,
                        const BlockThreads *threads=*) noexcept nogil


cdef inline uint8_t *reserve(uint8_t **buffer, int64_t *have, int64_t size) noexcept nogil:
    """Room for `size` bytes; what was there stays. NULL when there is no memory."""
    cdef uint8_t *larger
    if have[0] >= size and buffer[0] != NULL:
        return buffer[0]
    size = (size + 65535) & ~<int64_t> 65535
    larger = <uint8_t *> realloc(buffer[0], <size_t> size)
    if larger != NULL:
        buffer[0] = larger
        have[0] = size
    return larger


cdef inline uint8_t *reserve_stored(DecodeContext *context, int64_t size) noexcept nogil:
    """Room for stored bytes."""
    return reserve(&context.stored, &context.stored_size, size)


cdef inline uint8_t *reserve_scratch(DecodeContext *context, int64_t size) noexcept nogil:
    """Room for decoded bytes."""
    return reserve(&context.scratch, &context.scratch_size, size)


cdef DecodeContext *borrow(int32_t blocksize) except NULL
cdef void give_back(DecodeContext *context) noexcept
cdef int decode_streams(
    DecodeContext *context, const Chunk *chunk, int32_t block, uint8_t *to, int32_t wanted) noexcept nogil
cdef int decode_whole_chunk(DecodeContext *context, Chunk *chunk, uint8_t *destination) noexcept nogil
cdef int decode_block(DecodeContext *context, Chunk *chunk, int32_t block, uint8_t *destination) noexcept nogil
