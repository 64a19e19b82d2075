# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Classes and functions that many threads use at the same time without a GIL."""

cdef extern from "io/steps.h":
    void never_count(object item)


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
