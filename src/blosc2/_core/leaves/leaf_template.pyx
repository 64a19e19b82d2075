# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""A leaf of an archive that others are compared with, so that they need not be opened.

Leaves that are read together are mostly alike. One is opened on the slow path; its checks hold for each leaf whose
header has the same bytes, except for the lengths of frame and chunk. Other leaves are left to the caller, who makes one
of them the template or opens them one by one. So everything that is accepted here is accepted there too.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.memory cimport read_once, read_once_big
from blosc2._core.zip.records cimport LOCAL_LENGTH
from blosc2._core.codec.codec cimport DecodeContext, decode_whole_chunk
from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, Chunk, inspect
from blosc2._core.frame.frame cimport MIN_TRAILER, TRAILER_TAIL, Frame
from blosc2._core.ndim.geometry cimport Geometry
from blosc2._core.io.endian cimport u32

cdef enum:
    # Bytes of a table of offsets that is compared.
    MOST_INDEX = 4096
    # Fields of a header: length of the frame, and of its chunks.
    FRAME_LEN = 16
    CBYTES = 39
    # What the length of a trailer follows.
    TRAILER_MARK = 0xCE


cdef class LeafTemplate:
    """A leaf that others are compared with: a frame of one chunk, whose bytes are the items in order.

    Attributes
    ----------
    fits : bool
        Whether it is such a frame; otherwise no leaf is like it.
    """

    def __cinit__(self, Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
        frame.load_index()
        if (frame.chunk_count != 1 or frame.header == NULL or frame.entry(0) != 0 or geometry.c.nchunks != 1
                or not geometry.c.in_order or geometry.c.size == 0 or frame.needs_geometry or frame.variable
                or geometry.c.chunk_nbytes != geometry.c.size * geometry.c.itemsize):
            return
        at = frame.chunks_stop - frame.offset
        room = frame.frame_len - frame.trailer_len - at
        if room > MOST_INDEX:
            return
        self.index_bytes = frame.source.read(frame.offset + at, room)
        self.index, self.index_len = <const uint8_t *> PyBytes_AS_STRING(self.index_bytes), room
        self.frame, self.geometry, self.dtype = frame, geometry, dtype
        self.header, self.header_len = frame.header, frame.header_len
        self.row = geometry.c.chunk_nbytes
        self.fits = True

    cdef bint match(self, const uint8_t *name, int64_t length, int64_t size, const uint8_t *p, int64_t room, int64_t *chunk,
                    int64_t *chunk_size) noexcept nogil:
        """Whether a member is like it, from its local header on; where its chunk is behind that."""
        cdef int64_t start
        cdef uint32_t lengths
        cdef int64_t trailer_len
        cdef uint64_t cbytes, tail
        cdef const uint8_t *trailer
        cdef const uint8_t *h = self.header
        if room < LOCAL_LENGTH or u32(p) != 0x04034B50:
            return False
        lengths = <uint32_t> (read_once(p + 22) >> 32)
        if <int64_t> (lengths & 0xFFFF) != length or length > room - LOCAL_LENGTH:
            return False
        if memcmp(p + LOCAL_LENGTH, name, <size_t> length):
            return False
        start = LOCAL_LENGTH + length + (lengths >> 16)
        if start > room or size > room - start or size < (
                self.header_len + CHUNK_HEADER + self.index_len + MIN_TRAILER):
            return False
        p += start
        if read_once_big(p + FRAME_LEN) != <uint64_t> size:
            return False
        cbytes = read_once_big(p + CBYTES)
        if cbytes < CHUNK_HEADER or cbytes > <uint64_t> (size - self.header_len - self.index_len - MIN_TRAILER):
            return False
        if memcmp(p, h, FRAME_LEN) or memcmp(p + FRAME_LEN + 8, h + FRAME_LEN + 8, CBYTES - FRAME_LEN - 8):
            return False
        if memcmp(p + CBYTES + 8, h + CBYTES + 8, <size_t> (self.header_len - CBYTES - 8)):
            return False
        # One chunk, right behind the header.
        if memcmp(p + self.header_len + cbytes, self.index, <size_t> self.index_len):
            return False
        # What the slow path looks at of a trailer: its length, at the end, and that it begins there.
        tail = read_once_big(p + size - TRAILER_TAIL) >> 24
        trailer_len = <uint32_t> tail
        if tail >> 32 != TRAILER_MARK or trailer_len < MIN_TRAILER or (
                trailer_len > size - self.header_len - <int64_t> cbytes - self.index_len):
            return False
        trailer = p + size - trailer_len
        if trailer[0] != 0x94 or trailer[1] != 1:
            return False
        chunk[0] = start + self.header_len
        chunk_size[0] = <int64_t> cbytes
        return True

    cdef bint decode(self, DecodeContext *context, const uint8_t *p, int64_t size, uint8_t *to) noexcept nogil:
        """Decode the chunk of such a leaf; False for one that takes the slow path."""
        cdef Chunk chunk
        if inspect(p, size, &chunk):
            return False
        if chunk.nbytes != self.row or chunk.variable or chunk.needs_geometry or chunk.kind < KIND_RAW:
            return False
        chunk.loaded = chunk.cbytes
        if chunk.kind == KIND_RAW:
            memcpy(to, p + CHUNK_HEADER, <size_t> self.row)
            return True
        return decode_whole_chunk(context, &chunk, to) == CHUNK_OK
