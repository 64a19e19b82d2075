# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The leaves of an archive that is being written, in the order of their keys: those of its old directory, and new ones."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memmove

from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.little_endian cimport u32
from blosc2._core.keys.gone_ranges cimport after_gone
from blosc2._core.keys.keytable cimport Text
from blosc2._core.zip.file_appender cimport Collected
from blosc2._core.zip.catalog cimport SAMPLE
from blosc2._core.zip.central_record cimport Record

from blosc2.exceptions import FormatError


cdef class RecordSample:
    """The first and the last bytes of all records of leaves."""

    def __cinit__(self):
        self.head, self.tail = Collected.__new__(Collected), Collected.__new__(Collected)

    cdef int take(self, const uint8_t *record, int64_t length) except -1:
        """The next record."""
        cdef int64_t part = min(length, SAMPLE - self.head.used)
        if part > 0:
            memcpy(self.head.more(part), record, <size_t> part)
            self.head.used += part
        if self.tail.used > 16 * SAMPLE:
            memmove(self.tail.data, self.tail.data + self.tail.used - SAMPLE, SAMPLE)
            self.tail.used = SAMPLE
        memcpy(self.tail.more(length), record, <size_t> length)
        self.tail.used += length
        return 0

    cdef uint32_t digest(self, int64_t size) noexcept:
        """The checksum of both, of records of `size` bytes."""
        cdef int64_t part = min(size, SAMPLE)
        return checksum(checksum(0, self.head.data, <size_t> part), self.tail.data + self.tail.used - part, <size_t> part)


cdef class LeafMerge:
    """The leaves of a new directory in the order of their keys: those that stay, and those that come."""

    cdef int begin(self) except -1:
        self.position = 0
        self.runs.rewind()
        self.has_item = self.runs.next(&self.item)
        return 0

    cdef bint next(self, Merged *leaf) except -1:
        """The next leaf, False at the end."""
        cdef Text key
        cdef Record record
        cdef int order
        cdef bint has_old
        while True:
            if self.gone.count:
                self.position = after_gone(&self.gone, self.position)
            has_old = self.old is not None and self.position < self.old.count
            if not has_old and not self.has_item:
                return False
            order = 1
            if has_old:
                if not self.old.leaf_at(self.position, &record, &key):
                    raise FormatError("there is no record of a leaf here", path=self.old.archive.source.path,
                                      offset=self.old.archive.directory_offset + max(self.old.record_offset(self.position), 0))
                order = -1
                if self.has_item:
                    order = memcmp(key.bytes, self.item.key, min(key.length, <Py_ssize_t> self.item.key_length))
                    if order == 0:
                        order = (key.length > <Py_ssize_t> self.item.key_length) - (
                            key.length < <Py_ssize_t> self.item.key_length)
                if order < 0:
                    leaf.key, leaf.length = key.bytes, key.length
                    leaf.record, leaf.record_length = record.start, record.length
                    leaf.position = self.position
                    self.position += 1
                    return True
                if order == 0:      # replaced
                    self.position += 1
            # Without a payload it says that the key is gone.
            if self.item.payload_length:
                leaf.key, leaf.length = self.item.key, self.item.key_length
                leaf.record_length = u32(self.item.payload)
                leaf.record = self.item.payload + 4
                leaf.description = leaf.record + leaf.record_length
                leaf.description_length = <int64_t> self.item.payload_length - 4 - leaf.record_length
                if leaf.description_length < 0:
                    raise FormatError("a temporary file has not kept its bytes")
                leaf.position = -1
                # It stays where it is until the next one is asked for.
                self.has_item = -1
                return True
            self.has_item = self.runs.next(&self.item)

    cdef int go_on(self) except -1:
        """Let go of the leaf that was given."""
        if self.has_item == -1:
            self.has_item = self.runs.next(&self.item)
        return 0
