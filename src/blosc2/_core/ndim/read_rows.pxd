# cython: cdivision=True, boundscheck=False, wraparound=False
"""Rows of an array, in any order, where each lies in one block: samples of a batch, items of a 1-d array.

A row is what an integer selects on the first axis. It needs no arithmetic for the other axes, and of a block that several
rows need they are all taken at once.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memmove

from blosc2._core.codec.block_runs cimport LARGE_BLOCK
from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, MOST_STEPS, Chunk
from blosc2._core.codec.chunk_checks cimport FILTER_SHUFFLE
from blosc2._core.codec.codec cimport DecodeContext, decode_block
from blosc2._core.frame.ask_chunks cimport is_most
from blosc2._core.frame.part_blocks cimport part_block
from blosc2._core.frame.shared_block cimport is_shared, shared_block
from blosc2._core.ndim.geometry cimport Grid
from blosc2._core.ndim.grid_read cimport FEW, SHORTEST_RUN, Read
from blosc2._core.ndim.read_parts cimport Part, in_order, sort_parts

cdef extern from "codec/unshuffle.h" nogil:
    bint unshuffles_parts(int itemsize)
    void unshuffle_items(uint8_t *to, const uint8_t *planes, int64_t plane, int64_t n, int itemsize)


cdef inline bint rows_are_runs(const Grid *g) noexcept nogil:
    """Whether each row of an array is one run of bytes in one block."""
    cdef int d
    for d in range(1, g.ndim):
        if g.blocks[d] != g.shape[d] or g.grid[d] != 1:
            return False
    return g.ndim > 0 and g.size > 0


cdef inline bint is_row(const Grid *g, const int64_t *axes) noexcept nogil:
    """Whether a selection is one row, and goes to one run of bytes; `axes` has start, step, count and stride of each axis."""
    cdef int64_t run = g.itemsize
    cdef int d
    for d in range(g.ndim - 1, 0, -1):
        if axes[4 * d + 2] != g.shape[d] or (g.shape[d] != 1 and axes[4 * d + 3] != run):
            return False
        run *= g.shape[d]
    return axes[2] == 1


cdef inline int64_t list_rows(
        const Grid *g, const int64_t *axes, const int64_t *rooms, int64_t first, int64_t stop, Part *parts) noexcept nogil:
    """What `list_parts` does, for selections that are rows."""
    cdef int64_t i, row, nchunk, count = 0
    cdef Part *part
    cdef bint sorted = True
    for i in range(first, stop):
        if rooms[i] == 0:
            continue
        row = axes[4 * i * g.ndim]
        nchunk = row // g.chunks[0]
        part = &parts[count]
        part.chunk = nchunk * g.chunk_strides[0]
        part.block = <int32_t> ((row - nchunk * g.chunks[0]) // g.blocks[0] * g.block_strides[0])
        part.selection = <int32_t> i
        part.touched = 1
        part.together = False
        sorted = sorted and (count == 0 or in_order(part - 1, part) < 0)
        count += 1
    if not sorted:
        sort_parts(parts, count, g.block_grid[0] * g.block_strides[0])
    return count


cdef inline bint has_rows(Read self, int64_t nchunk, const Chunk *chunk) noexcept nogil:
    """Whether the rows of a chunk can be had without decoding or checking all of it."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t start = nchunk // g.chunk_strides[0] * g.chunks[0]
    if self.aside != NULL or self.own != NULL or (
            self.frame.checksums != NULL and min(g.chunks[0], g.shape[0] - start) == 1):
        return False
    return chunk.kind == KIND_RAW or (
        chunk.kind == KIND_REGULAR and not chunk.whole and not chunk.needs_geometry
        and chunk.blocksize == g.block_nbytes and chunk.nblocks <= MOST_STEPS)


cdef inline int64_t same_block(const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Where the parts end that need the same block as part `i`."""
    cdef int64_t end = i + 1
    while end < stop and parts[end].block == parts[i].block and parts[end].chunk == parts[i].chunk:
        end += 1
    return end


cdef inline int read_rows(Read self, DecodeContext *context, Chunk *chunk, const Part *parts, int64_t count,
                          uint8_t **targets, const int64_t *axes) noexcept nogil:
    """The rows of some parts that need the same block of a chunk that `has_rows`."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t nchunk = parts.chunk, length = g.item_strides[0], items = length // g.itemsize, last = 0, i
    cdef int64_t first = nchunk // g.chunk_strides[0] * g.chunks[0] + parts.block // g.block_strides[0] * g.blocks[0]
    cdef const uint8_t *source = NULL
    cdef bint shuffled = False
    cdef int status = CHUNK_OK
    if chunk.kind == KIND_RAW:
        source = chunk.data + CHUNK_HEADER + parts.block * g.block_nbytes
        status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + parts.block * g.block_nbytes,
                                      CHUNK_HEADER + (parts.block + 1) * g.block_nbytes)
    elif is_shared(self.frame, nchunk, chunk):
        status = shared_block(self.frame, nchunk, context, chunk, parts.block, &self.held)
        if self.held != NULL:
            source = self.held.data
    elif is_most(1, chunk.nblocks):
        status = self.frame.load_chunk(nchunk, context, chunk)
    if status:
        return status
    if source == NULL and g.blocks[0] == 1:
        status = self.frame.load_block(nchunk, context, chunk, parts.block)
        if status == CHUNK_OK:
            status = decode_block(context, chunk, parts.block, targets[parts.selection])
        if status:
            return status
        for i in range(1, count):   # the same row again
            memmove(targets[parts[i].selection], targets[parts.selection], <size_t> length)
        return CHUNK_OK
    if source == NULL:
        for i in range(count):
            last = max(last, axes[4 * parts[i].selection * g.ndim] - first)
        shuffled = (chunk.plain and chunk.filter == FILTER_SHUFFLE and chunk.typesize == g.itemsize
                    and unshuffles_parts(<int> g.itemsize) and chunk.blocksize <= LARGE_BLOCK
                    and (items >= SHORTEST_RUN or count * length <= g.block_nbytes // FEW))
        status = part_block(self.frame, nchunk, context, chunk, parts.block, shuffled,
                            <int32_t> ((last + 1) * (items if shuffled else length)), &source)
        if status:
            return status
    for i in range(count):
        last = axes[4 * parts[i].selection * g.ndim] - first
        if shuffled:
            unshuffle_items(targets[parts[i].selection], source + last * items, chunk.blocksize // g.itemsize, items,
                            <int> g.itemsize)
        else:
            memcpy(targets[parts[i].selection], source + last * length, <size_t> length)
    return CHUNK_OK
