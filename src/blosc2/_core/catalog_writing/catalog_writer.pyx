# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Writing the directory of an archive in the order of its keys, with the catalog before it.

Few changes of many leaves are a matter of `catalog_patch`. Otherwise old and new leaves are merged in the order of their
keys in several passes: one writes what the catalog says of each leaf,
one writes the records of the directory, and one for each part of the hash that fits into memory fills that part. Only
this part grows with the number of leaves, up to `SLOTS_BUDGET`.

doc/format/catalog.md has the bytes of a catalog.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.io.large_pages cimport bring_pages
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.catalog_writing.catalog_pages cimport Pages
from blosc2._core.zip.catalog cimport (
    FOOTER_LENGTH, LEAF_LENGTH, MOST_KINDS, PAGE, SLOT_LENGTH, TALLY_LENGTH, Catalog, Leaf, describes_table)
from blosc2._core.catalog_writing.catalog_patch cimport write_patched
from blosc2._core.catalog_writing.catalog_footer cimport Footer, write_footer
from blosc2._core.zip.central_record cimport Record, open_record
from blosc2._core.io.checksum cimport checksum
from blosc2._core.zip.description cimport LEAF_ATTRIBUTES, LEAF_UNKNOWN, Description, describe_nothing, unpack_description
from blosc2._core.frame.frame cimport Frame
from blosc2._core.keys.gone_ranges cimport find_ranges
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.io.little_endian cimport put, put32, put64, u32, u64
from blosc2._core.catalog_writing.leaf_merge cimport LeafMerge, Merged, RecordSample, remember, shared
from blosc2._core.zip.external_sort cimport SortedRuns
from blosc2._core.catalog_writing.leaf_kinds cimport LeafKinds, append_bytes
from blosc2._core.catalog_writing.path_slots cimport PathSlots

from blosc2._core.zip.catalog import NAME
from blosc2._core.io.checksum import crc32
from blosc2._core.catalog_writing.descriptions import describe
from blosc2.exceptions import FormatError

cdef enum:
    # Leaves between two tallies, at least.
    TALLY_STEP = 1024
    # Slots behind the last home.
    SLACK = 4096

cdef int64_t SLOTS_BUDGET = 64 << 20
cdef bytes ATTRIBUTES = b"__vlmeta__"


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
    cdef Collected tallies
    cdef RecordSample sample
    cdef uint64_t *counts       # of each kind: leaves, nbytes, cbytes
    cdef int64_t tally_step, tally_kinds
    cdef int64_t leaves, groups, hidden, undescribed, tables, records_size
    cdef uint64_t nbytes, cbytes
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

    def __dealloc__(self):
        PyMem_Free(self.counts)

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
        cdef uint8_t *p
        cdef uint64_t *count
        cdef int kind
        cdef uint32_t shape
        cdef bint hidden
        cdef Py_ssize_t name
        self.new_like = Collected.__new__(Collected)
        merge.begin()
        while merge.next(&leaf):
            name = leaf.length
            while name and leaf.key[name - 1] != 0x2F:
                name -= 1
            hidden = leaf.length - name == 10 and memcmp(leaf.key + name, PyBytes_AS_STRING(ATTRIBUTES), 10) == 0
            kind = self._describe(&leaf, hidden, &description, &shape)
            if not kind:
                description.nbytes = description.cbytes = 0
                self.undescribed += 1
            if self.leaves % self.tally_step == 0:
                self._tally()
            count = self.counts + 3 * kind
            count[0] += 1
            count[1] += description.nbytes
            count[2] += description.cbytes
            p = put64(put64(put64(entry, <uint64_t> (others + self.records_size)), self.nbytes), self.cbytes)
            put32(put32(put32(put32(p, <uint32_t> self.groups), <uint32_t> self.hidden), <uint32_t> kind), shape)
            self.pages.add(entry, LEAF_LENGTH)
            self.nbytes += description.nbytes
            self.cbytes += description.cbytes
            # Groups that appear with this leaf: those of its path that no leaf before is below or named like. One that is
            # named like a group need not be right before: names with "-" or "." may come between the two.
            common = shared(before, leaf.key, leaf.length)
            while shown.used and <int64_t> u32(shown.data + shown.used - 4) > common:
                shown.used -= 4
            named = shown.used and <int64_t> u32(shown.data + shown.used - 4) == common
            for at in range(common, leaf.length):
                if leaf.key[at] == 0x2F:
                    self.groups += at > common or not named
            self.hidden += hidden
            if not hidden:
                put32(shown.more(4), <uint32_t> leaf.length)
                shown.used += 4
            self.tables += describes_table(leaf.key, leaf.length)
            remember(before, leaf.key, leaf.length)
            if slots != NULL and self.hashes:
                self.paths.put(slots, 0, self.slot_count, self.slot_count, others + self.records_size, leaf.key, leaf.length, common)
            self.sample.take(leaf.record, leaf.record_length)
            self.records_size += leaf.record_length
            self.leaves += 1
            merge.go_on()
        if slots != NULL:
            self.paths.put_all(slots, 0, self.slot_count)
        # What follows the last leaf has the totals of all.
        if self.leaves % self.tally_step == 0:
            self._tally()
        p = put64(put64(put64(entry, <uint64_t> (others + self.records_size)), self.nbytes), self.cbytes)
        put32(put32(put32(put32(p, <uint32_t> self.groups), <uint32_t> self.hidden), 0), 0)
        self.pages.add(entry, LEAF_LENGTH)
        return 0

    cdef int _tally(self) except -1:
        """Note the totals of all leaves so far, for each kind."""
        cdef int64_t size = TALLY_LENGTH * self.tally_kinds, i
        cdef uint8_t *p = self.tallies.more(size)
        for i in range(3 * self.tally_kinds):
            p = put64(p, self.counts[i])
        self.tallies.used += size
        return 0

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
                                   shared(before, leaf.key, leaf.length))
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
        """Write all but the footer, and give the footer; `header` is where the catalog's local header is."""
        cdef uint8_t *slots = NULL
        cdef uint8_t packed[FOOTER_LENGTH]
        cdef Footer footer
        cdef int64_t hashed
        self.known = LeafKinds()
        self.known.most = self.tally_kinds
        self.kind_of_old = [] if self.before is None else [None] * self.before.kind_count
        self.tallies = Collected.__new__(Collected)
        self.sample = RecordSample.__new__(RecordSample)
        self.tally_step = max(TALLY_STEP, 16 * self.tally_kinds)
        self.counts = <uint64_t *> PyMem_Calloc(<size_t> (3 * self.tally_kinds), 8)
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
        if self.counts == NULL:
            raise MemoryError
        try:
            self._pass_leaves(others_size, slots)
            self.pages.pad()
            footer.shapes_at, footer.shapes_size = self.pages.size, self.known.shapes.used
            self.pages.add(self.known.shapes.data, self.known.shapes.used)
            self.pages.pad()
            self.known.fill_up()
            footer.kinds_at, footer.kinds_size = self.pages.size, self.known.table.used
            self.pages.add(self.known.table.data, self.known.table.used)
            self.pages.pad()
            footer.tallies_at = self.pages.size
            self.pages.add(self.tallies.data, self.tallies.used)
            self.pages.pad()
            footer.slots_at = self.pages.size
            if slots != NULL:
                self.pages.add(slots, SLOT_LENGTH * self.slot_count)
            else:
                self._pass_slots(others_size)
            self.pages.pad()
        finally:
            PyMem_Free(slots)
        footer.kind_count, footer.tally_step = self.tally_kinds, self.tally_step
        footer.slot_count, footer.homes = self.slot_count, self.homes
        footer.seed0, footer.seed1 = self.seed0, self.seed1
        footer.others_size, footer.others_count, footer.header = others_size, others_count, header
        footer.embed = self.embed
        footer.leaves, footer.groups, footer.hidden = self.leaves, self.groups, self.hidden
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
            common = shared(last, merge.item.key, merge.item.key_length)
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
            self.tally_kinds = 256      # they are only known when the leaves have been opened
        else:
            self.tally_kinds = min(len(seen), MOST_KINDS - 2) + 2       # and attributes
        return 0


def catalog_in_memory(KeyTable table not None, dtype_of):
    """A catalog of an archive that has none; each leaf is opened.

    Parameters
    ----------
    table : KeyTable
        The keys of the archive.
    dtype_of : callable
        As for `describe`.
    """
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
    append_bytes(self.pages.kept, footer)
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
    writer : ArchiveWriter
        What the new leaves were written with.
    old : KeyTable or None
        The leaves that were there before.
    runs : SortedRuns
        The new leaves and the tombstones.
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
    self.pages.add(<const uint8_t *> PyBytes_AS_STRING(footer), FOOTER_LENGTH)
    self.pages.flush()
    own = writer.end_open()
    writer.note_catalog(self.pages.size, <const uint8_t *> PyBytes_AS_STRING(footer), self.paths.waiting)
    writer.begin_directory()
    writer._add(p, PyBytes_GET_SIZE(others))
    self.merge.begin()
    while self.merge.next(&leaf):
        writer._add(leaf.record, leaf.record_length)
        self.merge.go_on()
    writer._add(<const uint8_t *> PyBytes_AS_STRING(own), PyBytes_GET_SIZE(own))
    writer.end_directory(count + self.leaves + 1)
    return self.leaves
