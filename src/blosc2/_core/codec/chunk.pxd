# cython: cdivision=True, boundscheck=False, wraparound=False
"""What a chunk is, once its header was checked; and what can be wrong with it."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from blosc2._core.io.endian cimport i32


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
        INTERRUPTED
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
    int64_t run, run_stop   # and those of a run behind them


cdef inline int32_t block_bytes(const Chunk *chunk, int32_t block) noexcept nogil:
    """The uncompressed size of a block: the last one may be shorter."""
    cdef int64_t rest = chunk.nbytes - <int64_t> block * chunk.blocksize
    return chunk.blocksize if rest > chunk.blocksize else <int32_t> rest


# Checks of chunks, before the C library sees them (FORMATS, section 2).
#
# They are compiled into each module that needs them: a call across modules would take longer than most of them.

cdef extern from "codec/generated_codecs.h" nogil:
    enum:
        SUPPORT_ABSENT
        SUPPORT_WHOLE_CHUNK
        SUPPORT_ARRAY
        FIRST_PLUGIN
        FILTER_DELTA
        FILTER_NDMEAN
    int codec_support(int id)
    int codec_format(int id)
    int largest_codec_meta(int id)
    int filter_support(int id)
    bint filter_asks_array(int id, int meta)
    bint filter_keeps_run(int id, int meta, int byte)
    enum:
        CODEC_LZ4
        CODEC_ZSTD
        FILTER_SHUFFLE

cdef extern from "codec/own_decoder.h" nogil:
    bint decodes_starts(int codec)
    bint is_plain(int codec, int filter)


cdef inline int inspect(const uint8_t *header, int64_t room, Chunk *chunk) noexcept nogil:
    """Check 32 bytes of a chunk header (FORMATS 1.6, 2) and describe the chunk.

    `room` is what the chunk may occupy; its size against the frame's is the caller's to check. The bytes may lie in a
    file that others write to: they are read once, and what was checked is what `chunk` says.
    """
    cdef uint8_t h[CHUNK_HEADER]
    cdef int flags, special, size, status
    if room < CHUNK_HEADER:
        return BAD_ROOM
    memcpy(h, header, CHUNK_HEADER)
    flags = h[2]
    if flags & 5 != 5:
        return BAD_OLD_HEADER
    if h[0] > 6 or h[0] < 5:
        return BAD_VERSION
    chunk.data = header
    chunk.nbytes = i32(h + 4)
    chunk.blocksize = i32(h + 8)
    chunk.cbytes = i32(h + 12)
    chunk.typesize = h[3]
    chunk.split = not flags & 0x10
    chunk.variable = h[30] & 1
    chunk.dictionary = h[31] & 1
    chunk.whole = chunk.dictionary or chunk.variable
    chunk.needs_geometry = chunk.plain = False
    chunk.loaded = CHUNK_HEADER
    chunk.run = chunk.run_stop = 0
    chunk.nblocks = 1
    if chunk.cbytes < CHUNK_HEADER or chunk.cbytes > room:
        return BAD_CBYTES
    if chunk.nbytes < 0 or chunk.nbytes > MAX_BUFFER:
        return BAD_NBYTES
    if h[30] & 0xFE or h[31] & 0x88 or h[31] & 0x06:
        return BAD_FLAGS
    if chunk.typesize == 0:
        return BAD_TYPESIZE
    special = h[31] >> 4 & 7
    if special:
        if special > 4 or chunk.variable:
            return BAD_SPECIAL
        chunk.kind = <ChunkKind> special
        chunk.dictionary = chunk.whole = False
        if special == KIND_VALUE:
            size = chunk.cbytes - CHUNK_HEADER
            if size == 0 or chunk.nbytes % size:
                return BAD_SPECIAL
        elif chunk.cbytes != CHUNK_HEADER:
            return BAD_SPECIAL
        if special == KIND_NAN and chunk.typesize != 4 and chunk.typesize != 8:
            return BAD_TYPESIZE
        return CHUNK_OK
    if flags & 2 and not chunk.variable:
        if chunk.cbytes != chunk.nbytes + CHUNK_HEADER:
            return BAD_RAW
        chunk.kind = KIND_RAW
        return CHUNK_OK
    chunk.kind = KIND_REGULAR
    status = _inspect_pipeline(h, chunk)
    if status:
        return status
    if chunk.variable:
        chunk.nblocks = chunk.blocksize
        if chunk.nblocks < 1 or (chunk.cbytes - CHUNK_HEADER) // 8 < chunk.nblocks:
            return BAD_BLOCKSIZE
        return CHUNK_OK
    if chunk.blocksize < 1 or chunk.blocksize > MAX_BLOCK:
        return BAD_BLOCKSIZE
    if chunk.nbytes == 0:
        return BAD_NBYTES
    if chunk.blocksize > chunk.nbytes:
        chunk.blocksize = chunk.nbytes
    chunk.nblocks = <int32_t> ((<int64_t> chunk.nbytes + chunk.blocksize - 1) // chunk.blocksize)
    if CHUNK_HEADER + 4 * <int64_t> chunk.nblocks > chunk.cbytes:
        return BAD_STARTS
    if chunk.blocksize % chunk.typesize or chunk.nbytes % chunk.typesize:
        chunk.whole = True  # the library hands out whole items only
        chunk.plain = False
    return CHUNK_OK


cdef inline int _inspect_pipeline(const uint8_t *h, Chunk *chunk) noexcept nogil:
    """Check codec and filters of a chunk that is compressed, whose header this is a copy of."""
    cdef int codec = h[22], i
    cdef bint simple = True     # one filter at most, without a parameter
    chunk.codec = codec
    chunk.filter = 0
    # The format bits of the flags and the id of the codec have to name one decoder.
    if codec_support(codec) == SUPPORT_ABSENT or codec_format(codec) != h[2] >> 5:
        return BAD_CODEC
    # With a higher rate a block takes more bytes than its items: the codec reads and writes behind the end of its buffers.
    if h[23] > largest_codec_meta(codec):
        return BAD_RATE
    chunk.needs_geometry = codec_support(codec) == SUPPORT_ARRAY
    for i in range(6):
        if h[16 + i] == 0:
            continue
        if filter_support(h[16 + i]) == SUPPORT_ABSENT:
            return BAD_FILTER
        simple = not chunk.filter and not h[24 + i]
        chunk.filter = h[16 + i]
        if filter_support(h[16 + i]) == SUPPORT_WHOLE_CHUNK:
            chunk.whole = True
        elif filter_asks_array(h[16 + i], h[24 + i]):
            chunk.needs_geometry = True
    chunk.plain = simple and not chunk.whole and not chunk.needs_geometry and is_plain(codec, chunk.filter)
    return CHUNK_OK


cdef inline int32_t block_start(const Chunk *chunk, int32_t block) noexcept nogil:
    """Where the table of starts, which must be loaded, has the stored bytes of a block begin; it is not checked."""
    return i32(chunk.data + CHUNK_HEADER + 4 * <int64_t> block)


cdef inline bint in_order(const Chunk *chunk, int32_t block) noexcept nogil:
    """Whether the next block starts behind this one, as it usually does."""
    return block + 1 < chunk.nblocks and block_start(chunk, block + 1) > block_start(chunk, block)


cdef inline int block_span(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop) noexcept nogil:
    """Where the stored bytes of a block lie in its chunk; the table of starts must be loaded."""
    cdef int32_t first = block_start(chunk, block)
    cdef int32_t end = chunk.cbytes
    cdef int32_t other
    if first < CHUNK_HEADER + 4 * <int64_t> chunk.nblocks or first > chunk.cbytes - 4:
        return BAD_STARTS
    # Where blocks follow each other, the next one ends this; where they do not, only the chunk does.
    if block + 1 < chunk.nblocks:
        other = block_start(chunk, block + 1)
        if first < other and other < end:
            end = other
    start[0] = first
    stop[0] = end
    return CHUNK_OK


cdef inline bint reads_in_streams(const Chunk *chunk) noexcept nogil:
    """Whether the decoder reads from several positions of a block at once. Others run through it, as processors foresee."""
    return chunk.codec == CODEC_ZSTD


cdef inline bint is_split(const Chunk *chunk, int32_t nbytes) noexcept nogil:
    """Whether a block of so many bytes is a stream for each byte of an item."""
    return chunk.split and nbytes == chunk.blocksize and nbytes % chunk.typesize == 0


cdef inline bint is_unfiltered(const Chunk *chunk) noexcept nogil:
    """Whether the streams of a plain chunk are its items."""
    return chunk.filter == 0 or (chunk.filter == FILTER_SHUFFLE and chunk.typesize == 1)


cdef inline int extent(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop, int *byte) noexcept nogil:
    """Where a loaded block lies, by its streams, which end where it ends (FORMATS 2.3); which one byte they stand for, or -1."""
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t streams = 1
    cdef int32_t i, size, position, end = 0
    cdef int value
    cdef int status = block_span(chunk, block, start, &end)
    if status:
        return status
    if is_split(chunk, nbytes):
        streams = chunk.typesize
    position = start[0]
    byte[0] = -1
    for i in range(streams):
        if position > end - 4:
            return BAD_STREAM
        size = i32(chunk.data + position)
        position += 4
        value = -1
        if size == 0:
            value = 0
        elif size < 0:
            if position >= end:
                return BAD_STREAM
            if size >= -255 and chunk.data[position] & 1:
                value = -size
            size = 1
        if size > end - position:
            return BAD_STREAM
        position += size
        byte[0] = value if i == 0 or value == byte[0] else -1
    stop[0] = position
    if byte[0] >= 0 and not _stays(chunk, byte[0]):
        byte[0] = -1
    return CHUNK_OK


cdef inline bint _stays(const Chunk *chunk, int byte) noexcept nogil:
    """Whether filters make of one byte throughout the same byte throughout."""
    cdef int i
    for i in range(6):
        if not filter_keeps_run(chunk.data[16 + i], chunk.data[24 + i], byte):
            return False
    return not chunk.needs_geometry


cdef inline int check_starts(const Chunk *chunk) noexcept nogil:
    """Check every block start of a wholly loaded chunk."""
    cdef int64_t lowest = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t total = 0
    cdef int32_t i, start, size
    cdef int32_t before = 0
    for i in range(chunk.nblocks):
        start = block_start(chunk, i)
        if start < lowest or start > chunk.cbytes - 4:
            return BAD_STARTS
        if chunk.variable:
            # A VL block ends where the next one starts, so they must be in order.
            size = i32(chunk.data + start)
            if start <= before or size < 0:
                return BAD_STARTS
            before = start
            total += size
    if chunk.variable and total != chunk.nbytes:
        return BAD_LENGTH
    return CHUNK_OK


cdef inline int inspect_alone(const uint8_t *data, int64_t size, Chunk *chunk) noexcept nogil:
    """Inspect bytes that are one chunk and no more."""
    cdef int status = inspect(data, size, chunk) if size >= CHUNK_HEADER else BAD_ROOM
    if status == CHUNK_OK and chunk.cbytes != size:
        return BAD_CBYTES
    chunk.loaded = size
    return status


cdef inline int64_t decoding_bytes(const Chunk *chunk) noexcept nogil:
    """Bytes that decoding a chunk takes: its own, and for filters up to three blocks more."""
    cdef int64_t block = chunk.nbytes if chunk.variable else min(chunk.blocksize, chunk.nbytes)
    cdef int i
    if chunk.kind == KIND_REGULAR:
        for i in range(6):
            if chunk.data[16 + i]:
                return chunk.nbytes + 3 * block
    return chunk.nbytes


# Chunks that are zeros, NaN or one value throughout: nothing of them is decoded.

cdef inline int fill(const Chunk *chunk, int64_t start, uint8_t *destination, int64_t nbytes) noexcept nogil:
    """Write bytes ``start .. start + nbytes`` of a special chunk."""
    cdef const uint8_t *item
    cdef uint32_t nan4 = 0x7FC00000
    cdef uint64_t nan8 = 0x7FF8000000000000ULL
    cdef int64_t size, done, i
    if chunk.kind == KIND_ZERO or chunk.kind == KIND_UNINIT:
        memset(destination, 0, <size_t> nbytes)
        return CHUNK_OK
    if chunk.kind == KIND_NAN:
        if chunk.typesize == 4:
            item = <const uint8_t *> &nan4
        elif chunk.typesize == 8:
            item = <const uint8_t *> &nan8
        else:
            return BAD_TYPESIZE
        size = chunk.typesize
    else:
        item = chunk.data + CHUNK_HEADER
        size = chunk.cbytes - CHUNK_HEADER
    done = size if size < nbytes else nbytes
    for i in range(done):
        destination[i] = item[(start + i) % size]
    while done < nbytes:  # double what is there
        size = done if done <= nbytes - done else nbytes - done
        memcpy(destination + done, destination, <size_t> size)
        done += size
    return CHUNK_OK
