# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Leaves of an archive, read as a whole, against the CRC-32 that its directory states of each member.

Each chunk is summed when it is brought, what lies between them at the end, and the checksums are joined. Frames with
checksums of their own are checked by these instead, which tell of each chunk alone; small members are checked when they are
opened (`zip.member_checksum`).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from blosc2._core.codec.codec cimport Chunk
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.io.checksum cimport zip_checksum, zip_joined
from blosc2._core.zip.member_checksum cimport sum_range, wrong_checksum


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
        sum_range(frame.source, cursor, at - cursor, &crc)
        crc = zip_joined(crc, own[i].crc, <uint64_t> own[i].size)
        cursor = at + own[i].size
    sum_range(frame.source, cursor, stop - cursor, &crc)
    if crc != frame.member_checksum:
        raise wrong_checksum(frame.source.path, frame.key, frame.offset)
    return 0
