# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Reading selections of an array: one plan, and one loop that carries it out.

A plan consists of parts: what a selection takes of a chunk. Of one selection (`Read`) the parts are the chunks that it
touches, which are counted and never listed. Those of many (`ReadMany`) are listed, in the order of chunks and blocks. Threads
draw parts, or pieces of them, and decoded blocks are scattered into NumPy arrays, or decoded straight into them, where a
block, or a whole chunk, is one run of the array. What is asked of the system ahead is decided in `ask`.
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
    MOST_STEPS, NO_MEMORY, Chunk, block_bytes, fill)
from blosc2._core.codec.codec cimport (
    DecodeContext, Encoder, borrow, decode_block, decode_whole_chunk, give_back, reserve_scratch)
from blosc2._core.codec.shared_blocks cimport (
    SharedBlock, cache_is_on, is_block, leave_block, new_block, put_block, take_block)
from blosc2._core.codec.thread_pool cimport Job, WorkerGroup, acquire_group, release_group, run_in_group, worth_threads
from blosc2._core.frame.frame cimport (
    LARGE_BLOCK, ChunkTable, Frame, find_blocks, is_most, is_wanted_whole, part_block, reach, stays_with_gil, want_beginning, want_block, want_chunk)
from blosc2._core.io.checksum cimport checksum, copy_and_checksum, joined
from blosc2._core.io.readahead cimport (
    AHEAD_BYTES, PAGE, TRIED, Wanted, begin_asking, end_asking, is_cold, is_due, is_missed, send_early, send_requests,
    worth_fetching)
from blosc2._core.io.source cimport fresh_bytes
from blosc2._core.io.steps cimport counter_next, number_get, number_set, state_change, state_get, state_set
from blosc2._core.ndim.geometry cimport (
    MAX_DIM, REVERSED, Axis, Box, Geometry, Grid, Operation, Touched, clip_to_block, clip_to_chunk, copy_items, covers,
    first_item, is_one_run, locate, nth_block, parse_key, take_axis, touch)

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


# The parts that many selections fall into: one for each chunk that a selection touches, in the order of chunks and blocks.


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


cdef inline int64_t blocks_of(const Grid *g) noexcept nogil:
    cdef int64_t blocks = 1
    cdef int d
    for d in range(g.ndim):
        blocks *= g.block_grid[d]
    return blocks


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
        const Grid *g, const Axis *table, const int64_t *rooms, int64_t first, int64_t stop, Part *parts) noexcept nogil:
    """Put the parts of selections ``first .. stop`` in the order of chunks and blocks; returns how many there are.

    `table` has the axes of each selection, and `rooms` how many chunks it may touch.
    """
    cdef int64_t low[MAX_DIM]
    cdef int64_t many[MAX_DIM]
    cdef int64_t i, task, rest, begin, nchunk, count = 0
    cdef int64_t blocks = blocks_of(g), sum
    cdef const Axis *axes
    cdef Part *part
    cdef Box box
    cdef Touched touched
    cdef bint sorted = True
    cdef int d
    for i in range(first, stop):
        if rooms[i] == 0:
            continue
        axes = table + i * g.ndim
        for d in range(g.ndim):
            low[d] = axes[d].start // g.chunks[d]
            many[d] = (axes[d].start + (axes[d].count - 1) * axes[d].step) // g.chunks[d] - low[d] + 1
        for task in range(rooms[i]):
            rest = task
            nchunk = 0
            for d in range(g.ndim - 1, -1, -1):
                nchunk += (low[d] + rest % many[d]) * g.chunk_strides[d]
                rest //= many[d]
            if not clip_to_chunk(g, axes, nchunk, &box):
                continue
            touch(g, axes, &box, &touched)
            part = &parts[count]
            part.chunk = nchunk
            part.block = <int32_t> nth_block(g, &touched, 0)
            part.selection = <int32_t> i
            part.touched = <int32_t> touched.count
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


cdef struct ChunkSum:
    # The checksum of a stored chunk as far as it was summed.
    uint32_t crc
    int64_t size


cdef struct Reader:
    # What a thread reads: a part of the plan.
    DecodeContext *context
    const Axis *axes        # of the selection
    uint8_t *data           # where its first item goes
    int64_t strides[MAX_DIM]    # those of `axes`, as they are needed for copying
    int64_t nchunk
    Box box                 # what it takes of the chunk
    Touched touched         # the blocks of that, of which it reads these now
    int64_t first, stop
    int64_t begin, end      # its points, if it has any
    int64_t piece
    bint together           # whether the chunk is to be decoded once, for all that read of it
    Chunk chunk             # as it was opened
    const uint8_t *aside    # all of that, once it is decoded
    SharedBlock *held       # the block of the block cache that was read last; others need it, too


# Blocks through the block cache of the process.


cdef inline bint is_shared(ChunkTable table, const Chunk *chunk) noexcept nogil:
    """Whether the blocks of a chunk are cached. Special chunks, raw ones and those in memory are at hand anyway."""
    return (state_get(&cache_is_on) != 0 and chunk.kind == KIND_REGULAR and chunk.data != NULL and chunk.blocksize <= LARGE_BLOCK
            and table.source.serial != 0 and not chunk.needs_geometry and not chunk.variable)


cdef inline int shared_block(ChunkTable table, Reader *r, int32_t block) noexcept nogil:
    """Hold a block of a chunk that `is_shared`; none where it has to be decoded in another way."""
    cdef int64_t position = table.chunks_start + table.entry(r.nchunk)
    cdef SharedBlock *entry = r.held
    cdef int status
    if entry != NULL:
        if is_block(entry, table.source.serial, position, &r.chunk, block):
            return CHUNK_OK
        leave_block(entry)
    r.held = take_block(table.source.serial, position, &r.chunk, block)
    if r.held != NULL:
        return CHUNK_OK
    entry = new_block(table.source.serial, position, &r.chunk, block)
    if entry == NULL:
        return CHUNK_OK
    status = table.load_block(r.nchunk, r.context, &r.chunk, block)
    if status == CHUNK_OK:
        status = decode_block(r.context, &r.chunk, block, entry.data)
    if status:
        leave_block(entry)
        return status
    put_block(entry, &r.chunk)
    r.held = entry
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
    SEVERAL_BYTES = 8 << 10     # of a result: for a smaller one it is not asked how many blocks it touches
    # Bytes of items of which whole blocks, too, are undone row by row, straight into the result.
    STRAIGHT = 4


cdef struct Ahead:
    # What is asked for before it is read, in parts of the plan; see `ask`.
    long begun          # whether one has begun to ask
    long busy           # whether one is asking for more, which alone looks at `asked` and `batch`
    int64_t asked       # those before it were asked for
    int64_t resume      # the part with which it is time to ask for more; an atomic number
    int64_t batch       # that are asked for at a time; 0 before the first


cdef class Read(Operation):
    """Read a selection into a NumPy array: one with an axis for each of the array, of any strides, or a C-contiguous one."""

    # The parts of many selections; NULL for one, whose parts are its chunks.
    cdef Part *parts
    cdef int64_t part_count
    cdef Axis *table                # the axes of each selection
    cdef uint8_t **targets          # for each selection: where its first item goes
    cdef bint by_rows               # whether each selection is one row; see `read_rows`
    cdef int64_t *shares            # the first part of each that threads draw, and the number of parts
    cdef int64_t share_count
    cdef int64_t touched_nbytes
    cdef Ahead ahead

    # Where chunks are read in pieces and checked: the checksum of what each piece sums, and how many of each chunk are left.
    cdef uint32_t *sums
    cdef long *left
    cdef object keep_sums
    cdef uint32_t flags             # of `parse_key`

    cdef int check_member(self) except -1:
        """Check a frame that is checked by all its bytes, if all items are read."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        if self.tasks == 0 or self.by_points:
            return 0
        for d in range(g.ndim):
            if self.axes[d].count != g.shape[d]:
                return 0
        self.frame.check_member()
        return 0

    cdef int share(self, int64_t threads) except -1:
        """Divide chunks between threads when there are too few of them."""
        cdef int64_t i, pieces = PIECES * threads * (COLD if self.cold else 1)
        if self.tasks == 0 or self.pieces > 1 or self.by_points or self.tasks >= PIECES * threads:
            return 0
        self.pieces = min(blocks_of(&self.geometry.c), (pieces + self.tasks - 1) // self.tasks)
        if self.pieces > 1 and not self.frame.each_read and self.frame.checksums != NULL:
            self.keep_sums = bytes(self.tasks * self.pieces * <int64_t> sizeof(uint32_t)), bytes(self.tasks * <int64_t> sizeof(long))
            self.sums = <uint32_t *> PyBytes_AS_STRING(self.keep_sums[0])
            self.left = <long *> PyBytes_AS_STRING(self.keep_sums[1])
            for i in range(self.tasks):
                self.left[i] = self.pieces
        self.tasks *= self.pieces
        self.stop_task = self.tasks
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
            size *= self.axes[d].count
            same = same and cnp.PyArray_DIM(out, d) == self.axes[d].count
        if same and points is None:
            for d in range(geometry.c.ndim):
                self.axes[d].stride = cnp.PyArray_STRIDE(out, d)
        elif not cnp.PyArray_IS_C_CONTIGUOUS(out):
            raise ValueError("the result must be C-contiguous, or have the axes of the array")
        elif points is not None:
            self.pick(out, points)
        elif cnp.PyArray_SIZE(out) != size:
            raise ValueError(f"the result has {cnp.PyArray_SIZE(out)} items, the selection {size}")
        if frame.by_member:
            self.check_member()

    @property
    def cost(self):
        """What reading it costs, as `work_of` has it."""
        return _work(self)

    cdef int take(self, cnp.ndarray out) except -1:
        """Write into `out`, which has the items of the selection in C order, whatever its own axes are."""
        cdef int64_t stride = self.geometry.c.itemsize
        cdef int d
        if cnp.PyArray_ITEMSIZE(out) != stride:
            raise ValueError("the result has items of another size than the array")
        self.keep = out
        self.data = <uint8_t *> cnp.PyArray_DATA(out)
        for d in range(self.geometry.c.ndim - 1, -1, -1):
            self.axes[d].stride = stride
            stride *= self.axes[d].count
        self.frame.load_index()
        return 0

    cdef void begin(self, DecodeContext *context) noexcept nogil:
        """Ask for what is needed first, unless that was done; most reads need not look any further."""
        if state_change(&self.ahead.begun, 0, 1) and not (
                self.frame.source.asking == NULL or self.frame.cbytes <= FEW_BYTES or self.tasks == 0
                or (units_of(self) <= FEW_PARTS and not is_due(self.frame.source.asking) and stored_nbytes(self) < TRIED)):
            ask(self, context)

    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil:
        """Read parts of the plan until none is left."""
        cdef Reader r
        cdef int64_t task
        r.context, r.nchunk, r.aside, r.held = context, -1, NULL, NULL
        # While one thread asks the others begin to read.
        self.begin(context)
        while True:
            task = self.draw()
            if task < 0:
                break
            r.piece = task % self.pieces
            task //= self.pieces
            if self.parts == NULL:
                read_units(self, &r, task, task + 1)
            else:
                read_units(self, &r, self.shares[task], self.shares[task + 1])
        if r.held != NULL:
            leave_block(r.held)

    cdef bint find(self, int64_t i, Reader *r) noexcept nogil:
        """The `i`-th part of the plan; False where steps pass over its chunk."""
        cdef Grid *g = &self.geometry.c
        cdef const Part *part
        cdef int d
        if self.parts != NULL:
            part = &self.parts[i]
            r.axes, r.data, r.together = self.table + part.selection * g.ndim, self.targets[part.selection], part.together
            r.nchunk = part.chunk
            clip_to_chunk(g, r.axes, r.nchunk, &r.box)
        else:
            r.axes, r.data, r.together = self.axes, self.data, False
            if self.by_points:
                if not self.task_points(i, &r.nchunk, &r.box, &r.begin, &r.end):
                    return False
            elif not self.box_of(i, &r.nchunk, &r.box):
                return False
        for d in range(g.ndim):
            r.strides[d] = r.axes[d].stride
        touch(g, r.axes, &r.box, &r.touched)
        return True

    cdef int open_padded(self, Reader *r) noexcept nogil:
        """Find a chunk, which has all blocks of the grid; on one axis all items, as the last block may be shorter."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t needed = g.chunk_nbytes
        cdef int status = self.frame.open_chunk(r.nchunk, r.context, &r.chunk)
        if g.ndim == 1 and not self.frame.variable:
            needed = min(g.chunks[0], g.shape[0] - r.nchunk * g.chunks[0]) * g.itemsize
        return BAD_LENGTH if status == CHUNK_OK and not needed <= r.chunk.nbytes <= g.chunk_nbytes else status

    cdef int decode_aside(self, Reader *r, uint8_t **scratch) noexcept nogil:
        """All of a chunk whose blocks cannot be had one by one, or not cheaply."""
        cdef int status = self.frame.load_and_check(r.nchunk, r.context, &r.chunk)
        if status:
            return status
        scratch[0] = reserve_scratch(r.context, r.chunk.nbytes)
        if scratch[0] == NULL:
            return NO_MEMORY
        if r.chunk.needs_geometry and self.frame.plugin is not None:
            return self.frame.plugin.decode(&r.chunk, scratch[0])
        return decode_whole_chunk(r.context, &r.chunk, scratch[0])

    cdef int read_points(self, Reader *r) noexcept nogil:
        """The items of points in a chunk."""
        cdef Grid *g = &self.geometry.c
        cdef Chunk *chunk = &r.chunk
        cdef uint8_t *decoded = NULL    # all of the chunk
        cdef uint8_t *constant = NULL   # a block, where all are the same
        cdef int status = CHUNK_OK
        if chunk.kind == KIND_RAW:
            decoded = <uint8_t *> chunk.data + CHUNK_HEADER
        elif chunk.kind < KIND_RAW:
            status = self.frame.load_and_check(r.nchunk, r.context, &r.chunk)
            if status:
                return status
            if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
                return BAD_SPECIAL
            constant = reserve_scratch(r.context, g.block_nbytes)
            status = NO_MEMORY if constant == NULL else fill(chunk, 0, constant, g.block_nbytes)
        elif not has_blocks(g, chunk, chunk.nblocks):
            status = self.decode_aside(r, &decoded)
        if status:
            return status
        return self.move_points(r.context, r.nchunk, chunk, &r.box, r.begin, r.end, decoded, constant)

    cdef int read_part(self, Reader *r, int64_t i) noexcept nogil:
        """The part of a selection in a chunk, which is the `i`-th of the plan, or a piece of that part."""
        cdef Grid *g = &self.geometry.c
        cdef Chunk *chunk = &r.chunk
        cdef const uint8_t *decoded = NULL  # the whole chunk, where it is at hand
        cdef uint8_t *scratch = NULL
        cdef int64_t touched = r.touched.count
        cdef bint known = False     # whether all of the chunk was brought
        cdef bint aside             # whether it is decoded as a whole, not block by block
        cdef ChunkSum sum           # of a raw chunk, which is summed while it is copied
        cdef bint sums = False
        cdef int status = CHUNK_OK
        if chunk.kind < KIND_RAW:
            return CHUNK_OK if r.piece else fill_special(self, r)
        if (self.pieces == 1 and g.in_order and chunk.kind == KIND_REGULAR and not chunk.needs_geometry
                and covers(g, &r.box, g.chunks) and is_one_run(g, r.axes, &r.box)):
            status = self.frame.load_and_check(r.nchunk, r.context, &r.chunk)
            return status if status else decode_whole_chunk(r.context, chunk, first_item(g, r.axes, r.data, &r.box))
        aside = chunk.kind != KIND_RAW and (not has_blocks(g, chunk, touched) or r.together or r.aside != NULL)
        r.first, r.stop = r.piece * touched // self.pieces, (r.piece + 1) * touched // self.pieces
        if not aside and self.frame.checksums != NULL and r.nchunk < self.frame.chunk_count and takes_all(self, r):
            if self.sums != NULL:
                status = sum_piece(self, r, i)
            elif chunk.kind == KIND_RAW and not self.frame.each_read:
                sums, sum.crc, sum.size = True, 0, 0
                status = self.frame.load_chunk(r.nchunk, r.context, chunk)
            elif r.piece == 0:
                status = self.frame.load_and_check(r.nchunk, r.context, &r.chunk)
            if status:
                return status
            known = self.pieces == 1
        if chunk.kind == KIND_RAW:
            if self.pieces == 1 and not known and is_most(touched * g.block_nbytes, chunk.nbytes):
                status = self.frame.load_chunk(r.nchunk, r.context, chunk)
            decoded = chunk.data + CHUNK_HEADER
        elif aside:
            if r.piece:
                return CHUNK_OK  # the first piece does all of it
            if r.aside == NULL:
                status = self.decode_aside(r, &scratch)
                if status == CHUNK_OK:
                    r.aside = scratch
            decoded = r.aside
        elif self.pieces == 1 and not known and is_most(touched, chunk.nblocks):
            status = self.frame.load_chunk(r.nchunk, r.context, chunk)
        if status:
            return status
        if aside:
            r.first, r.stop = 0, touched
        status = self.read_blocks(r, decoded, &sum if sums else NULL)
        if status or not sums:
            return status
        sum_until(chunk, &sum, chunk.cbytes)
        return CHUNK_OK if sum.crc == self.frame.checksums[r.nchunk] else BAD_SUM

    cdef int read_blocks(self, Reader *r, const uint8_t *decoded, ChunkSum *sum) noexcept nogil:
        """Some of the blocks that the selection touches in a chunk; in `decoded`, if that is not NULL.

        Unless `sum` is NULL, the chunk is raw, and its bytes are summed as far as they are copied.
        """
        cdef Grid *g = &self.geometry.c
        cdef Chunk *chunk = &r.chunk
        cdef Box part
        cdef int64_t source_strides[MAX_DIM]
        cdef int64_t i, nblock, offset
        cdef const uint8_t *source = NULL
        cdef uint8_t *to
        cdef int d, status
        cdef int64_t plane_strides[MAX_DIM]
        cdef int64_t last
        cdef bint shares = decoded == NULL and is_shared(self.frame, chunk)
        cdef bint shuffled = decoded == NULL and unshuffles(g, chunk)
        for d in range(g.ndim):
            source_strides[d] = g.item_strides[d] * r.axes[d].step
            if shuffled:
                plane_strides[d] = source_strides[d] // g.itemsize
        for i in range(r.first, r.stop):
            if not clip_to_block(g, r.axes, &r.box, &r.touched, i, &nblock, &part, &offset):
                continue
            to = first_item(g, r.axes, r.data, &part)
            if sum != NULL and copies_summed(self, r, nblock, &part, to, sum):
                continue
            if decoded != NULL:
                if chunk.kind == KIND_RAW:
                    status = self.frame.load_span(r.nchunk, chunk, CHUNK_HEADER + nblock * g.block_nbytes,
                                             CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
                    if status:
                        return status
                source = decoded + nblock * g.block_nbytes
            elif shares:
                status = shared_block(self.frame, r, <int32_t> nblock)
                if status:
                    return status
                if r.held != NULL:
                    copy_items(to, r.strides, r.held.data + offset, source_strides, part.count, g.ndim, g.itemsize)
                    continue
            if decoded == NULL:
                if covers(g, &part, g.blocks) and is_one_run(g, r.axes, &part):
                    status = self.frame.load_block(r.nchunk, r.context, chunk, <int32_t> nblock)
                    if status == CHUNK_OK:
                        status = decode_block(r.context, chunk, <int32_t> nblock, to)
                    if status:
                        return status
                    continue
                last = offset
                for d in range(g.ndim):
                    last += (part.count[d] - 1) * source_strides[d]
                if shuffled and unshuffles_less(g, r.axes, &part):
                    status = part_block(self.frame, r.nchunk, r.context, chunk, <int32_t> nblock, True,
                                        <int32_t> (last // g.itemsize + 1), &source)
                    if status:
                        return status
                    unshuffle_box(to, r.strides, source + offset // g.itemsize, block_bytes(chunk, <int32_t> nblock)
                                  // g.itemsize, plane_strides, part.count, g.ndim, <int> g.itemsize)
                    continue
                status = part_block(self.frame, r.nchunk, r.context, chunk, <int32_t> nblock, False,
                                    <int32_t> (last + g.itemsize), &source)
                if status:
                    return status
            copy_items(to, r.strides, source + offset, source_strides, part.count, g.ndim, g.itemsize)
        return CHUNK_OK


cdef inline void start_over(Ahead *ahead) noexcept:
    """Nothing was asked for yet."""
    ahead.begun = ahead.asked = ahead.batch = 0
    ahead.resume = INT64_MAX


cdef inline int64_t units_of(Read self) noexcept nogil:
    """How many parts the plan has."""
    return self.stop_task // self.pieces if self.parts == NULL else self.part_count


cdef inline void read_units(Read self, Reader *r, int64_t i, int64_t stop) noexcept nogil:
    """Read parts of the plan, or a piece of each."""
    cdef int64_t opened = -1, end
    cdef bint rows = self.by_rows and self.pieces == 1
    cdef int status
    while i < stop:
        if i >= number_get(&self.ahead.resume):
            ask(self, r.context)
        if rows:
            r.nchunk = self.parts[i].chunk
        elif not self.find(i, r):
            i += 1
            continue
        status = CHUNK_OK
        end = i + 1
        if r.nchunk != opened:
            r.aside = NULL
            status = self.open_padded(r)
            opened = r.nchunk
        if status == CHUNK_OK and rows and has_rows(self, r):
            end = same_block(self.parts, i, stop)
            status = read_rows(self, r, self.parts + i, end - i)
        elif status == CHUNK_OK and self.by_points:
            status = self.read_points(r)
        elif status == CHUNK_OK:
            if rows:
                self.find(i, r)
            status = self.read_part(r, i)
        if status:
            self.note_failure(status, r.nchunk)
        if number_get(&self.status):
            return
        i = end


cdef inline bint has_blocks(const Grid *g, const Chunk *chunk, int64_t touched) noexcept nogil:
    """Whether blocks of a compressed chunk can be had one by one, and so many of them cheaply."""
    return not (chunk.whole or chunk.needs_geometry or chunk.blocksize != g.block_nbytes or touched * chunk.nblocks > MOST_STEPS)


cdef inline bint unshuffles(const Grid *g, const Chunk *chunk) noexcept nogil:
    """Whether the shuffle of parts of a chunk's blocks can be undone."""
    return (chunk.plain and chunk.filter == FILTER_SHUFFLE and chunk.typesize == g.itemsize
            and unshuffles_parts(<int> g.itemsize) and chunk.blocksize <= LARGE_BLOCK)


cdef inline bint unshuffles_less(const Grid *g, const Axis *axes, const Box *part) noexcept nogil:
    """Whether it takes less time to undo the shuffle of a part of a block than of the whole block, and to copy."""
    cdef int64_t items = 1
    cdef int d
    for d in range(g.ndim):
        items *= part.count[d]
    d = g.ndim - 1
    if part.count[d] >= SHORTEST_RUN and axes[d].step == 1:
        return g.itemsize <= STRAIGHT or items * g.itemsize < g.block_nbytes
    return items * g.itemsize <= g.block_nbytes // FEW


# What is asked of the system ahead of the parts that need it. Three rules:
#
# 1. Sort, join, ask once. What lies where is known in two steps: where chunks lie from the table of offsets, and where their
#    blocks lie from their own first bytes. Each step asks for all that it knows, so that a read waits twice, however many
#    blocks it needs. It is done for a batch of parts at a time; when the first of a batch is begun, the next is asked for.
# 2. Stop asking when bytes are in memory anyway: `is_due` and `is_missed` of readahead.pxd, which says how that is noticed.
# 3. Look again now and then, and where most bytes were not in memory, ask for what later reads need as well (`want_heads`).
#
# One thread asks at a time: `busy` guards how far was asked, and how large a batch is. All threads look at `resume` before
# each part, and it may change meanwhile. It orders nothing: who comes too early or too late finds out behind `busy`.


cdef enum:
    # Stored bytes of an array of which nothing is worth asking for.
    FEW_BYTES = 16384
    # Parts of a plan that is not looked at any further where bytes are in memory anyway, unless it needs many bytes.
    FEW_PARTS = 16
    # The first bytes of all chunks are asked for with blocks that have so many times their bytes.
    HEADS_PART = 8


cdef inline double stored_nbytes(Read self) noexcept nogil:
    """About how many stored bytes the parts need."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t units = units_of(self)
    cdef double nbytes = <double> self.touched_nbytes, items = 4. * g.itemsize
    cdef int d
    if self.parts == NULL:
        nbytes = <double> units * g.chunk_nbytes
        if not self.by_points:
            # Of large chunks of which little is needed there may be many; blocks take more than their items.
            for d in range(g.ndim):
                items *= self.axes[d].count
            nbytes = min(nbytes, items)
    return nbytes * self.frame.cbytes / max(self.frame.nbytes, 1)


cdef inline int64_t batch_of(Read self) noexcept nogil:
    """How many parts are asked for at a time: those of so many stored bytes, on average."""
    cdef int64_t units = units_of(self)
    cdef double nbytes = stored_nbytes(self)
    return units if nbytes <= AHEAD_BYTES else max(<int64_t> (<double> units * AHEAD_BYTES / nbytes), 1)


cdef inline int64_t same_chunk(Read self, int64_t i, int64_t stop, Reader *r, int64_t *touched) noexcept nogil:
    """Where the parts end that need a stored chunk, from part `i` on, and how many blocks one touches at most; 0 for none."""
    cdef int64_t nchunk
    touched[0] = 0
    if self.parts == NULL:
        if self.find(i, r):
            touched[0] = r.touched.count * (r.end - r.begin if self.by_points else 1)
        i += 1
    else:
        r.nchunk = nchunk = self.parts[i].chunk
        while i < stop and self.parts[i].chunk == nchunk:
            touched[0] = max(touched[0], blocks_of(&self.geometry.c) if self.parts[i].together else self.parts[i].touched)
            i += 1
    if touched[0] and self.frame.entry(r.nchunk) < 0:
        touched[0] = 0
    return i


cdef inline bint misses(Read self, int64_t first, int64_t stop) noexcept nogil:
    """Whether the middle of the parts is not in memory, if they need many bytes."""
    cdef Reader r
    cdef int64_t touched
    if stored_nbytes(self) < TRIED:
        return False
    r.begin, r.end = 0, 0
    same_chunk(self, first + (stop - first) // 2, stop, &r, &touched)
    return touched > 0 and is_missed(
        self.frame.source, self.frame.source.asking,
        self.frame.chunks_start + self.frame.entry(r.nchunk) + reach(self.frame, r.nchunk) // 2)


cdef inline void ask(Read self, DecodeContext *context) noexcept nogil:
    """Ask for the next batch, unless another thread does, or now is not the time."""
    cdef int64_t first, stop = units_of(self)
    if not state_change(&self.ahead.busy, 0, 1):
        return
    if self.ahead.batch == 0:
        self.ahead.batch = batch_of(self)
    first = self.ahead.asked
    number_set(&self.ahead.resume, first if first < stop else INT64_MAX)
    self.ahead.asked = stop = min(first + self.ahead.batch, stop)
    if first < stop and (is_due(self.frame.source.asking) or misses(self, first, stop)):
        ask_for(self, context, first, stop)
    state_set(&self.ahead.busy, 0)


cdef inline void want_part(Read self, Wanted *wanted, int64_t i, Reader *r) noexcept nogil:
    """Want the blocks of a part of a chunk that was found."""
    cdef Grid *g = &self.geometry.c
    cdef Box part
    cdef int64_t k, nblock, offset, point, pointed, before = -1
    if not self.find(i, r):
        return
    if not self.by_points:
        r.begin, r.end = 0, 1
    for point in range(r.begin, r.end):
        pointed = self.block_of_point(point) if self.by_points else 0
        if pointed == before:
            continue
        before = pointed
        for k in range(r.touched.count):
            if clip_to_block(g, r.axes, &r.box, &r.touched, k, &nblock, &part, &offset):
                want_block(self.frame, wanted, r.nchunk, &r.chunk, nblock + pointed, g.block_nbytes)


cdef inline int64_t last_of(const Grid *g, const Reader *r) noexcept nogil:
    """The number of the last block that a part touches in a chunk; -1 if its steps may pass over blocks."""
    cdef int d
    for d in range(g.ndim):
        if r.axes[d].step > g.blocks[d]:
            return -1
    return nth_block(g, &r.touched, r.touched.count - 1)


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


cdef inline bint takes_all_of(Frame frame, int64_t nchunk, int64_t touched, int64_t nblocks, int64_t *worth) noexcept nogil:
    """Whether to want all of a chunk: most of it is needed, or later reads may need the rest, which is taken from `worth`."""
    cdef int64_t rest = reach(frame, nchunk)
    if is_wanted_whole(frame, nchunk, touched, nblocks):
        return True
    rest -= rest // nblocks * touched
    if rest > worth[0]:
        return False
    worth[0] -= rest
    return True


cdef inline void ask_for(Read self, DecodeContext *context, int64_t first, int64_t stop) noexcept nogil:
    """Ask for what parts of the plan need: whole chunks and the beginnings of others, then blocks of these."""
    cdef Grid *g = &self.geometry.c
    cdef Wanted wanted
    cdef Reader r
    cdef int64_t i = first, end, touched = 0, nblocks = blocks_of(g), blocks = 0, chunks = 0, worth, left
    cdef bint whole, again = False
    r.context, r.begin, r.end = context, 0, 0
    begin_asking(self.frame.source, self.frame.source.asking, &wanted)
    left = worth = worth_fetching(&wanted)
    while i < stop:
        end = same_chunk(self, i, stop, &r, &touched)
        chunks += 1
        if touched:
            whole = takes_all_of(self.frame, r.nchunk, touched, nblocks, &left)
            # The only one is read at once, and then nothing is gained by asking.
            if whole or end - i < stop - first:
                want_chunk(self.frame, &wanted, r.nchunk, nblocks, whole)
            if self.parts == NULL and wanted.state.slow and not (whole or self.by_points or wanted.far):
                want_beginning(self.frame, &wanted, r.nchunk, nblocks, touched, last_of(g, &r))
            again = again or not whole
        i = end
    wanted.leaf = not again and chunks == self.frame.chunk_count
    wanted.spare = worth - left
    send_requests(&wanted)
    i, left = first, worth
    while again and i < stop:
        end = same_chunk(self, i, stop, &r, &touched)
        if touched and not takes_all_of(self.frame, r.nchunk, touched, nblocks, &left) and find_blocks(
                self.frame, &wanted, r.nchunk, context, &r.chunk):
            for i in range(i, end):
                want_part(self, &wanted, i, &r)
            if self.parts == NULL and not self.by_points:
                blocks += touched
            send_early(&wanted)
        i = end
    want_heads(self.frame, &wanted, blocks, nblocks)
    end_asking(&wanted, 1)


# Checking chunks that a selection reads as a whole against their checksums.


cdef inline bint takes_all(Read self, const Reader *r) noexcept nogil:
    """Whether a box takes all items that a chunk has; what it has beyond the end of an axis does not count."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t start
    cdef int d
    for d in range(g.ndim):
        start = r.nchunk // g.chunk_strides[d] % g.grid[d] * g.chunks[d]
        if r.box.count[d] != min(g.chunks[d], g.shape[d] - start):
            return False
    return True


cdef inline bint is_last(long *left) noexcept nogil:
    """Count a piece that was summed; whether the others were before, and what their threads wrote is seen here."""
    cdef long count
    while True:
        count = state_get(left)
        if state_change(left, count, count - 1):
            return count == 1


cdef inline int sum_piece(Read self, Reader *r, int64_t i) noexcept nogil:
    """Sum as many of a chunk's stored bytes as is each piece's part; the last one joins the checksums of all pieces."""
    cdef int64_t cbytes = r.chunk.cbytes, start = r.piece * cbytes // self.pieces, stop = (r.piece + 1) * cbytes // self.pieces
    cdef uint32_t *sums = self.sums + i * self.pieces
    cdef uint32_t crc = 0
    cdef int64_t k
    cdef int status = self.frame.load_span(r.nchunk, &r.chunk, start, stop)
    if status:
        return status
    r.chunk.run, r.chunk.run_stop = start, stop
    sums[r.piece] = checksum(0, r.chunk.data + start, <size_t> (stop - start))
    if not is_last(self.left + i):
        return CHUNK_OK
    for k in range(self.pieces):
        start, stop = k * cbytes // self.pieces, (k + 1) * cbytes // self.pieces
        crc = joined(crc, sums[k], <uint64_t> (stop - start))
    return CHUNK_OK if crc == self.frame.checksums[r.nchunk] else BAD_SUM


cdef inline void sum_until(const Chunk *chunk, ChunkSum *sum, int64_t stop) noexcept nogil:
    """Go on with the checksum of a chunk up to one of its bytes."""
    if stop > sum.size:
        sum.crc = checksum(sum.crc, chunk.data + sum.size, <size_t> (stop - sum.size))
        sum.size = stop


cdef inline bint copies_summed(
        Read self, const Reader *r, int64_t nblock, const Box *part, uint8_t *to, ChunkSum *sum) noexcept nogil:
    """Sum a block of a raw chunk, with what is before it; whether the block was copied at the same time."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t start = CHUNK_HEADER + nblock * g.block_nbytes
    sum_until(&r.chunk, sum, start)
    if sum.size == start and covers(g, part, g.blocks) and copy_and_checksum(
            &sum.crc, to, r.strides, part.count, g.ndim, r.chunk.data + start, g.itemsize):
        sum.size += g.block_nbytes
        return True
    sum_until(&r.chunk, sum, start + g.block_nbytes)
    return False


# Chunks all of whose items are one value, of which no bytes are stored, or only that value.


cdef enum:
    # Bytes of a row of items that is made first, and then copied.
    LONGEST_ROW = 1 << 20


cdef inline int fill_special(Read self, Reader *r) noexcept nogil:
    """Zeros, NaN or one value into a box, without decoding anything."""
    cdef Grid *g = &self.geometry.c
    cdef Chunk *chunk = &r.chunk
    cdef Box *box = &r.box
    cdef int64_t row_strides[MAX_DIM]
    cdef uint8_t *to = first_item(g, r.axes, r.data, box)
    cdef uint8_t *row
    cdef int d, last = g.ndim - 1
    cdef int status = self.frame.load_and_check(r.nchunk, r.context, &r.chunk)
    cdef int64_t total = g.itemsize
    if status:
        return status
    if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
        return BAD_SPECIAL
    if is_one_run(g, r.axes, box):
        for d in range(g.ndim):
            total *= box.count[d]
        return fill(chunk, 0, to, total)
    for d in range(g.ndim):
        row_strides[d] = 0
    if r.strides[last] == g.itemsize and box.count[last] <= LONGEST_ROW // g.itemsize:
        row_strides[last] = g.itemsize
        total *= box.count[last]
    row = reserve_scratch(r.context, total)
    if row == NULL:
        return NO_MEMORY
    status = fill(chunk, 0, row, total)
    if status:
        return status
    copy_items(to, r.strides, row, row_strides, box.count, g.ndim, g.itemsize)
    return CHUNK_OK


cpdef int64_t work_of(int64_t nbytes, Frame frame) noexcept:
    """What reading `nbytes` uncompressed bytes of a frame costs.

    Decoders spend their time on compressed bytes; on what compresses to nothing they run some 4 times as fast.
    """
    return nbytes // 4 + (<int64_t> (<double> nbytes * frame.cbytes / frame.nbytes) if frame.nbytes else 0)


def bytes_to_fill(cnp.npy_intp size):
    """New bytes of undefined content, and an array over them: nobody else may get the bytes before it is filled."""
    result = fresh_bytes(size)
    room = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, PyBytes_AS_STRING(result))
    cnp.set_array_base(room, result)
    return result, room


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
            dims[k] = self.axes[d].count
            k += 1
    Py_INCREF(dtype)  # the next call steals one reference
    return PyArray_Empty(k, dims, dtype, 0)


cdef inline int64_t _aim(Read self, cnp.ndarray out) except -1:
    """Write into `out`, of the shape that the key gives; returns the work."""
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(out)
    cdef int d, k = 0
    if cnp.PyArray_ITEMSIZE(out) != self.geometry.c.itemsize:
        raise ValueError("the result has items of another size than the array")
    self.keep = out
    self.data = <uint8_t *> cnp.PyArray_DATA(out)
    for d in range(self.geometry.c.ndim):
        if self.flags >> d & 1:
            continue    # an axis of one item: its stride is not used
        self.axes[d].stride = strides[k]
        if self.flags >> (REVERSED + d) & 1:
            self.data += (self.axes[d].count - 1) * strides[k]
            self.axes[d].stride = -strides[k]
        k += 1
    return _work(self)


cdef inline int64_t _work(Read self) noexcept:
    """The work of decoding the blocks that a selection touches."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t nbytes = g.itemsize
    cdef double touched = g.itemsize    # in an array that is mostly empty there may be more than can be counted
    cdef int d
    for d in range(g.ndim):
        nbytes *= self.axes[d].count
    if nbytes >= SEVERAL_BYTES:
        for d in range(g.ndim):
            touched *= _touched(&self.axes[d], g.blocks[d])
        nbytes = max(nbytes, <int64_t> min(touched - g.block_nbytes, 1e18))     # of one block others can do nothing
    return work_of(nbytes, self.frame)


cdef inline int64_t _touched(const Axis *axis, int64_t block) noexcept:
    """About how many items lie along an axis in the blocks that a selection touches."""
    cdef int64_t last = axis.start + (axis.count - 1) * axis.step
    if axis.step > block:
        return axis.count * block
    return min((last // block - axis.start // block + 1) * block, max(last + 1, block))


cdef inline int _go(Read self, int threads) except -1:
    """Read, in up to as many threads."""
    cdef DecodeContext *context
    self.frame.load_index()
    if self.frame.by_member:
        self.check_member()
    if threads == 1 and stays_with_gil(self.frame):
        start_over(&self.ahead)
        self.ahead.begun = 1    # opening has read all of it
        context = borrow(self.frame.blocksize)
        self.work(context, None)
        give_back(context)
    else:
        self.run(threads)
    if self.status:
        self.finish()
    return 0


cdef inline bint _pays(Read self, int64_t work) noexcept:
    """Whether a second thread pays. It does so earlier where one waits for the disk."""
    if not worth_threads(COLD * work):
        return False
    self.cold = is_cold(self.frame.source.asking)
    return self.cold or worth_threads(work)


cdef inline Read _parsed(tuple version, key):
    """A reader of what a key selects, which has no array yet; None for keys that `parse_key` does not take."""
    cdef Geometry geometry = version[0]
    cdef Frame frame = version[2]
    cdef Read self = Read.__new__(Read)
    if geometry is None or frame is None:
        raise TypeError("a frame and its geometry are needed")
    self.geometry = geometry
    self.frame = frame
    if not parse_key(&self.geometry.c, key, self.axes, &self.flags):
        return None
    locate(self)
    return self


def read_basic(tuple version not None, key, handle):
    """The items of a key of integers, slices and one `...`, in a new array; None for other keys.

    Parameters
    ----------
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
    if self.tasks:
        _go(self, threads)
    return out


def read_basic_into(tuple version not None, key, int nthreads, out):
    """What `read_basic` gives, read by up to so many threads, into `out` (see `check_out`) if it is not None."""
    cdef Read self = _parsed(version, key)
    cdef int64_t work
    cdef int d
    if self is None:
        return None
    if out is None:
        out = _new(self, version[1])
    else:
        check_out(out, tuple([self.axes[d].count for d in range(self.geometry.c.ndim) if not self.flags >> d & 1]), version[1])
    work = _aim(self, out)
    if self.tasks:
        _go(self, nthreads if _pays(self, work) else 1)
    return out


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


cdef inline bint is_row(const Grid *g, const Axis *axes) noexcept nogil:
    """Whether a selection is one row, and goes to one run of bytes."""
    cdef int64_t run = g.itemsize
    cdef int d
    for d in range(g.ndim - 1, 0, -1):
        if axes[d].count != g.shape[d] or (g.shape[d] != 1 and axes[d].stride != run):
            return False
        run *= g.shape[d]
    return axes[0].count == 1


cdef inline int64_t list_rows(
        const Grid *g, const Axis *table, const int64_t *rooms, int64_t first, int64_t stop, Part *parts) noexcept nogil:
    """What `list_parts` does, for selections that are rows."""
    cdef int64_t i, row, nchunk, count = 0
    cdef Part *part
    cdef bint sorted = True
    for i in range(first, stop):
        if rooms[i] == 0:
            continue
        row = table[i * g.ndim].start
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


cdef inline bint has_rows(Read self, const Reader *r) noexcept nogil:
    """Whether the rows of a chunk can be had without decoding or checking all of it."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t start = r.nchunk // g.chunk_strides[0] * g.chunks[0]
    if r.aside != NULL or (self.frame.checksums != NULL and min(g.chunks[0], g.shape[0] - start) == 1):
        return False
    return r.chunk.kind == KIND_RAW or (r.chunk.kind == KIND_REGULAR and has_blocks(g, &r.chunk, 1))


cdef inline int64_t same_block(const Part *parts, int64_t i, int64_t stop) noexcept nogil:
    """Where the parts end that need the same block as part `i`."""
    cdef int64_t end = i + 1
    while end < stop and parts[end].block == parts[i].block and parts[end].chunk == parts[i].chunk:
        end += 1
    return end


cdef inline int read_rows(Read self, Reader *r, const Part *parts, int64_t count) noexcept nogil:
    """The rows of some parts that need the same block of a chunk that `has_rows`."""
    cdef Grid *g = &self.geometry.c
    cdef Chunk *chunk = &r.chunk
    cdef DecodeContext *context = r.context
    cdef uint8_t **targets = self.targets
    cdef int64_t nchunk = parts.chunk, length = g.item_strides[0], items = length // g.itemsize, last = 0, i
    cdef int64_t first = nchunk // g.chunk_strides[0] * g.chunks[0] + parts.block // g.block_strides[0] * g.blocks[0]
    cdef const uint8_t *source = NULL
    cdef bint shuffled = False
    cdef int status = CHUNK_OK
    if chunk.kind == KIND_RAW:
        source = chunk.data + CHUNK_HEADER + parts.block * g.block_nbytes
        status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + parts.block * g.block_nbytes,
                                      CHUNK_HEADER + (parts.block + 1) * g.block_nbytes)
    elif is_shared(self.frame, chunk):
        status = shared_block(self.frame, r, parts.block)
        if r.held != NULL:
            source = r.held.data
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
            last = max(last, self.table[parts[i].selection * g.ndim].start - first)
        shuffled = (unshuffles(g, chunk)
                    and (items >= SHORTEST_RUN or count * length <= g.block_nbytes // FEW))
        status = part_block(self.frame, nchunk, context, chunk, parts.block, shuffled,
                            <int32_t> ((last + 1) * (items if shuffled else length)), &source)
        if status:
            return status
    for i in range(count):
        last = self.table[parts[i].selection * g.ndim].start - first
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
# about the same work.


cdef enum:
    # Chunks of a selection above which it has nothing to gain from the others.
    MOST_CHUNKS = 1 << 16
    # Parts that are in memory at a time, with those of one selection more.
    MOST_PARTS = 1 << 20
    # Shares for each thread: they do not all take the same time, and a thread that has none left waits for the last.
    SHARES = 16
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


cdef class ReadMany(Read):
    """Read many selections of one array.

    Parameters
    ----------
    selection_of : callable
        Gives a `blosc2.indexing.Selection`, or None, for a number and its key: asked for keys that are not just integers
        and slices, and for those that are wrong, for which it raises.

    Attributes
    ----------
    others : list of int
        The numbers of keys for which it gave None.
    large : list of int
        Those of selections that touch so many chunks that each is better read by itself, or all of what is checked as one.
    shape : tuple or None
        The shape of each selection, where all but `others` have the same.
    cost : int
        That of the parts that are read next: of the blocks that they touch, and something for each of them.
    """

    cdef readonly list others
    cdef readonly list large
    cdef readonly object shape
    cdef int64_t number             # of selections
    cdef uint32_t *kinds            # for each selection: axes of integers, and from REVERSED on those read backwards
    cdef int64_t *rooms             # for each selection: how many chunks it may touch; 0 where it is read otherwise
    cdef set left_out               # `others`
    cdef dict shapes                # of selections by other keys than integers and slices
    cdef int64_t parts_room

    @property
    def cost(self):
        """That of the parts that are read next."""
        return work_of(self.touched_nbytes, self.frame)

    def __init__(self, Frame frame not None, Geometry geometry not None, list keys not None, selection_of):
        cdef int64_t i, d, items
        cdef Axis *axes
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
        self.table = <Axis *> malloc((self.number * geometry.c.ndim + 1) * sizeof(Axis))
        self.kinds = <uint32_t *> malloc((self.number + 1) * sizeof(uint32_t))
        self.rooms = <int64_t *> malloc((self.number + 1) * sizeof(int64_t))
        self.targets = <uint8_t **> malloc((self.number + 1) * sizeof(uint8_t *))
        if self.table == NULL or self.kinds == NULL or self.rooms == NULL or self.targets == NULL:
            raise MemoryError
        frame.load_index()
        for i in range(self.number):
            key = <object> PyList_GET_ITEM(keys, i)
            axes = self.table + i * geometry.c.ndim
            try:
                simple = parse_key(&geometry.c, key, axes, self.kinds + i)
            except (TypeError, ValueError):
                simple = False
            if not simple:
                selection = selection_of(i, key)
                if selection is None:
                    self.others.append(i)
                    self.rooms[i] = 0
                    continue
                self.take_selection(i, selection)
            self.rooms[i] = 0
            if geometry.c.size == 0:
                continue    # and its chunks may be of no items: there is nothing to divide by
            self.rooms[i] = items = 1
            for d in range(geometry.c.ndim):
                if axes[d].count == 0:
                    self.rooms[i] = 0
                    break
                items *= axes[d].count
                self.rooms[i] *= ((axes[d].start + (axes[d].count - 1) * axes[d].step) // geometry.c.chunks[d]
                                  - axes[d].start // geometry.c.chunks[d] + 1)
            # All items of a member of an archive are checked, which only a read of its own does.
            if self.rooms[i] > MOST_CHUNKS or (frame.by_member and items == geometry.c.size):
                self.large.append(i)
                self.rooms[i] = 0
        self.left_out = set(self.others)
        self.compare_shapes()

    def __dealloc__(self):
        free(self.table)
        free(self.kinds)
        free(self.rooms)
        free(self.targets)
        free(self.parts)
        free(self.shares)

    # ------------------------------------------------------------ keys

    cdef int take_selection(self, int64_t number, object selection) except -1:
        """Take what the selection of another key says."""
        cdef Grid *g = &self.geometry.c
        cdef Axis *axis = self.table + number * g.ndim
        cdef int d
        cdef Py_ssize_t k = 0
        shape = selection.shape
        flip = selection.flip
        if len(shape) > MOST_AXES:
            raise IndexError(f"selection {number} of the batch: the result would have {len(shape)} axes; "
                             f"at most {MOST_AXES} are possible")
        self.shapes[number] = shape
        self.kinds[number] = 0
        for d in range(g.ndim):
            take_axis(g, d, axis, selection.starts[d], selection.steps[d], selection.counts[d])
            if flip is not None and axis.count > 1:
                # Axes of another length than 1 are the same, in the same order, in the array and in the result.
                while shape[k] == 1:
                    k += 1
                if flip[k].step == -1:
                    self.kinds[number] |= <uint32_t> 1 << (REVERSED + d)
                k += 1
            elif flip is not None and axis.count == 0:
                while shape[k] != 0:
                    k += 1
                k += 1
            axis += 1
        return 0

    def shape_of(self, int64_t number):
        """The shape of a selection."""
        cdef int d
        cdef Axis *axes = self.table + number * self.geometry.c.ndim
        if not 0 <= number < self.number or number in self.left_out:
            raise IndexError(f"there is no selection {number}")
        if self.shape is not None:
            return self.shape
        known = self.shapes.get(number)
        if known is not None:
            return known
        return tuple([axes[d].count for d in range(self.geometry.c.ndim) if not self.kinds[number] >> d & 1])

    cdef int compare_shapes(self) except -1:
        """Find out whether all selections have one shape."""
        cdef int64_t common[MAX_DIM]
        cdef int64_t i
        cdef Axis *axes
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
                axes = self.table + i * ndim
                same = length <= MAX_DIM
                k = 0
                for d in range(ndim):
                    if not same:
                        break
                    if not self.kinds[i] >> d & 1:
                        same = k < length and common[k] == axes[d].count
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
        cdef Axis *axis = self.table + number * self.geometry.c.ndim
        cdef int d, k = 0
        if self.rooms[number]:
            for d in range(self.geometry.c.ndim):
                axis.stride = 0
                if axis.count != 1:
                    axis.stride = moving[k]
                    k += 1
                    if self.kinds[number] >> (REVERSED + d) & 1:
                        target += (axis.count - 1) * axis.stride
                        axis.stride = -axis.stride
                axis += 1
            self.by_rows = self.by_rows and is_row(&self.geometry.c, axis - self.geometry.c.ndim)
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
                self.part_count = list_rows(&self.geometry.c, self.table, self.rooms, first, stop, self.parts)
            else:
                self.part_count = list_parts(&self.geometry.c, self.table, self.rooms, first, stop, self.parts)
            for i in range(self.part_count):
                self.touched_nbytes += cost_of(self.parts, &self.geometry.c, i)
        self.pieces = 1
        self.need_shares(1)
        self.shares[0], self.shares[1] = 0, self.part_count
        self.share_count = 1 if self.part_count else 0
        self.next_task = 0
        start_over(&self.ahead)
        self.tasks = self.stop_task = self.share_count
        return stop

    cdef int need_shares(self, int64_t count) except -1:
        cdef int64_t *shares = <int64_t *> realloc(self.shares, (count + 1) * sizeof(int64_t))
        if shares == NULL:
            raise MemoryError
        self.shares = shares
        return 0

    cdef int share(self, int64_t threads) except -1:
        """Divide the parts into shares, and the parts themselves when there are too few."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t i, chunks = 0, cost = 0, target, wanted = SHARES * threads
        cdef Part *part
        if self.part_count == 0:
            return 0
        for i in range(self.part_count):
            chunks += i == 0 or self.parts[i].chunk != self.parts[i - 1].chunk
        if chunks < 2 * threads:
            # One thread would decode while the others wait.
            for i in range(self.part_count):
                self.parts[i].together = False
        if self.part_count < wanted // 4:
            self.pieces = max(min(blocks_of(g), (wanted // 4 + self.part_count - 1) // self.part_count), 1)
        target = 0
        for i in range(self.part_count):
            target += cost_of(self.parts, &self.geometry.c, i)
        target = target // wanted + 1
        # A share is closed when it costs as much as `target`, so that there are not more than wanted, or parts.
        self.need_shares(min(wanted + 1, self.part_count))
        self.share_count = 0
        self.shares[0] = 0
        for i in range(self.part_count):
            part = &self.parts[i]
            if cost >= target and (
                    self.pieces > 1 or part.chunk != self.parts[i - 1].chunk
                    or (not part.together and (part.block != self.parts[i - 1].block or cost >= 2 * target))):
                self.share_count += 1
                self.shares[self.share_count] = i
                cost = 0
            cost += cost_of(self.parts, &self.geometry.c, i)
        self.share_count += 1
        self.shares[self.share_count] = self.part_count
        self.tasks = self.stop_task = self.share_count * self.pieces
        return 0


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
