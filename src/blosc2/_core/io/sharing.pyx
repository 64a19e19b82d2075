# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Classes and functions that many threads use at the same time without a GIL."""

from functools import update_wrapper

from cpython.dict cimport PyDict_Size

from blosc2._core.io.steps cimport item_of as _item_of

from blosc2._core.io.forking import in_child

cdef extern from "io/steps.h":
    void never_count(object item)
    void free_lock_of(object item)


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


def _begin_child():
    for table in _shared:
        free_lock(table)


in_child(_begin_child)

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
