# cython: cdivision=True, boundscheck=False, wraparound=False
"""Blocks of plain chunks, which own_decoder.h decodes; only `codec` links what that calls."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from blosc2._core.codec.cblosc2 cimport blosc2_unshuffle
from blosc2._core.codec.chunk cimport CHUNK_OK, NO_MEMORY, Chunk, block_bytes
from blosc2._core.codec.chunk_checks cimport CODEC_ZSTD, block_span, decodes_starts, is_split, is_unfiltered
from blosc2._core.codec.codec cimport DecodeContext, reserve

cdef extern from "codec/own_decoder.h" nogil:
    int decode_stream(int codec, void *zstd, const uint8_t **source, const uint8_t *stop, uint8_t *to, int32_t size,
                      int32_t wanted, const uint8_t *next)
    void *ZSTD_createDCtx()
    void ZSTD_freeDCtx(void *context)


cdef inline int streams_of(
        DecodeContext *context, const Chunk *chunk, int32_t block, uint8_t *to, int32_t wanted) noexcept nogil:
    """The streams of one loaded block, one behind the other: its bytes before their filter is undone.

    The first `wanted` bytes of each stream are enough.
    """
    cdef int32_t nbytes = block_bytes(chunk, block)
    cdef int32_t streams = 1
    cdef int32_t start = 0, stop = 0, i
    cdef const uint8_t *source
    cdef const uint8_t *next
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
    next, context.next = context.next, NULL
    for i in range(streams):
        status = decode_stream(chunk.codec, context.zstd, &source, chunk.data + stop, to + <int64_t> i * nbytes, nbytes,
                               min(wanted, nbytes), next if i == streams - 1 else NULL)
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
        return streams_of(context, chunk, block, to, nbytes)
    streams = reserve(&context.unfiltered, &context.unfiltered_size, nbytes)
    if streams == NULL:
        return NO_MEMORY
    status = streams_of(context, chunk, block, streams, nbytes)
    if status == CHUNK_OK:
        blosc2_unshuffle(chunk.typesize, nbytes, streams, to)
    return status
