# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Leaves of an archive against the CRC-32 that its directory states of each member.

Small members are checked when they are opened. What all of a larger one is, is known when all of its items were read: each
chunk is summed when it is brought for that, what lies between them at the end, and the checksums are joined. Frames with
checksums of their own are checked by these instead, which tell of each chunk alone.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from blosc2._core.zip.central_record cimport Member
from blosc2._core.io.checksum cimport zip_checksum, zip_joined
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.codec.codec cimport NO_MEMORY, Chunk
from blosc2._core.io.readahead cimport ask_range
from blosc2._core.io.source cimport READ_OK, Source

from blosc2.exceptions import FormatError

cdef enum:
    PIECE = 1 << 18


cdef int sum_range(Source source, int64_t offset, int64_t length, uint32_t *crc) noexcept nogil:
    """Go on with a CRC-32 over a range inside a source; a status of `source`, or NO_MEMORY."""
    cdef uint8_t *piece
    cdef int64_t size
    cdef int status = READ_OK
    if length <= 0:
        return READ_OK
    if source.base != NULL:
        ask_range(source, offset, length)
        crc[0] = zip_checksum(crc[0], source.base + offset, <size_t> length)
        return READ_OK
    piece = <uint8_t *> malloc(<size_t> min(length, <int64_t> PIECE))
    if piece == NULL:
        return NO_MEMORY
    while length and status == READ_OK:
        size = min(length, <int64_t> PIECE)
        status = source.read_into(offset, size, piece)
        if status == READ_OK:
            crc[0] = zip_checksum(crc[0], piece, <size_t> size)
        offset += size
        length -= size
    free(piece)
    return status


cdef int go_on(Source source, int64_t offset, int64_t length, uint32_t *crc) except -1:
    """The same; errors are raised."""
    cdef int status
    with nogil:
        status = sum_range(source, offset, length, crc)
    if status == NO_MEMORY:
        raise MemoryError
    source.check(status, offset, length)
    return 0


cdef object wrong(object path, object key, int64_t offset):
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
        go_on(source, data + have, member.size - have, &crc)
    if crc != member.crc:
        raise wrong(source.path, key, data)
    return 0


cdef bytes chunk_checksums(ChunkTable frame):
    """Room for the checksums of all chunks of a frame."""
    cdef bytes room
    frame.load_index()
    room = PyBytes_FromStringAndSize(NULL, max(<int64_t> 1, frame.chunk_count) * sizeof(ChunkChecksum))
    memset(PyBytes_AS_STRING(room), 0, PyBytes_GET_SIZE(room))
    return room


cdef void note_checksum(ChunkChecksum *own, const Chunk *chunk) noexcept nogil:
    """Sum a stored chunk, all of which was brought."""
    own.crc, own.size = zip_checksum(0, chunk.data, <size_t> chunk.cbytes), chunk.cbytes


cdef int check_chunk_checksums(ChunkTable frame, const ChunkChecksum *own) except -1:
    """Check a member all of whose chunks were summed."""
    cdef uint32_t crc = zip_checksum(0, frame.header, <size_t> frame.header_len)
    cdef int64_t start = frame.offset + frame.header_len, stop = frame.offset + frame.frame_len
    cdef int64_t cursor = start, at, i
    for i in range(frame.chunk_count):
        if frame.entry(i) < 0:
            continue
        at = frame.chunks_start + frame.entry(i)
        if at < cursor or own[i].size == 0 or own[i].size > stop - at:
            # Not in the order of their numbers, or one upon the other: all once more.
            crc = zip_checksum(0, frame.header, <size_t> frame.header_len)
            cursor = start
            break
        go_on(frame.source, cursor, at - cursor, &crc)
        crc = zip_joined(crc, own[i].crc, <uint64_t> own[i].size)
        cursor = at + own[i].size
    go_on(frame.source, cursor, stop - cursor, &crc)
    if crc != frame.member_checksum:
        raise wrong(frame.source.path, frame.key, frame.offset)
    return 0
