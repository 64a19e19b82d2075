from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from blosc2._core.zip.central_record cimport Member
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.codec.codec cimport Chunk
from blosc2._core.io.source cimport Source

cdef enum:
    # Members up to this size are checked when they are opened: one read brings them in.
    SMALL_MEMBER = 4096


cdef struct ChunkChecksum:
    # Of a stored chunk, as it was read; 0 bytes for one that is not stored.
    uint32_t crc
    int32_t size


cdef bytes chunk_checksums(ChunkTable frame)
cdef void note_checksum(ChunkChecksum *own, const Chunk *chunk) noexcept nogil
cdef int check_chunk_checksums(ChunkTable frame, const ChunkChecksum *own) except -1
cdef int check_member(Source source, int64_t data, const Member *member, object key, const uint8_t *known,
                      int64_t have) except -1
