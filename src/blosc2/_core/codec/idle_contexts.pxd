# Decode contexts, and how they wait to be used again; see codec.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from blosc2._core.codec cimport cblosc2 as c
from blosc2._core.codec.codec cimport CACHED_BLOCKS, DecodeContext
from blosc2._core.codec.plain_chunks cimport ZSTD_freeDCtx
from blosc2._core.io.steps cimport step_begin, step_end, step_lock

cdef extern from "codec/library_memory.h" nogil:
    void leave_reserve()

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
