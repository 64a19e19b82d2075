# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Sorting more keys than memory should hold, each with a payload.

Items are copied into blocks of memory as they come. When these reach a budget, they are sorted and written to a
temporary file as one run; in the end the runs are merged. Keys are compared as bytes; of two keys of which one begins
with the other, the shorter one comes first. Of items with equal keys only the one that was added last is returned.
external_sort.pxd compares and sorts items.
"""

import errno
import io
import os

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from blosc2._core.io.memory cimport bring_pages

from blosc2._core.io.sharing import keep_from_child

cdef extern from "io/file_calls.h" nogil:
    int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset)
    void close_descriptor(int fd)

cdef enum:
    ADDING
    READING
    FAILED
    LARGEST_BLOCK = 1 << 20
    SMALLEST_BLOCK = 64
    OUT_SIZE = 1 << 18
    MOST_MERGED = 64        # runs that are read at one time
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


cdef class SortedRuns:
    """Items sorted by key in bounded memory.

    Parameters
    ----------
    directory : str, bytes or os.PathLike, optional
        Where a temporary file goes when the items exceed the budget. It has no name, so nothing stays of it whatever
        happens. None: no file is made, all items stay in memory.
    budget : int
        Bytes of memory for the items and for sorting them. Merging takes as much, but at least 4 MiB where there are
        many runs; an item that is larger takes what it needs.

    Attributes
    ----------
    count : int
        Items that were added.
    replaced : int
        After a whole pass: items that gave way to another of the same key, added later.
    runs : int
        Sorted runs in the temporary file.
    peak : int
        The most bytes that were allocated at one time.

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
    >>> items.count, items.replaced
    (3, 1)
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

    cdef void *_try_allocate(self, void *old, size_t old_size, size_t size) noexcept nogil:
        cdef void *memory = realloc(old, size)
        if memory != NULL:
            self._allocated += size - old_size
            self.peak = max(self.peak, <int64_t> self._allocated)
        return memory

    cdef void *_allocate(self, void *old, size_t old_size, size_t size) except NULL nogil:
        cdef void *memory = self._try_allocate(old, old_size, size)
        if memory == NULL:
            with gil:
                raise MemoryError
        return memory

    cdef void _free(self, void *memory, size_t size) noexcept nogil:
        if memory != NULL:
            self._allocated -= size
            free(memory)

    cdef void _release(self) noexcept:
        """Give back memory and file."""
        cdef size_t i
        self._end_merge()
        self._forget_items()
        for i in range(self._block_count):
            self._free(self._blocks[i].bytes, self._blocks[i].capacity)
        self._free(self._blocks, self._block_room * sizeof(SortBlock))
        self._block_count = self._block_room = 0
        self._blocks = NULL
        self._free(self._runs, <size_t> self._run_room * sizeof(SortRun))
        self._run_room = self.runs = 0
        self._runs = NULL
        self._free(self._out, OUT_SIZE)
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
            self._blocks = <SortBlock *> self._allocate(
                self._blocks, self._block_room * sizeof(SortBlock), (2 * self._block_room + 8) * sizeof(SortBlock)
            )
            self._block_room = 2 * self._block_room + 8
        if self._blocks_used == self._block_count or length > self._block_size:
            # A record that is larger than a block has one of its own, which is put before those that wait.
            spare.capacity = max(length, self._block_size)
            spare.bytes = <uint8_t *> self._allocate(NULL, 0, spare.capacity)
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
        if self._ascending or self._index != NULL:
            self._indexed = 0
            return 0
        scratch = <SortEntry *> self._allocate(NULL, 0, half * sizeof(SortEntry))
        index = <SortEntry *> self._try_allocate(NULL, 0, self._items * sizeof(SortEntry))
        if index == NULL:
            self._free(scratch, half * sizeof(SortEntry))
            with gil:
                raise MemoryError
        for i in range(self._items):
            index[i].record = self._walked()
            prefetch(index[i].record + AHEAD, 64)   # each one says only when it is there where the next one lies
            self._walk_byte += length_of(index[i].record)
        sort_keys(index, self._items, scratch, 0, 0)
        self._free(scratch, half * sizeof(SortEntry))
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
                self.replaced += 1
            if following == NULL:
                self._distinct = self.replaced == self._replaced_before     # the next pass need not compare
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
                self._free(self._blocks[i].bytes, self._blocks[i].capacity)
            else:
                self._blocks[kept] = self._blocks[i]
                self._blocks[kept].used = 0
                kept += 1
        self._block_count = kept
        self._free(self._index, self._items * sizeof(SortEntry))
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
        cdef int64_t room = self._run_room
        if self._fd < 0:
            self._open_file()
        if self._out == NULL:
            self._out = <uint8_t *> self._allocate(NULL, 0, OUT_SIZE)
        if self.runs == room:
            self._runs = <SortRun *> self._allocate(
                self._runs, <size_t> room * sizeof(SortRun), <size_t> (2 * room + 16) * sizeof(SortRun)
            )
            self._run_room = 2 * room + 16
        self._sort()
        self._write_run(False, &run)
        self._runs[self.runs] = run
        self.runs += 1
        self._forget_items()
        return 0

    cdef int _write_run(self, bint merged, SortRun *run) except -1 nogil:
        cdef SortedItem item
        cdef const uint8_t *first = NULL
        cdef const uint8_t *record = NULL
        run.offset = self._file_size + <int64_t> self._out_used
        while self._next_merged(&item) if merged else self._next_in_memory(&item):
            record = item.key - LENGTHS
            if first == NULL:
                first = record
            self._put(record, length_of(record))
        # What the first and the last key share all of them share. Merged records are gone by now.
        run.common = self._common if merged else common_length(first, record, 0, UINT32_MAX)
        self._write_out(self._out, self._out_used)
        self._out_used = 0
        run.length = self._file_size - run.offset
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

    cdef int _begin_merge(self, int64_t first, int64_t count) except -1 nogil:
        cdef size_t size = min(LARGEST_BUFFER, max(SMALLEST_BUFFER, self._budget // <size_t> count))
        cdef SortCursor *cursor
        cdef uint32_t common = UINT32_MAX
        cdef int i, status
        self._end_merge()
        self._common = 0
        self._cursors = <SortCursor *> self._try_allocate(NULL, 0, MOST_MERGED * sizeof(SortCursor))
        if self._cursors == NULL:
            return self._failed(NO_MEMORY)
        for i in range(<int> count):
            cursor = &self._cursors[i]
            self._cursor_count = i + 1
            cursor.begin = cursor.end = 0
            cursor.offset = self._runs[first + i].offset
            cursor.stop = cursor.offset + self._runs[first + i].length
            cursor.capacity = size
            cursor.buffer = <uint8_t *> self._try_allocate(NULL, 0, size)
            status = self._load(cursor) if cursor.buffer != NULL else NO_MEMORY
            if status == 0 and cursor.record == NULL:
                status = DAMAGED
            if status:
                return self._failed(status)
            common = common_length(
                self._cursors[0].record, cursor.record, 0, min(common, self._runs[first + i].common)
            )
        self._common = common
        for i in range(<int> count):
            self._cursors[i].digit = digit_of(self._cursors[i].record, common)
            self._heap[i] = i
        self._heap_count = <int> count
        for i in range(self._heap_count // 2 - 1, -1, -1):
            sift_down(self._cursors, self._common, self._heap, self._heap_count, i)
        return 0

    cdef void _end_merge(self) noexcept nogil:
        cdef int i
        for i in range(self._cursor_count):
            self._free(self._cursors[i].buffer, self._cursors[i].capacity)
        self._free(self._cursors, MOST_MERGED * sizeof(SortCursor))
        self._cursors = NULL
        self._cursor_count = self._heap_count = 0
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
                larger = <uint8_t *> self._try_allocate(cursor.buffer, cursor.capacity, need)
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
        if key_length_of(cursor.record) < self._common:
            return DAMAGED
        cursor.digit = digit_of(cursor.record, self._common)
        return 0

    cdef bint _next_merged(self, SortedItem *item) except -1 nogil:
        cdef int top = self._given, status
        self._given = -1
        # The cursor whose item was given is not in the heap; mostly it stays outside.
        if top >= 0:
            status = self._load(&self._cursors[top])
            if status:
                return self._failed(status)
            if self._cursors[top].record == NULL:
                top = -1
        if self._heap_count and (top < 0 or comes_before(self._cursors, self._common, self._heap[0], top)):
            if top < 0:
                top = self._heap[0]
                self._heap_count -= 1
                self._heap[0] = self._heap[self._heap_count]
            else:
                self._heap[0], top = top, self._heap[0]
            sift_down(self._cursors, self._common, self._heap, self._heap_count, 0)
        if top < 0:
            return False
        while self._heap_count and same_key(&self._cursors[self._heap[0]], &self._cursors[top]):
            self.replaced += 1
            status = self._load(&self._cursors[self._heap[0]])
            if status:
                return self._failed(status)
            if self._cursors[self._heap[0]].record == NULL:
                self._heap_count -= 1
                self._heap[0] = self._heap[self._heap_count]
            sift_down(self._cursors, self._common, self._heap, self._heap_count, 0)
        self._given = top
        open_record(self._cursors[top].record, item)
        return True

    cdef int _merge_some(self) except -1 nogil:
        """Merge runs until all that are left can be read at one time. Neighbours: later runs replace earlier ones."""
        cdef int64_t first, to, group, excess
        cdef SortRun run
        while self.runs > MOST_MERGED:
            excess = self.runs - MOST_MERGED
            first = to = 0
            while first < self.runs:
                group = min(<int64_t> MOST_MERGED, min(excess + 1, self.runs - first))
                if group > 1:
                    self._begin_merge(first, group)
                    self._write_run(True, &run)
                else:
                    run = self._runs[first]
                self._runs[to] = run
                to += 1
                first += group
                excess -= group - 1
            self.runs = to
        return 0

    cdef int rewind(self) except -1 nogil:
        cdef size_t i
        if self._state == FAILED:
            return self._wrong_use()
        if self._state == ADDING and self.runs:
            if self._items:
                self._spill()
            for i in range(self._block_count):
                self._free(self._blocks[i].bytes, self._blocks[i].capacity)
            self._block_count = 0
            self._merge_some()
            self._free(self._out, OUT_SIZE)
            self._out = NULL
        if self._state == ADDING:
            self._replaced_before = self.replaced
        if self.runs:
            self._begin_merge(0, self.runs)
        else:
            self._sort()
        self.replaced = self._replaced_before
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
        self._enter()
        try:
            self.add(
                <const uint8_t *> PyBytes_AS_STRING(key), <uint32_t> PyBytes_GET_SIZE(key),
                <const uint8_t *> PyBytes_AS_STRING(payload), <uint32_t> PyBytes_GET_SIZE(payload),
            )
        finally:
            self._busy = False

    def __iter__(self):
        """Begin a pass: keys and payloads in the order of the keys."""
        cdef SortedItem item
        cdef int64_t number
        cdef bint found
        self._enter()
        try:
            with nogil:
                self.rewind()
        finally:
            self._busy = False
        number = self._pass
        while True:
            if number != self._pass:
                raise RuntimeError("another pass has begun")
            self._enter()
            try:
                found = self.next(&item)
            finally:
                self._busy = False
            if not found:
                return
            yield (
                PyBytes_FromStringAndSize(<const char *> item.key, item.key_length),
                PyBytes_FromStringAndSize(<const char *> item.payload, item.payload_length),
            )

    cdef int _enter(self) except -1:
        if self._busy:
            raise RuntimeError("another thread is adding or reading items")
        self._busy = True
        return 0
