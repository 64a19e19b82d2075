/* Copying bytes and summing them in one pass: what is copied is what was summed, and memory is read once.
 *
 * As in `crc32c.h` and `crc32.h`, 256 bytes stand for all that came before them; each 64 that are copied are folded in. */
#ifndef B2_CRC_COPY_H
#define B2_CRC_COPY_H
#include "crc32.h"
#include "crc32c.h"

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
#define b2_folds_rows() (b2_crc_way == 2 && b2_crc32_way == 2)

/* Go on from the checksum of what came before: CRC-32C, or CRC-32 with `zip`. Only where `b2_folds_rows`. */
__attribute__((target("pclmul," B2_SSE42)))
static uint32_t crc_copy_rows(int zip, uint32_t crc, uint8_t *to, const int64_t *strides, const int64_t *count,
                              int axes, const uint8_t *source, size_t run) {
    uint8_t rest[256];
    /* x to the powers of 2048 - 32 and 2048 + 32 modulo each polynomial. */
    b2_fold_rows(~crc, zip ? _mm_set_epi64x(0x1322D1430, 0x11542778A) : _mm_set_epi64x(0xB9E02B86, 0xDCB17AA4),
                 rest, to, strides, count, axes, source, run);
    return ~(zip ? crc32_by_wide_folding(0, rest, 256) : crc32c_by_instruction(0, rest, 256));
}
#else
#define b2_folds_rows() 0
#define crc_copy_rows(zip, crc, to, strides, count, axes, source, run) (crc)
#endif
#endif
