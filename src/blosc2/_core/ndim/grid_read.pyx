# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Reading one selection (`Read`), or many of one array together (`ReadMany`), and asking for their bytes ahead.

Decoded blocks are scattered into a NumPy array, or decoded straight into it, where a block, or a whole chunk, is one run of
the array.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

from blosc2._core.codec.chunk cimport (
    BAD_LENGTH, BAD_SPECIAL, BAD_SUM, CHUNK_HEADER, CHUNK_OK, FILTER_SHUFFLE, KIND_RAW, KIND_REGULAR, KIND_VALUE,
    MOST_STEPS, NO_MEMORY, Chunk, block_bytes, block_span, block_start, fill, in_order, reads_in_streams)
from blosc2._core.codec.codec cimport (
    DecodeContext, Encoder, borrow, decode_block, decode_whole_chunk, give_back, reserve_scratch)
from blosc2._core.codec.shared_blocks cimport (
    SharedBlock, cache_is_on, foresee_block, foresee_bucket, is_block, leave_block, new_block, put_block, take_block)
from blosc2._core.codec.thread_pool cimport Job, WorkerGroup, acquire_group, release_group, run_in_group, worth_threads
from blosc2._core.frame.frame cimport (
    LARGE_BLOCK, ChunkChecksum, ChunkTable, Frame, check_chunk_checksums, chunk_checksums, find_blocks, is_most,
    is_wanted_whole, note_checksum, part_block, stays_with_gil, want_beginning, want_block, want_chunk)
from blosc2._core.io.checksum cimport checksum, copy_and_checksum, joined, zip_checksum, zip_joined
from blosc2._core.io.memory cimport FRESH_LEAST, FRESH_MOST, bring_pages, is_fresh, prefetch, prefetch_starts
from blosc2._core.io.endian cimport u32
from blosc2._core.io.readahead cimport (
    AHEAD_BYTES, PAGE, Wanted, begin_asking, end_asking, is_cold, is_due, send_early, send_requests)
from blosc2._core.io.steps cimport counter_next, number_get, number_set, state_change, state_get, state_set
from blosc2._core.ndim.geometry cimport (
    MAX_DIM, REVERSED, Ahead, Box, Geometry, Grid, Operation, clip, copy_items, locate, parse_key)

# Sorting by the bytes of numbers, which compares nothing: hundreds of numbers take a fifth of the time.


cdef enum:
    DIGITS = 256


cdef struct Numbered:
    uint64_t number
    int64_t at


cdef inline Numbered *sort_numbers(Numbered *items, Numbered *room, int64_t count, uint64_t most) noexcept nogil:
    """Sort by numbers up to `most`; the same ones stay in their order. Returns where they are then: one of both arrays."""
    cdef int64_t starts[DIGITS]
    cdef int64_t i, sum, many
    cdef int shift = 0
    cdef uint64_t digit
    cdef Numbered *sorted
    while True:
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[items[i].number >> shift & <uint64_t> (DIGITS - 1)] += 1
        sum = 0
        for i in range(DIGITS):
            many = starts[i]
            starts[i] = sum
            sum += many
        for i in range(count):
            digit = items[i].number >> shift & <uint64_t> (DIGITS - 1)
            room[starts[digit]] = items[i]
            starts[digit] += 1
        sorted, room = room, items
        items = sorted
        shift += 8
        if shift == 64 or most >> shift == 0:
            return sorted


# The parts that selections fall into: one for each chunk that a selection touches, in the order of chunks and blocks.


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


cdef inline int part_order(const void *a, const void *b) noexcept nogil:
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
        qsort(parts, <size_t> count, sizeof(Part), part_order)
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
            sorted = sorted and (count == 0 or part_order(part - 1, part) < 0)
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


# Checking a chunk that several threads read in pieces: each sums the stored bytes that it reads, the last one joins them.


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


# Asking for the chunks and blocks that an operation reads, ahead of it: a batch of tasks at a time.
#
# What lies where is known in two steps: where chunks lie from the table of offsets, and where their blocks lie from their
# own first bytes. Each step asks for all that it knows, so that a read waits twice, however many blocks it needs. When the
# first task of a batch is begun, the next batch is asked for.
#
# One thread asks at a time: `busy` guards how far was asked, and how large a batch is. All threads look at `resume` before
# each task, and it may change meanwhile. It orders nothing: who comes too early or too late finds out behind `busy`.


cdef enum:
    # Stored bytes of an array of which nothing is worth asking for.
    FEW_BYTES = 16384
    # Tasks of a read that is not looked at any further where bytes are in memory anyway.
    FEW_TASKS = 16
    # The first bytes of all chunks are asked for with blocks that have so many times their bytes.
    HEADS_PART = 8


cdef struct Touched:
    # The blocks that a box touches in a chunk, and which of its steps.
    int64_t low[MAX_DIM]
    int64_t many[MAX_DIM]
    int64_t count


cdef inline int64_t blocks_of(const Grid *g) noexcept nogil:
    cdef int64_t blocks = 1
    cdef int d
    for d in range(g.ndim):
        blocks *= g.block_grid[d]
    return blocks


cdef inline void touch(const Grid *g, const Box *box, const int64_t *step, int64_t apart, Touched *touched) noexcept nogil:
    cdef int d
    touched.count = 1
    for d in range(g.ndim):
        touched.low[d] = box.first[d] // g.blocks[d]
        touched.many[d] = (box.first[d] + (box.count[d] - 1) * step[d * apart]) // g.blocks[d] - touched.low[d] + 1
        touched.count *= touched.many[d]


cdef inline int64_t last_of(const Grid *g, const int64_t *step, const Touched *touched) noexcept nogil:
    """The number of the last block that a box touches in a chunk; -1 if its steps may pass over blocks."""
    cdef int64_t last = 0
    cdef int d
    for d in range(g.ndim):
        if step[d] > g.blocks[d]:
            return -1
        last += (touched.low[d] + touched.many[d] - 1) * g.block_strides[d]
    return last


cdef inline void want_blocks(Frame frame, Wanted *wanted, int64_t nchunk, const Chunk *chunk, const Grid *g, const Box *box,
                             const int64_t *step, int64_t apart, const Touched *touched) noexcept nogil:
    """Want the blocks that a box touches in a chunk that was found."""
    cdef int64_t i, rest, b, nblock, first, taken, index
    cdef bint hit
    cdef int d
    for i in range(touched.count):
        rest = i
        nblock = 0
        hit = True
        for d in range(g.ndim - 1, -1, -1):
            b = touched.low[d] + rest % touched.many[d]
            rest //= touched.many[d]
            nblock += b * g.block_strides[d]
            if step[d * apart] > g.blocks[d]:   # steps may pass over blocks
                hit = hit and clip(box.first[d], step[d * apart], box.count[d], b * g.blocks[d], g.blocks[d],
                                   &first, &taken, &index)
        if hit:
            want_block(frame, wanted, nchunk, chunk, nblock, g.block_nbytes)


cdef inline void want_heads(Frame frame, Wanted *wanted, int64_t blocks, int64_t nblocks) noexcept nogil:
    """Want what says where the blocks of all chunks lie, once, when `blocks` blocks were not in memory that have far more bytes.

    Reads of other parts of the array then wait once and not twice.
    """
    cdef int64_t i, nbytes = frame.chunk_count * (PAGE + CHUNK_HEADER + 4 * nblocks)
    if (wanted.late == 0 or wanted.left or frame.chunk_count < 2
            or nbytes > blocks * (frame.cbytes // (frame.chunk_count * nblocks)) // HEADS_PART
            or not state_change(&frame.heads_wanted, 0, 1)):
        return
    for i in range(frame.chunk_count):
        if frame.entry(i) >= 0:
            want_chunk(frame, wanted, i, nblocks, False)


# ---------------------------------------------------------------------- one selection
cdef inline bint find_task(Operation self, int64_t task, int64_t *nchunk, Box *box, Touched *touched,
                           int64_t *begin, int64_t *end) noexcept nogil:
    """The chunk of a task and how many of its blocks are needed; False where none is."""
    if self.by_points:
        if not self.task_points(task, nchunk, box, begin, end):
            return False
    elif not self.box_of(task, nchunk, box):
        return False
    if self.frame.entry(nchunk[0]) < 0:
        return False
    touch(&self.geometry.c, box, self.step, 1, touched)
    if self.by_points:
        touched.count *= end[0] - begin[0]
    return True


cdef inline void ask_for_tasks(Operation self, DecodeContext *context, int64_t first, int64_t stop) noexcept nogil:
    """Ask for what tasks need that are not divided."""
    cdef Grid *g = &self.geometry.c
    cdef Wanted wanted
    cdef Touched touched
    cdef Box box
    cdef Chunk chunk
    cdef int64_t task, point, begin = 0, end = 0, nchunk = 0, nblocks = blocks_of(g), blocks = 0
    cdef bint whole, again = False
    cdef int d
    begin_asking(self.frame.source, self.frame.source.asking, &wanted)
    for task in range(first, stop):
        if find_task(self, task, &nchunk, &box, &touched, &begin, &end):
            whole = is_wanted_whole(self.frame, nchunk, touched.count, nblocks)
            # The only one is read at once, and then nothing is gained by asking.
            if whole or stop - first > 1:
                want_chunk(self.frame, &wanted, nchunk, nblocks, whole)
            if wanted.state.slow and not (whole or self.by_points or wanted.far):
                want_beginning(self.frame, &wanted, nchunk, nblocks, touched.count, last_of(g, self.step, &touched))
            again = again or not whole
    wanted.leaf = not again and stop - first == self.frame.chunk_count
    send_requests(&wanted)
    if again:
        for task in range(first, stop):
            if (not find_task(self, task, &nchunk, &box, &touched, &begin, &end)
                    or is_wanted_whole(self.frame, nchunk, touched.count, nblocks)
                    or not find_blocks(self.frame, &wanted, nchunk, context, &chunk)):
                continue
            if self.by_points:
                touched.count //= end - begin
                for point in range(begin, end):
                    for d in range(g.ndim):
                        if self.pointed[d]:
                            touched.low[d] = self.indices[d][point] % g.chunks[d] // g.blocks[d]
                    want_blocks(self.frame, &wanted, nchunk, &chunk, g, &box, self.step, 1, &touched)
            else:
                want_blocks(self.frame, &wanted, nchunk, &chunk, g, &box, self.step, 1, &touched)
                blocks += touched.count
            send_early(&wanted)
        want_heads(self.frame, &wanted, blocks, nblocks)
    end_asking(&wanted, 1)


cdef inline int64_t batch_of(const Ahead *ahead, int64_t units, int64_t stored) noexcept nogil:
    """How many of so many tasks, which need so many stored bytes, are asked for at a time."""
    return units if stored <= AHEAD_BYTES else max(<int64_t> (<double> units * AHEAD_BYTES / stored), 1)


cdef inline bint next_batch(Operation self, int64_t end, int64_t pieces, int64_t *first, int64_t *stop) noexcept nogil:
    """The tasks, or parts, to ask for next, of `pieces` pieces each; False where none is left, or now is not the time."""
    first[0] = self.ahead.asked
    stop[0] = self.ahead.asked = min(first[0] + self.ahead.batch, end)
    number_set(&self.ahead.resume, first[0] * pieces if first[0] < end else INT64_MAX)
    return first[0] < end and is_due(self.frame.source.asking)


cdef inline bint asks(Operation self) noexcept nogil:
    """Whether an operation may have to ask; most need not look any further."""
    return not (self.frame.source.asking == NULL or self.frame.cbytes <= FEW_BYTES or self.tasks == 0 or (
        self.tasks <= FEW_TASKS and not is_due(self.frame.source.asking)))


cdef inline void begin_batches(Operation self) noexcept nogil:
    """Find out with which task asking begins, and for how many it is done at a time."""
    cdef int64_t units = self.tasks // self.pieces, nbytes
    cdef int64_t stored = <int64_t> (<double> self.frame.cbytes * units / max(self.frame.chunk_count, 1))
    cdef int d
    if stored > AHEAD_BYTES and not self.by_points:
        # Of large chunks of which little is needed there may be many; blocks take more than their items.
        nbytes = 4 * self.geometry.c.itemsize
        for d in range(self.geometry.c.ndim):
            nbytes *= self.count[d]
        stored = min(stored, <int64_t> (<double> nbytes * self.frame.cbytes / max(self.frame.nbytes, 1)))
    # Others draw tasks meanwhile. Which of them they have drawn matters little: of these, too, bytes may be asked for.
    self.ahead.asked = number_get(&self.next_task) // self.pieces
    self.ahead.batch = batch_of(&self.ahead, units, stored)


cdef inline void begin_tasks(Operation self, DecodeContext *context) noexcept nogil:
    """Ask for the first tasks, or for the next, unless another thread does."""
    cdef int64_t first = 0, stop = 0
    if state_change(&self.ahead.busy, 0, 1):
        if self.ahead.batch == 0:
            begin_batches(self)
        if next_batch(self, self.stop_task // self.pieces, self.pieces, &first, &stop):
            ask_for_tasks(self, context, first, stop)
        state_set(&self.ahead.busy, 0)


# Having the processor bring what the next parts need, while one of them is decoded or copied.
#
# Nobody else foresees small blocks in random order, and to wait for one takes as long as to decode it. Blocks of the block
# cache stand in its table. Where stored ones begin stands in their chunk: that is brought first, and some parts later the
# block. What is read here is a hint and nothing else: whoever decodes a block reads it anew, and checks it.


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


# Blocks through the block cache of the process.


cdef inline bint is_shared(ChunkTable table, int64_t index, const Chunk *chunk) noexcept nogil:
    """Whether the blocks of a chunk are cached. Special chunks, raw ones and those in memory are at hand anyway."""
    return (state_get(&cache_is_on) != 0 and chunk.kind == KIND_REGULAR and chunk.data != NULL and chunk.blocksize <= LARGE_BLOCK
            and table.source.serial != 0 and not chunk.needs_geometry and not chunk.variable)


cdef inline int shared_block(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block, SharedBlock **found) noexcept nogil:
    """A block of a chunk that `is_shared`, for `leave_block`; NULL where it has to be decoded in another way.

    `found` has the block that was read before, or NULL. It is left, unless it is the same.
    """
    cdef int64_t position = table.chunks_start + table.entry(index)
    cdef SharedBlock *entry = found[0]
    cdef int status
    if entry != NULL:
        if is_block(entry, table.source.serial, position, chunk, block):
            return CHUNK_OK
        leave_block(entry)
    found[0] = entry = take_block(table.source.serial, position, chunk, block)
    if entry != NULL:
        return CHUNK_OK
    entry = new_block(table.source.serial, position, chunk, block)
    if entry == NULL:
        return CHUNK_OK
    status = table.load_block(index, context, chunk, block)
    if status == CHUNK_OK:
        status = decode_block(context, chunk, block, entry.data)
    if status:
        leave_block(entry)
        return status
    put_block(entry, chunk)
    found[0] = entry
    return CHUNK_OK


cdef enum:
    # Of a shuffled block: items that are undone together, and which part of a block is few items.
    SHORTEST_RUN = 8
    FEW = 32


cnp.import_array()

cdef extern from "codec/unshuffle.h" nogil:
    bint unshuffles_parts(int itemsize)
    void unshuffle_items(uint8_t *to, const uint8_t *planes, int64_t plane, int64_t n, int itemsize)
    void unshuffle_box(uint8_t *to, const int64_t *to_strides, const uint8_t *planes, int64_t plane,
                       const int64_t *strides, const int64_t *count, int ndim, int itemsize)

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef enum:
    # Pieces for each thread: they do not all take the same time.
    PIECES = 4
    # How many times less work is worth a second thread where bytes were not in memory just now, and how many times more
    # pieces: all bytes may come at once, and then the threads are to end at once.
    COLD = 4
    # Bytes of a new result whose pages are brought while the bytes of the file are on their way.
    FEW_PAGES = 1 << 16
    # Bytes of items of which whole blocks, too, are undone row by row, straight into the result.
    STRAIGHT = 4


cdef class Read(Operation):
    """Read a selection into a NumPy array: one with an axis for each of the array, of any strides, or a C-contiguous one."""

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

    cdef uint32_t flags             # of `parse_key`
    # Memory that was made for the result, whose pages are to be brought while bytes of the file are on their way.
    cdef void *fresh
    cdef int64_t fresh_nbytes
    cdef long unbrought

    def finish(self):
        """Raise what went wrong in any thread, or in the checksums of all chunks together."""
        if self.status:
            self.frame.fail(<int> self.status, self.failed)
        if self.own != NULL:
            check_chunk_checksums(self.frame, self.own)

    cdef int watch(self) except -1:
        """Sum all chunks on the way, if all items are read of a frame that is checked by all its bytes."""
        cdef Grid *g = &self.geometry.c
        cdef bytes room
        cdef int d
        if self.tasks == 0 or self.by_points:
            return 0
        for d in range(g.ndim):
            if self.count[d] != g.shape[d]:
                return 0
        room = chunk_checksums(self.frame)
        self.keep_points = [room]
        self.own = <ChunkChecksum *> PyBytes_AS_STRING(room)
        return 0

    cdef int bring_whole(self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil:
        """Bring a chunk all of which is wanted, and sum it for all chunks together."""
        cdef int status = self.frame.load_and_check(nchunk, context, chunk)
        if status == CHUNK_OK and chunk.data != NULL and nchunk < self.frame.chunk_count:
            note_checksum(self.own + nchunk, chunk)
        return status

    cdef int share(self, int64_t threads) except -1:
        """Divide chunks between threads when there are too few of them."""
        cdef int64_t blocks = 1, pieces = PIECES * threads * (COLD if self.cold else 1)
        cdef int d
        if self.tasks == 0 or self.pieces > 1 or self.by_points or self.tasks >= PIECES * threads:
            return 0
        for d in range(self.geometry.c.ndim):
            blocks *= self.geometry.c.block_grid[d]
        self.pieces = min(blocks, (pieces + self.tasks - 1) // self.tasks)
        self.share_sums()
        self.tasks *= self.pieces
        self.stop_task = self.tasks
        return 0

    cdef int share_sums(self) except -1:
        """Room for the checksums of pieces, if chunks are checked when they are read as a whole."""
        cdef bytes sums, left
        cdef int64_t i
        if self.pieces == 1 or self.frame.each_read or (self.frame.checksums == NULL and self.own == NULL):
            return 0
        sums = bytes(self.tasks * self.pieces * <int64_t> sizeof(PieceSum))
        left = bytes(self.tasks * <int64_t> sizeof(long))
        self.keep_sums = (sums, left)
        self.sums = <PieceSum *> PyBytes_AS_STRING(sums)
        self.left = <long *> PyBytes_AS_STRING(left)
        for i in range(self.tasks):
            self.left[i] = self.pieces
        return 0

    def __init__(self, Frame frame not None, Geometry geometry not None, start, step, count, cnp.ndarray out not None,
                 points=None):
        cdef int64_t size = 1
        cdef int d
        self.frame = frame
        self.geometry = geometry
        cdef bint same = cnp.PyArray_NDIM(out) == geometry.c.ndim
        self.select(start, step, count)
        if not cnp.PyArray_ISWRITEABLE(out):
            raise ValueError("the result must be writable")
        self.take(out)
        for d in range(geometry.c.ndim):
            size *= self.count[d]
            same = same and cnp.PyArray_DIM(out, d) == self.count[d]
        if same and points is None:
            for d in range(geometry.c.ndim):
                self.strides[d] = cnp.PyArray_STRIDE(out, d)
        elif not cnp.PyArray_IS_C_CONTIGUOUS(out):
            raise ValueError("the result must be C-contiguous, or have the axes of the array")
        elif points is not None:
            self.pick(out, points)
        elif cnp.PyArray_SIZE(out) != size:
            raise ValueError(f"the result has {cnp.PyArray_SIZE(out)} items, the selection {size}")
        if frame.by_member:
            self.watch()

    cdef int take(self, cnp.ndarray out) except -1:
        """Write into `out`, which has the items of the selection in C order, whatever its own axes are."""
        cdef int64_t stride = self.geometry.c.itemsize
        cdef int d
        if cnp.PyArray_ITEMSIZE(out) != stride:
            raise ValueError("the result has items of another size than the array")
        self.keep = out
        self.data = <uint8_t *> cnp.PyArray_DATA(out)
        for d in range(self.geometry.c.ndim - 1, -1, -1):
            self.strides[d] = stride
            stride *= self.count[d]
        self.frame.load_index()
        return 0

    cdef void ask_ahead(self, DecodeContext *context) noexcept nogil:
        begin_tasks(self, context)

    cdef void begin(self, DecodeContext *context) noexcept nogil:
        if not self.ahead.alone:
            state_set(&self.ahead.begun, 1)
            if asks(self):
                begin_tasks(self, context)

    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil:
        cdef int64_t task, nchunk = 0, begin = 0, end = 0
        cdef Box box
        cdef int status
        # While one thread asks the others begin to read.
        if (self.ahead.alone or state_change(&self.ahead.begun, 0, 1)) and asks(self):
            self.ask_ahead(context)
        if self.cold and state_change(&self.unbrought, 1, 0):
            bring_pages(self.fresh, self.fresh_nbytes)
        while True:
            task = self.draw()
            if task < 0:
                break
            if task >= number_get(&self.ahead.resume):
                self.ask_ahead(context)
            if self.by_points:
                if not self.task_points(task, &nchunk, &box, &begin, &end):
                    continue
                status = self.read_points(context, nchunk, &box, begin, end)
            elif self.box_of(task // self.pieces, &nchunk, &box):
                status = self.read_chunk(context, task, nchunk, &box)
            else:
                continue
            if status:
                self.note_failure(status, nchunk)

    cdef int open_padded(self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil:
        """Find a chunk, which has all blocks of the grid."""
        cdef int status = self.frame.open_chunk(nchunk, context, chunk)
        return BAD_LENGTH if status == CHUNK_OK and chunk.nbytes != self.geometry.c.chunk_nbytes else status

    cdef int decode_aside(self, int64_t nchunk, DecodeContext *context, Chunk *chunk, uint8_t **scratch) noexcept nogil:
        """All of a chunk whose blocks cannot be had one by one, or not cheaply."""
        cdef int status = whole(self, nchunk, context, chunk)
        if status:
            return status
        scratch[0] = reserve_scratch(context, chunk.nbytes)
        if scratch[0] == NULL:
            return NO_MEMORY
        if chunk.needs_geometry and self.frame.plugin is not None:
            return self.frame.plugin.decode(chunk, scratch[0])
        return decode_whole_chunk(context, chunk, scratch[0])

    cdef int read_points(self, DecodeContext *context, int64_t nchunk, const Box *box, int64_t begin, int64_t end) noexcept nogil:
        """The items of points in a chunk."""
        cdef Grid *g = &self.geometry.c
        cdef Chunk chunk
        cdef uint8_t *scratch = NULL
        cdef int64_t steps
        cdef int status = self.open_padded(nchunk, context, &chunk)
        if status:
            return status
        if chunk.kind == KIND_RAW:
            return self.move_points(
                context, nchunk, &chunk, box, begin, end, <uint8_t *> chunk.data + CHUNK_HEADER, NULL)
        if chunk.kind < KIND_RAW:
            status = self.frame.load_and_check(nchunk, context, &chunk)
            if status:
                return status
            if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
                return BAD_SPECIAL
            scratch = reserve_scratch(context, g.block_nbytes)
            if scratch == NULL:
                return NO_MEMORY
            status = fill(&chunk, 0, scratch, g.block_nbytes)
            return status if status else self.move_points(context, nchunk, &chunk, box, begin, end, NULL, scratch)
        steps = chunk.nblocks
        if chunk.whole or chunk.needs_geometry or chunk.blocksize != g.block_nbytes or steps * steps > MOST_STEPS:
            status = self.decode_aside(nchunk, context, &chunk, &scratch)
            return status if status else self.move_points(context, nchunk, &chunk, box, begin, end, scratch, NULL)
        return self.move_points(context, nchunk, &chunk, box, begin, end, NULL, NULL)

    cdef int read_chunk(self, DecodeContext *context, int64_t task, int64_t nchunk, const Box *box) noexcept nogil:
        cdef Chunk chunk
        cdef int64_t unit = task // self.pieces
        cdef int status = self.open_padded(nchunk, context, &chunk)
        if status == CHUNK_OK:
            status = self.read_opened(
                context, nchunk, &chunk, box, task % self.pieces, NULL if self.sums == NULL else self.sums + task)
        if self.sums != NULL and is_last(self.left + unit) and status == CHUNK_OK:
            status = join_pieces(self, context, unit * self.pieces, nchunk)
        return status

    cdef int read_opened(
            self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t piece, PieceSum *sum) noexcept nogil:
        """The part of the selection in a chunk, or a piece of that part.

        If all of the chunk is read, it is checked: block by block, each before it is decoded; or as a whole by the first
        piece, where its blocks are in disorder. `sum` is of this piece; NULL if pieces are not joined.
        """
        cdef Grid *g = &self.geometry.c
        cdef const uint8_t *decoded = NULL  # the whole chunk, where it is at hand
        cdef uint8_t *scratch = NULL
        cdef int64_t touched = 1
        cdef bint known = False     # whether all of the chunk was brought
        cdef bint aside             # whether it is decoded as a whole, not block by block
        cdef PieceSum all_of_it
        cdef int64_t begin, end
        cdef int64_t[MAX_DIM] low
        cdef int64_t[MAX_DIM] many
        cdef int d
        cdef int status = CHUNK_OK
        if chunk.kind < KIND_RAW:
            return CHUNK_OK if piece else fill_special(self, context, nchunk, chunk, box)
        if (self.pieces == 1 and g.in_order and chunk.kind == KIND_REGULAR and not chunk.needs_geometry
                and self.covers(box, g.chunks) and self.is_one_run(box)):
            status = whole(self, nchunk, context, chunk)
            return status if status else decode_whole_chunk(context, chunk, self.at(box))
        for d in range(g.ndim):
            low[d] = box.first[d] // g.blocks[d]
            many[d] = (box.first[d] + (box.count[d] - 1) * self.step[d]) // g.blocks[d] - low[d] + 1
            touched *= many[d]
        aside = chunk.kind != KIND_RAW and (
            chunk.whole or chunk.needs_geometry or chunk.blocksize != g.block_nbytes
            or touched * chunk.nblocks > MOST_STEPS or self.together or self.aside != NULL)
        begin, end = piece * touched // self.pieces, (piece + 1) * touched // self.pieces
        if (not aside and (self.frame.checksums != NULL or self.own != NULL) and nchunk < self.frame.chunk_count
                and takes_all(self, nchunk, box)):
            if self.pieces == 1 and not self.frame.each_read:
                sum = &all_of_it
                sum.start, sum.stop = 0, chunk.cbytes
                status = self.frame.load_span(nchunk, chunk, chunk.loaded, chunk.cbytes)
                chunk.loaded = chunk.cbytes
            elif sum == NULL or not begin_piece(
                    self.frame, nchunk, chunk, g, low, many, begin, end, touched, sum, &status):
                if piece == 0 and status == CHUNK_OK:
                    status = whole(self, nchunk, context, chunk)
                    if sum != NULL:
                        sum.state = CHUNK_CHECKED
                sum = NULL
            if status:
                return status
            known = True
        else:
            sum = NULL
        if chunk.kind == KIND_RAW:
            if self.pieces == 1 and not known and is_most(touched * g.block_nbytes, chunk.nbytes):
                status = self.frame.load_chunk(nchunk, context, chunk)
            decoded = chunk.data + CHUNK_HEADER
        elif aside:
            if piece:
                return CHUNK_OK  # the first piece does all of it
            decoded = self.aside
            if decoded == NULL:
                status = self.decode_aside(nchunk, context, chunk, &scratch)
                decoded = scratch
                if self.by_turns and status == CHUNK_OK:
                    self.aside = decoded
        elif self.pieces == 1 and not known and is_most(touched, chunk.nblocks):
            status = self.frame.load_chunk(nchunk, context, chunk)
        if status:
            return status
        if decoded != NULL and chunk.kind == KIND_REGULAR:
            begin, end = 0, touched
        status = self.read_blocks(context, nchunk, chunk, box, low, many, begin, end, decoded, sum)
        if status or sum != &all_of_it:
            return status
        return compare(self, nchunk, sum.crc, sum.stop)

    cdef int read_blocks(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, const int64_t *low,
                         const int64_t *many, int64_t begin, int64_t end, const uint8_t *decoded, PieceSum *sum) noexcept nogil:
        """Blocks ``begin .. end`` of those that the selection touches in a chunk.

        If `sum` is not NULL, the stored bytes that it says are summed: those of a block while they are in the cache for
        it, the rest at the end.
        """
        cdef Grid *g = &self.geometry.c
        cdef Box part
        cdef int64_t source_strides[MAX_DIM]
        cdef int64_t i, nblock, offset
        cdef const uint8_t *source = NULL
        cdef uint8_t *to
        cdef int d, status
        cdef uint32_t crc = 0
        cdef int64_t summed = 0 if sum == NULL else sum.start
        cdef int64_t plane_strides[MAX_DIM]
        cdef int64_t last
        cdef SharedBlock *shared
        cdef bint shares = decoded == NULL and is_shared(self.frame, nchunk, chunk)
        cdef bint foresees = decoded == NULL and not shares and foresees_blocks(self.frame, chunk)
        cdef bint shuffled = (
            decoded == NULL and chunk.plain and chunk.filter == FILTER_SHUFFLE and chunk.typesize == g.itemsize
            and unshuffles_parts(<int> g.itemsize) and chunk.blocksize <= LARGE_BLOCK)
        for d in range(g.ndim):
            source_strides[d] = g.item_strides[d] * self.step[d]
            if shuffled:
                plane_strides[d] = source_strides[d] // g.itemsize
        for i in range(begin, end):
            if not clip_to_block(self, box, low, many, i, &nblock, &part, &offset):
                continue
            to = self.at(&part)
            if sum != NULL and sum_block(self, chunk, <int32_t> nblock, &part, to, &crc, &summed):
                continue
            if decoded != NULL:
                if chunk.kind == KIND_RAW:
                    status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + nblock * g.block_nbytes,
                                             CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
                    if status:
                        return status
                source = decoded + nblock * g.block_nbytes
            elif shares:
                shared = self.held
                status = shared_block(self.frame, nchunk, context, chunk, <int32_t> nblock, &shared)
                if self.by_turns:
                    self.held = shared
                if status:
                    return status
                if shared != NULL:
                    copy_items(to, self.strides, shared.data + offset, source_strides, part.count, g.ndim, g.itemsize)
                    if not self.by_turns:
                        leave_block(shared)
                    continue
            if decoded == NULL:
                if foresees and i + 1 < end:
                    context.next = foresee_touched(chunk, g, low, many, i + 1)
                if self.covers(&part, g.blocks) and self.is_one_run(&part):
                    status = self.frame.load_block(nchunk, context, chunk, <int32_t> nblock)
                    if status == CHUNK_OK:
                        status = decode_block(context, chunk, <int32_t> nblock, to)
                    if status:
                        return status
                    continue
                last = offset
                for d in range(g.ndim):
                    last += (part.count[d] - 1) * source_strides[d]
                if shuffled and self.unshuffles_less(&part):
                    status = part_block(
                        self.frame, nchunk, context, chunk, <int32_t> nblock, True, <int32_t> (last // g.itemsize + 1), &source)
                    if status:
                        return status
                    unshuffle_box(to, self.strides, source + offset // g.itemsize, block_bytes(chunk, <int32_t> nblock)
                                  // g.itemsize, plane_strides, part.count, g.ndim, <int> g.itemsize)
                    continue
                status = part_block(
                    self.frame, nchunk, context, chunk, <int32_t> nblock, False, <int32_t> (last + g.itemsize), &source)
                if status:
                    return status
            copy_items(to, self.strides, source + offset, source_strides, part.count, g.ndim, g.itemsize)
        if sum != NULL:
            if summed < sum.stop:
                crc = sum_more(self, crc, chunk.data + summed, sum.stop - summed)
                summed = sum.stop
            sum.crc, sum.stop, sum.state = crc, summed, SUMMED
        return CHUNK_OK

    cdef bint unshuffles_less(self, const Box *part) noexcept nogil:
        """Whether it takes less time to undo the shuffle of a part of a block than of the whole block, and to copy."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t items = 1
        cdef int d
        for d in range(g.ndim):
            items *= part.count[d]
        d = g.ndim - 1
        if part.count[d] >= SHORTEST_RUN and self.step[d] == 1:
            return g.itemsize <= STRAIGHT or items * g.itemsize < g.block_nbytes
        return items * g.itemsize <= g.block_nbytes // FEW


cpdef int64_t work_of(int64_t nbytes, Frame frame) noexcept:
    """What reading `nbytes` uncompressed bytes of a frame costs.

    Decoders spend their time on compressed bytes; on what compresses to nothing they run some 4 times as fast.
    """
    return nbytes // 4 + (<int64_t> (<double> nbytes * frame.cbytes / frame.nbytes) if frame.nbytes else 0)


def check_out(out, tuple shape not None, cnp.dtype dtype not None):
    """Refuse what the items cannot be read into.

    Raises
    ------
    TypeError
        It is no NumPy array.
    ValueError
        It has another shape or dtype, or is read-only.
    """
    if not isinstance(out, cnp.ndarray):
        raise TypeError(f"out must be a NumPy array, not {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, what is read has {shape}")
    if out.dtype != dtype:
        raise ValueError(f"out has dtype {out.dtype}, what is read has {dtype}")
    if not cnp.PyArray_ISWRITEABLE(out):
        raise ValueError("out is read-only")


cdef inline cnp.ndarray _new(Read self, cnp.dtype dtype):
    """A new array of the shape that a key gives: the axes of a selection without those of integers."""
    cdef cnp.npy_intp dims[MAX_DIM]
    cdef int d, k = 0
    if dtype is None:
        raise TypeError("the dtype of the items is needed")
    for d in range(self.geometry.c.ndim):
        if not self.flags >> d & 1:
            dims[k] = self.count[d]
            k += 1
    Py_INCREF(dtype)  # the next call steals one reference
    return PyArray_Empty(k, dims, dtype, 0)


cdef inline int64_t _aim(Read self, cnp.ndarray out) except -1:
    """Write into `out`, of the shape that the key gives; returns the work."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(out)
    cdef int64_t nbytes = self.geometry.c.itemsize
    cdef int d, k = 0
    if cnp.PyArray_ITEMSIZE(out) != nbytes:
        raise ValueError("the result has items of another size than the array")
    self.keep = out
    self.data = <uint8_t *> cnp.PyArray_DATA(out)
    for d in range(self.geometry.c.ndim):
        if self.flags >> d & 1:
            continue    # an axis of one item: its stride is not used
        nbytes *= self.count[d]
        self.strides[d] = strides[k]
        if self.flags >> (REVERSED + d) & 1:
            self.data += (self.count[d] - 1) * self.strides[d]
            self.strides[d] = -self.strides[d]
        k += 1
    return work_of(nbytes, self.frame)


cdef inline int _go(Read self, int threads) except -1:
    """Read, in up to as many threads."""
    cdef DecodeContext *context
    self.frame.load_index()
    if self.frame.by_member:
        self.watch()
    if threads == 1 and stays_with_gil(self.frame):
        self.ahead.alone, self.ahead.begun, self.ahead.resume = False, 1, INT64_MAX     # opening has read all of it
        context = borrow(self.frame.blocksize)
        self.work(context, None)
        give_back(context)
    else:
        self.run(threads)
    if self.status or self.own != NULL:
        self.finish()
    return 0


cdef inline bint _pays(Read self, int64_t work) noexcept:
    """Whether a second thread pays. It does so earlier where one waits for the disk."""
    if not worth_threads(COLD * work):
        return False
    self.cold = is_cold(self.frame.source.asking)
    return self.cold or worth_threads(work)


cdef inline void _bring_result(Read self, cnp.ndarray new) noexcept:
    """Bring the pages of a new array for the result: where bytes of the file have to come, while these are on their way."""
    cdef int64_t nbytes = cnp.PyArray_NBYTES(new)
    cdef void *data = cnp.PyArray_DATA(new)
    if not (FEW_PAGES if self.cold else FRESH_LEAST) <= nbytes < FRESH_MOST or (
            nbytes >= FRESH_LEAST and not is_fresh(data, nbytes)):
        return      # smaller memory was likely used before; for larger NumPy asks for large pages
    if self.cold:
        self.fresh, self.fresh_nbytes, self.unbrought = data, nbytes, 1
    else:
        with nogil:
            bring_pages(data, nbytes)


cdef inline Read _parsed(tuple version, key):
    """A reader of what a key selects, which has no array yet; None for keys that `parse_key` does not take."""
    cdef Geometry geometry = version[0]
    cdef Frame frame = version[2]
    cdef Read self = Read.__new__(Read)
    if geometry is None or frame is None:
        raise TypeError("a frame and its geometry are needed")
    self.geometry = geometry
    self.frame = frame
    if not parse_key(&self.geometry.c, key, self.start, self.step, self.count, 1, &self.flags):
        return None
    locate(self)
    return self


def read_basic(tuple version not None, key, handle):
    """The items of a key of integers, slices and one `...`, in a new array; None for other keys.

    Parameters
    ----------
    version : tuple of Geometry, dtype and Frame
    key : object
    handle : object
        Its `nthreads` is asked for where threads pay.
    """
    cdef Read self = _parsed(version, key)
    if self is None:
        return None
    cdef cnp.ndarray out = _new(self, version[1])
    cdef int64_t work = _aim(self, out)
    cdef int threads = 1
    if _pays(self, work):
        threads = handle.nthreads
    _bring_result(self, out)
    if self.tasks:
        _go(self, threads)
    return out


def read_basic_into(tuple version not None, key, int nthreads, out):
    """What `read_basic` gives, read by up to so many threads, into `out` (see `check_out`) if it is not None."""
    cdef Read self = _parsed(version, key)
    cdef int64_t work
    cdef cnp.ndarray new = None
    cdef int d
    if self is None:
        return None
    if out is None:
        out = new = _new(self, version[1])
    else:
        check_out(out, tuple([self.count[d] for d in range(self.geometry.c.ndim) if not self.flags >> d & 1]), version[1])
    work = _aim(self, out)
    if self.tasks:
        nthreads = nthreads if _pays(self, work) else 1
        if new is not None:
            _bring_result(self, new)
        _go(self, nthreads)
    return out


# Checking chunks that a selection reads as a whole against their checksums.


cdef inline int whole(Read self, int64_t nchunk, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Bring and check a chunk all of which is wanted."""
    if self.own == NULL:
        return self.frame.load_and_check(nchunk, context, chunk)
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


# Chunks all of whose items are one value, of which no bytes are stored, or only that value.


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


# Asking for the chunks and blocks of the parts that selections fall into; see above.


cdef inline void box_of_part(const Grid *g, const int64_t *axes, int64_t nchunk, Box *box) noexcept nogil:
    """What a selection takes of a chunk; `axes` has start, step, count and another number for each axis."""
    cdef int64_t c
    cdef int d
    for d in range(g.ndim):
        c = nchunk // g.chunk_strides[d] % g.grid[d]
        clip(axes[4 * d], axes[4 * d + 1], axes[4 * d + 2], c * g.chunks[d], g.chunks[d],
             &box.first[d], &box.count[d], &box.index[d])


cdef inline int64_t same_chunk(const Part *parts, int64_t i, int64_t stop, int64_t nblocks, int64_t *touched) noexcept nogil:
    """Where the parts end that need the chunk of part `i`, and how many blocks one of them touches at most."""
    cdef int64_t nchunk = parts[i].chunk
    touched[0] = 0
    while i < stop and parts[i].chunk == nchunk:
        touched[0] = max(touched[0], nblocks if parts[i].together else parts[i].touched)
        i += 1
    return i


cdef inline void want_part(Operation self, Wanted *wanted, DecodeContext *context, const Part *parts, const int64_t *axes,
                           int64_t first, int64_t stop) noexcept nogil:
    """Want the blocks of parts of one chunk, or all of it."""
    cdef Grid *g = &self.geometry.c
    cdef Touched touched
    cdef Box box
    cdef Chunk chunk
    cdef int64_t i
    if self.frame.entry(parts[first].chunk) < 0 or not find_blocks(self.frame, wanted, parts[first].chunk, context, &chunk):
        return
    for i in range(first, stop):
        box_of_part(g, axes + 4 * parts[i].selection * g.ndim, parts[i].chunk, &box)
        touch(g, &box, axes + 4 * parts[i].selection * g.ndim + 1, 4, &touched)
        want_blocks(self.frame, wanted, parts[i].chunk, &chunk, g, &box,
                    axes + 4 * parts[i].selection * g.ndim + 1, 4, &touched)


cdef inline void ask_for_parts(Operation self, DecodeContext *context, const Part *parts, const int64_t *axes,
                               int64_t first, int64_t stop) noexcept nogil:
    """Ask for what parts need."""
    cdef Grid *g = &self.geometry.c
    cdef Wanted wanted
    cdef int64_t i = first, end, count = 0, nblocks = blocks_of(g)
    cdef bint whole, again = False
    begin_asking(self.frame.source, self.frame.source.asking, &wanted)
    while i < stop:
        end = same_chunk(parts, i, stop, nblocks, &count)
        if self.frame.entry(parts[i].chunk) >= 0:
            whole = is_wanted_whole(self.frame, parts[i].chunk, count, nblocks)
            if whole or end - i < stop - first:
                want_chunk(self.frame, &wanted, parts[i].chunk, nblocks, whole)
            again = again or not whole
        i = end
    send_requests(&wanted)
    i = first
    while again and i < stop:
        end = same_chunk(parts, i, stop, nblocks, &count)
        if not is_wanted_whole(self.frame, parts[i].chunk, count, nblocks):
            want_part(self, &wanted, context, parts, axes, i, end)
            send_early(&wanted)
        i = end
    end_asking(&wanted, 1)


cdef inline void begin_parts(Operation self, DecodeContext *context, const Part *parts, const int64_t *axes, int64_t count,
                             int64_t nbytes) noexcept nogil:
    """Ask for the first of some parts, which touch blocks of `nbytes` uncompressed bytes.

    Others do not ask before `resume` is set, which is behind `busy`: then they see what is set here.
    """
    if self.frame.source.asking == NULL or self.frame.cbytes <= FEW_BYTES or count == 0:
        return
    self.ahead.asked = 0
    self.ahead.batch = batch_of(
        &self.ahead, count, <int64_t> (<double> nbytes * self.frame.cbytes / max(self.frame.nbytes, 1)))
    go_on_with_parts(self, context, parts, axes, count)


cdef inline void go_on_with_parts(
        Operation self, DecodeContext *context, const Part *parts, const int64_t *axes, int64_t count) noexcept nogil:
    """Ask for the next parts."""
    cdef int64_t first = 0, stop = 0
    if state_change(&self.ahead.busy, 0, 1):
        if next_batch(self, count, 1, &first, &stop):
            ask_for_parts(self, context, parts, axes, first, stop)
        state_set(&self.ahead.busy, 0)


# Rows of an array, in any order, where each lies in one block: samples of a batch, items of a 1-d array.
#
# A row is what an integer selects on the first axis. It needs no arithmetic for the other axes, and of a block that several
# rows need they are all taken at once.


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
        sorted = sorted and (count == 0 or part_order(part - 1, part) < 0)
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


# Reading many selections of one array together.
#
# Each selection falls into parts, one for each chunk that it touches. The parts of all selections are put in the order of
# chunks and blocks, so that those which need the same block follow each other, and are shared out to threads in groups of
# about the same work. Each thread has a reader of its own, which it turns to one selection after another.


cdef enum:
    # Chunks of a selection above which it has nothing to gain from the others.
    MOST_CHUNKS = 1 << 16
    # Parts that are in memory at a time, with those of one selection more.
    MOST_PARTS = 1 << 20
    # Groups for each thread: they do not all take the same time, and a thread that has none left waits for the last.
    GROUPS = 16
    MOST_READERS = 65
    MOST_AXES = 64  # of a NumPy array


cdef bint find_moving(cnp.ndarray out, int first, shape, int64_t *moving) except -1:
    """The strides of the axes longer than 1 of an array, from one on; False where these have another shape."""
    cdef int k, count = 0
    if cnp.PyArray_NDIM(out) != first + len(shape):
        return False
    for k in range(<int> len(shape)):
        if cnp.PyArray_DIM(out, first + k) != shape[k]:
            return False
        if cnp.PyArray_DIM(out, first + k) != 1 and count < MAX_DIM:
            moving[count] = cnp.PyArray_STRIDE(out, first + k)
            count += 1
    return True


cdef class ReadMany(Operation):
    """Read many selections of one array.

    Parameters
    ----------
    frame : Frame
    geometry : Geometry
    keys : list
        What is selected, as NumPy has it.
    selection_of : callable
        Gives a `blosc2.indexing.Selection`, or None, for a number and its key: asked for keys that are not just integers
        and slices, and for those that are wrong, for which it raises.

    Attributes
    ----------
    others : list of int
        The numbers of keys for which it gave None.
    large : list of int
        Those of selections that touch so many chunks that each is better read by itself.
    shape : tuple or None
        The shape of each selection, where all but `others` have the same.
    touched_nbytes : int
        Of the parts that are read next: the bytes of blocks that they touch, and something for each of them.
    """

    cdef readonly list others
    cdef readonly list large
    cdef readonly object shape
    cdef readonly int64_t touched_nbytes
    cdef int64_t number             # of selections
    cdef int64_t *axes              # for each selection and axis: start, step, count, stride in the NumPy array
    cdef uint32_t *flags            # for each selection: axes of integers, and from REVERSED on those read backwards
    cdef int64_t *rooms             # for each selection: how many chunks it may touch; 0 where it is read otherwise
    cdef uint8_t **targets          # for each selection: where its first item goes
    cdef set left_out               # `others`
    cdef bint by_rows               # whether each selection is one row; see `read_rows`
    cdef dict shapes                # of selections by other keys than integers and slices
    cdef Part *parts
    cdef int64_t parts_room, part_count
    cdef int64_t *groups            # the first part of each, and the number of parts
    cdef int64_t group_count
    cdef list readers
    cdef void **reader_table
    cdef int64_t reader_count, next_reader

    def __init__(self, Frame frame not None, Geometry geometry not None, list keys not None, selection_of):
        cdef int64_t i, d
        cdef int64_t *axes
        cdef bint simple
        self.frame = frame
        self.geometry = geometry
        self.number = PyList_GET_SIZE(keys)
        if self.number >= 1 << 31:
            raise ValueError(f"{self.number} selections are too many for one call")
        self.pieces = 1
        self.by_rows = rows_are_runs(&geometry.c)
        self.others = []
        self.large = []
        self.shapes = {}
        self.axes = <int64_t *> malloc((4 * self.number * geometry.c.ndim + 1) * sizeof(int64_t))
        self.flags = <uint32_t *> malloc((self.number + 1) * sizeof(uint32_t))
        self.rooms = <int64_t *> malloc((self.number + 1) * sizeof(int64_t))
        self.targets = <uint8_t **> malloc((self.number + 1) * sizeof(uint8_t *))
        if self.axes == NULL or self.flags == NULL or self.rooms == NULL or self.targets == NULL:
            raise MemoryError
        frame.load_index()
        for i in range(self.number):
            key = <object> PyList_GET_ITEM(keys, i)
            try:
                simple = self.parse(i, key)
            except (TypeError, ValueError):
                simple = False
            if not simple:
                selection = selection_of(i, key)
                if selection is None:
                    self.others.append(i)
                    self.rooms[i] = 0
                    continue
                self.take_selection(i, selection)
            axes = self.axes + 4 * i * geometry.c.ndim
            self.rooms[i] = 0
            if geometry.c.size == 0:
                continue    # and its chunks may be of no items: there is nothing to divide by
            self.rooms[i] = 1
            for d in range(geometry.c.ndim):
                if axes[4 * d + 2] == 0:
                    self.rooms[i] = 0
                    break
                self.rooms[i] *= ((axes[4 * d] + (axes[4 * d + 2] - 1) * axes[4 * d + 1]) // geometry.c.chunks[d]
                                  - axes[4 * d] // geometry.c.chunks[d] + 1)
            if self.rooms[i] > MOST_CHUNKS:
                self.large.append(i)
                self.rooms[i] = 0
        self.left_out = set(self.others)
        self.compare_shapes()

    def __dealloc__(self):
        free(self.axes)
        free(self.flags)
        free(self.rooms)
        free(self.targets)
        free(self.parts)
        free(self.groups)
        free(self.reader_table)

    # ------------------------------------------------------------ keys

    cdef bint parse(self, int64_t number, object key) except -1:
        """Take a key of integers and slices; False when it is another one, or wrong."""
        cdef int64_t *axes = self.axes + 4 * number * self.geometry.c.ndim
        return parse_key(&self.geometry.c, key, axes, axes + 1, axes + 2, 4, self.flags + number)

    cdef int take_selection(self, int64_t number, object selection) except -1:
        """Take what the selection of another key says."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t *axis = self.axes + 4 * number * g.ndim
        cdef int d
        cdef Py_ssize_t k = 0
        shape = selection.shape
        flip = selection.flip
        if len(shape) > MOST_AXES:
            raise IndexError(f"selection {number} of the batch: the result would have {len(shape)} axes; "
                             f"at most {MOST_AXES} are possible")
        self.shapes[number] = shape
        self.flags[number] = 0
        for d in range(g.ndim):
            axis[0] = selection.starts[d]
            axis[1] = selection.steps[d]
            axis[2] = selection.counts[d]
            if axis[2] and (axis[0] < 0 or axis[1] < 1 or axis[2] < 0
                            or axis[0] + (axis[2] - 1) * axis[1] >= g.shape[d]):
                raise IndexError(f"a selection reaches outside axis {d} of length {g.shape[d]}")
            if flip is not None and axis[2] > 1:
                # Axes of another length than 1 are the same, in the same order, in the array and in the result.
                while shape[k] == 1:
                    k += 1
                if flip[k].step == -1:
                    self.flags[number] |= <uint32_t> 1 << (REVERSED + d)
                k += 1
            elif flip is not None and axis[2] == 0:
                while shape[k] != 0:
                    k += 1
                k += 1
            axis += 4
        return 0

    def shape_of(self, int64_t number):
        """The shape of a selection."""
        cdef int d
        cdef int64_t *axes = self.axes + 4 * number * self.geometry.c.ndim
        if not 0 <= number < self.number or number in self.left_out:
            raise IndexError(f"there is no selection {number}")
        if self.shape is not None:
            return self.shape
        known = self.shapes.get(number)
        if known is not None:
            return known
        return tuple([axes[4 * d + 2] for d in range(self.geometry.c.ndim) if not self.flags[number] >> d & 1])

    cdef int compare_shapes(self) except -1:
        """Find out whether all selections have one shape."""
        cdef int64_t common[MAX_DIM]
        cdef int64_t i
        cdef int64_t *axes
        cdef int ndim = self.geometry.c.ndim, length = -1, d, k
        cdef bint same
        self.shape = None
        for i in range(self.number):
            if self.left_out and i in self.left_out:
                continue
            if self.shape is None:
                self.shape = self.shape_of(i)
                length = <int> len(self.shape)
                for k in range(min(length, MAX_DIM)):
                    common[k] = self.shape[k]
                continue
            if self.shapes and i in self.shapes:
                same = self.shapes[i] == self.shape
            else:
                axes = self.axes + 4 * i * ndim
                same = length <= MAX_DIM
                k = 0
                for d in range(ndim):
                    if not same:
                        break
                    if not self.flags[i] >> d & 1:
                        same = k < length and common[k] == axes[4 * d + 2]
                        k += 1
                same = same and k == length
            if not same:
                self.shape = None
                return 0
        return 0

    # ------------------------------------------------------------ where items go

    def into(self, cnp.ndarray out not None):
        """Read into the rows of an array: a selection into the row of its number."""
        cdef int64_t moving[MAX_DIM]
        cdef int64_t i
        self.check_items(out)
        if cnp.PyArray_NDIM(out) < 1 or cnp.PyArray_DIM(out, 0) != self.number:
            raise ValueError(f"the result must have {self.number} rows")
        self.keep = out
        if len(self.others) == self.number:
            return
        if self.shape is None or not find_moving(out, 1, self.shape, moving):
            raise ValueError("the result must have rows of the shape of the selections")
        for i in range(self.number):
            self.put(i, <uint8_t *> cnp.PyArray_DATA(out) + i * cnp.PyArray_STRIDE(out, 0), moving)

    def into_arrays(self, cnp.dtype dtype not None):
        """Read into new arrays: a list with one for each selection, and None for `others`."""
        cdef cnp.npy_intp dims[MOST_AXES]
        cdef int64_t i
        cdef int k
        arrays = []
        for i in range(self.number):
            if i in self.left_out:
                arrays.append(None)
                continue
            shape = self.shape_of(i)
            if len(shape) > MOST_AXES:
                raise IndexError(f"selection {i} has {len(shape)} axes; at most {MOST_AXES} are possible")
            for k in range(len(shape)):
                dims[k] = shape[k]
            Py_INCREF(dtype)  # the next call steals one reference
            arrays.append(PyArray_Empty(<int> len(shape), dims, dtype, 0))
        self.into_rows(arrays)
        return arrays

    def into_rows(self, list rows not None):
        """Read into arrays that are there: a list with one for each selection, of its shape."""
        cdef int64_t moving[MAX_DIM]
        cdef int64_t i
        cdef cnp.ndarray items
        if len(rows) != self.number:
            raise ValueError(f"{len(rows)} arrays for {self.number} selections")
        for i in range(self.number):
            if i in self.left_out:
                continue
            items = rows[i]
            self.check_items(items)
            if not find_moving(items, 0, self.shape_of(i), moving):
                raise ValueError("the results must have the shapes of the selections")
            self.put(i, <uint8_t *> cnp.PyArray_DATA(items), moving)
        self.keep = tuple(rows)

    cdef int check_items(self, cnp.ndarray out) except -1:
        if not cnp.PyArray_ISWRITEABLE(out):
            raise ValueError("the result must be writable")
        if cnp.PyArray_ITEMSIZE(out) != self.geometry.c.itemsize:
            raise ValueError("the result has items of another size than the array")
        return 0

    cdef void put(self, int64_t number, uint8_t *target, const int64_t *moving) noexcept:
        """Set where a selection is read to; `moving` are the strides there of the axes longer than 1."""
        cdef int64_t *axis = self.axes + 4 * number * self.geometry.c.ndim
        cdef int d, k = 0
        if self.rooms[number]:
            for d in range(self.geometry.c.ndim):
                axis[3] = 0
                if axis[2] != 1:
                    axis[3] = moving[k]
                    k += 1
                    if self.flags[number] >> (REVERSED + d) & 1:
                        target += (axis[2] - 1) * axis[3]
                        axis[3] = -axis[3]
                axis += 4
            self.by_rows = self.by_rows and is_row(&self.geometry.c, axis - 4 * self.geometry.c.ndim)
        self.targets[number] = target

    # ------------------------------------------------------------ parts

    def prepare(self, int64_t first):
        """Have `run` read the selections from `first` on, as far as there is room; returns the first that is left."""
        cdef int64_t stop, i, room = 0
        cdef Part *parts
        if self.keep is None or first < 0:
            raise ValueError("there is nothing to read into")
        stop = first
        while stop < self.number and (room == 0 or room + self.rooms[stop] <= MOST_PARTS):
            room += self.rooms[stop]
            stop += 1
        if room > self.parts_room:
            parts = <Part *> realloc(self.parts, room * sizeof(Part))
            if parts == NULL:
                raise MemoryError
            self.parts = parts
            self.parts_room = room
        self.touched_nbytes = 0
        with nogil:
            if self.by_rows:
                self.part_count = list_rows(&self.geometry.c, self.axes, self.rooms, first, stop, self.parts)
            else:
                self.part_count = list_parts(&self.geometry.c, self.axes, self.rooms, first, stop, self.parts)
            for i in range(self.part_count):
                self.touched_nbytes += cost_of(self.parts, &self.geometry.c, i)
        self.pieces = 1
        self.need_readers(1)
        self.need_groups(1)
        self.groups[0] = 0
        self.groups[1] = self.part_count
        self.group_count = 1 if self.part_count else 0
        self.next_task = 0
        self.ahead.begun, self.ahead.resume = 0, INT64_MAX
        self.tasks = self.stop_task = self.group_count
        return stop

    cdef int need_readers(self, int64_t count) except -1:
        """Have a reader for each thread."""
        cdef Read reader
        cdef int64_t i
        if self.reader_table == NULL:
            self.readers = []
            self.reader_table = <void **> malloc(MOST_READERS * sizeof(void *))
            if self.reader_table == NULL:
                raise MemoryError
        self.reader_count = min(count, MOST_READERS)
        while len(self.readers) < self.reader_count:
            reader = Read.__new__(Read)
            reader.frame = self.frame
            reader.geometry = self.geometry
            reader.by_turns = True
            self.reader_table[len(self.readers)] = <void *> reader
            self.readers.append(reader)
        for i in range(self.reader_count):
            (<Read> self.reader_table[i]).pieces = self.pieces
        self.next_reader = 0
        return 0

    cdef int need_groups(self, int64_t count) except -1:
        cdef int64_t *groups = <int64_t *> realloc(self.groups, (count + 1) * sizeof(int64_t))
        if groups == NULL:
            raise MemoryError
        self.groups = groups
        return 0

    cdef int share(self, int64_t threads) except -1:
        """Divide the parts into groups, and the parts themselves when there are too few."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t i, chunks = 0, cost = 0, target, wanted = GROUPS * threads, blocks = 1
        cdef Part *part
        cdef int d
        if self.part_count == 0:
            return 0
        for i in range(self.part_count):
            chunks += i == 0 or self.parts[i].chunk != self.parts[i - 1].chunk
        if chunks < 2 * threads:
            # One thread would decode while the others wait.
            for i in range(self.part_count):
                self.parts[i].together = False
        if self.part_count < wanted // 4:
            for d in range(g.ndim):
                blocks *= g.block_grid[d]
            self.pieces = max(min(blocks, (wanted // 4 + self.part_count - 1) // self.part_count), 1)
        target = 0
        for i in range(self.part_count):
            target += cost_of(self.parts, &self.geometry.c, i)
        target = target // wanted + 1
        # A group is closed when it costs as much as `target`, so that there are not more than wanted, or parts.
        self.need_groups(min(wanted + 1, self.part_count))
        self.group_count = 0
        self.groups[0] = 0
        for i in range(self.part_count):
            part = &self.parts[i]
            if cost >= target and (
                    self.pieces > 1 or part.chunk != self.parts[i - 1].chunk
                    or (not part.together and (part.block != self.parts[i - 1].block or cost >= 2 * target))):
                self.group_count += 1
                self.groups[self.group_count] = i
                cost = 0
            cost += cost_of(self.parts, &self.geometry.c, i)
        self.group_count += 1
        self.groups[self.group_count] = self.part_count
        self.tasks = self.stop_task = self.group_count * self.pieces
        self.need_readers(threads)
        return 0

    # ------------------------------------------------------------ work

    cdef void begin(self, DecodeContext *context) noexcept nogil:
        """Ask for the first bytes that are needed, unless that was done."""
        if not state_change(&self.ahead.begun, 0, 1):
            return
        begin_parts(self, context, self.parts, self.axes, self.part_count, self.touched_nbytes)

    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil:
        cdef int64_t mine = counter_next(&self.next_reader)
        self.begin(context)     # while one thread asks the others begin to read
        if mine < self.reader_count:
            self.read_parts(<Read> self.reader_table[mine], context)

    cdef void read_parts(self, Read reader, DecodeContext *context) noexcept nogil:
        """Read groups of parts until none is left."""
        self.read_groups(reader, context)
        if reader.held != NULL:
            leave_block(reader.held)
            reader.held = NULL

    cdef void read_groups(self, Read reader, DecodeContext *context) noexcept nogil:
        cdef Chunk chunk
        cdef Part *part
        cdef int64_t task, i, end, stop, opened = -1
        cdef int status
        cdef Foreseen ahead = what_is_foreseen(self.frame, &self.geometry.c)
        while True:
            task = self.draw()
            if task < 0:
                return
            i = self.groups[task // self.pieces]
            stop = self.groups[task // self.pieces + 1]
            while i < stop:
                part = &self.parts[i]
                if ahead.cached or ahead.stored:
                    foresee_parts(self.frame, ahead, self.parts, i, stop)
                if i >= number_get(&self.ahead.resume):
                    go_on_with_parts(self, context, self.parts, self.axes, self.part_count)
                status = CHUNK_OK
                if part.chunk != opened:
                    opened = -1
                    reader.aside = NULL
                    status = reader.open_padded(part.chunk, context, &chunk)
                    opened = part.chunk
                i += 1
                if status == CHUNK_OK and self.by_rows and self.pieces == 1 and has_rows(reader, part.chunk, &chunk):
                    end = same_block(self.parts, i - 1, stop)
                    for i in range(i, end):
                        if ahead.cached or ahead.stored:
                            foresee_parts(self.frame, ahead, self.parts, i, stop)
                    i = end
                    status = read_rows(reader, context, &chunk, part, end - (part - self.parts), self.targets, self.axes)
                elif status == CHUNK_OK:
                    status = self.read_part(reader, context, &chunk, part, task % self.pieces)
                if status:
                    self.note_failure(status, part.chunk)
                if number_get(&self.status):
                    return

    cdef int read_part(
            self, Read reader, DecodeContext *context, Chunk *chunk, const Part *part, int64_t piece) noexcept nogil:
        """A part, or a piece of it, of a chunk that is opened."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t *axes = self.axes + 4 * part.selection * g.ndim
        cdef int64_t c
        cdef Box box
        cdef int d
        for d in range(g.ndim):
            reader.start[d] = axes[4 * d]
            reader.step[d] = axes[4 * d + 1]
            reader.count[d] = axes[4 * d + 2]
            reader.strides[d] = axes[4 * d + 3]
            c = part.chunk // g.chunk_strides[d] % g.grid[d]
            clip(reader.start[d], reader.step[d], reader.count[d], c * g.chunks[d], g.chunks[d],
                 &box.first[d], &box.count[d], &box.index[d])
        reader.data = self.targets[part.selection]
        reader.together = part.together
        return reader.read_opened(context, part.chunk, chunk, &box, piece, NULL)


cdef class ReadTogether:
    """Reading of several arrays, shared by threads: each has one of them at a time.

    Parameters
    ----------
    operations : list of ReadMany
        Prepared, and not run yet.
    """

    cdef list operations
    cdef void **table
    cdef int64_t count, next_one
    cdef long begun

    def __init__(self, list operations not None):
        cdef int64_t i
        self.operations = operations
        self.count = len(operations)
        self.table = <void **> malloc(max(self.count, 1) * sizeof(void *))
        if self.table == NULL:
            raise MemoryError
        for i in range(self.count):
            self.table[i] = <void *> <ReadMany?> operations[i]

    def __dealloc__(self):
        free(self.table)

    def run(self, int threads=1):
        """Read until nothing is left, in up to as many threads; releases the GIL."""
        cdef WorkerGroup group
        try:
            acquire_group(&group, min(threads, self.count) - 1, <void *> self, <Job> _together, 0)
            with nogil:
                run_in_group(&group, <void *> self, <Job> _together, NULL)
        finally:
            release_group(&group)

    cdef void begin(self, DecodeContext *context) noexcept nogil:
        """Have the first of the arrays ask for their bytes at once; the others ask when their turn comes."""
        cdef int64_t i, nbytes = 0
        if not state_change(&self.begun, 0, 1):
            return
        for i in range(self.count):
            if nbytes >= AHEAD_BYTES:
                return
            nbytes += (<ReadMany> self.table[i]).touched_nbytes
            (<ReadMany> self.table[i]).begin(context)

    def finish(self):
        """Raise what went wrong first, in the order of the arrays."""
        for operation in self.operations:
            operation.finish()


cdef void _together(ReadTogether all, DecodeContext *context, void *tool) noexcept nogil:
    cdef int64_t i
    all.begin(context)
    while True:
        i = counter_next(&all.next_one)
        if i >= all.count:
            return
        (<ReadMany> all.table[i]).work(context, None)
