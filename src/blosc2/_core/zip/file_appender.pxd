from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    # What is collected before it is written.
    COLLECTED = 1 << 20


cdef class Collected:
    """Bytes that grow; see file_appender.pyx."""

    cdef uint8_t *data
    cdef int64_t used, room
    cdef uint8_t *more(self, int64_t size) except NULL


cdef class FileAppender:
    """Appends bytes to a file; see file_appender.pyx."""

    cdef int _descriptor
    cdef int64_t _written           # where the next byte goes that is not collected
    cdef Collected _pending
    cdef uint32_t _checksum         # of all bytes before `_written`
    cdef bint _has_checksum
    cdef public bint eager
    cdef int64_t _asked             # up to where the system was asked to write to the disk

    cdef int _add(self, const uint8_t *data, int64_t size) except -1
    cdef int _drain(self) except -1
    cdef int _write(self, const uint8_t *data, int64_t size) except -1
