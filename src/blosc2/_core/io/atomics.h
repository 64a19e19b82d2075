/* The few atomic operations that threads need. A number orders nothing else: it is whole, and that is all. A flag or an
 * address is set after all that it stands for: whoever sees it sees that, too. */
#ifndef B2_ATOMICS_H
#define B2_ATOMICS_H
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
#endif
