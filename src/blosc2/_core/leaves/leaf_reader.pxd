cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.source cimport Source
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.ndim.geometry cimport Geometry
from blosc2._core.zip.archive cimport Archive


cdef class LeafTemplate:
    """A leaf that others are compared with; see leaf_reader.pyx."""

    cdef readonly bint fits
    cdef Frame frame
    cdef Geometry geometry
    cdef cnp.dtype dtype
    cdef const uint8_t *header
    cdef int64_t header_len, index_len
    cdef int64_t row                # bytes of the items
    cdef const uint8_t *index
    cdef bytes index_bytes

    cdef bint match(self, const uint8_t *name, int64_t length, int64_t size, const uint8_t *p, int64_t room, int64_t *chunk,
                    int64_t *chunk_size) noexcept nogil
    cdef bint decode(self, DecodeContext *context, const uint8_t *p, int64_t size, uint8_t *to) noexcept nogil


cdef enum:
    HANDLE_SLOTS = 8


cdef class LeafReader:
    """Reads leaves of an archive one after the other; see leaf_reader.pyx."""

    cdef KeyTable table
    cdef Archive archive
    cdef Source source
    cdef LeafTemplate template
    cdef bytes hidden
    cdef type arrays, handles
    cdef object dtype_of, options, path
    cdef bint check
    cdef object verify
    cdef bint fills         # whether slots of new handles and arrays are filled here
    cdef Py_ssize_t slots[HANDLE_SLOTS + 1]     # where they are; the last one is that of an array

    cdef int64_t find(self, str key) noexcept
    cdef object open(self, str key)
    cpdef object read(self, key)
