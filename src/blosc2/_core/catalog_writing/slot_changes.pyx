# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The hash of a catalog, brought to the next version: few paths are hashed, all others keep their slots.

The slots are copied, and the offsets in them moved as far as the records are. Paths that are gone are taken out as from
any hash with linear probing: those behind them come closer to their homes. Whatever is not as it must be, or cannot be
told apart, makes `apply` give up; then the hash is made anew, with another seed.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.io.little_endian cimport put64, u64
from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.zip.catalog cimport SLOT_LENGTH, OFFSET_BITS, slot_home, slot_offset, slot_tag
from blosc2._core.zip.key_hash cimport next_prefix, prefix_hashes, start_prefixes

cdef extern from "io/large_pages.h" nogil:
    void use_large_pages(void *start, size_t length)

cdef enum:
    # How far from its home a new path may be put: with two slots for three paths no run is as long as that. Whoever knows
    # the seed of a file can make keys that all have one home, or one tag, too; then a new seed is drawn.
    MOST_AWAY = 256
    MOST_TWINS = 2


cdef uint64_t NOT_MOVED = (<uint64_t> 1 << OFFSET_BITS) - 1


cdef class SlotChanges:
    """Changes the hash of a table that has a catalog, whose pages were checked.

    Parameters
    ----------
    table : KeyTable
    """

    def __cinit__(self, KeyTable table not None):
        cdef size_t size = <size_t> table.slot_count * SLOT_LENGTH
        self.table = table
        self.changes = Collected.__new__(Collected)
        self.slots = <uint8_t *> PyMem_Malloc(size)
        if self.slots == NULL:
            raise MemoryError
        use_large_pages(self.slots, size)
        with nogil:
            memcpy(self.slots, table.slots, size)

    def __dealloc__(self):
        PyMem_Free(self.slots)

    cdef int note(self, uint64_t hashed, int64_t before, int64_t now) except -1:
        """A path comes (`before` is -1), goes (`now` is -1), or gets another first leaf."""
        cdef SlotChange change
        change.hashed, change.before, change.now = hashed, before, now
        memcpy(self.changes.more(sizeof(SlotChange)), &change, sizeof(SlotChange))
        self.changes.used += sizeof(SlotChange)
        self.added += (before < 0) - (now < 0)
        return 0

    cdef bint apply(self, const Shift *shifts, int64_t count) except -1:
        """Make all changes; False where that is not possible. `shifts` has all records that stay, in their order."""
        cdef SlotChange *changes = <SlotChange *> self.changes.data
        cdef int64_t total = self.changes.used // <int64_t> sizeof(SlotChange), i, slot, j = 0, parts
        cdef int64_t end = self.table.archive.directory_size
        cdef int64_t *first
        cdef int bits = 0
        cdef bint fine = True
        # Which shift is the first one for each part of the directory.
        while end >> bits > max(<int64_t> 64, 4 * count):
            bits += 1
        parts = (end >> bits) + 1
        first = <int64_t *> PyMem_Calloc(<size_t> parts, sizeof(int64_t))
        if first == NULL:
            raise MemoryError
        try:
            with nogil:
                for i in range(parts):
                    while j < count and shifts[j].stop <= i << bits:
                        j += 1
                    first[i] = j
                for i in range(total):
                    if fine and changes[i].now < 0:
                        fine = self.remove(changes[i].hashed, changes[i].before)
                for i in range(total):
                    if not fine:
                        break
                    if changes[i].before >= 0 and changes[i].now >= 0:
                        slot = self.find(changes[i].hashed, changes[i].before)
                        if slot < 0:
                            fine = False
                            break
                        # The slots know no path, so each is marked until all others have been moved.
                        put64(self.slots + SLOT_LENGTH * slot, slot_tag(changes[i].hashed) | NOT_MOVED)
                        changes[i].before = slot
                fine = fine and self.translate(shifts, count, first, bits)
                for i in range(total):
                    if fine and changes[i].before >= 0 and changes[i].now >= 0:
                        put64(self.slots + SLOT_LENGTH * changes[i].before,
                              slot_tag(changes[i].hashed) | <uint64_t> (changes[i].now + 1))
                for i in range(total):
                    if fine and changes[i].before < 0 and changes[i].now >= 0:
                        fine = self.insert(changes[i].hashed, changes[i].now)
        finally:
            PyMem_Free(first)
        return fine

    cdef int64_t find(self, uint64_t hashed, int64_t offset) noexcept nogil:
        """The slot of a path that leads to an offset; -1 where it is not there, or one of two."""
        cdef int64_t slot = slot_home(hashed, self.table.homes), found = -1
        cdef uint64_t there, wanted = slot_tag(hashed) | <uint64_t> (offset + 1)
        while slot < self.table.slot_count:
            there = u64(self.slots + SLOT_LENGTH * slot)
            if there == 0:
                return found
            if there == wanted:
                # Of a leaf and a group with the same 24 bits nobody could say which is which.
                if found >= 0:
                    return -1
                found = slot
            slot += 1
        return -1

    cdef bint remove(self, uint64_t hashed, int64_t offset) noexcept nogil:
        """Take a path out; those behind it come closer to their homes."""
        cdef int64_t gap = self.find(hashed, offset), slot, home
        cdef uint64_t there
        if gap < 0:
            return False
        slot = gap
        while True:
            slot += 1
            there = u64(self.slots + SLOT_LENGTH * slot) if slot < self.table.slot_count else 0
            if there == 0:
                break
            home = self.home_of(slot)
            if home < 0:
                return False
            if home <= gap:
                put64(self.slots + SLOT_LENGTH * gap, there)
                gap = slot
        put64(self.slots + SLOT_LENGTH * gap, 0)
        return True

    cdef int64_t home_of(self, int64_t slot) noexcept nogil:
        """The home of the path in a slot; -1 where that cannot be told."""
        cdef uint64_t there = u64(self.slots + SLOT_LENGTH * slot), hashed
        cdef Text key
        cdef prefix_hashes state
        cdef int64_t found = -1, home
        cdef Py_ssize_t at
        if not self.table.key_at(slot_offset(there), &key):
            return -1
        # It is that of the leaf, or of one of the groups that it lies in.
        start_prefixes(&state, self.table.seed0, self.table.seed1)
        for at in range(key.length + 1):
            if at == key.length or key.bytes[at] == 0x2F:
                hashed = next_prefix(&state, key.bytes, <size_t> at)
                home = slot_home(hashed, self.table.homes)
                if slot_tag(hashed) == slot_tag(there) and home <= slot and home != found:
                    if found >= 0:
                        return -1
                    found = home
        return found

    cdef bint translate(self, const Shift *shifts, int64_t count, const int64_t *first, int bits) noexcept nogil:
        """Let all slots lead to where the records are now; False where one leads to a record that is gone."""
        cdef int64_t slot, offset, i, last = self.table.archive.directory_size
        cdef uint64_t there
        cdef uint8_t *p = self.slots
        for slot in range(self.table.slot_count):
            there = u64(p)
            if there and there & NOT_MOVED != NOT_MOVED:
                offset = slot_offset(there)
                if not 0 <= offset < last:
                    return False
                i = first[offset >> bits]
                while i < count and shifts[i].stop <= offset:
                    i += 1
                if i == count or offset < shifts[i].start:
                    return False
                put64(p, slot_tag(there) | <uint64_t> (offset + shifts[i].by + 1))
            p += SLOT_LENGTH
        return True

    cdef bint insert(self, uint64_t hashed, int64_t offset) noexcept nogil:
        """Put a new path into the first free slot from its home on."""
        cdef int64_t slot = slot_home(hashed, self.table.homes)
        cdef int64_t stop = min(slot + MOST_AWAY, self.table.slot_count - 1)
        cdef uint64_t there
        cdef int twins = 0
        while slot < stop and twins <= MOST_TWINS:
            there = u64(self.slots + SLOT_LENGTH * slot)
            if there == 0:
                put64(self.slots + SLOT_LENGTH * slot, slot_tag(hashed) | <uint64_t> (offset + 1))
                return True
            twins += slot_tag(there) == slot_tag(hashed)
            slot += 1
        return False
