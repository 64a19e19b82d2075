# cython: cdivision=True, boundscheck=False, wraparound=False
"""The beginning of a read by several threads whose bytes are likely not to be in memory.

All bytes are asked for before other threads are woken: they would wait for pages that were not asked for yet, one by one.
Then tasks whose bytes are in memory are done first, while those of the others are on their way.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from blosc2._core.codec.codec cimport Chunk, DecodeContext
from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_REGULAR
from blosc2._core.codec.chunk_checks cimport block_span
from blosc2._core.ndim.ask_ahead cimport Touched, begin_tasks, blocks_of, find_task
from blosc2._core.ndim.grid cimport Box, Operation
from blosc2._core.ndim.read_parts cimport nth_block

cdef extern from "io/readahead.h" nogil:
    bint is_there(int fd, const uint8_t *base, int64_t offset)


cdef inline bint byte_is_there(Operation self, int64_t offset) noexcept nogil:
    return is_there(self.frame.source.fd, self.frame.source.base, min(offset, self.frame.source.size - 1))


cdef inline bint blocks_are_known(Operation self, DecodeContext *context, int64_t nchunk, Chunk *chunk) noexcept nogil:
    """Find where the blocks of a chunk lie, if that is in memory."""
    cdef int64_t head = CHUNK_HEADER + 4 * blocks_of(&self.geometry.c)
    cdef int64_t at = self.frame.chunks_start + self.frame.entry(nchunk)
    return (
        byte_is_there(self, at) and byte_is_there(self, at + head - 1)
        and self.frame.find_chunk(nchunk, context, chunk) == CHUNK_OK and chunk.data != NULL
        and chunk.kind == KIND_REGULAR and not chunk.whole and not chunk.needs_geometry
        and self.frame.load_span(nchunk, chunk, chunk.loaded, CHUNK_HEADER + 4 * <int64_t> chunk.nblocks) == CHUNK_OK)


cdef inline bint block_is_there(Operation self, int64_t nchunk, const Chunk *chunk, int64_t block) noexcept nogil:
    """Whether the middle of a block is in memory; its ends share their pages with others."""
    cdef int32_t start = 0, stop = 0
    return (
        block < chunk.nblocks and block_span(chunk, <int32_t> block, &start, &stop) == CHUNK_OK
        and byte_is_there(self, self.frame.chunks_start + self.frame.entry(nchunk) + start + (stop - start) // 2))


cdef inline void order_tasks(Operation self, DecodeContext *context, int32_t *order) noexcept nogil:
    """Number the tasks in the order in which they are to be done: those whose bytes are in memory before the others."""
    cdef int64_t unit, piece, i, nchunk = 0, begin = 0, end = 0, first = 0, last = self.tasks
    cdef Touched touched
    cdef Box box
    cdef Chunk chunk
    cdef bint stored, known
    for unit in range(self.tasks // self.pieces):
        stored = find_task(self, unit, &nchunk, &box, &touched, &begin, &end)
        known = stored and blocks_are_known(self, context, nchunk, &chunk)
        for piece in range(self.pieces):
            i = piece * touched.count // self.pieces if stored else 0
            if not stored or (known and block_is_there(self, nchunk, &chunk, nth_block(
                    &self.geometry.c, touched.low, touched.many, i))):
                order[first] = <int32_t> (unit * self.pieces + piece)
                first += 1
            else:
                last -= 1
                order[last] = <int32_t> (unit * self.pieces + piece)
    last = self.tasks - 1
    while first < last:     # these were put in from the end
        order[first], order[last] = order[last], order[first]
        first += 1
        last -= 1


cdef inline void begin_cold(Operation self, DecodeContext *context, int32_t *order) noexcept nogil:
    """Ask for what a read needs, and put its tasks in order; `order` has room for their numbers."""
    begin_tasks(self, context)
    # Where only a part was asked for, or a part is read, or there is no file, the tasks stay as they are.
    if (order != NULL and self.ahead.asked == self.tasks // self.pieces and self.next_task == 0
            and self.stop_task == self.tasks and (self.frame.source.base != NULL or self.frame.source.fd >= 0)):
        order_tasks(self, context, order)
        self.order = order
        self.ahead.resume = INT64_MAX
