# cython: boundscheck=False, wraparound=False
"""What records of new members have in common: `archive_writer` writes them, `central_record` reads those of any archive."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from blosc2._core.io.little_endian cimport put16, put32, u16
from blosc2._core.zip.central_record cimport CENTRAL_LENGTH, FLAG_UTF8
from blosc2._core.zip.end_record cimport four_bytes, is_wide


cdef inline uint32_t wide_length(int64_t size, int64_t header) noexcept nogil:
    """Bytes of the zip64 field of a record."""
    return 4 + 16 * is_wide(size) + 8 * is_wide(header) if is_wide(size) or is_wide(header) else 0


cdef inline int64_t written_length(const uint8_t *record) noexcept nogil:
    """Bytes of a record that was written here, without a comment."""
    return CENTRAL_LENGTH + u16(record + 28) + u16(record + 30)


cdef inline uint8_t *put_fields(uint8_t *p, const uint8_t *text, uint32_t length, int64_t header, int64_t size, uint32_t stamp,
                                uint32_t crc) noexcept nogil:
    """What local header and central record have in common: from the version needed to the sizes."""
    cdef uint32_t size32 = four_bytes(size)
    cdef uint8_t seen = 0
    cdef uint32_t i
    for i in range(length):
        seen |= text[i]
    p = put16(put16(put16(p, 45 if is_wide(size) or is_wide(header) else 20), FLAG_UTF8 if seen & 0x80 else 0), 0)
    return put32(put32(put32(put32(p, stamp), crc), size32), size32)
