# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The catalog and the directory of the next version, made of those of the last one.

A commit of few leaves costs memory copies of what is there: runs of old records are copied, the totals of old leaves are
moved by what came or went before them, and of the hash only the paths that come or go are looked at. Nothing is written
before all of it is known to be possible; otherwise `CatalogBuilder` makes all anew, as it does now and then anyway.

What the last catalog says of its leaves must have been compared with the directory (`KeyTable.sound`), or be this writer's
own.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.little_endian cimport put32, put64, u32
from blosc2._core.keys.gone_ranges cimport GoneRanges, gone_within
from blosc2._core.keys.key_order cimport before_in_order, shared
from blosc2._core.keys.keytable cimport DAMAGED, KeyTable, Text
from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.catalog_writing.catalog_pages cimport Pages
from blosc2._core.zip.catalog cimport (
    FOOTER_LENGTH, LEAF_LENGTH, SAMPLE, SLOT_LENGTH, TALLY_LENGTH, Catalog, Leaf, describes_table)
from blosc2._core.catalog_writing.catalog_footer cimport Footer, write_footer
from blosc2._core.zip.description cimport LEAF_ATTRIBUTES, Description, describe_nothing, unpack_description
from blosc2._core.zip.external_sort cimport SortedRuns
from blosc2._core.catalog_writing.leaf_kinds cimport LeafKinds
from blosc2._core.catalog_writing.leaf_merge cimport RecordSample
from blosc2._core.catalog_writing.slot_changes cimport Shift, SlotChanges
from blosc2._core.zip.sort_items cimport SortedItem
from blosc2._core.zip.key_hash cimport key_hash, next_prefix, prefix_hashes, start_prefixes

from blosc2._core.zip.catalog import NAME

cdef enum:
    # Leaves whose entries are made at a time.
    TOGETHER = 1024
    # Bytes of records that are written at a time.
    WRITTEN = 4 << 20
    # Leaves between two tallies, at least.
    TALLY_STEP = 1024


cdef class CatalogPatch:
    """Plans the next version, and writes it if that is possible.

    Parameters
    ----------
    table : KeyTable
        The leaves that were there before.
    runs : SortedRuns
        The new leaves and the tombstones.
    budget : int
        Bytes that slots may take in memory.
    """

    cdef KeyTable table
    cdef Catalog catalog
    cdef SortedRuns runs
    cdef LeafKinds known
    cdef SlotChanges slots
    cdef GoneRanges ranges      # of old leaves that do not stay
    cdef Collected changes, pieces, removed, shifts
    cdef int64_t change_count, piece_count, removed_count, shift_count, gone
    cdef int64_t leaves, groups, hidden, undescribed, tables, paths, tally_step, kind_count
    cdef uint64_t *counts
    cdef uint8_t *tallies
    cdef int64_t tally_row
    # Totals of what was written so far.
    cdef int64_t offset, rank
    cdef uint64_t nbytes, cbytes
    cdef uint32_t shown_groups, hidden_leaves
    cdef uint8_t *entries

    def __cinit__(self, KeyTable table not None, SortedRuns runs not None):
        self.table, self.runs, self.catalog = table, runs, table.catalog
        self.changes, self.pieces = Collected.__new__(Collected), Collected.__new__(Collected)
        self.removed, self.shifts = Collected.__new__(Collected), Collected.__new__(Collected)

    def __dealloc__(self):
        PyMem_Free(self.counts)
        PyMem_Free(self.tallies)
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
        self.kind_count = len(self.known.numbers) + 1
        self.tally_step = max(max(self.catalog.tally_step, <int64_t> TALLY_STEP), 16 * self.kind_count)
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
            memcpy(self.changes.more(sizeof(Change)), &change, sizeof(Change))
            self.changes.used += sizeof(Change)
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
        memcpy(self.pieces.more(sizeof(Piece)), &piece, sizeof(Piece))
        self.pieces.used += sizeof(Piece)
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
        self.groups, self.hidden = 0, self.catalog.hidden
        self.undescribed, self.tables = self.catalog.undescribed, self.catalog.tables
        for i in range(self.piece_count):
            piece = <Piece *> self.pieces.data + i
            if not (self._lay_leaf(piece, &before, &offset) if piece.change >= 0 else self._lay_run(piece, &before, &offset)):
                return False
            self.groups += piece.appear
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
            self.hidden += is_hidden(&key)
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
        cdef Leaf leaf, after, stop
        cdef Text key
        if not self.table.key(piece.first, &key) or not self.catalog.leaf(piece.first, &leaf) or (
                not self.catalog.leaf(piece.first + 1, &after) or not self.catalog.leaf(piece.stop, &stop)):
            return False
        self._add_shift(leaf.offset, stop.offset, offset[0] - leaf.offset)
        if not self._find_groups(piece, before, &key, leaf.offset, offset[0]):
            return False
        self.groups += <int64_t> stop.groups - <int64_t> after.groups
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
                self.hidden -= is_hidden(&key)
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
    cdef int _tally(self) noexcept nogil:
        """Note the totals of all leaves so far, for each kind."""
        cdef int64_t i
        cdef uint8_t *p = self.tallies + TALLY_LENGTH * self.kind_count * self.tally_row
        for i in range(3 * self.kind_count):
            p = put64(p, self.counts[i])
        self.tally_row += 1
        return 0

    cdef int _count(self, uint32_t kind, uint64_t nbytes, uint64_t cbytes) noexcept nogil:
        cdef uint64_t *count
        if self.rank % self.tally_step == 0:
            self._tally()
        # A mapped file may change after it was checked.
        count = self.counts + 3 * (kind if kind < self.kind_count else 0)
        count[0] += 1
        count[1] += nbytes
        count[2] += cbytes
        self.rank += 1
        self.nbytes += nbytes
        self.cbytes += cbytes
        return 0

    cdef uint8_t *_put_entry(self, uint8_t *p, int64_t offset, uint32_t kind, uint32_t shape) noexcept nogil:
        p = put64(put64(put64(p, <uint64_t> offset), self.nbytes), self.cbytes)
        return put32(put32(put32(put32(p, self.shown_groups), self.hidden_leaves), kind), shape)

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
            p = self._put_entry(p, leaf.offset + by, leaf.kind, leaf.shape)
            self._count(leaf.kind, after.nbytes - leaf.nbytes, after.cbytes - leaf.cbytes)
            # With the first one other groups may appear than before.
            self.shown_groups += appear if begins and position == first else after.groups - leaf.groups
            self.hidden_leaves += after.hidden - leaf.hidden
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
                self._put_entry(self.entries, self.offset, change.kind, change.shape)
                pages.add(self.entries, LEAF_LENGTH)
                self._count(change.kind, change.nbytes, change.cbytes)
                self.shown_groups += piece.appear
                self.hidden_leaves += is_hidden(&change.key)
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
        # What follows the last leaf has the totals of all.
        if self.rank % self.tally_step == 0:
            self._tally()
        self._put_entry(self.entries, self.offset, 0, 0)
        pages.add(self.entries, LEAF_LENGTH)
        return 0

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
        cdef int64_t tallies_size = TALLY_LENGTH * self.kind_count * (self.leaves // self.tally_step + 1)
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(others)
        cdef bytes own
        self.counts = <uint64_t *> PyMem_Calloc(<size_t> (3 * self.kind_count), 8)
        self.tallies = <uint8_t *> PyMem_Calloc(<size_t> tallies_size, 1)
        self.entries = <uint8_t *> PyMem_Calloc(TOGETHER, LEAF_LENGTH)
        if self.counts == NULL or self.tallies == NULL or self.entries == NULL:
            raise MemoryError
        # More than it can have: with it is decided whether its sizes take 64 bits.
        size = (LEAF_LENGTH + 16) * self.leaves + SLOT_LENGTH * self.table.slot_count + (256 << 20)
        footer.header = writer._written + writer._pending.used
        pages = Pages.__new__(Pages, writer)
        writer.begin_open(NAME.encode(), size)
        self._write_leaves(pages, sample)
        pages.pad()
        footer.shapes_at, footer.shapes_size = pages.size, self.known.shapes.used
        pages.add(self.known.shapes.data, self.known.shapes.used)
        pages.pad()
        footer.kinds_at, footer.kinds_size = pages.size, self.known.table.used
        pages.add(self.known.table.data, self.known.table.used)
        pages.pad()
        footer.tallies_at = pages.size
        pages.add(self.tallies, tallies_size)
        pages.pad()
        footer.slots_at = pages.size
        size = 0
        while size < SLOT_LENGTH * self.table.slot_count:
            pages.add(self.slots.slots + size, min(SLOT_LENGTH * self.table.slot_count - size, <int64_t> WRITTEN))
            size += WRITTEN
        pages.pad()
        footer.kind_count, footer.tally_step = self.kind_count, self.tally_step
        footer.slot_count, footer.homes = self.table.slot_count, self.table.homes
        footer.seed0, footer.seed1 = self.table.seed0, self.table.seed1
        footer.others_size, footer.others_count, footer.embed = others_size, others_count, embed
        footer.leaves, footer.groups, footer.hidden = self.leaves, self.groups, self.hidden
        footer.undescribed, footer.tables, footer.records_size = self.undescribed, self.tables, self.offset - others_size
        footer.digest = sample.digest(footer.records_size)
        write_footer(&footer, pages, packed)
        pages.add(packed, FOOTER_LENGTH)
        pages.flush()
        own = writer.end_open()
        writer.note_catalog(pages.size, packed, self.paths)
        writer.begin_directory()
        writer._add(p, others_size)
        self._write_records(writer)
        writer._add(<const uint8_t *> PyBytes_AS_STRING(own), PyBytes_GET_SIZE(own))
        return writer.end_directory(others_count + self.leaves + 1)


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
