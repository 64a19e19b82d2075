# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The memory of objects that have a buffer: bytes, arrays, memory views."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport strchr


@cython.final
@cython.freelist(8)
cdef class Buffer:
    def __dealloc__(self):
        PyBuffer_Release(&self._view)   # does nothing where no buffer was taken


cdef Buffer _held(object data, int flags, const char *formats):
    cdef Buffer self = Buffer.__new__(Buffer)
    cdef const char *format
    PyObject_GetBuffer(data, &self._view, flags | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    format = self._view.format
    if format == NULL:
        format = b"B"
    elif format[0] == c"@":
        format += 1
    # References to objects are no bytes.
    if format[0] == 0 or format[1] or strchr(formats, format[0]) == NULL:
        raise TypeError(f"a buffer of items of the format {self._view.format.decode()!r} is no such buffer of numbers")
    self.data = <uint8_t *> self._view.buf
    self.size = self._view.len
    return self


cdef Buffer readable(object data):
    return _held(data, 0, b"?bBhHiIlLqQnNefdc")


cdef Buffer writable(object data):
    return _held(data, PyBUF_WRITABLE, b"?bBhHiIlLqQnNefdc")


cdef Buffer integers(object data, Py_ssize_t itemsize, Py_ssize_t *count):
    cdef Buffer self = _held(data, 0, b"iIlLqQ")
    if self._view.ndim != 1 or self._view.itemsize != itemsize:
        raise TypeError(f"an array on one axis with integers of {itemsize} bytes is needed")
    count[0] = self.size // itemsize
    return self
