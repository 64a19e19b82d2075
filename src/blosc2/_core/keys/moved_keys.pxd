# cython: boundscheck=False, wraparound=False
"""The keys of groups that have another name than in their table."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from blosc2._core.keys.moved_groups cimport GONE, MOST_PATH, own_path
from blosc2._core.keys.key_slots cimport probe
from blosc2._core.keys.key_text cimport prefix_of
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, KeyTable, Text


cdef inline int64_t lookup_beside(KeyTable table, const uint8_t *path, Py_ssize_t length, int kinds, bint group) noexcept nogil:
    """What a path stands for in a table some of whose groups are gone."""
    cdef uint8_t own[MOST_PATH]
    cdef Py_ssize_t size = own_path(&table.moved, path, length, group, own)
    if size == GONE:
        return NO_KEY
    return probe(table, own, size, kinds) if size else probe(table, path, length, kinds)


cdef inline bytes own_key(KeyTable table, bytes key):
    """What the table has instead of a key."""
    cdef uint8_t own[MOST_PATH]
    cdef Py_ssize_t size = own_path(
        &table.moved, <const uint8_t *> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), False, own)
    return (<const char *> own)[:size] if size > 0 else key


cdef inline bint moved_text(const Text *key, bytes old, bytes new, uint8_t *to, Py_ssize_t *length) noexcept:
    """The name that a key of a group has now, behind a "/"; False where it is too long."""
    cdef Py_ssize_t start = PyBytes_GET_SIZE(old), size = PyBytes_GET_SIZE(new)
    length[0] = 1 + size + key.length - start
    if key.length < start or length[0] > MOST_PATH:
        return False
    to[0] = 0x2F
    memcpy(to + 1, PyBytes_AS_STRING(new), <size_t> size)
    memcpy(to + 1 + size, key.bytes + start, <size_t> (key.length - start))
    return True


cdef inline int positions_below(KeyTable table, bytes prefix, int64_t *first, int64_t *stop) except -1:
    """Where the keys of a group are in the order; 0 where the catalog is damaged."""
    first[0] = table.bound(<const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix), False)
    stop[0] = table.bound(<const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix), True)
    return first[0] != DAMAGED and stop[0] != DAMAGED


cdef inline KeyTable moved_table(KeyTable base, list keys, KeyTable without):
    """A table of some keys, and of those of a table that have another name now, but for some of these names."""
    cdef KeyTable table = KeyTable.__new__(KeyTable)
    cdef uint8_t text[MOST_PATH]
    cdef int64_t position, first = 0, stop = 0, total = len(keys)
    cdef Py_ssize_t length
    cdef bytes old, new, packed
    cdef Text key
    cdef list ranges = []
    if base.moved.count:
        base.sort()
    for group, name in base.moved_groups:
        if name is not None:
            old, new = prefix_of(group), prefix_of(name)
            if not positions_below(base, old, &first, &stop):
                return moved_table(base.instead(), keys, without)
            ranges.append((old, new, first, stop))
            total += stop - first
    table._reserve(total)
    for one in keys:
        packed = one.encode()
        table._add_text(<const uint8_t *> PyBytes_AS_STRING(packed) + 1, PyBytes_GET_SIZE(packed) - 1, 0)
    for old, new, first, stop in ranges:
        for position in range(first, stop):
            if not base.key(position, &key):
                return moved_table(base.instead(), keys, without)
            if moved_text(&key, old, new, text, &length) and (
                    without is None or without.lookup(text + 1, length - 1) < 0):
                table._add_text(text + 1, length - 1, 0)
    return table
