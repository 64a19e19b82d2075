from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from blosc2._core.io.sharing cimport Block
from blosc2._core.io.steps cimport number_set, state_get, state_set, step_lock


cdef class SessionState:
    cdef long closed_, ending_, streaming_, asks_, unsure_
    cdef public object transaction
    # The thread that is changing or publishing the store, 0 if none is; how deep it is in that. How many times that began.
    cdef int64_t changer
    cdef int64_t depth, count


# Both are called with the lock of the store.
cdef inline void begin_change(SessionState session) noexcept:
    session.depth += 1
    if session.depth == 1:
        session.count += 1
        number_set(&session.changer, <int64_t> PyThread_get_thread_ident())


cdef inline void end_change(SessionState session) noexcept:
    session.depth -= 1
    if session.depth == 0:
        if state_get(&session.unsure_):
            state_set(&session.asks_, 1)
        number_set(&session.changer, 0)


cdef class HeldLeaves:
    cdef public dict held, handles, edited
    cdef readonly dict collecting
    # Of the steps in which an edit is noted, or edits begin to be refused.
    cdef step_lock noting


cdef class KeyUndo(Block):
    # What each key had: its pending change (... for none), its tier, the handle and the object of its leaf if that is open,
    # and whether the leaf was edited; None for a key without a change whose leaf nobody holds.
    cdef public dict before
    cdef public dict changes        # that were made: if a key has a different one now, another thread set it


cdef class PendingFrames:
    cdef public dict frames, tiers, blocks
    cdef public HeldLeaves leaves
    cdef public object registry
    cdef public tuple removed_groups
    cdef int64_t in_memory_, revision_
    cdef long unwritten_

    cdef bint note_key(self, str key, KeyUndo block) except -1
    cdef int put_frame(self, str key, frame, tier, int64_t nbytes, bint is_new, KeyUndo block) except -1
    cdef object remove_key(self, str key, bint is_published, KeyUndo block)
    cdef object forget_leaf(self, str key)


cdef class GroupCounts:
    cdef dict waiting

    cdef int note(self, str key, Py_ssize_t parent, int change) except -1
