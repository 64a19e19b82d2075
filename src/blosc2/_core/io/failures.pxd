"""Why bytes on a server could not be fetched: who reads them without the interpreter notes it for whoever tells it.

Several threads may do so with one source, so these fields of it are touched here only.
"""

cimport cython

from blosc2._core.io.source cimport Source


cdef inline int note_failure(Source source, failure) except -1:
    with cython.critical_section(source):
        source.failure = failure
    return 0


cdef inline object failure_of(Source source, bint taken=False):
    """The last one; if it is taken, for another source to tell, it is gone here."""
    with cython.critical_section(source):
        failure = source.failure
        if taken:
            source.failure = None
    return failure


cdef inline int note_lost(Source source) except -1:
    """Pages of a directory could not be fetched, where nobody could tell."""
    with cython.critical_section(source):
        source.lost = source.failure
    return 0


cdef inline object take_lost(Source source):
    with cython.critical_section(source):
        lost, source.lost = source.lost, None
    return lost
