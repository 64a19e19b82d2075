# cython: boundscheck=False, wraparound=False

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcmp

from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.catalog cimport Catalog
from blosc2._core.zip.records cimport Record

# Groups of a table that are removed, and that is not published yet.


cdef enum:
    # Each of them is compared with each key that is looked up.
    MOST_REMOVED = 16


cdef struct RemovedGroups:
    int count
    const uint8_t *texts[MOST_REMOVED]     # with the "/" behind them
    Py_ssize_t lengths[MOST_REMOVED]


cdef inline int fill_removed(RemovedGroups *removed, list prefixes) except -1:
    """Take over the prefixes of groups; whoever gives them keeps them."""
    cdef bytes prefix
    if len(prefixes) > MOST_REMOVED:
        raise ValueError(f"at most {MOST_REMOVED} groups, not {len(prefixes)}")
    removed.count = 0
    for prefix in prefixes:
        removed.texts[removed.count] = <const uint8_t *> PyBytes_AS_STRING(prefix)
        removed.lengths[removed.count] = PyBytes_GET_SIZE(prefix)
        removed.count += 1
    return 0


cdef inline bint is_removed(const RemovedGroups *removed, const uint8_t *path, Py_ssize_t length, bint group) noexcept nogil:
    """Whether a key of the table lies in one of them; or a group, which may be one of them itself."""
    cdef int i
    for i in range(removed.count):
        if length >= removed.lengths[i] - group and memcmp(
                path, removed.texts[i], <size_t> min(length, removed.lengths[i])) == 0:
            return True
    return False


cdef enum:
    # What a look-up finds instead of a key.
    NO_KEY = -1
    DAMAGED = -2
    # A member with another suffix than a leaf's.
    UNKNOWN_SUFFIX = 1 << 20


cdef struct Text:
    const uint8_t *bytes    # UTF-8, without the "/" in front
    Py_ssize_t length


# Where a table has a key: the offset of a record in the directory of its archive, or, of keys that are in no archive, where
# they lie in memory of the table's own. It is a type, so that nobody but the table takes the one for the other: others get
# what a key stands for.
cdef struct Entry:
    int64_t at


@cython.final
cdef class KeyTable:
    cdef readonly Py_ssize_t count
    cdef readonly int64_t tables            # keys whose last segment is that of a description of a table; -1 if not counted
    cdef readonly list unknown_suffixes     # keys of frames under a suffix that is not a leaf's
    cdef readonly dict packed               # keys that another tool has compressed, and their offsets
    cdef readonly list clashes              # keys that members of different suffixes stand for
    cdef readonly dict shadowed             # offsets of members whose key another member stands for
    cdef readonly Archive archive   # whose directory has the keys; None where they lie in memory of the table's own
    cdef Catalog catalog            # None for a table that was made by going through the directory
    cdef uint8_t *own               # keys that are in no archive, each after its length and value
    cdef int64_t own_used, own_room
    cdef uint8_t *slots
    cdef uint8_t *own_slots         # NULL where they are the catalog's, which may be gone before this is freed
    cdef int64_t homes, slot_count
    cdef uint64_t seed0, seed1
    cdef bint _plain_names          # whether its keys are names in a directory as they lie there
    cdef int64_t _paths             # keys and groups, if `sound` has counted them; else -1
    cdef uint8_t contradicted       # whether a name is another one than the catalog has seen
    cdef uint8_t ordered            # whether the names that its catalog leads to were found to be in order
    cdef uint8_t headers_fit        # whether the headers of members were found to bear the names of their records
    cdef uint8_t claims_hold        # whether its catalog's counts were compared with the directory, and its hash, too
    cdef Entry *came                # in the order of the directory, of one without irregular members; or NULL
    cdef Entry *order               # in the order of keys; NULL until needed
    cdef tuple suffixes, skipped
    # The same, where no Python object may be touched.
    cdef const char *suffix_texts[8]
    cdef const char *skipped_texts[8]
    cdef Py_ssize_t suffix_lengths[8]
    cdef Py_ssize_t skipped_lengths[8]
    cdef int suffix_count, skipped_count
    cdef uint64_t skipped_starts[4]     # which bytes skipped names begin with: all others are told at once
    cdef RemovedGroups removed
    cdef readonly tuple removed_groups
    cdef list _removed_prefixes
    cdef dict near                  # offsets of keys whose records came from a server, and what is known of groups: key_slots.pxd
    cdef dict windows
    cdef int64_t alone              # groups one after the other of which only one key was asked for
    cdef int64_t found_near         # whether another one of the last of them was
    cdef KeyTable _instead          # what serves when something of the catalog is wrong; set once

    cdef int64_t lookup(self, const uint8_t *key, Py_ssize_t length) noexcept nogil
    cdef int64_t lookup_group(self, const uint8_t *key, Py_ssize_t length) noexcept nogil
    cdef int64_t lookup_either(self, const uint8_t *path, Py_ssize_t length) noexcept nogil
    cdef bint leaf_at(self, int64_t position, Record *record, Text *text) noexcept nogil
    cdef bint record_at(self, int64_t offset, Record *record, Text *text) noexcept nogil
    cdef bint key(self, int64_t position, Text *text) noexcept nogil
    cdef int64_t record_offset(self, int64_t position) noexcept nogil
    cdef int sort(self) except -1
    cdef int64_t bound(self, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil
    cdef int64_t run_end(self, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) noexcept nogil
    cdef KeyTable instead(self)
    cdef int64_t count_paths(self) except -1

    cdef Entry _entry(self, int64_t position) noexcept nogil
    cdef bint _text(self, Entry entry, Text *text) noexcept nogil
    cdef bint _key_of(self, const Record *record, int64_t offset, Text *text) noexcept nogil
    cdef bint _has_name(self, Entry entry, const uint8_t *key, Py_ssize_t length) noexcept nogil
    cdef int64_t _meaning(self, Entry entry) noexcept nogil
    cdef int _reserve(self, int64_t most) except -1
    cdef int _fill(self) except -1
    cdef int _add_text(self, const uint8_t *key, Py_ssize_t length, int64_t value) except -1
    cdef int _add_irregular(self, int64_t offset) except -1
    cdef int _set_names(self, tuple suffixes, tuple skipped) except -1
    cdef int _suffix(self, const uint8_t *suffix, Py_ssize_t length) noexcept nogil
    cdef int _skips(self, const uint8_t *name, Py_ssize_t length) noexcept nogil
    cdef int _set_removed(self, tuple groups) except -1
