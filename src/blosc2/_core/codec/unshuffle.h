/* Undoing the shuffle filter for the items that are wanted, straight to where they are wanted.
 *
 * A shuffled block has the first bytes of all its items, then the second bytes, and so on (FORMATS 2.4). The C library
 * undoes that for whole blocks; of a block that a selection touches at its edge, that is most of the work. */
#ifndef B2_UNSHUFFLE_H
#define B2_UNSHUFFLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define B2_HAS_UNPACK 1
typedef __m128i b2_16;
#define b2_load(p) _mm_loadu_si128((const __m128i *) (p))
#define b2_load_8(p) _mm_loadl_epi64((const __m128i *) (p))
#define b2_store(p, a) _mm_storeu_si128((__m128i *) (p), a)
#define b2_low(a, b) _mm_unpacklo_epi8(a, b)
#define b2_high(a, b) _mm_unpackhi_epi8(a, b)
#define b2_low_2(a, b) _mm_unpacklo_epi16(a, b)
#define b2_high_2(a, b) _mm_unpackhi_epi16(a, b)
#define b2_low_4(a, b) _mm_unpacklo_epi32(a, b)
#define b2_high_4(a, b) _mm_unpackhi_epi32(a, b)
#elif defined(__aarch64__)
#include <arm_neon.h>
#define B2_HAS_UNPACK 1
typedef uint8x16_t b2_16;
#define b2_load(p) vld1q_u8(p)
#define b2_load_8(p) vcombine_u8(vld1_u8(p), vdup_n_u8(0))
#define b2_store(p, a) vst1q_u8(p, a)
#define b2_low(a, b) vzip1q_u8(a, b)
#define b2_high(a, b) vzip2q_u8(a, b)
#define b2_low_2(a, b) vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)))
#define b2_high_2(a, b) vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)))
#define b2_low_4(a, b) vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
#define b2_high_4(a, b) vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
#endif

/* Sizes of items that `unshuffle_box` takes. */
static inline int unshuffles_parts(int itemsize) {
    return itemsize == 2 || itemsize == 4 || itemsize == 8;
}

static inline void unshuffle_each(uint8_t *to, const uint8_t *p, int64_t plane, int64_t n, int itemsize) {
    int64_t i;
    int k;
    for (i = 0; i < n; i++)
        for (k = 0; k < itemsize; k++) to[i * itemsize + k] = p[k * plane + i];
}

#ifdef B2_HAS_UNPACK
/* Store eight items. `a` to `h` hold their first bytes, their second bytes, and so on; PAIR takes the low or the high
 * half of two of them. */
#define B2_STORE_8(to, itemsize, PAIR, a, b, c, d, e, f, g, h) do { \
    const b2_16 ab = PAIR(a, b); \
    if ((itemsize) == 2) { \
        b2_store(to, ab); \
    } else { \
        const b2_16 cd = PAIR(c, d), low = b2_low_2(ab, cd), high = b2_high_2(ab, cd); \
        if ((itemsize) == 4) { \
            b2_store(to, low); \
            b2_store((to) + 16, high); \
        } else { \
            const b2_16 ef = PAIR(e, f), gh = PAIR(g, h), low_2 = b2_low_2(ef, gh), high_2 = b2_high_2(ef, gh); \
            b2_store(to, b2_low_4(low, low_2)); \
            b2_store((to) + 16, b2_high_4(low, low_2)); \
            b2_store((to) + 32, b2_low_4(high, high_2)); \
            b2_store((to) + 48, b2_high_4(high, high_2)); \
        } \
    } \
} while (0)

static inline void unshuffle_16(uint8_t *to, const uint8_t *p, int64_t plane, int itemsize) {
    const b2_16 a = b2_load(p), b = b2_load(p + plane);
    const b2_16 c = itemsize > 2 ? b2_load(p + 2 * plane) : a, d = itemsize > 2 ? b2_load(p + 3 * plane) : a;
    const b2_16 e = itemsize > 4 ? b2_load(p + 4 * plane) : a, f = itemsize > 4 ? b2_load(p + 5 * plane) : a;
    const b2_16 g = itemsize > 4 ? b2_load(p + 6 * plane) : a, h = itemsize > 4 ? b2_load(p + 7 * plane) : a;
    B2_STORE_8(to, itemsize, b2_low, a, b, c, d, e, f, g, h);
    B2_STORE_8(to + 8 * itemsize, itemsize, b2_high, a, b, c, d, e, f, g, h);
}

static inline void unshuffle_8(uint8_t *to, const uint8_t *p, int64_t plane, int itemsize) {
    const b2_16 a = b2_load_8(p), b = b2_load_8(p + plane);
    const b2_16 c = itemsize > 2 ? b2_load_8(p + 2 * plane) : a, d = itemsize > 2 ? b2_load_8(p + 3 * plane) : a;
    const b2_16 e = itemsize > 4 ? b2_load_8(p + 4 * plane) : a, f = itemsize > 4 ? b2_load_8(p + 5 * plane) : a;
    const b2_16 g = itemsize > 4 ? b2_load_8(p + 6 * plane) : a, h = itemsize > 4 ? b2_load_8(p + 7 * plane) : a;
    B2_STORE_8(to, itemsize, b2_low, a, b, c, d, e, f, g, h);
}
#endif

/* `n` items that follow each other. */
static inline void unshuffle_run(uint8_t *to, const uint8_t *p, int64_t plane, int64_t n, int itemsize) {
#ifdef B2_HAS_UNPACK
    int64_t i;
    if (n >= 16) {
        for (i = 0; i <= n - 16; i += 16) unshuffle_16(to + i * itemsize, p + i, plane, itemsize);
        if (i < n) unshuffle_16(to + (n - 16) * itemsize, p + n - 16, plane, itemsize);     /* some of them again */
        return;
    }
    if (n >= 8) {
        unshuffle_8(to, p, plane, itemsize);
        if (n > 8) unshuffle_8(to + (n - 8) * itemsize, p + n - 8, plane, itemsize);
        return;
    }
#endif
    unshuffle_each(to, p, plane, n, itemsize);
}

/* A box of items. Strides in `to` are in bytes, those in the block in items; `plane` is how many items the block has. */
static inline void unshuffle_box_of(uint8_t *to, const int64_t *to_strides, const uint8_t *p, int64_t plane,
                                    const int64_t *strides, const int64_t *count, int ndim, int itemsize) {
    int64_t at[16] = {0}, run = 1, n = 1, ts = 0, ss = 0, i;
    int d;
    /* Trailing axes that are one run on both sides. */
    while (ndim && (count[ndim - 1] == 1 || (to_strides[ndim - 1] == run * itemsize && strides[ndim - 1] == run)))
        run *= count[--ndim];
    if (ndim) {
        ndim--;
        n = count[ndim];
        ts = to_strides[ndim];
        ss = strides[ndim];
    }
    for (;;) {
        if (run == 16)      /* so that the compiler sees the most usual length of rows */
            for (i = 0; i < n; i++) unshuffle_run(to + i * ts, p + i * ss, plane, 16, itemsize);
        else
            for (i = 0; i < n; i++) unshuffle_run(to + i * ts, p + i * ss, plane, run, itemsize);
        for (d = ndim - 1; d >= 0; d--) {
            at[d]++;
            to += to_strides[d];
            p += strides[d];
            if (at[d] < count[d]) break;
            to -= to_strides[d] * count[d];
            p -= strides[d] * count[d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

static inline void unshuffle_box(uint8_t *to, const int64_t *to_strides, const uint8_t *planes, int64_t plane,
                                 const int64_t *strides, const int64_t *count, int ndim, int itemsize) {
    switch (itemsize) {     /* so that the compiler sees each size */
    case 2: unshuffle_box_of(to, to_strides, planes, plane, strides, count, ndim, 2); break;
    case 4: unshuffle_box_of(to, to_strides, planes, plane, strides, count, ndim, 4); break;
    default: unshuffle_box_of(to, to_strides, planes, plane, strides, count, ndim, 8);
    }
}

/* Items that follow each other. */
static inline void unshuffle_items(uint8_t *to, const uint8_t *planes, int64_t plane, int64_t n, int itemsize) {
    switch (itemsize) {
    case 2: unshuffle_run(to, planes, plane, n, 2); break;
    case 4: unshuffle_run(to, planes, plane, n, 4); break;
    default: unshuffle_run(to, planes, plane, n, 8);
    }
}
#endif
