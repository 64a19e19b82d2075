/* CRC-32 of ZIP archives (ISO/IEC 3309): reflected polynomial 0xEDB88320, all ones in and out.
 *
 * x86-64 has no instruction for this one, so bytes are folded by multiplying polynomials (Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009): 64 bytes at a time, or 256 where
 * AVX-512 does it; what is no multiple of 16 or 64 is shifted to where it belongs. ARMv8.1 has an instruction. Else
 * by tables of 8 x 256 entries. All give the same numbers. */
#ifndef B2_CRC32_H
#define B2_CRC32_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "native_thread.h"
#include "arm_crc.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

static uint32_t b2_crc32_table[8][256];
static int b2_crc32_way;    /* 0: by tables, 1: by the instruction or folding 64 bytes, 2: folding 256 */

B2_INLINE uint32_t crc32_by_table(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
        crc = b2_crc32_table[7][crc & 255] ^ b2_crc32_table[6][crc >> 8 & 255] ^ b2_crc32_table[5][crc >> 16 & 255]
            ^ b2_crc32_table[4][crc >> 24] ^ b2_crc32_table[3][p[4]] ^ b2_crc32_table[2][p[5]] ^ b2_crc32_table[1][p[6]]
            ^ b2_crc32_table[0][p[7]];
    }
    for (; n; p++, n--) crc = (crc >> 8) ^ b2_crc32_table[0][(crc ^ *p) & 255];
    return crc;
}

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
    uint32_t i, crc;
    int bit, k;
    for (i = 0; i < 256; i++) {
        crc = i;
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        b2_crc32_table[0][i] = crc;
    }
    for (i = 0; i < 256; i++)
        for (k = 1; k < 8; k++)
            b2_crc32_table[k][i] = (b2_crc32_table[k - 1][i] >> 8) ^ b2_crc32_table[0][b2_crc32_table[k - 1][i] & 255];
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
#endif
