from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from blosc2._core.codec.chunk cimport Chunk
from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.io.source cimport Source
from blosc2._core.zip.archive cimport Archive


cdef struct ChunkChecksum:
    # Of a stored chunk, as it was read; 0 bytes for one that is not stored.
    uint32_t crc
    int32_t size


cdef bytes chunk_checksums(ChunkTable frame)
cdef void note_checksum(ChunkChecksum *own, const Chunk *chunk) noexcept nogil
cdef int check_chunk_checksums(ChunkTable frame, const ChunkChecksum *own) except -1


cdef class Frame(ChunkTable):
    """One version of one frame; see frame.pyx."""

    cdef int check_index(self, int64_t index) except -1
    cdef int decode_checked(self, int64_t index, DecodeContext *context, uint8_t *destination, int64_t size) except -1
    cdef int64_t chunk_at(self, int64_t position) noexcept nogil
    cdef int read_chunks(self, DecodeContext *context, int64_t start, int64_t stop, uint8_t *to, ChunkChecksum *own,
                         int64_t *index) noexcept nogil
    cdef int read_range(self, int64_t start, int64_t stop, uint8_t *destination) except -1
    cdef int read_from_chunk(
        self, int64_t index, DecodeContext *context, int64_t start, int64_t stop, uint8_t *destination,
        ChunkChecksum *own) noexcept nogil


cdef Frame frame_of_member(void *archive, Source source, int64_t offset, object key, bint check)
