from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from blosc2._core.io.source cimport Source


cdef uint32_t checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil
cdef int read_and_sum(Source source, int64_t offset, int64_t length, uint8_t *to, uint32_t *crc) noexcept nogil
cdef int sum_range(Source source, int64_t offset, int64_t length, bint zip, uint32_t *crc) except -1
cdef uint32_t joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil
cdef uint32_t go_on(uint32_t before, uint32_t own, const uint8_t *data, size_t size) noexcept nogil
cdef uint32_t zip_checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil
cdef uint32_t zip_joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil
cdef bint copy_and_checksum(uint32_t *crc, uint8_t *to, const int64_t *strides, const int64_t *count, int axes,
                       const uint8_t *source, int64_t itemsize) noexcept nogil
