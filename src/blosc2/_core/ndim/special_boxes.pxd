# cython: cdivision=True, boundscheck=False, wraparound=False
"""Chunks all of whose items are one value, of which no bytes are stored, or only that value."""

from libc.stdint cimport int64_t, uint8_t

from blosc2._core.codec.codec cimport (
    BAD_SPECIAL, CHUNK_HEADER, CHUNK_OK, KIND_VALUE, NO_MEMORY, Chunk, DecodeContext, fill, reserve_scratch)
from blosc2._core.ndim.geometry cimport MAX_DIM, Grid
from blosc2._core.ndim.grid cimport Box, copy_items
from blosc2._core.ndim.grid_read cimport Read
from blosc2._core.ndim.read_checks cimport whole


cdef enum:
    # Bytes of a row of items that is made first, and then copied.
    LONGEST_ROW = 1 << 20


cdef inline int fill_special(Read self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box) noexcept nogil:
    """Zeros, NaN or one value into a box, without decoding anything."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t row_strides[MAX_DIM]
    cdef uint8_t *row
    cdef int d, last = g.ndim - 1
    cdef int status = whole(self, nchunk, context, chunk)
    cdef int64_t total = g.itemsize
    if status:
        return status
    if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
        return BAD_SPECIAL
    if self.is_one_run(box):
        for d in range(g.ndim):
            total *= box.count[d]
        return fill(chunk, 0, self.at(box), total)
    for d in range(g.ndim):
        row_strides[d] = 0
    if self.strides[last] == g.itemsize and box.count[last] <= LONGEST_ROW // g.itemsize:
        row_strides[last] = g.itemsize
        total *= box.count[last]
    row = reserve_scratch(context, total)
    if row == NULL:
        return NO_MEMORY
    status = fill(chunk, 0, row, total)
    if status:
        return status
    copy_items(self.at(box), self.strides, row, row_strides, box.count, g.ndim, g.itemsize)
    return CHUNK_OK
