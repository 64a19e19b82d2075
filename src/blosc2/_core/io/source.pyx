# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Sources of bytes, which never change what they show: files, mapped or read by position, buffers, and objects on servers.

doc/design/sources.md says why one source serves every leaf of a file, and what happens when a file grows.
"""

import mmap
import os
import sys

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_FillInfo, PyBuffer_Release,
    PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EISDIR, EMFILE, ENAMETOOLONG, ENOENT, ENOTDIR, errno
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strchr

from blosc2._core.io.memory cimport FRESH_LEAST, FRESH_MOST, bring_pages, is_fresh, use_large_pages
from blosc2._core.io.readahead cimport B2_RANDOM, GUESSED, answers_late, is_due
from blosc2._core.io.steps cimport counter_next, state_change, state_get, state_set

from blosc2.exceptions import FormatError, ShortReadError

# The memory of objects that have a buffer: bytes, arrays, memory views.


cdef bytes fresh_bytes(int64_t size):
    """Bytes that hold anything yet: who makes them writes all of them, before others know them.

    First touching fresh memory a page at a time may take longer than reading what belongs there.
    """
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef char *start = PyBytes_AS_STRING(made)
    if size >= FRESH_MOST:
        use_large_pages(start, <size_t> size)
    elif size >= FRESH_LEAST and is_fresh(start, size):
        with nogil:
            bring_pages(start, size)
    return made


@cython.final
@cython.freelist(8)
cdef class Buffer:
    def __dealloc__(self):
        PyBuffer_Release(&self._view)   # does nothing where no buffer was taken


cdef Buffer _held(object data, int flags, const char *formats):
    cdef Buffer self = Buffer.__new__(Buffer)
    cdef const char *format
    PyObject_GetBuffer(data, &self._view, flags | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    format = self._view.format
    if format == NULL:
        format = b"B"
    elif format[0] == c"@":
        format += 1
    # References to objects are no bytes.
    if format[0] == 0 or format[1] or strchr(formats, format[0]) == NULL:
        raise TypeError(f"a buffer of items of the format {self._view.format.decode()!r} is no such buffer of numbers")
    self.data = <uint8_t *> self._view.buf
    self.size = self._view.len
    return self


cdef Buffer readable(object data):
    return _held(data, 0, b"?bBhHiIlLqQnNefdc")


cdef Buffer writable(object data):
    return _held(data, PyBUF_WRITABLE, b"?bBhHiIlLqQnNefdc")


cdef Buffer integers(object data, Py_ssize_t itemsize, Py_ssize_t *count):
    cdef Buffer self = _held(data, 0, b"iIlLqQ")
    if self._view.ndim != 1 or self._view.itemsize != itemsize:
        raise TypeError(f"an array on one axis with integers of {itemsize} bytes is needed")
    count[0] = self.size // itemsize
    return self


cdef extern from "io/file_calls.h" nogil:
    int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset)
    void close_descriptor(int fd)
    const bint B2_READS_SMALL_FILES
    int64_t read_small_file(const char *path, int flags, void *into, int64_t limit)

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(str)

cdef extern from "io/readahead.h" nogil:
    const bint B2_MAPS_FILES
    void *map_file(int fd, int64_t length)
    void unmap_file(void *base, int64_t length)
    void advise_mapping(const void *start, int64_t length, int advice)
    void advise_file(int fd, int64_t offset, int64_t length, int advice)

# Whatever lies under a name, opening it must not wait.
_O_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

#: Advice that `Source.advise` takes, in the order of readahead.h.
ADVICE = ("normal", "random", "sequential", "willneed", "dontneed")
# What is said of all of a file, for as long as it is open.
cdef int _LASTING = 3

# Address space behind the end of a file that grows: as much as the file has, and no less than this. It costs no
# memory. Where addresses are scarce, a mapping ends with its file.
cdef int64_t _last_serial = 1
cdef int64_t _LEAST_ROOM = 64 << 20 if sys.maxsize > 1 << 32 else 0


# Its buffer is released when it goes, not before: a collector that cleared it would leave an export behind.
@cython.no_gc_clear
cdef class OpenFile:
    """What the sources of one file share: a mapping, or a descriptor. It goes with the last of them."""

    def __cinit__(self):
        self.fd = -1

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


@cython.no_gc_clear
cdef class Source:
    """A read-only run of bytes: a mapping, a descriptor, a buffer, or what is joined of such.

    Made by `Source.map`, `Source.open`, `Source.of_buffer` or `Source.joined`. `size` is that of the file when it was
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
        try:
            file.fd = os.open(self.path, _O_FLAGS)
        except OSError as error:
            if error.errno != EMFILE:
                raise
            raise OSError(
                EMFILE, f"{error.strerror}: close some, or raise the limit (ulimit -n). Arrays that are opened with "
                "mmap_mode='r' hold no file open", self.path) from None
        self._identify(os.fstat(file.fd))
        self.show(file, self.size)
        if self.look_how_late(file.fd) == 2:
            _advise(file, ADVICE.index("random"), 0, 0)
            state_set(&file.asking[0].told, NOT_GUESSING)
        return self

    @staticmethod
    def of_buffer(buffer, path=None):
        """Wrap a C-contiguous buffer, which must not change while the source lives."""
        cdef Source self = Source.__new__(Source)
        self.path = path
        self.hold(buffer)
        if isinstance(buffer, memoryview):
            self.hold_below(buffer)
        return self

    cdef int hold(self, object buffer) except -1:
        """Be the bytes of a buffer."""
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
        self._holds_buffer = True
        self.base = <const uint8_t *> self._view.buf
        self.size = self._view.len
        return 0

    @staticmethod
    def of_small_file(path, Py_ssize_t limit):
        """The first `limit` bytes of a file, copied into memory; None where there is no regular file.

        One call of the system each to open, read and close it, and nothing of Python between them. A source of `limit`
        bytes may be the beginning of a larger file.
        """
        cdef bytes name = PyUnicode_EncodeFSDefault(path), data
        cdef const char *where = name
        cdef char *into
        cdef int flags = _O_FLAGS
        cdef int64_t got
        if not B2_READS_SMALL_FILES:
            from blosc2._core.io.small_file import read_small
            data = read_small(path, limit, _O_FLAGS)
            return None if data is None else Source.of_buffer(data, path)
        data = PyBytes_FromStringAndSize(NULL, limit)
        into = PyBytes_AS_STRING(data)
        with nogil:
            got = read_small_file(where, flags, into, limit)
        if got < 0:
            if -got in (ENOENT, ENOTDIR, ENAMETOOLONG, EISDIR):
                return None
            raise OSError(-got, os.strerror(-got), path)
        return Source.of_buffer(data[:got], path)

    cdef int hold_below(self, object view) except -1:
        """Hold what a view is of, and not the view: a collector that finds both clears it although it is held."""
        cdef Py_buffer below
        try:
            PyObject_GetBuffer(view.obj, &below, PyBUF_SIMPLE)
        except (TypeError, BufferError):
            return 0
        if self.size == 0 or <const uint8_t *> below.buf <= self.base <= <const uint8_t *> below.buf + below.len - self.size:
            PyBuffer_Release(&self._view)
            self._view = below
        else:
            PyBuffer_Release(&below)
        return 0

    @staticmethod
    def joined(parts, path=None, checksums=None):
        """The bytes of other sources one behind the other, read where they lie: nothing is copied."""
        cdef Source self = Source.__new__(Source), source
        cdef int64_t at = 0, offset, length, i = 0, before
        cdef Run *run
        flat = []
        for source, offset, length in parts:
            if offset < 0 or length < 0 or offset > source.size or length > source.size - offset:
                source.check(READ_SHORT, offset, length)
            if length == 0:
                continue
            flat += source.byte_ranges(offset, length) if source.runs != NULL else [(source, offset, length)]
        self.path, self.checksums = path, checksums
        self.runs = <Run *> calloc(len(flat) + 1, sizeof(Run))
        if self.runs == NULL:
            raise MemoryError
        kept = []
        for source, offset, length in flat:
            if i:
                run = &self.runs[i - 1]
                before = at - run.start
                if (run.fd == source.fd and run.base == source.base and run.offset + before == offset
                        and run.remote == (<void *> source if source.far else NULL)):
                    # What follows is its continuation; of two sources of one file, the one that has it counts.
                    kept[len(kept) - 1] = source, run.offset, before + length
                    at += length
                    continue
            run = &self.runs[i]
            run.start, run.offset, run.base, run.fd = at, offset, source.base, source.fd
            run.remote = <void *> source if source.far else NULL
            kept.append((source, offset, length))
            at += length
            i += 1
        self._joined = tuple(kept)
        self.run_count = i
        self.size = at
        return self

    def byte_ranges(self, int64_t offset, int64_t length):
        """Where bytes lie that were joined, as byte ranges of sources that are not; of any other source, one range."""
        cdef int64_t i, first, size
        if offset < 0 or length < 0 or offset > self.size or length > self.size - offset:
            self.check(READ_SHORT, offset, length)
        if self.runs == NULL:
            return [(self, offset, length)]
        found = []
        if length == 0:
            return found
        i = run_at(self.runs, self.run_count, offset)
        while length:
            source, start, size = self._joined[i]
            first = offset - self.runs[i].start
            size = min(size - first, length)
            found.append((source, start + first, size))
            offset += size
            length -= size
            i += 1
        return found

    def longer(self, int64_t size):
        """This file, open for positional reads, with as many bytes as were written to it by now."""
        cdef Source other = Source.__new__(Source)
        if self.fd < 0 or os.fstat(self.fd).st_size < size:
            raise ValueError(f"this is no file of {size} bytes that is open for positional reads")
        other.path, other.identity = self.path, self.identity
        other.show(self.file, size)
        return other

    @property
    def descriptor(self):
        """The descriptor that positional reads use; -1 of what is read otherwise."""
        return self.fd

    @property
    def is_joined(self):
        """Whether it was made by `joined`."""
        return self.runs != NULL

    @property
    def in_memory(self):
        """Whether it is a buffer."""
        return self._holds_buffer

    def is_unchanged(self):
        """Whether the file is as long as when it was opened and was not written to since; True of what is no file."""
        if self.runs != NULL:
            return all([source.is_unchanged() for source in {source for source, _, _ in self._joined}])
        if self.identity is None or self.fd < 0:
            return True
        status = os.fstat(self.fd)
        return (status.st_size, status.st_mtime_ns) == self.identity[2:]

    @staticmethod
    def of_descriptor(int descriptor, path=None):
        """A file without a name, by a descriptor that is the source's from now on, for positional reads."""
        cdef Source self = Source.__new__(Source)
        cdef OpenFile file = OpenFile.__new__(OpenFile)
        file.fd = descriptor
        self.path = path
        self._identify(os.fstat(descriptor))
        self.show(file, self.size)
        return self

    def mapped_to(self, int64_t length, Source old=None):
        """The first bytes of a file that is open for positional reads, as a mapping.

        What lies behind them may be cut off by others meanwhile; touching it in a mapping would end the process.
        """
        cdef Source other = Source.__new__(Source)
        cdef OpenFile file = None
        other.path, other.identity, other.mapped = self.path, self.identity, True
        if not length:
            return other
        cdef bint grows = old is not None and old.mapped and self._is_same(old)
        if grows and old.file is not None and length <= old.file.room:
            file = old.file
        else:
            try:
                file = _mapping_of(self.fd, length, grows)
            except ValueError:  # of Python's mappings
                pass
            if file is not None and old is not None:
                _advise_again(file, old)
        if file is None or os.fstat(self.fd).st_size < length:
            raise FormatError(f"{length} bytes are wanted here but the file was cut just now", path=self.path, offset=0)
        other.show(file, length)
        if self.asking != NULL:
            other.asking.slow = self.asking.slow
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

    cdef void number(self) noexcept:    # as no other source is
        self.serial = <uint64_t> counter_next(&_last_serial)

    cdef int show(self, OpenFile file, int64_t size) except -1:
        """Be the first bytes of a file."""
        self.number()
        self.size, self.asking, self.room = size, file.asking, file.room
        self.file, self.fd, self.base = file, file.fd, <const uint8_t *> file.base
        if self.identity is not None:
            file.asking[0].device = self.identity[0]
        return 0

    cdef int look_how_late(self, int fd) except -1:
        """Find out whether a large file lies behind a network: see `answers_late`."""
        cdef int late = 0
        # The number of a device that is none is 0, or has 0 as its first part.
        if self.size >= GUESSED and self.identity[0] >> 8 & 0xFFF == 0:
            late = answers_late(fd)
            self.asking.slow = late != 0
        return late

    def __dealloc__(self):
        free(self.runs)
        free(self.page.bytes)
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
            if self.base == NULL:
                return self.read_runs(offset, length, <uint8_t *> destination)
            memcpy(destination, self.base + offset, <size_t> length)
            return READ_OK
        got = positional_read(self.fd, destination, length, offset)
        if got == length:
            return READ_OK
        return READ_SHORT if got >= 0 else <int> -got

    cdef int read_small(self, int64_t offset, int64_t length, int64_t limit, uint8_t *destination) noexcept nogil:
        """What `read_into` does, a page at a time where small reads follow each other: a call of the system takes longer.

        Bytes from `limit` on may change, and are not kept.
        """
        cdef Page *page = &self.page
        cdef int64_t room = min(PAGE_LENGTH, min(limit, self.size) - offset)
        cdef bint held = False
        if self.fd < 0 or offset < 0 or length > room or not state_change(&page.busy, 0, 1):
            return self.read_into(offset, length, destination)
        held = page.begin <= offset and offset + length <= page.begin + page.length
        if not held and page.last < offset <= page.last + PAGE_LENGTH:
            page.length = 0
            if page.bytes == NULL:
                page.bytes = <uint8_t *> malloc(PAGE_LENGTH)
            if page.bytes != NULL and positional_read(self.fd, page.bytes, room, offset) == room:
                page.begin, page.length, held = offset, room, True
        if held:
            memcpy(destination, page.bytes + (offset - page.begin), <size_t> length)
        page.last = offset
        state_set(&page.busy, 0)
        return READ_OK if held else self.read_into(offset, length, destination)

    cdef bint forget_page(self) noexcept:
        """Bytes failed a check: whether they may have come from the page, and the file itself has to be asked.

        It may have shown others for a while, as when a copy of it was put in place.
        """
        cdef bint held = False
        if state_change(&self.page.busy, 0, 1):
            held, self.page.length = self.page.length > 0, 0
            state_set(&self.page.busy, 0)
        return held

    cdef int read_runs(self, int64_t offset, int64_t length, uint8_t *destination) noexcept nogil:
        """Copy bytes out of what has neither a descriptor nor one address: joined runs."""
        cdef int64_t i = run_at(self.runs, self.run_count, offset), within, size, got
        cdef Run *run
        while length:
            run = &self.runs[i]
            within = offset - run.start
            size = min(length, (self.runs[i + 1].start if i + 1 < self.run_count else self.size) - offset)
            if run.remote != NULL:
                with gil:
                    if (<Source> run.remote).read_runs(run.offset + within, size, destination):
                        note_failure(self, failure_of(<Source> run.remote, True))
                        return READ_SHORT
            elif run.fd < 0:
                memcpy(destination, run.base + run.offset + within, <size_t> size)
            else:
                got = positional_read(run.fd, destination, size, run.offset + within)
                if got != size:
                    return READ_SHORT if got >= 0 else <int> -got
            destination += size
            offset += size
            length -= size
            i += 1
        return READ_OK

    cdef int check(self, int status, int64_t offset, int64_t length) except -1:
        """Raise what a status of `read_into` stands for."""
        if status == READ_OK:
            return 0
        if status > 0:
            raise OSError(status, os.strerror(status), self.path)
        if 0 <= offset <= self.size and 0 <= length <= self.size - offset:
            failure = failure_of(self) if self.far or self.runs != NULL else None
            if failure is not None:     # the last one: each read of a server that fails leaves one
                raise failure.with_traceback(None)
            raise ShortReadError(f"the file had {self.size} bytes when it was opened, and gives fewer: it was cut, or its "
                                 "server failed", path=self.path, offset=offset)
        raise FormatError(f"{length} bytes are wanted here but the file has {self.size}", path=self.path, offset=offset)

    cdef int raise_lost(self) except -1:
        """Raise why pages of a directory could not be fetched."""
        lost = take_lost(self) if self.far else None
        if lost is not None:
            raise lost
        return 0

    cdef int check_whole(self, int64_t offset) except -1:
        """Raise if the file has become shorter, of bytes that make no sense: some systems show zeros for those cut off."""
        if self.fd >= 0 and os.fstat(self.fd).st_size < self.size:
            self.check(READ_SHORT, offset, 0)
        return 0

    def read(self, int64_t offset, int64_t length):
        """Bytes ``offset .. offset + length``; all of them, or `FormatError`."""
        if offset < 0 or length < 0 or offset > self.size or length > self.size - offset:
            self.check(READ_SHORT, offset, length)
        cdef bytes result = fresh_bytes(length)
        cdef char *destination = PyBytes_AS_STRING(result)
        cdef int status
        with nogil:
            status = self.read_into(offset, length, destination)
        self.check(status, offset, length)
        return result

    def awaits_leaves(self):
        """Whether now is the time to ask for leaves that are opened next; see readahead.pxd."""
        return self.asking != NULL and is_due(self.asking + 1)

    @property
    def advice(self):
        """What was advised last for all of the file: how it is read."""
        return "normal" if self.file is None else ADVICE[state_get(&self.file.advised)]

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
            state_set(&self.file.advised, kind)
            _advise(self.file, kind, 0, self.size)
            return
        stop = self.size if length < 0 or length > self.size - offset else offset + length
        if 0 <= offset < stop:
            _advise(self.file, kind, offset, stop - offset)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.fd >= 0 or self.runs != NULL or self.far:
            raise BufferError("a source read by position has no buffer; open it with mmap_mode='r'")
        if self.asking != NULL and state_get(&self.asking.told) >= NOT_GUESSING:
            # Nobody asks before these bytes are read.
            _advise(self.file, 0, 0, self.size)
        PyBuffer_FillInfo(view, self, <void *> self.base, self.size, 1, flags)

    def __len__(self):
        return self.size

    def __repr__(self):
        how = "mapped" if self.mapped else "positional" if self.fd >= 0 else "joined" if self.runs else "memory"
        return f"<Source {self.path or 'buffer'}: {self.size} bytes, {how}>"


cdef _advise(OpenFile file, int kind, int64_t offset, int64_t length):
    cdef int fd = file.fd
    cdef const char *base = <const char *> file.base
    if kind < _LASTING:
        state_set(&file.asking[0].told, TOLD_RANDOM if kind == B2_RANDOM else TOLD)
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
    cdef long kind = 0 if old.file is None else state_get(&old.file.advised)
    if file is not None and kind:
        state_set(&file.advised, kind)
        _advise(file, <int> kind, 0, 0)


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
        self.show(file, size)
        self.look_how_late(fd)
    finally:
        os.close(fd)
    if old is not None:
        _advise_again(file, old)
    return self


# A source whose bytes are on a server. There is no address at which bytes that were not fetched could be looked at.


@cython.no_gc_clear
cdef class RemoteSource(Source):
    """Bytes on a server."""

    cdef readonly object remote     # what fetches the bytes
    cdef OpenFile _asked            # whose state `asking` is

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
