/* Steps of one thread at a time.
 *
 * With a GIL, whoever has it is alone, and a step is whatever runs no Python code and does not leave the GIL: a lock costs
 * nothing there. Free-threaded Python has no such guard, and a step takes a lock. It is a PyMutex, which takes no memory
 * to make, and is free in a forked child, because Python stops all other threads at the end of their steps before it forks.
 * A step must not run Python code, nor take another lock of this kind. One that waits for another lock, such as that of a
 * dictionary, may be stopped there: then the child has to free its lock (weak_cache.pyx,
 * store_state.pyx). */
#ifndef B2_STEPS_H
#define B2_STEPS_H
#include <Python.h>

#include "atomics.h"

#ifdef Py_GIL_DISABLED
typedef PyMutex step_lock;
B2_INLINE void step_begin(step_lock *lock) { PyMutex_Lock(lock); }
B2_INLINE void step_end(step_lock *lock) { PyMutex_Unlock(lock); }
#else
typedef char step_lock;
B2_INLINE void step_begin(step_lock *lock) { (void)lock; }
B2_INLINE void step_end(step_lock *lock) { (void)lock; }
#endif

/* A static variable of which each thread has its own. */
#ifdef _MSC_VER
#define B2_OF_THREAD __declspec(thread)
#else
#define B2_OF_THREAD _Thread_local
#endif

/* `table.get(key, otherwise)` of a dictionary that other threads change or ask, too. That of Cython borrows the item from the
 * dictionary for a moment, and another thread may replace and free it just then. That of Python waits for the lock of the
 * dictionary without a GIL, which a forked child may find taken. */
B2_INLINE PyObject *item_of(PyObject *table, PyObject *key, PyObject *otherwise) {
    PyObject *item;
#if PY_VERSION_HEX >= 0x030D0000
    int found = PyDict_GetItemRef(table, key, &item);
    if (found) return found < 0 ? NULL : item;
#else
    item = PyDict_GetItemWithError(table, key);
    if (item != NULL) return Py_NewRef(item);
    if (PyErr_Occurred()) return NULL;
#endif
    return Py_NewRef(otherwise);
}

/* In a forked child: free the lock of an object that no thread is at work on. Without a GIL, Python stops other threads before it
 * forks, which leave such locks then; but one that waited for long is given the lock while it sleeps. */
B2_INLINE void free_lock_of(PyObject *object) {
#ifdef Py_GIL_DISABLED
    object->ob_mutex = (PyMutex){0};
#else
    (void)object;
#endif
}

/* References to objects that several threads use are counted in memory that their processors write to in turn. Free-threaded
 * Python 3.13 does so for each function and attribute that is looked up. */
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX < 0x030E0000
/* For what is there as long as the process: so large a count is one that Python takes for "never freed". */
B2_INLINE void never_count(PyObject *item) {
    if (_Py_IsOwnedByCurrentThread(item)) Py_SET_REFCNT(item, PY_SSIZE_T_MAX);
}
#else
B2_INLINE void never_count(PyObject *item) { (void)item; }
#endif

/* Publish what a thread has made, unless another one was faster: then it stays its own, and is to be freed. A step. */
B2_INLINE void publish_once(void *address, void *own) {
    if (address_get(address)) return;
    address_set(address, *(void **)own);
    *(void **)own = NULL;
}
#endif
