from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "io/background_write.h" nogil:
    ctypedef struct background_write:
        int descriptor
        const uint8_t *data
        int64_t size, position, done
        int error
        uint32_t (*sum)(uint32_t before, const uint8_t *data, size_t size) noexcept nogil
        uint32_t checksum
        int64_t asked, number, settled

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
    cdef int64_t _written           # where the next byte goes that is not collected; what is under way counts as written
    cdef Collected _pending
    cdef uint32_t _checksum         # of all bytes before `_written`, but for those under way
    cdef bint _has_checksum
    cdef public bint eager, in_background
    cdef bint _stopped              # whether nothing is written in the background any more
    cdef int64_t _asked             # up to where the system was asked to write to the disk
    cdef background_write _under_way
    cdef Collected _sent            # what it writes

    cdef int _add(self, const uint8_t *data, int64_t size) except -1
    cdef int _drain(self) except -1
    cdef int _send(self) except -1
    cdef int _settle(self) except -1
    cdef int _write(self, const uint8_t *data, int64_t size) except -1
