# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The keys of a store as one table of bytes: look up by hash, list in order, cut out groups.

Keys are not copied: they point into the names of an archive or into the strings they were given as, both of which the
table keeps alive. No Python string is made for a key until it is listed. Order is that of the UTF-8 bytes, which is
that of Python's strings; it is made when first needed. A group is the range of keys that begin with its path and "/".
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memchr, memcmp, memcpy, memset

from blosc2._core.archive cimport Archive, Member

from blosc2.exceptions import FormatError

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    # Groups that a listed key may lie in: without a limit, one long name could stand for a gigabyte of group keys.
    MAX_GROUPS = 256
    # Members with another suffix than a leaf's, then values that are embedded.
    RANK_STRANGER = 1 << 20
    RANK_GIVEN = 1 << 30

cdef bytes FRAME_MAGIC = b"\x9e\xa8b2frame\x00"

# Keys come from files: with a fixed hash, a file could be made whose keys all fall into one slot.
cdef uint64_t _seed0, _seed1
_seed0, _seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))


cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotated(v[1], 13) ^ v[0]
    v[0] = rotated(v[0], 32)
    v[2] += v[3]
    v[3] = rotated(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotated(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotated(v[1], 17) ^ v[2]
    v[2] = rotated(v[2], 32)


cdef uint32_t sip_hash(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """SipHash-1-3, folded to 32 bits."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t left = length
    v[0] = _seed0 ^ <uint64_t> 0x736F6D6570736575
    v[1] = _seed1 ^ <uint64_t> 0x646F72616E646F6D
    v[2] = _seed0 ^ <uint64_t> 0x6C7967656E657261
    v[3] = _seed1 ^ <uint64_t> 0x7465646279746573
    while left >= 8:
        memcpy(&word, p, 8)
        v[3] ^= word
        sip_round(v)
        v[0] ^= word
        p += 8
        left -= 8
    word = 0
    memcpy(&word, p, left)
    word |= <uint64_t> length << 56
    v[3] ^= word
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xFF
    sip_round(v)
    sip_round(v)
    sip_round(v)
    word = v[0] ^ v[1] ^ v[2] ^ v[3]
    return <uint32_t> (word ^ word >> 32)


cdef int compare_keys(const void *a, const void *b) noexcept nogil:
    cdef const Key *x = (<const Key **> a)[0]
    cdef const Key *y = (<const Key **> b)[0]
    cdef int result = memcmp(x.bytes, y.bytes, min(x.length, y.length))
    if result:
        return result
    return (x.length > y.length) - (x.length < y.length)


cdef inline str text_of(const uint8_t *key, Py_ssize_t length):
    """A key with its "/" in front."""
    return "/" + PyUnicode_DecodeUTF8(<const char *> key, length, "surrogateescape")


cdef inline str name_of(const uint8_t *name, Py_ssize_t length):
    return PyUnicode_DecodeUTF8(<const char *> name, length, "surrogateescape")


cdef class KeyTable:
    """Keys and the number each stands for.

    Made by `KeyTable.of_archive` or `KeyTable.of_keys`; it does not change afterwards.

    Attributes
    ----------
    strangers : list of str
        Keys of members that are frames under a suffix that is not a leaf's.
    clashes : list of str
        Keys that members of different suffixes stand for.
    shadowed : dict of str to list of int
        Numbers of members whose key another member stands for.
    """

    def __cinit__(self):
        self.strangers = []
        self.clashes = []
        self.shadowed = {}
        self._held = []

    def __dealloc__(self):
        PyMem_Free(self.keys)
        PyMem_Free(self.slots)
        PyMem_Free(self.order)

    @staticmethod
    def of_archive(Archive archive not None, tuple suffixes, tuple skipped=(), given=()):
        """Keys of an archive's members, then of values that lie elsewhere.

        Parameters
        ----------
        archive : Archive
            Its member ``<path><suffix>`` becomes the key ``/<path>``, which stands for the member's number.
        suffixes : tuple of bytes
            Suffixes of leaves, the one that wins first. Another member counts only when it begins like a frame.
        skipped : tuple of bytes
            Names of members that are no leaves; one that ends with "/" skips all names that begin with it.
        given : iterable of str
            Further keys, numbered from ``archive.count`` on. A member of the same key hides them.
        """
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef Py_ssize_t number
        cdef Member *member
        cdef bytes skip
        cdef uint8_t[256] first     # bytes that a skipped name may begin with
        given = list(given)
        self._held = [archive, given]
        self._reserve(archive.count + len(given))
        memset(first, 0, sizeof(first))
        for skip in skipped:
            first[skip[0]] = 1
        for number in range(archive.count):
            member = &archive.members[number]
            if member.name[member.name_length - 1] == 0x2F:
                continue
            if not first[member.name[0]] or not _is_skipped(member, skipped):
                self._add_member(archive, number, suffixes)
        for number in range(len(given)):
            self._add_text(given[number], archive.count + number)
        return self

    @staticmethod
    def of_keys(keys):
        """A table of keys, each of which stands for its position in the iterable."""
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef Py_ssize_t number
        cdef list held = list(keys)
        self._held = [held]
        self._reserve(len(held))
        for number in range(len(held)):
            self._add_text(held[number], number)
        return self

    cdef int _reserve(self, Py_ssize_t most) except -1:
        cdef Py_ssize_t size = 8
        if most >= 1 << 30:
            raise FormatError(f"{most} keys are more than a store can have")
        while size < 2 * most:
            size *= 2
        self.mask = <uint32_t> (size - 1)
        self.slots = <uint32_t *> PyMem_Calloc(size, sizeof(uint32_t))
        self.keys = <Key *> PyMem_Malloc(max(1, most) * sizeof(Key))
        if self.slots == NULL or self.keys == NULL:
            raise MemoryError
        return 0

    cdef Key *_lookup(self, const uint8_t *key, Py_ssize_t length, uint32_t hashed) noexcept nogil:
        cdef uint32_t slot = hashed & self.mask
        cdef Key *found
        while self.slots[slot]:
            found = &self.keys[self.slots[slot] - 1]
            if found.hash == hashed and found.length == length and memcmp(found.bytes, key, length) == 0:
                return found
            slot = (slot + 1) & self.mask
        return NULL

    cdef Key *_insert(self, const uint8_t *key, Py_ssize_t length, int64_t value, int64_t rank) except NULL:
        """Add a key, or let the better of two equal ones stay; the one that stays is returned."""
        cdef uint32_t hashed = sip_hash(key, length), slot
        cdef Key *found = self._lookup(key, length, hashed)
        if found == NULL:
            slot = hashed & self.mask
            while self.slots[slot]:
                slot = (slot + 1) & self.mask
            found = &self.keys[self.count]
            self.count += 1
            self.slots[slot] = <uint32_t> self.count
            found.bytes = key
            found.length = <uint32_t> length
            found.hash = hashed
            found.value = value
            found.rank = rank
            return found
        if rank < RANK_GIVEN and found.rank < RANK_GIVEN:
            if rank != found.rank:
                self.clashes.append(text_of(key, length))
            self.shadowed.setdefault(text_of(key, length), []).append(found.value if rank <= found.rank else value)
        if rank <= found.rank:
            # Of equal names the last counts: so an equal rank replaces.
            found.value = value
            found.rank = rank
        return found

    cdef int _add_text(self, str key, int64_t value) except -1:
        cdef Py_ssize_t length
        cdef const char *text = PyUnicode_AsUTF8AndSize(key, &length)
        if length < 1 or text[0] != b"/":
            raise ValueError(f"a key starts with '/', unlike {key!r}")
        self._insert(<const uint8_t *> text + 1, length - 1, value, RANK_GIVEN)
        return 0

    cdef int _add_member(self, Archive archive, Py_ssize_t number, tuple suffixes) except -1:
        cdef Member *member = &archive.members[number]
        cdef Py_ssize_t length = member.name_length, stem = length, first, i
        cdef int64_t rank = RANK_STRANGER
        cdef bytes suffix
        # The last suffix is cut; dots that a name begins with start none.
        i = length - 1
        while i > 0 and member.name[i] != 0x2E and member.name[i] != 0x2F:
            i -= 1
        if i > 0 and member.name[i] == 0x2E:
            first = i
            while first > 0 and member.name[first - 1] == 0x2E:
                first -= 1
            if first > 0 and member.name[first - 1] != 0x2F:
                stem = i
        for i in range(len(suffixes)):
            suffix = suffixes[i]
            if PyBytes_GET_SIZE(suffix) == length - stem and memcmp(
                PyBytes_AS_STRING(suffix), member.name + stem, length - stem
            ) == 0:
                rank = i
                break
        if rank == RANK_STRANGER:
            if not _begins_like_frame(archive, number):
                return 0
            self.strangers.append(text_of(member.name, stem))
        self._insert(member.name, stem, number, rank)
        return 0

    cdef int _sort(self) except -1:
        cdef Py_ssize_t i
        if self.order != NULL:
            return 0
        cdef Key **order = <Key **> PyMem_Malloc(max(1, self.count) * sizeof(Key *))
        if order == NULL:
            raise MemoryError
        for i in range(self.count):
            order[i] = &self.keys[i]
        with nogil:
            qsort(order, self.count, sizeof(Key *), compare_keys)
        if self.order == NULL:
            self.order = order
        else:           # another thread was faster
            PyMem_Free(order)
        return 0

    def __len__(self):
        return self.count

    def __contains__(self, key):
        return self.find(key) >= 0

    def find(self, key):
        """The number that a key stands for, or -1."""
        cdef Py_ssize_t length
        cdef const char *text
        cdef Key *found
        try:
            text = PyUnicode_AsUTF8AndSize(key, &length)
        except UnicodeEncodeError:
            return -1
        if length == 0 or text[0] != b"/":
            return -1
        found = self._lookup(<const uint8_t *> text + 1, length - 1, sip_hash(<const uint8_t *> text + 1, length - 1))
        return -1 if found == NULL else found.value

    def keys_in_order(self, Py_ssize_t start=0, Py_ssize_t stop=-1):
        """Keys at sorted positions ``start .. stop``."""
        cdef Py_ssize_t i
        self._sort()
        if stop < 0 or stop > self.count:
            stop = self.count
        return [text_of(self.order[i].bytes, self.order[i].length) for i in range(max(0, start), stop)]

    def values_in_order(self, Py_ssize_t start=0, Py_ssize_t stop=-1):
        """Numbers of the keys at sorted positions ``start .. stop``."""
        cdef Py_ssize_t i
        self._sort()
        if stop < 0 or stop > self.count:
            stop = self.count
        return [self.order[i].value for i in range(max(0, start), stop)]

    def group(self, str path not None):
        """Sorted positions ``(start, stop)`` of the keys below a group; "/" is all of them."""
        cdef bytes prefix = _prefix(path)
        self._sort()
        if not prefix:
            return 0, self.count
        return (
            self._bound(<const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix), False),
            self._bound(<const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix), True),
        )

    def children(self, str path not None):
        """Names of the groups and of the leaves right below a group, each in order.

        The cost is that of the result: a group inside is skipped by a search, not walked.
        """
        cdef Py_ssize_t skip = PyBytes_GET_SIZE(_prefix(path)), length
        cdef Py_ssize_t i, stop
        cdef const uint8_t *rest
        cdef const uint8_t *slash
        cdef list groups = [], leaves = []
        if path.count("/") > MAX_GROUPS:
            raise FormatError(f"a key lies in more than {MAX_GROUPS} groups", key=path)
        i, stop = self.group(path)
        while i < stop:
            rest = self.order[i].bytes + skip
            slash = <const uint8_t *> memchr(rest, 0x2F, self.order[i].length - skip)
            if slash == NULL:
                leaves.append(name_of(rest, self.order[i].length - skip))
                i += 1
            else:
                length = slash - rest
                groups.append(name_of(rest, length))
                i = self._run_end(i, stop, skip + length + 1)
        # Groups came in the order of their keys, which go on with "/": "a.b" before "a".
        groups.sort()
        return groups, leaves

    def named(self, str name not None):
        """The keys whose last segment is a name."""
        cdef bytes wanted = name.encode()
        cdef Py_ssize_t i, length = PyBytes_GET_SIZE(wanted), start
        cdef Key *key
        cdef list result = []
        for i in range(self.count):
            key = &self.keys[i]
            start = <Py_ssize_t> key.length - length
            if start < 0 or (start > 0 and key.bytes[start - 1] != 0x2F):
                continue
            if memcmp(key.bytes + start, PyBytes_AS_STRING(wanted), length) == 0:
                result.append(text_of(key.bytes, key.length))
        return result

    def tree(self, str path not None, str hidden not None):
        """Every group and leaf below a group, without the leaves whose last name is hidden.

        A group is listed once, before what is in it; a hidden leaf makes its group appear.
        """
        cdef bytes hidden_name = hidden.encode()
        cdef Py_ssize_t hidden_length = PyBytes_GET_SIZE(hidden_name), base = PyBytes_GET_SIZE(_prefix(path))
        cdef Py_ssize_t i, start, stop, at, common, last, most, groups
        cdef Key *key
        cdef const uint8_t *before = NULL
        cdef list result = []
        start, stop = self.group(path)
        for i in range(start, stop):
            key = self.order[i]
            # How far the folders of this key are those of the key before.
            common = base
            if before != NULL:
                most = min(key.length, self.order[i - 1].length)
                at = base
                while at < most and before[at] == key.bytes[at]:
                    at += 1
                    if key.bytes[at - 1] == 0x2F:
                        common = at
            last = base
            groups = 0
            for at in range(base, key.length):
                if key.bytes[at] == 0x2F:
                    groups += 1
                    if groups > MAX_GROUPS:
                        raise FormatError(f"a key lies in more than {MAX_GROUPS} groups", key=text_of(key.bytes, at))
                    if at >= common and self._lookup(key.bytes, at, sip_hash(key.bytes, at)) == NULL:
                        result.append(text_of(key.bytes, at))
                    last = at + 1
            before = key.bytes
            if key.length - last != hidden_length or memcmp(
                key.bytes + last, PyBytes_AS_STRING(hidden_name), hidden_length
            ) != 0:
                result.append(text_of(key.bytes, key.length))
        return result

    cdef Py_ssize_t _bound(self, const uint8_t *prefix, Py_ssize_t length, bint after) noexcept nogil:
        """Position of the first key not below a prefix, or of the first one behind all that begin with it."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        cdef Key *key
        cdef int order
        while low < high:
            middle = (low + high) // 2
            key = self.order[middle]
            order = memcmp(key.bytes, prefix, min(<Py_ssize_t> key.length, length))
            if order == 0:
                order = -1 if key.length < length else (-1 if after else 1)
            if order < 0:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t _run_end(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t length) noexcept nogil:
        """Where the run of keys ends that share the first bytes of the one at `start`."""
        cdef Py_ssize_t low = start + 1, high, step = 1
        cdef const uint8_t *prefix = self.order[start].bytes
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

    cdef bint _shares(self, Py_ssize_t position, const uint8_t *prefix, Py_ssize_t length) noexcept nogil:
        cdef Key *key = self.order[position]
        return key.length >= length and memcmp(key.bytes, prefix, length) == 0

    def __repr__(self):
        return f"<KeyTable: {self.count} keys>"


cdef bint _is_skipped(Member *member, tuple skipped):
    cdef bytes skip
    cdef Py_ssize_t length
    for skip in skipped:
        length = PyBytes_GET_SIZE(skip)
        if member.name_length == length or (member.name_length > length and skip[length - 1] == 0x2F):
            if memcmp(member.name, PyBytes_AS_STRING(skip), length) == 0:
                return True
    return False


cdef bytes _prefix(str path):
    """The bytes that keys below a group begin with."""
    if path == "/" or path == "":
        return b""
    return (path[1:] if path[0] == "/" else path).encode("utf-8", "surrogateescape") + b"/"


cdef bint _begins_like_frame(Archive archive, Py_ssize_t number):
    """Whether a member's data starts with the magic of a frame; a member that cannot be located does not."""
    cdef int64_t data
    cdef uint8_t start[10]
    cdef Py_ssize_t length = PyBytes_GET_SIZE(FRAME_MAGIC)
    try:
        data = archive.locate(number)
    except FormatError:
        return False
    if archive.members[number].size < length:
        return False
    archive.source.check(archive.source.read_into(data, length, start), data, length)
    return memcmp(start, PyBytes_AS_STRING(FRAME_MAGIC), length) == 0
