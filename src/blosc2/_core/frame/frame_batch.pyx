# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The frames of several small arrays, compressed by several threads without the GIL."""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from blosc2._core.codec.chunk cimport CHUNK_HEADER
from blosc2._core.codec.codec cimport DecodeContext, Encoder, reserve
from blosc2._core.codec.thread_pool cimport (
    MOST_WORKERS, Job, WorkerGroup, acquire_group, release_group, run_in_group)
from blosc2._core.frame.small_frame cimport Template
from blosc2._core.io.steps cimport counter_next

cnp.import_array()

cdef enum:
    # Templates of one batch: each thread has a compression context for each.
    MOST_TEMPLATES = 4


cdef struct Task:
    int64_t items   # where the copy of its items begins
    int64_t room    # where its frame is made
    int32_t nbytes
    int32_t size    # of its chunk, or a negative status
    int32_t number  # of its template
    int32_t header  # bytes in front of the chunk


cdef void _work(FrameBatch batch, DecodeContext *context, void **encoders) noexcept nogil:
    batch.work(encoders)


cdef int32_t _encode(Encoder encoder, const uint8_t *items, uint8_t *room, int32_t most) noexcept nogil:
    return encoder.encode(items, room, most)


cdef class FrameBatch:
    """Copies of small arrays, whose frames are made together. `clear` makes it ready for others.

    Attributes
    ----------
    count : int
        Arrays that were added.
    nbytes : int
        Their uncompressed bytes.
    """

    cdef readonly int64_t count, nbytes
    cdef int64_t next_task
    cdef list templates, encoders
    cdef uint8_t *items
    cdef uint8_t *rooms
    cdef Task *tasks
    cdef int64_t items_size, rooms_size, tasks_size, rooms_used
    cdef void *tools[MOST_WORKERS + 1][MOST_TEMPLATES]

    def __cinit__(self):
        self.templates, self.encoders = [], []

    def __dealloc__(self):
        free(self.items)
        free(self.rooms)
        free(self.tasks)

    def clear(self):
        """Forget the arrays, and keep contexts and memory."""
        self.count = self.nbytes = self.rooms_used = self.next_task = 0

    def add(self, Template template not None, cnp.ndarray items not None):
        """Take a copy of an array. Returns False if it has to be compressed in another way."""
        cdef Task *task
        cdef int32_t number = 0
        cdef int64_t room
        if cnp.PyArray_NBYTES(items) != template.nbytes or not cnp.PyArray_IS_C_CONTIGUOUS(items):
            return False
        for known in self.templates:
            if known is template:
                break
            number += 1
        else:
            if number == MOST_TEMPLATES:
                return False
            self.templates.append(template)
        room = PyBytes_GET_SIZE(template.header) + template.nbytes + CHUNK_HEADER + max(
            PyBytes_GET_SIZE(template.tail), PyBytes_GET_SIZE(template.zeros))
        if (reserve(<uint8_t **> &self.tasks, &self.tasks_size, (self.count + 1) * <int64_t> sizeof(Task)) == NULL
                or reserve(&self.items, &self.items_size, self.nbytes + template.nbytes) == NULL
                or reserve(&self.rooms, &self.rooms_size, self.rooms_used + room) == NULL):
            raise MemoryError
        task = &self.tasks[self.count]
        task.items, task.room, task.nbytes, task.number = self.nbytes, self.rooms_used, template.nbytes, number
        task.header, task.size = <int32_t> PyBytes_GET_SIZE(template.header), 0
        memcpy(self.items + self.nbytes, cnp.PyArray_DATA(items), <size_t> template.nbytes)
        self.nbytes += template.nbytes
        self.rooms_used += room
        self.count += 1
        return True

    def items_at(self, int64_t number):
        """The copy of an array, as bytes."""
        if not 0 <= number < self.count:
            raise IndexError(f"there is no array {number}")
        return PyBytes_FromStringAndSize(
            <const char *> self.items + self.tasks[number].items, self.tasks[number].nbytes)

    def frames(self, int threads):
        """Make the frames, in up to so many threads. Returns a list; None for one that has to be made in another way."""
        cdef WorkerGroup group
        cdef Template template
        cdef Task *task
        cdef int64_t n
        cdef int i
        cdef list made = []
        try:
            acquire_group(&group, min(threads, self.count) - 1, <void *> self, <Job> _work, 0)
            for i in range(group.count + 1):
                self._make_encoders(i)
            for i in range(group.count):
                group.workers[i].tool = <void *> self.tools[i + 1]
            self.next_task = 0
            with nogil:
                run_in_group(&group, <void *> self, <Job> _work, <void *> self.tools[0])
        finally:
            release_group(&group)
        for n in range(self.count):
            task = &self.tasks[n]
            template = self.templates[task.number]
            if task.size < CHUNK_HEADER:
                made.append(None)
                self.encoders = []  # nobody knows what state they are in
            else:
                made.append(template.around(self.rooms + task.room, task.size))
        return made

    cdef int _make_encoders(self, int thread) except -1:
        """See to it that a thread has an encoder for each template."""
        cdef Template template
        cdef Encoder encoder
        cdef list own
        cdef int number
        while len(self.encoders) <= thread:
            self.encoders.append([])
        own = self.encoders[thread]
        for number in range(len(own), len(self.templates)):
            template = self.templates[number]
            encoder = Encoder(template.encoding)
            encoder.prepare(template.nbytes)
            own.append(encoder)
        for number in range(len(own)):
            self.tools[thread][number] = <void *> (<object> own[number])
        return 0

    cdef void work(self, void **encoders) noexcept nogil:
        cdef Task *task
        cdef int64_t n
        while True:
            n = counter_next(&self.next_task)
            if n >= self.count:
                return
            task = &self.tasks[n]
            task.size = _encode(<Encoder> encoders[task.number], self.items + task.items,
                                self.rooms + task.room + task.header, task.nbytes + CHUNK_HEADER)
