# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Threads that lend a hand: they run loops of `_core` and know nothing of Python.

Waking one takes some 20 us, a third of what a Python thread takes, which has to be given the GIL as well. They start
when they are first needed, no more of them than the process has other cores, and sleep in between. Whoever has work
gathers a crew, works together with it, and disbands it. A thread that has not begun by the end is not waited for.

Readers that come from Python take turns at the GIL here: see gil_handoff.h.
"""

from blosc2._core.io.forking import in_child

from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_start_new_thread)
from libc.stdlib cimport calloc, free

from blosc2._core.codec.codec cimport borrow, give_back

cdef extern from "io/atomics.h" nogil:
    long state_get(atomic_state *state)
    void state_set(atomic_state *state, long value)
    bint state_change(atomic_state *state, long before, long after)

cdef extern from "io/native_thread.h" nogil:
    void leave_signals_to_others()
    long current_thread()
    void relax()
    bint elsewhere(cpu_mask *allowed, cpu_mask *mask)
    void send_to(long thread, const cpu_mask *mask)

cdef extern from "pythread.h":
    unsigned long PYTHREAD_INVALID_THREAD_ID

cdef extern from "io/gil_handoff.h" nogil:
    void wait_for_turn(atomic_state *taken)

cdef enum:
    IDLE = 0
    POSTED = 1
    BUSY = 2
    PATIENCE = 1000     # some 50 us

# Guarded by the GIL.
cdef Hand *_idle = NULL
cdef int _hands = 0
cdef int _most = 0

# Whether a reader has the GIL, as far as readers know.
cdef atomic_state _turn = 0


def limit(int hands):
    """Have at most so many threads from now on; those that are there stay. Returns the limit before."""
    global _most
    before = _most
    _most = max(hands, 0)
    return before


def count():
    """How many threads were started."""
    return _hands


def forget():
    """In a forked child: the threads stayed with the parent."""
    global _idle, _hands
    # Locks that a lost thread may hold cannot be freed; they are a few bytes.
    _idle = NULL
    _hands = 0
    state_set(&_turn, 0)


cdef void _live(void *argument) noexcept nogil:
    cdef Hand *self = <Hand *> argument
    leave_signals_to_others()
    state_set(&self.thread, current_thread())
    while True:
        PyThread_acquire_lock(self.wake, WAIT_LOCK)
        # The work may have been taken back meanwhile.
        if state_change(&self.state, POSTED, BUSY):
            if self.placed:
                send_to(0, &self.allowed)
            self.job(self.operation, self.worker, self.tool)
            PyThread_release_lock(self.done)


cdef Hand *hire() noexcept:
    """A thread that nobody else uses until `dismiss`, or NULL when there is none to be had; holds the GIL."""
    global _idle, _hands
    cdef Hand *hand = _idle
    if hand != NULL:
        _idle = hand.next
        return hand
    if _hands >= _most:
        return NULL
    hand = <Hand *> calloc(1, sizeof(Hand))
    if hand == NULL:
        return NULL
    hand.wake = PyThread_allocate_lock()
    hand.done = PyThread_allocate_lock()
    if hand.wake != NULL and hand.done != NULL:
        PyThread_acquire_lock(hand.wake, WAIT_LOCK)
        PyThread_acquire_lock(hand.done, WAIT_LOCK)
        if <unsigned long> PyThread_start_new_thread(_live, hand) != PYTHREAD_INVALID_THREAD_ID:
            _hands += 1
            return hand
    if hand.wake != NULL:
        PyThread_free_lock(hand.wake)
    if hand.done != NULL:
        PyThread_free_lock(hand.done)
    free(hand)
    return NULL


cdef void dismiss(Hand *hand) noexcept:
    """Give a finished thread back; holds the GIL."""
    global _idle
    hand.next = _idle
    _idle = hand


cdef int gather(Crew *crew, int64_t wanted, void *operation, Job job, int32_t blocksize) except -1:
    """Get workers, for the caller and up to `wanted` other threads, as far as there are any; holds the GIL.

    `disband` has to follow, also when this raises. Until the work begins, each thread may be given another `tool`.
    """
    cdef Hand *hand
    crew.count = 0
    crew.worker = NULL
    crew.worker = borrow(blocksize)
    while crew.count < min(wanted, MOST_HANDS):
        hand = hire()
        if hand == NULL:
            break
        hand.job, hand.operation, hand.worker, hand.tool = job, operation, NULL, NULL
        crew.hands[crew.count] = hand
        crew.count += 1
        hand.worker = borrow(blocksize)
    return 0


cdef void do_together(Crew *crew, void *operation, Job job, void *tool) noexcept nogil:
    """Do a job in all threads of a crew and in this one, which has just left the GIL."""
    cdef int i
    leave_turn()
    start(crew.hands, crew.count)
    job(operation, crew.worker, tool)
    for i in range(crew.count):
        finish(crew.hands[i])
    take_turn()


cdef void disband(Crew *crew) noexcept:
    """Give back all that was gathered; holds the GIL."""
    cdef int i
    # The last one first: the next crew then has its threads in the same order, with what is in their caches.
    for i in range(crew.count - 1, -1, -1):
        if crew.hands[i].worker != NULL:
            give_back(crew.hands[i].worker)
        dismiss(crew.hands[i])
    if crew.worker != NULL:
        give_back(crew.worker)


cdef void start(Hand **hands, int count) noexcept nogil:
    """Have threads do the jobs that they were given."""
    cdef cpu_mask mask, allowed
    cdef bint placed = count > 0 and elsewhere(&allowed, &mask)
    cdef long thread
    cdef int i
    for i in range(count):
        thread = state_get(&hands[i].thread)
        hands[i].placed = placed and thread > 0     # 0 until it runs
        if hands[i].placed:
            hands[i].allowed = allowed
            send_to(thread, &mask)
        state_set(&hands[i].state, POSTED)
        PyThread_release_lock(hands[i].wake)


cdef void finish(Hand *hand) noexcept nogil:
    """Wait until a thread has done its job, or keep it from beginning."""
    cdef int i
    if state_change(&hand.state, POSTED, IDLE):
        return
    # It mostly ends at about the same time, and being woken takes longer than that.
    for i in range(PATIENCE):
        if PyThread_acquire_lock(hand.done, NOWAIT_LOCK):
            break
        relax()
    else:
        PyThread_acquire_lock(hand.done, WAIT_LOCK)
    state_set(&hand.state, IDLE)


cdef void leave_turn() noexcept nogil:
    """Say, just after the GIL was left, that another reader may have it."""
    state_set(&_turn, 0)


cdef void take_turn() noexcept nogil:
    """Wait, just before the GIL is asked for, until no other reader has it, but not for long."""
    wait_for_turn(&_turn)


in_child(forget)
