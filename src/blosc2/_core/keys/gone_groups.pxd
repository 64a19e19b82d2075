# cython: boundscheck=False, wraparound=False
"""Groups whose keys a table has and does not show: they are removed, and that is not published yet."""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

cdef enum:
    # Each of them is compared with each key that is looked up.
    MOST_GONE = 16


cdef struct GoneGroups:
    int count
    const uint8_t *texts[MOST_GONE]     # with the "/" behind them
    Py_ssize_t lengths[MOST_GONE]


cdef inline bint is_gone(const GoneGroups *gone, const uint8_t *path, Py_ssize_t length, bint group) noexcept nogil:
    """Whether a key lies in one of them; or a group, which may be one of them itself."""
    cdef int i
    for i in range(gone.count):
        if length >= gone.lengths[i] - group and memcmp(
                path, gone.texts[i], <size_t> min(length, gone.lengths[i])) == 0:
            return True
    return False
