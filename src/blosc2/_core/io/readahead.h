/* Asking the system to read bytes of a file before they are needed, many at once.

   A thread that needs bytes which are not in memory waits for them, one request after the other: a page fault or a
   positional read each. Asking does not wait, so any number of requests are under way at the same time. */
#ifndef B2_READAHEAD_H
#define B2_READAHEAD_H
#include <stdint.h>

#include "io/mapping.h"

#if defined(_WIN32) || !(defined(POSIX_FADV_WILLNEED) || defined(F_RDADVISE))
#define B2_ASKS 0
static inline int64_t coarse_ms(void) { return 0; }
static inline int answers_late(int fd) {
  (void)fd;
  return 0;
}
static inline int ask_for(int fd, const uint8_t *base, int64_t offset, int64_t length) {
  (void)fd, (void)base, (void)offset, (void)length;
  return 0;
}
static inline long window_of(int64_t device) {
  (void)device;
  return -1;
}
#else
#define B2_ASKS 1
#include <time.h>
#ifdef __linux__
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#endif

#ifdef CLOCK_MONOTONIC_COARSE
#define B2_COARSE CLOCK_MONOTONIC_COARSE
#else
#define B2_COARSE CLOCK_MONOTONIC
#endif

static inline int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
static inline int64_t coarse_ms(void) { return clock_ns(B2_COARSE) / 1000000; }

/* What a request may take, in ns, for bytes that are in memory: about twice what was measured. Those that are not take
   at least three times as long, because pages have to be allocated and the request has to be sent. `mincore` would
   tell exactly, but only whoever may write to the file, and no call tells it of a file that is not mapped. */
#define B2_CALL_NS 2500
#define B2_PAGE_NS 200

/* Whether a file lies behind a network: 1; 2 on FUSE. While 9 requests are under way, such a system drops those ahead of the
   reader if the kernel has read ahead by itself before: it must not, then. */
static inline int answers_late(int fd) {
#ifdef __linux__
  struct statfs about;
  if (fstatfs(fd, &about) == 0)
    switch ((uint32_t)about.f_type) {
    case 0x65735546: return 2;  /* FUSE */
    case 0x6969:                /* NFS */
    case 0xFF534D42:            /* CIFS */
    case 0xFE534D42:            /* SMB */
    case 0x00C36400:            /* Ceph */
    case 0x0BD00BD0:            /* Lustre */
    case 0x19830326:            /* BeeGFS */
    case 0x47504653: return 1;  /* GPFS */
    }
#else
  (void)fd;
#endif
  return 0;
}

/* How many KiB the system reads ahead of reads that follow each other, of a file on a disk; -1 where that is unknown.
   Over a network it is few, and FUSE drops requests after it. */
static inline long window_of(int64_t device) {
#ifdef __linux__
  char text[80];
  ssize_t length;
  int fd;
  if (major((dev_t)device) == 0)
    return -1;
  snprintf(text, sizeof text, "/sys/class/bdi/%u:%u/read_ahead_kb", major((dev_t)device), minor((dev_t)device));
  fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = 0;
  length = strtol(text, NULL, 10);
  return length > 0 ? (long)length : -1;
#else
  (void)device;
  return -1;
#endif
}

/* Ask for bytes of a file that is mapped at `base`, or has the descriptor. Whether some were not in memory. */
static inline int ask_for(int fd, const uint8_t *base, int64_t offset, int64_t length) {
  int64_t start = clock_ns(CLOCK_MONOTONIC);
  if (fd >= 0)
    advise_file(fd, offset, length, B2_WILLNEED);
  else
    advise_mapping(base + offset, length, B2_WILLNEED);
  return clock_ns(CLOCK_MONOTONIC) - start > (length / B2_READ_AHEAD + 1) * B2_CALL_NS + (length / 4096 + 1) * B2_PAGE_NS;
}
#endif
#endif
