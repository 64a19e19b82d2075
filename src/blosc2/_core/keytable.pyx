# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""The keys of a store as one table of bytes: look up by hash, and find positions in their order.

A key is known by its place: where the record of its member begins in the directory of the archive, which has its name.
No Python object is made for a key until it is listed. The hash and the order come from the archive's catalog, where
there is one, and cost nothing to open; otherwise they are made, the hash in one pass over the directory and the order
when first needed. Keys that are in no archive are copied into the table.

Order is that of the UTF-8 bytes, which is that of Python's strings. A group is the range of keys that begin with its
path and "/".
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy

from blosc2._core.archive cimport CENTRAL_LENGTH, FLAG_UTF8, Archive, Member, record_length, safe_name
from blosc2._core.catalog cimport (
    PAGE, PLACE_BITS, SLOT_LENGTH, Catalog, Leaf, describes_table, key_hash, slot_home, slot_place, slot_tag, stem_length)
from blosc2._core.little_endian cimport put32, put64, u16, u32, u64

from blosc2.exceptions import FormatError

cdef extern from "key_match.h" nogil:
    bint plain_key(const uint8_t *p, size_t length)
    bint same_bytes(const uint8_t *a, const uint8_t *b, size_t length)
    int first_match(const uint8_t *slots, uint64_t tag, int place_bits)

cdef extern from "large_pages.h" nogil:
    void use_large_pages(void *start, size_t length)

cdef extern from "prefetch.h" nogil:
    void prefetch(const uint8_t *start, int64_t length)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

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

cdef bytes FRAME_MAGIC = b"\x9e\xa8b2frame\x00"

cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


cdef struct SortItem:
    uint64_t first          # the bytes behind what all keys have in common
    const uint8_t *bytes
    uint32_t length
    uint32_t skip


cdef int compare_items(const void *a, const void *b) noexcept nogil:
    cdef const SortItem *x = <const SortItem *> a
    cdef const SortItem *y = <const SortItem *> b
    cdef int result
    if x.first != y.first:
        return -1 if x.first < y.first else 1
    result = memcmp(x.bytes + x.skip, y.bytes + y.skip, min(x.length, y.length) - x.skip)
    if result:
        return result
    return (x.length > y.length) - (x.length < y.length)


cdef inline uint64_t first_bytes(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Up to 8 bytes as a number whose order is theirs; what is behind the end counts as 0."""
    cdef uint64_t result = 0
    cdef int i
    for i in range(8):
        result = result << 8 | (p[i] if i < length else 0)
    return result


cdef str text_of(const uint8_t *key, Py_ssize_t length):
    """A key with its "/" in front."""
    return "/" + PyUnicode_DecodeUTF8(<const char *> key, length, "surrogateescape")


cdef str name_of(const uint8_t *name, Py_ssize_t length):
    return PyUnicode_DecodeUTF8(<const char *> name, length, "surrogateescape")


cdef bytes prefix_of(str path):
    """The bytes that keys below a group begin with."""
    if path == "/" or path == "":
        return b""
    return (path[1:] if path[0] == "/" else path).encode("utf-8", "surrogateescape") + b"/"


cdef class KeyTable:
    """Keys and what each stands for.

    Made by `KeyTable.of_archive` or `KeyTable.of_keys`; it does not change afterwards.

    Attributes
    ----------
    count : int
        Keys.
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
        self.clashes = []
        self.shadowed = {}
        self.seed0, self.seed1 = _seed0, _seed1
        self.tables = -1

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
                self.count, self.tables = catalog.count, catalog.tables
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
            raise FormatError("the directory changed while it was read", path=self.archive.source.path,
                              offset=self.archive.directory_offset)
        if self._instead is None:
            self.archive.distrust()
            other = KeyTable.__new__(KeyTable)
            other.archive = self.archive
            other._set_names(self.suffixes, self.skipped)
            other._fill()
            self._instead = other
        return self._instead

    # ------------------------------------------------------------------ making
    cdef int _set_names(self, tuple suffixes, tuple skipped) except -1:
        """Take over which suffixes leaves have, and which members are none."""
        cdef bytes name
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
            if slot_tag(found) == tag and self.key_at(slot_place(found), &text) and text.length == length and memcmp(
                    text.bytes, key, length) == 0:
                return slot
            slot += 1

    cdef int64_t _insert(self, const uint8_t *key, Py_ssize_t length, int64_t place, uint64_t hashed) noexcept nogil:
        """Add a key at a place; the slot of an equal one if there is one, else -1, and -2 where no slot is left."""
        cdef int64_t slot = self._slot_of(key, length, hashed)
        if u64(self.slots + SLOT_LENGTH * slot):
            return slot
        if slot >= self.slot_count - 1:
            return -2
        put64(self.slots + SLOT_LENGTH * slot, slot_tag(hashed) | <uint64_t> (place + 1))
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
        slot = self._insert(p, length, self.own_used, key_hash(self.seed0, self.seed1, p, length))
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
        cdef int64_t number, place = 0, stem, slot, count, length
        cdef const uint8_t *name
        cdef const uint8_t *names[TOGETHER]
        cdef int64_t stems[TOGETHER]
        cdef int64_t places[TOGETHER]
        cdef uint64_t hashes[TOGETHER]
        cdef int i, taken
        cdef bint odd = False
        archive._need_places()
        self._reserve(archive.count)
        if archive._decoded:
            return self._fill_decoded()
        self.tables = 0
        number, count = 0, archive.count
        # Of a directory that is in order already, nothing has to be sorted.
        self.came = <int64_t *> PyMem_Malloc(max(1, count) * sizeof(int64_t))
        if self.came == NULL:
            raise MemoryError
        use_large_pages(self.came, <size_t> count * sizeof(int64_t))
        while number < count:
            with nogil:
                odd, taken = False, 0
                # Some at a time: the slots of all of them are asked for before the first is needed.
                while number < count and taken < TOGETHER:
                    place = archive._places[number]
                    number += 1
                    name = archive._directory + place + CENTRAL_LENGTH
                    length = u16(archive._directory + place + 28)
                    if name[length - 1] == 0x2F or self._skips(name, length):
                        continue
                    stem = stem_length(name, length)
                    odd = self._suffix(name + stem, length - stem) == STRANGER
                    if odd:
                        break
                    names[taken], stems[taken], places[taken] = name, stem, place
                    self.tables += describes_table(name, stem)
                    hashes[taken] = key_hash(self.seed0, self.seed1, name, stem)
                    prefetch(self.slots + SLOT_LENGTH * slot_home(hashes[taken], self.homes), 1)
                    taken += 1
                for i in range(taken):
                    slot = self._insert(names[i], stems[i], places[i], hashes[i])
                    if slot == -1:
                        self.came[self.count - 1] = places[i]
                        continue
                    with gil:
                        if slot == -2:
                            raise MemoryError("no slot is left for a key")
                        self._settle(places[i], slot)
            if odd:
                self._add_odd(place)
        if not self.regular:
            PyMem_Free(self.came)
            self.came = NULL
        return 0

    def _fill_decoded(self):
        """The same for an archive some of whose names are not UTF-8: the table keeps them itself."""
        cdef Archive archive = self.archive
        cdef Member member
        cdef int64_t place
        cdef Py_ssize_t stem
        best = {}
        for number in range(archive.count):
            place = archive._places[number]
            archive.member_at(place, &member)
            if member.name[member.name_length - 1] == 0x2F or self._skips(member.name, member.name_length):
                continue
            stem = stem_length(member.name, member.name_length)
            rank = self._suffix(member.name + stem, member.name_length - stem)
            if rank == STRANGER:
                if not _begins_like_frame(archive, &member):
                    continue
                self.strangers.append(text_of(member.name, stem))
            key = (<const char *> member.name)[:stem]
            if key in best:
                if rank != best[key][0]:
                    self.clashes.append(text_of(member.name, stem))
                worse = place if rank > best[key][0] else best[key][1]
                self.shadowed.setdefault(text_of(member.name, stem), []).append(worse)
                if rank > best[key][0]:
                    continue
            best[key] = rank, place
        for key, (rank, place) in best.items():
            self._add_text(<const uint8_t *> PyBytes_AS_STRING(key), len(key), place)
        return 0

    cdef int _add_odd(self, int64_t place) except -1:
        """Add a member that is perhaps no leaf."""
        cdef Member member
        cdef Py_ssize_t stem
        cdef int64_t slot
        self.archive.member_at(place, &member)
        if self._skips(member.name, member.name_length):
            return 0
        stem = stem_length(member.name, member.name_length)
        if self._suffix(member.name + stem, member.name_length - stem) == STRANGER:
            if not _begins_like_frame(self.archive, &member):
                return 0
            self.strangers.append(text_of(member.name, stem))
        self.tables += describes_table(member.name, stem)
        slot = self._insert(member.name, stem, place, key_hash(self.seed0, self.seed1, member.name, stem))
        if slot == -2:
            raise MemoryError("no slot is left for a key")
        return self._settle(place, slot) if slot >= 0 else 0

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
    cdef bint key_at(self, int64_t place, Text *text) noexcept nogil:
        """The key at a place; False where there is none, or none that a store may have."""
        cdef const uint8_t *record
        cdef int64_t size
        cdef Py_ssize_t stem
        cdef bint ascii = True
        if self.own != NULL:
            text.length = u32(self.own + place)
            text.bytes = self.own + place + OWN_HEADER
            return True
        size = self.archive.directory_size
        if place < 0 or place > size - CENTRAL_LENGTH:
            return False
        record = self.archive._directory + place
        text.bytes = record + CENTRAL_LENGTH
        text.length = u16(record + 28)
        if u32(record) != 0x02014B50 or text.length > size - place - CENTRAL_LENGTH:
            return False
        stem = stem_length(text.bytes, text.length)
        if self.catalog is not None:
            # Nobody has looked at the name yet.
            if not safe_name(text.bytes, <int> text.length, &ascii) or not (ascii or u16(record + 8) & FLAG_UTF8):
                return False
            if self._suffix(text.bytes + stem, text.length - stem) == STRANGER or self._skips(text.bytes, text.length):
                return False
        text.length = stem
        return True

    cdef bint has_name(self, int64_t place, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """Whether the record at a place has the name of a leaf of this key; False also where `key_at` has to tell."""
        cdef const uint8_t *record
        cdef const uint8_t *suffix
        cdef int64_t rest
        cdef int i
        if self.own != NULL or place < 0 or place > self.archive.directory_size - CENTRAL_LENGTH:
            return False
        record = self.archive._directory + place
        suffix = record + CENTRAL_LENGTH + length
        rest = <int64_t> u16(record + 28) - length
        if u32(record) != 0x02014B50 or rest < 1 or place + CENTRAL_LENGTH + length + rest > self.archive.directory_size:
            return False
        if not same_bytes(record + CENTRAL_LENGTH, key, length):
            return False
        for i in range(self.suffix_count):
            if self.suffix_lengths[i] == rest and memcmp(self.suffix_texts[i], suffix, rest) == 0:
                # Of a catalog's records nobody has looked at the names yet. Suffixes are short: a name that is skipped
                # is one from its first bytes on.
                return self.catalog is None or (plain_key(key, length) and not self._skips(
                    record + CENTRAL_LENGTH, length + rest))
        return False

    cdef int64_t lookup(self, const uint8_t *key, Py_ssize_t length) noexcept nogil:
        """The place of a key, `NO_KEY`, or `DAMAGED`."""
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
        if self.own != NULL and place >= 0:
            return <int64_t> u64(self.own + place + 4)
        return place

    # ------------------------------------------------------------------ order
    cdef int sort(self) except -1:
        """Have the keys in order."""
        cdef int64_t *order
        cdef SortItem *items
        cdef int64_t i = 0, slot, place
        cdef uint64_t found
        cdef Py_ssize_t common = 0
        cdef Text text, one
        cdef const uint8_t *base = self.own if self.own != NULL else (
            self.archive._directory if self.archive is not None else NULL)
        cdef int64_t header = OWN_HEADER if self.own != NULL else CENTRAL_LENGTH
        cdef bint sorted
        if self.catalog is not None or self.order != NULL:
            return 0
        sorted = self.came != NULL
        if sorted:
            with nogil:
                for i in range(self.count):
                    sorted = self.key_at(self.came[i], &text) and (i == 0 or before_in_order(&one, &text))
                    if not sorted:
                        break
                    one = text
            if sorted:
                self.order = self.came
                return 0
            i = 0
        order = <int64_t *> PyMem_Malloc(max(1, self.count) * sizeof(int64_t))
        items = <SortItem *> PyMem_Malloc(max(1, self.count) * sizeof(SortItem))
        if order == NULL or items == NULL:
            PyMem_Free(order)
            PyMem_Free(items)
            raise MemoryError
        with nogil:
            for slot in range(self.slot_count):
                found = u64(self.slots + SLOT_LENGTH * slot)
                if found and self.key_at(slot_place(found), &text):
                    items[i].bytes, items[i].length = text.bytes, <uint32_t> text.length
                    if i == 0:
                        one, common = text, text.length
                    else:
                        common = shared(one.bytes, text.bytes, min(common, text.length))
                    i += 1
            self.count = i
            for i in range(self.count):
                items[i].skip = <uint32_t> common
                items[i].first = first_bytes(items[i].bytes + common, items[i].length - common)
            qsort(items, self.count, sizeof(SortItem), compare_items)
            for i in range(self.count):
                order[i] = items[i].bytes - base - header
        PyMem_Free(items)
        if self.order == NULL:
            self.order = order
        else:           # another thread was faster
            PyMem_Free(order)
        return 0

    cdef int64_t place(self, int64_t position) noexcept nogil:
        """The place of the key at a position of the order; negative where the catalog is damaged."""
        cdef Leaf leaf
        if position < 0 or position >= self.count:
            return -1
        if self.catalog is None:
            return -1 if self.order == NULL else self.order[position]
        return leaf.place if self.catalog.leaf(position, &leaf) else -1

    cdef bint key(self, int64_t position, Text *text) noexcept nogil:
        """The key at a position of the order; False where the catalog is damaged."""
        return self.key_at(self.place(position), text)

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
        cdef int64_t position, place, expected = -1, size, count = 0
        cdef Text key, before
        cdef bint fine = True
        cdef Py_ssize_t common, at
        cdef Member member
        if self.catalog is None:
            return self
        size = self.archive.directory_size
        with nogil:
            fine = self.catalog.bytes_at(0, self.catalog.sums_at) != NULL
            for position in range(self.count if fine else 0):
                place = self.place(position)
                fine = (expected == -1 or place == expected) and self.key_at(place, &key)
                if fine and position:
                    fine = before_in_order(&before, &key)
                if not fine or self.lookup(key.bytes, key.length) != place:
                    fine = False
                    break
                # Groups that appear with it.
                common = 0
                while position and common < key.length and common < before.length and (
                        before.bytes[common] == key.bytes[common]):
                    common += 1
                for at in range(common, key.length):
                    if key.bytes[at] == 0x2F and self.lookup_group(key.bytes, at) != place:
                        fine = False
                if not fine:
                    break
                before = key
                expected = place + record_length(self.archive._directory + place)
            if fine:
                # The catalog's own record is behind them, and nothing is behind that.
                fine = expected <= size - CENTRAL_LENGTH and (
                    expected + record_length(self.archive._directory + expected) == size)
        place = 0
        while fine and place < self.place(0):
            fine = self.archive.peek(place, &member) and not self._is_leaf(&member)
            if fine:
                place += record_length(member.record)
                count += 1
        fine = fine and place == self.place(0) and count + self.count + 1 == self.archive.count
        return self if fine else self.instead()

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
            found.append(self.archive._piece(place, place + record_length(member.record)))
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
            place += record_length(member.record)
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
        return not (self.strangers or self.clashes or self.shadowed or self.own != NULL)

    def __repr__(self):
        return f"<KeyTable: {self.count} keys>"


cdef inline int64_t probe(KeyTable self, const uint8_t *path, Py_ssize_t length, int kinds) noexcept nogil:
    """Go through the slots of a path from its home on, to that of the key, or of the group, that it is."""
    cdef uint64_t hashed = key_hash(self.seed0, self.seed1, path, length)
    cdef int64_t slot = slot_home(hashed, self.homes), place, at
    cdef uint64_t found, tag = slot_tag(hashed)
    cdef Text key
    cdef int count
    while slot < self.slot_count:
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
        found = u64(self.slots + SLOT_LENGTH * slot)
        if found == 0:
            return NO_KEY
        if slot_tag(found) == tag:
            place = slot_place(found)
            if kinds & LEAF and self.has_name(place, path, length):
                return place
            if not self.key_at(place, &key):
                return DAMAGED
            # The slot of a group leads to the first key below it.
            if ((kinds & LEAF and key.length == length)
                    or (kinds & GROUP and key.length > length and key.bytes[length] == 0x2F)) and memcmp(
                    key.bytes, path, length) == 0:
                return place
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
