/* Ask for stored bytes before the decoder needs them. Decoders read several streams of a block at once, which keeps
 * hardware from guessing what comes next; read by position, the same bytes come from a copy that is in the cache. */
#ifndef B2_PREFETCH_H
#define B2_PREFETCH_H
#include <stdint.h>
#if defined(__GNUC__) || defined(__clang__)
static inline void prefetch(const uint8_t *start, int64_t length) {
    for (int64_t i = 0; i < length; i += 64) {
        __builtin_prefetch(start + i, 0, 2);
        /* GCC takes a function that does nothing else for one without effects, and leaves out the call. */
        __asm__ volatile("" : : "r"(start + i));
    }
}

/* The same for who runs through them: where they begin, and a page begins. From there on processors foresee what comes,
 * but not beyond a page. More requests than can be under way at a time would only be waited for. */
static inline void prefetch_starts(const uint8_t *start, int64_t length) {
    int64_t i = 4096 - (int64_t) ((uintptr_t) start & 4095);
    prefetch(start, length < 512 ? length : 512);
    for (; i < length; i += 4096) prefetch(start + i, length - i < 256 ? length - i : 256);
}
#else
static inline void prefetch_starts(const uint8_t *start, int64_t length) { (void) start; (void) length; }
static inline void prefetch(const uint8_t *start, int64_t length) { (void) start; (void) length; }
#endif
#endif
