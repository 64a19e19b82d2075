# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What unpacking msgpack would hold in memory, before it is done.

One pass over the bytes, with no regard to which value lies in which: each is counted as large as Python makes it, and
each list and map as long as it says. So it is an upper bound, also of data that turn out to be damaged on the way.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    SLOT = 8            # of a list
    OBJECT = 64         # an empty list or map, and what the allocator adds
    SCALAR = 32         # an integer that Python does not keep, or a float
    TEXT = 64           # what a string or bytes have besides their content
    SMALL_MAP = 192     # a map of up to 5 entries
    MAP_ENTRY = 170     # of a larger one while it grows; and of the table where Python keeps strings that are keys
    SET_ITEM = 150      # of a set while it grows
    SET = 224
    ARRAY = 2048        # an array without its data: its parts, its dtype
    TUPLE = 10          # bytes of the string that marks a list as a tuple

    COMPLEX_CODE = 44
    SET_CODE = 45
    ARRAY_CODE = 46
    DEEPEST = 7         # extensions inside of extensions; the reader takes fewer

#: No value takes more bytes in memory for each packed one: in a set a negative integer, of one byte, is counted as
#: SLOT + SET_ITEM + SCALAR.
MOST_PER_BYTE = 200


cdef inline int64_t _number(const uint8_t *p, int size) noexcept nogil:
    cdef int64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | p[i]
    return value


cdef int64_t _text(const uint8_t *p, int64_t n) noexcept nogil:
    """A string: as wide as its widest character, and a copy while that is found out."""
    cdef uint8_t seen = 0
    cdef int64_t i
    for i in range(n):
        if p[i] > seen:
            seen = p[i]
    if seen < 0x80:
        return 0 if n < 2 else TEXT + n
    return TEXT + n + n * (4 if seen >= 0xF0 else 2 if seen >= 0xC4 else 1)


cdef int64_t _list(const uint8_t *p, int64_t room, int64_t count, bint in_array) noexcept nogil:
    """A list, or the tuple that it becomes, with the list and a part of it there for a moment."""
    cdef int64_t size = OBJECT + SLOT * count
    if room >= TUPLE and p[0] == 0xA9 and p[1] == c'_' and p[2] == c'_' and p[3] == c't':
        size *= 3
    return size + SLOT * count if in_array else size    # the items of an array of objects


cdef inline int64_t _map(int64_t count) noexcept nogil:
    return OBJECT if count == 0 else SMALL_MAP if count <= 5 else OBJECT + MAP_ENTRY * count


cdef int64_t _extension(const uint8_t *p, int64_t n, int code, int depth, int64_t enough) noexcept nogil:
    """An extension of `n` bytes: they are copied first, and then made into what they stand for."""
    cdef int64_t size = TEXT + OBJECT + n
    cdef int64_t count = 0
    if code != SET_CODE and code != ARRAY_CODE:
        return size
    if code == SET_CODE:
        if n and p[0] & 0xF0 == 0x90:
            count = p[0] & 15
        elif n > 2 and p[0] == 0xDC:
            count = _number(p + 1, 2)
        elif n > 4 and p[0] == 0xDD:
            count = _number(p + 1, 4)
        size += SET + (SET_ITEM * count if count > 4 and count < n else 0)
    else:
        size += ARRAY + n
    return size + (_walk(p, n, depth + 1, code == ARRAY_CODE, enough) if depth < DEEPEST else 0)


cdef int64_t _walk(const uint8_t *p, int64_t room, int depth, bint in_array, int64_t enough) noexcept nogil:
    """The size of all values in some bytes, up to the first that does not fit them, or until it is enough."""
    cdef int64_t total = 0, n
    cdef int64_t whole = room
    cdef int code, head
    while room > 0 and total <= enough:
        code = p[0]
        p += 1
        room -= 1
        if code < 0x80 or code == 0xCC or 0xC0 <= code <= 0xC3:    # kept by Python
            if code == 0xCC:
                p += 1
                room -= 1
            continue
        if code >= 0xE0:
            total += SCALAR
            continue
        if code < 0x90:
            total += _map(code & 15)
            continue
        if code < 0xA0:
            total += _list(p, room, code & 15, in_array)
            continue
        if code < 0xC0 or 0xC4 <= code <= 0xC6 or 0xD9 <= code <= 0xDB:     # bytes and strings
            head = 0 if code < 0xC0 else 1 << (code - (0xC4 if code < 0xD0 else 0xD9))
            if head > room:
                break
            n = code & 31 if code < 0xC0 else _number(p, head)
            p += head
            room -= head
            if n > room:
                break
            total += TEXT + n if 0xC4 <= code <= 0xC6 else _text(p, n)
            p += n
            room -= n
            continue
        if code >= 0xDC:        # long lists and maps
            head = 2 if code == 0xDC or code == 0xDE else 4
            if head > room:
                break
            n = _number(p, head)
            p += head
            room -= head
            # Lists are made as long as they say, if that is no more than all bytes there are; maps grow.
            if code <= 0xDD:
                if n > whole:
                    break
                total += _list(p, room, n, in_array)
            else:
                total += _map(min(n, room // 2))
            continue
        if 0xCA <= code <= 0xD3:    # numbers
            head = 4 if code == 0xCA else 8 if code == 0xCB else 1 << (code - (0xCC if code < 0xD0 else 0xD0))
            total += SCALAR
            p += head
            room -= head
            continue
        # Extensions: 0xC7-0xC9 with a length, 0xD4-0xD8 of 1 to 16 bytes.
        head = 1 << (code - 0xC7) if code < 0xD0 else 0
        if head + 1 > room:
            break
        n = _number(p, head) if head else 1 << (code - 0xD4)
        code = p[head]
        p += head + 1
        room -= head + 1
        if n > room:
            break
        total += _extension(p, n, code, depth, enough - total)
        p += n
        room -= n
    return total


def unpacked_size(data not None, int64_t enough=(1 << 62)):
    """Bytes of memory that the values in packed bytes take, at most; it stops counting above `enough`.

    Examples
    --------
    >>> unpacked_size(bytes([0x93, 1, 2, 3]))
    88
    """
    cdef const uint8_t[::1] view = memoryview(data).cast("B")
    cdef int64_t size
    if view.shape[0] == 0:
        return 0
    with nogil:
        size = _walk(&view[0], view.shape[0], 0, False, enough)
    return size
