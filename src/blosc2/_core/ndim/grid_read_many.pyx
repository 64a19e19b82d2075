# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Reading many selections of one array together.

Each selection falls into parts, one for each chunk that it touches. The parts of all selections are put in the order of
chunks and blocks, so that those which need the same block follow each other, and are shared out to threads in groups of
about the same work. Each thread has a reader of its own, which it turns to one selection after another.
"""

cimport numpy as cnp
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc

from blosc2._core.codec.codec cimport CHUNK_OK, Chunk, DecodeContext, Encoder
from blosc2._core.codec.shared_blocks cimport leave_block
from blosc2._core.codec.thread_pool cimport Job, WorkerGroup, acquire_group, release_group, run_in_group
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.readahead cimport AHEAD_BYTES
from blosc2._core.io.steps cimport counter_next, number_get, state_change
from blosc2._core.ndim.ask_parts cimport begin_parts, go_on_with_parts
from blosc2._core.ndim.foresee_parts cimport Foreseen, foresee_parts, what_is_foreseen
from blosc2._core.ndim.geometry cimport MAX_DIM, Geometry, Grid
from blosc2._core.ndim.grid cimport REVERSED, Box, Operation, clip, parse_key
from blosc2._core.ndim.grid_read cimport Read
from blosc2._core.ndim.read_parts cimport Part, cost_of, list_parts
from blosc2._core.ndim.read_rows cimport has_rows, is_row, list_rows, read_rows, rows_are_runs, same_block

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef enum:
    # Chunks of a selection above which it has nothing to gain from the others.
    MOST_CHUNKS = 1 << 16
    # Parts that are in memory at a time, with those of one selection more.
    MOST_PARTS = 1 << 20
    # Groups for each thread: they do not all take the same time, and a thread that has none left waits for the last.
    GROUPS = 16
    MOST_READERS = 65
    MOST_AXES = 64  # of a NumPy array



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
    cdef bint by_rows               # whether each selection is one row; see read_rows.pxd
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
        cdef int k, count = 0
        self.check_items(out)
        if cnp.PyArray_NDIM(out) < 1 or cnp.PyArray_DIM(out, 0) != self.number:
            raise ValueError(f"the result must have {self.number} rows")
        self.keep = out
        if len(self.others) == self.number:
            return
        if self.shape is None or cnp.PyArray_NDIM(out) != 1 + len(self.shape):
            raise ValueError("the result must have rows of the shape of the selections")
        for k in range(1, cnp.PyArray_NDIM(out)):
            if cnp.PyArray_DIM(out, k) != self.shape[k - 1]:
                raise ValueError("the result must have rows of the shape of the selections")
            if cnp.PyArray_DIM(out, k) != 1 and count < MAX_DIM:
                moving[count] = cnp.PyArray_STRIDE(out, k)
                count += 1
        for i in range(self.number):
            self.put(i, <uint8_t *> cnp.PyArray_DATA(out) + i * cnp.PyArray_STRIDE(out, 0), moving)

    def into_arrays(self, cnp.dtype dtype not None):
        """Read into new arrays: a list with one for each selection, and None for `others`."""
        cdef cnp.npy_intp dims[MOST_AXES]
        cdef int64_t moving[MAX_DIM]
        cdef int64_t i
        cdef int k, count
        cdef cnp.ndarray items
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
            items = PyArray_Empty(<int> len(shape), dims, dtype, 0)
            self.check_items(items)
            count = 0
            for k in range(len(shape)):
                if dims[k] != 1 and count < MAX_DIM:
                    moving[count] = cnp.PyArray_STRIDE(items, k)
                    count += 1
            self.put(i, <uint8_t *> cnp.PyArray_DATA(items), moving)
            arrays.append(items)
        self.keep = tuple(arrays)
        return arrays

    def into_rows(self, list rows not None):
        """Read into arrays that are there: a list with one for each selection, of its shape."""
        cdef int64_t moving[MAX_DIM]
        cdef int64_t i
        cdef int k, count
        cdef cnp.ndarray items
        if len(rows) != self.number:
            raise ValueError(f"{len(rows)} arrays for {self.number} selections")
        for i in range(self.number):
            if i in self.left_out:
                continue
            items = rows[i]
            self.check_items(items)
            shape = self.shape_of(i)
            if cnp.PyArray_NDIM(items) != len(shape):
                raise ValueError("the results must have the shapes of the selections")
            count = 0
            for k in range(len(shape)):
                if cnp.PyArray_DIM(items, k) != shape[k]:
                    raise ValueError("the results must have the shapes of the selections")
                if shape[k] != 1 and count < MAX_DIM:
                    moving[count] = cnp.PyArray_STRIDE(items, k)
                    count += 1
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
