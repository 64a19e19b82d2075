# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""ZIP archives whose members are stored: find the directory, locate members. `archive_writer` appends.

Opening makes one pass over the central directory, and no Python object for a member: names stay in the mapping, or in
one copy of the directory. A local header is read when its member is first used.

The *file checksum* is the comment of the end record. It states where the record lies, and the CRC-32C of every byte of
the file before the last 8 digits of the comment, bytes that are no longer used included. An append goes on from it, and
so never reads old bytes again.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp

from blosc2._core.io.checksum cimport checksum, sum_range, zip_checksum
from blosc2._core.io.memory cimport use_large_pages
from blosc2._core.io.endian cimport u16, u32, u64
from blosc2._core.io.readahead cimport PAGE, TAIL, ask_range, stop_guessing
from blosc2._core.io.source cimport Source
from blosc2._core.io.steps cimport address_get, address_set, publish_once
from blosc2._core.zip.catalog cimport Catalog, Pages, find_catalog
from blosc2._core.zip.records cimport (
    CENTRAL_LENGTH, COMMENT_COVERED, COMMENT_LENGTH, END64_LENGTH, END_LENGTH, FIELD_UNICODE_PATH, FLAG_UTF8, HOST_DARWIN,
    HOST_DOS, HOST_UNIX, LOCAL_LENGTH, LOCATOR_LENGTH, MEMBER_COMPRESSED, MEMBER_ENCRYPTED, MEMBER_FOLDER,
    MEMBER_OTHER_DISK, MEMBER_OUTSIDE, MEMBER_SIZES_DIFFER, MEMBER_ZIP64_SHORT, Member, Record, copy_known,
    counts_as_stored, flags_of, is_signature, is_utf8, last_end, open_record, read_member, read_once, safe_name,
    write_comment)

from blosc2.exceptions import FormatError

# Members of an archive against the CRC-32 that its directory states of each.


cdef object wrong_checksum(object path, object key, int64_t offset):
    return FormatError(
        "the bytes of the member are not those that were written, as the checksum in the directory of the archive says; "
        "check() tells more, and salvage() takes out what is whole", path=path, key=key, offset=offset)


cdef int check_member(Source source, int64_t data, const Member *member, object key, const uint8_t *known,
                      int64_t have) except -1:
    """Check all bytes of a member, of which the first are known."""
    cdef uint32_t crc
    have = max(<int64_t> 0, min(have, member.size))
    crc = zip_checksum(0, known, <size_t> have) if have else 0
    if have < member.size:
        sum_range(source, data + have, member.size - have, True, &crc)
    if crc != member.crc:
        raise wrong_checksum(source.path, key, data)
    return 0


# The names of members, which tools write in several ways.


def told_name(bytes name not None, bytes extra not None, int flags, int host=HOST_UNIX):
    """The name that the stored bytes of one stand for, in UTF-8.

    A name that is not flagged as UTF-8 is the one in the extra field of Unicode paths, if that is for these bytes. Of
    archives of Unix it is UTF-8 if it can be; else it is cp437. Where DOS made a name, backslashes are separators if it
    has no others.

    Parameters
    ----------
    flags, host : int
        Flags of the member, and the system in "version made by", which local headers do not have.

    Raises
    ------
    UnicodeDecodeError
        The name is flagged as UTF-8 and is not.
    """
    cdef bytes told = name
    if flags & FLAG_UTF8:
        name.decode("utf-8")
    elif extra and (path := _unicode_path(extra, name)) is not None:
        told = path
    elif not name.isascii() and not (
            host in (HOST_UNIX, HOST_DARWIN) and is_utf8(<const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))):
        told = name.decode("cp437").encode("utf-8")
    if host == HOST_DOS and b"\\" in told and b"/" not in told:
        told = told.replace(b"\\", b"/")
    return told


cdef bytes _unicode_path(bytes extra, bytes name):
    """The name in an extra field, or None: of another version, not UTF-8, or for a name that was changed since."""
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(extra)
    cdef Py_ssize_t at = 0, left = PyBytes_GET_SIZE(extra), length
    cdef bytes path
    while left - at >= 4:
        length = u16(p + at + 2)
        if length > left - at - 4:
            return None
        if u16(p + at) == FIELD_UNICODE_PATH and length > 5 and p[at + 4] == 1 and u32(p + at + 5) == zip_checksum(
                0, <const uint8_t *> PyBytes_AS_STRING(name), <size_t> PyBytes_GET_SIZE(name)):
            path = extra[at + 9:at + 4 + length]
            # Either both are names of folders or none: readers tell by the stored one.
            if is_utf8(p + at + 9, length - 5) and path.endswith(b"/") == name.endswith(b"/"):
                return path
        at += 4 + length
    return None


cdef enum:
    ALIGNMENT_ROOM = 128
    # How far the end record of an archive with the longest comment lies from the end of the file.
    USUAL_TAIL = 65557
    SCAN_STEP = 1 << 20

cdef dict _PROBLEMS = {
    MEMBER_COMPRESSED: "the member is compressed; members are read in place, so they must be stored",
    MEMBER_ENCRYPTED: "the member is encrypted",
    MEMBER_SIZES_DIFFER: "the member is stored, but its two sizes differ",
    MEMBER_OTHER_DISK: "the member lies on another disk of a split archive",
    MEMBER_ZIP64_SHORT: "the member's zip64 extra field lacks a value that it needs",
    MEMBER_OUTSIDE: "the member's local header is not inside the archive",
    MEMBER_FOLDER: "the entry is a folder",
}


cdef class Archive:
    """The members of a ZIP archive, as its last valid directory lists them.

    Members have numbers, in the order of the directory, and offsets, which is where their records begin in it. With a
    catalog, opening looks at neither: who needs numbers has the directory gone through then.

    Parameters
    ----------
    source : Source
        The whole file.
    trusting : bool
        Whether a catalog is used, if there is one that fits.

    Attributes
    ----------
    count : int
        Entries of the directory, folders included; a member is named by its number below this.
    directory_offset, directory_size : int
        Where the central directory lies.
    end : int
        First byte behind the end record and its comment: where an append begins.
    catalog : Catalog or None
        What says where the records of keys are.
    """

    def __cinit__(self, Source source not None, bint trusting=True):
        self.source = source
        self._trusting = trusting
        stop_guessing(source)
        self._find_end()

    def __dealloc__(self):
        PyMem_Free(self._offsets)
        PyMem_Free(self._decoded)

    def __len__(self):
        return self.count

    def distrust(self):
        """Do without the catalog from now on: something in it was wrong."""
        if self.catalog is not None:
            self.source.raise_lost()
            self._need_offsets()
            with cython.critical_section(self):
                if self.catalog is not None:    # others may be looking at it: it stays as long as the archive does
                    self._distrusted, self.catalog = self.catalog, None

    cdef int _find_end(self) except -1:
        """Scan backwards for the end record that agrees with everything before it."""
        cdef Source source = self.source
        cdef int64_t low, high = source.size, position, length, have, step = 4096, work = 0
        cdef const uint8_t *block
        cdef object copy = None
        cdef uint8_t first[4]
        while True:
            # [low, high + 3) is searched: a signature may begin in one block and end in the next.
            low = max(0, high - step)
            length = have = min(high + 3, source.size) - low
            if length < 4:
                break
            if source.base != NULL:
                block = source.base + low
            else:
                copy = source.read(low, length)
                block = <const uint8_t *> PyBytes_AS_STRING(copy)
            position = last_end(block, length)
            while position >= 0:
                if self._try_end(low + position, block, low, have, &work):
                    return 0
                position = last_end(block, position + 3)
            high = low
            if low == 0:
                break
            if source.size - low >= USUAL_TAIL:
                step = SCAN_STEP
                source.check(source.read_into(0, 4, first), 0, 4)
                if not (is_signature(first, 3, 4) or is_signature(first, 5, 6)):
                    break
            else:
                step = USUAL_TAIL
        raise FormatError(
            "no valid end of a ZIP archive: the file is empty, cut short, damaged or of another kind; blosc2.check "
            "tells more, and blosc2.salvage takes out what is whole",
            path=source.path, offset=source.size,
        )

    cdef int _try_end(self, int64_t position, const uint8_t *block, int64_t low, int64_t have, int64_t *work) except -1:
        """Whether the end record at a position is that of a whole archive; its directory is then parsed. See `copy_known`."""
        cdef Source source = self.source
        cdef uint8_t end[END_LENGTH]
        cdef uint8_t more[END64_LENGTH]
        cdef int64_t directory_end = position, offset, size, count, at
        if position + END_LENGTH > source.size:
            return 0
        copy_known(source, position, END_LENGTH, end, block, low, have)
        if position + END_LENGTH + u16(end + 20) > source.size:
            return 0
        if u16(end + 4) or u16(end + 6) or u16(end + 8) != u16(end + 10):
            return 0
        count, size, offset = u16(end + 10), u32(end + 12), u32(end + 16)
        if position >= LOCATOR_LENGTH:
            at = position - LOCATOR_LENGTH
            copy_known(source, at, LOCATOR_LENGTH, more, block, low, have)
            if is_signature(more, 6, 7):
                if u32(more + 4) or u32(more + 16) > 1 or u64(more + 8) > <uint64_t> at:
                    return 0
                directory_end = <int64_t> u64(more + 8)
                if at - directory_end < END64_LENGTH:
                    return 0
                copy_known(source, directory_end, END64_LENGTH, more, block, low, have)
                if not is_signature(more, 6, 6) or u64(more + 4) != <uint64_t> (at - directory_end - 12):
                    return 0
                if u32(more + 16) or u32(more + 20) or u64(more + 24) != u64(more + 32):
                    return 0
                if u64(more + 32) > <uint64_t> source.size or u64(more + 40) > <uint64_t> source.size:
                    return 0
                count, size, offset = <int64_t> u64(more + 32), <int64_t> u64(more + 40), <int64_t> u64(more + 48)
        if offset < 0 or size < 0 or size > directory_end or offset != directory_end - size:
            return 0
        if count > size // CENTRAL_LENGTH:
            return 0
        # Nested fake ends could make each candidate walk the same long directory again.
        work[0] += size
        if work[0] > 16 * source.size:
            raise FormatError("too many false ends of a ZIP archive", path=source.path, offset=position)
        self.directory_offset = offset
        self.directory_size = size
        self.end = position + END_LENGTH + u16(end + 20)
        self._directory = NULL
        self._copy = self._pages = None
        if self._trusting:
            self.catalog = find_catalog(source, offset, size, count)
            if self.catalog is not None:
                self.count = count
                return 1
        return self._parse(count)

    cdef void ask(self, int64_t most) noexcept nogil:
        """Ask for the directory and the catalog before it, if they are mapped and of no more than so many bytes."""
        cdef int64_t start = self.directory_offset if self.catalog is None else self.catalog.start
        if self.source.base != NULL and PAGE < self.source.size - start <= most:
            ask_range(self.source, start, self.source.size - start)

    cdef int load_directory(self) except -1:
        """Have the bytes of the directory at hand."""
        if address_get(&self._directory) == NULL:
            if self.source.base != NULL:
                self.ask(TAIL)
                address_set(&self._directory, self.source.base + self.directory_offset)
                return 0
            copy = Pages(self.source, self.directory_offset, self.directory_size) if self.source.far else (
                self.source.read(self.directory_offset, self.directory_size))
            with cython.critical_section(self):
                if self._directory == NULL:     # another thread may have been faster, and looks at it already
                    self._copy, self.far = copy, self.source.far
                    self._pages = copy if self.far else None
                    address_set(&self._directory, <const uint8_t *> self._pages.base if self.far else (
                        <const uint8_t *> PyBytes_AS_STRING(copy)))
        return 0

    cdef int _need_offsets(self) except -1:
        """Go through the directory, if that was not done yet."""
        if address_get(&self._offsets) == NULL and not self._parse(self.count):
            raise FormatError("the central directory does not have the records that the end record states",
                              path=self.source.path, offset=self.directory_offset)
        return 0

    cdef int _parse(self, int64_t count) except -1:
        """Go through the directory; 0 when its records do not fill it exactly."""
        self.load_directory()
        self.ask(INT64_MAX)
        if self.far:
            self._pages.need_all()
        cdef const uint8_t *directory = self._directory
        cdef int64_t at = 0, number, unsafe = -1
        cdef bint ascii = True, plain = True
        cdef Member member
        cdef int64_t *offsets = <int64_t *> PyMem_Malloc(max(1, count) * sizeof(int64_t))
        if offsets == NULL:
            raise MemoryError
        use_large_pages(offsets, <size_t> count * sizeof(int64_t))
        with nogil:
            for number in range(count):
                if not open_record(directory, self.directory_size, at, &member.record):
                    at = -1
                    break
                # Not before all of it has proved to be a directory is a name in it anything to complain of.
                if not read_member(&member, self.directory_offset, &ascii) and unsafe < 0:
                    unsafe = number
                plain = plain and counts_as_stored(&member, ascii)
                offsets[number] = at
                at += member.record.length
        if at != self.directory_size:
            PyMem_Free(offsets)
            return 0
        self.count = count
        try:
            if unsafe >= 0:
                if not open_record(directory, self.directory_size, offsets[unsafe], &member.record):
                    raise self._changed()
                read_member(&member, self.directory_offset, &ascii)
                raise self._refused(
                    member.name[:member.name_length], self.directory_offset + (member.record.start - self._directory))
            if not plain:
                self._decode(offsets, count)
        except BaseException:
            PyMem_Free(offsets)
            raise
        with cython.critical_section(self):
            publish_once(&self._offsets, &offsets)
        PyMem_Free(offsets)     # another thread was faster
        return 1

    cdef _refused(self, bytes name, int64_t offset):
        """The error for a name that does not stay below its root."""
        return FormatError(
            f"the member name {name!r} is absolute, or has an empty, '.' or '..' segment or a NUL; nothing of this "
            "archive is used", path=self.source.path, offset=offset)

    cdef _changed(self):
        """The error for a directory that another process changes, as it may a mapped one."""
        return FormatError("the directory changed while it was read", path=self.source.path, offset=self.directory_offset)

    cdef int _decode(self, const int64_t *offsets, Py_ssize_t count) except -1:
        """Check the names, and keep those that stand for others, or are not flagged as UTF-8, in memory of our own."""
        cdef Record record
        cdef DecodedName *decoded
        cdef Py_ssize_t number, found
        cdef bytes name
        texts = []
        for number in range(count):
            if not open_record(self._directory, self.directory_size, offsets[number], &record):
                raise self._changed()
            name = self._decoded_name(&record, offsets[number])
            if name is not None:
                texts.append((offsets[number], name))
        found = len(texts)
        decoded = <DecodedName *> PyMem_Malloc(max(1, found) * sizeof(DecodedName))
        if decoded == NULL:
            raise MemoryError
        for number in range(found):
            offset, name = texts[number]
            decoded[number].offset = offset
            decoded[number].text = <const uint8_t *> PyBytes_AS_STRING(name)
            decoded[number].length = <uint16_t> PyBytes_GET_SIZE(name)
        with cython.critical_section(self):
            if self._decoded == NULL:
                self._decoded, self._decoded_texts, self._decoded_count, decoded = decoded, texts, found, NULL
        PyMem_Free(decoded)     # another thread was faster
        return 0

    cdef bytes _decoded_name(self, const Record *record, int64_t offset):
        """The name of a record in UTF-8; None where it is the one that is stored, and ASCII or flagged as UTF-8."""
        cdef bytes name = PyBytes_FromStringAndSize(<const char *> record.name, record.name_length)
        cdef bytes extra = PyBytes_FromStringAndSize(<const char *> record.name + record.name_length, record.extra_length)
        cdef bytes told
        cdef uint16_t flags = flags_of(record)
        cdef bint ascii
        try:
            told = told_name(name, extra, flags, record.start[5])
        except UnicodeDecodeError:
            raise FormatError(
                f"the member name {name!r} is flagged as UTF-8 and is not", path=self.source.path,
                offset=self.directory_offset + offset,
            ) from None
        if told == name and (flags & FLAG_UTF8 or name.isascii()):
            return None
        if len(told) > 0xFFFF:
            raise FormatError(f"the member name {told[:40]!r}... is too long", path=self.source.path)
        if not safe_name(<const uint8_t *> PyBytes_AS_STRING(told), <int> PyBytes_GET_SIZE(told), &ascii):
            raise self._refused(told, self.directory_offset + offset)
        return told

    cdef const DecodedName *decoded(self, int64_t offset) noexcept nogil:
        """The name of a record that `_decoded_name` gave one; NULL for others."""
        cdef Py_ssize_t low = 0, high = self._decoded_count, middle
        while low < high:
            middle = (low + high) // 2
            if self._decoded[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        if low < self._decoded_count and self._decoded[low].offset == offset:
            return &self._decoded[low]
        return NULL

    cdef bint peek(self, int64_t offset, Member *member) noexcept nogil:
        """The member whose record is at an offset; False when there is no record."""
        cdef const DecodedName *decoded
        cdef bint ascii
        if not open_at(self, offset, &member.record):
            return False
        if not read_member(member, self.directory_offset, &ascii):
            return False
        if self._decoded_count:
            decoded = self.decoded(offset)
            if decoded != NULL:
                member.name, member.name_length = decoded.text, decoded.length
                if member.name[member.name_length - 1] == 0x2F:
                    member.problem = MEMBER_FOLDER
                return True
        return ascii or member.flags & FLAG_UTF8 != 0

    cdef int member_at(self, int64_t offset, Member *member) except -1:
        """The member whose record is at an offset."""
        self.load_directory()
        if not self.peek(offset, member):
            self.source.raise_lost()
            raise FormatError("there is no record of a member here", path=self.source.path,
                              offset=self.directory_offset + offset)
        return 0

    cpdef int64_t record_offset(self, Py_ssize_t number) except -1:
        """Where the record of a member is in the directory."""
        self._need_offsets()
        if number < 0 or number >= self.count:
            raise IndexError(f"there is no member {number}; the archive has {self.count}")
        return self._offsets[number]

    cdef str _name(self, Member *member):
        return (<const char *> member.name)[:member.name_length].decode("utf-8", "replace")

    cdef int64_t locate(self, Member *member) except -1:
        """First byte of a member's data, from its local header."""
        cdef uint8_t ahead[LOCAL_LENGTH + 226]
        cdef int64_t have
        return self.locate_and_read(self.source, member, ahead, sizeof(ahead), &have)

    cdef int64_t locate_and_read(
            self, Source source, Member *member, uint8_t *ahead, int64_t room, int64_t *have) except -1:
        """First byte of a member's data, from its local header.

        From a file that is not mapped, up to `room` bytes are left in `ahead`, from the local header on. `have` is how
        many of them there are; 0 where nothing was read.
        """
        cdef int64_t data, length, wanted
        cdef uint32_t lengths
        cdef const uint8_t *header
        cdef bytes copy
        cdef bint named
        have[0] = 0
        if member.problem:
            raise self._error(member, _PROBLEMS[member.problem],
                              member.record.start - self._directory + self.directory_offset)
        if member.header > self.directory_offset - LOCAL_LENGTH:
            raise self._error(member, "the local header reaches into the directory", member.header)
        # Header and name in one read, unless the name is a long one.
        length = member.record.name_length
        if source.base != NULL:
            header = source.base + member.header
            wanted = LOCAL_LENGTH
        else:
            # An extra field that aligns the data, and as much of it as there may be.
            wanted = min(room, self.directory_offset - member.header, LOCAL_LENGTH + length + ALIGNMENT_ROOM + member.size)
            source.check(source.read_small(member.header, wanted, self.directory_offset, ahead), member.header, wanted)
            have[0] = wanted
            header = ahead
        if not is_signature(header, 3, 4):
            raise self._error(member, "there is no local header where the directory says", member.header)
        lengths = <uint32_t> (read_once(header + 22) >> 32)
        named = <int64_t> (lengths & 0xFFFF) == length and length <= self.directory_offset - member.header - LOCAL_LENGTH
        if named and (source.base != NULL or LOCAL_LENGTH + length <= wanted):
            named = memcmp(header + LOCAL_LENGTH, member.record.name, length) == 0
        elif named:
            copy = source.read(member.header + LOCAL_LENGTH, length)
            named = memcmp(PyBytes_AS_STRING(copy), member.record.name, length) == 0
        if not named:
            raise self._error(member, "the local header bears another name", member.header)
        data = member.header + LOCAL_LENGTH + length + (lengths >> 16)
        if data > self.directory_offset or member.size > self.directory_offset - data:
            raise self._error(member, "the member's data reaches into the directory", data)
        return data

    cdef _error(self, Member *member, str reason, int64_t offset):
        return FormatError(f"member {self._name(member)!r}: {reason}", path=self.source.path, offset=offset)

    @property
    def file_checksum(self):
        """CRC-32C of the file up to `end`, as the comment of the end record states it; None where it does not."""
        cdef uint8_t end[END_LENGTH + COMMENT_LENGTH]
        cdef char wanted[COMMENT_LENGTH]
        cdef int64_t position = self.end - END_LENGTH - COMMENT_LENGTH
        cdef uint8_t *digits = end + END_LENGTH + COMMENT_COVERED
        cdef uint32_t stated = 0
        cdef int i, digit
        if position < 0:
            return None
        self.source.check(
            self.source.read_into(position, END_LENGTH + COMMENT_LENGTH, end), position, END_LENGTH + COMMENT_LENGTH)
        write_comment(wanted, position, 0)
        if not is_signature(end, 5, 6) or u16(end + 20) != COMMENT_LENGTH or memcmp(end + END_LENGTH, wanted, COMMENT_COVERED):
            return None
        for i in range(8):
            digit = digits[i]
            if 0x30 <= digit <= 0x39:
                digit -= 0x30
            elif 0x61 <= digit <= 0x66:
                digit -= 0x57
            else:
                return None
            stated = stated << 4 | <uint32_t> digit
        return checksum(stated, digits, 8)

    def byte_range(self, Py_ssize_t number):
        """Offset and length of a member's data, after a look at its local header."""
        return self.byte_range_at(self.record_offset(number))

    def byte_range_at(self, int64_t offset):
        """Offset and length of the data of the member whose record is at an offset."""
        cdef Member member
        self.member_at(offset, &member)
        return self.locate(&member), member.size

    def extent_at(self, int64_t offset):
        """Offset and length of a member with its local header, which is not read: it may end a little before."""
        cdef Member member
        self.member_at(offset, &member)
        return member.header, min(
            max(self.directory_offset - member.header, 0),
            LOCAL_LENGTH + member.name_length + ALIGNMENT_ROOM + member.size)

    def name(self, Py_ssize_t number):
        """The name of a member."""
        return self.name_at(self.record_offset(number))

    def name_at(self, int64_t offset):
        """The name of the member whose record is at an offset."""
        cdef Member member
        self.member_at(offset, &member)
        return self._name(&member)

    def crc(self, Py_ssize_t number):
        """The stored CRC-32 of a member's data."""
        return self.crc_at(self.record_offset(number))

    def crc_at(self, int64_t offset):
        """The stored CRC-32 of the member whose record is at an offset."""
        cdef Member member
        self.member_at(offset, &member)
        return member.crc

    def is_folder(self, Py_ssize_t number):
        """Whether an entry only names a folder."""
        cdef Member member
        self.member_at(self.record_offset(number), &member)
        return member.name[member.name_length - 1] == 0x2F

    def find(self, bytes name not None):
        """Number of the last member of a name, or -1. Looks at all of them: keys are found by a `KeyTable`."""
        cdef Py_ssize_t number, length = PyBytes_GET_SIZE(name)
        cdef const char *wanted = PyBytes_AS_STRING(name)
        cdef Member member
        cdef Record record
        self._need_offsets()
        if not self._decoded_count:
            with nogil:
                for number in range(self.count - 1, -1, -1):
                    if open_record(self._directory, self.directory_size, self._offsets[number], &record) and (
                            record.name_length == length and memcmp(record.name, wanted, <size_t> length) == 0):
                        break
                else:
                    number = -1
            return number
        for number in range(self.count - 1, -1, -1):
            self.member_at(self._offsets[number], &member)
            if member.name_length == length and memcmp(member.name, wanted, length) == 0:
                return number
        return -1

    def find_offset(self, bytes name not None):
        """Where the record of the last member of a name is, or -1; at once for that of embedded values, if cataloged."""
        cdef Member member
        cdef Catalog catalog = self.catalog     # another thread may do without it meanwhile
        cdef int64_t at
        if catalog is not None and catalog.embed >= 0:
            at = catalog.embed
            self.load_directory()
            if self.peek(at, &member) and member.name[:member.name_length] == name:
                return at
        number = self.find(name)
        return -1 if number < 0 else self.record_offset(number)

    def embedded(self, bytes name not None, bint check=False):
        """Offset and length of the data of the last member of a name, or None; at once where a catalog knows it.

        `check` compares a small one with its checksum.
        """
        cdef Member member
        cdef Catalog catalog = self.catalog
        cdef bint ascii
        cdef bytes record
        cdef int64_t offset, size
        if catalog is not None and catalog.embed >= 0 and self._directory == NULL:
            # Without the rest of the directory.
            offset = catalog.embed
            size = min(self.directory_size - offset, CENTRAL_LENGTH + PyBytes_GET_SIZE(name) + 40)
            record = self.source.read(self.directory_offset + offset, size)
            if open_record(<const uint8_t *> PyBytes_AS_STRING(record), size, 0, &member.record) and read_member(
                    &member, self.directory_offset, &ascii
            ) and member.name[:member.name_length] == name and not member.problem:
                return self._checked(&member, check), member.size
        offset = self.find_offset(name)
        if offset < 0:
            return None
        self.member_at(offset, &member)
        return self._checked(&member, check), member.size

    cdef int64_t _checked(self, Member *member, bint check) except -1:
        """Where the data of a member are, after a look at them if they are few."""
        cdef int64_t data = self.locate(member)
        if check and member.size <= SMALL_MEMBER:
            check_member(self.source, data, member, None, NULL, 0)
        return data

    def find_offsets(self, bytes name not None):
        """Where the records of all members of a name are."""
        cdef Member member
        cdef Py_ssize_t number
        self._need_offsets()
        result = []
        for number in range(self.count):
            self.member_at(self._offsets[number], &member)
            if member.name[:member.name_length] == name:
                result.append(self._offsets[number])
        return result

    def names(self):
        """The names of all members, in the order of the directory."""
        return [self.name(number) for number in range(self.count)]

    def records(self, dropped=frozenset()):
        """Central records of the members whose offset is not among the dropped ones, and how many these are."""
        cdef int64_t offset, start = 0
        cdef Member member
        cdef list pieces = []
        self.load_directory()
        for offset in sorted(dropped):
            self.member_at(offset, &member)
            if offset > start:
                pieces.append(self._piece(start, offset))
            start = offset + member.record.length
        if start < self.directory_size:
            pieces.append(self._piece(start, self.directory_size))
        return b"".join(pieces), self.count - len(dropped)

    cdef bytes _piece(self, Py_ssize_t start, Py_ssize_t stop):
        return PyBytes_FromStringAndSize(<const char *> self._directory + start, stop - start)

    def __repr__(self):
        return f"<Archive {self.source.path or 'buffer'}: {self.count} members>"
