# cython: boundscheck=False, wraparound=False
"""Keys side by side in the order, which mostly begin alike."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.steps cimport flag_get, flag_set
from blosc2._core.keys.key_order cimport comes_behind, shared
from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.zip.archive cimport check_fetched
from blosc2._core.zip.key_bytes cimport same_bytes


cdef inline bint is_below(const Text *key, bytes prefix, Py_ssize_t length) noexcept:
    """Whether a key goes on behind a prefix, as all of its range do where the order is right."""
    return key.length > length and same_bytes(key.bytes, <const uint8_t *> PyBytes_AS_STRING(prefix), <size_t> length)


cdef inline bint follows(KeyTable table, const Text *key, const uint8_t *before, Py_ssize_t length) noexcept:
    """Whether a key comes behind the one before, if there is one, as it does where a catalog and the names agree."""
    cdef Text last
    if table.catalog is None or before == NULL or flag_get(&table.ordered):
        return True
    last = Text(before, length)
    if comes_behind(&last, key, shared(before, key.bytes, min(length, key.length))):
        return True
    flag_set(&table.contradicted)
    return False


cdef inline void note_order(KeyTable table, bint all) noexcept:
    """All keys of a table were seen, each behind the one before: the next listing need not look at that again."""
    if all:
        flag_set(&table.ordered)


cdef inline Py_ssize_t shared_with(KeyTable table, int64_t position, const Text *key) noexcept nogil:
    """How many bytes a key has in common with that at a position of a table."""
    cdef Text other
    cdef Py_ssize_t i = 0, most
    if not table.key(position, &other):
        return 0
    most = min(key.length, other.length)
    while i < most and key.bytes[i] == other.bytes[i]:
        i += 1
    return i


cdef inline int64_t end_fetched(
        KeyTable table, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) except -1:
    """Where the run of keys ends that begin with a prefix; raises if a server did not send what has to be looked at."""
    cdef int64_t end = table.run_end(start, stop, prefix, length)
    check_fetched(table.archive)
    return end
