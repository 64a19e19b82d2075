# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The thread pool: its workers run loops of `_core` and know nothing of Python (doc/design/reading.md).

Workers start when they are first needed. An operation acquires a group of them, runs in the group and in its own thread, and
releases the group. It does not wait for a worker that has not begun by the end.
"""

from blosc2._core.io.sharing import in_child

from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_start_new_thread)
from libc.stdint cimport INT64_MAX
from libc.stdlib cimport calloc, free

from blosc2._core.codec.codec cimport borrow, give_back
from blosc2._core.io.steps cimport (
    number_get, number_set, state_change, state_get, state_set, step_begin, step_end, step_lock)

cdef extern from "io/native_thread.h" nogil:
    void leave_signals_to_others()
    long current_thread()
    void relax()
    bint elsewhere(cpu_mask *allowed, cpu_mask *mask)
    void send_to(long thread, const cpu_mask *mask)
    void gil_offered(atomic_state *taken)
    void wait_for_gil(atomic_state *taken)

cdef extern from "pythread.h":
    unsigned long PYTHREAD_INVALID_THREAD_ID

cdef enum:
    IDLE = 0
    POSTED = 1
    BUSY = 2
    PATIENCE = 1000     # some 50 us

# Guarded by the GIL, or else by the lock.
cdef step_lock _turn
cdef Worker *_idle = NULL
cdef int _workers = 0
cdef int _most = 0
cdef int64_t _least_shared = INT64_MAX

# Whether a reader has the GIL, as far as readers know.
cdef atomic_state _gil_held = 0


def limit(int workers):
    """Have at most so many threads from now on; those that are there stay. Returns the limit before."""
    global _most
    step_begin(&_turn)
    before, _most = _most, max(workers, 0)
    step_end(&_turn)
    return before


def share_from(int64_t work):
    """Have threads share work from this much on (see `work_of` of `grid_read`). Returns the limit before."""
    before = number_get(&_least_shared)
    number_set(&_least_shared, work)
    return before


cpdef bint worth_threads(int64_t work) noexcept:
    """Whether some work is worth a second thread. Every operation asks here."""
    return work >= number_get(&_least_shared)


def count():
    """How many threads were started."""
    step_begin(&_turn)
    started = _workers
    step_end(&_turn)
    return started


def forget():
    """In a forked child: the threads stayed with the parent."""
    global _idle, _workers
    # Locks that a lost thread may hold cannot be freed; they are a few bytes.
    _idle = NULL
    _workers = 0
    state_set(&_gil_held, 0)


cdef void _live(void *argument) noexcept nogil:
    cdef Worker *self = <Worker *> argument
    leave_signals_to_others()
    state_set(&self.thread, current_thread())
    while True:
        PyThread_acquire_lock(self.wake, WAIT_LOCK)
        # The work may have been taken back meanwhile.
        if state_change(&self.state, POSTED, BUSY):
            if self.placed:
                send_to(0, &self.allowed)
            self.job(self.operation, self.context, self.tool)
            PyThread_release_lock(self.done)


cdef Worker *acquire() noexcept:
    """A worker for this operation alone, until `release`; NULL where none is left. Holds the GIL."""
    global _idle, _workers
    cdef Worker *worker
    cdef bint full = False
    step_begin(&_turn)
    worker = _idle
    if worker != NULL:
        _idle = worker.next
    elif _workers >= _most:
        full = True
    else:
        _workers += 1       # the one that is made now
    step_end(&_turn)
    if worker != NULL or full:
        return worker
    worker = _new_worker()
    if worker == NULL:
        step_begin(&_turn)
        _workers -= 1
        step_end(&_turn)
    return worker


cdef Worker *_new_worker() noexcept:
    cdef Worker *worker = <Worker *> calloc(1, sizeof(Worker))
    if worker == NULL:
        return NULL
    worker.wake = PyThread_allocate_lock()
    worker.done = PyThread_allocate_lock()
    if worker.wake != NULL and worker.done != NULL:
        PyThread_acquire_lock(worker.wake, WAIT_LOCK)
        PyThread_acquire_lock(worker.done, WAIT_LOCK)
        if <unsigned long> PyThread_start_new_thread(_live, worker) != PYTHREAD_INVALID_THREAD_ID:
            return worker
    if worker.wake != NULL:
        PyThread_free_lock(worker.wake)
    if worker.done != NULL:
        PyThread_free_lock(worker.done)
    free(worker)
    return NULL


cdef void release(Worker *worker) noexcept:
    """Give a finished thread back; holds the GIL."""
    global _idle
    step_begin(&_turn)
    worker.next = _idle
    _idle = worker
    step_end(&_turn)


cdef int acquire_group(WorkerGroup *group, int64_t wanted, void *operation, Job job, int32_t blocksize) except -1:
    """Acquire up to `wanted` workers, and a decode context for each and for the caller; holds the GIL.

    `release_group` has to follow, also when this raises. Until the work begins, each worker may get another `tool`.
    """
    cdef Worker *worker
    group.count = 0
    group.context = NULL
    group.context = borrow(blocksize)
    while group.count < min(wanted, MOST_WORKERS):
        worker = acquire()
        if worker == NULL:
            break
        worker.job, worker.operation, worker.context, worker.tool = job, operation, NULL, NULL
        group.workers[group.count] = worker
        group.count += 1
        worker.context = borrow(blocksize)
    return 0


cdef void run_in_group(WorkerGroup *group, void *operation, Job job, void *tool, Job first=NULL) noexcept nogil:
    """Run a job in all workers of a group and in this thread, which has just left the GIL.

    `first` is done by this thread alone before the others are woken, which takes some 20 us.
    """
    cdef int i
    offer_gil()
    if first != NULL:
        first(operation, group.context, tool)
    start(group.workers, group.count)
    job(operation, group.context, tool)
    for i in range(group.count):
        finish(group.workers[i])
    await_gil()


cdef void release_group(WorkerGroup *group) noexcept:
    """Give back the workers and their contexts; holds the GIL."""
    cdef int i
    # The last one first: the next group then has its threads in the same order, with what is in their caches.
    for i in range(group.count - 1, -1, -1):
        if group.workers[i].context != NULL:
            give_back(group.workers[i].context)
        release(group.workers[i])
    if group.context != NULL:
        give_back(group.context)


cdef void start(Worker **workers, int count) noexcept nogil:
    """Have threads do the jobs that they were given."""
    cdef cpu_mask mask, allowed
    cdef bint placed = count > 0 and elsewhere(&allowed, &mask)
    cdef long thread
    cdef int i
    for i in range(count):
        thread = state_get(&workers[i].thread)
        workers[i].placed = placed and thread > 0     # 0 until it runs
        if workers[i].placed:
            workers[i].allowed = allowed
            send_to(thread, &mask)
        state_set(&workers[i].state, POSTED)
        PyThread_release_lock(workers[i].wake)


cdef void finish(Worker *worker) noexcept nogil:
    """Wait until a thread has done its job, or keep it from beginning."""
    cdef int i
    if state_change(&worker.state, POSTED, IDLE):
        return
    # It mostly ends at about the same time, and being woken takes longer than that.
    for i in range(PATIENCE):
        if PyThread_acquire_lock(worker.done, NOWAIT_LOCK):
            break
        relax()
    else:
        PyThread_acquire_lock(worker.done, WAIT_LOCK)
    state_set(&worker.state, IDLE)


cdef void offer_gil() noexcept nogil:
    """Say, just after the GIL was left, that another reader may have it."""
    gil_offered(&_gil_held)


cdef void await_gil() noexcept nogil:
    """Wait, just before the GIL is asked for, until no other reader has it, but not for long."""
    wait_for_gil(&_gil_held)


in_child(forget)
