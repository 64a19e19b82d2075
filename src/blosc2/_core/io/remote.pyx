# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""A source whose bytes are on a server.

Native code reads it as it reads a file by position. Each read takes the GIL and asks an object of Python's for the bytes,
which has them or fetches them: next to a request that costs nothing. There is no address at which bytes that were not
fetched could be looked at.
"""

cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.failures cimport note_failure
from blosc2._core.io.source cimport ELSEWHERE, READ_OK, READ_SHORT, OpenFile, Source
from blosc2._core.io.steps cimport state_set


@cython.no_gc_clear
cdef class RemoteSource(Source):
    """Bytes on a server.

    Parameters
    ----------
    remote : object
        With `size`; `read_into`, which takes an offset and a buffer, and fills that or raises; and `ask`, which takes
        pairs of start and stop that are read soon, and does not wait.
    path : str, optional
        What messages call it.
    """

    def __cinit__(self, remote, path=None):
        self.path, self.remote, self.far = path, remote, True
        self.size = remote.size
        self.number()
        self._asked = OpenFile.__new__(OpenFile)
        self.asking = self._asked.asking
        state_set(&self.asking[0].told, ELSEWHERE)
        state_set(&self.asking[1].told, ELSEWHERE)

    cdef int read_runs(self, int64_t offset, int64_t length, uint8_t *destination) noexcept nogil:
        with gil:
            try:
                self.remote.read_into(offset, PyMemoryView_FromMemory(<char *> destination, length, PyBUF_WRITE))
                return READ_OK
            except BaseException as error:     # an interrupt, too, is for whoever waits for the bytes
                note_failure(self, error.with_traceback(None))
                return READ_SHORT

    def advise(self, str advice, int64_t offset=0, int64_t length=-1):
        """Fetch bytes ahead with "willneed"; other advice is for files."""
        if advice == "willneed" and 0 <= offset < self.size and length:
            self.remote.ask([(offset, self.size if length < 0 or length > self.size - offset else offset + length)])

    def __repr__(self):
        return f"<Source {self.path}: {self.size} bytes, remote>"

    def reopen(self):
        """The object as it is now: this source, or one of another version."""
        remote = self.remote.renewed()
        return self if remote is self.remote else RemoteSource(remote, self.path)
