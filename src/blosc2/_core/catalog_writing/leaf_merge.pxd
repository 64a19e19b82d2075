# cython: boundscheck=False, wraparound=False
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.keys.gone_ranges cimport GoneRanges
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.zip.sort_items cimport SortedItem
from blosc2._core.zip.external_sort cimport SortedRuns


cdef struct Merged:
    const uint8_t *key
    Py_ssize_t length
    const uint8_t *record
    int64_t record_length
    int64_t position        # among the old leaves, -1 for a new one
    const uint8_t *description    # of a new leaf
    int64_t description_length


cdef class RecordSample:
    """The first and the last bytes of records; see leaf_merge.pyx."""

    cdef Collected head, tail

    cdef int take(self, const uint8_t *record, int64_t length) except -1
    cdef uint32_t digest(self, int64_t size) noexcept


cdef class LeafMerge:
    """The leaves of a new directory in the order of their keys; see leaf_merge.pyx."""

    cdef KeyTable old       # None where there are none
    cdef GoneRanges gone
    cdef SortedRuns runs
    cdef int64_t position
    cdef SortedItem item
    cdef int has_item       # -1 while the item is given out

    cdef int begin(self) except -1
    cdef bint next(self, Merged *leaf) except -1
    cdef int go_on(self) except -1


cdef inline Py_ssize_t shared(Collected before, const uint8_t *key, Py_ssize_t length) noexcept:
    """How many bytes a key has in common with the one before."""
    cdef Py_ssize_t i = 0, most = min(length, <Py_ssize_t> before.used)
    cdef uint64_t x, y
    while i + 8 <= most:
        memcpy(&x, key + i, 8)
        memcpy(&y, before.data + i, 8)
        if x != y:
            break
        i += 8
    while i < most and key[i] == before.data[i]:
        i += 1
    return i


cdef inline int remember(Collected before, const uint8_t *key, Py_ssize_t length) except -1:
    before.used = 0
    memcpy(before.more(max(length, 1)), key, <size_t> length)
    before.used = length
    return 0
