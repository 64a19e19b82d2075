# cython: cdivision=True, boundscheck=False, wraparound=False
"""Having the processor bring blocks of the block cache while another one is copied.

In random order nobody else foresees them, and to wait for a block takes longer than to copy a small one.
"""

from libc.stdint cimport int64_t

from blosc2._core.codec.shared_blocks cimport cache_is_on, foresee_block, foresee_bucket
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.steps cimport state_get
from blosc2._core.ndim.geometry cimport Grid
from blosc2._core.ndim.read_parts cimport Part

cdef enum:
    # Parts ahead of the one at hand whose blocks are brought, and the part of the table where they stand.
    BLOCKS_AHEAD = 2
    BUCKETS_AHEAD = 5
    # Bytes of a block from which on copying it takes so long that nothing is gained.
    SMALL_BLOCK = 1 << 15


cdef inline bint foresees_blocks(Frame frame, const Grid *g) noexcept nogil:
    return state_get(&cache_is_on) != 0 and frame.source.serial != 0 and g.block_nbytes <= SMALL_BLOCK


cdef inline bint is_next(Frame frame, const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Whether a part needs another block of the cache than the one before it."""
    return i < stop and parts[i].touched == 1 and not parts[i].together and frame.entry(parts[i].chunk) >= 0 and not (
        parts[i].block == parts[i - 1].block and parts[i].chunk == parts[i - 1].chunk)


cdef inline void foresee_parts(Frame frame, const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Have the processor bring what the parts behind part `i` need."""
    cdef int64_t at = i + BUCKETS_AHEAD
    if is_next(frame, parts, at, stop):
        foresee_bucket(frame.source.serial, frame.chunks_start + frame.entry(parts[at].chunk), parts[at].block)
    at = i + BLOCKS_AHEAD
    if is_next(frame, parts, at, stop):
        foresee_block(frame.source.serial, frame.chunks_start + frame.entry(parts[at].chunk), parts[at].block)
