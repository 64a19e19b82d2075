# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""Which keys differ in case only, and which are the same: by 64 bits of a hash each, for millions of them."""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "key_hash.h" nogil:
    uint64_t key_hash(uint64_t seed0, uint64_t seed1, const uint8_t *p, size_t length)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    SHORT = 512

cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


cdef class KeySet:
    """Keys by their hashes; of 2**32 keys, two would be taken for one with a probability of one half.

    Parameters
    ----------
    most : int
        Keys of which it takes note at most, in 8 to 24 bytes each; it knows nothing of further ones.
    """

    cdef uint64_t *slots
    cdef int64_t room, used, most

    def __cinit__(self, int64_t most=1 << 22):
        self.most = most
        self.room = 64
        self.slots = <uint64_t *> PyMem_Calloc(<size_t> self.room, 8)
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.slots)

    def __len__(self):
        return self.used

    cdef int64_t _slot(self, uint64_t hashed) noexcept nogil:
        cdef int64_t slot = <int64_t> (hashed & <uint64_t> (self.room - 1))
        while self.slots[slot] and self.slots[slot] != hashed:
            slot = (slot + 1) & (self.room - 1)
        return slot

    cdef int _grow(self) except -1:
        cdef uint64_t *old = self.slots
        cdef int64_t room = self.room, i
        self.slots = <uint64_t *> PyMem_Calloc(<size_t> (2 * room), 8)
        if self.slots == NULL:
            self.slots = old
            raise MemoryError
        self.room = 2 * room
        for i in range(room):
            if old[i]:
                self.slots[self._slot(old[i])] = old[i]
        PyMem_Free(old)
        return 0

    cdef bint _add(self, uint64_t hashed) except -1:
        """Take note of a hash; whether it was there."""
        cdef int64_t slot = self._slot(hashed)
        if self.slots[slot]:
            return True
        if self.used < self.most:
            self.slots[slot] = hashed
            self.used += 1
            if 3 * self.used > 2 * self.room:
                self._grow()
        return False

    def add(self, str key not None):
        """Take note of a key; whether it was there."""
        return self._add(hash_of(key))

    def __contains__(self, str key not None):
        return self.slots[self._slot(hash_of(key))] != 0

    def add_folded(self, str key not None):
        """Take note of a key without regard to case; whether there was one like it."""
        return self._add(folded_hash(key))

    def add_groups(self, str key not None):
        """Take note of the groups that a key lies in."""
        cdef Py_ssize_t length, at
        cdef const char *text = PyUnicode_AsUTF8AndSize(key, &length)
        # From the innermost one, up to the first that is known: those around it are then known too.
        for at in range(length - 1, 0, -1):
            if text[at] == b"/" and self._add(key_hash(_seed0, _seed1, <const uint8_t *> text, at) | 1):
                break


cdef uint64_t hash_of(str key) except 0:
    cdef Py_ssize_t length
    cdef const char *text = PyUnicode_AsUTF8AndSize(key, &length)
    return key_hash(_seed0, _seed1, <const uint8_t *> text, length) | 1     # 0 is an empty slot


cdef uint64_t folded_hash(str key) except 0:
    """Hash of a key without regard to case."""
    cdef Py_ssize_t length, i
    cdef const char *text
    cdef uint8_t lower[SHORT]
    cdef uint8_t c
    if key.isascii():
        text = PyUnicode_AsUTF8AndSize(key, &length)
        if length <= SHORT:
            for i in range(length):
                c = <uint8_t> text[i]
                lower[i] = c + 32 if 65 <= c <= 90 else c
            return key_hash(_seed0, _seed1, lower, length) | 1
    return hash_of(key.casefold())


def same_folded(keys, str key not None):
    """Those of some keys that are like one without regard to case."""
    cdef uint64_t wanted = folded_hash(key)
    return [other for other in keys if folded_hash(other) == wanted]
