# cython: cdivision=True, boundscheck=False, wraparound=False
"""The hash of a table: slots of 64 bits, each a tag and the offset of a record."""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcmp

from blosc2._core.io.endian cimport put64, u16, u64
from blosc2._core.io.memory cimport read_once
from blosc2._core.io.steps cimport flag_set, item_of, number_get, number_set
from blosc2._core.keys.key_order cimport bound_of, end_of_run
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, Entry, KeyTable, Text
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.catalog cimport (
    LEAF_LENGTH, PAGE, SLOT_LENGTH, Leaf, slot_home, slot_offset, slot_tag)
from blosc2._core.zip.key_bytes cimport key_hash
from blosc2._core.zip.records cimport CENTRAL_LENGTH, Record

cdef enum:
    # What a path may stand for.
    LEAF = 1
    GROUP = 2
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
        if table.catalog is not None:
            at = table.catalog.slots_at + SLOT_LENGTH * slot
            if not table.catalog.checked[at // PAGE] and table.catalog.bytes_at(at, SLOT_LENGTH) == NULL:
                return DAMAGED
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


# Keys of an archive on a server: found without a request for each, once the records around them have come.
#
# Alone, the hash needs two requests for a key: a page of slots, and a page of the directory. But the records of a group lie
# one behind the other, and its own slot leads to the first of them. So a part of the directory from there on is fetched when
# the first key of a group is looked up, and the keys in it are remembered; then a leaf of that group is one request, for its
# bytes. Where nobody has asked for a second key of the last groups, that waits until somebody does. A key that lies between
# two of these records, and is none of them, is not there.


cdef enum:
    UNKNOWN = -4
    # Bytes of the directory that are fetched for a group at first, and at most, as keys behind them are asked for.
    WINDOW = 1 << 16
    LARGEST_WINDOW = 1 << 20
    # Groups of which only one key was asked for, from which on the first key of another one is found alone.
    MOST_ALONE = 3
    # Keys that are remembered.
    MOST_NEAR = 1 << 18
    # Positions that are looked at for that of a record, which usually lies where the lengths of others let one expect it.
    MOST_GUESSES = 12


cdef inline bint is_far(KeyTable table) noexcept nogil:
    """Whether looking up a key may take requests."""
    return table.catalog is not None and table.archive.far


cdef inline bint is_near(KeyTable table, const uint8_t *path, Py_ssize_t length):
    """Whether it is known where a key is."""
    return path[:length] in table.near


cdef inline tuple note_records(KeyTable table, int64_t offset):
    """Remember the keys of records from an offset on that are at hand; where they end, and the first and last key."""
    cdef Archive archive = table.archive
    cdef Record record
    cdef Text text
    cdef int64_t length
    cdef const uint8_t *p
    cdef bytes low = None, last = b""
    if len(table.near) > MOST_NEAR:
        table.near.clear()
        table.windows.clear()
    while offset < archive.directory_size - CENTRAL_LENGTH and archive._pages.has(offset, CENTRAL_LENGTH):
        p = archive._directory + offset
        length = CENTRAL_LENGTH + <int64_t> u16(p + 28) + u16(p + 30) + u16(p + 32)
        if not archive._pages.has(offset, length) or not table.record_at(offset, &record, &text):
            break
        last = text.bytes[:text.length]
        table.near[last] = offset
        low = last if low is None else low
        offset += record.length
    return offset, low, last


cdef inline bint widen(KeyTable table, bytes group, int64_t first, int64_t start, int64_t size) except -1:
    """Fetch more records of a group, whose first one is known, and remember what came; False where nothing did."""
    cdef int64_t end
    cdef bytes low, last
    cdef int64_t page = start // PAGE * PAGE
    if not table.archive._pages.need(page, min(size, table.archive.directory_size - page)):
        return False
    end, low, last = note_records(table, start)
    before = item_of(table.windows, group, None) or None
    if start == first:
        low = group     # no key of the group comes before its first one
    elif before is not None:
        low = before[3]     # else what came before was forgotten, as it was too much
    # What lies behind the group is nobody's who asks for it.
    if end <= start or not last.startswith(group + b"/"):
        end = -1
    table.windows[group] = (first, end, size, low, last)
    return True


cdef inline bint waits(KeyTable table, bytes group):
    """Whether a group, nothing of which is known, waits for a second key of it."""
    cdef int64_t alone = number_get(&table.alone)
    if table.windows and number_get(&table.found_near) == 0:
        alone += 1
    elif alone < MOST_ALONE:
        alone = 0
    number_set(&table.alone, alone)
    if alone < MOST_ALONE:
        number_set(&table.found_near, 0)
        return False
    table.windows[group] = ()
    return True


cdef inline int64_t near_offset(KeyTable table, bytes path, Py_ssize_t cut, const uint8_t *p) except -3:
    """The offset of a key below a group by what is known around it; `NO_KEY`, `DAMAGED`, or `UNKNOWN`."""
    cdef int64_t first, end, size
    cdef bytes group = path[:cut], low, last
    window = item_of(table.windows, group, None)
    if window is None and cut + 1 < len(path) and waits(table, group):
        return UNKNOWN
    if not window:
        if window is not None:
            number_set(&table.alone, 0)
            number_set(&table.found_near, 1)
        table.archive._pages.ahead = WINDOW // PAGE     # what the slot leads to comes with what is behind it
        first = probe(table, p, cut, GROUP)
        table.archive._pages.ahead = 0
        if first == DAMAGED:
            return DAMAGED
        if first < 0:
            table.windows[group] = (-1, -1, 0, b"", b"")
            return UNKNOWN
        if not widen(table, group, first, first, WINDOW):
            return DAMAGED
    else:
        first, end, size, low, last = window
        if first < 0 or low is None or path < low:
            return UNKNOWN
        if path <= last:
            return NO_KEY
        if end < 0:
            return UNKNOWN
        if not widen(table, group, first, end, min(2 * size, LARGEST_WINDOW)):
            return DAMAGED
    found = item_of(table.near, path, None)
    if found is not None:
        return found
    window = item_of(table.windows, group, None)
    if not window:      # another thread has forgotten all, as it was too much
        return UNKNOWN
    first, end, size, low, last = window
    return NO_KEY if low is not None and low <= path <= last else UNKNOWN


cdef inline int64_t lookup_far(KeyTable table, const uint8_t *path, Py_ssize_t length, bint by_group) noexcept nogil:
    """What a key stands for, as `KeyTable.lookup` gives it; with `by_group` its neighbours come with it."""
    with gil:
        try:
            return _found(table, path, length, by_group)
        except Exception:       # of memory: the hash needs none
            return probe(table, path, length, LEAF)


cdef inline int64_t _found(KeyTable table, const uint8_t *path, Py_ssize_t length, bint by_group) except -3:
    cdef bytes name = path[:length]
    cdef int64_t offset
    cdef Py_ssize_t cut
    found = item_of(table.near, name, None)
    cut = name.rfind(b"/")
    if found is not None:
        number_set(&table.found_near, 1)
    if found is None and by_group and cut > 0:
        offset = near_offset(table, name, cut, path)
        if offset == NO_KEY or offset == DAMAGED:
            return offset
        found = None if offset < 0 else offset
    if found is not None and table._has_name(Entry(found), path, length):
        return found
    offset = probe(table, path, length, LEAF)
    if offset >= 0:
        note_records(table, offset)
    return offset


# ---------------------------------------------------------------------- positions
cdef inline int64_t position_of(KeyTable table, int64_t offset) noexcept nogil:
    """The position of the leaf whose record is at an offset, in the order; -1 where it was not found."""
    cdef int64_t low = 0, high = table.count, first = table.catalog.first_record, last = table.catalog.own_record, guess, i
    cdef int64_t length = max((last - first) // max(table.count, 1), 1)
    cdef Leaf leaf
    guess = (offset - first) // length
    for i in range(MOST_GUESSES):
        guess = max(low, min(guess, high - 1))
        if low >= high or not table.catalog.leaf(guess, &leaf):
            return -1
        if leaf.offset == offset:
            return guess
        if leaf.offset < offset:
            low = guess + 1
            guess += max((offset - leaf.offset) // length, 1)
        else:
            high = guess
            guess -= max((leaf.offset - offset) // length, 1)
    return -1


cdef inline int64_t far_bound(KeyTable table, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil:
    """What `bound_of` gives, with few requests where that is the begin or the end of a group."""
    cdef int64_t start, stop
    with gil:
        try:
            start = start_of_group(table, prefix, length)
        except Exception:
            start = -1
    if start < 0:
        return bound_of(table, prefix, length, after)
    stop = end_of_run(table, start, table.count, prefix, length) if after else start
    return start if stop < start else stop


cdef inline int64_t start_of_group(KeyTable table, const uint8_t *prefix, Py_ssize_t length) except -3:
    """Where the keys of a group begin in the order; -1 where that has to be searched for.

    The group's first record says so, if the key before that one is none of the group's.
    """
    cdef Text key
    cdef int64_t first, start, count
    cdef bytes text = prefix[:length]
    if length < 2 or prefix[length - 1] != 0x2F:
        return -1
    _found(table, prefix, length, True)     # fetches the records; a key that ends with "/" is none
    window = item_of(table.windows, text[:length - 1], None)
    if not window or window[0] < 0:
        return -1
    first = window[0]
    start = position_of(table, first)
    if start < 0:
        return -1
    count = 1 + WINDOW // max((table.catalog.own_record - table.catalog.first_record) // max(table.count, 1), CENTRAL_LENGTH)
    table.catalog.pages_of.need(start * LEAF_LENGTH, min(count, table.count - start) * LEAF_LENGTH)
    if not table.key(start, &key) or key.length < length or key.bytes[:length] != text:
        return -1
    if start > 0 and (not table.key(start - 1, &key) or key.bytes[:key.length] >= text):
        return -1
    return start
