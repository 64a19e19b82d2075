/* Ask for stored bytes before the decoder needs them. Decoders read several streams of a block at once, which keeps
 * hardware from guessing what comes next; read by position, the same bytes come from a copy that is in the cache. */
#ifndef B2_PREFETCH_H
#define B2_PREFETCH_H
#include <stdint.h>
#if defined(__GNUC__) || defined(__clang__)
static inline void prefetch(const uint8_t *start, int64_t length) {
    for (int64_t i = 0; i < length; i += 64) __builtin_prefetch(start + i, 0, 2);
}
#else
static inline void prefetch(const uint8_t *start, int64_t length) { (void) start; (void) length; }
#endif
#endif
