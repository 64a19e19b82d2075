cdef object find(dict held, str key, bint *found)
cpdef object hold(dict held, str key, object leaf)
