from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from blosc2._core.source cimport Source

# Why a member cannot be read in place. The directory tells it; it is raised when the member is first used, so that
# one odd member does not hide the others.
cdef enum:
    MEMBER_FINE = 0
    MEMBER_COMPRESSED = 1
    MEMBER_ENCRYPTED = 2
    MEMBER_SIZES_DIFFER = 3
    MEMBER_OTHER_DISK = 4
    MEMBER_ZIP64_SHORT = 5
    MEMBER_OUTSIDE = 6
    MEMBER_FOLDER = 7


cdef struct Member:
    const uint8_t *record   # its central record
    const uint8_t *name     # UTF-8; inside the record unless that is cp437
    uint16_t name_length
    uint16_t problem
    uint32_t crc
    int64_t header          # local header, from the start of the file
    int64_t size
    int64_t data            # first byte of the data; -1 until the local header was checked


cdef class Archive:
    """A ZIP of stored members; see archive.pyx."""

    cdef readonly Source source
    cdef readonly int64_t directory_offset
    cdef readonly int64_t directory_size
    cdef readonly int64_t end
    cdef readonly Py_ssize_t count
    cdef Member *members
    cdef const uint8_t *_directory
    cdef object _copy
    cdef list _names

    cdef int _find_end(self) except -1
    cdef int _try_end(self, int64_t position, int64_t *work) except -1
    cdef int _parse(self, int64_t count) except -1
    cdef int _refuse_name(self, Member *member) except -1
    cdef int _decode(self, Member *member, uint16_t flags) except -1
    cdef int64_t locate(self, Py_ssize_t number) except -1
    cdef int64_t locate_and_read(self, Py_ssize_t number, uint8_t *ahead, int64_t room, int64_t *have) except -1
    cdef int check_number(self, Py_ssize_t number) except -1
    cdef int64_t _record_length(self, Py_ssize_t number) noexcept
    cdef bytes _piece(self, Py_ssize_t start, Py_ssize_t stop)
    cdef str _name(self, Py_ssize_t number)
