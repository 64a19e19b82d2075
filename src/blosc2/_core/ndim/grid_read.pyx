# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Reading a selection: decoded blocks are scattered into a NumPy array, or decoded straight into it.

The latter where a block, or a whole chunk, is one run of the array.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t

from blosc2._core.codec.codec cimport (
    BAD_LENGTH, BAD_SPECIAL, CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, KIND_VALUE, MOST_STEPS, NO_MEMORY,
    Chunk, DecodeContext, Encoder, block_bytes, borrow, decode_block, decode_whole, fill, give_back, reserve_scratch)
from blosc2._core.codec.chunk_checks cimport FILTER_SHUFFLE
from blosc2._core.codec.block_runs cimport LARGE_BLOCK
from blosc2._core.codec.thread_pool cimport worth_threads
from blosc2._core.frame.ask_chunks cimport is_most
from blosc2._core.frame.frame cimport Frame
from blosc2._core.frame.quick_reads cimport stays_with_gil
from blosc2._core.frame.part_blocks cimport part_block
from blosc2._core.io.readahead cimport is_cold
from blosc2._core.io.steps cimport number_get, state_change, state_set
from blosc2._core.codec.shared_blocks cimport SharedBlock, leave_block
from blosc2._core.frame.shared_block cimport is_shared, shared_block
from blosc2._core.ndim.ask_ahead cimport asks, begin_tasks
from blosc2._core.ndim.cold_start cimport begin_cold
from blosc2._core.ndim.foresee_parts cimport foresee_touched, foresees_blocks
from blosc2._core.ndim.geometry cimport MAX_DIM, Geometry, Grid
from blosc2._core.ndim.grid cimport REVERSED, Box, Operation, copy_items, locate, parse_key
from blosc2._core.io.large_pages cimport FRESH_LEAST, FRESH_MOST, bring_pages, is_fresh
from blosc2._core.ndim.piece_checks cimport CHUNK_CHECKED, SUMMED, PieceSum, begin_piece, is_last
from blosc2._core.ndim.read_parts cimport clip_to_block
from blosc2._core.ndim.special_boxes cimport fill_special
from blosc2._core.ndim.read_checks cimport compare, join_pieces, sum_block, sum_more, takes_all, whole
from blosc2._core.frame.member_chunks cimport ChunkChecksum, check_chunk_checksums, chunk_checksums, note_checksum

cnp.import_array()

cdef extern from "codec/unshuffle.h" nogil:
    bint unshuffles_parts(int itemsize)
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
        cdef int status = self.frame.load_whole(nchunk, context, chunk)
        if status == CHUNK_OK and chunk.data != NULL and nchunk < self.frame.chunk_count:
            note_checksum(self.own + nchunk, chunk)
        return status

    cdef int share(self, int64_t threads) except -1:
        """Divide chunks between threads when there are too few of them."""
        cdef bytes order
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
        if self.cold:
            order = bytes(self.tasks * <int64_t> sizeof(int32_t))
            self.keep_sums = (self.keep_sums, order)
            self.order_room = <int32_t *> PyBytes_AS_STRING(order)
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
                begin_cold(self, context, self.order_room)

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
            if self.order != NULL:
                task = self.order[task]
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
        return decode_whole(context, chunk, scratch[0])

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
            status = self.frame.load_whole(nchunk, context, &chunk)
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
            return status if status else decode_whole(context, chunk, self.at(box))
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
    """The same for up to so many threads, into `out` (see `check_out`) if it is not None."""
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
