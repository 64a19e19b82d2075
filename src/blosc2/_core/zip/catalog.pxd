from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from blosc2._core.io.endian cimport u32, u64
from blosc2._core.io.source cimport Source


# The description of a leaf in a few bytes, as catalogs have it; `ndim.geometry` makes it of a frame.

# What a leaf is, in a catalog.
cdef enum:
    LEAF_UNKNOWN = 0
    LEAF_ARRAY = 1
    LEAF_SCHUNK = 2
    LEAF_OBJECTS = 3
    LEAF_BATCHES = 4
    LEAF_OTHER = 5
    LEAF_ATTRIBUTES = 6     # known by its name

# A description: what, codec, number of dimensions or NO_SHAPE, 0, length of the dtype; nbytes, cbytes, lengths of the
# axes; the dtype as stored.
cdef enum:
    DESCRIPTION_START = 24
    NO_SHAPE = 255
    MOST_AXES = 16


cdef struct Description:
    uint8_t what
    uint8_t codec
    int ndim                # -1 without a shape
    uint64_t nbytes, cbytes
    uint64_t shape[MOST_AXES]
    const uint8_t *dtype
    uint32_t dtype_length


cdef inline void describe_nothing(Description *description) noexcept nogil:
    """Make it the description of a leaf that nothing is known of."""
    description.what, description.ndim = LEAF_UNKNOWN, -1
    description.nbytes = description.cbytes = 0
    description.dtype_length = 0


cdef inline bint unpack_description(const uint8_t *p, int64_t length, Description *out) noexcept nogil:
    """Take a description apart; False where it is none. Its dtype lies where it lay."""
    cdef int i
    if length < DESCRIPTION_START:
        return False
    out.what, out.codec = p[0], p[1]
    out.ndim = -1 if p[2] == NO_SHAPE else p[2]
    out.dtype_length = u32(p + 4)
    out.nbytes, out.cbytes = u64(p + 8), u64(p + 16)
    if out.ndim > MOST_AXES or DESCRIPTION_START + 8 * <int64_t> max(out.ndim, 0) + <int64_t> out.dtype_length != length:
        return False
    p += DESCRIPTION_START
    for i in range(out.ndim):
        out.shape[i] = u64(p)
        p += 8
    out.dtype = p
    return True


cdef enum:
    PAGE = 4096             # bytes under one checksum
    FOOTER_LENGTH = 256
    SAMPLE = 4096           # bytes at each end of the records of leaves that are looked at to know a directory again
    LEAF_LENGTH = 40
    SLOT_LENGTH = 8
    NOT_DESCRIBED = 0       # the kind of a leaf that nothing but the key is known of
    TALLY_LENGTH = 24
    MOST_KINDS = 4098       # the unknown one and attributes included: more would make totals by kind slow
    MAX_DIM = 16

# A slot is 0, or a tag of the hash in the upper bits and the offset of a record, plus one, in the lower ones.
cdef enum:
    OFFSET_BITS = 40


cdef struct Leaf:
    int64_t offset           # of its record in the directory
    uint64_t nbytes         # of all leaves before it
    uint64_t cbytes
    uint32_t groups         # that appear with the leaves before it
    uint32_t hidden         # leaves before it that carry attributes
    uint32_t kind
    uint32_t shape          # where its shape is among the shapes, in units of 8 bytes


cdef inline uint64_t slot_tag(uint64_t hashed) noexcept nogil:
    return hashed >> OFFSET_BITS << OFFSET_BITS


cdef inline int64_t slot_home(uint64_t hashed, int64_t homes) noexcept nogil:
    """The first slot that a key may have: its position in the order of the lower half of the hash."""
    return <int64_t> ((hashed & <uint64_t> 0xFFFFFFFF) * <uint64_t> homes >> 32)


cdef inline int64_t slot_offset(uint64_t slot) noexcept nogil:
    return <int64_t> (slot & ((<uint64_t> 1 << OFFSET_BITS) - 1)) - 1


cdef class Pages:
    cdef Source source
    cdef int64_t start, size
    cdef uint8_t *base
    cdef long *present      # of each page, whether it is there
    cdef long ahead         # how many are fetched at least when one is missing; some more do no harm

    cdef bint has(self, int64_t at, int64_t length) noexcept nogil
    cdef bint need(self, int64_t at, int64_t length) noexcept nogil
    cdef bint bring(self, int64_t first, int64_t stop) noexcept nogil
    cdef int need_all(self) except -1
    cdef int ask(self, set pages) except -1


cdef class Catalog:
    cdef readonly Source source
    cdef readonly int64_t start, size       # in the file
    cdef readonly int64_t count             # of leaves
    cdef readonly int64_t groups            # that have leaves below them, without the root
    cdef readonly int64_t hidden            # leaves that carry attributes of groups
    cdef readonly int64_t undescribed             # leaves that are not described
    cdef readonly int64_t tables            # leaves whose last segment is that of a description of a table
    cdef readonly int64_t embed             # offset of the record of embedded values, -1 where there are none
    cdef readonly int64_t homes, slot_count, tally_step, tally_rows, kind_count
    cdef readonly uint64_t seed0, seed1
    cdef int64_t leaves_at, slots_at, shapes_at, shapes_size, kinds_at, kinds_size, tallies_at, checksums_at, pages
    cdef int64_t first_record, own_record   # offsets of the records of the first leaf and of the catalog itself
    cdef uint32_t checksums_crc
    cdef readonly uint32_t footer_crc
    cdef const uint8_t *base                # its first byte; NULL until it is loaded
    cdef object copy
    cdef Pages pages_of                     # where that is, of a file on a server
    cdef bint far
    cdef uint8_t *checked                   # of each page, whether its checksum was seen to hold
    cdef list kind_names

    cdef bint read_footer(self, const uint8_t *p, int64_t offset, int64_t size, int64_t members) noexcept
    cdef int load(self) except -1
    cpdef object damaged(self, int64_t at)
    cdef const uint8_t *bytes_at(self, int64_t at, int64_t length) noexcept nogil
    cdef bint leaf(self, int64_t rank, Leaf *leaf) noexcept nogil
    cdef int shape_at(self, uint32_t at, uint64_t *lengths) noexcept nogil
    cdef int _add_row(self, int64_t row, int sign, uint64_t *total) except -1
    cdef int _add_leaves(self, int64_t start, int64_t stop, int sign, uint64_t *total) except -1


cdef Catalog find_catalog(Source source, int64_t offset, int64_t size, int64_t members)
cdef bint describes_table(const uint8_t *key, Py_ssize_t length) noexcept nogil
cdef Py_ssize_t stem_length(const uint8_t *name, Py_ssize_t length) noexcept nogil
