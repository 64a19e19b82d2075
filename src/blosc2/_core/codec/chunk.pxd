# cython: cdivision=True
"""What a chunk is, once its header was checked; and what can be wrong with it."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "codec/chunk_errors.h" nogil:
    enum:
        CHUNK_OK
        BAD_ROOM
        BAD_OLD_HEADER
        BAD_VERSION
        BAD_CBYTES
        BAD_NBYTES
        BAD_FLAGS
        BAD_SPECIAL
        BAD_RAW
        BAD_BLOCKSIZE
        BAD_CODEC
        BAD_RATE
        BAD_FILTER
        BAD_STARTS
        BAD_STREAM
        BAD_LENGTH
        BAD_TYPESIZE
        NEEDS_GEOMETRY
        NO_MEMORY
        BAD_DECODED
        BAD_SPECIAL_HERE
        BAD_SUM
    const char *chunk_error_text(int code)

cdef enum ChunkKind:
    KIND_ZERO = 1
    KIND_NAN = 2
    KIND_VALUE = 3
    KIND_UNINIT = 4
    KIND_RAW = 5
    KIND_REGULAR = 6

cdef enum:
    CHUNK_HEADER = 32
    MAX_BUFFER = 2147483615
    MAX_BLOCK = 536866816


cdef enum:
    # Finding a block costs the library a step for each block of its chunk: above so many steps, all are decoded at once.
    MOST_STEPS = 1 << 22


cdef struct Chunk:
    const uint8_t *data     # the header; the payload follows, as far as it is loaded
    ChunkKind kind
    int32_t nbytes
    int32_t blocksize
    int32_t cbytes
    int32_t nblocks
    int32_t typesize        # as the chunk says; of an offset without a chunk, of the frame
    bint split              # each full block is a stream for each byte of an item
    bint variable           # VL blocks
    bint whole              # blocks do not stand alone: delta, dictionary, VL blocks
    bint needs_geometry     # codec or filter that needs the C library's super-chunk
    bint dictionary
    bint plain              # blocks that `own_decoder.h` can decode
    int codec               # its id
    int filter              # of a plain chunk: 0 or shuffle
    int64_t loaded          # bytes of `data` that are there; below cbytes while blocks are read singly


cdef inline int32_t block_bytes(const Chunk *chunk, int32_t block) noexcept nogil:
    """The uncompressed size of a block: the last one may be shorter."""
    cdef int64_t rest = chunk.nbytes - <int64_t> block * chunk.blocksize
    return chunk.blocksize if rest > chunk.blocksize else <int32_t> rest
