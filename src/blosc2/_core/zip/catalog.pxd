from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from blosc2._core.io.source cimport Source

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
    """Bytes of an archive on a server, fetched as they are needed; see catalog.pyx."""

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
    """What a `.b2z` says about its leaves in one member; see catalog.pyx."""

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
