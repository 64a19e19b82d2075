/* Calls of the system for files: reading by position, reading a small file at once, and writing back early. */
#ifndef B2_FILE_CALLS_H
#define B2_FILE_CALLS_H
/* Positional reads: no shared file position, so threads need no lock.
   Returns the bytes read (less than asked only at the end of the file) or -errno. */
#include <errno.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#ifdef _WIN32
#include <io.h>
#include <windows.h>

static int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset) {
  HANDLE handle = (HANDLE)_get_osfhandle(fd);
  int64_t done = 0;
  if (handle == INVALID_HANDLE_VALUE) return -EBADF;
  while (done < length) {
    /* An OVERLAPPED with an offset makes ReadFile ignore the file position. */
    OVERLAPPED at = {0};
    DWORD got = 0;
    int64_t step = length - done;
    if (step > (1 << 30)) step = 1 << 30;
    at.Offset = (DWORD)((uint64_t)(offset + done) & 0xffffffffu);
    at.OffsetHigh = (DWORD)((uint64_t)(offset + done) >> 32);
    if (!ReadFile(handle, (char *)destination + done, (DWORD)step, &got, &at)) {
      if (GetLastError() == ERROR_HANDLE_EOF) break;
      return -EIO;
    }
    if (got == 0) break;
    done += got;
  }
  return done;
}

static void close_descriptor(int fd) { _close(fd); }
#else
#include <unistd.h>

/* Without Python, of which nothing may be left when the last object goes. */
static void close_descriptor(int fd) { close(fd); }

static int64_t positional_read(int fd, void *destination, int64_t length, int64_t offset) {
  int64_t done = 0;
  while (done < length) {
    int64_t step = length - done;
    /* One call moves at most 0x7ffff000 bytes on Linux and fewer elsewhere. */
    if (step > (1 << 30)) step = 1 << 30;
    ssize_t got = pread(fd, (char *)destination + done, (size_t)step, (off_t)(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return -errno;
    }
    if (got == 0) break;
    done += got;
  }
  return done;
}
#endif

/* A small file, read at once: opened, read and closed without Python between. */
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

/* Asking the system to begin writing bytes of a file to the disk, without waiting: a sync that comes later has less to do. */
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
