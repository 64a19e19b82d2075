# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The kinds and shapes of leaves as a catalog lists them: each kind once, and shapes as far as they are met again soon."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.little_endian cimport put64, u64
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.zip.catalog cimport MAX_DIM, MOST_KINDS, Catalog
from blosc2._core.zip.description cimport LEAF_UNKNOWN, Description

cdef enum:
    SHAPE_CACHE = 4096
    # Bytes of shapes; leaves behind have a kind and sizes, but no shape.
    SHAPES_BUDGET = 64 << 20


cdef int append_bytes(Collected to, bytes data) except -1:
    memcpy(to.more(PyBytes_GET_SIZE(data)), PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    to.used += PyBytes_GET_SIZE(data)
    return 0


cdef class LeafKinds:
    """Numbers the kinds of leaves, and says where their shapes are."""

    def __cinit__(self):
        self.numbers, self.shape_offsets = {}, {}
        self.table, self.shapes = Collected.__new__(Collected), Collected.__new__(Collected)
        # The first ones are those of leaves without a shape, and of leaves that are not described.
        append_bytes(self.shapes, bytes(8))
        append_bytes(self.table, bytes(4))
        self.most = MOST_KINDS

    cdef int kind(self, const Description *description) except -1:
        """The number of a kind of leaf; 0 where there are too many."""
        if description.what == LEAF_UNKNOWN:
            return 0
        if (self.last_dtype is not None and description.what == self.last.what and description.codec == self.last.codec
                and description.dtype_length == PyBytes_GET_SIZE(self.last_dtype)
                and memcmp(description.dtype, PyBytes_AS_STRING(self.last_dtype), description.dtype_length) == 0):
            return self.last_kind
        cdef bytes dtype = (<const char *> description.dtype)[:description.dtype_length]
        key = bytes((description.what, description.codec)) + dtype
        number = self.numbers.get(key)
        if number is None:
            if len(self.numbers) >= self.most - 1:
                return 0
            number = len(self.numbers) + 1
            self.numbers[key] = number
            append_bytes(
                self.table, bytes((description.what, description.codec)) + len(dtype).to_bytes(2, "little") + dtype)
        self.last.what, self.last.codec = description.what, description.codec
        self.last_dtype, self.last_kind = dtype, number
        return number

    cdef uint32_t shape(self, const Description *description) except? 0xFFFFFFFF:
        """Where a shape is; alike ones are kept once, as far as they are met again soon."""
        cdef bytes packed
        cdef uint8_t *p
        cdef int i
        cdef int64_t size
        if description.ndim < 0:
            return 0
        size = 8 * (description.ndim + 1)
        if self.last_shape and u64(self.shapes.data + 8 * <int64_t> self.last_shape) == <uint64_t> description.ndim:
            p = self.shapes.data + 8 * (<int64_t> self.last_shape + 1)
            for i in range(description.ndim):
                if u64(p + 8 * i) != description.shape[i]:
                    break
            else:
                return self.last_shape
        packed = PyBytes_FromStringAndSize(NULL, size)
        p = put64(<uint8_t *> PyBytes_AS_STRING(packed), <uint64_t> description.ndim)
        for i in range(description.ndim):
            p = put64(p, description.shape[i])
        found = self.shape_offsets.get(packed)
        if found is None:
            if self.shapes.used + size > SHAPES_BUDGET:
                return 0
            found = self.shapes.used // 8
            append_bytes(self.shapes, packed)
            if len(self.shape_offsets) >= SHAPE_CACHE:
                self.shape_offsets.clear()
            self.shape_offsets[packed] = found
        self.last_shape = <uint32_t> found
        return self.last_shape

    cdef int fill_up(self) except -1:
        """List kinds that were not met after all, so that there are as many as were announced."""
        while len(self.numbers) < self.most - 1:
            self.numbers[b"\0" * len(self.numbers)] = None
            append_bytes(self.table, bytes(4))
        return 0

    cdef bint go_on_from(self, Catalog before) except -1:
        """Begin with those of a catalog, at their places. False where they are damaged, or nearly too many."""
        cdef const uint8_t *p
        cdef bytes shapes, packed
        cdef int64_t at = 8, size
        cdef uint64_t ndim
        # Whoever goes on and on keeps shapes and kinds that no leaf has any more: they end when all is written anew.
        if before.shapes_size > 65536 + 64 * before.count or before.shapes_size > SHAPES_BUDGET // 2 or (
                before.shapes_size < 8 or before.shapes_size % 8 or before.kind_count > MOST_KINDS // 2):
            return False
        p = before.bytes_at(before.shapes_at, before.shapes_size)
        if p == NULL:
            return False
        shapes = (<const char *> p)[:before.shapes_size]
        p = before.bytes_at(before.kinds_at, before.kinds_size)
        if p == NULL:
            return False
        self.shapes.used = self.table.used = 0
        append_bytes(self.shapes, shapes)
        append_bytes(self.table, (<const char *> p)[:before.kinds_size])
        while at < before.shapes_size and len(self.shape_offsets) < SHAPE_CACHE // 4:
            ndim = u64(<const uint8_t *> PyBytes_AS_STRING(shapes) + at)
            size = 8 * (1 + <int64_t> ndim)
            if ndim > MAX_DIM or at + size > before.shapes_size:
                return False
            packed = shapes[at:at + size]
            self.shape_offsets.setdefault(packed, at // 8)
            at += size
        for number, (what, codec, dtype) in enumerate(before.kinds()):
            if number:
                key = bytes((what, codec)) + dtype.encode()
                # What stands there without need must have a number, too.
                self.numbers[b"\0%d" % number if what == LEAF_UNKNOWN or key in self.numbers else key] = number
        return True
