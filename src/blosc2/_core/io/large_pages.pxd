from libc.stdint cimport int64_t

cdef extern from "io/large_pages.h" nogil:
    const int LARGE_READ
    const int64_t FRESH_LEAST, FRESH_MOST
    bint is_fresh(void *start, int64_t length)
    void use_large_pages(void *start, size_t length)
    void bring_pages(void *start, int64_t length)
