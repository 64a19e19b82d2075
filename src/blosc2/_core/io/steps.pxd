# What keeps threads apart that have no GIL: see steps.h and atomics.h.
from libc.stdint cimport int64_t, uint8_t

cdef extern from "io/atomics.h" nogil:
    int64_t counter_next(int64_t *counter)
    long state_get(long *state)
    void state_set(long *state, long value)
    bint state_change(long *state, long before, long after)
    int64_t number_get(int64_t *number)
    void number_set(int64_t *number, int64_t value)
    bint flag_get(uint8_t *flag)
    void flag_set(uint8_t *flag)
    void *address_get(void *address)
    void address_set(void *address, const void *value)

cdef extern from "io/steps.h":
    object item_of(object table, object key, object otherwise)

cdef extern from "io/steps.h" nogil:
    ctypedef char step_lock
    void step_begin(step_lock *lock)
    void step_end(step_lock *lock)
    void publish_once(void *address, void *own)
