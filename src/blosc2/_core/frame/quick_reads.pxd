# cython: cdivision=True, boundscheck=False, wraparound=False
"""What takes less time than other threads need to take the GIL and to give it back: it is done without releasing it."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from blosc2._core.codec import codec
from blosc2._core.codec.chunk cimport CHUNK_HEADER, Chunk
from blosc2._core.codec.codec cimport DecodeContext, borrow, decode_whole, give_back
from blosc2._core.codec.thread_pool cimport is_quick
from blosc2._core.frame.chunk_table cimport ChunkTable


cdef inline bint stays_with_gil(ChunkTable frame) noexcept nogil:
    """Whether a frame is read so quickly. To open it was to read it, or to touch its page."""
    return is_quick(frame.frame_len, frame.nbytes) and (frame.whole or frame.source.base != NULL)


cdef inline int read_table(
        ChunkTable frame, int64_t at, Chunk *chunk, const uint8_t *header, uint8_t *raw, int64_t *table, int64_t count) except -1:
    """The entries of the offsets table at `at`, whose header was read and checked; `raw` gets its stored bytes."""
    cdef DecodeContext *context
    cdef bint quick = is_quick(chunk.cbytes, 8 * count)     # its header was just read: the rest is there
    cdef int status
    if quick:
        status = frame.fetch(frame.offset + at, chunk.cbytes, raw)
    else:
        with nogil:
            status = frame.fetch(frame.offset + at, chunk.cbytes, raw)
    frame.source.check(status, frame.offset + at, chunk.cbytes)
    # What was checked is what is decoded, whatever the file shows by now.
    memcpy(raw, header, CHUNK_HEADER)
    chunk.data = raw
    chunk.loaded = chunk.cbytes
    context = borrow(chunk.blocksize)
    if quick:
        status = decode_whole(context, chunk, <uint8_t *> table)
    else:
        with nogil:
            status = decode_whole(context, chunk, <uint8_t *> table)
    give_back(context)
    if status:
        frame.bad(at, f"the offsets table: {codec.reason(status)}")
    return 0
