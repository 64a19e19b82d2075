# cython: cdivision=True, boundscheck=False, wraparound=False
"""Asking for the chunks and blocks that an operation reads, ahead of it: a batch of tasks at a time.

What lies where is known in two steps: where chunks lie from the table of offsets, and where their blocks lie from their
own first bytes. Each step asks for all that it knows, so that a read waits twice, however many blocks it needs. When the
first task of a batch is begun, the next batch is asked for.

One thread asks at a time: `busy` guards how far was asked, and how large a batch is. All threads look at `resume` before
each task, and it may change meanwhile. It orders nothing: who comes too early or too late finds out behind `busy`.
"""

from libc.stdint cimport INT64_MAX, int64_t

from blosc2._core.codec.codec cimport CHUNK_HEADER, Chunk, DecodeContext
from blosc2._core.frame.ask_chunks cimport find_blocks, is_wanted_whole, want_beginning, want_block, want_chunk
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.readahead cimport (
    AHEAD_BYTES, PAGE, Wanted, begin_asking, end_asking, goes_without, is_due, send_early, send_requests)
from blosc2._core.io.steps cimport number_get, number_set, state_change, state_get, state_set
from blosc2._core.ndim.geometry cimport MAX_DIM, Grid
from blosc2._core.ndim.grid cimport Ahead, Box, Operation, clip

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
            if not (whole or self.by_points or wanted.far) and state_get(&wanted.state.slow):
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


cdef inline bint asks(Operation self) noexcept nogil:
    """Whether an operation may have to ask; most need not look any further."""
    return not (self.frame.source.asking == NULL or self.frame.cbytes <= FEW_BYTES or self.tasks == 0 or (
        self.tasks <= FEW_TASKS and goes_without(self.frame.source.asking)))


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
    cdef Ahead *ahead = &self.ahead
    cdef int64_t first, stop
    if not state_change(&ahead.busy, 0, 1):
        return
    if ahead.batch == 0:
        begin_batches(self)
    first = ahead.asked
    stop = min(first + ahead.batch, self.stop_task // self.pieces)
    if first >= stop:
        number_set(&ahead.resume, INT64_MAX)
    else:
        ahead.asked = stop
        number_set(&ahead.resume, first * self.pieces)
        if is_due(self.frame.source.asking):
            ask_for_tasks(self, context, first, stop)
    state_set(&ahead.busy, 0)
