# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Writing a selection: chunks are collected from a NumPy array, padded block by block, and compressed."""

cimport numpy as cnp
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.endian cimport put32
from blosc2._core.io.steps cimport counter_next
from blosc2._core.codec.codec cimport (
    BlocksJob, BlockThreads, DecodeContext, Encoder, RunBlocks, decode_block, reserve_scratch)
from blosc2._core.codec.chunk cimport (
    CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, NO_MEMORY, Chunk, block_start, extent, inspect)
from blosc2._core.frame.frame cimport open_asked
from blosc2._core.codec.thread_pool cimport (
    Job, WorkerGroup, acquire_group, await_gil, finish, offer_gil, release_group, start)
from blosc2._core.ndim.geometry cimport (
    MAX_DIM, Box, Geometry, Grid, Operation, Touched, clip_to_block, copy_items, covers, first_item, is_one_run, touch)

from blosc2._core.codec.codec import encoding_error

cnp.import_array()

cdef enum:
    # Added to what an encoder returns, which a decoder may return as well.
    ENCODING_FAILED = -1000000
    # Bytes of a chunk from which threads share its blocks, if there is no other one for them.
    SHARED = 64 << 10
    # Blocks of a chunk from which on single ones are replaced: each is compressed with another one.
    FEW_BLOCKS = 4


cdef struct BlockJobs:   # what the C library wants done for one chunk, by as many threads as there are
    BlocksJob job
    int64_t count, next
    size_t size
    char *data


cdef void _do_jobs(BlockJobs *jobs, DecodeContext *context, void *tool) noexcept nogil:
    """The job of a thread: as many of them as are left."""
    cdef int64_t i = counter_next(&jobs.next)
    while i < jobs.count:
        jobs.job(jobs.data + i * jobs.size)
        i = counter_next(&jobs.next)


cdef void _run_blocks(WorkerGroup *group, BlocksJob job, int count, size_t size, void *data) noexcept nogil:
    cdef BlockJobs jobs
    cdef int i
    jobs.job, jobs.count, jobs.next, jobs.size, jobs.data = job, count, 0, size, <char *> data
    for i in range(group.count):
        group.workers[i].operation = <void *> &jobs
    start(group.workers, group.count)
    _do_jobs(&jobs, NULL, NULL)
    for i in range(group.count):
        finish(group.workers[i])


cdef struct Result:  # of compressing one chunk: without bytes it is all zeros
    int64_t nchunk
    int32_t size
    uint32_t sum    # of the stored bytes, where it is asked for


cdef class Slots:
    """Room for compressed chunks, used again and again: fresh memory costs more than it takes to fill it."""

    cdef cnp.ndarray memory
    cdef uint8_t *data
    cdef int64_t size
    cdef int users      # chunks that still show bytes of it

    @staticmethod
    cdef Slots of(int64_t size):
        cdef Slots self = Slots.__new__(Slots)
        cdef cnp.npy_intp length = size
        # NumPy asks for large pages where the system has them.
        self.memory = cnp.PyArray_SimpleNew(1, &length, cnp.NPY_UINT8)
        self.data = <uint8_t *> cnp.PyArray_DATA(self.memory)
        self.size = size
        return self


cdef class StoredChunk:
    """The bytes of a compressed chunk where they were made: a read-only buffer."""

    cdef Slots slots
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef uint32_t own_checksum
    cdef bint summed

    @staticmethod
    cdef StoredChunk of(Slots slots, uint8_t *data, Py_ssize_t size):
        cdef StoredChunk self = StoredChunk.__new__(StoredChunk)
        self.slots = slots
        slots.users += 1
        self.data = data
        self.size = size
        return self

    def __dealloc__(self):
        if self.slots is not None:
            self.slots.users -= 1

    def __len__(self):
        return self.size

    @property
    def sum(self):
        """The checksum of the bytes; None unless it was asked for when they were made."""
        return self.own_checksum if self.summed else None

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


cdef inline bint _stand_alone(const Chunk *chunk, const Grid *g) noexcept nogil:
    """Whether a chunk of an array has blocks that can be copied one by one."""
    return ((chunk.kind == KIND_REGULAR or chunk.kind == KIND_RAW) and not chunk.whole and not chunk.needs_geometry
            and chunk.nbytes == g.chunk_nbytes and chunk.blocksize == g.block_nbytes)


cdef bint _in_order(const Chunk *chunk) noexcept nogil:
    """Whether the blocks of a chunk lie one behind the other, behind the table of their starts."""
    cdef int32_t i, start, end = CHUNK_HEADER + 4 * chunk.nblocks
    for i in range(chunk.nblocks):
        start = block_start(chunk, i)
        if start < end or start > chunk.cbytes - 4:
            return False
        end = start + 4
    return True


cdef struct Remade:         # a chunk that is made of stored blocks and new ones
    Chunk old               # with the header and table at `stored`, where those of the new chunk come to be
    uint8_t *stored
    int32_t position        # behind what is there
    int32_t room


cdef bint _keep_blocks(Remade *made, const Chunk *chunk, int32_t first, int32_t stop) noexcept nogil:
    """Copy blocks that stay; False if there is no room for them, or they are not streams that end where they should."""
    cdef int32_t start = block_start(&made.old, first)
    cdef int32_t size = (block_start(&made.old, stop) if stop < made.old.nblocks else made.old.cbytes) - start
    cdef int32_t i, begin = 0, end = 0
    cdef int byte = 0
    if size > made.room - made.position:
        return False
    for i in range(first, stop):
        if extent(chunk, i, &begin, &end, &byte):
            return False
    memcpy(made.stored + made.position, chunk.data + start, size)
    for i in range(first, stop):
        put32(made.stored + CHUNK_HEADER + 4 * i, made.position + (block_start(&made.old, i) - start))
    made.position += size
    return True


cdef bint _put_block(Remade *made, int32_t block, const uint8_t *items, const uint8_t *encoded, int32_t size) noexcept nogil:
    """Add the first of the two blocks of a chunk; False if it cannot be a block of this one, or there is no room for it.

    Without a size nothing was compressed, nor is anything to be.
    """
    cdef Chunk two
    cdef int32_t start = 0
    if size:
        if inspect(encoded, size, &two) or two.kind != KIND_REGULAR:
            return False
        start = block_start(&two, 0)
        size = block_start(&two, 1) - start
    if made.old.kind == KIND_RAW:
        if 0 < size < made.old.blocksize:
            return False    # now the chunk may be worth compressing
        memcpy(made.stored + CHUNK_HEADER + <int64_t> block * made.old.blocksize, items, made.old.blocksize)
        return True
    if (memcmp(encoded, made.old.data, 4) or memcmp(encoded + 16, made.old.data + 16, 16)
            or two.blocksize != made.old.blocksize or size > made.room - made.position):
        return False
    memcpy(made.stored + made.position, encoded + start, size)
    put32(made.stored + CHUNK_HEADER + 4 * block, made.position)
    made.position += size
    return True


cdef class Write(Operation):
    """Compress the chunks that a selection touches, with new items from a NumPy array.

    Parameters
    ----------
    frame : Frame or None
        Where chunks that the selection takes only in part come from; None when it takes all.
    source : ndarray
        New items, of the selection's shape; any strides (zero for broadcast axes).
    points : Points, optional
        Which items of some axes; then the source is C-contiguous, of any shape.

    Attributes
    ----------
    summed : bool
        Whether to compute the checksums of chunks as well, while their bytes are in the cache of the thread that made them.

    After `run`, `chunks` maps the number of each chunk to its stored bytes, or to an offset without a chunk. Who lets go of
    these bytes before the next `run` has it use their memory again.
    """

    cdef readonly dict chunks
    cdef public bint summed
    cdef readonly object encoding
    cdef int level
    cdef object plugin
    cdef Result *results            # of the tasks from `first_result` on
    cdef int64_t first_result
    cdef list kept_slots
    cdef Slots slots                # for the tasks of a run, one after the other
    cdef BlockThreads *helpers      # with the blocks of a chunk

    def __init__(self, frame, Geometry geometry not None, start, step, count, cnp.ndarray source not None,
                 encoding, plugin=None, points=None):
        cdef int d
        self.frame = frame
        self.geometry = geometry
        self.select(start, step, count)
        if cnp.PyArray_ITEMSIZE(source) != geometry.c.itemsize:
            raise ValueError("the source does not have the items of the array")
        if points is not None:
            if frame is None or not cnp.PyArray_IS_C_CONTIGUOUS(source):
                raise ValueError("points are written into chunks that exist, from a C-contiguous source")
            self.pick(source, points)
        elif cnp.PyArray_NDIM(source) != geometry.c.ndim:
            raise ValueError("the source does not have the axes of the array")
        else:
            for d in range(geometry.c.ndim):
                if cnp.PyArray_DIM(source, d) != self.axes[d].count:
                    raise ValueError("the source has another shape than the selection")
                self.axes[d].stride = cnp.PyArray_STRIDE(source, d)
        self.keep = source
        self.data = <uint8_t *> cnp.PyArray_DATA(source)
        self.encoding = encoding
        self.level = encoding.clevel
        self.plugin = plugin
        self.chunks = {}
        self.kept_slots = []
        if frame is not None:
            self.frame.load_index()

    def take_chunks(self):
        """The chunks compressed so far, which are then forgotten here, as bytes of their own."""
        chunks = {n: stored if isinstance(stored, int) else bytes(stored) for n, stored in self.chunks.items()}
        self.chunks = {}
        return chunks

    def take_buffers(self):
        """The chunks compressed so far, where they lie: for a caller that copies or writes them at once, and lets them go."""
        chunks = self.chunks
        self.chunks = {}
        return chunks

    cdef int64_t slot(self) noexcept nogil:
        """Room that is always enough for a chunk."""
        return self.geometry.c.chunk_nbytes + CHUNK_HEADER

    cdef int find_slots(self, int64_t count) except -1:
        """Take unused memory for this many chunks."""
        cdef Slots slots
        for slots in self.kept_slots:
            if slots.users == 0 and slots.size >= count * self.slot():
                self.slots = slots
                return 0
        self.slots = Slots.of(count * self.slot())
        # Two are enough: the caller may still hold a chunk of the run before.
        self.kept_slots = [self.slots, *self.kept_slots[:1]]
        return 0

    cdef Encoder encoder(self):
        return self.encoder_for(1)

    cdef Encoder encoder_for(self, int threads):
        """What chunks are compressed with, whose blocks so many threads share; and blocks alone, where others stay."""
        cdef Encoder encoder = Encoder(self.encoding, self.plugin)
        encoder.prepare(<int32_t> self.geometry.c.chunk_nbytes, threads)
        if (self.frame is not None and self.plugin is None and not self.by_points
                and self.geometry.c.chunk_nbytes >= FEW_BLOCKS * self.geometry.c.block_nbytes):
            encoder.of_block = Encoder(self.encoding)
            encoder.of_block.prepare(<int32_t> (2 * self.geometry.c.block_nbytes))
        return encoder

    cdef int run_by_blocks(self, int threads) except -1:
        """Work until nothing is left, one chunk after the other, whose blocks threads share; releases the GIL."""
        cdef WorkerGroup group
        cdef BlockThreads helpers
        cdef Encoder encoder
        try:
            acquire_group(&group, threads - 1, NULL, <Job> _do_jobs, <int32_t> self.geometry.c.block_nbytes)
            encoder = self.encoder_for(group.count + 1)
            helpers.run, helpers.helpers = <RunBlocks> _run_blocks, <void *> &group
            self.helpers = &helpers if group.count else NULL
            with nogil:
                offer_gil()
                self.work(group.context, encoder)
                await_gil()
        finally:
            self.helpers = NULL
            release_group(&group)

    def run(self, int threads=1):
        """Work until nothing is left, in up to as many threads; releases the GIL.

        Each thread makes as many chunks as the others. Those that are left over, if they are large, are made one after the
        other by all of them.
        """
        cdef int64_t i, first = self.next_task, room = max(self.stop_task - self.next_task, 0), stop = self.stop_task
        cdef int64_t left = 0
        cdef Result *result
        cdef uint8_t *stored
        cdef StoredChunk chunk
        self.first_result = first
        self.results = <Result *> calloc(max(room, 1), sizeof(Result))
        if self.results == NULL:
            raise MemoryError
        try:
            self.find_slots(room)
            if (threads > 1 and self.plugin is None and self.geometry.c.chunk_nbytes >= SHARED
                    and self.encoding.shares_blocks):
                left = room % threads
            if left < room or not room:
                self.limit(first, stop - left)
                Operation.run(self, threads)
            if left and not self.status:
                self.limit(stop - left, stop)
                self.run_by_blocks(threads)
            for i in range(room):
                result = &self.results[i]
                stored = self.slots.data + i * self.slot()
                if result.size == CHUNK_HEADER and stored[31] >> 4 == 1:
                    self.chunks[result.nchunk] = -0x7F00000000000000
                elif result.size:
                    chunk = StoredChunk.of(self.slots, stored, result.size)
                    chunk.own_checksum = result.sum
                    chunk.summed = self.summed
                    self.chunks[result.nchunk] = chunk
        finally:
            free(self.results)
            self.results = NULL
            self.slots = None

    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil:
        cdef int64_t task, nchunk = 0, begin = 0, end = 0
        cdef int32_t nbytes = <int32_t> self.geometry.c.chunk_nbytes
        cdef Box box
        cdef Result *result
        cdef const uint8_t *collected
        cdef int status
        while True:
            task = self.draw()
            if task < 0:
                break
            if self.by_points:
                if not self.task_points(task, &nchunk, &box, &begin, &end):
                    continue
            elif not self.box_of(task, &nchunk, &box):
                continue
            result = &self.results[task - self.first_result]
            result.nchunk = nchunk
            collected = NULL
            if self.by_points:
                status = self.collect_points(context, nchunk, &box, begin, end, &collected)
            else:
                status = CHUNK_OK
                if encoder.of_block is not None:
                    status = self.replace_blocks(context, encoder, nchunk, &box, result)
                if status == CHUNK_OK and not result.size:
                    status = self.collect(context, nchunk, &box, &collected)
            if status == CHUNK_OK and not result.size:
                result.size = encoder.encode(
                    collected, self.slots.data + (task - self.first_result) * self.slot(), nbytes + CHUNK_HEADER,
                    self.helpers)
                status = CHUNK_OK
                if result.size < 0:
                    status = NO_MEMORY if result.size == NO_MEMORY else ENCODING_FAILED + result.size
            if self.summed and result.size > 0:
                result.sum = checksum(0, self.slots.data + (task - self.first_result) * self.slot(), result.size)
            if status:
                result.size = 0
                self.note_failure(status, nchunk)
                break

    def finish(self):
        """Raise what went wrong in any thread."""
        if self.status == 0:
            return
        status = self.status if self.status == NO_MEMORY else self.status - ENCODING_FAILED
        if ENCODING_FAILED // 2 < self.status != NO_MEMORY:  # the chunk as it was could not be read
            self.frame.fail(<int> self.status, self.failed)
        frame = self.frame
        raise encoding_error(status, f"chunk {self.failed}", path=None if frame is None else frame.source.path,
                             key=None if frame is None else frame.key)

    cdef int replace_blocks(
        self, DecodeContext *context, Encoder encoder, int64_t nchunk, const Box *box, Result *result
    ) noexcept nogil:
        """Make a chunk of its stored blocks, and new ones in place of the few that get new items.

        Without a result, the whole chunk is to be compressed: it is touched in most blocks, or new ones cannot stand beside
        its blocks.
        """
        cdef Grid *g = &self.geometry.c
        cdef Chunk chunk
        cdef Remade made
        cdef Touched touched
        cdef int64_t i, nblock = 0, block = 0
        cdef int32_t size = 0
        cdef uint8_t *items
        cdef int status
        touch(g, self.axes, box, &touched)
        # Of an array that grows, the frame may not have the chunk yet. What is written as a whole is not looked at.
        if (2 * touched.count * g.block_nbytes > g.chunk_nbytes or nchunk >= self.frame.chunk_count
                or self.takes_all(nchunk, box)):
            return CHUNK_OK
        status = open_asked(self.frame, nchunk, context, &chunk, g.chunk_nbytes)
        if status or not _stand_alone(&chunk, g):
            return status
        status = self.frame.load_and_check(nchunk, context, &chunk)
        if status:
            return status
        # Blocks are copied by a header and table of our own, whatever becomes of the file meanwhile.
        made.stored = self.slots.data + (result - self.results) * self.slot()
        made.room = <int32_t> self.slot()
        made.position = chunk.cbytes if chunk.kind == KIND_RAW else CHUNK_HEADER + 4 * chunk.nblocks
        if made.position > made.room:   # blocks may be smaller than what says where they are
            return CHUNK_OK
        memcpy(made.stored, chunk.data, made.position)
        if (inspect(made.stored, chunk.cbytes, &made.old) or made.old.kind != chunk.kind or not _stand_alone(&made.old, g)
                or not (made.old.kind == KIND_RAW or _in_order(&made.old))):
            return CHUNK_OK
        # Behind the block, another one: a chunk of one alone is stored without streams where that is shorter.
        items = reserve_scratch(context, 4 * g.block_nbytes + CHUNK_HEADER)
        if items == NULL:
            return NO_MEMORY
        memset(items + g.block_nbytes, 0, <size_t> g.block_nbytes)
        items[g.block_nbytes] = 1
        for i in range(touched.count):
            status = self.collect_block(context, &chunk, box, &touched, i, &nblock, items)
            if status:
                return status
            if nblock < 0:
                continue
            if not self.level:
                if made.old.kind != KIND_RAW:
                    return CHUNK_OK
            else:
                size = encoder.of_block.encode(
                    items, items + 2 * g.block_nbytes, <int32_t> (2 * g.block_nbytes + CHUNK_HEADER))
                if size <= 0:
                    return NO_MEMORY if size == NO_MEMORY else ENCODING_FAILED + size
            if made.old.kind != KIND_RAW and nblock > block and not _keep_blocks(
                    &made, &chunk, <int32_t> block, <int32_t> nblock):
                return CHUNK_OK
            if not _put_block(&made, <int32_t> nblock, items, items + 2 * g.block_nbytes, size):
                return CHUNK_OK
            block = nblock + 1
        if made.old.kind != KIND_RAW and block < made.old.nblocks and not _keep_blocks(
                &made, &chunk, <int32_t> block, made.old.nblocks):
            return CHUNK_OK
        put32(made.stored + 12, made.position)
        result.size = made.position
        return CHUNK_OK

    cdef bint takes_all(self, int64_t nchunk, const Box *box) noexcept nogil:
        """Whether a box takes all items of the array that a chunk has."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        for d in range(g.ndim):
            if box.count[d] != min(g.shape[d] - nchunk // g.chunk_strides[d] % g.grid[d] * g.chunks[d], g.chunks[d]):
                return False
        return True

    cdef int collect_block(self, DecodeContext *context, Chunk *chunk, const Box *box, const Touched *touched, int64_t i,
                           int64_t *nblock, uint8_t *items) noexcept nogil:
        """The items of the `i`-th block that a box touches, with new ones among them; number -1 if it gets none."""
        cdef Grid *g = &self.geometry.c
        cdef Box part
        cdef int64_t strides[MAX_DIM]
        cdef int64_t to_strides[MAX_DIM]
        cdef int64_t offset
        cdef int status, d
        if not clip_to_block(g, self.axes, box, touched, i, nblock, &part, &offset):
            nblock[0] = -1
            return CHUNK_OK
        if not covers(g, &part, g.blocks):
            status = decode_block(context, chunk, <int32_t> nblock[0], items)
            if status:
                return status
        for d in range(g.ndim):
            strides[d] = self.axes[d].stride
            to_strides[d] = g.item_strides[d] * self.axes[d].step
        copy_items(items + offset, to_strides, first_item(g, self.axes, self.data, &part), strides, part.count, g.ndim,
                   g.itemsize)
        return CHUNK_OK

    cdef int collect_points(self, DecodeContext *context, int64_t nchunk, const Box *box, int64_t begin, int64_t end,
                           const uint8_t **collected) noexcept nogil:
        """The bytes of one chunk as they are to be compressed, with new items at points."""
        cdef uint8_t *scratch = reserve_scratch(context, self.geometry.c.chunk_nbytes)
        cdef int status
        if scratch == NULL:
            return NO_MEMORY
        collected[0] = scratch
        status = self.frame.decode_chunk_into(nchunk, context, scratch, self.geometry.c.chunk_nbytes)
        return status if status else self.move_points(context, nchunk, NULL, box, begin, end, scratch, NULL)

    cdef int collect(self, DecodeContext *context, int64_t nchunk, const Box *box, const uint8_t **collected) noexcept nogil:
        """The bytes of one chunk as they are to be compressed: padded, block by block."""
        cdef Grid *g = &self.geometry.c
        cdef Box part
        cdef Touched touched
        cdef int64_t[MAX_DIM] strides
        cdef int64_t[MAX_DIM] to_strides
        cdef int64_t i, nblock, offset
        cdef uint8_t *scratch
        cdef bint complete = True
        cdef int d, status
        if g.in_order and covers(g, box, g.chunks) and is_one_run(g, self.axes, box):
            collected[0] = first_item(g, self.axes, self.data, box)
            return CHUNK_OK
        scratch = reserve_scratch(context, g.chunk_nbytes)
        if scratch == NULL:
            return NO_MEMORY
        collected[0] = scratch
        for d in range(g.ndim):
            if box.count[d] != g.block_grid[d] * g.blocks[d]:
                complete = False    # padding, or items that stay
            strides[d] = self.axes[d].stride
            to_strides[d] = g.item_strides[d] * self.axes[d].step
        if self.frame is not None and not self.takes_all(nchunk, box):  # else no items of the array stay as they are
            status = self.frame.decode_chunk_into(nchunk, context, scratch, g.chunk_nbytes)
            if status:
                return status
        elif not complete:
            memset(scratch, 0, <size_t> g.chunk_nbytes)
        touch(g, self.axes, box, &touched)
        for i in range(touched.count):
            if clip_to_block(g, self.axes, box, &touched, i, &nblock, &part, &offset):
                copy_items(scratch + nblock * g.block_nbytes + offset, to_strides,
                           first_item(g, self.axes, self.data, &part), strides, part.count, g.ndim, g.itemsize)
        return CHUNK_OK
