from libc.stdint cimport int64_t, uint16_t, uint8_t

from blosc2._core.io.endian cimport u16
from blosc2._core.io.source cimport Source
from blosc2._core.zip.catalog cimport Catalog, Pages
from blosc2._core.zip.records cimport CENTRAL_LENGTH, Member, Record, open_named


cdef enum:
    # Members up to this size are checked when they are opened: one read brings them in.
    SMALL_MEMBER = 4096


cdef object wrong_checksum(object path, object key, int64_t offset)
cdef int check_member(Source source, int64_t data, const Member *member, object key, const uint8_t *known,
                      int64_t have) except -1


cdef struct DecodedName:
    int64_t offset           # of the record whose stored name does not count as it is
    const uint8_t *text     # the name in UTF-8
    uint16_t length


cdef enum:
    # Records from which on a pass over them asks for all of the directory.
    MANY_RECORDS = 1024


cdef class Archive:
    cdef readonly Source source
    cdef readonly int64_t directory_offset
    cdef readonly int64_t directory_size
    cdef readonly int64_t end
    cdef readonly Py_ssize_t count
    cdef readonly Catalog catalog
    cdef Catalog _distrusted        # what that was, if something in it was wrong
    cdef const uint8_t *_directory  # NULL until needed
    cdef int64_t *_offsets           # of the records by number; NULL until needed
    cdef object _copy
    cdef Pages _pages               # where that is, of a file on a server; its records are looked at by `open_at`
    cdef bint far
    cdef DecodedName *_decoded      # names that do not count as they are stored, in the order of the directory
    cdef Py_ssize_t _decoded_count
    cdef list _decoded_texts        # which they lie in
    cdef bint _trusting

    cdef int _find_end(self) except -1
    cdef int _try_end(self, int64_t position, const uint8_t *block, int64_t low, int64_t have, int64_t *work) except -1
    cdef void ask(self, int64_t most) noexcept nogil
    cdef int load_directory(self) except -1
    cdef int _need_offsets(self) except -1
    cdef int _parse(self, int64_t count) except -1
    cdef _refused(self, bytes name, int64_t offset)
    cdef int _decode(self, const int64_t *offsets, Py_ssize_t count) except -1
    cdef bytes _decoded_name(self, const Record *record, int64_t offset)
    cdef const DecodedName *decoded(self, int64_t offset) noexcept nogil
    cdef _changed(self)
    cdef bint peek(self, int64_t offset, Member *member) noexcept nogil
    cdef int member_at(self, int64_t offset, Member *member) except -1
    cpdef int64_t record_offset(self, Py_ssize_t number) except -1
    cdef int64_t locate(self, Member *member) except -1
    cdef int64_t _checked(self, Member *member, bint check) except -1
    cdef int64_t locate_and_read(self, Source source, Member *member, uint8_t *ahead, int64_t room, int64_t *have) except -1
    cdef bytes _piece(self, Py_ssize_t start, Py_ssize_t stop)
    cdef str _name(self, Member *member)
    cdef _error(self, Member *member, str reason, int64_t offset)


cdef inline bint open_at(Archive archive, int64_t offset, Record *record) noexcept nogil:
    """The record of a named member at an offset of the directory; of a file on a server it is fetched first."""
    cdef const uint8_t *p
    if archive.far:
        if not archive._pages.need(offset, CENTRAL_LENGTH):
            return False
        p = archive._directory + offset
        if not archive._pages.need(offset, CENTRAL_LENGTH + <int64_t> u16(p + 28) + u16(p + 30) + u16(p + 32)):
            return False
    return open_named(archive._directory, archive.directory_size, offset, record)


cdef inline int check_fetched(Archive archive) except -1:
    """Raise if records could not be looked at because a server did not send them."""
    if archive is not None and archive.far:
        archive.source.raise_lost()
    return 0
