# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""A read-only file, mapped or read by position, or a buffer in memory.

One source serves every leaf of a file: frames are windows (source, offset, length). A source never
changes what it shows and has no file position, so any number of threads read it without a lock, and a
forked child goes on using it. It lives as long as any frame, array or view that refers to it.
"""

import mmap
import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from blosc2.exceptions import FormatError

cdef extern from "positional_read.h" nogil:
    int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset)

_O_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

#: Advice that `Source.advise` takes, and the constant of `mmap` and `posix_fadvise` behind each.
ADVICE = ("normal", "random", "sequential", "willneed", "dontneed")


cdef class Source:
    """A read-only run of bytes: a mapping, a descriptor or a buffer.

    Made by `Source.map`, `Source.open` or `Source.of_buffer`. `size` is that of the file when it was
    opened; bytes appended later are not seen.
    """

    def __cinit__(self):
        self.fd = -1

    @staticmethod
    def map(path):
        """Map a whole file, read-only."""
        cdef Source self = Source.__new__(Source)
        self.path = os.fspath(path)
        fd = os.open(self.path, _O_FLAGS)
        try:
            while True:
                self._identify(os.fstat(fd))
                # A mapping of no bytes is not allowed; an empty source needs none.
                if not self.size:
                    break
                try:
                    self._mapping = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
                except ValueError:
                    # A writer has just cut off the remains of another.
                    if os.fstat(fd).st_size >= self.size:
                        raise
                else:
                    self._hold(self._mapping)
                    break
        finally:
            os.close(fd)
        self.mapped = True
        return self

    @staticmethod
    def open(path):
        """Open a file for positional reads."""
        cdef Source self = Source.__new__(Source)
        self.path = os.fspath(path)
        self.fd = os.open(self.path, _O_FLAGS)
        self._identify(os.fstat(self.fd))
        return self

    @staticmethod
    def of_buffer(buffer, path=None):
        """Wrap a C-contiguous buffer, which must not change while the source lives."""
        cdef Source self = Source.__new__(Source)
        self.path = path
        self._mapping = buffer
        self._hold(buffer)
        return self

    def mapped_to(self, int64_t length):
        """The first bytes of a file that is open for positional reads, as a mapping.

        What lies behind them may be cut off by others meanwhile; touching it in a mapping would end the process.
        """
        cdef Source other = Source.__new__(Source)
        other.path, other.identity = self.path, self.identity
        if length:
            try:
                other._mapping = mmap.mmap(self.fd, length, access=mmap.ACCESS_READ)
            except ValueError:
                raise FormatError(
                    f"{length} bytes are wanted here but the file was cut just now", path=self.path, offset=0
                ) from None
            other._hold(other._mapping)
        other.mapped = True
        return other

    def _identify(self, status):
        self.size = status.st_size
        self.identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


    def _hold(self, buffer):
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
        self._holds_buffer = True
        self.base = <const uint8_t *> self._view.buf
        self.size = self._view.len

    def __dealloc__(self):
        if self._holds_buffer:
            PyBuffer_Release(&self._view)
        if self.fd >= 0:
            try:
                os.close(self.fd)
            except OSError:
                pass

    cdef int read_into(self, int64_t offset, int64_t length, void *destination) noexcept nogil:
        """Copy bytes out; the caller has checked nothing. READ_OK, READ_SHORT or an errno."""
        cdef int64_t got
        if offset < 0 or length < 0 or offset > self.size or length > self.size - offset:
            return READ_SHORT
        if length == 0:
            return READ_OK  # a source without bytes has no address to copy from
        if self.fd < 0:
            memcpy(destination, self.base + offset, <size_t> length)
            return READ_OK
        got = positional_read(self.fd, destination, length, offset)
        if got == length:
            return READ_OK
        return READ_SHORT if got >= 0 else <int> -got

    cdef int check(self, int status, int64_t offset, int64_t length) except -1:
        """Raise what a status of `read_into` stands for."""
        if status == READ_OK:
            return 0
        if status > 0:
            raise OSError(status, os.strerror(status), self.path)
        raise FormatError(
            f"{length} bytes are wanted here but the file has {self.size}, or was cut while it was read",
            path=self.path, offset=offset,
        )

    def read(self, int64_t offset, int64_t length):
        """Bytes ``offset .. offset + length``; all of them, or `FormatError`."""
        if offset < 0 or length < 0 or offset > self.size or length > self.size - offset:
            self.check(READ_SHORT, offset, length)
        cdef object result = PyBytes_FromStringAndSize(NULL, length)
        cdef char *destination = PyBytes_AS_STRING(result)
        cdef int status
        with nogil:
            status = self.read_into(offset, length, destination)
        self.check(status, offset, length)
        return result

    def advise(self, str advice, int64_t offset=0, int64_t length=-1):
        """Tell the kernel how the bytes will be used; nothing where it takes no such advice."""
        if advice not in ADVICE:
            raise ValueError(f"advice must be one of {', '.join(ADVICE)}, not {advice!r}")
        if length < 0:
            length = self.size - offset
        if length <= 0 or offset < 0:
            return
        name = advice.upper()
        if self.fd >= 0:
            constant = getattr(os, f"POSIX_FADV_{name}", None)
            if constant is not None:
                os.posix_fadvise(self.fd, offset, length, constant)
        elif self.mapped and self._mapping is not None:
            constant = getattr(mmap, f"MADV_{name}", None)
            if constant is not None:
                start = offset - offset % mmap.PAGESIZE
                self._mapping.madvise(constant, start, length + offset - start)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.fd >= 0:
            raise BufferError("a source read by position has no buffer; open it with mmap_mode='r'")
        PyBuffer_FillInfo(view, self, <void *> self.base, self.size, 1, flags)

    def __len__(self):
        return self.size

    def __repr__(self):
        how = "mapped" if self.mapped else "positional" if self.fd >= 0 else "memory"
        return f"<Source {self.path or 'buffer'}: {self.size} bytes, {how}>"
