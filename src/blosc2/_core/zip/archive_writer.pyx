# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Append stored members to a ZIP archive, then a new directory, whose records are sorted outside of memory, and an end record.

The caller decides when to sync, and what a half-written archive means.
"""

import errno
import io
import os
import time

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from blosc2._core.io.checksum cimport checksum, joined, zip_joined
from blosc2._core.io.endian cimport put, put16, put32, put64, u16, u32
from blosc2._core.io.memory cimport bring_pages, prefetch
from blosc2._core.io.source cimport Buffer, readable
from blosc2._core.zip.catalog cimport stem_length
from blosc2._core.zip.records cimport (
    CENTRAL_LENGTH, COMMENT_COVERED, COMMENT_LENGTH, END64_LENGTH, END_LENGTH, FLAG_UTF8, LOCAL_LENGTH, LOCATOR_LENGTH,
    four_bytes, gains_by_alignment, is_wide, write_comment)

from blosc2._core.io.checksum import crc32
from blosc2._core.io.sharing import keep_from_child

# Sorting more keys than memory should hold, each with a payload.
#
# Items are copied into blocks of memory as they come. When these reach a budget, they are sorted and written to a
# temporary file as one run; in the end the runs are merged. Keys are compared as bytes; of two keys of which one begins
# with the other, the shorter one comes first. Of items with equal keys only the one that was added last is returned.


cdef extern from "io/file_calls.h" nogil:
    int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset)
    void close_descriptor(int fd)
    void begin_write_back(int fd, int64_t offset, int64_t length)

cdef enum:
    ADDING
    READING
    FAILED
    LARGEST_BLOCK = 1 << 20
    SMALLEST_BLOCK = 64
    OUT_SIZE = 1 << 18
    SMALLEST_BUFFER = 1 << 16
    LARGEST_BUFFER = 1 << 20
    # Memory for the index of an item: its entry, and half of one for sorting.
    INDEX_SIZE = 24
    NO_MEMORY = -1
    DAMAGED = -2
    # Items that lie in another order than that of their keys are asked for so many before they are needed, their first bytes.
    SOON = 8
    # Bytes behind an item that are asked for when all are walked through.
    AHEAD = 2048
    SHOWN = 192

# Items with keys: how they lie in memory, and sorting and merging them by their keys.
#
# Keys of a directory have long beginnings in common. So a group of keys is sorted by the next seven bytes behind what all
# of them share; these seven bytes lie next to each other as numbers. The keys themselves are read once for each such step.

cdef enum:
    LENGTHS = 8             # before each item: two lengths of four bytes
    SMALL_GROUP = 16
    # Steps of seven bytes after which keys are compared as they are: keys from files must not use up the stack.
    DEEPEST = 64


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


cdef inline void *allocate(void *old, size_t size) except NULL nogil:
    cdef void *memory = realloc(old, size)
    if memory == NULL:
        with gil:
            raise MemoryError
    return memory


cdef class SortedRuns:
    """Items sorted by key in bounded memory.

    Parameters
    ----------
    directory : str, bytes or os.PathLike, optional
        Where a temporary file goes when the items exceed the budget. It has no name, so nothing stays of it whatever
        happens. None: no file is made, all items stay in memory.
    budget : int
        Bytes of memory for the items and for sorting them. Merging takes as much, but at least 64 KiB for each run; an
        item that is larger takes what it needs.

    Attributes
    ----------
    count : int
        Items that were added.
    runs : int
        Sorted runs in the temporary file.

    Notes
    -----
    One thread at a time, and one pass at a time. An error of reading or writing ends the object: it gives back memory
    and file at once, and refuses all further calls.

    Examples
    --------
    >>> items = SortedRuns()
    >>> for key in (b"b", b"a", b"b"):
    ...     items.add_bytes(key, b"%d" % items.count)
    >>> list(items)
    [(b'a', b'1'), (b'b', b'2')]
    >>> items.count
    3
    """

    def __cinit__(self, directory=None, budget=64 << 20):
        self._fd = -1
        self._given = -1
        if budget < 1:
            raise ValueError(f"the budget must be at least one byte, not {budget}")
        self._directory = None if directory is None else os.fspath(directory)
        self._budget = min(budget, <size_t> 1 << 62)
        self._block_size = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, self._budget // 8))
        self._ascending = self._distinct = True

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        """Give back memory and file."""
        cdef size_t i
        self._end_merge()
        self._forget_items()
        for i in range(self._block_count):
            free(self._blocks[i].bytes)
        free(self._blocks)
        self._block_count = self._block_room = 0
        self._blocks = NULL
        free(self._runs)
        self._run_room = self.runs = 0
        self._runs = NULL
        free(self._out)
        self._out = NULL
        self._file = None
        if self._fd >= 0:
            close_descriptor(self._fd)
            self._fd = -1

    cdef int _wrong_use(self) except -1 with gil:
        if self._state == FAILED:
            raise ValueError("these items were given up after an error")
        if self._state == READING:
            raise ValueError("no item can be added to ones that are being read")
        raise ValueError("call rewind before the first item is asked for")

    cdef int _failed(self, int status) except -1 with gil:
        """Give everything up, and raise what a status stands for."""
        directory = self._directory
        self._release()
        self._state = FAILED
        if status == NO_MEMORY:
            raise MemoryError
        if status == DAMAGED:
            raise OSError(errno.EIO, "a temporary file has not kept its bytes", directory)
        raise OSError(status, os.strerror(status), directory)

    cdef uint8_t *_room(self, size_t length) except NULL nogil:
        """Memory for a record behind the last one."""
        cdef SortBlock *block
        cdef SortBlock spare
        cdef uint8_t *result
        if self._blocks_used:
            block = &self._blocks[self._blocks_used - 1]
            if length <= block.capacity - block.used:
                result = block.bytes + block.used
                block.used += length
                return result
        if self._block_count == self._block_room:
            self._blocks = <SortBlock *> allocate(self._blocks, (2 * self._block_room + 8) * sizeof(SortBlock))
            self._block_room = 2 * self._block_room + 8
        if self._blocks_used == self._block_count or length > self._block_size:
            # A record that is larger than a block has one of its own, which is put before those that wait.
            spare.capacity = max(length, self._block_size)
            spare.bytes = <uint8_t *> allocate(NULL, spare.capacity)
            if self._blocks_used:   # others follow, so this one will be full
                bring_pages(spare.bytes, spare.capacity)
            self._blocks[self._block_count] = self._blocks[self._blocks_used]
            self._blocks[self._blocks_used] = spare
            self._block_count += 1
        block = &self._blocks[self._blocks_used]
        self._blocks_used += 1
        block.used = length
        self._footprint += block.capacity
        return block.bytes

    cdef int add(
        self, const uint8_t *key, uint32_t key_length, const uint8_t *payload, uint32_t payload_length
    ) except -1 nogil:
        memcpy(self.add_key(key, key_length, payload_length), payload, payload_length)
        return 0

    cdef uint8_t *add_key(self, const uint8_t *key, uint32_t key_length, uint32_t payload_length) except NULL nogil:
        """Add an item; the caller writes its payload to where it lies."""
        cdef size_t length = LENGTHS + <size_t> key_length + payload_length, more = INDEX_SIZE
        cdef uint32_t lengths[2]
        cdef uint8_t *record
        cdef SortBlock *block
        cdef int order
        if self._state != ADDING:
            self._wrong_use()
        if self._blocks_used:
            block = &self._blocks[self._blocks_used - 1]
            if length > block.capacity - block.used:
                more += max(length, self._block_size)
        if self._items and self._footprint + more > self._budget and self._directory is not None:
            self._spill()
        record = self._room(length)
        lengths[0], lengths[1] = key_length, payload_length
        memcpy(record, lengths, LENGTHS)
        memcpy(record + LENGTHS, key, key_length)
        if self._ascending and self._items:
            order = compare_from(self._last, record, 0)
            self._ascending, self._distinct = order <= 0, self._distinct and order < 0
        self._last = record
        self._items += 1
        self._footprint += INDEX_SIZE
        self.count += 1
        return record + LENGTHS + key_length

    cdef const uint8_t *_walked(self) noexcept nogil:
        """The record that the walk through the blocks has reached, or NULL behind the last one."""
        while self._walk_block < self._blocks_used:
            if self._walk_byte < self._blocks[self._walk_block].used:
                return self._blocks[self._walk_block].bytes + self._walk_byte
            self._walk_block += 1
            self._walk_byte = 0
        return NULL

    cdef int _sort(self) except -1 nogil:
        """Bring the items into order, and start at the first one."""
        cdef SortEntry *index
        cdef SortEntry *scratch
        cdef size_t i, half = self._items // 2 + 1
        self._walk_block = self._walk_byte = 0
        self._met_equal = False
        if self._ascending or self._index != NULL:
            self._indexed = 0
            return 0
        scratch = <SortEntry *> allocate(NULL, half * sizeof(SortEntry))
        index = <SortEntry *> realloc(NULL, self._items * sizeof(SortEntry))
        if index == NULL:
            free(scratch)
            with gil:
                raise MemoryError
        for i in range(self._items):
            index[i].record = self._walked()
            prefetch(index[i].record + AHEAD, 64)   # each one says only when it is there where the next one lies
            self._walk_byte += length_of(index[i].record)
        sort_keys(index, self._items, scratch, 0, 0)
        free(scratch)
        self._index = index
        self._indexed = 0
        return 0

    cdef bint _next_in_memory(self, SortedItem *item) noexcept nogil:
        cdef const uint8_t *record = NULL
        cdef const uint8_t *following
        while True:
            if self._index == NULL:
                following = self._walked()
            else:
                following = self._index[self._indexed].record if self._indexed < self._items else NULL
                if self._indexed + SOON < self._items:
                    prefetch(self._index[self._indexed + SOON].record, SHOWN)
            if record != NULL:
                if following == NULL or self._distinct or not equal_keys(record, following):
                    open_record(record, item)
                    return True
                self._met_equal = True
            if following == NULL:
                self._distinct = not self._met_equal    # the next pass need not compare
                return False
            record = following
            if self._index == NULL:
                self._walk_byte += length_of(record)
            else:
                self._indexed += 1

    cdef void _forget_items(self) noexcept nogil:
        """Make the memory of the items free for others."""
        cdef size_t i, kept = 0
        for i in range(self._block_count):
            if self._blocks[i].capacity > self._block_size:
                free(self._blocks[i].bytes)
            else:
                self._blocks[kept] = self._blocks[i]
                self._blocks[kept].used = 0
                kept += 1
        self._block_count = kept
        free(self._index)
        self._index = NULL
        self._blocks_used = self._items = self._footprint = 0
        self._last = NULL
        self._ascending = self._distinct = True

    # ------------------------------------------------------------------------------------------------------ the file

    cdef int _open_file(self) except -1 with gil:
        import tempfile  # is slow to import, and rarely needed

        try:
            with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
                self._fd = os.dup(file.fileno())
            self._file = keep_from_child(io.FileIO(self._fd, "r+b", closefd=False))
        except OSError as error:
            # The error names a temporary file, which means nothing to the user.
            raise OSError(error.errno, error.strerror, self._directory) from None
        return 0

    cdef int _spill(self) except -1 nogil:
        """Write the items in memory to the file, as a run."""
        cdef SortRun run
        cdef SortedItem item
        cdef const uint8_t *record
        cdef int64_t room = self._run_room
        if self._fd < 0:
            self._open_file()
        if self._out == NULL:
            self._out = <uint8_t *> allocate(NULL, OUT_SIZE)
        if self.runs == room:
            self._runs = <SortRun *> allocate(self._runs, <size_t> (2 * room + 16) * sizeof(SortRun))
            self._run_room = 2 * room + 16
        self._sort()
        run.offset = self._file_size + <int64_t> self._out_used
        while self._next_in_memory(&item):
            record = item.key - LENGTHS
            self._put(record, length_of(record))
        self._write_out(self._out, self._out_used)
        self._out_used = 0
        run.length = self._file_size - run.offset
        self._runs[self.runs] = run
        self.runs += 1
        self._forget_items()
        return 0

    cdef int _put(self, const uint8_t *record, size_t length) except -1 nogil:
        if length > OUT_SIZE - self._out_used:
            self._write_out(self._out, self._out_used)
            self._out_used = 0
            if length > OUT_SIZE:
                return self._write_out(record, length)
        memcpy(self._out + self._out_used, record, length)
        self._out_used += length
        return 0

    cdef int _write_out(self, const uint8_t *data, size_t length) except -1 with gil:
        cdef size_t done = 0
        cdef Py_ssize_t step
        try:
            # Reading by position moves the write position on some platforms.
            os.lseek(self._fd, 0, os.SEEK_END)
            while done < length:
                step = min(length - done, <size_t> 1 << 30)
                done += <size_t> os.write(self._fd, PyMemoryView_FromMemory(<char *> data + done, step, PyBUF_READ))
        except OSError as error:
            return self._failed(error.errno)
        except BaseException:
            self._release()
            self._state = FAILED
            raise
        self._file_size += <int64_t> length
        return 0

    # ----------------------------------------------------------------------------------------------------- the merge

    cdef int _begin_merge(self) except -1 nogil:
        cdef size_t size = min(LARGEST_BUFFER, max(SMALLEST_BUFFER, self._budget // <size_t> self.runs))
        cdef SortCursor *cursor
        cdef int i, status, count = <int> self.runs
        self._end_merge()
        self._cursors = <SortCursor *> realloc(NULL, <size_t> count * sizeof(SortCursor))
        if self._cursors == NULL:
            return self._failed(NO_MEMORY)
        for i in range(count):
            cursor = &self._cursors[i]
            self._cursor_count = i + 1
            cursor.begin = cursor.end = 0
            cursor.offset = self._runs[i].offset
            cursor.stop = cursor.offset + self._runs[i].length
            cursor.capacity = min(size, <size_t> self._runs[i].length)
            cursor.buffer = <uint8_t *> realloc(NULL, cursor.capacity)
            status = self._load(cursor) if cursor.buffer != NULL else NO_MEMORY
            if status == 0 and cursor.record == NULL:
                status = DAMAGED
            if status:
                return self._failed(status)
        return 0

    cdef void _end_merge(self) noexcept nogil:
        cdef int i
        for i in range(self._cursor_count):
            free(self._cursors[i].buffer)
        free(self._cursors)
        self._cursors = NULL
        self._cursor_count = 0
        self._given = -1

    cdef int _load(self, SortCursor *cursor) noexcept nogil:
        """Bring the item at the position of a cursor into memory: 0, an errno, NO_MEMORY or DAMAGED."""
        cdef size_t have, need = LENGTHS
        cdef int64_t step, got
        cdef uint8_t *larger
        while True:
            have = cursor.end - cursor.begin
            if have >= LENGTHS:
                need = length_of(cursor.buffer + cursor.begin)
                if have >= need:
                    break
            if have == 0 and cursor.offset == cursor.stop:
                cursor.record = NULL
                return 0
            if need - have > <size_t> (cursor.stop - cursor.offset):
                return DAMAGED
            memmove(cursor.buffer, cursor.buffer + cursor.begin, have)
            cursor.begin = 0
            cursor.end = have
            if need > cursor.capacity:
                larger = <uint8_t *> realloc(cursor.buffer, need)
                if larger == NULL:
                    return NO_MEMORY
                cursor.buffer = larger
                cursor.capacity = need
            step = min(<int64_t> (cursor.capacity - have), cursor.stop - cursor.offset)
            got = positional_read(self._fd, cursor.buffer + have, step, cursor.offset)
            if got != step:
                return DAMAGED if got >= 0 else <int> -got
            cursor.end += <size_t> got
            cursor.offset += got
        cursor.record = cursor.buffer + cursor.begin
        cursor.begin += need
        return 0

    cdef bint _next_merged(self, SortedItem *item) except -1 nogil:
        """The least item of all runs, which are few; of equal keys that of the last run, as it was added last."""
        cdef int top = -1, i, order = 0
        if self._given >= 0:
            self._go_on(self._given)
        for i in range(self._cursor_count):
            if self._cursors[i].record == NULL:
                continue
            if top >= 0:
                order = compare_from(self._cursors[i].record, self._cursors[top].record, 0)
                if order == 0:
                    self._go_on(top)
            if top < 0 or order <= 0:
                top = i
        self._given = top
        if top < 0:
            return False
        open_record(self._cursors[top].record, item)
        return True

    cdef int _go_on(self, int cursor) except -1 nogil:
        """Load the next item of a run."""
        cdef int status = self._load(&self._cursors[cursor])
        return self._failed(status) if status else 0

    cdef int rewind(self) except -1 nogil:
        cdef size_t i
        if self._state == FAILED:
            return self._wrong_use()
        if self._state == ADDING and self.runs:
            if self._items:
                self._spill()
            for i in range(self._block_count):
                free(self._blocks[i].bytes)
            self._block_count = 0
            free(self._out)
            self._out = NULL
        if self.runs:
            self._begin_merge()
        else:
            self._sort()
        self._state = READING
        self._pass += 1
        return 0

    cdef bint next(self, SortedItem *item) except -1 nogil:
        cdef bint found
        if self._state != READING:
            return self._wrong_use()
        if not self.runs:
            return self._next_in_memory(item)
        found = self._next_merged(item)
        if not found:
            self._end_merge()  # the buffers wait for no further pass
        return found

    # ---------------------------------------------------------------------------------------------------- for Python

    def add_bytes(self, bytes key not None, bytes payload not None):
        """Add one item."""
        if PyBytes_GET_SIZE(key) > UINT32_MAX or PyBytes_GET_SIZE(payload) > UINT32_MAX:
            raise ValueError("a key and a payload have less than 4 GiB each")
        self.add(
            <const uint8_t *> PyBytes_AS_STRING(key), <uint32_t> PyBytes_GET_SIZE(key),
            <const uint8_t *> PyBytes_AS_STRING(payload), <uint32_t> PyBytes_GET_SIZE(payload),
        )

    def __iter__(self):
        """Begin a pass: keys and payloads in the order of the keys."""
        cdef SortedItem item
        cdef int64_t number
        self.rewind()
        number = self._pass
        while True:
            if number != self._pass:
                raise RuntimeError("another pass has begun")
            if not self.next(&item):
                return
            yield (
                PyBytes_FromStringAndSize(<const char *> item.key, item.key_length),
                PyBytes_FromStringAndSize(<const char *> item.payload, item.payload_length),
            )


# Append bytes to a file in large pieces.


cdef enum:
    # Bytes whose checksum is not worth letting others run meanwhile.
    SHORT = 1 << 16
    # Bytes that the system is asked to write to the disk while others are made.
    ASKED = 4 << 20

cdef class Collected:
    """Bytes that grow."""

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t *more(self, int64_t size) except NULL:
        """Where the next so many bytes go; they count as used when the caller says so."""
        cdef int64_t room = self.room
        cdef uint8_t *data
        if self.used + size > room:
            room = max(self.used + size, 2 * room, 4096)
            data = <uint8_t *> PyMem_Realloc(self.data, <size_t> room)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.room = room
        return self.data + self.used

    cdef int append(self, const void *data, int64_t size) except -1:
        memcpy(self.more(size), data, <size_t> size)
        self.used += size
        return 0


def write_at(int descriptor, view, int64_t position):
    """Write bytes at a position; how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, view, position)
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, view)


# What records of new members have in common: `archive_writer` writes them, `records` reads those of any archive.


cdef inline uint32_t wide_length(int64_t size, int64_t header) noexcept nogil:
    """Bytes of the zip64 field of a record."""
    return 4 + 16 * is_wide(size) + 8 * is_wide(header) if is_wide(size) or is_wide(header) else 0


cdef inline int64_t written_length(const uint8_t *record) noexcept nogil:
    """Bytes of a record that was written here, without a comment."""
    return CENTRAL_LENGTH + u16(record + 28) + u16(record + 30)


cdef inline uint8_t *put_fields(uint8_t *p, const uint8_t *text, uint32_t length, int64_t header, int64_t size, uint32_t stamp,
                                uint32_t crc) noexcept nogil:
    """What local header and central record have in common: from the version needed to the sizes."""
    cdef uint32_t size32 = four_bytes(size)
    cdef uint8_t seen = 0
    cdef uint32_t i
    for i in range(length):
        seen |= text[i]
    p = put16(put16(put16(p, 45 if is_wide(size) or is_wide(header) else 20), FLAG_UTF8 if seen & 0x80 else 0), 0)
    return put32(put32(put32(put32(p, stamp), crc), size32), size32)


cdef enum:
    # Of a record, what states sizes and offsets of more than 32 bits.
    MOST_EXTRA = 28

# Bytes of memory for the records of leaves, and what else is kept of them, before they are sorted into a file.
RUNS_BUDGET = 96 << 20


cdef bint gains(data) except -1:
    """`gains_by_alignment` of the first bytes of a value."""
    cdef Buffer view = readable(data)
    return gains_by_alignment(view.data, view.size)


cdef class ArchiveWriter:
    """Append stored members to a file, then a directory, then an end record.

    Parameters
    ----------
    descriptor : int
        A file open for writing. It stays the caller's.
    position : int
        Where the first new byte goes.
    align : int
        The data of members start at multiples of this, but those of frames that gain nothing by it.
    file_checksum : int, optional
        CRC-32C of the file up to `position`, 0 for a new file: the end record then gets one. None where it is not
        known: there will be none.

    Attributes
    ----------
    eager : bool
        Whether the disk is to begin to write before the caller syncs.

    Notes
    -----
    `write_directory` writes all that was collected, `write_end` the end record alone. For durability, sync after each.
    When a write fails, the rest is kept, and the next write goes on with it.
    """

    def __cinit__(self, int descriptor, int64_t position=0, int align=64, file_checksum=None):
        if align != 1 and not 8 <= align <= 4096:
            raise ValueError(f"align must be 1 or 8 .. 4096, not {align}")
        self._descriptor, self._written, self._asked = descriptor, position, position
        self._pending = Collected.__new__(Collected)
        self._has_checksum, self._checksum = file_checksum is not None, file_checksum or 0
        self.records = Collected.__new__(Collected)
        self.offsets, self.descriptions = {}, {}
        self._align = align
        now = time.localtime()
        year = min(max(now.tm_year, 1980), 2107)
        self._stamp = (
            (year - 1980) << 25 | now.tm_mon << 21 | now.tm_mday << 16
            | now.tm_hour << 11 | now.tm_min << 5 | min(now.tm_sec, 59) // 2)

    @property
    def position(self):
        """Where the next byte goes."""
        return self._written + self._pending.used

    @property
    def written(self):
        """Where the next byte goes that is not collected yet: the size of the file."""
        return self._written

    @property
    def file_checksum(self):
        """CRC-32C of the file up to `position`; None where that of its beginning is not known."""
        return checksum(self._checksum, self._pending.data, self._pending.used) if self._has_checksum else None

    def drain(self):
        """Write what was collected, so that all of it can be read from the file."""
        self._drain()

    cdef int _add(self, const uint8_t *data, int64_t size) except -1:
        """Write bytes, or collect them where they are few."""
        if size >= COLLECTED:
            self._drain()
            self._write(data, size)
        elif size:
            self._pending.append(data, size)
            if self._pending.used >= COLLECTED:
                self._drain()
        return 0

    cdef int _drain(self) except -1:
        cdef Collected pending
        cdef int64_t before, done
        pending, before = self._pending, self._written
        if pending.used == 0:
            return 0
        try:
            self._write(pending.data, pending.used)
        finally:
            done = self._written - before
            memmove(pending.data, pending.data + done, <size_t> (pending.used - done))
            pending.used -= done
        return 0

    cdef int _write(self, const uint8_t *data, int64_t size) except -1:
        """Write bytes behind those that were written; nothing may be collected."""
        cdef int64_t done
        while size:
            # Linux writes at most 2 GiB - 4096 bytes at a time.
            view = PyMemoryView_FromMemory(<char *> data, min(size, 1 << 30), PyBUF_READ)
            done = write_at(self._descriptor, view, self._written)
            self._written += done
            if self._has_checksum:
                if done < SHORT:
                    self._checksum = checksum(self._checksum, data, done)
                else:
                    with nogil:
                        self._checksum = checksum(self._checksum, data, done)
            view.release()  # so that nobody looks at the memory later
            if self.eager and self._written - self._asked >= ASKED:
                begin_write_back(self._descriptor, self._asked, self._written - self._asked)
                self._asked = self._written
            data += done
            size -= done
        return 0

    def append(self, bytes name not None, data, bytes description=None):
        """Add one member, in place of one that this writer added under the same name before.

        Where its data starts in the file is returned.

        Parameters
        ----------
        description : bytes, optional
            Of a leaf, its description for the catalog; may be empty. See `ndim.geometry.describe`.
        """
        cdef Py_buffer view
        cdef int64_t header = self._written + self._pending.used, start
        cdef uint32_t crc
        self._check_name(name)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            crc = crc32(data)
            start = self._begin(<const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), view.len, crc,
                                gains_by_alignment(<const uint8_t *> view.buf, view.len))
            self._add(<const uint8_t *> view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        self._note(name, header, view.len, crc, description)
        return start

    def append_pieces(self, bytes name not None, pieces, int64_t size, crc=None, bytes description=None):
        """Add one member that comes in pieces; see `append`.

        Parameters
        ----------
        pieces : iterable of bytes-like
            They are drawn one by one and not kept.
        size : int
            Bytes of all of them.
        crc : int, optional
            Their CRC-32, which is then believed. It is computed otherwise.

        Raises
        ------
        ValueError
            The pieces have another size. What was written of them is not part of the archive.
        """
        cdef Py_buffer view
        cdef int64_t header = self._written + self._pending.used, start, left = size
        self._check_name(name)
        if size < 0:
            raise ValueError(f"a member cannot have {size} bytes")
        drawn = iter(pieces)
        piece = next(drawn, None)
        aligned = piece is None or gains(piece)
        if crc is None:
            start = self.begin_open(name, size, aligned)
        else:
            start = self._begin(
                <const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), size, crc, aligned)
        while piece is not None:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            try:
                if view.len > left:
                    raise ValueError(f"the pieces of member {name!r} have more than {size} bytes")
                left -= view.len
                if crc is None:
                    self.add_open(<const uint8_t *> view.buf, view.len)
                else:
                    self._add(<const uint8_t *> view.buf, view.len)
            finally:
                PyBuffer_Release(&view)
            piece = None    # so that its memory can be used again for the next one
            piece = next(drawn, None)
        if left:
            raise ValueError(f"the pieces of member {name!r} have {size - left} bytes, not {size}")
        if crc is None:
            self._complete_open(b"")
            crc = self._open_crc
        self._note(name, header, size, crc, description)
        return start

    cdef int64_t begin_open(self, bytes name, int64_t most, bint aligned=True) except -1:
        """Begin a member of up to so many bytes, whose size is told at its end; where its data starts."""
        # So that the header is in the file, and can be completed there.
        self._drain()
        self._open_checksum, self._open_crc, self._open_header = self._checksum, 0, self._written
        self._open_name, self._open_size = name, 0
        self._open_start = self._begin(
            <const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> PyBytes_GET_SIZE(name), most, 0, aligned)
        self._open_local = PyBytes_FromStringAndSize(<const char *> self._pending.data, self._pending.used)
        return self._open_start

    cdef int add_open(self, const uint8_t *data, int64_t size) except -1:
        """Go on with such a member."""
        view = PyMemoryView_FromMemory(<char *> data, size, PyBUF_READ)
        self._open_crc = crc32(view, self._open_crc)
        view.release()
        self._open_size += size
        return self._add(data, size)

    cdef int _complete_open(self, bytes first) except -1:
        """Complete the local header of such a member, and its first bytes, for which `begin` left room."""
        cdef bytes local = self._open_local, sizes, whole
        cdef int64_t rest = self._open_size
        self._drain()
        self._open_size += PyBytes_GET_SIZE(first)
        self._open_crc = zip_joined(crc32(first), self._open_crc, <uint64_t> rest)
        sizes = (<object> self._open_size).to_bytes(8, "little")
        whole = local[:14] + (<object> self._open_crc).to_bytes(4, "little")
        if local[18:22] == b"\xff\xff\xff\xff":     # they are in the zip64 field, which comes first
            after = LOCAL_LENGTH + len(self._open_name) + 4
            whole += local[18:after] + sizes + sizes + local[after + 16:]
        else:
            whole += sizes[:4] + sizes[:4] + local[26:]
        whole = whole[:len(whole) - len(first)] + first
        return self._complete(local, whole, self._open_header, rest, self._open_checksum)

    def lay_out(self, bytes name not None, int64_t most, Py_ssize_t room, rest):
        """Add one member whose first bytes are known when all others are; see `append`. Its start and size are returned.

        Parameters
        ----------
        most : int
            Bytes that it has at most.
        room : int
            How many of them are the first ones.
        rest : callable
            Takes a function that writes bytes behind those, and returns the first ones.

        Raises `ValueError` if it has more bytes. What was written of it is not part of the archive then.
        """
        self._check_name(name)
        self.begin_open(name, most)
        memset(self._pending.more(room), 0, <size_t> room)
        self._pending.used += room
        self._open_local = PyBytes_FromStringAndSize(<const char *> self._pending.data, self._pending.used)
        first = rest(self._write_open)
        if len(first) != room or room + self._open_size > most:
            raise ValueError(f"member {name!r} has {len(first)} + {self._open_size} bytes, not {room} of at most {most}")
        self._complete_open(first)
        self._note_open()
        return self._open_start, self._open_size

    cdef int _note_open(self) except -1:
        """Keep the record of such a member, which asks for the same version as its local header."""
        self._note(self._open_name, self._open_header, self._open_size, self._open_crc, None)
        self.records.data[<int64_t> self.offsets[self._open_name] + 6] = self._open_local[4]
        return 0

    def _write_open(self, data):
        cdef Buffer view = readable(data)
        self.add_open(view.data, view.size)

    cdef bytes end_open(self):
        """End such a member; its record is given, and is not among those of the directory."""
        cdef Collected kept = self.records, own = Collected.__new__(Collected)
        self._complete_open(b"")
        self.records = own
        try:
            self._note_open()
        finally:
            self.records = kept
            self.offsets.pop(self._open_name, None)
        return PyBytes_FromStringAndSize(<const char *> own.data, own.used)

    @property
    def collected(self):
        """How many leaves were sorted so far."""
        return 0 if self.runs is None else self.runs.count

    def collect(self, directory=None):
        """Hand over the records of all leaves that were appended, sorted by key, and those of the other members.

        Leaves are the members that have a description. What is appended from now on goes the same way.

        Parameters
        ----------
        directory : str, optional
            Where more of them than memory should hold are kept meanwhile.

        Returns
        -------
        SortedRuns
            The records of leaves, each with its description.
        bytes
            The records of the others.
        """
        cdef SortedRuns runs = self.runs
        cdef bytes name, description
        cdef const uint8_t *key
        cdef uint8_t *p
        cdef int64_t at, length
        others = []
        if runs is None:
            runs = SortedRuns(directory, RUNS_BUDGET)
        for name, offset in self.offsets.items():
            at = offset
            description = self.descriptions.get(name)
            if description is None:
                others.append(PyBytes_FromStringAndSize(
                    <const char *> self.records.data + at, written_length(self.records.data + at)))
            else:
                length = written_length(self.records.data + at)
                key = <const uint8_t *> PyBytes_AS_STRING(name)
                p = runs.add_key(key, <uint32_t> stem_length(key, PyBytes_GET_SIZE(name)),
                                 <uint32_t> (4 + length + PyBytes_GET_SIZE(description)))
                p = put(put32(p, <uint32_t> length), self.records.data + at, <size_t> length)
                put(p, PyBytes_AS_STRING(description), PyBytes_GET_SIZE(description))
        self.runs = runs
        self.offsets, self.descriptions = {}, {}
        self.records.used = 0
        return runs, b"".join(others)

    def hide(self, bytes key not None):
        """Leave a key out of the directory that `collect` is for, unless it is appended again."""
        self.runs.add(<const uint8_t *> PyBytes_AS_STRING(key), <uint32_t> PyBytes_GET_SIZE(key), b"", 0)

    cdef int _complete(self, bytes local, bytes whole, int64_t header, int64_t size, uint32_t checksum_before) except -1:
        """Complete a local header that was written before its member, and take it into the checksum of the file."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(local)
        cdef uint32_t difference
        completed = whole[14:]
        done = 0
        while done < len(completed):
            done += write_at(self._descriptor, completed[done:], header + 14 + done)
        difference = checksum(checksum_before, <const uint8_t *> PyBytes_AS_STRING(local), length)
        difference ^= checksum(checksum_before, <const uint8_t *> PyBytes_AS_STRING(whole), length)
        self._checksum ^= joined(difference, 0, <uint64_t> size)
        return 0

    cdef int _check_name(self, bytes name) except -1:
        if not 0 < PyBytes_GET_SIZE(name) <= 0xFFFF:
            raise ValueError(f"a member name has 1 .. 65535 bytes, not {len(name)}")
        return 0

    cdef int64_t _begin(self, const uint8_t *name, uint32_t length, int64_t size, uint32_t crc, bint aligned=True) except -1:
        """Collect the local header of a member; where its data will start in the file."""
        cdef int64_t header = self._written + self._pending.used, start
        cdef uint32_t extra = 20 if is_wide(size) else 0, padding
        cdef uint8_t *p
        start = header + LOCAL_LENGTH + length + extra
        padding = <uint32_t> ((self._align - start % self._align) % self._align) if aligned else 0
        if padding and padding < 6:     # an extra field has 4 bytes of header and states the alignment in two more
            padding += self._align
        p = self._pending.more(LOCAL_LENGTH + length + extra + padding)
        p = put(p, <const char *> b"PK\3\4", 4)
        p = put_fields(p, name, length, header, size, self._stamp, crc)
        p = put16(put16(p, length), extra + padding)
        p = put(p, <const char *> name, length)
        if extra:
            p = put64(put64(put16(put16(p, 1), 16), size), size)
        if padding:
            p = put16(put16(put16(p, 0xD935), padding - 4), self._align)
            memset(p, 0, padding - 6)
        self._pending.used += LOCAL_LENGTH + length + extra + padding
        return start + padding

    cdef int _note(self, bytes name, int64_t header, int64_t size, uint32_t crc, bytes description) except -1:
        """Keep the central record of a member that is whole."""
        cdef uint32_t length = <uint32_t> PyBytes_GET_SIZE(name)
        cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(name)
        cdef uint8_t *p = self.records.more(CENTRAL_LENGTH + length + MOST_EXTRA)
        if name in self.offsets:
            self.drop(name)
        if self.runs is not None and description is not None:
            return self.note_leaf(text, length, <uint32_t> stem_length(text, length), header, size, crc, description)
        self.offsets[name] = self.records.used
        if description is not None:
            self.descriptions[name] = description
        self.records.used += self._put_record(p, text, length, header, size, crc) - p
        return 0

    cdef uint8_t *_put_record(self, uint8_t *p, const uint8_t *name, uint32_t length, int64_t header, int64_t size,
                              uint32_t crc) noexcept:
        """Write the central record of a member; what follows it is returned."""
        cdef bint large = is_wide(size), far = is_wide(header)
        cdef uint32_t extra = wide_length(size, header)
        p = put(p, <const char *> b"PK\1\2", 4)
        p = put16(p, 0x300 | (45 if large or far else 20))
        p = put_fields(p, name, length, header, size, self._stamp, crc)
        p = put16(put16(put16(p, length), extra), 0)
        p = put32(put32(p, 0), 0o100600 << 16)  # a file with the permissions of temporary ones
        p = put32(p, four_bytes(header))
        p = put(p, <const char *> name, length)
        if extra:
            p = put16(put16(p, 1), extra - 4)
            if large:
                p = put64(put64(p, size), size)
            if far:
                p = put64(p, header)
        return p

    cdef int add_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, const uint8_t *data, int64_t size, uint32_t crc,
                      bytes description) except -1:
        """Add a small leaf whose name fits, after `collect`. The caller drains what was collected when it is `COLLECTED`."""
        cdef int64_t header = self._written + self._pending.used
        memcpy(self.begin_leaf(name, length, size, data), data, <size_t> size)
        return self.end_leaf(name, length, stem, header, size, crc, description)

    cdef uint8_t *begin_leaf(self, const uint8_t *name, uint32_t length, int64_t size, const uint8_t *first) except NULL:
        """Begin a small leaf at `position`: the caller writes its bytes to where they lie, then calls `end_leaf`.

        `first` are its first bytes, the fixed ones of a header at least.
        """
        self._begin(name, length, size, 0, gains_by_alignment(first, size))
        return self._pending.more(size)

    cdef int end_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                      bytes description) except -1:
        """End a leaf whose local header is at an offset."""
        self._pending.used += size
        put32(self._pending.data + (header - self._written) + 14, crc)
        return self.note_leaf(name, length, stem, header, size, crc, description)

    cdef int note_leaf(self, const uint8_t *name, uint32_t length, uint32_t stem, int64_t header, int64_t size, uint32_t crc,
                       bytes description) except -1:
        """Keep the record of a leaf that is whole, after `collect`."""
        cdef uint32_t record = CENTRAL_LENGTH + length + wide_length(size, header)
        cdef uint8_t *p = self.runs.add_key(name, stem, 4 + record + <uint32_t> PyBytes_GET_SIZE(description))
        p = self._put_record(put32(p, record), name, length, header, size, crc)
        put(p, PyBytes_AS_STRING(description), PyBytes_GET_SIZE(description))
        return 0

    def drop(self, bytes name not None):
        """Leave a member that was appended out of the directory; whether there was one."""
        self.descriptions.pop(name, None)
        return self.offsets.pop(name, None) is not None

    def write_directory(self, bytes records not None=b"", int64_t count=0):
        """Write the directory: records of members that were there before, then those appended.

        Nothing shows it yet.
        """
        cdef int64_t at
        self.begin_directory()
        self._add(<const uint8_t *> PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records))
        for at in self.offsets.values():
            self._add(self.records.data + at, written_length(self.records.data + at))
        self.end_directory(count + len(self.offsets))

    cdef int note_catalog(self, int64_t size, const uint8_t *footer, int64_t paths) except -1:
        """Remember a catalog that was written: what tells it from others, and how many keys and groups it has."""
        self.cataloged = (self._open_start, size, u32(footer + 248)), paths
        return 0

    cdef int begin_directory(self) except -1:
        self._directory_start = self._written + self._pending.used
        return 0

    cdef int end_directory(self, int64_t count) except -1:
        """Write what follows the records, but for the end record."""
        cdef int64_t offset = self._directory_start, position = self._written + self._pending.used
        cdef int64_t size = position - offset
        cdef uint8_t end[END_LENGTH]
        cdef uint8_t *p
        if is_wide(offset) or is_wide(size) or count >= 0xFFFF:
            p = self._pending.more(END64_LENGTH + LOCATOR_LENGTH)
            p = put64(put(p, <const char *> b"PK\6\6", 4), END64_LENGTH - 12)
            p = put32(put32(put16(put16(p, 0x300 | 45), 45), 0), 0)
            p = put64(put64(put64(put64(p, count), count), size), offset)
            put32(put64(put32(put(p, <const char *> b"PK\6\7", 4), 0), position), 1)
            self._pending.used += END64_LENGTH + LOCATOR_LENGTH
        self._drain()
        p = put32(put(end, <const char *> b"PK\5\6", 4), 0)
        p = put16(put16(p, <uint32_t> min(count, 0xFFFF)), <uint32_t> min(count, 0xFFFF))
        p = put32(put32(p, four_bytes(size)), four_bytes(offset))
        put16(p, COMMENT_LENGTH if self._has_checksum else 0)
        self._end = PyBytes_FromStringAndSize(<const char *> end, END_LENGTH)
        self.records.used = 0
        self.offsets, self.descriptions = {}, {}
        return 0

    def write_end(self):
        """Write the end record, which makes the new directory the archive's."""
        cdef char comment[COMMENT_LENGTH]
        cdef uint8_t *p
        cdef uint32_t crc
        if self._end is None:
            raise ValueError("the directory comes first: call write_directory()")
        if self._has_checksum:
            write_comment(comment, self._written, 0)
            crc = checksum(self._checksum, <const uint8_t *> PyBytes_AS_STRING(self._end), END_LENGTH)
            write_comment(comment, self._written, checksum(crc, <const uint8_t *> comment, COMMENT_COVERED))
        p = self._pending.more(END_LENGTH + COMMENT_LENGTH)
        memcpy(p, PyBytes_AS_STRING(self._end), END_LENGTH)
        if self._has_checksum:
            memcpy(p + END_LENGTH, comment, COMMENT_LENGTH)
        self._pending.used += END_LENGTH + (COMMENT_LENGTH if self._has_checksum else 0)
        self._end = None
        self._drain()
