from cpython.ref cimport PyObject


cdef object find(PyObject *held, str key)
cpdef object hold(dict held, str key, object leaf)
