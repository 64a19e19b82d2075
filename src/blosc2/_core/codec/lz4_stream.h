/* Streams of LZ4's block format (doc/lz4_Block_format.md of LZ4), which LZ4 and LZ4HC write.
 *
 * A stream is a series of sequences. A sequence is a token, which has two lengths; literals, which are copied; and a match, a
 * copy of bytes that were decoded before, at an offset. Sequences are short, 17 bytes of a scan, and a decoder mostly waits:
 * for the token, whose lengths tell where the next token is; for branches that processors cannot predict, such as how often a
 * loop copies; and for stored bytes that are in no cache. So the next token is read before anything is copied, long literals
 * and matches are copied 128 bytes at a time, and while a stream is decoded the next one is prefetched.
 *
 * Only what is far from both ends is decoded here, where lengths need not be checked byte by byte. LZ4's own decoder goes on
 * from there. So both take the same streams, but those with an offset of 0: LZ4 takes them, and copies what lies in memory. */
#ifndef B2_LZ4_STREAM_H
#define B2_LZ4_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LZ4_decompress_safe_usingDict(const char *source, char *to, int length, int room, const char *before, int before_size);
int LZ4_decompress_safe_partial_usingDict(const char *source, char *to, int length, int wanted, int room,
                                          const char *before, int before_size);

/* Go on at the sequence at `source`, with what was decoded from `result` to `to`. */
static inline int lz4_rest(const uint8_t *source, int length, uint8_t *to, uint8_t *result, int wanted, int size) {
    int done = (int) (to - result), more;
    if (done >= wanted) return done;
    if (wanted < size)
        more = LZ4_decompress_safe_partial_usingDict(
            (const char *) source, (char *) to, length, wanted - done, size - done, (const char *) result, done);
    else
        more = LZ4_decompress_safe_usingDict(
            (const char *) source, (char *) to, length, size - done, (const char *) result, done);
    return more < 0 ? more : done + more;
}

#if (defined(__GNUC__) || defined(__clang__)) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum {
    LONG_LITERALS = 15,     /* as the token has it; what is longer goes on in the bytes behind it */
    SHORTEST_MATCH = 4,
    LONG_MATCH = 15 + SHORTEST_MATCH,
    LONG_COPY = 128,        /* bytes that are copied at once where literals or a match are long */
    /* Bytes of the source that are left to LZ4: short literals behind a token, and the 8 that LZ4 wants to be behind them. */
    SOURCE_LEFT = 32,
    /* Of the result: short literals, a short match and the 5 bytes that LZ4 wants to be behind them, and a long copy's excess. */
    RESULT_LEFT = 64 + LONG_COPY,
    /* Shorter ones, of which less would be decoded here than is left, are left as a whole. */
    SHORTEST_SOURCE = 128,
    SHORTEST_RESULT = 512
};

/* The compiler must not read again what others may change meanwhile: the value stays in a register. */
#define IN_REGISTER(value) __asm__("" : "+r"(value))

static inline size_t one_byte(const uint8_t *p) {
    size_t value = *p;
    IN_REGISTER(value);
    return value;
}

static inline size_t two_bytes(const uint8_t *p) {
    uint16_t bytes;
    size_t value;
    memcpy(&bytes, p, 2);
    value = bytes;
    IN_REGISTER(value);
    return value;
}

/* A length that goes on behind its token: 0 if that reaches `limit`. */
static inline int add_length(const uint8_t **p, const uint8_t *limit, size_t *length) {
    size_t more;
    do {
        if (*p >= limit) return 0;
        more = one_byte((*p)++);
        *length += more;
    } while (more == 255);
    return 1;
}

/* Copy long literals, and up to LONG_COPY bytes more, and prefetch as many bytes of the next stream, `ahead` of these: with one
 * prefetch for each sequence there would be gaps. */
static inline void copy_literals(uint8_t *to, const uint8_t *from, size_t length, uintptr_t ahead) {
    const uint8_t *stop = to + length;
    do {
        __builtin_prefetch((const void *) ((uintptr_t) from + ahead), 0, 3);
        __builtin_prefetch((const void *) ((uintptr_t) from + ahead + 64), 0, 3);
        for (int i = 0; i < LONG_COPY; i += 16) memcpy(to + i, from + i, 16);
        to += LONG_COPY;
        from += LONG_COPY;
    } while (to < stop);
}

/* Copy `length` bytes, and up to LONG_COPY more; `to` is 16 or more bytes behind `from`. */
static inline void copy_match(uint8_t *to, const uint8_t *from, size_t length) {
    const uint8_t *stop = to + length;
    do {
        for (int i = 0; i < LONG_COPY; i += 16) memcpy(to + i, from + i, 16);
        to += LONG_COPY;
        from += LONG_COPY;
    } while (to < stop);
}

/* Repeat the 1 to 15 bytes before `to` until `stop`, and up to 16 bytes more. */
static inline void repeat_bytes(uint8_t *to, size_t offset, const uint8_t *stop) {
    /* Of patterns of 1 to 7 bytes: what to multiply with to fill 8 bytes, and how many of these are whole patterns. */
    static const uint64_t filling[8] = {
        0, 0x0101010101010101, 0x0001000100010001, 0x0001000001000001, 0x0000000100000001, 0x0000010000000001,
        0x0001000000000001, 0x0100000000000001};
    static const uint8_t whole[8] = {0, 8, 8, 6, 8, 5, 6, 7};
    const uint8_t *from = to - offset;
    uint64_t pattern;
    if (offset >= 8) {
        do {
            memcpy(to, from, 8);
            memcpy(to + 8, from + 8, 8);
            to += 16;
            from += 16;
            IN_REGISTER(from);      /* or GCC makes a loop for long copies of it */
        } while (to < stop);
        return;
    }
    memcpy(&pattern, from, 8);
    pattern = (pattern & (((uint64_t) 1 << 8 * offset) - 1)) * filling[offset];
    do {
        memcpy(to, &pattern, 8);
        to += whole[offset];
    } while (to < stop);
}

/* Decode the first `wanted` bytes of a stream, and maybe some more, into room for `size`: how many, or a negative number if
 * it is damaged. `next` is the stream that is decoded next, or where it may be: nothing is read there. */
static inline int lz4_stream(const uint8_t *stream, int stored, uint8_t *result, int wanted, int size, const uint8_t *next) {
    const uint8_t *source = stream;
    const uint8_t *source_limit = stream + stored - SOURCE_LEFT;
    uint8_t *to = result;
    const uint8_t *result_limit = result + (wanted < size - RESULT_LEFT ? wanted : size - RESULT_LEFT);
    const uintptr_t ahead = (uintptr_t) next - (uintptr_t) stream;
    size_t token;
    if (stored < SHORTEST_SOURCE || size < SHORTEST_RESULT) return lz4_rest(stream, stored, result, result, wanted, size);
    token = one_byte(source);
    while (source < source_limit && to < result_limit) {
        const uint8_t *literals = source + 1, *behind, *from;
        size_t length = token >> 4, matched = (token & 15) + SHORTEST_MATCH, offset;
        size_t next_token = one_byte(literals + length + 2);
        uint8_t *match;
        IN_REGISTER(length);        /* or GCC adds it up before the token can be read */
        __builtin_prefetch((const void *) ((uintptr_t) source + ahead), 0, 3);
        memcpy(to, literals, 16);
        if (length == LONG_LITERALS) {
            if (!add_length(&literals, source_limit, &length)) goto rest;
            if ((ptrdiff_t) length > source_limit - literals - LONG_COPY) goto rest;
            if ((ptrdiff_t) length > result_limit - to) goto rest;
            copy_literals(to, literals, length, ahead);
            next_token = one_byte(literals + length + 2);
        }
        behind = literals + length + 2;
        offset = two_bytes(behind - 2);
        match = to + length;
        if (offset > (size_t) (match - result)) return -1;
        from = match - offset;
        if (matched < LONG_MATCH && offset >= 8) {
            memcpy(match, from, 8);
            memcpy(match + 8, from + 8, 8);
            memcpy(match + 16, from + 16, 2);
            token = next_token;
        } else {
            if (offset == 0) return -1;
            if (matched == LONG_MATCH) {
                if (!add_length(&behind, source_limit, &matched)) goto rest;
                if ((ptrdiff_t) matched > result_limit - match) goto rest;
            }
            token = one_byte(behind);
            if (offset < 16) repeat_bytes(match, offset, match + matched);
            else copy_match(match, from, matched);
        }
        source = behind;
        to = match + matched;
    }
rest:
    return lz4_rest(source, (int) (stream + stored - source), to, result, wanted, size);
}
#else
static inline int lz4_stream(const uint8_t *stream, int stored, uint8_t *result, int wanted, int size, const uint8_t *next) {
    (void) next;
    return lz4_rest(stream, stored, result, result, wanted, size);
}
#endif
#endif
