# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The parts of a contiguous frame as bytes: header, offsets table, trailer (FORMATS, section 1); whole frames of small arrays.

A `Frame` says what the fields are. The layers above decide where the parts go, and in which order.
"""

import os
import struct

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from blosc2._core.codec.chunk cimport CHUNK_HEADER
from blosc2._core.codec.codec cimport DecodeContext, Encoder, reserve
from blosc2._core.codec.thread_pool cimport MOST_WORKERS, Job, WorkerGroup, acquire_group, release_group, run_in_group
from blosc2._core.io.endian cimport put_big
from blosc2._core.io.checksum cimport zip_checksum
from blosc2._core.io.source cimport Source
from blosc2._core.io.steps cimport counter_next, step_begin, step_end, step_lock

from blosc2._core.codec.codec import Encoder, Encoding

_MAGIC = b"\x9e\xa8b2frame\x00"
_FIXED = struct.Struct(">10s Bi BQ B4B Bq Bq Bi Bi Bi Bh Bh B BB 6B BB 6B BB")
# The largest table that is written raw without asking the compressor.
_RAW_TABLE = 256
# A table is one chunk, of 8 bytes for each chunk of the frame.
_MOST_CHUNKS = 2147483615 // 8
_INDEX_ENCODING = Encoding(0, 0, 5, False, 8, 16384, 3, (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0))


def special_chunk(int kind, int32_t nbytes, int32_t typesize, int32_t blocksize, bytes item=b""):
    """A stored chunk without payload: zeros, NaN, undefined, or one repeated item.

    A block size that no header should have stands for one block, as 0 does.
    """
    header = bytearray(CHUNK_HEADER)
    header[0:4] = bytes((5, 1, 5, typesize if typesize <= 255 else 1))
    header[4:8] = nbytes.to_bytes(4, "little")
    header[8:12] = (min(blocksize, nbytes) if blocksize > 0 else nbytes).to_bytes(4, "little")
    header[12:16] = (CHUNK_HEADER + len(item)).to_bytes(4, "little")
    header[31] = kind << 4
    return bytes(header) + item


def header_length(dict metalayers):
    """Bytes of a header with these metalayers."""
    return 97 + sum([11 + len(name.encode()) + len(content) for name, content in metalayers.items()])


def pack_header(frame, dict metalayers, bint has_vlmeta, frame_len, nbytes, cbytes):
    """The header of a frame with the parameters of `frame` and these sizes."""
    cdef int header_len = header_length(metalayers)
    codec = frame.codec if frame.codec < 6 else 6
    fixed = _FIXED.pack(
        _MAGIC, 0xD2, header_len, 0xCF, frame_len, 0xA4, frame.flags, 0, codec | frame.clevel << 4,
        (frame.splitmode - 1) & 3, 0xD3, nbytes, 0xD3, cbytes, 0xD2, frame.typesize, 0xD2, frame.blocksize,
        0xD2, frame.chunksize, 0xD1, 1, 0xD1, 1, 0xC3 if has_vlmeta else 0xC2, 0xD8, 6, *frame.filters,
        frame.codec, frame.codec_meta, *frame.filters_meta, frame.use_dict, 0)
    return fixed + _table(metalayers, 87, 7)


cdef bytes _table(dict contents, int64_t at, int64_t size):
    """A table of names that begins at a byte of its part, and the contents; `size` is what it says that it has without names.

    The field for the size has 16 bits, of some 1,700 names. Nobody reads it; of more it has the low ones.
    """
    cdef list names = [name.encode() for name in contents], values = [struct.pack(">BH", 0xDC, len(names))], parts
    size += sum([6 + len(name) for name in names])
    parts = [struct.pack(">BBHBH", 0x93, 0xCD, size & 0xFFFF, 0xDE, len(names))]
    at += size + 3
    for name, content in zip(names, contents.values()):
        parts.append(struct.pack(f">B{len(name)}sBi", 0xA0 | len(name), name, 0xD2, at))
        values += (struct.pack(">BI", 0xC6, len(content)), content)
        at += 5 + len(content)
    return b"".join(parts + values)


def pack_index(offsets, count):
    """The chunk that holds the table of offsets.

    Parameters
    ----------
    offsets : int64 array, or int
        One entry for each chunk, or the one that all share.
    """
    if count > _MOST_CHUNKS:
        raise ValueError(f"{count} chunks are too many for one frame, at most {_MOST_CHUNKS} are possible: "
                         "choose larger chunks")
    if isinstance(offsets, int):
        return special_chunk(3, 8 * count, 8, 8 * count, struct.pack("<q", offsets))
    table = offsets.astype("<i8", "C", copy=False)    # there may be millions, and no room for another copy
    if table.nbytes <= _RAW_TABLE:
        header = struct.pack("<4B3i6B2B6B2B", 5, 1, 7, 8, table.nbytes, table.nbytes, table.nbytes + 32,
                             0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return header + table.tobytes()
    return Encoder(_INDEX_ENCODING).encode_bytes(table)


def pack_trailer(dict vlmeta):
    """The trailer with these entries: name -> stored chunk."""
    table = _table(vlmeta, 3, 6)
    return b"\x94\x01" + table + struct.pack(">BIBB16x", 0xCE, len(table) + 25, 0xD8, 0)


# Whole frames of arrays that are one block: the items are compressed and put between parts that stay the same.


cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef enum:
    # Where a header has the length of the frame and that of its chunks.
    FRAME_LEN = 16
    CBYTES = 39
    # Chunks that are compressed sooner than others would be let run meanwhile.
    QUICK = 2048
    # Compression contexts that wait to be used again; some need much memory.
    MOST_IDLE = 16
    # Kinds of arrays that a store remembers, their axes, and bytes of such an array.
    MOST_KINDS = 8
    MOST_RAW = 4096

# Templates whose encoder waits, in a ring. The ring, and the encoder of each template, change in one step.
cdef list _holders = [None] * MOST_IDLE
cdef int _turn = 0
cdef step_lock _ring


cdef class SmallFrameTemplate:
    """Everything of a frame but its one chunk.

    Parameters
    ----------
    header : bytes
        With any lengths of frame and chunks.
    tail : bytes
        What follows a stored chunk.
    zeros : bytes
        What follows the header of an array of zeros.
    nbytes : int
        Uncompressed bytes of the chunk, which are those of the items in C order.
    encoding : Encoding
        One that needs no geometry.
    """

    def __init__(self, bytes header not None, bytes tail not None, bytes zeros not None, int32_t nbytes, encoding):
        if PyBytes_GET_SIZE(header) < CBYTES + 8 or nbytes < 1:
            raise ValueError("this is no header of a frame with data")
        self.header = header
        self.tail = tail
        self.zeros = zeros
        self.nbytes = nbytes
        self.encoding = encoding

    def raw_frame(self, cnp.ndarray items not None):
        """The frame of these items stored as they are; None where they are all zero, or not to be had as bytes."""
        cdef RawKind kind = self.raw_kind()
        return None if kind is None or not kind.takes(items) else kind.frame(items)

    cdef RawKind raw_kind(self):
        """What is around the items when they are stored as they are; None where that is not how noise is stored."""
        cdef Py_ssize_t header = PyBytes_GET_SIZE(self.header)
        cdef RawKind kind
        cdef bytes raw
        cdef uint8_t *p
        with cython.critical_section(self):
            if self.raw_tried:
                return self.raw
        raw = self.raw_header()
        with cython.critical_section(self):
            if not self.raw_tried and PyBytes_GET_SIZE(raw):    # another thread may have been faster
                kind = RawKind.__new__(RawKind)
                kind.nbytes = self.nbytes
                kind.before, kind.behind = self.header + raw, self.tail
                p = <uint8_t *> PyBytes_AS_STRING(kind.before)
                put_big(p + FRAME_LEN, <uint64_t> (header + CHUNK_HEADER + self.nbytes + PyBytes_GET_SIZE(self.tail)), 8)
                put_big(p + CBYTES, <uint64_t> (CHUNK_HEADER + self.nbytes), 8)
                self.raw = kind
            self.raw_tried = True
            return self.raw

    cdef bytes raw_header(self):
        """The header that the encoder gives a chunk of noise; empty where it does not store that as it is."""
        cdef Encoder encoder
        cdef bytes noise = os.urandom(self.nbytes)
        cdef bytes room = PyBytes_FromStringAndSize(NULL, self.nbytes + CHUNK_HEADER)
        cdef int32_t size
        encoder = self.take()
        size = encoder.encode(<const uint8_t *> PyBytes_AS_STRING(noise), <uint8_t *> PyBytes_AS_STRING(room),
                              self.nbytes + CHUNK_HEADER)
        if size < CHUNK_HEADER:
            return b""
        self.give_back(encoder)
        return room[:CHUNK_HEADER] if size == self.nbytes + CHUNK_HEADER and room[CHUNK_HEADER:] == noise else b""

    def frame(self, cnp.ndarray items not None):
        """The frame of these items; None where it has to be made in another way."""
        cdef Encoder encoder
        cdef uint8_t *room
        cdef const uint8_t *source
        cdef Py_ssize_t header = PyBytes_GET_SIZE(self.header)
        cdef int32_t size, most = self.nbytes + CHUNK_HEADER
        if cnp.PyArray_NBYTES(items) != self.nbytes:
            return None
        if not cnp.PyArray_IS_C_CONTIGUOUS(items):
            if items.dtype.names is not None:
                return None     # NumPy copies fields, not what lies between them
            items = cnp.PyArray_GETCONTIGUOUS(items)
        source = <const uint8_t *> cnp.PyArray_DATA(items)
        encoder = self.take()
        room = <uint8_t *> PyMem_Malloc(header + most + max(PyBytes_GET_SIZE(self.tail), PyBytes_GET_SIZE(self.zeros)))
        if room == NULL:
            raise MemoryError
        try:
            if self.nbytes <= QUICK:
                size = encoder.encode(source, room + header, most)
            else:
                with nogil:
                    size = encoder.encode(source, room + header, most)
            if size < CHUNK_HEADER:
                return None     # nobody knows what state the encoder is in
            self.give_back(encoder)
            return self.around(room, size)
        finally:
            PyMem_Free(room)

    cdef bytes around(self, uint8_t *room, Py_ssize_t size):
        """The frame of a chunk that lies where it has to."""
        cdef Py_ssize_t header = PyBytes_GET_SIZE(self.header)
        cdef bytes tail = self.tail
        if size == CHUNK_HEADER and room[header + 31] >> 4 == 1:
            size = 0
            tail = self.zeros
        memcpy(room, PyBytes_AS_STRING(self.header), header)
        memcpy(room + header + size, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
        put_big(room + FRAME_LEN, <uint64_t> (header + size + PyBytes_GET_SIZE(tail)), 8)
        put_big(room + CBYTES, <uint64_t> (size), 8)
        return PyBytes_FromStringAndSize(<const char *> room, header + size + PyBytes_GET_SIZE(tail))

    cdef Encoder take(self):
        """An encoder that nobody else has."""
        cdef Encoder encoder
        step_begin(&_ring)
        encoder, self.idle = self.idle, None
        step_end(&_ring)
        if encoder is None:
            encoder = Encoder(self.encoding)
            encoder.prepare(self.nbytes)
        return encoder

    cdef int give_back(self, Encoder encoder) except -1:
        global _turn
        cdef SmallFrameTemplate other = None
        cdef Encoder gone = None    # what leaves the ring, freed behind the step
        if not encoder.is_small():
            return 0
        step_begin(&_ring)
        if not self.held:
            other = <SmallFrameTemplate> _holders[_turn]
            if other is not None:
                other.held = False
                gone, other.idle = other.idle, None
            _holders[_turn] = self
            _turn = (_turn + 1) % MOST_IDLE
            self.held = True
        if self.idle is None:
            self.idle = encoder
        step_end(&_ring)
        return 0


cdef class RawKind:
    """What is around the bytes of arrays of one kind in a frame that stores them as they are."""

    cdef bint takes(self, cnp.ndarray items) noexcept:
        """Whether an array of this kind is stored so: one that is all zero is not."""
        cdef const uint8_t *source
        cdef int32_t i
        if cnp.PyArray_NBYTES(items) != self.nbytes or not cnp.PyArray_IS_C_CONTIGUOUS(items):
            return False
        source = <const uint8_t *> cnp.PyArray_DATA(items)
        for i in range(self.nbytes):
            if source[i]:
                return True
        return False

    cdef int64_t size(self) noexcept:
        """Bytes of a frame."""
        return PyBytes_GET_SIZE(self.before) + self.nbytes + PyBytes_GET_SIZE(self.behind)

    cdef uint8_t *write(self, uint8_t *p, cnp.ndarray items) noexcept:
        """Write the frame of an array that it takes; what follows is returned."""
        memcpy(p, PyBytes_AS_STRING(self.before), PyBytes_GET_SIZE(self.before))
        p += PyBytes_GET_SIZE(self.before)
        memcpy(p, cnp.PyArray_DATA(items), self.nbytes)
        p += self.nbytes
        memcpy(p, PyBytes_AS_STRING(self.behind), PyBytes_GET_SIZE(self.behind))
        return p + PyBytes_GET_SIZE(self.behind)

    cdef bytes frame(self, cnp.ndarray items):
        """The frame of an array that it takes."""
        cdef bytes result = PyBytes_FromStringAndSize(NULL, self.size())
        self.write(<uint8_t *> PyBytes_AS_STRING(result), items)
        return result


cdef class RawKinds:
    """The kinds met last of arrays that a store keeps as they are.

    Parameters
    ----------
    learn : callable
        Gives the template of an array and its description; None for arrays that are written in another way.
    now, made_from : dict
        The compression parameters as they are, and as they were when this was made: it serves as long as they are equal.
    """

    def __cinit__(self, learn, dict now not None, dict made_from not None):
        self.learn, self.now, self.made_from = learn, now, made_from
        self.kinds = [None] * MOST_KINDS

    cdef bint serves(self) except -1:
        return self.now == self.made_from   # mostly the very same objects, which are not looked at

    @cython.critical_section
    cdef RawKind kind_at(self, int i):
        return <RawKind> self.kinds[i]

    cdef RawKind kind_of(self, cnp.ndarray items):
        """The kind of an array that can be stored as it is; None for another one."""
        cdef RawKind kind
        cdef int i, d
        cdef int ndim = cnp.PyArray_NDIM(items)
        for i in range(MOST_KINDS):
            kind = self.kind_at(i)
            if kind is None:
                break
            if <PyObject *> kind.dtype != <PyObject *> cnp.PyArray_DESCR(items) or kind.ndim != ndim:
                continue
            for d in range(ndim):
                if kind.shape[d] != cnp.PyArray_DIM(items, d):
                    break
            else:
                return kind if kind.takes(items) else None
        if ndim > MOST_AXES or cnp.PyArray_NBYTES(items) > MOST_RAW or items.dtype.names is not None:
            return None
        return self._learn(items)

    cdef object items_of(self, description, Source source, int64_t offset, int64_t size):
        """The items in a frame that was made here; None for another one."""
        cdef RawKind kind
        cdef cnp.npy_intp dims[MOST_AXES]
        cdef cnp.ndarray out
        cdef int i, d
        for i in range(MOST_KINDS):
            kind = self.kind_at(i)
            if kind is None:
                break
            if kind.description is not description or size != kind.size() or source.base == NULL or (
                    offset < 0 or offset > source.size - size):
                continue
            for d in range(kind.ndim):
                dims[d] = kind.shape[d]
            Py_INCREF(kind.dtype)       # the next call steals one reference
            out = PyArray_Empty(kind.ndim, dims, kind.dtype, 0)
            memcpy(cnp.PyArray_DATA(out), source.base + offset + PyBytes_GET_SIZE(kind.before), <size_t> kind.nbytes)
            return out
        return None

    cdef RawKind _learn(self, cnp.ndarray items):
        cdef SmallFrameTemplate template
        cdef RawKind kind, made
        cdef int d
        found = self.learn(items)
        if found is None:
            return None
        template, description = found
        made = template.raw_kind()
        if made is None:
            return None
        kind = RawKind.__new__(RawKind)
        kind.before, kind.behind, kind.nbytes, kind.description = made.before, made.behind, made.nbytes, description
        kind.crc = zip_checksum(
            0, <const uint8_t *> PyBytes_AS_STRING(kind.before), <size_t> PyBytes_GET_SIZE(kind.before))
        kind.dtype, kind.ndim = items.dtype, cnp.PyArray_NDIM(items)
        for d in range(kind.ndim):
            kind.shape[d] = cnp.PyArray_DIM(items, d)
        with cython.critical_section(self):
            before = self.kinds[self.turn]      # freed behind the step
            self.kinds[self.turn] = kind
            self.turn = (self.turn + 1) % MOST_KINDS
        return kind if kind.takes(items) else None


def forget_idle():
    """Release the encoders that wait."""
    cdef SmallFrameTemplate template
    cdef list gone = [None] * MOST_IDLE     # freed behind the step
    cdef int i
    step_begin(&_ring)
    for i in range(MOST_IDLE):
        template = <SmallFrameTemplate> _holders[i]
        if template is not None:
            template.held = False
            gone[i], template.idle = (template, template.idle), None
            _holders[i] = None
    step_end(&_ring)


# The frames of several small arrays, compressed by several threads without the GIL.


cdef enum:
    # Templates of one batch: each thread has a compression context for each.
    MOST_TEMPLATES = 4


cdef struct Task:
    int64_t items   # where the copy of its items begins
    int64_t room    # where its frame is made
    int32_t nbytes
    int32_t size    # of its chunk, or a negative status
    int32_t number  # of its template
    int32_t header  # bytes in front of the chunk


cdef void _work(FrameBatch batch, DecodeContext *context, void **encoders) noexcept nogil:
    batch.work(encoders)


cdef int32_t _encode(Encoder encoder, const uint8_t *items, uint8_t *room, int32_t most) noexcept nogil:
    return encoder.encode(items, room, most)


cdef class FrameBatch:
    """Copies of small arrays, whose frames are made together. `clear` makes it ready for others."""

    cdef readonly int64_t count, nbytes
    cdef int64_t next_task
    cdef list templates, encoders
    cdef uint8_t *items
    cdef uint8_t *rooms
    cdef Task *tasks
    cdef int64_t items_size, rooms_size, tasks_size, rooms_used
    cdef void *tools[MOST_WORKERS + 1][MOST_TEMPLATES]

    def __cinit__(self):
        self.templates, self.encoders = [], []

    def __dealloc__(self):
        free(self.items)
        free(self.rooms)
        free(self.tasks)

    def clear(self):
        """Forget the arrays, and keep contexts and memory."""
        self.count = self.nbytes = self.rooms_used = self.next_task = 0

    def add(self, SmallFrameTemplate template not None, cnp.ndarray items not None):
        """Take a copy of an array. Returns False if it has to be compressed in another way."""
        cdef Task *task
        cdef int32_t number = 0
        cdef int64_t room
        if cnp.PyArray_NBYTES(items) != template.nbytes or not cnp.PyArray_IS_C_CONTIGUOUS(items):
            return False
        for known in self.templates:
            if known is template:
                break
            number += 1
        else:
            if number == MOST_TEMPLATES:
                return False
            self.templates.append(template)
        room = PyBytes_GET_SIZE(template.header) + template.nbytes + CHUNK_HEADER + max(
            PyBytes_GET_SIZE(template.tail), PyBytes_GET_SIZE(template.zeros))
        if (reserve(<uint8_t **> &self.tasks, &self.tasks_size, (self.count + 1) * <int64_t> sizeof(Task)) == NULL
                or reserve(&self.items, &self.items_size, self.nbytes + template.nbytes) == NULL
                or reserve(&self.rooms, &self.rooms_size, self.rooms_used + room) == NULL):
            raise MemoryError
        task = &self.tasks[self.count]
        task.items, task.room, task.nbytes, task.number = self.nbytes, self.rooms_used, template.nbytes, number
        task.header, task.size = <int32_t> PyBytes_GET_SIZE(template.header), 0
        memcpy(self.items + self.nbytes, cnp.PyArray_DATA(items), <size_t> template.nbytes)
        self.nbytes += template.nbytes
        self.rooms_used += room
        self.count += 1
        return True

    def items_at(self, int64_t number):
        """The copy of an array, as bytes."""
        if not 0 <= number < self.count:
            raise IndexError(f"there is no array {number}")
        return PyBytes_FromStringAndSize(
            <const char *> self.items + self.tasks[number].items, self.tasks[number].nbytes)

    def frames(self, int threads):
        """Make the frames, in up to so many threads. Returns a list; None for one that has to be made in another way."""
        cdef WorkerGroup group
        cdef SmallFrameTemplate template
        cdef Task *task
        cdef int64_t n
        cdef int i
        cdef list made = []
        try:
            acquire_group(&group, min(threads, self.count) - 1, <void *> self, <Job> _work, 0)
            for i in range(group.count + 1):
                self._make_encoders(i)
            for i in range(group.count):
                group.workers[i].tool = <void *> self.tools[i + 1]
            self.next_task = 0
            with nogil:
                run_in_group(&group, <void *> self, <Job> _work, <void *> self.tools[0])
        finally:
            release_group(&group)
        for n in range(self.count):
            task = &self.tasks[n]
            template = self.templates[task.number]
            if task.size < CHUNK_HEADER:
                made.append(None)
                self.encoders = []  # nobody knows what state they are in
            else:
                made.append(template.around(self.rooms + task.room, task.size))
        return made

    cdef int _make_encoders(self, int thread) except -1:
        """See to it that a thread has an encoder for each template."""
        cdef SmallFrameTemplate template
        cdef Encoder encoder
        cdef list own
        cdef int number
        while len(self.encoders) <= thread:
            self.encoders.append([])
        own = self.encoders[thread]
        for number in range(len(own), len(self.templates)):
            template = self.templates[number]
            encoder = Encoder(template.encoding)
            encoder.prepare(template.nbytes)
            own.append(encoder)
        for number in range(len(own)):
            self.tools[thread][number] = <void *> (<object> own[number])
        return 0

    cdef void work(self, void **encoders) noexcept nogil:
        cdef Task *task
        cdef int64_t n
        while True:
            n = counter_next(&self.next_task)
            if n >= self.count:
                return
            task = &self.tasks[n]
            task.size = _encode(<Encoder> encoders[task.number], self.items + task.items,
                                self.rooms + task.room + task.header, task.nbytes + CHUNK_HEADER)
