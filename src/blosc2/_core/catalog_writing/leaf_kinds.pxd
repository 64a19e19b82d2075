from libc.stdint cimport int64_t, uint32_t

from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.zip.catalog cimport Catalog
from blosc2._core.zip.description cimport Description


cdef class LeafKinds:
    """The kinds and shapes of leaves, each kept once; see leaf_kinds.pyx."""

    cdef dict numbers           # bytes of what, codec and dtype -> number
    cdef Collected table, shapes
    cdef int64_t most           # kinds there can be, the unknown one and attributes included
    cdef dict shape_offsets
    cdef Description last       # the description before
    cdef int last_kind
    cdef uint32_t last_shape
    cdef bytes last_dtype

    cdef int kind(self, const Description *description) except -1
    cdef uint32_t shape(self, const Description *description) except? 0xFFFFFFFF
    cdef int fill_up(self) except -1
    cdef bint go_on_from(self, Catalog before) except -1


cdef int append_bytes(Collected to, bytes data) except -1
