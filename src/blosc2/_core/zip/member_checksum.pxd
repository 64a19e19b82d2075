from libc.stdint cimport int64_t, uint8_t, uint32_t

from blosc2._core.zip.central_record cimport Member
from blosc2._core.io.source cimport Source

cdef enum:
    # Members up to this size are checked when they are opened: one read brings them in.
    SMALL_MEMBER = 4096


cdef int sum_range(Source source, int64_t offset, int64_t length, uint32_t *crc) except -1
cdef object wrong_checksum(object path, object key, int64_t offset)
cdef int check_member(Source source, int64_t data, const Member *member, object key, const uint8_t *known,
                      int64_t have) except -1
