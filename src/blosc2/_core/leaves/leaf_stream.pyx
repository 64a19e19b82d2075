# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Writing many small leaves to an archive, from pairs of key and value to members and records, without an object for each.

What is not simple (an unusual key, a value that is compressed) is given back to the caller, who writes it and goes on.
"""

cimport numpy as cnp
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Contains
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.frame.frame_writer cimport RawKind, RawKinds
from blosc2._core.io.ascii_text cimport ascii_text, with_slash
from blosc2._core.io.checksum cimport zip_checksum
from blosc2._core.io.source cimport Source
from blosc2._core.keys.key_admission cimport KeyAdmission
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.archive_writer cimport COLLECTED, ArchiveWriter
from blosc2._core.zip.catalog cimport stem_length
from blosc2._core.zip.records cimport Member, gains_by_alignment

from blosc2.exceptions import FormatError

cnp.import_array()

cdef enum:
    # Leaves between two calls of `progress`; signals are handled and other threads may run then.
    EACH = 1024
    # Bytes of the frame of a small leaf, and of its name.
    MOST_FRAME = 4096
    MOST_NAME = 256
    MOST_STORED_NAME = 0xFFFF
    # Bytes of a renamed member that are copied at a time.
    PIECE = 1 << 20
    # Keys for which there is room before they come, if that many are said to come.
    MOST_EXPECTED = 1 << 20

cdef bytes _suffix = b".b2nd"


cdef class SmallLeaves:
    """Writes the small ones of many leaves."""

    cdef ArchiveWriter writer
    cdef KeyAdmission admission
    cdef RawKinds kinds
    cdef object check, progress
    cdef public int64_t count, nbytes

    def __cinit__(self, ArchiveWriter writer not None, KeyAdmission admission not None, RawKinds kinds, check, progress):
        if writer.runs is None:
            raise ValueError("call collect() first")
        self.writer, self.admission, self.kinds, self.check, self.progress = writer, admission, kinds, check, progress

    def expect(self, int64_t count):
        """Make room for the hashes of so many keys, or of a million."""
        self.admission.leaves._reserve(min(count, MOST_EXPECTED))

    def write(self, values not None):
        """Write pairs of key and value up to the first that is not simple: a tuple of whether its key is admitted, and both.

        None at the end.
        """
        cdef RawKinds kinds = self.kinds
        cdef RawKind kind
        cdef bint admitted
        if kinds is not None and not kinds.serves():
            kinds = None
        for item in values:
            if PyTuple_CheckExact(item) and PyTuple_GET_SIZE(item) == 2:
                key, value = <object> (<tuple> item)[0], <object> (<tuple> item)[1]
            else:
                key, value = item
            key = with_slash(key)
            admitted = self.admission.admit_key(key)
            kind = None
            if admitted and kinds is not None and cnp.PyArray_CheckExact(value):
                kind = kinds.kind_of(value)
            if kind is None:
                return admitted, key, value
            self._add(key, kind, value)
            self.count += 1
            self.nbytes += kind.nbytes
            if self.count % EACH == 0:
                self.pause()
        return None

    def pause(self):
        """Tell how far it is, and let others do something."""
        with nogil:
            pass
        PyErr_CheckSignals()
        self.progress(self.count, self.nbytes)

    cdef int _add(self, str key, RawKind kind, cnp.ndarray value) except -1:
        """Write a leaf."""
        cdef uint8_t name[MOST_NAME]
        cdef Py_ssize_t length
        cdef const uint8_t *text = ascii_text(<PyObject *> key, &length)
        cdef int64_t size = kind.size(), before = PyBytes_GET_SIZE(kind.before), header = self.writer._written + self.writer._pending.used
        cdef uint32_t crc
        cdef uint8_t *frame
        length -= 1
        memcpy(name, text + 1, <size_t> length)
        memcpy(name + length, PyBytes_AS_STRING(_suffix), 5)
        frame = self.writer.begin_leaf(
            name, <uint32_t> (length + 5), size, <const uint8_t *> PyBytes_AS_STRING(kind.before))
        kind.write(frame, value)
        crc = zip_checksum(kind.crc, frame + before, <size_t> (size - before))
        self.writer.end_leaf(name, <uint32_t> (length + 5), <uint32_t> length, header, size, crc, kind.description)
        if self.writer._pending.used >= COLLECTED:
            self.check()
            self.writer._drain()
        return 0


def append_frames(ArchiveWriter writer not None, dict frames not None, dict appended not None, type made not None,
                  type renamed not None, KeyTable members):
    """Append small frames that wait in memory, and members that get another name; keys that take another way are returned."""
    cdef uint8_t name[MOST_NAME]
    cdef Py_ssize_t length, tail
    cdef const uint8_t *text
    cdef const uint8_t *ending
    cdef const uint8_t *data
    cdef Source source
    cdef int64_t offset, size, count = 0
    cdef list others = []
    cdef bytearray piece = None
    if writer.runs is None:
        raise ValueError("call collect() first")
    for key, byte_range in frames.items():
        if byte_range is None:
            continue
        count += 1
        if count % EACH == 0:
            PyErr_CheckSignals()
        if members is not None and isinstance(byte_range, renamed) and not PyDict_Contains(appended, key):
            if piece is None:
                piece = bytearray(PIECE)
                members.sort()
            if not _append_renamed(writer, members, key, byte_range, piece):
                others.append(key)
            continue
        text = ascii_text(<PyObject *> key, &length)
        if text == NULL or length > 200 or not isinstance(byte_range, made) or PyDict_Contains(appended, key):
            others.append(key)
            continue
        source, offset, size = byte_range
        ending = ascii_text(<PyObject *> byte_range.suffix, &tail)
        description = byte_range.description
        if (ending == NULL or tail > 16 or type(description) is not bytes or source.base == NULL or source.path is not None
                or not 0 < size <= MOST_FRAME or offset < 0 or offset > source.size - size):
            others.append(key)
            continue
        length -= 1
        memcpy(name, text + 1, <size_t> length)
        memcpy(name + length, ending, <size_t> tail)
        data = source.base + offset
        writer.add_leaf(name, <uint32_t> (length + tail), <uint32_t> stem_length(name, length + tail), data, size,
                        zip_checksum(0, data, <size_t> size), description)
        if writer._pending.used >= COLLECTED:
            writer._drain()
    return others


cdef bint _append_renamed(ArchiveWriter writer, KeyTable members, str key, byte_range, bytearray piece) except -1:
    """Append a member under another name, with the checksum that it has: damage is not hidden; False where it is no member.

    Its bytes are copied, and nothing of them is looked at.
    """
    cdef bytes name = key.encode("utf-8", "surrogateescape")[1:]
    cdef bytes old = byte_range.origin.encode("utf-8", "surrogateescape")[1:]
    cdef bytes description = b""
    cdef Archive archive = members.archive
    cdef Source source = archive.source
    cdef Member member
    cdef int64_t record, position, header, offset, size, done = 0
    cdef Py_ssize_t stem = PyBytes_GET_SIZE(name)
    cdef uint8_t *buffer = <uint8_t *> PyByteArray_AS_STRING(piece)
    cdef uint8_t first[32]
    cdef int64_t known = 0
    record = members.lookup(<const uint8_t *> PyBytes_AS_STRING(old), PyBytes_GET_SIZE(old))
    if record < 0 or byte_range[0] is not source:
        return False
    archive.member_at(record, &member)
    offset = archive.locate(&member)
    if byte_range[1] != offset or byte_range[2] != member.size or member.name_length <= PyBytes_GET_SIZE(old):
        return False
    # The suffix is that of the stored name.
    name += (<const char *> member.name)[PyBytes_GET_SIZE(old):member.name_length]
    if PyBytes_GET_SIZE(name) > MOST_STORED_NAME:
        return False
    if members.catalog is not None:
        position = members.bound(<const uint8_t *> PyBytes_AS_STRING(old), PyBytes_GET_SIZE(old), False)
        if position >= 0 and members.record_offset(position) == record:
            try:
                description = members.catalog.description(position)
            except FormatError:     # what is damaged in it is made anew
                pass
    header = writer._written + writer._pending.used
    known = min(member.size, <int64_t> sizeof(first))
    source.check(source.read_into(offset, known, first), offset, known)
    writer._begin(<const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), member.size, member.crc,
                  gains_by_alignment(first, known))
    while done < member.size:
        size = min(member.size - done, <int64_t> PIECE)
        source.check(source.read_into(offset + done, size, buffer), offset + done, size)
        writer._add(buffer, size)
        done += size
    writer.note_leaf(<const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), <uint32_t> stem, header,
                     member.size, member.crc, description)
    if writer._pending.used >= COLLECTED:
        writer._drain()
    return True
