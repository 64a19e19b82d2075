from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

# Items with keys, as they are sorted.


cdef struct SortedItem:
    const uint8_t *key
    uint32_t key_length
    const uint8_t *payload
    uint32_t payload_length


cdef struct SortEntry:
    uint64_t digit         # seven bytes of the key as a number, and how many of them the key has; see digit_of
    const uint8_t *record


cdef struct SortCursor:
    const uint8_t *record   # the item that comes next, or NULL
    uint8_t *buffer
    size_t capacity
    size_t begin
    size_t end
    int64_t offset          # what of the run has not been read yet
    int64_t stop


cdef struct SortBlock:
    uint8_t *bytes
    size_t capacity
    size_t used


cdef struct SortRun:
    int64_t offset
    int64_t length


cdef class SortedRuns:
    """Items sorted by key in bounded memory; see archive_writer.pyx. The methods need no GIL, but one thread at a time."""

    cdef readonly int64_t count         # items that were added
    cdef readonly int64_t runs          # sorted runs in the temporary file
    cdef object _directory
    cdef size_t _budget, _block_size, _footprint
    cdef int _state, _fd
    cdef object _file           # has the same descriptor
    cdef int64_t _pass
    # items in memory
    cdef SortBlock *_blocks
    cdef size_t _block_count, _block_room, _blocks_used, _items, _walk_block, _walk_byte, _indexed
    cdef const uint8_t *_last
    cdef bint _ascending
    cdef bint _met_equal    # whether two equal keys were met in this pass
    cdef bint _distinct     # whether no two keys are known to be equal: those in order, or all after a pass
    cdef SortEntry *_index  # NULL when the items were added in order
    # the file
    cdef SortRun *_runs
    cdef int64_t _run_room, _file_size
    cdef uint8_t *_out
    cdef size_t _out_used
    # the merge
    cdef SortCursor *_cursors
    cdef int _cursor_count, _given

    cdef int add(
        self, const uint8_t *key, uint32_t key_length, const uint8_t *payload, uint32_t payload_length
    ) except -1 nogil
    cdef uint8_t *add_key(self, const uint8_t *key, uint32_t key_length, uint32_t payload_length) except NULL nogil
    cdef int rewind(self) except -1 nogil
    cdef bint next(self, SortedItem *item) except -1 nogil

    cdef void _release(self) noexcept
    cdef int _wrong_use(self) except -1 with gil
    cdef int _failed(self, int status) except -1 with gil
    cdef uint8_t *_room(self, size_t length) except NULL nogil
    cdef int _sort(self) except -1 nogil
    cdef const uint8_t *_walked(self) noexcept nogil
    cdef bint _next_in_memory(self, SortedItem *item) noexcept nogil
    cdef void _forget_items(self) noexcept nogil
    cdef int _spill(self) except -1 nogil
    cdef int _open_file(self) except -1 with gil
    cdef int _put(self, const uint8_t *record, size_t length) except -1 nogil
    cdef int _write_out(self, const uint8_t *data, size_t length) except -1 with gil
    cdef int _begin_merge(self) except -1 nogil
    cdef void _end_merge(self) noexcept nogil
    cdef bint _next_merged(self, SortedItem *item) except -1 nogil
    cdef int _go_on(self, int cursor) except -1 nogil
    cdef int _load(self, SortCursor *cursor) noexcept nogil


cdef enum:
    # What is collected before it is written.
    COLLECTED = 1 << 20


cdef class Collected:
    cdef uint8_t *data
    cdef int64_t used, room
    cdef uint8_t *more(self, int64_t size) except NULL
    cdef int append(self, const void *data, int64_t size) except -1


cdef class ArchiveWriter:
    cdef int _descriptor
    cdef int64_t _written           # where the next byte goes that is not collected
    cdef Collected _pending
    cdef uint32_t _checksum         # of all bytes before `_written`
    cdef bint _has_checksum
    cdef public bint eager
    cdef int64_t _asked             # up to where the system was asked to write to the disk
    cdef Collected records       # of members that were appended
    cdef dict offsets            # name -> where its record starts among the records
    cdef readonly dict descriptions     # name of a leaf -> what it is
    cdef uint32_t _align
    cdef uint32_t _stamp
    cdef bytes _end
    cdef SortedRuns runs        # where records go instead of `records`; None for few members
    # A member whose size is not known yet.
    cdef bytes _open_local, _open_name
    cdef int64_t _open_header, _open_start, _open_size
    cdef uint32_t _open_checksum, _open_crc
    cdef int64_t _directory_start
    cdef readonly tuple cataloged   # of the catalog that was written; see `note_catalog`

    cdef int _add(self, const uint8_t *data, int64_t size) except -1
    cdef int _drain(self) except -1
    cdef int _write(self, const uint8_t *data, int64_t size) except -1
    cdef int _complete(self, bytes local, bytes whole, int64_t header, int64_t size, uint32_t checksum_before) except -1
    cdef int _check_name(self, bytes name) except -1
    cdef int64_t _begin(self, const uint8_t *name, uint32_t length, int64_t size, uint32_t crc, bint aligned=?) except -1
    cdef uint8_t *_put_record(self, uint8_t *p, const uint8_t *name, uint32_t length, int64_t header, int64_t size,
                              uint32_t crc) noexcept
    cdef int add_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, const uint8_t *data, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef uint8_t *begin_leaf(self, const uint8_t *name, uint32_t length, int64_t size, const uint8_t *first) except NULL
    cdef int end_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef int note_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                       bytes description) except -1
    cdef int _note(self, bytes name, int64_t header, int64_t size, uint32_t crc, bytes description) except -1
    cdef int64_t begin_open(self, bytes name, int64_t most, bint aligned=?) except -1
    cdef int add_open(self, const uint8_t *data, int64_t size) except -1
    cdef bytes end_open(self)
    cdef int _complete_open(self, bytes first) except -1
    cdef int _note_open(self) except -1
    cdef int note_catalog(self, int64_t size, const uint8_t *footer, int64_t paths) except -1
    cdef int begin_directory(self) except -1
    cdef int end_directory(self, int64_t count) except -1
