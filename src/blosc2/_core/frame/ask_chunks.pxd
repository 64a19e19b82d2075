# cython: cdivision=True, boundscheck=False, wraparound=False
"""Asking for chunks and blocks before they are read: where they lie, as far as that is known without them."""

from libc.stdint cimport int32_t, int64_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, Chunk, block_span, in_order
from blosc2._core.frame.chunk_table cimport FIRST_READ, ChunkTable
from blosc2._core.io.endian cimport i32
from blosc2._core.io.readahead cimport ONE_REQUEST, PAGE, SLOW_GAP, Wanted, ask_range, want

cdef enum:
    # A chunk of so few bytes is asked for as a whole, without knowing where its blocks lie.
    SMALL_CHUNK = 16384
    # Blocks of a chunk among which the one that follows is looked for.
    MOST_SCANNED = 4096


cdef inline int64_t reach(ChunkTable table, int64_t index) noexcept nogil:
    """No fewer bytes than a stored chunk has: as far as the next one, or as it can be."""
    cdef int64_t start = table.entry(index)
    cdef int64_t end = table.chunks_stop - table.chunks_start
    cdef int64_t following
    if table.offsets != NULL and index + 1 < table.chunk_count:
        following = table.offsets[index + 1]
        if start < following < end:
            end = following
    if not table.variable and end - start > table.chunksize + CHUNK_HEADER:
        end = start + table.chunksize + CHUNK_HEADER
    return end - start


cdef inline int open_asked(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int64_t nbytes) noexcept nogil:
    """What `open_chunk` does, of a chunk that is read alone; it is asked for if half of it or more is to be read.

    A positional read of a file needs no asking.
    """
    if (table.source.base != NULL or table.source.far) and 2 * nbytes >= table.chunksize and table.entry(index) >= 0:
        ask_range(table.source, table.chunks_start + table.entry(index), reach(table, index))
    return table.open_chunk(index, context, chunk)


cdef inline bint is_most(int64_t touched, int64_t nblocks) noexcept nogil:
    """Whether so many blocks of a chunk are so nearly all that it is read as a whole."""
    return 4 * touched >= 3 * nblocks


cdef inline bint is_wanted_whole(ChunkTable table, int64_t index, int64_t touched, int64_t nblocks) noexcept nogil:
    """Whether to want all of a chunk, of whose blocks so many are needed."""
    return is_most(touched, nblocks) or table.each_read or reach(table, index) <= SMALL_CHUNK


cdef inline void want_chunk(ChunkTable table, Wanted *wanted, int64_t index, int64_t nblocks, bint whole) noexcept nogil:
    """Want a stored chunk, or what says where its `nblocks` blocks lie."""
    cdef int64_t size = reach(table, index)
    cdef int64_t head = CHUNK_HEADER + 4 * nblocks
    if wanted.base == NULL and head < FIRST_READ:
        head = FIRST_READ
    want(wanted, table.chunks_start + table.entry(index), size if whole else min(size, head))


cdef inline void want_beginning(ChunkTable table, Wanted *wanted, int64_t index, int64_t nblocks,
                                int64_t touched, int64_t last) noexcept nogil:
    """Want blocks that lie at the beginning of a chunk together with what says where they are: one wait, not two.

    Of the blocks up to number `last`, `touched` are needed. Where they lie is a guess: as if all blocks had the same size.
    """
    cdef int64_t head = CHUNK_HEADER + 4 * nblocks
    cdef int64_t size, block, stop
    if last < 0 or table.offsets == NULL:
        return
    size = table.chunks_stop - table.chunks_start if index + 1 == table.chunk_count else table.offsets[index + 1]
    size -= table.entry(index)
    block = (size - head) // nblocks
    if block <= 0 or size > table.chunksize + CHUNK_HEADER:  # it is not the next chunk that follows in the file
        return
    stop = min(head + (last + 1) * block + block // 8, size)
    if stop <= ONE_REQUEST - PAGE and (last + 1 - touched) * block <= min(touched * block // 2, <int64_t> SLOW_GAP):
        want(wanted, table.chunks_start + table.entry(index), stop)


cdef inline bint find_blocks(
        ChunkTable table, Wanted *wanted, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Find a chunk of which blocks are wanted; waits for its first bytes. Whether `want_block` can tell where they lie.

    If it cannot, because all of the chunk is decoded at once, all of it is wanted. What is wrong is left to the read.
    """
    cdef int status = table.find_chunk(index, context, chunk)
    if status != CHUNK_OK or chunk.data == NULL or chunk.kind < KIND_RAW:
        return False
    if chunk.whole or chunk.needs_geometry:
        want(wanted, table.chunks_start + table.entry(index), chunk.cbytes)
        return False
    return chunk.kind != KIND_REGULAR or table.load_span(
        index, chunk, chunk.loaded, CHUNK_HEADER + 4 * <int64_t> chunk.nblocks) == CHUNK_OK


cdef inline void want_block(
        ChunkTable table, Wanted *wanted, int64_t index, const Chunk *chunk, int64_t block, int64_t nbytes) noexcept nogil:
    """Want a block of a chunk that was found, which has `nbytes` uncompressed bytes."""
    cdef int64_t at = table.chunks_start + table.entry(index)
    cdef int32_t start, stop, other, i
    if chunk.kind == KIND_RAW:
        want(wanted, at + CHUNK_HEADER + block * nbytes, min(nbytes, chunk.cbytes - CHUNK_HEADER - block * nbytes))
        return
    if block >= chunk.nblocks or block_span(chunk, <int32_t> block, &start, &stop) != CHUNK_OK:
        return
    if block + 1 < chunk.nblocks and not in_order(chunk, <int32_t> block):
        # Threads of the C library store blocks in the order in which they end.
        if wanted.base == NULL or chunk.nblocks > MOST_SCANNED:
            start, stop = 0, chunk.cbytes   # as they are read
        else:
            for i in range(chunk.nblocks):
                other = i32(chunk.data + CHUNK_HEADER + 4 * <int64_t> i)
                if start < other < stop:
                    stop = other
    want(wanted, at + start, stop - start)
