# cython: cdivision=True, boundscheck=False, wraparound=False
"""Having the processor bring what the next parts need, while one of them is decoded or copied.

Nobody else foresees small blocks in random order, and to wait for one takes as long as to decode it. Blocks of the block
cache stand in its table. Where stored ones begin stands in their chunk: that is brought first, and some parts later the
block. What is read here is a hint and nothing else: whoever decodes a block reads it anew, and checks it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, Chunk
from blosc2._core.codec.chunk_checks cimport block_span, reads_in_streams
from blosc2._core.codec.shared_blocks cimport cache_is_on, foresee_block, foresee_bucket
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.little_endian cimport u32
from blosc2._core.io.steps cimport state_get
from blosc2._core.ndim.geometry cimport Grid
from blosc2._core.ndim.read_parts cimport Part, nth_block

cdef extern from "io/prefetch.h" nogil:
    void prefetch(const uint8_t *start, int64_t length)
    void prefetch_starts(const uint8_t *start, int64_t length)

cdef enum:
    # Parts ahead of the one at hand whose blocks are brought, and what tells where these are.
    BLOCKS_AHEAD = 2
    PLACES_AHEAD = 5
    # Bytes of a block from which on decoding or copying it takes so long that nothing is gained.
    SMALL_BLOCK = 1 << 15


cdef struct Foreseen:
    bint cached     # blocks of the block cache
    int64_t stored  # else the bytes of a stored block, on average; 0 if nothing is to be brought


cdef inline Foreseen what_is_foreseen(Frame frame, const Grid *g) noexcept nogil:
    cdef Foreseen found
    found.cached = state_get(&cache_is_on) != 0 and frame.source.serial != 0 and g.block_nbytes <= SMALL_BLOCK
    found.stored = 0
    if not found.cached and frame.source.base != NULL and frame.nbytes > 0 and g.block_nbytes <= SMALL_BLOCK:
        # What a file says of its size may be anything.
        found.stored = 1 + <int64_t> min(
            <double> g.block_nbytes * <double> frame.cbytes / <double> frame.nbytes, <double> SMALL_BLOCK)
    return found


cdef inline int64_t chunk_of_next(Frame frame, const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Where the chunk of a part begins, if the part needs another block than the one before it; else -1."""
    if (i >= stop or parts[i].touched != 1 or parts[i].together or frame.entry(parts[i].chunk) < 0
            or (parts[i].block == parts[i - 1].block and parts[i].chunk == parts[i - 1].chunk)):
        return -1
    return frame.chunks_start + frame.entry(parts[i].chunk)


cdef inline const uint8_t *place_of(Frame frame, int64_t at, int64_t block) noexcept nogil:
    """Where a mapped chunk says that a block begins; NULL if the frame ends before that."""
    cdef const uint8_t *chunk = frame.memory(at)
    if chunk == NULL or frame.chunks_stop - at < CHUNK_HEADER + 4 * (block + 1):
        return NULL
    return chunk + CHUNK_HEADER + 4 * block


cdef inline void foresee_parts(Frame frame, Foreseen what, const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Have the processor bring what the parts behind part `i` need."""
    cdef int64_t at = chunk_of_next(frame, parts, i + PLACES_AHEAD, stop)
    cdef const uint8_t *place
    if at >= 0 and what.cached:
        foresee_bucket(frame.source.serial, at, parts[i + PLACES_AHEAD].block)
    elif at >= 0:
        place = place_of(frame, at, parts[i + PLACES_AHEAD].block)
        if place != NULL:
            prefetch(place, 4)
            if parts[i + PLACES_AHEAD].chunk != parts[i + PLACES_AHEAD - 1].chunk:
                prefetch(frame.memory(at), CHUNK_HEADER)
    at = chunk_of_next(frame, parts, i + BLOCKS_AHEAD, stop)
    if at >= 0 and what.cached:
        foresee_block(frame.source.serial, at, parts[i + BLOCKS_AHEAD].block)
    elif at >= 0:
        place = place_of(frame, at, parts[i + BLOCKS_AHEAD].block)
        if place != NULL:
            prefetch_starts(frame.memory(at) + u32(place), what.stored)


cdef inline bint foresees_blocks(Frame frame, const Chunk *chunk) noexcept nogil:
    """Whether blocks of a mapped chunk that a box touches are brought one ahead: where the decoder runs through them."""
    return (frame.source.base != NULL and chunk.data != NULL and not reads_in_streams(chunk)
            and chunk.blocksize <= SMALL_BLOCK)


cdef inline const uint8_t *foresee_touched(
        const Chunk *chunk, const Grid *g, const int64_t *low, const int64_t *many, int64_t i) noexcept nogil:
    """Have the processor bring the `i`-th block that a box touches in a chunk: where that is, NULL if nowhere."""
    cdef int64_t nblock = nth_block(g, low, many, i)
    cdef int32_t start = 0, stop = 0
    if nblock < chunk.nblocks and block_span(chunk, <int32_t> nblock, &start, &stop) == CHUNK_OK:
        prefetch_starts(chunk.data + start, min(stop - start, <int32_t> SMALL_BLOCK))
        return chunk.data + start
    return NULL
