from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from blosc2._core.catalog cimport Catalog
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

cdef enum:
    CENTRAL_LENGTH = 46
    LOCAL_LENGTH = 30
    END_LENGTH = 22
    LOCATOR_LENGTH = 20
    END64_LENGTH = 56
    # The flag that says that a name is UTF-8.
    FLAG_UTF8 = 0x800
    # The comment that is a seal: a word, 16 digits, a space, which are covered, and 8 digits.
    SEAL_COVERED = 24
    SEAL_LENGTH = 32


cdef struct Member:
    const uint8_t *record   # its central record
    const uint8_t *name     # UTF-8; inside the record unless that is cp437
    uint16_t name_length
    uint16_t problem
    uint32_t crc
    int64_t header          # local header, from the start of the file
    int64_t size


cdef class Archive:
    """A ZIP of stored members; see archive.pyx."""

    cdef readonly Source source
    cdef readonly int64_t directory_offset
    cdef readonly int64_t directory_size
    cdef readonly int64_t end
    cdef readonly Py_ssize_t count
    cdef readonly Catalog catalog
    cdef const uint8_t *_directory  # NULL until needed
    cdef int64_t *_places           # of the records by number; NULL until needed
    cdef object _copy
    cdef dict _decoded              # names that are not UTF-8 in the file, by place
    cdef bint _trusting

    cdef int _find_end(self) except -1
    cdef int _try_end(self, int64_t position, int64_t *work) except -1
    cdef int load_directory(self) except -1
    cdef int _need_places(self) except -1
    cdef int _parse(self, int64_t count) except -1
    cdef int _refuse_name(self, Member *member) except -1
    cdef int _decode(self, Member *member, int64_t place) except -1
    cdef bint peek(self, int64_t place, Member *member) noexcept nogil
    cdef int member_at(self, int64_t place, Member *member) except -1
    cpdef int64_t place_of(self, Py_ssize_t number) except -1
    cdef int64_t locate(self, Member *member) except -1
    cdef int64_t locate_and_read(self, Member *member, uint8_t *ahead, int64_t room, int64_t *have) except -1
    cdef bytes _piece(self, Py_ssize_t start, Py_ssize_t stop)
    cdef str _name(self, Member *member)
    cdef _error(self, Member *member, str reason, int64_t offset)


cdef int64_t record_length(const uint8_t *record) noexcept nogil
cdef bint safe_name(const uint8_t *name, int length, bint *ascii) noexcept nogil
cdef void write_seal(char *to, int64_t position, uint32_t crc) noexcept nogil
