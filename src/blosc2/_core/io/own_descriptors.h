/* Without a GIL: descriptors of one open file that only the threads of one place use.
 *
 * The system counts who reads by a descriptor. Two processors that count in the same memory wait for each other, 0.3 us a
 * read where a small leaf takes 2.7 us. A descriptor that is opened again is counted by itself. */
#ifndef B2_OWN_DESCRIPTORS_H
#define B2_OWN_DESCRIPTORS_H
#include "io/mapping.h"
#include "io/steps.h"

#if defined(Py_GIL_DISABLED) && defined(__linux__)
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* So many in a process: it may have a thousand descriptors, for all that it opens. */
enum { MOST_OWN = 64 };
static int64_t own_taken;

typedef struct {
  int of_place[PLACES]; /* 0 where no thread has asked for one */
} own_descriptors;

/* Another descriptor of the same file, however that is called by now; -1 where there is none to be had. */
static int opened_again(int fd) {
  char name[48];
  struct stat one, other;
  int own;
  if (counter_next(&own_taken) < MOST_OWN) {
    snprintf(name, sizeof name, "/proc/thread-self/fd/%d", fd);
    own = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* Some file systems that lie on others give another file by the same name, once that was changed. 0 stands for none. */
    if (own > 0 && fstat(fd, &one) == 0 && fstat(own, &other) == 0 && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino)
      return own;
    if (own >= 0) close(own);
  }
  counter_back(&own_taken);
  return -1;
}

/* The descriptor for a place: the file's own for the first that asks, and where there is no other. One thread at a time. */
static int own_descriptor(own_descriptors **all, int fd, int place, int advice) {
  int first = 0, *own;
  if (*all == NULL) {
    *all = (own_descriptors *)calloc(1, sizeof **all);
    if (*all == NULL) return fd;
    first = 1;
  }
  own = &(*all)->of_place[place];
  if (*own == 0) {
    *own = first ? fd : opened_again(fd);
    if (*own < 0) *own = fd;
    if (*own != fd && advice != B2_NORMAL) advise_file(*own, 0, 0, advice);
  }
  return *own;
}

static void advise_own(own_descriptors *all, int fd, int advice) {
  for (int i = 0; all != NULL && i < PLACES; i++)
    if (all->of_place[i] != 0 && all->of_place[i] != fd) advise_file(all->of_place[i], 0, 0, advice);
}

static void close_own(own_descriptors *all, int fd) {
  for (int i = 0; all != NULL && i < PLACES; i++)
    if (all->of_place[i] != 0 && all->of_place[i] != fd) {
      close(all->of_place[i]);
      counter_back(&own_taken);
    }
  free(all);
}
#else
typedef char own_descriptors;
static int own_descriptor(own_descriptors **all, int fd, int place, int advice) {
  (void)all, (void)place, (void)advice;
  return fd;
}
static void advise_own(own_descriptors *all, int fd, int advice) { (void)all, (void)fd, (void)advice; }
static void close_own(own_descriptors *all, int fd) { (void)all, (void)fd; }
#endif
#endif
