# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Append stored members to a ZIP archive, then a new directory, then an end record.

The caller decides when to sync, and what a half-written archive means.
"""

import os
import time

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memmove, memset

from blosc2._core.io.checksum cimport checksum, joined, zip_joined
from blosc2._core.io.endian cimport put, put16, put32, put64, u16, u32
from blosc2._core.io.source cimport Buffer, readable
from blosc2._core.zip.catalog cimport stem_length
from blosc2._core.zip.central_record cimport CENTRAL_LENGTH, FLAG_UTF8
from blosc2._core.zip.end_record cimport (
    COMMENT_COVERED, COMMENT_LENGTH, END64_LENGTH, END_LENGTH, LOCAL_LENGTH, LOCATOR_LENGTH, four_bytes, is_wide,
    write_comment)
from blosc2._core.zip.external_sort cimport SortedRuns

from blosc2._core.io.checksum import crc32

# Append bytes to a file in large pieces.


cdef enum:
    # Bytes whose checksum is not worth letting others run meanwhile.
    SHORT = 1 << 16
    # Bytes that the system is asked to write to the disk while others are made.
    ASKED = 4 << 20

cdef extern from "io/file_calls.h" nogil:
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

    cdef int append(self, const void *data, int64_t size) except -1:
        memcpy(self.more(size), data, <size_t> size)
        self.used += size
        return 0


def write_at(int descriptor, view, int64_t position):
    """Write bytes at a position; how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, view, position)
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, view)


# What records of new members have in common: `archive_writer` writes them, `central_record` reads those of any archive.


cdef inline uint32_t wide_length(int64_t size, int64_t header) noexcept nogil:
    """Bytes of the zip64 field of a record."""
    return 4 + 16 * is_wide(size) + 8 * is_wide(header) if is_wide(size) or is_wide(header) else 0


cdef inline int64_t written_length(const uint8_t *record) noexcept nogil:
    """Bytes of a record that was written here, without a comment."""
    return CENTRAL_LENGTH + u16(record + 28) + u16(record + 30)


cdef inline uint8_t *put_fields(uint8_t *p, const uint8_t *text, uint32_t length, int64_t header, int64_t size, uint32_t stamp,
                                uint32_t crc) noexcept nogil:
    """What local header and central record have in common: from the version needed to the sizes."""
    cdef uint32_t size32 = four_bytes(size)
    cdef uint8_t seen = 0
    cdef uint32_t i
    for i in range(length):
        seen |= text[i]
    p = put16(put16(put16(p, 45 if is_wide(size) or is_wide(header) else 20), FLAG_UTF8 if seen & 0x80 else 0), 0)
    return put32(put32(put32(put32(p, stamp), crc), size32), size32)


cdef enum:
    # Of a record, what states sizes and offsets of more than 32 bits.
    MOST_EXTRA = 28

# Memory for the records of leaves, and what else is kept of them, before they are sorted into a file.
cdef int64_t _runs_budget = 96 << 20


def set_runs_budget(int64_t nbytes):
    """Memory for the records of leaves that are to be sorted, in bytes; returns the one before. For tests."""
    global _runs_budget
    before = _runs_budget
    _runs_budget = nbytes
    return before


cdef class ArchiveWriter:
    """Append stored members to a file, then a directory, then an end record.

    Parameters
    ----------
    descriptor : int
        A file open for writing. It stays the caller's.
    position : int
        Where the first new byte goes.
    align : int
        The data of each member starts at a multiple of this.
    file_checksum : int, optional
        CRC-32C of the file up to `position`, 0 for a new file: the end record then gets one. None where it is not
        known: there will be none.

    Attributes
    ----------
    eager : bool
        Whether the disk is to begin to write before the caller syncs.

    Notes
    -----
    `write_directory` writes all that was collected, `write_end` the end record alone. For durability, sync after each.
    When a write fails, the rest is kept, and the next write goes on with it.
    """

    def __cinit__(self, int descriptor, int64_t position=0, int align=64, file_checksum=None):
        if align != 1 and not 8 <= align <= 4096:
            raise ValueError(f"align must be 1 or 8 .. 4096, not {align}")
        self._descriptor, self._written, self._asked = descriptor, position, position
        self._pending = Collected.__new__(Collected)
        self._has_checksum, self._checksum = file_checksum is not None, file_checksum or 0
        self.records, self._handed = Collected.__new__(Collected), Collected.__new__(Collected)
        self.offsets, self.descriptions = {}, {}
        self._align = align
        now = time.localtime()
        year = min(max(now.tm_year, 1980), 2107)
        self._stamp = (
            (year - 1980) << 25 | now.tm_mon << 21 | now.tm_mday << 16
            | now.tm_hour << 11 | now.tm_min << 5 | min(now.tm_sec, 59) // 2)

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
            self._pending.append(data, size)
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

    def append(self, bytes name not None, data, uint32_t mode=0o600, bytes description=None):
        """Add one member, in place of one that this writer added under the same name before.

        Where its data starts in the file is returned.

        Parameters
        ----------
        name : bytes
            The member's name in UTF-8.
        data : bytes-like
            What it holds.
        mode : int
            Unix permissions that tools restore when they unpack.
        description : bytes, optional
            Of a leaf, its description for the catalog; may be empty. See `descriptions.describe`.
        """
        cdef Py_buffer view
        cdef int64_t header = self._written + self._pending.used, start
        cdef uint32_t crc
        self._check_name(name)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            crc = crc32(data)
            start = self._begin(<const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), view.len, crc)
            self._add(<const uint8_t *> view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        self._note(name, header, view.len, crc, mode, description)
        return start

    def append_pieces(self, bytes name not None, pieces, int64_t size, crc=None, uint32_t mode=0o600, bytes description=None):
        """Add one member that comes in pieces; see `append`.

        Parameters
        ----------
        pieces : iterable of bytes-like
            They are drawn one by one and not kept.
        size : int
            Bytes of all of them.
        crc : int, optional
            Their CRC-32, which is then believed. It is computed otherwise.

        Raises
        ------
        ValueError
            The pieces have another size. What was written of them is not part of the archive.
        """
        cdef Py_buffer view
        cdef int64_t header, start, left = size
        cdef uint32_t checksum_before = 0, running = 0 if crc is None else crc
        cdef bytes local = b""
        self._check_name(name)
        if size < 0:
            raise ValueError(f"a member cannot have {size} bytes")
        if crc is None:
            self._drain()   # so that the header is in the file, and can be completed there
            checksum_before = self._checksum
        header = self._written + self._pending.used
        start = self._begin(<const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), size, running)
        if crc is None:
            local = PyBytes_FromStringAndSize(<const char *> self._pending.data, self._pending.used)
        for piece in pieces:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            try:
                if view.len > left:
                    raise ValueError(f"the pieces of member {name!r} have more than {size} bytes")
                left -= view.len
                if crc is None:
                    running = crc32(piece, running)
                self._add(<const uint8_t *> view.buf, view.len)
            finally:
                PyBuffer_Release(&view)
        if left:
            raise ValueError(f"the pieces of member {name!r} have {size - left} bytes, not {size}")
        if crc is None:
            self._drain()
            self._complete(local, local[:14] + running.to_bytes(4, "little") + local[18:], header, size, checksum_before)
        self._note(name, header, size, running, mode, description)
        return start

    cdef int64_t begin_open(self, bytes name, int64_t most) except -1:
        """Begin a member of up to so many bytes, whose size is told at its end; where its data starts."""
        # So that the header is in the file, and can be completed there.
        self._drain()
        self._open_checksum, self._open_crc, self._open_header = self._checksum, 0, self._written
        self._open_name, self._open_size = name, 0
        self._open_start = self._begin(
            <const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), most, 0)
        self._open_local = PyBytes_FromStringAndSize(<const char *> self._pending.data, self._pending.used)
        return self._open_start

    cdef int add_open(self, const uint8_t *data, int64_t size) except -1:
        """Go on with such a member."""
        view = PyMemoryView_FromMemory(<char *> data, size, PyBUF_READ)
        self._open_crc = crc32(view, self._open_crc)
        view.release()
        self._open_size += size
        return self._add(data, size)

    cdef int _complete_open(self, bytes first) except -1:
        """Complete the local header of such a member, and its first bytes, for which `begin` left room."""
        cdef bytes local = self._open_local, sizes, whole
        cdef int64_t rest = self._open_size
        self._drain()
        self._open_size += PyBytes_GET_SIZE(first)
        self._open_crc = zip_joined(crc32(first), self._open_crc, <uint64_t> rest)
        sizes = (<object> self._open_size).to_bytes(8, "little")
        whole = local[:14] + (<object> self._open_crc).to_bytes(4, "little")
        if local[18:22] == b"\xff\xff\xff\xff":     # they are in the zip64 field, which comes first
            after = LOCAL_LENGTH + len(self._open_name) + 4
            whole += local[18:after] + sizes + sizes + local[after + 16:]
        else:
            whole += sizes[:4] + sizes[:4] + local[26:]
        whole = whole[:len(whole) - len(first)] + first
        return self._complete(local, whole, self._open_header, rest, self._open_checksum)

    def lay_out(self, bytes name not None, int64_t most, Py_ssize_t room, rest):
        """Add one member whose first bytes are known when all others are; see `append`. Its start and size are returned.

        Parameters
        ----------
        most : int
            Bytes that it has at most.
        room : int
            How many of them are the first ones.
        rest : callable
            Takes a function that writes bytes behind those, and returns the first ones.

        Raises `ValueError` if it has more bytes. What was written of it is not part of the archive then.
        """
        self._check_name(name)
        self.begin_open(name, most)
        memset(self._pending.more(room), 0, <size_t> room)
        self._pending.used += room
        self._open_local = PyBytes_FromStringAndSize(<const char *> self._pending.data, self._pending.used)
        first = rest(self._write_open)
        if len(first) != room or room + self._open_size > most:
            raise ValueError(f"member {name!r} has {len(first)} + {self._open_size} bytes, not {room} of at most {most}")
        self._complete_open(first)
        self._note_open()
        return self._open_start, self._open_size

    cdef int _note_open(self) except -1:
        """Keep the record of such a member, which asks for the same version as its local header."""
        self._note(self._open_name, self._open_header, self._open_size, self._open_crc, 0o600, None)
        self.records.data[<int64_t> self.offsets[self._open_name] + 6] = self._open_local[4]
        return 0

    def _write_open(self, data):
        cdef Buffer view = readable(data)
        self.add_open(view.data, view.size)

    cdef bytes end_open(self):
        """End such a member; its record is given, and is not among those of the directory."""
        cdef Collected kept = self.records, own = Collected.__new__(Collected)
        self._complete_open(b"")
        self.records = own
        try:
            self._note_open()
        finally:
            self.records = kept
            self.offsets.pop(self._open_name, None)
        return PyBytes_FromStringAndSize(<const char *> own.data, own.used)

    @property
    def collected(self):
        """How many leaves were sorted so far."""
        return 0 if self.runs is None else self.runs.count

    def collect(self, directory=None):
        """Hand over the records of all leaves that were appended, sorted by key, and those of the other members.

        Leaves are the members that have a description. What is appended from now on goes the same way.

        Parameters
        ----------
        directory : str, optional
            Where more of them than memory should hold are kept meanwhile.

        Returns
        -------
        SortedRuns
            The records of leaves, each with its description.
        bytes
            The records of the others.
        """
        cdef SortedRuns runs = self.runs
        cdef bytes name, description
        cdef int64_t at
        others = []
        if runs is None:
            runs = SortedRuns(directory, _runs_budget)
        for name, offset in self.offsets.items():
            at = offset
            description = self.descriptions.get(name)
            if description is None:
                others.append(PyBytes_FromStringAndSize(
                    <const char *> self.records.data + at, written_length(self.records.data + at)))
            else:
                self._hand_over(runs, name, self.records.data + at, description)
        self.runs = runs
        self.offsets, self.descriptions = {}, {}
        self.records.used = 0
        self._gaps = False
        return runs, b"".join(others)

    cdef int _hand_over(self, SortedRuns runs, bytes name, const uint8_t *record, bytes description) except -1:
        """Give the record of a leaf to those that are sorted."""
        cdef int64_t length = written_length(record)
        cdef const uint8_t *key = <const uint8_t *> PyBytes_AS_STRING(name)
        cdef uint8_t *p
        self._handed.used = 0
        p = put32(self._handed.more(4 + length + PyBytes_GET_SIZE(description)), <uint32_t> length)
        p = put(p, record, <size_t> length)
        put(p, PyBytes_AS_STRING(description), PyBytes_GET_SIZE(description))
        runs.add(key, <uint32_t> stem_length(key, PyBytes_GET_SIZE(name)), self._handed.data,
                 <uint32_t> (4 + length + PyBytes_GET_SIZE(description)))
        return 0

    def hide(self, bytes key not None):
        """Leave a key out of the directory that `collect` is for, unless it is appended again."""
        self.runs.add(<const uint8_t *> PyBytes_AS_STRING(key), <uint32_t> PyBytes_GET_SIZE(key), b"", 0)

    cdef int _complete(self, bytes local, bytes whole, int64_t header, int64_t size, uint32_t checksum_before) except -1:
        """Complete a local header that was written before its member, and take it into the checksum of the file."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(local)
        cdef uint32_t difference
        completed = whole[14:]
        done = 0
        while done < len(completed):
            done += write_at(self._descriptor, completed[done:], header + 14 + done)
        difference = checksum(checksum_before, <const uint8_t *> PyBytes_AS_STRING(local), length)
        difference ^= checksum(checksum_before, <const uint8_t *> PyBytes_AS_STRING(whole), length)
        self._checksum ^= joined(difference, 0, <uint64_t> size)
        return 0

    cdef int _check_name(self, bytes name) except -1:
        if not 0 < PyBytes_GET_SIZE(name) <= 0xFFFF:
            raise ValueError(f"a member name has 1 .. 65535 bytes, not {len(name)}")
        return 0

    cdef int64_t _begin(self, const uint8_t *name, uint32_t length, int64_t size, uint32_t crc) except -1:
        """Collect the local header of a member; where its data will start in the file."""
        cdef int64_t header = self._written + self._pending.used, start
        cdef uint32_t extra = 20 if is_wide(size) else 0, padding
        cdef uint8_t *p
        start = header + LOCAL_LENGTH + length + extra
        padding = <uint32_t> ((self._align - start % self._align) % self._align)
        if padding and padding < 6:     # an extra field has 4 bytes of header and states the alignment in two more
            padding += self._align
        p = self._pending.more(LOCAL_LENGTH + length + extra + padding)
        p = put(p, <const char *> b"PK\3\4", 4)
        p = put_fields(p, name, length, header, size, self._stamp, crc)
        p = put16(put16(p, length), extra + padding)
        p = put(p, <const char *> name, length)
        if extra:
            p = put64(put64(put16(put16(p, 1), 16), size), size)
        if padding:
            p = put16(put16(put16(p, 0xD935), padding - 4), self._align)
            memset(p, 0, padding - 6)
        self._pending.used += LOCAL_LENGTH + length + extra + padding
        return start + padding

    cdef int _note(self, bytes name, int64_t header, int64_t size, uint32_t crc, uint32_t mode, bytes description) except -1:
        """Keep the central record of a member that is whole."""
        cdef uint32_t length = <uint32_t> PyBytes_GET_SIZE(name)
        cdef uint8_t *p = self.records.more(CENTRAL_LENGTH + length + MOST_EXTRA)
        cdef int64_t used
        if name in self.offsets:
            self._drop(name)
        used = self._put_record(p, <const uint8_t *> PyBytes_AS_STRING(name), length, header, size, crc, mode) - p
        if self.runs is not None and description is not None:
            return self._hand_over(self.runs, name, self.records.data + self.records.used, description)
        self.offsets[name] = self.records.used
        if description is not None:
            self.descriptions[name] = description
        self.records.used += used
        return 0

    cdef uint8_t *_put_record(self, uint8_t *p, const uint8_t *name, uint32_t length, int64_t header, int64_t size,
                              uint32_t crc, uint32_t mode) noexcept:
        """Write the central record of a member; what follows it is returned."""
        cdef bint large = is_wide(size), far = is_wide(header)
        cdef uint32_t extra = wide_length(size, header)
        p = put(p, <const char *> b"PK\1\2", 4)
        p = put16(p, 0x300 | (45 if large or far else 20))
        p = put_fields(p, name, length, header, size, self._stamp, crc)
        p = put16(put16(put16(p, length), extra), 0)
        p = put32(put32(p, 0), (0o100000 | mode) << 16)
        p = put32(p, four_bytes(header))
        p = put(p, <const char *> name, length)
        if extra:
            p = put16(put16(p, 1), extra - 4)
            if large:
                p = put64(put64(p, size), size)
            if far:
                p = put64(p, header)
        return p

    cdef int add_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, const uint8_t *data, int64_t size, uint32_t crc,
                      bytes description) except -1:
        """Add a small leaf whose name fits, after `collect`. The caller drains what was collected when it is `COLLECTED`."""
        cdef int64_t header = self._written + self._pending.used
        memcpy(self.begin_leaf(name, length, size), data, <size_t> size)
        return self.end_leaf(name, length, stem, header, size, crc, description)

    cdef uint8_t *begin_leaf(self, const uint8_t *name, uint32_t length, int64_t size) except NULL:
        """Begin a small leaf at `position`: the caller writes its bytes to where they lie, then calls `end_leaf`."""
        self._begin(name, length, size, 0)
        return self._pending.more(size)

    cdef int end_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                      bytes description) except -1:
        """End a leaf whose local header is at an offset."""
        self._pending.used += size
        put32(self._pending.data + (header - self._written) + 14, crc)
        return self.note_leaf(name, length, stem, header, size, crc, description)

    cdef int note_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                       bytes description) except -1:
        """Keep the record of a leaf that is whole, after `collect`."""
        cdef uint32_t record = CENTRAL_LENGTH + length + wide_length(size, header)
        cdef uint8_t *p = self.runs.add_key(name, stem, 4 + record + <uint32_t> PyBytes_GET_SIZE(description))
        p = self._put_record(put32(p, record), name, length, header, size, crc, 0o600)
        put(p, PyBytes_AS_STRING(description), PyBytes_GET_SIZE(description))
        return 0

    cdef int _drop(self, bytes name) except -1:
        cdef int64_t offset = self.offsets.pop(name)
        self.descriptions.pop(name, None)
        self.records.data[offset] = 0   # no signature any more
        self._gaps = True
        return 0

    def drop(self, bytes name not None):
        """Leave a member that was appended out of the directory; whether there was one."""
        if name not in self.offsets:
            return False
        self._drop(name)
        return True

    cdef int _close_gaps(self) except -1:
        """Leave out the records that do not count."""
        cdef uint8_t *start = self.records.data
        cdef int64_t at = 0, kept = 0, length
        while at < self.records.used:
            length = written_length(start + at)
            if start[at]:
                memmove(start + kept, start + at, <size_t> length)
                kept += length
            at += length
        self.records.used = kept
        self.offsets = {}   # positions in what is no more
        self._gaps = False
        return 0

    def write_directory(self, bytes records not None=b"", int64_t count=0):
        """Write the directory: records of members that were there before, then those appended.

        Nothing shows it yet.
        """
        count += len(self.offsets)
        if self._gaps:
            self._close_gaps()
        self.begin_directory()
        self._add(<const uint8_t *> PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records))
        self._add(self.records.data, self.records.used)
        self.end_directory(count)

    cdef int note_catalog(self, int64_t size, const uint8_t *footer, int64_t paths) except -1:
        """Remember a catalog that was written: what tells it from others, and how many keys and groups it has."""
        self.cataloged = (self._open_start, size, u32(footer + 248)), paths
        return 0

    cdef int begin_directory(self) except -1:
        self._directory_start = self._written + self._pending.used
        return 0

    cdef int end_directory(self, int64_t count) except -1:
        """Write what follows the records, but for the end record."""
        cdef int64_t offset = self._directory_start, position = self._written + self._pending.used
        cdef int64_t size = position - offset
        cdef uint8_t end[END_LENGTH]
        cdef uint8_t *p
        if is_wide(offset) or is_wide(size) or count >= 0xFFFF:
            p = self._pending.more(END64_LENGTH + LOCATOR_LENGTH)
            p = put64(put(p, <const char *> b"PK\6\6", 4), END64_LENGTH - 12)
            p = put32(put32(put16(put16(p, 0x300 | 45), 45), 0), 0)
            p = put64(put64(put64(put64(p, count), count), size), offset)
            put32(put64(put32(put(p, <const char *> b"PK\6\7", 4), 0), position), 1)
            self._pending.used += END64_LENGTH + LOCATOR_LENGTH
        self._drain()
        p = put32(put(end, <const char *> b"PK\5\6", 4), 0)
        p = put16(put16(p, <uint32_t> min(count, 0xFFFF)), <uint32_t> min(count, 0xFFFF))
        p = put32(put32(p, four_bytes(size)), four_bytes(offset))
        put16(p, COMMENT_LENGTH if self._has_checksum else 0)
        self._end = PyBytes_FromStringAndSize(<const char *> end, END_LENGTH)
        self.records.used = 0
        self.offsets, self.descriptions = {}, {}
        return 0

    def write_end(self):
        """Write the end record, which makes the new directory the archive's."""
        cdef char comment[COMMENT_LENGTH]
        cdef uint8_t *p
        cdef uint32_t crc
        if self._end is None:
            raise ValueError("the directory comes first: call write_directory()")
        if self._has_checksum:
            write_comment(comment, self._written, 0)
            crc = checksum(self._checksum, <const uint8_t *> PyBytes_AS_STRING(self._end), END_LENGTH)
            write_comment(comment, self._written, checksum(crc, <const uint8_t *> comment, COMMENT_COVERED))
        p = self._pending.more(END_LENGTH + COMMENT_LENGTH)
        memcpy(p, PyBytes_AS_STRING(self._end), END_LENGTH)
        if self._has_checksum:
            memcpy(p + END_LENGTH, comment, COMMENT_LENGTH)
        self._pending.used += END_LENGTH + (COMMENT_LENGTH if self._has_checksum else 0)
        self._end = None
        self._drain()
