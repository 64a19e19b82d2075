from libc.stdint cimport int64_t

from blosc2._core.io.source cimport Source
from blosc2._core.zip.archive cimport Archive
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.leaves.leaf_template cimport LeafTemplate

cdef enum:
    HANDLE_SLOTS = 8


cdef class LeafReader:
    """Reads leaves of an archive one after the other; see leaf_reader.pyx."""

    cdef KeyTable table
    cdef Archive archive
    cdef Source source
    cdef LeafTemplate template
    cdef bytes hidden
    cdef type arrays, handles
    cdef object dtype_of, options, path
    cdef bint check
    cdef object verify
    cdef bint fills         # whether slots of new handles and arrays are filled here
    cdef Py_ssize_t slots[HANDLE_SLOTS + 1]     # where they are; the last one is that of an array

    cdef int64_t find(self, str key) noexcept
    cdef object open(self, str key)
    cpdef object read(self, key)
