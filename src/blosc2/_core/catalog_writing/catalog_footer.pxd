# cython: boundscheck=False, wraparound=False
"""The footer of a catalog that is being written; doc/format/catalog.md has its bytes."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.little_endian cimport put, put32, put64
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.catalog_writing.catalog_pages cimport Pages
from blosc2._core.zip.catalog cimport FOOTER_LENGTH, PAGE
from blosc2._core.zip.end_record cimport is_wide
from blosc2._core.zip.central_record cimport CENTRAL_LENGTH

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
    return 0
