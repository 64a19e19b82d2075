from libc.stdint cimport int64_t, uint8_t

cdef struct Run:
    # Of a source that is joined of others: where it begins there, and where its bytes lie.
    int64_t start
    int64_t offset
    const uint8_t *base
    int fd
    void *remote        # the source itself, if that is on a server; `_joined` keeps it


cdef inline int64_t run_at(const Run *runs, int64_t count, int64_t offset) noexcept nogil:
    """The run that holds a byte of joined ones."""
    cdef int64_t low = 0, high = count, middle
    while high - low > 1:
        middle = (low + high) // 2
        if runs[middle].start <= offset:
            low = middle
        else:
            high = middle
    return low
