# cython: boundscheck=False, wraparound=False
"""The records at the end of an archive: how long they are, finding the last one, and its comment, which holds the
checksum of the file."""

from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.io.source cimport Source

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
