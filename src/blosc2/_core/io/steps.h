/* Steps of one thread at a time.
 *
 * With a GIL, whoever has it is alone, and a step is whatever runs no Python code and does not leave the GIL: a lock costs
 * nothing there. Free-threaded Python has no such guard, and a step takes a lock. It is a PyMutex, which takes no memory
 * to make, and is free in a forked child, because Python stops all other threads at the end of their steps before it forks.
 * A step must not run Python code, nor take another lock of this kind. */
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

/* Publish what a thread has made, unless another one was faster: then it stays its own, and is to be freed. A step. */
B2_INLINE void publish_once(void *address, void *own) {
    if (address_get(address)) return;
    address_set(address, *(void **)own);
    *(void **)own = NULL;
}
#endif
