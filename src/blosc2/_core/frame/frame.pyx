# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Contiguous frames, opened or assembled, and reading their bytes.

A frame is `header | chunks | offsets chunk | trailer` in a byte range of a source (FORMATS, section 1). Opening
checks the header and finds the trailer; offsets and metadata are checked when first asked for, once. A
`Frame` never changes after that, so threads share it without a lock; a change to a file makes a new one.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from blosc2._core.codec.chunk cimport (
    BAD_LENGTH, BAD_STARTS, BAD_SUM, CHUNK_HEADER, CHUNK_OK, FIRST_PLUGIN, KIND_RAW, KIND_REGULAR, KIND_VALUE,
    KIND_ZERO, MAX_BLOCK, MAX_BUFFER, MOST_STEPS, NO_MEMORY, Chunk, ChunkKind, block_bytes, block_span, decoding_bytes,
    fill, filter_asks_array, in_order, inspect, reads_in_streams)
from blosc2._core.codec.codec cimport (
    DecodeContext, Plugin, borrow, decode_block, decode_whole_chunk, give_back, reserve_scratch, reserve_stored)
from blosc2._core.codec.thread_pool cimport await_gil, is_quick, offer_gil
from blosc2._core.io.checksum cimport checksum, read_and_sum, sum_range
from blosc2._core.io.endian cimport big16, big32, big64, i32, put32, put_big, u32, u64
from blosc2._core.io.memory cimport prefetch
from blosc2._core.io.readahead cimport LOCAL, PAGE, ask_for_frame, ask_range, stop_guessing
from blosc2._core.io.source cimport READ_OK, Buffer, Source, fresh_bytes, integers, readable, writable
from blosc2._core.io.steps cimport address_get, counter_next, flag_get, flag_set, publish_once
from blosc2._core.zip.archive cimport SMALL_MEMBER, Archive, check_member, wrong_checksum
from blosc2._core.zip.records cimport Member

from blosc2._core.allocation import FREE as _free_bytes, allowed, table_limit, too_much
from blosc2._core.codec import codec
from blosc2.exceptions import FormatError

# What a frame says about itself: header, metalayers, trailer (FORMATS 1.1-1.3, 1.5).


cdef enum:
    TABLE_HEAD = 7          # bytes of the table of metalayers before its entries
    PREFIX = 512            # of a mapped frame, copied before it is checked
    MAX_VLMETA = 8192

cdef int64_t _last_serial = 0
# What the rule of allocation gives any file.
cdef int64_t _FREE = _free_bytes


def file_range(Source source not None):
    """Where the frame lies that a file begins with: what an append left unfinished may follow it.

    All of the file where its first bytes are no header.
    """
    cdef uint8_t first[24]
    cdef int64_t length = 0
    if source.size >= sizeof(first):
        source.check(source.read_into(0, sizeof(first), first), 0, sizeof(first))
        if memcmp(first, b"\x9e\xa8b2frame\x00", 10) == 0:
            length = big64(first + 16)
    return source, 0, length if MIN_HEADER + MIN_TRAILER <= length < source.size else source.size


cdef class Header:
    """The checked header of a frame, and the way to its trailer.

    All offsets in errors are absolute in the source.
    """

    def __cinit__(self):
        self.serial = <uint64_t> counter_next(&_last_serial) + 1
        self.header = NULL

    def __dealloc__(self):
        free(self.header)

    cdef int read(
            self, Source source, int64_t offset, int64_t length, object key, const uint8_t *known, int64_t have) except -1:
        """Parse and check the header at an offset, and find the trailer; see `Frame.open`.

        `known` are bytes of the frame that were read already, `have` how many.
        """
        cdef uint8_t prefix[PREFIX_READ]
        cdef int64_t available, wanted
        self.source = source
        self.offset = offset
        self.key = key
        if offset < 0 or offset > source.size:
            raise FormatError(
                f"no frame starts at offset {offset} of a file of {source.size} bytes", path=source.path, key=key)
        available = source.size - offset
        if length >= 0:
            if length > available:
                self.bad(0, f"the frame's range of {length} bytes reaches past the end of the file")
            available = length
        if available < FIXED_HEADER + 10 + 15:
            if available == 0:
                self.bad(0, "no bytes: an empty file or byte range is no frame")
            self.bad(0, f"a frame needs at least 112 bytes and there are {available}: cut short, or no frame")
        stop_guessing(source)
        if have == 0:
            ask_for_frame(source, offset, available)
        wanted = min(PREFIX, available)
        if have < wanted:
            if source.base == NULL:
                wanted = min(PREFIX_READ, available)
            source.check(source.read_into(offset, wanted, prefix), offset, wanted)
            known = prefix
            have = wanted
        have = min(have, available)
        self.parse_header(known, have, available, length)
        self.find_trailer(known, have)
        return 0

    cdef int bad(self, int64_t at, str what) except -1:
        raise FormatError(what, path=self.source.path, key=self.key, offset=self.offset + at)

    cdef int parse_header(self, const uint8_t *p, int64_t have, int64_t available, int64_t exact) except -1:
        cdef uint64_t frame_len
        cdef int64_t kept
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
        frame_len = <uint64_t> big64(p + 16)
        if frame_len > <uint64_t> available:
            self.bad(16, f"the frame says it has {frame_len} bytes and there are {available}: cut short or damaged")
        self.frame_len = <int64_t> frame_len
        if exact >= 0 and self.frame_len != exact:
            self.bad(16, f"the frame says it has {frame_len} bytes, its byte range has {exact}")
        self.header_len = big32(p + 11)
        if self.header_len < MIN_HEADER or self.header_len > self.frame_len - MIN_TRAILER:
            self.bad(11, f"header length {self.header_len} does not fit a frame of {frame_len} bytes")
        self.nbytes = big64(p + 30)
        if self.nbytes < 0:
            self.bad(30, f"negative size {self.nbytes}")
        self.typesize = big32(p + 48)
        if self.typesize < 1 or self.typesize > MAX_BLOCK:
            self.bad(48, f"item size {self.typesize} is outside 1..{MAX_BLOCK}")
        self.blocksize = big32(p + 53)
        self.chunksize = big32(p + 58)
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
            self.cbytes = big64(p + 39)
        # A copy of the header; or of the frame, if it is small and comes from a file that is not mapped.
        self.whole = self.source.base == NULL and self.frame_len <= min(have, <int64_t> PREFIX_READ)
        kept = self.frame_len if self.whole else self.header_len
        self.header = <uint8_t *> malloc(<size_t> kept)
        if self.header == NULL:
            raise MemoryError
        if kept <= have:
            memcpy(self.header, p, <size_t> kept)
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
        cdef Entry[MAX_METALAYERS] entries
        cdef Entry *entry
        if h[at] != 0x93 or h[at + 1] != 0xCD or h[at + 4] != 0xDE:
            self.bad(at, "the table of metalayers has the wrong type markers")
        n = big16(h + at + 5)
        if n > MAX_METALAYERS:
            self.bad(at + 5, f"{n} metalayers; there are at most {MAX_METALAYERS}")
        at += TABLE_HEAD
        for i in range(n):
            entry = &entries[i]
            if at >= end or h[at] & 0xE0 != 0xA0 or at + 6 + (h[at] & 31) > end:
                self.bad(at, f"the name of metalayer {i} does not fit the header")
            entry.name = <int32_t> at + 1
            entry.name_length = h[at] & 31
            at += 1 + entry.name_length
            if h[at] != 0xD2:
                self.bad(at, f"the offset of metalayer {i} has the wrong type marker")
            entry.content = big32(h + at + 1)
            at += 5
            if entry.content < FIXED_HEADER or entry.content > end - 5 or h[entry.content] != 0xC6:
                self.bad(at - 4, f"the content of metalayer {i} is not where its offset {entry.content} says")
            entry.content_length = big32(h + entry.content + 1)
            entry.content += 5
            if entry.content_length < 0 or entry.content_length > end - entry.content:
                self.bad(entry.content - 4, f"the content of metalayer {i} reaches outside the header")
            self.check_name(h + entry.name, entry.name_length, entry.name)
            for j in range(i):
                if entries[j].name_length == entry.name_length and memcmp(
                        h + entries[j].name, h + entry.name, entry.name_length) == 0:
                    self.bad(entry.name, "two metalayers have the same name")
        self.entry_count = n
        return 0

    cdef int64_t read_entry(self, int64_t at, Entry *entry) noexcept nogil:
        """Read the entry at a position of the checked table; returns the position of the next one."""
        cdef const uint8_t *h = self.header
        entry.name = <int32_t> at + 1
        entry.name_length = h[at] & 31
        at += 1 + entry.name_length
        entry.content = big32(h + at + 1) + 5
        entry.content_length = big32(h + entry.content - 4)
        return at + 5

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
        cdef uint8_t last[CHECKSUMS_TAIL + TRAILER_TAIL]
        cdef const uint8_t *tail = last + CHECKSUMS_TAIL
        cdef uint8_t head[2]
        cdef int64_t at = self.frame_len - TRAILER_TAIL
        cdef int64_t start, room
        cdef uint32_t length
        self.copy(at - CHECKSUMS_TAIL, CHECKSUMS_TAIL + TRAILER_TAIL, last, prefix, have)
        if tail[0] != 0xCE:
            self.bad(at, "no trailer at the end of the frame: cut short or damaged")
        length = <uint32_t> big32(tail + 1)
        if length < MIN_TRAILER or length > <uint64_t> (self.frame_len - self.header_len):
            self.bad(at + 1, f"trailer length {length} does not fit the frame")
        self.trailer_len = length
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
        self.chunks_stop = self.chunks_start + self.cbytes
        self.checksums_len = 0
        if self.header[CHECKSUMS_MARK_AT] == CHECKSUMS_MARK and memcmp(last, b"\xc1b2sums\x01", 8) == 0:
            length = u32(last + 8)
            if CHECKSUMS_TAIL <= length and length <= self.trailer_len - MIN_TRAILER:
                self.checksums_len = length
                self.header_holds = checksum(0, self.header, self.header_len) == u32(last + 20)
        return 0

    cdef const uint8_t *memory(self, int64_t at) noexcept nogil:
        """Where the byte at an absolute offset of the frame lies; NULL when it has to be read."""
        if self.source.base != NULL:
            return self.source.base + at
        return self.header + (at - self.offset) if self.whole else NULL

    cdef int fetch(self, int64_t at, int64_t length, void *to) noexcept nogil:
        """Copy bytes of the frame out, as `Source.read_into` does."""
        if self.whole and length >= 0 and self.offset <= at and length <= self.offset + self.frame_len - at:
            memcpy(to, self.header + (at - self.offset), <size_t> length)
            return READ_OK
        return self.source.read_into(at, length, to)

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
        return self.wants_geometry()

    cdef bint wants_geometry(self) noexcept:
        """Whether the frame declares a codec or filter that works on the blocks of an array."""
        cdef int i
        if self.codec >= FIRST_PLUGIN:
            return True
        for i in range(6):
            if filter_asks_array(self.filter_ids[i], self.filter_metas[i]):
                return True
        return False

    @property
    def serialised(self):
        """Whether the frame lies in its source as it would in a file."""
        return self.header != NULL

    cdef const uint8_t *find_metalayer(self, const char *name, size_t n, int32_t *length) noexcept:
        """Content of the metalayer of a name of `n` bytes, which may be any."""
        cdef Entry entry
        cdef int64_t at = FIXED_HEADER + TABLE_HEAD
        cdef int i
        for i in range(self.entry_count):
            at = self.read_entry(at, &entry)
            if <size_t> entry.name_length == n and memcmp(self.header + entry.name, name, n) == 0:
                length[0] = entry.content_length
                return self.header + entry.content
        return NULL

    @property
    def only_array(self):
        return self.holds_only_array()

    cdef bint holds_only_array(self) noexcept:
        """Whether `b2nd` is the only metalayer."""
        cdef int32_t length
        return self.entry_count == 1 and self.find_metalayer(b"b2nd", 4, &length) != NULL

    def metalayers(self):
        """Name -> packed content of every fixed metalayer, in their order."""
        cdef Entry entry
        cdef int64_t at = FIXED_HEADER + TABLE_HEAD
        if self.header == NULL:
            return dict(self.own_metalayers)
        result = {}
        for _ in range(self.entry_count):
            at = self.read_entry(at, &entry)
            name = (<const char *> self.header + entry.name)[:entry.name_length]
            result[name.decode()] = (<const char *> self.header + entry.content)[:entry.content_length]
        return result

    def metalayer(self, str name):
        """Packed content of one metalayer, or None."""
        cdef int32_t length
        cdef bytes encoded
        cdef const uint8_t *content
        if self.header == NULL:
            return self.own_metalayers.get(name)
        encoded = name.encode("utf-8", "surrogatepass")
        content = self.find_metalayer(encoded, len(encoded), &length)
        return None if content == NULL else PyBytes_FromStringAndSize(<const char *> content, length)

    def header_bytes(self):
        """The header as it was checked, of a serialised frame."""
        if self.header == NULL:
            raise ValueError("a frame that was never serialised has no header")
        return PyBytes_FromStringAndSize(<const char *> self.header, self.header_len)

    def metalayer_offset(self, str name):
        """Where the content of a metalayer starts, from the first byte of a serialised frame."""
        cdef int32_t length
        cdef bytes encoded = name.encode("utf-8", "surrogatepass")
        cdef const uint8_t *content = self.find_metalayer(encoded, len(encoded), &length)
        if content == NULL:
            raise KeyError(name)
        return content - self.header

    @property
    def chunks_range(self):
        """Absolute start and stop of the bytes that hold chunks."""
        return self.chunks_start, self.chunks_stop

    def stored_bytes(self):
        """A serialised frame as it lies in its source, or lay there when it was opened."""
        cdef int64_t at = self.offset + self.header_len
        cdef int64_t rest = self.frame_len - self.header_len
        cdef uint8_t *to
        cdef int status
        if self.header == NULL:
            raise ValueError("a frame that was never serialised has no bytes of its own")
        # What lies behind the header stays as it is, but a file may show the header of a later version by now.
        result = PyBytes_FromStringAndSize(NULL, self.frame_len)
        to = <uint8_t *> PyBytes_AS_STRING(result)
        memcpy(to, self.header, <size_t> self.header_len)
        with nogil:
            status = self.fetch(at, rest, to + self.header_len)
        self.source.check(status, at, rest)
        return result

    @property
    def plain_len(self):
        """How many bytes `plain_bytes` gives."""
        return self.frame_len - self.checksums_len

    def plain_bytes(self, room=None, *, bint summed=False):
        """What `stored_bytes` gives, without the checksums that files carry; it is put into `room`, if that is given.

        Returns
        -------
        bytes
            None where there is room.
        int
            If `summed`, the checksum of all between header and trailer, which is made while that is copied; else 0.
        """
        cdef Buffer held
        cdef bytes header, trailer, result = None
        cdef int64_t rest, size = self.frame_len - self.checksums_len
        cdef uint32_t own = 0
        cdef uint8_t *to
        cdef int status
        if self.checksums_len == 0 and room is None and not summed:
            return self.stored_bytes(), own
        header, trailer = self.plain_ends()
        rest = size - len(header) - len(trailer)
        if room is None:
            result = fresh_bytes(size)
            to = <uint8_t *> PyBytes_AS_STRING(result)
        else:
            held = writable(room)
            if held.size != size:
                raise ValueError(f"{held.size} bytes of room for {size}")
            to = held.data
        memcpy(to, PyBytes_AS_STRING(header), <size_t> self.header_len)
        with nogil:
            if summed and not self.whole:
                status = read_and_sum(self.source, self.offset + self.header_len, rest, to + self.header_len, &own)
            else:
                status = self.fetch(self.offset + self.header_len, rest, to + self.header_len)
                if summed and status == READ_OK:
                    own = checksum(0, to + self.header_len, rest)
        self.source.check(status, self.offset + self.header_len, rest)
        memcpy(to + self.header_len + rest, PyBytes_AS_STRING(trailer), <size_t> len(trailer))
        return result, own

    def plain_ends(self):
        """Header and trailer of a serialised frame, without the checksums that files carry."""
        cdef int64_t start = self.header_len if self.nbytes == 0 else self.frame_len - self.trailer_len
        cdef int64_t before = self.frame_len - TRAILER_TAIL - self.checksums_len - start
        cdef bytes header, trailer
        cdef uint8_t *to
        cdef int status
        if self.header == NULL:
            raise ValueError("a frame that was never serialised has no bytes of its own")
        header = PyBytes_FromStringAndSize(<const char *> self.header, self.header_len)
        trailer = PyBytes_FromStringAndSize(NULL, before + TRAILER_TAIL)
        to = <uint8_t *> PyBytes_AS_STRING(trailer)
        with nogil:
            status = self.fetch(self.offset + start, before, to)
            if status == READ_OK:
                status = self.fetch(self.offset + self.frame_len - TRAILER_TAIL, TRAILER_TAIL, to + before)
        self.source.check(status, self.offset + start, before)
        if self.checksums_len:
            put_big(to + before + 1, <uint64_t> (self.trailer_len - self.checksums_len), 4)
            to = <uint8_t *> PyBytes_AS_STRING(header)
            to[CHECKSUMS_MARK_AT] = 0
            put_big(to + 16, <uint64_t> (self.frame_len - self.checksums_len), 8)
        return header, trailer

    # ------------------------------------------------------------ variable-length metadata

    cdef bytes checked_trailer(self):
        """All of the trailer of a frame with checksums, as it was written."""
        cdef int64_t start = self.frame_len - self.trailer_len if self.nbytes else self.header_len
        cdef int64_t size = self.frame_len - start
        cdef int64_t offset = size - TRAILER_TAIL - 4
        cdef uint8_t zeros[4]
        cdef bytes trailer = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t *t = <uint8_t *> PyBytes_AS_STRING(trailer)
        cdef uint32_t own
        self.source.check(self.fetch(self.offset + start, size, t), self.offset + start, size)
        memset(zeros, 0, 4)
        own = checksum(checksum(checksum(0, t, offset), zeros, 4), t + offset + 4, TRAILER_TAIL)
        if own != u32(t + offset):
            self.bad(start, "the trailer (metadata and checksums) is not the one that was written")
        return trailer

    cdef dict load_vlmeta(self):
        """Parse the table in the trailer, once: name -> (absolute offset, length)."""
        cdef int64_t start = self.frame_len - self.trailer_len
        cdef int64_t size = self.trailer_len
        cdef bytes trailer
        cdef const uint8_t *t
        cdef int64_t at = 2
        cdef int64_t end
        cdef int n, i, name_length
        cdef int64_t content, length, total = 0
        with cython.critical_section(self):
            if self.vlmeta_table is not None:
                return self.vlmeta_table
        if self.nbytes == 0:
            start = self.header_len
            size = self.frame_len - start
        end = size - TRAILER_TAIL - self.checksums_len
        trailer = self.checked_trailer() if self.wholes else self.source.read(self.offset + start, end)
        t = <const uint8_t *> PyBytes_AS_STRING(trailer)
        table = {}
        if end < at + 10 or t[at] != 0x93 or t[at + 1] != 0xCD or t[at + 4] != 0xDE:
            self.bad(start + at, "the table of variable-length metadata has the wrong type markers")
        n = big16(t + at + 5)
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
            content = big32(t + at + 1)
            at += 5
            if content < 2 or content > end - 5 or t[content] != 0xC6:
                self.bad(start + at - 4, f"metadata entry {name!r} is not where its offset {content} says")
            length = big32(t + content + 1)
            content += 5
            if length < 0 or length > end - content:
                self.bad(start + content - 4, f"metadata entry {name!r} reaches outside the trailer")
            total += length
            if total > size:
                self.bad(start + content - 4, "metadata entries share their content")
            if name in table:
                self.bad(start + at, f"two metadata entries are named {name!r}")
            table[name] = (self.offset + start + content, length)
        with cython.critical_section(self):
            if self.vlmeta_table is None:   # another thread may have been faster
                self.vlmeta_table = table
            return self.vlmeta_table

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


# The chunks of a frame: where each lies, and bringing and decoding what a read needs of it (FORMATS 1.4, 2).


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
        self.load_index()
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
            chunk.run = chunk.run_stop = 0
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
        if chunk.run <= start and stop <= chunk.run_stop:
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
    def checks_copies(self):
        """Whether what is copied of its chunks is compared with checksums that were read, and checked, already."""
        self.load_index()
        return self.checksums != NULL

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

    def check_member(self):
        """Check all of a member of an archive that has only the directory's CRC-32, before it is copied or read whole.

        Frames with checksums of their own are checked by these instead, which tell of each chunk alone; small members are
        checked when they are opened (`check_member` of `zip.archive`).

        Raises
        ------
        FormatError
            They are not those that were written.
        """
        cdef uint32_t crc = 0
        if self.by_member:
            sum_range(self.source, self.offset, self.frame_len, True, &crc)
            if crc != self.member_checksum:
                raise wrong_checksum(self.source.path, self.key, self.offset)

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


# Chunks of some frames, copied into one piece of memory as they are stored.


cdef enum:
    _AT_ONCE = 64 << 20     # bytes that are copied before interrupts are served
    _SERVED = 1 << 12       # chunks that are looked at before


cdef int64_t _stored_lengths(ChunkTable frame, int64_t first, int64_t stop, int64_t *lengths) except -1:
    """Lengths of the stored chunks ``first .. stop``, 0 for those that are not stored, and their sum."""
    cdef uint8_t header[CHUNK_HEADER]
    cdef Chunk chunk
    cdef int64_t i, at, total = 0
    cdef int status
    for i in range(first, stop):
        if not i % _SERVED:
            PyErr_CheckSignals()    # each header may be a call of the system
        lengths[i - first] = 0
        if frame.entry(i) >= 0:
            at = frame.chunks_start + frame.entry(i)
            status = frame.fetch(at, CHUNK_HEADER, header)
            if status == READ_OK:
                status = inspect(header, frame.chunks_stop - at, &chunk)
            if status:
                frame.fail(status, i)
            lengths[i - first] = chunk.cbytes
            total += chunk.cbytes
    if total > _FREE and total > allowed(frame.source.size):    # chunks that share their bytes
        raise FormatError(
            too_much(total, f"a copy of {stop - first} chunks", allowed(frame.source.size)),
            path=frame.source.path, key=frame.key)
    return total


cdef int _copy_stored(ChunkTable frame, int64_t index, int64_t length, const uint32_t *sums, uint8_t *to) noexcept nogil:
    """Copy a stored chunk; compare its checksum, unless `sums` is NULL."""
    cdef int64_t at = frame.chunks_start + frame.entry(index)
    cdef uint32_t own = 0
    cdef int status
    if sums == NULL or frame.whole:
        status = frame.fetch(at, length, to)
        if sums != NULL:
            own = checksum(0, to, <size_t> length)
    else:
        status = read_and_sum(frame.source, at, length, to, &own)
    return BAD_SUM if status == READ_OK and sums != NULL and own != sums[index] else status


def copied_chunks(runs):
    """Stored chunks of frames, one behind the other, and a table of offsets: of each, or the value that it has in its frame.

    Parameters
    ----------
    runs : list of tuple
        A frame, the numbers of the first chunk and of the one behind the last, and the checksums of all chunks of the
        frame, or None: then its own are compared, if it has any.
    """
    cdef ChunkTable frame
    cdef Buffer held
    cdef int64_t first, stop, i, pause, count = 0, total = 0, at = 0, n = 0
    cdef int64_t *lengths
    cdef const uint32_t *sums
    cdef uint8_t *to
    cdef int status = READ_OK
    for run in runs:
        frame, first, stop, _ = run
        frame.load_index()
        if not 0 <= first <= stop <= frame.chunk_count:
            raise IndexError(f"chunks {first} .. {stop} are out of range: there are {frame.chunk_count}")
        count += stop - first
    cdef bytes table = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef int64_t *offsets = <int64_t *> PyBytes_AS_STRING(table)
    lengths = <int64_t *> malloc(<size_t> max(8 * count, <int64_t> 1))
    if lengths == NULL:
        raise MemoryError
    try:
        for run in runs:
            frame, first, stop, _ = run
            total += _stored_lengths(frame, first, stop, lengths + n)
            n += stop - first
        stored = fresh_bytes(total)
        to = <uint8_t *> PyBytes_AS_STRING(stored)
        n = 0
        for run in runs:
            frame, first, stop, own = run
            sums = frame.checksums
            if own is not None:
                held = readable(own)
                if held.size != 4 * frame.chunk_count:
                    raise ValueError(f"{held.size // 4} checksums for {frame.chunk_count} chunks")
                sums = <const uint32_t *> held.data
            i = first
            while i < stop and status == READ_OK:
                pause = at + _AT_ONCE
                with nogil:
                    offer_gil()
                    while i < stop and status == READ_OK and at < pause:
                        offsets[n] = frame.entry(i)
                        if offsets[n] >= 0:
                            offsets[n] = at
                            status = _copy_stored(frame, i, lengths[n], sums, to + at)
                            at += lengths[n]
                        n += 1
                        i += 1
                    await_gil()
                PyErr_CheckSignals()
            if status == BAD_SUM:
                raise FormatError(
                    f"chunk {i - 1} is not the one that was written, as its checksum says", path=frame.source.path,
                    key=frame.key, offset=frame.chunks_start + frame.entry(i - 1))
            if status:
                frame.fail(status, i - 1)
    finally:
        free(lengths)
    return stored, table


cdef enum:
    CHECKED_ALONE = 1 << 20     # of small frames: it is checked when the first of them is opened
    AHEAD = 512             # of a member read by position, room for its local header


cdef class Frame(ChunkTable):
    """One version of one contiguous frame.

    Made by `Frame.open` from stored bytes, or by `Frame.assemble` from chunks that were never serialised.
    """

    @staticmethod
    def open(Source source not None, int64_t offset=0, int64_t length=-1, key=None):
        """Parse and check the header of a frame, and find its trailer.

        Parameters
        ----------
        length : int, optional
            The exact size it must have (the byte range of a leaf); by default other bytes may follow it.
        key : str, optional
            The key in a store, for messages.
        """
        return frame_at(source, offset, length, key)

    @staticmethod
    def of_member(Archive archive not None, int64_t offset, key=None, bint check=False):
        """Open the frame that a member of an archive is, reading its local header and what follows at once.

        Parameters
        ----------
        offset : int
            Where the record of the member is in the directory.
        check : bool
            Whether what is read as a whole is to be checked against the CRC-32 of the member: a small one at once.
        """
        return frame_of_member(<void *> archive, archive.source, offset, key, check)

    cdef int check_index(self, int64_t index) except -1:
        self.load_index()
        if index < 0 or index >= self.chunk_count:
            raise IndexError(f"chunk {index} is out of range: there are {self.chunk_count}")
        return 0

    cdef int need_chunk(self, int64_t index, DecodeContext *context, Chunk *chunk) except -1:
        """Find a chunk, and raise what is wrong with it."""
        cdef int status = self.open_chunk(index, context, chunk)
        if status:
            self.fail(status, index)
        return 0

    def chunk(self, int64_t index):
        """A chunk as stored; a special one that only the offsets table knows gets a header of its own."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int status
        cdef int64_t at, have, size
        cdef uint32_t own
        cdef bytes stored
        cdef uint8_t *to
        self.check_index(index)
        context = borrow(0)
        try:
            status = self.find_chunk(index, context, &chunk)
            if status:
                self.fail(status, index)
            if chunk.data == NULL:
                from blosc2._core.frame.frame_writer import special_chunk   # which most who read need not load
                return special_chunk(chunk.kind, chunk.nbytes, self.typesize, self.blocksize)
            size = chunk.cbytes
            have = chunk.loaded if self.source.base == NULL else 0      # read with its header
            at = self.chunks_start + self.entry(index) + have
            stored = fresh_bytes(size)
            to = <uint8_t *> PyBytes_AS_STRING(stored)
            with nogil:
                offer_gil()
                memcpy(to, chunk.data, <size_t> have)
                if self.checksums == NULL:
                    status = self.source.read_into(at, size - have, to + have)
                else:
                    own = checksum(0, to, have)
                    status = read_and_sum(self.source, at, size - have, to + have, &own)
                    if status == READ_OK and own != self.checksums[index]:
                        status = BAD_SUM
                await_gil()
            if status:
                self.fail(status, index)
            return stored
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
        """The stored chunk at an offset of the table: a view of it where it has an address, or its bytes."""
        at, length = self.chunk_offset_at(offset)
        if self.source.base == NULL:
            return self.source.read(at, length)
        return memoryview(self.source)[at:at + length]

    def chunk_info(self, int64_t index):
        """(absolute offset or None, nbytes, cbytes, special kind or 0, raw, block size) of a chunk."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int64_t value
        self.check_index(index)
        context = borrow(0)
        try:
            self.need_chunk(index, context, &chunk)
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
        cdef bytes result
        self.check_index(index)
        context = borrow(self.blocksize)
        try:
            self.need_chunk(index, context, &chunk)
            result = fresh_bytes(chunk.nbytes)
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
        result = fresh_bytes(stop - start)
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

    cdef int read_chunks(self, DecodeContext *context, int64_t start, int64_t stop, uint8_t *to, int64_t *index) noexcept nogil:
        """An uncompressed range, chunk after chunk; `index` is the last one that was read."""
        cdef int64_t at = start
        cdef int status = CHUNK_OK
        index[0] = self.chunk_at(at) - 1
        while status == CHUNK_OK and at < stop:
            index[0] += 1
            status = self.read_from_chunk(index[0], context, at, stop, to + (at - start))
            at = self.starts[index[0] + 1] if self.variable else (index[0] + 1) * self.chunksize
        return status

    cdef int read_range(self, int64_t start, int64_t stop, uint8_t *destination) except -1:
        """Checked bounds, loaded index and starts; releases the GIL, unless others could not use it in that time."""
        cdef DecodeContext *context
        cdef int status
        cdef int64_t index = 0
        if start == stop:
            return 0
        if self.by_member and start == 0 and stop == self.nbytes:
            self.check_member()
        context = borrow(self.blocksize)
        try:
            if stays_with_gil(self):
                status = self.read_chunks(context, start, stop, destination, &index)
            else:
                with nogil:
                    offer_gil()
                    status = self.read_chunks(context, start, stop, destination, &index)
                    await_gil()
            if status:
                self.fail(status, index)
        finally:
            give_back(context)
        return 0

    cdef int read_from_chunk(
            self, int64_t index, DecodeContext *context, int64_t start, int64_t stop, uint8_t *destination) noexcept nogil:
        """The part of an uncompressed range that lies in one chunk."""
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
        found = self.verbatim_at(start, length, check)
        return None if found < 0 else found

    cdef int64_t verbatim_at(self, int64_t start, int64_t length, bint check) except -2:
        """What `byte_range_of` gives; -1 for None."""
        cdef Chunk chunk
        cdef DecodeContext *context
        cdef int64_t index, within
        cdef int status
        if start < 0 or length < 1 or start > self.nbytes or length > self.nbytes - start or self.variable:
            return -1
        self.load_index()
        index = start // self.chunksize
        within = start - index * self.chunksize
        if within + length > self.chunk_nbytes(index) or self.entry(index) < 0:
            return -1
        context = borrow(0)
        try:
            status = self.open_chunk(index, context, &chunk)
            if status == CHUNK_OK and check and self.checksums != NULL and not self.each_read and chunk.cbytes <= CHECKED_ALONE:
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
            return -1
        return self.chunks_start + self.entry(index) + CHUNK_HEADER + within

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

    cdef Frame alike(self, int64_t nbytes, int64_t count):
        """A frame that was never serialised, like this one, but for its source and table, with chunks of so many bytes."""
        cdef Frame made = Frame.__new__(Frame)
        made.key, made.plugin = self.key, self.plugin
        made.nbytes, made.chunksize, made.chunk_count = nbytes, self.chunksize, count
        made.typesize, made.blocksize, made.flags = self.typesize, self.blocksize, self.flags
        made.codec, made.codec_meta, made.clevel = self.codec, self.codec_meta, self.clevel
        made.splitmode, made.use_dict = self.splitmode, self.use_dict
        made.vlblocks, made.variable = self.vlblocks, self.variable
        memcpy(made.filter_ids, self.filter_ids, 6)
        memcpy(made.filter_metas, self.filter_metas, 6)
        made.own_metalayers, made.vlmeta_table = self.own_metalayers, self.vlmeta_table
        made.index_loaded = True
        return made

    cdef int need_table(self) except -1:
        """Have room for the offsets of chunks."""
        self.offsets = <int64_t *> malloc(8 * <size_t> self.chunk_count)
        if self.offsets == NULL:
            raise MemoryError
        return 0

    cdef int lies_in(self, Source source) except -1:
        """Have the chunks lie in all of a source."""
        self.source, self.chunks_start = source, 0
        self.chunks_stop = self.cbytes = source.size
        return 0

    def with_vlmeta(self, dict vlmeta not None):
        """This frame, which was never serialised, with other metadata: name -> stored chunk."""
        cdef Frame made = self.alike(self.nbytes, self.chunk_count)
        cdef size_t size = 8 * <size_t> self.chunk_count
        if self.header != NULL:
            raise ValueError("the metadata of a serialised frame is part of it")
        made.lies_in(self.source)
        made.vlmeta_table, made.repeated = vlmeta, self.repeated
        if self.offsets != NULL:
            made.need_table()
            memcpy(made.offsets, self.offsets, size)
        if address_get(&self.starts) != NULL:
            made.starts = <int64_t *> malloc(size + 8)
            if made.starts == NULL:
                raise MemoryError
            memcpy(made.starts, self.starts, size + 8)
        return made

    def reordered(self, order):
        """This frame with chunk ``order[i]`` as chunk ``i``; `order` are integers of 8 bytes.

        None where more is to be done than to change the table: it was serialised, its chunks differ in size; or where
        `order` does not have the number of each chunk once.
        """
        cdef Py_ssize_t told = 0
        cdef Buffer held = integers(order, 8, &told)
        cdef int64_t count = self.chunk_count, i, number
        cdef Frame made
        cdef uint8_t *seen
        if self.header != NULL or self.variable or self.offsets == NULL or told != count or not count:
            return None
        made = self.alike(self.nbytes, count)
        made.lies_in(self.source)
        made.need_table()
        memcpy(made.offsets, held.data, 8 * <size_t> count)     # which another thread may write to meanwhile
        seen = <uint8_t *> calloc(<size_t> count, 1)
        if seen == NULL:
            raise MemoryError
        for i in range(count):
            number = made.offsets[i]
            if not 0 <= number < count or seen[number]:
                break
            seen[number] = 1
            made.offsets[i] = self.offsets[number]
        else:
            i = count
        free(seen)
        if i < count or (self.nbytes % self.chunksize and number != count - 1):
            return None     # or a short chunk is not the last one
        return made


cdef Frame frame_at(Source source, int64_t offset, int64_t length, object key):
    """What `Frame.open` gives."""
    cdef Frame self = Frame.__new__(Frame)
    self.read(source, offset, length, key, NULL, 0)
    self.count_chunks()
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
