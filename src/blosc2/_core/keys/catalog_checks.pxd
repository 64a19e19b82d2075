# cython: cdivision=True, boundscheck=False, wraparound=False
"""Whether what a catalog says of keys is what the directory says."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from blosc2._core.io.memory cimport prefetch, read_once
from blosc2._core.io.steps cimport number_get
from blosc2._core.keys.key_order cimport comes_behind, shared
from blosc2._core.keys.key_slots cimport GROUP, LEAF, MOST_OTHERS, MOST_STEPS, kind_of
from blosc2._core.keys.keytable cimport UNKNOWN_SUFFIX, Entry, KeyTable, Text
from blosc2._core.keys.own_headers cimport OwnHeader, holds_frame, read_own_header
from blosc2._core.zip.catalog cimport Leaf, SLOT_LENGTH, describes_table, slot_home, slot_offset, slot_tag, stem_length
from blosc2._core.zip.records cimport Member, Record
from blosc2._core.zip.key_bytes cimport key_hash, last_segment_is, next_prefix, prefix_hashes, start_prefixes


cdef enum:
    AT_ONCE = 16
    # Leaves below each other that are looked for: groups that are named like leaves are rare.
    MOST_NAMED = 32


cdef struct Walk:
    int64_t end             # where the records of leaves end
    int64_t paths           # keys and groups
    int64_t others          # how many slots of other paths may still be met
    # What the catalog claims is counted, too: `claims` says whether that is right so far.
    bint claims
    int64_t groups, hidden, tables, undescribed
    Py_ssize_t[MOST_NAMED] named    # lengths of the shown leaves that the key before begins with
    int names


cdef inline bint leads_to(
        KeyTable table, uint64_t hashed, const Text *path, int kind, int64_t offset, Walk *walk) noexcept nogil:
    """Whether the hash of a catalog, whose pages hold, leads from a path to an offset, whose record has it."""
    cdef int64_t slot = slot_home(hashed, table.homes)
    cdef int64_t stop = min(table.slot_count, slot + MOST_STEPS)
    cdef uint64_t found, tag = slot_tag(hashed)
    cdef Entry entry
    cdef int other, twins = 0
    for slot in range(slot, stop):
        found = read_once(table.slots + SLOT_LENGTH * slot)
        if found == 0:
            return False
        if slot_tag(found) != tag:
            continue
        entry = Entry(slot_offset(found))
        if entry.at != offset:
            # Of a path that is a leaf and a group, the slot of the one may come before that of the other.
            other = kind_of(table, entry, path.bytes, path.length)
            if other < 0 or other & kind:
                return False
            twins += 1
            if other == 0 or twins > 1:
                walk.others -= 1
            if walk.others < 0:
                return False
            continue
        return True
    return False


cdef inline bint groups_fit(KeyTable table, const Text *key, Py_ssize_t common, int64_t offset, Walk *walk) noexcept nogil:
    """Whether the groups that appear with a key, which has `common` bytes from the one before, are found by the hash."""
    cdef Py_ssize_t at
    cdef prefix_hashes state
    cdef Text group
    start_prefixes(&state, table.seed0, table.seed1)
    for at in range(common, key.length):
        if key.bytes[at] == 0x2F:
            group = Text(key.bytes, at)
            if not leads_to(table, next_prefix(&state, key.bytes, <size_t> at), &group, GROUP, offset, walk):
                return False
            walk.paths += 1
    return True


cdef inline void count_claims(
        KeyTable table, const Text *key, Py_ssize_t common, const Leaf *leaf, Walk *walk) noexcept nogil:
    """Compare the counts that the catalog has at a leaf with those of the keys."""
    cdef Py_ssize_t at
    cdef bint hidden = last_segment_is(key.bytes, <size_t> key.length, b"__vlmeta__", 10)
    walk.claims = walk.claims and leaf.kind < table.catalog.kind_count and (
        <int64_t> leaf.groups == walk.groups and <int64_t> leaf.hidden == walk.hidden)
    if not walk.claims:
        return
    walk.undescribed += leaf.kind == 0
    walk.hidden += hidden
    walk.tables += describes_table(key.bytes, key.length)
    while walk.names and walk.named[walk.names - 1] > common:
        walk.names -= 1
    for at in range(common, key.length):
        if key.bytes[at] == 0x2F:
            # A group that is named like a leaf is listed once.
            walk.groups += at > common or walk.names == 0 or walk.named[walk.names - 1] != common
    if not hidden:
        walk.claims = walk.names < MOST_NAMED
        if walk.claims:
            walk.named[walk.names] = key.length
            walk.names += 1


cdef inline bint totals_fit(KeyTable table, const Walk *walk) noexcept nogil:
    """Whether the counts of all leaves, too, are those that were counted."""
    cdef Leaf leaf
    return walk.claims and table.catalog.leaf(table.count, &leaf) and <int64_t> leaf.groups == walk.groups and (
        <int64_t> leaf.hidden == walk.hidden and table.catalog.groups == walk.groups
        and table.catalog.hidden == walk.hidden and table.catalog.tables == walk.tables
        and table.catalog.undescribed == walk.undescribed and leaf.offset == walk.end)


cdef inline bint leaves_fit(KeyTable table, Walk *walk) noexcept nogil:
    """Whether what a catalog says of leaves is what the directory says."""
    cdef int64_t position = 0
    cdef Record record
    cdef Text before
    cdef Text keys[AT_ONCE]
    cdef Leaf leaves[AT_ONCE]
    cdef uint64_t hashes[AT_ONCE]
    cdef Py_ssize_t common
    cdef int i, taken
    walk.paths = walk.end = 0
    walk.claims, walk.names = True, 0
    walk.groups = walk.hidden = walk.tables = walk.undescribed = 0
    # A path whose slot comes behind one with the same 24 bits is rare: more than this is made so.
    walk.others = MOST_OTHERS + table.count // 1024
    if table.catalog.bytes_at(0, table.catalog.checksums_at) == NULL:
        return False
    while position < table.count:
        taken = 0
        # Some at a time: the slots of all of them are asked for before the first is needed.
        while position < table.count and taken < AT_ONCE:
            if not table.catalog.leaf(position, &leaves[taken]) or (position and leaves[taken].offset != walk.end) or (
                    not table.record_at(leaves[taken].offset, &record, &keys[taken])):
                return False
            hashes[taken] = key_hash(table.seed0, table.seed1, keys[taken].bytes, keys[taken].length)
            prefetch(table.slots + SLOT_LENGTH * slot_home(hashes[taken], table.homes), 1)
            walk.end = leaves[taken].offset + record.length
            position += 1
            taken += 1
        for i in range(taken):
            common = 0
            if walk.paths:
                common = shared(before.bytes, keys[i].bytes, min(before.length, keys[i].length))
                if not comes_behind(&before, &keys[i], common):
                    return False
            if not leads_to(table, hashes[i], &keys[i], LEAF, leaves[i].offset, walk):
                return False
            if not groups_fit(table, &keys[i], common, leaves[i].offset, walk):
                return False
            count_claims(table, &keys[i], common, &leaves[i], walk)
            walk.paths += 1
            before = keys[i]
    return True


cdef inline bint is_leaf(KeyTable table, Member *member) except -1:
    """Whether a member stands for a key."""
    cdef Py_ssize_t stem = stem_length(member.name, member.name_length)
    cdef OwnHeader own
    if member.name[member.name_length - 1] == 0x2F or table._skips(member.name, member.name_length):
        return False
    if table._suffix(member.name + stem, member.name_length - stem) != UNKNOWN_SUFFIX:
        return True
    return holds_frame(table.archive, member, read_own_header(table.archive, member, &own), &own)


cdef inline bint others_fit(KeyTable table) except -1:
    """Whether none of the members before the leaves is one, and no member is left out."""
    cdef int64_t offset = 0, first = table.record_offset(0), count = 0
    cdef Member member
    while offset < first:
        if not table.archive.peek(offset, &member) or is_leaf(table, &member):
            return False
        offset += member.record.length
        count += 1
    return offset == first and count + table.count + 1 == table.archive.count


cdef inline int64_t paths_of(KeyTable table) except -1:
    """How many keys there are, and groups that have keys below them, of a table that is in order."""
    cdef int64_t position, paths = 0
    cdef Py_ssize_t at
    cdef Text key, before
    if number_get(&table._paths) >= 0:
        return number_get(&table._paths)
    with nogil:
        for position in range(table.count):
            if not table.key(position, &key):
                paths = -1
                break
            if position == 0:
                before = Text(key.bytes, 0)
            paths += 1
            for at in range(shared(before.bytes, key.bytes, min(before.length, key.length)), key.length):
                paths += key.bytes[at] == 0x2F
            before = key
    if paths < 0:
        raise table._changed()
    return paths
