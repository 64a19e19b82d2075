cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.frame.frame cimport Frame
from blosc2._core.ndim.geometry cimport Geometry


cdef class LeafTemplate:
    """A leaf that others are compared with; see leaf_template.pyx."""

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
