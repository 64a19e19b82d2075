# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Shape, chunks and blocks of an array, and selections of its items.

The three shapes are checked against each other, read from and written to metadata.
"""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.ref cimport PyObject, Py_INCREF, Py_XDECREF
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check, PySlice_Unpack
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, MAX_BUFFER, Chunk
from blosc2._core.codec.codec cimport DecodeContext, Encoder
from blosc2._core.codec.thread_pool cimport Job, WorkerGroup, acquire_group, release_group, run_in_group
from blosc2._core.frame.frame cimport Frame, part_block
from blosc2._core.io.endian cimport big32, big64, put32, put64
from blosc2._core.io.source cimport Buffer, integers
from blosc2._core.io.steps cimport (
    counter_next, never_count, number_get, number_set, state_change, step_begin, step_end, step_lock)
from blosc2._core.zip.catalog cimport (
    DESCRIPTION_START, LEAF_ARRAY, LEAF_ATTRIBUTES, LEAF_BATCHES, LEAF_OBJECTS, LEAF_OTHER, LEAF_SCHUNK, NO_SHAPE)

from blosc2._core.io.sharing import free_in_child
from blosc2.exceptions import FormatError

cdef int64_t MAX_BYTES = 0x7FFFFFFFFFFFFFFF
cdef int64_t MOST_ITEMS = 0x7FFFFFFF    # of a chunk on one axis, as metadata can say


cdef inline uint64_t padded(uint64_t length, uint64_t part) noexcept nogil:
    """A length in whole parts; 0 where these have none."""
    return (length + part - 1) // part * part if part else 0


cdef class Geometry:
    """Shape, chunks and blocks of an array.

    Parameters
    ----------
    shape, chunks, blocks : sequence of int
        In items, one per axis; chunks and blocks may be zero only for arrays without items.
    itemsize : int
        Bytes of an item.
    """

    def __cinit__(self):
        self.inner = 1

    def __init__(self, shape, chunks, blocks, int64_t itemsize):
        cdef int i
        self.c.ndim = len(shape)
        if self.c.ndim > MAX_DIM:
            raise ValueError(f"the number of dimensions, {self.c.ndim}, is too large: at most {MAX_DIM} are possible")
        if len(chunks) != self.c.ndim or len(blocks) != self.c.ndim:
            raise ValueError("shape, chunks and blocks must have the same length")
        self.c.itemsize = itemsize
        try:
            for i in range(self.c.ndim):
                self.c.shape[i] = shape[i]
                self.c.chunks[i] = chunks[i]
                self.c.blocks[i] = blocks[i]
        except OverflowError:
            raise ValueError(f"axis {i} is longer than 2**63 - 1 items") from None
        self.derive()

    cdef object add_axes(self, dtype):
        """Let the axes of a dtype that has a shape follow those of the array, as in NumPy; returns the dtype of an item.

        The bytes are the same. The published package writes such dtypes.
        """
        cdef int64_t n
        if self.c.ndim + dtype.ndim > MAX_DIM:
            raise ValueError(f"{self.c.ndim} dimensions and {dtype.ndim} of the dtype; at most {MAX_DIM} are possible")
        for n in dtype.shape:
            self.c.shape[self.c.ndim] = self.c.chunks[self.c.ndim] = self.c.blocks[self.c.ndim] = n
            self.c.ndim += 1
            self.inner *= n
        return dtype.base

    cdef int derive(self) except -1:
        """Check the three shapes against each other and compute the rest."""
        cdef int i
        cdef int64_t n
        cdef bint inner_whole
        self.c.size = self.c.nchunks = 1
        self.c.block_nbytes = self.c.chunk_nbytes = self.c.itemsize
        if self.c.itemsize < 1:
            raise ValueError(f"items of {self.c.itemsize} bytes cannot be stored")
        for i in range(self.c.ndim):
            n = self.c.shape[i]
            if n < 0:
                raise ValueError(f"negative length {n} on axis {i}")
            # NumPy counts the other axes of an array without items too.
            if n and self.c.size > MAX_BYTES // self.c.itemsize // n:
                raise ValueError("the array has more than 2**63 - 1 bytes")
            self.c.size *= n if n else 1
        for i in range(self.c.ndim):
            self.c.size *= self.c.shape[i] != 0
        for i in range(self.c.ndim):
            # Without items both may be zero, of any axis: nothing below is computed then, nor may be anywhere else.
            if (self.c.blocks[i] < 0 or self.c.blocks[i] > self.c.chunks[i]
                    or (self.c.blocks[i] == 0 and (self.c.size or self.c.chunks[i]))):
                raise ValueError(
                    f"on axis {i} a block of {self.c.blocks[i]} items does not fit a chunk of {self.c.chunks[i]}")
            if self.c.chunks[i] > (MAX_BUFFER if self.c.size else MOST_ITEMS):   # also what follows would overflow
                raise ValueError(f"on axis {i} a chunk of {self.c.chunks[i]} items has more than {MAX_BUFFER} bytes")
        if self.c.size == 0:
            self.c.nchunks = self.c.block_nbytes = self.c.chunk_nbytes = 0
            return 0
        for i in range(self.c.ndim - 1, -1, -1):
            self.c.grid[i] = (self.c.shape[i] - 1) // self.c.chunks[i] + 1
            self.c.chunk_strides[i] = self.c.nchunks
            self.c.nchunks *= self.c.grid[i]
            self.c.item_strides[i] = self.c.block_nbytes
            n = (self.c.chunks[i] - 1) // self.c.blocks[i] + 1
            self.c.block_grid[i] = n
            if self.c.blocks[i] > MAX_BUFFER // self.c.block_nbytes or (
                    n * self.c.blocks[i] > MAX_BUFFER // self.c.chunk_nbytes):
                raise ValueError(f"a chunk, padded to whole blocks, has more than {MAX_BUFFER} bytes")
            self.c.block_nbytes *= self.c.blocks[i]
            self.c.chunk_nbytes *= n * self.c.blocks[i]
        n = 1
        for i in range(self.c.ndim - 1, -1, -1):
            self.c.block_strides[i] = n
            n *= self.c.block_grid[i]
        # Items lie in C order when blocks follow each other along one axis only: whole chunk behind it,
        # one item before it.
        self.c.in_order = True
        inner_whole = True
        for i in range(self.c.ndim - 1, -1, -1):
            if self.c.chunks[i] % self.c.blocks[i] or (not inner_whole and self.c.blocks[i] != 1):
                self.c.in_order = False
            inner_whole = inner_whole and self.c.blocks[i] == self.c.chunks[i]
        return 0

    @property
    def ndim(self):
        return self.c.ndim

    @property
    def itemsize(self):
        return self.c.itemsize

    @property
    def size(self):
        return self.c.size

    @property
    def nchunks(self):
        return self.c.nchunks

    @property
    def block_nbytes(self):
        return self.c.block_nbytes

    @property
    def chunk_nbytes(self):
        """Bytes of a chunk, padded to whole blocks."""
        return self.c.chunk_nbytes

    @property
    @cython.critical_section
    def shape(self):
        if self.shape_ is None:
            self.shape_ = tuple([self.c.shape[i] for i in range(self.c.ndim)])
        return self.shape_

    @property
    @cython.critical_section
    def chunks(self):
        if self.chunks_ is None:
            self.chunks_ = tuple([self.c.chunks[i] for i in range(self.c.ndim)])
        return self.chunks_

    @property
    @cython.critical_section
    def blocks(self):
        if self.blocks_ is None:
            self.blocks_ = tuple([self.c.blocks[i] for i in range(self.c.ndim)])
        return self.blocks_

    @property
    def ext_shape(self):
        """The shape, padded to whole chunks."""
        return tuple([padded(self.c.shape[i], self.c.chunks[i]) for i in range(self.c.ndim)])

    @property
    def ext_chunks(self):
        """The shape of a chunk, padded to whole blocks."""
        return tuple([padded(self.c.chunks[i], self.c.blocks[i]) for i in range(self.c.ndim)])

    @property
    def grid(self):
        """Chunks on each axis."""
        return tuple([self.c.grid[i] for i in range(self.c.ndim)])

    def metalayer(self, str dtype):
        """The packed `b2nd` metalayer (FORMATS 3.1)."""
        cdef bytes text = dtype.encode()
        parts = [bytes((0x97, 0, self.c.ndim, 0x90 + self.c.ndim))]
        for i in range(self.c.ndim):
            parts.append(b"\xd3" + (<int64_t> self.c.shape[i]).to_bytes(8, "big"))
        for values in (self.chunks, self.blocks):
            parts.append(bytes((0x90 + self.c.ndim,)))
            for n in values:
                parts.append(b"\xd2" + n.to_bytes(4, "big"))
        parts.append(b"\x00\xdb" + len(text).to_bytes(4, "big"))
        parts.append(text)
        return b"".join(parts)


cdef enum:
    MOST_DTYPES = 1024

# Of plain dtypes, by their text; there are few.
cdef dict _known_dtypes = free_in_child({})


cdef struct Last:
    step_lock turn
    PyObject *seen              # a tuple; NULL before the first

# The array metadata that was read last, its geometry and dtype: leaves of a store are often alike, and then share them.
cdef Last _last


cdef tuple _seen_last():
    """The array metadata that was read last, with its geometry and dtype; None before the first."""
    cdef tuple seen = None
    step_begin(&_last.turn)
    if _last.seen != NULL:
        seen = <tuple> _last.seen
    step_end(&_last.turn)
    return seen


cdef int _see(tuple seen) except -1:
    cdef PyObject *before
    Py_INCREF(seen)
    step_begin(&_last.turn)
    before, _last.seen = _last.seen, <PyObject *> seen
    step_end(&_last.turn)
    Py_XDECREF(before)  # behind the step, as it may run anything
    return 0


cdef object _bad(Frame frame, int64_t at, str what):
    return FormatError(f"array metadata: {what}", path=frame.source.path, key=frame.key, offset=at)


def parse_b2nd(Frame frame not None, dtype_of):
    """Geometry and dtype of a frame from its `b2nd` metalayer (FORMATS 3.1 and 1.6, points 17-19).

    `dtype_of` turns the dtype string into a NumPy dtype, and raises `ValueError` for what it refuses.
    """
    geometry, dtype, _ = geometry_of(frame, dtype_of)
    return geometry, dtype


cdef tuple geometry_of(Frame frame, dtype_of):
    """What `parse_b2nd` gives, and the frame."""
    cdef int32_t length
    cdef bytes own, content = None
    cdef tuple last
    cdef const uint8_t *m = frame.find_metalayer(b"b2nd", 4, &length)
    cdef Geometry geometry
    cdef int64_t at
    if m == NULL and frame.header == NULL:
        own = frame.own_metalayers.get("b2nd")
        if own is not None:
            m = <const uint8_t *> PyBytes_AS_STRING(own)
            length = <int32_t> len(own)
    if m == NULL:
        raise FormatError("no b2nd metalayer: not an array", path=frame.source.path, key=frame.key)
    at = frame.offset + (m - frame.header if frame.header != NULL else 0)
    last = _seen_last()
    if last is not None:
        content = <bytes> last[0]
    if content is not None and PyBytes_GET_SIZE(content) == length and memcmp(PyBytes_AS_STRING(content), m, length) == 0:
        geometry, dtype = <Geometry> last[1], last[2]
    else:
        geometry = Geometry.__new__(Geometry)
        dtype = _parse(frame, geometry, m, length, at, dtype_of)
        # Not one without a dtype text, whose dtype is the frame's. Nor a structured one: names of its fields can be
        # assigned, which would change all arrays that share it.
        if dtype.names is None and length > 6 + 19 * geometry.c.ndim:
            _see(((<const char *> m)[:length], geometry, dtype))
    _check_frame(frame, geometry, at)
    return geometry, dtype, frame


cdef object _parse(Frame frame, Geometry self, const uint8_t *m, int32_t length, int64_t at, dtype_of):
    """Fill in a geometry from its metalayer; returns the dtype."""
    cdef int64_t needed, text_length
    cdef int i, ndim, fields
    cdef object dtype = None
    cdef bytes encoded = None
    if length < 6 or (m[0] != 0x96 and m[0] != 0x97):
        raise _bad(frame, at, "cut short, or not the metadata of an array")
    if m[1] != 0:
        raise _bad(frame, at, f"unknown version {m[1]}")
    ndim = m[2]
    if ndim > MAX_DIM:
        raise _bad(frame, at, f"{ndim} dimensions; at most {MAX_DIM} are possible")
    needed = 6 + 19 * ndim
    if length < needed:
        raise _bad(frame, at, f"{length} bytes do not hold {ndim} dimensions")
    self.c.ndim = ndim
    m += 3
    for fields in range(3):
        # With 16 dimensions the array marker overflows to 0xa0.
        if m[0] != 0x90 + ndim:
            raise _bad(frame, at, f"an array of {ndim} values was expected")
        m += 1
        for i in range(ndim):
            if m[0] != (0xD3 if fields == 0 else 0xD2):
                raise _bad(frame, at, "a length has the wrong type marker")
            if fields == 0:
                self.c.shape[i] = big64(m + 1)
                m += 9
            elif fields == 1:
                self.c.chunks[i] = big32(m + 1)
                m += 5
            else:
                self.c.blocks[i] = big32(m + 1)
                m += 5
    length -= <int32_t> needed
    if length == 0:
        text = f"S{frame.typesize}"
    else:
        if length < 6 or m[0] != 0 or m[1] != 0xDB:
            raise _bad(frame, at, "the dtype has an unknown form; only NumPy dtype strings are known")
        text_length = <int64_t> <uint32_t> big32(m + 2)
        if text_length != length - 6:
            raise _bad(frame, at, f"a dtype of {text_length} bytes is announced and {length - 6} are there")
        if text_length > 65536:
            raise _bad(frame, at, f"a dtype of {text_length} bytes; at most 65536 are read")
        encoded = (<const char *> m + 6)[:text_length]
        dtype = _known_dtypes.get(encoded)
        if dtype is None:
            try:
                text = encoded.decode()
            except UnicodeDecodeError:
                raise _bad(frame, at, "the dtype is not UTF-8") from None
    try:
        if dtype is None:
            dtype = dtype_of(text)
            # Names of fields can be assigned, which would change all arrays that share a structured dtype.
            if encoded is not None and dtype.base.names is None and len(_known_dtypes) < MOST_DTYPES:
                _known_dtypes[encoded] = dtype
        if dtype.ndim:
            dtype = self.add_axes(dtype)
        self.c.itemsize = dtype.itemsize
        self.derive()
    except ValueError as error:
        raise _bad(frame, at, str(error)) from None
    return dtype


cdef int _check_frame(Frame frame, Geometry self, int64_t at) except -1:
    """Check a geometry against the header of its frame."""
    cdef int64_t itemsize = self.c.itemsize * self.inner
    if itemsize != frame.typesize and not (frame.typesize == 1 and itemsize > 255):
        raise _bad(frame, at, f"items of {itemsize} bytes in a frame of items of {frame.typesize}")
    if self.c.size == 0:
        if frame.nbytes:
            raise _bad(frame, at, f"an array without items in a frame of {frame.nbytes} bytes")
    else:
        if self.c.chunk_nbytes != frame.chunksize:
            raise _bad(frame, at, f"chunks of {self.c.chunk_nbytes} bytes in a frame with chunks of {frame.chunksize}")
        if frame.variable or frame.vlblocks:
            raise _bad(frame, at, "an array cannot have chunks of different sizes")
        if frame.nbytes % self.c.chunk_nbytes or frame.nbytes // self.c.chunk_nbytes < self.c.nchunks:
            raise _bad(frame, at, f"the shape needs {self.c.nchunks} chunks, the frame has {frame.nbytes / self.c.chunk_nbytes:g}")
    return 0


# Selections of an n-d array: which chunks and blocks they touch, and moving their items.
#
# A selection is a box with positive steps: `start`, `step` and `count` on every axis. `grid_read` moves such items out of
# chunks, `grid_write` into them. Both hand out chunks from a counter, so that any number of threads can work on one
# operation.
#
# On some axes a selection may consist of points instead: index arrays, of which the entries at one position belong
# together. Points come sorted by chunk and block, each with the offset of its items in the result.


cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_GetHandler()

# What NumPy allocates with, to which each new array refers. It is there as long as the process.
never_count(PyDataMem_GetHandler())

cdef extern from * nogil:
    """
    /* Copying rows of equal length. A call of `memcpy` takes as long as copying some 100 bytes, and rows of blocks are often
     * shorter, so these are copied here. */
    /* The first and the last `part` bytes of each row, which has no more than twice as many; they may overlap. */
    #define B2_ROWS_OF_TWO(part) \
        for (i = 0; i < n; i++) { \
            uint8_t first[part], last[part]; \
            memcpy(first, source + i * source_step, part); \
            memcpy(last, source + i * source_step + run - part, part); \
            memcpy(to + i * to_step, first, part); \
            memcpy(to + i * to_step + run - part, last, part); \
        } \
        return

    /* Rows of this length. */
    #define B2_ROWS_OF(length) \
        case length: \
            for (i = 0; i < n; i++) memcpy(to + i * to_step, source + i * source_step, length); \
            return

    /* `n` rows of `run` bytes, which are `to_step` and `source_step` bytes apart. */
    static inline void copy_rows(uint8_t *to, int64_t to_step, const uint8_t *source, int64_t source_step, int64_t n,
                                 int64_t run) {
        int64_t i;
        switch (run) {
        B2_ROWS_OF(1);
        B2_ROWS_OF(2);
        B2_ROWS_OF(4);
        B2_ROWS_OF(8);
        B2_ROWS_OF(16);
        B2_ROWS_OF(32);
        B2_ROWS_OF(64);
        B2_ROWS_OF(128);
        }
        if (run == 3) { B2_ROWS_OF_TWO(2); }
        if (run > 4 && run < 8) { B2_ROWS_OF_TWO(4); }
        if (run > 8 && run < 16) { B2_ROWS_OF_TWO(8); }
        if (run > 16 && run < 32) { B2_ROWS_OF_TWO(16); }
        if (run > 32 && run < 64) { B2_ROWS_OF_TWO(32); }
        if (run > 64 && run < 128) { B2_ROWS_OF_TWO(64); }
        for (i = 0; i < n; i++) memcpy(to + i * to_step, source + i * source_step, (size_t) run);
    }
    """
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


cdef inline void take_all(Axis *axis, int64_t length) noexcept:
    axis.start, axis.step, axis.count = 0, 1, length


cdef bint parse_key(const Grid *g, object key, Axis *axes, uint32_t *flags) except -1:
    """Parse a key of integers, slices and one `...`; False when it is another one, or out of bounds.

    Steps are positive. Bit d of `flags` says that axis d has an integer, bit REVERSED + d that the key runs through it
    backwards.
    """
    cdef Py_ssize_t first, stop, stride, items
    cdef Py_ssize_t given, k, ellipsis
    cdef int64_t value
    cdef int overflow = 0, d = 0, whole
    cdef bint is_tuple
    flags[0] = 0
    if key is Ellipsis or (g.ndim and PySlice_Check(key) and asks_for_all(key)):
        for d in range(g.ndim):
            take_all(&axes[d], g.shape[d])
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
                take_all(&axes[d], g.shape[d])
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
            axes[d].start, axes[d].step, axes[d].count = first, stride, items
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
            axes[d].start = value
            axes[d].step = axes[d].count = 1
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


cdef int take_axis(const Grid *g, int d, Axis *axis, int64_t start, int64_t step, int64_t count) except -1:
    """Take what a selection says of an axis, if it lies within."""
    axis.start, axis.step, axis.count = start, step, count
    if count and (start < 0 or step < 1 or count < 0 or start + (count - 1) * step >= g.shape[d]):
        raise IndexError(f"a selection reaches outside axis {d} of length {g.shape[d]}")
    return 0


cdef class Operation:
    """A read or write of a selection, chunk by chunk, by one thread or more.

    `tasks` says how many chunks it touches; call `run`, then `finish`.
    """

    cdef int select(self, start, step, count) except -1:
        """Take a selection whose bounds the caller has checked against the shape."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        for d in range(g.ndim):
            take_axis(g, d, &self.axes[d], start[d], step[d], count[d])
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
            self.axes[d].stride = points.strides[d]
            if self.axes[d].stride < 0:
                raise ValueError("strides cannot be negative")
            extent += (self.axes[d].count - 1) * self.axes[d].stride
        if g.size == 0:
            self.tasks = self.stop_task = 0     # chunks may be of no items: there is nothing to divide by
            return 0
        for axis, of_axis in zip(points.axes, points.indices):
            indices = integers(of_axis, 8, &told)
            d = axis
            if told != count or d < 0 or d >= g.ndim or self.axes[d].count != 1 or self.axes[d].start != 0:
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

    cdef int64_t block_of_point(self, int64_t point) noexcept nogil:
        """What the axes with points add to the number of a block."""
        cdef Grid *g = &self.geometry.c
        cdef int64_t block = 0
        cdef int d
        for d in range(g.ndim):
            if self.pointed[d]:
                block += self.indices[d][point] % g.chunks[d] // g.blocks[d] * g.block_strides[d]
        return block

    cdef int move_points(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t begin, int64_t end,
                         uint8_t *whole, const uint8_t *constant) noexcept nogil:
        """Copy the items of points between the NumPy array and the blocks of a chunk.

        From the array into `whole`, a chunk that was decoded for it, when there is no `chunk`. Else into the array: from
        `whole` or, where every block is the same, from `constant`; from blocks that are decoded here if both are NULL.
        """
        cdef Grid *g = &self.geometry.c
        cdef Touched touched
        cdef Box part
        cdef int64_t strides[MAX_DIM]
        cdef int64_t block_strides[MAX_DIM]
        cdef int64_t at = begin, stop, i, p, nblock, pointed, inside, shift
        cdef const uint8_t *source
        cdef uint8_t *to
        cdef int status, d
        touch(g, self.axes, box, &touched)
        for d in range(g.ndim):
            strides[d] = self.axes[d].stride
            block_strides[d] = g.item_strides[d] * self.axes[d].step
        while at < end:
            pointed = self.block_of_point(at)
            stop = at + 1
            while stop < end and self.block_of_point(stop) == pointed:
                stop += 1
            for i in range(touched.count):
                if not clip_to_block(g, self.axes, box, &touched, i, &nblock, &part, &inside):
                    continue
                nblock += pointed
                source = constant
                if constant == NULL and whole != NULL:
                    source = whole + nblock * g.block_nbytes
                    if chunk != NULL and chunk.kind == KIND_RAW:
                        status = self.frame.load_span(nchunk, chunk, CHUNK_HEADER + nblock * g.block_nbytes,
                                                      CHUNK_HEADER + (nblock + 1) * g.block_nbytes)
                        if status:
                            return status
                elif constant == NULL:
                    status = part_block(
                        self.frame, nchunk, context, chunk, <int32_t> nblock, False, chunk.blocksize, &source)
                    if status:
                        return status
                to = first_item(g, self.axes, self.data, &part)
                for p in range(at, stop):
                    shift = inside
                    for d in range(g.ndim):
                        if self.pointed[d]:
                            shift += self.indices[d][p] % g.chunks[d] % g.blocks[d] * g.item_strides[d]
                    if chunk != NULL:
                        copy_items(to + self.offsets[p], strides, source + shift, block_strides, part.count, g.ndim, g.itemsize)
                    else:
                        copy_items(whole + nblock * g.block_nbytes + shift, block_strides, to + self.offsets[p], strides,
                                   part.count, g.ndim, g.itemsize)
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
            with nogil:
                run_in_group(&group, <void *> self, <Job> _work, <void *> own, <Job> _begin if self.cold else NULL)
        finally:
            release_group(&group)

    cdef bint box_of(self, int64_t task, int64_t *nchunk, Box *box) noexcept nogil:
        """The chunk of a task and the part of the selection in it; False when steps pass over it."""
        cdef Grid *g = &self.geometry.c
        cdef int d
        nchunk[0] = 0
        for d in range(g.ndim - 1, -1, -1):
            nchunk[0] += (self.first_chunk[d] + task % self.chunk_count[d]) * g.chunk_strides[d]
            task //= self.chunk_count[d]
        return clip_to_chunk(g, self.axes, nchunk[0], box)

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


# The description of a leaf in a few bytes, as catalogs have it: kind, shape, dtype, codec, sizes.


cdef enum:
    # A dtype of more bytes is that of a table; it is left out, and so is its leaf.
    MOST_DTYPE = 4096


def describe(Frame frame not None, dtype_of):
    """The description of a frame, as catalogs have it.

    Returns
    -------
    bytes
        Empty for what a catalog cannot describe.

    Raises
    ------
    FormatError
        The metadata of an array is damaged.
    """
    cdef Geometry geometry
    cdef int32_t length
    cdef const uint8_t *m
    cdef const uint8_t *text = NULL
    cdef uint8_t *p
    cdef int what, i, ndim = NO_SHAPE
    cdef uint32_t text_length = 0
    cdef uint64_t nbytes = <uint64_t> frame.nbytes
    cdef bytes result, of_item
    if frame.only_array:
        what = LEAF_ARRAY
    else:
        names = frame.metalayers()
        if "proxy-source" in names or "b2o" in names or "listarray" in names or "LazyArray" in names:
            what = LEAF_OTHER
        elif "vlarray" in names:
            what = LEAF_OBJECTS
        elif "batcharray" in names:
            what = LEAF_BATCHES
        else:
            what = LEAF_ARRAY if "b2nd" in names else LEAF_SCHUNK
    if what == LEAF_ARRAY:
        geometry, dtype = parse_b2nd(frame, dtype_of)
        ndim = geometry.c.ndim
        nbytes = <uint64_t> geometry.c.size * <uint64_t> geometry.c.itemsize
        m = frame.find_metalayer(b"b2nd", 4, &length)
        if m == NULL:
            return b""
        if m[2] != ndim:    # the other axes are those of the dtype in the file
            of_item = (dtype.str if dtype.names is None else str(dtype)).encode()
            text, text_length = <const uint8_t *> PyBytes_AS_STRING(of_item), <uint32_t> len(of_item)
        elif length > 6 + 19 * ndim + 6:
            text = m + 6 + 19 * ndim + 6
            text_length = <uint32_t> (length - (6 + 19 * ndim + 6))
        if text_length > MOST_DTYPE:
            return b""
    result = PyBytes_FromStringAndSize(NULL, DESCRIPTION_START + (8 * ndim if ndim != NO_SHAPE else 0) + text_length)
    p = <uint8_t *> PyBytes_AS_STRING(result)
    p[0], p[1], p[2], p[3] = <uint8_t> what, <uint8_t> frame.codec, <uint8_t> ndim, 0
    p = put64(put64(put32(p + 4, text_length), nbytes), <uint64_t> frame.cbytes)
    if ndim != NO_SHAPE:
        for i in range(ndim):
            p = put64(p, <uint64_t> geometry.c.shape[i])
    if text_length:
        memcpy(p, text, text_length)
    return result


#: What stands for the attributes of a group, whatever they are.
LEAF_OF_ATTRIBUTES = bytes((LEAF_ATTRIBUTES, 0, NO_SHAPE, 0)) + bytes(DESCRIPTION_START - 4)
