/* CRC-32C, the CRC-32 of ZIP archives, and copying bytes and summing them in one pass. */
#ifndef B2_CRC_H
#define B2_CRC_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "native_thread.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

/* Instructions of aarch64 for both checksums. Processors have them since ARMv8.1, but compilers build for ARMv8.0 unless
 * they are told otherwise, and wheels are built so. Linux says which processor this is. They take words whose first byte
 * is the lowest, so big-endian processors have the tables. */
#if defined(__aarch64__) && defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ \
    && (defined(__ARM_FEATURE_CRC32) || defined(__linux__))
#ifdef __ARM_FEATURE_CRC32
#define B2_ARM_CRC
#define b2_arm_has_crc() 1
#else
#include <sys/auxv.h>
#define B2_ARM_CRC __attribute__((target("+crc")))
#define b2_arm_has_crc() ((int) (getauxval(AT_HWCAP) >> 7 & 1))    /* HWCAP_CRC32 */
#endif
#ifdef __clang__
#define b2_arm_crc32_of_word __builtin_arm_crc32d
#define b2_arm_crc32_of_byte __builtin_arm_crc32b
#define b2_arm_crc32c_of_word __builtin_arm_crc32cd
#define b2_arm_crc32c_of_byte __builtin_arm_crc32cb
#else
#define b2_arm_crc32_of_word __builtin_aarch64_crc32x
#define b2_arm_crc32_of_byte __builtin_aarch64_crc32b
#define b2_arm_crc32c_of_word __builtin_aarch64_crc32cx
#define b2_arm_crc32c_of_byte __builtin_aarch64_crc32cb
#endif
#endif

/* The polynomials of both, in reflected form: the highest bit is the 1. */
#define B2_CRC32C 0x82F63B78u
#define B2_CRC32 0xEDB88320u

static void b2_make_table(uint32_t table[8][256], uint32_t polynomial) {
    uint32_t i, crc;
    int bit, k;
    for (i = 0; i < 256; i++) {
        crc = i;
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (polynomial & (0u - (crc & 1u)));
        table[0][i] = crc;
    }
    for (i = 0; i < 256; i++)
        for (k = 1; k < 8; k++) table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 255];
}

B2_INLINE uint32_t crc_by_table(uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24]
            ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; p++, n--) crc = (crc >> 8) ^ table[0][(crc ^ *p) & 255];
    return crc;
}

/* The product of two polynomials modulo another. */
B2_INLINE uint32_t crc_times(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= b & (0u - (a >> 31));
        b = (b >> 1) ^ (polynomial & (0u - (b & 1u)));
    }
    return product;
}

/* CRC-32C (Castagnoli, RFC 3720 appendix B.4): reflected polynomial 0x82F63B78, all ones in and out.
 *
 * By the instruction that x86-64 has since SSE 4.2 and ARM since ARMv8.1, else by tables of 8 x 256 entries ("slicing by
 * eight", Kounavis and Berry 2005). The instruction waits for its own result, so long data are three streams at once;
 * where AVX-512 multiplies polynomials, 256 bytes at a time are folded (Gopal et al. 2009), 5 times as fast. All give
 * the same numbers. */
static uint32_t b2_crc_table[8][256];
#define crc32c_by_table(crc, p, n) crc_by_table(b2_crc_table, crc, p, n)
#define crc32c_times(a, b) crc_times(a, b, B2_CRC32C)

#if defined(__x86_64__) && defined(__GNUC__)
/* Clang has the instruction as a feature of its own. */
#if defined(__clang__) && __clang_major__ >= 14
#define B2_SSE42 "sse4.2,crc32"
#else
#define B2_SSE42 "sse4.2"
#endif
#define B2_CRC_TARGET __attribute__((target(B2_SSE42)))
#define b2_crc_of_word __builtin_ia32_crc32di
#define b2_crc_of_byte __builtin_ia32_crc32qi
#define b2_has_instruction() __builtin_cpu_supports("sse4.2")
#elif defined(B2_ARM_CRC)
#define B2_CRC_TARGET B2_ARM_CRC
#define b2_crc_of_word(crc, word) b2_arm_crc32c_of_word((uint32_t) (crc), word)
#define b2_crc_of_byte b2_arm_crc32c_of_byte
#define b2_has_instruction() b2_arm_has_crc()
#else
#define b2_has_instruction() 0
#endif

#ifdef b2_crc_of_word
B2_CRC_TARGET static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t word, wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        wide = b2_crc_of_word(wide, word);
    }
    crc = (uint32_t) wide;
    for (; n; p++, n--) crc = b2_crc_of_byte(crc, *p);
    return crc;
}
#else
#define crc32c_by_instruction crc32c_by_table
#endif

/* Three streams of this many bytes at once. x to the power of the bits of one, and of two, brings them together. */
#define B2_STREAM 4096
static uint32_t b2_crc_one_stream, b2_crc_two_streams;
static int b2_crc_way;  /* 0: by tables, 1: by the instruction, 2: by folding */

#ifdef b2_crc_of_word
B2_CRC_TARGET static uint32_t crc32c_by_streams(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t a, b, c, word;
    int i;
    for (; n >= 3 * B2_STREAM; p += 3 * B2_STREAM, n -= 3 * B2_STREAM) {
        a = crc;
        b = c = 0;
        for (i = 0; i < B2_STREAM; i += 8) {
            memcpy(&word, p + i, 8);
            a = b2_crc_of_word(a, word);
            memcpy(&word, p + B2_STREAM + i, 8);
            b = b2_crc_of_word(b, word);
            memcpy(&word, p + 2 * B2_STREAM + i, 8);
            c = b2_crc_of_word(c, word);
        }
        crc = crc32c_times(b2_crc_two_streams, (uint32_t) a) ^ crc32c_times(b2_crc_one_stream, (uint32_t) b) ^ (uint32_t) c;
    }
    return crc32c_by_instruction(crc, p, n);
}
#else
#define crc32c_by_streams crc32c_by_table
#endif

#if defined(__x86_64__) && defined(__GNUC__)
/* At least 256 bytes. What is left of them after each step stands for all that came before. */
__attribute__((target("avx512f,vpclmulqdq,pclmul," B2_SSE42)))
static uint32_t crc32c_by_folding(uint32_t crc, const uint8_t *p, size_t n) {
    /* x to the powers of 2048 + 32 and 2048 - 32. */
    const __m512i by = _mm512_broadcast_i32x4(_mm_set_epi64x(0xB9E02B86, 0xDCB17AA4));
    __m512i lanes[4];
    uint8_t rest[256];
    int i;
    for (i = 0; i < 4; i++) lanes[i] = _mm512_loadu_si512(p + 64 * i);
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int) crc)));
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256)
        for (i = 0; i < 4; i++)
            lanes[i] = _mm512_ternarylogic_epi64(
                _mm512_clmulepi64_epi128(lanes[i], by, 0x00), _mm512_clmulepi64_epi128(lanes[i], by, 0x11),
                _mm512_loadu_si512(p + 64 * i), 0x96);
    for (i = 0; i < 4; i++) _mm512_storeu_si512(rest + 64 * i, lanes[i]);
    return crc32c_by_instruction(crc32c_by_instruction(0, rest, 256), p, n);
}
#define b2_can_fold() (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
#else
#define crc32c_by_folding crc32c_by_streams
#define b2_can_fold() 0
#endif

B2_INLINE void crc32c_prepare(void) {
    int k;
    uint32_t power = 0x40000000;    /* x */
    b2_make_table(b2_crc_table, B2_CRC32C);
    for (k = 1; k < B2_STREAM * 8; k *= 2) power = crc32c_times(power, power);
    b2_crc_one_stream = power;
    b2_crc_two_streams = crc32c_times(power, power);
    b2_crc_way = !b2_has_instruction() ? 0 : b2_can_fold() ? 2 : 1;
}

/* Go on from the checksum of what came before; 0 for nothing. */
B2_INLINE uint32_t crc32c_of(uint32_t before, const uint8_t *p, size_t n) {
    if (b2_crc_way == 2 && n >= 512) return ~crc32c_by_folding(~before, p, n);
    if (b2_crc_way && n >= 3 * B2_STREAM) return ~crc32c_by_streams(~before, p, n);
    return ~(b2_crc_way ? crc32c_by_instruction(~before, p, n) : crc32c_by_table(~before, p, n));
}

/* The same, by one of the ways; the caller has to know that there is this one. */
B2_INLINE uint32_t crc32c_by_way(int way, uint32_t before, const uint8_t *p, size_t n) {
    if (way == 2 && n >= 256) return ~crc32c_by_folding(~before, p, n);
    return ~(way == 0 ? crc32c_by_table(~before, p, n) : way == 1 ? crc32c_by_streams(~before, p, n)
             : crc32c_by_instruction(~before, p, n));
}

/* CRC-32 of ZIP archives (ISO/IEC 3309): reflected polynomial 0xEDB88320, all ones in and out.
 *
 * x86-64 has no instruction for this one, so bytes are folded by multiplying polynomials (Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009): 64 bytes at a time, or 256 where
 * AVX-512 does it; what is no multiple of 16 or 64 is shifted to where it belongs. ARMv8.1 has an instruction. Else
 * by tables of 8 x 256 entries. All give the same numbers. */
static uint32_t b2_crc32_table[8][256];
#define crc32_by_table(crc, p, n) crc_by_table(b2_crc32_table, crc, p, n)
static int b2_crc32_way;    /* 0: by tables, 1: by the instruction or folding 64 bytes, 2: folding 256 */

#if defined(__x86_64__) && defined(__GNUC__)
#define B2_FOLDS __attribute__((target("pclmul,sse4.1")))

/* 16 bytes, brought so far ahead as the factors say, and what lies there. */
#define b2_fold(x, by, next) _mm_xor_si128(next, _mm_xor_si128( \
    _mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)))

/* What 16 bytes leave when they are divided by the polynomial (Barrett). Factors are x to the powers in front of them, modulo the polynomial, reflected, times 2. */
B2_FOLDS static inline uint32_t crc32_of_16(__m128i a) {
    const __m128i by_one = _mm_set_epi64x(0x0CCAA009E /* 128 - 32 */, 0x1751997D0 /* 128 + 32 */);
    const __m128i by_half = _mm_cvtsi64_si128(0x163CD6124 /* 64 */);
    const __m128i inverse_and_polynomial = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
    const __m128i words = _mm_set_epi32(0, -1, 0, -1);
    __m128i b;
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_one, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), by_half, 0x00));
    b = _mm_clmulepi64_si128(_mm_and_si128(a, words), inverse_and_polynomial, 0x10);
    b = _mm_clmulepi64_si128(_mm_and_si128(b, words), inverse_and_polynomial, 0x00);
    return (uint32_t) _mm_extract_epi32(_mm_xor_si128(a, b), 1);
}

/* At least 16 bytes. */
B2_FOLDS static uint32_t crc32_by_folding(uint32_t crc, const uint8_t *p, size_t n) {
    /* Loaded from n on, what brings the first n bytes of 16 to their end; from 16 + n on, the others to their start. */
    static const uint8_t shuffles[48] = {
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
    const __m128i by_four = _mm_set_epi64x(0x1C6E41596 /* 512 - 32 */, 0x154442BD4 /* 512 + 32 */);
    const __m128i by_one = _mm_set_epi64x(0x0CCAA009E /* 128 - 32 */, 0x1751997D0 /* 128 + 32 */);
    __m128i a = _mm_loadu_si128((const __m128i *) p), b, c, d, front;
    a = _mm_xor_si128(a, _mm_cvtsi32_si128((int) crc));
    if (n >= 64) {
        b = _mm_loadu_si128((const __m128i *) (p + 16));
        c = _mm_loadu_si128((const __m128i *) (p + 32));
        d = _mm_loadu_si128((const __m128i *) (p + 48));
        for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
            a = b2_fold(a, by_four, _mm_loadu_si128((const __m128i *) p));
            b = b2_fold(b, by_four, _mm_loadu_si128((const __m128i *) (p + 16)));
            c = b2_fold(c, by_four, _mm_loadu_si128((const __m128i *) (p + 32)));
            d = b2_fold(d, by_four, _mm_loadu_si128((const __m128i *) (p + 48)));
        }
        b = b2_fold(a, by_one, b);
        c = b2_fold(b, by_one, c);
        a = b2_fold(c, by_one, d);
    } else {
        p += 16;
        n -= 16;
    }
    for (; n >= 16; p += 16, n -= 16) a = b2_fold(a, by_one, _mm_loadu_si128((const __m128i *) p));
    if (n) {
        b = _mm_loadu_si128((const __m128i *) (shuffles + n));
        front = _mm_shuffle_epi8(a, b);
        a = _mm_shuffle_epi8(a, _mm_loadu_si128((const __m128i *) (shuffles + 16 + n)));
        /* The last n of the 16 bytes that end here; those before them are not looked at. */
        a = _mm_blendv_epi8(_mm_loadu_si128((const __m128i *) (p + n - 16)), a, b);
        a = b2_fold(front, by_one, a);
    }
    return crc32_of_16(a);
}

/* At least 64 bytes. Zeros in front of them, up to a multiple of 64, change nothing. */
__attribute__((target("avx512f,avx512bw,avx512vbmi2,vpclmulqdq,pclmul,sse4.1")))
static uint32_t crc32_by_wide_folding(uint32_t crc, const uint8_t *p, size_t n) {
#define b2_wide(x, by, next) _mm512_ternarylogic_epi64( \
    _mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96)
    const __m512i by_four = _mm512_broadcast_i32x4(
        _mm_set_epi64x(0x1322D1430 /* 2048 - 32 */, 0x11542778A /* 2048 + 32 */));
    const __m512i by_one = _mm512_broadcast_i32x4(
        _mm_set_epi64x(0x1C6E41596 /* 512 - 32 */, 0x154442BD4 /* 512 + 32 */));
    /* Moves each 16 bytes to where the last 16 are, which stay. */
    const __m512i by_lane = _mm512_set_epi64(
        0, 0, 0x0CCAA009E /* 128 - 32 */, 0x1751997D0 /* 128 + 32 */,
        0x15A546366 /* 256 - 32 */, 0x0F1DA05AA /* 256 + 32 */,
        0x174359406 /* 384 - 32 */, 0x03DB1ECDC /* 384 + 32 */);
    const size_t first = (n - 1) % 64 + 1;
    __m512i a, b, c, d;
    __m128i one;
    if (first < 4) {    /* the checksum before lies upon four bytes */
        crc = crc32_by_table(crc, p, first);
        p += first;
        n -= first;
    }
    a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int) crc)));
    if (first < 4) {
        p += 64;
        n -= 64;
    } else {
        a = _mm512_maskz_expand_epi8(~(__mmask64) 0 << (64 - first), a);
        p += first;
        n -= first;
    }
    if (n >= 448) {
        b = _mm512_loadu_si512(p);
        c = _mm512_loadu_si512(p + 64);
        d = _mm512_loadu_si512(p + 128);
        for (p += 192, n -= 192; n >= 256; p += 256, n -= 256) {
            a = b2_wide(a, by_four, _mm512_loadu_si512(p));
            b = b2_wide(b, by_four, _mm512_loadu_si512(p + 64));
            c = b2_wide(c, by_four, _mm512_loadu_si512(p + 128));
            d = b2_wide(d, by_four, _mm512_loadu_si512(p + 192));
        }
        b = b2_wide(a, by_one, b);
        c = b2_wide(b, by_one, c);
        a = b2_wide(c, by_one, d);
    }
    for (; n; p += 64, n -= 64) a = b2_wide(a, by_one, _mm512_loadu_si512(p));
    b = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, by_lane, 0x00), _mm512_clmulepi64_epi128(a, by_lane, 0x11));
    one = _mm_xor_si128(_mm512_castsi512_si128(b), _mm512_extracti32x4_epi32(b, 1));
    one = _mm_xor_si128(one, _mm512_extracti32x4_epi32(b, 2));
    return crc32_of_16(_mm_xor_si128(one, _mm512_extracti32x4_epi32(a, 3)));
#undef b2_wide
}
#define b2_crc32_ways() (!(__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) ? 0 \
    : __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") \
      && __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("vpclmulqdq") ? 2 : 1)
#elif defined(B2_ARM_CRC)
B2_ARM_CRC static uint32_t crc32_by_folding(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t word;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        crc = b2_arm_crc32_of_word(crc, word);
    }
    for (; n; p++, n--) crc = b2_arm_crc32_of_byte(crc, *p);
    return crc;
}
#define crc32_by_wide_folding crc32_by_folding
#define b2_crc32_ways() b2_arm_has_crc()
#else
#define crc32_by_folding crc32_by_table
#define crc32_by_wide_folding crc32_by_table
#define b2_crc32_ways() 0
#endif

B2_INLINE void crc32_prepare(void) {
    b2_make_table(b2_crc32_table, B2_CRC32);
    b2_crc32_way = b2_crc32_ways();
}

/* Go on from the checksum of what came before, 0 for nothing, by one of the ways, which there has to be. */
B2_INLINE uint32_t crc32_by_way(int way, uint32_t before, const uint8_t *p, size_t n) {
    if (way == 2 && n >= 64) return ~crc32_by_wide_folding(~before, p, n);
    return ~(way && n >= 16 ? crc32_by_folding(~before, p, n) : crc32_by_table(~before, p, n));
}

/* The same by the best. */
B2_INLINE uint32_t crc32_of(uint32_t before, const uint8_t *p, size_t n) {
    return crc32_by_way(b2_crc32_way, before, p, n);
}

/* Copying bytes and summing them in one pass: what is copied is what was summed, and memory is read once.
 *
 * As above, 256 bytes stand for all that came before them; each 64 that are copied are folded in. */
#if defined(__x86_64__) && defined(__GNUC__)
#define B2_COPIES __attribute__((target("avx512f,vpclmulqdq,pclmul")))
#define b2_folded(x, next) _mm512_ternarylogic_epi64( \
    _mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96)

/* The 256 bytes that stand for all before them, the oldest 64 first: zeros in front of all bytes change nothing. What is
 * to be added to the next 64 is the checksum that all goes on from. */
typedef struct {
    __m512i a, b, c, d, next;
} b2_fold_state;

/* `n` rows of `run` bytes, which are one piece in `source` and `step` bytes apart in `to`. */
B2_COPIES static inline __attribute__((always_inline)) void b2_fold_plane(
        b2_fold_state *state, __m512i by, uint8_t *to, int64_t step, int64_t n, const uint8_t *source, size_t run) {
    __m512i a = state->a, b = state->b, c = state->c, d = state->d, next = state->next;
    __m512i w, x, y, z;
    const int64_t together = run == 64 ? 4 : run == 128 ? 2 : 1;    /* rows, to have 256 bytes */
    const size_t whole = run * together / 256 * 256;
    size_t i;
    /* Where the 64 bytes at `i` go. */
#define b2_target(i) (to + (i) / run * step + (i) % run)
    /* The processor itself fetches ahead up to the end of a page of 4 KB, which `memcpy` waits less for. */
#define b2_ahead(i) if (together == 1) _mm_prefetch((const char *) source + (i) + 8192, _MM_HINT_T0)
#define b2_next(v, i) v = _mm512_loadu_si512(source + (i)); _mm512_storeu_si512(together == 1 ? to + (i) : b2_target(i), v)
    for (; n >= together; n -= together, to += step * together, source += run * together) {
        for (i = 0; i < whole; i += 256) {
            b2_ahead(i);
            b2_ahead(i + 64);
            b2_ahead(i + 128);
            b2_ahead(i + 192);
            b2_next(w, i);
            b2_next(x, i + 64);
            b2_next(y, i + 128);
            b2_next(z, i + 192);
            a = b2_folded(a, _mm512_xor_si512(w, next));
            next = _mm512_setzero_si512();
            b = b2_folded(b, x);
            c = b2_folded(c, y);
            d = b2_folded(d, z);
        }
        for (; i < run * together; i += 64) {
            b2_next(w, i);
            x = b2_folded(a, _mm512_xor_si512(w, next));
            next = _mm512_setzero_si512();
            a = b;
            b = c;
            c = d;
            d = x;
        }
    }
    for (; n; n--, to += step, source += run)
        for (i = 0; i < run; i += 64) {
            b2_next(w, i);
            x = b2_folded(a, _mm512_xor_si512(w, next));
            next = _mm512_setzero_si512();
            a = b;
            b = c;
            c = d;
            d = x;
        }
    state->a = a;
    state->b = b;
    state->c = c;
    state->d = d;
    state->next = next;
#undef b2_target
#undef b2_ahead
#undef b2_next
}

/* Copy items that are one piece in `source` into rows of `run` bytes, a multiple of 64; `count` rows and groups of rows,
 * which are `strides` apart. */
B2_COPIES static void b2_fold_rows(uint32_t crc, __m128i factors, uint8_t *rest, uint8_t *to, const int64_t *strides,
                                   const int64_t *count, int axes, const uint8_t *source, size_t run) {
    const __m512i by = _mm512_broadcast_i32x4(factors), zeros = _mm512_setzero_si512();
    const int64_t step = axes ? strides[axes - 1] : 0, n = axes ? count[axes - 1] : 1;
    b2_fold_state state = {zeros, zeros, zeros, zeros, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int) crc))};
    int64_t at[16] = {0};
    int k;
    for (;;) {
        if (run == 128) b2_fold_plane(&state, by, to, step, n, source, 128);
        else if (run == 64) b2_fold_plane(&state, by, to, step, n, source, 64);
        else b2_fold_plane(&state, by, to, step, n, source, run);
        source += run * n;
        for (k = axes - 2; k >= 0; k--) {
            to += strides[k];
            if (++at[k] < count[k]) break;
            to -= strides[k] * count[k];
            at[k] = 0;
        }
        if (k < 0) break;
    }
    _mm512_storeu_si512(rest, state.a);
    _mm512_storeu_si512(rest + 64, state.b);
    _mm512_storeu_si512(rest + 128, state.c);
    _mm512_storeu_si512(rest + 192, state.d);
}
#define b2_folds_rows() (b2_crc_way == 2)

/* Go on from the CRC-32C of what came before. Only where `b2_folds_rows`. */
__attribute__((target("pclmul," B2_SSE42)))
static uint32_t crc_copy_rows(uint32_t crc, uint8_t *to, const int64_t *strides, const int64_t *count,
                              int axes, const uint8_t *source, size_t run) {
    uint8_t rest[256];
    /* x to the powers of 2048 - 32 and 2048 + 32 modulo the polynomial. */
    b2_fold_rows(~crc, _mm_set_epi64x(0xB9E02B86, 0xDCB17AA4),
                 rest, to, strides, count, axes, source, run);
    return ~crc32c_by_instruction(0, rest, 256);
}
#else
#define b2_folds_rows() 0
#define crc_copy_rows(crc, to, strides, count, axes, source, run) (crc)
#endif
#endif
