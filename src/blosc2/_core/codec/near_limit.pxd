"""Buffers of almost 2 GiB, for which the C library adds sizes in 32 bits, and writes behind its room when they overflow."""

from libc.stdint cimport int32_t, uint8_t

from blosc2._core.codec cimport cblosc2 as c

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
