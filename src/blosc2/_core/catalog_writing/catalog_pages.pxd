from libc.stdint cimport int64_t, uint8_t, uint32_t

from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.file_appender cimport Collected


cdef class Pages:
    """Bytes with a checksum for each page; see catalog_pages.pyx."""

    cdef ArchiveWriter writer       # None: it is kept in memory
    cdef Collected kept, waiting, checksums
    cdef int64_t size
    cdef uint32_t running
    cdef bint covered           # whether what is added gets a checksum

    cdef int add(self, const uint8_t *data, int64_t size) except -1
    cdef int end_page(self) except -1
    cdef int flush(self) except -1
    cdef int pad(self) except -1
