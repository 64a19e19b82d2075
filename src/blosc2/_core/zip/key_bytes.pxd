"""The bytes of keys: the hash of a path, with those of all groups above it in one pass; and what a look-up compares."""

from libc.stdint cimport uint8_t, uint64_t

cdef extern from "zip/key_bytes.h" nogil:
    ctypedef struct prefix_hashes:
        pass
    uint64_t key_hash(uint64_t seed0, uint64_t seed1, const uint8_t *p, size_t length)
    void start_prefixes(prefix_hashes *state, uint64_t seed0, uint64_t seed1)
    uint64_t next_prefix(prefix_hashes *state, const uint8_t *p, size_t length)
    bint plain_key(const uint8_t *p, size_t length)
    size_t shared_bytes(const uint8_t *a, const uint8_t *b, size_t most)
    bint last_segment_is(const uint8_t *key, size_t length, const char *name, size_t name_length)
