/* The codecs and filters that a chunk may carry, by their ids. Do not change this file: it is written from
 * `_options/codecs.py`, which says how. */
#ifndef B2_GENERATED_CODECS_H
#define B2_GENERATED_CODECS_H

#include <stdint.h>

/* What decoding needs. Blocks of a "whole chunk" do not stand alone; "array": the super-chunk of the C library has to
 * tell the shape of the array's blocks. */
enum { SUPPORT_ABSENT = 0, SUPPORT_BLOCK = 1, SUPPORT_WHOLE_CHUNK = 2, SUPPORT_ARRAY = 3 };
enum { FIRST_PLUGIN = 32, NO_FORMAT = 255 };

enum {
    CODEC_BLOSCLZ = 0,
    CODEC_LZ4 = 1,
    CODEC_LZ4HC = 2,
    CODEC_ZLIB = 4,
    CODEC_ZSTD = 5,
    CODEC_NDLZ = 32,
    CODEC_ZFP_ACC = 33,
    CODEC_ZFP_PREC = 34,
    CODEC_ZFP_RATE = 35,
    CODEC_OPENHTJ2K = 36,
    CODEC_GROK = 37,
    CODEC_OPENZL = 38,
    CODEC_J2K = 39,
    CODEC_HTJ2K = 40,
};

enum {
    FILTER_NOFILTER = 0,
    FILTER_SHUFFLE = 1,
    FILTER_BITSHUFFLE = 2,
    FILTER_DELTA = 3,
    FILTER_TRUNC_PREC = 4,
    FILTER_NDCELL = 32,
    FILTER_NDMEAN = 33,
    FILTER_BYTEDELTA = 35,
    FILTER_INT_TRUNC = 36,
};

static inline int codec_support(int id) {
    static const uint8_t table[256] = {
        [CODEC_BLOSCLZ] = SUPPORT_BLOCK,
        [CODEC_LZ4] = SUPPORT_BLOCK,
        [CODEC_LZ4HC] = SUPPORT_BLOCK,
        [CODEC_ZLIB] = SUPPORT_BLOCK,
        [CODEC_ZSTD] = SUPPORT_BLOCK,
        [CODEC_NDLZ] = SUPPORT_ARRAY,
        [CODEC_ZFP_ACC] = SUPPORT_ARRAY,
        [CODEC_ZFP_PREC] = SUPPORT_ARRAY,
        [CODEC_ZFP_RATE] = SUPPORT_ARRAY,
    };
    return table[(uint8_t)id];
}

static inline int filter_support(int id) {
    static const uint8_t table[256] = {
        [FILTER_NOFILTER] = SUPPORT_BLOCK,
        [FILTER_SHUFFLE] = SUPPORT_BLOCK,
        [FILTER_BITSHUFFLE] = SUPPORT_BLOCK,
        [FILTER_DELTA] = SUPPORT_WHOLE_CHUNK,
        [FILTER_TRUNC_PREC] = SUPPORT_BLOCK,
        [FILTER_NDCELL] = SUPPORT_ARRAY,
        [FILTER_NDMEAN] = SUPPORT_ARRAY,
        [FILTER_BYTEDELTA] = SUPPORT_BLOCK,
        [FILTER_INT_TRUNC] = SUPPORT_BLOCK,
    };
    return table[(uint8_t)id];
}

/* The format bits in the flags of a chunk with this codec. */
static inline int codec_format(int id) {
    static const uint8_t table[256] = {
        [CODEC_BLOSCLZ] = 0,
        [CODEC_LZ4] = 1,
        [CODEC_LZ4HC] = 1,
        [CODEC_ZLIB] = 3,
        [CODEC_ZSTD] = 4,
        [CODEC_NDLZ] = 6,
        [CODEC_ZFP_ACC] = 6,
        [CODEC_ZFP_PREC] = 6,
        [CODEC_ZFP_RATE] = 6,
    };
    return codec_support(id) == SUPPORT_ABSENT ? NO_FORMAT : table[(uint8_t)id];
}

/* The largest `codec_meta` that can be decoded. */
static inline int largest_codec_meta(int id) {
    switch (id) {
    case CODEC_NDLZ: return 8;
    case CODEC_ZFP_RATE: return 100;
    default: return 255;
    }
}

/* Whether a filter asks the array when this is its meta. */
static inline int filter_asks_array(int id, int meta) {
    return filter_support(id) == SUPPORT_ARRAY || (meta == 0 && (id == FILTER_BYTEDELTA));
}

/* Whether the filter leaves a block of one byte, repeated, as it is. */
static inline int filter_keeps_run(int id, int meta, int byte) {
    switch (id) {
    case FILTER_NOFILTER:
    case FILTER_SHUFFLE:
    case FILTER_TRUNC_PREC:
        return 1;
    default: return byte == 0 && !filter_asks_array(id, meta);
    }
}

#endif
