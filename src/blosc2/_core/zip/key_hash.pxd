"""The hash of a path, which catalogs have in slots; those of all groups above a key are found in one pass."""

from libc.stdint cimport uint8_t, uint64_t

cdef extern from "zip/key_hash.h" nogil:
    ctypedef struct prefix_hashes:
        pass
    uint64_t key_hash(uint64_t seed0, uint64_t seed1, const uint8_t *p, size_t length)
    void start_prefixes(prefix_hashes *state, uint64_t seed0, uint64_t seed1)
    uint64_t next_prefix(prefix_hashes *state, const uint8_t *p, size_t length)
