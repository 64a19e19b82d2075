/* CRC-32C (Castagnoli, RFC 3720 appendix B.4): reflected polynomial 0x82F63B78, all ones in and out.
 *
 * By the instruction that x86-64 has since SSE 4.2 and ARM since ARMv8.1, else by tables of 8 x 256 entries ("slicing by
 * eight", Kounavis and Berry 2005). The instruction waits for its own result, so long data are three streams at once;
 * where AVX-512 multiplies polynomials, 256 bytes at a time are folded (Gopal et al. 2009), 5 times as fast. All give
 * the same numbers. */
#ifndef B2_CRC32C_H
#define B2_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "native_thread.h"
#include "arm_crc.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

static uint32_t b2_crc_table[8][256];

B2_INLINE void crc32c_prepare(void) {
    uint32_t i, crc;
    int bit, k;
    for (i = 0; i < 256; i++) {
        crc = i;
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
        b2_crc_table[0][i] = crc;
    }
    for (i = 0; i < 256; i++)
        for (k = 1; k < 8; k++)
            b2_crc_table[k][i] = (b2_crc_table[k - 1][i] >> 8) ^ b2_crc_table[0][b2_crc_table[k - 1][i] & 255];
}

B2_INLINE uint32_t crc32c_by_table(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
        crc = b2_crc_table[7][crc & 255] ^ b2_crc_table[6][crc >> 8 & 255] ^ b2_crc_table[5][crc >> 16 & 255]
            ^ b2_crc_table[4][crc >> 24] ^ b2_crc_table[3][p[4]] ^ b2_crc_table[2][p[5]] ^ b2_crc_table[1][p[6]]
            ^ b2_crc_table[0][p[7]];
    }
    for (; n; p++, n--) crc = (crc >> 8) ^ b2_crc_table[0][(crc ^ *p) & 255];
    return crc;
}

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

/* The product of two polynomials modulo the one of the checksum; in reflected form, the highest bit is the 1. */
B2_INLINE uint32_t crc32c_times(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= b & (0u - (a >> 31));
        b = (b >> 1) ^ (0x82F63B78u & (0u - (b & 1u)));
    }
    return product;
}

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

B2_INLINE void crc32c_choose(void) {
    int k;
    uint32_t power = 0x40000000;    /* x */
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
#endif
