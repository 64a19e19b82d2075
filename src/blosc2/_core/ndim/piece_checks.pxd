# cython: cdivision=True, boundscheck=False, wraparound=False
"""Checking a chunk that several threads read in pieces: each sums the stored bytes that it reads, the last one joins them."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, Chunk
from blosc2._core.codec.chunk_checks cimport block_start, in_order
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.io.checksum cimport joined, zip_joined
from blosc2._core.io.steps cimport state_change, state_get
from blosc2._core.ndim.geometry cimport Grid

cdef enum PieceState:
    NOT_SUMMED
    SUMMED
    CHUNK_CHECKED   # all of the chunk, by this piece


cdef struct PieceSum:
    # The stored bytes of a chunk that one piece reads, and their checksum.
    int64_t start
    int64_t stop
    uint32_t crc
    PieceState state


cdef inline bint is_last(long *left) noexcept nogil:
    """Count a piece that was read; whether the others were read before, and what their threads wrote is seen here."""
    cdef long count
    while True:
        count = state_get(left)
        if state_change(left, count, count - 1):
            return count == 1


cdef inline bint blocks_follow(const Chunk *chunk) noexcept nogil:
    """Whether blocks lie in the order of their numbers; the table of their starts is loaded."""
    cdef int32_t b
    if chunk.kind == KIND_RAW:
        return True
    if block_start(chunk, 0) < CHUNK_HEADER + 4 * <int64_t> chunk.nblocks or block_start(chunk, chunk.nblocks - 1) > chunk.cbytes:
        return False
    for b in range(chunk.nblocks - 1):
        if not in_order(chunk, b):
            return False
    return True


cdef inline int64_t stored_start(const Grid *g, const Chunk *chunk, const int64_t *low, const int64_t *many, int64_t i,
                                 int64_t touched) noexcept nogil:
    """Where the `i`-th of the blocks that a selection touches begins; the first one with the header before it."""
    cdef int64_t nblock = 0
    cdef int d
    if i == 0:
        return 0
    if i == touched:
        return chunk.cbytes
    for d in range(g.ndim - 1, -1, -1):
        nblock += (low[d] + i % many[d]) * g.block_strides[d]
        i //= many[d]
    return CHUNK_HEADER + nblock * g.block_nbytes if chunk.kind == KIND_RAW else block_start(chunk, <int32_t> nblock)


cdef inline bint begin_piece(
        ChunkTable table, int64_t index, Chunk *chunk, const Grid *g, const int64_t *low, const int64_t *many,
        int64_t first, int64_t last, int64_t touched, PieceSum *piece, int *status) noexcept nogil:
    """Bring the stored bytes of blocks ``first .. last`` of those that a selection touches, which is all that has items.

    False if blocks do not follow each other: then one thread has to check the chunk by itself.
    """
    cdef int64_t starts = CHUNK_HEADER + (4 * <int64_t> chunk.nblocks if chunk.kind != KIND_RAW else 0)
    if chunk.loaded < starts:
        status[0] = table.load_span(index, chunk, chunk.loaded, starts)
        if status[0]:
            return False
        chunk.loaded = <int32_t> starts
    if not blocks_follow(chunk):
        return False
    piece.start = stored_start(g, chunk, low, many, first, touched)
    piece.stop = stored_start(g, chunk, low, many, last, touched)
    if piece.start < 0 or piece.stop < piece.start or piece.stop > chunk.cbytes:
        return False
    status[0] = table.load_span(index, chunk, piece.start, piece.stop)
    if status[0]:
        return False
    chunk.loaded = chunk.cbytes     # what the blocks of other pieces need is not read
    return True


cdef inline bint pieces_join(const PieceSum *pieces, int64_t count, bint zip, uint32_t *crc, int64_t *size) noexcept nogil:
    """Join the checksums of pieces; False if they are not those of one chunk, which another program changes."""
    cdef int64_t i
    crc[0] = 0
    size[0] = 0
    for i in range(count):
        if pieces[i].state != SUMMED or pieces[i].start != size[0]:
            return False
        size[0] = pieces[i].stop
        if zip:
            crc[0] = zip_joined(crc[0], pieces[i].crc, <uint64_t> (size[0] - pieces[i].start))
        else:
            crc[0] = joined(crc[0], pieces[i].crc, <uint64_t> (size[0] - pieces[i].start))
    return True
