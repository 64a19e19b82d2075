from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

# What a chunk may fail on. The codes of the C library lie between these and 0; `reason` has the texts.
cdef enum:
    CHUNK_OK = 0
    BAD_ROOM = -101
    BAD_OLD_HEADER = -102
    BAD_VERSION = -103
    BAD_CBYTES = -104
    BAD_NBYTES = -105
    BAD_FLAGS = -106
    BAD_SPECIAL = -107
    BAD_RAW = -108
    BAD_BLOCKSIZE = -109
    BAD_CODEC = -110
    BAD_RATE = -121
    BAD_FILTER = -111
    BAD_STARTS = -112
    BAD_STREAM = -113
    BAD_LENGTH = -114
    BAD_TYPESIZE = -115
    NEEDS_GEOMETRY = -116
    NO_MEMORY = -117
    BAD_DECODED = -118
    BAD_SPECIAL_HERE = -119
    BAD_SUM = -120

cdef enum ChunkKind:
    KIND_ZERO = 1
    KIND_NAN = 2
    KIND_VALUE = 3
    KIND_UNINIT = 4
    KIND_RAW = 5
    KIND_REGULAR = 6

cdef enum:
    CHUNK_HEADER = 32
    ALONE = 36          # before the dictionary and the one block of a chunk
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
    int64_t loaded          # bytes of `data` that are there; below cbytes while blocks are read singly


cdef enum:
    KEPT_BLOCKS = 8


cdef struct KeptBlock:      # a decoded block of which a read took only a part
    uint8_t *data
    int64_t size
    uint64_t frame          # serial number of its frame; 0 for none
    int64_t chunk
    int32_t block
    int32_t blocksize       # of the chunk as it was then
    int32_t nbytes          # that were decoded into `data`
    uint64_t used           # when, by the worker's clock


cdef struct Worker:
    void *dctx              # blosc2_context *, for one thread at a time
    int32_t blocksize       # of its last chunk: the C library rebuilds temporaries when it changes
    uint8_t *stored         # stored bytes of a chunk that came from a positional read
    int64_t stored_size
    uint8_t *scratch        # decoded bytes
    int64_t scratch_size
    KeptBlock kept[KEPT_BLOCKS]
    int64_t kept_bytes
    uint64_t clock


cdef inline int32_t block_bytes(const Chunk *chunk, int32_t block) noexcept nogil:
    cdef int64_t rest = chunk.nbytes - <int64_t> block * chunk.blocksize
    return chunk.blocksize if rest > chunk.blocksize else <int32_t> rest


cdef class Plugin:
    """The C library's super-chunk for codecs and filters that ask it for the array's geometry."""

    cdef void *schunk
    cdef PyThread_type_lock lock
    cdef bint decoding      # whether a thread is inside its context
    cdef object __weakref__
    cdef int start_anew(self) except -1
    cdef int decode(self, Chunk *chunk, uint8_t *destination) noexcept nogil


cdef class Encoder:
    """One thread's compression context, with fixed parameters."""

    cdef void *cctx
    cdef object encoding
    cdef Plugin plugin
    cdef int32_t nbytes     # of the chunks that the context was made for
    cdef int32_t blocksize  # of the last chunk: the context has temporaries of that size
    cdef uint8_t *copy      # of their data, for filters that would write into it
    cdef uint8_t *undone    # room to decode what filters gave that cannot always be undone
    cdef bint is_small(self) noexcept
    cdef int prepare(self, int32_t nbytes) except -1
    cdef int32_t encode(self, const uint8_t *source, uint8_t *destination, int32_t room) noexcept nogil


cdef Worker *borrow(int32_t blocksize) except NULL
cdef void give_back(Worker *worker) noexcept
cdef uint8_t *reserve_stored(Worker *worker, int64_t size) noexcept nogil
cdef uint8_t *reserve_scratch(Worker *worker, int64_t size) noexcept nogil
cdef int inspect(const uint8_t *header, int64_t room, Chunk *chunk) noexcept nogil
cdef bint in_order(const Chunk *chunk, int32_t block) noexcept nogil
cdef int block_span(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop) noexcept nogil
cdef int check_block(const Chunk *chunk, int32_t block) noexcept nogil
cdef int check_starts(const Chunk *chunk) noexcept nogil
cdef int64_t dictionary_size(const Chunk *chunk) noexcept nogil
cdef int copy_block(const Chunk *chunk, int64_t dictionary, int32_t start, int32_t stop, int32_t nbytes,
                    uint8_t *to, Chunk *own) noexcept nogil
cdef int decode_whole(Worker *worker, Chunk *chunk, uint8_t *destination) noexcept nogil
cdef int decode_block(Worker *worker, Chunk *chunk, int32_t block, uint8_t *destination) noexcept nogil
cdef int fill(const Chunk *chunk, int64_t start, uint8_t *destination, int64_t nbytes) noexcept nogil
