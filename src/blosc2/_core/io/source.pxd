cimport cython
from libc.stdint cimport int64_t, uint64_t, uint8_t


cdef class Buffer:
    """The memory of an object that has a C-contiguous buffer of bytes or numbers, held as long as this lives.

    Cython's typed memoryviews do the same, but each module that uses one, or another module that does, compiles ten
    thousand lines more.
    """
    cdef Py_buffer _view
    cdef uint8_t *data
    cdef Py_ssize_t size            # in bytes


cdef Buffer readable(object data)
cdef Buffer writable(object data)
# Integers on one axis; `count` is how many.
cdef Buffer integers(object data, Py_ssize_t itemsize, Py_ssize_t *count)


cdef struct Run:
    # Of a source that is joined of others: where it begins there, and where its bytes lie.
    int64_t start
    int64_t offset
    const uint8_t *base
    int fd
    void *remote        # the source itself, if that is on a server; `_joined` keeps it


cdef inline int64_t run_at(const Run *runs, int64_t count, int64_t offset) noexcept nogil:
    """The run that holds a byte of joined ones."""
    cdef int64_t low = 0, high = count, middle
    while high - low > 1:
        middle = (low + high) // 2
        if runs[middle].start <= offset:
            low = middle
        else:
            high = middle
    return low


# Why a read of a source failed; codes above zero are errno values. No other module of `_core` uses -200.
cdef enum:
    READ_OK = 0
    READ_SHORT = -200


cdef enum:
    # What the system was told of how a file is read; 0 where nothing was.
    TOLD = 1            # by the user, who did not forbid it to guess
    TOLD_RANDOM = 2     # by the user
    NOT_GUESSING = 3    # that it is not to guess
    READING_ON = 4      # of a mapping: that it may guess, as long as reads follow each other
    ELSEWHERE = 5       # nothing: the bytes come from a server, and each request counts

cdef struct AskState:
    # Of a file, for all of its sources: see readahead.pxd. Threads change it without a lock, by steps.h.
    long streak     # as many reads found their bytes in memory one after the other
    int64_t until   # ms of the coarse clock; no read asks before
    long told       # what the system was told
    bint slow       # whether the file lies behind a network; set when it is opened
    # Reads that follow each other: how many there were, up to some, where they began, and where the last one ended.
    long follows
    int64_t first
    int64_t last
    int64_t onward  # how far was asked for ahead of them
    int64_t ask_at  # where it is time to ask for more
    int64_t leaves  # bytes of the leaves that were read as a whole and not in order, of up to one for each of the file
    int64_t device  # that the file lies on
    long window     # KiB that the system reads ahead by itself; below 0 where unknown, 0 before it was looked at


cdef enum:
    PAGE_LENGTH = 4096

cdef struct Page:
    # The bytes of a file that were read last for small leaves that follow each other.
    long busy       # whether a thread is here; no other one waits
    int64_t begin, length
    int64_t last    # where the last small read began
    uint8_t *bytes  # NULL until reads follow each other


cdef class OpenFile:
    cdef int fd
    cdef void *base
    cdef int64_t room
    cdef long advised       # what was said of how all of it is read, as its number in `ADVICE`
    cdef AskState asking[2]
    cdef object _mapped
    cdef Py_buffer _view

    cdef int map(self, int fd, int64_t room) except -1


cdef bytes fresh_bytes(int64_t size)


cdef class Source:
    cdef readonly object path
    cdef readonly int64_t size
    cdef uint64_t serial    # of what shows a file: no other source of this process ever has it; else 0
    cdef readonly bint mapped
    cdef const uint8_t *base
    cdef int fd
    cdef OpenFile file
    cdef AskState *asking   # of `file`, for reads and for leaves that are opened next; NULL where there is none
    cdef int64_t room       # of its mapping
    cdef Py_buffer _view
    cdef bint _holds_buffer
    cdef readonly tuple identity
    cdef readonly object checksums
    cdef readonly bint far  # whether the bytes are on a server: see `RemoteSource`
    cdef object failure     # why the last fetch failed, for `check`: see `note_failure`
    cdef object lost        # the same of pages of a directory, where nobody could tell, for `raise_lost`
    cdef Run *runs
    cdef int64_t run_count
    cdef tuple _joined
    cdef Page page
    cdef object __weakref__

    cdef int read_into(self, int64_t offset, int64_t length, void *destination) noexcept nogil
    cdef int read_small(self, int64_t offset, int64_t length, int64_t limit, uint8_t *destination) noexcept nogil
    cdef bint forget_page(self) noexcept
    cdef int hold(self, object buffer) except -1
    cdef int hold_below(self, object view) except -1
    cdef int raise_lost(self) except -1
    cdef int read_runs(self, int64_t offset, int64_t length, uint8_t *destination) noexcept nogil
    cdef int check_whole(self, int64_t offset) except -1
    cdef int check(self, int status, int64_t offset, int64_t length) except -1
    cdef int show(self, OpenFile file, int64_t size) except -1
    cdef int look_how_late(self, int fd) except -1
    cdef void number(self) noexcept


# Why bytes on a server could not be fetched: who reads them without the interpreter notes it for whoever tells it.
#
# Several threads may do so with one source, so these fields of it are touched here only.

cdef inline int note_failure(Source source, failure) except -1:
    with cython.critical_section(source):
        source.failure = failure
    return 0


cdef inline object failure_of(Source source, bint taken=False):
    """The last one; if it is taken, for another source to tell, it is gone here."""
    with cython.critical_section(source):
        failure = source.failure
        if taken:
            source.failure = None
    return failure


cdef inline int note_lost(Source source) except -1:
    """Pages of a directory could not be fetched, where nobody could tell."""
    with cython.critical_section(source):
        source.lost = source.failure
    return 0


cdef inline object take_lost(Source source):
    with cython.critical_section(source):
        lost, source.lost = source.lost, None
    return lost
