# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Contiguous frames: parse, check, read.

A frame is `header | chunks | offsets chunk | trailer` in a window of a source (FORMATS, section 1). Opening
checks the header and finds the trailer; offsets and metadata are checked when first asked for, once. A
`Frame` never changes after that, so threads share it without a lock; a change to a file makes a new one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, strlen

from blosc2._core.codec cimport (
    BAD_LENGTH, CHUNK_HEADER, CHUNK_OK, KIND_RAW,
    KIND_REGULAR, KIND_VALUE, KIND_ZERO, MAX_BLOCK, MAX_BUFFER, NO_MEMORY, Chunk, ChunkKind, KeptBlock,
    Plugin, Worker, block_bytes, block_span, borrow, decode_block, decode_whole, fill, give_back, inspect,
    keep_block, kept_block, name_kept, reserve_scratch, reserve_stored)
from blosc2._core.source cimport READ_OK, Source

from blosc2._core import codec
from blosc2.exceptions import FormatError

cdef enum:
    PREFIX = 512            # of a mapped frame, copied before it is checked
    PREFIX_READ = 4096      # of a frame read by position: small leaves come in one read
    MAX_CHUNKS = 268435455
    MAX_VLMETA = 8192
    EXPANSION = 4096        # an offsets table may hold this many times its stored bytes
    VLMETA_FLOOR = 64 << 20  # a metadata value up to this size is always decoded

cdef uint64_t _serial = 0

cdef int64_t SPECIAL_ZERO = <int64_t> (<uint64_t> 0x81 << 56)
cdef int64_t SPECIAL_NAN = <int64_t> (<uint64_t> 0x82 << 56)
cdef int64_t SPECIAL_UNINIT = <int64_t> (<uint64_t> 0x84 << 56)
cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF


cdef inline int32_t _i32be(const uint8_t *p) noexcept nogil:
    return <int32_t> (<uint32_t> p[0] << 24 | <uint32_t> p[1] << 16 | <uint32_t> p[2] << 8 | p[3])


cdef inline int64_t _i64be(const uint8_t *p) noexcept nogil:
    return <int64_t> (<uint64_t> <uint32_t> _i32be(p) << 32 | <uint32_t> _i32be(p + 4))


cdef inline int _u16be(const uint8_t *p) noexcept nogil:
    return p[0] << 8 | p[1]


cdef inline int64_t _i64le(const uint8_t *p) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(8):
        value |= <uint64_t> p[i] << (8 * i)
    return <int64_t> value


cdef class Frame:
    """One version of one contiguous frame.

    Made by `Frame.open` from stored bytes, or by `Frame.assemble` from chunks that were never serialised.
    All offsets in errors are absolute in the source.
    """

    def __cinit__(self):
        global _serial
        _serial += 1
        self.serial = _serial
        self.header = NULL
        self.offsets = NULL
        self.starts = NULL

    def __dealloc__(self):
        free(self.header)
        free(self.offsets)
        free(self.starts)

    # ------------------------------------------------------------ opening

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
            The exact size it must have (a leaf's window); by default it may be followed by other bytes.
        key : str, optional
            The key in a store, for messages.
        """
        cdef Frame self = Frame.__new__(Frame)
        cdef uint8_t prefix[PREFIX_READ]
        cdef int64_t available, have
        self.source = source
        self.offset = offset
        self.key = key
        if offset < 0 or offset > source.size:
            raise FormatError(
                f"no frame starts at offset {offset} of a file of {source.size} bytes", path=source.path, key=key)
        available = source.size - offset
        if length >= 0:
            if length > available:
                self.bad(0, f"the frame's window of {length} bytes reaches past the end of the file")
            available = length
        if available < FIXED_HEADER + 10 + 15:
            if available == 0:
                self.bad(0, "no bytes: an empty file or window is no frame")
            self.bad(0, f"a frame needs at least 112 bytes and there are {available}: cut short, or no frame")
        have = PREFIX if source.base != NULL else PREFIX_READ
        have = min(have, available)
        source.check(source.read_into(offset, have, prefix), offset, have)
        self.parse_header(prefix, have, available, length)
        self.find_trailer(prefix, have)
        return self

    cdef int bad(self, int64_t at, str what) except -1:
        raise FormatError(what, path=self.source.path, key=self.key, offset=self.offset + at)

    cdef int parse_header(self, const uint8_t *p, int64_t have, int64_t available, int64_t window) except -1:
        cdef uint64_t frame_len
        cdef int i, version
        if memcmp(p, b"\x9e\xa8b2frame\x00", 10) != 0:
            self.bad(0, "not a Blosc2 frame: it does not start with the magic bytes '9e a8 b2frame 00'")
        if (p[10] != 0xD2 or p[15] != 0xCF or p[24] != 0xA4 or p[29] != 0xD3 or p[38] != 0xD3 or p[47] != 0xD2
                or p[52] != 0xD2 or p[57] != 0xD2 or p[62] != 0xD1 or p[65] != 0xD1 or p[69] != 0xD8
                or (p[68] != 0xC2 and p[68] != 0xC3)):
            self.bad(10, "the frame header is damaged: a field has the wrong type marker")
        self.flags = p[25]
        version = self.flags & 15
        if version != 2 and version != 3:
            self.bad(25, f"frame format version {version}; this package reads 2 and 3")
        if self.flags & 0x30 != 0x10:
            self.bad(25, "the frame does not use 64-bit offsets, which the format asks for")
        self.variable = self.flags >> 6 & 1
        self.vlblocks = self.flags >> 7 & 1
        if p[26] & 15 != 0:
            self.bad(26, "the header of a directory frame in a file: open the directory that holds its chunk files")
        frame_len = <uint64_t> _i64be(p + 16)
        if frame_len > <uint64_t> available:
            self.bad(16, f"the frame says it has {frame_len} bytes and there are {available}: cut short or damaged")
        self.frame_len = <int64_t> frame_len
        if window >= 0 and self.frame_len != window:
            self.bad(16, f"the frame says it has {frame_len} bytes, its window has {window}")
        self.header_len = _i32be(p + 11)
        if self.header_len < MIN_HEADER or self.header_len > self.frame_len - MIN_TRAILER:
            self.bad(11, f"header length {self.header_len} does not fit a frame of {frame_len} bytes")
        self.nbytes = _i64be(p + 30)
        if self.nbytes < 0:
            self.bad(30, f"negative size {self.nbytes}")
        self.typesize = _i32be(p + 48)
        if self.typesize < 1 or self.typesize > MAX_BLOCK:
            self.bad(48, f"item size {self.typesize} is outside 1..{MAX_BLOCK}")
        self.blocksize = _i32be(p + 53)
        self.chunksize = _i32be(p + 58)
        if p[70] > 6:
            self.bad(70, f"{p[70]} filter slots; there are at most 6")
        self.codec = p[27] & 15
        if self.codec == 6:
            self.codec = p[77]
        self.clevel = p[27] >> 4
        self.splitmode = (p[28] & 3) + 1
        self.codec_meta = p[78]
        self.use_dict = p[85] & 1
        for i in range(6):
            self.filter_ids[i] = p[71 + i]
            self.filter_metas[i] = p[79 + i]
        if self.nbytes:
            if self.variable != (self.chunksize == 0):
                self.bad(58, f"chunk size {self.chunksize} contradicts the flags at byte {self.offset + 25}")
            if self.chunksize < 0 or self.chunksize > MAX_BUFFER:
                self.bad(58, f"chunk size {self.chunksize} is outside 1..{MAX_BUFFER}")
            self.cbytes = _i64be(p + 39)
        self.header = <uint8_t *> malloc(self.header_len)
        if self.header == NULL:
            raise MemoryError
        if self.header_len <= have:
            memcpy(self.header, p, self.header_len)
        else:
            # The checked copy of the fixed fields is kept; only the metalayers are read anew.
            memcpy(self.header, p, <size_t> have)
            self.source.check(
                self.source.read_into(self.offset + have, self.header_len - have, self.header + have),
                self.offset + have, self.header_len - have)
        self.parse_metalayers()
        self.chunks_start = self.offset + self.header_len
        return 0

    cdef int parse_metalayers(self) except -1:
        """The table of FORMATS 1.3, in the header."""
        cdef const uint8_t *h = self.header
        cdef int64_t end = self.header_len
        cdef int64_t at = FIXED_HEADER
        cdef int n, i, j
        cdef Entry *entry
        if h[at] != 0x93 or h[at + 1] != 0xCD or h[at + 4] != 0xDE:
            self.bad(at, "the table of metalayers has the wrong type markers")
        n = _u16be(h + at + 5)
        if n > MAX_METALAYERS:
            self.bad(at + 5, f"{n} metalayers; there are at most {MAX_METALAYERS}")
        at += 7
        for i in range(n):
            entry = &self.entries[i]
            if at >= end or h[at] & 0xE0 != 0xA0 or at + 6 + (h[at] & 31) > end:
                self.bad(at, f"the name of metalayer {i} does not fit the header")
            entry.name = <int32_t> at + 1
            entry.name_length = h[at] & 31
            at += 1 + entry.name_length
            if h[at] != 0xD2:
                self.bad(at, f"the offset of metalayer {i} has the wrong type marker")
            entry.content = _i32be(h + at + 1)
            at += 5
            if entry.content < FIXED_HEADER or entry.content > end - 5 or h[entry.content] != 0xC6:
                self.bad(at - 4, f"the content of metalayer {i} is not where its offset {entry.content} says")
            entry.content_length = _i32be(h + entry.content + 1)
            entry.content += 5
            if entry.content_length < 0 or entry.content_length > end - entry.content:
                self.bad(entry.content - 4, f"the content of metalayer {i} reaches outside the header")
            self.check_name(h + entry.name, entry.name_length, entry.name)
            for j in range(i):
                if self.entries[j].name_length == entry.name_length and memcmp(
                        h + self.entries[j].name, h + entry.name, entry.name_length) == 0:
                    self.bad(entry.name, "two metalayers have the same name")
        self.entry_count = n
        return 0

    cdef int check_name(self, const uint8_t *name, int length, int64_t at) except -1:
        cdef int i
        if length == 0:
            self.bad(at, "a metalayer without a name")
        for i in range(length):
            if name[i] >= 0x80:
                try:
                    (<const char *> name)[:length].decode("utf-8")
                except UnicodeDecodeError:
                    self.bad(at, "the name of a metalayer is not UTF-8")
                return 0
        return 0

    cdef int find_trailer(self, const uint8_t *prefix, int64_t have) except -1:
        cdef uint8_t tail[TRAILER_TAIL]
        cdef uint8_t head[2]
        cdef int64_t at = self.frame_len - TRAILER_TAIL
        cdef int64_t start, room
        cdef uint32_t length
        self.copy(at, TRAILER_TAIL, tail, prefix, have)
        if tail[0] != 0xCE:
            self.bad(at, "no trailer at the end of the frame: cut short or damaged")
        length = <uint32_t> _i32be(tail + 1)
        if length < MIN_TRAILER or length > <uint64_t> (self.frame_len - self.header_len):
            self.bad(at + 1, f"trailer length {length} does not fit the frame")
        self.trailer_len = <int32_t> length
        start = self.frame_len - length
        if self.nbytes == 0:
            start = self.header_len
        self.copy(start, 2, head, prefix, have)
        if head[0] != 0x94 or head[1] != 1:
            self.bad(start, "the trailer does not start where its length says")
        if self.nbytes:
            room = start - self.header_len - CHUNK_HEADER
            if self.cbytes < 0 or self.cbytes > room:
                self.bad(39, f"the offsets table cannot lie {self.cbytes} bytes behind the header")
            if not self.variable:
                self.chunk_count = self.nbytes // self.chunksize + (self.nbytes % self.chunksize != 0)
                if self.chunk_count > MAX_CHUNKS:
                    self.bad(30, f"{self.chunk_count} chunks; there are at most {MAX_CHUNKS}")
        else:
            self.index_loaded = True
        self.chunks_stop = self.chunks_start + self.cbytes
        return 0

    cdef int copy(self, int64_t at, int64_t length, uint8_t *to, const uint8_t *prefix, int64_t have) except -1:
        """Bytes of the frame, from the prefix that was read already where they are in it."""
        if at + length <= have:
            memcpy(to, prefix + at, <size_t> length)
        else:
            self.source.check(self.source.read_into(self.offset + at, length, to), self.offset + at, length)
        return 0

    # ------------------------------------------------------------ fields

    @property
    def filters(self):
        return tuple([self.filter_ids[i] for i in range(6)])

    @property
    def filters_meta(self):
        return tuple([self.filter_metas[i] for i in range(6)])

    @property
    def needs_geometry(self):
        """Whether the frame declares a codec or filter that works on the blocks of an array."""
        if self.codec >= 32:
            return True
        for i in range(6):
            if 32 <= self.filter_ids[i] <= 33 or (self.filter_ids[i] == 35 and self.filter_metas[i] == 0):
                return True
        return False

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
        cdef Worker *worker
        self.load_index()
        if self.offsets == NULL:
            if self.chunk_count == 0 or self.repeated < 0:
                return 0
        worker = borrow(0)
        try:
            for i in range(self.chunk_count):
                if self.entry(i) >= 0:
                    status = self.open_chunk(i, worker, &chunk)
                    if status:
                        self.fail(status, i)
                    total += chunk.cbytes
        finally:
            give_back(worker)
        return total

    @property
    def serialised(self):
        """Whether the frame lies in its source as it would in a file."""
        return self.header != NULL

    cdef const uint8_t *find_metalayer(self, const char *name, int32_t *length) noexcept:
        cdef int i
        cdef size_t n = strlen(name)
        for i in range(self.entry_count):
            if <size_t> self.entries[i].name_length == n and memcmp(
                    self.header + self.entries[i].name, name, n) == 0:
                length[0] = self.entries[i].content_length
                return self.header + self.entries[i].content
        return NULL

    @property
    def only_array(self):
        """Whether `b2nd` is the only metalayer."""
        return self.header != NULL and self.entry_count == 1 and self.entries[0].name_length == 4 and memcmp(
            self.header + self.entries[0].name, b"b2nd", 4) == 0

    def metalayers(self):
        """Name -> packed content of every fixed metalayer, in their order."""
        if self.header == NULL:
            return dict(self.own_metalayers)
        result = {}
        for i in range(self.entry_count):
            name = (<const char *> self.header + self.entries[i].name)[:self.entries[i].name_length]
            content = (<const char *> self.header + self.entries[i].content)[:self.entries[i].content_length]
            result[name.decode()] = content
        return result

    def metalayer(self, str name):
        """Packed content of one metalayer, or None."""
        cdef int32_t length
        cdef bytes encoded
        cdef const uint8_t *content
        if self.header == NULL:
            return self.own_metalayers.get(name)
        encoded = name.encode()
        content = self.find_metalayer(encoded, &length)
        return None if content == NULL else PyBytes_FromStringAndSize(<const char *> content, length)

    # ------------------------------------------------------------ variable-length metadata

    cdef dict load_vlmeta(self):
        """Parse the table in the trailer, once: name -> (absolute offset, length)."""
        cdef int64_t start = self.frame_len - self.trailer_len
        cdef int64_t size = self.trailer_len
        cdef bytes trailer
        cdef const uint8_t *t
        cdef int64_t at = 2
        cdef int64_t end
        cdef int n, i, name_length
        cdef int64_t content, length
        if self.vlmeta_table is not None:
            return self.vlmeta_table
        if self.nbytes == 0:
            start = self.header_len
            size = self.frame_len - start
        trailer = self.source.read(self.offset + start, size)
        t = <const uint8_t *> PyBytes_AS_STRING(trailer)
        end = size - TRAILER_TAIL
        table = {}
        if end < at + 10 or t[at] != 0x93 or t[at + 1] != 0xCD or t[at + 4] != 0xDE:
            self.bad(start + at, "the table of variable-length metadata has the wrong type markers")
        n = _u16be(t + at + 5)
        if n > MAX_VLMETA:
            self.bad(start + at + 5, f"{n} entries of variable-length metadata; there are at most {MAX_VLMETA}")
        at += 7
        for i in range(n):
            if at >= end or t[at] & 0xE0 != 0xA0 or at + 6 + (t[at] & 31) > end:
                self.bad(start + at, f"the name of metadata entry {i} does not fit the trailer")
            name_length = t[at] & 31
            self.check_name(t + at + 1, name_length, start + at + 1)
            name = (<const char *> t + at + 1)[:name_length].decode()
            at += 1 + name_length
            if t[at] != 0xD2:
                self.bad(start + at, f"the offset of metadata entry {i} has the wrong type marker")
            content = _i32be(t + at + 1)
            at += 5
            if content < 2 or content > end - 5 or t[content] != 0xC6:
                self.bad(start + at - 4, f"metadata entry {name!r} is not where its offset {content} says")
            length = _i32be(t + content + 1)
            content += 5
            if length < 0 or length > end - content:
                self.bad(start + content - 4, f"metadata entry {name!r} reaches outside the trailer")
            if name in table:
                self.bad(start + at, f"two metadata entries are named {name!r}")
            table[name] = (self.offset + start + content, length)
        self.vlmeta_table = table
        return table

    def vlmeta_names(self):
        """Names of the variable-length metadata, in their order."""
        return list(self.load_vlmeta())

    def vlmeta_chunk(self, str name):
        """One entry as stored: a compressed chunk; None where there is no such entry."""
        found = self.load_vlmeta().get(name)
        if found is None or isinstance(found, bytes):
            return found
        return self.source.read(found[0], found[1])

    def vlmeta_chunks(self):
        """Name -> stored chunk of every entry."""
        return {name: self.vlmeta_chunk(name) for name in self.load_vlmeta()}

    def vlmeta(self, str name):
        """Packed content of one entry, or None."""
        found = self.load_vlmeta().get(name)
        if found is None:
            return None
        stored = found if isinstance(found, bytes) else self.source.read(found[0], found[1])
        at = None if isinstance(found, bytes) else found[0]
        if len(stored) >= CHUNK_HEADER and stored[31] >> 4 & 7:
            raise FormatError(
                f"metadata entry {name!r} is a special chunk, which none may be",
                path=self.source.path, key=self.key, offset=at)
        return codec.decode_bytes(
            stored, max(VLMETA_FLOOR, EXPANSION * len(stored)), self.source.path, self.key, at)

    # ------------------------------------------------------------ offsets

    cdef int64_t entry(self, int64_t index) noexcept nogil:
        return self.repeated if self.offsets == NULL else self.offsets[index]

    cdef int load_index(self) except -1:
        """Decode and check the table of offsets (FORMATS 1.4 and 1.6, points 10-12), once."""
        cdef uint8_t header[CHUNK_HEADER + 8]
        cdef Chunk chunk
        cdef int64_t at, room, i, count, stored = 0, value, have
        cdef int64_t *table = NULL
        cdef uint8_t *raw
        cdef int status
        cdef Worker *worker
        if self.index_loaded:
            return 0
        at = self.chunks_stop - self.offset
        room = self.frame_len - self.trailer_len - at
        have = min(room, <int64_t> (CHUNK_HEADER + 8))
        self.source.check(self.source.read_into(self.offset + at, have, header), self.offset + at, have)
        status = inspect(header, room, &chunk)
        if status:
            self.bad(at, f"the offsets table: {codec.reason(status)}")
        count = chunk.nbytes // 8
        if not self.variable:
            count = self.chunk_count
        if chunk.nbytes != 8 * count or chunk.variable or count == 0 or chunk.needs_geometry:
            self.bad(at + 4, f"the offsets table has {chunk.nbytes} bytes, which does not fit {count} chunks")
        if chunk.kind != KIND_RAW and chunk.kind != KIND_REGULAR:
            value = 0
            if chunk.kind == KIND_VALUE:
                if chunk.cbytes != CHUNK_HEADER + 8:
                    self.bad(at + 12, "the offsets table repeats a value that is no offset")
                value = _i64le(header + CHUNK_HEADER)
            elif chunk.kind != KIND_ZERO:
                self.bad(at + 31, "the offsets table is a special chunk of the wrong kind")
            self.check_entry(value, at)
            if value >= 0 and count > 1:
                self.bad(at, f"{count} chunks are said to lie in one place")
            self.repeated = value
            self.chunk_count = count
            self.index_loaded = True
            return 0
        if 8 * count > EXPANSION * <int64_t> chunk.cbytes:
            self.bad(at, f"an offsets table of {chunk.cbytes} bytes claims {count} chunks")
        raw = <uint8_t *> malloc(chunk.cbytes)
        table = <int64_t *> malloc(8 * count)
        worker = borrow(chunk.blocksize)
        try:
            if raw == NULL or table == NULL:
                raise MemoryError
            with nogil:
                status = self.source.read_into(self.offset + at, chunk.cbytes, raw)
            self.source.check(status, self.offset + at, chunk.cbytes)
            # What was checked is what is decoded, whatever the file shows by now.
            memcpy(raw, header, CHUNK_HEADER)
            chunk.data = raw
            chunk.loaded = chunk.cbytes
            with nogil:
                status = decode_whole(worker, &chunk, <uint8_t *> table)
            if status:
                self.bad(at, f"the offsets table: {codec.reason(status)}")
            for i in range(count):
                value = _i64le(<const uint8_t *> (table + i))
                self.check_entry(value, at)
                stored += value >= 0
                table[i] = value
            if stored > 1 and stored > self.cbytes // CHUNK_HEADER:
                self.bad(at, f"{stored} stored chunks do not fit {self.cbytes} bytes")
            # Another thread may have been faster while the GIL was free.
            if not self.index_loaded:
                self.offsets = table
                table = NULL
                self.chunk_count = count
                self.index_loaded = True
        finally:
            give_back(worker)
            free(raw)
            free(table)
        return 0

    cdef int check_entry(self, int64_t value, int64_t at) except -1:
        if value >= 0:
            if value > self.cbytes - CHUNK_HEADER:
                self.bad(at, f"the offsets table points to {value}, outside the {self.cbytes} bytes of chunks")
        elif value != SPECIAL_ZERO and value != SPECIAL_NAN and value != SPECIAL_UNINIT:
            self.bad(at, f"the offsets table has an entry {value} that is neither a place nor a special value")
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
        cdef Worker *worker
        cdef int status
        self.load_index()
        if not self.variable or self.starts != NULL:
            return 0
        starts = <int64_t *> malloc(8 * (self.chunk_count + 1))
        if starts == NULL:
            raise MemoryError
        try:
            worker = borrow(0)
            try:
                for i in range(self.chunk_count):
                    starts[i] = total
                    status = self.open_chunk(i, worker, &chunk)
                    if status:
                        self.fail(status, i)
                    total += chunk.nbytes
            finally:
                give_back(worker)
            starts[self.chunk_count] = total
            if total != self.nbytes:
                self.bad(30, f"the chunks hold {total} bytes, the header says {self.nbytes}")
            if self.starts == NULL:
                self.starts = starts
                starts = NULL
        finally:
            free(starts)
        return 0

    @property
    def repeated_offset(self):
        """The one offset that all chunks share (a special one), or None."""
        self.load_index()
        return self.repeated if self.offsets == NULL and self.chunk_count else None

    def offsets_bytes(self):
        """The table of offsets as native int64; empty where one value stands for all."""
        self.load_index()
        if self.offsets == NULL:
            return b""
        return PyBytes_FromStringAndSize(<const char *> self.offsets, 8 * self.chunk_count)

    def header_bytes(self):
        """The header as it was checked; None for a frame that was never serialised."""
        if self.header == NULL:
            return None
        return PyBytes_FromStringAndSize(<const char *> self.header, self.header_len)

    def metalayer_place(self, str name):
        """Where the content of a metalayer starts, from the first byte of a serialised frame; None without it."""
        cdef int32_t length
        cdef bytes encoded = name.encode()
        cdef const uint8_t *content = self.find_metalayer(encoded, &length)
        return None if content == NULL else content - self.header

    @property
    def chunks_window(self):
        """Absolute start and stop of the bytes that hold chunks."""
        return self.chunks_start, self.chunks_stop

    def chunk_sizes(self):
        """Uncompressed sizes of all chunks of a frame of variable chunks, as native int64 bytes."""
        cdef int64_t i
        self.load_starts()
        if self.starts == NULL:
            raise ValueError("the chunks of this frame are equal")
        return b"".join([(self.starts[i + 1] - self.starts[i]).to_bytes(8, "little") for i in range(self.chunk_count)])

    def offsets_list(self):
        """The table of offsets as stored: counted from the header's end; negative ones are special."""
        self.load_index()
        return [self.entry(i) for i in range(self.chunk_count)]

    # ------------------------------------------------------------ chunks

    cdef int64_t chunk_nbytes(self, int64_t index) noexcept nogil:
        """Uncompressed size that a chunk of equal chunks must have."""
        cdef int64_t rest = self.nbytes - index * self.chunksize
        return rest if rest < self.chunksize else self.chunksize

    cdef int open_chunk(self, int64_t index, Worker *worker, Chunk *chunk) noexcept nogil:
        """Find a chunk and check its header; `load_block` or `load_chunk` bring the rest.

        The index must be loaded and valid. Returns a status of `codec` or `source`.
        """
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
        if self.source.base != NULL:
            status = inspect(self.source.base + at, room, chunk)
            chunk.loaded = chunk.cbytes
        else:
            have = room if room < PREFIX_READ else PREFIX_READ
            stored = reserve_stored(worker, PREFIX_READ)
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
                stored = reserve_stored(worker, chunk.cbytes)
                if stored == NULL:
                    return NO_MEMORY
                chunk.data = stored
        if status:
            return status
        if not self.variable and chunk.nbytes != self.chunk_nbytes(index):
            return BAD_LENGTH
        if chunk.variable != self.vlblocks:
            return BAD_LENGTH
        return CHUNK_OK

    cdef int load_span(self, int64_t index, Chunk *chunk, int64_t start, int64_t stop) noexcept nogil:
        """Bring stored bytes ``start .. stop`` of a chunk that was opened by position."""
        if stop <= chunk.loaded or self.source.base != NULL or chunk.data == NULL:
            return CHUNK_OK
        if start < chunk.loaded:
            start = chunk.loaded
        return self.source.read_into(
            self.chunks_start + self.entry(index) + start, stop - start, <void *> (chunk.data + start))

    cdef int load_chunk(self, int64_t index, Worker *worker, Chunk *chunk) noexcept nogil:
        cdef int status = self.load_span(index, chunk, chunk.loaded, chunk.cbytes)
        if status == CHUNK_OK:
            chunk.loaded = chunk.cbytes
        return status

    cdef int load_block(self, int64_t index, Worker *worker, Chunk *chunk, int32_t block) noexcept nogil:
        """Bring what one block of a regular chunk needs: the table of starts and its own bytes."""
        cdef int64_t table = CHUNK_HEADER + 4 * <int64_t> chunk.nblocks
        cdef int32_t start, stop
        cdef int status
        if chunk.loaded >= chunk.cbytes:
            return CHUNK_OK
        if chunk.loaded < table:
            status = self.load_span(index, chunk, chunk.loaded, table)
            if status:
                return status
            chunk.loaded = table
        status = block_span(chunk, block, &start, &stop)
        if status:
            return status
        return self.load_span(index, chunk, start, stop)

    cdef int part_block(
            self, int64_t index, Worker *worker, Chunk *chunk, int32_t block, const uint8_t **decoded) noexcept nogil:
        """The bytes of a block of which a part is wanted, and which may be wanted again soon."""
        cdef KeptBlock *kept
        cdef uint8_t *room
        cdef int status
        decoded[0] = kept_block(worker, self.serial, index, block)
        if decoded[0] != NULL:
            return CHUNK_OK
        status = self.load_block(index, worker, chunk, block)
        if status:
            return status
        kept = keep_block(worker, chunk.blocksize)
        room = kept.data if kept != NULL else reserve_scratch(worker, chunk.blocksize)
        if room == NULL:
            return NO_MEMORY
        status = decode_block(worker, chunk, block, room)
        if status:
            return status
        if kept != NULL:
            name_kept(worker, kept, self.serial, index, block)
        decoded[0] = room
        return CHUNK_OK

    cdef int decode_chunk_into(self, int64_t index, Worker *worker, uint8_t *destination) noexcept nogil:
        """A whole chunk, through the super-chunk of the C library when its codec needs one."""
        cdef Chunk chunk
        cdef int status = self.open_chunk(index, worker, &chunk)
        if status == CHUNK_OK:
            status = self.load_chunk(index, worker, &chunk)
        if status:
            return status
        if chunk.needs_geometry and self.plugin is not None:
            return self.plugin.decode(&chunk, destination)
        return decode_whole(worker, &chunk, destination)

    cdef int fail(self, int status, int64_t index) except -1:
        """Raise what a status says about a chunk."""
        cdef int64_t value = self.entry(index)
        at = self.chunks_start + value if value >= 0 else None
        if status == NO_MEMORY:
            raise MemoryError(f"not enough memory to decode chunk {index} of {self.source.path}")
        if status > 0 or status == -200:
            self.source.check(status, self.chunks_start + max(value, 0), CHUNK_HEADER)
        raise FormatError(f"chunk {index}: {codec.reason(status)}", path=self.source.path, key=self.key, offset=at)

    cdef int check_index(self, int64_t index) except -1:
        self.load_index()
        if index < 0 or index >= self.chunk_count:
            raise IndexError(f"chunk {index} is out of range: there are {self.chunk_count}")
        return 0

    def chunk(self, int64_t index):
        """A chunk as stored; a special one that only the offsets table knows gets a header of its own."""
        cdef Chunk chunk
        cdef Worker *worker
        cdef int status
        self.check_index(index)
        worker = borrow(0)
        try:
            with nogil:
                status = self.open_chunk(index, worker, &chunk)
                if status == CHUNK_OK:
                    status = self.load_chunk(index, worker, &chunk)
            if status:
                self.fail(status, index)
            if chunk.data != NULL:
                return PyBytes_FromStringAndSize(<const char *> chunk.data, chunk.cbytes)
            return special_chunk(
                chunk.kind, chunk.nbytes, self.typesize, self.blocksize if self.blocksize > 0 else chunk.nbytes)
        finally:
            give_back(worker)

    def chunk_stored_at(self, int64_t offset):
        """The stored chunk at an offset of the table."""
        cdef Chunk chunk
        cdef uint8_t header[CHUNK_HEADER]
        cdef int64_t at = self.chunks_start + offset
        self.source.check(self.source.read_into(at, CHUNK_HEADER, header), at, CHUNK_HEADER)
        cdef int status = inspect(header, self.chunks_stop - at, &chunk)
        if status:
            raise FormatError(
                f"a stored chunk: {codec.reason(status)}", path=self.source.path, key=self.key, offset=at)
        return self.source.read(at, chunk.cbytes)

    def chunk_info(self, int64_t index):
        """(absolute offset or None, nbytes, cbytes, special kind or 0, raw, block size) of a chunk."""
        cdef Chunk chunk
        cdef Worker *worker
        cdef int status
        cdef int64_t value
        self.check_index(index)
        worker = borrow(0)
        try:
            status = self.open_chunk(index, worker, &chunk)
            if status:
                self.fail(status, index)
            value = self.entry(index)
            special = <int> chunk.kind if chunk.kind < KIND_RAW else 0
            return (self.chunks_start + value if value >= 0 else None, chunk.nbytes, chunk.cbytes, special,
                    chunk.kind == KIND_RAW, chunk.blocksize)
        finally:
            give_back(worker)

    def special_value(self, int64_t index):
        """The repeated item of a chunk that holds one value, else None."""
        stored = self.chunk(index)
        return stored[CHUNK_HEADER:] if stored[31] >> 4 & 7 == 3 else None

    def decode_chunk(self, int64_t index):
        """The uncompressed bytes of a chunk."""
        cdef Chunk chunk
        cdef Worker *worker
        cdef int status
        cdef bytes result
        self.check_index(index)
        worker = borrow(self.blocksize)
        try:
            status = self.open_chunk(index, worker, &chunk)
            if status:
                self.fail(status, index)
            result = PyBytes_FromStringAndSize(NULL, chunk.nbytes)
            self.decode_checked(index, worker, <uint8_t *> PyBytes_AS_STRING(result), chunk.nbytes)
            return result
        finally:
            give_back(worker)

    cdef int decode_checked(self, int64_t index, Worker *worker, uint8_t *destination, int64_t size) except -1:
        """Decode a chunk into memory of the size that it was seen to have."""
        cdef Chunk chunk
        cdef int status
        with nogil:
            status = self.open_chunk(index, worker, &chunk)
            if status == CHUNK_OK and chunk.nbytes != size:
                status = BAD_LENGTH
            if status == CHUNK_OK:
                status = self.load_chunk(index, worker, &chunk)
            if status == CHUNK_OK:
                if chunk.needs_geometry and self.plugin is not None:
                    status = self.plugin.decode(&chunk, destination)
                else:
                    status = decode_whole(worker, &chunk, destination)
        if status:
            self.fail(status, index)
        return 0

    def vl_blocks(self, int64_t index):
        """The uncompressed blocks of a chunk of variable-length blocks."""
        cdef int32_t start, size, i
        stored = self.chunk(index)
        data = self.decode_chunk(index)  # checks the table of starts
        blocks = []
        at = 0
        for i in range(int.from_bytes(stored[8:12], "little")):
            start = int.from_bytes(stored[CHUNK_HEADER + 4 * i:CHUNK_HEADER + 4 * i + 4], "little")
            size = int.from_bytes(stored[start:start + 4], "little")
            blocks.append(data[at:at + size])
            at += size
        return blocks

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
        """The same into a writable C-contiguous buffer of exactly that size."""
        cdef uint8_t[::1] view = memoryview(out).cast("B")
        if not 0 <= start <= stop <= self.nbytes:
            raise IndexError(f"bytes {start}..{stop} are outside the {self.nbytes} bytes of the frame")
        if view.shape[0] != stop - start:
            raise ValueError(f"out has {view.shape[0]} bytes, {stop - start} are read")
        self.load_starts()
        if stop > start:
            self.read_range(start, stop, &view[0])

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

    cdef int read_range(self, int64_t start, int64_t stop, uint8_t *destination) except -1:
        """Checked bounds, loaded index and starts; releases the GIL."""
        cdef Worker *worker
        cdef int status = CHUNK_OK
        cdef int64_t index = 0
        if start == stop:
            return 0
        self.load_starts()
        worker = borrow(self.blocksize)
        try:
            with nogil:
                index = self.chunk_at(start)
                while start < stop and status == CHUNK_OK:
                    status = self.read_from_chunk(index, worker, start, stop, destination)
                    index += 1
                    if status == CHUNK_OK:
                        if self.variable:
                            destination += min(stop, self.starts[index]) - start
                            start = self.starts[index]
                        else:
                            destination += min(stop, index * self.chunksize) - start
                            start = index * self.chunksize
        finally:
            give_back(worker)
        if status:
            self.fail(status, index - 1)
        return 0

    cdef int read_from_chunk(
            self, int64_t index, Worker *worker, int64_t start, int64_t stop, uint8_t *destination) noexcept nogil:
        """The part of an uncompressed range that lies in one chunk."""
        cdef Chunk chunk
        cdef int64_t first = self.starts[index] if self.variable else index * self.chunksize
        cdef int64_t begin, end, low, high
        cdef int32_t block
        cdef uint8_t *scratch
        cdef const uint8_t *decoded = NULL
        cdef int status = self.open_chunk(index, worker, &chunk)
        if status:
            return status
        begin = start - first
        end = min(stop - first, <int64_t> chunk.nbytes)
        if self.variable and chunk.nbytes != self.starts[index + 1] - first:
            return BAD_LENGTH
        if chunk.kind == KIND_RAW:
            status = self.load_span(index, &chunk, CHUNK_HEADER + begin, CHUNK_HEADER + end)
            if status == CHUNK_OK:
                memcpy(destination, chunk.data + CHUNK_HEADER + begin, <size_t> (end - begin))
            return status
        if chunk.kind != KIND_REGULAR:
            status = self.load_chunk(index, worker, &chunk)
            return status if status else fill(&chunk, begin, destination, end - begin)
        if chunk.whole or chunk.needs_geometry or end - begin == chunk.nbytes:
            status = self.load_chunk(index, worker, &chunk)
            if status:
                return status
            if end - begin == chunk.nbytes and not chunk.needs_geometry:
                return decode_whole(worker, &chunk, destination)
            scratch = reserve_scratch(worker, chunk.nbytes)
            if scratch == NULL:
                return NO_MEMORY
            if chunk.needs_geometry and self.plugin is not None:
                status = self.plugin.decode(&chunk, scratch)
            else:
                status = decode_whole(worker, &chunk, scratch)
            if status == CHUNK_OK:
                memcpy(destination, scratch + begin, <size_t> (end - begin))
            return status
        block = <int32_t> (begin // chunk.blocksize)
        while begin < end:
            low = <int64_t> block * chunk.blocksize
            high = low + block_bytes(&chunk, block)
            if begin == low and end >= high:
                status = self.load_block(index, worker, &chunk, block)
                if status == CHUNK_OK:
                    status = decode_block(worker, &chunk, block, destination)
                if status:
                    return status
            else:
                status = self.part_block(index, worker, &chunk, block, &decoded)
                if status:
                    return status
                memcpy(destination, decoded + (begin - low), <size_t> (min(end, high) - begin))
            destination += min(end, high) - begin
            begin = high
            block += 1
        return CHUNK_OK

    def window_of(self, int64_t start, int64_t length):
        """Where uncompressed bytes ``start .. start + length`` lie verbatim: an absolute offset, or None."""
        cdef Chunk chunk
        cdef Worker *worker
        cdef int64_t index, within
        cdef int status
        if start < 0 or length < 1 or start > self.nbytes or length > self.nbytes - start or self.variable:
            return None
        self.load_index()
        index = start // self.chunksize
        within = start - index * self.chunksize
        if within + length > self.chunk_nbytes(index) or self.entry(index) < 0:
            return None
        worker = borrow(0)
        try:
            status = self.open_chunk(index, worker, &chunk)
        finally:
            give_back(worker)
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

    def set_plugin(self, plugin):
        """Give the frame what codecs and filters need that work on array blocks."""
        self.plugin = plugin

    def stored_bytes(self):
        """The frame as it lies in its source; None for one that was never serialised."""
        return self.source.read(self.offset, self.frame_len) if self.header != NULL else None

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
        """
        cdef Frame self = Frame.__new__(Frame)
        cdef const int64_t[::1] table
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
        self.flags = 0x12 if not (self.variable or vlblocks) else 0x13 | self.variable << 6 | vlblocks << 7
        self.own_metalayers = metalayers
        self.vlmeta_table = vlmeta
        if isinstance(entries, int):
            self.repeated = entries
        elif count:
            table = entries
            if table.shape[0] != count:
                raise ValueError(f"{table.shape[0]} offsets for {count} chunks")
            self.offsets = <int64_t *> malloc(8 * count)
            if self.offsets == NULL:
                raise MemoryError
            memcpy(self.offsets, &table[0], 8 * count)
        self.index_loaded = True
        return self


def special_chunk(int kind, int32_t nbytes, int32_t typesize, int32_t blocksize, bytes item=b""):
    """A stored chunk without payload: zeros, NaN, undefined, or one repeated item."""
    header = bytearray(CHUNK_HEADER)
    header[0:4] = bytes((5, 1, 5, typesize if typesize <= 255 else 1))
    header[4:8] = nbytes.to_bytes(4, "little")
    header[8:12] = min(blocksize, nbytes).to_bytes(4, "little")
    header[12:16] = (CHUNK_HEADER + len(item)).to_bytes(4, "little")
    header[31] = kind << 4
    return bytes(header) + item
