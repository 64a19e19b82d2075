from libc.stdint cimport int64_t, uint8_t, uint64_t

from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.keys.listing cimport KeyListing

cdef enum:
    LAST_PARENTS = 4


cdef class KeySet:
    cdef uint64_t *slots
    cdef int64_t room, used, most

    cdef int64_t _slot(self, uint64_t hashed) noexcept nogil
    cdef int _reserve(self, int64_t count) except -1
    cdef int _grow(self, int64_t most) except -1
    cdef bint _add(self, uint64_t hashed) except -1
    cdef int _fill(self, int64_t slot, uint64_t hashed) except -1
    cdef bint _has(self, uint64_t hashed) noexcept nogil
    cdef int _add_groups(self, str key) except -1


cdef class KnownNames:
    cdef public KeySet folded       # without regard to case; None as long as nobody needs them
    cdef public set suffixed        # groups that are named like the file of a leaf
    cdef public set removed         # keys that were removed, as long as no key was added that is like another removed one
    cdef public bint unchecked      # whether to allow keys that differ in case only, or are named like files of others

    cdef bint take_key(self, str key) except -1


cdef class KeyAdmission:
    # `folded` has the keys that are not written as others are compared with them.
    cdef readonly KeySet leaves, folded
    cdef public KeySet groups
    cdef public bint suffixed
    cdef bint grouped
    cdef KeyTable table
    cdef dict entries
    cdef KeyListing listing
    cdef KeySet names
    # The groups of the last plain keys, which were found to exclude nothing, in a ring; a length of -1 for none.
    cdef uint8_t last_parents[LAST_PARENTS][256]
    cdef Py_ssize_t last_lengths[LAST_PARENTS]
    cdef int last                               # the one that was met last

    cpdef show(self, KeyTable table, dict entries, KeyListing listing, KeySet names=*)
    cdef bint admit_key(self, key) except -1
    cdef bint _is_like(self, uint64_t hashed, uint64_t other) except -1
    cdef Py_ssize_t _last_parent(self, const uint8_t *text, Py_ssize_t length) noexcept
    cdef int64_t published(self, str key, const uint8_t *text, Py_ssize_t length) except? -9
    cdef bint is_group(self, str key, const uint8_t *text, Py_ssize_t length, uint64_t hashed) except -1
    cdef bint is_open(self, str key, const uint8_t *text, Py_ssize_t parent, KeySet known, dict frames) except -1


cdef uint64_t path_hash(const uint8_t *text, Py_ssize_t length) noexcept nogil
cdef Py_ssize_t plain_parent(const uint8_t *text, Py_ssize_t length, Py_ssize_t known=*) noexcept nogil
cdef uint64_t folded_hash(str key) except 0
