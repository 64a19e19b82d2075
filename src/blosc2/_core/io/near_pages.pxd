from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.source cimport READ_OK, Source, near_pages, near_taken

cdef extern from "io/near_pages.h" nogil:
    bint near_read(near_pages *near, int fd, int64_t offset, int64_t length, int64_t limit, uint8_t *into, int64_t *taken)
    bint near_distrust(near_pages *near)


cdef inline int read_small(Source source, int64_t offset, int64_t length, int64_t limit, uint8_t *into) noexcept nogil:
    """What `read_into` does, from pages that were copied where reads come back to them; `limit` is where what may change begins."""
    if source.fd >= 0 and near_read(&source.near, source.fd, offset, length, min(limit, source.size), into, &near_taken):
        return READ_OK
    return source.read_into(offset, length, into)
