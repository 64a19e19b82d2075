cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t, uint8_t

from blosc2._core.codec.chunk cimport Chunk
from blosc2._core.codec.codec cimport DecodeContext, Encoder
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


cdef struct Box:
    # Part of a selection: where it starts in the local coordinates of a chunk or block, how many steps it
    # takes there, and where those lie in the selection.
    int64_t first[MAX_DIM]
    int64_t count[MAX_DIM]
    int64_t index[MAX_DIM]


cdef inline bint clip(int64_t start, int64_t step, int64_t count, int64_t low, int64_t length,
                       int64_t *first, int64_t *taken, int64_t *index) noexcept nogil:
    """The steps ``start + k * step`` that fall in ``low .. low + length``."""
    cdef int64_t k0 = 0, k1
    if low > start:
        k0 = (low - start + step - 1) // step
    if low + length <= start:
        return False
    k1 = (low + length - 1 - start) // step + 1
    if k1 > count:
        k1 = count
    if k1 <= k0:
        return False
    first[0] = start + k0 * step - low
    taken[0] = k1 - k0
    index[0] = k0
    return True


cdef enum:
    # Shift of the flags of `parse_key` for axes that a key runs through backwards.
    REVERSED = 16

cdef bint parse_key(const Grid *g, object key, int64_t *start, int64_t *step, int64_t *count, int apart,
                    uint32_t *flags) except -1

cdef void copy_items(uint8_t *to, const int64_t *to_strides, const uint8_t *source, const int64_t *source_strides,
                     const int64_t *count, int ndim, int64_t itemsize) noexcept nogil


cdef struct Ahead:
    # What is asked for before it is read; see `begin_tasks` of grid_read.pyx. It is counted in chunks, or in parts of `ReadMany`.
    bint alone          # whether there is one thread
    long begun          # whether one has begun to ask
    long busy           # whether one is asking for more, which alone looks at `asked` and `batch`
    int64_t asked       # those before it were asked for
    int64_t resume      # the task, or the part, with which it is time to ask for more; an atomic number
    int64_t batch       # that are asked for at a time; 0 before the first


cdef class Operation:
    """A read or write of a selection; see geometry.pyx."""

    cdef Frame frame
    cdef Geometry geometry
    cdef int64_t start[MAX_DIM]
    cdef int64_t step[MAX_DIM]
    cdef int64_t count[MAX_DIM]
    cdef int64_t first_chunk[MAX_DIM]
    cdef int64_t chunk_count[MAX_DIM]
    cdef readonly int64_t tasks
    cdef int64_t pieces             # that each chunk is divided into; each is a task
    cdef int64_t next_task          # an atomic number, and so is `status`
    cdef int64_t stop_task
    cdef int64_t status             # of what went wrong first, and the chunk
    cdef int64_t failed
    cdef long has_failed
    cdef uint8_t *data              # of the NumPy array that is read into or written from
    cdef int64_t strides[MAX_DIM]   # its strides in bytes
    cdef object keep
    cdef Ahead ahead
    cdef bint cold                  # whether the bytes are likely not to be in memory
    # Points, where some axes have them; these have start 0, step 1 and count 1 above.
    cdef bint by_points
    cdef bint pointed[MAX_DIM]
    cdef const int64_t *indices[MAX_DIM]
    cdef const int64_t *offsets     # of each point in the NumPy array, in bytes
    cdef const int64_t *groups      # the first point of each chunk, and the number of points
    cdef int64_t group_count
    cdef list keep_points

    cdef int select(self, start, step, count) except -1
    cdef int pick(self, cnp.ndarray items, points) except -1
    cdef bint task_points(self, int64_t task, int64_t *nchunk, Box *box, int64_t *begin, int64_t *end) noexcept nogil
    cdef int move_points(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t begin, int64_t end,
                         uint8_t *whole, const uint8_t *constant) noexcept nogil
    cdef int share(self, int64_t threads) except -1
    cdef Encoder encoder(self)
    cdef void ask_ahead(self, DecodeContext *context) noexcept nogil
    cdef void begin(self, DecodeContext *context) noexcept nogil
    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil
    cdef bint box_of(self, int64_t task, int64_t *nchunk, Box *box) noexcept nogil
    cdef uint8_t *at(self, const Box *box) noexcept nogil
    cdef bint is_one_run(self, const Box *box) noexcept nogil
    cdef bint covers(self, const Box *box, const int64_t *lengths) noexcept nogil
    cdef int64_t draw(self) noexcept nogil
    cdef void note_failure(self, int status, int64_t nchunk) noexcept nogil


cdef inline void locate(Operation self) noexcept:
    """Find the chunks that a selection touches, each of them a task."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t tasks = g.size != 0
    cdef int d
    for d in range(g.ndim):
        if self.count[d] == 0:
            tasks = 0
    if tasks:
        for d in range(g.ndim):
            self.first_chunk[d] = self.start[d] // g.chunks[d]
            self.chunk_count[d] = (
                (self.start[d] + (self.count[d] - 1) * self.step[d]) // g.chunks[d] - self.first_chunk[d] + 1)
            tasks *= self.chunk_count[d]
    self.tasks = self.stop_task = tasks
    self.pieces = 1
