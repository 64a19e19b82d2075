/* What does copying bytes and summing them in one pass take, compared with copying alone, and with two passes?
 *
 *     cc -O3 -Isrc/blosc2/_core bench/copy_and_sum.c -lpthread -o /tmp/copy_and_sum && /tmp/copy_and_sum
 *
 * 16 MB that are in no cache go piece by piece to memory that is new, as a result array is, or used again. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "io/crc.h"

enum { SIZE = 16 << 20, AREA = 64 << 20, REPEAT = 80, WAYS_TO_DO_IT = 4 };
static const char *const NAMES[] = {"copied", "summed", "one after the other", "in one pass"};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    return *(const double *) a < *(const double *) b ? -1 : 1;
}

static uint8_t *memory(void) {
    uint8_t *p = aligned_alloc(2 << 20, SIZE + (2 << 20));
    madvise(p, SIZE, MADV_HUGEPAGE);
    return p;
}

int main(void) {
    uint8_t *source = malloc(AREA + 64), *kept = memory();
    const int64_t none[1] = {0};
    crc32c_prepare();
    crc32_prepare();
    if (!b2_folds_rows()) puts("this processor copies and sums in two passes");
    for (size_t i = 0; i < AREA + 64; i++) source[i] = (uint8_t) (i * 2654435761u >> 13);
    memset(kept, 1, SIZE + 64);
    for (int fresh = 0; fresh < 2; fresh++)
        for (size_t piece = 1 << 18; piece <= 1 << 22; piece <<= 4) {
            static double taken[WAYS_TO_DO_IT][REPEAT];
            uint32_t sums[WAYS_TO_DO_IT] = {0};
            for (int r = 0; r < REPEAT * WAYS_TO_DO_IT; r++) {
                const int way = (r + r / WAYS_TO_DO_IT) % WAYS_TO_DO_IT;
                uint8_t *to = (fresh ? memory() : kept), *d = to + 16;
                const uint8_t *p = source + (size_t) (r % 3) * SIZE + 32; /* as behind the header of a chunk */
                uint32_t crc = 0;
                const double began = now();
                for (size_t i = 0; i < SIZE; i += piece, p += piece, d += piece) {
                    if (way == 0 || way == 2 || (way == 3 && !b2_folds_rows())) memcpy(d, p, piece);
                    if (way == 1 || way == 2 || (way == 3 && !b2_folds_rows())) crc = crc32c_of(crc, p, piece);
                    if (way == 3 && b2_folds_rows()) crc = crc_copy_rows(crc, d, none, none, 0, p, piece);
                }
                taken[way][r / WAYS_TO_DO_IT] = now() - began;
                sums[way] += crc;
                if (fresh) free(to);
            }
            for (int way = 0; way < WAYS_TO_DO_IT; way++) qsort(taken[way], REPEAT, sizeof(double), compare);
            printf("%s memory, pieces of %zu KB\n", fresh ? "new" : "used", piece >> 10);
            for (int way = 0; way < WAYS_TO_DO_IT; way++)
                printf("    %-20s %.3f ms, %.2f x a copy; the least %.2f x (%08x)\n", NAMES[way],
                       taken[way][REPEAT / 2] * 1e3, taken[way][REPEAT / 2] / taken[0][REPEAT / 2],
                       taken[way][0] / taken[0][0], (unsigned) sums[way]);
        }
}
