"""The description of a leaf in a few bytes, as catalogs have it; `catalog_writing.descriptions` makes it of a frame."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from blosc2._core.io.little_endian cimport u32, u64

# What a leaf is, in a catalog.
cdef enum:
    LEAF_UNKNOWN = 0
    LEAF_ARRAY = 1
    LEAF_SCHUNK = 2
    LEAF_OBJECTS = 3
    LEAF_BATCHES = 4
    LEAF_OTHER = 5
    LEAF_ATTRIBUTES = 6     # known by its name

# A description: what, codec, number of dimensions or NO_SHAPE, 0, length of the dtype; nbytes, cbytes, lengths of the
# axes; the dtype as stored.
cdef enum:
    DESCRIPTION_START = 24
    NO_SHAPE = 255
    MOST_AXES = 16


cdef struct Description:
    uint8_t what
    uint8_t codec
    int ndim                # -1 without a shape
    uint64_t nbytes, cbytes
    uint64_t shape[MOST_AXES]
    const uint8_t *dtype
    uint32_t dtype_length


cdef inline void describe_nothing(Description *description) noexcept nogil:
    """Make it the description of a leaf that nothing is known of."""
    description.what, description.ndim = LEAF_UNKNOWN, -1
    description.nbytes = description.cbytes = 0
    description.dtype_length = 0


cdef inline bint unpack_description(const uint8_t *p, int64_t length, Description *out) noexcept nogil:
    """Take a description apart; False where it is none. Its dtype lies where it lay."""
    cdef int i
    if length < DESCRIPTION_START:
        return False
    out.what, out.codec = p[0], p[1]
    out.ndim = -1 if p[2] == NO_SHAPE else p[2]
    out.dtype_length = u32(p + 4)
    out.nbytes, out.cbytes = u64(p + 8), u64(p + 16)
    if out.ndim > MOST_AXES or DESCRIPTION_START + 8 * <int64_t> max(out.ndim, 0) + <int64_t> out.dtype_length != length:
        return False
    p += DESCRIPTION_START
    for i in range(out.ndim):
        out.shape[i] = u64(p)
        p += 8
    out.dtype = p
    return True
