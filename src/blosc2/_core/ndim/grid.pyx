# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Selections of an n-d array: which chunks and blocks they touch, and moving their items.

A selection is a box with positive steps: `start`, `step` and `count` on every axis. `grid_read` moves such items out of
chunks, `grid_write` into them. Both hand out chunks from a counter, so that any number of threads can work on one
operation.

On some axes a selection may consist of points instead: index arrays, of which the entries at one position belong
together. Points come sorted by chunk and block, each with the offset of its items in the result.
"""

cimport numpy as cnp
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.ref cimport PyObject
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check, PySlice_Unpack
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from blosc2._core.codec.codec cimport DecodeContext, Encoder
from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, Chunk
from blosc2._core.codec.thread_pool cimport Job, WorkerGroup, acquire_group, release_group, run_in_group
from blosc2._core.frame.part_blocks cimport part_block
from blosc2._core.io.buffer cimport Buffer, integers
from blosc2._core.io.steps cimport counter_next, number_get, number_set, state_change
from blosc2._core.ndim.geometry cimport MAX_DIM, Grid

import numpy as np

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_GetHandler()

cdef extern from "io/steps.h":
    void never_count(object item)

# What NumPy allocates with, to which each new array refers. It is there as long as the process.
never_count(PyDataMem_GetHandler())

cdef extern from "ndim/copy_rows.h" nogil:
    void copy_rows(uint8_t *to, int64_t to_step, const uint8_t *source, int64_t source_step, int64_t n, int64_t run)

cdef extern from *:
    """
    static inline int asks_for_all(PyObject *key) {
        PySliceObject *slice = (PySliceObject *) key;
        return slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None;
    }
    """
    bint asks_for_all(object key)

cdef object _integer = np.integer


cdef bint parse_key(const Grid *g, object key, int64_t *start, int64_t *step, int64_t *count, int apart,
                    uint32_t *flags) except -1:
    """Parse a key of integers, slices and one `...`; False when it is another one, or out of bounds.

    The bounds of an axis are `apart` entries behind those of the axis before. Steps are positive. Bit d of `flags` says
    that axis d has an integer, bit REVERSED + d that the key runs through it backwards.
    """
    cdef Py_ssize_t first, stop, stride, items
    cdef Py_ssize_t given, k, ellipsis
    cdef int64_t value
    cdef int overflow = 0, d = 0, whole
    cdef bint is_tuple
    flags[0] = 0
    if key is Ellipsis or (g.ndim and PySlice_Check(key) and asks_for_all(key)):
        for d in range(g.ndim):
            start[d * apart] = 0
            step[d * apart] = 1
            count[d * apart] = g.shape[d]
        return True
    given = 1
    ellipsis = -1
    is_tuple = PyTuple_CheckExact(key)
    if is_tuple:
        given = PyTuple_GET_SIZE(key)
        for k in range(given):
            if <PyObject *> PyTuple_GET_ITEM(key, k) == <PyObject *> Ellipsis:
                if ellipsis >= 0:
                    return False
                ellipsis = k
    if given - (ellipsis >= 0) > g.ndim:
        return False
    whole = <int> (g.ndim - given + (ellipsis >= 0))
    if ellipsis < 0:
        ellipsis = given    # what a key leaves out are its last axes
    for k in range(given + 1):
        if k == ellipsis:
            for _ in range(whole):
                start[0] = 0
                step[0] = 1
                count[0] = g.shape[d]
                start += apart
                step += apart
                count += apart
                d += 1
            continue
        if k == given:
            break
        item = <object> PyTuple_GET_ITEM(key, k) if is_tuple else key
        if PySlice_Check(item):
            PySlice_Unpack(item, &first, &stop, &stride)
            items = PySlice_AdjustIndices(<Py_ssize_t> g.shape[d], &first, &stop, stride)
            if items == 0:
                first = 0
            if items < 2:
                stride = 1
            elif stride < 0:
                first += (items - 1) * stride
                stride = -stride
                flags[0] |= <uint32_t> 1 << (REVERSED + d)
            start[0] = first
            step[0] = stride
            count[0] = items
        else:
            if not PyLong_CheckExact(item):
                if not isinstance(item, _integer):
                    return False
                item = int(item)
            value = PyLong_AsLongLongAndOverflow(item, &overflow)
            if value < 0:
                value += g.shape[d]
            if overflow or value < 0 or value >= g.shape[d]:
                return False
            flags[0] |= <uint32_t> 1 << d
            start[0] = value
            step[0] = count[0] = 1
        start += apart
        step += apart
        count += apart
        d += 1
    return True


cdef void copy_items(uint8_t *to, const int64_t *to_strides, const uint8_t *source, const int64_t *source_strides,
                     const int64_t *count, int ndim, int64_t itemsize) noexcept nogil:
    """Copy a box of items between two strided buffers."""
    cdef int64_t run = itemsize
    cdef int64_t at[MAX_DIM]
    cdef int64_t n, ts, ss
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
        copy_rows(to, ts, source, ss, n, run)
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


cdef void _begin(Operation operation, DecodeContext *context, Encoder encoder) noexcept nogil:
    operation.begin(context)


cdef void _work(Operation operation, DecodeContext *context, Encoder encoder) noexcept nogil:
    operation.work(context, encoder)


cdef struct PointAxes:
    # The axes that points have, and the others: which blocks the box touches on each, and how items lie on it.
    int npointed, nplain
    int pointed[MAX_DIM]
    int plain[MAX_DIM]
    int64_t low[MAX_DIM]
    int64_t many[MAX_DIM]
    int64_t array_strides[MAX_DIM]
    int64_t block_strides[MAX_DIM]


cdef int64_t divide_axes(Operation self, const Box *box, PointAxes *axes) noexcept nogil:
    """Tell the axes with points from the others; returns how many blocks of each point the others touch."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t touched = 1
    cdef int d, j
    axes.npointed = axes.nplain = 0
    for d in range(g.ndim):
        if self.pointed[d]:
            axes.pointed[axes.npointed] = d
            axes.npointed += 1
            continue
        j = axes.nplain
        axes.plain[j] = d
        axes.low[j] = box.first[d] // g.blocks[d]
        axes.many[j] = (box.first[d] + (box.count[d] - 1) * self.step[d]) // g.blocks[d] - axes.low[j] + 1
        axes.array_strides[j] = self.strides[d]
        axes.block_strides[j] = g.item_strides[d] * self.step[d]
        touched *= axes.many[j]
        axes.nplain += 1
    return touched


cdef int64_t same_blocks(Operation self, const PointAxes *axes, int64_t at, int64_t end, int64_t *block) noexcept nogil:
    """The end of the points from one on that lie in the same blocks; `block` is the number of the first of these."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t stop = at, other
    cdef int d, j
    while stop < end:
        other = 0
        for j in range(axes.npointed):
            d = axes.pointed[j]
            other += self.indices[d][stop] % g.chunks[d] // g.blocks[d] * g.block_strides[d]
        if stop == at:
            block[0] = other
        elif other != block[0]:
            break
        stop += 1
    return stop


cdef bint clip_block(Operation self, const PointAxes *axes, const Box *box, int64_t i, int64_t *nblock, int64_t *count,
                     int64_t *inside, int64_t *offset) noexcept nogil:
    """What a box takes of its `i`-th block: how many items, and where they begin in the block and in the array, in bytes.

    Adds the number of the block to `nblock`. False if that is nothing.
    """
    cdef Grid *g = &self.geometry.c
    cdef int64_t first, index, b
    cdef int d, j
    inside[0] = offset[0] = 0
    for j in range(axes.nplain - 1, -1, -1):
        d = axes.plain[j]
        b = axes.low[j] + i % axes.many[j]
        i //= axes.many[j]
        nblock[0] += b * g.block_strides[d]
        if not clip(box.first[d], self.step[d], box.count[d], b * g.blocks[d], g.blocks[d], &first, &count[j], &index):
            return False
        offset[0] += (index + box.index[d]) * self.strides[d]
        inside[0] += first * g.item_strides[d]
    return True


cdef class Operation:
    """A read or write of a selection, chunk by chunk, by one thread or more.

    `tasks` says how many chunks it touches; call `run`, then `finish`.
    """

    cdef int select(self, start, step, count) except -1:
        """Take a selection whose bounds the caller has checked against the shape."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        for d in range(g.ndim):
            self.start[d] = start[d]
            self.step[d] = step[d]
            self.count[d] = count[d]
            if self.count[d] and (self.start[d] < 0 or self.step[d] < 1 or self.count[d] < 0
                                  or self.start[d] + (self.count[d] - 1) * self.step[d] >= g.shape[d]):
                raise IndexError(f"a selection reaches outside axis {d} of length {g.shape[d]}")
        locate(self)
        return 0

    cdef int pick(self, cnp.ndarray items, points) except -1:
        """Have points on some axes, whose items lie in a C-contiguous NumPy array; see `_indexing.points.Points`."""
        cdef Grid *g = &self.geometry.c
        cdef Py_ssize_t count = 0, bounds = 0, told = 0
        cdef Buffer indices, held_offsets = integers(points.offsets, 8, &count)
        cdef Buffer held_groups = integers(points.groups, 8, &bounds)
        cdef const int64_t *offsets = <const int64_t *> held_offsets.data
        cdef const int64_t *groups = <const int64_t *> held_groups.data
        cdef const int64_t *index
        cdef int64_t i, k, extent = g.itemsize, room = cnp.PyArray_NBYTES(items)
        cdef int d
        self.keep_points = [held_offsets, held_groups]
        self.by_points = True
        self.group_count = bounds - 1
        for d in range(g.ndim):
            self.strides[d] = points.strides[d]
            if self.strides[d] < 0:
                raise ValueError("strides cannot be negative")
            extent += (self.count[d] - 1) * self.strides[d]
        if g.size == 0:
            self.tasks = self.stop_task = 0     # chunks may be of no items: there is nothing to divide by
            return 0
        for axis, of_axis in zip(points.axes, points.indices):
            indices = integers(of_axis, 8, &told)
            d = axis
            if told != count or d < 0 or d >= g.ndim or self.count[d] != 1 or self.start[d] != 0:
                raise ValueError("an index for each point and axis of points is needed")
            self.pointed[d] = True
            self.keep_points.append(indices)
            if count == 0:
                continue
            self.indices[d] = index = <const int64_t *> indices.data
            for i in range(count):
                if index[i] < 0 or index[i] >= g.shape[d]:
                    raise IndexError(f"index {index[i]} is out of bounds for axis {d} with size {g.shape[d]}")
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
            self.offsets = offsets
            self.groups = groups
        self.tasks *= self.group_count
        self.stop_task = self.tasks
        return 0

    cdef bint task_points(self, int64_t task, int64_t *nchunk, Box *box, int64_t *begin, int64_t *end) noexcept nogil:
        """The chunk of a task, its points, and the part of the selection on the other axes."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t group = task % self.group_count
        cdef int d
        if not self.box_of(task // self.group_count, nchunk, box):
            return False
        begin[0] = self.groups[group]
        end[0] = self.groups[group + 1]
        for d in range(g.ndim):
            if self.pointed[d]:
                nchunk[0] += self.indices[d][begin[0]] // g.chunks[d] * g.chunk_strides[d]
        return True

    cdef int move_points(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t begin, int64_t end,
                         uint8_t *whole, const uint8_t *constant) noexcept nogil:
        """Copy the items of points between the NumPy array and the blocks of a chunk.

        From the array into `whole`, a chunk that was decoded for it, when there is no `chunk`. Else into the array: from
        `whole` or, where every block is the same, from `constant`; from blocks that are decoded here if both are NULL.
        """
        cdef Grid *g = &self.geometry.c
        cdef PointAxes axes
        cdef int64_t count[MAX_DIM]
        cdef int64_t touched = divide_axes(self, box, &axes), at = begin, stop
        cdef int64_t i, p, nblock, pointed_block = 0, inside, offset, shift
        cdef const uint8_t *source
        cdef uint8_t *block
        cdef int status, d, j
        while at < end:
            stop = same_blocks(self, &axes, at, end, &pointed_block)
            for i in range(touched):
                nblock = pointed_block
                if not clip_block(self, &axes, box, i, &nblock, count, &inside, &offset):
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
                    status = part_block(
                        self.frame, nchunk, context, chunk, <int32_t> nblock, False, chunk.blocksize, &source)
                    if status:
                        return status
                for p in range(at, stop):
                    shift = inside
                    for j in range(axes.npointed):
                        d = axes.pointed[j]
                        shift += self.indices[d][p] % g.chunks[d] % g.blocks[d] * g.item_strides[d]
                    if chunk != NULL:
                        copy_items(self.data + self.offsets[p] + offset, axes.array_strides, source + shift,
                                   axes.block_strides, count, axes.nplain, g.itemsize)
                    else:
                        block = whole + nblock * g.block_nbytes + shift
                        copy_items(block, axes.block_strides, self.data + self.offsets[p] + offset, axes.array_strides,
                                   count, axes.nplain, g.itemsize)
            at = stop
        return CHUNK_OK

    cdef int share(self, int64_t threads) except -1:
        """Divide the work so that as many threads have something to do."""
        return 0

    cdef Encoder encoder(self):
        """What one thread compresses with, if it does."""
        return None

    cdef void begin(self, DecodeContext *context) noexcept nogil:
        """What is done before other threads are woken, if `cold`."""

    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil:
        """Do tasks until none is left."""

    def run(self, int threads=1):
        """Work until nothing is left, in up to as many threads; releases the GIL."""
        cdef WorkerGroup group
        cdef int i
        cdef int64_t wanted = 0
        cdef Encoder own = self.encoder()
        cdef list encoders = []
        if threads > 1:
            self.share(threads)
            wanted = min(threads - 1, self.stop_task - self.next_task - 1)
        try:
            acquire_group(&group, wanted, <void *> self, <Job> _work, <int32_t> self.geometry.c.block_nbytes)
            for i in range(group.count):
                encoder = self.encoder()
                encoders.append(encoder)
                group.workers[i].tool = <void *> encoder
            self.ahead.begun, self.ahead.resume, self.ahead.batch, self.ahead.alone = 0, INT64_MAX, 0, group.count == 0
            with nogil:
                run_in_group(&group, <void *> self, <Job> _work, <void *> own, <Job> _begin if self.cold else NULL)
        finally:
            release_group(&group)

    cdef void ask_ahead(self, DecodeContext *context) noexcept nogil:
        """Ask for the bytes that are read first; see ask_ahead.pxd."""

    cdef bint box_of(self, int64_t task, int64_t *nchunk, Box *box) noexcept nogil:
        """The chunk of a task and the part of the selection in it; False when steps pass over it."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t c
        cdef int d
        nchunk[0] = 0
        for d in range(g.ndim - 1, -1, -1):
            c = self.first_chunk[d] + task % self.chunk_count[d]
            task //= self.chunk_count[d]
            nchunk[0] += c * g.chunk_strides[d]
            if not clip(self.start[d], self.step[d], self.count[d], c * g.chunks[d], g.chunks[d],
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
        if number_get(&self.status):
            return -1
        task = counter_next(&self.next_task)
        return task if task < self.stop_task else -1

    cdef void note_failure(self, int status, int64_t nchunk) noexcept nogil:
        """Have all threads stop. Only the first that comes is told of: another chunk may be wrong in another way."""
        if state_change(&self.has_failed, 0, 1):
            self.failed = nchunk
            number_set(&self.status, status)

    def finish(self):
        """Raise what went wrong in any thread."""
        if self.status:
            self.frame.fail(<int> self.status, self.failed)
