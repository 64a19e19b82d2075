# Decode contexts that wait to be used again; see codec.pyx.
from libc.stdint cimport int32_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.io.steps cimport PLACE_BYTES, PLACES, step_begin, step_end, step_lock

cdef enum:
    POOL = 64       # that wait in common
    OWN = 4         # and at the place of a thread


cdef struct Idle:
    step_lock turn
    int count
    int room
    DecodeContext **contexts


cdef struct IdlePlace:
    Idle idle
    DecodeContext *contexts[OWN]
    char apart[PLACE_BYTES]


cdef inline void begin_idle(Idle *common, int room, DecodeContext **contexts, IdlePlace *places) noexcept:
    """Give those in common and those of each place their room."""
    cdef int i
    common.room, common.contexts = room, contexts
    for i in range(PLACES):
        places[i].idle.room, places[i].idle.contexts = OWN, places[i].contexts


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
    fits = idle.count < idle.room
    if fits:
        idle.contexts[idle.count] = context
        idle.count += 1
    step_end(&idle.turn)
    return fits
