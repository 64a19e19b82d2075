# cython: language_level=3, boundscheck=False, wraparound=False
"""Whole frames of arrays that are one block: the items are compressed and put between parts that stay the same."""

import os

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.codec.codec cimport Encoder
from blosc2._core.codec.chunk cimport CHUNK_HEADER

cnp.import_array()

cdef enum:
    # Where a header has the length of the frame and that of its chunks.
    FRAME_LEN = 16
    CBYTES = 39
    # Chunks that are compressed sooner than others would be let run meanwhile.
    QUICK = 2048
    # Compression contexts that wait to be used again; some need much memory.
    MOST_IDLE = 16

# Templates whose encoder waits, in a ring.
cdef list _holders = [None] * MOST_IDLE
cdef int _turn = 0


cdef inline void _put64(uint8_t *to, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(7, -1, -1):
        to[i] = <uint8_t> value
        value >>= 8


cdef class Template:
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

    cdef bytes header, tail, zeros
    cdef bytes raw          # header of a chunk that is stored as it is; None until asked for
    cdef int32_t nbytes
    cdef object encoding
    cdef Encoder idle
    cdef bint held      # whether the ring has it

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
        cdef Py_ssize_t header = PyBytes_GET_SIZE(self.header), tail = PyBytes_GET_SIZE(self.tail), i
        cdef const uint8_t *source
        cdef uint8_t *p
        cdef uint8_t seen = 0
        cdef bytes result
        if cnp.PyArray_NBYTES(items) != self.nbytes or not cnp.PyArray_IS_C_CONTIGUOUS(items):
            return None
        if self.raw is None:
            self.raw = self.raw_header()
        if PyBytes_GET_SIZE(self.raw) == 0:
            return None
        source = <const uint8_t *> cnp.PyArray_DATA(items)
        for i in range(self.nbytes):
            seen |= source[i]
        if not seen:
            return None
        result = PyBytes_FromStringAndSize(NULL, header + CHUNK_HEADER + self.nbytes + tail)
        p = <uint8_t *> PyBytes_AS_STRING(result)
        memcpy(p, PyBytes_AS_STRING(self.header), header)
        _put64(p + FRAME_LEN, header + CHUNK_HEADER + self.nbytes + tail)
        _put64(p + CBYTES, CHUNK_HEADER + self.nbytes)
        p += header
        memcpy(p, PyBytes_AS_STRING(self.raw), CHUNK_HEADER)
        memcpy(p + CHUNK_HEADER, source, self.nbytes)
        memcpy(p + CHUNK_HEADER + self.nbytes, PyBytes_AS_STRING(self.tail), tail)
        return result

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
        _put64(room + FRAME_LEN, header + size + PyBytes_GET_SIZE(tail))
        _put64(room + CBYTES, size)
        return PyBytes_FromStringAndSize(<const char *> room, header + size + PyBytes_GET_SIZE(tail))

    cdef Encoder take(self):
        """An encoder that nobody else has."""
        cdef Encoder encoder = self.idle
        self.idle = None
        if encoder is None:
            encoder = Encoder(self.encoding)
            encoder.prepare(self.nbytes)
        return encoder

    cdef int give_back(self, Encoder encoder) except -1:
        global _turn
        cdef Template other
        if not encoder.is_small():
            return 0
        if not self.held:
            other = _holders[_turn]
            if other is not None:
                other.held = False
                other.idle = None
            _holders[_turn] = self
            _turn = (_turn + 1) % MOST_IDLE
            self.held = True
        self.idle = encoder
        return 0


def forget_idle():
    """Release the encoders that wait."""
    cdef Template template
    cdef int i
    for i in range(MOST_IDLE):
        template = _holders[i]
        if template is not None:
            template.held = False
            template.idle = None
            _holders[i] = None
