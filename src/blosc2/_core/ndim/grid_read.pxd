cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from blosc2._core.codec.codec cimport Chunk, DecodeContext
from blosc2._core.codec.shared_blocks cimport SharedBlock
from blosc2._core.ndim.grid cimport Box, Operation
from blosc2._core.frame.member_chunks cimport ChunkChecksum
from blosc2._core.ndim.piece_checks cimport PieceSum

cdef enum:
    # Of a shuffled block: items that are undone together, and which part of a block is few items.
    SHORTEST_RUN = 8
    FEW = 32


cdef class Read(Operation):
    """Reading a selection; see grid_read.pyx."""

    # Of a reader that one thread has for itself, and turns to one selection after another:
    cdef bint by_turns
    cdef bint together              # whether the chunk at hand is to be decoded once, for all that read of it
    cdef const uint8_t *aside       # that chunk, once it is decoded
    cdef SharedBlock *held          # the block of the block cache that it read last; others need it, too
    cdef ChunkChecksum *own              # of each chunk, where all are read and the sum of all is known; else NULL
    # Where chunks are read in pieces: what each summed, and how many of each chunk are left.
    cdef PieceSum *sums
    cdef long *left
    cdef object keep_sums
    cdef int32_t *order_room        # for the order of tasks, if bytes are likely not to be in memory

    cdef uint32_t flags             # of `parse_key`
    # Memory that was made for the result, whose pages are to be brought while bytes of the file are on their way.
    cdef void *fresh
    cdef int64_t fresh_nbytes
    cdef long unbrought

    cdef int take(self, cnp.ndarray out) except -1
    cdef int watch(self) except -1
    cdef int share_sums(self) except -1
    cdef int bring_whole(self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int open_padded(self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int decode_aside(self, int64_t nchunk, DecodeContext *context, Chunk *chunk, uint8_t **scratch) noexcept nogil
    cdef int read_points(self, DecodeContext *context, int64_t nchunk, const Box *box, int64_t begin, int64_t end) noexcept nogil
    cdef int read_chunk(self, DecodeContext *context, int64_t task, int64_t nchunk, const Box *box) noexcept nogil
    cdef int read_opened(
        self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t piece, PieceSum *sum) noexcept nogil
    cdef int read_blocks(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, const int64_t *low,
                         const int64_t *many, int64_t begin, int64_t end, const uint8_t *decoded, PieceSum *sum) noexcept nogil
    cdef bint unshuffles_less(self, const Box *part) noexcept nogil
