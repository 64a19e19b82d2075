/* Large pages for memory that is all to be used, here and there: fewer faults, and fewer addresses to look up. */
#ifndef B2_LARGE_PAGES_H
#define B2_LARGE_PAGES_H
#include <stddef.h>
#include <stdint.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif

/* Bytes that are read into memory of their own, for which large pages are worth asking. */
enum { LARGE_READ = 4 << 20 };

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
enum { FRESH_LEAST = 1 << 20, FRESH_MOST = LARGE_READ };

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
