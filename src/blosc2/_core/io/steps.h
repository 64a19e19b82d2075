/* Steps of one thread at a time.
 *
 * With a GIL, whoever has it is alone, and a step is whatever runs no Python code and does not leave the GIL: a lock costs
 * nothing there. Free-threaded Python has no such guard, and a step takes a lock. It is a PyMutex, which takes no memory
 * to make, and is free in a forked child, because Python stops all other threads at the end of their steps before it forks.
 * A step must not run Python code, nor take another lock of this kind. One that waits for another lock, such as that of a
 * dictionary, may be stopped there: then the child has to free its lock (sharing.pyx, store_state.pyx). */
#ifndef B2_STEPS_H
#define B2_STEPS_H
#include <Python.h>

/* The few atomic operations that threads need. A number orders nothing else: it is whole, and that is all. A flag or an
 * address is set after all that it stands for: whoever sees it sees that, too. */
#include <stdint.h>
#ifdef _MSC_VER
#include <intrin.h>
#define B2_INLINE static __inline
typedef volatile long atomic_state;
static __inline int64_t counter_next(int64_t *counter) { return _InterlockedExchangeAdd64(counter, 1); }
static __inline void counter_back(int64_t *counter) { _InterlockedExchangeAdd64(counter, -1); }
static __inline long state_get(atomic_state *state) { return _InterlockedOr(state, 0); }
static __inline void state_set(atomic_state *state, long value) { _InterlockedExchange(state, value); }
static __inline int state_change(atomic_state *state, long from, long to) {
    return _InterlockedCompareExchange(state, to, from) == from;
}
#ifdef _WIN64
/* Windows promises that 64 bits are read and written in one piece there. Threads that look at a number again and again, as
 * before each part that they read, then do not take its cache line from each other. */
static __inline int64_t number_get(int64_t *number) { return *(volatile int64_t *)number; }
static __inline void number_set(int64_t *number, int64_t value) { *(volatile int64_t *)number = value; }
#else
static __inline int64_t number_get(int64_t *number) { return _InterlockedCompareExchange64(number, 0, 0); }
static __inline void number_set(int64_t *number, int64_t value) {
    int64_t before = *(volatile int64_t *)number, found;
    while ((found = _InterlockedCompareExchange64(number, value, before)) != before) before = found;
}
#endif
static __inline int flag_get(uint8_t *flag) { return _InterlockedOr8((char *)flag, 0); }
static __inline void flag_set(uint8_t *flag) { _InterlockedExchange8((char *)flag, 1); }
static __inline void *address_get(void *address) { return _InterlockedCompareExchangePointer((void *volatile *)address, 0, 0); }
static __inline void address_set(void *address, const void *value) {
    _InterlockedExchangePointer((void *volatile *)address, (void *)value);
}
#else
#define B2_INLINE static inline
typedef long atomic_state;
/* A counter that threads draw their next piece of work from. */
static inline int64_t counter_next(int64_t *counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
/* One that was drawn is not needed after all. */
static inline void counter_back(int64_t *counter) { __atomic_fetch_sub(counter, 1, __ATOMIC_RELAXED); }
static inline long state_get(atomic_state *state) { return __atomic_load_n(state, __ATOMIC_ACQUIRE); }
static inline void state_set(atomic_state *state, long value) { __atomic_store_n(state, value, __ATOMIC_RELEASE); }
/* Whether the state was `from`, and is `to` now. */
static inline int state_change(atomic_state *state, long from, long to) {
    return __atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static inline int64_t number_get(int64_t *number) { return __atomic_load_n(number, __ATOMIC_RELAXED); }
static inline void number_set(int64_t *number, int64_t value) { __atomic_store_n(number, value, __ATOMIC_RELAXED); }
static inline int flag_get(uint8_t *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static inline void flag_set(uint8_t *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }
/* Of a variable that has an address, of whatever kind. */
static inline void *address_get(void *address) { return __atomic_load_n((void **)address, __ATOMIC_ACQUIRE); }
static inline void address_set(void *address, const void *value) {
    __atomic_store_n((void **)address, (void *)value, __ATOMIC_RELEASE);
}
#endif

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
