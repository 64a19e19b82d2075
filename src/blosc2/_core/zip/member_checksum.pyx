# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Members of an archive against the CRC-32 that its directory states of each."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from blosc2._core.zip.central_record cimport Member
from blosc2._core.io.checksum cimport zip_checksum
from blosc2._core.io.readahead cimport ask_range
from blosc2._core.io.source cimport READ_OK, Source

from blosc2.exceptions import FormatError

cdef enum:
    PIECE = 1 << 18


cdef int sum_range(Source source, int64_t offset, int64_t length, uint32_t *crc) except -1:
    """Go on with a CRC-32 over a range inside a source."""
    cdef uint8_t *piece
    cdef int64_t size, end = offset + length
    cdef int status = READ_OK
    if length <= 0:
        return 0
    if source.base != NULL:
        with nogil:
            ask_range(source, offset, length)
            crc[0] = zip_checksum(crc[0], source.base + offset, <size_t> length)
        return 0
    piece = <uint8_t *> malloc(<size_t> min(length, <int64_t> PIECE))
    if piece == NULL:
        raise MemoryError
    with nogil:
        while offset < end and status == READ_OK:
            size = min(end - offset, <int64_t> PIECE)
            status = source.read_into(offset, size, piece)
            if status == READ_OK:
                crc[0] = zip_checksum(crc[0], piece, <size_t> size)
            offset += size
    free(piece)
    source.check(status, end - length, length)
    return 0


cdef object wrong_checksum(object path, object key, int64_t offset):
    return FormatError(
        "the bytes of the member are not those that were written, as the checksum in the directory of the archive says; "
        "check() tells more, and salvage() takes out what is whole", path=path, key=key, offset=offset)


cdef int check_member(Source source, int64_t data, const Member *member, object key, const uint8_t *known,
                      int64_t have) except -1:
    """Check all bytes of a member, of which the first are known."""
    cdef uint32_t crc
    have = max(<int64_t> 0, min(have, member.size))
    crc = zip_checksum(0, known, <size_t> have) if have else 0
    if have < member.size:
        sum_range(source, data + have, member.size - have, &crc)
    if crc != member.crc:
        raise wrong_checksum(source.path, key, data)
    return 0
