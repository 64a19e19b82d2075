/* Streams of plain chunks, decoded by `lz4_stream.h` and by functions of codecs, which the static C-Blosc2 archive holds.
 *
 * The C library decodes whole blocks only, undoes their filter as a whole, and copies them. Here as much of a stream is
 * decoded as is needed, and `unshuffle.h` undoes the filter of as many items. A chunk is plain if it is compressed by
 * LZ4 or LZ4HC, shuffled or not, or by BloscLZ or zstd and shuffled: what gains by it, as bench/codec_matrix.py says.
 * Other chunks go to the C library; so do all in builds with a shared C-Blosc2, which does not export its codecs. */
#ifndef B2_OWN_DECODER_H
#define B2_OWN_DECODER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "chunk_errors.h"
#include "codec/generated_codecs.h"

#ifdef B2_HAS_CODECS
#include "lz4_stream.h"
enum { OWN_DECODER = 1, ZSTD_NO_MEMORY = -64 };
int blosclz_decompress(const void *source, int length, void *destination, int room);
size_t ZSTD_decompressDCtx(void *context, void *destination, size_t room, const void *source, size_t length);
void *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(void *context);
#else
enum { OWN_DECODER = 0, ZSTD_NO_MEMORY = -64 };
#define blosclz_decompress(source, length, destination, room) 0
#define lz4_stream(stream, stored, result, wanted, size, next) 0
#define ZSTD_decompressDCtx(context, destination, room, source, length) 0
#define ZSTD_createDCtx() NULL
#define ZSTD_freeDCtx(context) ((void) (context))
#endif

/* Whether `decode_stream` takes the streams of chunks with this codec, and with this filter or none. */
static inline int is_plain(int codec, int filter) {
    if (codec == CODEC_LZ4 || codec == CODEC_LZ4HC) return OWN_DECODER && (filter == 0 || filter == FILTER_SHUFFLE);
    return OWN_DECODER && (codec == CODEC_BLOSCLZ || codec == CODEC_ZSTD) && filter == FILTER_SHUFFLE;
}

/* Whether the start of a stream takes less time than all of it. */
static inline int decodes_starts(int codec) { return codec == CODEC_LZ4 || codec == CODEC_LZ4HC; }

/* Decode the stream at `*from`, which ends before `stop`, to exactly `size` bytes, of which the first `wanted` are
 * needed; `*from` moves behind it. Its size is read once: others may change a mapped file. */
static inline int decode_stream(int codec, void *zstd, const uint8_t **from, const uint8_t *stop, uint8_t *to,
                                int32_t size, int32_t wanted) {
    const uint8_t *p = *from;
    int32_t stored;
    int64_t decoded;
    if (stop - p < 4) return BAD_STREAM;
    stored = (int32_t) ((uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24);
    p += 4;
    if (stored <= 0) {      /* one byte repeated */
        if (stored < 0 && (stored < -255 || p >= stop || !(*p++ & 1))) return BAD_STREAM;
        memset(to, -stored, (size_t) wanted);
        *from = p;
        return CHUNK_OK;
    }
    if (stored > stop - p) return BAD_STREAM;
    *from = p + stored;
    if (stored == size) {
        memcpy(to, p, (size_t) wanted);
        return CHUNK_OK;
    }
    if (codec == CODEC_BLOSCLZ) {
        decoded = blosclz_decompress(p, stored, to, size);
    } else if (codec == CODEC_ZSTD) {
        decoded = (int64_t) ZSTD_decompressDCtx(zstd, to, (size_t) size, p, (size_t) stored);   /* errors are large */
        if (decoded == ZSTD_NO_MEMORY) return NO_MEMORY;    /* frames of zstd 0.7 */
    } else {
        decoded = lz4_stream(p, stored, to, wanted, size, *from);
        if (wanted < size) return decoded >= wanted ? CHUNK_OK : BAD_DECODED;
    }
    return decoded == size ? CHUNK_OK : BAD_DECODED;
}
#endif
