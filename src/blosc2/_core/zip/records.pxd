# cython: boundscheck=False, wraparound=False
"""The records of an archive. Those of a central directory are read by this file only.

The bytes of a directory are hostile, and those of a mapped file may change at any time. So `open_record` reads each length
once, checks it against the end of the directory, and keeps it in memory of the caller. Whoever needs a value twice, or
after it was checked, takes it from there.
"""

from libc.stdint cimport UINT32_MAX, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

from blosc2._core.io.memory cimport read_once
from blosc2._core.io.source cimport Source
from blosc2._core.zip.key_bytes cimport plain_key

cdef enum:
    # Flags: 0x1 encrypted, 0x40 strongly, 0x2000 with a masked directory.
    FLAGS_ENCRYPTED = 0x2041

cdef enum:
    CENTRAL_LENGTH = 46
    # The flag that says that a name is UTF-8.
    FLAG_UTF8 = 0x800
    # The flag that says that local headers do not tell names and sizes.
    FLAG_MASKED = 0x2000
    RECORD_SIGNATURE = 0x02014B50
    # On which systems records were made. Info-ZIP and tools of macOS leave names of Unix in UTF-8, without the flag.
    HOST_DOS = 0
    HOST_UNIX = 3
    HOST_DARWIN = 19
    # The extra field that has the name in UTF-8, and the CRC-32 of the one that is stored.
    FIELD_UNICODE_PATH = 0x7075

# Why a member cannot be read in place. The directory tells it; it is raised when the member is first used, so that
# one irregular member does not hide the others.
cdef enum:
    MEMBER_FINE = 0
    MEMBER_COMPRESSED = 1
    MEMBER_ENCRYPTED = 2
    MEMBER_SIZES_DIFFER = 3
    MEMBER_OTHER_DISK = 4
    MEMBER_ZIP64_SHORT = 5
    MEMBER_OUTSIDE = 6
    MEMBER_FOLDER = 7


cdef inline bint gains_by_alignment(const uint8_t *data, int64_t size) noexcept nogil:
    """Whether a value should begin at a multiple of 64: all but frames whose uncompressed payload does not lie at one then.

    `size` of its bytes are known; NULL for none.
    """
    if data == NULL or size < 31 or memcmp(data, b"\x9e\xa8b2frame\0", 10) != 0:
        return True
    # The level is 0, and the header leaves room for that of a chunk (FORMATS 8.4).
    return data[27] >> 4 == 0 and data[14] & 63 == 32


cdef struct Record:
    const uint8_t *start
    int64_t length          # of all of it, which lies inside the directory
    const uint8_t *name     # as it is stored, right behind the fixed fields
    uint16_t name_length
    uint16_t extra_length
    uint16_t disk


cdef struct Member:
    Record record
    const uint8_t *name     # UTF-8; that of the record unless that stands for another one
    uint16_t name_length
    uint16_t problem
    uint16_t flags
    uint32_t crc
    int64_t header          # local header, from the start of the file; 0 where that is not inside the archive
    int64_t size            # the same


cdef inline bint open_record(const uint8_t *directory, int64_t size, int64_t offset, Record *record) noexcept nogil:
    """The record at an offset of a directory of some bytes; False where there is none that lies inside of it."""
    cdef const uint8_t *p
    cdef uint64_t lengths
    if offset < 0 or offset > size - CENTRAL_LENGTH:
        return False
    p = directory + offset
    # In one word the lengths of name, extra field and comment, and the disk.
    lengths = read_once(p + 28)
    record.start, record.name = p, p + CENTRAL_LENGTH
    record.name_length, record.extra_length = <uint16_t> lengths, <uint16_t> (lengths >> 16)
    record.disk = <uint16_t> (lengths >> 48)
    record.length = (
        CENTRAL_LENGTH + <int64_t> record.name_length + record.extra_length + <int64_t> (lengths >> 32 & 0xFFFF))
    return <uint32_t> read_once(p) == RECORD_SIGNATURE and record.length <= size - offset


cdef inline bint open_named(const uint8_t *directory, int64_t size, int64_t offset, Record *record) noexcept nogil:
    """The record at an offset of a directory whose names were checked once: a member that lost its name since would be the key "/"."""
    return open_record(directory, size, offset, record) and record.name_length != 0


cdef inline uint16_t flags_of(const Record *record) noexcept nogil:
    return <uint16_t> read_once(record.start + 8)


cdef inline bint is_packed(const Record *record) noexcept nogil:
    """Whether a member is not stored as it is."""
    return record.start[10] != 0 or record.start[11] != 0


cdef inline bint safe_name(const uint8_t *name, int length, bint *ascii) noexcept nogil:
    """Whether a member name stays below its root: no NUL, no empty, "." or ".." segment, not absolute."""
    cdef const uint8_t *start = name
    cdef const uint8_t *stop = name + length
    cdef const uint8_t *end
    cdef const uint8_t *at = name
    cdef uint64_t word, seen = 0
    cdef int64_t size
    if plain_key(name, <size_t> length):
        ascii[0] = True
        return True
    if length == 0 or memchr(name, 0, length) != NULL:
        return False
    while stop - at >= 8:
        memcpy(&word, at, 8)
        seen |= word
        at += 8
    while at < stop:
        seen |= at[0]
        at += 1
    ascii[0] = seen & <uint64_t> 0x8080808080808080 == 0
    while start < stop:     # a folder's name ends with its separator
        end = <const uint8_t *> memchr(start, 0x2F, stop - start)
        if end == NULL:
            end = stop
        size = end - start
        if size == 0 or (start[0] == 0x2E and (size == 1 or (size == 2 and start[1] == 0x2E))):
            return False
        start = end + 1
    return True


cdef inline bint is_utf8(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Whether bytes are UTF-8: no overlong form, no surrogate, nothing behind U+10FFFF."""
    cdef const uint8_t *stop = p + length
    cdef int more, i
    while p < stop:
        if p[0] < 0x80:
            p += 1
            continue
        more = 1 if 0xC2 <= p[0] <= 0xDF else 2 if p[0] >> 4 == 0xE else 3 if 0xF0 <= p[0] <= 0xF4 else 0
        if more == 0 or stop - p <= more:
            return False
        if (p[0] == 0xE0 and p[1] < 0xA0) or (p[0] == 0xED and p[1] > 0x9F) or (p[0] == 0xF0 and p[1] < 0x90) or (
                p[0] == 0xF4 and p[1] > 0x8F):
            return False
        for i in range(1, more + 1):
            if p[i] >> 6 != 2:
                return False
        p += more + 1
    return True


cdef inline bint has_field(const uint8_t *extra, int64_t length, uint16_t kind) noexcept nogil:
    """Whether an extra field has a part of some kind, which lies inside of it."""
    cdef const uint8_t *stop = extra + length
    cdef uint64_t head
    while stop - extra >= 4:
        # Its kind and its length, as in `take_zip64`.
        head = read_once(extra - 4) >> 32
        extra += 4
        if <int64_t> (head >> 16) > stop - extra:
            return False
        if head & 0xFFFF == kind:
            return True
        extra += head >> 16
    return False


cdef inline bint counts_as_stored(const Member *member, bint ascii) noexcept nogil:
    """Whether a name, which is ASCII or not, surely stands for itself; `told_name` looks closer at others."""
    cdef const Record *record = &member.record
    if not ascii and not (member.flags & FLAG_UTF8 and is_utf8(record.name, record.name_length)):
        return False
    if record.start[5] == HOST_DOS and memchr(record.name, 0x5C, record.name_length) != NULL:
        return False
    return member.flags & FLAG_UTF8 != 0 or record.extra_length == 0 or not has_field(
        record.name + record.name_length, record.extra_length, FIELD_UNICODE_PATH)


cdef inline bint take_zip64(const uint8_t *extra, int64_t length, uint64_t *size, uint64_t *csize, uint64_t *header) noexcept nogil:
    """Fill in the values that are too large for their fields; False where one is not there."""
    cdef const uint8_t *stop = extra + length
    cdef uint64_t *fields[3]
    cdef uint64_t head
    cdef int64_t left = 0
    cdef int i
    fields[0], fields[1], fields[2] = size, csize, header
    while stop - extra >= 4:
        # Its kind and its length, which are the last four bytes of a word that begins in the record.
        head = read_once(extra - 4) >> 32
        extra += 4
        left = <int64_t> (head >> 16)
        if left > stop - extra:
            return False
        if head & 0xFFFF == 1:
            break
        extra += left
        left = 0
    # The values come in this order, and only those whose 32-bit field has the largest number instead.
    for i in range(3):
        if fields[i][0] == UINT32_MAX:
            if left < 8:
                return False
            fields[i][0] = read_once(extra)
            extra += 8
            left -= 8
    return True


cdef inline bint read_member(Member *member, int64_t directory_offset, bint *ascii) noexcept nogil:
    """Fill in a member whose record is open, with its name as it is stored; False when that is not safe."""
    cdef const Record *record = &member.record
    cdef const uint8_t *p = record.start
    # In each word: flags and method; crc and csize; size; local header.
    cdef uint64_t kind = read_once(p + 8)
    cdef uint64_t sums = read_once(p + 16), rest = read_once(p + 24), last = read_once(p + 38)
    cdef uint64_t size = rest & UINT32_MAX, csize = sums >> 32, header = last >> 32
    cdef bint short = False
    member.name, member.name_length = record.name, record.name_length
    member.problem, member.flags, member.crc = MEMBER_FINE, <uint16_t> kind, <uint32_t> sums
    member.size = member.header = 0
    if not safe_name(member.name, member.name_length, ascii):
        return False
    if size == UINT32_MAX or csize == UINT32_MAX or header == UINT32_MAX:
        short = not take_zip64(record.name + record.name_length, record.extra_length, &size, &csize, &header)
    if short or header > <uint64_t> directory_offset or size > <uint64_t> directory_offset - header:
        member.problem = MEMBER_ZIP64_SHORT if short else MEMBER_OUTSIDE
        # Of a packed member it is the size that it had before.
        member.header = <int64_t> header if header <= <uint64_t> directory_offset else 0
    else:
        member.size, member.header = <int64_t> size, <int64_t> header
    if short:
        return True
    if member.name[member.name_length - 1] == 0x2F:
        member.problem = MEMBER_FOLDER
    elif kind >> 16 & 0xFFFF:
        member.problem = MEMBER_COMPRESSED
    elif kind & FLAGS_ENCRYPTED:
        member.problem = MEMBER_ENCRYPTED
    elif size != csize:
        member.problem = MEMBER_SIZES_DIFFER
    elif record.disk:
        member.problem = MEMBER_OTHER_DISK
    return True


# The records at the end of an archive: how long they are, finding the last one, and its comment, which holds the
# checksum of the file.


cdef enum:
    LOCAL_LENGTH = 30
    END_LENGTH = 22
    LOCATOR_LENGTH = 20
    END64_LENGTH = 56
    COMMENT_WORD = 7        # length of the word that the comment begins with
    # The comment: a word, the record's offset in 16 digits, and a space, which the checksum covers; and its 8 digits.
    COMMENT_COVERED = 24
    COMMENT_LENGTH = 32


cdef inline bint is_wide(int64_t value) noexcept nogil:
    """Whether a size or an offset stands in a zip64 field, as four bytes cannot say it."""
    return value >= <int64_t> UINT32_MAX


cdef inline uint32_t four_bytes(int64_t value) noexcept nogil:
    """What the field of four bytes says of a size or an offset."""
    return UINT32_MAX if is_wide(value) else <uint32_t> value


cdef inline bint is_signature(const uint8_t *p, uint8_t third, uint8_t fourth) noexcept nogil:
    return p[0] == 0x50 and p[1] == 0x4B and p[2] == third and p[3] == fourth


cdef inline void write_digits(char *to, uint64_t value, int count) noexcept nogil:
    cdef int i
    for i in range(count - 1, -1, -1):
        to[i] = (<const char *> b"0123456789abcdef")[value & 15]
        value >>= 4


cdef inline void write_comment(char *to, int64_t position, uint32_t crc) noexcept nogil:
    """The comment of the end record at a position."""
    memcpy(to, <const char *> b"blosc2 ", COMMENT_WORD)
    write_digits(to + COMMENT_WORD, <uint64_t> position, 16)
    to[COMMENT_COVERED - 1] = 0x20
    write_digits(to + COMMENT_COVERED, crc, 8)


cdef inline int64_t last_end(const uint8_t *start, int64_t length) noexcept nogil:
    """Where the last end-record signature of a run of bytes begins, or -1."""
    cdef int64_t i = length - 4
    while i >= 0:
        if start[i] == 0x50 and is_signature(start + i, 5, 6):
            return i
        i -= 1
    return -1


cdef inline int copy_known(Source source, int64_t at, int64_t size, uint8_t *to, const uint8_t *block, int64_t low,
                           int64_t have) except -1:
    """Copy bytes of a file, of which `have` from `low` on are at hand as `block`."""
    if at < low or at + size > low + have:
        return source.check(source.read_into(at, size, to), at, size)
    memcpy(to, block + (at - low), <size_t> size)
    return 0
