# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The keys of a store as one table of bytes: look up by hash, and find positions in their order.

A key of an archive stands for the offset of its record in the directory, which has the key as its name. Where the archive
has a catalog, hash and order come from that; otherwise the hash is made in one pass over the directory, and the order when it
is first needed. The table copies keys that are in no archive; these stand for numbers. A group is the range of keys that begin
with its path and "/".
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.endian cimport put32, put64, u16, u32, u64
from blosc2._core.io.memory cimport prefetch, read_once, use_large_pages
from blosc2._core.io.steps cimport address_get, flag_get, flag_set, number_get, number_set
from blosc2._core.keys.key_order cimport bound_of, comes_behind, end_of_run, put_in_order, shared
from blosc2._core.keys.key_slots cimport (
    GROUP, LEAF, MOST_OTHERS, MOST_STEPS, far_bound, insert, is_far, kind_of, lookup_far, probe)
from blosc2._core.keys.key_text cimport prefix_of, text_of
from blosc2._core.zip.archive cimport MANY_RECORDS, Archive, DecodedName, open_at
from blosc2._core.zip.catalog cimport (
    SLOT_LENGTH, Catalog, Leaf, describes_table, slot_home, slot_offset, slot_tag, stem_length)
from blosc2._core.zip.key_bytes cimport (
    key_hash, last_segment_is, next_prefix, plain_key, prefix_hashes, start_prefixes)
from blosc2._core.zip.records cimport (
    FLAG_MASKED, FLAG_UTF8, LOCAL_LENGTH, MEMBER_FOLDER, Member, Record, flags_of, is_packed, is_signature, is_utf8,
    safe_name)

from blosc2.exceptions import FormatError

# What the header before a member's data says of it.
#
# A member that is no leaf by its record in the directory may be one whose record is damaged. So the headers of such members are
# looked at, those of leaves only where there is a reason: a name that other members have too, a catalog that says otherwise, a
# key that is missing.


cdef enum:
    # Bytes behind a name that are read with it: mostly the extra field is in them, and the first of the data.
    BEHIND_NAME = 128


cdef struct OwnHeader:
    int64_t data            # where it says that the data begins
    int64_t extra           # how long its extra field is
    uint16_t method


cdef inline bytes read_own_header(Archive archive, Member *member, OwnHeader *own):
    """Read it, and what comes behind it; `FormatError` where it is not there, or bears another name."""
    cdef int64_t room = archive.directory_offset - LOCAL_LENGTH - member.header, wanted
    cdef Py_ssize_t length = member.record.name_length
    cdef uint8_t near[LOCAL_LENGTH + 2 * BEHIND_NAME]
    cdef bytes block
    cdef const uint8_t *p
    if room < length:
        raise archive._error(member, "the directory leads to no local header, so it is damaged", member.header)
    wanted = LOCAL_LENGTH + min(room, length + BEHIND_NAME)
    if archive.source.base == NULL and wanted <= <int64_t> sizeof(near):
        archive.source.check(archive.source.read_into(member.header, wanted, near), member.header, wanted)
        block = near[:wanted]
    else:
        block = archive.source.read(member.header, wanted)
    p = <const uint8_t *> PyBytes_AS_STRING(block)
    if not is_signature(p, 3, 4):
        raise archive._error(member, "there is no local header where the directory says", member.header)
    own.extra, own.method = u16(p + 28), u16(p + 8)
    own.data = member.header + LOCAL_LENGTH + u16(p + 26) + own.extra
    # Where the directory is masked so are names in these headers.
    if not member.flags & FLAG_MASKED and (
            u16(p + 26) != length or memcmp(p + LOCAL_LENGTH, member.record.name, <size_t> length)
            or ((u16(p + 6) ^ member.flags) & FLAG_UTF8 and not block[LOCAL_LENGTH:LOCAL_LENGTH + length].isascii())):
        raise archive._error(
            member, "the local header bears another name, so one of both is damaged; blosc2.check tells more, and "
            "blosc2.salvage takes out what is whole", member.header)
    return block


cdef inline bint holds_frame(Archive archive, Member *member, bytes block, const OwnHeader *own) except -1:
    """Whether a member's data starts with the magic of a frame; `FormatError` where it cannot be told where they start."""
    cdef int64_t start = own.data - member.header, at
    if own.data > archive.directory_offset:
        raise archive._error(member, "the member's data reaches into the directory", own.data)
    if start + 10 > PyBytes_GET_SIZE(block):
        block = archive.source.read(member.header, min(start + 10, archive.directory_offset - member.header))
    if block[start:start + 10] == b"\x9e\xa8b2frame\x00":
        return True
    # Fields of a kind and a length each; zeros fill up.
    at = start - own.extra
    while start - at >= 4:
        at += 4 + u16(<const uint8_t *> PyBytes_AS_STRING(block) + at + 2)
    if at > start or any(block[at:start]):
        raise archive._error(member, "the extra field of the local header does not end where it should", member.header)
    return False


cdef inline bint may_be_attributes(const uint8_t *name, Py_ssize_t length) noexcept nogil:
    """Whether the last segment of a name begins like those of AppleDouble files, which hold attributes of others for macOS."""
    cdef Py_ssize_t start = length
    if plain_key(name, <size_t> length):    # as most are, and no segment of it begins with a dot
        return False
    while start > 0 and name[start - 1] != 0x2F:
        start -= 1
    return length - start >= 2 and name[start] == 0x2E and name[start + 1] == 0x5F


cdef inline bint holds_attributes(Archive archive, Member *member, bytes block, const OwnHeader *own) except -1:
    """Whether a member's data are those of an AppleDouble file; `holds_frame` has the parameters."""
    cdef int64_t start = own.data - member.header
    if member.size < 4 or own.data > archive.directory_offset - 4:
        return False
    if start + 4 > PyBytes_GET_SIZE(block):
        block, start = archive.source.read(own.data, 4), 0
    return block[start:start + 4] == b"\0\5\x16\7"


cdef inline bint is_doubtful(const Member *member) noexcept nogil:
    """Whether a stored name stands for another one, and would be UTF-8, too: what tells that may be damaged."""
    return member.name != member.record.name and is_utf8(member.record.name, member.record.name_length) and (
        member.name_length != member.record.name_length
        or memcmp(member.name, member.record.name, member.name_length) != 0)


cdef inline int check_own_headers(Archive archive) except -1:
    """Raise `FormatError` if the header of a member bears another name than its record."""
    cdef Member member
    cdef OwnHeader own
    cdef int64_t number
    archive._need_offsets()
    for number in range(archive.count):
        archive.member_at(archive._offsets[number], &member)
        if member.problem != MEMBER_FOLDER:
            read_own_header(archive, &member, &own)
    return 0


cdef inline int settle(KeyTable table, int64_t offset, int64_t slot) except -1:
    """Let the better of two members of one key stay, after a look whether both have that name."""
    cdef uint64_t taken = u64(table.slots + SLOT_LENGTH * slot)
    cdef int64_t before = slot_offset(taken)
    cdef Member old, new
    cdef OwnHeader own
    cdef Py_ssize_t stem
    table.archive.member_at(before, &old)
    table.archive.member_at(offset, &new)
    read_own_header(table.archive, &old, &own)
    read_own_header(table.archive, &new, &own)
    stem = stem_length(new.name, new.name_length)
    rank = table._suffix(new.name + stem, new.name_length - stem)
    rank_before = table._suffix(old.name + stem, old.name_length - stem)
    key = text_of(new.name, stem)
    if rank != rank_before:
        table.clashes.append(key)
    # Of equal names the last counts: so an equal rank replaces.
    table.shadowed.setdefault(key, []).append(before if rank <= rank_before else offset)
    if rank <= rank_before:
        put64(table.slots + SLOT_LENGTH * slot, slot_tag(taken) | <uint64_t> (offset + 1))
    return 0


# Whether what a catalog says of keys is what the directory says.


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
        return not may_be_attributes(member.name, stem) or not holds_attributes(
            table.archive, member, read_own_header(table.archive, member, &own), &own)
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


cdef enum:
    OWN_HEADER = 12         # of a key in the table's own memory: its length, and what it stands for
    # Members that are taken into the table at a time.
    TOGETHER = 16
    # Slots behind the last home, for keys that found theirs taken.
    MOST_SLACK = 4096

#: Groups that `without_groups` takes: each key that is looked up is compared with all of them.
MOST_REMOVED_GROUPS = MOST_REMOVED

cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


@cython.final
cdef class KeyTable:
    """Keys and what each stands for.

    Made by `KeyTable.of_archive` or `KeyTable.of_keys`; it does not change afterwards.
    """

    def __cinit__(self):
        self.unknown_suffixes = []
        self.clashes = []
        self.packed, self.shadowed = {}, {}
        self.near, self.windows = {}, {}
        self.seed0, self.seed1 = _seed0, _seed1
        self.tables = self._paths = -1
        self.removed_groups = ()

    def __dealloc__(self):
        PyMem_Free(self.own)
        PyMem_Free(self.order)
        if self.came != self.order:
            PyMem_Free(self.came)
        PyMem_Free(self.own_slots)

    @staticmethod
    def of_archive(Archive archive not None, tuple suffixes, tuple skipped=()):
        """Keys of an archive's members, which stand for the offsets of their records.

        Of `suffixes` the first wins; another member counts only when it begins like a frame. A name in `skipped` is no leaf;
        one that ends with "/" skips all names that begin with it.
        """
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef Catalog catalog = archive.catalog
        self.archive = archive
        self._set_names(suffixes, skipped)
        archive.load_directory()
        if catalog is not None:
            try:
                catalog.load()
            except FormatError:
                archive.distrust()
            else:
                self.catalog = catalog
                self.slots = <uint8_t *> catalog.base + catalog.slots_at
                self.homes, self.slot_count = catalog.homes, catalog.slot_count
                self.seed0, self.seed1 = catalog.seed0, catalog.seed1
                self.count, self.tables, self._plain_names = catalog.count, catalog.tables, True
                return self
        self._fill()
        return self

    @staticmethod
    def of_keys(keys):
        """A table of keys, each of which stands for its position in the iterable."""
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef list given = list(keys)
        cdef Py_ssize_t number, length
        cdef const char *text
        self._reserve(len(given))
        for number in range(len(given)):
            text = PyUnicode_AsUTF8AndSize(given[number], &length)
            if length < 1 or text[0] != b"/":
                raise ValueError(f"a key starts with '/', unlike {given[number]!r}")
            self._add_text(<const uint8_t *> text + 1, length - 1, number)
        return self

    cdef KeyTable instead(self):
        """The keys without the catalog, in which something was wrong."""
        cdef KeyTable other
        if self.catalog is None:
            raise self._changed()
        if self._instead is None:
            self.archive.distrust()
            other = KeyTable.__new__(KeyTable)
            other.archive = self.archive
            other._set_names(self.suffixes, self.skipped)
            other._fill()
            if flag_get(&self.contradicted) and not self.archive.source.far:
                check_own_headers(self.archive)
            other._set_removed(self.removed_groups)
            with cython.critical_section(self):
                self._instead = self._instead or other  # another thread may have been faster
        return self._instead

    def without_groups(self, tuple groups not None):
        """This table without the keys below some groups."""
        cdef KeyTable other = KeyTable.__new__(KeyTable)
        other.archive = self.archive
        other._set_names(self.suffixes, self.skipped)
        other._set_removed(groups)
        if self.catalog is None or self._instead is not None:
            other._fill()
            return other
        other.catalog, other.slots, other.homes, other.slot_count = self.catalog, self.slots, self.homes, self.slot_count
        other.seed0, other.seed1 = self.seed0, self.seed1
        other.count, other.tables, other._plain_names = self.count, self.tables, True
        return other

    cdef int _set_removed(self, tuple groups) except -1:
        self.removed_groups = groups
        self._removed_prefixes = [prefix_of(group) for group in groups]
        return fill_removed(&self.removed, self._removed_prefixes)

    def _changed(self):
        """The error for keys that are not what they were; those in memory of the table's own always are."""
        if self.archive is None:
            return AssertionError("keys in memory have changed")
        return self.archive._changed()

    # ------------------------------------------------------------------ making
    cdef int _set_names(self, tuple suffixes, tuple skipped) except -1:
        """Take over which suffixes leaves have, and which members are none."""
        cdef bytes name
        cdef uint8_t first
        if len(suffixes) > 8 or len(skipped) > 8:
            raise ValueError("at most 8 suffixes and 8 skipped names")
        self.suffixes, self.skipped = suffixes, skipped
        for name in suffixes:
            if name[:1] != b"." or b"." in name[1:] or b"/" in name:
                raise ValueError(f"a suffix is a dot and what follows it, unlike {name!r}")
            self.suffix_texts[self.suffix_count] = PyBytes_AS_STRING(name)
            self.suffix_lengths[self.suffix_count] = PyBytes_GET_SIZE(name)
            self.suffix_count += 1
        for name in skipped:
            self.skipped_texts[self.skipped_count] = PyBytes_AS_STRING(name)
            self.skipped_lengths[self.skipped_count] = PyBytes_GET_SIZE(name)
            first = <uint8_t> self.skipped_texts[self.skipped_count][0]
            self.skipped_starts[first >> 6] |= <uint64_t> 1 << (first & 63)
            self.skipped_count += 1
        return 0

    cdef int _suffix(self, const uint8_t *suffix, Py_ssize_t length) noexcept nogil:
        """Which suffix of leaves this is, the lower one wins; or `UNKNOWN_SUFFIX`."""
        cdef int i
        for i in range(self.suffix_count):
            if self.suffix_lengths[i] == length and memcmp(self.suffix_texts[i], suffix, length) == 0:
                return i
        return UNKNOWN_SUFFIX

    cdef int _skips(self, const uint8_t *name, Py_ssize_t length) noexcept nogil:
        """Whether a member of this name is no leaf, whatever it holds: 1 if it has a skipped name, 2 if it is below one."""
        cdef int i
        cdef Py_ssize_t own
        for i in range(self.skipped_count):
            own = self.skipped_lengths[i]
            if name[0] == <uint8_t> self.skipped_texts[i][0] and length >= own and (
                    length == own or self.skipped_texts[i][own - 1] == 0x2F) and memcmp(
                    name, self.skipped_texts[i], own) == 0:
                return 1 if length == own else 2
        return 0

    cdef int _reserve(self, int64_t most) except -1:
        if most >= 1 << 30:
            raise FormatError(f"{most} keys are more than a store can have")
        self.homes = max(4, most + most // 2 + most // 4)
        self.slot_count = self.homes + min(most, MOST_SLACK) + 1
        self.slots = self.own_slots = <uint8_t *> PyMem_Calloc(<size_t> self.slot_count, SLOT_LENGTH)
        if self.slots == NULL:
            raise MemoryError
        use_large_pages(self.slots, <size_t> self.slot_count * SLOT_LENGTH)
        return 0

    cdef int _add_text(self, const uint8_t *key, Py_ssize_t length, int64_t value) except -1:
        """Add a key that the table has to keep itself. An equal one is replaced."""
        cdef int64_t room = self.own_room, slot
        cdef uint8_t *p
        if self.own_used + OWN_HEADER + length > room:
            room = max(2 * room, self.own_used + OWN_HEADER + length, 256)
            p = <uint8_t *> PyMem_Realloc(self.own, <size_t> room)
            if p == NULL:
                raise MemoryError
            self.own, self.own_room = p, room
        p = put64(put32(self.own + self.own_used, <uint32_t> length), <uint64_t> value)
        memcpy(p, key, length)
        slot = insert(self, p, length, Entry(self.own_used), key_hash(self.seed0, self.seed1, p, length))
        if slot == -2:
            raise MemoryError("no slot is left for a key")
        if slot >= 0:
            put64(self.own + slot_offset(u64(self.slots + SLOT_LENGTH * slot)) + 4, <uint64_t> value)
        else:
            self.own_used += OWN_HEADER + length
        return 0

    cdef int _fill(self) except -1:
        """Add the keys of the archive's members."""
        cdef Archive archive = self.archive
        cdef int64_t number, offset = 0, stem, slot, count
        cdef Py_ssize_t decoded = 0
        cdef Record record
        cdef const uint8_t *names[TOGETHER]
        cdef int64_t stems[TOGETHER]
        cdef Entry entries[TOGETHER]
        cdef uint64_t hashes[TOGETHER]
        cdef int i, taken, skips
        cdef bint irregular = False
        archive._need_offsets()
        self._reserve(archive.count)
        self.tables, self._plain_names = 0, archive._decoded_count == 0
        number, count = 0, archive.count
        # Of a directory that is in order already, nothing has to be sorted.
        self.came = <Entry *> PyMem_Malloc(max(1, count) * sizeof(Entry))
        if self.came == NULL:
            raise MemoryError
        use_large_pages(self.came, <size_t> count * sizeof(Entry))
        while number < count:
            with nogil:
                irregular, taken = False, 0
                # Some at a time: the slots of all of them are asked for before the first is needed.
                while number < count and taken < TOGETHER:
                    offset = archive._offsets[number]
                    number += 1
                    # A record that is there no more has no name that anybody could look at here.
                    irregular = not open_at(archive, offset, &record)
                    if decoded < archive._decoded_count and archive._decoded[decoded].offset == offset:
                        decoded += 1
                        irregular = True
                    if irregular:
                        break
                    # No name of a leaf is by a few bits that of a folder, or of embedded values.
                    skips = self._skips(record.name, record.name_length)
                    if record.name_length == 0 or record.name[record.name_length - 1] == 0x2F or skips == 1:
                        continue
                    stem = stem_length(record.name, record.name_length)
                    irregular = skips or is_packed(&record) or self._suffix(
                        record.name + stem, record.name_length - stem) == UNKNOWN_SUFFIX or may_be_attributes(
                        record.name, stem)
                    if irregular:
                        break
                    names[taken], stems[taken], entries[taken] = record.name, stem, Entry(offset)
                    self.tables += describes_table(record.name, stem)
                    hashes[taken] = key_hash(self.seed0, self.seed1, record.name, stem)
                    prefetch(self.slots + SLOT_LENGTH * slot_home(hashes[taken], self.homes), 1)
                    taken += 1
                for i in range(taken):
                    slot = insert(self, names[i], stems[i], entries[i], hashes[i])
                    if slot == -1:
                        self.came[self.count - 1] = entries[i]
                        continue
                    with gil:
                        if slot == -2:
                            raise MemoryError("no slot is left for a key")
                        settle(self, entries[i].at, slot)
            if irregular:
                self._add_irregular(offset)
        if not self.regular:
            PyMem_Free(self.came)
            self.came = NULL
        return 0

    cdef int _add_irregular(self, int64_t offset) except -1:
        """Add a member that is perhaps no leaf. It is none only if its own header says so, too."""
        cdef Member member
        cdef OwnHeader own
        cdef Py_ssize_t stem
        cdef int64_t slot
        self.archive.member_at(offset, &member)
        if member.name[member.name_length - 1] == 0x2F:
            return 0
        stem = stem_length(member.name, member.name_length)
        known = self._suffix(member.name + stem, member.name_length - stem) != UNKNOWN_SUFFIX
        skips, packed = self._skips(member.name, member.name_length), is_packed(&member.record)
        attributes = may_be_attributes(member.name, stem)
        if skips or packed or attributes or not known or is_doubtful(&member):
            block = read_own_header(self.archive, &member, &own)
        if skips:
            return 0
        if packed and own.method:
            # What cannot be looked at is told by the folder that macOS puts such files into.
            if known and not (attributes and member.name[:member.name_length].startswith(b"__MACOSX/")):
                self.packed.setdefault(text_of(member.name, stem), []).append(offset)
            return 0
        if attributes and holds_attributes(self.archive, &member, block, &own):
            return 0
        if not known:
            if not holds_frame(self.archive, &member, block, &own):
                return 0
            self.unknown_suffixes.append(text_of(member.name, stem))
        self.tables += describes_table(member.name, stem)
        slot = insert(self, member.name, stem, Entry(offset), key_hash(self.seed0, self.seed1, member.name, stem))
        if slot == -2:
            raise MemoryError("no slot is left for a key")
        if slot == -1:
            self.came[self.count - 1] = Entry(offset)
            return 0
        return settle(self, offset, slot)

    # ------------------------------------------------------------------ looking up
    cdef bint _text(self, Entry entry, Text *text) noexcept nogil:
        """The key that the table has somewhere; False where there is none, or none that a store may have."""
        cdef Record record
        if self.archive is None:
            text.length = u32(self.own + entry.at)
            text.bytes = self.own + entry.at + OWN_HEADER
            return True
        return self.record_at(entry.at, &record, text)

    cdef int64_t _meaning(self, Entry entry) noexcept nogil:
        """What a key stands for: the offset of a record, or a number."""
        return entry.at if self.archive is not None else <int64_t> u64(self.own + entry.at + 4)

    cdef bint leaf_at(self, int64_t position, Record *record, Text *text) noexcept nogil:
        """The record and the key at a position of the order, of a table of an archive; False where `key` is."""
        return self.archive is not None and self.record_at(self.record_offset(position), record, text)

    cdef bint record_at(self, int64_t offset, Record *record, Text *text) noexcept nogil:
        """The record at an offset, and its key; False where there is none, or none that a store may have."""
        return open_at(self.archive, offset, record) and self._key_of(record, offset, text)

    cdef bint _key_of(self, const Record *record, int64_t offset, Text *text) noexcept nogil:
        """The key of a record."""
        cdef const DecodedName *decoded
        cdef Py_ssize_t stem
        cdef bint ascii = True
        text.bytes, text.length = record.name, record.name_length
        if self.archive._decoded_count:
            decoded = self.archive.decoded(offset)
            if decoded != NULL:
                text.bytes, text.length = decoded.text, decoded.length
        stem = stem_length(text.bytes, text.length)
        if self.catalog is not None:
            # Nobody has looked at the name yet.
            if not safe_name(text.bytes, <int> text.length, &ascii):
                return False
            if not ascii and not (flags_of(record) & FLAG_UTF8 and is_utf8(text.bytes, text.length)):
                return False
            if self._suffix(text.bytes + stem, text.length - stem) == UNKNOWN_SUFFIX or self._skips(text.bytes, text.length):
                return False
        text.length = stem
        return True

    cdef bint _has_name(self, Entry entry, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """Whether a record has the name of a leaf of this key; False also where `_text` has to tell."""
        cdef Record record
        cdef const uint8_t *suffix
        cdef int64_t rest
        cdef int i
        if not self._plain_names:
            return False
        if not open_at(self.archive, entry.at, &record):
            return False
        suffix = record.name + length
        rest = <int64_t> record.name_length - length
        if rest < 1 or memcmp(record.name, key, <size_t> length) != 0:
            return False
        for i in range(self.suffix_count):
            if self.suffix_lengths[i] == rest and memcmp(self.suffix_texts[i], suffix, rest) == 0:
                # Of a catalog's records nobody has looked at the names yet. Suffixes are short: a name that is skipped
                # is one from its first bytes on.
                return self.catalog is None or (plain_key(key, length) and not (
                    self.skipped_starts[key[0] >> 6] >> (key[0] & 63) & 1 and self._skips(record.name, length + rest)))
        return False

    cdef int64_t lookup(self, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """What a key stands for, `NO_KEY`, or `DAMAGED`."""
        if self.removed.count and is_removed(&self.removed, key, length, False):
            return NO_KEY
        return lookup_far(self, key, length, True) if is_far(self) else probe(self, key, length, LEAF)

    cdef int64_t lookup_group(self, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """The offset of the first key below a group, by the hash of a catalog; `NO_KEY`, or `DAMAGED`."""
        if self.removed.count and is_removed(&self.removed, key, length, True):
            return NO_KEY
        return probe(self, key, length, GROUP)

    cdef int64_t lookup_either(self, const uint8_t *path, Py_ssize_t length) noexcept nogil:
        """The offset of a key, or of the first one below a group of this path, by the hash of a catalog."""
        cdef int64_t offset = lookup_far(self, path, length, True) if is_far(self) else NO_KEY
        return probe(self, path, length, LEAF | GROUP) if offset == NO_KEY else offset

    def __len__(self):
        return self.count

    def __contains__(self, key):
        return self.find(key) >= 0

    def find(self, key):
        """What a key stands for, or -1."""
        cdef Py_ssize_t length
        cdef const char *text
        cdef int64_t offset
        try:
            text = PyUnicode_AsUTF8AndSize(key, &length)
        except UnicodeEncodeError:
            return -1
        if length == 0 or text[0] != b"/":
            return -1
        offset = self.lookup(<const uint8_t *> text + 1, length - 1)
        if offset == DAMAGED:
            return self.instead().find(key)
        return offset

    def look_for(self, str key not None):
        """A key was not found: raise `FormatError` if that is because a name is damaged."""
        cdef bytes name = key.encode("utf-8", "surrogatepass")[1:]
        cdef Archive archive = self.archive
        cdef Text found
        cdef int64_t at
        if archive is None or archive.source.far or self.removed.count or flag_get(&self.headers_fit):
            return
        if self.catalog is None or self._instead is not None:
            if archive.count < MANY_RECORDS:
                check_own_headers(archive)
            flag_set(&self.headers_fit)
            return
        # A key that has its place in the order and is not found by its hash is another one than when the catalog was made.
        at = self.bound(<const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), False)
        if at != DAMAGED and at < self.count and self.key(at, &found) and found.bytes[:found.length] == name:
            check_own_headers(archive)
            flag_set(&self.headers_fit)

    # ------------------------------------------------------------------ order
    cdef int sort(self) except -1:
        """Have the keys in order."""
        return put_in_order(self)

    cdef int64_t bound(self, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil:
        """Position of the first key not below a prefix, or of the first one behind all that begin with it."""
        return far_bound(self, prefix, length, after) if is_far(self) else bound_of(self, prefix, length, after)

    cdef int64_t run_end(self, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
        """Where the run of keys that begin with a prefix ends, if it begins at `start`."""
        return end_of_run(self, start, stop, prefix, length)

    cdef Entry _entry(self, int64_t position) noexcept nogil:
        """Where the table has the key at a position of the order; negative where the catalog is damaged."""
        cdef Leaf leaf
        if position < 0 or position >= self.count:
            return Entry(-1)
        if self.catalog is None:
            return Entry(-1) if address_get(&self.order) == NULL else self.order[position]
        return Entry(leaf.offset) if self.catalog.leaf(position, &leaf) else Entry(-1)

    cdef int64_t record_offset(self, int64_t position) noexcept nogil:
        """What the key at a position of the order stands for; negative where there is none, or the catalog is damaged."""
        cdef Entry entry = self._entry(position)
        return -1 if entry.at < 0 else self._meaning(entry)

    cdef bint key(self, int64_t position, Text *text) noexcept nogil:
        """The key at a position of the order; False where the catalog is damaged."""
        cdef Entry entry = self._entry(position)
        return entry.at >= 0 and self._text(entry, text)

    def sound(self):
        """The table itself if all that its catalog says of keys is what the directory says; else one without it.

        Each page holds its checksum; the leaves come in the order of their keys, their records lie one behind the other
        and end where that of the catalog begins, the last one; each key is found, and each group; and the records before
        them are not those of leaves. Then all of the directory's leaves are there, and nothing else.
        """
        cdef Walk walk
        cdef bint fine
        cdef Record own
        if self.catalog is None or flag_get(&self.claims_hold):
            return self
        with nogil:
            # The catalog's own record is behind those of leaves, and nothing is behind that.
            fine = leaves_fit(self, &walk) and open_at(self.archive, walk.end, &own) and (
                walk.end + own.length == self.archive.directory_size)
        if not fine or not others_fit(self):
            flag_set(&self.contradicted)
            return self.instead()
        number_set(&self._paths, walk.paths)
        if totals_fit(self, &walk):
            flag_set(&self.claims_hold)
        return self

    def trust(self, int64_t paths):
        """The catalog is one that this process wrote, of so many keys and groups, and it need not be looked at again."""
        number_set(&self._paths, paths)
        flag_set(&self.claims_hold)

    cdef int64_t count_paths(self) except -1:
        """How many keys there are, and groups that have keys below them, of a table that is in order."""
        cdef int64_t position, paths = 0
        cdef Py_ssize_t at
        cdef Text key, before
        if number_get(&self._paths) >= 0:
            return number_get(&self._paths)
        with nogil:
            for position in range(self.count):
                if not self.key(position, &key):
                    paths = -1
                    break
                if position == 0:
                    before = Text(key.bytes, 0)
                paths += 1
                for at in range(shared(before.bytes, key.bytes, min(before.length, key.length)), key.length):
                    paths += key.bytes[at] == 0x2F
                before = key
        if paths < 0:
            raise self._changed()
        return paths

    def others(self, tuple without=()):
        """Records of the members that are no leaves, but for those of some names, one behind the other."""
        cdef Member member
        cdef int64_t offset
        cdef list found = []
        for offset in self.other_offsets(without):
            self.archive.member_at(offset, &member)
            found.append(self.archive._piece(offset, offset + member.record.length))
        return b"".join(found)

    def other_offsets(self, tuple without=()):
        """Where the records of the members are that are no leaves, but for those of some names."""
        cdef Archive archive = self.archive
        cdef Member member
        cdef Text key
        cdef int64_t number = 0, offset = 0, stop = 0
        cdef list found = []
        if self.catalog is None:
            archive._need_offsets()
        else:
            stop = self.record_offset(0)    # before those of leaves
        while offset < stop if self.catalog is not None else number < archive.count:
            if self.catalog is None:
                offset = archive._offsets[number]
                number += 1
            archive.member_at(offset, &member)
            if (self.catalog is not None or not self.record_at(offset, &member.record, &key)
                    or self.lookup(key.bytes, key.length) != offset) and (
                    member.name[:member.name_length] not in without):
                found.append(offset)
            offset += member.record.length
        return found

    def record_offsets(self, int64_t start=0, int64_t stop=-1):
        """Offsets of the keys at positions ``start .. stop`` of the order, which is there already or made now."""
        cdef int64_t position, offset
        cdef list found = []
        self.sort()
        if stop < 0 or stop > self.count:
            stop = self.count
        for position in range(max(start, 0), stop):
            offset = self.record_offset(position)
            if offset < 0:
                return self.instead().record_offsets(start, stop)
            found.append(offset)
        return found

    @property
    def cataloged(self):
        """Whether the keys come from a catalog, in which nothing was found wrong so far."""
        return self.catalog is not None and self._instead is None

    @property
    def regular(self):
        """Whether each key has one member, under a suffix of leaves and with a name in UTF-8."""
        return not (self.unknown_suffixes or self.packed or self.clashes or self.shadowed or self.own != NULL
                    or (self.archive is not None and self.archive._decoded_count))

    def __repr__(self):
        return f"<KeyTable: {self.count} keys>"
