from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    # Paths that wait for their slots.
    WAITING = 16


cdef class PathSlots:
    """Puts paths into the slots of a hash; see path_slots.pyx."""

    cdef int64_t homes
    cdef uint64_t seed0, seed1
    cdef uint64_t waiting_hashes[WAITING]
    cdef int64_t waiting_offsets[WAITING]       # plus one; 0 where none waits
    cdef int64_t waiting

    cdef int put(self, uint8_t *slots, int64_t first, int64_t last, int64_t stop, int64_t offset, const uint8_t *key,
                 Py_ssize_t length, Py_ssize_t common) except -1
    cdef int put_waiting(self, uint8_t *slots, int64_t first, int64_t stop, int at) except -1
    cdef int put_all(self, uint8_t *slots, int64_t first, int64_t stop) except -1
    cdef int put_slot(self, uint8_t *slots, int64_t first, int64_t stop, int64_t offset, uint64_t hashed) except -1
