from libc.stdint cimport int64_t, uint64_t, uint8_t

cdef extern from "io/memory.h" nogil:
    uint64_t read_once(const uint8_t *p)        # little-endian
    uint64_t read_once_big(const uint8_t *p)    # big-endian
    void prefetch(const uint8_t *start, int64_t length)
    const int64_t FRESH_LEAST, FRESH_MOST
    bint is_fresh(void *start, int64_t length)
    void use_large_pages(void *start, size_t length)
    void bring_pages(void *start, int64_t length)
