from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, int64_t

from blosc2._core.codec.codec cimport Worker

cdef extern from "io/atomics.h" nogil:
    ctypedef long atomic_state

cdef extern from "io/native_thread.h" nogil:
    ctypedef struct cpu_mask:
        pass

# What a thread does with an operation, a worker of its own, and what else it needs.
ctypedef void (*Job)(void *operation, Worker *worker, void *tool) noexcept nogil


cdef struct Hand:
    PyThread_type_lock wake     # released when there is something to do
    PyThread_type_lock done     # released when it is done
    atomic_state state
    Job job
    void *operation
    Worker *worker
    void *tool
    Hand *next                  # among those that are idle
    atomic_state thread         # the system's number for it; 0 until it runs
    bint placed                 # whether it wakes on a CPU that was chosen for it
    cpu_mask allowed            # where it may run from then on


cdef enum:
    MOST_HANDS = 64


cdef struct Crew:
    Worker *worker              # of the thread that calls
    Hand *hands[MOST_HANDS]     # of the others, which have their own
    int count


cdef inline bint is_quick(int64_t stored, int64_t items) noexcept nogil:
    """Whether so many stored bytes are decoded, into so many, sooner than others would be let run meanwhile."""
    return stored <= 4096 and items <= 16384


cdef int gather(Crew *crew, int64_t wanted, void *operation, Job job, int32_t blocksize) except -1
cdef void do_together(Crew *crew, void *operation, Job job, void *tool) noexcept nogil
cdef void disband(Crew *crew) noexcept
cdef void leave_turn() noexcept nogil
cdef void take_turn() noexcept nogil
