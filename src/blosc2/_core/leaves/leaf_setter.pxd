cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.frame.frame_writer cimport RawKind, RawKinds
from blosc2._core.keys.key_admission cimport KeySet, KnownNames
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.keys.listing cimport KeyListing
from blosc2._core.leaves.leaf_reader cimport LeafReader
from blosc2._core.leaves.store_state cimport GroupCounts, HeldLeaves, PendingFrames, SessionState


cdef class LeafSetter:
    """Sets small leaves of one store; see leaf_setter.pyx."""

    cdef SessionState session
    cdef PendingFrames pending
    cdef HeldLeaves leaves
    cdef object contents, lock, foreign, frame_of
    cdef KnownNames names
    cdef type kind
    cdef int64_t memory_limit
    cdef long process
    cdef GroupCounts counts
    cdef bint tiered
    # Groups in which a leaf is known to lie, with those around them; and groups of pending leaves.
    cdef KeySet parents, groups
    cdef bint stale                 # whether both have to be found again
    cdef bint some_gone             # whether only the former are not known any more
    # The version that is shown.
    cdef long ready             # looked at without the lock first
    cdef KeyTable table
    cdef dict entries
    cdef KeyListing listing
    cdef RawKinds kinds
    cdef int64_t quiet_bytes
    cdef double quiet_until
    # While many are set: the memory that their frames share, how much, what of it is used; whether `kinds` serves them.
    cdef int64_t shared_room, shared_used
    cdef bytes shared
    cdef object shared_source
    cdef bint kinds_serve

    cdef LeafReader reads
    cdef int64_t map_bytes

    cpdef bint remove(self, key) except -1
    cdef bint _remove(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent) except -1
    cdef object _read_pending(self, RawKinds kinds, byte_range)
    cdef bint _is_group(self, str key, const uint8_t *text, Py_ssize_t length) except -1
    cdef int _collect(self) except -1
    cdef Py_ssize_t _parent_of(self, key, const uint8_t **text, Py_ssize_t *length) except -2
    cdef int _recount_all(self) except -1
    cpdef bint set(self, key, value) except -1
    cdef bint _set(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent, cnp.ndarray value) except -1
    cdef bint _change(self, str key, Py_ssize_t parent, bint is_new, bint opens_group, frame, block) except -1
    cdef bint _may_change(self) noexcept
    cdef bint _fits(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent, dict frames,
                    bint *opens_group) except -1
    cdef bint _has_free_groups(self, str key, const uint8_t *text, Py_ssize_t parent, dict frames) except -1
    cdef bint _is_free(self, str key) except -1
    cdef object _frame(self, cnp.ndarray value)
    cdef tuple _shared_frame(self, RawKind kind, cnp.ndarray value)
    cdef bint _is_here(self) noexcept
