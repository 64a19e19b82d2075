"""Numbers of frames and of msgpack, which are big-endian and lie anywhere."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef inline uint64_t from_big(const uint8_t *p, int size) noexcept nogil:
    """A number of up to 8 bytes."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | p[i]
    return value


cdef inline int big16(const uint8_t *p) noexcept nogil:
    return p[0] << 8 | p[1]


cdef inline int32_t big32(const uint8_t *p) noexcept nogil:
    return <int32_t> (<uint32_t> p[0] << 24 | <uint32_t> p[1] << 16 | <uint32_t> p[2] << 8 | p[3])


cdef inline int64_t big64(const uint8_t *p) noexcept nogil:
    return <int64_t> (<uint64_t> <uint32_t> big32(p) << 32 | <uint32_t> big32(p + 4))


cdef inline void put_big(uint8_t *p, uint64_t value, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        p[i] = <uint8_t> (value >> 8 * (size - 1 - i))
