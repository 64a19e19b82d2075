# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Single leaves of a store, with as few steps as possible: looked up, opened, and set where it is open for writing.

A leaf set here is a pending change like those of `blosc2._stores.changes.put`. Whatever is not simple (an unusual key or
value, a key that may exclude others, a store that is to be published now) is left to that.
"""

import time
from _thread import get_ident

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Contains, PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.frame.frame cimport Frame, frame_at
from blosc2._core.frame.frame_writer cimport RawKind, RawKinds
from blosc2._core.io.ascii_text cimport ascii_text, with_slash
from blosc2._core.io.sharing cimport Lock, find, hold
from blosc2._core.io.source cimport Source
from blosc2._core.io.steps cimport item_of, number_get, number_set, state_get, state_set
from blosc2._core.keys.key_admission cimport KeyAdmission, KeySet, KnownNames, path_hash, plain_parent
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, KeyTable
from blosc2._core.keys.listing cimport KeyListing, is_named
from blosc2._core.leaves.leaf_reader cimport LeafMaker, LeafReader
from blosc2._core.leaves.store_state cimport (
    GroupCounts, HeldLeaves, KeyUndo, PendingFrames, SessionState, begin_change, end_change)

from blosc2._core.io.sharing import never_freed

cnp.import_array()

cdef extern from *:
    """
    #ifdef _WIN32
    #include <process.h>
    #define b2_this_process() ((long) _getpid())
    /* Whether a folder was changed at this time last, in nanoseconds. Not known here. */
    static inline int b2_changed_at(const char *folder, int64_t ns) { return 0; }
    #else
    #include <sys/stat.h>
    #include <unistd.h>
    #define b2_this_process() ((long) getpid())
    #ifdef __APPLE__
    #define b2_mtim st_mtimespec
    #else
    #define b2_mtim st_mtim
    #endif
    static inline int b2_changed_at(const char *folder, int64_t ns) {
        struct stat status;
        return stat(folder, &status) == 0
            && (int64_t) status.b2_mtim.tv_sec * 1000000000 + (int64_t) status.b2_mtim.tv_nsec == ns;
    }
    #endif
    /* Keep an object that is in no circle from being looked at by each collection of garbage: there are many of them. */
    static inline void b2_leave_alone(PyObject *object) {
        if (PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
    }
    /* What `tuple.__new__(kind, *arguments)` gives, of arguments that lead to no other container. */
    static inline PyObject *b2_made(PyTypeObject *kind, PyObject *arguments) {
        PyObject *made = PyTuple_Type.tp_new(kind, arguments, NULL);
        if (made != NULL) b2_leave_alone(made);
        return made;
    }
    """
    long b2_this_process()
    bint changed_at "b2_changed_at"(const char *folder, int64_t ns) nogil
    void leave_alone "b2_leave_alone"(object item)
    object b2_made(type kind, tuple arguments)

cdef enum:
    # Uncompressed bytes of values whose frames are always made in memory.
    SMALL = 64 << 10
    # Of many leaves: how many are set between two calls of `progress`; and the first and the most bytes of memory that
    # their frames share.
    EACH = 1024
    FIRST_SHARED = 4 << 10
    MOST_SHARED = 1 << 20

cdef object _monotonic = time.monotonic
cdef str _suffix = ".b2nd"


@cython.final
cdef class FolderTime:
    """Tells whether a listing of a folder still holds: until a moment, and as long as the folder was not changed."""

    cdef bytes folder
    cdef int64_t changed
    cdef double until

    def __cinit__(self, bytes folder not None, int64_t changed, double until):
        self.folder, self.changed, self.until = folder, changed, until

    cdef bint _holds(self) except -1:
        cdef const char *folder = PyBytes_AS_STRING(self.folder)
        cdef int64_t changed = self.changed
        cdef bint same
        if <double> _monotonic() > self.until:
            return False
        with nogil:
            same = changed_at(folder, changed)
        return same


@cython.final
cdef class LeafSetter:
    """Sets small leaves of one store, which it does not refer to, and follows its keys.

    It takes note of groups in which it has set a leaf, and of paths that are groups. A key of which it cannot tell what it
    would exclude is left to the slow path.
    """

    cdef SessionState session
    cdef PendingFrames pending
    cdef HeldLeaves leaves
    cdef Lock lock
    cdef object contents, foreign, frame_of
    cdef KnownNames names
    cdef type kind
    cdef int64_t memory_limit
    cdef long process
    cdef GroupCounts counts
    cdef bint tiered
    # Groups in which a leaf is known to lie, with those around them.
    cdef KeySet parents
    # The version that is shown, and groups of pending leaves.
    cdef KeyAdmission keys
    cdef bint stale                 # whether both have to be found again
    cdef bint some_gone             # whether only the former are not known any more
    cdef long ready             # whether it has a version; looked at without the lock first
    cdef RawKinds kinds
    cdef int64_t quiet_bytes
    cdef double quiet_until
    # While many are set: the memory that their frames share, how much, what of it is used; whether `kinds` serves them.
    cdef int64_t shared_room, shared_used
    cdef bytes shared
    cdef object shared_source
    cdef bint kinds_serve

    cdef int64_t map_bytes

    def __cinit__(self, SessionState session not None, PendingFrames pending not None, contents, HeldLeaves leaves not None,
                  Lock lock not None, type kind not None, long process):
        self.session, self.pending, self.contents, self.leaves = session, pending, contents, leaves
        self.lock, self.kind, self.process = lock, kind, process
        self.parents, self.keys = KeySet(), KeyAdmission(1 << 40)
        self.stale = True

    # ------------------------------------------------------------------ what the store tells
    @property
    def is_ready(self):
        """Whether it knows the version that is shown."""
        return bool(state_get(&self.ready))

    @property
    def wants_kinds(self):
        """Whether it is to be told how frames are made."""
        return self.frame_of is None or (self.kinds is not None and not self.kinds.serves())

    @cython.critical_section
    def keep(self, KnownNames names, GroupCounts counts, foreign, bint tiered, int64_t memory_limit, int64_t map_bytes):
        """What keys are compared with: names, and groups and objects of other packages where there are groups.

        `memory_limit` is how many bytes of pending frames may be in memory, `map_bytes` what has to be written anew for
        each embedded value that is removed.
        """
        self.names, self.counts, self.foreign, self.tiered = names, counts, foreign, tiered
        self.memory_limit, self.map_bytes = memory_limit, map_bytes

    @cython.critical_section
    def show(self, KeyTable table, dict entries not None, KeyListing listing):
        """The version that is shown: its members, its embedded values, and a listing where there are groups."""
        self.keys.show(table, entries, listing)
        state_set(&self.ready, 1)

    @cython.critical_section
    def use_kinds(self, RawKinds kinds, frame_of):
        """How frames of values are made: without Python for some kinds, else by a function."""
        self.kinds, self.frame_of = kinds, frame_of

    def be_quiet(self, int64_t nbytes, double until):
        """Publish nothing as long as fewer bytes are pending, and until some time."""
        self.quiet_bytes, self.quiet_until = nbytes, until

    # ------------------------------------------------------------------ as a follower of the keys: see `KeyFollower`
    def key_changed(self, str key not None, int change):
        if change > 0:
            self.keys.groups._add_groups(key)
        elif change < 0:
            self.some_gone = True

    def keys_removed(self, list keys not None):
        self.some_gone = True

    def recount(self):
        self.stale = True

    @cython.critical_section
    def begin_version(self):
        self.stale = True
        state_set(&self.ready, 0)
        self.keys.show(None, {}, None)

    cdef int _collect(self) except -1:
        """Find the groups of pending leaves again."""
        cdef str key
        # First: a finalizer that changes the store sets it again.
        self.stale = self.some_gone = False
        try:
            self.parents, self.keys.groups = KeySet(), KeySet(1 << 40)
            if self.counts is not None:
                for key, change in self.pending.frames.copy().items():
                    if change is not None:
                        self.keys.groups._add_groups(key)
        except BaseException:
            self.stale = True
            raise
        return 0

    cdef Py_ssize_t _parent_of(self, key, const uint8_t **text, Py_ssize_t *length) except -2:
        """The text of a key, and the length of its group; -1 for one that takes the slow path."""
        if not state_get(&self.ready):
            return -1
        text[0] = ascii_text(<PyObject *> key, length)
        if (text[0] == NULL or state_get(&self.session.closed_) or state_get(&self.session.streaming_)
                or state_get(&self.session.unsure_)):
            return -1
        return plain_parent(text[0], length[0])

    cdef bint _is_here(self) noexcept:
        """Whether this process may change the store."""
        return self.process < 0 or self.process == b2_this_process()

    cdef bint _may_change(self) noexcept:
        """Whether nothing speaks against a change, with the lock; if something does, the slow path says what."""
        return (state_get(&self.ready) and not state_get(&self.session.closed_) and self.session.depth == 0
                and not state_get(&self.session.unsure_))

    cdef int _recount_all(self) except -1:
        """A change ended half way: all that follow the keys look again."""
        self.recount()
        for follower in (self.contents, self.names, self.counts):
            if follower is not None:
                follower.recount()
        return 0

    # ------------------------------------------------------------------ setting a leaf
    cpdef bint set(self, key, value) except -1:
        """Give a key a leaf; False where that is left to the slow path. Then nothing was done."""
        cdef Py_ssize_t length = 0, parent
        cdef const uint8_t *text = NULL
        cdef bint done
        if not cnp.PyArray_CheckExact(value):
            return False
        parent = self._parent_of(key, &text, &length)
        if parent < 0 or not self._is_here():
            return False
        self.lock.take()
        try:
            done = self._may_change() and self._set(key, text, length, parent, value)
        finally:
            self.lock.give_back()
        return done

    def set_many(self, values not None, progress, int64_t most, int64_t count, int64_t nbytes):
        """Set pairs of key and value up to the first that is not simple, or has `most` bytes, and return that.

        `count` and `nbytes` are those of the leaves before; `progress` is called with both for each 1024 leaves.
        """
        cdef Py_ssize_t length = 0, parent
        cdef const uint8_t *text = NULL
        cdef bint here = self._is_here()
        self.lock.take()
        try:
            self.shared_room, self.kinds_serve = FIRST_SHARED, self.kinds is not None and self.kinds.serves()
            for item in values:
                if PyTuple_CheckExact(item) and PyTuple_GET_SIZE(item) == 2:
                    key, value = <object> (<tuple> item)[0], <object> (<tuple> item)[1]
                else:
                    key, value = item
                key = with_slash(key)
                if not here or not cnp.PyArray_CheckExact(value) or cnp.PyArray_NBYTES(value) >= most:
                    return count, nbytes, (key, value)
                parent = self._parent_of(key, &text, &length)
                if parent < 0 or not self._set(key, text, length, parent, value):
                    return count, nbytes, (key, value)
                count += 1
                nbytes += cnp.PyArray_NBYTES(value)
                if count % EACH == 0:
                    with nogil:
                        pass
                    PyErr_CheckSignals()
                    progress(count, nbytes)
                    here = self._is_here()
            return count, nbytes, None
        finally:
            self.shared_room, self.shared, self.shared_source = 0, None, None
            self.lock.give_back()

    cdef bint _set(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent, cnp.ndarray value) except -1:
        cdef PendingFrames pending = self.pending
        cdef dict frames, blocks
        cdef object transaction
        cdef PyObject *change = NULL
        cdef object frame
        cdef KeyUndo block = None
        cdef int64_t nbytes, found, begun = self.session.count
        cdef bint is_new, opens_group = False
        with cython.critical_section(pending):
            frames, blocks = pending.frames, pending.blocks
        with cython.critical_section(self.session):
            transaction = self.session.transaction
        # The key.
        if transaction is not None and transaction.thread != get_ident():
            return False
        change = PyDict_GetItemWithError(frames, key)
        if change != NULL:
            is_new = <object> change is None
        else:
            found = self.keys.published(key, text, length)
            if found == DAMAGED:
                return False
            is_new = found == NO_KEY
        if is_new and self.counts is not None and not self._fits(key, text, length, parent, frames, &opens_group):
            return False
        # The frame.
        frame = self._frame(value)
        if frame is None:
            return False
        nbytes = frame[2]
        if pending.in_memory_ + nbytes > self.memory_limit:
            return False
        if PyDict_Size(blocks):
            block = blocks.get(get_ident())
        elif transaction is None and self.quiet_bytes >= 0 and (
                pending.in_memory_ + nbytes >= self.quiet_bytes or _monotonic() >= self.quiet_until):
            return False
        # So far a finalizer or a handler of a signal may have changed or published the store: nothing from before holds then.
        if self.session.count != begun:
            return False
        begin_change(self.session)
        try:
            return self._change(key, parent, is_new, opens_group, frame, block)
        finally:
            end_change(self.session)

    cdef bint _change(self, str key, Py_ssize_t parent, bint is_new, bint opens_group, frame, KeyUndo block) except -1:
        if is_new and self.names is not None and not self._is_free(key):
            return False
        try:
            self.pending.put_frame(key, frame, True if self.tiered else None, frame[2], is_new, block)
            if is_new:
                self.contents.listings = []
                if self.counts is not None:
                    self.counts.note(key, parent, 1)
                    if parent:
                        self.keys.groups._add_groups(key)
                    if opens_group:
                        self.parents._add_groups(key)
        except BaseException:
            self._recount_all()
            raise
        return True

    # ------------------------------------------------------------------ removing a leaf
    cpdef bint remove(self, key) except -1:
        """Remove a leaf; False where that is left to the slow path. Then nothing was done."""
        cdef Py_ssize_t length = 0, parent
        cdef const uint8_t *text = NULL
        cdef bint done
        parent = self._parent_of(key, &text, &length)
        if parent < 0 or not self._is_here():
            return False
        self.lock.take()
        try:
            if self._may_change():
                begin_change(self.session)
                try:
                    done = self._remove(key, text, length, parent)
                finally:
                    end_change(self.session)
            else:
                done = False
        finally:
            self.lock.give_back()
        return done

    cdef bint _remove(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent) except -1:
        cdef PendingFrames pending = self.pending
        cdef dict frames, blocks
        cdef object transaction
        cdef PyObject *change
        cdef KeyUndo block = None
        cdef bint is_published
        cdef int64_t found
        with cython.critical_section(pending):
            frames, blocks = pending.frames, pending.blocks
        with cython.critical_section(self.session):
            transaction = self.session.transaction
        if transaction is not None and transaction.thread != get_ident():
            return False
        found = self.keys.published(key, text, length)
        if found == DAMAGED:
            return False
        is_published = found >= 0
        change = PyDict_GetItemWithError(frames, key)
        if (not is_published if change == NULL else <object> change is None):
            return False
        if self.counts is not None and (self.foreign.possible is not False or self._is_group(key, text, length)):
            return False
        if PyDict_Size(blocks):
            block = blocks.get(get_ident())
        elif transaction is None and self.quiet_bytes >= 0 and (
                pending.in_memory_ + self.map_bytes >= self.quiet_bytes or _monotonic() >= self.quiet_until):
            return False
        try:
            pending.remove_key(key, is_published, block)
            if is_published and PyDict_Contains(self.keys.entries, key):
                number_set(&pending.in_memory_, pending.in_memory_ + self.map_bytes)
            self.contents.listings = []
            self.some_gone = True
            if self.names is not None:
                self.names.key_changed(key, -1)
            if self.counts is not None:
                self.counts.note(key, parent, -1)
        except BaseException:
            self._recount_all()
            raise
        return True

    # ------------------------------------------------------------------ reading a leaf
    cdef object read_pending(self, byte_range):
        """The items of a frame that waits, if it was made here; None for one that has to be opened."""
        cdef RawKinds kinds
        with cython.critical_section(self):
            kinds = self.kinds
        if kinds is None or not isinstance(byte_range, self.kind):
            return None
        return kinds.items_of(byte_range.description, byte_range[0], byte_range[1], byte_range[2])

    # ------------------------------------------------------------------ checks
    cdef bint _is_group(self, str key, const uint8_t *text, Py_ssize_t length) except -1:
        """Whether a key may be a group."""
        if self.stale:
            self._collect()
        return self.keys.is_group(key, text, length, path_hash(text, length))

    cdef bint _fits(self, str key, const uint8_t *text, Py_ssize_t length, Py_ssize_t parent, dict frames,
                    bint *opens_group) except -1:
        """Whether a new key is known to be no group, and its groups to be no leaves; and whether its own one may be new."""
        if self.stale:
            self._collect()
        elif self.some_gone:    # a leaf may have come instead of a group
            self.parents, self.some_gone = KeySet(), False
        opens_group[0] = parent and not self.parents._has(path_hash(text, parent))
        if opens_group[0] and not self.keys.is_open(key, text, parent, self.parents, frames):
            return False
        return self.foreign.possible is False and not self._is_group(key, text, length)

    cdef bint _is_free(self, str key) except -1:
        """Whether no other key differs from a new one in case only; it is noted then."""
        cdef KnownNames names = self.names
        if names.folded is None:
            names.collect(self.contents)
        return False if names.suffixed or names.unchecked else names.take_key(key)

    cdef object _frame(self, cnp.ndarray value):
        """The byte range of the frame of a value; None for one that takes the slow path."""
        cdef RawKind kind = None
        cdef RawKinds kinds = self.kinds
        cdef tuple byte_range
        cdef bytes frame
        cdef Source source
        if kinds is not None and (self.kinds_serve if self.shared_room else kinds.serves()):
            kind = kinds.kind_of(value)
        if kind is None:
            if self.frame_of is None or cnp.PyArray_NBYTES(value) > SMALL or value.dtype.hasobject:
                return None
            return self.frame_of(value)
        if self.shared_room:
            byte_range = self._shared_frame(kind, value)
        else:
            frame = kind.frame(value)
            source = Source.of_buffer(frame)
            leave_alone(source)     # as the range that it is in
            byte_range = (source, 0, len(frame))
        if kind.range_class is None or kind.range_class.__base__ is not self.kind:
            # What all frames of a kind have in common is kept once, so that there is no dictionary for each.
            kind.range_class = type(self.kind.__name__, (self.kind,), {
                "suffix": _suffix, "description": kind.description, "__module__": self.kind.__module__})
        return b2_made(kind.range_class, (byte_range,))

    cdef tuple _shared_frame(self, RawKind kind, cnp.ndarray value):
        """The byte range of a frame in memory that it shares with those of other leaves: fewer objects for each."""
        cdef int64_t size = kind.size(), start = 0, room
        cdef bytes memory = self.shared
        cdef object source = self.shared_source
        if memory is None or size > self.shared_room - self.shared_used:
            room = self.shared_room if memory is None else min(2 * self.shared_room, MOST_SHARED)
            room = max(room, size)
            # Either may fail, or run the collector, and so anything. Nothing shows the new memory before both are made.
            memory = PyBytes_FromStringAndSize(NULL, room)
            source = Source.of_buffer(memory)
            self.shared, self.shared_source, self.shared_room, self.shared_used = memory, source, room, size
        else:
            start = self.shared_used
            self.shared_used += size    # its own from now on, whoever re-enters
        kind.write(<uint8_t *> PyBytes_AS_STRING(memory) + start, value)
        return source, start, size


@cython.final
cdef class LiveLeaves:
    """What a leaf of a store that is open for writing is looked for with; it refers to no store."""

    cdef SessionState session
    cdef PendingFrames pending
    cdef HeldLeaves leaves
    cdef Lock lock
    cdef object foreign

    def __cinit__(self, SessionState session not None, PendingFrames pending not None, HeldLeaves leaves not None,
                  Lock lock not None, foreign=None):
        self.session, self.pending, self.leaves, self.lock, self.foreign = session, pending, leaves, lock, foreign

    cdef bint has_foreign(self) except -1:
        """Whether objects of other packages are possible."""
        return self.foreign is not None and self.foreign.possible is not False

    cdef object change_of(self, dict frames, str key):
        """The pending change of a key: a byte range, None where the key is removed, this object where nothing changed."""
        return item_of(frames, key, self) if PyDict_Size(frames) else self


cdef Frame frame_of_change(change, str key):
    """The frame of a pending change; None where it takes more to open it, or the key is removed."""
    if change is None or type(change[0]) is not Source:
        return None
    source, offset, length = change
    return frame_at(source, offset, length, key)


cdef class LeafAccess:
    """The base class of stores: it answers without Python code if it can, and otherwise calls a method of the store.

    The store has the methods `_contains` (whether a key exists), `_open` (the leaf of a key), `_leaf_of` (the leaf of a
    frame, which it remembers), `_set` and `_delete` (which change a leaf), and `_sweep`, called when more than `_sweep_at`
    leaves are remembered.

    What it finds leaves by is replaced when another version is shown, or the store is closed, maybe by another thread: each
    method takes it once, and replaces it as a whole.
    """

    cdef KeyListing _listed
    cdef FolderTime _listed_while   # None where it answers as long as its version is shown
    cdef str _unseen
    cdef dict _alive, _remembered
    cdef readonly LeafReader _reader    # finds published leaves and reads them; None if there is none
    cdef LiveLeaves _live               # with it, if the store is open for writing
    cdef public LeafMaker _maker        # makes leaves; None before the first one
    cdef readonly Py_ssize_t _answers_version   # how often answers were forgotten: to be taken before others are made
    cdef public LeafSetter _setter      # sets simple leaves; None where nothing may be set, or in a view
    cdef int64_t _most_held         # how many references to leaves there may be before the dead ones are removed

    @property
    def _sweep_at(self):
        return number_get(&self._most_held)

    @_sweep_at.setter
    def _sweep_at(self, int64_t most):
        number_set(&self._most_held, most)

    cdef KeyListing _answering(self):
        """The listing that answers `key in store`; None if none does."""
        cdef KeyListing listed
        cdef FolderTime holds
        with cython.critical_section(self):
            listed, holds = self._listed, self._listed_while
        return listed if holds is None or (listed is not None and holds._holds()) else None

    @property
    def _has_listing(self):
        """Whether a listing answers `key in store`."""
        return self._answering() is not None

    @cython.critical_section
    def _use_listing(self, KeyListing listing not None, FolderTime holds, Py_ssize_t version):
        """Let a listing answer `key in store` from now on, unless another thread has forgotten answers since the version.

        `holds` tells how long; None for as long as the version is shown.
        """
        if version == self._answers_version:
            self._listed, self._listed_while = listing, holds

    @cython.final
    cdef object _remember(self, dict held, str key, leaf):
        leaf = hold(held, key, leaf)
        if PyDict_Size(held) > number_get(&self._most_held):
            self._sweep()
        return leaf

    @cython.critical_section
    def _use_open_leaves(self, dict held not None, str hidden, bint find=True):
        """Find open leaves in a dictionary of references by key from now on, and remember leaves there.

        Leaves whose last segment is `hidden` are not shown. If it is not None, groups are shown. Without `find` each
        leaf is asked for by `_open`.
        """
        self._unseen = hidden
        self._alive = held if find else None
        self._remembered = held

    @cython.critical_section
    def _use_reader(self, LeafReader reader, Py_ssize_t version, LiveLeaves live=None):
        """Let a reader, if there is one, find leaves from now on, with the same condition.

        `live` tells what has changed since, in a store that is open for writing.
        """
        if version == self._answers_version:
            self._reader, self._live = reader, live

    @cython.critical_section
    def _forget_answers(self):
        """Use no listing and no reader any more."""
        # Counted first: when one of them goes, another thread may set one of the version before.
        self._answers_version += 1
        self._listed = self._listed_while = None
        self._reader = None
        self._live = None

    def _contains(self, key):
        """Whether a key exists, if no listing knows it; each kind of store has its own."""
        raise NotImplementedError(key)

    @cython.final
    cdef int _told(self, key) except -2:
        """Whether a listing shows a key: 0 or 1; -1 where none can tell."""
        cdef KeyListing listed = self._answering()
        cdef str unseen
        with cython.critical_section(self):
            unseen = self._unseen
        return -1 if listed is None else listed.shows(key, unseen)

    def _listed_as(self, str key not None):
        """Whether a key exists, as a listing tells; None where none can."""
        cdef int shown = self._told(with_slash(key))
        return None if shown < 0 else shown != 0

    def __contains__(self, key):
        cdef int shown
        key = with_slash(key)
        shown = self._told(key)
        return shown != 0 if shown >= 0 else bool(self._contains(key))

    @property
    @cython.critical_section
    def _holding(self):
        """The dictionary in which open leaves are remembered.

        Take it before a leaf is opened. A refresh puts another one in its place, where a leaf of the old version is not found.
        """
        return self._remembered

    def _hold(self, str key not None, leaf, dict held not None):
        """Remember a leaf as long as somebody holds it. Returns the one that another thread has opened before."""
        return self._remember(held, key, leaf)

    def _open(self, key):
        """The leaf of a key, if it is not open and no reader opens it; each kind of store has its own."""
        raise NotImplementedError(key)

    def __getitem__(self, key):
        cdef dict held
        cdef LeafReader reader
        cdef LiveLeaves live
        cdef Frame frame
        cdef str unseen
        with cython.critical_section(self):
            held, reader, live, unseen = self._alive, self._reader, self._live, self._unseen
        if type(key) is not str or held is None:
            return self._open(with_slash(key))
        leaf = find(<PyObject *> held, key)
        if leaf is None:
            given, key = key, with_slash(key)
            if key is not given:
                leaf = find(<PyObject *> held, key)
        if leaf is not None and not is_named(key, unseen):
            return leaf
        if reader is None:
            return self._open(key)
        if live is not None:
            leaf = self._open_live(live, key)
            return self._open(key) if leaf is None else leaf
        frame = reader.frame_of(key)
        if frame is None:
            return self._open(key)
        handle = reader.maker.array_handle(frame, key)
        if handle is None:
            return self._leaf_of(key, frame, held)
        return self._remember(held, key, reader.maker.array_of(handle))

    @cython.final
    cdef object _open_live(self, LiveLeaves live, str key):
        """Open an array of a store that is open for writing; None for another leaf, or where that takes more."""
        cdef SessionState session = live.session
        cdef HeldLeaves leaves = live.leaves
        cdef LeafReader reader
        cdef dict frames, held, handles
        cdef Frame frame
        cdef int64_t begun
        live.lock.take()    # or another thread could give the key a leaf, and end before this one is held
        try:
            with cython.critical_section(self):
                reader = self._reader
            if (reader is None or not reader.shows(key) or state_get(&session.asks_) or session.depth
                    or live.has_foreign()):
                return None
            begun = session.count
            with cython.critical_section(live.pending):
                frames = live.pending.frames
            change = live.change_of(frames, key)
            frame = reader.frame_of(key) if change is live else frame_of_change(change, key)
            handle = None if frame is None else reader.maker.array_handle(frame, key)
            # A finalizer or a handler of a signal may have changed the store meanwhile.
            if handle is None or session.count != begun:
                return None
            with cython.critical_section(leaves):
                held, handles = leaves.held, leaves.handles
            if PyDict_Size(handles) and find(<PyObject *> handles, key) is not None:
                return None     # edits of it may wait
            return self._remember(held, key, reader.maker.array_of(handle))
        finally:
            live.lock.give_back()

    def _read_simple(self, key):
        """The items of a leaf in one native step; None for a leaf that has to be opened, or is not there."""
        cdef LeafReader reader
        cdef LeafSetter setter
        cdef LiveLeaves live
        cdef HeldLeaves leaves
        cdef dict frames, edited
        key = with_slash(key)
        with cython.critical_section(self):
            reader, live, setter = self._reader, self._live, self._setter
        if reader is None or type(key) is not str:
            return None
        if live is None:
            return reader.read(key)
        # All that may be replaced meanwhile, by a thread that has the lock. First what is pending: it is dropped after another
        # version is shown, so what is not found there is not older in the version taken then.
        with cython.critical_section(live.pending):
            frames = live.pending.frames
        with cython.critical_section(self):
            reader = self._reader
        if reader is None or not reader.shows(key) or state_get(&live.session.asks_) or live.has_foreign():
            return None
        # An edit becomes a pending change, so it is looked for before that.
        leaves = live.leaves
        with cython.critical_section(leaves):
            edited = leaves.edited
        if PyDict_Contains(edited, key) or PyDict_Contains(leaves.collecting, key):
            return None
        change = live.change_of(frames, key)
        if change is live:
            return reader.read(key)
        return None if setter is None else setter.read_pending(change)

    def _set(self, key, value):
        """Set a leaf that is not simple to set; each kind of store has its own."""
        raise NotImplementedError(key)

    def __setitem__(self, key, value):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._setter
        key = with_slash(key)
        if setter is None or not setter.set(key, value):
            self._set(key, value)

    def _delete(self, key):
        """Delete a leaf; each kind of store has its own."""
        raise NotImplementedError(key)

    def __delitem__(self, key):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._setter
        key = with_slash(key)
        if setter is None or not setter.remove(key):
            self._delete(key)


never_freed(LeafAccess)
