from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from blosc2._core.codec.chunk cimport Chunk
from blosc2._core.codec.codec cimport DecodeContext, Plugin
from blosc2._core.codec.thread_pool cimport is_quick
from blosc2._core.frame.header_parser cimport Header


cdef enum:
    FIRST_READ = 4096       # of a chunk read by position: its header, and all of a small one


cdef class ChunkTable(Header):
    """Where the chunks of a frame lie; see chunk_table.pyx."""

    # One value for all chunks, or one each.
    cdef int64_t chunk_count
    cdef int64_t repeated
    cdef int64_t *offsets
    cdef int64_t *starts                # uncompressed starts of variable chunks, chunk_count + 1
    cdef readonly Plugin plugin         # set once at most, before others know the frame
    cdef uint32_t *checksums        # of each chunk, compared before it is decoded; NULL: not asked for, or none

    cdef long heads_wanted              # whether the first bytes of all chunks were asked for, which say where blocks lie
    cdef uint8_t *seen                  # for each chunk, whether it was checked for what lies in it; NULL until one was

    cdef int count_chunks(self) except -1
    cdef int _need_seen(self) except -1
    cdef int64_t entry(self, int64_t index) noexcept nogil
    cdef int load_index(self) except -1
    cdef uint32_t *trailer_checksums(self, const int64_t *table, int64_t count, uint32_t index_checksum) except? NULL
    cdef int _take_repeated(self, const Chunk *chunk, const uint8_t *header, int64_t at, int64_t have, int64_t count) except -1
    cdef void take_checksums(self, uint32_t *checksums) noexcept
    cdef int take_sums(self, const uint8_t *checksums, int64_t count) except -1
    cdef int check_entry(self, int64_t value, int64_t at) except -1
    cdef int load_starts(self) except -1
    cdef int64_t chunk_nbytes(self, int64_t index) noexcept nogil
    cdef int find_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int open_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int load_span(self, int64_t index, Chunk *chunk, int64_t start, int64_t stop) noexcept nogil
    cdef int load_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int load_and_check(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil
    cdef int load_block(self, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block) noexcept nogil
    cdef int decode_chunk_into(self, int64_t index, DecodeContext *context, uint8_t *destination, int64_t size) noexcept nogil
    cdef int fail(self, int status, int64_t index) except -1


cdef inline bint stays_with_gil(ChunkTable frame) noexcept nogil:
    """Whether a frame is read in less time than other threads need to take the GIL and to give it back: then it is not released.

    To open it was to read it, or to touch its page.
    """
    return is_quick(frame.frame_len, frame.nbytes) and (frame.whole or frame.source.base != NULL)
