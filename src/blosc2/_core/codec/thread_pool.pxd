from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, int64_t

from blosc2._core.codec.codec cimport DecodeContext
from blosc2._core.io.steps cimport atomic_state

cdef extern from "io/native_thread.h" nogil:
    ctypedef struct cpu_mask:
        pass

# What a worker does for an operation, with a decode context and a tool of its own.
ctypedef void (*Job)(void *operation, DecodeContext *context, void *tool) noexcept nogil


cdef struct Worker:
    PyThread_type_lock wake     # released when there is something to do
    PyThread_type_lock done     # released when it is done
    atomic_state state
    Job job
    void *operation
    DecodeContext *context
    void *tool
    Worker *next                # among those that are idle
    atomic_state thread         # the system's number for it; 0 until it runs
    bint placed                 # whether it wakes on a CPU that was chosen for it
    cpu_mask allowed            # where it may run from then on


cdef enum:
    MOST_WORKERS = 64


cdef struct WorkerGroup:
    DecodeContext *context              # of the thread that calls
    Worker *workers[MOST_WORKERS]       # each has its own context
    int count


cdef inline bint is_quick(int64_t stored, int64_t items) noexcept nogil:
    """Whether decoding so many stored bytes, into so many, takes less time than leaving the GIL to others."""
    return stored <= 4096 and items <= 16384


cpdef bint worth_threads(int64_t work) noexcept
cdef int acquire_group(WorkerGroup *group, int64_t wanted, void *operation, Job job, int32_t blocksize) except -1
cdef void run_in_group(WorkerGroup *group, void *operation, Job job, void *tool, Job first=*) noexcept nogil
cdef void release_group(WorkerGroup *group) noexcept
cdef void start(Worker **workers, int count) noexcept nogil
cdef void finish(Worker *worker) noexcept nogil
cdef void offer_gil() noexcept nogil
cdef void await_gil() noexcept nogil
