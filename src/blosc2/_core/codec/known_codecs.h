/* The codecs and filters that a chunk may carry, by their ids. */
#ifndef B2_KNOWN_CODECS_H
#define B2_KNOWN_CODECS_H

#include <stdint.h>

enum {
    UNKNOWN = 0,
    PLAIN = 1,
    WHOLE_CHUNK = 2, /* blocks do not stand alone */
    NEEDS_ARRAY = 3, /* asks the super-chunk of the C library for the shape of the array's blocks */
};

enum {
    ZFP_RATE = 35,
    BYTEDELTA = 35,
    MOST_RATE = 100,
};

/* BloscLZ, LZ4, LZ4HC, ZLIB, ZSTD; NDLZ and the modes of ZFP. */
static inline int codec_kind(int id) {
    static const uint8_t kinds[256] = {
        [0] = PLAIN, [1] = PLAIN, [2] = PLAIN, [4] = PLAIN, [5] = PLAIN,
        [32] = NEEDS_ARRAY, [33] = NEEDS_ARRAY, [34] = NEEDS_ARRAY, [35] = NEEDS_ARRAY,
    };
    return kinds[(uint8_t)id];
}

/* None, SHUFFLE, BITSHUFFLE, TRUNC_PREC, BYTEDELTA, INT_TRUNC; DELTA; NDCELL, NDMEAN. */
static inline int filter_kind(int id) {
    static const uint8_t kinds[256] = {
        [0] = PLAIN, [1] = PLAIN, [2] = PLAIN, [4] = PLAIN, [35] = PLAIN, [36] = PLAIN,
        [3] = WHOLE_CHUNK,
        [32] = NEEDS_ARRAY, [33] = NEEDS_ARRAY,
    };
    return kinds[(uint8_t)id];
}

#endif
