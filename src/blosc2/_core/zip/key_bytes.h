/* The bytes of keys: hashed, compared, looked at. */
#ifndef B2_KEY_BYTES_H
#define B2_KEY_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Hash of keys: SipHash-1-3 with a seed of 128 bits. Keys come from files: with a fixed hash, a file could be made whose
 * keys all fall into one slot. */
static inline uint64_t b2_rotated(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline uint64_t b2_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

#define B2_SIP_ROUND                                                                                                   \
    do {                                                                                                               \
        v0 += v1; v1 = b2_rotated(v1, 13) ^ v0; v0 = b2_rotated(v0, 32);                                               \
        v2 += v3; v3 = b2_rotated(v3, 16) ^ v2;                                                                        \
        v0 += v3; v3 = b2_rotated(v3, 21) ^ v0;                                                                        \
        v2 += v1; v1 = b2_rotated(v1, 17) ^ v2; v2 = b2_rotated(v2, 32);                                               \
    } while (0)

/* Hashes of the beginnings of one path, each longer than the one before: together they take as long as that of the last. */
typedef struct {
    uint64_t v0, v1, v2, v3;
    size_t done;
} prefix_hashes;

static inline void start_prefixes(prefix_hashes *state, uint64_t seed0, uint64_t seed1) {
    state->v0 = seed0 ^ UINT64_C(0x736F6D6570736575);
    state->v1 = seed1 ^ UINT64_C(0x646F72616E646F6D);
    state->v2 = seed0 ^ UINT64_C(0x6C7967656E657261);
    state->v3 = seed1 ^ UINT64_C(0x7465646279746573);
    state->done = 0;
}

static inline uint64_t next_prefix(prefix_hashes *state, const uint8_t *p, size_t length) {
    uint64_t v0 = state->v0, v1 = state->v1, v2 = state->v2, v3 = state->v3;
    uint64_t word;
    uint8_t last[8] = {0};
    size_t done = state->done;
    for (; done + 8 <= length; done += 8) {
        word = b2_word(p + done);
        v3 ^= word;
        B2_SIP_ROUND;
        v0 ^= word;
    }
    state->v0 = v0, state->v1 = v1, state->v2 = v2, state->v3 = v3;
    state->done = done;
    memcpy(last, p + done, length - done);
    word = b2_word(last) | (uint64_t)length << 56;
    v3 ^= word;
    B2_SIP_ROUND;
    v0 ^= word;
    v2 ^= 0xFF;
    B2_SIP_ROUND;
    B2_SIP_ROUND;
    B2_SIP_ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

static inline uint64_t key_hash(uint64_t seed0, uint64_t seed1, const uint8_t *p, size_t length) {
    prefix_hashes state;
    start_prefixes(&state, seed0, seed1);
    return next_prefix(&state, p, length);
}

#define B2_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Bytes below 0x80 that are 0, as their upper bits. */
static inline uint64_t b2_zeros(uint64_t word) { return ~(word + B2_EACH(0x7F)) & B2_EACH(0x80); }

/* Whether something in 8 bytes, of each of which the next one is known, keeps a name from being plain. */
static inline uint64_t b2_irregular(const uint8_t *p) {
    uint64_t word = b2_word(p);
    uint64_t slash = b2_zeros(word ^ B2_EACH('/'));
    uint64_t dot_or_slash = b2_zeros((b2_word(p + 1) | B2_EACH(1)) ^ B2_EACH('/'));
    return (word & B2_EACH(0x80)) | b2_zeros(word) | (slash & dot_or_slash);
}

/* Whether a key is ASCII without NUL, and no segment of it is empty or begins with a dot: then a name that it begins is
 * safe as far as it goes. Others may be as well. Listing keys does this for each of them. */
static inline int plain_key(const uint8_t *p, size_t length) {
    size_t i;
    uint64_t irregular = 0;
    uint8_t padded[9] = {'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'};
    if (length == 0 || p[0] == '.' || p[0] == '/' || p[length - 1] == '/')
        return 0;
    if (length < 9) {
        memcpy(padded, p, length);
        return b2_irregular(padded) == 0;
    }
    for (i = 0; i + 9 <= length; i += 8)
        irregular |= b2_irregular(p + i);
    irregular |= b2_irregular(p + length - 9) | (p[length - 1] & 0x80) | (p[length - 1] == 0);
    return irregular == 0;
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

#endif
