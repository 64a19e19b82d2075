cdef object alive(object reference)
cpdef object hold(dict held, str key, object leaf)
