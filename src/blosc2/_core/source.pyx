# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""A read-only file, mapped or read by position, or a buffer in memory.

One source serves every leaf of a file: frames are windows (source, offset, length). A source never
changes what it shows and has no file position, so any number of threads read it without a lock, and a
forked child goes on using it. It lives as long as any frame, array or view that refers to it.

A file that grows gets a new source for each length. These share one descriptor; or one mapping, made with room behind
the end of the file, whose pages nobody touches before the file has them: each source reads up to its own size only.
"""

import mmap
import os
import sys

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from blosc2.exceptions import FormatError

cdef extern from "positional_read.h" nogil:
    int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset)
    void close_descriptor(int fd)

cdef extern from "mapping.h" nogil:
    const bint B2_MAPS_FILES
    void *map_file(int fd, int64_t length)
    void unmap_file(void *base, int64_t length)
    void advise_mapping(const void *start, int64_t length, int advice)
    void advise_file(int fd, int64_t offset, int64_t length, int advice)

# Whatever lies under a name, opening it must not wait.
_O_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

#: Advice that `Source.advise` takes, in the order of mapping.h.
ADVICE = ("normal", "random", "sequential", "willneed", "dontneed")
# What is said of all of a file, for as long as it is open.
cdef int _LASTING = 3

# Address space behind the end of a file that grows: as much as the file has, and no less than this. It costs no
# memory. Where addresses are scarce, a mapping ends with its file.
cdef int64_t _LEAST_ROOM = 64 << 20 if sys.maxsize > 1 << 32 else 0


cdef class OpenFile:
    """What the sources of one file share: a mapping, or a descriptor. It goes with the last of them."""

    def __cinit__(self):
        self.fd = -1
        self.advice = "normal"

    cdef int map(self, int fd, int64_t room) except -1:
        """Map the first bytes of a file; where mappings are not Python's, it may have fewer yet."""
        cdef void *base
        if B2_MAPS_FILES:
            with nogil:
                base = map_file(fd, room)
            if base == NULL:
                raise OSError(errno, os.strerror(errno))
            self.base = base
        else:
            self._mapped = mmap.mmap(fd, room, access=mmap.ACCESS_READ)
            PyObject_GetBuffer(self._mapped, &self._view, PyBUF_SIMPLE)
            self.base = self._view.buf
        self.room = room
        return 0

    def __dealloc__(self):
        cdef void *base = self.base
        cdef int64_t room = self.room
        if self._mapped is not None:
            if base != NULL:
                PyBuffer_Release(&self._view)
        elif base != NULL:
            with nogil:
                unmap_file(base, room)
        if self.fd >= 0:
            close_descriptor(self.fd)


cdef OpenFile _mapping_of(int fd, int64_t size, bint grows):
    """A mapping of the first bytes of a file, with room for more where it grows."""
    cdef OpenFile file = OpenFile.__new__(OpenFile)
    if grows and _LEAST_ROOM and B2_MAPS_FILES:
        try:
            file.map(fd, size + max(size, _LEAST_ROOM))
            return file
        except OSError:  # the process may not have so many addresses
            pass
    file.map(fd, size)
    return file


cdef class Source:
    """A read-only run of bytes: a mapping, a descriptor or a buffer.

    Made by `Source.map`, `Source.open` or `Source.of_buffer`. `size` is that of the file when it was
    opened; bytes appended later are not seen: `reopen` gives a source that shows them.
    """

    def __cinit__(self):
        self.fd = -1

    @staticmethod
    def map(path):
        """Map a whole file, read-only."""
        return _mapped_whole(os.fspath(path), None)

    @staticmethod
    def open(path):
        """Open a file for positional reads."""
        cdef Source self = Source.__new__(Source)
        cdef OpenFile file = OpenFile.__new__(OpenFile)
        self.path = os.fspath(path)
        file.fd = os.open(self.path, _O_FLAGS)
        self._identify(os.fstat(file.fd))
        self.show(file, self.size)
        return self

    @staticmethod
    def of_buffer(buffer, path=None):
        """Wrap a C-contiguous buffer, which must not change while the source lives."""
        cdef Source self = Source.__new__(Source)
        self.path = path
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
        self._holds_buffer = True
        self.base = <const uint8_t *> self._view.buf
        self.size = self._view.len
        return self

    def mapped_to(self, int64_t length, Source old=None):
        """The first bytes of a file that is open for positional reads, as a mapping.

        What lies behind them may be cut off by others meanwhile; touching it in a mapping would end the process.

        Parameters
        ----------
        length : int
        old : Source, optional
            An older one, whose mapping is shared if it is of the same file and reaches so far.
        """
        cdef Source other = Source.__new__(Source)
        cdef OpenFile file = None
        other.path, other.identity = self.path, self.identity
        other.mapped = True
        if not length:
            return other
        cdef bint grows = old is not None and old.mapped and self._is_same(old)
        if grows and old.file is not None and length <= old.file.room:
            file = old.file
        else:
            try:
                file = _mapping_of(self.fd, length, grows)
            except ValueError:  # of Python's mappings
                file = None
            if file is not None and old is not None:
                _advise_again(file, old)
        if file is None or os.fstat(self.fd).st_size < length:
            raise FormatError(f"{length} bytes are wanted here but the file was cut just now", path=self.path, offset=0)
        other.show(file, length)
        return other

    def reopen(self):
        """What the file at this path holds now, as another source.

        Of the same file, if that is not shorter than this source says, it shares the descriptor, or the mapping as far
        as that reaches. Any other file is opened anew. What was advised for all of the file goes on to hold.
        """
        cdef Source other
        if self.identity is None:
            raise ValueError("a buffer is no file that could be opened again")
        status = os.stat(self.path)
        if (status.st_dev, status.st_ino) == self.identity[:2] and status.st_size >= self.size:
            if self.file is not None and (self.fd >= 0 or status.st_size <= self.file.room):
                other = Source.__new__(Source)
                other.path, other.mapped = self.path, self.mapped
                other._identify(status)
                other.show(self.file, other.size)
                return other
        if self.mapped:
            return _mapped_whole(self.path, self)
        other = Source.open(self.path)
        _advise_again(other.file, self)
        return other

    def _identify(self, status):
        cdef int kind = status.st_mode & 0o170000
        if kind != 0o100000 and kind != 0o040000:  # of a directory, reading tells what it is
            raise FormatError("it is no regular file", path=self.path)
        self.size = status.st_size
        self.identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def _is_same(self, Source old):
        """Whether another source is of the same file, and of no longer one."""
        return old.identity is not None and self.identity[:2] == old.identity[:2] and self.size >= old.size

    cdef int show(self, OpenFile file, int64_t size) except -1:
        """Be the first bytes of a file."""
        self.file = file
        self.fd = file.fd
        self.base = <const uint8_t *> file.base
        self.size = size
        return 0

    def __dealloc__(self):
        if self._holds_buffer:
            PyBuffer_Release(&self._view)

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

    @property
    def advice(self):
        """What was advised last for all of the file: how it is read."""
        return "normal" if self.file is None else self.file.advice

    def advise(self, str advice, int64_t offset=0, int64_t length=-1):
        """Tell the kernel how the bytes will be used; nothing where it takes no such advice.

        "normal", "random" and "sequential" say how all of the file is read, by all sources that share it; "willneed"
        and "dontneed" are about bytes: to be read ahead, or no longer to be kept in memory.
        """
        cdef int kind
        cdef int64_t stop
        if advice not in ADVICE:
            raise ValueError(f"advice must be one of {', '.join(ADVICE)}, not {advice!r}")
        if self.file is None:
            return
        kind = ADVICE.index(advice)
        if kind < _LASTING:
            self.file.advice = advice
            _advise(self.file, kind, 0, self.size)
            return
        stop = self.size if length < 0 or length > self.size - offset else offset + length
        if 0 <= offset < stop:
            _advise(self.file, kind, offset, stop - offset)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.fd >= 0:
            raise BufferError("a source read by position has no buffer; open it with mmap_mode='r'")
        PyBuffer_FillInfo(view, self, <void *> self.base, self.size, 1, flags)

    def __len__(self):
        return self.size

    def __repr__(self):
        how = "mapped" if self.mapped else "positional" if self.fd >= 0 else "memory"
        return f"<Source {self.path or 'buffer'}: {self.size} bytes, {how}>"


cdef _advise(OpenFile file, int kind, int64_t offset, int64_t length):
    cdef int fd = file.fd
    cdef const char *base = <const char *> file.base
    if kind < _LASTING:
        # All of a file is no length: it goes on to hold when the file grows. A mapping of which parts are told apart
        # would count as several.
        offset, length = 0, 0 if fd >= 0 else file.room
    with nogil:
        if fd >= 0:
            advise_file(fd, offset, length, kind)
        else:
            advise_mapping(base + offset, length, kind)


cdef _advise_again(OpenFile file, Source old):
    """Say of a file that was opened what was said of the one before it."""
    if file is not None and old.file is not None and old.file.advice != "normal":
        file.advice = old.file.advice
        _advise(file, ADVICE.index(file.advice), 0, 0)


cdef Source _mapped_whole(path, Source old):
    """Map a file, which may be another than an older source has, or the same that has grown."""
    cdef Source self = Source.__new__(Source)
    cdef OpenFile file = None
    cdef int64_t size
    self.path = path
    self.mapped = True
    fd = os.open(path, _O_FLAGS)
    try:
        while True:
            self._identify(os.fstat(fd))
            size = self.size
            # A mapping of no bytes is not allowed; an empty source needs none.
            if not size:
                return self
            try:
                file = _mapping_of(fd, size, old is not None and self._is_same(old))
            except ValueError:  # of Python's mappings
                if os.fstat(fd).st_size >= size:
                    raise
                continue
            # A writer may just have cut off the remains of another.
            if os.fstat(fd).st_size >= size:
                break
    finally:
        os.close(fd)
    if old is not None:
        _advise_again(file, old)
    self.show(file, size)
    return self
