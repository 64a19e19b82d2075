/* CRC-32C (Castagnoli, RFC 3720 appendix B.4): reflected polynomial 0x82F63B78, all ones in and out.
 *
 * By the instruction that x86-64 has since SSE 4.2 and ARMv8.1 always, else by tables of 8 x 256 entries ("slicing by
 * eight", Kounavis and Berry 2005). Both give the same numbers. */
#ifndef B2_CRC32C_H
#define B2_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "native_thread.h"

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
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t word, wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t) wide;
    for (; n; p++, n--) crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#define b2_has_instruction() __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t word;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
    }
    for (; n; p++, n--) crc = __crc32cb(crc, *p);
    return crc;
}
#define b2_has_instruction() 1
#else
#define crc32c_by_instruction crc32c_by_table
#define b2_has_instruction() 0
#endif

/* Go on from the checksum of what came before; 0 for nothing. */
B2_INLINE uint32_t crc32c_of(uint32_t before, const uint8_t *p, size_t n) {
    return ~(b2_has_instruction() ? crc32c_by_instruction(~before, p, n) : crc32c_by_table(~before, p, n));
}
#endif
