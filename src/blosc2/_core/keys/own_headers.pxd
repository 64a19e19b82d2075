# cython: boundscheck=False, wraparound=False
"""What the header before a member's data says of it.

A member that is no leaf by its record in the directory may be one whose record is damaged. So the headers of such members are
looked at, those of leaves only where there is a reason: a name that other members have too, a catalog that says otherwise, a
key that is missing.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.string cimport memcmp

from blosc2._core.io.endian cimport u16
from blosc2._core.io.steps cimport flag_get, flag_set
from blosc2._core.keys.keytable cimport DAMAGED, KeyTable, Text
from blosc2._core.zip.archive cimport MANY_RECORDS, Archive
from blosc2._core.zip.records cimport FLAG_MASKED, FLAG_UTF8, LOCAL_LENGTH, MEMBER_FOLDER, Member, is_signature, is_utf8


cdef enum:
    # Bytes behind a name that are read with it: mostly the extra field is in them, and the first of the data.
    BEHIND_NAME = 128


cdef struct OwnHeader:
    int64_t data            # where it says that the data begins
    int64_t extra           # how long its extra field is
    uint16_t method


cdef inline bytes read_own_header(Archive archive, Member *member, OwnHeader *own):
    """Read it, and what comes behind it; `FormatError` where it is not there, or bears another name."""
    cdef int64_t room = archive.directory_offset - LOCAL_LENGTH - member.header, wanted
    cdef Py_ssize_t length = member.record.name_length
    cdef uint8_t near[LOCAL_LENGTH + 2 * BEHIND_NAME]
    cdef bytes block
    cdef const uint8_t *p
    if room < length:
        raise archive._error(member, "the directory leads to no local header, so it is damaged", member.header)
    wanted = LOCAL_LENGTH + min(room, length + BEHIND_NAME)
    if archive.source.base == NULL and wanted <= <int64_t> sizeof(near):
        archive.source.check(archive.source.read_into(member.header, wanted, near), member.header, wanted)
        block = near[:wanted]
    else:
        block = archive.source.read(member.header, wanted)
    p = <const uint8_t *> PyBytes_AS_STRING(block)
    if not is_signature(p, 3, 4):
        raise archive._error(member, "there is no local header where the directory says", member.header)
    own.extra, own.method = u16(p + 28), u16(p + 8)
    own.data = member.header + LOCAL_LENGTH + u16(p + 26) + own.extra
    # Where the directory is masked so are names in these headers.
    if not member.flags & FLAG_MASKED and (
            u16(p + 26) != length or memcmp(p + LOCAL_LENGTH, member.record.name, <size_t> length)
            or ((u16(p + 6) ^ member.flags) & FLAG_UTF8 and not block[LOCAL_LENGTH:LOCAL_LENGTH + length].isascii())):
        raise archive._error(
            member, "the local header bears another name, so one of both is damaged; blosc2.check tells more, and "
            "blosc2.salvage takes out what is whole", member.header)
    return block


cdef inline bint holds_frame(Archive archive, Member *member, bytes block, const OwnHeader *own) except -1:
    """Whether a member's data starts with the magic of a frame; `FormatError` where it cannot be told where they start."""
    cdef int64_t start = own.data - member.header, at
    if own.data > archive.directory_offset:
        raise archive._error(member, "the member's data reaches into the directory", own.data)
    if start + 10 > PyBytes_GET_SIZE(block):
        block = archive.source.read(member.header, min(start + 10, archive.directory_offset - member.header))
    if block[start:start + 10] == b"\x9e\xa8b2frame\x00":
        return True
    # Fields of a kind and a length each; zeros fill up.
    at = start - own.extra
    while start - at >= 4:
        at += 4 + u16(<const uint8_t *> PyBytes_AS_STRING(block) + at + 2)
    if at > start or any(block[at:start]):
        raise archive._error(member, "the extra field of the local header does not end where it should", member.header)
    return False


cdef inline bint is_doubtful(const Member *member) noexcept nogil:
    """Whether a name is taken for cp437, and would be UTF-8, too: the flag that tells may be what is damaged."""
    return member.name != member.record.name and is_utf8(member.record.name, member.record.name_length)


cdef inline int check_own_headers(Archive archive) except -1:
    """Raise `FormatError` if the header of a member bears another name than its record."""
    cdef Member member
    cdef OwnHeader own
    cdef int64_t number
    archive._need_offsets()
    for number in range(archive.count):
        archive.member_at(archive._offsets[number], &member)
        if member.problem != MEMBER_FOLDER:
            read_own_header(archive, &member, &own)
    return 0


cdef inline int look_for(KeyTable table, bytes key) except -1:
    """A key, without its first "/", was not found: raise `FormatError` if that is because a name is damaged."""
    cdef Archive archive = table.archive
    cdef Text found
    cdef int64_t at
    if archive is None or archive.source.far or table.removed.count or flag_get(&table.headers_fit):
        return 0
    if table.catalog is None or table._instead is not None:
        if archive.count < MANY_RECORDS:
            check_own_headers(archive)
        flag_set(&table.headers_fit)
        return 0
    # A key that has its place in the order and is not found by its hash is another one than when the catalog was made.
    at = table.bound(<const uint8_t *> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), False)
    if at != DAMAGED and at < table.count and table.key(at, &found) and found.bytes[:found.length] == key:
        check_own_headers(archive)
        flag_set(&table.headers_fit)
    return 0
