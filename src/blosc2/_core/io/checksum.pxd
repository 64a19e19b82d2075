from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef uint32_t checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil
cdef uint32_t joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil
cdef uint32_t go_on(uint32_t before, uint32_t own, const uint8_t *data, size_t size) noexcept nogil
cdef uint32_t zip_checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil
cdef uint32_t zip_joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil
