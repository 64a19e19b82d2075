# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Chunks to bytes and back: the only module that links C-Blosc2.

A chunk is checked here before the C library sees it (FORMATS, section 2). Every context has one thread of
its own and is borrowed for a call, so that no two threads share one and no thread pool of the C library
exists that a fork could break. Special and raw chunks need no codec and never reach the library.
"""

import os
import weakref

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock)
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from blosc2._core.codec cimport cblosc2 as c

from blosc2._core.io.forking import each, in_child
from blosc2.exceptions import CompressionError, FormatError, codec_error_text

MINIMUM_LIBRARY = (3, 3, 5)

#: Codec ids that a chunk may carry, and those of them that ask for the array's geometry.
cdef uint8_t[256] _codec_kind
#: The same for filter ids: 0 refuse, 1 plain, 2 the chunk must be decoded whole, 3 needs geometry.
cdef uint8_t[256] _filter_kind
_id = 0
for _id in (0, 1, 2, 4, 5):
    _codec_kind[_id] = 1
for _id in (32, 33, 34, 35):
    _codec_kind[_id] = 3
for _id in (0, 1, 2, 4, 35, 36):
    _filter_kind[_id] = 1
_filter_kind[3] = 2
_filter_kind[32] = _filter_kind[33] = 3

_REASONS = {
    BAD_ROOM: "a chunk needs at least 32 bytes and there are fewer",
    BAD_OLD_HEADER: "a chunk with a 16-byte header of Blosc 1; this format has 32-byte headers only",
    BAD_VERSION: "a chunk of an unknown format version (5 and 6 are known)",
    BAD_CBYTES: "the stored size of a chunk is below 32 or reaches past the space for chunks",
    BAD_NBYTES: "the size of a chunk is negative or above 2147483615",
    BAD_FLAGS: "a chunk with flags that no file may have (lazy, instrumented or unknown)",
    BAD_SPECIAL: "a special chunk of an unknown kind, or whose value does not fit its size",
    BAD_RAW: "a raw chunk whose stored size is not its size + 32",
    BAD_BLOCKSIZE: "the block size of a chunk is below 1 or above 536866816",
    BAD_RATE: "a rate of the codec ZFP_RATE that is above 100 percent, for which the C library has too little room",
    BAD_CODEC: "a chunk compressed with a codec that this package does not have",
    BAD_FILTER: "a chunk with a filter that this package does not have",
    BAD_STARTS: "a block of a chunk starts outside it",
    BAD_STREAM: "a compressed stream of a block reaches outside its chunk",
    BAD_LENGTH: "a chunk does not hold as many bytes as its frame says",
    BAD_TYPESIZE: "the item size of a chunk is 0, or NaN chunks of items that are neither 4 nor 8 bytes",
    NEEDS_GEOMETRY: "a codec or filter that works on array blocks is used outside an array",
    NO_MEMORY: "not enough memory to decode a chunk",
    BAD_DECODED: "a chunk decodes to fewer bytes than it says: its compressed data is damaged",
    BAD_SPECIAL_HERE: "a special chunk where none may be",
    BAD_SUM: "its bytes are not those that were written, as their checksum says",
}


def reason(int code):
    """What a status of this module, or of the C library, says."""
    text = _REASONS.get(code)
    return text if text is not None else f"compressed data is damaged ({codec_error_text(code)})"


# ---------------------------------------------------------------- library

cdef extern from "codec/library_environment.h":
    int library_reads_environment()

if library_reads_environment():
    # The linker could not keep them from the library. They go before it has threads that might read them; Python's
    # own `os.environ` keeps them.
    for _name in [name for name in os.environ if name.startswith("BLOSC_")]:
        os.unsetenv(_name)

c.blosc2_init()
library_version = c.blosc2_get_version_string().decode()
if tuple(int("".join(d for d in part if d.isdigit()) or 0) for part in library_version.split(".")[:3]) < MINIMUM_LIBRARY:
    raise ImportError(f"C-Blosc2 {library_version} was linked; at least 3.3.5 is needed: rebuild with a newer one")


def compressor_names():
    """Names of the codecs that the C library was built with."""
    return c.blosc2_list_compressors().decode().split(",")


def library_info(str name):
    """(name, version) of the library behind a codec; None where there is none."""
    cdef char *library = NULL
    cdef char *version = NULL
    if name not in compressor_names():  # which the C library would follow a null pointer for
        return None
    if c.blosc2_get_complib_info(name.encode(), &library, &version) < 0:
        return None
    found = (<bytes> library).decode(), (<bytes> version).decode()
    free(library)
    free(version)
    return found


# ---------------------------------------------------------------- workers

cdef enum:
    ZFP_RATE = 35
    MOST_RATE = 100

cdef enum:
    POOL = 64
    KEEP = 8 << 20  # scratch and temporaries above this are not kept between calls
    TEMPORARIES = 4 # blocks that a context of the library keeps room for

cdef Worker *_idle[POOL]
cdef int _idle_count = 0


cdef void _free_worker(Worker *worker) noexcept:
    if worker.dctx != NULL:
        c.blosc2_free_ctx(<c.blosc2_context *> worker.dctx)
    worker.dctx = NULL
    cdef int i
    for i in range(KEPT_BLOCKS):
        free(worker.kept[i].data)
    free(worker.stored)
    free(worker.scratch)
    free(worker)


cdef Worker *borrow(int32_t blocksize) except NULL:
    """A worker for this thread until `give_back`; holds the GIL, which guards the pool."""
    global _idle_count
    cdef Worker *worker
    cdef int i
    cdef int chosen = _idle_count - 1
    for i in range(_idle_count - 1, -1, -1):
        if _idle[i].blocksize == blocksize:
            chosen = i
            break
    if chosen >= 0:
        worker = _idle[chosen]
        _idle_count -= 1
        _idle[chosen] = _idle[_idle_count]
        return worker
    worker = <Worker *> calloc(1, sizeof(Worker))
    if worker == NULL:
        raise MemoryError
    _new_context(worker)
    if worker.dctx == NULL:
        free(worker)
        raise MemoryError
    return worker


cdef void _new_context(Worker *worker) noexcept:
    """Give a worker a context that has seen nothing, in place of the one that it has."""
    cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
    dparams.nthreads = 1
    if worker.dctx != NULL:
        c.blosc2_free_ctx(<c.blosc2_context *> worker.dctx)
    worker.dctx = c.blosc2_create_dctx(dparams)
    worker.blocksize = 0


cdef void give_back(Worker *worker) noexcept:
    global _idle_count
    if worker.stored_size > KEEP:
        free(worker.stored)
        worker.stored = NULL
        worker.stored_size = 0
    if worker.scratch_size > KEEP:
        free(worker.scratch)
        worker.scratch = NULL
        worker.scratch_size = 0
    if TEMPORARIES * <int64_t> worker.blocksize > KEEP:
        _new_context(worker)
    if _idle_count == POOL or worker.dctx == NULL:
        _free_worker(worker)
        return
    _idle[_idle_count] = worker
    _idle_count += 1


def free_idle():
    """Release contexts and scratch that no thread uses."""
    global _idle_count
    while _idle_count:
        _idle_count -= 1
        _free_worker(_idle[_idle_count])


cdef uint8_t *_reserve(uint8_t **buffer, int64_t *have, int64_t size) noexcept nogil:
    cdef uint8_t *larger
    if have[0] >= size and buffer[0] != NULL:
        return buffer[0]
    size = (size + 65535) & ~<int64_t> 65535
    larger = <uint8_t *> realloc(buffer[0], <size_t> size)
    if larger != NULL:
        buffer[0] = larger
        have[0] = size
    return larger


cdef uint8_t *reserve_stored(Worker *worker, int64_t size) noexcept nogil:
    """Room for `size` stored bytes; what was there stays. NULL when there is no memory."""
    return _reserve(&worker.stored, &worker.stored_size, size)


cdef uint8_t *reserve_scratch(Worker *worker, int64_t size) noexcept nogil:
    return _reserve(&worker.scratch, &worker.scratch_size, size)


# ---------------------------------------------------------------- checks

cdef inline int32_t _i32(const uint8_t *p) noexcept nogil:
    return <int32_t> (<uint32_t> p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24)


cdef int inspect(const uint8_t *header, int64_t room, Chunk *chunk) noexcept nogil:
    """Check 32 bytes of a chunk header (FORMATS 1.6, points 13-15) and describe the chunk.

    `room` is what the chunk may occupy; its size against the frame's is the caller's to check. The bytes may lie in a
    file that others write to: they are read once, and what was checked is what `chunk` says.
    """
    cdef uint8_t h[CHUNK_HEADER]
    cdef int flags, special, codec, i
    if room < CHUNK_HEADER:
        return BAD_ROOM
    memcpy(h, header, CHUNK_HEADER)
    flags = h[2]
    if flags & 5 != 5:
        return BAD_OLD_HEADER
    if h[0] > 6 or h[0] < 5:
        return BAD_VERSION
    chunk.data = header
    chunk.nbytes = _i32(h + 4)
    chunk.blocksize = _i32(h + 8)
    chunk.cbytes = _i32(h + 12)
    chunk.typesize = h[3]
    chunk.split = not flags & 0x10
    chunk.variable = h[30] & 1
    chunk.dictionary = h[31] & 1
    chunk.whole = chunk.dictionary or chunk.variable
    chunk.needs_geometry = False
    chunk.loaded = CHUNK_HEADER
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
            i = chunk.cbytes - CHUNK_HEADER
            if i == 0 or chunk.nbytes % i:
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
    codec = h[22]
    if _codec_kind[codec] == 0 or not _agrees(flags >> 5, codec):
        return BAD_CODEC
    # With a higher rate a block takes more bytes than its items: the codec reads and writes behind the end of its buffers.
    if codec == ZFP_RATE and h[23] > MOST_RATE:
        return BAD_RATE
    chunk.needs_geometry = _codec_kind[codec] == 3
    for i in range(6):
        if _filter_kind[h[16 + i]] == 0:
            return BAD_FILTER
        if _filter_kind[h[16 + i]] == 2:
            chunk.whole = True
        elif _filter_kind[h[16 + i]] == 3:
            chunk.needs_geometry = True
        elif h[16 + i] == 35 and h[24 + i] == 0:
            chunk.needs_geometry = True
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
    return CHUNK_OK


cdef bint _agrees(int chunk_format, int codec) noexcept nogil:
    """Whether the format bits of the flags and the codec id of the pipeline name one decoder."""
    if chunk_format == 0:
        return codec == 0
    if chunk_format == 1:
        return codec == 1 or codec == 2
    if chunk_format == 3 or chunk_format == 4:
        return codec == chunk_format + 1
    return chunk_format == 6 and codec >= 32


cdef bint in_order(const Chunk *chunk, int32_t block) noexcept nogil:
    """Whether the next block starts behind this one, as it usually does."""
    cdef const uint8_t *start = chunk.data + CHUNK_HEADER + 4 * <int64_t> block
    return block + 1 < chunk.nblocks and _i32(start + 4) > _i32(start)


cdef int block_span(const Chunk *chunk, int32_t block, int32_t *start, int32_t *stop) noexcept nogil:
    """Where the stored bytes of a block lie in its chunk; the table of starts must be loaded."""
    cdef const uint8_t *starts = chunk.data + CHUNK_HEADER
    cdef int32_t first = _i32(starts + 4 * <int64_t> block)
    cdef int32_t end = chunk.cbytes
    cdef int32_t other
    if first < CHUNK_HEADER + 4 * <int64_t> chunk.nblocks or first > chunk.cbytes - 4:
        return BAD_STARTS
    # Where blocks follow each other, the next one ends this; where they do not, only the chunk does.
    if block + 1 < chunk.nblocks:
        other = _i32(starts + 4 * <int64_t> (block + 1))
        if first < other and other < end:
            end = other
    start[0] = first
    stop[0] = end
    return CHUNK_OK


cdef int check_block(const Chunk *chunk, int32_t block) noexcept nogil:
    """Check that the streams of a block end where it ends, which is as far as it was loaded (FORMATS 2.3)."""
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t streams = 1
    cdef int32_t i, size, position = 0, stop = 0
    cdef int status = block_span(chunk, block, &position, &stop)
    if status:
        return status
    if chunk.split and nbytes == chunk.blocksize and nbytes % chunk.typesize == 0:
        streams = chunk.typesize
    for i in range(streams):
        if position > stop - 4:
            return BAD_STREAM
        size = _i32(chunk.data + position)
        position += 4
        if size < 0:
            size = 1
        if size > stop - position:
            return BAD_STREAM
        position += size
    return CHUNK_OK


cdef int check_starts(const Chunk *chunk) noexcept nogil:
    """Check every block start of a wholly loaded chunk."""
    cdef int64_t lowest = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t total = 0
    cdef int32_t i, start, size
    cdef int32_t before = 0
    for i in range(chunk.nblocks):
        start = _i32(chunk.data + CHUNK_HEADER + 4 * <int64_t> i)
        if start < lowest or start > chunk.cbytes - 4:
            return BAD_STARTS
        if chunk.variable:
            # A VL block ends where the next one starts, so they must be in order.
            size = _i32(chunk.data + start)
            if start <= before or size < 0:
                return BAD_STARTS
            before = start
            total += size
    if chunk.variable and total != chunk.nbytes:
        return BAD_LENGTH
    return CHUNK_OK


# ---------------------------------------------------------------- decoding

cdef int fill(const Chunk *chunk, int64_t start, uint8_t *destination, int64_t nbytes) noexcept nogil:
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


cdef void _renew(Worker *worker) noexcept with gil:
    """Replace a context that has seen a dictionary: the library does not forget it."""
    _new_context(worker)


cdef int decode_whole(Worker *worker, Chunk *chunk, uint8_t *destination) noexcept nogil:
    """All bytes of a wholly loaded chunk; exactly `nbytes` are written, or the status is an error."""
    cdef int status
    if chunk.kind == KIND_RAW:
        memcpy(destination, chunk.data + CHUNK_HEADER, <size_t> chunk.nbytes)
        return CHUNK_OK
    if chunk.kind != KIND_REGULAR:
        return fill(chunk, 0, destination, chunk.nbytes)
    if chunk.needs_geometry:
        return NEEDS_GEOMETRY
    status = check_starts(chunk)
    if status:
        return status
    if worker.dctx == NULL:
        return NO_MEMORY
    worker.blocksize = 0 if chunk.variable else chunk.blocksize
    status = c.blosc2_decompress_ctx(
        <c.blosc2_context *> worker.dctx, chunk.data, chunk.cbytes, destination, chunk.nbytes)
    if chunk.dictionary or chunk.variable:
        _renew(worker)
    if status < 0:
        return status
    return CHUNK_OK if status == chunk.nbytes else BAD_DECODED


cdef int decode_block(Worker *worker, Chunk *chunk, int32_t block, uint8_t *destination) noexcept nogil:
    """The bytes of one loaded block of a chunk whose blocks stand alone."""
    cdef int64_t start = <int64_t> block * chunk.blocksize
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int status
    if chunk.kind == KIND_RAW:
        memcpy(destination, chunk.data + CHUNK_HEADER + start, <size_t> nbytes)
        return CHUNK_OK
    if chunk.kind != KIND_REGULAR:
        return fill(chunk, start, destination, nbytes)
    status = check_block(chunk, block)
    if status:
        return status
    if worker.dctx == NULL:
        return NO_MEMORY
    worker.blocksize = chunk.blocksize
    # A whole block, from its first byte: the only kind of request that the library answers correctly
    # whatever its length.
    status = c.blosc2_getitem_bytes_ctx(
        <c.blosc2_context *> worker.dctx, chunk.data, chunk.cbytes, <int32_t> start, nbytes, destination, nbytes)
    if status < 0:
        return status
    return CHUNK_OK if status == nbytes else BAD_DECODED


# ---------------------------------------------------------------- parameters, encoding

cdef enum:
    DELTA = 3
    NDMEAN = 33
    FILTER_FAILED = -18     # of the library
    # The library takes turns with buffers to filter from and to: the turn of the third filter is to write into its source.
    SCRIBBLING = 3
    MIN_DICTIONARY_CHUNK = 32
    BEYOND = 1 << 18        # more than a dictionary takes


cdef class Encoding:
    """Compression parameters as plain numbers; the layers above check them."""

    cdef readonly int codec, codec_meta, clevel, splitmode, typesize, blocksize
    cdef readonly bint use_dict
    cdef readonly tuple filters, filters_meta

    def __init__(self, int codec, int codec_meta, int clevel, bint use_dict, int typesize, int blocksize,
                 int splitmode, tuple filters, tuple filters_meta):
        self.codec = codec
        self.codec_meta = codec_meta
        self.clevel = clevel
        self.use_dict = use_dict
        self.typesize = typesize
        self.blocksize = blocksize
        self.splitmode = splitmode
        self.filters = filters
        self.filters_meta = filters_meta

    @property
    def needs_geometry(self):
        """Whether the C library wants to know the array's blocks to encode with these."""
        return self.codec >= 32 or any(
            f in (32, 33) or (f == 35 and m == 0) for f, m in zip(self.filters, self.filters_meta))

    cdef int filter_count(self) except -1:
        return sum([item != 0 for item in self.filters])

    def check(self):
        """Refuse what could not be undone, or what the codec does not have.

        Raises
        ------
        ValueError
        """
        filters = self.filter_count()
        deltas = self.filters.count(DELTA)
        if self.codec == ZFP_RATE and self.codec_meta > MOST_RATE:
            raise ValueError(f"codec_meta of ZFP_RATE is a percentage, up to {MOST_RATE}, not {self.codec_meta}")
        if deltas > 1 or (deltas and filters >= SCRIBBLING):
            # The bytes to take the difference from are gone when the second block comes.
            raise ValueError("the filter DELTA can be used once and with one other filter: more could not be undone")
        if filters >= SCRIBBLING and self.use_dict:
            # It goes over the data twice, and what it finds there is filtered already the second time.
            raise ValueError("a dictionary cannot be used with more than two filters: what it gives could not be undone")

    cdef c.blosc2_cparams parameters(self, int32_t nbytes):
        """For a chunk of that many bytes.

        Where blocks or the chunk end inside an item, the C library splits streams and applies the delta filter so
        that they cannot be decoded, and with a dictionary it writes broken chunks below 32 bytes.
        """
        cdef c.blosc2_cparams p = c.blosc2_get_blosc2_cparams_defaults()
        cdef int i
        p.compcode = self.codec
        p.compcode_meta = self.codec_meta
        p.clevel = self.clevel
        p.use_dict = self.use_dict and nbytes >= MIN_DICTIONARY_CHUNK
        p.typesize = self.typesize if self.typesize <= 255 else 1
        p.nthreads = 1
        p.blocksize = 0 if nbytes % p.typesize else self.blocksize - self.blocksize % p.typesize
        p.splitmode = self.splitmode
        for i in range(6):
            p.filters[i] = 0 if self.filters[i] == DELTA and nbytes % p.typesize else self.filters[i]
            p.filters_meta[i] = self.filters_meta[i]
        return p


# All plugins, for a forked child: threads that were inside them are not there.
_plugins = weakref.WeakSet()


def _start_anew():
    each(_start_plugin, list(_plugins))


def _start_plugin(Plugin plugin):
    plugin.start_anew()


in_child(_start_anew)


cdef class Plugin:
    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        _plugins.add(self)

    def __init__(self, Encoding encoding, bytes geometry, int32_t chunksize):
        cdef c.blosc2_cparams cparams = encoding.parameters(chunksize)
        cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
        cdef c.blosc2_storage storage = c.blosc2_get_blosc2_storage_defaults()
        dparams.nthreads = 1
        storage.cparams = &cparams
        storage.dparams = &dparams
        self.schunk = c.blosc2_schunk_new(&storage)
        if self.schunk == NULL:
            raise ValueError("the C library does not take these compression parameters")
        (<c.blosc2_schunk *> self.schunk).chunksize = chunksize
        if c.blosc2_meta_add(<c.blosc2_schunk *> self.schunk, b"b2nd", geometry, len(geometry)) < 0:
            raise ValueError("the C library does not take this array geometry")

    def __dealloc__(self):
        if self.schunk != NULL:
            c.blosc2_schunk_free(<c.blosc2_schunk *> self.schunk)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int start_anew(self) except -1:
        """In a forked child: have a lock that nobody holds, and a context that nobody is in the middle of."""
        cdef c.blosc2_dparams dparams
        cdef c.blosc2_schunk *schunk = <c.blosc2_schunk *> self.schunk
        # The old lock cannot be freed while it is held, nor the context in whatever state it is: both are left.
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        if self.decoding:
            self.decoding = False
            dparams = c.blosc2_get_blosc2_dparams_defaults()
            dparams.nthreads = 1
            dparams.schunk = schunk
            schunk.dctx = c.blosc2_create_dctx(dparams)     # NULL is told when it is needed
        return 0

    cdef int decode(self, Chunk *chunk, uint8_t *destination) noexcept nogil:
        """All bytes of a loaded chunk, one thread at a time."""
        cdef uint8_t *padded = _padded_copy(chunk)
        cdef Chunk own
        cdef int status
        if padded == NULL:
            return NO_MEMORY
        # What is decoded is the copy, whatever a mapped file shows by now.
        status = inspect(padded, chunk.cbytes, &own)
        if status == CHUNK_OK and (own.kind != chunk.kind or own.variable != chunk.variable or own.cbytes != chunk.cbytes
                                   or own.nbytes != chunk.nbytes or own.blocksize != chunk.blocksize):
            status = BAD_LENGTH
        if status == CHUNK_OK and own.kind == KIND_REGULAR:
            status = check_starts(&own)
        if status:
            free(padded)
            return status
        # A lock without Python's signal handlers: nothing can be raised between here and its release.
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.decoding = True
        if (<c.blosc2_schunk *> self.schunk).dctx == NULL:
            status = NO_MEMORY
        else:
            # Where geometry and blocks of a damaged file disagree, these codecs leave a part of it as it was.
            memset(destination, 0, <size_t> chunk.nbytes)
            status = c.blosc2_decompress_ctx(
                (<c.blosc2_schunk *> self.schunk).dctx, padded, chunk.cbytes, destination, chunk.nbytes)
        self.decoding = False
        PyThread_release_lock(self.lock)
        free(padded)
        if status < 0:
            return BAD_DECODED if status == -1 else status
        return CHUNK_OK if status == chunk.nbytes else BAD_DECODED


cdef uint8_t *_padded_copy(const Chunk *chunk) noexcept nogil:
    """A loaded chunk with zeros behind it; NULL when there is no memory.

    Codecs that work on array blocks do not stop at the end of damaged input: what lies behind it must be ours, and
    always the same.
    """
    cdef size_t behind = 2 * <size_t> chunk.blocksize + 4096
    cdef size_t size = <size_t> chunk.cbytes + behind
    cdef uint8_t *padded
    if size > KEEP:
        padded = <uint8_t *> calloc(1, size)    # pages that nobody touches take no memory
    else:
        padded = <uint8_t *> malloc(size)
        if padded != NULL:
            memset(padded + chunk.cbytes, 0, behind)
    if padded != NULL:
        memcpy(padded, chunk.data, <size_t> chunk.cbytes)
    return padded


cdef class Encoder:
    def __init__(self, Encoding encoding not None, Plugin plugin=None):
        self.encoding = encoding
        self.plugin = plugin

    cdef int prepare(self, int32_t nbytes) except -1:
        """Get ready for chunks of this size; a context keeps the block size that it chose for the first one."""
        cdef c.blosc2_cparams cparams
        cdef Encoding encoding
        if self.cctx != NULL:
            if nbytes == self.nbytes:
                return 0
            c.blosc2_free_ctx(<c.blosc2_context *> self.cctx)
            self.cctx = NULL
        encoding = <Encoding> self.encoding
        encoding.check()
        if encoding.filter_count() >= SCRIBBLING and encoding.clevel:
            free(self.copy)
            self.copy = <uint8_t *> malloc(max(nbytes, 1))
            if self.copy == NULL:
                raise MemoryError
        if NDMEAN in encoding.filters and self.plugin is not None:
            free(self.undone)
            self.undone = <uint8_t *> malloc(max(nbytes, 1))
            if self.undone == NULL:
                raise MemoryError
        cparams = encoding.parameters(nbytes)
        if self.plugin is not None:
            cparams.schunk = self.plugin.schunk
        self.cctx = c.blosc2_create_cctx(cparams)
        if self.cctx == NULL:
            raise ValueError("the C library does not take these compression parameters")
        self.nbytes = nbytes
        return 0

    cdef bint is_small(self) noexcept:
        """Whether it holds so little memory that it may wait for the next use."""
        cdef int64_t size = TEMPORARIES * <int64_t> self.blocksize
        if self.copy != NULL:
            size += self.nbytes
        if self.undone != NULL:
            size += self.nbytes
        return size <= KEEP

    @property
    def may_wait(self):
        """Whether it holds so little memory that it may be kept for the next use."""
        return self.is_small()

    def __dealloc__(self):
        free(self.copy)
        free(self.undone)
        if self.cctx != NULL:
            c.blosc2_free_ctx(<c.blosc2_context *> self.cctx)

    cdef int32_t encode(self, const uint8_t *source, uint8_t *destination, int32_t room) noexcept nogil:
        """Stored size of a chunk of the size that was prepared for, or a negative status.

        Room for its bytes and 32 more is always enough.
        """
        cdef const uint8_t *data = source
        cdef Chunk chunk
        cdef int status
        if self.copy != NULL and self.nbytes:       # of no bytes there may be no address either
            memcpy(self.copy, source, <size_t> self.nbytes)
            data = self.copy
        status = c.blosc2_compress_ctx(<c.blosc2_context *> self.cctx, data, self.nbytes, destination, room)
        if status >= CHUNK_HEADER:
            self.blocksize = _i32(destination + 8)
        if data != source and status > CHUNK_HEADER and destination[2] & 2 and not destination[31] >> 4:
            # Where nothing was gained, what lay there by then was stored.
            memcpy(destination + CHUNK_HEADER, source, <size_t> self.nbytes)
        if self.undone != NULL and status > CHUNK_HEADER:
            # For blocks that are shorter than its cells the library succeeds, and cannot read what it wrote.
            if inspect(destination, status, &chunk) or (
                    chunk.kind == KIND_REGULAR and self.plugin.decode(&chunk, self.undone)):
                return FILTER_FAILED
        return status if status else <int32_t> BAD_ROOM

    def encode_bytes(self, buffer):
        """Compress a C-contiguous buffer to one chunk."""
        cdef const uint8_t[::1] view = memoryview(buffer).cast("B")
        cdef int32_t nbytes
        cdef int32_t size
        cdef const uint8_t *source = &view[0] if view.shape[0] else NULL
        if view.shape[0] > MAX_BUFFER:
            raise ValueError(f"a chunk holds at most {MAX_BUFFER} bytes, not {view.shape[0]}")
        nbytes = <int32_t> view.shape[0]
        self.prepare(nbytes)
        cdef uint8_t *room = <uint8_t *> malloc(<size_t> nbytes + CHUNK_HEADER)
        if room == NULL:
            raise MemoryError
        try:
            with nogil:
                size = self.encode(source, room, nbytes + CHUNK_HEADER)
            if size < 0:
                raise CompressionError(f"could not compress the data: {codec_error_text(size)}")
            return PyBytes_FromStringAndSize(<const char *> room, size)
        finally:
            free(room)

    def encode_blocks(self, list blocks not None):
        """Compress buffers to one chunk, each to a block of its own length.

        Raises
        ------
        ValueError
            There are none, one is empty, they are too long together, or the filters do not work on such blocks.
        """
        cdef int64_t total = 0, room
        cdef int32_t count, i, size = 0
        cdef const uint8_t[::1] view
        cdef c.blosc2_cparams cparams
        cdef c.blosc2_context *context
        cdef uint8_t *copy
        cdef uint8_t *out
        cdef const void **sources
        cdef int32_t *sizes
        cdef Encoding encoding = <Encoding> self.encoding
        encoding.check()
        if encoding.clevel == 0:    # of which the library does not come back with its own codec
            return raw_blocks(blocks)
        if encoding.needs_geometry or DELTA in encoding.filters or encoding.filter_count() >= SCRIBBLING:
            raise ValueError("blocks of variable length take up to two filters, none of them DELTA or one of arrays")
        for block in blocks:
            total += len(block)
        if not blocks or total > MAX_BUFFER - 16 * <int64_t> len(blocks) - BEYOND:
            raise ValueError(f"{len(blocks)} blocks of together {total} bytes do not make a chunk")
        count = <int32_t> len(blocks)
        cparams = encoding.parameters(<int32_t> total)
        cparams.blocksize = 0
        room = CHUNK_HEADER + 16 * <int64_t> count + total + BEYOND
        copy = <uint8_t *> malloc(<size_t> total + 1)
        out = <uint8_t *> malloc(<size_t> room)
        sources = <const void **> malloc(count * sizeof(void *))
        sizes = <int32_t *> malloc(count * sizeof(int32_t))
        try:
            if copy == NULL or out == NULL or sources == NULL or sizes == NULL:
                raise MemoryError
            total = 0
            for i in range(count):
                view = memoryview(blocks[i]).cast("B")
                if view.shape[0] == 0:
                    raise ValueError("a block of variable length cannot be empty")
                sizes[i] = <int32_t> view.shape[0]
                sources[i] = copy + total
                memcpy(copy + total, &view[0], <size_t> sizes[i])
                total += sizes[i]
            # One for each chunk: the library does not forget blocks of variable length.
            context = c.blosc2_create_cctx(cparams)
            if context == NULL:
                raise ValueError("the C library does not take these compression parameters")
            with nogil:
                size = c.blosc2_vlcompress_ctx(context, sources, sizes, count, out, <int32_t> room)
                c.blosc2_free_ctx(context)
            if size <= CHUNK_HEADER:
                raise CompressionError(f"could not compress the data: {codec_error_text(size)}")
            return PyBytes_FromStringAndSize(<const char *> out, size)
        finally:
            free(copy)
            free(out)
            free(sources)
            free(sizes)


def raw_blocks(list blocks not None):
    """A chunk of blocks of variable length that are stored as they are; see `Encoder.encode_blocks`."""
    total = sum(map(len, blocks))
    count = len(blocks)
    at = CHUNK_HEADER + 4 * count
    size = at + 4 * count + total
    if not blocks or 0 in map(len, blocks) or size > MAX_BUFFER:
        raise ValueError(f"{count} blocks of together {total} bytes do not make a chunk")
    # Flags of zstd: each block says by its size that it is not compressed.
    parts = [b"\x06\x01\x95\x01", *[n.to_bytes(4, "little") for n in (total, count, size)], bytes(6), b"\x05",
             bytes(7), b"\x01\0"]
    for block in blocks:
        parts.append(at.to_bytes(4, "little"))
        at += 4 + len(block)
    for block in blocks:
        parts += (len(block).to_bytes(4, "little"), block)
    return b"".join(parts)


cdef int64_t dictionary_size(const Chunk *chunk) noexcept nogil:
    """Bytes of the dictionary of a chunk, with those that tell its size; 0 without one, or a negative status."""
    cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t size
    if not chunk.dictionary:
        return 0
    if table + 4 > chunk.cbytes:
        return BAD_STARTS
    size = _i32(chunk.data + table)
    return 4 + size if 0 <= size <= chunk.cbytes - table - 4 else <int64_t> BAD_STARTS


cdef int copy_block(const Chunk *chunk, int64_t dictionary, int32_t start, int32_t stop, int32_t nbytes,
                    uint8_t *to, Chunk *own) noexcept nogil:
    """Make a chunk of its own of one block of variable length, whose bytes and size in memory these are.

    The library then sees nothing else of the file, and nothing that may change meanwhile. There must be room for
    ``ALONE + dictionary + stop - start`` bytes.
    """
    cdef int64_t at = CHUNK_HEADER + 4
    cdef int64_t size = at + dictionary + stop - start
    memcpy(to, chunk.data, CHUNK_HEADER)
    if dictionary:
        memcpy(to + at, chunk.data + CHUNK_HEADER + 4 * <int64_t> chunk.nblocks, <size_t> dictionary)
        _put(to + at, <int32_t> (dictionary - 4))
        at += dictionary
    memcpy(to + at, chunk.data + start, <size_t> (stop - start))
    _put(to + 4, nbytes)
    _put(to + 8, 1)
    _put(to + 12, <int32_t> size)
    _put(to + CHUNK_HEADER, <int32_t> at)
    _put(to + at, nbytes)
    return inspect(to, size, own)


cdef inline void _put(uint8_t *p, int32_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = value >> 8 & 0xFF
    p[2] = value >> 16 & 0xFF
    p[3] = value >> 24 & 0xFF


def decode_bytes(buffer, int64_t largest=MAX_BUFFER, path=None, key=None, offset=None):
    """Decompress one chunk that stands alone; its stored size must be the buffer's.

    `largest` bounds what it may claim to hold.
    """
    cdef const uint8_t[::1] view = memoryview(buffer).cast("B")
    cdef Chunk chunk
    cdef int status
    if view.shape[0] < CHUNK_HEADER:
        raise FormatError(reason(BAD_ROOM), path=path, key=key, offset=offset)
    status = inspect(&view[0], view.shape[0], &chunk)
    if status == CHUNK_OK and chunk.cbytes != view.shape[0]:
        status = BAD_CBYTES
    if status == CHUNK_OK and chunk.nbytes > largest:
        status = BAD_LENGTH
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    chunk.loaded = chunk.cbytes
    result = PyBytes_FromStringAndSize(NULL, chunk.nbytes)
    cdef uint8_t *destination = <uint8_t *> PyBytes_AS_STRING(result)
    cdef Worker *worker = borrow(chunk.blocksize)
    try:
        with nogil:
            status = decode_whole(worker, &chunk, destination)
    finally:
        give_back(worker)
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    return result
