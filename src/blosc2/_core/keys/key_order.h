/* Sorting keys by their bytes. A merge sort of our own: keys may lie in a file that another process changes meanwhile, and what
 * `qsort` does when the order contradicts itself is not defined. This one then gives another order of the same keys. */
#ifndef B2_KEY_ORDER_H
#define B2_KEY_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t first; /* the bytes behind what all keys have in common */
    const uint8_t *bytes;
    int64_t at; /* where the table has the key */
    uint32_t length;
} b2_sort_item;

static inline int b2_item_before(const b2_sort_item *a, const b2_sort_item *b, uint32_t skip) {
    int order;
    if (a->first != b->first)
        return a->first < b->first;
    order = memcmp(a->bytes + skip, b->bytes + skip, (a->length < b->length ? a->length : b->length) - skip);
    return order < 0 || (order == 0 && a->length < b->length);
}

/* Keys of at least `skip` bytes, which all of them share. `scratch` has room for half of them. */
static void sort_items(b2_sort_item *items, size_t count, b2_sort_item *scratch, uint32_t skip) {
    size_t half = count / 2, i, j, to;
    b2_sort_item item;
    if (count <= 12) {
        for (i = 1; i < count; i++) {
            item = items[i];
            for (j = i; j > 0 && b2_item_before(&item, &items[j - 1], skip); j--)
                items[j] = items[j - 1];
            items[j] = item;
        }
        return;
    }
    sort_items(items, half, scratch, skip);
    sort_items(items + half, count - half, scratch, skip);
    if (!b2_item_before(&items[half], &items[half - 1], skip))
        return;
    memcpy(scratch, items, half * sizeof *items);
    for (i = to = 0, j = half; i < half && j < count;) {
        if (b2_item_before(&items[j], &scratch[i], skip))
            items[to++] = items[j++];
        else
            items[to++] = scratch[i++];
    }
    memcpy(items + to, scratch + i, (half - i) * sizeof *items);
}

#endif
