# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The catalog of a `.b2z`: with it, opening the file, finding a key and listing groups cost nothing per leaf.

doc/format/catalog.md has the bytes. A catalog is a cache, never an authority: it says where in the central directory
the records of keys are, in which order they come, and what their leaves are. It is used only if it lies right before the
directory that it describes, and each of its pages is checked before it is first used. Code that finds anything wrong
with it goes back to the directory.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.endian cimport u32, u64
from blosc2._core.io.memory cimport read_once
from blosc2._core.io.source cimport READ_SHORT, Source, failure_of, note_lost
from blosc2._core.io.steps cimport address_get, address_set, flag_get, flag_set, state_get, state_set
from blosc2._core.zip.key_bytes cimport last_segment_is

from blosc2.exceptions import FormatError

cdef enum:
    BEFORE_FOOTER = 1 << 16     # bytes of a catalog on a server that come with its footer

#: The member that holds it.
NAME = ".b2/catalog"
#: What its last 256 bytes begin with.
MAGIC = b"b2catlog"
VERSION = 1


cdef Py_ssize_t stem_length(const uint8_t *name, Py_ssize_t length) noexcept nogil:
    """Bytes of a member's name without its last suffix; dots that a segment begins with start none."""
    cdef Py_ssize_t i = length - 1, first
    while i > 0 and name[i] != 0x2E and name[i] != 0x2F:
        i -= 1
    if i > 0 and name[i] == 0x2E:
        first = i
        while first > 0 and name[first - 1] == 0x2E:
            first -= 1
        if first > 0 and name[first - 1] != 0x2F:
            return i
    return length



cdef bint describes_table(const uint8_t *key, Py_ssize_t length) noexcept nogil:
    """Whether the last segment of a key is that of a description of a table."""
    return last_segment_is(key, <size_t> length, b"_meta", 5)


cdef Catalog find_catalog(Source source, int64_t offset, int64_t size, int64_t members):
    """The catalog of the directory of some size and members at an offset; None where there is none that fits."""
    cdef Catalog self
    cdef uint8_t footer[FOOTER_LENGTH]
    cdef const uint8_t *p = footer
    cdef const uint8_t *head
    cdef const uint8_t *tail
    cdef int64_t at = offset - FOOTER_LENGTH, own, leaves
    if source.far and at >= 0:
        # With the checksums of its pages, and the first records, which are looked at below.
        own = max(<int64_t> 0, offset - BEFORE_FOOTER)
        source.advise("willneed", own, offset - own + 2 * SAMPLE)
    if at < 0 or source.read_into(at, FOOTER_LENGTH, footer):
        source.check(0 if not source.far or failure_of(source) is None else READ_SHORT, max(at, 0), 0)
        return None
    if memcmp(p, <const char *> b"b2catlog", 8) or u32(p + 8) != 1:
        return None
    self = Catalog.__new__(Catalog)
    self.source = source
    if not self.read_footer(p, offset, size, members):
        return None
    # The records of leaves lie together and end where that of the catalog begins.
    leaves, own = <int64_t> u64(p + 200), <int64_t> u64(p + 208)
    if not 0 <= leaves <= own <= size:
        return None
    self.first_record, self.own_record = leaves, own
    size = min(own - leaves, SAMPLE)
    if source.base != NULL:
        head, tail = source.base + offset + leaves, source.base + offset + own - size
    else:
        try:
            first, last = source.read(offset + leaves, size), source.read(offset + own - size, size)
        except (FormatError, OSError):
            if source.far:
                raise
            return None
        head, tail = <const uint8_t *> PyBytes_AS_STRING(first), <const uint8_t *> PyBytes_AS_STRING(last)
    if checksum(checksum(0, head, <size_t> size), tail, <size_t> size) != u32(p + 240):
        return None
    return self


cdef class Pages:
    """A part of an archive on a server, in memory of its size, of which a page is touched when it was fetched.

    Who looks at bytes has asked for them by `need` before.
    """

    def __cinit__(self, Source source not None, int64_t start, int64_t size):
        self.source, self.start, self.size = source, start, size
        # The system gives memory when it is touched.
        self.base = <uint8_t *> PyMem_RawCalloc(max(<size_t> size, 1), 1)
        self.present = <long *> PyMem_RawCalloc(<size_t> (size // PAGE + 1), sizeof(long))
        if self.base == NULL or self.present == NULL:
            raise MemoryError(f"not enough memory for {size} bytes of the directory of {source.path}")

    def __dealloc__(self):
        PyMem_RawFree(self.base)
        PyMem_RawFree(self.present)

    cdef bint has(self, int64_t at, int64_t length) noexcept nogil:
        """Whether bytes are at hand."""
        cdef int64_t page
        if at < 0 or length < 0 or at > self.size - length:
            return False
        for page in range(at // PAGE, (at + length + PAGE - 1) // PAGE):
            if not state_get(&self.present[page]):
                return False
        return True

    cdef bint need(self, int64_t at, int64_t length) noexcept nogil:
        """Have bytes at hand. False where they are not there; if they could not be fetched, the source knows why."""
        cdef int64_t page, stop
        if at < 0 or length < 0 or at > self.size - length:
            return False
        page, stop = at // PAGE, (at + length + PAGE - 1) // PAGE
        while page < stop:
            if not state_get(&self.present[page]):
                return self.bring(page, min(max(stop, page + self.ahead), (self.size + PAGE - 1) // PAGE))
            page += 1
        return True

    cdef bint bring(self, int64_t first, int64_t stop) noexcept nogil:
        """Fetch pages. Those that another thread has brought meanwhile stay as they are: somebody may look at them."""
        cdef int64_t page, at, length = min(stop * PAGE, self.size) - first * PAGE
        cdef uint8_t *fetched = <uint8_t *> PyMem_RawMalloc(<size_t> length)
        cdef bint done = fetched != NULL and self.source.read_into(self.start + first * PAGE, length, fetched) == 0
        if done:
            with gil:
                with cython.critical_section(self):     # one thread at a time
                    for page in range(first, stop):
                        if not state_get(&self.present[page]):
                            at = (page - first) * PAGE
                            memcpy(self.base + page * PAGE, fetched + at, <size_t> min(<int64_t> PAGE, length - at))
                            state_set(&self.present[page], 1)
        if not done:
            with gil:
                note_lost(self.source)
        PyMem_RawFree(fetched)
        return done

    cdef int ask(self, set pages) except -1:
        """Ask for pages that are needed soon, all at once."""
        cdef int64_t page, first = -1, after = -1
        for page in [*sorted(pages), self.size // PAGE + 2]:
            if page * PAGE >= self.size or not state_get(&self.present[page]):
                if after >= 0 and page > after:
                    self.source.advise("willneed", self.start + first * PAGE, min(after * PAGE, self.size) - first * PAGE)
                    first = -1
                first, after = page if first < 0 else first, page + 1
        return 0

    cdef int need_all(self) except -1:
        """Have all of them at hand."""
        cdef int64_t at, step = 1 << 22
        self.source.advise("willneed", self.start, self.size)
        for at in range(0, self.size, step):
            if not self.need(at, min(step, self.size - at)):
                self.source.raise_lost()
                raise MemoryError
        return 0


cdef class Catalog:
    """A catalog that fits its directory. Its pages are checked when they are first read."""

    def __dealloc__(self):
        PyMem_Free(self.checked)

    cdef bint read_footer(self, const uint8_t *p, int64_t offset, int64_t size, int64_t members) noexcept:
        """Take over what the footer says; False when it does not fit the directory or itself."""
        cdef int64_t checksums_size, tallies
        if checksum(0, p, 248) != u32(p + 248) or u32(p + 12) != FOOTER_LENGTH:
            return False
        if <int64_t> u64(p + 16) != offset or <int64_t> u64(p + 24) != size or <int64_t> u64(p + 32) != members:
            return False
        self.size = <int64_t> u64(p + 40)
        if not FOOTER_LENGTH <= self.size <= offset:
            return False
        self.start = offset - self.size
        self.count, self.groups = <int64_t> u64(p + 48), <int64_t> u64(p + 56)
        self.hidden, self.undescribed = <int64_t> u64(p + 64), <int64_t> u64(p + 72)
        self.tables, self.embed = <int64_t> u64(p + 80), <int64_t> u64(p + 88)
        self.seed0, self.seed1 = u64(p + 96), u64(p + 104)
        self.leaves_at = 0
        self.shapes_at, self.shapes_size = <int64_t> u64(p + 112), <int64_t> u64(p + 120)
        self.kinds_at, self.kinds_size = <int64_t> u64(p + 128), <int64_t> u64(p + 136)
        self.kind_count = <int64_t> u64(p + 144)
        self.tallies_at, self.tally_step = <int64_t> u64(p + 152), <int64_t> u64(p + 160)
        cdef int64_t slots_at = <int64_t> u64(p + 168)
        self.slot_count, self.homes = <int64_t> u64(p + 176), <int64_t> u64(p + 184)
        self.checksums_at = <int64_t> u64(p + 192)
        self.checksums_crc, self.footer_crc = u32(p + 244), u32(p + 248)
        # Each section begins where the one before ends, rounded up to 64 bytes.
        if not 0 < self.count < <int64_t> 1 << 31 or self.count >= members or self.count > self.size // LEAF_LENGTH:
            return False
        # The path of each group is a part of a name in the directory.
        if not (0 <= self.groups <= min(size, <int64_t> 0xFFFFFFFF) and 0 <= self.hidden <= self.count
                and 0 <= self.undescribed <= self.count and 0 <= self.tables <= self.count
                and -1 <= self.embed <= size):
            return False
        if self.shapes_at != rounded((self.count + 1) * LEAF_LENGTH) or not 0 <= self.shapes_size <= self.size:
            return False
        if self.kinds_at != rounded(self.shapes_at + self.shapes_size) or not 0 <= self.kinds_size <= self.size:
            return False
        if not 1 <= self.kind_count <= MOST_KINDS or not 1 <= self.tally_step < <int64_t> 1 << 40:
            return False
        self.tally_rows = self.count // self.tally_step + 1
        if self.tallies_at != rounded(self.kinds_at + self.kinds_size):
            return False
        tallies = self.tally_rows * self.kind_count
        if tallies > self.size // TALLY_LENGTH or slots_at != rounded(self.tallies_at + tallies * TALLY_LENGTH):
            return False
        if not self.count <= self.homes < self.slot_count <= self.size // SLOT_LENGTH or self.homes >= <int64_t> 1 << 32:
            return False
        if self.checksums_at != rounded(slots_at + self.slot_count * SLOT_LENGTH) or self.checksums_at > self.size:
            return False
        self.slots_at = slots_at
        self.pages = (self.checksums_at + PAGE - 1) // PAGE
        return rounded(self.checksums_at + 4 * self.pages) == self.size - FOOTER_LENGTH

    cdef int load(self) except -1:
        """Have its bytes at hand, and the checksums of its pages checked; `FormatError` where these do not hold."""
        cdef const uint8_t *base
        if address_get(&self.base) != NULL:
            return 0
        copy = None
        if self.source.base != NULL:
            base = self.source.base + self.start
        elif self.source.far:
            # Each page when it is looked at, for there may be many.
            if not self.far:
                fresh = Pages(self.source, self.start, self.size)
                with cython.critical_section(self):
                    if self.pages_of is None:   # another thread may have been faster, and looks at them already
                        self.pages_of, self.far = fresh, True
            if not self.pages_of.need(self.checksums_at, 4 * self.pages):
                self.source.raise_lost()
                raise MemoryError
            base = self.pages_of.base
        else:
            # At the speed of memory, and only when something is looked up: as for the directory itself without it.
            copy = self.source.read(self.start, self.size)
            base = <const uint8_t *> PyBytes_AS_STRING(copy)
        if checksum(0, base + self.checksums_at, <size_t> (4 * self.pages)) != self.checksums_crc:
            raise FormatError("the checksums of the catalog are damaged", path=self.source.path,
                              offset=self.start + self.checksums_at)
        with cython.critical_section(self):
            if self.checked == NULL:
                self.checked = <uint8_t *> PyMem_Calloc(<size_t> self.pages, 1)
                if self.checked == NULL:
                    raise MemoryError
            if self.base == NULL:       # another thread may have been faster
                self.copy = copy
                address_set(&self.base, base)
        return 0

    cdef const uint8_t *bytes_at(self, int64_t at, int64_t length) noexcept nogil:
        """Bytes of a loaded catalog before its checksums, or NULL where they are damaged."""
        cdef int64_t page
        cdef const uint8_t *p
        if at < 0 or length < 0 or at > self.checksums_at - length:
            return NULL
        for page in range(at // PAGE, (at + max(length, 1) - 1) // PAGE + 1):
            if not flag_get(&self.checked[page]):
                p = self.base + page * PAGE
                if self.far and not self.pages_of.need(page * PAGE, min(<int64_t> PAGE, self.checksums_at - page * PAGE)):
                    return NULL
                if checksum(0, p, <size_t> min(PAGE, self.checksums_at - page * PAGE)) != u32(
                        self.base + self.checksums_at + 4 * page):
                    return NULL
                flag_set(&self.checked[page])
        return self.base + at

    cdef bint leaf(self, int64_t rank, Leaf *leaf) noexcept nogil:
        """A leaf by its number in the order of keys, or what comes behind the last; False where that is damaged."""
        cdef const uint8_t *p = self.bytes_at(rank * LEAF_LENGTH, LEAF_LENGTH)
        cdef uint64_t counts, what
        if p == NULL:
            return False
        counts, what = read_once(p + 24), read_once(p + 32)
        leaf.offset = <int64_t> read_once(p)
        leaf.nbytes, leaf.cbytes = read_once(p + 8), read_once(p + 16)
        leaf.groups, leaf.hidden = <uint32_t> counts, <uint32_t> (counts >> 32)
        leaf.kind, leaf.shape = <uint32_t> what, <uint32_t> (what >> 32)
        return True

    cdef int shape_at(self, uint32_t at, uint64_t *lengths) noexcept nogil:
        """The number of axes of a shape, and up to `MAX_DIM` lengths; negative where it is damaged."""
        cdef const uint8_t *p
        cdef uint64_t ndim
        cdef int i
        cdef int64_t offset = 8 * <int64_t> at
        p = self.bytes_at(self.shapes_at + offset, 8) if offset + 8 <= self.shapes_size else NULL
        if p == NULL:
            return -1
        ndim = read_once(p)
        if ndim > MAX_DIM or offset + 8 * (1 + <int64_t> ndim) > self.shapes_size:
            return -1
        p = self.bytes_at(self.shapes_at + offset + 8, 8 * <int64_t> ndim)
        if p == NULL:
            return -1
        for i in range(<int> ndim):
            lengths[i] = read_once(p + 8 * i)
        return <int> ndim

    @cython.critical_section
    def kinds(self):
        """What kinds of leaves there are: each what it is, its codec and its dtype as stored; the first is unknown."""
        cdef const uint8_t *p
        cdef int64_t i, left, length
        cdef uint32_t head
        cdef list names = []
        if self.kind_names is not None:
            return self.kind_names
        self.load()
        p = self.bytes_at(self.kinds_at, self.kinds_size)
        left = self.kinds_size
        for i in range(self.kind_count):
            if p == NULL or left < 4:
                raise self.damaged(self.kinds_at)
            # What, codec and a length, once; further sections and the footer are behind them.
            head = <uint32_t> read_once(p)
            length = head >> 16
            if length > left - 4:
                raise self.damaged(self.kinds_at)
            names.append((head & 0xFF, head >> 8 & 0xFF, p[4:4 + length].decode("utf-8", "replace")))
            p += 4 + length
            left -= 4 + length
        self.kind_names = names
        return names

    def shape(self, uint32_t at):
        """The shape that begins at an offset of the shapes; None for a leaf without one."""
        cdef uint64_t lengths[MAX_DIM]
        cdef int ndim, i
        if at == 0:
            return None
        self.load()
        ndim = self.shape_at(at, lengths)
        if ndim < 0:
            raise self.damaged(self.shapes_at)
        return tuple([lengths[i] for i in range(ndim)])

    def description(self, int64_t rank):
        """What is known of a leaf, by its number in the order of keys, as `ndim.geometry.describe` gives it; or nothing."""
        cdef Leaf leaf, after
        self.load()
        if not 0 <= rank < self.count:
            raise IndexError(f"there is no leaf {rank}; the catalog has {self.count}")
        if not self.leaf(rank, &leaf) or not self.leaf(rank + 1, &after) or leaf.kind >= self.kind_count:
            raise self.damaged(rank * LEAF_LENGTH)
        if leaf.kind == NOT_DESCRIBED:
            return b""
        what, codec, dtype = self.kinds()[leaf.kind]
        dtype = dtype.encode()
        shape = self.shape(leaf.shape)
        return b"".join((
            bytes((what, codec, NO_SHAPE if shape is None else len(shape), 0)), len(dtype).to_bytes(4, "little"),
            (after.nbytes - leaf.nbytes).to_bytes(8, "little"), (after.cbytes - leaf.cbytes).to_bytes(8, "little"),
            *[n.to_bytes(8, "little") for n in shape or ()], dtype,
        ))

    def totals(self, int64_t start, int64_t stop):
        """Of the leaves at positions ``start .. stop``: how many carry attributes, their bytes and compressed bytes."""
        cdef Leaf first, last
        self.load()
        if not 0 <= start <= stop <= self.count:
            raise IndexError(f"leaves {start}..{stop} are outside the {self.count} of the catalog")
        if not self.leaf(start, &first) or not self.leaf(stop, &last):
            raise self.damaged(start * LEAF_LENGTH)
        return <int64_t> last.hidden - <int64_t> first.hidden, last.nbytes - first.nbytes, last.cbytes - first.cbytes

    def tally(self, int64_t start, int64_t stop):
        """What `totals` gives for each kind of leaf that is among them: number of the kind -> leaves, bytes, compressed bytes.

        It takes as long for many leaves as for few: totals up to every so many leaves are in the catalog.
        """
        cdef int64_t k, row
        cdef uint64_t *total
        self.load()
        if not 0 <= start <= stop <= self.count:
            raise IndexError(f"leaves {start}..{stop} are outside the {self.count} of the catalog")
        total = <uint64_t *> PyMem_Calloc(<size_t> (3 * self.kind_count), 8)
        if total == NULL:
            raise MemoryError
        try:
            if start // self.tally_step < stop // self.tally_step:
                for at, sign in ((start, -1), (stop, 1)):
                    row = at // self.tally_step
                    self._add_row(row, sign, total)
                    # And what lies between that and where it should be.
                    self._add_leaves(row * self.tally_step, at, sign, total)
            else:
                self._add_leaves(start, stop, 1, total)
            return {k: (total[3 * k], total[3 * k + 1], total[3 * k + 2])
                    for k in range(self.kind_count) if total[3 * k]}
        finally:
            PyMem_Free(total)

    cdef int _add_row(self, int64_t row, int sign, uint64_t *total) except -1:
        """Add, or take away, what all leaves before some have in common; modulo 2**64, as a catalog may lie."""
        cdef int64_t size = TALLY_LENGTH * self.kind_count, i
        cdef const uint8_t *p = self.bytes_at(self.tallies_at + row * size, size)
        if p == NULL:
            raise self.damaged(self.tallies_at + row * size)
        for i in range(3 * self.kind_count):
            total[i] += <uint64_t> sign * u64(p + 8 * i)
        return 0

    cdef int _add_leaves(self, int64_t start, int64_t stop, int sign, uint64_t *total) except -1:
        cdef Leaf leaf, after
        cdef int64_t i
        cdef uint64_t *found
        if start < stop and not self.leaf(start, &after):
            raise self.damaged(start * LEAF_LENGTH)
        for i in range(start, stop):
            leaf = after
            if not self.leaf(i + 1, &after) or leaf.kind >= self.kind_count:
                raise self.damaged(i * LEAF_LENGTH)
            found = total + 3 * <int64_t> leaf.kind
            found[0] += <uint64_t> sign
            found[1] += <uint64_t> sign * (after.nbytes - leaf.nbytes)
            found[2] += <uint64_t> sign * (after.cbytes - leaf.cbytes)
        return 0

    cpdef object damaged(self, int64_t at):
        """The error for something that is wrong with it."""
        self.source.raise_lost()
        return FormatError("the catalog is damaged", path=self.source.path, offset=self.start + at)

    def __repr__(self):
        return f"<Catalog of {self.source.path or 'buffer'}: {self.count} leaves>"


cdef inline int64_t rounded(int64_t at) noexcept nogil:
    return (at + 63) // 64 * 64
