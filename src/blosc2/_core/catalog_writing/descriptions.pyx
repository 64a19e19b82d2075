# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The description of a leaf in a few bytes: kind, shape, dtype, codec, sizes."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from blosc2._core.frame.frame cimport Frame
from blosc2._core.ndim.geometry cimport Geometry
from blosc2._core.io.endian cimport put32, put64
from blosc2._core.zip.catalog cimport (
    DESCRIPTION_START, LEAF_ARRAY, LEAF_ATTRIBUTES, LEAF_BATCHES, LEAF_OBJECTS, LEAF_OTHER, LEAF_SCHUNK, NO_SHAPE)

from blosc2._core.ndim.geometry import parse_b2nd

cdef enum:
    # A dtype of more bytes is that of a table; it is left out, and so is its leaf.
    MOST_DTYPE = 4096


def describe(Frame frame not None, dtype_of):
    """The description of a frame, as catalogs have it.

    Parameters
    ----------
    frame : Frame
    dtype_of : callable
        Turns the text of a dtype into a NumPy dtype, as for `parse_b2nd`.

    Returns
    -------
    bytes
        Empty for what a catalog cannot describe.

    Raises
    ------
    FormatError
        The metadata of an array is damaged.
    """
    cdef Geometry geometry
    cdef int32_t length
    cdef const uint8_t *m
    cdef const uint8_t *text = NULL
    cdef uint8_t *p
    cdef int what, i, ndim = NO_SHAPE
    cdef uint32_t text_length = 0
    cdef uint64_t nbytes = <uint64_t> frame.nbytes
    cdef bytes result, of_item
    if frame.only_array:
        what = LEAF_ARRAY
    else:
        names = frame.metalayers()
        if "proxy-source" in names or "b2o" in names or "listarray" in names or "LazyArray" in names:
            what = LEAF_OTHER
        elif "vlarray" in names:
            what = LEAF_OBJECTS
        elif "batcharray" in names:
            what = LEAF_BATCHES
        else:
            what = LEAF_ARRAY if "b2nd" in names else LEAF_SCHUNK
    if what == LEAF_ARRAY:
        geometry, dtype = parse_b2nd(frame, dtype_of)
        ndim = geometry.c.ndim
        nbytes = <uint64_t> geometry.c.size * <uint64_t> geometry.c.itemsize
        m = frame.find_metalayer(b"b2nd", 4, &length)
        if m == NULL:
            return b""
        if m[2] != ndim:    # the other axes are those of the dtype in the file
            of_item = (dtype.str if dtype.names is None else str(dtype)).encode()
            text, text_length = <const uint8_t *> PyBytes_AS_STRING(of_item), <uint32_t> len(of_item)
        elif length > 6 + 19 * ndim + 6:
            text = m + 6 + 19 * ndim + 6
            text_length = <uint32_t> (length - (6 + 19 * ndim + 6))
        if text_length > MOST_DTYPE:
            return b""
    result = PyBytes_FromStringAndSize(NULL, DESCRIPTION_START + (8 * ndim if ndim != NO_SHAPE else 0) + text_length)
    p = <uint8_t *> PyBytes_AS_STRING(result)
    p[0], p[1], p[2], p[3] = <uint8_t> what, <uint8_t> frame.codec, <uint8_t> ndim, 0
    p = put64(put64(put32(p + 4, text_length), nbytes), <uint64_t> frame.cbytes)
    if ndim != NO_SHAPE:
        for i in range(ndim):
            p = put64(p, <uint64_t> geometry.c.shape[i])
    if text_length:
        memcpy(p, text, text_length)
    return result


#: What stands for the attributes of a group, whatever they are.
LEAF_OF_ATTRIBUTES = bytes((LEAF_ATTRIBUTES, 0, NO_SHAPE, 0)) + bytes(DESCRIPTION_START - 4)
