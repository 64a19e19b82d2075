"""Numbers that lie anywhere: big-endian ones of frames and of msgpack, little-endian ones of chunks, archives and catalogs."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy


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


cdef inline uint16_t u16(const uint8_t *p) noexcept nogil:
    return <uint16_t> (p[0] | p[1] << 8)


cdef inline uint32_t u32(const uint8_t *p) noexcept nogil:
    return <uint32_t> p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24


cdef inline int32_t i32(const uint8_t *p) noexcept nogil:
    return <int32_t> u32(p)


cdef inline uint64_t u64(const uint8_t *p) noexcept nogil:
    return <uint64_t> u32(p) | <uint64_t> u32(p + 4) << 32


cdef inline uint8_t *put16(uint8_t *p, uint32_t value) noexcept nogil:
    p[0], p[1] = <uint8_t> value, <uint8_t> (value >> 8)
    return p + 2


cdef inline uint8_t *put32(uint8_t *p, uint32_t value) noexcept nogil:
    return put16(put16(p, value & 0xFFFF), value >> 16)


cdef inline uint8_t *put64(uint8_t *p, uint64_t value) noexcept nogil:
    return put32(put32(p, <uint32_t> value), <uint32_t> (value >> 32))


cdef inline uint8_t *put(uint8_t *p, const void *data, size_t size) noexcept nogil:
    memcpy(p, data, size)
    return p + size
