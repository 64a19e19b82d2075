# cython: boundscheck=False, wraparound=False
"""Whether a member is a frame, by its first bytes."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.central_record cimport Member

from blosc2.exceptions import FormatError


cdef inline bint begins_like_frame(Archive archive, Member *member) except? 0:
    """Whether a member's data starts with the magic of a frame; a member that cannot be located does not."""
    cdef int64_t data
    cdef uint8_t start[10]
    try:
        data = archive.locate(member)
    except FormatError:
        return False
    if member.size < 10:
        return False
    archive.source.check(archive.source.read_into(data, 10, start), data, 10)
    return memcmp(start, <const char *> b"\x9e\xa8b2frame\x00", 10) == 0
