# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Keys that differ only in what some file systems ignore, such as case: found among millions by a 64-bit hash of each."""

import os
from unicodedata import normalize

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Contains, PyDict_Size
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.ascii_text cimport ascii_text
from blosc2._core.io.memory cimport bring_pages, prefetch
from blosc2._core.keys.key_text cimport text_of
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, KeyTable, Text, is_removed
from blosc2._core.keys.listing cimport KeyListing
from blosc2._core.zip.key_bytes cimport key_hash, next_prefix, prefix_hashes, start_prefixes

cdef enum:
    SHORT = 512
    # Groups of a key that are hashed one by one.
    FEW = 16
    # Keys of a table that are added in one step.
    AT_ONCE = 16
    # What a character is for the rules in `blosc2._backends.key_rules`: one for a closer look; fine anywhere; or one of those
    # that some places in a key exclude.
    CLOSER = 0
    FINE = 1
    SLASH = 2
    UNDERSCORE = 3
    DOT = 4
    BLANK = 5

cdef uint8_t _characters[256]
for _code in range(0x21, 0x7F):
    _characters[_code] = CLOSER if _code in b'\\:<>"|?*$' else FINE
_characters[0x2F], _characters[0x5F], _characters[0x2E], _characters[0x20] = SLASH, UNDERSCORE, DOT, BLANK

cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


cdef inline int64_t home(KeySet keys, uint64_t hashed) noexcept nogil:
    """The slot that a hash has unless others took it; the lowest bit is set in all hashes, and tells nothing."""
    return <int64_t> (hashed >> 1 & <uint64_t> (keys.room - 1))


cdef class KeySet:
    """Up to `most` keys by their hashes; of 2**32, two would be taken for one with a probability of one half."""

    def __cinit__(self, int64_t most=1 << 22):
        self.most = most
        self.room = 64
        self.slots = <uint64_t *> PyMem_Calloc(<size_t> self.room, 8)
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.slots)

    def __len__(self):
        return self.used

    cdef int64_t _slot(self, uint64_t hashed) noexcept nogil:
        cdef int64_t slot = home(self, hashed)
        while self.slots[slot] and self.slots[slot] != hashed:
            slot = (slot + 1) & (self.room - 1)
        return slot

    cdef int _reserve(self, int64_t count) except -1:
        """Make room for so many keys."""
        cdef int64_t room = self.room
        while 2 * room < 3 * count + 64:
            room *= 2
        return self._grow(room) if room > self.room else 0

    cdef int _grow(self, int64_t most) except -1:
        """Have so many slots, a power of 2."""
        cdef uint64_t *old = self.slots
        cdef int64_t room = self.room, i
        self.slots = <uint64_t *> PyMem_Calloc(<size_t> most, 8)
        if self.slots == NULL:
            self.slots = old
            raise MemoryError
        bring_pages(self.slots, 8 * most)   # all are used soon, here and there
        self.room = most
        for i in range(room):
            if old[i]:
                self.slots[self._slot(old[i])] = old[i]
        PyMem_Free(old)
        return 0

    cdef bint _add(self, uint64_t hashed) except -1:
        """Take note of a hash; whether it was there."""
        cdef int64_t slot = self._slot(hashed)
        if self.slots[slot]:
            return True
        self._fill(slot, hashed)
        return False

    cdef int _fill(self, int64_t slot, uint64_t hashed) except -1:
        """Take note of a hash that is not there; its slot is free."""
        if self.used < self.most:
            self.slots[slot] = hashed
            self.used += 1
            if 3 * self.used > 2 * self.room:
                self._grow(2 * self.room)
        return 0

    cdef bint _has(self, uint64_t hashed) noexcept nogil:
        return self.slots[self._slot(hashed)] != 0

    def add(self, str key not None):
        """Take note of a key; whether it was there."""
        return self._add(hash_of(key))

    def __contains__(self, str key not None):
        return self.slots[self._slot(hash_of(key))] != 0

    def add_folded(self, str key not None):
        """Take note of a key without regard to case; whether there was one like it."""
        return self._add(folded_hash(key))

    def add_table(self, KeyTable table not None):
        """Take note of all keys of a table without regard to case; gives those that have ".b2" in them."""
        cdef Text text
        cdef uint8_t lower[SHORT + 8]
        cdef uint64_t hashes[AT_ONCE]
        cdef int64_t position
        cdef int i, taken = 0
        cdef list found = []
        table.sort()
        if self.used == 0:
            self._reserve(min(table.count, self.most))
        lower[0] = 0x2F
        for position in range(table.count):
            if not table.key(position, &text):
                return self.add_table(table.instead())
            if table.removed.count and is_removed(&table.removed, text.bytes, text.length, False):
                continue
            if text.length < SHORT and lower_plain(lower + 1, text.bytes, text.length):
                hashes[taken] = key_hash(_seed0, _seed1, lower, <size_t> text.length + 1) | 1
            else:
                key = text_of(text.bytes, text.length)
                if ".b2" in key:
                    found.append(key)
                hashes[taken] = folded_hash(key)
            # Some at a time: the slots of all of them are asked for before the first is needed.
            prefetch(<const uint8_t *> (self.slots + home(self, hashes[taken])), 1)
            taken += 1
            if taken == AT_ONCE:
                for i in range(taken):
                    self._add(hashes[i])
                taken = 0
        for i in range(taken):
            self._add(hashes[i])
        return found

    def has_folded(self, str key not None):
        """Whether a key like one is noted, without regard to case."""
        return self._has(folded_hash(key))

    @property
    def is_full(self):
        """Whether it takes note of no further keys."""
        return self.used >= self.most

    def add_groups(self, str key not None):
        """Take note of the groups that a key lies in."""
        self._add_groups(key)

    cdef int _add_groups(self, str key) except -1:
        cdef Py_ssize_t length, at, last = 0
        cdef const char *text = PyUnicode_AsUTF8AndSize(key, &length)
        cdef const uint8_t *path = <const uint8_t *> text
        cdef prefix_hashes state
        cdef int tries = 0
        # From the innermost one, up to the first that is known: those around it are then known too.
        for at in range(length - 1, 0, -1):
            if text[at] == b"/":
                tries += 1
                if tries > FEW:
                    last = at
                    break
                if self._add(key_hash(_seed0, _seed1, path, at) | 1):
                    break
        # Of many from the outermost one on, as the hash of each goes on from the one before.
        start_prefixes(&state, _seed0, _seed1)
        for at in range(1, last + 1 if last else 0):
            if text[at] == b"/":
                self._add(next_prefix(&state, path, <size_t> at) | 1)
        return 0


cdef class KnownNames:
    """The names of a store with which a new key is compared. A subclass collects and keeps them."""

    def __cinit__(self):
        self.suffixed, self.removed = set(), set()

    def collect(self, contents):
        """Collect the names of the keys of a store."""
        raise NotImplementedError

    def take(self, str key not None):
        """Take note of a new key, once names are collected; whether no other key is like it."""
        return self.take_key(key)

    cdef bint take_key(self, str key) except -1:
        if not self.folded._add(folded_hash(key)):
            return True
        if key not in self.removed:
            return False
        self.removed.discard(key)   # nothing else is like it, as it was there before
        return True


cdef class KeyAdmission:
    """Says of most new keys at once that they may be taken; the others are for who asked."""

    def __cinit__(self, int64_t most=1 << 22, bint grouped=False):
        cdef int i
        self.grouped = grouped
        self.leaves, self.folded, self.groups = KeySet(most), KeySet(most), KeySet(most)
        for i in range(LAST_PARENTS):
            self.last_lengths[i] = -1

    cpdef show(self, KeyTable table, dict entries, KeyListing listing, KeySet names=None):
        """Admit keys beside those of a version: its members, embedded values and listing, and hashes of all its names.

        Nothing is admitted before.
        """
        self.table, self.entries, self.listing, self.names = table, entries, listing, names

    def admit(self, key):
        """Whether a key is plain and none excludes it: take note of it then."""
        return self.admit_key(key)

    cdef bint admit_key(self, key) except -1:
        cdef Py_ssize_t length, parent, met
        cdef const uint8_t *text = ascii_text(<PyObject *> key, &length)
        cdef uint64_t hashed, other
        cdef uint8_t lower[SHORT + 8]
        cdef int64_t found, slot
        if text == NULL or self.suffixed or self.entries is None:
            return False
        # Mostly a key lies in a group like one of those before. A group that excludes nothing stays so, and is plain.
        met = self._last_parent(text, length)
        parent = plain_parent(text, length, max(met, 0))
        if parent < 0:
            return False
        if parent != met:
            if self.grouped:
                if not self.groups._has(path_hash(text, parent)):
                    if not self.is_open(key, text, parent, self.groups, None):
                        return False
                    self.groups._add_groups(key)
            self.last = (self.last + 1) % LAST_PARENTS
            memcpy(self.last_parents[self.last], text, <size_t> parent)
            self.last_lengths[self.last] = parent
        hashed = path_hash(text, length)
        prefetch(<const uint8_t *> (self.leaves.slots + home(self.leaves, hashed)), 1)
        found = self.published(key, text, length)
        if found >= 0:
            self.leaves._add(hashed)
            return True
        if found != NO_KEY:
            return False
        if not lower_plain(lower, text, length):
            other = folded_hash(key)
        elif memcmp(lower, text, <size_t> length) == 0:
            other = hashed
        else:
            other = key_hash(_seed0, _seed1, lower, <size_t> length) | 1
        slot = self.leaves._slot(hashed)
        if self.leaves.slots[slot]:
            return True
        # What is like it last: that takes note of it, and whoever looks closer would find it.
        if (self.names is not None and self.names._has(other)) or (
                self.grouped and self.is_group(key, text, length, hashed)) or self._is_like(hashed, other):
            return False
        self.leaves._fill(slot, hashed)
        return True

    cdef int64_t published(self, str key, const uint8_t *text, Py_ssize_t length) except? -9:
        """What the version has for a key: at least 0 for a leaf, NO_KEY for none, DAMAGED where that cannot be told."""
        if PyDict_Contains(self.entries, key):
            return 0
        return NO_KEY if self.table is None else self.table.lookup(text + 1, length - 1)

    cdef bint is_group(self, str key, const uint8_t *text, Py_ssize_t length, uint64_t hashed) except -1:
        """Whether a key may be a group, of the version or of those noted; `hashed` is its `path_hash`."""
        cdef KeyListing listing = self.listing
        cdef int64_t found
        if self.groups._has(hashed):
            return True
        if listing is None:
            return False
        if listing.base.catalog is not None and listing._plain:
            found = listing.base.lookup_group(text + 1, length - 1)
            if found != DAMAGED:
                return found >= 0
        return listing.has_group(key)

    cdef bint is_open(self, str key, const uint8_t *text, Py_ssize_t parent, KeySet known, dict frames) except -1:
        """Whether none of the groups that a plain key lies in is a leaf, nor one of which `frames` has a pending change.

        Those that are `known` are none, nor are the groups around them.
        """
        cdef Py_ssize_t end
        cdef uint64_t hashed
        cdef bint is_alone = frames is None and self.table is None and PyDict_Size(self.entries) == 0
        for end in range(parent, 0, -1):
            if text[end] != 0x2F:
                continue
            hashed = path_hash(text, end)
            if known._has(hashed):
                return True
            if self.leaves._has(hashed):
                return False
            if is_alone:
                continue
            group = key[:end]
            if (frames is not None and PyDict_Contains(frames, group)) or (
                    self.published(group, text, end) != NO_KEY):
                return False
        return True

    def add_folded(self, str key not None):
        """Take note of a key, which is among `leaves`, without regard to case; whether there was another one like it."""
        return self._is_like(hash_of(key), folded_hash(key))

    cdef bint _is_like(self, uint64_t hashed, uint64_t other) except -1:
        """Whether there is a key like the one of a hash, by that without regard to case.

        They are the same of most keys, which are written as the others are compared: `leaves` has these already.
        """
        if hashed == other:
            return self.folded.used and self.folded._has(other)
        return self.folded._add(other) or self.leaves._has(other)

    cdef Py_ssize_t _last_parent(self, const uint8_t *text, Py_ssize_t length) noexcept:
        """The length of one of the groups met last that a key lies below; -1 where there is none."""
        cdef int i, at = self.last
        cdef Py_ssize_t parent
        for i in range(LAST_PARENTS):
            parent = self.last_lengths[at]
            if 0 <= parent < length and text[parent] == 0x2F and memcmp(text, self.last_parents[at], <size_t> parent) == 0:
                self.last = at
                return parent
            at = (at + 1) % LAST_PARENTS
        return -1


cdef bint lower_plain(uint8_t *to, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Write a text in lower case, and up to 7 bytes more; False for one with other letters than those of ASCII, or a dot."""
    cdef uint64_t word, dots, low = <uint64_t> 0x0101010101010101, high = low << 7, seen = 0
    cdef Py_ssize_t i = 0
    while i < length:
        if length - i >= 8:
            memcpy(&word, text + i, 8)
        else:
            word = low
            memcpy(&word, text + i, <size_t> (length - i))
        dots = word ^ (low * 0x2E)
        seen |= word | ((dots - low) & ~dots)
        # Where a byte is a capital, its upper bit is set in the first sum and not in the second one.
        word |= (((word + low * (0x80 - 0x41)) & ~(word + low * (0x80 - 0x5B))) & high) >> 2
        memcpy(to + i, &word, 8)
        i += 8
    return not seen & high


cdef uint64_t path_hash(const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """What a set has of a key, or of a group: its first bytes."""
    return key_hash(_seed0, _seed1, text, <size_t> length) | 1


cdef Py_ssize_t plain_parent(const uint8_t *text, Py_ssize_t length, Py_ssize_t known=0) noexcept nogil:
    """The length of the group of a plain key, 0 in the root; -1 for a key that has to be looked at more closely.

    A plain key is legal, and is no name of the store's own, as all of these have ".b2" in them or begin like one of a
    tree. The group that its first `known` bytes name is plain, as was found before.
    """
    cdef Py_ssize_t i, slash = known
    cdef uint8_t character
    cdef bint begins = True
    if length < 2 or length > 200 or text[0] != 0x2F:
        return -1
    for i in range(known + 1, length):
        character = _characters[text[i]]
        if character == FINE:
            begins = False
        elif character == SLASH:
            if begins or ends_badly(text, slash + 1, i):
                return -1
            begins, slash = True, i
        elif begins:
            # Names of the store's own begin with "__" or "_m".
            if character != UNDERSCORE or (i + 1 < length and (text[i + 1] == 0x5F or text[i + 1] | 32 == 0x6D)):
                return -1
            begins = False
        elif character == CLOSER or (
                character == DOT and i + 2 < length and text[i + 1] | 32 == 0x62 and text[i + 2] == 0x32):
            return -1
    return -1 if begins or ends_badly(text, slash + 1, length) else slash


def is_plain(key):
    """Whether a key is a string of the form that most legal keys have: others may be legal, too."""
    cdef Py_ssize_t length
    cdef const uint8_t *text = ascii_text(<PyObject *> key, &length)
    return text != NULL and plain_parent(text, length) >= 0


cdef bint ends_badly(const uint8_t *text, int64_t start, int64_t end) noexcept nogil:
    """Whether a segment ends in a dot or blank, or may be a device on Windows."""
    cdef int64_t stem = start
    cdef uint8_t first
    if text[end - 1] == 0x2E or text[end - 1] == 0x20:
        return True
    while stem < end and text[stem] != 0x2E and text[stem] != 0x20:
        stem += 1
    if stem - start != 3 and stem - start != 4:
        return False
    first = text[start] | 32
    if stem - start == 4:  # com1, lpt9
        return 0x30 <= text[stem - 1] <= 0x39 and (first == 0x63 or first == 0x6C)
    return first == 0x63 or first == 0x70 or first == 0x61 or first == 0x6E  # con, prn, aux, nul


cdef uint64_t hash_of(str key) except 0:
    cdef Py_ssize_t length
    cdef const char *text
    cdef bytes encoded
    try:
        text = PyUnicode_AsUTF8AndSize(key, &length)
    except UnicodeEncodeError:  # of a name in a mapped file that was changed
        encoded = key.encode("utf-8", "surrogatepass")
        text, length = PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded)
    return key_hash(_seed0, _seed1, <const uint8_t *> text, length) | 1     # 0 is an empty slot


cdef uint64_t folded_hash(str key) except 0:
    """Hash of a key without regard to case, nor to how its letters are put together from accents."""
    cdef Py_ssize_t length, i
    cdef const char *text
    cdef uint8_t lower[SHORT]
    cdef uint8_t c
    if key.isascii():
        text = PyUnicode_AsUTF8AndSize(key, &length)
        if length <= SHORT:
            for i in range(length):
                c = <uint8_t> text[i]
                lower[i] = c + 32 if 65 <= c <= 90 else c
            return key_hash(_seed0, _seed1, lower, length) | 1
    return hash_of(folded(key))


def folded(str key not None):
    """A key in the form that it shares with those which some file system takes for the same."""
    return key.lower() if key.isascii() else normalize("NFC", normalize("NFD", key).casefold())


def same_folded(keys, str key not None):
    """Those of some keys that are like one without regard to case."""
    cdef uint64_t wanted = folded_hash(key)
    return [other for other in keys if folded_hash(other) == wanted]
