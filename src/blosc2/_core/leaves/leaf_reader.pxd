cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.source cimport Source
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.ndim.geometry cimport Geometry
from blosc2._core.zip.archive cimport Archive


cdef class LeafTemplate:
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
    # Slots of a handle: how many there may be; and those that each handle has for itself, which come first.
    MOST_SLOTS = 16
    OWN_SLOTS = 3


cdef class LeafMaker:
    cdef type arrays, handles
    cdef object dtype_of, options, path, verify
    cdef dict more
    cdef bint fills         # whether slots of new handles are filled here
    # Where they are, and what is put there.
    cdef Py_ssize_t slots[MOST_SLOTS]
    cdef tuple values
    cdef Py_ssize_t count, array_slot, lock_slot

    cdef object handle(self, Frame frame, str key, array)
    cdef int check(self, Frame frame) except -1
    cdef object array_handle(self, Frame frame, str key)
    cdef object array_of(self, handle)


cdef class LeafReader:
    cdef readonly LeafMaker maker
    cdef KeyTable table
    cdef Archive archive
    cdef Source source
    cdef LeafTemplate template
    cdef bytes hidden
    cdef bint check
    cdef Frame values
    cdef dict entries

    cdef bint shows(self, str key) noexcept
    cdef int64_t find(self, str key) noexcept
    cdef Frame frame_of(self, str key)
    cdef Frame _value(self, str key)
    cpdef object read(self, key)
