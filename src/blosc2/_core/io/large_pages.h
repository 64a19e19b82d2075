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
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t first = ((uintptr_t)start + page - 1) / page * page, end = ((uintptr_t)start + length) / page * page;
    if (start && end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)start, (void)length;
#endif
}
#endif
