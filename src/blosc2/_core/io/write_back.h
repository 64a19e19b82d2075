/* Asking the system to begin writing bytes of a file to the disk, without waiting: a sync that comes later has less to do. */
#ifndef B2_WRITE_BACK_H
#define B2_WRITE_BACK_H
#include <stdint.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* It promises nothing, and so has nothing to report. */
static inline void begin_write_back(int fd, int64_t offset, int64_t length) {
#if defined(__linux__) && defined(SYS_sync_file_range) && defined(__LP64__)
    /* SYNC_FILE_RANGE_WRITE: pages that are not on their way yet. Part of a page may still change, so it is left out. */
    int64_t first = offset & ~(int64_t)4095, end = (offset + length) & ~(int64_t)4095;
    if (end > first)
        syscall(SYS_sync_file_range, fd, first, end - first, 2u);
#else
    (void)fd, (void)offset, (void)length;
#endif
}
#endif
