# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Weak references to objects by key, changed in steps that no other thread interrupts; and blocks that end.

Threads that open the same leaf at the same time get the same object. With a GIL there is no lock, which a forked child
could inherit locked: a step keeps the GIL, because it runs no Python code. Else it has one (steps.h), which few tables share.
"""

from cpython.dict cimport PyDict_DelItem, PyDict_SetItem
from cpython.ref cimport PyObject
from cpython.weakref cimport PyWeakref_NewRef
from libc.string cimport memset

from blosc2._core.io.forking import Lock, in_child

from blosc2._core.io.steps cimport step_begin, step_end, step_lock

cdef extern from *:
    """
    #include "io/steps.h"
    static inline PyObject *b2_alive(PyObject *reference) {
        PyObject *object = NULL;
        if (!PyWeakref_CheckRef(reference))
            return PyObject_CallNoArgs(reference);
    #if PY_VERSION_HEX >= 0x030D0000
        if (PyWeakref_GetRef(reference, &object) < 0)
            return NULL;
        if (object == NULL)
            object = Py_NewRef(Py_None);
    #else
        object = Py_NewRef(PyWeakref_GET_OBJECT(reference));
    #endif
        return object;
    }

    /* What a table refers to under a key; None where that is gone, or there is nothing. `*found` says which. */
    static inline PyObject *b2_alive_at(PyObject *table, PyObject *key, int *found) {
        PyObject *reference, *object;
        reference = item_of(table, key, Py_None);
        if (reference == NULL)
            return NULL;
        *found = reference != Py_None;
        object = *found ? b2_alive(reference) : Py_NewRef(Py_None);
        Py_DECREF(reference);
        return object;
    }
    """
    object b2_alive(object reference)
    object b2_alive_at(PyObject *table, PyObject *key, int *found)

cdef enum:
    TURNS = 16

cdef step_lock _turns[TURNS]


cdef inline step_lock *_turn_of(dict held) noexcept:
    return &_turns[<size_t> <PyObject *> held >> 6 & (TURNS - 1)]


def _free_turns():
    # Without a GIL a step here may wait for the lock of a dictionary, and Python may fork meanwhile. The thread that
    # forked is not in a step.
    memset(_turns, 0, sizeof(_turns))


in_child(_free_turns)


cdef object find(PyObject *held, str key):
    """The object of a key, None where that is gone or there is none. No reference to the table is counted."""
    cdef int there = 0
    return b2_alive_at(held, <PyObject *> key, &there)


cpdef object hold(dict held, str key, object leaf):
    """Remember an object under a key, unless another one of that key is alive; returns the one that it stands for."""
    cdef step_lock *turn = _turn_of(held)
    cdef int found = 0
    made = PyWeakref_NewRef(leaf, None)     # before the step, as that may run the collector, and so anything
    step_begin(turn)
    try:
        other = b2_alive_at(<PyObject *> held, <PyObject *> key, &found)
        if other is not None:
            return other
        PyDict_SetItem(held, key, made)
    finally:
        step_end(turn)
    return leaf


def sweep(dict held not None):
    """Forget references to objects that are gone."""
    cdef step_lock *turn = _turn_of(held)
    cdef int found = 0
    for key in [key for key, reference in held.copy().items() if reference() is None]:
        step_begin(turn)
        try:
            # Another thread may have opened it again, or removed it.
            other = b2_alive_at(<PyObject *> held, <PyObject *> key, &found)
            if other is None and found:
                PyDict_DelItem(held, key)
        finally:
            step_end(turn)
        other = None


cdef class Block:
    """A context manager that ends whatever interrupts it.

    What `_leave` of a subclass has begun when an interrupt (Ctrl-C) stops it is done again: it is told then that the
    block failed, and does nothing when all is done. It must not be a method of Python that is called by the ``with``
    statement itself, as an interrupt may come before its first line.
    """

    def __exit__(self, kind, error, traceback):
        try:
            self._leave(kind is not None)
        except BaseException:
            self._leave(True)
            raise


cdef class OuterBlock:
    """A context manager that its thread may enter again: the first entry begins something, the last exit ends it.

    Other threads wait. A subclass has some of the methods `_begin`, `_end` (which is told whether the block failed), and
    `_clean_up`, which is called if one of these raised, or was interrupted (Ctrl-C), and does what is left to be done;
    `_enter` and `_leave` are called at each entry and exit. Between these calls no interrupt comes, as the steps here are
    no Python code.
    """

    def _begin(self):
        """Begin."""

    def _end(self, failed):
        """End."""

    def _clean_up(self):
        """What `_begin` or `_end` has not done."""

    def _enter(self):
        """An entry, also a further one."""

    def _leave(self):
        """An exit."""

    cdef object lock
    cdef readonly Py_ssize_t depth      # how often the thread that is in it has entered it

    def __cinit__(self, *given, **more):
        self.lock = Lock()

    def __enter__(self):
        self.hold()
        try:
            self._enter()
        except BaseException:
            self.let_go(True)
            raise

    def __exit__(self, kind, error, traceback):
        failed = kind is not None
        try:
            self._leave()
        except BaseException:
            failed = True
            raise
        finally:
            self.let_go(failed)

    @property
    def threads(self):
        """The lock that it has for other threads, to be taken where nothing begins: then none of them is in it."""
        return self.lock

    def hold(self):
        """Begin, or go in once more, without `_enter`."""
        self.lock.__enter__()
        try:
            if self.depth == 0:
                try:
                    self._begin()
                except BaseException:
                    self._clean_up()
                    raise
            self.depth += 1
        except BaseException:
            self.lock.__exit__(None, None, None)
            raise

    def let_go(self, bint failed):
        """End what `hold` has begun."""
        try:
            if self.depth == 1:
                try:
                    self._end(failed)
                except BaseException:
                    self._clean_up()
                    raise
        finally:
            self.depth -= 1
            self.lock.__exit__(None, None, None)

    def _renew(self):
        """In a forked child: be free, unless the thread that forked was in it; whether another one was."""
        lost = self.lock.renew()
        if lost:
            self.depth = 0
        return lost


cdef class Hold:
    """One entry of an `OuterBlock` by its `hold`. It ends once, also if that is asked for again after an interrupt."""

    cdef OuterBlock block
    cdef bint is_held

    def __cinit__(self, OuterBlock block not None):
        self.block = block

    def begin(self):
        self.block.hold()
        self.is_held = True

    def let_go(self, bint failed):
        if self.is_held:
            self.is_held = False
            self.block.let_go(failed)
