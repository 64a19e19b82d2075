from libc.stdint cimport uint8_t


cdef class Buffer:
    """The memory of an object that has a C-contiguous buffer of bytes or numbers, held as long as this lives.

    Cython's typed memoryviews do the same, but each module that uses one, or another module that does, compiles ten
    thousand lines more.
    """
    cdef Py_buffer _view
    cdef uint8_t *data
    cdef Py_ssize_t size            # in bytes


cdef Buffer readable(object data)
cdef Buffer writable(object data)
# Integers on one axis; `count` is how many.
cdef Buffer integers(object data, Py_ssize_t itemsize, Py_ssize_t *count)
