# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Values of one frame: where many small ones go, their bytes, and the map that says where each lies."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from blosc2._core.io.ascii_text cimport ascii_text
from blosc2._core.io.source cimport READ_OK, Source
from blosc2._core.zip.records cimport gains_by_alignment

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object of, Py_ssize_t at)
    int _PyBytes_Resize(PyObject **bytes, Py_ssize_t size) except -1
    char *bytes_of "PyBytes_AS_STRING"(PyObject *bytes)
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject *bytes)

cdef enum:
    # Bytes of the frame of a small value.
    MOST_FRAME = 4096
    # Bytes that a number takes at most in a packed map, and the length of a text or of a map.
    MOST_NUMBER = 9


cdef inline Source open_range(object byte_range, int64_t *offset, int64_t *length):
    """The source, offset and length of a byte range."""
    if not PyTuple_Check(byte_range) or PyTuple_GET_SIZE(byte_range) != 3:
        raise TypeError("a byte range is a tuple of source, offset and length")
    offset[0] = <object> PyTuple_GET_ITEM(byte_range, 1)
    length[0] = <object> PyTuple_GET_ITEM(byte_range, 2)
    return <Source?> (<object> PyTuple_GET_ITEM(byte_range, 0))


cdef int check_chunks(int64_t size, int64_t position, int64_t align) except -1:
    if size < 1 or align < 1 or align > size or not 0 <= position <= INT64_MAX // 4:
        raise ValueError("these are no chunks")
    return 0


cdef inline int64_t next_place(int64_t length, int64_t size, int64_t *position, int64_t align) except -1:
    """Where a value begins behind a position, which moves to its end."""
    cdef int64_t place = (position[0] + align - 1) // align * align, room
    if length < 0 or length > INT64_MAX // 4 - place:
        raise ValueError(f"a value cannot have {length} bytes at {place}")
    room = size - place % size
    if room < length and room < size:
        place += room
    position[0] = place + length
    return place


def gathered(list positions not None, list byte_ranges not None, Py_ssize_t first, int64_t at, int64_t limit):
    """The bytes of small values that lie one behind the other, with zeros between them.

    Parameters
    ----------
    positions, byte_ranges : list
        Where each value is to begin, and its bytes.
    first : int
        The first value.
    at, limit : int
        Where the bytes begin, and where they end at the latest.

    Returns
    -------
    bytes
        From `at` to the end of the last value that is taken: all but that is larger, or not in memory, or behind the limit.
    int
        The first value that is not taken.
    """
    cdef Py_ssize_t number = first, stop, count = len(positions)
    cdef int64_t position, offset, size, end = at
    cdef Source source
    cdef bytes result
    cdef uint8_t *p
    while number < count:
        position = positions[number]
        source = open_range(byte_ranges[number], &offset, &size)
        if (size > MOST_FRAME or size < 0 or position < end or position > limit - size or source.base == NULL
                or source.path is not None or offset < 0 or offset > source.size - size):
            break
        end = position + size
        number += 1
    result = PyBytes_FromStringAndSize(NULL, end - at)
    p = <uint8_t *> PyBytes_AS_STRING(result)
    end = at
    stop = number
    for number in range(first, stop):
        position = positions[number]
        source = open_range(byte_ranges[number], &offset, &size)
        memset(p, 0, <size_t> (position - end))
        memcpy(p + (position - end), source.base + offset, <size_t> size)
        p += position + size - end
        end = position + size
    return result, stop


def are_new(dict changes not None, int64_t most, type other not None):
    """Whether all changes are byte ranges of at most so many bytes, and none is of another class."""
    cdef int64_t offset, length
    for byte_range in changes.values():
        if byte_range is None or isinstance(byte_range, other):
            return False
        open_range(byte_range, &offset, &length)
        if length > most:
            return False
    return True


def laid_out(dict entries not None, dict values not None, int64_t size, int64_t position, int64_t align):
    """Give values their places in a map, one behind the other from a position on.

    Parameters
    ----------
    entries : dict
        The map, which gets an entry for each value; one of the same key gives way, and its place in the order stays.
    values : dict
        The byte range of each value, by key.
    size : int
        Of a chunk: a value that fits into one crosses the end of none.
    position : int
        Where the first one begins at the earliest.
    align : int
        Values begin at multiples of this, but frames that gain nothing by it; `size` is one, too.

    Returns
    -------
    positions, byte_ranges : list
        Where each value begins, and its bytes.
    total, end : int
        Bytes of the values, and where the last one ends.
    """
    cdef list positions = [], byte_ranges = []
    cdef int64_t offset, length, total = 0, end = position
    cdef int64_t known
    cdef Source source
    cdef uint8_t first[32]
    check_chunks(size, position, align)
    for key, byte_range in values.items():
        source = open_range(byte_range, &offset, &length)
        known = min(length, <int64_t> sizeof(first))
        if source.far or offset < 0 or known < 0 or known > source.size - offset or (
                source.read_into(offset, known, first) != READ_OK):
            known = 0   # whoever copies it tells what is wrong
        place = next_place(length, size, &position, align if gains_by_alignment(first, known) else 1)
        total += length
        end = <int64_t> place + length
        PyDict_SetItem(entries, key, {"offset": place, "length": <object> PyTuple_GET_ITEM(byte_range, 2)})
        positions.append(place)
        byte_ranges.append(byte_range)
    return positions, byte_ranges, total, end


# ------------------------------------------------------------------ the map, packed
cdef inline uint8_t *put_big(uint8_t *p, uint8_t kind, uint64_t number, int size) noexcept:
    """Write a byte, and a number in so many bytes, the highest one first."""
    cdef int i
    p[0] = kind
    for i in range(size):
        p[1 + i] = <uint8_t> (number >> (8 * (size - 1 - i)))
    return p + 1 + size


cdef inline uint8_t *put_number(uint8_t *p, uint64_t number) noexcept:
    if number < 0x80:
        p[0] = <uint8_t> number
        return p + 1
    if number <= 0xFF:
        return put_big(p, 0xCC, number, 1)
    if number <= 0xFFFF:
        return put_big(p, 0xCD, number, 2)
    return put_big(p, 0xCE, number, 4) if number <= 0xFFFFFFFF else put_big(p, 0xCF, number, 8)


cdef inline uint8_t *put_text(uint8_t *p, const uint8_t *text, Py_ssize_t length) noexcept:
    if length < 32:
        p[0] = <uint8_t> (0xA0 | length)
        p += 1
    elif length <= 0xFF:
        p = put_big(p, 0xD9, <uint64_t> length, 1)
    else:
        p = put_big(p, 0xDA, <uint64_t> length, 2) if length <= 0xFFFF else put_big(p, 0xDB, <uint64_t> length, 4)
    memcpy(p, text, <size_t> length)
    return p + length


cdef inline uint8_t *put_map(uint8_t *p, uint64_t count) noexcept:
    if count < 16:
        p[0] = <uint8_t> (0x80 | count)
        return p + 1
    return put_big(p, 0xDE, count, 2) if count <= 0xFFFF else put_big(p, 0xDF, count, 4)


cdef class PackedMap:
    """Bytes of a map, as they come, and what its values have in all."""

    cdef PyObject *made     # the bytes, or NULL
    cdef Py_ssize_t used
    cdef object pack
    cdef int64_t count, total, crossing     # see `packed_map`
    cdef int64_t limit, least, most

    def __cinit__(self, pack, Py_ssize_t room):
        self.pack = pack
        made = PyBytes_FromStringAndSize(NULL, room)
        Py_INCREF(made)
        self.made = <PyObject *> made

    def __dealloc__(self):
        Py_XDECREF(self.made)

    cdef inline uint8_t *room(self, Py_ssize_t length) except NULL:
        """Where further bytes go."""
        if length > size_of(self.made) - self.used:
            _PyBytes_Resize(&self.made, (self.used + length) * 3 // 2)
        return <uint8_t *> bytes_of(self.made) + self.used

    cdef inline int moved(self, uint8_t *end) except -1:
        self.used = end - <uint8_t *> bytes_of(self.made)
        return 0

    cdef int add_other(self, value) except -1:
        cdef bytes packed = self.pack(value)
        memcpy(self.room(PyBytes_GET_SIZE(packed)), PyBytes_AS_STRING(packed), <size_t> PyBytes_GET_SIZE(packed))
        self.used += PyBytes_GET_SIZE(packed)
        return 0

    cdef inline int add_text(self, PyObject *value) except -1:
        cdef Py_ssize_t length
        cdef const uint8_t *text = ascii_text(value, &length)
        if text == NULL or length > 0xFFFFFFFF:
            return self.add_other(<object> value)
        return self.moved(put_text(self.room(length + MOST_NUMBER), text, length))

    cdef int count_length(self, PyObject *value) except -1:
        """Take note of the length that an entry may have."""
        cdef PyObject *found = PyDict_GetItemWithError(<object> value, "length")
        cdef int overflow = 0
        cdef int64_t length
        if found == NULL or not PyLong_CheckExact(<object> found):
            return 0
        length = PyLong_AsLongLongAndOverflow(<object> found, &overflow)
        if 0 <= length <= self.limit and not overflow:
            self.count += 1
            self.total += length
            if self.least < length <= self.most:
                self.crossing += length
        return 0

    cdef int add_entry(self, PyObject *value) except -1:
        """An entry: mostly two numbers by name."""
        cdef Py_ssize_t before = self.used, at = 0
        cdef PyObject *name
        cdef PyObject *item
        cdef int64_t number
        cdef int overflow = 0
        if type(<object> value) is not dict:
            raise TypeError("the entry of a value is a dict")
        self.count_length(value)
        if PyDict_Size(<object> value) != 2:
            return self.add_other(<object> value)
        self.moved(put_map(self.room(MOST_NUMBER), 2))
        while PyDict_Next(<object> value, &at, &name, &item):
            number = -1
            if PyLong_CheckExact(<object> item):
                number = PyLong_AsLongLongAndOverflow(<object> item, &overflow)
            if number < 0 or overflow:
                self.used = before
                return self.add_other(<object> value)
            self.add_text(name)
            self.moved(put_number(self.room(MOST_NUMBER), <uint64_t> number))
        return 0

    cdef int add_entries(self, dict entries) except -1:
        """All entries of a map, which nobody else changes meanwhile."""
        cdef Py_ssize_t at = 0, left = PyDict_Size(entries)
        cdef PyObject *key
        cdef PyObject *value
        while PyDict_Next(entries, &at, &key, &value):
            left -= 1
            self.add_text(key)
            self.add_entry(value)
        if left:
            raise RuntimeError("the map was changed meanwhile")
        return 0

    cdef bytes taken(self):
        _PyBytes_Resize(&self.made, self.used)
        result = <object> self.made
        return result


def packed_map(dict entries not None, int64_t nbytes, pack not None, int64_t least, int64_t most):
    """The map of values as msgpack: ``{"embed_map": entries, "current_offset": nbytes}``.

    Parameters
    ----------
    entries : dict
        A dict for each key, with what is known of its value.
    nbytes : int
        Where the values end; lengths beyond it are no lengths.
    pack : callable
        Packs what is not plain: keys with other letters than those of ASCII, entries that hold more than numbers.
    least, most : int
        Of which values `crossing` is told.

    Returns
    -------
    bytes
        The map.
    count, total, crossing : int
        How many values say how long they are, their bytes, and those of values of more than `least` up to `most`.
    """
    cdef PackedMap packed = PackedMap(pack, 64 + 64 * PyDict_Size(entries))
    if nbytes < 0 or PyDict_Size(entries) > 0xFFFFFFFF:
        raise ValueError("this is no map of values")
    packed.limit, packed.least, packed.most = nbytes, least, most
    packed.moved(put_map(packed.room(MOST_NUMBER), 2))
    packed.add_text(<PyObject *> "embed_map")
    packed.moved(put_map(packed.room(MOST_NUMBER), <uint64_t> PyDict_Size(entries)))
    packed.add_entries(entries)
    packed.add_text(<PyObject *> "current_offset")
    packed.moved(put_number(packed.room(MOST_NUMBER), <uint64_t> nbytes))
    return packed.taken(), packed.count, packed.total, packed.crossing
