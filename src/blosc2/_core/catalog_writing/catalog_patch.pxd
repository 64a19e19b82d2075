from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from blosc2._core.keys.gone_ranges cimport GoneRanges
from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.external_sort cimport SortedRuns

cdef extern from "keys/key_match.h" nogil:
    bint last_segment_is(const uint8_t *key, size_t length, const char *name, size_t name_length)


cdef struct Change:
    Text key
    int64_t position            # of the first old leaf that does not come before it
    bint is_there               # whether that is the leaf with this key
    const uint8_t *record       # of a new leaf; NULL says that the key is gone
    int64_t record_length
    uint32_t kind, shape
    uint64_t nbytes, cbytes


cdef struct Piece:
    # Old leaves that stay, or none and a new one.
    int64_t first, stop
    int64_t change              # number of the new one, or -1
    uint32_t appear             # groups that appear with the first of them


cdef inline bint is_hidden(const Text *key) noexcept nogil:
    return last_segment_is(key.bytes, <size_t> key.length, b"__vlmeta__", 10)


cdef inline bint begins_with_group(const Text *key, const uint8_t *group, Py_ssize_t length) noexcept nogil:
    return key.length > length and key.bytes[length] == 0x2F and memcmp(key.bytes, group, <size_t> length) == 0


cdef int64_t write_patched(ArchiveWriter writer, KeyTable old, SortedRuns runs, const GoneRanges *gone, bytes others,
                           int64_t others_count, int64_t embed, int64_t budget) except -2
