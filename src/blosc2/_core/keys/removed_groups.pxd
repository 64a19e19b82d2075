# cython: boundscheck=False, wraparound=False
"""Groups of a table that are removed, and that is not published yet."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

cdef enum:
    # Each of them is compared with each key that is looked up.
    MOST_REMOVED = 16


cdef struct RemovedGroups:
    int count
    const uint8_t *texts[MOST_REMOVED]     # with the "/" behind them
    Py_ssize_t lengths[MOST_REMOVED]


cdef inline int fill_removed(RemovedGroups *removed, list prefixes) except -1:
    """Take over the prefixes of groups; whoever gives them keeps them."""
    cdef bytes prefix
    if len(prefixes) > MOST_REMOVED:
        raise ValueError(f"at most {MOST_REMOVED} groups, not {len(prefixes)}")
    removed.count = 0
    for prefix in prefixes:
        removed.texts[removed.count] = <const uint8_t *> PyBytes_AS_STRING(prefix)
        removed.lengths[removed.count] = PyBytes_GET_SIZE(prefix)
        removed.count += 1
    return 0


cdef inline bint is_removed(const RemovedGroups *removed, const uint8_t *path, Py_ssize_t length, bint group) noexcept nogil:
    """Whether a key of the table lies in one of them; or a group, which may be one of them itself."""
    cdef int i
    for i in range(removed.count):
        if length >= removed.lengths[i] - group and memcmp(
                path, removed.texts[i], <size_t> min(length, removed.lengths[i])) == 0:
            return True
    return False
