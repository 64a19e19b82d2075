# cython: cdivision=True, boundscheck=False, wraparound=False
"""Checking chunks that a selection reads as a whole against their checksums."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from blosc2._core.codec.chunk cimport BAD_SUM, CHUNK_HEADER, CHUNK_OK, KIND_RAW, Chunk
from blosc2._core.codec.chunk_checks cimport block_span
from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.io.checksum cimport checksum, copy_and_checksum, zip_checksum
from blosc2._core.ndim.geometry cimport Grid
from blosc2._core.ndim.grid cimport Box
from blosc2._core.ndim.grid_read cimport Read
from blosc2._core.ndim.piece_checks cimport CHUNK_CHECKED, SUMMED, pieces_join


cdef inline int whole(Read self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Bring and check a chunk all of which is wanted."""
    if self.own == NULL:
        return self.frame.load_whole(nchunk, context, chunk)
    return self.bring_whole(nchunk, context, chunk)


cdef inline bint takes_all(Read self, int64_t nchunk, const Box *box) noexcept nogil:
    """Whether a box takes all items that a chunk has; what it has beyond the end of an axis does not count."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t start
    cdef int d
    for d in range(g.ndim):
        start = nchunk // g.chunk_strides[d] % g.grid[d] * g.chunks[d]
        if box.count[d] != min(g.chunks[d], g.shape[d] - start):
            return False
    return True


cdef inline uint32_t sum_more(Read self, uint32_t crc, const uint8_t *data, int64_t size) noexcept nogil:
    """Go on with the checksum of a chunk."""
    return zip_checksum(crc, data, size) if self.own != NULL else checksum(crc, data, size)


cdef inline bint sum_block(Read self, const Chunk *chunk, int32_t nblock, const Box *part, uint8_t *to, uint32_t *crc,
                    int64_t *summed) noexcept nogil:
    """Go on with the checksum of a chunk as far as the end of a block; True if that has copied the block, too."""
    cdef Grid *g = &self.geometry.c
    cdef int32_t start = 0, stop = 0
    if chunk.kind == KIND_RAW:
        start = <int32_t> (CHUNK_HEADER + nblock * g.block_nbytes)
        if self.covers(part, g.blocks):
            if summed[0] < start:   # the header of the chunk
                crc[0] = sum_more(self, crc[0], chunk.data + summed[0], start - summed[0])
                summed[0] = start
            if summed[0] == start and copy_and_checksum(
                    self.own != NULL, crc, to, self.strides, part.count, g.ndim, chunk.data + start, g.itemsize):
                summed[0] += g.block_nbytes
                return True
        stop = <int32_t> (CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
    elif block_span(chunk, nblock, &start, &stop):
        stop = 0    # decoding it says what is wrong
    if stop > summed[0]:
        crc[0] = sum_more(self, crc[0], chunk.data + summed[0], stop - summed[0])
        summed[0] = stop
    return False


cdef inline int compare(Read self, int64_t nchunk, uint32_t crc, int64_t size) noexcept nogil:
    """Check the checksum of a stored chunk, or keep it, to check those of all chunks together."""
    if self.own == NULL:
        return CHUNK_OK if crc == self.frame.checksums[nchunk] else BAD_SUM
    self.own[nchunk].crc, self.own[nchunk].size = crc, size
    return CHUNK_OK


cdef inline int join_pieces(Read self, DecodeContext *context, int64_t first, int64_t nchunk) noexcept nogil:
    """Check a chunk all of whose pieces were read."""
    cdef Chunk chunk
    cdef bint summed = False
    cdef int64_t i, size = 0
    cdef uint32_t crc = 0
    cdef int status
    for i in range(first, first + self.pieces):
        if self.sums[i].state == CHUNK_CHECKED:
            return CHUNK_OK
        summed = summed or self.sums[i].state == SUMMED
    if not summed:
        return CHUNK_OK
    if pieces_join(self.sums + first, self.pieces, self.own != NULL, &crc, &size):
        return compare(self, nchunk, crc, size)
    status = self.open_padded(nchunk, context, &chunk)
    return status if status else whole(self, nchunk, context, &chunk)
