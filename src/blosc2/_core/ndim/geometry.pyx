# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Shape, chunks and blocks of an array: checked against each other, read from and written to metadata."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.string cimport memcmp

from blosc2._core.codec.chunk cimport MAX_BUFFER
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.steps cimport step_begin, step_end, step_lock

from blosc2._core.io.sharing import free_in_child
from blosc2.exceptions import FormatError

cdef int64_t MAX_BYTES = 0x7FFFFFFFFFFFFFFF
cdef int64_t MOST_ITEMS = 0x7FFFFFFF    # of a chunk on one axis, as metadata can say


cdef inline int64_t _be(const uint8_t *p, int length) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(length):
        value = value << 8 | p[i]
    return <int64_t> value if length == 8 else <int64_t> <int32_t> value


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
    def grid(self):
        """Chunks on each axis."""
        return tuple([self.c.grid[i] for i in range(self.c.ndim)])

    @property
    def is_in_order(self):
        return self.c.in_order

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


def parse_geometry(Frame frame not None, dtype_of):
    """Geometry and dtype of a frame from its `b2nd` metalayer (FORMATS 3.1 and 1.6, points 17-19).

    `dtype_of` turns the dtype string into a NumPy dtype, and raises `ValueError` for what it refuses.
    """
    geometry, dtype, _ = geometry_of(frame, dtype_of)
    return geometry, dtype


cdef tuple geometry_of(Frame frame, dtype_of):
    """The same, and the frame."""
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
                self.c.shape[i] = _be(m + 1, 8)
                m += 9
            elif fields == 1:
                self.c.chunks[i] = _be(m + 1, 4)
                m += 5
            else:
                self.c.blocks[i] = _be(m + 1, 4)
                m += 5
    length -= <int32_t> needed
    if length == 0:
        text = f"S{frame.typesize}"
    else:
        if length < 6 or m[0] != 0 or m[1] != 0xDB:
            raise _bad(frame, at, "the dtype has an unknown form; only NumPy dtype strings are known")
        text_length = <int64_t> <uint32_t> _be(m + 2, 4)
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
