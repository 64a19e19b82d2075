# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Append bytes to a file in large pieces, in another thread where that is worth it."""

import os

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.large_pages cimport bring_pages

cdef enum:
    # Bytes whose checksum is not worth letting others run meanwhile.
    SHORT = 1 << 16
    # Bytes that the system is asked to write to the disk while others are made.
    ASKED = 4 << 20

cdef extern from "io/write_back.h" nogil:
    void begin_write_back(int fd, int64_t offset, int64_t length)

cdef extern from "io/background_write.h" nogil:
    bint background_write_begin(background_write *work)
    bint background_write_wait(background_write *work, int64_t number)
    void background_write_leave(background_write *work)

# Whoever replaces it, to record what is written or to refuse it, is to see all of it.
cdef object _pwrite = getattr(os, "pwrite", None)


cdef class Collected:
    """Bytes that grow."""

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t *more(self, int64_t size) except NULL:
        """Where the next so many bytes go; they count as used when the caller says so."""
        cdef int64_t room = self.room
        cdef uint8_t *data
        if self.used + size > room:
            room = max(self.used + size, 2 * room, 4096)
            data = <uint8_t *> PyMem_Realloc(self.data, <size_t> room)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.room = room
        return self.data + self.used


@cython.no_gc_clear     # the other thread needs what it writes, also if the collector finds that nobody else does
cdef class FileAppender:
    """Append bytes to a file.

    Parameters
    ----------
    descriptor : int
        A file open for writing. It stays the caller's, who calls `wait` before it is closed or cut.
    position : int
        Where the first new byte goes.
    align : object
        For subclasses.
    file_checksum : int, optional
        CRC-32C of the file up to `position`, 0 for a new file. None where it is not known.

    Attributes
    ----------
    eager : bool
        Whether the disk is to begin to write before the caller syncs.
    in_background : bool
        Whether another thread may write while more is collected.

    Notes
    -----
    When a write fails, the rest is kept, and the next write goes on with it. An error in the background is raised by the
    next write.
    """

    def __cinit__(self, int descriptor, int64_t position=0, align=None, file_checksum=None):
        self._descriptor, self._written, self._asked = descriptor, position, position
        self._pending, self._sent = Collected.__new__(Collected), Collected.__new__(Collected)
        self._has_checksum, self._checksum = file_checksum is not None, file_checksum or 0

    def __dealloc__(self):
        with nogil:
            background_write_leave(&self._under_way)

    @property
    def position(self):
        """Where the next byte goes."""
        return self._written + self._pending.used

    @property
    def written(self):
        """Where the next byte goes that is not collected yet: the size of the file."""
        self._settle()
        return self._written

    @property
    def file_checksum(self):
        """CRC-32C of the file up to `position`; None where that of its beginning is not known."""
        self._settle()
        return checksum(self._checksum, self._pending.data, self._pending.used) if self._has_checksum else None

    def drain(self):
        """Write what was collected, so that all of it can be read from the file."""
        self._drain()

    def wait(self):
        """Have nothing written in the background any more, and wait for what is; any thread may ask for it.

        What came of it is seen by the next write.
        """
        cdef background_write *work = &self._under_way
        cdef int64_t number
        with cython.critical_section(self):
            self._stopped, number = True, work.number
        if number:
            with nogil:
                background_write_wait(work, number)

    cdef int _add(self, const uint8_t *data, int64_t size) except -1:
        """Write bytes, or collect them where they are few."""
        if size >= (4 * COLLECTED if self.in_background else COLLECTED):
            self._drain()
            self._write(data, size)
        elif size:
            memcpy(self._pending.more(size), data, <size_t> size)
            self._pending.used += size
            if self._pending.used >= COLLECTED:
                self._send()
        return 0

    cdef int _send(self) except -1:
        """Write what was collected, in the background if possible."""
        cdef background_write *work = &self._under_way
        cdef bint begun
        self._settle()
        if not self.in_background or self._pending.used == 0 or getattr(os, "pwrite", None) is not _pwrite:
            return self._drain()
        work.descriptor, work.data = self._descriptor, self._pending.data
        work.size, work.position = self._pending.used, self._written
        work.checksum, work.sum = self._checksum, NULL
        if self._has_checksum:
            work.sum = checksum
        work.asked = self._asked if self.eager and self._written + work.size - self._asked >= ASKED else -1
        if not self._sent.room:
            bring_pages(self._sent.more(self._pending.room), self._pending.room)
        with cython.critical_section(self):
            begun = not self._stopped and background_write_begin(work)
        if not begun:
            return self._drain()
        self._pending, self._sent = self._sent, self._pending
        self._written += work.size
        return 0

    cdef int _settle(self) except -1:
        """Wait for what is written in the background. If that failed, it is as if a write here had."""
        cdef background_write *work = &self._under_way
        cdef Collected sent, pending
        cdef int64_t number = work.number
        cdef bint ended
        if work.settled == number:
            return 0
        with nogil:
            ended = background_write_wait(work, number)
        if work.settled == number:      # another thread was faster
            return 0
        sent, pending = self._sent, self._pending
        if not ended:       # in a forked child, which writes nothing
            sent.used, work.settled = 0, number
            return 0
        if work.done < sent.used and pending.used > work.done:
            sent.more(pending.used - work.done)     # which may fail, so before anything changes
        work.settled = number
        self._checksum = work.checksum
        if work.asked >= 0:
            self._asked = work.position + work.done
        sent.used -= work.done
        if not sent.used:
            return 0
        # What is left comes before what was collected meanwhile.
        self._written -= sent.used
        memmove(sent.data, sent.data + work.done, <size_t> sent.used)
        if pending.used:
            memcpy(sent.data + sent.used, pending.data, <size_t> pending.used)
            sent.used += pending.used
            pending.used = 0
        self._pending, self._sent = sent, pending
        raise OSError(work.error, os.strerror(work.error))

    cdef int _drain(self) except -1:
        cdef Collected pending
        cdef int64_t before, done
        self._settle()
        pending, before = self._pending, self._written
        if pending.used == 0:
            return 0
        try:
            self._write(pending.data, pending.used)
        finally:
            done = self._written - before
            memmove(pending.data, pending.data + done, <size_t> (pending.used - done))
            pending.used -= done
        return 0

    cdef int _write(self, const uint8_t *data, int64_t size) except -1:
        """Write bytes behind those that were written; nothing may be collected."""
        cdef int64_t done
        while size:
            # Linux writes at most 2 GiB - 4096 bytes at a time.
            view = PyMemoryView_FromMemory(<char *> data, min(size, 1 << 30), PyBUF_READ)
            done = write_at(self._descriptor, view, self._written)
            self._written += done
            if self._has_checksum:
                if done < SHORT:
                    self._checksum = checksum(self._checksum, data, done)
                else:
                    with nogil:
                        self._checksum = checksum(self._checksum, data, done)
            view.release()  # so that nobody looks at the memory later
            if self.eager and self._written - self._asked >= ASKED:
                begin_write_back(self._descriptor, self._asked, self._written - self._asked)
                self._asked = self._written
            data += done
            size -= done
        return 0


def write_at(int descriptor, view, int64_t position):
    """Write bytes at a position; how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, view, position)
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, view)
