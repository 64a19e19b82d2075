# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""What a contiguous frame says about itself: header, metalayers, trailer (FORMATS 1.1-1.3, 1.5)."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from blosc2._core.io.checksum cimport checksum
from blosc2._core.codec.chunk cimport CHUNK_HEADER, FIRST_PLUGIN, MAX_BLOCK, MAX_BUFFER, filter_asks_array
from blosc2._core.io.endian cimport big16, big32, big64, put_big, u32
from blosc2._core.io.readahead cimport ask_for_frame, stop_guessing
from blosc2._core.io.source cimport READ_OK, Source
from blosc2._core.io.steps cimport counter_next

from blosc2.exceptions import FormatError

cdef enum:
    TABLE_HEAD = 7          # bytes of the table of metalayers before its entries
    PREFIX = 512            # of a mapped frame, copied before it is checked
    MAX_VLMETA = 8192

cdef int64_t _last_serial = 0


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

    def plain_bytes(self):
        """What `stored_bytes` gives, without the checksums that files carry."""
        cdef bytes header, trailer, result
        cdef int64_t rest
        cdef uint8_t *to
        cdef int status
        if self.checksums_len == 0:
            return self.stored_bytes()
        header, trailer = self.plain_ends()
        rest = self.frame_len - self.checksums_len - len(header) - len(trailer)
        result = PyBytes_FromStringAndSize(NULL, self.frame_len - self.checksums_len)
        to = <uint8_t *> PyBytes_AS_STRING(result)
        memcpy(to, PyBytes_AS_STRING(header), <size_t> self.header_len)
        with nogil:
            status = self.fetch(self.offset + self.header_len, rest, to + self.header_len)
        self.source.check(status, self.offset + self.header_len, rest)
        memcpy(to + self.header_len + rest, PyBytes_AS_STRING(trailer), <size_t> len(trailer))
        return result

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
