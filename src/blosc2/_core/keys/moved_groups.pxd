# cython: boundscheck=False, wraparound=False
"""Groups that have another name than in the table, or are removed, and that is not published yet."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy

cdef enum:
    # Each of them is compared with each key that is looked up.
    MOST_MOVED = 16
    # Bytes of the longest name that a key below such a group may have, and of that in the table.
    MOST_PATH = 8192
    GONE = -1


cdef struct MovedGroups:
    int count
    const uint8_t *texts[MOST_MOVED]     # with the "/" behind them
    Py_ssize_t lengths[MOST_MOVED]
    # The names that they have now; of length 0 for those that are removed.
    const uint8_t *names[MOST_MOVED]
    Py_ssize_t name_lengths[MOST_MOVED]


cdef inline int fill_moved(MovedGroups *moved, list prefixes) except -1:
    """Take over the prefixes of groups and names in turn; whoever gives them keeps them."""
    cdef bytes prefix
    cdef int i
    if len(prefixes) > 2 * MOST_MOVED:
        raise ValueError(f"at most {MOST_MOVED} groups, not {len(prefixes) // 2}")
    moved.count = 0
    for i in range(<int> len(prefixes) // 2):
        prefix = prefixes[2 * i]
        moved.texts[i], moved.lengths[i] = <const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix)
        prefix = prefixes[2 * i + 1]
        moved.names[i], moved.name_lengths[i] = <const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix)
        moved.count += 1
    return 0


cdef inline bint is_gone(const MovedGroups *moved, const uint8_t *path, Py_ssize_t length, bint group) noexcept nogil:
    """Whether a key of the table lies in one of them; or a group, which may be one of them itself."""
    cdef int i
    for i in range(moved.count):
        if length >= moved.lengths[i] - group and memcmp(
                path, moved.texts[i], <size_t> min(length, moved.lengths[i])) == 0:
            return True
    return False


cdef inline Py_ssize_t own_path(
        const MovedGroups *moved, const uint8_t *path, Py_ssize_t length, bint group, uint8_t *own) noexcept nogil:
    """The path that the table has instead of one below a group that has another name now.

    Its length; 0 where it is the same, `GONE` where it is not shown.
    """
    cdef int i
    cdef Py_ssize_t size
    for i in range(moved.count):
        size = moved.name_lengths[i]
        if size and length >= size - group and memcmp(path, moved.names[i], <size_t> min(length, size)) == 0:
            if moved.lengths[i] + length - size > MOST_PATH:
                return GONE
            memcpy(own, moved.texts[i], <size_t> moved.lengths[i])
            if length > size:
                memcpy(own + moved.lengths[i], path + size, <size_t> (length - size))
            return moved.lengths[i] + length - size
    return GONE if is_gone(moved, path, length, group) else 0
