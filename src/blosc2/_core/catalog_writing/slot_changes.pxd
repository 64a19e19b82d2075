from libc.stdint cimport int64_t, uint8_t, uint64_t

from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.zip.file_appender cimport Collected


cdef struct Shift:
    # Records of the old directory from one offset up to another, and how much further their place in the new one is.
    int64_t start, stop, by


cdef struct SlotChange:
    uint64_t hashed         # of a path
    int64_t before, now     # where its slot leads to in the old directory, and in the new one; -1 where there is none


cdef class SlotChanges:
    """The hash of a catalog, brought to the next version; see slot_changes.pyx."""

    cdef KeyTable table
    cdef uint8_t *slots
    cdef Collected changes      # of `SlotChange`
    cdef int64_t added          # paths more than before

    cdef int note(self, uint64_t hashed, int64_t before, int64_t now) except -1
    cdef bint apply(self, const Shift *shifts, int64_t count) except -1
    cdef int64_t find(self, uint64_t hashed, int64_t offset) noexcept nogil
    cdef bint remove(self, uint64_t hashed, int64_t offset) noexcept nogil
    cdef int64_t home_of(self, int64_t slot) noexcept nogil
    cdef bint translate(self, const Shift *shifts, int64_t count, const int64_t *first, int bits) noexcept nogil
    cdef bint insert(self, uint64_t hashed, int64_t offset) noexcept nogil
