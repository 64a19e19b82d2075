from libc.stdint cimport int64_t

cdef extern from "io/large_pages.h" nogil:
    const int LARGE_READ
    void use_large_pages(void *start, size_t length)
    void bring_pages(void *start, int64_t length)
