from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

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


cdef struct Description:
    uint8_t what
    uint8_t codec
    int ndim                # -1 without a shape
    uint64_t nbytes, cbytes
    uint64_t shape[16]
    const uint8_t *dtype
    uint32_t dtype_length


cdef inline void describe_nothing(Description *description) noexcept nogil:
    """Make it the description of a leaf that nothing is known of."""
    description.what, description.ndim = LEAF_UNKNOWN, -1
    description.nbytes = description.cbytes = 0
    description.dtype_length = 0


cdef bint unpack_description(const uint8_t *p, int64_t length, Description *out) noexcept nogil
