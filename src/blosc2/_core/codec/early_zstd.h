/* The archive of C-Blosc2 decodes zstd's formats from 0.5 on. Blosc has had zstd since 0.7.4: no chunk holds an earlier
   one, and decoders that nobody looks after are no place for bytes of strangers. What zstd calls for 0.5 and 0.6 is
   found here first, so the linker leaves those decoders in the archive: 75 kB of code. All of it says "not this one".
   Weak, as a zstd that calls more of them may still bring its own. */
#ifndef B2_EARLY_ZSTD_H
#define B2_EARLY_ZSTD_H
#if defined(B2_HAS_CODECS) && defined(__ELF__)
#include <stddef.h>

#define B2_UNKNOWN_PREFIX ((size_t) -10)  /* zstd's error codes are negative sizes, in all of its versions */

/* What tells how long a frame is sets both: an error, and no limit of the size. The others are given no context. */
#define B2_WITHOUT(version)                                                                                           \
    __attribute__((weak)) void *ZSTD##version##_createDCtx(void) { return NULL; }                                     \
    __attribute__((weak)) size_t ZSTD##version##_freeDCtx(void *context) { return context ? B2_UNKNOWN_PREFIX : 0; }  \
    __attribute__((weak)) size_t ZSTD##version##_decompress_usingDict(void *context, void *to, size_t room,           \
            const void *from, size_t size, const void *dictionary, size_t length) {                                   \
        (void) context, (void) to, (void) room, (void) from, (void) size, (void) dictionary, (void) length;           \
        return B2_UNKNOWN_PREFIX;                                                                                     \
    }                                                                                                                 \
    __attribute__((weak)) void ZSTD##version##_findFrameSizeInfoLegacy(const void *from, size_t size,                 \
            size_t *stored, unsigned long long *bound) {                                                              \
        (void) from, (void) size;                                                                                     \
        *stored = B2_UNKNOWN_PREFIX;                                                                                  \
        *bound = (unsigned long long) -2;                                                                             \
    }                                                                                                                 \
    __attribute__((weak)) size_t ZSTD##version##_getFrameParams(void *found, const void *from, size_t size) {         \
        (void) found, (void) from, (void) size;                                                                       \
        return B2_UNKNOWN_PREFIX;                                                                                     \
    }                                                                                                                 \
    __attribute__((weak)) void *ZBUFF##version##_createDCtx(void) { return NULL; }                                    \
    __attribute__((weak)) size_t ZBUFF##version##_freeDCtx(void *context) { return context ? B2_UNKNOWN_PREFIX : 0; } \
    __attribute__((weak)) size_t ZBUFF##version##_decompressInitDictionary(void *context, const void *dictionary,     \
            size_t length) {                                                                                          \
        (void) context, (void) dictionary, (void) length;                                                             \
        return B2_UNKNOWN_PREFIX;                                                                                     \
    }                                                                                                                 \
    __attribute__((weak)) size_t ZBUFF##version##_decompressContinue(void *context, void *to, size_t *room,           \
            const void *from, size_t *size) {                                                                         \
        (void) context, (void) to, (void) room, (void) from, (void) size;                                             \
        return B2_UNKNOWN_PREFIX;                                                                                     \
    }

B2_WITHOUT(v05)
B2_WITHOUT(v06)
#endif
#endif
