from cpython.ref cimport PyObject


cdef class Block:
    pass


cdef class Lock:
    cdef object lock        # made when first needed: most are never taken
    cdef long generation    # in which `lock` was made or looked at
    cdef long taken         # the generation in which it was taken
    cdef long depth         # how often its thread has it
    cdef readonly bint is_hurried   # whether its thread took it by `now`, and is to wait for nobody

    cdef int take(self) except -1
    cdef int give_back(self) except -1
    cdef object current(self)
    cdef bint _renew(self) except -1
    cdef bint _take_now(self) except -1


cdef object find(PyObject *held, str key)
cpdef object hold(dict held, str key, object leaf)
