/* Mappings of files, advice about how they will be read, and asking for bytes of a file before they are needed. Where there
 * are no mappings (Windows), they are Python's. */
#ifndef B2_READAHEAD_H
#define B2_READAHEAD_H
#include <errno.h>
#include <stdint.h>

/* In this order `ADVICE` of source.pyx has them. */
enum { B2_NORMAL, B2_RANDOM, B2_SEQUENTIAL, B2_WILLNEED, B2_DONTNEED };

#if defined(_WIN32) || defined(B2_NO_NATIVE_MAPPING)
#define B2_MAPS_FILES 0
static void *map_file(int fd, int64_t length) {
  (void)fd, (void)length;
  errno = ENOSYS;
  return NULL;
}
static void unmap_file(void *base, int64_t length) { (void)base, (void)length; }
#else
#define B2_MAPS_FILES 1
#include <sys/mman.h>

/* A read-only mapping that may be longer than the file; NULL and errno. */
static void *map_file(int fd, int64_t length) {
  void *base = MAP_FAILED;
  if ((uint64_t)length > SIZE_MAX)
    errno = ENOMEM;
  else
    base = mmap(NULL, (size_t)length, PROT_READ, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? NULL : base;
}
static void unmap_file(void *base, int64_t length) { munmap(base, (size_t)length); }
#endif

#ifdef _WIN32
static void advise_mapping(const void *start, int64_t length, int advice) { (void)start, (void)length, (void)advice; }
static void advise_file(int fd, int64_t offset, int64_t length, int advice) {
  (void)fd, (void)offset, (void)length, (void)advice;
}
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux reads no more than its read-ahead for one call that says what will be needed; this is its usual size. */
#define B2_READ_AHEAD (128 << 10)

/* Advice that is refused is nothing lost. */
static void advise_mapping(const void *start, int64_t length, int advice) {
#if defined(MADV_NORMAL) && defined(MADV_DONTNEED)
  static const int kinds[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED};
  uintptr_t before = (uintptr_t)start % (uintptr_t)sysconf(_SC_PAGESIZE);
  char *at = (char *)start - before;
  size_t left = (size_t)length + before;
  while (left > 0) {
    size_t step = advice != B2_WILLNEED || left < B2_READ_AHEAD ? left : B2_READ_AHEAD;
    madvise(at, step, kinds[advice]);
    at += step;
    left -= step;
  }
#else
  (void)start, (void)length, (void)advice;
#endif
}
/* A length of 0 means all that follows, also what is still to come. */
static void advise_file(int fd, int64_t offset, int64_t length, int advice) {
#if defined(POSIX_FADV_NORMAL) && defined(POSIX_FADV_DONTNEED)
  static const int kinds[] = {POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED,
                              POSIX_FADV_DONTNEED};
  if (advice != B2_WILLNEED) {
    posix_fadvise(fd, (off_t)offset, (off_t)length, kinds[advice]);
    return;
  }
  while (length > 0) {
    int64_t step = length < B2_READ_AHEAD ? length : B2_READ_AHEAD;
    posix_fadvise(fd, (off_t)offset, (off_t)step, kinds[advice]);
    offset += step;
    length -= step;
  }
#elif defined(F_RDADVISE)
  /* macOS has advice for the bytes that will be needed, and for none other. */
  if (advice == B2_WILLNEED) {
    struct radvisory wanted;
    wanted.ra_offset = (off_t)offset;
    wanted.ra_count = length > INT32_MAX ? INT32_MAX : (int)length;
    fcntl(fd, F_RDADVISE, &wanted);
  }
#else
  (void)fd, (void)offset, (void)length, (void)advice;
#endif
}
#endif

/* Asking the system to read bytes of a file before they are needed, many at once.

   A thread that needs bytes which are not in memory waits for them, one request after the other: a page fault or a
   positional read each. Asking does not wait, so any number of requests are under way at the same time. */
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
