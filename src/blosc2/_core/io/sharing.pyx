# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Classes and functions that many threads use at the same time without a GIL."""

from blosc2._core.io.steps cimport item_of as _item_of

cdef extern from "io/steps.h":
    void never_count(object item)


def item_of(table, key):
    """What `table.get(key)` gives of a dictionary that other threads ask, too, without waiting for its lock.

    Without a GIL `get` takes that lock, which a child that is forked meanwhile may find taken: see threads.md.
    """
    return _item_of(table, key, None)


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
