# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Values of one frame: where many small ones go, and their bytes."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError, PyDict_SetItem
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memcpy, memset

from blosc2._core.io.source cimport READ_OK, Source
from blosc2._core.zip.records cimport gains_by_alignment

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object of, Py_ssize_t at)

cdef enum:
    # Bytes of the frame of a small value.
    MOST_FRAME = 4096


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
    """The bytes of small values that lie one behind the other, with zeros between them; and the first that is not taken."""
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
    """Give values their places in a map, one behind the other: positions, byte ranges, their bytes, and the end of the last.

    A value that fits into a chunk of `size` bytes crosses the end of none.
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


def counted(dict entries not None, int64_t nbytes, int64_t least, int64_t most):
    """How many values say how long they are, their bytes, and those of values of more than `least` up to `most`."""
    cdef int64_t count = 0, total = 0, crossing = 0, length
    cdef int overflow = 0
    cdef PyObject *found
    for entry in entries.values():
        found = PyDict_GetItemWithError(<dict?> entry, "length")
        if found == NULL or not PyLong_CheckExact(<object> found):
            continue
        length = PyLong_AsLongLongAndOverflow(<object> found, &overflow)
        if 0 <= length <= nbytes and not overflow:
            count += 1
            total += length
            if least < length <= most:
                crossing += length
    return count, total, crossing
