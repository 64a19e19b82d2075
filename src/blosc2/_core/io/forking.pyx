# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""What a forked child replaces. Only the thread that forked lives on in it: nobody releases the locks of the others.

This module knows all that holds locks, threads or descriptors which a child must not use: locks are of the class `Lock`,
and everything else registers with `in_child` what is to be done. What the GIL guards needs neither: the thread that
forks has the GIL, so no other thread is in the middle of a step. Without a GIL the same holds of steps (steps.h).
"""

import os
import sys
import weakref
from _thread import RLock  # `threading` has the same, and takes longer to import

cimport cython

from libc.stdlib cimport getenv

# Goes up by one in each child.
cdef long _generation = 0
# Of each generation, the process: that of the parent is not to be had any more when it has ended.
_processes = [os.getpid()]
_renewals = []
_preparations = []
_files = weakref.WeakSet()


cdef class Lock:
    """A lock that one thread has at a time and may take again, like `threading.RLock`.

    In a forked child it is free, unless the thread that forked had it: that one goes on, and gives it back in the end.
    """

    cdef object lock        # made when first needed: most are never taken
    cdef long generation    # in which `lock` was made or looked at
    cdef long taken         # the generation in which it was taken
    cdef long depth         # how often its thread has it

    def __cinit__(self):
        self.generation = _generation

    def __enter__(self):
        self.current().acquire()
        # From here on it is this thread's, and so are the fields that say so.
        if self.depth == 0:
            self.taken = _generation
        self.depth += 1

    def __exit__(self, kind, error, traceback):
        self.depth -= 1
        self.lock.release()     # nobody replaces it as long as it is held

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

    @property
    def inherited(self):
        """Whether the thread that asks took it in the process of which this one is a fork."""
        self.current()
        return self.depth > 0 and self.taken != _generation

    @property
    def holder(self):
        """The process in which it was taken last."""
        return _processes[self.taken]


def in_child(renewal):
    """Have something done in each forked child, before it goes on."""
    _renewals.append(renewal)


def before_fork(preparation):
    """Have something done in this process each time before it forks, so that no child has to do it."""
    _preparations.append(preparation)


def keep_from_child(file):
    """Have what is open for writing lead nowhere in a forked child, whatever is done with it there; returns it.

    Parameters
    ----------
    file : object
        It has a descriptor, as `fileno` tells, which raises ValueError when that is closed.
    """
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


def _begin_child():
    global _generation
    _generation += 1
    _processes.append(os.getpid())
    each(_call, _renewals)


def _call(function):
    function()


in_child(_lead_nowhere)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_child=_begin_child)
