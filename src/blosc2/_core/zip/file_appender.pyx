# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Append bytes to a file in large pieces."""

import os

from cpython.buffer cimport PyBUF_READ
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove

from blosc2._core.io.checksum cimport checksum

cdef enum:
    # Bytes whose checksum is not worth letting others run meanwhile.
    SHORT = 1 << 16
    # Bytes that the system is asked to write to the disk while others are made.
    ASKED = 4 << 20

cdef extern from "io/write_back.h" nogil:
    void begin_write_back(int fd, int64_t offset, int64_t length)


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


cdef class FileAppender:
    """Append bytes to a file.

    Parameters
    ----------
    descriptor : int
        A file open for writing. It stays the caller's.
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

    Notes
    -----
    When a write fails, the rest is kept, and the next write goes on with it.
    """

    def __cinit__(self, int descriptor, int64_t position=0, align=None, file_checksum=None):
        self._descriptor, self._written, self._asked = descriptor, position, position
        self._pending = Collected.__new__(Collected)
        self._has_checksum, self._checksum = file_checksum is not None, file_checksum or 0

    @property
    def position(self):
        """Where the next byte goes."""
        return self._written + self._pending.used

    @property
    def written(self):
        """Where the next byte goes that is not collected yet: the size of the file."""
        return self._written

    @property
    def file_checksum(self):
        """CRC-32C of the file up to `position`; None where that of its beginning is not known."""
        return checksum(self._checksum, self._pending.data, self._pending.used) if self._has_checksum else None

    def drain(self):
        """Write what was collected, so that all of it can be read from the file."""
        self._drain()

    cdef int _add(self, const uint8_t *data, int64_t size) except -1:
        """Write bytes, or collect them where they are few."""
        if size >= COLLECTED:
            self._drain()
            self._write(data, size)
        elif size:
            memcpy(self._pending.more(size), data, <size_t> size)
            self._pending.used += size
            if self._pending.used >= COLLECTED:
                self._drain()
        return 0

    cdef int _drain(self) except -1:
        cdef Collected pending
        cdef int64_t before, done
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
