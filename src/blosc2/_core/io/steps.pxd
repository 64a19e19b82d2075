# What keeps threads apart that have no GIL: see steps.h.
from libc.stdint cimport int64_t, uint8_t

cdef extern from "io/steps.h" nogil:
    ctypedef long atomic_state
    int64_t counter_next(int64_t *counter)
    long state_get(atomic_state *state)
    void state_set(atomic_state *state, long value)
    bint state_change(atomic_state *state, long before, long after)
    int64_t number_get(int64_t *number)
    void number_set(int64_t *number, int64_t value)
    bint flag_get(uint8_t *flag)
    void flag_set(uint8_t *flag)
    void *address_get(void *address)
    void address_set(void *address, const void *value)
    ctypedef char step_lock
    void step_begin(step_lock *lock)
    void step_end(step_lock *lock)
    void publish_once(void *address, void *own)

cdef extern from "io/steps.h":
    object item_of(object table, object key, object otherwise)
    void never_count(object item)
    void free_lock_of(object item)
