/* Memory: bytes that are read once, that the processor fetches early, and large pages. */
#ifndef B2_MEMORY_H
#define B2_MEMORY_H
#include <stddef.h>
#include <stdint.h>

/* Numbers from bytes that another process may change while they are looked at, as those of a mapped file: each is read by one
 * access, which no compiler repeats or leaves out, so that what was checked is what is used. At any address. */
#if defined(__GNUC__) || defined(__clang__)
typedef struct {
    uint64_t value;
} __attribute__((packed, may_alias)) b2_loose_word;
#define B2_WORD_AT(p) (((const volatile b2_loose_word *)(p))->value)
#define B2_SWAPPED(word) __builtin_bswap64(word)
#else
#include <stdlib.h>
#define B2_WORD_AT(p) (*(const volatile __unaligned uint64_t *)(p))
#define B2_SWAPPED(word) _byteswap_uint64(word)
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static inline uint64_t read_once(const uint8_t *p) { return B2_SWAPPED(B2_WORD_AT(p)); }
static inline uint64_t read_once_big(const uint8_t *p) { return B2_WORD_AT(p); }
#else
static inline uint64_t read_once(const uint8_t *p) { return B2_WORD_AT(p); }
static inline uint64_t read_once_big(const uint8_t *p) { return B2_SWAPPED(B2_WORD_AT(p)); }
#endif

/* Ask for stored bytes before the decoder needs them. Decoders read several streams of a block at once, which keeps
 * hardware from guessing what comes next; read by position, the same bytes come from a copy that is in the cache. */
#if defined(__GNUC__) || defined(__clang__)
static inline void prefetch(const uint8_t *start, int64_t length) {
    for (int64_t i = 0; i < length; i += 64) {
        __builtin_prefetch(start + i, 0, 2);
        /* GCC takes a function that does nothing else for one without effects, and leaves out the call. */
        __asm__ volatile("" : : "r"(start + i));
    }
}
#else
static inline void prefetch(const uint8_t *start, int64_t length) { (void) start; (void) length; }
#endif

/* Large pages for memory that is all to be used, here and there: fewer faults, and fewer addresses to look up. */
#ifndef _WIN32
#include <sys/mman.h>
#endif

/* To be said of fresh memory; where the system has no such pages, it changes nothing. */
static inline void use_large_pages(void *start, size_t length) {
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)2 << 20, small = 4096;    /* the last one counts whole: for others in it, the advice changes nothing */
    uintptr_t first = ((uintptr_t)start + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)start + length + small - 1) / small * small / page * page;
    if (start && end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)start, (void)length;
#endif
}

/* Sizes of memory of which it is worth knowing whether it is fresh; larger pieces have large pages. */
enum { FRESH_LEAST = 1 << 20, FRESH_MOST = 4 << 20 };

#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
/* Whether memory was never touched, as the page in its middle tells. */
static inline int is_fresh(void *start, int64_t length) {
    const uintptr_t page = 4096;    /* where pages are larger, the system takes no such address */
    unsigned char there = 1;
    return mincore((void *)(((uintptr_t)start + (uintptr_t)length / 2) / page * page), 1, &there) == 0 && !(there & 1);
}
/* Have the system give memory that is all to be written, in one call: half the time of a fault for each page. Large pages,
   where they fit in, take half of that; memory right below a large mapped file ends where one ends. */
static inline void bring_pages(void *start, int64_t length) {
    const uintptr_t page = 4096;
    use_large_pages(start, (size_t)length);
    uintptr_t first = ((uintptr_t)start + page - 1) / page * page, end = ((uintptr_t)start + (uintptr_t)length) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}
#else
static inline int is_fresh(void *start, int64_t length) { (void)start, (void)length; return 0; }
static inline void bring_pages(void *start, int64_t length) { (void)start, (void)length; }
#endif
#endif
