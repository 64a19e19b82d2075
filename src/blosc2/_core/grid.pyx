# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Selections of an n-d array: moving boxes of items out of chunks and blocks, and into them.

A selection is a box with positive steps: `start`, `step` and `count` on every axis. Reads scatter decoded
blocks into a C-contiguous result, or decode straight into it where a block (or a whole chunk) is one run of
it. Writes gather padded chunks and compress them. Both hand out chunks from a counter, so that any number
of threads can work on one operation.

On some axes a selection may consist of points instead: index arrays, of which the entries at one position belong
together. Points come sorted by chunk and block, each with the place of its items in the result.
"""

cimport numpy as cnp
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec cimport (
    BAD_LENGTH, BAD_SPECIAL, CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, KIND_VALUE, MOST_STEPS, NO_MEMORY,
    Chunk, Encoder, Worker, borrow, decode_block, decode_whole, fill, give_back, reserve_scratch)
from blosc2._core.crew cimport Hand, Job, dismiss, finish, hire, start
from blosc2._core.frame cimport Frame
from blosc2._core.geometry cimport MAX_DIM, Geometry, Grid

from blosc2.exceptions import codec_error_text

cnp.import_array()

cdef extern from "atomics.h" nogil:
    int64_t counter_next(int64_t *counter)

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef enum:
    MOST_HANDS = 64
    # Pieces for each thread: they do not all take the same time.
    PIECES = 4

# ---------------------------------------------------------------- boxes

cdef struct Box:
    # Part of a selection: where it starts in the local coordinates of a chunk or block, how many steps it
    # takes there, and where those lie in the selection.
    int64_t first[MAX_DIM]
    int64_t count[MAX_DIM]
    int64_t index[MAX_DIM]


cdef inline bint _clip(int64_t start, int64_t step, int64_t count, int64_t low, int64_t length,
                       int64_t *first, int64_t *taken, int64_t *index) noexcept nogil:
    """The steps ``start + k * step`` that fall in ``low .. low + length``."""
    cdef int64_t k0 = 0, k1
    if low > start:
        k0 = (low - start + step - 1) // step
    if low + length <= start:
        return False
    k1 = (low + length - 1 - start) // step + 1
    if k1 > count:
        k1 = count
    if k1 <= k0:
        return False
    first[0] = start + k0 * step - low
    taken[0] = k1 - k0
    index[0] = k0
    return True


cdef void _copy(uint8_t *to, const int64_t *to_strides, const uint8_t *source, const int64_t *source_strides,
                const int64_t *count, int ndim, int64_t itemsize) noexcept nogil:
    """Copy a box of items between two strided places."""
    cdef int64_t run = itemsize
    cdef int64_t at[MAX_DIM]
    cdef int64_t i, n, ts, ss
    cdef int d
    # Trailing axes that are one run on both sides become part of the item.
    while ndim and (count[ndim - 1] == 1 or (to_strides[ndim - 1] == run and source_strides[ndim - 1] == run)):
        run *= count[ndim - 1]
        ndim -= 1
    if ndim == 0:
        memcpy(to, source, <size_t> run)
        return
    for d in range(ndim):
        at[d] = 0
    ndim -= 1
    n = count[ndim]
    ts = to_strides[ndim]
    ss = source_strides[ndim]
    while True:
        if run == 8:
            for i in range(n):
                memcpy(to + i * ts, source + i * ss, 8)
        elif run == 4:
            for i in range(n):
                memcpy(to + i * ts, source + i * ss, 4)
        elif run == 2:
            for i in range(n):
                memcpy(to + i * ts, source + i * ss, 2)
        elif run == 1:
            for i in range(n):
                to[i * ts] = source[i * ss]
        else:
            for i in range(n):
                memcpy(to + i * ts, source + i * ss, <size_t> run)
        d = ndim - 1
        while d >= 0:
            at[d] += 1
            to += to_strides[d]
            source += source_strides[d]
            if at[d] < count[d]:
                break
            to -= to_strides[d] * count[d]
            source -= source_strides[d] * count[d]
            at[d] = 0
            d -= 1
        if d < 0:
            return


cdef void _work(Operation operation, Worker *worker, Encoder encoder) noexcept nogil:
    operation.work(worker, encoder)


cdef class Operation:
    """A read or write of a selection, chunk by chunk, by one thread or more.

    `tasks` says how many chunks it touches; call `run`, then `finish`.
    """

    cdef Frame frame
    cdef Geometry geometry
    cdef int64_t start[MAX_DIM]
    cdef int64_t step[MAX_DIM]
    cdef int64_t count[MAX_DIM]
    cdef int64_t first_chunk[MAX_DIM]
    cdef int64_t chunk_count[MAX_DIM]
    cdef readonly int64_t tasks
    cdef int64_t pieces             # that each chunk is divided into; each is a task
    cdef int64_t next_task
    cdef int64_t stop_task
    cdef int status
    cdef int64_t failed
    cdef uint8_t *data              # of the NumPy array that is read into or written from
    cdef int64_t strides[MAX_DIM]   # its strides in bytes
    cdef object keep
    # Points, where some axes have them; these have start 0, step 1 and count 1 above.
    cdef bint by_points
    cdef bint pointed[MAX_DIM]
    cdef const int64_t *indices[MAX_DIM]
    cdef const int64_t *offsets     # of each point in the NumPy array, in bytes
    cdef const int64_t *groups      # the first point of each chunk, and the number of points
    cdef int64_t group_count
    cdef list keep_points

    cdef int select(self, start, step, count) except -1:
        """Take a selection whose bounds the caller has checked against the shape."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        self.tasks = 1 if g.size else 0
        for d in range(g.ndim):
            self.start[d] = start[d]
            self.step[d] = step[d]
            self.count[d] = count[d]
            if self.count[d] == 0:
                self.tasks = 0
                continue
            if (self.start[d] < 0 or self.step[d] < 1 or self.count[d] < 0
                    or self.start[d] + (self.count[d] - 1) * self.step[d] >= g.shape[d]):
                raise IndexError(f"a selection reaches outside axis {d} of length {g.shape[d]}")
        if self.tasks:
            for d in range(g.ndim):
                self.first_chunk[d] = self.start[d] // g.chunks[d]
                self.chunk_count[d] = (
                    (self.start[d] + (self.count[d] - 1) * self.step[d]) // g.chunks[d] - self.first_chunk[d] + 1)
                self.tasks *= self.chunk_count[d]
        self.stop_task = self.tasks
        self.pieces = 1
        return 0

    cdef int pick(self, cnp.ndarray items, points) except -1:
        """Have points on some axes, whose items lie in a C-contiguous NumPy array; see `blosc2.picking.Points`."""
        cdef Grid *g = &self.geometry.c
        cdef const int64_t[::1] view
        cdef const int64_t[::1] offsets = points.offsets
        cdef const int64_t[::1] groups = points.groups
        cdef int64_t count = offsets.shape[0], i, k, extent = g.itemsize, room = cnp.PyArray_NBYTES(items)
        cdef int d
        self.keep_points = [offsets, groups]
        self.by_points = True
        self.group_count = groups.shape[0] - 1
        for d in range(g.ndim):
            self.strides[d] = points.strides[d]
            if self.strides[d] < 0:
                raise ValueError("strides cannot be negative")
            extent += (self.count[d] - 1) * self.strides[d]
        for axis, index in zip(points.axes, points.indices):
            view = index
            d = axis
            if view.shape[0] != count or d < 0 or d >= g.ndim or self.count[d] != 1 or self.start[d] != 0:
                raise ValueError("an index for each point and axis of points is needed")
            self.pointed[d] = True
            self.keep_points.append(view)
            if count == 0:
                continue
            self.indices[d] = &view[0]
            for i in range(count):
                if view[i] < 0 or view[i] >= g.shape[d]:
                    raise IndexError(f"index {view[i]} is out of bounds for axis {d} with size {g.shape[d]}")
        for i in range(count):
            if offsets[i] < 0 or offsets[i] > room - extent:
                raise ValueError(f"point {i} lies outside the NumPy array")
        if self.group_count < 0 or groups[0] != 0 or groups[self.group_count] != count:
            raise ValueError("the groups do not make up the points")
        for i in range(self.group_count):
            if groups[i + 1] <= groups[i] or groups[i] < 0 or groups[i + 1] > count:
                raise ValueError("the groups are not in order")
            for d in range(g.ndim):
                if self.pointed[d]:
                    for k in range(groups[i], groups[i + 1]):
                        if self.indices[d][k] // g.chunks[d] != self.indices[d][groups[i]] // g.chunks[d]:
                            raise ValueError("the points of a group lie in different chunks")
        if count:
            self.offsets = &offsets[0]
            self.groups = &groups[0]
        self.tasks *= self.group_count
        self.stop_task = self.tasks
        return 0

    cdef bint place_points(self, int64_t task, int64_t *nchunk, Box *box, int64_t *begin, int64_t *end) noexcept nogil:
        """The chunk of a task, its points, and the part of the selection on the other axes."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t group = task % self.group_count
        cdef int d
        if not self.place(task // self.group_count, nchunk, box):
            return False
        begin[0] = self.groups[group]
        end[0] = self.groups[group + 1]
        for d in range(g.ndim):
            if self.pointed[d]:
                nchunk[0] += self.indices[d][begin[0]] // g.chunks[d] * g.chunk_strides[d]
        return True

    cdef int move_points(self, Worker *worker, int64_t nchunk, Chunk *chunk, const Box *box, int64_t begin, int64_t end,
                         uint8_t *whole, const uint8_t *constant) noexcept nogil:
        """Copy the items of points between the NumPy array and the blocks of a chunk.

        From the array into `whole`, a chunk that was decoded for it, when there is no `chunk`. Else into the array: from
        `whole` or, where every block is the same, from `constant`; from blocks that are decoded here if both are NULL.
        """
        cdef Grid *g = &self.geometry.c
        cdef int64_t low[MAX_DIM]
        cdef int64_t many[MAX_DIM]
        cdef int64_t first[MAX_DIM]
        cdef int64_t count[MAX_DIM]
        cdef int64_t index[MAX_DIM]
        cdef int64_t array_strides[MAX_DIM]
        cdef int64_t block_strides[MAX_DIM]
        cdef int axes[MAX_DIM]
        cdef int pointed[MAX_DIM]
        cdef int naxes = 0, npointed = 0, d, j
        cdef int64_t touched = 1, at = begin, stop, i, rest, b, p, nblock, pointed_block, other_block, inside, offset, shift
        cdef const uint8_t *source
        cdef uint8_t *block
        cdef bint hit
        cdef int status
        for d in range(g.ndim):
            if self.pointed[d]:
                pointed[npointed] = d
                npointed += 1
                continue
            axes[naxes] = d
            low[naxes] = box.first[d] // g.blocks[d]
            many[naxes] = (box.first[d] + (box.count[d] - 1) * self.step[d]) // g.blocks[d] - low[naxes] + 1
            touched *= many[naxes]
            array_strides[naxes] = self.strides[d]
            block_strides[naxes] = g.item_strides[d] * self.step[d]
            naxes += 1
        while at < end:
            # As many points as lie in the same blocks.
            stop = at
            pointed_block = -1
            while stop < end:
                other_block = 0
                for j in range(npointed):
                    d = pointed[j]
                    other_block += self.indices[d][stop] % g.chunks[d] // g.blocks[d] * g.block_strides[d]
                if pointed_block < 0:
                    pointed_block = other_block
                elif other_block != pointed_block:
                    break
                stop += 1
            for i in range(touched):
                rest = i
                nblock = pointed_block
                inside = offset = 0
                hit = True
                for j in range(naxes - 1, -1, -1):
                    d = axes[j]
                    b = low[j] + rest % many[j]
                    rest //= many[j]
                    nblock += b * g.block_strides[d]
                    if not _clip(box.first[d], self.step[d], box.count[d], b * g.blocks[d], g.blocks[d],
                                 &first[j], &count[j], &index[j]):
                        hit = False
                        break
                    offset += (index[j] + box.index[d]) * self.strides[d]
                    inside += first[j] * g.item_strides[d]
                if not hit:
                    continue
                if constant != NULL:
                    source = constant
                elif whole != NULL:
                    source = whole + nblock * g.block_nbytes
                    if chunk != NULL and chunk.kind == KIND_RAW:
                        status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + nblock * g.block_nbytes,
                                                      CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
                        if status:
                            return status
                else:
                    status = self.frame.part_block(nchunk, worker, chunk, <int32_t> nblock, &source)
                    if status:
                        return status
                for p in range(at, stop):
                    shift = inside
                    for j in range(npointed):
                        d = pointed[j]
                        shift += self.indices[d][p] % g.chunks[d] % g.blocks[d] * g.item_strides[d]
                    if chunk != NULL:
                        _copy(self.data + self.offsets[p] + offset, array_strides, source + shift, block_strides, count, naxes,
                              g.itemsize)
                    else:
                        block = whole + nblock * g.block_nbytes + shift
                        _copy(block, block_strides, self.data + self.offsets[p] + offset, array_strides, count, naxes,
                              g.itemsize)
            at = stop
        return CHUNK_OK

    cdef int share(self, int64_t threads) except -1:
        """Divide the work so that as many threads have something to do."""
        return 0

    cdef Encoder encoder(self):
        """What one thread compresses with, if it does."""
        return None

    cdef void work(self, Worker *worker, Encoder encoder) noexcept nogil:
        """Do tasks until none is left."""

    def run(self, int threads=1):
        """Work until nothing is left, in up to as many threads; releases the GIL."""
        cdef Hand *hands[MOST_HANDS]
        cdef Hand *hand
        cdef int others = 0, i
        cdef int64_t wanted
        cdef int32_t blocksize = <int32_t> self.geometry.c.block_nbytes
        cdef Encoder own = self.encoder()
        cdef list encoders = []
        cdef Worker *worker = borrow(blocksize)
        try:
            if threads > 1:
                self.share(threads)
                wanted = min(threads - 1, MOST_HANDS, self.stop_task - self.next_task - 1)
                while others < wanted:
                    hands[others] = hire()
                    if hands[others] == NULL:
                        break
                    hands[others].worker = NULL
                    others += 1
                    hand = hands[others - 1]
                    encoder = self.encoder()
                    encoders.append(encoder)
                    hand.job = <Job> _work
                    hand.operation = <void *> self
                    hand.tool = <void *> encoder
                    hand.worker = borrow(blocksize)
            with nogil:
                start(hands, others)
                self.work(worker, own)
                for i in range(others):
                    finish(hands[i])
        finally:
            for i in range(others):
                if hands[i].worker != NULL:
                    give_back(hands[i].worker)
                dismiss(hands[i])
            give_back(worker)

    cdef bint place(self, int64_t task, int64_t *nchunk, Box *box) noexcept nogil:
        """The chunk of a task and the part of the selection in it; False when steps pass over it."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t c
        cdef int d
        nchunk[0] = 0
        for d in range(g.ndim - 1, -1, -1):
            c = self.first_chunk[d] + task % self.chunk_count[d]
            task //= self.chunk_count[d]
            nchunk[0] += c * g.chunk_strides[d]
            if not _clip(self.start[d], self.step[d], self.count[d], c * g.chunks[d], g.chunks[d],
                         &box.first[d], &box.count[d], &box.index[d]):
                return False
        return True

    cdef uint8_t *at(self, const Box *box) noexcept nogil:
        """Where the first item of a box lies in the NumPy array."""
        cdef int64_t offset = 0
        cdef int d
        for d in range(self.geometry.c.ndim):
            offset += box.index[d] * self.strides[d]
        return self.data + offset

    cdef bint is_one_run(self, const Box *box) noexcept nogil:
        """Whether a box is contiguous in the NumPy array."""
        cdef int64_t expected = self.geometry.c.itemsize
        cdef int d
        for d in range(self.geometry.c.ndim - 1, -1, -1):
            if box.count[d] != 1:
                if self.strides[d] != expected:
                    return False
                expected *= box.count[d]
        return True

    cdef bint covers(self, const Box *box, const int64_t *lengths) noexcept nogil:
        """Whether a box takes every item of a chunk or block, in order."""
        cdef int d
        for d in range(self.geometry.c.ndim):
            if box.count[d] != lengths[d]:
                return False
        return True

    def limit(self, int64_t first, int64_t stop):
        """Do only the tasks ``first .. stop`` next."""
        self.next_task = first
        self.stop_task = min(stop, self.tasks)

    cdef int64_t draw(self) noexcept nogil:
        cdef int64_t task
        if self.status:
            return -1
        task = counter_next(&self.next_task)
        return task if task < self.stop_task else -1

    def finish(self):
        """Raise what went wrong in any thread."""
        if self.status:
            self.frame.fail(self.status, self.failed)


cdef class Read(Operation):
    """Read a selection into a NumPy array: one with an axis for each of the array, of any strides, or a C-contiguous one."""

    cdef int share(self, int64_t threads) except -1:
        """Divide chunks between threads when there are too few of them."""
        cdef int64_t blocks = 1
        cdef int d
        if self.tasks == 0 or self.pieces > 1 or self.by_points or self.tasks >= PIECES * threads:
            return 0
        for d in range(self.geometry.c.ndim):
            blocks *= self.geometry.c.block_grid[d]
        self.pieces = min(blocks, (PIECES * threads + self.tasks - 1) // self.tasks)
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

    cdef void work(self, Worker *worker, Encoder encoder) noexcept nogil:
        cdef int64_t task, nchunk = 0, begin = 0, end = 0
        cdef Box box
        cdef int status
        while True:
            task = self.draw()
            if task < 0:
                break
            if self.by_points:
                if not self.place_points(task, &nchunk, &box, &begin, &end):
                    continue
                status = self.read_points(worker, nchunk, &box, begin, end)
            elif self.place(task // self.pieces, &nchunk, &box):
                status = self.read_chunk(worker, nchunk, &box, task % self.pieces)
            else:
                continue
            if status:
                self.failed = nchunk
                self.status = status

    cdef int read_points(self, Worker *worker, int64_t nchunk, const Box *box, int64_t begin, int64_t end) noexcept nogil:
        """The items of points in a chunk."""
        cdef Grid *g = &self.geometry.c
        cdef Chunk chunk
        cdef uint8_t *scratch
        cdef int64_t steps
        cdef int status = self.frame.open_chunk(nchunk, worker, &chunk)
        if status == CHUNK_OK and chunk.nbytes != g.chunk_nbytes:
            status = BAD_LENGTH
        if status:
            return status
        if chunk.kind == KIND_RAW:
            return self.move_points(
                worker, nchunk, &chunk, box, begin, end, <uint8_t *> chunk.data + CHUNK_HEADER, NULL)
        if chunk.kind < KIND_RAW:
            status = self.frame.load_chunk(nchunk, worker, &chunk)
            if status:
                return status
            if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
                return BAD_SPECIAL
            scratch = reserve_scratch(worker, g.block_nbytes)
            if scratch == NULL:
                return NO_MEMORY
            status = fill(&chunk, 0, scratch, g.block_nbytes)
            return status if status else self.move_points(worker, nchunk, &chunk, box, begin, end, NULL, scratch)
        steps = chunk.nblocks
        if chunk.whole or chunk.needs_geometry or chunk.blocksize != g.block_nbytes or steps * steps > MOST_STEPS:
            status = self.frame.load_chunk(nchunk, worker, &chunk)
            if status:
                return status
            scratch = reserve_scratch(worker, chunk.nbytes)
            if scratch == NULL:
                return NO_MEMORY
            if chunk.needs_geometry and self.frame.plugin is not None:
                status = self.frame.plugin.decode(&chunk, scratch)
            else:
                status = decode_whole(worker, &chunk, scratch)
            return status if status else self.move_points(worker, nchunk, &chunk, box, begin, end, scratch, NULL)
        return self.move_points(worker, nchunk, &chunk, box, begin, end, NULL, NULL)

    cdef int read_chunk(self, Worker *worker, int64_t nchunk, const Box *box, int64_t piece) noexcept nogil:
        cdef Grid *g = &self.geometry.c
        cdef Chunk chunk
        cdef const uint8_t *decoded = NULL  # the whole chunk, where it is at hand
        cdef uint8_t *scratch
        cdef int64_t touched = 1
        cdef int64_t[MAX_DIM] low
        cdef int64_t[MAX_DIM] many
        cdef int d
        cdef int status = self.frame.open_chunk(nchunk, worker, &chunk)
        if status == CHUNK_OK and chunk.nbytes != g.chunk_nbytes:
            status = BAD_LENGTH
        if status:
            return status
        if chunk.kind < KIND_RAW:
            return CHUNK_OK if piece else self.fill_special(worker, nchunk, &chunk, box)
        if (self.pieces == 1 and g.in_order and chunk.kind == KIND_REGULAR and not chunk.needs_geometry
                and self.covers(box, g.chunks) and self.is_one_run(box)):
            status = self.frame.load_chunk(nchunk, worker, &chunk)
            return status if status else decode_whole(worker, &chunk, self.at(box))
        for d in range(g.ndim):
            low[d] = box.first[d] // g.blocks[d]
            many[d] = (box.first[d] + (box.count[d] - 1) * self.step[d]) // g.blocks[d] - low[d] + 1
            touched *= many[d]
        if chunk.kind == KIND_RAW:
            if self.pieces == 1 and 2 * touched * g.block_nbytes >= chunk.nbytes:
                status = self.frame.load_chunk(nchunk, worker, &chunk)
            decoded = chunk.data + CHUNK_HEADER
        elif (chunk.whole or chunk.needs_geometry or chunk.blocksize != g.block_nbytes
                or touched * chunk.nblocks > MOST_STEPS):
            if piece:
                return CHUNK_OK  # the first piece does all of it
            status = self.frame.load_chunk(nchunk, worker, &chunk)
            if status:
                return status
            scratch = reserve_scratch(worker, chunk.nbytes)
            if scratch == NULL:
                return NO_MEMORY
            if chunk.needs_geometry and self.frame.plugin is not None:
                status = self.frame.plugin.decode(&chunk, scratch)
            else:
                status = decode_whole(worker, &chunk, scratch)
            decoded = scratch
        elif self.pieces == 1 and 2 * touched >= chunk.nblocks:
            status = self.frame.load_chunk(nchunk, worker, &chunk)
        if status:
            return status
        if self.pieces == 1 or (decoded != NULL and chunk.kind == KIND_REGULAR):
            return self.read_blocks(worker, nchunk, &chunk, box, low, many, 0, touched, decoded)
        return self.read_blocks(worker, nchunk, &chunk, box, low, many, piece * touched // self.pieces,
                                (piece + 1) * touched // self.pieces, decoded)

    cdef int read_blocks(self, Worker *worker, int64_t nchunk, Chunk *chunk, const Box *box, const int64_t *low,
                         const int64_t *many, int64_t begin, int64_t end, const uint8_t *decoded) noexcept nogil:
        """Blocks ``begin .. end`` of those that the selection touches in a chunk."""
        cdef Grid *g = &self.geometry.c
        cdef Box part
        cdef int64_t source_strides[MAX_DIM]
        cdef int64_t i, rest, b, nblock, offset
        cdef const uint8_t *source = NULL
        cdef uint8_t *to
        cdef bint hit
        cdef int d, status
        for d in range(g.ndim):
            source_strides[d] = g.item_strides[d] * self.step[d]
        for i in range(begin, end):
            rest = i
            nblock = offset = 0
            hit = True
            for d in range(g.ndim - 1, -1, -1):
                b = low[d] + rest % many[d]
                rest //= many[d]
                nblock += b * g.block_strides[d]
                if not _clip(box.first[d], self.step[d], box.count[d], b * g.blocks[d], g.blocks[d],
                             &part.first[d], &part.count[d], &part.index[d]):
                    hit = False
                    break
                part.index[d] += box.index[d]
                offset += part.first[d] * g.item_strides[d]
            if not hit:
                continue
            to = self.at(&part)
            if decoded != NULL:
                if chunk.kind == KIND_RAW:
                    status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + nblock * g.block_nbytes,
                                             CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
                    if status:
                        return status
                source = decoded + nblock * g.block_nbytes
            else:
                if self.covers(&part, g.blocks) and self.is_one_run(&part):
                    status = self.frame.load_block(nchunk, worker, chunk, <int32_t> nblock)
                    if status == CHUNK_OK:
                        status = decode_block(worker, chunk, <int32_t> nblock, to)
                    if status:
                        return status
                    continue
                status = self.frame.part_block(nchunk, worker, chunk, <int32_t> nblock, &source)
                if status:
                    return status
            _copy(to, self.strides, source + offset, source_strides, part.count, g.ndim, g.itemsize)
        return CHUNK_OK

    cdef int fill_special(self, Worker *worker, int64_t nchunk, Chunk *chunk, const Box *box) noexcept nogil:
        """Zeros, NaN or one value into a box, without decoding anything."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t zero_strides[MAX_DIM]
        cdef uint8_t *item
        cdef int d
        cdef int status = self.frame.load_chunk(nchunk, worker, chunk)
        cdef int64_t total = g.itemsize
        if status:
            return status
        if chunk.kind == KIND_VALUE and g.itemsize % (chunk.cbytes - CHUNK_HEADER):
            return BAD_SPECIAL
        if self.is_one_run(box):
            for d in range(g.ndim):
                total *= box.count[d]
            return fill(chunk, 0, self.at(box), total)
        item = reserve_scratch(worker, g.itemsize)
        if item == NULL:
            return NO_MEMORY
        status = fill(chunk, 0, item, g.itemsize)
        if status:
            return status
        for d in range(g.ndim):
            zero_strides[d] = 0
        _copy(self.at(box), self.strides, item, zero_strides, box.count, g.ndim, g.itemsize)
        return CHUNK_OK


def read_all(Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
    """A whole array as a fresh NumPy array, by the calling thread."""
    cdef Read self
    cdef cnp.npy_intp dims[MAX_DIM]
    cdef cnp.ndarray out
    cdef int d
    for d in range(geometry.c.ndim):
        dims[d] = geometry.c.shape[d]
    Py_INCREF(dtype)  # the next call steals one reference
    out = PyArray_Empty(geometry.c.ndim, dims, dtype, 0)
    if geometry.c.size == 0:
        return out
    self = Read.__new__(Read)
    self.frame = frame
    self.geometry = geometry
    self.tasks = self.stop_task = geometry.c.nchunks
    self.pieces = 1
    for d in range(geometry.c.ndim):
        self.start[d] = self.first_chunk[d] = 0
        self.step[d] = 1
        self.count[d] = geometry.c.shape[d]
        self.chunk_count[d] = geometry.c.grid[d]
    self.take(out)
    self.run()
    if self.status:
        self.finish()
    return out


cdef struct Result:  # of compressing one chunk: without bytes it is all zeros
    int64_t nchunk
    int32_t size


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

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


cdef class Write(Operation):
    """Compress the chunks that a selection touches, with new items from a NumPy array.

    Parameters
    ----------
    frame : Frame or None
        Where chunks that the selection takes only in part come from; None when it takes all.
    source : ndarray
        New items, of the selection's shape; any strides (zero for broadcast axes).
    encoding, plugin
        How to compress.
    points : Points, optional
        Which items of some axes; then the source is C-contiguous, of any shape.

    After `run`, `chunks` maps the number of each chunk to its stored bytes, or to an offset without a chunk. Who lets go of
    these bytes before the next `run` has it use their memory again.
    """

    cdef readonly dict chunks
    cdef object encoding
    cdef object plugin
    cdef Result *results            # of the tasks from `first_result` on
    cdef int64_t first_result
    cdef list kept_slots
    cdef Slots slots                # for the tasks of a run, one after the other

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
                if cnp.PyArray_DIM(source, d) != self.count[d]:
                    raise ValueError("the source has another shape than the selection")
                self.strides[d] = cnp.PyArray_STRIDE(source, d)
        self.keep = source
        self.data = <uint8_t *> cnp.PyArray_DATA(source)
        self.encoding = encoding
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
        """The same where they lie: for a caller that copies or writes them at once, and lets them go."""
        chunks = self.chunks
        self.chunks = {}
        return chunks

    cdef int64_t slot(self) noexcept nogil:
        """Room that is always enough for a chunk."""
        return self.geometry.c.chunk_nbytes + CHUNK_HEADER

    cdef int find_slots(self, int64_t count) except -1:
        """Take memory for so many chunks that nobody uses."""
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
        cdef Encoder encoder = Encoder(self.encoding, self.plugin)
        encoder.prepare(<int32_t> self.geometry.c.chunk_nbytes)
        return encoder

    def run(self, int threads=1):
        """Work until nothing is left, in up to as many threads; releases the GIL."""
        cdef int64_t i, first = self.next_task, room = max(self.stop_task - self.next_task, 0)
        cdef Result *result
        cdef uint8_t *stored
        self.first_result = first
        self.results = <Result *> calloc(max(room, 1), sizeof(Result))
        if self.results == NULL:
            raise MemoryError
        try:
            self.find_slots(room)
            Operation.run(self, threads)
            for i in range(room):
                result = &self.results[i]
                stored = self.slots.data + i * self.slot()
                if result.size == CHUNK_HEADER and stored[31] >> 4 == 1:
                    self.chunks[result.nchunk] = -0x7F00000000000000
                elif result.size:
                    self.chunks[result.nchunk] = StoredChunk.of(self.slots, stored, result.size)
        finally:
            free(self.results)
            self.results = NULL
            self.slots = None

    cdef void work(self, Worker *worker, Encoder encoder) noexcept nogil:
        cdef int64_t task, nchunk = 0, begin = 0, end = 0
        cdef int32_t nbytes = <int32_t> self.geometry.c.chunk_nbytes
        cdef Box box
        cdef Result *result
        cdef const uint8_t *gathered
        cdef int status
        while True:
            task = self.draw()
            if task < 0:
                break
            if self.by_points:
                if not self.place_points(task, &nchunk, &box, &begin, &end):
                    continue
            elif not self.place(task, &nchunk, &box):
                continue
            result = &self.results[task - self.first_result]
            result.nchunk = nchunk
            gathered = NULL
            if self.by_points:
                status = self.gather_points(worker, nchunk, &box, begin, end, &gathered)
            else:
                status = self.gather(worker, nchunk, &box, &gathered)
            if status == CHUNK_OK:
                result.size = encoder.encode(
                    gathered, self.slots.data + (task - self.first_result) * self.slot(), nbytes + CHUNK_HEADER)
                status = result.size if result.size < 0 else <int> CHUNK_OK
            if status:
                result.size = 0
                self.failed = nchunk
                self.status = status
                break

    def finish(self):
        """Raise what went wrong in any thread."""
        if self.status == 0:
            return
        if self.status == NO_MEMORY:
            raise MemoryError(f"not enough memory to compress chunk {self.failed}")
        if self.frame is not None and self.status < -100:
            self.frame.fail(self.status, self.failed)
        raise ValueError(f"could not compress chunk {self.failed}: {codec_error_text(self.status)}")

    cdef int gather_points(self, Worker *worker, int64_t nchunk, const Box *box, int64_t begin, int64_t end,
                           const uint8_t **gathered) noexcept nogil:
        """The bytes of one chunk as they are to be compressed, with new items at points."""
        cdef uint8_t *scratch = reserve_scratch(worker, self.geometry.c.chunk_nbytes)
        cdef int status
        if scratch == NULL:
            return NO_MEMORY
        gathered[0] = scratch
        status = self.frame.decode_chunk_into(nchunk, worker, scratch)
        return status if status else self.move_points(worker, nchunk, NULL, box, begin, end, scratch, NULL)

    cdef int gather(self, Worker *worker, int64_t nchunk, const Box *box, const uint8_t **gathered) noexcept nogil:
        """The bytes of one chunk as they are to be compressed: padded, block by block."""
        cdef Grid *g = &self.geometry.c
        cdef Box part
        cdef int64_t[MAX_DIM] to_strides
        cdef int64_t[MAX_DIM] low
        cdef int64_t[MAX_DIM] many
        cdef int64_t i, rest, b, touched = 1, begin, length, c
        cdef uint8_t *scratch
        cdef uint8_t *to
        cdef bint hit, complete = True, whole = True
        cdef int d, status
        if g.in_order and self.covers(box, g.chunks) and self.is_one_run(box):
            gathered[0] = self.at(box)
            return CHUNK_OK
        scratch = reserve_scratch(worker, g.chunk_nbytes)
        if scratch == NULL:
            return NO_MEMORY
        gathered[0] = scratch
        rest = nchunk
        for d in range(g.ndim):
            c = rest // g.chunk_strides[d]
            rest -= c * g.chunk_strides[d]
            length = g.shape[d] - c * g.chunks[d]
            if length > g.chunks[d]:
                length = g.chunks[d]
            if box.count[d] != length:
                whole = False       # items of the array stay as they are
            if box.count[d] != g.block_grid[d] * g.blocks[d]:
                complete = False    # padding, or items that stay
            low[d] = box.first[d] // g.blocks[d]
            many[d] = (box.first[d] + (box.count[d] - 1) * self.step[d]) // g.blocks[d] - low[d] + 1
            touched *= many[d]
            to_strides[d] = g.item_strides[d] * self.step[d]
        if not whole and self.frame is not None:
            status = self.frame.decode_chunk_into(nchunk, worker, scratch)
            if status:
                return status
        elif not complete:
            memset(scratch, 0, <size_t> g.chunk_nbytes)
        for i in range(touched):
            rest = i
            to = scratch
            hit = True
            for d in range(g.ndim - 1, -1, -1):
                b = low[d] + rest % many[d]
                rest //= many[d]
                if not _clip(box.first[d], self.step[d], box.count[d], b * g.blocks[d], g.blocks[d],
                             &part.first[d], &part.count[d], &part.index[d]):
                    hit = False
                    break
                part.index[d] += box.index[d]
                to += b * g.block_strides[d] * g.block_nbytes + part.first[d] * g.item_strides[d]
            if hit:
                _copy(to, to_strides, self.at(&part), self.strides, part.count, g.ndim, g.itemsize)
        return CHUNK_OK
