from libc.stdint cimport int64_t, uint8_t

from blosc2._core.keys.gone_ranges cimport GoneRanges
from blosc2._core.keys.keytable cimport KeyTable, Text


cdef struct Range:
    # Positions in the tables of published and of added keys; the former is `base`, which its listing keeps.
    void *base
    int64_t i, stop
    int64_t j, more


cdef class KeyListing:
    """The keys of a store; see listing.pyx."""

    cdef KeyTable base, added, removed
    cdef KeyTable first         # what `base` was: others may be using it when it is replaced, which happens once
    cdef bint _plain
    cdef GoneRanges ranges      # of published keys that are not shown
    cdef KeyTable ranges_of
    cdef object path

    cdef _too_deep(self, str key)
    cdef int shows(self, key, str hidden) except -2
    cdef int _prepare(self) except -1
    cdef int _without_catalog(self) except -1
    cdef Range _range(self, bytes prefix)
    cdef int64_t _live(self, bytes prefix, const Range *r)
    cdef int _next(self, Range *r, Text *key) except -1
    cdef int _skip(self, Range *r, const uint8_t *prefix, Py_ssize_t length) except -1
    cdef tuple _children(self, str path, const Range *range, bint ranges, int64_t most)
    cdef tuple _sound_children(self, str path, Range *range, bint ranges, int64_t most=*)
    cdef int _groups_below(self, KeyTable base, str path, int64_t start, int64_t stop, int level, int depth, list result) except -1
