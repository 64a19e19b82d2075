# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Filling the hash of a catalog: paths are put into their slots in the order in which they come."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from blosc2._core.io.little_endian cimport put64, u64
from blosc2._core.zip.catalog cimport SLOT_LENGTH, slot_home, slot_tag
from blosc2._core.zip.key_hash cimport next_prefix, prefix_hashes, start_prefixes

cdef extern from "io/prefetch.h" nogil:
    void prefetch(const uint8_t *start, int64_t length)


cdef class PathSlots:
    """Puts paths into slots, some steps after their slots were asked for: those of a large hash are not in a cache."""

    cdef int put(self, uint8_t *slots, int64_t first, int64_t last, int64_t stop, int64_t offset, const uint8_t *key,
                 Py_ssize_t length, Py_ssize_t common) except -1:
        """Put a leaf, and the groups that appear with it, into the slots ``first .. stop``, if their home is before `last`.

        Some wait for a while; `put_all` puts the last ones.
        """
        cdef prefix_hashes state
        cdef uint64_t hashed
        cdef Py_ssize_t at
        start_prefixes(&state, self.seed0, self.seed1)
        for at in range(common, length + 1):
            if at == length or key[at] == 0x2F:
                hashed = next_prefix(&state, key, <size_t> at)
                if first <= slot_home(hashed, self.homes) < last:
                    # Its slot is asked for now, and needed some paths later.
                    prefetch(slots + SLOT_LENGTH * (slot_home(hashed, self.homes) - first), 1)
                    self.put_waiting(slots, first, stop, self.waiting % WAITING)
                    self.waiting_hashes[self.waiting % WAITING], self.waiting_offsets[self.waiting % WAITING] = hashed, offset + 1
                    self.waiting += 1
        return 0

    cdef int put_waiting(self, uint8_t *slots, int64_t first, int64_t stop, int at) except -1:
        """Put a path that waits into its slot."""
        cdef int64_t offset = self.waiting_offsets[at] - 1
        self.waiting_offsets[at] = 0
        return self.put_slot(slots, first, stop, offset, self.waiting_hashes[at]) if offset >= 0 else 0

    cdef int put_all(self, uint8_t *slots, int64_t first, int64_t stop) except -1:
        """Put all paths that wait into their slots, in the order in which they came."""
        cdef int i
        for i in range(WAITING):
            self.put_waiting(slots, first, stop, (self.waiting + i) % WAITING)
        return 0

    cdef int put_slot(self, uint8_t *slots, int64_t first, int64_t stop, int64_t offset, uint64_t hashed) except -1:
        """Put an offset into the first free slot from its home on, of the slots ``first .. stop``."""
        cdef int64_t slot = slot_home(hashed, self.homes)
        while slot < stop - 1:
            if u64(slots + SLOT_LENGTH * (slot - first)) == 0:
                put64(slots + SLOT_LENGTH * (slot - first), slot_tag(hashed) | <uint64_t> (offset + 1))
                return 0
            slot += 1
        raise RuntimeError("the hash of the catalog has a cluster that cannot be")
