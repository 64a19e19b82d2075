# cython: cdivision=True, boundscheck=False, wraparound=False

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from blosc2._core.codec.chunk cimport (
    CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, NO_MEMORY, Chunk, block_bytes, block_span, decodes_starts, extent,
    in_order, is_split, is_unfiltered)
from blosc2._core.codec.codec cimport (
    CACHED_BLOCKS, CachedBlock, DecodeContext, Plugin, decode_block, decode_streams, reserve_scratch)
from blosc2._core.codec.thread_pool cimport is_quick
from blosc2._core.io.endian cimport i32
from blosc2._core.io.readahead cimport ONE_REQUEST, PAGE, SLOW_GAP, Wanted, ask_range, want
from blosc2._core.io.source cimport Source

cdef enum:
    MAX_METALAYERS = 16
    FIXED_HEADER = 87
    MIN_HEADER = 97
    MIN_TRAILER = 35
    PREFIX_READ = 4096  # of a frame read by position; one that is not larger stays in memory, and its data costs no read of its own
    TRAILER_TAIL = 23   # trailer_len and fingerprint, at the very end
    # Checksums (doc/format/checksums.md) lie before these, and end with a part of fixed size.
    CHECKSUMS_TAIL = 28
    CHECKSUMS_MARK_AT = 86   # byte of the header that says whether they hold
    CHECKSUMS_MARK = 0xB5


cdef struct Entry:  # of the table of metalayers, in bytes from the start of the frame
    int32_t name
    int32_t name_length
    int32_t content
    int32_t content_length


cdef class Header:
    cdef readonly Source source
    cdef uint64_t serial                # no other frame of this process ever has it
    cdef readonly int64_t offset        # of the frame in its source
    cdef readonly object key
    cdef readonly int64_t frame_len
    cdef readonly int64_t nbytes
    cdef readonly int64_t cbytes
    cdef readonly int32_t header_len, typesize, blocksize, chunksize
    cdef readonly uint32_t trailer_len
    cdef readonly uint32_t checksums_len     # bytes of checksums in the trailer; 0 where there are none that hold
    cdef readonly bint variable, vlblocks, use_dict
    # There may be a frame for each of a hundred thousand leaves: what fits a byte takes one.
    cdef readonly uint8_t flags, codec, codec_meta, clevel, splitmode
    cdef uint8_t filter_ids[6]
    cdef uint8_t filter_metas[6]
    cdef uint8_t entry_count            # metalayers in the header
    cdef uint8_t whole                  # whether all of the frame lies in `header`
    cdef uint8_t index_loaded           # of the chunk table; there is room for it here
    cdef uint8_t header_holds           # whether the header is the one of the checksums, where there are such
    cdef uint8_t wholes                 # whether what is read as a whole is checked against them
    cdef uint8_t each_read              # whether chunks are checked at each read, of parts too
    cdef readonly uint8_t by_member     # whether all of it is checked against the next before it is read whole
    cdef uint32_t member_checksum            # CRC-32 of all of the frame
    # Chunks lie between these two, absolute; offsets count from the first.
    cdef int64_t chunks_start, chunks_stop
    cdef uint8_t *header                # a checked copy, header_len bytes; NULL for a frame never serialised
    cdef dict own_metalayers            # of a frame never serialised
    cdef dict vlmeta_table              # name -> (absolute offset, length), or the stored chunk itself

    cdef int read(
        self, Source source, int64_t offset, int64_t length, object key, const uint8_t *known, int64_t have) except -1
    cdef int bad(self, int64_t at, str what) except -1
    cdef int parse_header(self, const uint8_t *p, int64_t have, int64_t available, int64_t exact) except -1
    cdef int parse_metalayers(self) except -1
    cdef int64_t read_entry(self, int64_t at, Entry *entry) noexcept nogil
    cdef int check_name(self, const uint8_t *name, int length, int64_t at) except -1
    cdef int find_trailer(self, const uint8_t *prefix, int64_t have) except -1
    cdef const uint8_t *memory(self, int64_t at) noexcept nogil
    cdef int fetch(self, int64_t at, int64_t length, void *to) noexcept nogil
    cdef int copy(self, int64_t at, int64_t length, uint8_t *to, const uint8_t *prefix, int64_t have) except -1
    cdef const uint8_t *find_metalayer(self, const char *name, size_t n, int32_t *length) noexcept
    cdef bint holds_only_array(self) noexcept
    cdef bint wants_geometry(self) noexcept
    cdef bytes checked_trailer(self)
    cdef dict load_vlmeta(self)


cdef enum:
    FIRST_READ = 4096       # of a chunk read by position: its header, and all of a small one


cdef class ChunkTable(Header):
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


cdef class Frame(ChunkTable):
    cdef Frame alike(self, int64_t nbytes, int64_t count)
    cdef int need_table(self) except -1
    cdef int lies_in(self, Source source) except -1
    cdef int check_index(self, int64_t index) except -1
    cdef int need_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) except -1
    cdef int64_t verbatim_at(self, int64_t start, int64_t length, bint check) except -2
    cdef int decode_checked(self, int64_t index, DecodeContext *context, uint8_t *destination, int64_t size) except -1
    cdef int64_t chunk_at(self, int64_t position) noexcept nogil
    cdef int read_chunks(self, DecodeContext *context, int64_t start, int64_t stop, uint8_t *to, int64_t *index) noexcept nogil
    cdef int read_range(self, int64_t start, int64_t stop, uint8_t *destination) except -1
    cdef int read_from_chunk(
        self, int64_t index, DecodeContext *context, int64_t start, int64_t stop, uint8_t *destination) noexcept nogil


cdef Frame frame_at(Source source, int64_t offset, int64_t length, object key)
cdef Frame frame_of_member(void *archive, Source source, int64_t offset, object key, bint check)


# Asking for chunks and blocks before they are read: where they lie, as far as that is known without them.


cdef enum:
    # A chunk of so few bytes is asked for as a whole, without knowing where its blocks lie.
    SMALL_CHUNK = 16384
    # Blocks of a chunk among which the one that follows is looked for.
    MOST_SCANNED = 4096


cdef inline int64_t reach(ChunkTable table, int64_t index) noexcept nogil:
    """No fewer bytes than a stored chunk has: as far as the next one, or as it can be."""
    cdef int64_t start = table.entry(index)
    cdef int64_t end = table.chunks_stop - table.chunks_start
    cdef int64_t following
    if table.offsets != NULL and index + 1 < table.chunk_count:
        following = table.offsets[index + 1]
        if start < following < end:
            end = following
    if not table.variable and end - start > table.chunksize + CHUNK_HEADER:
        end = start + table.chunksize + CHUNK_HEADER
    return end - start


cdef inline int open_asked(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int64_t nbytes) noexcept nogil:
    """What `open_chunk` does, of a chunk that is read alone; it is asked for if half of it or more is to be read.

    A positional read of a file needs no asking.
    """
    if (table.source.base != NULL or table.source.far) and 2 * nbytes >= table.chunksize and table.entry(index) >= 0:
        ask_range(table.source, table.chunks_start + table.entry(index), reach(table, index))
    return table.open_chunk(index, context, chunk)


cdef inline bint is_most(int64_t touched, int64_t nblocks) noexcept nogil:
    """Whether so many blocks of a chunk are so nearly all that it is read as a whole."""
    return 4 * touched >= 3 * nblocks


cdef inline bint is_wanted_whole(ChunkTable table, int64_t index, int64_t touched, int64_t nblocks) noexcept nogil:
    """Whether to want all of a chunk, of whose blocks so many are needed."""
    return is_most(touched, nblocks) or table.each_read or reach(table, index) <= SMALL_CHUNK


cdef inline void want_chunk(ChunkTable table, Wanted *wanted, int64_t index, int64_t nblocks, bint whole) noexcept nogil:
    """Want a stored chunk, or what says where its `nblocks` blocks lie."""
    cdef int64_t size = reach(table, index)
    cdef int64_t head = CHUNK_HEADER + 4 * nblocks
    if wanted.base == NULL and head < FIRST_READ:
        head = FIRST_READ
    want(wanted, table.chunks_start + table.entry(index), size if whole else min(size, head))


cdef inline void want_beginning(ChunkTable table, Wanted *wanted, int64_t index, int64_t nblocks,
                                int64_t touched, int64_t last) noexcept nogil:
    """Want blocks that lie at the beginning of a chunk together with what says where they are: one wait, not two.

    Of the blocks up to number `last`, `touched` are needed. Where they lie is a guess: as if all blocks had the same size.
    """
    cdef int64_t head = CHUNK_HEADER + 4 * nblocks
    cdef int64_t size, block, stop
    if last < 0 or table.offsets == NULL:
        return
    size = table.chunks_stop - table.chunks_start if index + 1 == table.chunk_count else table.offsets[index + 1]
    size -= table.entry(index)
    block = (size - head) // nblocks
    if block <= 0 or size > table.chunksize + CHUNK_HEADER:  # it is not the next chunk that follows in the file
        return
    stop = min(head + (last + 1) * block + block // 8, size)
    if stop <= ONE_REQUEST - PAGE and (last + 1 - touched) * block <= min(touched * block // 2, <int64_t> SLOW_GAP):
        want(wanted, table.chunks_start + table.entry(index), stop)


cdef inline bint find_blocks(
        ChunkTable table, Wanted *wanted, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Find a chunk of which blocks are wanted; waits for its first bytes. Whether `want_block` can tell where they lie.

    If it cannot, because all of the chunk is decoded at once, all of it is wanted. What is wrong is left to the read.
    """
    cdef int status = table.find_chunk(index, context, chunk)
    if status != CHUNK_OK or chunk.data == NULL or chunk.kind < KIND_RAW:
        return False
    if chunk.whole or chunk.needs_geometry:
        want(wanted, table.chunks_start + table.entry(index), chunk.cbytes)
        return False
    return chunk.kind != KIND_REGULAR or table.load_span(
        index, chunk, chunk.loaded, CHUNK_HEADER + 4 * <int64_t> chunk.nblocks) == CHUNK_OK


cdef inline void want_block(
        ChunkTable table, Wanted *wanted, int64_t index, const Chunk *chunk, int64_t block, int64_t nbytes) noexcept nogil:
    """Want a block of a chunk that was found, which has `nbytes` uncompressed bytes."""
    cdef int64_t at = table.chunks_start + table.entry(index)
    cdef int32_t start, stop, other, i
    if chunk.kind == KIND_RAW:
        want(wanted, at + CHUNK_HEADER + block * nbytes, min(nbytes, chunk.cbytes - CHUNK_HEADER - block * nbytes))
        return
    if block >= chunk.nblocks or block_span(chunk, <int32_t> block, &start, &stop) != CHUNK_OK:
        return
    if block + 1 < chunk.nblocks and not in_order(chunk, <int32_t> block):
        # Threads of the C library store blocks in the order in which they end.
        if wanted.base == NULL or chunk.nblocks > MOST_SCANNED:
            start, stop = 0, chunk.cbytes   # as they are read
        else:
            for i in range(chunk.nblocks):
                other = i32(chunk.data + CHUNK_HEADER + 4 * <int64_t> i)
                if start < other < stop:
                    stop = other
    want(wanted, at + start, stop - start)


# Blocks of which a part is wanted: through the block cache, and decoded as far as they are needed.


# The block cache of a decode context. Reads that follow each other often take parts of the same blocks: rows of an
# array, patches that overlap. Each context keeps the last blocks that were read in part.
#
# A published frame never changes, but a file may be changed by anybody, and the header of a chunk is read anew at each
# read. So a block is found again only where the chunk still says the same of it: what is copied out of the buffer is
# as long as what was decoded into it.


cdef enum:
    CACHE_BYTES = 2 << 20   # of one context, in all


cdef inline CachedBlock *find_cached(
        DecodeContext *context, uint64_t frame, int64_t index, const Chunk *chunk, int32_t block, bint shuffled) noexcept nogil:
    """A block in the cache, of as many bytes as the chunk says; NULL where it is not there."""
    cdef CachedBlock *cached
    cdef int i
    for i in range(CACHED_BLOCKS):
        cached = &context.cached[i]
        if (cached.frame == frame and cached.chunk == index and cached.block == block
                and cached.blocksize == chunk.blocksize and cached.nbytes == block_bytes(chunk, block)
                and cached.shuffled == shuffled):
            context.clock += 1
            cached.used = context.clock
            return cached
    return NULL


cdef inline CachedBlock *reserve_cached(DecodeContext *context, int64_t size) noexcept nogil:
    """Room for a block, that of the least recently used one; NULL when the block is too large."""
    cdef CachedBlock *oldest = NULL
    cdef CachedBlock *cached
    cdef uint8_t *data
    cdef int i
    if size > CACHE_BYTES // 2:
        return NULL
    for i in range(CACHED_BLOCKS):
        cached = &context.cached[i]
        if oldest == NULL or cached.used < oldest.used:
            oldest = cached
    oldest.frame = 0
    if oldest.size < size:
        context.cached_bytes -= oldest.size
        free(oldest.data)
        oldest.data = NULL
        oldest.size = 0
        for i in range(CACHED_BLOCKS):  # others go until there is room for this one
            cached = &context.cached[i]
            if context.cached_bytes + size > CACHE_BYTES and cached.size:
                context.cached_bytes -= cached.size
                free(cached.data)
                cached.data = NULL
                cached.size = 0
                cached.frame = 0
        data = <uint8_t *> malloc(<size_t> size)
        if data == NULL:
            return NULL
        oldest.data = data
        oldest.size = size
        context.cached_bytes += size
    return oldest


cdef inline void label_cached(DecodeContext *context, CachedBlock *cached, uint64_t frame, int64_t index, const Chunk *chunk,
                           int32_t block, bint shuffled, int32_t decoded) noexcept nogil:
    """Say what was decoded into the room that `reserve_cached` gave."""
    context.clock += 1
    cached.used = context.clock
    cached.frame = frame
    cached.chunk = index
    cached.block = block
    cached.blocksize = chunk.blocksize
    cached.nbytes = block_bytes(chunk, block)
    cached.shuffled = shuffled
    cached.decoded = decoded


# A stream of zeros, or of another byte, takes 4 or 5 bytes however long it is (FORMATS 2.3). So a few hundred bytes can
# claim 2 GiB: large blocks that are one byte throughout are recognised without decoding them.
cdef enum:
    LARGE_BLOCK = 1 << 20   # whose runs are looked for before it is decoded; smaller ones are decoded as soon


cdef inline bint is_run(const Chunk *chunk, int32_t block, uint8_t *byte) noexcept nogil:
    """Whether a loaded block of a chunk whose blocks stand alone is one byte throughout."""
    cdef int32_t start = 0, stop = 0
    cdef int value = -1
    if chunk.kind != KIND_REGULAR or extent(chunk, block, &start, &stop, &value) or value < 0:
        return False
    byte[0] = <uint8_t> value
    return True


cdef inline uint8_t *run_of(DecodeContext *context, uint8_t byte, int64_t size) noexcept nogil:
    """Scratch of one byte throughout; NULL when there is no memory."""
    cdef uint8_t *room
    if byte == 0:
        # Fresh zeros of the system are no memory before somebody writes to them.
        free(context.scratch)
        context.scratch = <uint8_t *> calloc(<size_t> size, 1)
        context.scratch_size = size if context.scratch != NULL else 0
        return context.scratch
    room = reserve_scratch(context, size)
    if room != NULL:
        memset(room, byte, <size_t> size)
    return room


cdef inline int part_block(
        ChunkTable table, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block, bint shuffled, int32_t wanted,
        const uint8_t **decoded) noexcept nogil:
    """The bytes of a block of which a part is wanted, and which may be wanted again soon.

    The first `wanted` bytes are enough. With `shuffled` the block is one of a plain chunk and stays shuffled: the
    first bytes of all items, then the second ones, and so on; `wanted` of each are enough. A block that is wanted
    again, and of which too little was decoded, is decoded as a whole.
    """
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t whole = nbytes // chunk.typesize if shuffled else nbytes
    cdef CachedBlock *cached = find_cached(context, table.serial, index, chunk, block, shuffled)
    cdef uint8_t *room
    cdef uint8_t byte = 0
    cdef int status
    wanted = min(wanted, whole)
    if cached != NULL:
        decoded[0] = cached.data
        if cached.decoded >= wanted:
            return CHUNK_OK
        cached.frame = 0
        wanted = whole
    status = table.load_block(index, context, chunk, block)
    if status:
        return status
    if chunk.blocksize > LARGE_BLOCK and is_run(chunk, block, &byte):
        decoded[0] = run_of(context, byte, chunk.blocksize)
        return CHUNK_OK if decoded[0] != NULL else NO_MEMORY
    if cached == NULL:
        cached = reserve_cached(context, chunk.blocksize)
    room = cached.data if cached != NULL else reserve_scratch(context, chunk.blocksize)
    if room == NULL:
        return NO_MEMORY
    if not chunk.plain or is_split(chunk, nbytes) != shuffled or not (shuffled or is_unfiltered(chunk)):
        wanted = whole
    # Whoever reads more of the block next decodes it again: less than half of it has to be saved.
    if wanted > whole // 2 or not decodes_starts(chunk.codec):
        wanted = whole
    if shuffled:
        status = decode_streams(context, chunk, block, room, nbytes if wanted == whole else wanted)
    elif wanted < whole:
        status = decode_streams(context, chunk, block, room, wanted)
    else:
        status = decode_block(context, chunk, block, room)
    if status:
        return status
    if cached != NULL:
        label_cached(context, cached, table.serial, index, chunk, block, shuffled, wanted)
    decoded[0] = room
    return CHUNK_OK
