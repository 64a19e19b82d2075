from blosc2._core.io.source cimport OpenFile, Source


cdef class RemoteSource(Source):
    """An object on a server; see remote.pyx."""

    cdef readonly object remote     # what fetches the bytes
    cdef OpenFile _asked            # whose state `asking` is
