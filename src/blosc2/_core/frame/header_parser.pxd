from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from blosc2._core.io.source cimport Source

cdef enum:
    MAX_METALAYERS = 16
    FIXED_HEADER = 87
    MIN_HEADER = 97
    MIN_TRAILER = 35
    PREFIX_READ = 4096  # of a frame read by position; one that is not larger stays in memory, and its data costs no read of its own
    TRAILER_TAIL = 23   # trailer_len and fingerprint, at the very end
    # Checksums (doc/format/checksums.md) lie before these, and end with a part of fixed size.
    CHECKSUMS_TAIL = 28
    CHECKSUMS_MARK_AT = 86   # byte of the header that says whether they hold
    CHECKSUMS_MARK = 0xB5


cdef struct Entry:  # of the table of metalayers, in bytes from the start of the frame
    int32_t name
    int32_t name_length
    int32_t content
    int32_t content_length


cdef class Header:
    """What a frame says about itself; see header_parser.pyx."""

    cdef readonly Source source
    cdef uint64_t serial                # no other frame of this process ever has it
    cdef readonly int64_t offset        # of the frame in its source
    cdef readonly object key
    cdef readonly int64_t frame_len
    cdef readonly int64_t nbytes
    cdef readonly int64_t cbytes
    cdef readonly int32_t header_len, typesize, blocksize, chunksize
    cdef readonly uint32_t trailer_len
    cdef readonly uint32_t checksums_len     # bytes of checksums in the trailer; 0 where there are none that hold
    cdef readonly bint variable, vlblocks, use_dict
    # There may be a frame for each of a hundred thousand leaves: what fits a byte takes one.
    cdef readonly uint8_t flags, codec, codec_meta, clevel, splitmode
    cdef uint8_t filter_ids[6]
    cdef uint8_t filter_metas[6]
    cdef uint8_t entry_count            # metalayers in the header
    cdef uint8_t whole                  # whether all of the frame lies in `header`
    cdef uint8_t index_loaded           # of the chunk table; there is room for it here
    cdef uint8_t header_holds           # whether the header is the one of the checksums, where there are such
    cdef uint8_t wholes                 # whether what is read as a whole is checked against them
    cdef uint8_t each_read              # whether chunks are checked at each read, of parts too
    cdef readonly uint8_t by_member     # whether reading all of it is to be checked against the next; see frame.pyx
    cdef uint32_t member_checksum            # CRC-32 of all of the frame
    # Chunks lie between these two, absolute; offsets count from the first.
    cdef int64_t chunks_start, chunks_stop
    cdef uint8_t *header                # a checked copy, header_len bytes; NULL for a frame never serialised
    cdef dict own_metalayers            # of a frame never serialised
    cdef dict vlmeta_table              # name -> (absolute offset, length), or the stored chunk itself

    cdef int read(
        self, Source source, int64_t offset, int64_t length, object key, const uint8_t *known, int64_t have) except -1
    cdef int bad(self, int64_t at, str what) except -1
    cdef int parse_header(self, const uint8_t *p, int64_t have, int64_t available, int64_t exact) except -1
    cdef int parse_metalayers(self) except -1
    cdef int64_t read_entry(self, int64_t at, Entry *entry) noexcept nogil
    cdef int check_name(self, const uint8_t *name, int length, int64_t at) except -1
    cdef int find_trailer(self, const uint8_t *prefix, int64_t have) except -1
    cdef const uint8_t *memory(self, int64_t at) noexcept nogil
    cdef int fetch(self, int64_t at, int64_t length, void *to) noexcept nogil
    cdef int copy(self, int64_t at, int64_t length, uint8_t *to, const uint8_t *prefix, int64_t have) except -1
    cdef const uint8_t *find_metalayer(self, const char *name, size_t n, int32_t *length) noexcept
    cdef bint holds_only_array(self) noexcept
    cdef bint wants_geometry(self) noexcept
    cdef bytes checked_trailer(self)
    cdef dict load_vlmeta(self)
