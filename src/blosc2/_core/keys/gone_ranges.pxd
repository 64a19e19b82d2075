# cython: boundscheck=False, wraparound=False
"""Where the keys of groups that are gone lie in the order of a table."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.keys.removed_groups cimport MOST_REMOVED
from blosc2._core.keys.key_text cimport prefix_of
from blosc2._core.keys.keytable cimport DAMAGED, KeyTable


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
