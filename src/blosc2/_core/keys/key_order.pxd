# cython: cdivision=True, boundscheck=False, wraparound=False
"""The order of keys: that of their UTF-8 bytes, which is that of Python's strings."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from blosc2._core.io.endian cimport u64
from blosc2._core.io.steps cimport address_get, address_set, publish_once
from blosc2._core.keys.keytable cimport DAMAGED, Entry, KeyTable, Text
from blosc2._core.zip.catalog cimport SLOT_LENGTH, slot_offset
from blosc2._core.zip.key_bytes cimport shared_bytes

cdef extern from * nogil:
    """
    /* Sorting keys by their bytes. A merge sort of our own: keys may lie in a file that another process changes meanwhile, and what
     * `qsort` does when the order contradicts itself is not defined. This one then gives another order of the same keys. */
    typedef struct {
        uint64_t first; /* the bytes behind what all keys have in common */
        const uint8_t *bytes;
        int64_t at; /* where the table has the key */
        uint32_t length;
    } b2_sort_item;

    static inline int b2_item_before(const b2_sort_item *a, const b2_sort_item *b, uint32_t skip) {
        int order;
        if (a->first != b->first)
            return a->first < b->first;
        order = memcmp(a->bytes + skip, b->bytes + skip, (a->length < b->length ? a->length : b->length) - skip);
        return order < 0 || (order == 0 && a->length < b->length);
    }

    /* Keys of at least `skip` bytes, which all of them share. `scratch` has room for half of them. */
    static void sort_items(b2_sort_item *items, size_t count, b2_sort_item *scratch, uint32_t skip) {
        size_t half = count / 2, i, j, to;
        b2_sort_item item;
        if (count <= 12) {
            for (i = 1; i < count; i++) {
                item = items[i];
                for (j = i; j > 0 && b2_item_before(&item, &items[j - 1], skip); j--)
                    items[j] = items[j - 1];
                items[j] = item;
            }
            return;
        }
        sort_items(items, half, scratch, skip);
        sort_items(items + half, count - half, scratch, skip);
        if (!b2_item_before(&items[half], &items[half - 1], skip))
            return;
        memcpy(scratch, items, half * sizeof *items);
        for (i = to = 0, j = half; i < half && j < count;) {
            if (b2_item_before(&items[j], &scratch[i], skip))
                items[to++] = items[j++];
            else
                items[to++] = scratch[i++];
        }
        memcpy(items + to, scratch + i, (half - i) * sizeof *items);
    }
    """
    ctypedef struct SortItem "b2_sort_item":
        uint64_t first
        const uint8_t *bytes
        int64_t at
        uint32_t length
    void sort_items(SortItem *items, size_t count, SortItem *scratch, uint32_t skip)


cdef inline uint64_t first_bytes(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Up to 8 bytes as a number whose order is theirs; what is behind the end counts as 0."""
    cdef uint64_t result = 0
    cdef int i
    for i in range(8):
        result = result << 8 | (p[i] if i < length else 0)
    return result


cdef inline bint before_in_order(const Text *a, const Text *b) noexcept nogil:
    """Whether a key comes before another one, and is not the same."""
    cdef int order = memcmp(a.bytes, b.bytes, min(a.length, b.length))
    return order < 0 or (order == 0 and a.length < b.length)


cdef inline Py_ssize_t shared(const uint8_t *a, const uint8_t *b, Py_ssize_t most) noexcept nogil:
    """How many bytes two keys have in common, of the first `most`."""
    return <Py_ssize_t> shared_bytes(a, b, <size_t> most)


cdef inline bint comes_behind(const Text *a, const Text *b, Py_ssize_t common) noexcept nogil:
    """Whether the second of two keys, which have so many bytes in common, comes behind the first."""
    return a.length == common < b.length or (common < a.length and common < b.length and a.bytes[common] < b.bytes[common])


cdef inline int put_in_order(KeyTable table) except -1:
    """Sort the keys of a table without a catalog, once."""
    cdef Entry *order
    cdef SortItem *items
    cdef SortItem *scratch
    cdef int64_t i = 0, slot
    cdef uint64_t found
    cdef Py_ssize_t common = 0
    cdef Text text, one
    cdef bint sorted
    if table.catalog is not None or address_get(&table.order) != NULL:
        return 0
    sorted = table.came != NULL
    if sorted:
        with nogil:
            for i in range(table.count):
                sorted = table._text(table.came[i], &text) and (i == 0 or before_in_order(&one, &text))
                if not sorted:
                    break
                one = text
        if sorted:
            address_set(&table.order, table.came)   # which is the same for all threads
            return 0
        i = 0
    order = <Entry *> PyMem_Malloc(max(1, table.count) * sizeof(Entry))
    items = <SortItem *> PyMem_Malloc(max(1, table.count) * sizeof(SortItem))
    scratch = <SortItem *> PyMem_Malloc(max(1, table.count // 2) * sizeof(SortItem))
    if order == NULL or items == NULL or scratch == NULL:
        PyMem_Free(order)
        PyMem_Free(items)
        PyMem_Free(scratch)
        raise MemoryError
    with nogil:
        for slot in range(table.slot_count):
            found = u64(table.slots + SLOT_LENGTH * slot)
            if found == 0:
                continue
            if i == table.count or not table._text(Entry(slot_offset(found)), &text):
                i = -1
                break
            items[i].bytes, items[i].length, items[i].at = text.bytes, <uint32_t> text.length, slot_offset(found)
            if i == 0:
                one, common = text, text.length
            else:
                common = shared(one.bytes, text.bytes, min(common, text.length))
            i += 1
        if i == table.count:
            for i in range(table.count):
                items[i].first = first_bytes(items[i].bytes + common, items[i].length - common)
            sort_items(items, <size_t> table.count, scratch, <uint32_t> common)
            for i in range(table.count):
                order[i] = Entry(items[i].at)
            i = table.count
    PyMem_Free(items)
    PyMem_Free(scratch)
    if i != table.count:
        PyMem_Free(order)
        raise table._changed()
    with cython.critical_section(table):
        publish_once(&table.order, &order)
    PyMem_Free(order)   # another thread was faster
    return 0


cdef inline int64_t bound_of(KeyTable table, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil:
    """Position of the first key not below a prefix, or of the first one behind all that begin with it."""
    cdef int64_t low = 0, high = table.count, middle
    cdef Text key
    cdef int order
    while low < high:
        middle = (low + high) // 2
        if not table.key(middle, &key):
            return DAMAGED
        order = memcmp(key.bytes, prefix, min(key.length, length))
        if order == 0:
            order = -1 if key.length < length else (-1 if after else 1)
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint shares(KeyTable table, int64_t position, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
    cdef Text key
    return table.key(position, &key) and key.length >= length and memcmp(key.bytes, prefix, length) == 0


cdef inline int64_t end_of_run(
        KeyTable table, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
    """Where the run of keys that begin with a prefix ends, if it begins at `start`."""
    cdef int64_t low = start, high, step = 1
    if start >= stop or not shares(table, start, prefix, length):
        return start
    low += 1
    # Steps that double first: runs are short more often than not.
    while low + step < stop and shares(table, low + step, prefix, length):
        low += step
        step *= 2
    high = min(stop, low + step)
    while low < high:
        if shares(table, (low + high) // 2, prefix, length):
            low = (low + high) // 2 + 1
        else:
            high = (low + high) // 2
    return low
