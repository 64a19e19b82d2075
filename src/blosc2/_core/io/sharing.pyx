# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""What threads share without a GIL, what a forked child replaces, and blocks that end whatever interrupts them.

Only the thread that forked lives on in a child: nobody releases the locks of the others. So locks are of the class
`Lock`, and everything else that holds locks, threads or descriptors which a child must not use registers with `in_child`
what is to be done. What the GIL guards needs neither: the thread that forks has the GIL, so no other thread is in the
middle of a step. Without a GIL the same holds of steps (steps.h).
"""

import os
import sys
import weakref
from _thread import RLock  # `threading` has the same, and takes longer to import
from functools import update_wrapper

cimport cython
from cpython.dict cimport PyDict_DelItem, PyDict_SetItem, PyDict_Size
from cpython.ref cimport PyObject
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdlib cimport getenv
from libc.string cimport memset

from blosc2._core.io.steps cimport free_lock_of, item_of as _item_of, never_count, step_begin, step_end, step_lock

# Goes up by one in each child.
cdef long _generation = 0
# Of each generation, the process: that of the parent is not to be had any more when it has ended.
_processes = [os.getpid()]
_renewals = []
_preparations = []
_continuations = []
_files = weakref.WeakSet()


cdef extern from *:
    """
    #include "io/steps.h"
    /* Of this thread: how often it has locks of the class below, and whether it collects garbage. */
    static B2_OF_THREAD long b2_locks;
    static B2_OF_THREAD int b2_is_collecting;
    """
    long b2_locks
    int b2_is_collecting


def note_collection(phase, info):
    """For `gc.callbacks`: a collection begins or ends in this thread."""
    global b2_is_collecting
    b2_is_collecting = phase == "start"


def is_collecting():
    """Whether this thread collects garbage, and so may be in the middle of anything; if `note_collection` is told."""
    return b2_is_collecting != 0


def has_locks():
    """Whether this thread has a lock of ours."""
    return b2_locks != 0


cdef class Lock:
    """A lock that one thread has at a time and may take again, like `threading.RLock`.

    In a forked child it is free, unless the thread that forked had it: that one goes on, and gives it back in the end.
    """

    def __cinit__(self):
        self.generation = _generation

    cdef int take(self) except -1:
        """What `__enter__` does."""
        global b2_locks
        self.current().acquire()
        b2_locks += 1
        # From here on it is this thread's, and so are the fields that say so.
        if self.depth == 0:
            self.taken = _generation
        self.depth += 1
        return 0

    cdef int give_back(self) except -1:
        """What `__exit__` does."""
        global b2_locks
        self.depth -= 1
        self.lock.release()     # nobody replaces it as long as it is held
        b2_locks -= 1
        return 0

    def __enter__(self):
        self.take()

    def __exit__(self, kind, error, traceback):
        self.give_back()

    @cython.critical_section
    cdef object current(self):
        """The lock of this process."""
        if self.lock is None or self.generation != _generation:
            self._renew()
        return self.lock

    @cython.critical_section
    def renew(self):
        """Be free, if a thread has it that stayed with the parent; whether one had."""
        return self._renew()

    cdef bint _renew(self) except -1:
        cdef bint lost = False
        try:
            fresh = RLock()     # which may run the collector, and so anything: before the steps
        except RuntimeError as error:   # which is how Python says it
            raise MemoryError("no memory for a lock") from error
        if self.lock is None:
            self.lock = fresh
        elif self.generation != _generation:
            if self.lock.acquire(blocking=False):   # nobody has it, or this thread
                self.lock.release()
            else:
                self.lock = fresh
                self.depth = 0
                lost = True
        self.generation = _generation
        return lost

    def now(self):
        """A context that has the lock unless another thread has it; it gives whether it has it."""
        return _Now(self)

    cdef bint _take_now(self) except -1:
        global b2_locks
        if not self.current().acquire(blocking=False):
            return False
        b2_locks += 1
        if self.depth == 0:
            self.taken = _generation
        self.depth += 1
        return True

    @property
    def is_own(self):
        """Whether the thread that asks has it."""
        return self.current()._is_owned()

    @property
    def inherited(self):
        """Whether the thread that asks took it in the process of which this one is a fork."""
        self.current()
        return self.depth > 0 and self.taken != _generation

    @property
    def is_elsewhere(self):
        """Whether another thread has it just now."""
        self.current()
        lock = self.lock
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True

    @property
    def holder(self):
        """The process in which it was taken last."""
        return _processes[self.taken]


cdef class _Now:
    """See `Lock.now`."""

    cdef Lock lock
    cdef bint is_taken, was_hurried

    def __cinit__(self, Lock lock not None):
        self.lock = lock

    def __enter__(self):
        self.is_taken = self.lock._take_now()
        if self.is_taken:
            self.was_hurried, self.lock.is_hurried = self.lock.is_hurried, True
        return self.is_taken

    def __exit__(self, kind, error, traceback):
        if self.is_taken:
            self.is_taken = False
            self.lock.is_hurried = self.was_hurried
            self.lock.__exit__(None, None, None)


def in_child(renewal):
    """Have something done in each forked child, before it goes on."""
    _renewals.append(renewal)


def before_fork(preparation, afterwards=None):
    """Have something done in this process each time before it forks, so that no child has to do it; and afterwards."""
    _preparations.append(preparation)
    if afterwards is not None:
        _continuations.append(afterwards)


def keep_from_child(file):
    """Have what is open for writing lead nowhere in a forked child, whatever is done with it there; returns it."""
    _files.add(file)
    return file


def _lead_nowhere():
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
    for file in list(_files):
        try:
            descriptor = file.fileno()
        except ValueError:
            continue
        try:
            os.close(descriptor)    # first: there may be no other one left
        except OSError:             # which closes it all the same
            pass
        try:
            nowhere = os.open(os.devnull, flags)
        except OSError:             # nothing can be written to this either
            nowhere = os.open(os.sep, os.O_RDONLY)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor, inheritable=False)
            os.close(nowhere)


def each(function, items):
    """Call a function for each of some items, whatever it raises for one of them."""
    for item in items:
        try:
            function(item)
        except BaseException:   # the others count all the same
            sys.excepthook(*sys.exc_info())


def environment_has(bytes name not None):
    """Whether the process has a variable that is not empty. `os.environ` takes ten times as long to tell."""
    cdef const char *value = getenv(name)
    return value != NULL and value[0] != 0


def _prepare():
    each(_call, list(_preparations))


def _go_on():
    each(_call, _continuations)


def _begin_child():
    global _generation
    _generation += 1
    _processes.append(os.getpid())
    each(_call, _renewals)


def _call(function):
    function()


in_child(_lead_nowhere)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_begin_child)



def item_of(table, key, default=None):
    """What `table.get(key, default)` gives of a dictionary that other threads ask, too, without waiting for its lock.

    Without a GIL `get` takes that lock, which a child that is forked meanwhile may find taken: see threads.md.
    """
    return _item_of(table, key, default)


cdef list _shared = []


def free_in_child(table):
    """Have the lock of a dictionary of a module free in each forked child; returns it.

    For tables that change, or are copied or compared: what `item_of` does not do without the lock. See threads.md.
    """
    _shared.append(table)
    return table


def free_lock(table):
    """Free the locks of a dictionary that comes and goes, and of lists in it, in a forked child: see `in_child`."""
    free_lock_of(table)
    for item in table.values():
        if type(item) is list:
            free_lock_of(item)


def _free_tables():
    for table in _shared:
        free_lock(table)


in_child(_free_tables)

cdef object _missing = object()


cdef class _Remembering:
    """A function whose results are remembered."""

    cdef dict results
    cdef object function
    cdef dict __dict__
    cdef Py_ssize_t most

    def __call__(self, *given):
        found = _item_of(self.results, given, _missing)
        if found is _missing:
            found = self.function(*given)
            if PyDict_Size(self.results) >= self.most:
                self.results.clear()
            self.results[given] = found
        return found


def remembered(Py_ssize_t most):
    """Have a function return what it returned for equal arguments before, of up to so many; as `functools.lru_cache` does.

    That one has a lock without a GIL, which a forked child may find taken. Here two threads may call the function with the
    same arguments at the same time. Arguments are given by position, and all are forgotten when there are too many. What
    `lru_cache` calls `typed` has to be an argument: the type.
    """
    def remember(function):
        cdef _Remembering made = _Remembering.__new__(_Remembering)
        made.results, made.function, made.most = free_in_child({}), function, most
        return update_wrapper(made, function)
    return remember


def never_freed(item):
    """Have no references to a class or a function counted from now on, nor to what a class defines; returns it.

    For what is there as long as the process: threads without a GIL count references to it in the same memory, which takes
    longer than most of what they do. Elsewhere this does nothing.
    """
    if isinstance(item, type):
        for part in list(vars(item).values()):
            never_count(part)
    never_count(item)
    return item


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
