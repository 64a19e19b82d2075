/* Copying rows of equal length. A call of `memcpy` takes as long as copying some 100 bytes, and rows of blocks are often
 * shorter, so these are copied here. */
#ifndef B2_COPY_ROWS_H
#define B2_COPY_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first and the last `part` bytes of each row, which has no more than twice as many; they may overlap. */
#define B2_ROWS_OF_TWO(part) \
    for (i = 0; i < n; i++) { \
        uint8_t first[part], last[part]; \
        memcpy(first, source + i * source_step, part); \
        memcpy(last, source + i * source_step + run - part, part); \
        memcpy(to + i * to_step, first, part); \
        memcpy(to + i * to_step + run - part, last, part); \
    } \
    return

/* Rows of this length. */
#define B2_ROWS_OF(length) \
    case length: \
        for (i = 0; i < n; i++) memcpy(to + i * to_step, source + i * source_step, length); \
        return

/* `n` rows of `run` bytes, which are `to_step` and `source_step` bytes apart. */
static inline void copy_rows(uint8_t *to, int64_t to_step, const uint8_t *source, int64_t source_step, int64_t n,
                             int64_t run) {
    int64_t i;
    switch (run) {
    B2_ROWS_OF(1);
    B2_ROWS_OF(2);
    B2_ROWS_OF(4);
    B2_ROWS_OF(8);
    B2_ROWS_OF(16);
    B2_ROWS_OF(32);
    B2_ROWS_OF(64);
    B2_ROWS_OF(128);
    }
    if (run == 3) { B2_ROWS_OF_TWO(2); }
    if (run > 4 && run < 8) { B2_ROWS_OF_TWO(4); }
    if (run > 8 && run < 16) { B2_ROWS_OF_TWO(8); }
    if (run > 16 && run < 32) { B2_ROWS_OF_TWO(16); }
    if (run > 32 && run < 64) { B2_ROWS_OF_TWO(32); }
    if (run > 64 && run < 128) { B2_ROWS_OF_TWO(64); }
    for (i = 0; i < n; i++) memcpy(to + i * to_step, source + i * source_step, (size_t) run);
}
#endif
