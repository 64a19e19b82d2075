/* Instructions of aarch64 for both checksums. Processors have them since ARMv8.1, but compilers build for ARMv8.0 unless
 * they are told otherwise, and wheels are built so. Linux says which processor this is. They take words whose first byte
 * is the lowest, so big-endian processors have the tables. */
#ifndef B2_ARM_CRC_H
#define B2_ARM_CRC_H
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
#endif
