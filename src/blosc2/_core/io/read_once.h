/* Numbers from bytes that another process may change while they are looked at, as those of a mapped file: each is read by one
 * access, which no compiler repeats or leaves out, so that what was checked is what is used. At any address. */
#ifndef B2_READ_ONCE_H
#define B2_READ_ONCE_H

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
typedef struct {
    uint64_t value;
} __attribute__((packed, may_alias)) b2_loose_word;
#define B2_WORD_AT(p) (((const volatile b2_loose_word *)(p))->value)
#define B2_SWAPPED(word) __builtin_bswap64(word)
#else
#include <stdlib.h>
#define B2_WORD_AT(p) (*(const volatile __unaligned uint64_t *)(p))
#define B2_SWAPPED(word) _byteswap_uint64(word)
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static inline uint64_t read_once(const uint8_t *p) { return B2_SWAPPED(B2_WORD_AT(p)); }
static inline uint64_t read_once_big(const uint8_t *p) { return B2_WORD_AT(p); }
#else
static inline uint64_t read_once(const uint8_t *p) { return B2_WORD_AT(p); }
static inline uint64_t read_once_big(const uint8_t *p) { return B2_SWAPPED(B2_WORD_AT(p)); }
#endif

#endif
