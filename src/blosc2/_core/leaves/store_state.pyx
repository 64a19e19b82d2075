# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""What the parts of a store that is open for writing share: what is pending, which leaves are held, whether it may be changed.

Who changes the store has its lock; but others look at the same time. So an attribute is replaced as a whole, and whoever
needs it takes it once. Native code does the same with the fields behind the attributes.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from blosc2._core.io.steps cimport number_get, number_set, state_get, state_set

cdef extern from "io/ascii_text.h":
    const uint8_t *ascii_text(PyObject *text, Py_ssize_t *length)


cdef class SessionState:
    """Whether a store may be changed now: what is asked at each change.

    Attributes
    ----------
    closed, ending, streaming, asks : bool
    transaction : object or None
        The transaction under way; it has its `thread`.
    is_changing : bool
    """

    @property
    def closed(self):
        return state_get(&self.closed_) != 0

    @closed.setter
    def closed(self, bint value):
        state_set(&self.closed_, value)

    @property
    def ending(self):
        return state_get(&self.ending_) != 0

    @ending.setter
    def ending(self, bint value):
        state_set(&self.ending_, value)

    @property
    def streaming(self):
        return state_get(&self.streaming_) != 0

    @streaming.setter
    def streaming(self, bint value):
        state_set(&self.streaming_, value)

    @property
    def asks(self):
        return state_get(&self.asks_) != 0

    @asks.setter
    def asks(self, bint value):
        state_set(&self.asks_, value)

    @property
    @cython.critical_section
    def transaction(self):
        return self.transaction_

    @transaction.setter
    @cython.critical_section
    def transaction(self, value):
        self.transaction_ = value

    @property
    def is_changing(self):
        """Whether this thread is in the middle of a `Change`."""
        return number_get(&self.changer) == <int64_t> PyThread_get_thread_ident()

    @property
    def begun(self):
        """How many changes have begun; asked with the lock of the store."""
        return self.count

    def forget_change(self):
        """In a forked child: the thread that was changing the store stayed with the parent."""
        self.depth = 0
        number_set(&self.changer, 0)


@cython.final
cdef class Change:
    """A context manager within which this thread changes or publishes a store, or shows another version of it.

    The thread has the lock of the store, and may take it again. So the lock does not keep out what the interpreter runs in
    between: finalizers, and handlers of signals. These find `is_changing` set, and what would change the store refuses.
    Changes may consist of others.
    """

    cdef SessionState session
    cdef bint is_under_way

    def __cinit__(self, SessionState session not None):
        self.session = session

    def __dealloc__(self):
        # An interrupt right before a call of `__exit__` leaves that out. Then the interpreter drops this object, nothing else.
        self._end()

    def __enter__(self):
        begin_change(self.session)
        self.is_under_way = True

    def __exit__(self, kind, error, traceback):
        self._end()

    cdef void _end(self) noexcept:
        if self.is_under_way:
            self.is_under_way = False
            end_change(self.session)


cdef class PendingFrames:
    """The new frames of a store by key, and what is counted of them.

    Attributes
    ----------
    frames, tiers, blocks : dict
    in_memory, revision : int
    """

    def __cinit__(self):
        self.frames_, self.tiers_, self.blocks_ = {}, {}, {}

    @property
    @cython.critical_section
    def frames(self):
        return self.frames_

    @frames.setter
    @cython.critical_section
    def frames(self, value):
        self.frames_ = value

    @property
    @cython.critical_section
    def tiers(self):
        return self.tiers_

    @tiers.setter
    @cython.critical_section
    def tiers(self, value):
        self.tiers_ = value

    @property
    @cython.critical_section
    def blocks(self):
        return self.blocks_

    @blocks.setter
    @cython.critical_section
    def blocks(self, value):
        self.blocks_ = value

    @property
    def in_memory(self):
        return number_get(&self.in_memory_)

    @in_memory.setter
    def in_memory(self, int64_t value):
        number_set(&self.in_memory_, value)

    @property
    def revision(self):
        return number_get(&self.revision_)

    @revision.setter
    def revision(self, int64_t value):
        number_set(&self.revision_, value)


cdef class HeldLeaves:
    """The leaves of a store that somebody holds.

    Attributes
    ----------
    held, edited : dict
    handles : WeakValueDictionary
    """

    @property
    @cython.critical_section
    def held(self):
        return self.held_

    @held.setter
    @cython.critical_section
    def held(self, value):
        self.held_ = value

    @property
    @cython.critical_section
    def edited(self):
        return self.edited_

    @edited.setter
    @cython.critical_section
    def edited(self, value):
        self.edited_ = value

    @property
    @cython.critical_section
    def handles(self):
        return self.handles_

    @handles.setter
    @cython.critical_section
    def handles(self, value):
        self.handles_ = value


cdef class GroupCounts:
    """Counts how many leaves are added below groups: at first for the group of each leaf alone.

    A subclass adds them up for the groups around that one when it is asked, see `take`.
    """

    def __cinit__(self):
        self.waiting = {}

    cdef int note(self, str key, Py_ssize_t parent, int change) except -1:
        """So many leaves were added in the group that is the beginning of a key; `parent` is its length."""
        cdef PyObject *found
        if parent > 0:
            group = key[:parent]
            with cython.critical_section(self):
                found = PyDict_GetItemWithError(self.waiting, group)
                PyDict_SetItem(self.waiting, group, change + (0 if found == NULL else <object> found))
        return 0

    def add(self, str key not None, int change):
        """A leaf was added (1) or removed (-1)."""
        self.note(key, key.rfind("/"), change)

    def add_all(self, list keys not None, int change):
        """Many leaves were added (1) or removed (-1)."""
        cdef str key, last = None
        cdef Py_ssize_t parent, length = 0, size
        cdef const uint8_t *text
        cdef const uint8_t *before = NULL
        cdef int count = 0
        for key in keys:
            text = ascii_text(<PyObject *> key, &size)
            if text != NULL:
                parent = size - 1
                while parent > 0 and text[parent] != 0x2F:
                    parent -= 1
            else:
                parent = key.rfind("/")
            # Keys that come in order mostly have the group of the one before.
            if text == NULL or before == NULL or parent != length or memcmp(before, text, <size_t> parent):
                if count:
                    self.note(last, length, count * change)
                last, length, count, before = key, parent, 0, text
            count += 1
        if count:
            self.note(last, length, count * change)

    def take(self, dict added not None):
        """Add what was noted to the number of leaves below each group."""
        cdef dict waiting
        cdef str group
        cdef Py_ssize_t end
        with cython.critical_section(self):
            waiting = self.waiting
            if PyDict_Size(waiting) == 0:
                return
            self.waiting = {}
        for group, change in waiting.items():
            end = len(group)
            while end > 0:
                path = group[:end]
                added[path] = added.get(path, 0) + change
                end = group.rfind("/", 0, end)

    @cython.critical_section
    def forget(self):
        """Nothing was added."""
        self.waiting = {}
