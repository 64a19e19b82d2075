/* What a look-up does for each key, without branches that hardware cannot foresee: then the next look-up waits for memory
 * together with this one. */
#ifndef B2_KEY_MATCH_H
#define B2_KEY_MATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zip/key_hash.h"

/* A call would take as long as what it does for a short key. */
#if defined(__GNUC__) || defined(__clang__)
#define B2_ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define B2_ALWAYS_INLINE static inline
#endif

#define B2_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Bytes below 0x80 that are 0, as their upper bits. */
static inline uint64_t b2_zeros(uint64_t word) { return ~(word + B2_EACH(0x7F)) & B2_EACH(0x80); }

static inline uint64_t b2_half(const uint8_t *p) {
    return p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

/* 1 to 7 bytes, as `b2_word` gives 8: the first, middle and last byte at their offsets; these may be the same byte. */
static inline uint64_t b2_few(const uint8_t *p, size_t length) {
    if (length < 4)
        return p[0] | (uint64_t)p[length / 2] << 8 * (length / 2) | (uint64_t)p[length - 1] << 8 * (length - 1);
    return b2_half(p) | b2_half(p + length - 4) << 8 * (length - 4);
}

/* Whether something in 8 bytes, of each of which the next one is known, keeps a name from being plain. */
static inline uint64_t b2_irregular(uint64_t word, uint64_t next) {
    uint64_t slash = b2_zeros(word ^ B2_EACH('/'));
    uint64_t dot_or_slash = b2_zeros((next | B2_EACH(1)) ^ B2_EACH('/'));
    return (word & B2_EACH(0x80)) | b2_zeros(word) | (slash & dot_or_slash);
}

/* Whether a key is ASCII without NUL, and no segment of it is empty or begins with a dot: then a name that it begins is
 * safe as far as it goes. Others may be as well. */
B2_ALWAYS_INLINE int plain_key(const uint8_t *p, size_t length) {
    size_t i;
    uint64_t word, irregular = 0;
    if (length == 0 || p[0] == '.' || p[0] == '/' || p[length - 1] == '/')
        return 0;
    if (length < 9) {
        word = length == 8 ? b2_word(p) : b2_few(p, length) | B2_EACH('a') << 8 * length;
        return b2_irregular(word, word >> 8 | (uint64_t)'a' << 56) == 0;
    }
    for (i = 0; i + 9 <= length; i += 8)
        irregular |= b2_irregular(b2_word(p + i), b2_word(p + i + 1));
    irregular |= b2_irregular(b2_word(p + length - 9), b2_word(p + length - 8)) | (p[length - 1] & 0x80) | (p[length - 1] == 0);
    return irregular == 0;
}

static inline int same_bytes(const uint8_t *a, const uint8_t *b, size_t length) {
    size_t i;
    uint64_t differ = 0;
    if (length < 8)
        return length == 0 || b2_few(a, length) == b2_few(b, length);
    for (i = 0; i + 8 <= length; i += 8)
        differ |= b2_word(a + i) ^ b2_word(b + i);
    return (differ | (b2_word(a + length - 8) ^ b2_word(b + length - 8))) == 0;
}

/* How many bytes two keys have in common at the beginning, of the first `most`. */
static inline size_t shared_bytes(const uint8_t *a, const uint8_t *b, size_t most) {
    size_t i = 0;
    while (i + 8 <= most && b2_word(a + i) == b2_word(b + i))
        i += 8;
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

/* Whether the last segment of a key, which has no "/" in front, is a name. */
static inline int last_segment_is(const uint8_t *key, size_t length, const char *name, size_t name_length) {
    return length >= name_length && memcmp(key + length - name_length, name, name_length) == 0
           && (length == name_length || key[length - name_length - 1] == '/');
}

/* The first of 4 slots that is free or has this tag in its upper bits; 4 if there is none. */
static inline int first_match(const uint8_t *slots, uint64_t tag, int offset_bits) {
    unsigned found = 16;
    int i;
    for (i = 0; i < 4; i++) {
        uint64_t slot = b2_word(slots + 8 * i);
        found |= (unsigned)(slot == 0 || (slot ^ tag) >> offset_bits == 0) << i;
    }
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctz(found);
#else
    for (i = 0; !(found >> i & 1); i++)
        ;
    return i;
#endif
}

#endif
