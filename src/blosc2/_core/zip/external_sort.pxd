from libc.stdint cimport int64_t, uint8_t, uint32_t

from blosc2._core.zip.sort_items cimport SortCursor, SortEntry, SortedItem


cdef struct SortBlock:
    uint8_t *bytes
    size_t capacity
    size_t used


cdef struct SortRun:
    int64_t offset
    int64_t length
    uint32_t common         # leading bytes that all its keys share


cdef class SortedRuns:
    """Items sorted by key in bounded memory; see external_sort.pyx. The methods need no GIL, but one thread at a time."""

    cdef readonly int64_t count         # items that were added
    cdef readonly int64_t replaced      # after a whole pass: items whose key was added again
    cdef readonly int64_t runs          # sorted runs in the temporary file
    cdef readonly int64_t peak          # most bytes that were allocated at one time
    cdef object _directory
    cdef size_t _budget, _block_size, _footprint, _allocated
    cdef int _state, _fd
    cdef object _file           # has the same descriptor
    cdef bint _busy
    cdef int64_t _pass, _replaced_before
    # items in memory
    cdef SortBlock *_blocks
    cdef size_t _block_count, _block_room, _blocks_used, _items, _walk_block, _walk_byte, _indexed
    cdef const uint8_t *_last
    cdef bint _ascending
    cdef bint _distinct     # whether no two keys are known to be equal: those in order, or all after a pass
    cdef SortEntry *_index  # NULL when the items were added in order
    # the file
    cdef SortRun *_runs
    cdef int64_t _run_room, _file_size
    cdef uint8_t *_out
    cdef size_t _out_used
    # the merge
    cdef SortCursor *_cursors
    cdef int[64] _heap      # cursors, the one that comes first at the top
    cdef int _cursor_count, _heap_count, _given
    cdef uint32_t _common

    cdef int add(
        self, const uint8_t *key, uint32_t key_length, const uint8_t *payload, uint32_t payload_length
    ) except -1 nogil
    cdef uint8_t *add_key(self, const uint8_t *key, uint32_t key_length, uint32_t payload_length) except NULL nogil
    cdef int rewind(self) except -1 nogil
    cdef bint next(self, SortedItem *item) except -1 nogil

    cdef void *_allocate(self, void *old, size_t old_size, size_t size) except NULL nogil
    cdef void *_try_allocate(self, void *old, size_t old_size, size_t size) noexcept nogil
    cdef void _free(self, void *memory, size_t size) noexcept nogil
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
    cdef int _write_run(self, bint merged, SortRun *run) except -1 nogil
    cdef int _put(self, const uint8_t *record, size_t length) except -1 nogil
    cdef int _write_out(self, const uint8_t *data, size_t length) except -1 with gil
    cdef int _merge_some(self) except -1 nogil
    cdef int _begin_merge(self, int64_t first, int64_t count) except -1 nogil
    cdef void _end_merge(self) noexcept nogil
    cdef bint _next_merged(self, SortedItem *item) except -1 nogil
    cdef int _load(self, SortCursor *cursor) noexcept nogil
    cdef int _enter(self) except -1
