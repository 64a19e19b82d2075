/* A small file, read at once: opened, read and closed without Python between. */
#ifndef B2_SMALL_FILE_H
#define B2_SMALL_FILE_H
#include <errno.h>
#include <stdint.h>

#ifdef _WIN32
#define B2_READS_SMALL_FILES 0

static int64_t read_small_file(const char *path, int flags, void *into, int64_t limit) {
  (void)path; (void)flags; (void)into; (void)limit;
  return -ENOSYS;
}
#else
#define B2_READS_SMALL_FILES 1
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first `limit` bytes of a regular file: how many it has of these, or -errno; -EISDIR of whatever is no such file. */
static int64_t read_small_file(const char *path, int flags, void *into, int64_t limit) {
  int fd;
  int64_t got;
  struct stat status;
  do fd = open(path, flags); while (fd < 0 && errno == EINTR);
  if (fd < 0) return -errno;
  do got = read(fd, into, (size_t)limit); while (got < 0 && errno == EINTR);
  if (got < 0) got = errno == EAGAIN ? -EISDIR : -errno;
  /* A device or a pipe gives no bytes, or as many as are wanted. */
  else if ((got == 0 || got == limit) && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) got = -EISDIR;
  close(fd);
  return got;
}
#endif
#endif
