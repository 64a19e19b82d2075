"""The records of a central directory: the one place where they are read.

The bytes of a directory are hostile, and those of a mapped file may change at any time. So nobody but this reads a field of
a record: `open_record` reads each length once, checks it against the end of the directory, and keeps it in memory of the
caller; what is used twice, or after it was checked, is used from there.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "io/read_once.h" nogil:
    uint64_t read_once(const uint8_t *p)        # little-endian
    uint64_t read_once_big(const uint8_t *p)    # big-endian

cdef enum:
    CENTRAL_LENGTH = 46
    # The flag that says that a name is UTF-8.
    FLAG_UTF8 = 0x800
    RECORD_SIGNATURE = 0x02014B50

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


cdef struct Record:
    const uint8_t *start
    int64_t length          # of all of it, which lies inside the directory
    const uint8_t *name     # as it is stored, right behind the fixed fields
    uint16_t name_length
    uint16_t extra_length
    uint16_t disk


cdef struct Member:
    Record record
    const uint8_t *name     # UTF-8; that of the record unless that is cp437
    uint16_t name_length
    uint16_t problem
    uint16_t flags
    uint32_t crc
    int64_t header          # local header, from the start of the file; 0 where that is not inside the archive
    int64_t size            # the same


cdef inline bint open_record(const uint8_t *directory, int64_t size, int64_t place, Record *record) noexcept nogil:
    """The record at a place of a directory of some bytes; False where there is none that lies inside of it."""
    cdef const uint8_t *p
    cdef uint64_t lengths
    if place < 0 or place > size - CENTRAL_LENGTH:
        return False
    p = directory + place
    # In one word the lengths of name, extra field and comment, and the disk.
    lengths = read_once(p + 28)
    record.start, record.name = p, p + CENTRAL_LENGTH
    record.name_length, record.extra_length = <uint16_t> lengths, <uint16_t> (lengths >> 16)
    record.disk = <uint16_t> (lengths >> 48)
    record.length = (
        CENTRAL_LENGTH + <int64_t> record.name_length + record.extra_length + <int64_t> (lengths >> 32 & 0xFFFF))
    return <uint32_t> read_once(p) == RECORD_SIGNATURE and record.length <= size - place


cdef inline bint open_named(const uint8_t *directory, int64_t size, int64_t place, Record *record) noexcept nogil:
    """The same of a directory whose names were checked once: a member that lost its name since would be the key "/"."""
    return open_record(directory, size, place, record) and record.name_length != 0


cdef inline uint16_t flags_of(const Record *record) noexcept nogil:
    return <uint16_t> read_once(record.start + 8)


cdef bint read_member(Member *member, int64_t directory_offset, bint *ascii) noexcept nogil
cdef bint safe_name(const uint8_t *name, int length, bint *ascii) noexcept nogil
cdef bint is_utf8(const uint8_t *p, Py_ssize_t length) noexcept nogil
