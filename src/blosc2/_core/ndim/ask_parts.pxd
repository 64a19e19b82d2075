# cython: cdivision=True, boundscheck=False, wraparound=False
"""Asking for the chunks and blocks of the parts that selections fall into; see ask_ahead.pxd."""

from libc.stdint cimport INT64_MAX, int64_t

from blosc2._core.codec.codec cimport Chunk, DecodeContext
from blosc2._core.frame.ask_chunks cimport find_blocks, is_wanted_whole, want_chunk
from blosc2._core.io.readahead cimport (
    Wanted, begin_asking, end_asking, is_due, is_trusted, note_found, send_early, send_requests)
from blosc2._core.io.steps cimport number_set, state_change, state_set
from blosc2._core.ndim.ask_ahead cimport FEW_BYTES, Touched, batch_of, blocks_of, touch, want_blocks
from blosc2._core.ndim.geometry cimport Grid
from blosc2._core.ndim.grid cimport Ahead, Box, Operation, clip
from blosc2._core.ndim.read_parts cimport Part

cdef enum:
    # Parts that are asked for where all of a file was in memory for long.
    TRIED = 16


cdef inline void box_of_part(const Grid *g, const int64_t *axes, int64_t nchunk, Box *box) noexcept nogil:
    """What a selection takes of a chunk; `axes` has start, step, count and another number for each axis."""
    cdef int64_t c
    cdef int d
    for d in range(g.ndim):
        c = nchunk // g.chunk_strides[d] % g.grid[d]
        clip(axes[4 * d], axes[4 * d + 1], axes[4 * d + 2], c * g.chunks[d], g.chunks[d],
             &box.first[d], &box.count[d], &box.index[d])


cdef inline int64_t same_chunk(const Part *parts, int64_t i, int64_t stop, int64_t nblocks, int64_t *touched) noexcept nogil:
    """Where the parts end that need the chunk of part `i`, and how many blocks one of them touches at most."""
    cdef int64_t nchunk = parts[i].chunk
    touched[0] = 0
    while i < stop and parts[i].chunk == nchunk:
        touched[0] = max(touched[0], nblocks if parts[i].together else parts[i].touched)
        i += 1
    return i


cdef inline bint are_found(Operation self, DecodeContext *context, const Part *parts, const int64_t *axes,
                           int64_t first, int64_t stop) noexcept nogil:
    """Whether some of many parts are in memory, of a file of which all was for long; then the rest is not asked for."""
    cdef Wanted wanted
    cdef int64_t i, part
    begin_asking(self.frame.source, self.frame.source.asking, &wanted)
    wanted.noted = True     # where a read lies cannot be told by some of its parts
    for i in range(TRIED):
        part = first + (stop - first) * i // TRIED
        if self.frame.entry(parts[part].chunk) >= 0:
            want_chunk(self.frame, &wanted, parts[part].chunk, blocks_of(&self.geometry.c), False)
    send_requests(&wanted)
    for i in range(TRIED):
        part = first + (stop - first) * i // TRIED
        if wanted.late == 0:
            want_part(self, &wanted, context, parts, axes, part, part + 1)
    send_requests(&wanted)
    if wanted.late:
        return False
    note_found(wanted.state, False, 1)
    return True


cdef inline void want_part(Operation self, Wanted *wanted, DecodeContext *context, const Part *parts, const int64_t *axes,
                           int64_t first, int64_t stop) noexcept nogil:
    """Want the blocks of parts of one chunk, or all of it."""
    cdef Grid *g = &self.geometry.c
    cdef Touched touched
    cdef Box box
    cdef Chunk chunk
    cdef int64_t i
    if self.frame.entry(parts[first].chunk) < 0 or not find_blocks(self.frame, wanted, parts[first].chunk, context, &chunk):
        return
    for i in range(first, stop):
        box_of_part(g, axes + 4 * parts[i].selection * g.ndim, parts[i].chunk, &box)
        touch(g, &box, axes + 4 * parts[i].selection * g.ndim + 1, 4, &touched)
        want_blocks(self.frame, wanted, parts[i].chunk, &chunk, g, &box,
                    axes + 4 * parts[i].selection * g.ndim + 1, 4, &touched)


cdef inline void ask_for_parts(Operation self, DecodeContext *context, const Part *parts, const int64_t *axes,
                               int64_t first, int64_t stop) noexcept nogil:
    """Ask for what parts need."""
    cdef Grid *g = &self.geometry.c
    cdef Wanted wanted
    cdef int64_t i = first, end, count = 0, nblocks = blocks_of(g)
    cdef bint whole, again = False
    if stop - first > 2 * TRIED and is_trusted(self.frame.source) and are_found(self, context, parts, axes, first, stop):
        return
    begin_asking(self.frame.source, self.frame.source.asking, &wanted)
    while i < stop:
        end = same_chunk(parts, i, stop, nblocks, &count)
        if self.frame.entry(parts[i].chunk) >= 0:
            whole = is_wanted_whole(self.frame, parts[i].chunk, count, nblocks)
            if whole or end - i < stop - first:
                want_chunk(self.frame, &wanted, parts[i].chunk, nblocks, whole)
            again = again or not whole
        i = end
    send_requests(&wanted)
    i = first
    while again and i < stop:
        end = same_chunk(parts, i, stop, nblocks, &count)
        if not is_wanted_whole(self.frame, parts[i].chunk, count, nblocks):
            want_part(self, &wanted, context, parts, axes, i, end)
            send_early(&wanted)
        i = end
    end_asking(&wanted, 1)


cdef inline void begin_parts(Operation self, DecodeContext *context, const Part *parts, const int64_t *axes, int64_t count,
                             int64_t nbytes) noexcept nogil:
    """Ask for the first of some parts, which touch blocks of `nbytes` uncompressed bytes.

    Others do not ask before `resume` is set, which is behind `busy`: then they see what is set here.
    """
    if self.frame.source.asking == NULL or self.frame.cbytes <= FEW_BYTES or count == 0:
        return
    self.ahead.asked = 0
    self.ahead.batch = batch_of(
        &self.ahead, count, <int64_t> (<double> nbytes * self.frame.cbytes / max(self.frame.nbytes, 1)))
    go_on_with_parts(self, context, parts, axes, count)


cdef inline void go_on_with_parts(
        Operation self, DecodeContext *context, const Part *parts, const int64_t *axes, int64_t count) noexcept nogil:
    """Ask for the next parts."""
    cdef Ahead *ahead = &self.ahead
    cdef int64_t first, stop
    if not state_change(&ahead.busy, 0, 1):
        return
    first = ahead.asked
    stop = min(first + ahead.batch, count)
    if first >= stop:
        number_set(&ahead.resume, INT64_MAX)
    else:
        ahead.asked = stop
        number_set(&ahead.resume, first)
        if is_due(self.frame.source.asking):
            ask_for_parts(self, context, parts, axes, first, stop)
    state_set(&ahead.busy, 0)
