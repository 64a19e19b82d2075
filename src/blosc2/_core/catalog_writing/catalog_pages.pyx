# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The bytes of a catalog on their way to the file, with a checksum for each page."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.little_endian cimport put32
from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.file_appender cimport COLLECTED, Collected
from blosc2._core.zip.catalog cimport PAGE


cdef class Pages:
    """What is written of a catalog, with a checksum for each page."""

    def __cinit__(self, ArchiveWriter writer):
        self.writer = writer
        self.kept = Collected.__new__(Collected)
        self.waiting = Collected.__new__(Collected)
        self.checksums = Collected.__new__(Collected)
        self.covered = True

    cdef int add(self, const uint8_t *data, int64_t size) except -1:
        cdef int64_t part
        cdef const uint8_t *p = data
        cdef int64_t left = size
        cdef Collected to = self.kept if self.writer is None else self.waiting
        while left and self.covered:
            part = min(left, PAGE - (self.size & (PAGE - 1)))
            self.running = checksum(self.running, p, <size_t> part)
            p += part
            left -= part
            self.size += part
            if self.size & (PAGE - 1) == 0:
                self.end_page()
        self.size += left
        memcpy(to.more(size), data, <size_t> size)
        to.used += size
        if self.writer is not None and to.used >= COLLECTED:
            self.flush()
        return 0

    cdef int end_page(self) except -1:
        put32(self.checksums.more(4), self.running)
        self.checksums.used += 4
        self.running = 0
        return 0

    cdef int flush(self) except -1:
        if self.writer is not None and self.waiting.used:
            self.writer.add_open(self.waiting.data, self.waiting.used)
            self.waiting.used = 0
        return 0

    cdef int pad(self) except -1:
        """Begin a section: up to a multiple of 64 bytes."""
        cdef uint8_t zeros[64]
        memset(zeros, 0, 64)
        return self.add(zeros, -self.size & 63)
