/* Writing bytes to a file in another thread, while the caller makes the next ones. That thread knows nothing of Python. It is
 * none of the thread pool, which has one for each other core: whoever decodes arrays to make those bytes needs them. */
#ifndef B2_BACKGROUND_WRITE_H
#define B2_BACKGROUND_WRITE_H
#include "native_thread.h"
#include "write_back.h"
#include <stddef.h>
#include <stdint.h>

#ifndef _WIN32
#include <errno.h>
#include <unistd.h>
#endif

typedef struct {
    int descriptor;
    const uint8_t *data;
    int64_t size, position;         /* in the file */
    int64_t done;                   /* bytes that were written */
    int error;                      /* of the system, if these are not all */
    uint32_t (*sum)(uint32_t before, const uint8_t *data, size_t size);     /* 0: none is asked for */
    uint32_t checksum;              /* of what came before, then of this as well */
    int64_t asked;                  /* from where on the disk is to begin writing; -1: it is not to */
    int64_t number, settled;        /* how many were begun; up to which one the caller knows what came of them */
#ifndef _WIN32
    int started;                    /* whether there is a thread, of this process; the lock guards what follows */
    pid_t process;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    int64_t ended;                  /* the number of the last one that was done */
    int posted, leave;
#endif
} background_write;

#ifdef _WIN32
B2_INLINE int background_write_begin(background_write *self) { (void)self; return 0; }
B2_INLINE int background_write_wait(background_write *self, int64_t number) { (void)self, (void)number; return 0; }
B2_INLINE void background_write_leave(background_write *self) { (void)self; }
#else
/* What the thread needs is little; of the usual 8 MB a limit of memory would count all. */
enum { BACKGROUND_STACK = 256 << 10 };

static void background_write_once(background_write *self) {
    while (self->done < self->size) {
        ssize_t count = pwrite(self->descriptor, self->data + self->done, (size_t)(self->size - self->done),
                               (off_t)(self->position + self->done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            self->error = count < 0 ? errno : EIO;
            break;
        }
        self->done += count;
    }
    if (self->sum) self->checksum = self->sum(self->checksum, self->data, (size_t)self->done);
    if (self->asked >= 0) begin_write_back(self->descriptor, self->asked, self->position + self->done - self->asked);
}

static void *background_write_live(void *argument) {
    background_write *self = (background_write *)argument;
    int64_t number;
    leave_signals_to_others();
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (!self->posted && !self->leave) pthread_cond_wait(&self->wake, &self->lock);
        if (!self->posted) break;
        self->posted = 0;
        number = self->number;
        pthread_mutex_unlock(&self->lock);
        background_write_once(self);
        pthread_mutex_lock(&self->lock);
        self->ended = number;
        pthread_cond_broadcast(&self->finished);
    }
    pthread_mutex_unlock(&self->lock);
    return 0;
}

static int background_write_start(background_write *self) {
    pthread_attr_t kind;
    pthread_mutex_init(&self->lock, 0);     /* these three cannot fail with the libraries that there are */
    pthread_cond_init(&self->wake, 0);
    pthread_cond_init(&self->finished, 0);
    self->posted = self->leave = 0;
    self->ended = self->number;
    self->process = getpid();
    if (pthread_attr_init(&kind) != 0) return 0;
    self->started = pthread_attr_setstacksize(&kind, BACKGROUND_STACK) == 0
        && pthread_create(&self->thread, &kind, background_write_live, self) == 0;
    pthread_attr_destroy(&kind);
    return self->started;
}

/* Whether another thread writes now. Until it is settled nothing of it may be looked at, and the bytes may not change. */
static inline int background_write_begin(background_write *self) {
    if (self->settled != self->number) return 0;
    if (self->started ? self->process != getpid() : !background_write_start(self)) return 0;
    self->done = self->error = 0;
    pthread_mutex_lock(&self->lock);
    self->number++;
    self->posted = 1;
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    return 1;
}

/* Wait for a write, of which others may wait as well. It is 0 in a forked child, which has no such thread and knows
 * nothing of its work. */
static inline int background_write_wait(background_write *self, int64_t number) {
    if (self->process != getpid()) return 0;
    pthread_mutex_lock(&self->lock);
    while (self->ended < number) pthread_cond_wait(&self->finished, &self->lock);
    pthread_mutex_unlock(&self->lock);
    return 1;
}

/* End the thread, if there is one, when it has done its work. */
static inline void background_write_leave(background_write *self) {
    if (!self->started || self->process != getpid()) return;
    pthread_mutex_lock(&self->lock);
    self->leave = 1;
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, 0);
    pthread_cond_destroy(&self->finished);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->lock);
    self->started = 0;
}
#endif
#endif
