# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""How much memory the values of packed msgpack would take, found out before they are unpacked.

One pass over the bytes counts each value as large as Python makes it, and each list and map as long as it says,
whatever lies inside of what. The result is an upper bound, also for data that turn out to be damaged.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from blosc2._core.io.endian cimport from_big
from blosc2._core.io.source cimport Buffer, readable

from msgpack import Unpacker

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define B2_LIST_SLOT 18
    #define B2_HEAD_MORE 16
    #else
    #define B2_LIST_SLOT 9
    #define B2_HEAD_MORE 0
    #endif
    #define B2_OBJECT (64 + B2_HEAD_MORE)
    #define B2_SCALAR (32 + B2_HEAD_MORE)
    """
    enum:
        # For each item of a list, which grows by an eighth. Without a GIL the old items are there until they are copied.
        SLOT "B2_LIST_SLOT"
        # Without a GIL the head of each object is larger.
        OBJECT "B2_OBJECT"      # an empty list or map, and what the allocator adds
        SCALAR "B2_SCALAR"      # an integer that Python does not keep, or a float
        TEXT "B2_OBJECT"        # what a string or bytes have besides their content

cdef enum:
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
    STEP = 64           # items of a list from one that is remembered to the next

# Without its extension module, msgpack copies what it unpacks into a buffer, and each value once more out of that.
cdef int64_t COPIES = 2 if Unpacker.__module__ == "msgpack.fallback" else 0

#: No value takes more bytes in memory for each packed one: in a set a negative integer, of one byte, is counted as
#: SLOT + SET_ITEM + SCALAR.
MOST_PER_BYTE = max(200, SLOT + SET_ITEM + SCALAR) + (DEEPEST + 1) * COPIES


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
        size += 2 * (OBJECT + 8 * count)
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
            count = <int64_t> from_big(p + 1, 2)
        elif n > 4 and p[0] == 0xDD:
            count = <int64_t> from_big(p + 1, 4)
        size += SET + (SET_ITEM * count if count > 4 and count < n else 0)
    else:
        size += ARRAY + n
    return size + (_walk(p, n, depth + 1, code == ARRAY_CODE, enough) if depth < DEEPEST else 0)


cdef int64_t _walk(const uint8_t *p, int64_t room, int depth, bint in_array, int64_t enough) noexcept nogil:
    """The size of all values in some bytes, up to the first that does not fit them, or until it is enough."""
    cdef int64_t total = COPIES * room, n
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
            n = code & 31 if code < 0xC0 else <int64_t> from_big(p, head)
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
            n = <int64_t> from_big(p, head)
            p += head
            room -= head
            # Some versions of msgpack make lists as long as they say, if that is no more than all bytes there are.
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
        n = <int64_t> from_big(p, head) if head else 1 << (code - 0xD4)
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
    >>> unpacked_size(bytes([0xC4, 3, 1, 2, 3])) < 100      # three bytes as one value
    True
    """
    cdef Buffer view = readable(data)
    cdef int64_t size
    if view.size == 0:
        return 0
    with nogil:
        size = _walk(view.data, view.size, 0, False, enough)
    return size


cdef int64_t _behind(const uint8_t *data, int64_t at, int64_t size) noexcept nogil:
    """Where the value ends that begins at a byte, with all that lies in it; -1 where that is beyond the end."""
    cdef int64_t pending = 1, n
    cdef int code, head
    while pending:
        if at >= size:
            return -1
        code = data[at]
        at += 1
        pending -= 1
        head = 0
        n = 0
        if code < 0x80 or code >= 0xE0 or code == 0xC0 or code == 0xC2 or code == 0xC3:
            continue
        if code < 0x90:
            pending += 2 * (code & 15)
        elif code < 0xA0:
            pending += code & 15
        elif code < 0xC0:
            n = code & 31
        elif code == 0xC1:
            return -1
        elif code <= 0xC6:
            head = 1 << (code - 0xC4)
        elif code <= 0xC9:
            head = 1 << (code - 0xC7)
            n = 1
        elif code <= 0xCB:
            n = 4 << (code - 0xCA)
        elif code <= 0xCF:
            n = 1 << (code - 0xCC)
        elif code <= 0xD3:
            n = 1 << (code - 0xD0)
        elif code <= 0xD8:
            n = 1 + (1 << (code - 0xD4))
        elif code <= 0xDB:
            head = 1 << (code - 0xD9)
        else:
            head = 2 if code == 0xDC or code == 0xDE else 4
            if head > size - at:
                return -1
            pending += <int64_t> from_big(data + at, head) << (code >= 0xDE)
            at += head
            head = 0
        if head:
            if head > size - at:
                return -1
            n += <int64_t> from_big(data + at, head)
            at += head
        if n > size - at or pending > size - at + 1:
            return -1
        at += n
    return at


cdef class PackedList:
    """A packed list, of which single items are wanted: where they begin is known, and none is unpacked.

    Parameters
    ----------
    data : bytes
        One packed list and nothing after it.

    Raises
    ------
    ValueError
        It is something else.

    Examples
    --------
    >>> packed = PackedList(bytes([0x93, 1, 0x92, 2, 3, 0xC0]))
    >>> len(packed), packed.item(1)
    (3, b'\\x92\\x02\\x03')
    """

    cdef bytes data
    cdef const uint8_t *bytes_of    # the same
    cdef int64_t size
    cdef int64_t count
    cdef int64_t *marks         # where each STEP-th item begins

    def __init__(self, bytes data not None):
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef int64_t size = PyBytes_GET_SIZE(data)
        cdef int64_t at = 1, i
        cdef int head
        if self.marks != NULL:
            raise ValueError("a packed list is what it was made of")
        if size and p[0] & 0xF0 == 0x90:
            self.count = p[0] & 15
        elif size and (p[0] == 0xDC or p[0] == 0xDD):
            head = 2 if p[0] == 0xDC else 4
            if size < 1 + head:
                raise ValueError("the list ends before it says how long it is")
            self.count = <int64_t> from_big(p + 1, head)
            at += head
        else:
            raise ValueError("it is no list")
        if self.count > size - at:
            raise ValueError(f"{self.count} items are not in {size - at} bytes")
        self.marks = <int64_t *> malloc(8 * (self.count // STEP + 1))
        if self.marks == NULL:
            raise MemoryError
        self.data = data
        self.bytes_of = p
        self.size = size
        with nogil:
            for i in range(self.count):
                if i % STEP == 0:
                    self.marks[i // STEP] = at
                at = _behind(p, at, size)
                if at < 0:
                    break
        if at != size:
            raise ValueError("bytes follow its items" if at >= 0 else f"its item {i} is cut off or no value")

    def __dealloc__(self):
        free(self.marks)

    def __len__(self):
        return self.count

    def item(self, int64_t index):
        """The packed bytes of an item."""
        cdef int64_t at
        if index < 0 or index >= self.count:
            raise IndexError(f"index {index} is out of range for {self.count} items")
        at = self.start_of(index)
        return PyBytes_FromStringAndSize(
            <const char *> self.bytes_of + at, _behind(self.bytes_of, at, self.size) - at)

    cdef int64_t start_of(self, int64_t index) noexcept nogil:
        """Where an item begins, or the list ends."""
        cdef const uint8_t *p = self.bytes_of
        cdef int64_t at, i
        if index >= self.count:
            return self.size
        at = self.marks[index // STEP]
        for i in range(index % STEP):
            at = _behind(p, at, self.size)
        return at

    def fitting(self, int64_t nbytes):
        """How many of the first items have no more packed bytes together than this."""
        cdef const uint8_t *p = self.bytes_of
        cdef int64_t i, start = self.start_of(0), at = start
        for i in range(self.count):
            at = _behind(p, at, self.size)
            if at - start > nbytes:
                return i
        return self.count

    def parts(self, int64_t most):
        """Its items as packed lists of at most so many.

        Examples
        --------
        >>> PackedList(bytes([0x93, 1, 2, 3])).parts(2)
        [b'\\x92\\x01\\x02', b'\\x91\\x03']
        """
        cdef int64_t first, last, start, stop
        if most < 1:
            raise ValueError(f"a part has at least one item, not {most}")
        result = []
        for first in range(0, self.count, most):
            last = min(first + most, self.count)
            start, stop = self.start_of(first), self.start_of(last)
            n = last - first
            if n < 16:
                head = bytes((0x90 | n,))
            elif n < 1 << 16:
                head = b"\xdc" + n.to_bytes(2)
            else:
                head = b"\xdd" + n.to_bytes(4)
            result.append(head + self.data[start:stop])
        return result
