# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Chunks to bytes and back: the only module that links C-Blosc2.

Each chunk is checked before the C library sees it (FORMATS, section 2). An operation borrows a context for each of its
threads: no two threads share one, and the C library has no thread pool of its own that a fork could break. Special and
raw chunks need no codec and never reach the library.
"""

import os
import weakref

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock)
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec cimport cblosc2 as c
from blosc2._core.codec.chunk cimport (
    BAD_CBYTES, BAD_DECODED, BAD_LENGTH, BAD_ROOM, CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, MAX_BUFFER,
    NEEDS_GEOMETRY, NO_MEMORY, Chunk, block_bytes, chunk_error_text)
from blosc2._core.codec.chunk_checks cimport (
    FILTER_DELTA, FILTER_NDMEAN, FIRST_PLUGIN, check_block, check_starts, filter_asks_array, inspect,
    largest_codec_meta)
from blosc2._core.codec.idle_contexts cimport (
    KEEP, POOL, TEMPORARIES, Idle, free_context, let_go, new_context, put_idle, take_idle)
from blosc2._core.codec.near_limit cimport compress_chunk
from blosc2._core.codec.padded_chunks cimport new_schunk, padded_copy
from blosc2._core.codec.plain_chunks cimport ZSTD_freeDCtx, decode_here, is_decoded_here, streams_of
from blosc2._core.codec.special_chunks cimport fill
from blosc2._core.codec.vl_encoding cimport compress_vl_chunk, raw_vl_chunk, vl_total
from blosc2._core.io.buffer cimport Buffer, readable
from blosc2._core.io.little_endian cimport i32

from blosc2._core.io.forking import each, in_child
from blosc2.exceptions import CompressionError, FormatError, codec_error_text

MINIMUM_LIBRARY = (3, 3, 5)
cdef int NO_CODEC = -7      # BLOSC2_ERROR_CODEC_SUPPORT

def reason(int code):
    """What a status of this package, or of the C library, says of a chunk.

    Raises
    ------
    MemoryError
        It says nothing of the chunk: memory was short.
    """
    cdef const char *text = chunk_error_text(code)
    if code == NO_MEMORY:
        raise MemoryError(text.decode())
    if text == NULL and code == NO_CODEC:
        return "the C library that is linked here was built without its codec"
    return text.decode() if text != NULL else f"compressed data is damaged ({codec_error_text(code)})"


# ---------------------------------------------------------------- library

cdef extern from "codec/early_zstd.h":  # decoders of formats that no chunk has are not linked
    pass

cdef extern from "codec/library_environment.h":
    int library_reads_environment()

cdef extern from "codec/library_memory.h" nogil:
    void enter_library()
    int leave_library(int status)
    void leave_reserve()
    void clear_reserve()

cdef extern from "codec/block_threads.h" nogil:
    bint BLOCK_THREADS
    void take_block_jobs()
    void share_blocks(const BlockThreads *threads)
    void order_blocks(uint8_t *chunk, int32_t size)

if library_reads_environment():
    # The linker could not keep them from the library. They go before it has threads that might read them; Python's
    # own `os.environ` keeps them.
    for _name in [name for name in os.environ if name.startswith("BLOSC_")]:
        os.unsetenv(_name)

c.blosc2_init()
take_block_jobs()
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
    try:
        if library == NULL or version == NULL:
            raise MemoryError
        return (<bytes> library).decode(), (<bytes> version).decode()
    finally:
        free(library)
        free(version)


# ---------------------------------------------------------------- decode contexts

cdef Idle _idle


cdef DecodeContext *borrow(int32_t blocksize) except NULL:
    """A decode context for this thread until `give_back`; holds the GIL, if there is one."""
    cdef DecodeContext *context = take_idle(&_idle, blocksize)
    if context != NULL:
        return context
    context = <DecodeContext *> calloc(1, sizeof(DecodeContext))
    if context == NULL:
        raise MemoryError
    new_context(context)
    if context.dctx == NULL:
        free(context)
        raise MemoryError
    return context


cdef void give_back(DecodeContext *context) noexcept:
    let_go(&context.stored, &context.stored_size)
    let_go(&context.scratch, &context.scratch_size)
    let_go(&context.unfiltered, &context.unfiltered_size)
    if TEMPORARIES * <int64_t> context.blocksize > KEEP:
        new_context(context)
    if context.dctx != NULL and put_idle(&_idle, context):
        return
    free_context(context)


def free_idle():
    """Release contexts and scratch that no thread uses."""
    cdef DecodeContext *context = take_idle(&_idle, 0)
    while context != NULL:
        free_context(context)
        context = take_idle(&_idle, 0)


# ---------------------------------------------------------------- decoding

cdef void _renew(DecodeContext *context) noexcept with gil:
    """Replace a context that has seen a dictionary, which the library does not forget, or for which memory was short."""
    new_context(context)


cdef int decode_whole(DecodeContext *context, Chunk *chunk, uint8_t *destination) noexcept nogil:
    """All bytes of a wholly loaded chunk; exactly `nbytes` are written, or the status is an error."""
    cdef int32_t block
    cdef int status
    if chunk.kind == KIND_RAW:
        memcpy(destination, chunk.data + CHUNK_HEADER, <size_t> chunk.nbytes)
        return CHUNK_OK
    if chunk.kind != KIND_REGULAR:
        return fill(chunk, 0, destination, chunk.nbytes)
    if chunk.needs_geometry:
        return NEEDS_GEOMETRY
    if is_decoded_here(chunk):
        for block in range(chunk.nblocks):
            status = decode_here(context, chunk, block, destination + <int64_t> block * chunk.blocksize)
            if status:
                return status
        return CHUNK_OK
    status = check_starts(chunk)
    if status:
        return status
    if context.dctx == NULL:
        return NO_MEMORY
    context.blocksize = 0 if chunk.variable else chunk.blocksize
    enter_library()
    status = leave_library(c.blosc2_decompress_ctx(
        <c.blosc2_context *> context.dctx, chunk.data, chunk.cbytes, destination, chunk.nbytes))
    if chunk.dictionary or chunk.variable or status == NO_MEMORY:
        _renew(context)
    if status < 0:
        return status
    return CHUNK_OK if status == chunk.nbytes else BAD_DECODED


cdef int decode_streams(
        DecodeContext *context, const Chunk *chunk, int32_t block, uint8_t *to, int32_t wanted) noexcept nogil:
    """See `streams_of`."""
    return streams_of(context, chunk, block, to, wanted)


cdef int decode_block(DecodeContext *context, Chunk *chunk, int32_t block, uint8_t *destination) noexcept nogil:
    """The bytes of one loaded block of a chunk whose blocks stand alone."""
    cdef int64_t start = <int64_t> block * chunk.blocksize
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int status
    if chunk.kind == KIND_RAW:
        memcpy(destination, chunk.data + CHUNK_HEADER + start, <size_t> nbytes)
        return CHUNK_OK
    if chunk.kind != KIND_REGULAR:
        return fill(chunk, start, destination, nbytes)
    if is_decoded_here(chunk):
        return decode_here(context, chunk, block, destination)
    status = check_block(chunk, block)
    if status:
        return status
    if context.dctx == NULL:
        return NO_MEMORY
    context.blocksize = chunk.blocksize
    # A whole block, from its first byte: the only kind of request that the library answers correctly
    # whatever its length.
    enter_library()
    status = leave_library(c.blosc2_getitem_bytes_ctx(
        <c.blosc2_context *> context.dctx, chunk.data, chunk.cbytes, <int32_t> start, nbytes, destination, nbytes))
    if status == NO_MEMORY:
        _renew(context)
    if status < 0:
        return status
    return CHUNK_OK if status == nbytes else BAD_DECODED


# ---------------------------------------------------------------- parameters, encoding

cdef enum:
    FILTER_FAILED = -18     # of the library
    # The library takes turns with buffers to filter from and to: the turn of the third filter is to write into its source.
    SCRIBBLING = 3
    MIN_DICTIONARY_CHUNK = 32


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
        return self.codec >= FIRST_PLUGIN or any(
            [filter_asks_array(f, m) for f, m in zip(self.filters, self.filters_meta)])

    @property
    def shares_blocks(self):
        """Whether several threads may compress the blocks of one chunk: none needs what another one has."""
        return BLOCK_THREADS and self.clevel and not (self.use_dict or self.needs_geometry or FILTER_DELTA in self.filters)

    cdef int filter_count(self) except -1:
        return sum([item != 0 for item in self.filters])

    def check(self):
        """Refuse what could not be undone, or what the codec does not have.

        Raises
        ------
        ValueError
        """
        filters = self.filter_count()
        deltas = self.filters.count(FILTER_DELTA)
        if self.codec_meta > largest_codec_meta(self.codec):
            raise ValueError(f"codec_meta is {self.codec_meta}, and this codec takes {largest_codec_meta(self.codec)} at "
                             "most (the rate of ZFP_RATE is a percentage)")
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
            p.filters[i] = 0 if self.filters[i] == FILTER_DELTA and nbytes % p.typesize else self.filters[i]
            p.filters_meta[i] = self.filters_meta[i]
        return p


# All plugins, for a forked child: threads that were inside them are not there.
_plugins = weakref.WeakSet()


def _begin_child():
    clear_reserve()
    each(Plugin.start_anew, list(_plugins))


in_child(_begin_child)


cdef class Plugin:
    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        _plugins.add(self)

    def __init__(self, Encoding encoding, bytes geometry, int32_t chunksize):
        cdef c.blosc2_cparams cparams = encoding.parameters(chunksize)
        self.schunk = new_schunk(&cparams, geometry, chunksize)

    def __dealloc__(self):
        if self.schunk != NULL:
            c.blosc2_schunk_free(<c.blosc2_schunk *> self.schunk)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef void renew(self) noexcept nogil:
        """Have a new context to decode with; NULL is told when it is needed."""
        cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
        cdef c.blosc2_schunk *schunk = <c.blosc2_schunk *> self.schunk
        dparams.nthreads = 1
        dparams.schunk = schunk
        schunk.dctx = c.blosc2_create_dctx(dparams)

    def start_anew(self):
        """In a forked child: have a lock that nobody holds, and a context that nobody is in the middle of."""
        # The old lock cannot be freed while it is held, nor the context in whatever state it is: both are left.
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        if self.decoding:
            self.decoding = False
            self.renew()

    cdef int decode(self, Chunk *chunk, uint8_t *destination) noexcept nogil:
        """All bytes of a loaded chunk, one thread at a time."""
        cdef uint8_t *padded = NULL
        cdef c.blosc2_schunk *schunk = <c.blosc2_schunk *> self.schunk
        cdef int status = padded_copy(chunk, &padded)
        if status:
            return status
        # A lock without Python's signal handlers: nothing can be raised between here and its release.
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.decoding = True
        if schunk.dctx == NULL:
            self.renew()
        if schunk.dctx == NULL:
            status = NO_MEMORY
        else:
            # Where geometry and blocks of a damaged file disagree, these codecs leave a part of it as it was.
            memset(destination, 0, <size_t> chunk.nbytes)
            enter_library()
            status = leave_library(c.blosc2_decompress_ctx(
                schunk.dctx, padded, chunk.cbytes, destination, chunk.nbytes))
            if status == NO_MEMORY:
                c.blosc2_free_ctx(schunk.dctx)
                leave_reserve()
                schunk.dctx = NULL
        self.decoding = False
        PyThread_release_lock(self.lock)
        free(padded)
        if status < 0:
            return BAD_DECODED if status == -1 else status
        return CHUNK_OK if status == chunk.nbytes else BAD_DECODED


def encoding_error(int status, str what="the data", **where):
    """The error that says why an encoder gave a status instead of a chunk."""
    if status == NO_MEMORY:
        return MemoryError(f"not enough memory to compress {what}")
    return CompressionError(f"could not compress {what}: {codec_error_text(status)}", **where)


cdef class Encoder:
    def __init__(self, Encoding encoding not None, Plugin plugin=None):
        self.encoding = encoding
        self.plugin = plugin

    cdef int prepare(self, int32_t nbytes, int threads=1) except -1:
        """Get ready for chunks of this size; a context keeps the block size that it chose for the first one.

        `threads` is how many share the blocks of a chunk, if `Encoding.shares_blocks` says that they may.
        """
        cdef c.blosc2_cparams cparams
        cdef Encoding encoding
        if self.cctx != NULL:
            if nbytes == self.nbytes:
                return 0
            self.free_context()
        encoding = <Encoding> self.encoding
        encoding.check()
        if encoding.filter_count() >= SCRIBBLING and encoding.clevel:
            free(self.copy)
            self.copy = <uint8_t *> malloc(max(nbytes, 1))
            if self.copy == NULL:
                raise MemoryError
        if FILTER_NDMEAN in encoding.filters and self.plugin is not None:
            free(self.undone)
            self.undone = <uint8_t *> malloc(max(nbytes, 1))
            if self.undone == NULL:
                raise MemoryError
        cparams = encoding.parameters(nbytes)
        cparams.nthreads = threads
        if self.plugin is not None:
            cparams.schunk = self.plugin.schunk
        enter_library()
        self.cctx = c.blosc2_create_cctx(cparams)
        if leave_library(CHUNK_OK) == NO_MEMORY:
            self.free_context()
            raise MemoryError
        if self.cctx == NULL:
            raise ValueError("the C library does not take these compression parameters")
        self.nbytes = nbytes
        return 0

    cdef void free_context(self) noexcept nogil:
        """Let go of the library's context; `prepare` makes another one."""
        if self.cctx != NULL:
            c.blosc2_free_ctx(<c.blosc2_context *> self.cctx)
        self.cctx = NULL
        leave_reserve()

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
        self.free_context()

    cdef int32_t encode(self, const uint8_t *source, uint8_t *destination, int32_t room,
                        const BlockThreads *threads=NULL) noexcept nogil:
        """Stored size of a chunk of the size that was prepared for, or a negative status.

        Room for its bytes and 32 more is always enough.
        """
        cdef const uint8_t *data = source
        cdef Chunk chunk
        cdef int status, undone
        if self.cctx == NULL:       # memory was short the last time
            return NO_MEMORY
        if self.copy != NULL and self.nbytes:       # of no bytes there may be no address either
            memcpy(self.copy, source, <size_t> self.nbytes)
            data = self.copy
        share_blocks(threads)
        enter_library()
        status = leave_library(compress_chunk(<c.blosc2_context *> self.cctx, data, self.nbytes, destination, room))
        share_blocks(NULL)
        if status == NO_MEMORY:
            self.free_context()
            return NO_MEMORY
        if threads != NULL and status > CHUNK_HEADER:
            order_blocks(destination, status)
        if status >= CHUNK_HEADER:
            self.blocksize = i32(destination + 8)
        if data != source and status > CHUNK_HEADER and destination[2] & 2 and not destination[31] >> 4:
            # Where nothing was gained, what lay there by then was stored.
            memcpy(destination + CHUNK_HEADER, source, <size_t> self.nbytes)
        if self.undone != NULL and status > CHUNK_HEADER:
            # For blocks that are shorter than its cells the library succeeds, and cannot read what it wrote.
            if inspect(destination, status, &chunk):
                return FILTER_FAILED
            if chunk.kind == KIND_REGULAR:
                undone = self.plugin.decode(&chunk, self.undone)
                if undone:
                    return NO_MEMORY if undone == NO_MEMORY else <int> FILTER_FAILED
        return status if status else <int32_t> BAD_ROOM

    def encode_bytes(self, buffer):
        """Compress a C-contiguous buffer to one chunk."""
        cdef Buffer view = readable(buffer)
        cdef int32_t nbytes
        cdef int32_t size
        cdef const uint8_t *source = view.data if view.size else NULL
        if view.size > MAX_BUFFER:
            raise ValueError(f"a chunk holds at most {MAX_BUFFER} bytes, not {view.size}")
        nbytes = <int32_t> view.size
        self.prepare(nbytes)
        cdef uint8_t *room = <uint8_t *> malloc(<size_t> nbytes + CHUNK_HEADER)
        if room == NULL:
            raise MemoryError
        try:
            with nogil:
                size = self.encode(source, room, nbytes + CHUNK_HEADER)
            if size < 0:
                raise encoding_error(size)
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
        cdef int64_t total
        cdef c.blosc2_cparams cparams
        cdef Encoding encoding = <Encoding> self.encoding
        encoding.check()
        if encoding.clevel == 0:    # the C library cannot read such blocks back with its own codec
            return raw_vl_chunk(blocks)
        if encoding.needs_geometry or FILTER_DELTA in encoding.filters or encoding.filter_count() >= SCRIBBLING:
            raise ValueError("blocks of variable length take up to two filters, none of them DELTA or one of arrays")
        total = vl_total(blocks)
        cparams = encoding.parameters(<int32_t> total)
        cparams.blocksize = 0
        return compress_vl_chunk(cparams, blocks, total)


def raw_blocks(list blocks not None):
    """A chunk of blocks of variable length that are stored as they are; see `Encoder.encode_blocks`."""
    return raw_vl_chunk(blocks)


def decode_bytes(buffer, int64_t largest=MAX_BUFFER, path=None, key=None, offset=None):
    """Decompress one chunk that stands alone; its stored size must be the buffer's.

    `largest` bounds what it may claim to hold.
    """
    cdef Buffer view = readable(buffer)
    cdef Chunk chunk
    cdef int status
    if view.size < CHUNK_HEADER:
        raise FormatError(reason(BAD_ROOM), path=path, key=key, offset=offset)
    status = inspect(view.data, view.size, &chunk)
    if status == CHUNK_OK and chunk.cbytes != view.size:
        status = BAD_CBYTES
    if status == CHUNK_OK and chunk.nbytes > largest:
        status = BAD_LENGTH
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    chunk.loaded = chunk.cbytes
    result = PyBytes_FromStringAndSize(NULL, chunk.nbytes)
    cdef uint8_t *destination = <uint8_t *> PyBytes_AS_STRING(result)
    cdef DecodeContext *context = borrow(chunk.blocksize)
    try:
        with nogil:
            status = decode_whole(context, &chunk, destination)
    finally:
        give_back(context)
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    return result
