# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Writing the directory of an archive in the order of its keys, with the catalog before it.

Few changes of many leaves are a matter of `CatalogPatch`. Otherwise `CatalogBuilder` merges old and new leaves in the order
of their keys in several passes: one writes what the catalog says of each leaf, one writes the records of the directory, and
one for each part of the hash that fits into memory fills that part. Only this part grows with the number of leaves, up to
`SLOTS_BUDGET`.

doc/format/catalog.md has the bytes of a catalog.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memmove, memset

from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.endian cimport put, put32, put64, u32, u64
from blosc2._core.io.memory cimport bring_pages, prefetch, use_large_pages
from blosc2._core.keys.key_order cimport before_in_order, shared
from blosc2._core.keys.keytable cimport DAMAGED, KeyTable, Text
from blosc2._core.keys.listing cimport GoneRanges, after_gone, find_ranges, gone_within
from blosc2._core.zip.archive_writer cimport COLLECTED, ArchiveWriter, Collected, SortedItem, SortedRuns
from blosc2._core.zip.catalog cimport (
    FOOTER_LENGTH, LEAF_ATTRIBUTES, LEAF_LENGTH, LEAF_UNKNOWN, MAX_DIM, MOST_KINDS, OFFSET_BITS, PAGE, SAMPLE,
    SLOT_LENGTH, TALLY_LENGTH, Catalog, Description, Leaf, describe_nothing, describes_table, slot_home, slot_offset,
    slot_tag, unpack_description)
from blosc2._core.zip.key_bytes cimport key_hash, last_segment_is, next_prefix, prefix_hashes, start_prefixes
from blosc2._core.zip.records cimport CENTRAL_LENGTH, Record, is_wide, open_record

from blosc2._core.ndim.geometry import describe
from blosc2._core.zip.catalog import NAME
from blosc2.exceptions import FormatError

# The kinds and shapes of leaves as a catalog lists them: each kind once, and shapes as far as they are met again soon.


cdef enum:
    SHAPE_CACHE = 4096
    # Bytes of shapes; leaves behind have a kind and sizes, but no shape.
    SHAPES_BUDGET = 64 << 20


cdef int append_bytes(Collected to, bytes data) except -1:
    return to.append(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef class LeafKinds:
    """Numbers the kinds of leaves, and says where their shapes are."""

    cdef dict numbers           # bytes of what, codec and dtype -> number
    cdef Collected table, shapes
    cdef int64_t most           # kinds there can be, the unknown one and attributes included
    cdef dict shape_offsets
    cdef Description last       # the description before
    cdef int last_kind
    cdef uint32_t last_shape
    cdef bytes last_dtype

    def __cinit__(self):
        self.numbers, self.shape_offsets = {}, {}
        self.table, self.shapes = Collected.__new__(Collected), Collected.__new__(Collected)
        # The first ones are those of leaves without a shape, and of leaves that are not described.
        append_bytes(self.shapes, bytes(8))
        append_bytes(self.table, bytes(4))
        self.most = MOST_KINDS

    cdef int kind(self, const Description *description) except -1:
        """The number of a kind of leaf; 0 where there are too many."""
        if description.what == LEAF_UNKNOWN:
            return 0
        if (self.last_dtype is not None and description.what == self.last.what and description.codec == self.last.codec
                and description.dtype_length == PyBytes_GET_SIZE(self.last_dtype)
                and memcmp(description.dtype, PyBytes_AS_STRING(self.last_dtype), description.dtype_length) == 0):
            return self.last_kind
        cdef bytes dtype = (<const char *> description.dtype)[:description.dtype_length]
        key = bytes((description.what, description.codec)) + dtype
        number = self.numbers.get(key)
        if number is None:
            if len(self.numbers) >= self.most - 1:
                return 0
            number = len(self.numbers) + 1
            self.numbers[key] = number
            append_bytes(
                self.table, bytes((description.what, description.codec)) + len(dtype).to_bytes(2, "little") + dtype)
        self.last.what, self.last.codec = description.what, description.codec
        self.last_dtype, self.last_kind = dtype, number
        return number

    cdef uint32_t shape(self, const Description *description) except? 0xFFFFFFFF:
        """Where a shape is; alike ones are kept once, as far as they are met again soon."""
        cdef bytes packed
        cdef uint8_t *p
        cdef int i
        cdef int64_t size
        if description.ndim < 0:
            return 0
        size = 8 * (description.ndim + 1)
        if self.last_shape and u64(self.shapes.data + 8 * <int64_t> self.last_shape) == <uint64_t> description.ndim:
            p = self.shapes.data + 8 * (<int64_t> self.last_shape + 1)
            for i in range(description.ndim):
                if u64(p + 8 * i) != description.shape[i]:
                    break
            else:
                return self.last_shape
        packed = PyBytes_FromStringAndSize(NULL, size)
        p = put64(<uint8_t *> PyBytes_AS_STRING(packed), <uint64_t> description.ndim)
        for i in range(description.ndim):
            p = put64(p, description.shape[i])
        found = self.shape_offsets.get(packed)
        if found is None:
            if self.shapes.used + size > SHAPES_BUDGET:
                return 0
            found = self.shapes.used // 8
            append_bytes(self.shapes, packed)
            if len(self.shape_offsets) >= SHAPE_CACHE:
                self.shape_offsets.clear()
            self.shape_offsets[packed] = found
        self.last_shape = <uint32_t> found
        return self.last_shape

    cdef int fill_up(self) except -1:
        """List kinds that were not met after all, so that there are as many as were announced."""
        while len(self.numbers) < self.most - 1:
            self.numbers[b"\0" * len(self.numbers)] = None
            append_bytes(self.table, bytes(4))
        return 0

    cdef bint go_on_from(self, Catalog before) except -1:
        """Begin with those of a catalog, at their places. False where they are damaged, or nearly too many."""
        cdef const uint8_t *p
        cdef bytes shapes, packed
        cdef int64_t at = 8, size
        cdef uint64_t ndim
        # Whoever goes on and on keeps shapes and kinds that no leaf has any more: they end when all is written anew.
        if before.shapes_size > 65536 + 64 * before.count or before.shapes_size > SHAPES_BUDGET // 2 or (
                before.shapes_size < 8 or before.shapes_size % 8 or before.kind_count > MOST_KINDS // 2):
            return False
        p = before.bytes_at(before.shapes_at, before.shapes_size)
        if p == NULL:
            return False
        shapes = (<const char *> p)[:before.shapes_size]
        p = before.bytes_at(before.kinds_at, before.kinds_size)
        if p == NULL:
            return False
        self.shapes.used = self.table.used = 0
        append_bytes(self.shapes, shapes)
        append_bytes(self.table, (<const char *> p)[:before.kinds_size])
        while at < before.shapes_size and len(self.shape_offsets) < SHAPE_CACHE // 4:
            ndim = u64(<const uint8_t *> PyBytes_AS_STRING(shapes) + at)
            size = 8 * (1 + <int64_t> ndim)
            if ndim > MAX_DIM or at + size > before.shapes_size:
                return False
            packed = shapes[at:at + size]
            self.shape_offsets.setdefault(packed, at // 8)
            at += size
        for number, (what, codec, dtype) in enumerate(before.kinds()):
            if number:
                key = bytes((what, codec)) + dtype.encode()
                # What stands there without need must have a number, too.
                self.numbers[b"\0%d" % number if what == LEAF_UNKNOWN or key in self.numbers else key] = number
        return True


# The bytes of a catalog on their way to the file, with a checksum for each page.


cdef class Pages:
    """What is written of a catalog, with a checksum for each page."""

    cdef ArchiveWriter writer       # None: it is kept in memory
    cdef Collected kept, waiting, checksums
    cdef int64_t size
    cdef uint32_t running
    cdef bint covered           # whether what is added gets a checksum

    def __cinit__(self, ArchiveWriter writer):
        self.writer = writer
        self.kept = Collected.__new__(Collected)
        self.waiting = Collected.__new__(Collected)
        self.checksums = Collected.__new__(Collected)
        self.covered = True

    cdef int add(self, const uint8_t *data, int64_t size) except -1:
        cdef int64_t part
        cdef const uint8_t *p = data
        cdef int64_t left = size
        cdef Collected to = self.kept if self.writer is None else self.waiting
        while left and self.covered:
            part = min(left, PAGE - (self.size & (PAGE - 1)))
            self.running = checksum(self.running, p, <size_t> part)
            p += part
            left -= part
            self.size += part
            if self.size & (PAGE - 1) == 0:
                self.end_page()
        self.size += left
        to.append(data, size)
        if self.writer is not None and to.used >= COLLECTED:
            self.flush()
        return 0

    cdef int end_page(self) except -1:
        put32(self.checksums.more(4), self.running)
        self.checksums.used += 4
        self.running = 0
        return 0

    cdef int flush(self) except -1:
        if self.writer is not None and self.waiting.used:
            self.writer.add_open(self.waiting.data, self.waiting.used)
            self.waiting.used = 0
        return 0

    cdef int pad(self) except -1:
        """Begin a section: up to a multiple of 64 bytes."""
        cdef uint8_t zeros[64]
        memset(zeros, 0, 64)
        return self.add(zeros, -self.size & 63)


cdef enum:
    # Leaves between two tallies, at least.
    TALLY_STEP = 1024


cdef class LeafTotals:
    """The totals of all leaves so far: those that the next leaf's entry has, and those of each kind in tallies."""

    cdef int64_t leaves, groups, hidden
    cdef uint64_t nbytes, cbytes
    cdef int64_t kinds, step, rows      # kinds of leaves, leaves between two tallies, and tallies
    cdef uint64_t *counts               # of each kind: leaves, nbytes, cbytes
    cdef uint8_t *tallies

    def __dealloc__(self):
        PyMem_Free(self.counts)
        PyMem_Free(self.tallies)

    cdef int begin(self, int64_t kinds, int64_t step, int64_t most) except -1:
        """Begin with none of at most so many leaves."""
        self.kinds, self.step = kinds, max(step, 16 * kinds)
        self.counts = <uint64_t *> PyMem_Calloc(<size_t> (3 * kinds), 8)
        self.tallies = <uint8_t *> PyMem_Calloc(<size_t> (TALLY_LENGTH * kinds), <size_t> (most // self.step + 1))
        if self.counts == NULL or self.tallies == NULL:
            raise MemoryError
        return 0

    cdef uint8_t *put_entry(self, uint8_t *p, int64_t offset, uint32_t kind, uint32_t shape) noexcept nogil:
        """Make the entry of the next leaf, whose record has this offset; what follows it is returned."""
        p = put64(put64(put64(p, <uint64_t> offset), self.nbytes), self.cbytes)
        return put32(put32(put32(put32(p, <uint32_t> self.groups), <uint32_t> self.hidden), kind), shape)

    cdef void count(self, uint32_t kind, uint64_t nbytes, uint64_t cbytes) noexcept nogil:
        """Count a leaf; its groups, and whether it is hidden, are the caller's."""
        # A mapped file may change after it was checked.
        cdef uint64_t *count = self.counts + 3 * (kind if kind < self.kinds else 0)
        self.tally()
        count[0] += 1
        count[1] += nbytes
        count[2] += cbytes
        self.leaves += 1
        self.nbytes += nbytes
        self.cbytes += cbytes

    cdef void tally(self) noexcept nogil:
        """Note the totals of all kinds, where it is time."""
        cdef int64_t i
        cdef uint8_t *p = self.tallies + TALLY_LENGTH * self.kinds * self.rows
        if self.leaves % self.step == 0:
            for i in range(3 * self.kinds):
                p = put64(p, self.counts[i])
            self.rows += 1

    cdef int end(self, Pages pages, int64_t offset) except -1:
        """Write the entry behind the last leaf, which has the totals of all."""
        cdef uint8_t entry[LEAF_LENGTH]
        self.tally()
        self.put_entry(entry, offset, 0, 0)
        return pages.add(entry, LEAF_LENGTH)


# The footer of a catalog that is being written; doc/format/catalog.md has its bytes.


cdef enum:
    # Bytes of the name of a catalog.
    NAME_LENGTH = 11


cdef struct Footer:
    # Of the members that are no leaves: bytes of their records, their number, and the offset of that of embedded values.
    int64_t others_size, others_count, embed
    int64_t header                  # where the catalog's local header is in the file
    int64_t leaves, groups, hidden, undescribed, tables, records_size
    uint64_t seed0, seed1
    int64_t shapes_at, shapes_size, kinds_at, kinds_size, kind_count, tallies_at, tally_step
    int64_t slots_at, slot_count, homes
    uint32_t digest                 # of the sample of records


cdef int write_sections(Pages pages, LeafKinds known, LeafTotals totals, Footer *footer) except -1:
    """Write what lies between leaves and slots: shapes, kinds and tallies."""
    pages.pad()
    footer.shapes_at, footer.shapes_size = pages.size, known.shapes.used
    pages.add(known.shapes.data, known.shapes.used)
    pages.pad()
    footer.kinds_at, footer.kinds_size = pages.size, known.table.used
    pages.add(known.table.data, known.table.used)
    pages.pad()
    footer.tallies_at = pages.size
    pages.add(totals.tallies, TALLY_LENGTH * totals.kinds * totals.rows)
    pages.pad()
    footer.slots_at = pages.size
    footer.kind_count, footer.tally_step = totals.kinds, totals.step
    footer.leaves, footer.groups, footer.hidden = totals.leaves, totals.groups, totals.hidden
    return 0


cdef inline int write_footer(const Footer *f, Pages pages, uint8_t *footer) except -1:
    """Write the checksums of all pages behind the sections, and make the footer."""
    cdef int64_t checksums_at = pages.size, size, own, start
    cdef uint8_t *p
    if pages.size % PAGE:
        pages.end_page()
    pages.covered = False
    pages.add(pages.checksums.data, pages.checksums.used)
    pages.pad()
    size = pages.size + FOOTER_LENGTH
    start = 0 if pages.writer is None else pages.writer._open_start
    own = CENTRAL_LENGTH + NAME_LENGTH
    if is_wide(size) or is_wide(f.header):
        own += 4 + 16 * is_wide(size) + 8 * is_wide(f.header)
    memset(footer, 0, FOOTER_LENGTH)
    p = put32(put32(put(footer, <const char *> b"b2catlog", 8), 1), FOOTER_LENGTH)
    p = put64(put64(put64(p, <uint64_t> (start + size)), <uint64_t> (f.others_size + f.records_size + own)),
              <uint64_t> (f.others_count + f.leaves + 1))
    p = put64(put64(put64(p, <uint64_t> size), <uint64_t> f.leaves), <uint64_t> f.groups)
    p = put64(put64(put64(p, <uint64_t> f.hidden), <uint64_t> f.undescribed), <uint64_t> f.tables)
    p = put64(put64(put64(p, <uint64_t> f.embed), f.seed0), f.seed1)
    p = put64(put64(p, <uint64_t> f.shapes_at), <uint64_t> f.shapes_size)
    p = put64(put64(put64(p, <uint64_t> f.kinds_at), <uint64_t> f.kinds_size), <uint64_t> f.kind_count)
    p = put64(put64(p, <uint64_t> f.tallies_at), <uint64_t> f.tally_step)
    p = put64(put64(put64(p, <uint64_t> f.slots_at), <uint64_t> f.slot_count), <uint64_t> f.homes)
    p = put64(put64(put64(p, <uint64_t> checksums_at), <uint64_t> f.others_size),
              <uint64_t> (f.others_size + f.records_size))
    put32(put32(footer + 240, f.digest), checksum(0, pages.checksums.data, <size_t> pages.checksums.used))
    put32(footer + 248, checksum(0, footer, 248))
    pages.add(footer, FOOTER_LENGTH)
    return 0


cdef bytes end_catalog(Pages pages, const uint8_t *footer, int64_t paths, bytes others):
    """End the member of a catalog, and begin the directory behind it; the record of the catalog is returned."""
    cdef bytes own
    pages.flush()
    own = pages.writer.end_open()
    pages.writer.note_catalog(pages.size, footer, paths)
    pages.writer.begin_directory()
    pages.writer._add(<const uint8_t *> PyBytes_AS_STRING(others), PyBytes_GET_SIZE(others))
    return own


cdef int end_directory(ArchiveWriter writer, bytes own, int64_t count) except -1:
    """End the directory with the record of the catalog."""
    writer._add(<const uint8_t *> PyBytes_AS_STRING(own), PyBytes_GET_SIZE(own))
    return writer.end_directory(count + 1)


# The leaves of an archive that is being written, in the order of their keys: those of its old directory, and new ones.


cdef struct Merged:
    const uint8_t *key
    Py_ssize_t length
    const uint8_t *record
    int64_t record_length
    int64_t position        # among the old leaves, -1 for a new one
    const uint8_t *description    # of a new leaf
    int64_t description_length


cdef inline Py_ssize_t common_start(Collected before, const uint8_t *key, Py_ssize_t length) noexcept:
    """How many bytes a key has in common with the one before."""
    cdef Py_ssize_t i = 0, most = min(length, <Py_ssize_t> before.used)
    cdef uint64_t x, y
    while i + 8 <= most:
        memcpy(&x, key + i, 8)
        memcpy(&y, before.data + i, 8)
        if x != y:
            break
        i += 8
    while i < most and key[i] == before.data[i]:
        i += 1
    return i


cdef inline int remember(Collected before, const uint8_t *key, Py_ssize_t length) except -1:
    before.used = 0
    memcpy(before.more(max(length, 1)), key, <size_t> length)
    before.used = length
    return 0


cdef class RecordSample:
    """The first and the last bytes of all records of leaves."""

    cdef Collected head, tail

    def __cinit__(self):
        self.head, self.tail = Collected.__new__(Collected), Collected.__new__(Collected)

    cdef int take(self, const uint8_t *record, int64_t length) except -1:
        """The next record."""
        cdef int64_t part = min(length, SAMPLE - self.head.used)
        if part > 0:
            self.head.append(record, part)
        if self.tail.used > 16 * SAMPLE:
            memmove(self.tail.data, self.tail.data + self.tail.used - SAMPLE, SAMPLE)
            self.tail.used = SAMPLE
        self.tail.append(record, length)
        return 0

    cdef uint32_t digest(self, int64_t size) noexcept:
        """The checksum of both, of records of `size` bytes."""
        cdef int64_t part = min(size, SAMPLE)
        return checksum(checksum(0, self.head.data, <size_t> part), self.tail.data + self.tail.used - part, <size_t> part)


cdef class LeafMerge:
    """The leaves of a new directory in the order of their keys: those that stay, and those that come."""

    cdef KeyTable old       # None where there are none
    cdef GoneRanges gone
    cdef SortedRuns runs
    cdef int64_t position
    cdef SortedItem item
    cdef int has_item       # -1 while the item is given out

    cdef int begin(self) except -1:
        self.position = 0
        self.runs.rewind()
        self.has_item = self.runs.next(&self.item)
        return 0

    cdef bint next(self, Merged *leaf) except -1:
        """The next leaf, False at the end."""
        cdef Text key
        cdef Record record
        cdef int order
        cdef bint has_old
        while True:
            if self.gone.count:
                self.position = after_gone(&self.gone, self.position)
            has_old = self.old is not None and self.position < self.old.count
            if not has_old and not self.has_item:
                return False
            order = 1
            if has_old:
                if not self.old.leaf_at(self.position, &record, &key):
                    raise FormatError("there is no record of a leaf here", path=self.old.archive.source.path,
                                      offset=self.old.archive.directory_offset + max(self.old.record_offset(self.position), 0))
                order = -1
                if self.has_item:
                    order = memcmp(key.bytes, self.item.key, min(key.length, <Py_ssize_t> self.item.key_length))
                    if order == 0:
                        order = (key.length > <Py_ssize_t> self.item.key_length) - (
                            key.length < <Py_ssize_t> self.item.key_length)
                if order < 0:
                    leaf.key, leaf.length = key.bytes, key.length
                    leaf.record, leaf.record_length = record.start, record.length
                    leaf.position = self.position
                    self.position += 1
                    return True
                if order == 0:      # replaced
                    self.position += 1
            # Without a payload it says that the key is gone.
            if self.item.payload_length:
                leaf.key, leaf.length = self.item.key, self.item.key_length
                leaf.record_length = u32(self.item.payload)
                leaf.record = self.item.payload + 4
                leaf.description = leaf.record + leaf.record_length
                leaf.description_length = <int64_t> self.item.payload_length - 4 - leaf.record_length
                if leaf.description_length < 0:
                    raise FormatError("a temporary file has not kept its bytes")
                leaf.position = -1
                # It stays where it is until the next one is asked for.
                self.has_item = -1
                return True
            self.has_item = self.runs.next(&self.item)

    cdef int go_on(self) except -1:
        """Let go of the leaf that was given."""
        if self.has_item == -1:
            self.has_item = self.runs.next(&self.item)
        return 0


# Filling the hash of a catalog: paths are put into their slots in the order in which they come.


cdef enum:
    # Paths that wait for their slots.
    WAITING = 16



cdef class PathSlots:
    """Puts paths into slots, some steps after their slots were asked for: those of a large hash are not in a cache."""

    cdef int64_t homes
    cdef uint64_t seed0, seed1
    cdef uint64_t waiting_hashes[WAITING]
    cdef int64_t waiting_offsets[WAITING]       # plus one; 0 where none waits
    cdef int64_t waiting

    cdef int put(self, uint8_t *slots, int64_t first, int64_t last, int64_t stop, int64_t offset, const uint8_t *key,
                 Py_ssize_t length, Py_ssize_t common) except -1:
        """Put a leaf, and the groups that appear with it, into the slots ``first .. stop``, if their home is before `last`.

        Some wait for a while; `put_all` puts the last ones.
        """
        cdef prefix_hashes state
        cdef uint64_t hashed
        cdef Py_ssize_t at
        start_prefixes(&state, self.seed0, self.seed1)
        for at in range(common, length + 1):
            if at == length or key[at] == 0x2F:
                hashed = next_prefix(&state, key, <size_t> at)
                if first <= slot_home(hashed, self.homes) < last:
                    # Its slot is asked for now, and needed some paths later.
                    prefetch(slots + SLOT_LENGTH * (slot_home(hashed, self.homes) - first), 1)
                    self.put_waiting(slots, first, stop, self.waiting % WAITING)
                    self.waiting_hashes[self.waiting % WAITING], self.waiting_offsets[self.waiting % WAITING] = hashed, offset + 1
                    self.waiting += 1
        return 0

    cdef int put_waiting(self, uint8_t *slots, int64_t first, int64_t stop, int at) except -1:
        """Put a path that waits into its slot."""
        cdef int64_t offset = self.waiting_offsets[at] - 1
        self.waiting_offsets[at] = 0
        return self.put_slot(slots, first, stop, offset, self.waiting_hashes[at]) if offset >= 0 else 0

    cdef int put_all(self, uint8_t *slots, int64_t first, int64_t stop) except -1:
        """Put all paths that wait into their slots, in the order in which they came."""
        cdef int i
        for i in range(WAITING):
            self.put_waiting(slots, first, stop, (self.waiting + i) % WAITING)
        return 0

    cdef int put_slot(self, uint8_t *slots, int64_t first, int64_t stop, int64_t offset, uint64_t hashed) except -1:
        """Put an offset into the first free slot from its home on, of the slots ``first .. stop``."""
        cdef int64_t slot = slot_home(hashed, self.homes)
        while slot < stop - 1:
            if u64(slots + SLOT_LENGTH * (slot - first)) == 0:
                put64(slots + SLOT_LENGTH * (slot - first), slot_tag(hashed) | <uint64_t> (offset + 1))
                return 0
            slot += 1
        raise RuntimeError("the hash of the catalog has a cluster that cannot be")


# The hash of a catalog, brought to the next version: few paths are hashed, all others keep their slots.
#
# The slots are copied, and the offsets in them moved as far as the records are. Paths that are gone are taken out as from
# any hash with linear probing: those behind them come closer to their homes. Whatever is not as it must be, or cannot be
# told apart, makes `apply` give up; then the hash is made anew, with another seed.


cdef struct Shift:
    # Records of the old directory from one offset up to another, and how much further their place in the new one is.
    int64_t start, stop, by


cdef struct SlotChange:
    uint64_t hashed         # of a path
    int64_t before, now     # where its slot leads to in the old directory, and in the new one; -1 where there is none


cdef enum:
    # How far from its home a new path may be put: with two slots for three paths no run is as long as that. Whoever knows
    # the seed of a file can make keys that all have one home, or one tag, too; then a new seed is drawn.
    MOST_AWAY = 256
    MOST_TWINS = 2


cdef uint64_t NOT_MOVED = (<uint64_t> 1 << OFFSET_BITS) - 1


cdef class SlotChanges:
    """Changes the hash of a table that has a catalog, whose pages were checked."""

    cdef KeyTable table
    cdef uint8_t *slots
    cdef Collected changes      # of `SlotChange`
    cdef int64_t added          # paths more than before

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
        self.changes.append(&change, sizeof(SlotChange))
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


# The catalog and the directory of the next version, made of those of the last one.
#
# A commit of few leaves costs memory copies of what is there: runs of old records are copied, the totals of old leaves are
# moved by what came or went before them, and of the hash only the paths that come or go are looked at. Nothing is written
# before all of it is known to be possible; otherwise `CatalogBuilder` makes all anew, as it does now and then anyway.
#
# What the last catalog says of its leaves must have been compared with the directory (`KeyTable.sound`), or be this writer's
# own.



cdef struct Change:
    Text key
    int64_t position            # of the first old leaf that does not come before it
    bint is_there               # whether that is the leaf with this key
    const uint8_t *record       # of a new leaf; NULL says that the key is gone
    int64_t record_length
    uint32_t kind, shape
    uint64_t nbytes, cbytes


cdef struct Piece:
    # Old leaves that stay, or none and a new one.
    int64_t first, stop
    int64_t change              # number of the new one, or -1
    uint32_t appear             # groups that appear with the first of them


cdef inline bint is_hidden(const Text *key) noexcept nogil:
    return last_segment_is(key.bytes, <size_t> key.length, b"__vlmeta__", 10)


cdef inline bint begins_with_group(const Text *key, const uint8_t *group, Py_ssize_t length) noexcept nogil:
    return key.length > length and key.bytes[length] == 0x2F and memcmp(key.bytes, group, <size_t> length) == 0


cdef enum:
    # Leaves whose entries are made at a time.
    TOGETHER = 1024
    # Bytes of records that are written at a time.
    WRITTEN = 4 << 20


cdef class CatalogPatch:
    """Plans the next version, and writes it if that is possible."""

    cdef KeyTable table
    cdef Catalog catalog
    cdef SortedRuns runs
    cdef LeafKinds known
    cdef SlotChanges slots
    cdef GoneRanges ranges      # of old leaves that do not stay
    cdef Collected changes, pieces, removed, shifts
    cdef int64_t change_count, piece_count, removed_count, shift_count, gone
    cdef int64_t leaves, undescribed, tables, paths
    cdef LeafTotals totals      # of what was written so far
    cdef int64_t offset
    cdef uint8_t *entries

    def __cinit__(self, KeyTable table not None, SortedRuns runs not None):
        self.table, self.runs, self.catalog = table, runs, table.catalog
        self.changes, self.pieces = Collected.__new__(Collected), Collected.__new__(Collected)
        self.removed, self.shifts = Collected.__new__(Collected), Collected.__new__(Collected)

    def __dealloc__(self):
        PyMem_Free(self.entries)

    # ------------------------------------------------------------------ the plan
    cdef bint plan(self, int64_t others_size) except -1:
        """Find out what changes; False where all has to be made anew."""
        self.known = LeafKinds()
        if not self.known.go_on_from(self.catalog) or not self._find_changes() or not self._cut():
            return False
        self.slots = SlotChanges(self.table)
        if not self._lay_out(others_size) or not self._remove_paths():
            return False
        self.paths = self.table._paths + self.slots.added
        if 3 * self.paths > 2 * self.table.homes or self.leaves == 0 or self.leaves >= <int64_t> 1 << 31:
            return False
        return self.slots.apply(<const Shift *> self.shifts.data, self.shift_count)

    cdef bint _find_changes(self) except -1:
        """Where the new leaves and the tombstones belong."""
        cdef SortedItem item
        cdef Change change
        cdef Description description
        cdef int64_t position = 0, rest
        self.runs.rewind()
        while self.runs.next(&item):
            change.key = Text(item.key, item.key_length)
            position = self._position(&change.key, position, &change.is_there)
            if position < 0:
                return False
            change.position, change.record = position, NULL
            change.record_length, change.kind, change.shape, change.nbytes, change.cbytes = 0, 0, 0, 0, 0
            if item.payload_length:
                change.record_length = u32(item.payload)
                change.record = item.payload + 4
                rest = <int64_t> item.payload_length - 4 - change.record_length
                if rest < 0:
                    return False
                if not unpack_description(change.record + change.record_length, rest, &description):
                    describe_nothing(&description)
                if is_hidden(&change.key):
                    describe_nothing(&description)
                    description.what, description.codec = LEAF_ATTRIBUTES, 0
                change.kind = <uint32_t> self.known.kind(&description)
                if change.kind:
                    change.shape = self.known.shape(&description)
                    change.nbytes, change.cbytes = description.nbytes, description.cbytes
            elif not change.is_there:
                continue
            self.changes.append(&change, sizeof(Change))
            self.change_count += 1
        return True

    cdef int64_t _position(self, const Text *key, int64_t start, bint *is_there) noexcept nogil:
        """The first old leaf from one on that does not come before a key, -1 where the catalog is damaged."""
        cdef int64_t low = start, high, step = 1
        cdef Text other
        is_there[0] = False
        # In steps that double: changes often lie side by side.
        while low + step <= self.table.count:
            if not self.table.key(low + step - 1, &other):
                return -1
            if not before_in_order(&other, key):
                break
            low += step
            step *= 2
        high = min(self.table.count, low + step - 1)
        while low < high:
            if not self.table.key((low + high) // 2, &other):
                return -1
            if before_in_order(&other, key):
                low = (low + high) // 2 + 1
            else:
                high = (low + high) // 2
        if low < self.table.count:
            if not self.table.key(low, &other):
                return -1
            is_there[0] = other.length == key.length and memcmp(other.bytes, key.bytes, <size_t> key.length) == 0
        return low

    cdef int _add_piece(self, int64_t first, int64_t stop, int64_t change) except -1:
        cdef Piece piece
        piece.first, piece.stop, piece.change, piece.appear = first, stop, change, 0
        self.pieces.append(&piece, sizeof(Piece))
        self.piece_count += 1
        self.leaves += stop - first if change < 0 else 1
        return 0

    cdef int _add_removed(self, int64_t first, int64_t stop) except -1:
        cdef int64_t *last
        self.gone += stop - first
        if self.removed_count:
            last = <int64_t *> (self.removed.data + self.removed.used) - 2
            if last[1] == first:
                last[1] = stop
                return 0
        last = <int64_t *> self.removed.more(2 * sizeof(int64_t))
        last[0], last[1] = first, stop
        self.removed.used += 2 * sizeof(int64_t)
        self.removed_count += 1
        return 0

    cdef int _keep(self, int64_t first, int64_t stop) except -1:
        """Old leaves that stay, but for those that lie in groups that are gone."""
        cdef int i
        for i in range(self.ranges.count):
            if first < self.ranges.stop[i] and self.ranges.first[i] < stop:
                if first < self.ranges.first[i]:
                    self._add_piece(first, self.ranges.first[i], -1)
                self._add_removed(max(first, self.ranges.first[i]), min(stop, self.ranges.stop[i]))
                first = min(stop, self.ranges.stop[i])
        if first < stop:
            self._add_piece(first, stop, -1)
        return 0

    cdef bint _cut(self) except -1:
        """The next version in pieces: runs of old leaves, and new ones between them."""
        cdef Change *change
        cdef int64_t i, at = 0
        for i in range(self.change_count):
            change = <Change *> self.changes.data + i
            if change.position > at:
                self._keep(at, change.position)
                at = change.position
            if change.is_there:
                at += 1
            if change.record != NULL:
                self._add_piece(change.position, change.position, i)
            else:
                self._add_removed(change.position, at)
        self._keep(at, self.table.count)
        # The paths of those that are gone are taken out one by one.
        return 8 * self.gone <= self.table.count

    cdef bint _lay_out(self, int64_t others_size) except -1:
        """Where each piece comes to lie, which groups appear with it, and what becomes of the slots of its paths."""
        cdef Piece *piece
        cdef Text before = Text(NULL, 0)
        cdef int64_t i, offset = others_size
        self.undescribed, self.tables = self.catalog.undescribed, self.catalog.tables
        for i in range(self.piece_count):
            piece = <Piece *> self.pieces.data + i
            if not (self._lay_leaf(piece, &before, &offset) if piece.change >= 0 else self._lay_run(piece, &before, &offset)):
                return False
        self.offset = others_size
        return True

    cdef bint _lay_leaf(self, Piece *piece, Text *before, int64_t *offset) except -1:
        """A new leaf: it takes the place of an old one, or comes between others."""
        cdef const Change *change = <const Change *> self.changes.data + piece.change
        cdef Text key = change.key
        cdef Leaf leaf, after
        cdef int64_t old = -1, group
        self.undescribed += change.kind == 0
        if change.is_there:
            if not self.catalog.leaf(change.position, &leaf) or not self.catalog.leaf(change.position + 1, &after):
                return False
            old = leaf.offset
            self.undescribed -= leaf.kind == 0
            self._add_shift(old, after.offset, offset[0] - old)
        else:
            self.tables += describes_table(key.bytes, key.length)
            # A group that is named like a leaf is not counted; which one that is, is not looked for here.
            if not is_hidden(&key):
                group = self.table.lookup_group(key.bytes, key.length)
                if group >= 0 or group == DAMAGED:
                    return False
        if not self._find_groups(piece, before, &key, old, offset[0]):
            return False
        if old < 0:
            self.slots.note(key_hash(self.table.seed0, self.table.seed1, key.bytes, <size_t> key.length), -1, offset[0])
        offset[0] += change.record_length
        before[0] = key
        return True

    cdef bint _lay_run(self, Piece *piece, Text *before, int64_t *offset) except -1:
        """Old leaves that stay: of their groups, only those that begin with the first of them may change."""
        cdef Leaf leaf, stop
        cdef Text key
        if not self.table.key(piece.first, &key) or not self.catalog.leaf(piece.first, &leaf) or (
                not self.catalog.leaf(piece.stop, &stop)):
            return False
        self._add_shift(leaf.offset, stop.offset, offset[0] - leaf.offset)
        if not self._find_groups(piece, before, &key, leaf.offset, offset[0]):
            return False
        offset[0] += stop.offset - leaf.offset
        return self.table.key(piece.stop - 1, before)

    cdef bint _find_groups(self, Piece *piece, const Text *before, const Text *key, int64_t old, int64_t offset) except -1:
        """Which groups appear with the first leaf of a piece, and which of them had another first leaf than that at `old`."""
        cdef Py_ssize_t common = shared(before.bytes, key.bytes, min(before.length, key.length)), at
        cdef prefix_hashes state
        cdef int64_t group
        cdef int named
        start_prefixes(&state, self.table.seed0, self.table.seed1)
        for at in range(common, key.length):
            if key.bytes[at] != 0x2F:
                continue
            piece.appear += 1
            group = self.table.lookup_group(key.bytes, at)
            if group == DAMAGED or (group < 0 and piece.change < 0):
                return False
            if group < 0 or group != old:
                self.slots.note(next_prefix(&state, key.bytes, <size_t> at), group if group >= 0 else -1, offset)
        if common < key.length and key.bytes[common] == 0x2F:
            named = self._is_named(key.bytes, common)
            if named < 0:
                return False
            piece.appear -= named
        return True

    cdef int _add_shift(self, int64_t start, int64_t stop, int64_t by) except -1:
        """Old records move by so many bytes, or are replaced."""
        cdef Shift *shift = <Shift *> self.shifts.more(sizeof(Shift))
        shift.start, shift.stop, shift.by = start, stop, by
        self.shifts.used += sizeof(Shift)
        self.shift_count += 1
        return 0

    cdef int _is_named(self, const uint8_t *group, Py_ssize_t length) except -2:
        """Whether there is a leaf, in the next version, that is named like a group and shown; -1 where that is not known."""
        cdef Text key = Text(group, length)
        cdef int64_t at = self._change_at(&key), offset, low = 0, high = self.removed_count, middle
        cdef const Change *change = <const Change *> self.changes.data + at
        cdef const int64_t *run
        cdef Leaf first, stop
        if is_hidden(&key):
            return 0
        if at < self.change_count and change.key.length == length and memcmp(
                change.key.bytes, group, <size_t> length) == 0:
            return change.record != NULL
        offset = self.table.lookup(group, length)
        if offset < 0:
            return -1 if offset == DAMAGED else 0
        while low < high:
            middle = (low + high) // 2
            run = <const int64_t *> self.removed.data + 2 * middle
            if not self.catalog.leaf(run[0], &first) or not self.catalog.leaf(run[1], &stop):
                return -1
            if stop.offset <= offset:
                low = middle + 1
            elif first.offset > offset:
                high = middle
            else:
                return 0
        return 1

    cdef int64_t _change_at(self, const Text *key) noexcept nogil:
        """The first change that does not come before a key."""
        cdef int64_t low = 0, high = self.change_count, middle
        while low < high:
            middle = (low + high) // 2
            if before_in_order(&(<const Change *> self.changes.data + middle).key, key):
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint _remove_paths(self) except -1:
        """Let the slots of leaves and groups that are gone be taken out."""
        cdef const int64_t *run
        cdef int64_t i, position, group
        cdef Text key, before, later
        cdef Leaf leaf
        cdef Py_ssize_t at
        cdef bint is_last
        cdef prefix_hashes state
        cdef uint64_t hashed
        for i in range(self.removed_count):
            run = <const int64_t *> self.removed.data + 2 * i
            is_last = run[1] == self.table.count
            if not is_last and not self.table.key(run[1], &later):
                return False
            before = Text(NULL, 0)
            if run[0] and not self.table.key(run[0] - 1, &before):
                return False
            for position in range(run[0], run[1]):
                if not self.table.key(position, &key) or not self.catalog.leaf(position, &leaf):
                    return False
                self.undescribed -= leaf.kind == 0
                self.tables -= describes_table(key.bytes, key.length)
                # Below a group that is gone, nothing is left that could be named like it.
                if not is_hidden(&key) and not gone_within(&self.ranges, position, position + 1):
                    group = self.table.lookup_group(key.bytes, key.length)
                    if group >= 0 or group == DAMAGED:      # which is counted from now on
                        return False
                start_prefixes(&state, self.table.seed0, self.table.seed1)
                # The groups whose first leaf it was: those that have others were seen with the first of these.
                for at in range(shared(before.bytes, key.bytes, min(before.length, key.length)), key.length):
                    if key.bytes[at] == 0x2F and (is_last or not begins_with_group(&later, key.bytes, at)) and (
                            not self._has_new(key.bytes, at)):
                        self.slots.note(next_prefix(&state, key.bytes, <size_t> at), leaf.offset, -1)
                hashed = key_hash(self.table.seed0, self.table.seed1, key.bytes, <size_t> key.length)
                self.slots.note(hashed, leaf.offset, -1)
                before = key
        return True

    cdef bint _has_new(self, const uint8_t *group, Py_ssize_t length) noexcept nogil:
        """Whether there is a new leaf, or one that is replaced, below a group."""
        cdef Text key = Text(group, length)
        cdef int64_t i = self._change_at(&key)
        cdef const Change *change
        while i < self.change_count:
            change = <const Change *> self.changes.data + i
            if not begins_with_group(&change.key, group, length):
                # Names that go on with "-" or "." come before "/".
                if not (change.key.length >= length and memcmp(change.key.bytes, group, <size_t> length) == 0) or (
                        change.key.length > length and change.key.bytes[length] > 0x2F):
                    return False
            elif change.record != NULL:
                return True
            i += 1
        return False

    # ------------------------------------------------------------------ writing
    cdef int _move_leaves(self, int64_t first, int64_t stop, int64_t by, uint32_t appear, bint begins) noexcept nogil:
        """Make the entries of old leaves; -1 where the catalog is damaged."""
        cdef Leaf leaf, after
        cdef int64_t position
        cdef uint8_t *p = self.entries
        if not self.catalog.leaf(first, &leaf):
            return -1
        for position in range(first, stop):
            if not self.catalog.leaf(position + 1, &after):
                return -1
            p = self.totals.put_entry(p, leaf.offset + by, leaf.kind, leaf.shape)
            self.totals.count(leaf.kind, after.nbytes - leaf.nbytes, after.cbytes - leaf.cbytes)
            # With the first one other groups may appear than before.
            self.totals.groups += appear if begins and position == first else after.groups - leaf.groups
            self.totals.hidden += after.hidden - leaf.hidden
            leaf = after
        return 0

    cdef int _write_leaves(self, Pages pages, RecordSample sample) except -1:
        """Write what there is to say of each leaf."""
        cdef Piece *piece
        cdef Change *change
        cdef Leaf leaf, end
        cdef int64_t i, at, stop, size
        cdef const uint8_t *records = self.table.archive._directory
        for i in range(self.piece_count):
            piece = <Piece *> self.pieces.data + i
            if piece.change >= 0:
                change = <Change *> self.changes.data + piece.change
                self.totals.put_entry(self.entries, self.offset, change.kind, change.shape)
                pages.add(self.entries, LEAF_LENGTH)
                self.totals.count(change.kind, change.nbytes, change.cbytes)
                self.totals.groups += piece.appear
                self.totals.hidden += is_hidden(&change.key)
                sample.take(change.record, change.record_length)
                self.offset += change.record_length
                continue
            if not self.catalog.leaf(piece.first, &leaf) or not self.catalog.leaf(piece.stop, &end):
                raise self.catalog.damaged(piece.first * LEAF_LENGTH)
            at = piece.first
            while at < piece.stop:
                stop = min(piece.stop, at + TOGETHER)
                with nogil:
                    size = self._move_leaves(at, stop, self.offset - leaf.offset, piece.appear, at == piece.first)
                if size < 0:
                    raise self.catalog.damaged(at * LEAF_LENGTH)
                pages.add(self.entries, LEAF_LENGTH * (stop - at))
                at = stop
            size = end.offset - leaf.offset
            sample.take(records + leaf.offset, min(size, <int64_t> SAMPLE))
            if size > SAMPLE:
                sample.take(records + leaf.offset + max(<int64_t> SAMPLE, size - SAMPLE),
                            min(size - SAMPLE, <int64_t> SAMPLE))
            self.offset += size
        return self.totals.end(pages, self.offset)

    cdef int _write_records(self, ArchiveWriter writer) except -1:
        """Write the records of all leaves."""
        cdef Piece *piece
        cdef Change *change
        cdef Leaf leaf, end
        cdef int64_t i, at
        cdef const uint8_t *records = self.table.archive._directory
        for i in range(self.piece_count):
            piece = <Piece *> self.pieces.data + i
            if piece.change >= 0:
                change = <Change *> self.changes.data + piece.change
                writer._add(change.record, change.record_length)
                continue
            if not self.catalog.leaf(piece.first, &leaf) or not self.catalog.leaf(piece.stop, &end):
                raise self.catalog.damaged(piece.first * LEAF_LENGTH)
            at = leaf.offset
            while at < end.offset:
                writer._add(records + at, min(end.offset - at, <int64_t> WRITTEN))
                at += min(end.offset - at, <int64_t> WRITTEN)
        return 0

    cdef int write(self, ArchiveWriter writer, bytes others, int64_t others_count, int64_t embed) except -1:
        """Write the catalog, and the directory behind it."""
        cdef Pages pages
        cdef RecordSample sample = RecordSample.__new__(RecordSample)
        cdef Footer footer
        cdef uint8_t packed[FOOTER_LENGTH]
        cdef int64_t others_size = PyBytes_GET_SIZE(others), size
        cdef bytes own
        self.totals = LeafTotals()
        self.totals.begin(len(self.known.numbers) + 1, max(self.catalog.tally_step, <int64_t> TALLY_STEP), self.leaves)
        self.entries = <uint8_t *> PyMem_Calloc(TOGETHER, LEAF_LENGTH)
        if self.entries == NULL:
            raise MemoryError
        # More than it can have: with it is decided whether its sizes take 64 bits.
        size = (LEAF_LENGTH + 16) * self.leaves + SLOT_LENGTH * self.table.slot_count + (256 << 20)
        footer.header = writer._written + writer._pending.used
        pages = Pages.__new__(Pages, writer)
        writer.begin_open(NAME.encode(), size)
        self._write_leaves(pages, sample)
        write_sections(pages, self.known, self.totals, &footer)
        size = 0
        while size < SLOT_LENGTH * self.table.slot_count:
            pages.add(self.slots.slots + size, min(SLOT_LENGTH * self.table.slot_count - size, <int64_t> WRITTEN))
            size += WRITTEN
        pages.pad()
        footer.slot_count, footer.homes = self.table.slot_count, self.table.homes
        footer.seed0, footer.seed1 = self.table.seed0, self.table.seed1
        footer.others_size, footer.others_count, footer.embed = others_size, others_count, embed
        footer.undescribed, footer.tables, footer.records_size = self.undescribed, self.tables, self.offset - others_size
        footer.digest = sample.digest(footer.records_size)
        write_footer(&footer, pages, packed)
        own = end_catalog(pages, packed, self.paths, others)
        self._write_records(writer)
        return end_directory(writer, own, others_count + self.leaves)


cdef int64_t write_patched(ArchiveWriter writer, KeyTable old, SortedRuns runs, const GoneRanges *gone, bytes others,
                           int64_t others_count, int64_t embed, int64_t budget) except -2:
    """Write catalog and directory as `write_cataloged` does, if they can be made of the old ones; else -1, and nothing is written.
    """
    cdef CatalogPatch self
    if old is None or old.catalog is None or old._instead is not None or not old.claims_hold or old._paths < 0 or (
            runs.runs or runs.count > old.count // 4 or SLOT_LENGTH * old.slot_count > budget):
        return -1
    if old.catalog.bytes_at(0, old.catalog.checksums_at) == NULL:
        return -1
    self = CatalogPatch.__new__(CatalogPatch, old, runs)
    self.ranges = gone[0]
    if not self.plan(PyBytes_GET_SIZE(others)):
        return -1
    self.write(writer, others, others_count, embed)
    return self.leaves


cdef enum:
    # Slots behind the last home.
    SLACK = 4096

cdef int64_t SLOTS_BUDGET = 64 << 20


def set_slots_budget(int64_t nbytes):
    """Memory for a part of the hash, in bytes; returns the one before. For tests."""
    global SLOTS_BUDGET
    before = SLOTS_BUDGET
    SLOTS_BUDGET = nbytes
    return before


cdef class CatalogBuilder:
    """Writes a catalog and the directory behind it.

    Parameters
    ----------
    old : KeyTable, optional
        The keys of leaves that stay unless one of `runs` has their key.
    runs : SortedRuns, optional
        New leaves, and tombstones; see `ArchiveWriter.collect`.
    dtype_of : callable, optional
        With it, old leaves that are not described yet are opened and described.
    """

    cdef KeyTable old
    cdef Catalog before         # what says of the old leaves what they are
    cdef LeafMerge merge
    cdef object dtype_of
    cdef Pages pages
    cdef LeafKinds known
    cdef list kind_of_old       # number of each kind of the old catalog in this one, or None
    cdef LeafTotals totals
    cdef RecordSample sample
    cdef int64_t kind_count, undescribed, tables, records_size
    cdef int64_t most, most_groups      # leaves and groups there can be
    cdef int64_t embed                  # offset of the record of embedded values
    cdef object last_packed             # keeps a description alive that is looked at
    cdef bint hashes                    # whether keys are to be found in it
    cdef int64_t homes, slot_count
    cdef PathSlots paths
    cdef uint64_t seed0, seed1
    # The leaf of the old catalog behind the last one, and one that is known.
    cdef Leaf after, like
    cdef int64_t after_position     # 0 where there is none yet
    cdef Description like_description
    # A new leaf that is known: its packed description, and what came of it.
    cdef Collected new_like
    cdef Description new_description
    cdef int new_kind
    cdef uint32_t new_shape

    def __cinit__(self, KeyTable old=None, SortedRuns runs=None, dtype_of=None):
        if old is not None and old._instead is not None:
            old = old._instead      # something was wrong with its catalog
        self.old = None if old is None or old.count == 0 else old
        self.hashes = True
        if self.old is not None:
            self.old.sort()
            self.before = self.old.catalog
            try:
                if self.before is not None:
                    self.before.kinds()
            except FormatError:
                self.before = None      # its leaves are not described any more
        self.merge = LeafMerge.__new__(LeafMerge)
        self.merge.old = self.old
        self.merge.runs = SortedRuns() if runs is None else runs
        self.dtype_of = dtype_of
        self.most = (0 if self.old is None else self.old.count) + self.merge.runs.count
        self.seed0, self.seed1 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))

    # ------------------------------------------------------------------ what is known of a leaf
    cdef int _describe_old(self, int64_t position, Description *description) except -1:
        """What an old leaf is, as the old catalog says, or as itself says."""
        cdef Leaf leaf, after
        if self.before is not None:
            if position and self.after_position == position:
                leaf = self.after
            elif not self.before.leaf(position, &leaf):
                raise self.before.damaged(position * LEAF_LENGTH)
            if not self.before.leaf(position + 1, &after):
                raise self.before.damaged((position + 1) * LEAF_LENGTH)
            self.after, self.after_position = after, position + 1
            if leaf.kind and leaf.kind == self.like.kind and leaf.shape == self.like.shape:
                description[0] = self.like_description     # its dtype stays where it is
                description.nbytes, description.cbytes = after.nbytes - leaf.nbytes, after.cbytes - leaf.cbytes
                return 0
            describe_nothing(description)
            if leaf.kind:
                kinds = self.before.kinds()
                if leaf.kind >= len(kinds):
                    return 0
                what, codec, dtype = kinds[leaf.kind]
                if self.kind_of_old[leaf.kind] is None:
                    self.kind_of_old[leaf.kind] = (what, codec, dtype.encode())
                kept = self.kind_of_old[leaf.kind]
                if len(kept[2]) > 0xFFFF:
                    return 0
                description.what, description.codec = kept[0], kept[1]
                description.dtype, description.dtype_length = <const uint8_t *> PyBytes_AS_STRING(kept[2]), len(kept[2])
                description.nbytes, description.cbytes = after.nbytes - leaf.nbytes, after.cbytes - leaf.cbytes
                if leaf.shape:
                    description.ndim = self.before.shape_at(leaf.shape, description.shape)
                    if description.ndim < 0:
                        description.what = LEAF_UNKNOWN
                self.like, self.like_description = leaf, description[0]
                return 0
        describe_nothing(description)
        if self.dtype_of is not None:
            try:
                packed = describe(Frame.of_member(self.old.archive, self.old.record_offset(position), None), self.dtype_of)
            except FormatError:
                return 0
            self.last_packed = packed
            if not unpack_description(<const uint8_t *> PyBytes_AS_STRING(packed), len(packed), description):
                description.what = LEAF_UNKNOWN
        return 0

    cdef int _describe(self, const Merged *leaf, bint hidden, Description *description, uint32_t *shape) except -1:
        """What a leaf is, its kind, and where its shape is. Most new ones are what the new one before is."""
        cdef bint is_new = leaf.position < 0
        if is_new and not hidden and self.new_like.used and leaf.description_length == self.new_like.used and memcmp(
                leaf.description, self.new_like.data, <size_t> self.new_like.used) == 0:
            description[0], shape[0] = self.new_description, self.new_shape     # its dtype is not looked at again
            return self.new_kind
        if not is_new:
            self._describe_old(leaf.position, description)
        elif not unpack_description(leaf.description, leaf.description_length, description):
            describe_nothing(description)
        if hidden:
            describe_nothing(description)
            description.what, description.codec = LEAF_ATTRIBUTES, 0
        cdef int kind = self.known.kind(description)
        shape[0] = self.known.shape(description) if kind else 0
        if kind and is_new and not hidden:
            self.new_description, self.new_kind, self.new_shape = description[0], kind, shape[0]
            remember(self.new_like, leaf.description, <Py_ssize_t> leaf.description_length)
        return kind

    # ------------------------------------------------------------------ passes
    cdef int _pass_leaves(self, int64_t others, uint8_t *slots) except -1:
        """Write what there is to say of each leaf; fill in the hash where all of it is in memory."""
        cdef LeafMerge merge = self.merge
        cdef Merged leaf
        cdef Description description
        cdef Collected before = Collected.__new__(Collected)
        cdef Collected shown = Collected.__new__(Collected)    # lengths of the shown leaves that the one before begins with
        cdef Py_ssize_t common, at
        cdef bint named
        cdef uint8_t entry[LEAF_LENGTH]
        cdef LeafTotals totals = self.totals
        cdef int kind
        cdef uint32_t shape
        cdef bint hidden
        cdef Text key
        self.new_like = Collected.__new__(Collected)
        merge.begin()
        while merge.next(&leaf):
            key = Text(leaf.key, leaf.length)
            hidden = is_hidden(&key)
            kind = self._describe(&leaf, hidden, &description, &shape)
            if not kind:
                description.nbytes = description.cbytes = 0
                self.undescribed += 1
            totals.put_entry(entry, others + self.records_size, <uint32_t> kind, shape)
            self.pages.add(entry, LEAF_LENGTH)
            totals.count(<uint32_t> kind, description.nbytes, description.cbytes)
            # Groups that appear with this leaf: those of its path that no leaf before is below or named like. One that is
            # named like a group need not be right before: names with "-" or "." may come between the two.
            common = common_start(before, leaf.key, leaf.length)
            while shown.used and <int64_t> u32(shown.data + shown.used - 4) > common:
                shown.used -= 4
            named = shown.used and <int64_t> u32(shown.data + shown.used - 4) == common
            for at in range(common, leaf.length):
                if leaf.key[at] == 0x2F:
                    totals.groups += at > common or not named
            totals.hidden += hidden
            if not hidden:
                put32(shown.more(4), <uint32_t> leaf.length)
                shown.used += 4
            self.tables += describes_table(leaf.key, leaf.length)
            remember(before, leaf.key, leaf.length)
            if slots != NULL and self.hashes:
                self.paths.put(slots, 0, self.slot_count, self.slot_count, others + self.records_size, leaf.key, leaf.length, common)
            self.sample.take(leaf.record, leaf.record_length)
            self.records_size += leaf.record_length
            merge.go_on()
        if slots != NULL:
            self.paths.put_all(slots, 0, self.slot_count)
        return totals.end(self.pages, others + self.records_size)

    cdef int _pass_slots(self, int64_t others) except -1:
        """Write the hash a part at a time, with a pass over all keys for each."""
        cdef LeafMerge merge = self.merge
        cdef Merged leaf
        cdef Collected before = Collected.__new__(Collected)
        cdef int64_t part = max(SLOTS_BUDGET // SLOT_LENGTH, 2 * SLACK), first = 0, stop, offset
        cdef uint8_t *slots = <uint8_t *> PyMem_Calloc(<size_t> (part + SLACK + 1), SLOT_LENGTH)
        if slots == NULL:
            raise MemoryError
        try:
            while first < self.slot_count:
                stop = min(first + part, self.slot_count)
                merge.begin()
                before.used = 0
                offset = others
                while merge.next(&leaf):
                    self.paths.put(slots, first, stop, min(stop + SLACK, self.slot_count), offset, leaf.key, leaf.length,
                                   common_start(before, leaf.key, leaf.length))
                    remember(before, leaf.key, leaf.length)
                    offset += leaf.record_length
                    merge.go_on()
                self.paths.put_all(slots, first, min(stop + SLACK, self.slot_count))
                self.pages.add(slots, SLOT_LENGTH * (stop - first))
                # Keys that found no slot in this part are in the next one already.
                memmove(slots, slots + SLOT_LENGTH * (stop - first), SLOT_LENGTH * SLACK)
                memset(slots + SLOT_LENGTH * SLACK, 0, SLOT_LENGTH * (part + 1))
                first = stop
        finally:
            PyMem_Free(slots)
        return 0

    cdef bytes _build(self, int64_t others_size, int64_t others_count, int64_t header):
        """Write all of a catalog, and give its footer; `header` is where its local header is."""
        cdef uint8_t *slots = NULL
        cdef uint8_t packed[FOOTER_LENGTH]
        cdef Footer footer
        cdef int64_t hashed
        self.known = LeafKinds()
        self.known.most = self.kind_count
        self.kind_of_old = [] if self.before is None else [None] * self.before.kind_count
        self.sample = RecordSample.__new__(RecordSample)
        self.totals = LeafTotals()
        self.totals.begin(self.kind_count, TALLY_STEP, self.most)
        hashed = self.most + self.most_groups
        self.homes = hashed + hashed // 2 + hashed // 4
        self.slot_count = self.homes + min(hashed, SLACK) + 1
        if not self.hashes:
            self.homes, self.slot_count = self.most, self.most + 1
        self.paths = PathSlots.__new__(PathSlots)
        self.paths.homes, self.paths.seed0, self.paths.seed1 = self.homes, self.seed0, self.seed1
        if self.slot_count * SLOT_LENGTH <= SLOTS_BUDGET:
            slots = <uint8_t *> PyMem_Calloc(<size_t> self.slot_count, SLOT_LENGTH)
            if slots == NULL:
                raise MemoryError
            bring_pages(slots, SLOT_LENGTH * self.slot_count)
        try:
            self._pass_leaves(others_size, slots)
            self.known.fill_up()
            write_sections(self.pages, self.known, self.totals, &footer)
            if slots != NULL:
                self.pages.add(slots, SLOT_LENGTH * self.slot_count)
            else:
                self._pass_slots(others_size)
            self.pages.pad()
        finally:
            PyMem_Free(slots)
        footer.slot_count, footer.homes = self.slot_count, self.homes
        footer.seed0, footer.seed1 = self.seed0, self.seed1
        footer.others_size, footer.others_count, footer.header = others_size, others_count, header
        footer.embed = self.embed
        footer.undescribed, footer.tables, footer.records_size = self.undescribed, self.tables, self.records_size
        footer.digest = self.sample.digest(self.records_size)
        write_footer(&footer, self.pages, packed)
        return PyBytes_FromStringAndSize(<const char *> packed, FOOTER_LENGTH)

    cdef int _count(self) except -1:
        """How many groups and kinds there can be, the unknown one included, from a look at all new leaves."""
        cdef LeafMerge merge = self.merge
        cdef Merged leaf
        cdef Description description
        cdef set seen = set()
        cdef Collected like = Collected.__new__(Collected), last = Collected.__new__(Collected)
        cdef Py_ssize_t common, at
        if self.old is not None and self.hashes:
            # Counted in the directory, as its catalog may state any number.
            self.most_groups = self.old.count_paths() - self.old.count
        if self.before is not None:
            seen.update((w, c, d.encode()) for w, c, d in self.before.kinds()[1:])
        self.merge.runs.rewind()
        while merge.runs.next(&merge.item):
            if not merge.item.payload_length:
                continue
            common = common_start(last, merge.item.key, merge.item.key_length)
            for at in range(common, merge.item.key_length):
                self.most_groups += merge.item.key[at] == 0x2F
            remember(last, merge.item.key, merge.item.key_length)
            if len(seen) >= MOST_KINDS - 2:
                continue
            leaf.record_length = u32(merge.item.payload)
            leaf.description = merge.item.payload + 4 + leaf.record_length
            leaf.description_length = <int64_t> merge.item.payload_length - 4 - leaf.record_length
            if like.used and leaf.description_length == like.used and memcmp(
                    leaf.description, like.data, <size_t> like.used) == 0:
                continue
            if not unpack_description(leaf.description, leaf.description_length, &description):
                continue
            remember(like, leaf.description, <Py_ssize_t> leaf.description_length)
            seen.add((description.what, description.codec, (<const char *> description.dtype)[:description.dtype_length]))
        if self.dtype_of is not None and self.old is not None and (self.before is None or self.before.undescribed):
            self.kind_count = 256       # they are only known when the leaves have been opened
        else:
            self.kind_count = min(len(seen), MOST_KINDS - 2) + 2       # and attributes
        return 0


def catalog_in_memory(KeyTable table not None, dtype_of):
    """A catalog of an archive that has none; each leaf is opened."""
    try:
        return _in_memory(table, dtype_of)
    except FormatError:
        if table.catalog is None:
            raise
    # A catalog that is wrong keeps nobody from what the directory says.
    return _in_memory(table.instead(), dtype_of)


cdef Catalog _in_memory(KeyTable table, dtype_of):
    cdef CatalogBuilder self = CatalogBuilder(table, None, dtype_of)
    cdef Catalog result
    cdef bytes footer, whole
    cdef const uint8_t *p
    if self.old is None:
        return None
    self.pages = Pages.__new__(Pages, None)
    self.hashes = False     # keys are found in the table
    self.embed = -1
    self._count()
    footer = self._build(0, 0, 0)
    whole = PyBytes_FromStringAndSize(<const char *> self.pages.kept.data, self.pages.kept.used)
    result = Catalog.__new__(Catalog)
    result.source = table.archive.source
    p = <const uint8_t *> PyBytes_AS_STRING(footer)
    if not result.read_footer(p, <int64_t> u64(p + 16), <int64_t> u64(p + 24), <int64_t> u64(p + 32)):
        raise AssertionError("a catalog that was just made does not fit itself")
    result.copy = whole
    result.base = <const uint8_t *> PyBytes_AS_STRING(whole)
    result.checked = <uint8_t *> PyMem_Calloc(<size_t> result.pages, 1)
    if result.checked == NULL:
        raise MemoryError
    memset(result.checked, 1, <size_t> result.pages)
    return result


def write_cataloged(ArchiveWriter writer not None, KeyTable old, SortedRuns runs not None, bytes others not None,
                    bytes embed not None, tuple gone=()):
    """Write a catalog, and the directory behind it.

    Parameters
    ----------
    others : bytes
        Records of all members that are no leaves.
    embed : bytes
        The name of the one of them that has embedded values.
    gone : tuple
        Groups whose old leaves do not stay.

    Returns
    -------
    int
        How many leaves there are.
    """
    cdef CatalogBuilder self = CatalogBuilder(old, runs)
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(others)
    cdef int64_t at = 0, count = 0, most, header, leaves
    cdef bytes footer, own
    cdef Merged leaf
    cdef Record record
    self.embed = -1
    if gone and self.old is not None and not find_ranges(self.old, gone, &self.merge.gone):
        raise self.old.catalog.damaged(0)
    while at < PyBytes_GET_SIZE(others):
        if not open_record(p, PyBytes_GET_SIZE(others), at, &record):
            raise FormatError("the records of members that are no leaves changed while they were read")
        if record.name[:record.name_length] == embed:
            self.embed = at
        at += record.length
        count += 1
    self.merge.begin()
    if not self.merge.next(&leaf):      # there is nothing that a catalog could say
        writer.begin_directory()
        writer._add(p, PyBytes_GET_SIZE(others))
        writer.end_directory(count)
        return 0
    if self.before is not None:
        leaves = write_patched(writer, self.old, runs, &self.merge.gone, others, count, self.embed, 4 * SLOTS_BUDGET)
        if leaves >= 0:
            return leaves
    self._count()
    # More than it can have, with shapes, kinds and tallies: with it is decided whether its sizes take 64 bits.
    most = (LEAF_LENGTH + 16) * self.most + 2 * SLOT_LENGTH * (self.most + self.most_groups) + (256 << 20)
    header = writer.position
    self.pages = Pages.__new__(Pages, writer)
    writer.begin_open(NAME.encode(), most)
    footer = self._build(PyBytes_GET_SIZE(others), count, header)
    own = end_catalog(self.pages, <const uint8_t *> PyBytes_AS_STRING(footer), self.paths.waiting, others)
    self.merge.begin()
    while self.merge.next(&leaf):
        writer._add(leaf.record, leaf.record_length)
        self.merge.go_on()
    end_directory(writer, own, count + self.totals.leaves)
    return self.totals.leaves
