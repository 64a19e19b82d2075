/* Positional reads: no shared file position, so threads need no lock.
   Returns the bytes read (less than asked only at the end of the file) or -errno. */
#ifndef B2_POSITIONAL_READ_H
#define B2_POSITIONAL_READ_H
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
#endif
