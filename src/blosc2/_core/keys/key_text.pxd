# cython: boundscheck=False, wraparound=False
"""Keys as strings of Python, and as the bytes that tables compare."""

from cpython.unicode cimport PyUnicode_DATA, PyUnicode_DecodeUTF8, PyUnicode_New
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.key_bytes cimport plain_key
from blosc2._core.zip.records cimport safe_name


cdef inline bint is_ascii(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    cdef uint64_t word, seen = 0
    cdef Py_ssize_t i = 0
    while i + 8 <= length:
        memcpy(&word, p + i, 8)
        seen |= word
        i += 8
    while i < length:
        seen |= p[i]
        i += 1
    return seen & <uint64_t> 0x8080808080808080 == 0


cdef inline str text_of(const uint8_t *key, Py_ssize_t length, Archive archive=None):
    """A key with its "/" in front; `FormatError` where it is not one that the archive can have had when it was opened."""
    return _copied(key, length, 1, archive)


cdef inline str name_of(const uint8_t *name, Py_ssize_t length, Archive archive=None):
    """One segment of a key, on the same condition."""
    return _copied(name, length, 0, archive)


cdef inline str _copied(const uint8_t *key, Py_ssize_t length, int slash, Archive archive):
    cdef inline str text = PyUnicode_New(slash + length, 127)
    cdef uint8_t *to = <uint8_t *> PyUnicode_DATA(text)
    cdef bint ascii = length == 0
    # The bytes of a mapped file may change at any time: they are copied, and the copy is looked at.
    if slash:
        to[0] = c"/"
    if length:
        memcpy(to + slash, key, <size_t> length)
        if plain_key(to + slash, <size_t> length):
            return text
        if archive is not None and (to[slash + length - 1] == c"/" or not safe_name(to + slash, <int> length, &ascii)):
            raise archive._changed()
    elif archive is not None and not slash:
        raise archive._changed()
    if ascii or is_ascii(to, slash + length):
        return text
    return PyUnicode_DecodeUTF8(<const char *> to, slash + length, "surrogateescape")


cdef inline bytes prefix_of(str path):
    """The bytes that keys below a group begin with."""
    if path == "/" or path == "":
        return b""
    try:
        return (path[1:] if path[0] == "/" else path).encode("utf-8", "surrogateescape") + b"/"
    except UnicodeEncodeError:
        return b"\0/"   # no key has a NUL
