from cpython.ref cimport PyObject


cdef class Block:
    """A context manager that ends whatever interrupts it; see sharing.pyx."""


cdef object find(PyObject *held, str key)
cpdef object hold(dict held, str key, object leaf)
