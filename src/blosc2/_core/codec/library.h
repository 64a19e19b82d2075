/* What C-Blosc2 takes from the process: memory, and variables of the environment. */
#ifndef B2_LIBRARY_H
#define B2_LIBRARY_H
/* What the C library does when memory is short. It uses some of what it asked for without looking whether it got it
   (contexts of zstd and LZ4, the geometry in its plugins), tells a lack of memory as damage (zlib, dictionaries), or gives a
   chunk that nobody can decode (a dictionary of zstd). Where the linker can do it, its calls of `malloc` come here. What is
   small then always succeeds: a reserve has it where the system has none. Whatever a call gives for which memory was short
   is dropped, and so is the context, because parts of it may lie in the reserve, and others be gone.

   A call of the library stands between `enter_library` and `leave_library`; if that says NO_MEMORY, the context is
   freed, and `leave_reserve` follows. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../io/steps.h"
#include "chunk_errors.h"

enum { LIBRARY_NO_MEMORY = -4, LIBRARY_NO_CONTEXT = -26 };  /* no thread of its own is ever asked for: memory again */

typedef struct {
    int inside;     /* whether this thread is in the library */
    int lacking;    /* whether memory was short */
    int denied;     /* whether something was too large for the reserve */
    int held;       /* calls, of helpers too, that have something of the reserve */
    int shared;     /* whether other threads help with it */
} b2_library_call;

static B2_OF_THREAD b2_library_call b2_call;

static inline void enter_library(void) { b2_call.inside = 1; }

/* What a call gave, as a status: NO_MEMORY where memory was short. */
static inline int leave_library(int status) {
    int lacking = b2_call.lacking;
    b2_call.inside = b2_call.lacking = b2_call.denied = 0;
    return lacking || status == LIBRARY_NO_MEMORY || status == LIBRARY_NO_CONTEXT ? NO_MEMORY : status;
}

#ifdef B2_WRAPS_LIBRARY
enum { RESERVE = 1 << 20, LARGEST_RESERVED = RESERVE / 2, MOST_CLEARED = 64 << 10, RESERVED_AT = 64 };

/* Pages that nobody touches take no memory. They are used one behind the other, and all again when nobody has any. */
static _Alignas(64) unsigned char b2_reserve[RESERVE];
static uint64_t b2_reserve_use;     /* how many calls have something of it, above 32 bits that say how far it is used */

static void *b2_reserved(size_t size) {
    uint64_t before = __atomic_load_n(&b2_reserve_use, __ATOMIC_ACQUIRE), after;
    uint64_t room = (size + RESERVED_AT - 1) & ~(uint64_t) (RESERVED_AT - 1);
    b2_call.lacking = 1;
    do {
        if (size > LARGEST_RESERVED || (uint32_t) before + room > RESERVE) {
            b2_call.denied = 1;
            return NULL;
        }
        after = before + room + (b2_call.held ? 0 : (uint64_t) 1 << 32);
    } while (!__atomic_compare_exchange_n(&b2_reserve_use, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (!b2_call.held) b2_call.held = 1;
    return b2_reserve + (uint32_t) before;
}

static inline void leave_reserve(void) {
    uint64_t before, after;
    if (!b2_call.held) return;
    before = __atomic_load_n(&b2_reserve_use, __ATOMIC_ACQUIRE);
    do {
        after = before - ((uint64_t) b2_call.held << 32);
        if (after >> 32 == 0) after = 0;
    } while (!__atomic_compare_exchange_n(&b2_reserve_use, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    b2_call.held = 0;
}

/* In a forked child: what other threads had is lost with them. */
static inline void clear_reserve(void) { __atomic_store_n(&b2_reserve_use, 0, __ATOMIC_RELEASE); }

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **found, size_t alignment, size_t size);
void __real_free(void *found);
__attribute__((weak)) size_t __real_zfp_compress(void *stream, const void *field);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **found, size_t alignment, size_t size);
void __wrap_free(void *found);
size_t __wrap_zfp_compress(void *stream, const void *field);

void *__wrap_malloc(size_t size) {
    void *found = __real_malloc(size);
    return found == NULL && b2_call.inside ? b2_reserved(size) : found;
}

void *__wrap_calloc(size_t count, size_t size) {
    void *found = __real_calloc(count, size);
    if (found == NULL && b2_call.inside && (size == 0 || count <= SIZE_MAX / size)) {
        found = b2_reserved(count * size);
        if (found != NULL) memset(found, 0, count * size);
    }
    return found;
}

/* Of threads' parts of a context that were not made wholly, the library frees what their fields point to: they are cleared. */
int __wrap_posix_memalign(void **found, size_t alignment, size_t size) {
    int status = __real_posix_memalign(found, alignment, size);
    if (status && b2_call.inside && alignment <= RESERVED_AT) {
        *found = b2_reserved(size);
        status = *found == NULL ? status : 0;
    }
    if (status == 0 && b2_call.shared && size <= MOST_CLEARED) memset(*found, 0, size);
    return status;
}

void __wrap_free(void *found) {
    if ((uintptr_t) found - (uintptr_t) b2_reserve >= RESERVE) __real_free(found);
}

/* It writes to room that may not be there, which may be larger than the reserve. */
size_t __wrap_zfp_compress(void *stream, const void *field) {
    return b2_call.denied ? 0 : __real_zfp_compress(stream, field);
}
/* With dictionaries and LZ4 it copies between ranges of a chunk that overlap. `memmove` takes as long, if it is as many jumps
   away as `memcpy` would be. */
#ifndef __clang__
void *memmove(void *to, const void *from, size_t size) __attribute__((noplt));
#endif
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size) { return memmove(to, from, size); }
#else
static inline void leave_reserve(void) {}
static inline void clear_reserve(void) {}
#endif

/* The C library reads BLOSC_* variables when a context is made and again while it compresses, and lets them override
   the parameters that it was given. Where the linker can do it, its calls of getenv come here and find none of them. */
#ifdef B2_WRAPS_LIBRARY
char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);

char *__wrap_getenv(const char *name) {
  return strncmp(name, "BLOSC_", 6) == 0 ? 0 : __real_getenv(name);
}

static inline int library_reads_environment(void) { return 0; }
#else
static inline int library_reads_environment(void) { return 1; }
#endif
#endif
