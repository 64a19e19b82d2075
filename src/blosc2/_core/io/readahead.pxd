# cython: cdivision=True, boundscheck=False, wraparound=False
"""Asking for all bytes that a read needs before it begins, so that it waits for the disk once: see doc/design/sources.md.

Of a large read a page of its middle is tried even when nothing is asked for: what was read before it may lie elsewhere, or was
asked for ahead. Whole leaves that are asked for ahead are counted by themselves: reads find them in memory because of that.
"""

from cpython.exc cimport PyErr_SetInterrupt
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport qsort

from blosc2._core.io.memory cimport prefetch
from blosc2._core.io.source cimport ELSEWHERE, NOT_GUESSING, READING_ON, TOLD_RANDOM, AskState, Source
from blosc2._core.io.steps cimport number_get, number_set, state_change, state_get, state_set

cdef extern from "io/readahead.h" nogil:
    const bint B2_ASKS
    int64_t coarse_ms()
    bint ask_for(int fd, const uint8_t *base, int64_t offset, int64_t length)
    int answers_late(int fd)
    long window_of(int64_t device)
    void advise_mapping(const void *start, int64_t length, int advice)
    enum:
        B2_RANDOM
        B2_NORMAL

cdef enum:
    # Bytes of a mapped frame that are brought into the processor's cache when it is opened.
    BROUGHT = 768
    # Reads in a row that found all bytes in memory, before reads go without asking, and for how many ms they do.
    LEAST_STREAK = 32
    UNASKED_MS = 10
    # Bytes of a read that is tried although all before it was in memory.
    TRIED = 1 << 17
    # Requests of one read for each that may be late, because the thread was interrupted. To wait for so few bytes takes no
    # longer than so many requests.
    MANY = 64
    # Byte ranges that are sorted and merged before they are asked for.
    MOST_SPANS = 256
    # Gaps between them that are read, too: a page, or more where the bytes before the gap are four times as many.
    PAGE = 4096
    WIDEST_GAP = 1 << 15
    # Over a network gaps of so many are read, too, as long as all is one request to the server.
    SLOW_GAP = 1 << 16
    ONE_REQUEST = 1 << 17
    # Of bytes on a server, gaps that cost less than a request, though nobody needs them.
    LEAST_GAP = 1 << 12
    # Bytes of a frame that comes as a whole; of another one its first and its last come, where header and tables are.
    WHOLE_FRAME = 1 << 17
    FRAME_HEAD = 5120
    # Bytes of a member's local header besides its name, with what aligns the data.
    LOCAL = 158
    FRAME_TAIL = 1 << 13
    # Files from which on the system is not to guess which bytes of a mapping are needed next.
    GUESSED = 1 << 20
    # Bytes of a mapping behind its leaves that are asked for when the first of them is needed.
    TAIL = 1 << 20
    # Bytes that are asked for ahead of the decoder, at most, and of reads that follow each other at least.
    AHEAD_BYTES = 16 << 20
    NEAR = 1 << 18
    # So many reads that follow each other, with no more than so many bytes between them, are the beginning of more.
    FOLLOWING = 3
    FORWARD = 1 << 20
    # From its first byte to its last a read that others follow has no more than so many times its bytes.
    SPARSE = 4
    # All leaves of a file are likely to be read when so many of its bytes were, in leaves: any in a file of so many MiB,
    # for which a wrong guess costs little; 1/512 for each MiB more, but no more than so many 512ths.
    SMALL_FILE = 64
    MOST_LEAVES = 96
    # KiB that the system must read ahead for it to be faster than requests of our own.
    WIDE_WINDOW = 512


cdef struct Span:
    int64_t start
    int64_t stop


cdef struct Wanted:
    # Byte ranges of one source that are wanted, all of which lie in it.
    int fd
    const uint8_t *base
    int64_t size
    int64_t room
    AskState *state
    bint noted          # whether it was noted where they lie; for leaves that are opened next it is not
    bint left           # whether they are left to the system, which reads on by itself
    bint leaf           # whether they are all chunks of a frame
    long sent           # requests
    long late           # those that took as long as if bytes were not in memory
    void *far           # the source, if its bytes are on a server
    int64_t spare       # bytes that are wanted of a server although nobody needs them yet
    int count
    Span spans[MOST_SPANS]


cdef inline bint is_due(AskState *state) noexcept nogil:
    """Whether to ask before the next read."""
    return state != NULL and (B2_ASKS or state_get(&state.told) == ELSEWHERE) and coarse_ms() >= number_get(&state.until)


cdef inline bint is_missed(Source source, AskState *state, int64_t middle) noexcept nogil:
    """Whether the page in the middle of a large read is not in memory: then reads ask again at once.

    The beginning may be in memory: the system reads on behind a header.
    """
    if state == NULL or source.far or middle < 0 or middle >= source.size or not ask_for(
            source.fd, source.base, middle, min(<int64_t> PAGE, source.size - middle)):
        return False
    number_set(&state.until, 0)
    state_set(&state.streak, 0)
    return True


cdef inline bint is_cold(AskState *state) noexcept nogil:
    """Whether the last bytes that were asked for were not in memory, or none were yet."""
    return state != NULL and state_get(&state.streak) == 0


cdef inline void begin_asking(Source source, AskState *state, Wanted *wanted) noexcept nogil:
    wanted.fd, wanted.base, wanted.size, wanted.state = source.fd, source.base, source.size, state
    wanted.room = source.room
    wanted.noted = state != source.asking
    wanted.left = wanted.leaf = False
    wanted.far = <void *> source if source.far else NULL
    wanted.sent = wanted.late = wanted.spare = 0
    wanted.count = 0


cdef inline int by_start(const void *a, const void *b) noexcept nogil:
    return ((<const Span *> a).start > (<const Span *> b).start) - ((<const Span *> a).start < (<const Span *> b).start)


cdef inline bint join(AskState *state, Span *before, int64_t start, int64_t stop) noexcept nogil:
    """Have a byte range reach as far as another that begins in it or not far behind it."""
    cdef int64_t gap = start - before.stop
    if start >= before.start and state_get(&state.told) == ELSEWHERE:
        if gap > LEAST_GAP and gap > min((before.stop - before.start) // 16, <int64_t> WIDEST_GAP):
            return False
    elif start < before.start or (gap > PAGE and gap > min((before.stop - before.start) // 4, <int64_t> WIDEST_GAP) and not (
            state.slow and gap <= SLOW_GAP and stop - before.start <= ONE_REQUEST)):
        return False
    before.stop = max(before.stop, stop)
    return True


cdef inline bint follows_on(AskState *state, int64_t start, int64_t stop, int64_t forward) noexcept nogil:
    """Note a read, and tell whether reads follow each other: each begins no more than `forward` bytes behind the one before."""
    cdef int64_t last = number_get(&state.last)
    cdef long follows = state_get(&state.follows)
    if start < last <= start + AHEAD_BYTES and follows == FOLLOWING:
        return True     # the same bytes again, or others nearby
    # Some reads between them may have gone without asking.
    if not last <= start <= last + (4 * forward if follows == FOLLOWING else forward):
        follows = 0
        number_set(&state.first, start)
        number_set(&state.onward, 0)
        number_set(&state.ask_at, 0)
    follows = min(follows + 1, <long> FOLLOWING)
    state_set(&state.follows, follows)
    number_set(&state.last, stop)
    return follows == FOLLOWING


cdef inline bint reads_far(const uint8_t *base, AskState *state) noexcept nogil:
    """Whether the system reads so far ahead that it is faster than requests of our own.

    Where that is unknown, it is left alone with positional reads, and not told to read on in a mapping.
    """
    cdef long window = state_get(&state.window)
    if window == 0:
        window = window_of(state.device)
        state_set(&state.window, window)
    return window >= WIDE_WINDOW or (window < 0 and base == NULL)


cdef inline void ask_onward(int fd, const uint8_t *base, int64_t size, AskState *state, int64_t stop) noexcept nogil:
    """Ask for what comes behind reads that follow each other, if half of what was asked for last is reached."""
    cdef int64_t onward = max(number_get(&state.onward), stop)
    cdef int64_t ahead = max(min(stop - number_get(&state.first), <int64_t> AHEAD_BYTES), <int64_t> NEAR)
    cdef int64_t reach = min(stop + ahead, size)
    if stop >= number_get(&state.ask_at):
        number_set(&state.ask_at, stop + ahead // 2 if reach < size else size)
        number_set(&state.onward, reach)
        if reach > onward:
            ask_for(fd, base, onward, reach - onward)


cdef inline bint read_on(
        int fd, const uint8_t *base, int64_t size, int64_t room, AskState *state, bint follows, int64_t stop) noexcept nogil:
    """Have what comes next be read, if that can be told; whether the system does so, and nothing has to be asked for."""
    cdef long told = state_get(&state.told)
    cdef bint scanned = number_get(&state.leaves) > size // 512 * min(max((size >> 20) - SMALL_FILE, 0), <int64_t> MOST_LEAVES)
    cdef bint onward = (follows or scanned) and told != TOLD_RANDOM and reads_far(base, state)
    if base != NULL and state_change(&state.told, NOT_GUESSING if onward else READING_ON, READING_ON if onward else NOT_GUESSING):
        if room >= GUESSED:
            advise_mapping(base, room, B2_NORMAL if onward else B2_RANDOM)
    if onward and (base != NULL or told != NOT_GUESSING):
        return True
    if follows and told != TOLD_RANDOM:
        ask_onward(fd, base, size, state, stop)
    return False


cdef inline void note_spans(Wanted *wanted) noexcept nogil:
    """Note where the bytes of a read lie, by those that it asks for first. Of one that leaves most bytes out nobody can tell
    what comes next."""
    cdef int64_t nbytes = 0, start = wanted.spans[0].start, stop = wanted.spans[wanted.count - 1].stop
    cdef bint follows = False
    cdef int i
    if wanted.noted:
        return
    wanted.noted = True
    if not wanted.leaf:     # who reads parts of arrays is not going to read all leaves whole
        number_set(&wanted.state.leaves, 0)
    for i in range(wanted.count):
        nbytes += wanted.spans[i].stop - wanted.spans[i].start
    if stop - start <= SPARSE * nbytes + FORWARD // 8:
        follows = follows_on(wanted.state, start, stop, FORWARD)
    else:
        state_set(&wanted.state.follows, 0)
    wanted.left = read_on(wanted.fd, wanted.base, wanted.size, wanted.room, wanted.state, follows, stop)


cdef inline void fetch_spans(Wanted *wanted) noexcept nogil:
    """Have a server send what is wanted so far. What goes wrong is told by who reads it."""
    cdef int i
    wanted.sent += 1
    wanted.late += 1
    with gil:
        try:
            (<object> wanted.far).remote.ask(
                [(wanted.spans[i].start, wanted.spans[i].stop) for i in range(wanted.count)], wanted.spare)
        except KeyboardInterrupt:
            PyErr_SetInterrupt()    # for whoever can raise it
        except BaseException:
            pass
    wanted.count = wanted.spare = 0


cdef inline int64_t worth_fetching(Wanted *wanted) noexcept nogil:
    """How many bytes cost no more than one more request; 0 where they are not on a server."""
    if wanted.far == NULL:
        return 0
    with gil:
        try:
            return (<object> wanted.far).remote.worth()
        except KeyboardInterrupt:
            PyErr_SetInterrupt()
        except BaseException:
            pass
    return 0


cdef inline void send_requests(Wanted *wanted) noexcept nogil:
    """Ask for what is wanted so far."""
    cdef int64_t leaves
    cdef int i, kept = 0
    if wanted.count == 0:
        return
    qsort(wanted.spans, <size_t> wanted.count, sizeof(Span), by_start)
    for i in range(1, wanted.count):
        if not join(wanted.state, &wanted.spans[kept], wanted.spans[i].start, wanted.spans[i].stop):
            kept += 1
            wanted.spans[kept] = wanted.spans[i]
    wanted.count = kept + 1
    if wanted.far != NULL:
        fetch_spans(wanted)
        return
    note_spans(wanted)
    if not wanted.left:
        for i in range(wanted.count):
            if ask_for(wanted.fd, wanted.base, wanted.spans[i].start, wanted.spans[i].stop - wanted.spans[i].start):
                wanted.late += 1
        wanted.sent += wanted.count
    if wanted.leaf and (wanted.left or wanted.late):
        leaves = number_get(&wanted.state.leaves) + wanted.spans[wanted.count - 1].stop - wanted.spans[0].start
        number_set(&wanted.state.leaves, leaves if leaves < wanted.size else 0)     # the next time may be another matter
    wanted.count = 0


cdef inline void send_early(Wanted *wanted) noexcept nogil:
    """Ask for what is wanted so far, before more is known. A server waits: what is next to each other is one request."""
    if wanted.far == NULL:
        send_requests(wanted)


cdef inline void want(Wanted *wanted, int64_t offset, int64_t length) noexcept nogil:
    """Add a byte range, as far as it lies in the source."""
    cdef int64_t stop
    if offset < 0 or offset >= wanted.size or length <= 0:
        return
    stop = wanted.size if length > wanted.size - offset else offset + length
    if wanted.count and join(wanted.state, &wanted.spans[wanted.count - 1], offset, stop):
        return
    if wanted.count == MOST_SPANS:
        send_requests(wanted)
    wanted.spans[wanted.count].start = offset
    wanted.spans[wanted.count].stop = stop
    wanted.count += 1


cdef inline void end_asking(Wanted *wanted, long reads) noexcept nogil:
    """Ask for the rest, and take note of whether all was in memory; it counts as so many reads."""
    cdef long streak = 0
    send_requests(wanted)
    if wanted.late <= wanted.sent // MANY:
        streak = min(state_get(&wanted.state.streak) + reads, <long> LEAST_STREAK)
        if streak == LEAST_STREAK:
            number_set(&wanted.state.until, coarse_ms() + UNASKED_MS)
    state_set(&wanted.state.streak, streak)


cdef inline void ask_range(Source source, int64_t offset, int64_t length) noexcept nogil:
    """Ask for one byte range, if now is the time."""
    cdef Wanted wanted
    if is_due(source.asking) or (length >= TRIED and is_missed(source, source.asking, offset + length // 2)):
        begin_asking(source, source.asking, &wanted)
        want(&wanted, offset, length)
        end_asking(&wanted, 1)


cdef inline void ask_near(Source source, int64_t offset) noexcept nogil:
    """Have what comes behind small reads be read that follow each other, as of leaves in the order of their keys.

    Of positional reads the system notices that itself, where it may guess.
    """
    cdef AskState *state = source.asking
    cdef int64_t last
    cdef long told
    cdef bint follows
    if state == NULL:
        return
    told, last = state_get(&state.told), number_get(&state.last)
    if (told != NOT_GUESSING and told != READING_ON) or offset == last:
        return
    if number_get(&state.first) <= offset < number_get(&state.ask_at):
        number_set(&state.last, max(last, offset))
        return
    follows = follows_on(state, offset, offset, NEAR)
    if not follows and told != READING_ON:
        return
    if coarse_ms() < number_get(&state.until) or (
            read_on(source.fd, source.base, source.size, source.room, state, follows, offset)):
        number_set(&state.ask_at, offset + NEAR)


cdef inline void stop_guessing(Source source) noexcept nogil:
    """Have the system read no bytes around those that a mapping is touched at, unless the user has said how it is read.

    It would read up to 8 MiB, for a header of 100 bytes. What is needed is asked for.
    """
    cdef AskState *state = source.asking
    if B2_ASKS and state != NULL and source.base != NULL and not state_get(&state.told):
        state_set(&state.told, NOT_GUESSING)
        if source.room >= GUESSED:
            advise_mapping(source.base, source.room, B2_RANDOM)


cdef inline int64_t want_frame(Wanted *wanted, int64_t offset, int64_t length, int64_t whole) noexcept nogil:
    """Want a frame, or a member, that is on a server: all of it up to so many bytes, both ends of a longer one; how many bytes.

    It is opened by the same bytes, wherever these were asked for.
    """
    if length <= whole:
        want(wanted, offset, length)
        return length
    want(wanted, offset, FRAME_HEAD)
    want(wanted, offset + length - FRAME_TAIL, FRAME_TAIL)
    return FRAME_HEAD + FRAME_TAIL


cdef inline void ask_for_frame(Source source, int64_t offset, int64_t length) noexcept nogil:
    """Ask for a frame, or a member, that is opened: a server for all of a small one, and for both ends of another."""
    cdef Wanted wanted
    if not source.far:
        if source.base != NULL and 0 <= offset < source.size:
            # One wait for memory, and not one for each part of a small frame that is looked at.
            prefetch(source.base + offset, min(length, BROUGHT, source.size - offset))
        ask_near(source, offset)
        return
    begin_asking(source, source.asking, &wanted)
    want_frame(&wanted, offset, length, WHOLE_FRAME)
    end_asking(&wanted, 1)
