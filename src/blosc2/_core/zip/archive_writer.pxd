# cython: cdivision=True, boundscheck=False, wraparound=False

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from blosc2._core.io.memory cimport prefetch

# Items with keys: how they lie in memory, and sorting and merging them by their keys.
#
# Keys of a directory have long beginnings in common. So a group of keys is sorted by the next seven bytes behind what all
# of them share; these seven bytes lie next to each other as numbers. The keys themselves are read once for each such step.

cdef enum:
    LENGTHS = 8             # before each item: two lengths of four bytes
    SMALL_GROUP = 16
    # Steps of seven bytes after which keys are compared as they are: keys from files must not use up the stack.
    DEEPEST = 64


cdef struct SortedItem:
    const uint8_t *key
    uint32_t key_length
    const uint8_t *payload
    uint32_t payload_length


cdef struct SortEntry:
    uint64_t digit         # seven bytes of the key as a number, and how many of them the key has; see digit_of
    const uint8_t *record


cdef struct SortCursor:
    uint64_t digit
    const uint8_t *record   # the item that comes next, or NULL
    uint8_t *buffer
    size_t capacity
    size_t begin
    size_t end
    int64_t offset          # what of the run has not been read yet
    int64_t stop


cdef inline uint32_t key_length_of(const uint8_t *record) noexcept nogil:
    cdef uint32_t length
    memcpy(&length, record, 4)
    return length


cdef inline size_t length_of(const uint8_t *record) noexcept nogil:
    cdef uint32_t lengths[2]
    memcpy(lengths, record, LENGTHS)
    return LENGTHS + <size_t> lengths[0] + lengths[1]


cdef inline void open_record(const uint8_t *record, SortedItem *item) noexcept nogil:
    cdef uint32_t lengths[2]
    memcpy(lengths, record, LENGTHS)
    item.key = record + LENGTHS
    item.key_length = lengths[0]
    item.payload = item.key + lengths[0]
    item.payload_length = lengths[1]


cdef inline int compare_from(const uint8_t *a, const uint8_t *b, uint32_t depth) noexcept nogil:
    """Compare the keys of two records that are equal up to `depth`."""
    cdef uint32_t x = key_length_of(a), y = key_length_of(b)
    cdef int result = memcmp(a + LENGTHS + depth, b + LENGTHS + depth, min(x, y) - depth)
    if result:
        return result
    return (x > y) - (x < y)


cdef inline bint equal_keys(const uint8_t *a, const uint8_t *b) noexcept nogil:
    cdef uint32_t length = key_length_of(a)
    return length == key_length_of(b) and memcmp(a + LENGTHS, b + LENGTHS, length) == 0


cdef inline uint32_t common_length(const uint8_t *a, const uint8_t *b, uint32_t depth, uint32_t most) noexcept nogil:
    """How many bytes, up to `most`, the keys of two records share that are equal up to `depth`."""
    cdef uint64_t x, y
    most = min(most, min(key_length_of(a), key_length_of(b)))
    a += LENGTHS
    b += LENGTHS
    while depth + 8 <= most:
        memcpy(&x, a + depth, 8)
        memcpy(&y, b + depth, 8)
        if x != y:
            break
        depth += 8
    while depth < most and a[depth] == b[depth]:
        depth += 1
    return depth


cdef inline uint64_t digit_of(const uint8_t *record, uint32_t depth) noexcept nogil:
    """Seven bytes of a key as a number of which the last byte says how many there are, or 8 for more than seven.

    Such numbers compare as the keys do. Two that are equal are those of equal keys, unless there is more of them.
    """
    cdef uint32_t left = key_length_of(record) - depth, i
    cdef const uint8_t *p = record + LENGTHS + depth
    cdef uint64_t digit = 0
    if left >= 8:
        return (
            <uint64_t> p[0] << 56 | <uint64_t> p[1] << 48 | <uint64_t> p[2] << 40 | <uint64_t> p[3] << 32
            | <uint64_t> p[4] << 24 | <uint64_t> p[5] << 16 | <uint64_t> p[6] << 8 | 8
        )
    for i in range(left):
        digit |= <uint64_t> p[i] << (56 - 8 * i)
    return digit | left


cdef inline bint precedes(SortEntry *a, SortEntry *b, uint32_t depth, bint whole) noexcept nogil:
    if a.digit != b.digit or not whole or a.digit & 0xFF != 8:
        return a.digit < b.digit
    return compare_from(a.record, b.record, depth + 7) < 0


cdef inline void merge_sort(SortEntry *entries, size_t count, SortEntry *scratch, uint32_t depth, bint whole) noexcept nogil:
    """Sort by digits and, when `whole`, by what is behind them. Equal ones stay in their order.

    `scratch` has room for half of the entries.
    """
    cdef size_t i, j, half, to, later
    cdef SortEntry entry
    cdef SortEntry *taken
    if count <= SMALL_GROUP:
        for i in range(1, count):
            entry = entries[i]
            j = i
            while j > 0 and precedes(&entry, &entries[j - 1], depth, whole):
                entries[j] = entries[j - 1]
                j -= 1
            entries[j] = entry
        return
    half = count // 2
    merge_sort(entries, half, scratch, depth, whole)
    merge_sort(entries + half, count - half, scratch, depth, whole)
    if not precedes(&entries[half], &entries[half - 1], depth, whole):
        return
    memcpy(scratch, entries, half * sizeof(SortEntry))
    i = to = 0
    j = half
    # Which half is next cannot be foreseen: so without a branch.
    while not whole and i < half and j < count:
        later = entries[j].digit < scratch[i].digit
        taken = &entries[j] if later else &scratch[i]
        entries[to] = taken[0]
        j += later
        i += 1 - later
        to += 1
    while i < half and j < count:
        if precedes(&entries[j], &scratch[i], depth, whole):
            entries[to] = entries[j]
            j += 1
        else:
            entries[to] = scratch[i]
            i += 1
        to += 1
    memcpy(entries + to, scratch + i, (half - i) * sizeof(SortEntry))


cdef inline void sort_keys(SortEntry *entries, size_t count, SortEntry *scratch, uint32_t depth, int step) noexcept nogil:
    """Sort entries whose keys are equal up to `depth`. Equal keys stay in their order."""
    cdef size_t i, start
    cdef uint32_t common = key_length_of(entries[0].record)
    cdef bint whole = count <= SMALL_GROUP or step == DEEPEST
    # Keys mostly come group by group, or from a few groups by turns: each group is then in order as it came.
    i = 1
    while i < count and compare_from(entries[i - 1].record, entries[i].record, depth) <= 0:
        if i + 8 < count:
            prefetch(entries[i + 8].record, 128)
        i += 1
    if i == count:
        return
    i = 1
    while i < count and common > depth:
        common = common_length(entries[0].record, entries[i].record, depth, common)
        i += 1
    for i in range(count):
        entries[i].digit = digit_of(entries[i].record, common)
    merge_sort(entries, count, scratch, common, whole)
    if whole:
        return
    start = 0
    for i in range(1, count + 1):
        if i == count or entries[i].digit != entries[start].digit:
            if i - start > 1 and entries[start].digit & 0xFF == 8:
                sort_keys(entries + start, i - start, scratch, common + 7, step + 1)
            start = i


cdef inline bint same_key(const SortCursor *a, const SortCursor *b) noexcept nogil:
    if a.digit != b.digit:
        return False
    return equal_keys(a.record, b.record)


cdef inline bint comes_before(const SortCursor *cursors, uint32_t common, int a, int b) noexcept nogil:
    """Whether a run's item comes before another's; of equal keys, the one that was added last does."""
    cdef uint64_t x = cursors[a].digit, y = cursors[b].digit
    cdef int order = 0
    if x != y:
        return x < y
    if x & 0xFF == 8:
        order = compare_from(cursors[a].record, cursors[b].record, common + 7)
    return order < 0 if order else a > b


cdef inline void sift_down(const SortCursor *cursors, uint32_t common, int *heap, int count, int at) noexcept nogil:
    """Move the cursor at an index of the heap down to where it belongs."""
    cdef int cursor = heap[at], below
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and comes_before(cursors, common, heap[below + 1], heap[below]):
            below += 1
        if comes_before(cursors, common, cursor, heap[below]):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = cursor


cdef struct SortBlock:
    uint8_t *bytes
    size_t capacity
    size_t used


cdef struct SortRun:
    int64_t offset
    int64_t length
    uint32_t common         # leading bytes that all its keys share


cdef class SortedRuns:
    """Items sorted by key in bounded memory; see archive_writer.pyx. The methods need no GIL, but one thread at a time."""

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


cdef enum:
    # What is collected before it is written.
    COLLECTED = 1 << 20


cdef class Collected:
    """Bytes that grow; see archive_writer.pyx."""

    cdef uint8_t *data
    cdef int64_t used, room
    cdef uint8_t *more(self, int64_t size) except NULL
    cdef int append(self, const void *data, int64_t size) except -1


cdef class ArchiveWriter:
    """Appends members and a directory; see archive_writer.pyx."""

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
    cdef Collected _handed
    cdef bint _gaps             # whether there are records that do not count
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
    cdef int64_t _begin(self, const uint8_t *name, uint32_t length, int64_t size, uint32_t crc) except -1
    cdef uint8_t *_put_record(self, uint8_t *p, const uint8_t *name, uint32_t length, int64_t header, int64_t size,
                              uint32_t crc, uint32_t mode) noexcept
    cdef int add_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, const uint8_t *data, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef uint8_t *begin_leaf(self, const uint8_t *name, uint32_t length, int64_t size) except NULL
    cdef int end_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                      bytes description) except -1
    cdef int note_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                       bytes description) except -1
    cdef int _note(self, bytes name, int64_t header, int64_t size, uint32_t crc, uint32_t mode, bytes description) except -1
    cdef int _hand_over(self, SortedRuns runs, bytes name, const uint8_t *record, bytes description) except -1
    cdef int _drop(self, bytes name) except -1
    cdef int _close_gaps(self) except -1
    cdef int64_t begin_open(self, bytes name, int64_t most) except -1
    cdef int add_open(self, const uint8_t *data, int64_t size) except -1
    cdef bytes end_open(self)
    cdef int _complete_open(self, bytes first) except -1
    cdef int _note_open(self) except -1
    cdef int note_catalog(self, int64_t size, const uint8_t *footer, int64_t paths) except -1
    cdef int begin_directory(self) except -1
    cdef int end_directory(self, int64_t count) except -1
