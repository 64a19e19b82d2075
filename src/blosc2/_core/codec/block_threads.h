/* The blocks of one chunk, compressed by threads that the caller has: no thread is the C library's own.
 *
 * The library divides a chunk among as many jobs as its context has threads, and gives them to a callback, the same for
 * all contexts. A job compresses blocks until none is left, so one thread may do several, one after the other. Blocks lie
 * in the order in which they became ready. Here they are put in the order that one thread gives, so that the bytes of a
 * chunk do not depend on how many there were. A shared C-Blosc2 may have other users, and keeps its callback. */
#ifndef B2_BLOCK_THREADS_H
#define B2_BLOCK_THREADS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../io/steps.h"
#include "library.h"

typedef void (*BlocksJob)(void *);
typedef void (*RunBlocks)(void *helpers, BlocksJob job, int count, size_t size, void *data);
typedef struct {
    RunBlocks run;      /* has all jobs done: `data` has one argument of `size` bytes for each */
    void *helpers;
} BlockThreads;

/* Who helps with the chunk that this thread compresses. */
static B2_OF_THREAD const BlockThreads *b2_block_threads = NULL;

static inline void share_blocks(const BlockThreads *threads) {
    b2_block_threads = threads;
    b2_call.shared = threads != NULL;
}

/* A job, and how the thread that does it fares with memory. */
typedef struct {
    BlocksJob job;
    void *argument;
    b2_library_call call;
} b2_blocks_job;

static void b2_do_job(void *data) {
    b2_blocks_job *self = (b2_blocks_job *) data;
    b2_library_call before = b2_call;
    b2_call = self->call;
    self->job(self->argument);
    self->call = b2_call;
    b2_call = before;
}

static void b2_run_blocks(void *unused, BlocksJob job, int count, size_t size, void *data) {
    b2_blocks_job jobs[72];     /* more than there are threads */
    int first, i, some;
    (void) unused;
    /* A thread has no room where there was no memory for it, and the library does not look. */
    for (first = 0; first < count && !b2_call.denied; first += some) {
        some = count - first < 72 ? count - first : 72;
        for (i = 0; i < some; i++) {
            memset(&jobs[i], 0, sizeof(jobs[i]));
            jobs[i].job = job, jobs[i].argument = (char *) data + size * (size_t) (first + i);
            jobs[i].call.inside = 1;
        }
        if (b2_block_threads != NULL) b2_block_threads->run(b2_block_threads->helpers, b2_do_job, some, sizeof(jobs[0]), jobs);
        else for (i = 0; i < some; i++) b2_do_job(&jobs[i]);
        for (i = 0; i < some; i++) {
            b2_call.lacking |= jobs[i].call.lacking, b2_call.denied |= jobs[i].call.denied;
            b2_call.held += jobs[i].call.held;
        }
    }
}

static inline int32_t b2_int32(const uint8_t *p) {
    return (int32_t) ((uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24);
}

#ifdef B2_HAS_CODECS
void blosc2_set_threads_callback(RunBlocks callback, void *data);
enum { BLOCK_THREADS = 1 };
static inline void take_block_jobs(void) { blosc2_set_threads_callback(b2_run_blocks, NULL); }
#else
enum { BLOCK_THREADS = 0 };
static inline void take_block_jobs(void) { (void) b2_run_blocks; }
#endif

typedef struct {
    int32_t at, block, length;
} b2_block_place;

static int b2_by_place(const void *a, const void *b) {
    int32_t x = ((const b2_block_place *) a)->at, y = ((const b2_block_place *) b)->at;
    return (x > y) - (x < y);
}

static int b2_by_block(const void *a, const void *b) {
    int32_t x = ((const b2_block_place *) a)->block, y = ((const b2_block_place *) b)->block;
    return (x > y) - (x < y);
}

/* Sort blocks that follow each other in the chunk, and that are the blocks which belong there, in another order. */
static int b2_order_some(uint8_t *chunk, b2_block_place *blocks, int32_t count) {
    int32_t begin = blocks[0].at, next = begin, i;
    size_t size = (size_t) (blocks[count - 1].at + blocks[count - 1].length - begin);
    uint8_t *copy = (uint8_t *) malloc(size), *start;
    if (copy == NULL) return 0;
    memcpy(copy, chunk + begin, size);
    qsort(blocks, (size_t) count, sizeof(*blocks), b2_by_block);
    for (i = 0; i < count; i++) {
        start = chunk + 32 + 4 * (size_t) blocks[i].block;
        start[0] = (uint8_t) next, start[1] = (uint8_t) (next >> 8);
        start[2] = (uint8_t) (next >> 16), start[3] = (uint8_t) (next >> 24);
        memcpy(chunk + next, copy + (blocks[i].at - begin), (size_t) blocks[i].length);
        next += blocks[i].length;
    }
    free(copy);
    return 1;
}

/* Put the blocks of a chunk that the library has just made into their order; where memory is short they stay as they are,
 * which every reader takes. Only blocks that are not in their place are copied, and they are few. */
static void order_blocks(uint8_t *chunk, int32_t size) {
    int32_t nbytes = b2_int32(chunk + 4), blocksize = b2_int32(chunk + 8), count, last, first, i;
    b2_block_place *blocks;
    count = blocksize > 0 ? (int32_t) (((int64_t) nbytes + blocksize - 1) / blocksize) : 0;
    if (chunk[2] & 2 || chunk[31] >> 4 || count < 2) return;     /* stored as it is, or all the same */
    blocks = (b2_block_place *) malloc(sizeof(*blocks) * (size_t) count);
    if (blocks == NULL) return;
    for (i = 0; i < count; i++) {
        blocks[i].at = b2_int32(chunk + 32 + 4 * (size_t) i);
        blocks[i].block = i;
    }
    qsort(blocks, (size_t) count, sizeof(*blocks), b2_by_place);
    for (i = 0; i < count; i++) blocks[i].length = (i + 1 < count ? blocks[i + 1].at : size) - blocks[i].at;
    first = last = 0;
    for (i = 0; i < count; i++) {
        if (blocks[i].block > last) last = blocks[i].block;
        if (last > i) continue;
        if (i > first && !b2_order_some(chunk, blocks + first, i + 1 - first)) break;
        first = i + 1;
    }
    free(blocks);
}
#endif
