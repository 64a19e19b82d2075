from libc.stdint cimport int64_t, uint32_t, uint8_t

from blosc2._core.zip.external_sort cimport SortedRuns


cdef enum:
    # What is collected before it is written.
    COLLECTED = 1 << 20


cdef class Collected:
    """Bytes that grow; see archive_writer.pyx."""

    cdef uint8_t *data
    cdef int64_t used, room
    cdef uint8_t *more(self, int64_t size) except NULL
    cdef int append(self, const void *data, int64_t size) except -1


cdef class ArchiveWriter:
    """Appends members and a directory; see archive_writer.pyx."""

    cdef int _descriptor
    cdef int64_t _written           # where the next byte goes that is not collected
    cdef Collected _pending
    cdef uint32_t _checksum         # of all bytes before `_written`
    cdef bint _has_checksum
    cdef public bint eager
    cdef int64_t _asked             # up to where the system was asked to write to the disk
    cdef Collected records       # of members that were appended
    cdef dict offsets            # name -> where its record starts among the records
    cdef readonly dict descriptions     # name of a leaf -> what it is
    cdef Collected _handed
    cdef bint _gaps             # whether there are records that do not count
    cdef uint32_t _align
    cdef uint32_t _stamp
    cdef bytes _end
    cdef SortedRuns runs        # where records go instead of `records`; None for few members
    # A member whose size is not known yet.
    cdef bytes _open_local, _open_name
    cdef int64_t _open_header, _open_start, _open_size
    cdef uint32_t _open_checksum, _open_crc
    cdef int64_t _directory_start
    cdef readonly tuple cataloged   # of the catalog that was written; see `note_catalog`

    cdef int _add(self, const uint8_t *data, int64_t size) except -1
    cdef int _drain(self) except -1
    cdef int _write(self, const uint8_t *data, int64_t size) except -1
    cdef int _complete(self, bytes local, bytes whole, int64_t header, int64_t size, uint32_t checksum_before) except -1
    cdef int _check_name(self, bytes name) except -1
    cdef int64_t _begin(self, const uint8_t *name, uint32_t length, int64_t size, uint32_t crc) except -1
    cdef uint8_t *_put_record(self, uint8_t *p, const uint8_t *name, uint32_t length, int64_t header, int64_t size,
                              uint32_t crc, uint32_t mode) noexcept
    cdef int add_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, const uint8_t *data, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef uint8_t *begin_leaf(self, const uint8_t *name, uint32_t length, int64_t size) except NULL
    cdef int end_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef int note_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                       bytes description) except -1
    cdef int _note(self, bytes name, int64_t header, int64_t size, uint32_t crc, uint32_t mode, bytes description) except -1
    cdef int _hand_over(self, SortedRuns runs, bytes name, const uint8_t *record, bytes description) except -1
    cdef int _drop(self, bytes name) except -1
    cdef int _close_gaps(self) except -1
    cdef int64_t begin_open(self, bytes name, int64_t most) except -1
    cdef int add_open(self, const uint8_t *data, int64_t size) except -1
    cdef bytes end_open(self)
    cdef int _complete_open(self, bytes first) except -1
    cdef int _note_open(self) except -1
    cdef int note_catalog(self, int64_t size, const uint8_t *footer, int64_t paths) except -1
    cdef int begin_directory(self) except -1
    cdef int end_directory(self, int64_t count) except -1
