# cython: cdivision=True, boundscheck=False, wraparound=False
"""The parts that selections fall into: one for each chunk that a selection touches, in the order of chunks and blocks."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from blosc2._core.ndim.geometry cimport MAX_DIM, Grid
from blosc2._core.ndim.grid cimport Box, Operation, clip
from blosc2._core.ndim.sort_numbers cimport Numbered, sort_numbers

cdef enum:
    # Bytes of a chunk that is decoded at once for several parts.
    MOST_TOGETHER = 8 << 20
    # What a part costs besides its blocks, in bytes of these.
    PART = 256
    # Parts from which on they are sorted by the bytes of their numbers.
    MANY = 64


cdef struct Part:
    int64_t chunk
    int32_t block       # the first that it touches there
    int32_t selection
    int32_t touched     # blocks
    bint together       # the chunk is decoded once for all of its parts


cdef inline int in_order(const void *a, const void *b) noexcept nogil:
    cdef const Part *x = <const Part *> a
    cdef const Part *y = <const Part *> b
    if x.chunk != y.chunk:
        return -1 if x.chunk < y.chunk else 1
    if x.block != y.block:
        return -1 if x.block < y.block else 1
    return (x.selection > y.selection) - (x.selection < y.selection)


cdef inline void sort_parts(Part *parts, int64_t count, int64_t blocks) noexcept nogil:
    """Put parts, which are in the order of their selections, in the order of their blocks, of which a chunk has so many."""
    cdef size_t nbytes = <size_t> count * sizeof(Part)
    cdef Numbered *order = NULL
    cdef Numbered *sorted
    cdef Part *copy
    cdef uint64_t least, most
    cdef int64_t i
    if count >= MANY:
        order = <Numbered *> malloc(2 * <size_t> count * sizeof(Numbered) + nbytes)
    if order == NULL:
        qsort(parts, <size_t> count, sizeof(Part), in_order)
        return
    least, most = ~<uint64_t> 0, 0
    for i in range(count):
        order[i].number = <uint64_t> parts[i].chunk * <uint64_t> blocks + <uint64_t> parts[i].block
        order[i].at = i
        least = min(least, order[i].number)
        most = max(most, order[i].number)
    for i in range(count):
        order[i].number -= least
    copy = <Part *> (order + 2 * count)
    memcpy(copy, parts, nbytes)
    sorted = sort_numbers(order, order + count, count, most - least)
    for i in range(count):
        parts[i] = copy[sorted[i].at]
    free(order)


cdef inline bint is_repeated(const Part *parts, int64_t i) noexcept nogil:
    """Whether a part needs just the block that the part before it has left decoded."""
    return (i > 0 and parts[i].touched == 1 and parts[i - 1].touched == 1
            and parts[i].chunk == parts[i - 1].chunk and parts[i].block == parts[i - 1].block)


cdef inline int64_t cost_of(const Part *parts, const Grid *g, int64_t i) noexcept nogil:
    """The work for a part, in bytes to be decoded."""
    cdef const Part *part = &parts[i]
    cdef int64_t touched = part.touched * g.block_nbytes
    if part.together:
        if i == 0 or parts[i - 1].chunk != part.chunk:
            return PART + g.chunk_nbytes
        return PART + touched // 8
    return PART if is_repeated(parts, i) else PART + touched


cdef inline int64_t list_parts(
        const Grid *g, const int64_t *all_axes, const int64_t *rooms, int64_t first, int64_t stop, Part *parts) noexcept nogil:
    """Put the parts of selections ``first .. stop`` in the order of chunks and blocks; returns how many there are.

    For each selection `all_axes` has start, step, count and stride of each axis, and `rooms` how many chunks it may touch.
    """
    cdef int64_t low[MAX_DIM]
    cdef int64_t many[MAX_DIM]
    cdef int64_t i, task, rest, c, begin, taken, index, block, last, nblock, nchunk, touched, count = 0
    cdef int64_t blocks = 1, sum
    cdef const int64_t *axes
    cdef Part *part
    cdef bint hit, sorted = True
    cdef int d
    for d in range(g.ndim):
        blocks *= g.block_grid[d]
    for i in range(first, stop):
        if rooms[i] == 0:
            continue
        axes = all_axes + 4 * i * g.ndim
        for d in range(g.ndim):
            low[d] = axes[4 * d] // g.chunks[d]
            many[d] = (axes[4 * d] + (axes[4 * d + 2] - 1) * axes[4 * d + 1]) // g.chunks[d] - low[d] + 1
        for task in range(rooms[i]):
            rest = task
            nblock = nchunk = 0
            touched = 1
            hit = True
            for d in range(g.ndim - 1, -1, -1):
                c = low[d]
                if many[d] > 1:
                    c += rest % many[d]
                    rest //= many[d]
                hit = clip(axes[4 * d], axes[4 * d + 1], axes[4 * d + 2], c * g.chunks[d], g.chunks[d],
                           &begin, &taken, &index)
                if not hit:
                    break  # steps pass over the chunk
                nchunk += c * g.chunk_strides[d]
                block = begin // g.blocks[d]
                last = (begin + (taken - 1) * axes[4 * d + 1]) // g.blocks[d]
                nblock += block * g.block_strides[d]
                touched *= last - block + 1
            if not hit:
                continue
            part = &parts[count]
            part.chunk = nchunk
            part.block = <int32_t> nblock
            part.selection = <int32_t> i
            part.touched = <int32_t> touched
            part.together = False
            sorted = sorted and (count == 0 or in_order(part - 1, part) < 0)
            count += 1
    if not sorted:
        sort_parts(parts, count, blocks)
    # Where the parts of a chunk touch more blocks than it has, some are touched more than once.
    i = 0
    while i < count:
        begin = i
        sum = 0
        while i < count and parts[i].chunk == parts[begin].chunk:
            if not is_repeated(parts, i):
                sum += parts[i].touched
            i += 1
        if sum > blocks and i - begin > 1 and g.chunk_nbytes <= MOST_TOGETHER:
            for task in range(begin, i):
                parts[task].together = True
    return count


cdef inline int64_t nth_block(const Grid *g, const int64_t *low, const int64_t *many, int64_t i) noexcept nogil:
    """The number of the `i`-th of the blocks that a box touches: on each axis `many`, from `low` on."""
    cdef int64_t block = 0
    cdef int d
    for d in range(g.ndim - 1, -1, -1):
        block += (low[d] + i % many[d]) * g.block_strides[d]
        i //= many[d]
    return block


cdef inline bint clip_to_block(Operation self, const Box *box, const int64_t *low, const int64_t *many, int64_t i,
                               int64_t *nblock, Box *part, int64_t *offset) noexcept nogil:
    """What a box takes of the `i`-th block that it touches, and where that begins in the block, in bytes; False for nothing."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t b
    cdef int d
    nblock[0] = offset[0] = 0
    for d in range(g.ndim - 1, -1, -1):
        b = low[d] + i % many[d]
        i //= many[d]
        nblock[0] += b * g.block_strides[d]
        if not clip(box.first[d], self.step[d], box.count[d], b * g.blocks[d], g.blocks[d],
                    &part.first[d], &part.count[d], &part.index[d]):
            return False
        part.index[d] += box.index[d]
        offset[0] += part.first[d] * g.item_strides[d]
    return True
