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


cdef struct Axis:
    # What a selection takes of an axis: items with positive steps, and how many bytes apart they lie in the NumPy array.
    int64_t start, step, count, stride


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


cdef inline bint clip_to_chunk(const Grid *g, const Axis *axes, int64_t nchunk, Box *box) noexcept nogil:
    """What a selection takes of a chunk; False when steps pass over it."""
    cdef int64_t low
    cdef int d
    for d in range(g.ndim - 1, -1, -1):
        low = nchunk // g.chunk_strides[d] % g.grid[d] * g.chunks[d]
        if not clip(axes[d].start, axes[d].step, axes[d].count, low, g.chunks[d], &box.first[d], &box.count[d], &box.index[d]):
            return False
    return True


cdef struct Touched:
    # The blocks that a box touches in a chunk: on each axis the first and how many, and how many in all.
    int64_t low[MAX_DIM]
    int64_t many[MAX_DIM]
    int64_t count


cdef inline void touch(const Grid *g, const Axis *axes, const Box *box, Touched *touched) noexcept nogil:
    cdef int d
    touched.count = 1
    for d in range(g.ndim):
        touched.low[d] = box.first[d] // g.blocks[d]
        touched.many[d] = (box.first[d] + (box.count[d] - 1) * axes[d].step) // g.blocks[d] - touched.low[d] + 1
        touched.count *= touched.many[d]


cdef inline int64_t nth_block(const Grid *g, const Touched *touched, int64_t i) noexcept nogil:
    """The number of the `i`-th of the blocks that a box touches."""
    cdef int64_t block = 0
    cdef int d
    for d in range(g.ndim - 1, -1, -1):
        block += (touched.low[d] + i % touched.many[d]) * g.block_strides[d]
        i //= touched.many[d]
    return block


cdef inline bint clip_to_block(const Grid *g, const Axis *axes, const Box *box, const Touched *touched, int64_t i,
                               int64_t *nblock, Box *part, int64_t *offset) noexcept nogil:
    """What a box takes of the `i`-th block that it touches, and where that begins in the block, in bytes; False for nothing."""
    cdef int64_t b
    cdef int d
    nblock[0] = offset[0] = 0
    for d in range(g.ndim - 1, -1, -1):
        b = touched.low[d] + i % touched.many[d]
        i //= touched.many[d]
        nblock[0] += b * g.block_strides[d]
        if not clip(box.first[d], axes[d].step, box.count[d], b * g.blocks[d], g.blocks[d],
                    &part.first[d], &part.count[d], &part.index[d]):
            return False
        part.index[d] += box.index[d]
        offset[0] += part.first[d] * g.item_strides[d]
    return True


cdef inline bint covers(const Grid *g, const Box *box, const int64_t *lengths) noexcept nogil:
    """Whether a box takes every item of a chunk or block, in order."""
    cdef int d
    for d in range(g.ndim):
        if box.count[d] != lengths[d]:
            return False
    return True


cdef inline uint8_t *first_item(const Grid *g, const Axis *axes, uint8_t *data, const Box *box) noexcept nogil:
    """Where the first item of a box lies in the NumPy array."""
    cdef int d
    for d in range(g.ndim):
        data += box.index[d] * axes[d].stride
    return data


cdef inline bint is_one_run(const Grid *g, const Axis *axes, const Box *box) noexcept nogil:
    """Whether a box is contiguous in the NumPy array."""
    cdef int64_t expected = g.itemsize
    cdef int d
    for d in range(g.ndim - 1, -1, -1):
        if box.count[d] != 1:
            if axes[d].stride != expected:
                return False
            expected *= box.count[d]
    return True


cdef enum:
    # Shift of the flags of `parse_key` for axes that a key runs through backwards.
    REVERSED = 16

cdef bint parse_key(const Grid *g, object key, Axis *axes, uint32_t *flags) except -1

cdef int take_axis(const Grid *g, int d, Axis *axis, int64_t start, int64_t step, int64_t count) except -1

cdef void copy_items(uint8_t *to, const int64_t *to_strides, const uint8_t *source, const int64_t *source_strides,
                     const int64_t *count, int ndim, int64_t itemsize) noexcept nogil


cdef class Operation:
    cdef Frame frame
    cdef Geometry geometry
    cdef Axis axes[MAX_DIM]
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
    cdef object keep
    cdef bint cold                  # whether the bytes are likely not to be in memory
    # Points, where some axes have them; these have start 0, step 1, count 1 and stride 0 above.
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
    cdef int64_t block_of_point(self, int64_t point) noexcept nogil
    cdef int move_points(self, DecodeContext *context, int64_t nchunk, Chunk *chunk, const Box *box, int64_t begin, int64_t end,
                         uint8_t *whole, const uint8_t *constant) noexcept nogil
    cdef int share(self, int64_t threads) except -1
    cdef Encoder encoder(self)
    cdef void begin(self, DecodeContext *context) noexcept nogil
    cdef void work(self, DecodeContext *context, Encoder encoder) noexcept nogil
    cdef bint box_of(self, int64_t task, int64_t *nchunk, Box *box) noexcept nogil
    cdef int64_t draw(self) noexcept nogil
    cdef void note_failure(self, int status, int64_t nchunk) noexcept nogil


cdef inline void locate(Operation self) noexcept:
    """Find the chunks that a selection touches, each of them a task."""
    cdef Grid *g = &self.geometry.c
    cdef int64_t tasks = g.size != 0
    cdef Axis *axis
    cdef int d
    for d in range(g.ndim):
        if self.axes[d].count == 0:
            tasks = 0
    if tasks:
        for d in range(g.ndim):
            axis = &self.axes[d]
            self.first_chunk[d] = axis.start // g.chunks[d]
            self.chunk_count[d] = (axis.start + (axis.count - 1) * axis.step) // g.chunks[d] - self.first_chunk[d] + 1
            tasks *= self.chunk_count[d]
    self.tasks = self.stop_task = tasks
    self.pieces = 1
