# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The fast answers of a store: whether a key exists, and a leaf that is already open or simple to open."""

cimport cython
from cpython.dict cimport PyDict_Size
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from blosc2._core.frame.frame cimport Frame
from blosc2._core.leaves.weak_cache cimport find, hold
from blosc2._core.io.steps cimport (
    PLACE_BYTES, PLACES, address_get, bring_count, number_get, number_set, own_place, publish_once, step_begin, step_end,
    step_lock)
from blosc2._core.leaves.leaf_reader cimport LeafReader
from blosc2._core.leaves.leaf_setter cimport LeafSetter
from blosc2._core.keys.listing cimport KeyListing
from blosc2._core.keys.membership cimport is_named

from blosc2._core.io.sharing import never_freed


cdef extern from *:
    """
    /* Whether the caller has the only reference to an object, to which nobody has a weak one. */
    static inline int b2_is_only(PyObject *object) {
    #if PY_VERSION_HEX >= 0x030E0000
        return PyUnstable_Object_IsUniquelyReferenced(object);
    #elif defined(Py_GIL_DISABLED)
        return _Py_IsOwnedByCurrentThread(object) && _Py_atomic_load_uint32_relaxed(&object->ob_ref_local) == 1
            && _Py_atomic_load_ssize_relaxed(&object->ob_ref_shared) == 0;
    #else
        return Py_REFCNT(object) == 1;
    #endif
    }
    """
    bint b2_is_only(PyObject *object)

cdef extern from "io/ascii_text.h":
    object with_slash(object key)

cdef extern from "Python.h":
    int PyUnicode_Compare(PyObject *one, PyObject *other)


cdef class _Answers:
    """What one thread finds leaves by, without a GIL: as the store has it, with a reader of its own."""

    cdef dict alive
    cdef LeafReader leaves
    cdef KeyListing listed
    cdef str unseen
    # The small leaf that was opened here last, and its key. It is remembered if somebody still holds it when the next one
    # is opened: for the others, no thread waits for memory that another one writes to. Changed in steps of the place.
    cdef PyObject *key
    cdef PyObject *leaf
    cdef int64_t opened     # how many there were

    def __dealloc__(self):
        Py_XDECREF(self.key)
        Py_XDECREF(self.leaf)


cdef enum:
    # References that may be dead, and leaves after which they are looked through although none is added.
    LOOKED_AFTER = 1024

cdef struct AnswerPlace:
    step_lock turn
    PyObject *answers       # NULL until made, and where they hold no more
    char apart[PLACE_BYTES]


cdef class LeafLookup:
    """The base class of stores: it answers without Python code if it can, and otherwise calls a method of the store.

    The store has the methods `_contains` (whether a key exists), `_open` (the leaf of a key), `_leaf_of` (the leaf of a
    frame, which it remembers), `_set` and `_delete` (which change a leaf), and `_sweep`, called when more than `_sweep_at`
    leaves are remembered.

    What it finds leaves by is replaced when another version is shown, or the store is closed, maybe by another thread: each
    method takes it once, and replaces it as a whole. Without a GIL, a thread that opens leaves has its own copy of it, at
    its place: else threads would wait for the memory in which references to these objects are counted.
    """

    cdef KeyListing _listed
    cdef str _unseen
    cdef dict _alive, _remembered
    cdef LeafReader _leaves
    cdef Py_ssize_t _forgotten          # how often both were
    cdef AnswerPlace *_places           # NULL until needed, and with a GIL
    cdef int64_t _changes               # of what the copies are made from
    cdef LeafSetter _sets           # sets simple leaves; None where nothing may be set, or in a view
    cdef int64_t _most_held         # how many references to leaves there may be before the dead ones are removed

    def __dealloc__(self):
        cdef int i
        if self._places != NULL:
            for i in range(PLACES):
                Py_XDECREF(self._places[i].answers)
            free(self._places)

    @property
    def _sweep_at(self):
        return number_get(&self._most_held)

    @_sweep_at.setter
    def _sweep_at(self, int64_t most):
        number_set(&self._most_held, most)

    @property
    @cython.critical_section
    def _setter(self):
        """What sets simple leaves; None where nothing may be set, or in a view."""
        return self._sets

    @_setter.setter
    @cython.critical_section
    def _setter(self, LeafSetter setter):
        self._sets = setter

    @property
    @cython.critical_section
    def _has_listing(self):
        """Whether a listing answers `key in store`."""
        return self._listed is not None

    @property
    def _reader(self):
        """The reader that opens leaves and reads them; None if there is none. Without a GIL, the thread's own."""
        return self._leaves if PLACES == 1 else self._own_answers(self._own_place()).leaves

    @cython.critical_section
    def _use_listing(self, KeyListing listing not None, Py_ssize_t version):
        """Let a listing answer `key in store` from now on, unless another thread has forgotten answers since the version."""
        if version == self._forgotten:
            self._listed = listing
            self._change()

    @cython.final
    cdef void _change(self) noexcept:
        """Have threads make their copies anew; called after what they are made from has changed."""
        cdef AnswerPlace *places = <AnswerPlace *> address_get(&self._places)
        cdef int i
        if PLACES == 1:
            return
        number_set(&self._changes, number_get(&self._changes) + 1)
        if places != NULL:
            for i in range(PLACES):
                self._drop(&places[i])

    @cython.final
    cdef void _drop(self, AnswerPlace *place) noexcept:
        cdef PyObject *old
        step_begin(&place.turn)
        old, place.answers = place.answers, NULL
        step_end(&place.turn)
        Py_XDECREF(old)

    # Here and below: who calls a method that may be overridden reads the head of the store, where references are counted.
    @cython.final
    cdef AnswerPlace *_own_place(self) except NULL:
        """The place of this thread."""
        cdef AnswerPlace *places = <AnswerPlace *> address_get(&self._places)
        if places == NULL:
            places = <AnswerPlace *> calloc(PLACES, sizeof(AnswerPlace))
            if places == NULL:
                raise MemoryError
            with cython.critical_section(self):
                publish_once(&self._places, &places)
            free(places)    # if another thread was faster
            places = <AnswerPlace *> address_get(&self._places)
        return &places[own_place()]

    @cython.final
    cdef _Answers _own_answers(self, AnswerPlace *place):
        """What this thread finds leaves by; made anew if something has changed."""
        cdef _Answers answers = None
        cdef LeafReader reader
        cdef PyObject *old
        cdef int64_t changes
        step_begin(&place.turn)
        if place.answers != NULL:
            answers = <_Answers> place.answers
        step_end(&place.turn)
        if answers is not None:
            return answers
        answers = _Answers.__new__(_Answers)
        with cython.critical_section(self):
            changes = number_get(&self._changes)
            answers.alive, answers.leaves, answers.listed, answers.unseen = (
                self._alive, self._leaves, self._listed, self._unseen)
        reader = answers.leaves
        if reader is not None:
            answers.leaves = reader.copy()
            if answers.leaves.source is not reader.source:
                answers.leaves.source.counted = <PyObject *> self
        # Who changes it counts first, and empties the places then: either it finds this one, or this sees the count.
        step_begin(&place.turn)
        old = NULL
        if number_get(&self._changes) == changes:
            Py_INCREF(answers)
            old, place.answers = place.answers, <PyObject *> answers
        step_end(&place.turn)
        Py_XDECREF(old)
        return answers

    @cython.final
    cdef object _find_or_open(self, key):
        """What `__getitem__` gives without a GIL."""
        cdef AnswerPlace *place = self._own_place()
        cdef PyObject *before
        cdef PyObject *before_key
        cdef _Answers answers
        cdef bint small = False
        answers = self._own_answers(place)
        if type(key) is not str or answers.alive is None:
            return self._open(key)
        leaf = None
        step_begin(&place.turn)
        if answers.key != NULL and PyUnicode_Compare(answers.key, <PyObject *> key) == 0:
            leaf = <object> answers.leaf
        step_end(&place.turn)
        if leaf is not None:
            return leaf
        leaf = find(<PyObject *> answers.alive, key)
        if leaf is not None and not is_named(key, answers.unseen):
            return leaf
        if answers.leaves is None:
            return self._open(key)
        leaf = answers.leaves.open(key, &small)
        if leaf is None:
            return self._open(key)
        if type(leaf) is Frame:
            leaf, small = self._leaf_of(key, leaf, answers.alive), False
        elif not small:
            leaf = self._remember(answers.alive, key, leaf)
        if small:
            Py_INCREF(key)
            Py_INCREF(leaf)
        step_begin(&place.turn)
        before_key, before = answers.key, answers.leaf
        answers.key, answers.leaf = <PyObject *> key if small else NULL, <PyObject *> leaf if small else NULL
        step_end(&place.turn)
        bring_count(<PyObject *> self)      # now, as what follows takes as long as that
        if before != NULL:
            self._let_go(answers, before_key, before)
        return leaf

    @cython.final
    cdef int _let_go(self, _Answers answers, PyObject *key_, PyObject *leaf_) except -1:
        """Remember the leaf that was opened before, if somebody holds it."""
        cdef bint held = not b2_is_only(leaf_)
        key, leaf = <object> key_, <object> leaf_
        Py_DECREF(key)
        Py_DECREF(leaf)
        number_set(&answers.opened, number_get(&answers.opened) + 1)
        if held:
            self._remember(answers.alive, key, leaf)
        elif number_get(&answers.opened) % LOOKED_AFTER == 0 and PyDict_Size(answers.alive) > LOOKED_AFTER:
            self._sweep()   # others may have gone, and nothing was added since
        return 0

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
        self._change()

    @cython.critical_section
    def _use_reader(self, LeafReader reader not None, Py_ssize_t version):
        """Let a reader open leaves from now on, with the same condition."""
        if version == self._forgotten:
            self._leaves = reader
            self._change()

    @cython.critical_section
    def _forget_answers(self):
        """Use no listing and no reader any more."""
        # Counted first: when one of them goes, another thread may come in between, with one of the version before.
        self._forgotten += 1
        self._listed = None
        self._leaves = None
        self._change()

    @property
    @cython.critical_section
    def _answers_version(self):
        """How often answers were forgotten: to be taken before others are made."""
        return self._forgotten

    def _contains(self, key):
        """Whether a key exists, if no listing knows it; each kind of store has its own."""
        raise NotImplementedError(key)

    def __contains__(self, key):
        cdef int shown = -1
        cdef _Answers answers
        cdef KeyListing listed
        key = with_slash(key)
        if PLACES > 1:
            answers = self._own_answers(self._own_place())
            if answers.listed is not None:
                shown = answers.listed.shows(key, answers.unseen)
        else:
            listed = self._listed
            if listed is not None:
                shown = listed.shows(key, self._unseen)
        if shown >= 0:
            return shown != 0
        return bool(self._contains(key))

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
        cdef str unseen
        cdef bint small
        key = with_slash(key)
        if PLACES > 1:
            return self._find_or_open(key)
        with cython.critical_section(self):
            held, reader, unseen = self._alive, self._leaves, self._unseen
        if type(key) is not str or held is None:
            return self._open(key)
        leaf = find(<PyObject *> held, key)
        if leaf is not None and not is_named(key, unseen):
            return leaf
        if reader is None:
            return self._open(key)
        leaf = reader.open(key, &small)
        if leaf is None:
            return self._open(key)
        if type(leaf) is Frame:
            return self._leaf_of(key, leaf, held)
        return self._remember(held, key, leaf)

    def _read_simple(self, key):
        """The items of a leaf in one native step; None for a leaf that has to be opened, or is not there."""
        cdef LeafReader reader
        cdef LeafSetter setter
        found = None
        key = with_slash(key)
        if PLACES > 1:
            reader = self._own_answers(self._own_place()).leaves
        else:
            reader = self._leaves
        if reader is not None:
            found = reader.read(key)
        if found is None:
            with cython.critical_section(self):
                setter = self._sets
            if setter is not None:
                found = setter.read(key)
        return found

    def _set(self, key, value):
        """Set a leaf that is not simple to set; each kind of store has its own."""
        raise NotImplementedError(key)

    def __setitem__(self, key, value):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._sets
        key = with_slash(key)
        if setter is None or not setter.set(key, value):
            self._set(key, value)

    def _delete(self, key):
        """Delete a leaf; each kind of store has its own."""
        raise NotImplementedError(key)

    def __delitem__(self, key):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._sets
        key = with_slash(key)
        if setter is None or not setter.remove(key):
            self._delete(key)


never_freed(LeafLookup)
