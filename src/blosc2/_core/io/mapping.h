/* Mappings of files, and advice about how they will be read. Where there are none (Windows), mappings are Python's. */
#ifndef B2_MAPPING_H
#define B2_MAPPING_H
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
#endif
