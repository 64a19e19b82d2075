from libc.stdint cimport int32_t, int64_t, uint8_t

from blosc2._core.codec.codec cimport Chunk, Worker

cdef enum:
    LARGE_BLOCK = 1 << 20   # whose runs are looked for before it is decoded; smaller ones are decoded as soon

cdef enum:
    NOT_SPLIT = 0x10        # of the flags of a chunk

cdef int extent(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop, int *byte) noexcept nogil
cdef bint is_run(const Chunk *chunk, int32_t block, uint8_t *byte) noexcept nogil
cdef uint8_t *run_of(Worker *worker, uint8_t byte, int64_t size) noexcept nogil
