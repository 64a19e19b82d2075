# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Chunks to bytes and back: the only module that links C-Blosc2.

Each chunk is checked before the C library sees it (FORMATS, section 2). An operation borrows a context for each of its
threads: no two threads share one, and the C library has no thread pool of its own that a fork could break. Special and
raw chunks need no codec and never reach the library.
"""

import os
import weakref

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock)
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec cimport cblosc2 as c
from blosc2._core.codec.cblosc2 cimport blosc2_unshuffle
from blosc2._core.codec.chunk cimport (
    BAD_DECODED, BAD_LENGTH, BAD_ROOM, CHUNK_HEADER, CHUNK_OK, CODEC_LZ4, CODEC_ZSTD, FILTER_DELTA,
    FILTER_NDMEAN,
    FIRST_PLUGIN, INTERRUPTED, KIND_RAW, KIND_REGULAR, MAX_BUFFER, NEEDS_GEOMETRY, NO_MEMORY, Chunk, block_bytes, block_span,
    check_starts, chunk_error_text, decodes_starts, extent, fill, filter_asks_array, inspect, inspect_alone, is_split,
    is_unfiltered, largest_codec_meta)
from blosc2._core.io.endian cimport i32
from blosc2._core.io.source cimport Buffer, fresh_bytes, readable
from blosc2._core.io.steps cimport step_begin, step_end, step_lock

from blosc2._core.io.sharing import each, in_child
from blosc2.exceptions import CompressionError, FormatError, codec_error_text

# Blocks of plain chunks, which own_decoder.h decodes.


cdef extern from "codec/own_decoder.h" nogil:
    int decode_stream(int codec, void *zstd, const uint8_t **source, const uint8_t *stop, uint8_t *to, int32_t size,
                      int32_t wanted)
    void *ZSTD_createDCtx()
    void ZSTD_freeDCtx(void *context)


cdef int decode_streams(
        DecodeContext *context, const Chunk *chunk, int32_t block, uint8_t *to, int32_t wanted) noexcept nogil:
    """The streams of one loaded block, one behind the other: its bytes before their filter is undone.

    The first `wanted` bytes of each stream are enough.
    """
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t streams = 1
    cdef int32_t start = 0, stop = 0, i
    cdef const uint8_t *source
    cdef int status = block_span(chunk, block, &start, &stop)
    if status:
        return status
    if is_split(chunk, nbytes):
        streams = chunk.typesize
        nbytes //= streams
    if chunk.codec == CODEC_ZSTD and context.zstd == NULL:
        context.zstd = ZSTD_createDCtx()
        if context.zstd == NULL:
            return NO_MEMORY
    source = chunk.data + start
    for i in range(streams):
        status = decode_stream(chunk.codec, context.zstd, &source, chunk.data + stop, to + <int64_t> i * nbytes, nbytes,
                               min(wanted, nbytes))
        if status:
            return status
    return CHUNK_OK


cdef inline bint is_decoded_here(const Chunk *chunk) noexcept nogil:
    """Whether whole blocks are decoded here: all plain ones that are shuffled, and those of LZ4.

    For BloscLZ and zstd without a filter, the C library takes a twentieth less time.
    """
    return chunk.plain and (chunk.filter != 0 or decodes_starts(chunk.codec))


cdef inline int decode_here(DecodeContext *context, const Chunk *chunk, int32_t block, uint8_t *to) noexcept nogil:
    """The bytes of one loaded block, whose filter is undone."""
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef uint8_t *streams
    cdef int status
    if is_unfiltered(chunk):
        return decode_streams(context, chunk, block, to, nbytes)
    streams = reserve(&context.unfiltered, &context.unfiltered_size, nbytes)
    if streams == NULL:
        return NO_MEMORY
    status = decode_streams(context, chunk, block, streams, nbytes)
    if status == CHUNK_OK:
        blosc2_unshuffle(chunk.typesize, nbytes, streams, to)
    return status


# Decode contexts, and how they wait to be used again.


cdef enum:
    POOL = 64       # that wait
    KEEP = 8 << 20  # scratch and temporaries above this are not kept between calls
    TEMPORARIES = 4 # blocks that a context of the library keeps room for


cdef struct Idle:
    step_lock turn
    int count
    DecodeContext *contexts[POOL]


cdef inline DecodeContext *take_idle(Idle *idle, int32_t blocksize) noexcept:
    """A context that waits, one of that block size if there is one; NULL if none waits."""
    cdef DecodeContext *context = NULL
    cdef int i, chosen
    step_begin(&idle.turn)
    chosen = idle.count - 1
    for i in range(idle.count - 1, -1, -1):
        if idle.contexts[i].blocksize == blocksize:
            chosen = i
            break
    if chosen >= 0:
        context = idle.contexts[chosen]
        idle.count -= 1
        idle.contexts[chosen] = idle.contexts[idle.count]
    step_end(&idle.turn)
    return context


cdef inline bint put_idle(Idle *idle, DecodeContext *context) noexcept:
    """Let a context wait; whether there was room."""
    cdef bint fits
    step_begin(&idle.turn)
    fits = idle.count < POOL
    if fits:
        idle.contexts[idle.count] = context
        idle.count += 1
    step_end(&idle.turn)
    return fits


cdef inline void free_context(DecodeContext *context) noexcept:
    if context.dctx != NULL:
        c.blosc2_free_ctx(<c.blosc2_context *> context.dctx)
    context.dctx = NULL
    cdef int i
    for i in range(CACHED_BLOCKS):
        free(context.cached[i].data)
    if context.zstd != NULL:
        ZSTD_freeDCtx(context.zstd)
    free(context.stored)
    free(context.unfiltered)
    free(context.scratch)
    free(context)


cdef inline void new_context(DecodeContext *context) noexcept:
    """Replace the context of the C library by a new one, which keeps nothing of the old one."""
    cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
    dparams.nthreads = 1
    if context.dctx != NULL:
        c.blosc2_free_ctx(<c.blosc2_context *> context.dctx)
    leave_reserve()
    context.dctx = c.blosc2_create_dctx(dparams)
    context.blocksize = 0


cdef inline void let_go(uint8_t **buffer, int64_t *size) noexcept nogil:
    if size[0] > KEEP:
        free(buffer[0])
        buffer[0], size[0] = NULL, 0


# Chunks for codecs that work on the blocks of arrays.


cdef enum:
    # Bytes from which the C library gives fresh pages, which are zeros already.
    LARGE = 8 << 20


cdef inline int padded_copy(const Chunk *chunk, uint8_t **copy) noexcept nogil:
    """Make a copy of a loaded chunk with zeros behind it; a status. It is what the chunk was, whatever a file shows by now.

    Codecs that work on array blocks do not stop at the end of damaged input: what lies behind it must be ours, and
    always the same.
    """
    cdef size_t behind = 2 * <size_t> chunk.blocksize + 4096
    cdef size_t size = <size_t> chunk.cbytes + behind
    cdef uint8_t *padded
    cdef Chunk own
    cdef int status
    if size > LARGE:
        padded = <uint8_t *> calloc(1, size)    # pages that nobody touches take no memory
    else:
        padded = <uint8_t *> malloc(size)
        if padded != NULL:
            memset(padded + chunk.cbytes, 0, behind)
    if padded == NULL:
        return NO_MEMORY
    memcpy(padded, chunk.data, <size_t> chunk.cbytes)
    status = inspect(padded, chunk.cbytes, &own)
    if status == CHUNK_OK and (own.kind != chunk.kind or own.variable != chunk.variable or own.cbytes != chunk.cbytes
                               or own.nbytes != chunk.nbytes or own.blocksize != chunk.blocksize):
        status = BAD_LENGTH
    if status == CHUNK_OK and own.kind == KIND_REGULAR:
        status = check_starts(&own)
    if status:
        free(padded)
    else:
        copy[0] = padded
    return status


cdef inline void *new_schunk(c.blosc2_cparams *cparams, bytes geometry, int32_t chunksize) except NULL:
    """The C library's super-chunk that tells such codecs about the array."""
    cdef c.blosc2_dparams dparams = c.blosc2_get_blosc2_dparams_defaults()
    cdef c.blosc2_storage storage = c.blosc2_get_blosc2_storage_defaults()
    cdef c.blosc2_schunk *schunk
    cdef int status = 0
    dparams.nthreads = 1
    storage.cparams = cparams
    storage.dparams = &dparams
    enter_library()
    schunk = c.blosc2_schunk_new(&storage)
    if schunk != NULL:
        schunk.chunksize = chunksize
        status = c.blosc2_meta_add(schunk, b"b2nd", geometry, <int32_t> len(geometry))
    status = leave_library(status)
    if schunk != NULL and status >= 0:
        return schunk
    if schunk != NULL:
        c.blosc2_schunk_free(schunk)
    leave_reserve()
    if status == NO_MEMORY:
        raise MemoryError
    raise ValueError("the C library does not take these compression parameters, or this array geometry")


# Buffers of almost 2 GiB, for which the C library adds sizes in 32 bits, and writes behind its room when they overflow.


cdef enum:
    LARGEST_INT = 0x7FFFFFFF
    CHECKED = 1 << 30           # more room than this is limited
    LARGEST_DEFAULT_BLOCK = 32 << 20
    BESIDE_BLOCK = 4096         # the sizes of its streams, and more


cdef inline int compress_chunk(c.blosc2_context *context, const uint8_t *source, int32_t nbytes, uint8_t *to,
                               int32_t room) noexcept nogil:
    """Size of the chunk, 0 where there is no room, or a negative status."""
    cdef c.blosc2_cparams cparams
    cdef c.blosc2_context *storing
    cdef int32_t safe
    cdef int status
    if room <= CHECKED or c.blosc2_ctx_get_cparams(context, &cparams) < 0:
        return c.blosc2_compress_ctx(context, source, nbytes, to, room)
    # What was stored and one block more must not overflow.
    safe = LARGEST_INT - max(cparams.blocksize, LARGEST_DEFAULT_BLOCK) - BESIDE_BLOCK
    status = c.blosc2_compress_ctx(context, source, nbytes, to, min(room, safe))
    if status or room <= safe:
        return status
    # With all of its room the library would have stored the bytes as they are.
    cparams.clevel = 0
    storing = c.blosc2_create_cctx(cparams)
    if storing == NULL:
        return 0
    status = c.blosc2_compress_ctx(storing, source, nbytes, to, room)
    c.blosc2_free_ctx(storing)
    return status


# Making chunks whose blocks have lengths of their own.


cdef enum:
    BEYOND = 1 << 18        # more than a dictionary takes


cdef inline int64_t vl_total(list blocks) except -1:
    """The bytes of blocks of a chunk together."""
    cdef int64_t total = sum(map(len, blocks))
    if not blocks or total > MAX_BUFFER - 16 * <int64_t> len(blocks) - BEYOND:
        raise ValueError(f"{len(blocks)} blocks of together {total} bytes do not make a chunk")
    return total


cdef inline bytes compress_vl_chunk(c.blosc2_cparams cparams, list blocks, int64_t total):
    """Compress buffers of `total` bytes to a chunk, each to a block of its own."""
    cdef int32_t count = <int32_t> len(blocks), i, size = 0
    cdef int64_t room = CHUNK_HEADER + 16 * <int64_t> count + total + BEYOND
    cdef Buffer view
    cdef c.blosc2_context *context
    cdef uint8_t *copy = <uint8_t *> malloc(<size_t> total + 1)
    cdef uint8_t *out = <uint8_t *> malloc(<size_t> room)
    cdef const void **sources = <const void **> malloc(count * sizeof(void *))
    cdef int32_t *sizes = <int32_t *> malloc(count * sizeof(int32_t))
    try:
        if copy == NULL or out == NULL or sources == NULL or sizes == NULL:
            raise MemoryError
        total = 0
        for i in range(count):
            view = readable(blocks[i])
            if view.size == 0:
                raise ValueError("a block of variable length cannot be empty")
            sizes[i] = <int32_t> view.size
            sources[i] = copy + total
            memcpy(copy + total, view.data, <size_t> sizes[i])
            total += sizes[i]
        # One for each chunk: the library does not forget blocks of variable length.
        with nogil:
            enter_library()
            context = c.blosc2_create_cctx(cparams)
            if context != NULL:
                size = c.blosc2_vlcompress_ctx(context, sources, sizes, count, out, <int32_t> room)
                c.blosc2_free_ctx(context)
            size = leave_library(size)
            leave_reserve()
        if context == NULL and size != NO_MEMORY:
            raise ValueError("the C library does not take these compression parameters")
        if size <= CHUNK_HEADER:
            from blosc2._core.codec.codec import encoding_error

            raise encoding_error(size)
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


MINIMUM_LIBRARY = (3, 3, 5)
cdef int NO_CODEC = -7      # BLOSC2_ERROR_CODEC_SUPPORT

def reason(int code):
    """What a status of this package, or of the C library, says of a chunk."""
    cdef const char *text = chunk_error_text(code)
    if code == NO_MEMORY:
        raise MemoryError(text.decode())
    if text == NULL and code == NO_CODEC:
        return "the C library that is linked here was built without its codec"
    return text.decode() if text != NULL else f"compressed data is damaged ({codec_error_text(code)})"


# ---------------------------------------------------------------- library

cdef extern from "codec/early_zstd.h":  # decoders of formats that no chunk has are not linked
    pass

cdef extern from "codec/library.h" nogil:
    int library_reads_environment()
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


# ---------------------------------------------------------------- interrupts

cdef extern from "codec/interrupts.h" nogil:
    void *new_interruptible(int (*raised)() noexcept)
    c.blosc2_context *interruptible_context(c.blosc2_cparams parameters, void *interrupts)
    void begin_interruptible(void *interrupts, const uint8_t *source)
    bint was_interrupted(void *interrupts)

cdef enum:
    WATCHED = 4 << 20       # a chunk of that many bytes may take a second with a slow codec
    WORTH_A_COPY = 7        # the level from which it is so slow that a copy of the chunk costs nothing

cdef object _handler_raised = None


cdef int _has_raised() noexcept with gil:
    """Handle signals; what a handler raises is kept for `encoding_error`. Only the main thread ever gets any."""
    global _handler_raised
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        _handler_raised = error
        return 1
    return 0


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


cdef int decode_whole_chunk(DecodeContext *context, Chunk *chunk, uint8_t *destination) noexcept nogil:
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


cdef int decode_block(DecodeContext *context, Chunk *chunk, int32_t block, uint8_t *destination) noexcept nogil:
    """The bytes of one loaded block of a chunk whose blocks stand alone."""
    cdef int64_t start = <int64_t> block * chunk.blocksize
    cdef int32_t nbytes = block_bytes(chunk, block), first = 0, stop = 0
    cdef int status, byte = -1
    if chunk.kind == KIND_RAW:
        memcpy(destination, chunk.data + CHUNK_HEADER + start, <size_t> nbytes)
        return CHUNK_OK
    if chunk.kind != KIND_REGULAR:
        return fill(chunk, start, destination, nbytes)
    if is_decoded_here(chunk):
        return decode_here(context, chunk, block, destination)
    status = extent(chunk, block, &first, &stop, &byte)
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
        cdef Py_ssize_t i
        for i in range(min(len(self.filters), len(self.filters_meta))):
            if self.filters[i] and filter_asks_array(self.filters[i], self.filters_meta[i]):
                return True
        return self.codec >= FIRST_PLUGIN

    @property
    def shares_blocks(self):
        """Whether several threads may compress the blocks of one chunk: none needs what another one has."""
        return BLOCK_THREADS and self.clevel and self.blocks_stand_alone

    @property
    def blocks_stand_alone(self):
        """Whether no block needs what another one has, whatever the level."""
        return not (self.use_dict or self.needs_geometry or FILTER_DELTA in self.filters)

    cdef int filter_count(self) except -1:
        return sum([item != 0 for item in self.filters])

    def check(self):
        """Refuse what could not be undone, or what the codec does not have."""
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
    global _handler_raised
    if status == INTERRUPTED:
        error, _handler_raised = _handler_raised, None
        return KeyboardInterrupt() if error is None else error
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
        cparams = encoding.parameters(nbytes)
        # To give the library its blocks is one filter more. It does not take their difference as it should, nor what is
        # no whole item at their end.
        filters = encoding.filter_count()
        watched = (nbytes >= WATCHED and nbytes % cparams.typesize == 0 and cparams.blocksize % cparams.typesize == 0
                   and encoding.codec > CODEC_LZ4 and encoding.blocks_stand_alone
                   and encoding.clevel >= (1 if filters + 1 < SCRIBBLING else WORTH_A_COPY))
        if encoding.clevel and filters + watched >= SCRIBBLING:
            free(self.copy)
            self.copy = <uint8_t *> malloc(max(nbytes, 1))
            if self.copy == NULL:
                raise MemoryError
        if FILTER_NDMEAN in encoding.filters and self.plugin is not None:
            free(self.undone)
            self.undone = <uint8_t *> malloc(max(nbytes, 1))
            if self.undone == NULL:
                raise MemoryError
        cparams.nthreads = threads
        if self.plugin is not None:
            cparams.schunk = self.plugin.schunk
        free(self.interrupts)
        self.interrupts = NULL
        if watched:
            self.interrupts = new_interruptible(_has_raised)
            if self.interrupts == NULL:
                raise MemoryError
        enter_library()
        if self.interrupts != NULL:
            self.cctx = interruptible_context(cparams, self.interrupts)
        else:
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

    cpdef bint is_small(self) noexcept:
        """Whether it holds so little memory that it may wait for the next use."""
        cdef int64_t size = TEMPORARIES * <int64_t> self.blocksize
        if self.copy != NULL:
            size += self.nbytes
        if self.undone != NULL:
            size += self.nbytes
        return size <= KEEP

    def __dealloc__(self):
        free(self.copy)
        free(self.undone)
        self.free_context()
        free(self.interrupts)

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
        if self.interrupts != NULL:
            begin_interruptible(self.interrupts, source)
        share_blocks(threads)
        enter_library()
        status = leave_library(compress_chunk(<c.blosc2_context *> self.cctx, data, self.nbytes, destination, room))
        share_blocks(NULL)
        if self.interrupts != NULL and was_interrupted(self.interrupts):
            self.free_context()
            return INTERRUPTED
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
        """Compress buffers to one chunk, each to a block of its own length."""
        cdef int64_t total
        cdef c.blosc2_cparams cparams
        cdef Encoding encoding = <Encoding> self.encoding
        encoding.check()
        if encoding.clevel == 0:    # the C library cannot read such blocks back with its own codec
            return raw_blocks(blocks)
        if encoding.needs_geometry or FILTER_DELTA in encoding.filters or encoding.filter_count() >= SCRIBBLING:
            raise ValueError("blocks of variable length take up to two filters, none of them DELTA or one of arrays")
        total = vl_total(blocks)
        cparams = encoding.parameters(<int32_t> total)
        cparams.blocksize = 0
        return compress_vl_chunk(cparams, blocks, total)


def decode_bytes(buffer, int64_t largest=MAX_BUFFER, path=None, key=None, offset=None):
    """Decompress one chunk that stands alone; its stored size must be the buffer's.

    `largest` bounds what it may claim to hold.
    """
    cdef Buffer view = readable(buffer)
    cdef Chunk chunk
    cdef int status = inspect_alone(view.data, view.size, &chunk)
    if status == CHUNK_OK and chunk.nbytes > largest:
        status = BAD_LENGTH
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    result = fresh_bytes(chunk.nbytes)
    cdef uint8_t *destination = <uint8_t *> PyBytes_AS_STRING(result)
    cdef DecodeContext *context = borrow(chunk.blocksize)
    try:
        with nogil:
            status = decode_whole_chunk(context, &chunk, destination)
    finally:
        give_back(context)
    if status:
        raise FormatError(reason(status), path=path, key=key, offset=offset)
    return result
