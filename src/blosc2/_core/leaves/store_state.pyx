# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""What the parts of a store that is open for writing share: what is pending, which leaves are held, whether it may be changed.

Who changes the store has its lock; but others look at the same time. So an attribute is replaced as a whole, and whoever
needs it takes it once. Native code does so in a critical section, as the attributes that Cython makes do themselves.
"""

cimport cython
from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport int64_t
from libc.string cimport memset

from blosc2._core.io.sharing cimport Block
from blosc2._core.io.steps cimport item_of, number_get, number_set, state_get, state_set, step_begin, step_end

from _thread import get_ident


cdef class SessionState:
    """Whether a store may be changed now: what is asked at each change."""

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
    def unsure(self):
        """Whether something may have been published that is not shown. A `Change` that ends meanwhile sets `asks`."""
        return state_get(&self.unsure_) != 0

    @unsure.setter
    def unsure(self, bint value):
        state_set(&self.unsure_, value)

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


cdef class KeyUndo(Block):
    """What takes back changes of keys, of which each is noted right before it is made."""

    def __cinit__(self):
        self.before, self.changes = {}, {}


cdef object alive(dict references, str key):
    """What a weak reference leads to; None where there is none."""
    reference = item_of(references, key, None)
    return None if reference is None else reference()


cdef class PendingFrames:
    """The new frames of a store by key, and what is counted of them."""

    def __cinit__(self):
        self.frames, self.tiers, self.blocks, self.removed_groups = {}, {}, {}, ()

    @property
    def unwritten(self):
        return state_get(&self.unwritten_) != 0

    @unwritten.setter
    def unwritten(self, bint value):
        state_set(&self.unwritten_, value)

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


    # ------------------------------------------------------------------ one key
    cdef bint note_key(self, str key, KeyUndo block) except -1:
        cdef dict frames, tiers, held, edited, handles
        cdef bint is_held
        cdef object before = None
        with cython.critical_section(self.leaves):
            held, edited, handles = self.leaves.held, self.leaves.edited, self.leaves.handles
        is_held = PyDict_Contains(held, key) or PyDict_Contains(edited, key) or PyDict_Contains(handles, key)
        if block is None or PyDict_Contains(block.before, key):
            return is_held
        with cython.critical_section(self):
            frames, tiers = self.frames, self.tiers
        if is_held or PyDict_Contains(frames, key) or PyDict_Contains(tiers, key):
            before = (item_of(frames, key, ...), item_of(tiers, key, None), self.leaves.handle(key), alive(held, key),
                      PyDict_Contains(edited, key) != 0)
        PyDict_SetItem(block.before, key, before)
        return is_held

    cdef int put_frame(self, str key, frame, tier, int64_t nbytes, bint is_new, KeyUndo block) except -1:
        cdef dict frames, tiers
        cdef bint is_held = self.note_key(key, block)
        with cython.critical_section(self):
            frames, tiers = self.frames, self.tiers
        if tier is not None:
            PyDict_SetItem(tiers, key, tier)
        PyDict_SetItem(frames, key, frame)
        if block is not None:
            PyDict_SetItem(block.changes, key, frame)
        number_set(&self.in_memory_, self.in_memory_ + nbytes)
        number_set(&self.revision_, self.revision_ + is_new)
        if is_held:
            self.forget_leaf(key)
        return 0

    cdef object remove_key(self, str key, bint is_published, KeyUndo block):
        cdef dict frames, tiers
        cdef bint is_held = self.note_key(key, block)
        with cython.critical_section(self):
            frames, tiers = self.frames, self.tiers
        number_set(&self.revision_, self.revision_ + 1)
        if is_published:
            PyDict_SetItem(frames, key, None)
        else:
            del frames[key]
        tiers.pop(key, None)
        if block is not None:
            block.changes[key] = None if is_published else ...
        return self.forget_leaf(key) if is_held else None      # last: a finalizer may open the leaf

    cdef object forget_leaf(self, str key):
        """The key has another leaf by now, or none: an interrupt must not leave the former one open under it."""
        try:
            return (<object> self.leaves).forget(key)
        except BaseException:
            (<object> self.leaves).forget(key)
            raise

    def note(self, str key not None, KeyUndo block):
        """Note in a block, if there is one, what a key has before it changes; whether somebody holds its leaf."""
        return self.note_key(key, block)

    def put(self, str key not None, frame, tier, int64_t nbytes, bint is_new, KeyUndo block):
        """Give a key a new frame, of which so many bytes are in memory. An open leaf of the key can still be read.

        `tier` says whether it gets a file of its own, and is None where none does; `is_new` that no leaf has the key yet.
        """
        self.put_frame(key, frame, tier, nbytes, is_new, block)

    def remove(self, str key not None, bint is_published, KeyUndo block):
        """Remove a key; `is_published` says whether it has to be removed from what is published, too.

        Returns the handle of its leaf if that has edits that are no pending change.
        """
        return self.remove_key(key, is_published, block)


cdef int check_same(PendingFrames pending, int64_t revision) except -1:
    """Refuse to go on where keys have come or gone since a revision."""
    if number_get(&pending.revision_) != revision:
        pending.check_revision(revision)
    return 0


@cython.final
cdef class KeyIteration:
    """Gives the keys of a store one by one, until one is added or removed; then `check_revision` raises an error."""

    cdef PendingFrames pending
    cdef int64_t revision
    cdef object batches     # None at the end
    cdef list batch
    cdef Py_ssize_t at
    cdef bint is_asking

    def __cinit__(self, PendingFrames pending not None, int64_t revision, batches):
        self.pending, self.revision, self.batches, self.batch = pending, revision, iter(batches), []

    def __iter__(self):
        return self

    @cython.critical_section
    def __next__(self):
        cdef object key
        if self.is_asking:
            raise ValueError("another thread is using this iterator: give each thread its own")
        while self.batches is not None:
            check_same(self.pending, self.revision)
            if self.at < len(self.batch):
                key = self.batch[self.at]
                self.at += 1
                return key
            batches, self.batches, self.batch, self.at = self.batches, None, [], 0  # after an error it has ended
            self.is_asking = True
            try:
                batch = next(batches, None)
            finally:
                self.is_asking = False
            if batch is not None:
                self.batches, self.batch = batches, batch
            else:
                check_same(self.pending, self.revision)  # after the last key too, like a dict
        raise StopIteration


cdef class HeldLeaves:
    """The leaves of a store that somebody holds."""

    def __cinit__(self):
        self.held, self.handles, self.edited, self.collecting = {}, {}, {}, {}

    def find(self, str key not None):
        """The leaf of a key if somebody holds it; None otherwise."""
        with cython.critical_section(self):
            held = self.held
        return alive(held, key)

    def handle(self, str key not None):
        """The handle of a live leaf if somebody holds it; None otherwise."""
        with cython.critical_section(self):
            held, handles = self.held, self.handles
        leaf = alive(held, key)
        return alive(handles, key) if leaf is None else leaf._handle

    # An edit takes the lock of its leaf, not that of the store. So whether it is refused is decided in the step that notes
    # it, and whoever has edits refused does that in a step, too. A lock would not do: a finalizer or a handler of a signal
    # that runs meanwhile could wait for a thread that waits for this lock. Nothing runs within a critical section, as it makes
    # no object and lets go of none.
    def show_edit(self, SessionState session not None, handle, tuple places not None, frame, array):
        """Let a leaf show an edit, and note that, unless edits of it are refused; whether it was done."""
        cdef object frame_place = places[0], array_place = places[1]
        cdef object key = handle.key, me = get_ident(), before, transaction = None, own = None, thread = None
        cdef dict edited = None, handles = None
        cdef bint done = False
        before = frame_place.__get__(handle), array_place.__get__(handle)   # they go behind the step
        reference = PyWeakref_NewRef(handle, None)
        step_begin(&self.noting)
        try:
            own = handle.session
            with cython.critical_section(session, self):
                transaction, edited, handles = session.transaction, self.edited, self.handles
            if transaction is not None:
                thread = transaction.thread
            if own is not None and not state_get(&session.closed_) and not state_get(&session.ending_) and (
                    transaction is None or thread == me):
                if key is not None:     # first: it may find no memory
                    PyDict_SetItem(handles, key, reference)
                    PyDict_SetItem(edited, key, handle)
                (<PyTypeObject *> Py_TYPE(array_place)).tp_descr_set(array_place, handle, array)
                (<PyTypeObject *> Py_TYPE(frame_place)).tp_descr_set(frame_place, handle, frame)
                done = True
        finally:
            step_end(&self.noting)
        return done

    def note_shared(self, handle):
        """Note the handle of a live leaf that another object is about to have, too; unless its edits are refused."""
        cdef object key = handle.key, reference = PyWeakref_NewRef(handle, None)
        cdef dict handles = None
        step_begin(&self.noting)
        try:
            with cython.critical_section(self):
                handles = self.handles
            if handle.session is not None:
                PyDict_SetItem(handles, key, reference)
        finally:
            step_end(&self.noting)

    def refuse_edits(self, handle):
        """Have edits of a leaf refused: its key has another one, or none. Whether it had edits."""
        cdef object key = handle.key, own = None, noted = None
        cdef dict edited = None
        cdef bint done = False
        step_begin(&self.noting)
        try:
            own = handle.session
            with cython.critical_section(self):
                edited = self.edited
            handle.session = None
            noted = item_of(edited, key, None)
            if noted is handle:
                PyDict_DelItem(edited, key)
                done = True
        finally:
            step_end(&self.noting)
        return done

    def refuse_all_edits(self, SessionState session not None):
        """Have edits of all leaves refused: the store is being closed."""
        step_begin(&self.noting)
        state_set(&session.ending_, 1)
        step_end(&self.noting)

    def refuse_edits_of_others(self, SessionState session not None, transaction):
        """Begin a transaction: edits by other threads are refused until its end."""
        step_begin(&self.noting)
        try:
            with cython.critical_section(session):
                session.transaction = transaction
        finally:
            step_end(&self.noting)

    def take_edited(self):
        """The table of edited leaves, which is an empty one from now on."""
        cdef dict fresh = {}, edited = None
        step_begin(&self.noting)
        try:
            with cython.critical_section(self):
                edited, self.edited = self.edited, fresh
        finally:
            step_end(&self.noting)
        return edited

    def begin_child(self):
        """In a forked child: without a GIL a step may wait for the lock of a dictionary, and Python may fork meanwhile."""
        memset(&self.noting, 0, sizeof(self.noting))


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
