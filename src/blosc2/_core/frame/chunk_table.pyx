# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The chunks of a frame: where each lies, and bringing and decoding what a read needs of it (FORMATS 1.4, 2)."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from blosc2._core.codec.chunk cimport (
    BAD_LENGTH, BAD_SUM, CHUNK_HEADER, CHUNK_OK, KIND_RAW, KIND_REGULAR, KIND_VALUE, KIND_ZERO, NO_MEMORY, Chunk,
    ChunkKind, block_span, decoding_bytes, in_order, inspect, reads_in_streams)
from blosc2._core.codec.codec cimport DecodeContext, Plugin, borrow, decode_whole_chunk, give_back, reserve_stored
from blosc2._core.codec.thread_pool cimport is_quick
from blosc2._core.frame.ask_chunks cimport open_asked
from blosc2._core.frame.header_parser cimport CHECKSUMS_TAIL, TRAILER_TAIL, Header
from blosc2._core.io.checksum cimport checksum
from blosc2._core.io.endian cimport u32, u64
from blosc2._core.io.memory cimport prefetch
from blosc2._core.io.readahead cimport PAGE, ask_range
from blosc2._core.io.source cimport Buffer, integers, readable
from blosc2._core.io.steps cimport address_get, flag_get, flag_set, publish_once

from blosc2._core.allocation import table_limit, too_much
from blosc2._core.codec import codec
from blosc2.exceptions import FormatError


cdef inline int read_table(
        ChunkTable frame, int64_t at, Chunk *chunk, const uint8_t *header, uint8_t *raw, int64_t *table, int64_t count) except -1:
    """The entries of the offsets table at `at`, whose header was read and checked; `raw` gets its stored bytes."""
    cdef DecodeContext *context
    cdef bint quick = is_quick(chunk.cbytes, 8 * count)     # its header was just read: the rest is there
    cdef int status
    if quick:
        status = frame.fetch(frame.offset + at, chunk.cbytes, raw)
    else:
        with nogil:
            status = frame.fetch(frame.offset + at, chunk.cbytes, raw)
    frame.source.check(status, frame.offset + at, chunk.cbytes)
    # What was checked is what is decoded, whatever the file shows by now.
    memcpy(raw, header, CHUNK_HEADER)
    chunk.data = raw
    chunk.loaded = chunk.cbytes
    context = borrow(chunk.blocksize)
    if quick:
        status = decode_whole_chunk(context, chunk, <uint8_t *> table)
    else:
        with nogil:
            status = decode_whole_chunk(context, chunk, <uint8_t *> table)
    give_back(context)
    if status:
        frame.bad(at, f"the offsets table: {codec.reason(status)}")
    return 0


cdef enum:
    MAX_CHUNKS = 268435455
    PREFETCHED = 1 << 20    # of a mapped chunk: as much as the caches near a core hold
    EXPANSION = 4096        # an offsets table may hold this many times its stored bytes
    SURELY_ALLOWED = 32 << 20   # bytes of such a table that the rule of allocation gives any file

cdef int64_t SPECIAL_ZERO = <int64_t> (<uint64_t> 0x81 << 56)
cdef int64_t SPECIAL_NAN = <int64_t> (<uint64_t> 0x82 << 56)
cdef int64_t SPECIAL_UNINIT = <int64_t> (<uint64_t> 0x84 << 56)


cdef class ChunkTable(Header):
    """A header with its table of offsets, decoded and checked when it is first needed."""

    def __cinit__(self):
        self.offsets = NULL
        self.starts = NULL
        self.checksums = NULL
        self.seen = NULL

    def __dealloc__(self):
        free(self.seen)
        free(self.checksums)
        free(self.offsets)
        free(self.starts)

    cdef int count_chunks(self) except -1:
        """What the header alone says about the number of chunks."""
        if self.nbytes == 0:
            self.index_loaded = True
        elif not self.variable:
            self.chunk_count = self.nbytes // self.chunksize + (self.nbytes % self.chunksize != 0)
            if self.chunk_count > MAX_CHUNKS:
                self.bad(30, f"{self.chunk_count} chunks; there are at most {MAX_CHUNKS}")
        return 0

    @property
    def nchunks(self):
        self.load_index()
        return self.chunk_count

    @property
    def stored_nbytes(self):
        """Bytes of all stored chunks, their headers included."""
        cdef int64_t i, total = 0
        cdef Chunk chunk
        cdef int status
        cdef DecodeContext *context
        self.load_index()
        if self.offsets == NULL:
            if self.chunk_count == 0 or self.repeated < 0:
                return 0
        context = borrow(0)
        try:
            for i in range(self.chunk_count):
                if self.entry(i) >= 0:
                    status = self.find_chunk(i, context, &chunk)
                    if status:
                        self.fail(status, i)
                    total += chunk.cbytes
        finally:
            give_back(context)
        return total

    # ------------------------------------------------------------ offsets

    cdef int64_t entry(self, int64_t index) noexcept nogil:
        return self.repeated if self.offsets == NULL else self.offsets[index]

    cdef int load_index(self) except -1:
        """Decode and check the table of offsets (FORMATS 1.4 and 1.6, points 10-12), once."""
        cdef uint8_t header[CHUNK_HEADER + 8]
        cdef Chunk chunk
        cdef int64_t at, room, i, count, stored = 0, value, have, held
        cdef int64_t *table = NULL
        cdef uint32_t *checksums = NULL
        cdef uint32_t own = 0
        cdef uint8_t *raw
        cdef int status
        if flag_get(&self.index_loaded):
            return 0
        at = self.chunks_stop - self.offset
        room = self.frame_len - self.trailer_len - at
        have = min(room, <int64_t> (CHUNK_HEADER + 8))
        self.source.check(self.fetch(self.offset + at, have, header), self.offset + at, have)
        status = inspect(header, room, &chunk)
        if status:
            self.bad(at, f"the offsets table: {codec.reason(status)}")
        count = chunk.nbytes // 8
        if not self.variable:
            count = self.chunk_count
        if chunk.nbytes != 8 * count or chunk.variable or count == 0 or chunk.needs_geometry:
            self.bad(at + 4, f"the offsets table has {chunk.nbytes} bytes, which does not fit {count} chunks")
        if chunk.kind != KIND_RAW and chunk.kind != KIND_REGULAR:
            return self._take_repeated(&chunk, header, at, have, count)
        if 8 * count > EXPANSION * <int64_t> chunk.cbytes:
            self.bad(at, f"an offsets table of {chunk.cbytes} bytes claims {count} chunks")
        held = max(8 * count, decoding_bytes(&chunk) // 2)     # of what it takes to decode it nothing is left then
        if held > SURELY_ALLOWED and held > table_limit(self.source.size):
            self.bad(at, too_much(held, f"an offsets table of {count} chunks", table_limit(self.source.size)))
        if chunk.cbytes > PAGE:
            ask_range(self.source, self.offset + at, chunk.cbytes)
        raw = <uint8_t *> malloc(chunk.cbytes)
        table = <int64_t *> malloc(8 * count)
        try:
            if raw == NULL or table == NULL:
                raise MemoryError
            read_table(self, at, &chunk, header, raw, table, count)
            if self.wholes:
                own = checksum(0, raw, chunk.cbytes)
            for i in range(count):
                value = <int64_t> u64(<const uint8_t *> (table + i))
                self.check_entry(value, at)
                stored += value >= 0
                table[i] = value
            if stored > 1 and stored > self.cbytes // CHUNK_HEADER:
                self.bad(at, f"{stored} stored chunks do not fit {self.cbytes} bytes")
            if self.wholes:
                checksums = self.trailer_checksums(table, count, own)
            with cython.critical_section(self):
                if not self.index_loaded:   # another thread may have been faster
                    self.take_checksums(checksums)
                    checksums = NULL
                    if count == 1 and table[0] >= 0:
                        self.repeated = table[0]  # as leaves of stores often have, which then need no table
                    else:
                        self.offsets = table
                        table = NULL
                    if self.variable:   # else it is known from the header, and others read it
                        self.chunk_count = count
                    flag_set(&self.index_loaded)
        finally:
            free(raw)
            free(table)
            free(checksums)
        return 0

    cdef int _take_repeated(self, const Chunk *chunk, const uint8_t *header, int64_t at, int64_t have, int64_t count) except -1:
        """The table of offsets is a special chunk: all entries are the same."""
        cdef int64_t value = 0
        cdef uint32_t *checksums = NULL
        if chunk.kind == KIND_VALUE:
            if chunk.cbytes != CHUNK_HEADER + 8:
                self.bad(at + 12, "the offsets table repeats a value that is no offset")
            value = <int64_t> u64(header + CHUNK_HEADER)
        elif chunk.kind != KIND_ZERO:
            self.bad(at + 31, "the offsets table is a special chunk of the wrong kind")
        self.check_entry(value, at)
        if value >= 0 and count > 1:
            self.bad(at, f"{count} chunks are said to lie at one offset")
        if self.wholes:
            if chunk.cbytes > have:
                self.bad(at + 12, "the offsets table is longer than its kind is")
            checksums = self.trailer_checksums(&value, 1 if value >= 0 else 0, checksum(0, header, chunk.cbytes))
        with cython.critical_section(self):
            if not self.index_loaded:
                self.take_checksums(checksums)
                checksums = NULL
                self.repeated = value
                if self.variable:
                    self.chunk_count = count
                flag_set(&self.index_loaded)
        free(checksums)     # another thread was faster
        return 0

    cdef void take_checksums(self, uint32_t *checksums) noexcept:
        if self.checksums == NULL:
            self.checksums = checksums
        else:
            free(checksums)

    cdef uint32_t *trailer_checksums(self, const int64_t *table, int64_t count, uint32_t index_checksum) except? NULL:
        """The checksums of chunks, from a trailer that agrees with its own and with that of the table of offsets.

        `count` is 0 where no chunk is stored.
        """
        cdef bytes trailer = self.checked_trailer()
        cdef const uint8_t *last = <const uint8_t *> PyBytes_AS_STRING(trailer) + len(trailer) - TRAILER_TAIL - CHECKSUMS_TAIL
        cdef const uint8_t *own
        cdef int64_t i, stored = 0, many = (self.checksums_len - CHECKSUMS_TAIL) // 4
        cdef uint32_t *checksums
        if u32(last + 16) != index_checksum:
            self.bad(self.chunks_stop - self.offset, "the offsets table is not the one that was written, as its checksum says")
        for i in range(count):
            stored += table[i] >= 0
        if stored != many:
            self.bad(self.frame_len - self.trailer_len, f"{many} checksums for {stored} stored chunks")
        checksums = <uint32_t *> calloc(max(count, 1), sizeof(uint32_t))
        if checksums == NULL:
            raise MemoryError
        own = last - 4 * many
        for i in range(count):
            if table[i] >= 0:
                checksums[i] = u32(own)
                own += 4
        return checksums

    cdef int check_entry(self, int64_t value, int64_t at) except -1:
        if value >= 0:
            if value > self.cbytes - CHUNK_HEADER:
                self.bad(at, f"the offsets table points to {value}, outside the {self.cbytes} bytes of chunks")
        elif value != SPECIAL_ZERO and value != SPECIAL_NAN and value != SPECIAL_UNINIT:
            self.bad(at, f"the offsets table has an entry {value} that is neither an offset nor a special value")
        elif self.variable:
            self.bad(at, "a special offset in a frame of variable chunks, which gives it no size")
        elif value == SPECIAL_NAN and self.typesize != 4 and self.typesize != 8:
            self.bad(at, f"chunks of NaN with items of {self.typesize} bytes; 4 or 8 are possible")
        return 0

    cdef int load_starts(self) except -1:
        """Uncompressed start of each variable chunk, from the chunk headers."""
        cdef int64_t *starts
        cdef int64_t i, total = 0
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        self.load_index()
        if not self.variable or address_get(&self.starts) != NULL:
            return 0
        starts = <int64_t *> malloc(8 * (self.chunk_count + 1))
        if starts == NULL:
            raise MemoryError
        try:
            context = borrow(0)
            try:
                for i in range(self.chunk_count):
                    starts[i] = total
                    status = self.find_chunk(i, context, &chunk)
                    if status:
                        self.fail(status, i)
                    total += chunk.nbytes
            finally:
                give_back(context)
            starts[self.chunk_count] = total
            if total != self.nbytes:
                self.bad(30, f"the chunks hold {total} bytes, the header says {self.nbytes}")
            with cython.critical_section(self):
                publish_once(&self.starts, &starts)
        finally:
            free(starts)
        return 0

    def know_sizes(self, sizes):
        """Be told the uncompressed sizes of variable chunks by who has just written them.

        Otherwise the headers of all chunks are read for them. Sizes that do not fit are passed over. To be called before
        others know the frame.
        """
        cdef int64_t i, total = 0
        cdef int64_t *starts
        cdef Py_ssize_t count = 0
        cdef Buffer held = integers(sizes, 8, &count)
        cdef const int64_t *size_of = <const int64_t *> held.data
        if not self.variable or self.starts != NULL or count != self.chunk_count or not self.chunk_count:
            return
        starts = <int64_t *> malloc(8 * (self.chunk_count + 1))
        if starts == NULL:
            raise MemoryError
        for i in range(self.chunk_count):
            starts[i] = total
            if not 0 < size_of[i] <= self.nbytes - total:
                free(starts)
                return
            total += size_of[i]
        starts[self.chunk_count] = total
        if total != self.nbytes:
            free(starts)
            return
        self.starts = starts

    def know_table(self, offsets, sums):
        """Be told the table, and the checksums of stored chunks, by who has just written them: see `know_sizes`.

        What does not fit is passed over. To be called after `check_wholes`.
        """
        cdef Py_ssize_t count = 0
        cdef Buffer held = integers(offsets, 8, &count)
        cdef Buffer held_sums = readable(sums)
        cdef const int64_t *table = <const int64_t *> held.data
        cdef int64_t i, stored = 0
        if self.index_loaded or self.variable or count < 2 or count != self.chunk_count:
            return
        for i in range(count):
            self.check_entry(table[i], self.chunks_stop - self.offset)
            stored += table[i] >= 0
        if stored == 0 or stored > self.cbytes // CHUNK_HEADER or (self.wholes and held_sums.size != 4 * stored):
            return
        self.offsets = <int64_t *> malloc(8 * count)
        if self.offsets == NULL:
            raise MemoryError
        memcpy(self.offsets, table, 8 * count)
        self.index_loaded = True
        if self.wholes:
            self.take_sums(held_sums.data, stored)

    @property
    def repeated_offset(self):
        """The one special offset that all chunks share, or None."""
        self.load_index()
        return self.repeated if self.offsets == NULL and self.chunk_count and self.repeated < 0 else None

    def offsets_bytes(self):
        """The table of offsets as native int64; empty where one special offset stands for all."""
        self.load_index()
        if self.offsets == NULL:
            if self.chunk_count == 1 and self.repeated >= 0:
                return PyBytes_FromStringAndSize(<const char *> &self.repeated, 8)
            return b""
        return PyBytes_FromStringAndSize(<const char *> self.offsets, 8 * self.chunk_count)

    def chunk_sizes(self):
        """Uncompressed sizes of all chunks of a frame of variable chunks, as native int64 bytes."""
        cdef int64_t i
        cdef int64_t *to
        self.load_starts()
        if self.starts == NULL:
            raise ValueError("the chunks of this frame are equal")
        result = PyBytes_FromStringAndSize(NULL, 8 * self.chunk_count)
        to = <int64_t *> PyBytes_AS_STRING(result)
        for i in range(self.chunk_count):
            to[i] = self.starts[i + 1] - self.starts[i]
        return result

    def offsets_list(self):
        """The table of offsets as stored: counted from the header's end; negative ones are special."""
        self.load_index()
        return [self.entry(i) for i in range(self.chunk_count)]

    # ------------------------------------------------------------ chunks

    cdef int64_t chunk_nbytes(self, int64_t index) noexcept nogil:
        """Uncompressed size that a chunk of equal chunks must have."""
        cdef int64_t rest = self.nbytes - index * self.chunksize
        return rest if rest < self.chunksize else self.chunksize

    cdef int open_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
        """Find a chunk and check its header; `load_block` or `load_chunk` bring the rest.

        Where checksums are asked for all of it is brought and checked at once. The index must be loaded and valid.
        Returns a status of `codec` or `source`.
        """
        cdef int status = self.find_chunk(index, context, chunk)
        if not self.each_read or self.checksums == NULL or status or chunk.data == NULL:
            return status
        status = self.load_chunk(index, context, chunk)
        if status == CHUNK_OK and checksum(0, chunk.data, chunk.cbytes) != self.checksums[index]:
            status = BAD_SUM
        return status

    cdef int find_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
        """Find a chunk and check its header, whatever its checksum says."""
        cdef int64_t value = self.entry(index)
        cdef int64_t at, room, have
        cdef uint8_t *stored
        cdef int status
        if value < 0:
            chunk.data = NULL
            chunk.kind = <ChunkKind> (<uint64_t> value >> 56 & 7)
            chunk.nbytes = <int32_t> self.chunk_nbytes(index)
            chunk.blocksize = chunk.nbytes
            chunk.cbytes = CHUNK_HEADER
            chunk.nblocks = 1
            chunk.typesize = self.typesize
            chunk.variable = chunk.whole = chunk.needs_geometry = chunk.dictionary = False
            chunk.loaded = CHUNK_HEADER
            return CHUNK_OK
        at = self.chunks_start + value
        room = self.chunks_stop - at
        if self.memory(at) != NULL:
            status = inspect(self.memory(at), room, chunk)
            chunk.loaded = chunk.cbytes
        else:
            have = room if room < FIRST_READ else FIRST_READ
            stored = reserve_stored(context, FIRST_READ)
            if stored == NULL:
                return NO_MEMORY
            status = self.source.read_into(at, have, stored)
            if status:
                return status
            status = inspect(stored, room, chunk)
            if status:
                return status
            chunk.loaded = have if have < chunk.cbytes else chunk.cbytes
            if chunk.cbytes > have:
                stored = reserve_stored(context, chunk.cbytes)
                if stored == NULL:
                    return NO_MEMORY
                chunk.data = stored
        if status:
            return status
        if chunk.nbytes > self.nbytes if self.variable else chunk.nbytes != self.chunk_nbytes(index):
            return BAD_LENGTH
        if chunk.variable != self.vlblocks:
            return BAD_LENGTH
        return CHUNK_OK

    cdef int load_span(self, int64_t index, Chunk *chunk, int64_t start, int64_t stop) noexcept nogil:
        """Bring stored bytes ``start .. stop`` of a chunk that was opened by position."""
        if stop <= chunk.loaded or chunk.data == NULL or self.whole or self.source.base != NULL:
            return CHUNK_OK
        if start < chunk.loaded:
            start = chunk.loaded
        return self.source.read_into(
            self.chunks_start + self.entry(index) + start, stop - start, <void *> (chunk.data + start))

    cdef int load_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
        cdef int status
        if self.source.base != NULL and chunk.data != NULL and chunk.kind == KIND_REGULAR and reads_in_streams(chunk):
            prefetch(chunk.data, min(chunk.cbytes, PREFETCHED))
        status = self.load_span(index, chunk, chunk.loaded, chunk.cbytes)
        if status == CHUNK_OK:
            chunk.loaded = chunk.cbytes
        return status

    cdef int load_and_check(self, int64_t index, DecodeContext *context, Chunk *chunk) noexcept nogil:
        """Bring a chunk all of which is wanted, and check it if its frame has checksums that are asked for."""
        cdef int status
        if self.checksums == NULL or self.each_read or chunk.data == NULL or index >= self.chunk_count:
            return self.load_chunk(index, context, chunk)
        status = self.load_span(index, chunk, chunk.loaded, chunk.cbytes)
        if status:
            return status
        chunk.loaded = chunk.cbytes
        return CHUNK_OK if checksum(0, chunk.data, chunk.cbytes) == self.checksums[index] else BAD_SUM

    cdef int load_block(self, int64_t index, DecodeContext *context, Chunk *chunk, int32_t block) noexcept nogil:
        """Bring what one block of a regular chunk needs: the table of starts and its own bytes."""
        cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
        cdef int32_t start, stop
        cdef int status
        if self.source.base != NULL and chunk.kind == KIND_REGULAR:
            status = block_span(chunk, block, &start, &stop)
            if status == CHUNK_OK and reads_in_streams(chunk):
                prefetch(chunk.data + start, stop - start)
            return status
        if chunk.loaded >= chunk.cbytes:
            return CHUNK_OK
        if chunk.loaded < table:
            status = self.load_span(index, chunk, chunk.loaded, table)
            if status:
                return status
            chunk.loaded = table
        if not in_order(chunk, block) and block + 1 < chunk.nblocks:
            return self.load_chunk(index, context, chunk)
        status = block_span(chunk, block, &start, &stop)
        if status:
            return status
        return self.load_span(index, chunk, start, stop)

    cdef int decode_chunk_into(self, int64_t index, DecodeContext *context, uint8_t *destination, int64_t size) noexcept nogil:
        """A whole chunk into memory of its size, through the super-chunk of the C library when its codec needs one."""
        cdef Chunk chunk
        cdef int status = open_asked(self, index, context, &chunk, size)
        if status == CHUNK_OK and chunk.nbytes != size:
            status = BAD_LENGTH
        if status == CHUNK_OK:
            status = self.load_and_check(index, context, &chunk)
        if status:
            return status
        if chunk.needs_geometry and self.plugin is not None:
            return self.plugin.decode(&chunk, destination)
        return decode_whole_chunk(context, &chunk, destination)

    cdef int fail(self, int status, int64_t index) except -1:
        """Raise what a status says about a chunk."""
        cdef int64_t value = self.entry(index)
        at = self.chunks_start + value if value >= 0 else None
        if status == NO_MEMORY:
            raise MemoryError(f"not enough memory to decode chunk {index} of {self.source.path}")
        if status > 0 or status == -200:
            self.source.check(status, self.chunks_start + max(value, 0), CHUNK_HEADER)
        self.source.check_whole(self.chunks_start + max(value, 0))
        raise FormatError(f"chunk {index}: {codec.reason(status)}", path=self.source.path, key=self.key, offset=at)

    def check_chunks(self, checksums):
        """Check each chunk from now on before it is decoded, against the checksums of all stored ones in their order.

        To be called before others know the frame.
        """
        cdef Buffer held = readable(checksums)
        self.load_index()
        self.take_sums(held.data, held.size // 4)
        self.each_read = True

    cdef int take_sums(self, const uint8_t *checksums, int64_t count) except -1:
        cdef int64_t i, n = 0, entries
        cdef uint32_t *table
        # Of chunks that are all special there is nothing to look up.
        entries = 0 if self.offsets == NULL and self.repeated < 0 else self.chunk_count
        table = <uint32_t *> calloc(max(entries, 1), sizeof(uint32_t))
        if table == NULL:
            raise MemoryError
        for i in range(entries):
            if self.entry(i) >= 0:
                if n < count:
                    table[i] = u32(checksums + 4 * n)
                n += 1
        if n != count:
            free(table)
            raise ValueError(f"{count} checksums for {n} stored chunks")
        self.take_checksums(table)
        return 0

    @property
    def checks_chunks(self):
        """Whether each chunk is checked before anything of it is decoded."""
        return bool(self.each_read)

    def check_wholes(self):
        """Check from now on what is read as a whole: the header, tables, metadata, and chunks all of which is wanted.

        Nothing where the frame has no checksums. To be called before others know the frame.

        Raises
        ------
        FormatError
            The header is not the one that was written; for the rest, when it is read.
        """
        if self.checksums_len == 0 or self.wholes or self.each_read:
            return
        if not self.header_holds:
            self.bad(0, "the header is not the one that was written, as its checksum says")
        # Whoever has read the index goes on by it: what comes too late changes nothing.
        self.wholes = not (self.index_loaded and self.nbytes)

    @cython.critical_section
    cdef int _need_seen(self) except -1:
        """Have room to note which chunks were checked."""
        if self.seen == NULL:
            self.seen = <uint8_t *> calloc(<size_t> self.chunk_count, 1)
            if self.seen == NULL:
                raise MemoryError
        return 0

    def set_plugin(self, Plugin plugin not None):
        """Give the frame what codecs and filters need that work on array blocks, unless it has it.

        To be called before others know the frame, which keeps the plugin: who decodes has no reference to it.
        """
        with cython.critical_section(self):
            if self.plugin is None:
                self.plugin = plugin
