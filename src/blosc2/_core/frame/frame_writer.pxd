cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from blosc2._core.codec.codec cimport Encoder
from blosc2._core.io.source cimport Source


cdef enum:
    MOST_AXES = 8


cdef class RawKind:
    cdef bytes before, behind
    cdef bytes description          # for a catalog
    cdef type range_class           # of the byte ranges of such frames; None until one is made
    cdef int32_t nbytes
    cdef uint32_t crc               # CRC-32 of `before`
    cdef object dtype
    cdef int ndim
    cdef int64_t shape[MOST_AXES]

    cdef bint takes(self, cnp.ndarray items) noexcept
    cdef int64_t size(self) noexcept
    cdef uint8_t *write(self, uint8_t *p, cnp.ndarray items) noexcept
    cdef bytes frame(self, cnp.ndarray items)


cdef class RawKinds:
    cdef object learn
    cdef dict now, made_from
    cdef list kinds
    cdef int turn

    cdef bint serves(self) except -1
    cdef RawKind kind_at(self, int i)
    cdef RawKind kind_of(self, cnp.ndarray items)
    cdef object items_of(self, description, Source source, int64_t offset, int64_t size)
    cdef RawKind _learn(self, cnp.ndarray items)


cdef class SmallFrameTemplate:
    cdef bytes header, tail, zeros
    cdef RawKind raw
    cdef bint raw_tried
    cdef int32_t nbytes
    cdef object encoding
    cdef Encoder idle
    cdef bint held      # whether the ring has it

    cdef RawKind raw_kind(self)
    cdef bytes raw_header(self)
    cdef bytes around(self, uint8_t *room, Py_ssize_t size)
    cdef Encoder take(self)
    cdef int give_back(self, Encoder encoder) except -1
