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
from blosc2._core.io.memory cimport bring_pages, use_large_pages
from blosc2._core.keys.key_order cimport before_in_order, shared
from blosc2._core.keys.keytable cimport NO_KEY, KeyTable, Text
from blosc2._core.keys.listing cimport GoneRanges, after_gone, find_ranges
from blosc2._core.zip.archive_writer cimport COLLECTED, ArchiveWriter, Collected, SortedItem, SortedRuns
from blosc2._core.zip.catalog cimport (
    FOOTER_LENGTH, LEAF_ATTRIBUTES, LEAF_LENGTH, LEAF_UNKNOWN, MAX_DIM, MOST_KINDS, PAGE, SAMPLE,
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
    footer.undescribed = <int64_t> totals.counts[0]     # of the kind 0
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
        """The next records."""
        cdef int64_t part = min(length, SAMPLE - self.head.used)
        if part > 0:
            self.head.append(record, part)
        if self.tail.used > 16 * SAMPLE:
            memmove(self.tail.data, self.tail.data + self.tail.used - SAMPLE, SAMPLE)
            self.tail.used = SAMPLE
        part = min(length, <int64_t> SAMPLE)
        self.tail.append(record + length - part, part)
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


cdef class PathSlots:
    """Fills the hash of a catalog: puts paths into their slots in the order in which they come."""

    cdef int64_t homes, count
    cdef uint64_t seed0, seed1

    cdef int put(self, uint8_t *slots, int64_t first, int64_t last, int64_t stop, int64_t offset, const uint8_t *key,
                 Py_ssize_t length, Py_ssize_t common) except -1:
        """Put a leaf, and the groups that appear with it, into the slots ``first .. stop``, if their home is before `last`."""
        cdef prefix_hashes state
        cdef uint64_t hashed
        cdef Py_ssize_t at
        start_prefixes(&state, self.seed0, self.seed1)
        for at in range(common, length + 1):
            if at == length or key[at] == 0x2F:
                hashed = next_prefix(&state, key, <size_t> at)
                if first <= slot_home(hashed, self.homes) < last:
                    self.put_slot(slots, first, stop, offset, hashed)
                    self.count += 1
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


cdef inline bint is_hidden(const Text *key) noexcept nogil:
    return last_segment_is(key.bytes, <size_t> key.length, b"__vlmeta__", 10)


# The catalog and the directory of the next version, made of those of the last one (doc/design/catalog.md).
#
# What the last catalog says of its leaves must have been compared with the directory (`KeyTable.sound`), or be this writer's
# own.
#
# The first leaf of a run may begin other groups than before. So its paths are put into the hash again, as those of new leaves
# are. A slot of a path that is gone cannot become free, as others may have been put behind it: it stays as a copy of the slot
# of the first leaf of all, of whose slots nothing is ever kept.


cdef struct Piece:
    Text key                    # of the first leaf
    Py_ssize_t common           # bytes that this has in common with the key before
    uint32_t appear             # groups that appear with it
    int64_t first, stop         # old leaves that stay, or none: a new one
    const uint8_t *records
    int64_t length, offset      # bytes of the records, and where they come to lie
    uint32_t kind, shape        # of a new leaf
    uint64_t nbytes, cbytes


cdef struct Shift:
    # Records of the old directory from one offset up to another, and how much further their place in the new one is.
    int64_t start, stop, by


cdef enum:
    # Leaves whose entries are made at a time.
    TOGETHER = 1024
    # Bytes of records and slots that are written at a time.
    WRITTEN = 4 << 20
    # How far from its home a new path may be put: with two slots for three paths no run is as long as that. Whoever knows
    # the seed of a file can make keys that all have one home, or one tag, too; then a new seed is drawn.
    MOST_AWAY = 256
    MOST_TWINS = 2

# A slot of a path that is gone, which another path may take.
cdef uint64_t GONE = ~<uint64_t> 0


cdef class CatalogPatch:
    """Plans the next version, and writes it if that is possible."""

    cdef KeyTable table
    cdef Catalog catalog
    cdef SortedRuns runs
    cdef LeafKinds known
    cdef GoneRanges ranges      # of old leaves that do not stay
    cdef Collected pieces, shifts
    cdef int64_t piece_count, shift_count
    cdef Text before            # the last key so far
    cdef set new_names          # of leaves that were not there
    cdef int64_t leaves, tables, paths, offset
    cdef uint8_t *slots
    cdef int64_t slots_gone
    cdef LeafTotals totals      # of what was written so far
    cdef uint8_t *entries

    def __cinit__(self, KeyTable table not None, SortedRuns runs not None):
        self.table, self.runs, self.catalog = table, runs, table.catalog
        self.pieces, self.shifts = Collected.__new__(Collected), Collected.__new__(Collected)
        self.new_names = set()

    def __dealloc__(self):
        PyMem_Free(self.slots)
        PyMem_Free(self.entries)

    # ------------------------------------------------------------------ the plan
    cdef bint plan(self, int64_t others_size) except -1:
        """Find out what changes; False where all has to be made anew."""
        cdef SortedItem item
        cdef Text key
        cdef int64_t at = 0, position
        cdef bint is_there
        self.known = LeafKinds()
        # Objects of other packages are counted one by one, and groups that are gone are passed over.
        if not self.known.go_on_from(self.catalog) or (self.catalog.tables and self.ranges.count):
            return False
        self.tables, self.offset = self.catalog.tables, others_size
        self.runs.rewind()
        while self.runs.next(&item):
            key = Text(item.key, item.key_length)
            position = self._position(&key, at, &is_there)
            if position < 0 or not self._keep(at, position):
                return False
            at = position + is_there
            if not item.payload_length and not is_there:
                continue
            # A group that is named like a leaf is not counted; which one that is, is not looked for here.
            if is_there != (item.payload_length > 0) and self.table.lookup_group(key.bytes, key.length) != NO_KEY:
                return False
            self.tables += describes_table(key.bytes, key.length) * ((item.payload_length > 0) - is_there)
            if item.payload_length and not self._add_new(&item, is_there):
                return False
        if not self._keep(at, self.table.count) or self.leaves == 0 or self.leaves >= <int64_t> 1 << 31:
            return False
        self.offset = others_size
        return self._move_slots() and self._put_paths()

    cdef int64_t _position(self, const Text *key, int64_t start, bint *is_there) noexcept nogil:
        """The first old leaf from one on that does not come before a key, -1 where the catalog is damaged."""
        cdef int64_t low = start, high, step = 1
        cdef Text other
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
        is_there[0] = False
        if low < self.table.count:
            if not self.table.key(low, &other):
                return -1
            is_there[0] = other.length == key.length and memcmp(other.bytes, key.bytes, <size_t> key.length) == 0
        return low

    cdef bint _keep(self, int64_t first, int64_t stop) except -1:
        """Old leaves that stay, but for those that lie in groups that are gone."""
        cdef int i
        for i in range(self.ranges.count):
            if first < self.ranges.stop[i] and self.ranges.first[i] < stop:
                if first < self.ranges.first[i] and not self._add_run(first, self.ranges.first[i]):
                    return False
                first = min(stop, self.ranges.stop[i])
        return first >= stop or self._add_run(first, stop)

    cdef bint _add_run(self, int64_t first, int64_t stop) except -1:
        """Old leaves that stay, one behind the other."""
        cdef Piece piece
        cdef Shift shift
        cdef Leaf leaf, second, end
        if not self.table.key(first, &piece.key) or not self.catalog.leaf(first, &leaf) or (
                not self.catalog.leaf(first + 1, &second) or not self.catalog.leaf(stop, &end)):
            return False
        piece.first, piece.stop = first, stop
        piece.records, piece.length = self.table.archive._directory + leaf.offset, end.offset - leaf.offset
        shift.start, shift.stop, shift.by = second.offset, end.offset, self.offset - leaf.offset
        self.shifts.append(&shift, sizeof(Shift))
        self.shift_count += 1
        return self._add(&piece) and self.table.key(stop - 1, &self.before)

    cdef bint _add_new(self, const SortedItem *item, bint is_there) except -1:
        """A new leaf, which may take the place of an old one."""
        cdef Piece piece
        cdef Description description
        cdef int64_t rest
        piece.key = Text(item.key, item.key_length)
        piece.first = piece.stop = 0
        piece.records, piece.length = item.payload + 4, u32(item.payload)
        rest = <int64_t> item.payload_length - 4 - piece.length
        if rest < 0:
            return False
        if not unpack_description(piece.records + piece.length, rest, &description):
            describe_nothing(&description)
        if is_hidden(&piece.key):
            describe_nothing(&description)
            description.what, description.codec = LEAF_ATTRIBUTES, 0
        piece.kind = <uint32_t> self.known.kind(&description)
        piece.shape, piece.nbytes, piece.cbytes = 0, 0, 0
        if piece.kind:
            piece.shape = self.known.shape(&description)
            piece.nbytes, piece.cbytes = description.nbytes, description.cbytes
        if not is_there:
            self.new_names.add((<const char *> item.key)[:item.key_length])
        return self._add(&piece)

    cdef bint _add(self, Piece *piece) except -1:
        """Add a piece behind the last one: which groups appear with its first leaf."""
        cdef Text key = piece.key
        cdef Py_ssize_t at
        piece.common, piece.appear = shared(self.before.bytes, key.bytes, min(self.before.length, key.length)), 0
        for at in range(piece.common, key.length):
            piece.appear += key.bytes[at] == 0x2F
        # Of a group that is named like a leaf `CatalogBuilder` knows what it counts for.
        if piece.common < key.length and key.bytes[piece.common] == 0x2F and (
                self.table.lookup(key.bytes, piece.common) != NO_KEY
                or (<const char *> key.bytes)[:piece.common] in self.new_names):
            return False
        piece.offset = self.offset
        self.offset += piece.length
        self.leaves += max(piece.stop - piece.first, <int64_t> 1)
        self.before = key
        self.pieces.append(piece, sizeof(Piece))
        self.piece_count += 1
        return True

    # ------------------------------------------------------------------ the hash
    cdef bint _move_slots(self) except -1:
        """Copy the slots, and let those of paths that stay lead to where the records are now; False where they cannot be kept."""
        cdef const Shift *shifts = <const Shift *> self.shifts.data
        cdef int64_t end = self.table.archive.directory_size, parts, i, j = 0
        cdef size_t size = <size_t> self.table.slot_count * SLOT_LENGTH
        cdef int64_t *first
        cdef int bits = 0
        # Which shift is the first one for each part of the directory.
        while end >> bits > max(<int64_t> 64, 4 * self.shift_count):
            bits += 1
        parts = (end >> bits) + 1
        self.slots = <uint8_t *> PyMem_Malloc(size)
        first = <int64_t *> PyMem_Calloc(<size_t> parts, sizeof(int64_t))
        if self.slots == NULL or first == NULL:
            PyMem_Free(first)
            raise MemoryError
        use_large_pages(self.slots, size)
        with nogil:
            for i in range(parts):
                while j < self.shift_count and shifts[j].stop <= i << bits:
                    j += 1
                first[i] = j
            self._move(shifts, first, bits)
        PyMem_Free(first)
        # What is looked for and not there passes all of them.
        return 8 * self.slots_gone <= self.paths and 3 * (self.paths + self.slots_gone) <= 2 * self.table.homes

    cdef int _move(self, const Shift *shifts, const int64_t *first, int bits) noexcept nogil:
        cdef int64_t count = self.shift_count, end = self.table.archive.directory_size, paths = 0, gone = 0, offset, i
        cdef const uint8_t *p = self.table.slots
        cdef const uint8_t *stop = p + SLOT_LENGTH * self.table.slot_count
        cdef uint8_t *to = self.slots
        cdef uint64_t there
        while p < stop:
            there = u64(p)
            p += SLOT_LENGTH
            if there:
                offset = slot_offset(there)
                i = first[offset >> bits] if 0 <= offset < end else count
                while i < count and shifts[i].stop <= offset:
                    i += 1
                if i == count or offset < shifts[i].start:
                    there = GONE
                    gone += 1
                else:
                    there = slot_tag(there) | <uint64_t> (offset + shifts[i].by + 1)
                    paths += 1
            to = put64(to, there)
        self.paths, self.slots_gone = paths, gone
        return 0

    cdef bint _put_paths(self) except -1:
        """Put the paths that the pieces begin with into slots; False where there is none for one of them."""
        cdef const Piece *piece = <const Piece *> self.pieces.data
        cdef int64_t i, slot
        cdef uint64_t copy
        cdef Py_ssize_t at
        cdef prefix_hashes state
        copy = slot_tag(key_hash(self.table.seed0, self.table.seed1, piece.key.bytes, <size_t> piece.key.length))
        copy |= <uint64_t> (piece.offset + 1)
        for i in range(self.piece_count):
            start_prefixes(&state, self.table.seed0, self.table.seed1)
            for at in range(piece.common, piece.key.length + 1):
                if (at == piece.key.length or piece.key.bytes[at] == 0x2F) and not self._put(
                        next_prefix(&state, piece.key.bytes, <size_t> at), piece.offset):
                    return False
            piece += 1
        if 3 * (self.paths + self.slots_gone) > 2 * self.table.homes:
            return False
        slot = 0
        while self.slots_gone:
            if u64(self.slots + SLOT_LENGTH * slot) == GONE:
                put64(self.slots + SLOT_LENGTH * slot, copy)
                self.slots_gone -= 1
            slot += 1
        return True

    cdef bint _put(self, uint64_t hashed, int64_t offset) noexcept nogil:
        """Put a path into the first slot from its home on that is free, or of a path that is gone."""
        cdef int64_t slot = slot_home(hashed, self.table.homes)
        cdef int64_t stop = min(slot + MOST_AWAY, self.table.slot_count - 1)
        cdef uint64_t there
        cdef int twins = 0
        while slot < stop and twins <= MOST_TWINS:
            there = u64(self.slots + SLOT_LENGTH * slot)
            if there == 0 or there == GONE:
                put64(self.slots + SLOT_LENGTH * slot, slot_tag(hashed) | <uint64_t> (offset + 1))
                self.slots_gone -= there == GONE
                self.paths += 1
                return True
            twins += slot_tag(there) == slot_tag(hashed)
            slot += 1
        return False

    # ------------------------------------------------------------------ writing
    cdef int _move_leaves(self, int64_t first, int64_t stop, const Piece *piece) noexcept nogil:
        """Make the entries of some leaves of a run; -1 where the catalog is damaged."""
        cdef Leaf leaf, after
        cdef int64_t position, by
        cdef uint8_t *p = self.entries
        if not self.catalog.leaf(piece.first, &leaf):
            return -1
        by = piece.offset - leaf.offset
        if not self.catalog.leaf(first, &leaf):
            return -1
        for position in range(first, stop):
            if not self.catalog.leaf(position + 1, &after):
                return -1
            p = self.totals.put_entry(p, leaf.offset + by, leaf.kind, leaf.shape)
            self.totals.count(leaf.kind, after.nbytes - leaf.nbytes, after.cbytes - leaf.cbytes)
            # With the first one other groups may appear than before.
            self.totals.groups += piece.appear if position == piece.first else after.groups - leaf.groups
            self.totals.hidden += after.hidden - leaf.hidden
            leaf = after
        return 0

    cdef int _write_leaves(self, Pages pages, RecordSample sample) except -1:
        """Write what there is to say of each leaf."""
        cdef const Piece *piece = <const Piece *> self.pieces.data
        cdef int64_t i, at, stop
        cdef int fine
        for i in range(self.piece_count):
            sample.take(piece.records, piece.length)
            self.offset += piece.length
            if piece.first == piece.stop:
                self.totals.put_entry(self.entries, piece.offset, piece.kind, piece.shape)
                pages.add(self.entries, LEAF_LENGTH)
                self.totals.count(piece.kind, piece.nbytes, piece.cbytes)
                self.totals.groups += piece.appear
                self.totals.hidden += is_hidden(&piece.key)
            at = piece.first
            while at < piece.stop:
                stop = min(piece.stop, at + TOGETHER)
                with nogil:
                    fine = self._move_leaves(at, stop, piece)
                if fine < 0:
                    raise self.catalog.damaged(at * LEAF_LENGTH)
                pages.add(self.entries, LEAF_LENGTH * (stop - at))
                at = stop
            piece += 1
        return self.totals.end(pages, self.offset)

    cdef int write(self, ArchiveWriter writer, bytes others, int64_t others_count, int64_t embed) except -1:
        """Write the catalog, and the directory behind it."""
        cdef Pages pages
        cdef RecordSample sample = RecordSample.__new__(RecordSample)
        cdef const Piece *piece = <const Piece *> self.pieces.data
        cdef Footer footer
        cdef uint8_t packed[FOOTER_LENGTH]
        cdef int64_t others_size = PyBytes_GET_SIZE(others), size, slots = SLOT_LENGTH * self.table.slot_count, at, i
        cdef bytes own
        self.totals = LeafTotals()
        self.totals.begin(len(self.known.numbers) + 1, max(self.catalog.tally_step, <int64_t> TALLY_STEP), self.leaves)
        self.entries = <uint8_t *> PyMem_Calloc(TOGETHER, LEAF_LENGTH)
        if self.entries == NULL:
            raise MemoryError
        # More than it can have: with it is decided whether its sizes take 64 bits.
        size = (LEAF_LENGTH + 16) * self.leaves + slots + (256 << 20)
        footer.header = writer._written + writer._pending.used
        pages = Pages.__new__(Pages, writer)
        writer.begin_open(NAME.encode(), size)
        self._write_leaves(pages, sample)
        write_sections(pages, self.known, self.totals, &footer)
        for at in range(0, slots, WRITTEN):
            pages.add(self.slots + at, min(slots - at, <int64_t> WRITTEN))
        pages.pad()
        footer.slot_count, footer.homes = self.table.slot_count, self.table.homes
        footer.seed0, footer.seed1 = self.table.seed0, self.table.seed1
        footer.others_size, footer.others_count, footer.embed = others_size, others_count, embed
        footer.tables, footer.records_size = self.tables, self.offset - others_size
        footer.digest = sample.digest(footer.records_size)
        write_footer(&footer, pages, packed)
        own = end_catalog(pages, packed, self.paths, others)
        for i in range(self.piece_count):
            writer._add(piece.records, piece.length)
            piece += 1
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

# Bytes of a part of the hash in memory.
SLOTS_BUDGET = 64 << 20


cdef class CatalogBuilder:
    """Writes a catalog and the directory behind it."""

    cdef KeyTable old
    cdef Catalog before         # what says of the old leaves what they are
    cdef LeafMerge merge
    cdef object dtype_of
    cdef Pages pages
    cdef LeafKinds known
    cdef list kind_of_old       # number of each kind of the old catalog in this one, or None
    cdef LeafTotals totals
    cdef RecordSample sample
    cdef int64_t kind_count, tables, records_size
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
        """What a leaf is, its kind, and where its shape is."""
        if leaf.position >= 0:
            self._describe_old(leaf.position, description)
        elif not unpack_description(leaf.description, leaf.description_length, description):
            describe_nothing(description)
        if hidden:
            describe_nothing(description)
            description.what, description.codec = LEAF_ATTRIBUTES, 0
        cdef int kind = self.known.kind(description)
        shape[0] = self.known.shape(description) if kind else 0
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
        merge.begin()
        while merge.next(&leaf):
            key = Text(leaf.key, leaf.length)
            hidden = is_hidden(&key)
            kind = self._describe(&leaf, hidden, &description, &shape)
            if not kind:
                description.nbytes = description.cbytes = 0
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
        footer.tables, footer.records_size = self.tables, self.records_size
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
    """Write a catalog, and the directory behind it."""
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
    own = end_catalog(self.pages, <const uint8_t *> PyBytes_AS_STRING(footer), self.paths.count, others)
    self.merge.begin()
    while self.merge.next(&leaf):
        writer._add(leaf.record, leaf.record_length)
        self.merge.go_on()
    end_directory(writer, own, count + self.totals.leaves)
    return self.totals.leaves
