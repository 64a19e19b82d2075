/* Pages of a file that small reads come back to, copied into memory of our own: a read from them takes a tenth of a system
 * call, and processors do not wait for each other where the system counts who reads a page.
 *
 * A page is copied when a read comes to it again before one comes to another page of the same slot. So reads that come to each
 * page once, in any order over a large file, never copy more than they want; where pages are copied and not come back to, none is
 * for a while. What is copied lies below the end of a version of the file, which nobody writes to again. */
#ifndef B2_NEAR_PAGES_H
#define B2_NEAR_PAGES_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/positional_read.h"
#include "io/steps.h"

enum {
  NEAR_PAGE = 4096,
  NEAR_SLOTS = 256,    /* a mebibyte */
  NEAR_AFTER = 16,     /* reads after which it is worth a table */
  COPY_COST = 4,       /* a copied page, in reads that it saves */
  NEAR_TRIED = 2048,   /* so much lost, and as many reads go without */
  NEAR_REST = 1 << 16,
  MOST_NEAR = 1 << 12, /* pages in a process */
};

typedef struct {
  int64_t held, noted; /* numbers of pages, from 1 on: whose bytes are here, and which one was wanted last */
  int64_t length;
  uint8_t *bytes;
} near_slot;

typedef struct {
  atomic_state busy, wrong;
  int reads; /* up to NEAR_AFTER */
  int gained;
  near_slot *slots;
} near_pages;

/* One thread at a time, and none that waits. Whoever is here has the GIL, where there is one. */
#ifdef Py_GIL_DISABLED
static int near_begin(near_pages *near) { return state_change(&near->busy, 0, 1); }
static void near_end(near_pages *near) { state_set(&near->busy, 0); }
#else
static int near_begin(near_pages *near) { return near != NULL; }
static void near_end(near_pages *near) { (void)near; }
#endif

static int near_make(near_pages *near) {
  address_set(&near->slots, calloc(NEAR_SLOTS, sizeof(near_slot)));
  return near->slots != NULL;
}

/* Bytes failed a check: no pages from now on. Whether they may have come from one, so that the file itself has to be asked: it
 * may have shown others for a while, as when a copy of it was put in place. */
static int near_distrust(near_pages *near) {
  return address_get(&near->slots) != NULL && state_change(&near->wrong, 0, 1);
}

/* Whether the slot has a page up to some byte of it, after the page was copied if it is wanted again. `page` is from 0 on. */
static int near_has(near_pages *near, near_slot *slot, int fd, int64_t page, int64_t stop, int64_t limit, int64_t *taken) {
  int64_t length = limit - page * NEAR_PAGE;
  if (slot->held == page + 1 && slot->length >= stop) return 1;
  if (slot->noted != page + 1) {
    slot->noted = page + 1;
    return 0;
  }
  if (slot->bytes == NULL) {
    /* Looked at first, as threads would take it from each other. Some more pages than there may be do no harm. */
    if (number_get(taken) >= MOST_NEAR || (slot->bytes = (uint8_t *)malloc(NEAR_PAGE)) == NULL) return 0;
    counter_next(taken);
  }
  if (length > NEAR_PAGE) length = NEAR_PAGE;
  slot->held = 0;
  if (positional_read(fd, slot->bytes, length, page * NEAR_PAGE) != length) return 0;
  slot->held = page + 1;
  slot->length = length;
  near->gained -= COPY_COST;
  return 1;
}

/* Copy bytes of a file that end before `limit`, up to which it no longer changes. 0 where they have to be read from the file, as
 * they are when another thread is here. */
static int near_read(near_pages *near, int fd, int64_t offset, int64_t length, int64_t limit, uint8_t *into, int64_t *taken) {
  int64_t page = offset / NEAR_PAGE, start = offset % NEAR_PAGE, first = NEAR_PAGE - start;
  near_slot *slot;
  int found = 0;
  if (offset < 0 || length <= 0 || length > NEAR_PAGE || length > limit - offset) return 0;
  if (state_get(&near->wrong) || !near_begin(near)) return 0;
  if (near->reads < NEAR_AFTER)
    near->reads++;
  else if (near->slots != NULL || near_make(near)) {
    if (first > length) first = length;
    slot = near->slots + page % NEAR_SLOTS;
    found = near_has(near, slot, fd, page, start + first, limit, taken);
    if (found) memcpy(into, slot->bytes + start, (size_t)first);
    if (first < length) { /* asked for in any case, to be noted with this read */
      slot = near->slots + (page + 1) % NEAR_SLOTS;
      if (!near_has(near, slot, fd, page + 1, length - first, limit, taken)) found = 0;
      if (found) memcpy(into + first, slot->bytes, (size_t)(length - first));
    }
    if (found && near->gained < NEAR_TRIED) near->gained++;
    if (near->gained < -NEAR_TRIED) {
      near->reads = -NEAR_REST;
      near->gained = 0;
    }
  }
  near_end(near);
  return found;
}

static void near_free(near_pages *near, int64_t *taken) {
  for (int i = 0; near->slots != NULL && i < NEAR_SLOTS; i++)
    if (near->slots[i].bytes != NULL) {
      free(near->slots[i].bytes);
      counter_back(taken);
    }
  free(near->slots);
}
#endif
