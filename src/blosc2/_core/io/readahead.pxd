# cython: cdivision=True, boundscheck=False, wraparound=False
"""Asking for all bytes that a read needs before it begins, so that it waits for the disk once and not once for each block.

Of bytes that are in memory nobody needs to ask. How long the system takes for a request tells whether they were. After
32 requests in a row for which they were, as many reads go without asking, and twice as many after each request that finds
the same, up to 1,024, for 10 ms at most. The first bytes that were not in memory end that. Whole leaves that are asked for
ahead are counted by themselves: reads find them in memory because they were asked for. Of a read of many parts only some
are asked for, once all requests have found the same for so long that 1,024 reads go without. So reading from memory costs nothing
that can be measured, and of a file that is half in memory no read goes without.

Of reads that follow each other the system brings what comes next; then nothing is asked for. They count as found in
memory, though nobody knows whether they were: asking would gain them nothing. The same holds for whole leaves in any order
when so many of a file were read that all are likely to be: what the system reads around one of them is needed later.
"""

from cpython.exc cimport PyErr_SetInterrupt
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport qsort

from blosc2._core.io.source cimport ELSEWHERE, NOT_GUESSING, READING_ON, SCANS, TOLD_RANDOM, AskState, Scan, Source
from blosc2._core.io.steps cimport number_get, number_set, state_change, state_get, state_set

cdef extern from "io/readahead.h" nogil:
    const bint B2_ASKS
    int64_t coarse_ms()
    int64_t fine_ns()
    bint ask_for(int fd, const uint8_t *base, int64_t offset, int64_t length)
    bint drops_requests(int fd)
    long window_of(int64_t device)
    void advise_mapping(const void *start, int64_t length, int advice)
    enum:
        B2_RANDOM
        B2_NORMAL

cdef extern from "io/prefetch.h" nogil:
    void prefetch(const uint8_t *start, int64_t length)

cdef enum:
    # Bytes of a mapped frame that are brought into the processor's cache when it is opened.
    BROUGHT = 768
    # Requests in a row that found all bytes in memory, before reads go without, how many do, and for how many ms.
    LEAST_STREAK = 32
    FEW_MORE = 8
    MOST_UNASKED = 1024
    UNASKED_MS = 10
    # Requests of one read for each that may be late. To wait for so few bytes takes no longer than so many requests.
    MANY = 64
    # Byte ranges that are sorted and merged before they are asked for.
    MOST_SPANS = 256
    # Gaps between them that are read, too: a page, or more where the bytes before the gap are four times as many.
    PAGE = 4096
    WIDEST_GAP = 1 << 15
    # Where bytes come later than that, gaps of so many are read, too, as long as all is one request to the server.
    LATE_NS = 1500000
    STAYS_SLOW = 16
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
    # Bytes that are asked for where small reads follow each other, in which such a read may begin.
    NEAR = 1 << 18
    # Files up to this size are asked for as a whole then, and once.
    ALL_NEAR = 1 << 20
    # Bytes of a mapping behind its leaves that are asked for when the first of them is needed.
    TAIL = 1 << 20
    # Bytes that are asked for ahead of the decoder.
    AHEAD_BYTES = 16 << 20
    # So many requests that follow each other, with no more than so many bytes between them, are taken for the beginning
    # of more.
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
    Scan *scan          # the reads that they belong to
    bint noted          # whether it was noted where they lie; for leaves that are opened next it is not
    bint left           # whether they are left to the system, which reads on by itself
    long sent           # requests
    long late           # those that took as long as if bytes were not in memory
    bint leaf           # whether they are all chunks of a frame
    void *far           # the source, if its bytes are on a server
    int count
    Span spans[MOST_SPANS]


cdef inline bint is_due(AskState *state) noexcept nogil:
    """Whether to ask before the next read."""
    cdef long left
    if state == NULL or not (B2_ASKS or state_get(&state.told) == ELSEWHERE):
        return False
    left = state_get(&state.unasked)
    if left <= 0:
        return True
    if coarse_ms() >= state_get(&state.until):
        state_set(&state.unasked, 0)
        return True
    state_set(&state.unasked, left - 1)
    return False


cdef inline bint goes_without(AskState *state) noexcept nogil:
    """Whether the next read need not ask; only every eighth looks at the clock for that."""
    cdef long left = state_get(&state.unasked)
    if left <= 0 or (left & 7 == 0 and coarse_ms() >= state_get(&state.until)):
        return False
    state_set(&state.unasked, left - 1)
    return True


cdef inline bint is_cold(AskState *state) noexcept nogil:
    """Whether the last bytes that were asked for were not in memory, or none were yet."""
    return state != NULL and state_get(&state.streak) == 0


cdef inline bint is_trusted(Source source) noexcept nogil:
    """Whether all bytes of a file were in memory for long."""
    return not source.far and state_get(&source.asking.streak) == MOST_UNASKED


cdef inline void begin_asking(Source source, AskState *state, Wanted *wanted) noexcept nogil:
    wanted.fd, wanted.base, wanted.state = source.fd, source.base, state
    wanted.size, wanted.room = source.size, source.room
    wanted.noted = state != source.asking
    wanted.far = <void *> source if source.far else NULL
    wanted.scan = NULL
    wanted.left = wanted.leaf = False
    wanted.sent = wanted.late = 0
    wanted.count = 0


cdef inline bint is_absent(const Wanted *wanted) noexcept nogil:
    """Whether bytes were not in memory; of very many requests some are late only because the thread was interrupted."""
    return wanted.late > wanted.sent // MANY


cdef inline int by_start(const void *a, const void *b) noexcept nogil:
    return ((<const Span *> a).start > (<const Span *> b).start) - ((<const Span *> a).start < (<const Span *> b).start)


cdef inline void note_wait(AskState *state, int64_t since) noexcept nogil:
    """Take note of how long it took until bytes came that were asked for; a long wait counts for some more."""
    cdef long slow
    if state == NULL:
        return
    slow = state_get(&state.slow)
    if fine_ns() - since > LATE_NS:
        state_set(&state.slow, STAYS_SLOW)
    elif slow:
        state_set(&state.slow, slow - 1)


cdef inline bint join(AskState *state, Span *before, int64_t start, int64_t stop) noexcept nogil:
    """Have a byte range reach as far as another that begins in it or not far behind it."""
    cdef int64_t gap = start - before.stop
    if start >= before.start and state_get(&state.told) == ELSEWHERE:
        if gap > LEAST_GAP and gap > min((before.stop - before.start) // 16, <int64_t> WIDEST_GAP):
            return False
    elif start < before.start or (gap > PAGE and gap > min((before.stop - before.start) // 4, <int64_t> WIDEST_GAP) and not (
            state_get(&state.slow) and gap <= SLOW_GAP and stop - before.start <= ONE_REQUEST)):
        return False
    before.stop = max(before.stop, stop)
    return True


cdef inline Scan *scan_of(AskState *state, int64_t start) noexcept nogil:
    """The reads that one follows, or goes back among; else those that it begins, in the place of others."""
    cdef int64_t last
    cdef long i
    for i in range(SCANS):
        last = number_get(&state.scans[i].last)
        if last <= start <= last + FORWARD or (
                start < last <= start + AHEAD_BYTES and state_get(&state.scans[i].follows) == FOLLOWING):
            return &state.scans[i]
    i = (state_get(&state.replaced) + 1) % SCANS
    state_set(&state.replaced, i)
    state_set(&state.scans[i].follows, 0)
    number_set(&state.scans[i].last, start)
    return &state.scans[i]


cdef inline bint follows_on(AskState *state, Scan *scan, int64_t start, int64_t stop, int64_t nbytes) noexcept nogil:
    """Note where the bytes of a read lie, `nbytes` of them, and tell whether reads follow each other, as of leaves in order.

    Of a read that leaves most bytes out nobody can tell what comes next.
    """
    cdef long follows = state_get(&scan.follows), i
    if stop - start > SPARSE * nbytes + FORWARD // 8:
        for i in range(SCANS):
            state_set(&state.scans[i].follows, 0)
        follows = 0
    elif start < number_get(&scan.last):
        return True     # the same bytes again, or others nearby
    else:
        follows = min(follows + 1, <long> FOLLOWING)
    number_set(&scan.last, stop)
    state_set(&scan.follows, follows)
    return follows == FOLLOWING


cdef inline bint some_follow(AskState *state) noexcept nogil:
    """Whether there are reads that follow each other."""
    cdef int i
    for i in range(SCANS):
        if state_get(&state.scans[i].follows) == FOLLOWING:
            return True
    return False


cdef inline bint system_guesses(const uint8_t *base, AskState *state) noexcept nogil:
    """Whether the system looks for reads that follow each other by itself."""
    cdef long told = state_get(&state.told)
    return told != NOT_GUESSING and told != TOLD_RANDOM and (base == NULL or told != 0)


cdef inline bint reads_far(const uint8_t *base, AskState *state) noexcept nogil:
    """Whether the system reads so far ahead that it is faster than requests of our own.

    Where that is unknown, it is left alone with positional reads, and not told to read on in a mapping.
    """
    cdef long window = state_get(&state.window)
    if window == 0:
        window = window_of(state.device)
        state_set(&state.window, window)
    return window >= WIDE_WINDOW or (window < 0 and base == NULL)


cdef inline void tell_to_read_on(const uint8_t *base, int64_t room, AskState *state, bint onward) noexcept nogil:
    """Have the system read ahead of a mapping by itself, as long as reads follow each other; or no longer."""
    if state_change(&state.told, NOT_GUESSING if onward else READING_ON, READING_ON if onward else NOT_GUESSING):
        if room >= GUESSED:
            advise_mapping(base, room, B2_NORMAL if onward else B2_RANDOM)


cdef inline void ask_onward(int fd, const uint8_t *base, int64_t size, Scan *scan, int64_t stop) noexcept nogil:
    """Ask for what comes behind the bytes that are needed, if half of what was asked for last is reached."""
    cdef int64_t onward = number_get(&scan.onward), reach = min(stop + AHEAD_BYTES, size)
    if onward > stop + AHEAD_BYTES:     # of another part of the file
        onward = stop
    if onward - stop > AHEAD_BYTES // 2:
        return
    onward = max(onward, stop)
    number_set(&scan.onward, reach)
    if reach > onward:
        ask_for(fd, base, onward, reach - onward)


cdef inline bint is_scanned(const uint8_t *base, int64_t size, AskState *state) noexcept nogil:
    """Whether so many leaves of a file were read whole that the system is to read around them."""
    return (number_get(&state.leaves) > size // 512 * min(max((size >> 20) - SMALL_FILE, 0), <int64_t> MOST_LEAVES)
            and state_get(&state.told) != TOLD_RANDOM and reads_far(base, state))


cdef inline void note_leaf(AskState *state, int64_t nbytes, int64_t size) noexcept nogil:
    """Take note of a whole leaf that was not in memory, or may not have been."""
    cdef int64_t leaves = number_get(&state.leaves) + nbytes
    number_set(&state.leaves, leaves if leaves < size else 0)   # the next time may be another matter


cdef inline bint reads_on(Wanted *wanted, int64_t start, int64_t stop, int64_t nbytes) noexcept nogil:
    """Note where the bytes of a read lie, and see to it that those behind them are read where reads follow each other.

    Whether the system does that, so that nothing has to be asked for. What it reads by itself costs half as much time as
    what it is asked for, because it takes larger pages.
    """
    cdef AskState *state = wanted.state
    wanted.scan = scan_of(state, start)
    if not follows_on(state, wanted.scan, start, stop, nbytes):
        if is_scanned(wanted.base, wanted.size, state):
            if wanted.base != NULL:
                tell_to_read_on(wanted.base, wanted.room, state, True)
            return system_guesses(wanted.base, state)
        if state_get(&state.told) == READING_ON and not some_follow(state):
            tell_to_read_on(wanted.base, wanted.room, state, False)
        return False
    if state_get(&state.told) != TOLD_RANDOM and reads_far(wanted.base, state):
        if wanted.base != NULL:
            tell_to_read_on(wanted.base, wanted.room, state, True)
        if system_guesses(wanted.base, state):
            return True
    ask_onward(wanted.fd, wanted.base, wanted.size, wanted.scan, stop)
    return False


cdef inline void note_spans(Wanted *wanted) noexcept nogil:
    """Note where the bytes of a read lie, by those that it asks for first; others follow them."""
    cdef int64_t nbytes = 0, stop = wanted.spans[wanted.count - 1].stop
    cdef int i
    if wanted.noted:
        if wanted.scan != NULL and stop > number_get(&wanted.scan.last):
            number_set(&wanted.scan.last, stop)
        return
    wanted.noted = True
    if not wanted.leaf:     # who reads parts of arrays is not going to read all leaves whole
        number_set(&wanted.state.leaves, 0)
    for i in range(wanted.count):
        nbytes += wanted.spans[i].stop - wanted.spans[i].start
    wanted.left = reads_on(wanted, wanted.spans[0].start, stop, nbytes)


cdef inline void fetch_spans(Wanted *wanted) noexcept nogil:
    """Have a server send what is wanted so far. What goes wrong is told by who reads it."""
    cdef int i
    wanted.sent += 1
    wanted.late += 1
    with gil:
        try:
            (<object> wanted.far).remote.ask([(wanted.spans[i].start, wanted.spans[i].stop) for i in range(wanted.count)])
        except KeyboardInterrupt:
            PyErr_SetInterrupt()    # for whoever can raise it
        except BaseException:
            pass
    wanted.count = 0


cdef inline void send_requests(Wanted *wanted) noexcept nogil:
    """Ask for what is wanted so far."""
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
    if wanted.leaf and (wanted.left or is_absent(wanted)):
        note_leaf(wanted.state, wanted.spans[wanted.count - 1].stop - wanted.spans[0].start, wanted.size)
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


cdef inline void note_found(AskState *state, bint absent, long requests) noexcept nogil:
    """Take note of whether bytes that were asked for were in memory."""
    cdef long streak = state_get(&state.streak)
    if absent:
        # After so many that were in memory it may be that the thread only had to wait for a processor.
        streak = LEAST_STREAK - FEW_MORE if streak == MOST_UNASKED else 0
    else:
        streak += requests
        if streak > LEAST_STREAK:
            streak = min(2 * streak, <long> MOST_UNASKED)
    state_set(&state.streak, streak)
    if streak >= LEAST_STREAK:
        state_set(&state.until, <long> (coarse_ms() + UNASKED_MS))
        state_set(&state.unasked, streak)


cdef inline void end_asking(Wanted *wanted, long requests) noexcept nogil:
    """Ask for the rest; all of it counts as so many requests."""
    send_requests(wanted)
    note_found(wanted.state, is_absent(wanted), requests)


cdef inline void ask_range(Source source, int64_t offset, int64_t length) noexcept nogil:
    """Ask for one byte range, if now is the time."""
    cdef Wanted wanted
    if not is_due(source.asking) or offset < 0 or offset >= source.size or length <= 0:
        return
    length = min(length, source.size - offset)
    begin_asking(source, source.asking, &wanted)
    if source.far:
        want(&wanted, offset, length)
        end_asking(&wanted, 1)
    elif not reads_on(&wanted, offset, offset + length, length):
        note_found(source.asking, ask_for(source.fd, source.base, offset, length), 1)


cdef inline void look_whether_still(Source source, int64_t offset) noexcept nogil:
    """Notice it when a small read is no longer one of those that follow each other."""
    cdef AskState *state = source.asking
    cdef Scan *scan = scan_of(state, offset)
    if offset - number_get(&scan.last) > NEAR:
        number_set(&scan.last, offset)
    if not some_follow(state) and not is_scanned(source.base, source.size, state):
        tell_to_read_on(source.base, source.room, state, False)


cdef inline void ask_near(Source source, int64_t offset) noexcept nogil:
    """Read on where small reads follow each other, as of leaves in the order of their keys.

    If the system guesses it notices that itself.
    """
    cdef AskState *state = source.asking
    cdef int64_t near, ready
    if state == NULL:
        return
    if system_guesses(source.base, state):
        if state_get(&state.told) == READING_ON:
            look_whether_still(source, offset)
        return
    near, ready = number_get(&state.near), number_get(&state.ready)
    if near <= offset < ready:
        return
    if near < offset and offset - max(near, ready) < NEAR:
        if source.size <= ALL_NEAR:
            number_set(&state.near, 0)
            number_set(&state.ready, source.size)
            ask_range(source, 0, source.size)
            return
        number_set(&state.ready, offset + NEAR)
        ask_range(source, offset, NEAR)
    else:
        number_set(&state.ready, offset)
    number_set(&state.near, offset)


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
