from libc.stdint cimport int64_t

from blosc2._core.frame.frame cimport Frame

cdef enum:
    MAX_DIM = 16


cdef struct Grid:
    int ndim
    int64_t itemsize
    int64_t shape[MAX_DIM]
    int64_t chunks[MAX_DIM]
    int64_t blocks[MAX_DIM]
    int64_t grid[MAX_DIM]             # chunks on each axis
    int64_t chunk_strides[MAX_DIM]    # in chunks of the grid
    int64_t block_grid[MAX_DIM]       # blocks of a chunk on each axis
    int64_t block_strides[MAX_DIM]    # in blocks of a chunk
    int64_t item_strides[MAX_DIM]     # bytes inside a block
    int64_t size                      # items
    int64_t nchunks
    int64_t block_nbytes
    int64_t chunk_nbytes              # padded to whole blocks
    bint in_order                     # a chunk's bytes are its items in C order, without padding


cdef class Geometry:
    """Shape, chunks and blocks of an array, and what follows from them."""

    cdef Grid c
    cdef tuple shape_, chunks_, blocks_  # made when first asked for
    cdef int64_t inner      # items of this array in an item of the frame, whose dtype may have a shape
    cdef object add_axes(self, object dtype)
    cdef int derive(self) except -1


cdef tuple geometry_of(Frame frame, object dtype_of)
