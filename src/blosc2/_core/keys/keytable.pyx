# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""The keys of a store as one table of bytes: look up by hash, and find positions in their order.

A key stands for its place: where the record of its member begins in the directory of the archive, which has its name.
No Python object is made for a key until it is listed. The hash and the order come from the archive's catalog, where
there is one, and cost nothing to open; otherwise they are made, the hash in one pass over the directory and the order
when first needed. Keys that are in no archive are copied into
the table, and stand for numbers.

Order is that of the UTF-8 bytes, which is that of Python's strings. A group is the range of keys that begin with its
path and "/".
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from blosc2._core.zip.archive cimport Archive, DecodedName
from blosc2._core.zip.catalog cimport (
    PAGE, PLACE_BITS, SLOT_LENGTH, Catalog, Leaf, describes_table, key_hash, slot_home, slot_place, slot_tag, stem_length)
from blosc2._core.zip.central_record cimport FLAG_UTF8, Member, Record, flags_of, is_utf8, open_named, read_once, safe_name
from blosc2._core.io.little_endian cimport put32, put64, u32, u64

from blosc2.exceptions import FormatError

cdef extern from "keys/key_match.h" nogil:
    bint plain_key(const uint8_t *p, size_t length)
    bint same_bytes(const uint8_t *a, const uint8_t *b, size_t length)
    int first_match(const uint8_t *slots, uint64_t tag, int place_bits)

cdef extern from "keys/key_hash.h" nogil:
    ctypedef struct prefix_hashes:
        pass
    void start_prefixes(prefix_hashes *state, uint64_t seed0, uint64_t seed1)
    uint64_t next_prefix(prefix_hashes *state, const uint8_t *p, size_t length)

cdef extern from "keys/key_order.h" nogil:
    ctypedef struct SortItem "b2_sort_item":
        uint64_t first
        const uint8_t *bytes
        int64_t at
        uint32_t length
    void sort_items(SortItem *items, size_t count, SortItem *scratch, uint32_t skip)

cdef extern from "io/large_pages.h" nogil:
    void use_large_pages(void *start, size_t length)

cdef extern from "io/prefetch.h" nogil:
    void prefetch(const uint8_t *start, int64_t length)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void *PyUnicode_DATA(object text)

cdef enum:
    OWN_HEADER = 12         # of a key in the table's own memory: its length, and what it stands for
    # What a path may stand for.
    LEAF = 1
    GROUP = 2
    # Slots that are looked at in one step.
    TRIED = 4
    # Members that are taken into the table at a time.
    TOGETHER = 16
    # Slots behind the last home, for keys that found theirs taken.
    MOST_SLACK = 4096
    # A member with another suffix than a leaf's.
    STRANGER = 1 << 20
    # Of a catalog's hash, how far behind its home a path may be, and how many slots on the way may have its 24 bits and be of
    # another: with 1.75 homes for each path, a run of 200 taken slots does not come about, nor do three such slots.
    MOST_STEPS = 1024
    MOST_OTHERS = 8

cdef inline bint is_ascii(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    cdef uint64_t word, seen = 0
    cdef Py_ssize_t i = 0
    while i + 8 <= length:
        memcpy(&word, p + i, 8)
        seen |= word
        i += 8
    while i < length:
        seen |= p[i]
        i += 1
    return seen & <uint64_t> 0x8080808080808080 == 0


cdef bytes FRAME_MAGIC = b"\x9e\xa8b2frame\x00"

cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


cdef inline uint64_t first_bytes(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Up to 8 bytes as a number whose order is theirs; what is behind the end counts as 0."""
    cdef uint64_t result = 0
    cdef int i
    for i in range(8):
        result = result << 8 | (p[i] if i < length else 0)
    return result


cdef str text_of(const uint8_t *key, Py_ssize_t length, Archive archive=None):
    """A key with its "/" in front; `FormatError` where it is not one that the archive can have had when it was opened."""
    return _copied(key, length, 1, archive)


cdef str name_of(const uint8_t *name, Py_ssize_t length, Archive archive=None):
    """The same for one segment of a key."""
    return _copied(name, length, 0, archive)


cdef str _copied(const uint8_t *key, Py_ssize_t length, int slash, Archive archive):
    cdef str text = PyUnicode_New(slash + length, 127)
    cdef uint8_t *to = <uint8_t *> PyUnicode_DATA(text)
    cdef bint ascii = length == 0
    # The bytes of a mapped file may change at any time: they are copied, and the copy is looked at.
    if slash:
        to[0] = c"/"
    if length:
        memcpy(to + slash, key, <size_t> length)
        if plain_key(to + slash, <size_t> length):
            return text
        if archive is not None and (to[slash + length - 1] == c"/" or not safe_name(to + slash, <int> length, &ascii)):
            raise archive._changed()
    elif archive is not None and not slash:
        raise archive._changed()
    if ascii or is_ascii(to, slash + length):
        return text
    return PyUnicode_DecodeUTF8(<const char *> to, slash + length, "surrogateescape")


cdef bytes prefix_of(str path):
    """The bytes that keys below a group begin with."""
    if path == "/" or path == "":
        return b""
    return (path[1:] if path[0] == "/" else path).encode("utf-8", "surrogateescape") + b"/"


cdef inline bint is_packed(const Record *record) noexcept nogil:
    """Whether a member is not stored as it is."""
    return record.start[10] != 0 or record.start[11] != 0


@cython.final
cdef class KeyTable:
    """Keys and what each stands for.

    Made by `KeyTable.of_archive` or `KeyTable.of_keys`; it does not change afterwards.

    Attributes
    ----------
    count : int
        Keys.
    packed : dict of str to list of int
        Keys of leaves that another tool has compressed, which cannot be read in place; and their places.
    strangers : list of str
        Keys of members that are frames under a suffix that is not a leaf's.
    clashes : list of str
        Keys that members of different suffixes stand for.
    shadowed : dict of str to list of int
        Places of members whose key another member stands for.
    tables : int
        Keys whose last segment is that of a description of a table, or more; -1 where they were not counted.
    archive : Archive or None
        Whose members the keys stand for.
    """

    def __cinit__(self):
        self.strangers = []
        self.packed = {}
        self.clashes = []
        self.shadowed = {}
        self.seed0, self.seed1 = _seed0, _seed1
        self.tables = self._paths = -1

    def __dealloc__(self):
        PyMem_Free(self.own)
        PyMem_Free(self.order)
        if self.came != self.order:
            PyMem_Free(self.came)
        PyMem_Free(self.own_slots)

    @staticmethod
    def of_archive(Archive archive not None, tuple suffixes, tuple skipped=()):
        """Keys of an archive's members, which stand for the places of their records.

        Parameters
        ----------
        archive : Archive
            Its member ``<path><suffix>`` becomes the key ``/<path>``.
        suffixes : tuple of bytes
            Suffixes of leaves, the one that wins first. Another member counts only when it begins like a frame.
        skipped : tuple of bytes
            Names of members that are no leaves; one that ends with "/" skips all names that begin with it.
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
        """The same keys without the catalog, in which something was wrong."""
        cdef KeyTable other
        if self.catalog is None:
            raise self._changed()
        if self._instead is None:
            self.archive.distrust()
            other = KeyTable.__new__(KeyTable)
            other.archive = self.archive
            other._set_names(self.suffixes, self.skipped)
            other._fill()
            self._instead = other
        return self._instead

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
        """Which suffix of leaves this is, the lower one wins; or `STRANGER`."""
        cdef int i
        for i in range(self.suffix_count):
            if self.suffix_lengths[i] == length and memcmp(self.suffix_texts[i], suffix, length) == 0:
                return i
        return STRANGER

    cdef bint _skips(self, const uint8_t *name, Py_ssize_t length) noexcept nogil:
        """Whether a member of this name is no leaf, whatever it holds."""
        cdef int i
        cdef Py_ssize_t own
        for i in range(self.skipped_count):
            own = self.skipped_lengths[i]
            if name[0] == <uint8_t> self.skipped_texts[i][0] and length >= own and (
                    length == own or self.skipped_texts[i][own - 1] == 0x2F) and memcmp(
                    name, self.skipped_texts[i], own) == 0:
                return True
        return False

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

    cdef int64_t _slot_of(self, const uint8_t *key, Py_ssize_t length, uint64_t hashed) noexcept nogil:
        """The slot of a key, or the free one where it belongs; of a table in memory."""
        cdef int64_t slot = slot_home(hashed, self.homes)
        cdef uint64_t found, tag = slot_tag(hashed)
        cdef Text text
        while True:
            found = u64(self.slots + SLOT_LENGTH * slot)
            if found == 0:
                return slot
            if slot_tag(found) == tag and self._text(Entry(slot_place(found)), &text) and text.length == length and memcmp(
                    text.bytes, key, length) == 0:
                return slot
            slot += 1

    cdef int64_t _insert(self, const uint8_t *key, Py_ssize_t length, Entry entry, uint64_t hashed) noexcept nogil:
        """Add a key; the slot of an equal one if there is one, else -1, and -2 where no slot is left."""
        cdef int64_t slot = self._slot_of(key, length, hashed)
        if u64(self.slots + SLOT_LENGTH * slot):
            return slot
        if slot >= self.slot_count - 1:
            return -2
        put64(self.slots + SLOT_LENGTH * slot, slot_tag(hashed) | <uint64_t> (entry.at + 1))
        self.count += 1
        return -1

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
        slot = self._insert(p, length, Entry(self.own_used), key_hash(self.seed0, self.seed1, p, length))
        if slot == -2:
            raise MemoryError("no slot is left for a key")
        if slot >= 0:
            put64(self.own + slot_place(u64(self.slots + SLOT_LENGTH * slot)) + 4, <uint64_t> value)
        else:
            self.own_used += OWN_HEADER + length
        return 0

    cdef int _fill(self) except -1:
        """Add the keys of the archive's members."""
        cdef Archive archive = self.archive
        cdef int64_t number, place = 0, stem, slot, count
        cdef Py_ssize_t decoded = 0
        cdef Record record
        cdef const uint8_t *names[TOGETHER]
        cdef int64_t stems[TOGETHER]
        cdef Entry entries[TOGETHER]
        cdef uint64_t hashes[TOGETHER]
        cdef int i, taken
        cdef bint odd = False
        archive._need_places()
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
                odd, taken = False, 0
                # Some at a time: the slots of all of them are asked for before the first is needed.
                while number < count and taken < TOGETHER:
                    place = archive._places[number]
                    number += 1
                    # A record that is there no more has no name that anybody could look at here.
                    odd = not open_named(archive._directory, archive.directory_size, place, &record)
                    if decoded < archive._decoded_count and archive._decoded[decoded].place == place:
                        decoded += 1
                        odd = True
                    if odd:
                        break
                    if record.name_length == 0 or record.name[record.name_length - 1] == 0x2F or self._skips(
                            record.name, record.name_length):
                        continue
                    stem = stem_length(record.name, record.name_length)
                    odd = is_packed(&record) or self._suffix(
                        record.name + stem, record.name_length - stem) == STRANGER
                    if odd:
                        break
                    names[taken], stems[taken], entries[taken] = record.name, stem, Entry(place)
                    self.tables += describes_table(record.name, stem)
                    hashes[taken] = key_hash(self.seed0, self.seed1, record.name, stem)
                    prefetch(self.slots + SLOT_LENGTH * slot_home(hashes[taken], self.homes), 1)
                    taken += 1
                for i in range(taken):
                    slot = self._insert(names[i], stems[i], entries[i], hashes[i])
                    if slot == -1:
                        self.came[self.count - 1] = entries[i]
                        continue
                    with gil:
                        if slot == -2:
                            raise MemoryError("no slot is left for a key")
                        self._settle(entries[i].at, slot)
            if odd:
                self._add_odd(place)
        if not self.regular:
            PyMem_Free(self.came)
            self.came = NULL
        return 0

    cdef int _add_odd(self, int64_t place) except -1:
        """Add a member that is perhaps no leaf."""
        cdef Member member
        cdef Py_ssize_t stem
        cdef int64_t slot
        self.archive.member_at(place, &member)
        if member.name[member.name_length - 1] == 0x2F or self._skips(member.name, member.name_length):
            return 0
        stem = stem_length(member.name, member.name_length)
        if is_packed(&member.record):
            if self._suffix(member.name + stem, member.name_length - stem) != STRANGER:
                self.packed.setdefault(text_of(member.name, stem), []).append(place)
            return 0
        if self._suffix(member.name + stem, member.name_length - stem) == STRANGER:
            if not _begins_like_frame(self.archive, &member):
                return 0
            self.strangers.append(text_of(member.name, stem))
        self.tables += describes_table(member.name, stem)
        slot = self._insert(member.name, stem, Entry(place), key_hash(self.seed0, self.seed1, member.name, stem))
        if slot == -2:
            raise MemoryError("no slot is left for a key")
        if slot == -1:
            self.came[self.count - 1] = Entry(place)
            return 0
        return self._settle(place, slot)

    cdef int _settle(self, int64_t place, int64_t slot) except -1:
        """Let the better of two members of one key stay."""
        cdef uint64_t taken = u64(self.slots + SLOT_LENGTH * slot)
        cdef int64_t before = slot_place(taken)
        cdef Member old, new
        cdef Py_ssize_t stem
        self.archive.member_at(before, &old)
        self.archive.member_at(place, &new)
        stem = stem_length(new.name, new.name_length)
        rank = self._suffix(new.name + stem, new.name_length - stem)
        rank_before = self._suffix(old.name + stem, old.name_length - stem)
        key = text_of(new.name, stem)
        if rank != rank_before:
            self.clashes.append(key)
        # Of equal names the last counts: so an equal rank replaces.
        self.shadowed.setdefault(key, []).append(before if rank <= rank_before else place)
        if rank <= rank_before:
            put64(self.slots + SLOT_LENGTH * slot, slot_tag(taken) | <uint64_t> (place + 1))
        return 0

    # ------------------------------------------------------------------ looking up
    cdef bint _text(self, Entry entry, Text *text) noexcept nogil:
        """The key that the table has somewhere; False where there is none, or none that a store may have."""
        if self.archive is None:
            text.length = u32(self.own + entry.at)
            text.bytes = self.own + entry.at + OWN_HEADER
            return True
        return self.key_at(entry.at, text)

    cdef int64_t _meaning(self, Entry entry) noexcept nogil:
        """What a key stands for: the place of a record, or a number."""
        return entry.at if self.archive is not None else <int64_t> u64(self.own + entry.at + 4)

    cdef bint key_at(self, int64_t place, Text *text) noexcept nogil:
        """The key of the record at a place; False where there is none, or none that a store may have."""
        cdef Record record
        return open_named(self.archive._directory, self.archive.directory_size, place, &record) and self._key_of(
            &record, place, text)

    cdef bint leaf_at(self, int64_t position, Record *record, Text *text) noexcept nogil:
        """The record and the key at a position of the order, of a table of an archive; False where `key` is."""
        cdef int64_t place = self.place(position)
        return self.archive is not None and open_named(
            self.archive._directory, self.archive.directory_size, place, record) and self._key_of(record, place, text)

    cdef bint _key_of(self, const Record *record, int64_t place, Text *text) noexcept nogil:
        """The key of a record."""
        cdef const DecodedName *decoded
        cdef Py_ssize_t stem
        cdef bint ascii = True
        text.bytes, text.length = record.name, record.name_length
        if self.archive._decoded_count:
            decoded = self.archive.decoded(place)
            if decoded != NULL:
                text.bytes, text.length = decoded.text, decoded.length
        stem = stem_length(text.bytes, text.length)
        if self.catalog is not None:
            # Nobody has looked at the name yet.
            if not safe_name(text.bytes, <int> text.length, &ascii):
                return False
            if not ascii and not (flags_of(record) & FLAG_UTF8 and is_utf8(text.bytes, text.length)):
                return False
            if self._suffix(text.bytes + stem, text.length - stem) == STRANGER or self._skips(text.bytes, text.length):
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
        if not open_named(self.archive._directory, self.archive.directory_size, entry.at, &record):
            return False
        suffix = record.name + length
        rest = <int64_t> record.name_length - length
        if rest < 1 or not same_bytes(record.name, key, length):
            return False
        for i in range(self.suffix_count):
            if self.suffix_lengths[i] == rest and memcmp(self.suffix_texts[i], suffix, rest) == 0:
                # Of a catalog's records nobody has looked at the names yet. Suffixes are short: a name that is skipped
                # is one from its first bytes on.
                return self.catalog is None or (plain_key(key, length) and not (
                    self.skipped_starts[key[0] >> 6] >> (key[0] & 63) & 1 and self._skips(record.name, length + rest)))
        return False

    cdef int _kind_of(self, Entry entry, const uint8_t *path, Py_ssize_t length) noexcept nogil:
        """What the key that the table has somewhere makes of a path: a key, or a group; 0 neither, -1 if there is no key.

        The slot of a group leads to the first key below it.
        """
        cdef Text key
        cdef int kind
        if not self._text(entry, &key):
            return -1
        kind = LEAF if key.length == length else GROUP if key.length > length and key.bytes[length] == 0x2F else 0
        return kind if kind and memcmp(key.bytes, path, length) == 0 else 0

    cdef int64_t lookup(self, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """What a key stands for, `NO_KEY`, or `DAMAGED`."""
        return probe(self, key, length, LEAF)

    cdef int64_t lookup_group(self, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """The place of the first key below a group, by the hash of a catalog; `NO_KEY`, or `DAMAGED`."""
        return probe(self, key, length, GROUP)

    cdef int64_t lookup_either(self, const uint8_t *path, Py_ssize_t length) noexcept nogil:
        """The place of a key, or of the first one below a group of this path, by the hash of a catalog."""
        return probe(self, path, length, LEAF | GROUP)

    def __len__(self):
        return self.count

    def __contains__(self, key):
        return self.find(key) >= 0

    def find(self, key):
        """What a key stands for, or -1."""
        cdef Py_ssize_t length
        cdef const char *text
        cdef int64_t place
        try:
            text = PyUnicode_AsUTF8AndSize(key, &length)
        except UnicodeEncodeError:
            return -1
        if length == 0 or text[0] != b"/":
            return -1
        place = self.lookup(<const uint8_t *> text + 1, length - 1)
        if place == DAMAGED:
            return self.instead().find(key)
        return place

    # ------------------------------------------------------------------ order
    cdef int sort(self) except -1:
        """Have the keys in order."""
        cdef Entry *order
        cdef SortItem *items
        cdef SortItem *scratch
        cdef int64_t i = 0, slot
        cdef uint64_t found
        cdef Py_ssize_t common = 0
        cdef Text text, one
        cdef bint sorted
        if self.catalog is not None or self.order != NULL:
            return 0
        sorted = self.came != NULL
        if sorted:
            with nogil:
                for i in range(self.count):
                    sorted = self._text(self.came[i], &text) and (i == 0 or before_in_order(&one, &text))
                    if not sorted:
                        break
                    one = text
            if sorted:
                self.order = self.came
                return 0
            i = 0
        order = <Entry *> PyMem_Malloc(max(1, self.count) * sizeof(Entry))
        items = <SortItem *> PyMem_Malloc(max(1, self.count) * sizeof(SortItem))
        scratch = <SortItem *> PyMem_Malloc(max(1, self.count // 2) * sizeof(SortItem))
        if order == NULL or items == NULL or scratch == NULL:
            PyMem_Free(order)
            PyMem_Free(items)
            PyMem_Free(scratch)
            raise MemoryError
        with nogil:
            for slot in range(self.slot_count):
                found = u64(self.slots + SLOT_LENGTH * slot)
                if found == 0:
                    continue
                if i == self.count or not self._text(Entry(slot_place(found)), &text):
                    i = -1
                    break
                items[i].bytes, items[i].length, items[i].at = text.bytes, <uint32_t> text.length, slot_place(found)
                if i == 0:
                    one, common = text, text.length
                else:
                    common = shared(one.bytes, text.bytes, min(common, text.length))
                i += 1
            if i == self.count:
                for i in range(self.count):
                    items[i].first = first_bytes(items[i].bytes + common, items[i].length - common)
                sort_items(items, <size_t> self.count, scratch, <uint32_t> common)
                for i in range(self.count):
                    order[i] = Entry(items[i].at)
                i = self.count
        PyMem_Free(items)
        PyMem_Free(scratch)
        if i != self.count:
            PyMem_Free(order)
            raise self._changed()
        if self.order == NULL:
            self.order = order
        else:           # another thread was faster
            PyMem_Free(order)
        return 0

    cdef Entry _entry(self, int64_t position) noexcept nogil:
        """Where the table has the key at a position of the order; negative where the catalog is damaged."""
        cdef Leaf leaf
        if position < 0 or position >= self.count:
            return Entry(-1)
        if self.catalog is None:
            return Entry(-1) if self.order == NULL else self.order[position]
        return Entry(leaf.place) if self.catalog.leaf(position, &leaf) else Entry(-1)

    cdef int64_t place(self, int64_t position) noexcept nogil:
        """What the key at a position of the order stands for; negative where there is none, or the catalog is damaged."""
        cdef Entry entry = self._entry(position)
        return -1 if entry.at < 0 else self._meaning(entry)

    cdef bint key(self, int64_t position, Text *text) noexcept nogil:
        """The key at a position of the order; False where the catalog is damaged."""
        cdef Entry entry = self._entry(position)
        return entry.at >= 0 and self._text(entry, text)

    cdef int64_t bound(self, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil:
        """Position of the first key not below a prefix, or of the first one behind all that begin with it."""
        cdef int64_t low = 0, high = self.count, middle
        cdef Text key
        cdef int order
        while low < high:
            middle = (low + high) // 2
            if not self.key(middle, &key):
                return DAMAGED
            order = memcmp(key.bytes, prefix, min(key.length, length))
            if order == 0:
                order = -1 if key.length < length else (-1 if after else 1)
            if order < 0:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int64_t run_end(self, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
        """Where the run of keys that begin with a prefix ends, if it begins at `start`."""
        cdef int64_t low = start, high, step = 1
        if start >= stop or not self._shares(start, prefix, length):
            return start
        low += 1
        # Steps that double first: runs are short more often than not.
        while low + step < stop and self._shares(low + step, prefix, length):
            low += step
            step *= 2
        high = min(stop, low + step)
        while low < high:
            if self._shares((low + high) // 2, prefix, length):
                low = (low + high) // 2 + 1
            else:
                high = (low + high) // 2
        return low

    cdef bint _shares(self, int64_t position, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
        cdef Text key
        return self.key(position, &key) and key.length >= length and memcmp(key.bytes, prefix, length) == 0

    def sound(self):
        """The table itself if all that its catalog says of keys is what the directory says; else one without it.

        Each page holds its checksum; the leaves come in the order of their keys, their records lie one behind the other
        and end where that of the catalog begins, the last one; each key is found, and each group; and the records before
        them are not those of leaves. Then all of the directory's leaves are there, and nothing else.
        """
        cdef Walk walk
        cdef bint fine
        cdef Record own
        if self.catalog is None:
            return self
        with nogil:
            # The catalog's own record is behind those of leaves, and nothing is behind that.
            fine = self._leaves_fit(&walk) and open_named(
                self.archive._directory, self.archive.directory_size, walk.end, &own) and (
                walk.end + own.length == self.archive.directory_size)
        if not fine or not self._others_fit():
            return self.instead()
        self._paths = walk.paths
        return self

    cdef bint _leaves_fit(self, Walk *walk) noexcept nogil:
        """Whether what a catalog says of leaves is what the directory says."""
        cdef int64_t position, place
        cdef Record record
        cdef Text key, before
        walk.paths = walk.end = 0
        # A path whose slot comes behind one with the same 24 bits is rare: more than this is made so.
        walk.others = MOST_OTHERS + self.count // 1024
        if self.catalog.bytes_at(0, self.catalog.sums_at) == NULL:
            return False
        for position in range(self.count):
            place = self.place(position)
            if (position and place != walk.end) or not self.leaf_at(position, &record, &key):
                return False
            if position and not before_in_order(&before, &key):
                return False
            if not self._leads_to(key_hash(self.seed0, self.seed1, key.bytes, key.length), &key, LEAF, place, walk):
                return False
            if position == 0:
                before = Text(key.bytes, 0)
            if not self._groups_fit(&before, &key, place, walk):
                return False
            walk.paths += 1
            before = key
            walk.end = place + record.length
        return True

    cdef int64_t count_paths(self) except -1:
        """How many keys there are, and groups that have keys below them, of a table that is in order."""
        cdef int64_t position, paths = 0
        cdef Py_ssize_t at
        cdef Text key, before
        if self._paths >= 0:
            return self._paths
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

    cdef bint _groups_fit(self, const Text *before, const Text *key, int64_t place, Walk *walk) noexcept nogil:
        """Whether the groups that appear with a key, behind the one before, are found by the hash."""
        cdef Py_ssize_t at = shared(before.bytes, key.bytes, min(before.length, key.length))
        cdef prefix_hashes state
        cdef Text group
        start_prefixes(&state, self.seed0, self.seed1)
        for at in range(at, key.length):
            if key.bytes[at] == 0x2F:
                group = Text(key.bytes, at)
                if not self._leads_to(next_prefix(&state, key.bytes, <size_t> at), &group, GROUP, place, walk):
                    return False
                walk.paths += 1
        return True

    cdef bint _leads_to(self, uint64_t hashed, const Text *path, int kind, int64_t place, Walk *walk) noexcept nogil:
        """Whether the hash of a catalog, whose pages hold, leads from a path to a place, whose record has it."""
        cdef int64_t slot = slot_home(hashed, self.homes)
        cdef int64_t stop = min(self.slot_count, slot + MOST_STEPS)
        cdef uint64_t found, tag = slot_tag(hashed)
        cdef Entry entry
        cdef int other, twins = 0
        for slot in range(slot, stop):
            found = read_once(self.slots + SLOT_LENGTH * slot)
            if found == 0:
                return False
            if slot_tag(found) != tag:
                continue
            entry = Entry(slot_place(found))
            if kind == LEAF or entry.at != place:
                # Of a path that is a leaf and a group, the slot of the one may come before that of the other.
                other = self._kind_of(entry, path.bytes, path.length)
                if other < 0 or (other & kind and entry.at != place):
                    return False
                if not other & kind:
                    twins += 1
                    if other == 0 or twins > 1:
                        walk.others -= 1
                    if walk.others < 0:
                        return False
                    continue
            return True
        return False

    cdef bint _others_fit(self) except -1:
        """Whether none of the members before the leaves is one, and no member is left out."""
        cdef int64_t place = 0, first = self.place(0), count = 0
        cdef Member member
        while place < first:
            if not self.archive.peek(place, &member) or self._is_leaf(&member):
                return False
            place += member.record.length
            count += 1
        return place == first and count + self.count + 1 == self.archive.count

    cdef bint _is_leaf(self, Member *member) except -1:
        """Whether a member stands for a key."""
        cdef Py_ssize_t stem = stem_length(member.name, member.name_length)
        if member.name[member.name_length - 1] == 0x2F or self._skips(member.name, member.name_length):
            return False
        return self._suffix(member.name + stem, member.name_length - stem) != STRANGER or (
            _begins_like_frame(self.archive, member))

    def others(self, tuple without=()):
        """Records of the members that are no leaves, but for those of some names, one behind the other."""
        cdef Member member
        cdef int64_t place
        cdef list found = []
        for place in self.other_places(without):
            self.archive.member_at(place, &member)
            found.append(self.archive._piece(place, place + member.record.length))
        return b"".join(found)

    def other_places(self, tuple without=()):
        """Where the records of the members are that are no leaves, but for those of some names."""
        cdef Archive archive = self.archive
        cdef Member member
        cdef Text key
        cdef int64_t number = 0, place = 0, stop = 0
        cdef list found = []
        if self.catalog is None:
            archive._need_places()
        else:
            stop = self.place(0)    # before those of leaves
        while place < stop if self.catalog is not None else number < archive.count:
            if self.catalog is None:
                place = archive._places[number]
                number += 1
            archive.member_at(place, &member)
            if (self.catalog is not None or not self.key_at(place, &key)
                    or self.lookup(key.bytes, key.length) != place) and (
                    member.name[:member.name_length] not in without):
                found.append(place)
            place += member.record.length
        return found

    def places(self, int64_t start=0, int64_t stop=-1):
        """Places of the keys at positions ``start .. stop`` of the order, which is there already or made now."""
        cdef int64_t position, place
        cdef list found = []
        self.sort()
        if stop < 0 or stop > self.count:
            stop = self.count
        for position in range(max(start, 0), stop):
            place = self.place(position)
            if place < 0:
                return self.instead().places(start, stop)
            found.append(place)
        return found

    @property
    def cataloged(self):
        """Whether the keys come from a catalog, in which nothing was found wrong so far."""
        return self.catalog is not None and self._instead is None

    @property
    def regular(self):
        """Whether each key has one member, under a suffix of leaves and with a name in UTF-8."""
        return not (self.strangers or self.packed or self.clashes or self.shadowed or self.own != NULL
                    or (self.archive is not None and self.archive._decoded_count))

    def __repr__(self):
        return f"<KeyTable: {self.count} keys>"


cdef inline int64_t probe(KeyTable self, const uint8_t *path, Py_ssize_t length, int kinds) noexcept nogil:
    """Go through the slots of a path from its home on, to that of the key, or of the group, that it is."""
    cdef uint64_t hashed = key_hash(self.seed0, self.seed1, path, length)
    cdef int64_t slot = slot_home(hashed, self.homes), at, stop = self.slot_count
    cdef uint64_t found, tag = slot_tag(hashed)
    cdef Entry entry
    cdef int count, others = 0
    if self.catalog is not None and stop - slot > MOST_STEPS:
        stop = slot + MOST_STEPS
    while slot < stop:
        count = TRIED if slot + TRIED <= self.slot_count else 1
        if self.catalog is not None:
            at = self.catalog.slots_at + SLOT_LENGTH * slot
            if not (self.catalog.checked[at // PAGE] and self.catalog.checked[(at + SLOT_LENGTH * count - 1) // PAGE]):
                if self.catalog.bytes_at(at, SLOT_LENGTH * count) == NULL:
                    return DAMAGED
        if count == TRIED:
            count = first_match(self.slots + SLOT_LENGTH * slot, tag, PLACE_BITS)
            if count == TRIED:
                slot += TRIED
                continue
            slot += count
        found = read_once(self.slots + SLOT_LENGTH * slot)
        if found == 0:
            return NO_KEY
        if slot_tag(found) == tag:
            entry = Entry(slot_place(found))
            if kinds & LEAF and self._has_name(entry, path, length):
                return entry.at
            count = self._kind_of(entry, path, length)
            if count < 0:
                return DAMAGED
            if count & kinds:
                return self._meaning(entry)
            others += 1
            if others > MOST_OTHERS and self.catalog is not None:
                return DAMAGED
        slot += 1
    return DAMAGED


cdef bint before_in_order(const Text *a, const Text *b) noexcept nogil:
    """Whether a key comes before another one, and is not the same."""
    cdef int order = memcmp(a.bytes, b.bytes, min(a.length, b.length))
    return order < 0 or (order == 0 and a.length < b.length)


cdef Py_ssize_t shared(const uint8_t *a, const uint8_t *b, Py_ssize_t most) noexcept nogil:
    """How many bytes two keys have in common, of the first `most`."""
    cdef Py_ssize_t i = 0
    while i < most and a[i] == b[i]:
        i += 1
    return i


cdef bint _begins_like_frame(Archive archive, Member *member):
    """Whether a member's data starts with the magic of a frame; a member that cannot be located does not."""
    cdef int64_t data
    cdef uint8_t start[10]
    cdef Py_ssize_t length = PyBytes_GET_SIZE(FRAME_MAGIC)
    try:
        data = archive.locate(member)
    except FormatError:
        return False
    if member.size < length:
        return False
    archive.source.check(archive.source.read_into(data, length, start), data, length)
    return memcmp(start, PyBytes_AS_STRING(FRAME_MAGIC), length) == 0
