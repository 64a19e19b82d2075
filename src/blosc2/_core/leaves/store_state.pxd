from libc.stdint cimport int64_t


cdef class SessionState:
    """Whether a store may be changed now; see store_state.pyx."""

    cdef long closed_, ending_, streaming_, asks_
    cdef object transaction_


cdef class PendingFrames:
    """The new frames of a store; see store_state.pyx."""

    cdef dict frames_, tiers_, blocks_
    cdef int64_t in_memory_, revision_


cdef class HeldLeaves:
    """The leaves of a store that somebody holds; see store_state.pyx."""

    cdef dict held_, edited_
    cdef object handles_


cdef class GroupCounts:
    """Counts leaves below groups; see store_state.pyx."""

    cdef dict waiting

    cdef int note(self, str key, Py_ssize_t parent, int change) except -1
