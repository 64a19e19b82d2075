from libc.stdint cimport int32_t, uint32_t

from blosc2._core.codec.codec cimport Chunk
from blosc2._core.frame.chunk_table cimport ChunkTable


cdef struct ChunkChecksum:
    # Of a stored chunk, as it was read; 0 bytes for one that is not stored.
    uint32_t crc
    int32_t size


cdef bytes chunk_checksums(ChunkTable frame)
cdef void note_checksum(ChunkChecksum *own, const Chunk *chunk) noexcept nogil
cdef int check_chunk_checksums(ChunkTable frame, const ChunkChecksum *own) except -1
