/* A counter that threads draw their next piece of work from. */
#ifndef B2_ATOMIC_COUNTER_H
#define B2_ATOMIC_COUNTER_H
#include <stdint.h>
#ifdef _MSC_VER
#include <intrin.h>
static __inline int64_t counter_next(int64_t *counter) { return _InterlockedExchangeAdd64(counter, 1); }
#else
static inline int64_t counter_next(int64_t *counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
#endif
#endif
