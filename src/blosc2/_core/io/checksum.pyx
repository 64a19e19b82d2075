# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""CRC-32C of bytes, and the CRC-32 of ZIP archives: 15 to 60 GB/s, where the processor has instructions for it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from blosc2._core.io.readahead cimport ask_range
from blosc2._core.io.source cimport READ_OK, READ_SHORT, Buffer, Source, integers, readable

cdef extern from "io/crc.h" nogil:
    void crc32c_prepare()
    uint32_t crc_times(uint32_t a, uint32_t b, uint32_t polynomial)
    int b2_crc_way
    uint32_t crc32c_of(uint32_t before, const uint8_t *data, size_t size)
    uint32_t crc32c_by_way(int way, uint32_t before, const uint8_t *data, size_t size)
    void crc32_prepare()
    int b2_crc32_way
    uint32_t crc32_of(uint32_t before, const uint8_t *data, size_t size)
    uint32_t crc32_by_way(int way, uint32_t before, const uint8_t *data, size_t size)
    bint b2_folds_rows()
    uint32_t crc_copy_rows(uint32_t crc, uint8_t *to, const int64_t *strides, const int64_t *count, int axes,
                           const uint8_t *source, size_t run)

cdef enum:
    # From this size on others may run meanwhile.
    LONG = 1 << 16
    # Bytes that are copied and summed at a time.
    FOLDED = 64
    # Of a file that is not mapped: read at a time, so that it is summed while it is in the cache.
    PIECE = 1 << 18
    # Joining two checksums takes as long as reading some thousand bytes.
    WORTH_JOINING = 1 << 13

# The polynomials of CRC-32C and of CRC-32.
cdef uint32_t[2] _polynomials = [0x82F63B78, 0xEDB88320]
# x to the power of 2**k modulo each; in reflected form, the highest bit is the 1.
cdef uint32_t[2][64] _powers

crc32c_prepare()
crc32_prepare()

#: How many ways there are to compute them here; `crc32c` and `crc32` take their numbers, from 0 on.
WAYS = b2_crc_way + 1
ZIP_WAYS = b2_crc32_way + 1


cdef void _prepare_powers():
    cdef int k, kind
    for kind in range(2):
        _powers[kind][0] = 0x40000000
        for k in range(1, 64):
            _powers[kind][k] = crc_times(_powers[kind][k - 1], _powers[kind][k - 1], _polynomials[kind])

_prepare_powers()


cdef inline uint32_t _joined(uint32_t first, uint32_t second, uint64_t size, int kind) noexcept nogil:
    cdef int k = 3      # a byte is 8 bits
    while size:
        if size & 1:
            first = crc_times(_powers[kind][k], first, _polynomials[kind])
        size >>= 1
        k += 1
    return first ^ second


cdef uint32_t joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil:
    """Checksum of bytes with the first one, followed by `size` bytes with the second one."""
    return _joined(first, second, size, 0)


cdef uint32_t zip_joined(uint32_t first, uint32_t second, uint64_t size) noexcept nogil:
    """What `joined` gives, of the checksums of ZIP archives."""
    return _joined(first, second, size, 1)


cdef uint32_t go_on(uint32_t before, uint32_t own, const uint8_t *data, size_t size) noexcept nogil:
    """Checksum of what came before and these bytes, whose own is known: by what is faster."""
    return joined(before, own, size) if size > WORTH_JOINING else crc32c_of(before, data, size)


cdef uint32_t checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil:
    """The CRC-32C behind bytes of a known one."""
    return crc32c_of(before, data, size)


cdef uint32_t zip_checksum(uint32_t before, const uint8_t *data, size_t size) noexcept nogil:
    """The CRC-32 of ZIP archives, behind bytes of a known one."""
    return crc32_of(before, data, size)


cdef bint copy_and_checksum(uint32_t *crc, uint8_t *to, const int64_t *strides, const int64_t *count, int axes,
                       const uint8_t *source, int64_t itemsize) noexcept nogil:
    """Copy a box of items that is one piece in `source`, and go on with the checksum of its bytes; False,
    with nothing done, where that takes two passes."""
    cdef int64_t run = itemsize, tail = 0
    # Trailing axes that are one piece on both sides become part of the item.
    while axes and (count[axes - 1] == 1 or strides[axes - 1] == run):
        run *= count[axes - 1]
        axes -= 1
    if axes == 0:
        tail = run % FOLDED
        run -= tail
    if run == 0 or run % FOLDED or not b2_folds_rows():
        return False
    crc[0] = crc_copy_rows(crc[0], to, strides, count, axes, source, <size_t> run)
    if tail:
        memcpy(to + run, source + run, <size_t> tail)
        crc[0] = checksum(crc[0], to + run, tail)
    return True


cdef uint32_t _sum(bint zip, object data, uint32_t before, int way) except? 0:
    """A checksum of a contiguous buffer, by one of the ways of this processor; by the best if that is -1."""
    cdef Buffer view = readable(data)
    cdef size_t size = view.size
    if way >= 0 and way >= (ZIP_WAYS if zip else WAYS):
        raise ValueError(f"there are {ZIP_WAYS if zip else WAYS} ways, from 0 on")
    if size == 0:
        return before
    if way >= 0:
        return crc32_by_way(way, before, view.data, size) if zip else crc32c_by_way(way, before, view.data, size)
    if size < LONG:
        return crc32_of(before, view.data, size) if zip else crc32c_of(before, view.data, size)
    with nogil:
        before = crc32_of(before, view.data, size) if zip else crc32c_of(before, view.data, size)
    return before


def crc32(data not None, uint32_t before=0, int way=-1):
    """CRC-32, as ZIP archives have it, of a contiguous buffer that follows bytes of a known one; what `zlib` computes.

    `way` computes it in one of the `ZIP_WAYS` of this processor.
    """
    return _sum(True, data, before, way)


def crc32c(data not None, uint32_t before=0, int way=-1):
    """Checksum of a contiguous buffer behind bytes of a known one; `way` computes it in one of the `WAYS` of this processor."""
    return _sum(False, data, before, way)


def crc32c_joined(uint32_t first, uint32_t second, uint64_t size):
    """Checksum of bytes with the first one, followed by `size` bytes with the second one."""
    return joined(first, second, size)


def crc32c_of_parts(uint32_t before, sums, sizes):
    """Checksum of bytes with a known one, followed by parts, each with its checksum and size."""
    cdef int64_t i, last = -1
    cdef uint32_t power = 0
    cdef Py_ssize_t count = 0, parts = 0
    cdef Buffer held_sums = integers(sums, 4, &count)
    cdef Buffer held_sizes = integers(sizes, 8, &parts)
    cdef const uint32_t *sum_of = <const uint32_t *> held_sums.data
    cdef const int64_t *size_of = <const int64_t *> held_sizes.data
    if count != parts:
        raise ValueError(f"{count} checksums for {parts} parts")
    with nogil:
        for i in range(count):
            if size_of[i] != last:  # most parts are as long as the one before
                last = size_of[i]
                power = _joined(<uint32_t> 0x80000000, 0, <uint64_t> last, 0)
            before = crc_times(power, before, _polynomials[0]) ^ sum_of[i]
    return before


def crc32c_both(data not None, uint32_t before):
    """Checksum of a buffer, and of it behind what came before; it is read once."""
    cdef Buffer view = readable(data)
    cdef uint32_t own = _sum(False, data, 0, -1)
    return own, go_on(before, own, view.data, view.size)


cdef int read_and_sum(Source source, int64_t offset, int64_t length, uint8_t *to, uint32_t *crc) noexcept nogil:
    """What `Source.read_into` does, and go on with the checksum of these bytes while they are in the cache."""
    cdef int64_t size, done = 0
    cdef int status = READ_OK if length >= 0 else READ_SHORT
    if (source.base != NULL and 0 <= offset <= source.size and 0 < length <= source.size - offset
            and copy_and_checksum(crc, to, NULL, NULL, 0, source.base + offset, length)):
        return READ_OK
    while status == READ_OK and done < length:
        size = min(length - done, <int64_t> PIECE) if source.fd >= 0 else length    # a server is asked once
        status = source.read_into(offset + done, size, to + done)
        if status == READ_OK:
            crc[0] = checksum(crc[0], to + done, <size_t> size)
        done += size
    return status


cdef int sum_range(Source source, int64_t offset, int64_t length, bint zip, uint32_t *crc) except -1:
    """Go on with a checksum over a range inside a source: CRC-32C, or the CRC-32 of ZIP archives."""
    cdef uint8_t *piece = NULL
    cdef const uint8_t *data
    cdef int64_t size, end = offset + length
    cdef int status = READ_OK
    if length <= 0:
        return 0
    if source.base == NULL:
        piece = <uint8_t *> malloc(<size_t> min(length, <int64_t> PIECE))
        if piece == NULL:
            raise MemoryError
    with nogil:
        if piece == NULL:
            ask_range(source, offset, length)
        while offset < end and status == READ_OK:
            size = end - offset
            data = source.base + offset
            if piece != NULL:
                size = min(size, <int64_t> PIECE)
                data = piece
                status = source.read_into(offset, size, piece)
            if status == READ_OK:
                crc[0] = crc32_of(crc[0], data, <size_t> size) if zip else crc32c_of(crc[0], data, <size_t> size)
            offset += size
    free(piece)
    return source.check(status, end - length, length)
