# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Contiguous frames, opened or assembled, and reading their bytes.

A frame is `header | chunks | offsets chunk | trailer` in a byte range of a source (FORMATS, section 1). Opening
checks the header and finds the trailer; offsets and metadata are checked when first asked for, once. A
`Frame` never changes after that, so threads share it without a lock; a change to a file makes a new one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from blosc2._core.codec.chunk cimport (
    BAD_LENGTH, BAD_STARTS, CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, MAX_BUFFER, MOST_STEPS, NO_MEMORY, Chunk,
    block_bytes, decoding_bytes, fill, inspect)
from blosc2._core.codec.codec cimport DecodeContext, borrow, decode_block, decode_whole_chunk, give_back, reserve_scratch
from blosc2._core.codec.thread_pool cimport await_gil, offer_gil
from blosc2._core.frame.ask_chunks cimport open_asked
from blosc2._core.frame.chunk_table cimport ChunkTable, stays_with_gil
from blosc2._core.frame.header_parser cimport PREFIX_READ
from blosc2._core.frame.part_blocks cimport part_block
from blosc2._core.io.checksum cimport sum_range, zip_checksum, zip_joined
from blosc2._core.io.endian cimport i32, put32
from blosc2._core.io.readahead cimport LOCAL, ask_for_frame
from blosc2._core.io.source cimport Buffer, Source, integers, writable
from blosc2._core.io.steps cimport flag_get, flag_set
from blosc2._core.zip.archive cimport SMALL_MEMBER, Archive, check_member, wrong_checksum
from blosc2._core.zip.central_record cimport Member

from blosc2._core.allocation import FREE as _free_bytes, allowed, too_much
from blosc2._core.codec import codec
from blosc2.exceptions import FormatError

# Chunks whose blocks have lengths of their own.


cdef enum:
    ALONE = 36          # bytes before the dictionary and the one block of a chunk


cdef inline int64_t dictionary_size(const Chunk *chunk) noexcept nogil:
    """Bytes of the dictionary of a chunk, with those that tell its size; 0 without one, or a negative status."""
    cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t size
    if not chunk.dictionary:
        return 0
    if table + 4 > chunk.cbytes:
        return BAD_STARTS
    size = i32(chunk.data + table)
    return 4 + size if 0 <= size <= chunk.cbytes - table - 4 else <int64_t> BAD_STARTS


cdef inline int copy_block(const Chunk *chunk, int64_t dictionary, int32_t start, int32_t stop, int32_t nbytes,
                           uint8_t *to, Chunk *own) noexcept nogil:
    """Make a chunk of its own of one block of variable length, whose bytes and size in memory these are.

    The library then sees nothing else of the file, and nothing that may change meanwhile. There must be room for
    ``ALONE + dictionary + stop - start`` bytes.
    """
    cdef int64_t at = CHUNK_HEADER + 4
    cdef int64_t size = at + dictionary + stop - start
    memcpy(to, chunk.data, CHUNK_HEADER)
    if dictionary:
        memcpy(to + at, chunk.data + CHUNK_HEADER + 4 * <int64_t> chunk.nblocks, <size_t> dictionary)
        put32(to + at, <int32_t> (dictionary - 4))
        at += dictionary
    memcpy(to + at, chunk.data + start, <size_t> (stop - start))
    put32(to + 4, nbytes)
    put32(to + 8, 1)
    put32(to + 12, <int32_t> size)
    put32(to + CHUNK_HEADER, <int32_t> at)
    put32(to + at, nbytes)
    return inspect(to, size, own)


# Finding the blocks of a chunk whose blocks have lengths of their own.


cdef inline int open_vl(Frame frame, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
    """Open a chunk of blocks of variable length, and bring its table of starts."""
    cdef int64_t table
    cdef int status = frame.open_chunk(index, context, chunk)
    if status:
        return status
    if not chunk.variable or chunk.needs_geometry or chunk.data == NULL:
        return BAD_LENGTH
    table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    if chunk.loaded < table:
        status = frame.load_span(index, chunk, chunk.loaded, table)
        if status == CHUNK_OK:
            chunk.loaded = table
    return status


cdef inline int locate_vl(Frame frame, int64_t index, Chunk *chunk, int32_t block, int32_t *start, int32_t *stop,
                          int32_t *size, int64_t *dictionary) noexcept nogil:
    """Bring one block of variable length, and the dictionary; say where they lie. What is read is checked."""
    cdef const uint8_t *starts = chunk.data + CHUNK_HEADER + 4 * <int64_t> block
    cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
    cdef int64_t lowest
    cdef int32_t first = i32(starts)
    cdef int32_t end = chunk.cbytes
    cdef int status
    if block + 1 < chunk.nblocks:
        end = i32(starts + 4)
    if chunk.dictionary:
        status = frame.load_span(index, chunk, table, min(table + 4, <int64_t> chunk.cbytes))
        if status:
            return status
    dictionary[0] = dictionary_size(chunk)
    if dictionary[0] < 0:
        return <int> dictionary[0]
    lowest = table + dictionary[0]
    if first < lowest or end > chunk.cbytes or end - 4 < first:
        return BAD_STARTS
    status = frame.load_span(index, chunk, table, lowest)
    if status == CHUNK_OK:
        status = frame.load_span(index, chunk, first, end)
    if status:
        return status
    size[0] = i32(chunk.data + first)
    if size[0] < 0 or size[0] > chunk.nbytes:
        return BAD_STARTS
    start[0] = first
    stop[0] = end
    return CHUNK_OK


cdef inline list vl_parts(bytes stored, bytes data):
    """The uncompressed blocks of a chunk that was decoded, which checked its table of starts."""
    cdef int32_t start, size, i
    cdef Py_ssize_t at = 0
    cdef list blocks = []
    for i in range(int.from_bytes(stored[8:12], "little")):
        start = int.from_bytes(stored[CHUNK_HEADER + 4 * i:CHUNK_HEADER + 4 * i + 4], "little")
        size = int.from_bytes(stored[start:start + 4], "little")
        blocks.append(data[at:at + size])
        at += size
    return blocks


# Leaves of an archive, read as a whole, against the CRC-32 that its directory states of each member.
#
# Each chunk is summed when it is brought, what lies between them at the end, and the checksums are joined. Frames with
# checksums of their own are checked by these instead, which tell of each chunk alone; small members are checked when they are
# opened (`check_member` of `zip.archive`).


cdef bytes chunk_checksums(ChunkTable frame):
    """Room for the checksums of all chunks of a frame."""
    cdef bytes room
    frame.load_index()
    room = PyBytes_FromStringAndSize(NULL, max(<int64_t> 1, frame.chunk_count) * sizeof(ChunkChecksum))
    memset(PyBytes_AS_STRING(room), 0, PyBytes_GET_SIZE(room))
    return room


cdef void note_checksum(ChunkChecksum *own, const Chunk *chunk) noexcept nogil:
    """Sum a stored chunk, all of which was brought."""
    own.crc, own.size = zip_checksum(0, chunk.data, <size_t> chunk.cbytes), chunk.cbytes


cdef int check_chunk_checksums(ChunkTable frame, const ChunkChecksum *own) except -1:
    """Check a member all of whose chunks were summed."""
    cdef uint32_t crc = zip_checksum(0, frame.header, <size_t> frame.header_len)
    cdef int64_t start = frame.offset + frame.header_len, stop = frame.offset + frame.frame_len
    cdef int64_t cursor = start, at, i
    for i in range(frame.chunk_count):
        if frame.entry(i) < 0:
            continue
        at = frame.chunks_start + frame.entry(i)
        if at < cursor or own[i].size == 0 or own[i].size > stop - at:
            # Not in the order of their numbers, or one upon the other: all once more.
            crc = zip_checksum(0, frame.header, <size_t> frame.header_len)
            cursor = start
            break
        sum_range(frame.source, cursor, at - cursor, True, &crc)
        crc = zip_joined(crc, own[i].crc, <uint64_t> own[i].size)
        cursor = at + own[i].size
    sum_range(frame.source, cursor, stop - cursor, True, &crc)
    if crc != frame.member_checksum:
        raise wrong_checksum(frame.source.path, frame.key, frame.offset)
    return 0


cdef enum:
    SMALL_CHUNK = 1 << 20   # of small frames: it is checked when the first of them is opened
    AHEAD = 512             # of a member read by position, room for its local header


# What the rule of allocation gives any file.
cdef int64_t _FREE = _free_bytes


cdef class Frame(ChunkTable):
    """One version of one contiguous frame.

    Made by `Frame.open` from stored bytes, or by `Frame.assemble` from chunks that were never serialised.
    """

    @staticmethod
    def open(Source source not None, int64_t offset=0, int64_t length=-1, key=None):
        """Parse and check the header of a frame, and find its trailer.

        Parameters
        ----------
        source : Source
            Where the frame lies.
        offset : int
            Its first byte.
        length : int, optional
            The exact size it must have (the byte range of a leaf); by default other bytes may follow it.
        key : str, optional
            The key in a store, for messages.
        """
        cdef Frame self = Frame.__new__(Frame)
        self.read(source, offset, length, key, NULL, 0)
        self.count_chunks()
        return self

    @staticmethod
    def of_member(Archive archive not None, int64_t offset, key=None, bint check=False):
        """Open the frame that a member of an archive is, reading its local header and what follows at once.

        Parameters
        ----------
        archive : Archive
        offset : int
            Where the record of the member is in the directory.
        key : str, optional
            The key in a store, for messages.
        check : bool
            Whether what is read as a whole is to be checked against the CRC-32 of the member: a small one at once.
        """
        return frame_of_member(<void *> archive, archive.source, offset, key, check)

    cdef int check_index(self, int64_t index) except -1:
        self.load_index()
        if index < 0 or index >= self.chunk_count:
            raise IndexError(f"chunk {index} is out of range: there are {self.chunk_count}")
        return 0

    def chunk(self, int64_t index):
        """A chunk as stored; a special one that only the offsets table knows gets a header of its own."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        self.check_index(index)
        context = borrow(0)
        try:
            with nogil:
                offer_gil()
                status = self.open_chunk(index, context, &chunk)
                if status == CHUNK_OK:
                    status = self.load_and_check(index, context, &chunk)
                await_gil()
            if status:
                self.fail(status, index)
            if chunk.data != NULL:
                return PyBytes_FromStringAndSize(<const char *> chunk.data, chunk.cbytes)
            from blosc2._core.frame.frame_writer import special_chunk   # which most who read need not load
            return special_chunk(chunk.kind, chunk.nbytes, self.typesize, self.blocksize)
        finally:
            give_back(context)

    def chunk_offset_at(self, int64_t offset):
        """Absolute offset and length of the stored chunk at an offset of the table."""
        cdef Chunk chunk
        cdef uint8_t header[CHUNK_HEADER]
        cdef int64_t at = self.chunks_start + offset
        self.source.check(self.source.read_into(at, CHUNK_HEADER, header), at, CHUNK_HEADER)
        cdef int status = inspect(header, self.chunks_stop - at, &chunk)
        if status:
            raise FormatError(
                f"a stored chunk: {codec.reason(status)}", path=self.source.path, key=self.key, offset=at)
        return at, chunk.cbytes

    def chunk_stored_at(self, int64_t offset):
        """The stored chunk at an offset of the table."""
        return self.source.read(*self.chunk_offset_at(offset))

    def chunk_info(self, int64_t index):
        """(absolute offset or None, nbytes, cbytes, special kind or 0, raw, block size) of a chunk."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        cdef int64_t value
        self.check_index(index)
        context = borrow(0)
        try:
            status = self.open_chunk(index, context, &chunk)
            if status:
                self.fail(status, index)
            value = self.entry(index)
            special = <int> chunk.kind if chunk.kind < KIND_RAW else 0
            return (self.chunks_start + value if value >= 0 else None, chunk.nbytes, chunk.cbytes, special,
                    chunk.kind == KIND_RAW, chunk.blocksize)
        finally:
            give_back(context)

    def special_value(self, int64_t index):
        """The repeated item of a chunk that holds one value, else None."""
        stored = self.chunk(index)
        return stored[CHUNK_HEADER:] if stored[31] >> 4 & 7 == 3 else None

    def decode_chunk(self, int64_t index):
        """The uncompressed bytes of a chunk."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        cdef bytes result
        self.check_index(index)
        context = borrow(self.blocksize)
        try:
            status = self.open_chunk(index, context, &chunk)
            if status:
                self.fail(status, index)
            result = PyBytes_FromStringAndSize(NULL, chunk.nbytes)
            self.decode_checked(index, context, <uint8_t *> PyBytes_AS_STRING(result), chunk.nbytes)
            return result
        finally:
            give_back(context)

    cdef int decode_checked(self, int64_t index, DecodeContext *context, uint8_t *destination, int64_t size) except -1:
        """Decode a chunk into memory of the size that it was seen to have."""
        cdef int status
        with nogil:
            offer_gil()
            status = self.decode_chunk_into(index, context, destination, size)
            await_gil()
        if status:
            self.fail(status, index)
        return 0

    def vl_blocks(self, int64_t index):
        """The uncompressed blocks of a chunk of variable-length blocks."""
        if not self.vlblocks:
            raise FormatError(
                f"chunk {index} does not consist of blocks of variable length", path=self.source.path, key=self.key)
        stored = self.chunk(index)
        at = self.chunks_start + self.entry(index)
        data = codec.decode_bytes(stored, self.nbytes, self.source.path, self.key, at)  # checks the table of starts
        return vl_parts(stored, data)

    def vl_count(self, int64_t index):
        """How many blocks of variable length a chunk has."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        self.check_index(index)
        context = borrow(0)
        try:
            status = open_vl(self, index, context, &chunk)
        finally:
            give_back(context)
        if status:
            self.fail(status, index)
        return <int> chunk.nblocks

    def vl_block(self, int64_t index, int32_t block, int64_t most=MAX_BUFFER):
        """One block of a chunk of variable-length blocks, uncompressed; nothing else of the chunk is decoded.

        Raises
        ------
        IndexError
            There is no such block.
        FormatError
            It is damaged, or would take more than `most` bytes.
        """
        cdef Chunk chunk, own
        cdef DecodeContext *context
        cdef uint8_t *alone = NULL
        cdef int64_t dictionary = 0
        cdef int32_t start = 0, stop = 0, size = 0
        cdef int status
        cdef bytes result
        cdef uint8_t *destination
        self.check_index(index)
        context = borrow(0)
        try:
            status = open_vl(self, index, context, &chunk)
            if status:
                self.fail(status, index)
            if not 0 <= block < chunk.nblocks:
                raise IndexError(f"chunk {index} has no block {block}, it has {chunk.nblocks}")
            with nogil:
                status = locate_vl(self, index, &chunk, block, &start, &stop, &size, &dictionary)
            if status:
                self.fail(status, index)
            if size > most:
                raise FormatError(
                    too_much(size, f"block {block} of chunk {index}", most), path=self.source.path, key=self.key,
                    offset=self.chunks_start + self.entry(index))
            alone = <uint8_t *> malloc(<size_t> (ALONE + dictionary + stop - start))
            if alone == NULL:
                raise MemoryError
            result = PyBytes_FromStringAndSize(NULL, size)
            destination = <uint8_t *> PyBytes_AS_STRING(result)
            with nogil:
                status = copy_block(&chunk, dictionary, start, stop, size, alone, &own)
                if status == CHUNK_OK:
                    own.loaded = own.cbytes
                    status = decode_whole_chunk(context, &own, destination)
            if status:
                self.fail(status, index)
            return result
        finally:
            free(alone)
            give_back(context)

    # ------------------------------------------------------------ bytes

    def read_bytes(self, int64_t start, int64_t stop):
        """Uncompressed bytes ``start .. stop`` of all chunks end to end."""
        cdef bytes result
        if not 0 <= start <= stop <= self.nbytes:
            raise IndexError(f"bytes {start}..{stop} are outside the {self.nbytes} bytes of the frame")
        self.load_starts()
        result = PyBytes_FromStringAndSize(NULL, stop - start)
        self.read_range(start, stop, <uint8_t *> PyBytes_AS_STRING(result))
        return result

    def read_into(self, int64_t start, int64_t stop, out):
        """What `read_bytes` gives, into a writable C-contiguous buffer of exactly that size."""
        cdef Buffer view = writable(out)
        if not 0 <= start <= stop <= self.nbytes:
            raise IndexError(f"bytes {start}..{stop} are outside the {self.nbytes} bytes of the frame")
        if view.size != stop - start:
            raise ValueError(f"out has {view.size} bytes, {stop - start} are read")
        self.load_starts()
        if stop > start:
            self.read_range(start, stop, view.data)

    cdef int64_t chunk_at(self, int64_t position) noexcept nogil:
        """The chunk that holds an uncompressed byte."""
        cdef int64_t low = 0, high, middle
        if not self.variable:
            return position // self.chunksize
        high = self.chunk_count
        while high - low > 1:
            middle = (low + high) // 2
            if self.starts[middle] <= position:
                low = middle
            else:
                high = middle
        return low

    cdef int read_chunks(self, DecodeContext *context, int64_t start, int64_t stop, uint8_t *to, ChunkChecksum *own,
                         int64_t *index) noexcept nogil:
        """An uncompressed range, chunk after chunk; `index` is the last one that was read."""
        cdef int64_t at = start
        cdef int status = CHUNK_OK
        index[0] = self.chunk_at(at) - 1
        while status == CHUNK_OK and at < stop:
            index[0] += 1
            status = self.read_from_chunk(index[0], context, at, stop, to + (at - start), NULL if own == NULL else own + index[0])
            at = self.starts[index[0] + 1] if self.variable else (index[0] + 1) * self.chunksize
        return status

    cdef int read_range(self, int64_t start, int64_t stop, uint8_t *destination) except -1:
        """Checked bounds, loaded index and starts; releases the GIL, unless others could not use it in that time."""
        cdef DecodeContext *context
        cdef int status
        cdef int64_t index = 0
        cdef bytes room
        cdef ChunkChecksum *own = NULL
        if start == stop:
            return 0
        if self.by_member and start == 0 and stop == self.nbytes:
            room = chunk_checksums(self)
            own = <ChunkChecksum *> PyBytes_AS_STRING(room)
        context = borrow(self.blocksize)
        try:
            if stays_with_gil(self):
                status = self.read_chunks(context, start, stop, destination, own, &index)
            else:
                with nogil:
                    offer_gil()
                    status = self.read_chunks(context, start, stop, destination, own, &index)
                    await_gil()
            if status:
                self.fail(status, index)
            if own != NULL:
                check_chunk_checksums(self, own)
        finally:
            give_back(context)
        return 0

    cdef int read_from_chunk(
            self, int64_t index, DecodeContext *context, int64_t start, int64_t stop, uint8_t *destination,
            ChunkChecksum *own) noexcept nogil:
        """The part of an uncompressed range that lies in one chunk, whose checksum goes to `own` unless that is NULL."""
        cdef Chunk chunk
        cdef int64_t first = self.starts[index] if self.variable else index * self.chunksize
        cdef int64_t begin, end, low, high
        cdef int32_t block
        cdef uint8_t *scratch
        cdef const uint8_t *decoded = NULL
        cdef int status = open_asked(self, index, context, &chunk, stop - start)
        if status:
            return status
        begin = start - first
        end = min(stop - first, <int64_t> chunk.nbytes)
        if self.variable and chunk.nbytes != self.starts[index + 1] - first:
            return BAD_LENGTH
        if own != NULL and chunk.data != NULL:
            status = self.load_and_check(index, context, &chunk)
            if status:
                return status
            note_checksum(own, &chunk)
        if chunk.kind == KIND_RAW:
            if end - begin == chunk.nbytes:
                status = self.load_and_check(index, context, &chunk)
            else:
                status = self.load_span(index, &chunk, CHUNK_HEADER + begin, CHUNK_HEADER + end)
            if status == CHUNK_OK:
                memcpy(destination, chunk.data + CHUNK_HEADER + begin, <size_t> (end - begin))
            return status
        if chunk.kind != KIND_REGULAR:
            status = self.load_and_check(index, context, &chunk)
            return status if status else fill(&chunk, begin, destination, end - begin)
        if chunk.whole or chunk.needs_geometry or end - begin == chunk.nbytes or (
                ((end - begin) // chunk.blocksize + 2) * chunk.nblocks > MOST_STEPS):
            status = self.load_and_check(index, context, &chunk)
            if status:
                return status
            if end - begin == chunk.nbytes and not chunk.needs_geometry:
                return decode_whole_chunk(context, &chunk, destination)
            scratch = reserve_scratch(context, chunk.nbytes)
            if scratch == NULL:
                return NO_MEMORY
            if chunk.needs_geometry and self.plugin is not None:
                status = self.plugin.decode(&chunk, scratch)
            else:
                status = decode_whole_chunk(context, &chunk, scratch)
            if status == CHUNK_OK:
                memcpy(destination, scratch + begin, <size_t> (end - begin))
            return status
        block = <int32_t> (begin // chunk.blocksize)
        while begin < end:
            low = <int64_t> block * chunk.blocksize
            high = low + block_bytes(&chunk, block)
            if begin == low and end >= high:
                status = self.load_block(index, context, &chunk, block)
                if status == CHUNK_OK:
                    status = decode_block(context, &chunk, block, destination)
                if status:
                    return status
            else:
                status = part_block(
                    self, index, context, &chunk, block, False, <int32_t> (min(end, high) - low), &decoded)
                if status:
                    return status
                memcpy(destination, decoded + (begin - low), <size_t> (min(end, high) - begin))
            destination += min(end, high) - begin
            begin = high
            block += 1
        return CHUNK_OK

    def byte_range_of(self, int64_t start, int64_t length, bint check=False):
        """Where uncompressed bytes ``start .. start + length`` lie verbatim: an absolute offset, or None.

        `check` has a small chunk checked the first time, if the frame checks wholes.
        """
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int64_t index, within
        cdef int status
        if start < 0 or length < 1 or start > self.nbytes or length > self.nbytes - start or self.variable:
            return None
        self.load_index()
        index = start // self.chunksize
        within = start - index * self.chunksize
        if within + length > self.chunk_nbytes(index) or self.entry(index) < 0:
            return None
        context = borrow(0)
        try:
            status = self.open_chunk(index, context, &chunk)
            if status == CHUNK_OK and check and self.checksums != NULL and not self.each_read and chunk.cbytes <= SMALL_CHUNK:
                self._need_seen()
                if not flag_get(&self.seen[index]):
                    status = self.load_and_check(index, context, &chunk)
                    if status == CHUNK_OK:
                        flag_set(&self.seen[index])
        finally:
            give_back(context)
        if status:
            self.fail(status, index)
        if chunk.kind != KIND_RAW:
            return None
        return self.chunks_start + self.entry(index) + CHUNK_HEADER + within

    def check_all(self):
        """Decode every chunk and every metadata entry; raises `FormatError` at the first that is wrong."""
        cdef int64_t i
        self.load_starts()
        for i in range(self.chunk_count):
            if self.entry(i) >= 0:
                self.decode_chunk(i)
        for name in self.load_vlmeta():
            self.vlmeta(name)

    # ------------------------------------------------------------ metadata

    @property
    def file_size(self):
        """Bytes of the file, or of what is in memory instead: what the rule of allocation counts."""
        if self.header == NULL:
            return self.source.size + sum([len(stored) for stored in self.vlmeta_table.values()])
        return self.source.size

    def vlmeta(self, str name):
        """Packed content of one entry of variable-length metadata, or None."""
        cdef Chunk chunk
        cdef int64_t nbytes
        cdef bytes stored
        found = self.load_vlmeta().get(name)
        if found is None:
            return None
        at = None
        if isinstance(found, bytes):
            stored = found
        else:
            at = found[0]
            stored = self.source.read(at, found[1])
        if inspect(<const uint8_t *> PyBytes_AS_STRING(stored), PyBytes_GET_SIZE(stored), &chunk) == CHUNK_OK:
            nbytes = decoding_bytes(&chunk)
            if nbytes > _FREE and nbytes > allowed(self.file_size):
                raise FormatError(
                    too_much(nbytes, f"metadata entry {name!r}", allowed(self.file_size)),
                    path=self.source.path, key=self.key, offset=at)
            if chunk.kind != KIND_RAW and chunk.kind != KIND_REGULAR:
                raise FormatError(
                    f"metadata entry {name!r} is a special chunk, which none may be",
                    path=self.source.path, key=self.key, offset=at)
        return codec.decode_bytes(stored, MAX_BUFFER, self.source.path, self.key, at)

    # ------------------------------------------------------------ frames that were never serialised

    @staticmethod
    def assemble(Source source not None, entries, int64_t count, int64_t nbytes, int32_t chunksize, encoding,
                 dict metalayers, dict vlmeta, bint vlblocks=False, variable=None):
        """A frame over chunks in memory.

        Parameters
        ----------
        source : Source
            Holds the stored chunks; offsets count from its first byte.
        entries : int64 array, or int
            The table of offsets, or the one value that all `count` chunks share.
        metalayers, vlmeta : dict
            Name -> packed content; name -> stored chunk.

        Raises
        ------
        FormatError
            So many chunks of this size do not hold so many bytes.
        """
        cdef Frame self = Frame.__new__(Frame)
        cdef Buffer table
        cdef Py_ssize_t told
        cdef int64_t i
        self.source = source
        self.chunks_start = 0
        self.chunks_stop = self.cbytes = source.size
        self.nbytes = nbytes
        self.chunksize = chunksize
        self.chunk_count = count
        self.typesize = encoding.typesize
        self.blocksize = encoding.blocksize
        self.codec = encoding.codec
        self.codec_meta = encoding.codec_meta
        self.clevel = encoding.clevel
        self.splitmode = encoding.splitmode
        self.use_dict = encoding.use_dict
        for i in range(6):
            self.filter_ids[i] = encoding.filters[i]
            self.filter_metas[i] = encoding.filters_meta[i]
        self.vlblocks = vlblocks
        self.variable = chunksize == 0 if variable is None else variable
        # By the size it is told which chunk a byte lies in.
        if nbytes < 0 or count < 0 or (not self.variable and count != (
                0 if nbytes == 0 else -1 if chunksize < 1 else (nbytes - 1) // chunksize + 1)):
            raise FormatError(f"{count} chunks of {chunksize} bytes do not hold {nbytes} bytes", path=source.path)
        self.flags = 0x12 if not (self.variable or vlblocks) else 0x13 | self.variable << 6 | vlblocks << 7
        self.own_metalayers = metalayers
        self.vlmeta_table = vlmeta
        if isinstance(entries, int):
            self.repeated = entries
        elif count:
            table = integers(entries, 8, &told)
            if told != count:
                raise ValueError(f"{told} offsets for {count} chunks")
            self.offsets = <int64_t *> malloc(8 * count)
            if self.offsets == NULL:
                raise MemoryError
            memcpy(self.offsets, table.data, 8 * count)
        self.index_loaded = True
        return self


cdef Frame frame_of_member(void *archive_, Source source, int64_t offset, object key, bint check):
    """What `Frame.of_member` gives. The archive is the caller's: no reference to it is counted."""
    try:
        return _of_member(archive_, source, offset, key, check)
    except FormatError:
        if not source.forget_page():
            raise
    return _of_member(archive_, source, offset, key, check)     # from the file


cdef Frame _of_member(void *archive_, Source source, int64_t offset, object key, bint check):
    cdef Frame self = Frame.__new__(Frame)
    cdef uint8_t ahead[PREFIX_READ + AHEAD]
    cdef const uint8_t *known = NULL
    cdef int64_t have, data, before
    cdef Member member
    (<Archive> archive_).member_at(offset, &member)
    ask_for_frame(source, member.header, member.size + member.name_length + LOCAL)
    data = (<Archive> archive_).locate_and_read(source, &member, ahead, sizeof(ahead), &have)
    before = data - member.header
    if have > before:
        known = ahead + before
    if check and member.size <= SMALL_MEMBER:
        # First: what is wrong in it may be anything.
        if known == NULL and source.base != NULL:
            check_member(source, data, &member, key, source.base + data, member.size)
        else:
            check_member(source, data, &member, key, known, have - before)
    self.read(source, data, member.size, key, known, have - before)
    self.count_chunks()
    if check and member.size > SMALL_MEMBER and not self.checksums_len:
        self.by_member, self.member_checksum = True, member.crc
    return self
