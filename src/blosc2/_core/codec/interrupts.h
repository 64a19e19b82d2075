/* Interrupts (Ctrl-C) while the C library compresses a chunk that takes long.
 *
 * The library asks a function for the bytes of each block. Ours gives them as they are, and now and then looks for signals
 * if its thread is one of Python's; where a handler raises, the library is told to stop, by all threads of the chunk. */
#ifndef B2_INTERRUPTS_H
#define B2_INTERRUPTS_H
#include <Python.h>
#include <blosc2.h>
#include <stdlib.h>
#include <string.h>

#include "../io/steps.h"
#include "block_threads.h"

/* Bytes between two looks: a few milliseconds of a fast codec, half a second of the slowest. */
enum { B2_LOOK_AFTER = 2 << 20 };

typedef struct {
    const uint8_t *source;
    int (*raised)(void);        /* takes the GIL; whether a handler has raised */
    atomic_state stop;
} Interruptible;

static B2_OF_THREAD int32_t b2_since_look;

static int b2_give_block(blosc2_prefilter_params *block) {
    Interruptible *self = (Interruptible *) block->user_data;
    b2_since_look += block->output_size;
    if (b2_since_look >= B2_LOOK_AFTER) {
        b2_since_look = 0;
        if (PyGILState_GetThisThreadState() != NULL) {
            b2_library_call call = b2_call;     /* a handler may compress, too */
            const BlockThreads *threads = b2_block_threads;
            if (self->raised()) state_set(&self->stop, 1);
            b2_call = call, b2_block_threads = threads;
        }
    }
    if (state_get(&self->stop)) return -1;
    memcpy(block->output, self->source + block->output_offset, (size_t) block->output_size);
    return 0;
}

static void *new_interruptible(int (*raised)(void)) {
    Interruptible *self = (Interruptible *) calloc(1, sizeof(*self));
    if (self != NULL) self->raised = raised;
    return self;
}

/* A context with such a function. */
static blosc2_context *interruptible_context(blosc2_cparams parameters, void *self) {
    blosc2_prefilter_params block;
    memset(&block, 0, sizeof(block));
    block.user_data = self;
    parameters.prefilter = b2_give_block;
    parameters.preparams = &block;      /* which is copied */
    return blosc2_create_cctx(parameters);
}

static void begin_interruptible(void *interrupts, const uint8_t *source) {
    Interruptible *self = (Interruptible *) interrupts;
    self->source = source;
    state_set(&self->stop, 0);
}

static int was_interrupted(void *interrupts) { return state_get(&((Interruptible *) interrupts)->stop) != 0; }
#endif
