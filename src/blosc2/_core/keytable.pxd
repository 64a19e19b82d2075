from libc.stdint cimport int64_t, uint8_t, uint32_t

from blosc2._core.archive cimport Archive


cdef struct Key:
    const uint8_t *bytes    # UTF-8, without the "/" in front
    uint32_t length
    uint32_t hash
    int64_t value
    int64_t rank            # of two keys that are equal, the lower rank wins


cdef class KeyTable:
    """Keys of a store with a hash and, once asked for, in order; see keytable.pyx."""

    cdef Key *keys
    cdef Py_ssize_t count
    cdef uint32_t *slots
    cdef uint32_t mask
    cdef Key **order
    cdef list _held
    cdef readonly list strangers
    cdef readonly list clashes
    cdef readonly dict shadowed

    cdef int _reserve(self, Py_ssize_t most) except -1
    cdef Key *_lookup(self, const uint8_t *key, Py_ssize_t length, uint32_t hashed) noexcept nogil
    cdef Key *_insert(self, const uint8_t *key, Py_ssize_t length, int64_t value, int64_t rank) except NULL
    cdef int _add_text(self, str key, int64_t value) except -1
    cdef int _add_member(self, Archive archive, Py_ssize_t number, tuple suffixes) except -1
    cdef int _sort(self) except -1
    cdef Py_ssize_t _bound(self, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil
    cdef Py_ssize_t _run_end(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t length) noexcept nogil
    cdef bint _shares(self, Py_ssize_t position, const uint8_t *prefix, Py_ssize_t length) noexcept nogil
