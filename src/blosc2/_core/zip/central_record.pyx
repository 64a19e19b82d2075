# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""What the records of a central directory say of their members; see central_record.pxd."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from "keys/key_match.h" nogil:
    bint plain_key(const uint8_t *p, size_t length)

cdef enum:
    # Flags: 0x1 encrypted, 0x40 strongly, 0x2000 with a masked directory.
    FLAGS_ENCRYPTED = 0x2041

# A 32-bit field whose value is in the zip64 extra field.
cdef uint64_t FULL = 0xFFFFFFFFULL


cdef bint safe_name(const uint8_t *name, int length, bint *ascii) noexcept nogil:
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


cdef bint is_utf8(const uint8_t *p, Py_ssize_t length) noexcept nogil:
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


cdef bint take_zip64(const uint8_t *extra, int64_t length, uint64_t *size, uint64_t *csize, uint64_t *header) noexcept nogil:
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
    # The values come in this order, and only those whose 32-bit field is full.
    for i in range(3):
        if fields[i][0] == FULL:
            if left < 8:
                return False
            fields[i][0] = read_once(extra)
            extra += 8
            left -= 8
    return True


cdef bint read_member(Member *member, int64_t directory_offset, bint *ascii) noexcept nogil:
    """Fill in a member whose record is open, with its name as it is stored; False when that is not safe."""
    cdef const Record *record = &member.record
    cdef const uint8_t *p = record.start
    # In each word: flags and method; crc and csize; size; local header.
    cdef uint64_t kind = read_once(p + 8)
    cdef uint64_t sums = read_once(p + 16), rest = read_once(p + 24), last = read_once(p + 38)
    cdef uint64_t size = rest & FULL, csize = sums >> 32, header = last >> 32
    cdef bint short = False
    member.name, member.name_length = record.name, record.name_length
    member.problem, member.flags, member.crc = MEMBER_FINE, <uint16_t> kind, <uint32_t> sums
    member.size = member.header = 0
    if not safe_name(member.name, member.name_length, ascii):
        return False
    if size == FULL or csize == FULL or header == FULL:
        short = not take_zip64(record.name + record.name_length, record.extra_length, &size, &csize, &header)
    if short or header > <uint64_t> directory_offset or size > <uint64_t> directory_offset - header:
        member.problem = MEMBER_ZIP64_SHORT if short else MEMBER_OUTSIDE
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
