# cython: boundscheck=False, wraparound=False
"""Whether a key is one that a store shows: what ``key in store`` asks."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.ascii_text cimport ascii_text
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY
from blosc2._core.keys.listing cimport KeyListing

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef inline bint is_named(str key, str name):
    """Whether the last segment of a key is a name, if there is one."""
    if name is None or len(key) <= len(name) or key[len(key) - 1] != name[len(name) - 1]:
        return False
    return key.endswith("/" + name)


cdef inline int shows_key(KeyListing listing, key, str hidden) except -2:
    """Whether a key is that of a leaf; or of a group, and not hidden, where there are groups.

    -1 for what has to be looked at more closely: no string, or not in the form that keys have.
    """
    cdef Py_ssize_t length
    cdef const char *text
    cdef int64_t offset
    if type(key) is not str:
        return -1
    text = <const char *> ascii_text(<PyObject *> key, &length)
    if text == NULL:
        try:
            text = PyUnicode_AsUTF8AndSize(key, &length)
        except UnicodeEncodeError:
            return False
    if length < 2 or text[0] != b"/" or text[length - 1] == b"/":
        return -1
    if listing._plain and hidden is not None and listing.base.catalog is not None and not is_named(key, hidden):
        # Groups lie in the same hash.
        offset = listing.base.lookup_either(<const uint8_t *> text + 1, length - 1)
        if offset != DAMAGED:
            return offset >= 0
    offset = listing.base.lookup(<const uint8_t *> text + 1, length - 1)
    if offset == NO_KEY and listing._plain:
        if hidden is None:
            return False
        if listing.base.catalog is not None:
            offset = listing.base.lookup_group(<const uint8_t *> text + 1, length - 1)
            if offset != DAMAGED:
                return offset >= 0
    if offset == DAMAGED:
        listing._without_catalog()
        return listing.shows(key, hidden)
    if (offset >= 0 and listing._plain) or key in listing:
        return not is_named(key, hidden)
    return hidden is not None and listing.count(key) > 0
