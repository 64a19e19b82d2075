from cpython.ref cimport PyObject


cdef object find(dict held, str key, bint *found)
cdef object hold_next(dict held, str key, object leaf, PyObject **before, PyObject **reference)
cpdef object hold(dict held, str key, object leaf)
