# cython: boundscheck=False, wraparound=False

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.ascii_text cimport ascii_text
from blosc2._core.keys.key_text cimport prefix_of
from blosc2._core.keys.keytable cimport DAMAGED, MOST_REMOVED, NO_KEY, KeyTable, Text

# Where the keys of groups that are gone lie in the order of a table.


cdef struct GoneRanges:
    int count
    int64_t total
    # Positions, in their order; none of them overlap.
    int64_t first[MOST_REMOVED]
    int64_t stop[MOST_REMOVED]


cdef inline bint find_ranges(KeyTable table, tuple groups, GoneRanges *ranges) except -1:
    """Find them in a table that is in order; False where its catalog is damaged."""
    cdef bytes prefix
    cdef int64_t first, stop
    cdef Py_ssize_t length
    cdef list found = []
    ranges.count, ranges.total = 0, 0
    for group in groups:
        prefix = prefix_of(group)
        length = PyBytes_GET_SIZE(prefix)
        first, stop = 0, table.count
        if length:
            first = table.bound(<const uint8_t *> PyBytes_AS_STRING(prefix), length, False)
            stop = table.bound(<const uint8_t *> PyBytes_AS_STRING(prefix), length, True)
        if first == DAMAGED or stop == DAMAGED:
            return False
        if first < stop:
            found.append((first, -stop))
    found.sort()
    for first, stop in found:
        stop = -stop
        # Of a group inside of another one nothing is left to say.
        if ranges.count == 0 or first >= ranges.stop[ranges.count - 1]:
            ranges.first[ranges.count], ranges.stop[ranges.count] = first, stop
            ranges.count += 1
            ranges.total += stop - first
    return True


cdef inline int64_t after_gone(const GoneRanges *ranges, int64_t position) noexcept nogil:
    """The first position from one on that is not gone."""
    cdef int i
    for i in range(ranges.count):
        if ranges.first[i] <= position < ranges.stop[i]:
            position = ranges.stop[i]
    return position


cdef inline int64_t gone_within(const GoneRanges *ranges, int64_t first, int64_t stop) noexcept nogil:
    """How many of some positions are gone."""
    cdef int64_t count = 0
    cdef int i
    for i in range(ranges.count):
        count += max(<int64_t> 0, min(stop, ranges.stop[i]) - max(first, ranges.first[i]))
    return count


cdef struct Range:
    # Positions in the tables of published and of added keys; the former is `base`, which its listing keeps.
    void *base
    int64_t i, stop
    int64_t j, more


cdef class KeyListing:
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
    cdef tuple _children(self, str path, const Range *range, bint ranges, list leaves, int64_t most)
    cdef tuple _sound_children(self, str path, Range *range, bint ranges, int64_t most=*)


# Whether a key is one that a store shows: what ``key in store`` asks.


cdef inline bint is_named(str key, str name):
    """Whether the last segment of a key is a name, if there is one."""
    if name is None or len(key) <= len(name) or key[len(key) - 1] != name[len(name) - 1]:
        return False
    return key.endswith("/" + name)


cdef inline int shows_key(KeyListing listing, key, str hidden) except -2:
    """Whether a key is that of a leaf; or of a group, and not hidden, where there are groups.

    -1 for what has to be looked at more closely: no string, or not in the form that keys have.
    """
    cdef Py_ssize_t length
    cdef const char *text
    cdef int64_t offset
    if type(key) is not str:
        return -1
    text = <const char *> ascii_text(<PyObject *> key, &length)
    if text == NULL:
        try:
            text = PyUnicode_AsUTF8AndSize(key, &length)
        except UnicodeEncodeError:
            return False
    if length < 2 or text[0] != b"/" or text[length - 1] == b"/":
        return -1
    if listing._plain and hidden is not None and listing.base.catalog is not None and not is_named(key, hidden):
        # Groups lie in the same hash.
        offset = listing.base.lookup_either(<const uint8_t *> text + 1, length - 1)
        if offset != DAMAGED:
            return offset >= 0
    offset = listing.base.lookup(<const uint8_t *> text + 1, length - 1)
    if offset == NO_KEY and listing._plain:
        if hidden is None:
            return False
        if listing.base.catalog is not None:
            offset = listing.base.lookup_group(<const uint8_t *> text + 1, length - 1)
            if offset != DAMAGED:
                return offset >= 0
    if offset == DAMAGED:
        listing._without_catalog()
        return listing.shows(key, hidden)
    if (offset >= 0 and listing._plain) or key in listing:
        return not is_named(key, hidden)
    return hidden is not None and listing.count(key) > 0
