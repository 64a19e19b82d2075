# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The checksums of a frame: writing them, and computing them from its bytes (doc/design/checksums.md); checking that chunks decode.

The layers above decide whether a frame has checksums and what a wrong one means.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec.chunk cimport (
    CHUNK_HEADER, CHUNK_OK, KIND_REGULAR, MOST_STEPS, NO_MEMORY, Chunk, check_starts, extent, inspect)
from blosc2._core.codec.codec cimport DecodeContext, borrow, decode_block, decode_whole_chunk, give_back
from blosc2._core.frame.frame cimport (
    CHECKSUMS_MARK, CHECKSUMS_MARK_AT, CHECKSUMS_TAIL, MIN_HEADER, TRAILER_TAIL, ChunkTable)
from blosc2._core.io.endian cimport put32, put_big
from blosc2._core.io.checksum cimport checksum, sum_range
from blosc2._core.io.source cimport READ_OK, Buffer, Source, integers, readable

from blosc2._core.allocation import allowed, too_much
from blosc2._core.codec.codec import reason
from blosc2.exceptions import FormatError

cdef enum:
    MAX_TRAILER = 0x7FFFFFFF


cdef int _odd(uint64_t value) noexcept nogil:
    """Whether the number of ones is odd."""
    cdef int odd = 0
    while value:
        odd ^= 1
        value &= value - 1
    return odd


def has_odd_parity(uint64_t value):
    """Whether a number has an odd number of ones, which no frame_len of a frame with checksums has."""
    return bool(_odd(value))


def with_checksums(header, trailer, int64_t before, checksums, uint32_t body, uint32_t index):
    """Header and trailer of a frame, with its length and checksums.

    Parameters
    ----------
    header, trailer : bytes-like
        Complete, but for the length of the frame, and without checksums.
    before : int
        Bytes of the frame before its trailer, the header included.
    checksums : bytes-like
        Those of the stored chunks, 4 bytes each.
    body, index : int
        Checksums of all bytes between header and trailer, and of the index.
    """
    cdef Buffer old_header = readable(header), old_trailer = readable(trailer), sums = readable(checksums)
    cdef int64_t old = old_trailer.size - TRAILER_TAIL
    cdef int64_t many = sums.size
    cdef int64_t size = many + CHECKSUMS_TAIL
    cdef int64_t total
    cdef bytes new_header, new_trailer
    cdef uint8_t *h
    cdef uint8_t *t
    cdef uint8_t *p
    if old_header.size < MIN_HEADER or old < 0:
        raise ValueError("a header of at least 97 bytes and a trailer of 23 are needed")
    while _odd(before + old + size + TRAILER_TAIL):
        size += 1
    total = old + size + TRAILER_TAIL
    if total > MAX_TRAILER:
        raise ValueError("too many chunks for a trailer with their checksums")
    new_header = PyBytes_FromStringAndSize(<const char *> old_header.data, old_header.size)
    new_trailer = PyBytes_FromStringAndSize(NULL, total)
    h = <uint8_t *> PyBytes_AS_STRING(new_header)
    t = <uint8_t *> PyBytes_AS_STRING(new_trailer)
    put_big(h + 16, before + total, 8)
    h[CHECKSUMS_MARK_AT] = CHECKSUMS_MARK
    memcpy(t, old_trailer.data, old)
    p = t + old
    memset(p, 0, size - CHECKSUMS_TAIL - many)
    p += size - CHECKSUMS_TAIL - many
    if many:
        memcpy(p, sums.data, many)
    p += many
    memcpy(p, b"\xc1b2sums\x01", 8)
    put32(p + 8, <uint32_t> size)
    put32(p + 12, body)
    put32(p + 16, index)
    put32(p + 20, checksum(0, h, old_header.size))
    put32(p + 24, 0)
    memcpy(p + CHECKSUMS_TAIL, old_trailer.data + old, TRAILER_TAIL)
    put_big(p + CHECKSUMS_TAIL + 1, total, 4)
    put32(p + 24, checksum(0, t, total))
    return new_header, new_trailer


def range_checksum(Source source not None, int64_t offset, int64_t length, uint32_t before=0):
    """Checksum of a range of a source, behind bytes of a known checksum."""
    cdef uint32_t crc = before
    if offset < 0 or length < 0 or offset > source.size or length > source.size - offset:
        raise FormatError(f"{length} bytes are wanted here but the file has {source.size}",
                          path=source.path, offset=offset)
    sum_range(source, offset, length, False, &crc)
    return crc


def checksums_of(ChunkTable frame not None):
    """Checksums of a frame as it lies in its source: of its stored chunks, of its body, of its index."""
    cdef int64_t start = frame.offset + frame.header_len
    cdef int64_t stop, i
    cdef Chunk chunk
    cdef DecodeContext *context
    cdef uint32_t body = 0, own = 0, index = 0
    cdef bytes checksums
    cdef uint8_t *to
    cdef int status = CHUNK_OK
    checksums = PyBytes_FromStringAndSize(NULL, 4 * stored_chunks(frame))
    stop = frame.offset + frame.frame_len - frame.trailer_len if frame.nbytes else start
    to = <uint8_t *> PyBytes_AS_STRING(checksums)
    context = borrow(0)
    try:
        for i in range(frame.chunk_count):
            if frame.entry(i) < 0:
                continue
            with nogil:
                status = frame.find_chunk(i, context, &chunk)
                if status == CHUNK_OK:
                    status = frame.load_chunk(i, context, &chunk)
                if status == CHUNK_OK:
                    own = checksum(0, chunk.data, chunk.cbytes)
            if status:
                frame.fail(status, i)
            put32(to, own)
            to += 4
    finally:
        give_back(context)
    if frame.nbytes:
        index = range_checksum(frame.source, frame.chunks_stop, index_length(frame))
    body = range_checksum(frame.source, start, stop - start)
    return checksums, body, index


def stored_chunks(ChunkTable frame not None):
    """How many chunks are stored, and not just known to the index."""
    cdef int64_t i, stored = 0
    frame.load_index()
    if frame.offsets == NULL:
        return frame.chunk_count if frame.repeated >= 0 else 0
    for i in range(frame.chunk_count):
        stored += frame.offsets[i] >= 0
    return stored


def stored_lengths(ChunkTable frame not None, offsets):
    """Lengths of the stored chunks at these offsets of the table, 8 bytes each: only their headers are read."""
    cdef Py_ssize_t count = 0
    cdef Buffer held = integers(offsets, 8, &count)
    cdef const int64_t *offset_of = <const int64_t *> held.data
    cdef int64_t i, at = 0
    cdef int read = READ_OK, status = CHUNK_OK
    cdef uint8_t header[CHUNK_HEADER]
    cdef Chunk chunk
    cdef bytes lengths = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
    cdef int64_t *to = <int64_t *> PyBytes_AS_STRING(lengths)
    with nogil:
        for i in range(count):
            at = frame.chunks_start + offset_of[i]
            read = frame.source.read_into(at, CHUNK_HEADER, header)
            if read != READ_OK:
                break
            status = inspect(header, frame.chunks_stop - at, &chunk)
            if status != CHUNK_OK:
                break
            to[i] = chunk.cbytes
    frame.source.check(read, at, CHUNK_HEADER)
    if status != CHUNK_OK:
        raise FormatError(f"a stored chunk: {reason(status)}", path=frame.source.path, key=frame.key, offset=at)
    return lengths


def index_size(ChunkTable frame not None):
    """Bytes of the chunk that holds the offsets; 0 without one."""
    return index_length(frame) if frame.nbytes else 0


cdef int64_t index_length(ChunkTable frame) except -1:
    cdef uint8_t header[CHUNK_HEADER]
    cdef Chunk chunk
    cdef int64_t at = frame.chunks_stop
    cdef int64_t room = frame.offset + frame.frame_len - frame.trailer_len - at
    frame.source.check(frame.fetch(at, CHUNK_HEADER, header), at, CHUNK_HEADER)
    if inspect(header, room, &chunk):
        frame.bad(at - frame.offset, "the offsets table is damaged")
    return chunk.cbytes


# Checking chunks: each block is decoded once, unless its bytes are known without.


cdef enum:
    MOST_DECODED = 8 << 20         # of a larger chunk, blocks are decoded singly
    SHARED = -150           # no status of another module
    UNDECODED = -151


cdef int _survey(const Chunk *chunk, int64_t *others, bint *zeros) noexcept nogil:
    """How many blocks are no runs, and whether all are zeros; an error where blocks share bytes, which no writer does."""
    cdef int64_t used = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int32_t i, start = 0, stop = 0
    cdef int byte = -1, status
    others[0] = 0
    zeros[0] = True
    for i in range(chunk.nblocks):
        status = extent(chunk, i, &start, &stop, &byte)
        if status:
            return status
        used += stop - start
        if used > chunk.cbytes:
            return SHARED
        others[0] += byte < 0
        zeros[0] = zeros[0] and byte == 0
    return CHUNK_OK


cdef int _check_each(DecodeContext *context, Chunk *chunk, uint8_t *room) noexcept nogil:
    """Decode each block that is no run."""
    cdef int32_t i, start = 0, stop = 0
    cdef int byte = -1, status = CHUNK_OK
    for i in range(chunk.nblocks):
        status = extent(chunk, i, &start, &stop, &byte)
        if status == CHUNK_OK and byte < 0:
            status = decode_block(context, chunk, i, room)
        if status:
            return status
    return CHUNK_OK


cdef int _check(DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Whether a loaded chunk is sound; UNDECODED where only decoding all of it tells."""
    cdef int64_t others = 0
    cdef bint zeros = False
    cdef uint8_t *room
    cdef int status
    if chunk.kind != KIND_REGULAR:
        return CHUNK_OK
    if chunk.variable or chunk.needs_geometry:
        return UNDECODED
    status = check_starts(chunk)
    if status:
        return status
    if chunk.dictionary:
        return UNDECODED
    status = _survey(chunk, &others, &zeros)
    if status:
        return status
    if zeros or not (others or chunk.whole):
        return CHUNK_OK
    # The C library takes a step for each block of a chunk to find one.
    if chunk.whole or (chunk.nbytes > MOST_DECODED and not chunk.plain and others * chunk.nblocks > MOST_STEPS):
        return UNDECODED
    room = <uint8_t *> malloc(<size_t> (chunk.blocksize if chunk.nbytes > MOST_DECODED else chunk.nbytes))
    if room == NULL:
        return NO_MEMORY
    if chunk.nbytes <= MOST_DECODED:
        status = decode_whole_chunk(context, chunk, room)
    else:
        status = _check_each(context, chunk, room)
    free(room)
    return status


def check_chunk(ChunkTable frame not None, int64_t index):
    """Check that a chunk decodes to its size, and say how many bytes it is stored in.

    Each block is decoded once, a bounded number of bytes at a time; where blocks do not stand alone, or are very many, all
    together. Raises `FormatError` for a chunk of such blocks that claims more bytes than the rule of allocation gives the file, in a frame
    whose chunks differ in size.
    """
    cdef Chunk chunk
    cdef DecodeContext *context
    cdef int status
    frame.load_index()
    if index < 0 or index >= frame.chunk_count:
        raise IndexError(f"chunk {index} is out of range: there are {frame.chunk_count}")
    context = borrow(frame.blocksize)
    try:
        with nogil:
            status = frame.open_chunk(index, context, &chunk)
            if status == CHUNK_OK and chunk.kind == KIND_REGULAR:
                status = frame.load_chunk(index, context, &chunk)
            if status == CHUNK_OK:
                status = _check(context, &chunk)
    finally:
        give_back(context)
    if status == SHARED:
        raise FormatError(
            f"chunk {index}: its blocks lie upon each other, which no writer does", path=frame.source.path,
            key=frame.key, offset=frame.chunks_start + frame.entry(index))
    if status == UNDECODED:
        # Chunks of one size are as large as any read of the frame makes them; of the others each claims its own.
        most = allowed(frame.file_size) if frame.variable or frame.vlblocks else chunk.nbytes
        if chunk.nbytes > most:
            raise FormatError(too_much(chunk.nbytes, f"chunk {index}", most), path=frame.source.path, key=frame.key,
                              offset=frame.chunks_start + frame.entry(index))
        frame.decode_chunk(index)
    elif status:
        frame.fail(status, index)
    return chunk.cbytes
