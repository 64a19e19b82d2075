# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Checking chunks: each block is decoded once, unless its bytes are known without."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from blosc2._core.codec.block_runs cimport NOT_SPLIT, extent
from blosc2._core.frame.chunk_table cimport ChunkTable
from blosc2._core.codec.codec cimport DecodeContext, borrow, decode_whole, give_back
from blosc2._core.codec.chunk cimport BAD_STREAM, CHUNK_HEADER, CHUNK_OK, KIND_REGULAR, NO_MEMORY, Chunk, block_bytes
from blosc2._core.codec.chunk_checks cimport check_starts, inspect

from blosc2._core.allocation import allowed, too_much
from blosc2.exceptions import FormatError

cdef enum:
    PIECE = 8 << 20         # blocks are decoded as many at a time; larger ones singly
    SHARED = -150           # no status of another module
    UNDECODED = -151


cdef inline void _put(uint8_t *p, int32_t value) noexcept nogil:
    cdef int i
    for i in range(4):
        p[i] = <uint8_t> (<uint32_t> value >> 8 * i)


cdef struct Blocks:
    uint8_t *stored         # a chunk of some of the blocks
    int64_t stored_size
    uint8_t *decoded


cdef int _survey(const Chunk *chunk, bint *runs, bint *zeros) noexcept nogil:
    """Whether all blocks are runs, and of zeros; an error where blocks share bytes, which no writer does."""
    cdef int64_t used = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int32_t i, start = 0, stop = 0
    cdef int byte = -1, status
    runs[0] = zeros[0] = True
    for i in range(chunk.nblocks):
        status = extent(chunk, i, &start, &stop, &byte)
        if status:
            return status
        used += stop - start
        if used > chunk.cbytes:
            return SHARED
        runs[0] = runs[0] and byte >= 0
        zeros[0] = zeros[0] and byte == 0
    return CHUNK_OK


cdef int _check_group(
        DecodeContext *context, const Chunk *chunk, int32_t first, int32_t count, int64_t stored, Blocks *blocks) noexcept nogil:
    """Decode some blocks that follow each other, of these stored bytes, as a chunk of their own.

    The C library takes a step for each block of a chunk to find one, so that large chunks cost the square.
    """
    cdef int64_t size = CHUNK_HEADER + 4 * <int64_t> count + stored
    cdef int64_t position = CHUNK_HEADER + 4 * <int64_t> count
    cdef int32_t i, start = 0, stop = 0, nbytes = 0
    cdef int byte = -1, status
    cdef int32_t blocksize = chunk.blocksize
    cdef Chunk own
    cdef uint8_t *p = blocks.stored
    if blocks.stored_size < size:
        p = <uint8_t *> realloc(blocks.stored, <size_t> size)
        if p == NULL:
            return NO_MEMORY
        blocks.stored = p
        blocks.stored_size = size
    memcpy(p, chunk.data, CHUNK_HEADER)
    for i in range(count):
        # Below a mapping, streams may be longer by now than they were.
        status = extent(chunk, first + i, &start, &stop, &byte)
        if status or stop - start > size - position:
            return status if status else BAD_STREAM
        _put(p + CHUNK_HEADER + 4 * i, <int32_t> position)
        memcpy(p + position, chunk.data + start, <size_t> (stop - start))
        position += stop - start
        nbytes += block_bytes(chunk, first + i)
    if nbytes < blocksize:      # the short last block alone, which is never split
        blocksize = nbytes
        p[2] |= NOT_SPLIT
    _put(p + 4, nbytes)
    _put(p + 8, blocksize)
    _put(p + 12, <int32_t> size)
    status = inspect(p, size, &own)
    if status == CHUNK_OK and (own.kind != KIND_REGULAR or own.nblocks != count or own.variable or own.dictionary):
        status = BAD_STREAM
    if status:
        return status
    own.loaded = size
    return decode_whole(context, &own, blocks.decoded)


cdef int _check_each(DecodeContext *context, const Chunk *chunk, Blocks *blocks) noexcept nogil:
    """Decode each block that is no run once, as many at a time as a piece holds."""
    cdef int32_t i = 0, first, start = 0, stop = 0
    cdef int64_t nbytes, stored
    cdef int byte = -1, status = CHUNK_OK
    while i < chunk.nblocks and status == CHUNK_OK:
        first = i
        nbytes = stored = 0
        while i < chunk.nblocks:
            status = extent(chunk, i, &start, &stop, &byte)
            if status or byte >= 0 or (nbytes and nbytes + chunk.blocksize > PIECE):
                break
            nbytes += block_bytes(chunk, i)
            stored += stop - start
            i += 1
        if status == CHUNK_OK and nbytes:
            status = _check_group(context, chunk, first, i - first, stored, blocks)
        if status == CHUNK_OK and i < chunk.nblocks and byte >= 0:
            i += 1
    return status


cdef int _check(DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Whether a loaded chunk is sound; UNDECODED where only decoding all of it tells."""
    cdef bint runs = False, zeros = False
    cdef Blocks blocks
    cdef int status
    if chunk.kind != KIND_REGULAR:
        return CHUNK_OK
    if chunk.variable or chunk.needs_geometry:
        return UNDECODED
    status = check_starts(chunk)
    if status:
        return status
    if chunk.dictionary:
        return UNDECODED
    status = _survey(chunk, &runs, &zeros)
    if status:
        return status
    if zeros or (runs and not chunk.whole):
        return CHUNK_OK
    if chunk.whole:
        return UNDECODED
    blocks.stored = NULL
    blocks.stored_size = 0
    blocks.decoded = <uint8_t *> malloc(<size_t> min(chunk.nbytes, max(PIECE, chunk.blocksize)))
    if blocks.decoded == NULL:
        return NO_MEMORY
    if chunk.nbytes <= PIECE:
        status = decode_whole(context, chunk, blocks.decoded)
    else:
        status = _check_each(context, chunk, &blocks)
    free(blocks.stored)
    free(blocks.decoded)
    return status


def check_chunk(ChunkTable frame not None, int64_t index):
    """Check that a chunk decodes to its size, and say how many bytes it is stored in.

    Each block is decoded once, a bounded number of bytes at a time; where blocks do not stand alone, all together. Raises
    `FormatError` for a chunk of such blocks that claims more bytes than the rule of allocation gives the file, in a frame
    whose chunks differ in size.
    """
    cdef Chunk chunk
    cdef DecodeContext *context
    cdef int status
    frame.load_index()
    if index < 0 or index >= frame.chunk_count:
        raise IndexError(f"chunk {index} is out of range: there are {frame.chunk_count}")
    context = borrow(frame.blocksize)
    try:
        with nogil:
            status = frame.open_chunk(index, context, &chunk)
            if status == CHUNK_OK and chunk.kind == KIND_REGULAR:
                status = frame.load_chunk(index, context, &chunk)
            if status == CHUNK_OK:
                status = _check(context, &chunk)
    finally:
        give_back(context)
    if status == SHARED:
        raise FormatError(
            f"chunk {index}: its blocks lie upon each other, which no writer does", path=frame.source.path,
            key=frame.key, offset=frame.chunks_start + frame.entry(index))
    if status == UNDECODED:
        # Chunks of one size are as large as any read of the frame makes them; of the others each claims its own.
        most = allowed(frame.file_size) if frame.variable or frame.vlblocks else chunk.nbytes
        if chunk.nbytes > most:
            raise FormatError(too_much(chunk.nbytes, f"chunk {index}", most), path=frame.source.path, key=frame.key,
                              offset=frame.chunks_start + frame.entry(index))
        frame.decode_chunk(index)
    elif status:
        frame.fail(status, index)
    return chunk.cbytes
