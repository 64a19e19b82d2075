# cython: cdivision=True, boundscheck=False, wraparound=False
"""The hash of a table: slots of 64 bits, each a tag and the offset of a record."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from blosc2._core.io.endian cimport put64, u64
from blosc2._core.io.memory cimport read_once
from blosc2._core.io.steps cimport flag_set
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, Entry, KeyTable, Text
from blosc2._core.zip.catalog cimport PAGE, OFFSET_BITS, SLOT_LENGTH, slot_home, slot_offset, slot_tag
from blosc2._core.zip.key_bytes cimport first_match, key_hash

cdef enum:
    # What a path may stand for.
    LEAF = 1
    GROUP = 2
    # Slots that are looked at in one step.
    TRIED = 4
    # Of a catalog's hash, how far behind its home a path may be, and how many slots on the way may have its 24 bits and be of
    # another: with 1.75 homes for each path, a run of 200 taken slots does not come about, nor do three such slots.
    MOST_STEPS = 1024
    MOST_OTHERS = 8
    # Slots that are fetched together from a server: where a page ends within them, the next page comes with it.
    FETCHED = 32


cdef inline int64_t slot_of(KeyTable table, const uint8_t *key, Py_ssize_t length, uint64_t hashed) noexcept nogil:
    """The slot of a key, or the free one where it belongs; of a table in memory."""
    cdef int64_t slot = slot_home(hashed, table.homes)
    cdef uint64_t found, tag = slot_tag(hashed)
    cdef Text text
    while True:
        found = u64(table.slots + SLOT_LENGTH * slot)
        if found == 0:
            return slot
        if slot_tag(found) == tag and table._text(Entry(slot_offset(found)), &text) and text.length == length and memcmp(
                text.bytes, key, length) == 0:
            return slot
        slot += 1


cdef inline int64_t insert(KeyTable table, const uint8_t *key, Py_ssize_t length, Entry entry, uint64_t hashed) noexcept nogil:
    """Add a key; the slot of an equal one if there is one, else -1, and -2 where no slot is left."""
    cdef int64_t slot = slot_of(table, key, length, hashed)
    if u64(table.slots + SLOT_LENGTH * slot):
        return slot
    if slot >= table.slot_count - 1:
        return -2
    put64(table.slots + SLOT_LENGTH * slot, slot_tag(hashed) | <uint64_t> (entry.at + 1))
    table.count += 1
    return -1


cdef inline int kind_of(KeyTable table, Entry entry, const uint8_t *path, Py_ssize_t length) noexcept nogil:
    """What the key that the table has somewhere makes of a path: a key, or a group; 0 neither, -1 if there is no key.

    The slot of a group leads to the first key below it.
    """
    cdef Text key
    cdef int kind
    if not table._text(entry, &key):
        return -1
    kind = LEAF if key.length == length else GROUP if key.length > length and key.bytes[length] == 0x2F else 0
    return kind if kind and memcmp(key.bytes, path, length) == 0 else 0


cdef inline bint bears_tag(KeyTable table, Entry entry, uint64_t tag) noexcept nogil:
    """Whether a slot's 24 bits are those of the key that it leads to, or of a group of that: else one of them is damaged."""
    cdef Text key
    cdef Py_ssize_t at
    if table._text(entry, &key):
        for at in range(1, key.length + 1):
            if (at == key.length or key.bytes[at] == 0x2F) and (
                    slot_tag(key_hash(table.seed0, table.seed1, key.bytes, at)) == tag):
                return True
    flag_set(&table.contradicted)
    return False


cdef inline int64_t probe(KeyTable table, const uint8_t *path, Py_ssize_t length, int kinds) noexcept nogil:
    """Go through the slots of a path from its home on, to that of the key, or of the group, that it is."""
    cdef uint64_t hashed = key_hash(table.seed0, table.seed1, path, length)
    cdef int64_t slot = slot_home(hashed, table.homes), at, stop = table.slot_count
    cdef uint64_t found, tag = slot_tag(hashed)
    cdef Entry entry
    cdef int count, others = 0
    if table.catalog is not None and stop - slot > MOST_STEPS:
        stop = slot + MOST_STEPS
    if table.catalog is not None and table.catalog.far and not table.catalog.pages_of.need(
            table.catalog.slots_at + SLOT_LENGTH * slot, SLOT_LENGTH * min(FETCHED, table.slot_count - slot)):
        return DAMAGED
    while slot < stop:
        count = TRIED if slot + TRIED <= table.slot_count else 1
        if table.catalog is not None:
            at = table.catalog.slots_at + SLOT_LENGTH * slot
            if not (table.catalog.checked[at // PAGE] and table.catalog.checked[(at + SLOT_LENGTH * count - 1) // PAGE]):
                if table.catalog.bytes_at(at, SLOT_LENGTH * count) == NULL:
                    return DAMAGED
        if count == TRIED:
            count = first_match(table.slots + SLOT_LENGTH * slot, tag, OFFSET_BITS)
            if count == TRIED:
                slot += TRIED
                continue
            slot += count
        found = read_once(table.slots + SLOT_LENGTH * slot)
        if found == 0:
            return NO_KEY
        if slot_tag(found) == tag:
            entry = Entry(slot_offset(found))
            if kinds & LEAF and table._has_name(entry, path, length):
                return entry.at
            count = kind_of(table, entry, path, length)
            if count < 0:
                return DAMAGED
            if count & kinds:
                return table._meaning(entry)
            others += 1
            if table.catalog is not None and (others > MOST_OTHERS or not bears_tag(table, entry, tag)):
                return DAMAGED
        slot += 1
    return DAMAGED
