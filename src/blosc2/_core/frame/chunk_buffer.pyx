# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Memory for the chunks of a frame that is changed, and the next version of such a frame in one step."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from blosc2._core.codec.chunk cimport (
    CHUNK_HEADER, CHUNK_OK, KIND_NAN, KIND_REGULAR, KIND_UNINIT, KIND_ZERO, Chunk, check_starts, inspect, inspect_alone)
from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.endian cimport i32
from blosc2._core.io.source cimport Buffer, Source, readable, writable
from blosc2._core.io.steps cimport address_get, atomic_state, state_change, state_get

from blosc2._core.codec.codec import reason
from blosc2.exceptions import FormatError

cdef enum:
    # Where the header of a chunk has its item size, its length, and its special kind.
    TYPESIZE_AT = 3
    CBYTES_AT = 12
    KIND_AT = 31
    WORTHWHILE = 8      # a gap is used if it is this part of the memory, or more


cdef int64_t special_offset(bytes stored, int32_t typesize) noexcept:
    """What stands in a table for a chunk whose items are not stored; 0 for any other chunk."""
    cdef const uint8_t *header = <const uint8_t *> PyBytes_AS_STRING(stored)
    cdef int kind
    if PyBytes_GET_SIZE(stored) != CHUNK_HEADER:
        return 0
    kind = header[KIND_AT] >> 4 & 7
    if kind == KIND_NAN and header[TYPESIZE_AT] != typesize:    # of items of another size
        return 0
    if kind != KIND_ZERO and kind != KIND_UNINIT and kind != KIND_NAN:
        return 0
    return <int64_t> (<uint64_t> (0x80 | kind) << 56)


def offset_or_chunk(stored, int32_t typesize):
    """A chunk as it stands in a table: one whose items are not stored is an offset there.

    4.14.1 finds no slice of a frame, and appends nothing to it, where the bytes of such a chunk are stored.
    """
    cdef int64_t offset = special_offset(stored, typesize) if PyBytes_CheckExact(stored) else 0
    return offset if offset else stored


cdef int inspect_stated(const uint8_t *data, int64_t size, Chunk *chunk) noexcept nogil:
    """Inspect a chunk that somebody gave, without decoding anything of it."""
    cdef int status = inspect_alone(data, size, chunk)
    return check_starts(chunk) if status == CHUNK_OK and chunk.kind == KIND_REGULAR else status


def stated_nbytes(buffer):
    """The bytes that one chunk holds, by its header; nothing of it is decoded."""
    cdef Buffer view = readable(buffer)
    cdef Chunk chunk
    cdef int status = inspect_stated(view.data, view.size, &chunk)
    if status:
        raise FormatError(reason(status))
    return chunk.nbytes


cdef struct Extent:
    int64_t start
    int64_t stop


cdef int _by_start(const void *one, const void *other) noexcept nogil:
    cdef int64_t a = (<const Extent *> one).start, b = (<const Extent *> other).start
    return (a > b) - (a < b)


cdef class ChunkBuffer:
    """The chunks of a frame in memory that is changed.

    Each version has a source of its own, which shows all bytes that were used by then. New chunks go where no version has
    any: behind all others. Where nobody has an older version than the last one, a chunk goes to the slot of the one that was
    removed last, and others to the largest gap between chunks when there is no more room.

    The lock of the frame's handle keeps threads apart. Finalizers and signal handlers may change the frame in the middle of
    a change all the same, so putting chunks there and showing them is one step, which runs no Python code.

    Parameters
    ----------
    room : writable buffer
        Which nobody else uses.
    used : int
        Bytes at its start that hold chunks already.
    frame : Frame, optional
        Whose chunks these are. Where one of them says that it reaches further, no slot is used again: it may lie in there.
    """

    cdef Buffer room
    cdef readonly int64_t used      # up to the end of the last chunk
    cdef int64_t at, end            # where the next chunks go
    cdef int64_t first              # of the chunks that were put here
    cdef int64_t slot, slot_end     # of a chunk that was put here, and is not in the version of the next number any more
    cdef uint64_t slot_of           # 0 where there is none
    cdef atomic_state shown         # sources of versions that somebody has

    def __init__(self, room, int64_t used, Frame frame=None):
        self.room = writable(room)
        if not 0 <= used <= self.room.size:
            raise ValueError(f"{used} bytes are used of {self.room.size}")
        self.used = self.at = self.first = used
        self.end = self.room.size
        if frame is not None:
            frame.load_index()
            if self.is_passed(frame):
                self.first = self.end

    cdef bint is_passed(self, Frame frame) noexcept:
        """Whether a chunk of a frame says that it reaches past the chunks that lie here, as one that is damaged may."""
        cdef int64_t i, offset
        for i in range(frame.chunk_count):
            offset = frame.entry(i)
            if offset >= 0 and (
                    offset > self.used - CHUNK_HEADER or i32(self.room.data + offset + CBYTES_AT) > self.used - offset):
                return True
        return False

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.room.data, self.used, 1, flags)
        self.count(1)

    def __releasebuffer__(self, Py_buffer *view):
        self.count(-1)

    cdef void count(self, long more) noexcept:
        cdef long before = state_get(&self.shown)
        while not state_change(&self.shown, before, before + more):
            before = state_get(&self.shown)

    cpdef bint holds(self, Frame frame):
        """Whether the chunks of a frame lie here."""
        return frame.source.in_memory and frame.source._view.obj is self

    def place(self, Frame frame not None, list chunks not None):
        """Put stored chunks here; returns a source of all, and the offset of each. None where there is no room for them.

        `frame` is the last version, if its chunks lie here.
        """
        cdef Source source = Source.__new__(Source)
        cdef list held = [readable(stored) for stored in chunks], offsets = []
        cdef Buffer chunk
        cdef int64_t at, wanted = sum([(<Buffer> one).size for one in held])
        if not self.make_room(frame, wanted):
            return None
        at = self.at
        for chunk in held:
            memcpy(self.room.data + at, chunk.data, <size_t> chunk.size)
            at += chunk.size
        self.at = at
        self.show(source, at)
        for chunk in held:
            offsets.append(at - wanted)
            wanted -= chunk.size
        return source, offsets

    cdef int show(self, Source source, int64_t end) except -1:
        """Have a source show all up to new chunks, which end there."""
        self.used = max(self.used, end)
        return source.hold(self)

    cdef void keep_slot(self, Frame frame, int64_t index, int64_t removed, uint64_t after) noexcept:
        """Note where the chunk lies that goes with a version, if it is one: the change of that version may use it."""
        cdef int64_t offset = frame.entry(index) if removed == 1 else -1
        self.slot_of = 0
        # What others say of the lengths of their chunks may be wrong.
        if offset >= self.first:
            self.slot, self.slot_end = offset, offset + i32(self.room.data + offset + CBYTES_AT)
            self.slot_of = after

    cdef bint make_room(self, Frame frame, int64_t wanted) noexcept:
        """Whether there is room for so many bytes one behind the other."""
        if self.end - self.at < wanted and state_get(&self.shown) == 1 and self.holds(frame):
            self.find_gap(frame)
        return self.end - self.at >= wanted

    cdef void find_gap(self, Frame frame) noexcept:
        """Go on in the largest gap between the chunks of the one version that is shown, if it is worth it."""
        # A table may name one chunk a million times: so many chunks can lie here beside each other.
        cdef int64_t most = min(frame.chunk_count, self.used // CHUNK_HEADER)
        cdef Extent *extents = <Extent *> malloc((<size_t> most + 1) * sizeof(Extent))
        cdef int64_t i, count = 0, offset, reached = 0, largest = self.room.size // WORTHWHILE
        cdef Chunk chunk
        cdef bint sound = extents != NULL
        for i in range(frame.chunk_count if sound else 0):
            offset = frame.entry(i)
            if offset >= 0 and not (count and extents[count - 1].start == offset):
                sound = count < most and inspect(self.room.data + offset, self.used - offset, &chunk) == CHUNK_OK
                if not sound:
                    break
                extents[count].start, extents[count].stop = offset, offset + chunk.cbytes
                count += 1
        if sound:
            qsort(extents, <size_t> count, sizeof(Extent), &_by_start)
            extents[count].start = extents[count].stop = self.room.size
            for i in range(count + 1):
                if extents[i].start - reached > largest:
                    largest, self.at, self.end = extents[i].start - reached, reached, extents[i].start
                    self.slot_of = 0    # it may be in there
                reached = max(reached, extents[i].stop)
        free(extents)

    def spliced(self, Frame frame not None, number, int64_t removed, list added not None):
        """A frame, whose chunks lie here, with others instead of `removed` ones from a number on: the next version.

        Parameters
        ----------
        number : int
        removed : int
        added : list of tuple
            Pairs of a chunk, or of an offset that stands for one, and its uncompressed size; of whatever somebody gave as
            a chunk, and None.

        Returns
        -------
        Frame
            None where more is to be done than to put chunks here and to change the tables: chunks have several sizes and had
            one, or the other way round; the shape of an array says something else; there is no room. Also where the
            numbers or chunks are wrong.
        """
        cdef int64_t count = frame.chunk_count, many = len(added), i, nbytes, at, wanted = 0
        cdef int64_t index = number if type(number) is int and 0 <= number <= count else -1
        cdef int64_t stop = index + removed
        cdef Frame made
        cdef Source source
        cdef object stored
        if not self.holds(frame) or index < 0 or not index <= stop <= count:
            return None
        nbytes = nbytes_after(frame, index, stop, added)
        if nbytes < 1:
            return None
        for i in range(many):
            stored = (<tuple> added[i])[0]
            if PyBytes_CheckExact(stored) and not special_offset(stored, frame.typesize):
                wanted += PyBytes_GET_SIZE(stored)
            elif frame.variable or not (PyBytes_CheckExact(stored) or type(stored) is int):
                return None     # a chunk of variable size is stored
        made, source = frame.alike(nbytes, count + many - removed), Source.__new__(Source)
        made.need_table()
        if frame.variable:
            put_starts(made, frame, index, stop, added)
        # From here on no Python code runs.
        if frame.serial == self.slot_of and 0 < wanted <= self.slot_end - self.slot and state_get(&self.shown) == 1:
            at = self.slot
        elif self.make_room(frame, wanted):
            at, self.at = self.at, self.at + wanted
        else:
            return None
        self.keep_slot(frame, index, removed, made.serial)
        if frame.offsets != NULL:
            memcpy(made.offsets, frame.offsets, 8 * <size_t> index)
            memcpy(made.offsets + index + many, frame.offsets + stop, 8 * <size_t> (count - stop))
        else:
            for i in range(made.chunk_count):
                made.offsets[i] = frame.repeated
        for i in range(many):
            stored = (<tuple> added[i])[0]
            if not PyBytes_CheckExact(stored):
                made.offsets[index + i] = stored
                continue
            made.offsets[index + i] = special_offset(stored, frame.typesize)
            if not made.offsets[index + i]:
                memcpy(self.room.data + at, PyBytes_AS_STRING(stored), <size_t> PyBytes_GET_SIZE(stored))
                made.offsets[index + i] = at
                at += PyBytes_GET_SIZE(stored)
        self.show(source, at)
        made.lies_in(source)
        return made


cdef int64_t size_of(tuple given) except -1:
    """Uncompressed bytes of a chunk; 0 where it is none that could be put here."""
    cdef Chunk chunk
    stored, size = given
    if size is not None:
        return size
    if not PyBytes_CheckExact(stored):
        return 0
    if inspect_stated(<const uint8_t *> PyBytes_AS_STRING(stored), PyBytes_GET_SIZE(stored), &chunk) or chunk.variable:
        return 0
    return chunk.nbytes


cdef int64_t nbytes_after(Frame frame, int64_t index, int64_t stop, list added) except -1:
    """Uncompressed bytes after chunks of these sizes came instead of some, if all but the last are full then; else 0."""
    cdef int64_t size = 0, many = len(added), nbytes = frame.nbytes, chunksize = frame.chunksize, total = 0, i
    cdef bint is_last = stop == frame.chunk_count
    if frame.vlblocks or (chunksize < 1 and not frame.variable):
        return 0
    if frame.variable:
        return nbytes_of_variable(frame, index, stop, added)
    for i in range(many):
        size = size_of(added[i])
        if size != chunksize and not (is_last and i == many - 1 and 0 < size < chunksize):
            return 0
        total += size
    if many and index == frame.chunk_count and nbytes % chunksize:
        return 0    # a short chunk would get one behind it
    total -= (nbytes if is_last else stop * chunksize) - min(index * chunksize, nbytes)
    if "b2nd" in frame.own_metalayers and (total or many != stop - index):
        return 0
    return nbytes + total


cdef int64_t nbytes_of_variable(Frame frame, int64_t index, int64_t stop, list added) except -1:
    """Uncompressed bytes after chunks of these sizes came instead of some, if sizes differ before and after; else 0."""
    cdef int64_t count = frame.chunk_count, many = len(added), after = count - (stop - index) + many, i, size, first = 0
    cdef int64_t total = 0
    cdef bint differ = False
    if address_get(&frame.starts) == NULL or "b2nd" in frame.own_metalayers:
        return 0
    for i in range(after):
        if index <= i < index + many:
            size = size_of(added[i - index])
        else:
            size = size_at(frame, i if i < index else i - many + stop - index)
        if size < 1:
            return 0
        if i == 0:
            first = size
        differ = differ or (size > first if i == after - 1 else size != first)
        total += size
    return total if differ else 0


cdef inline int64_t size_at(Frame frame, int64_t index) noexcept:
    return frame.starts[index + 1] - frame.starts[index]


cdef int put_starts(Frame made, Frame frame, int64_t index, int64_t stop, list added) except -1:
    """Note where each chunk begins among the uncompressed bytes."""
    cdef int64_t count = frame.chunk_count, many = len(added), i, at
    made.starts = <int64_t *> malloc(8 * (<size_t> made.chunk_count + 1))
    if made.starts == NULL:
        raise MemoryError
    memcpy(made.starts, frame.starts, 8 * (<size_t> index + 1))
    at = frame.starts[index]
    for i in range(many):
        at += size_of(added[i])
        made.starts[index + i + 1] = at
    for i in range(stop, count):
        made.starts[i - stop + index + many + 1] = at + frame.starts[i + 1] - frame.starts[stop]
    return 0
