# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The keys of a store in order, with those that were added or removed since they were published.

A listing puts three tables together: the published keys, the added ones, and the removed ones. Its methods cost what
they return: they skip a group inside of another one by a search, and do not go through its keys.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memchr, memcmp

from blosc2._core.io.steps cimport flag_get, flag_set
from blosc2._core.keys.key_order cimport comes_behind, shared
from blosc2._core.keys.key_text cimport name_of, prefix_of, text_of
from blosc2._core.keys.keytable cimport DAMAGED, KeyTable, Text
from blosc2._core.zip.archive cimport MANY_RECORDS, Archive, check_fetched
from blosc2._core.zip.catalog cimport Leaf
from blosc2._core.zip.key_bytes cimport last_segment_is

from blosc2.exceptions import FormatError

# Keys side by side in the order, which mostly begin alike.


cdef inline bint is_below(const Text *key, bytes prefix, Py_ssize_t length) noexcept:
    """Whether a key goes on behind a prefix, as all of its range do where the order is right."""
    return key.length > length and memcmp(key.bytes, PyBytes_AS_STRING(prefix), <size_t> length) == 0


cdef inline bint follows(KeyTable table, const Text *key, const uint8_t *before, Py_ssize_t length) noexcept:
    """Whether a key comes behind the one before, if there is one, as it does where a catalog and the names agree."""
    cdef Text last
    if table.catalog is None or before == NULL or flag_get(&table.ordered):
        return True
    last = Text(before, length)
    if comes_behind(&last, key, shared(before, key.bytes, min(length, key.length))):
        return True
    flag_set(&table.contradicted)
    return False


cdef inline void note_order(KeyTable table, bint all) noexcept:
    """All keys of a table were seen, each behind the one before: the next listing need not look at that again."""
    if all:
        flag_set(&table.ordered)


cdef inline Py_ssize_t shared_with(KeyTable table, int64_t position, const Text *key) noexcept nogil:
    """How many bytes a key has in common with that at a position of a table."""
    cdef Text other
    if not table.key(position, &other):
        return 0
    return shared(key.bytes, other.bytes, min(key.length, other.length))


cdef inline int64_t end_fetched(
        KeyTable table, int64_t start, int64_t stop, const uint8_t *prefix, Py_ssize_t length) except -1:
    """Where the run of keys ends that begin with a prefix; raises if a server did not send what has to be looked at."""
    cdef int64_t end = table.run_end(start, stop, prefix, length)
    check_fetched(table.archive)
    return end


cdef enum:
    # Groups that a listed key may lie in: without a limit, one long name could stand for a gigabyte of group keys.
    MAX_GROUPS = 256
    # The most bytes of keys in one batch, however few keys that are.
    BATCH_BYTES = 1 << 22


class Damaged(Exception):  # noqa: N818 - never seen outside
    """Something of a catalog is wrong: the listing goes on without."""


cdef class KeyListing:
    """The keys of a store."""

    def __init__(self, KeyTable base not None, KeyTable added=None, KeyTable removed=None, path=None):
        self.base = self.first = base
        self.path = path
        self.added = None if added is None or added.count == 0 else added
        self.removed = None if removed is None or removed.count == 0 else removed
        self._plain = self.added is None and self.removed is None and base.removed.count == 0
        self.ranges.count, self.ranges.total = 0, 0

    @property
    def plain(self):
        """Whether these are the published keys and no others."""
        return self._plain

    @property
    def table(self):
        """The published keys."""
        return self.base

    @property
    def tables(self):
        """The tables whose keys these are, all of them; None if some were removed one by one."""
        if self.removed is not None:
            return None
        return (self.base,) if self.added is None else (self.base, self.added)

    def __len__(self):
        if self.base.removed.count:
            self._prepare()
        # A catalog may state fewer keys than can be found.
        return max(0, self.base.count - self.ranges.total + (0 if self.added is None else self.added.count) - (
            0 if self.removed is None else self.removed.count))

    def __contains__(self, key):
        return (self.base.find(key) >= 0 and (self.removed is None or self.removed.find(key) < 0)) or (
            self.added is not None and self.added.find(key) >= 0)

    def find(self, key):
        """What a key stands for in its table, or -1. Not for a listing from which keys are gone."""
        found = self.base.find(key)
        return found if found >= 0 or self.added is None else self.added.find(key)

    def has_group(self, str path not None):
        """Whether there are keys below a group, other than the root."""
        cdef bytes prefix
        cdef int64_t offset
        if self.base.catalog is not None and self._plain:
            prefix = prefix_of(path)
            offset = self.base.lookup_group(<const uint8_t *> PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix) - 1)
            if offset != DAMAGED:
                return offset >= 0
            self._without_catalog()
        return self.count(path) > 0

    cdef _too_deep(self, str key):
        """The error for a key that lies in too many groups; its first ones are enough to tell it."""
        if len(key) > 80:
            key = key[:80] + "..."
        return FormatError(f"a key lies in more than {MAX_GROUPS} groups", path=self.path, key=key)

    cdef int shows(self, key, str hidden) except -2:
        """Whether a key is one that the store shows; see `shows_key`."""
        cdef int shown = shows_key(self, key, hidden)
        if shown == 0 and self.base.catalog is None and not flag_get(&self.base.headers_fit):
            self.base.look_for(key)   # it may be there under a name that is damaged
        return shown

    cdef int _prepare(self) except -1:
        cdef KeyTable base = self.base      # another thread may put another one there meanwhile
        base.sort()
        cdef GoneRanges ranges
        if base.removed.count and self.ranges_of is not base:
            if not find_ranges(base, base.removed_groups, &ranges):
                return self._without_catalog()
            with cython.critical_section(self):
                if self.ranges_of is not base and self.base is base:
                    self.ranges, self.ranges_of = ranges, base
        if self.added is not None:
            self.added.sort()
        if self.removed is not None:
            self.removed.sort()
        return 0

    cdef int _without_catalog(self) except -1:
        cdef KeyTable base = self.base.instead()
        # Before others see it: they take what they see for sorted.
        base.sort()
        with cython.critical_section(self):
            if self.base is not base:
                self.base = base
        return self._prepare()

    # ------------------------------------------------------------------ ranges
    cdef Range _range(self, bytes prefix):
        """Where the keys below a group are."""
        cdef Range r
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(prefix)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(prefix)
        cdef KeyTable base
        self._prepare()
        base = self.base
        r.i = r.j = r.more = 0
        r.stop = base.count
        if self.added is not None:
            r.more = self.added.count
            if length:
                r.j, r.more = self.added.bound(p, length, False), self.added.bound(p, length, True)
        if length:
            r.i, r.stop = base.bound(p, length, False), base.bound(p, length, True)
            if r.i == DAMAGED or r.stop == DAMAGED:
                self._without_catalog()
                base = self.base
                r.i, r.stop = base.bound(p, length, False), base.bound(p, length, True)
        r.base = <void *> base
        if r.stop - r.i >= MANY_RECORDS and base.archive is not None:
            base.archive.ask(INT64_MAX)
        return r

    cdef int64_t _live(self, bytes prefix, const Range *r):
        """How many keys there are in the range of a group."""
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(prefix)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(prefix)
        cdef int64_t count = r.stop - r.i + r.more - r.j - gone_within(&self.ranges, r.i, r.stop)
        if self.removed is not None:
            if length:
                count -= self.removed.bound(p, length, True) - self.removed.bound(p, length, False)
            else:
                count -= self.removed.count
        return max(0, count)

    cdef int _next(self, Range *r, Text *key) except -1:
        """The first key of a range; 1 where it is an added one, 0 a published one, 2 where there is none."""
        cdef Text other
        cdef int order
        while r.i < r.stop:
            if self.ranges.count and after_gone(&self.ranges, r.i) != r.i:
                r.i = after_gone(&self.ranges, r.i)
                continue
            if not (<KeyTable> r.base).key(r.i, key):
                raise Damaged
            if self.removed is None or self.removed.lookup(key.bytes, key.length) < 0:
                break
            r.i += 1
        if r.j >= r.more:
            return 2 if r.i >= r.stop else 0
        self.added.key(r.j, &other)
        if r.i < r.stop:
            order = memcmp(key.bytes, other.bytes, min(key.length, other.length))
            if order < 0 or (order == 0 and key.length < other.length):
                return 0
        key[0] = other
        return 1

    cdef int _skip(self, Range *r, const uint8_t *prefix, Py_ssize_t length) except -1:
        """Go on behind all keys that begin with a prefix, as the first one does, if it still does."""
        r.i = end_fetched(<KeyTable> r.base, r.i, r.stop, prefix, length)
        if self.added is not None:
            r.j = self.added.run_end(r.j, r.more, prefix, length)
        return 0

    # ------------------------------------------------------------------ groups
    def count(self, str path not None="/"):
        """How many keys there are below a group."""
        cdef bytes prefix = prefix_of(path)
        cdef Range r
        if not prefix:
            return len(self)
        r = self._range(prefix)
        return self._live(prefix, &r)

    def positions(self, str path not None="/"):
        """Positions ``(start, stop)`` of the published keys below a group in their order."""
        cdef Range r = self._range(prefix_of(path))
        return r.i, r.stop

    def below(self, str path not None="/"):
        """All keys below a group, in order."""
        return KeyCursor(self, path, None, False).take(-1)

    def children(self, str path not None, int64_t most=-1):
        """Names of the groups and leaves right below a group, each in order; if `most` is given, the first so many."""
        cdef Range r = self._range(prefix_of(path))
        return self._sound_children(path, &r, False, most)[:2]

    cdef tuple _sound_children(self, str path, Range *range, bint ranges, int64_t most=-1):
        """What lies in a range, with the ranges of the groups; without the catalog where that is damaged."""
        while True:
            try:
                return self._children(path, range, ranges, [], most)
            except Damaged:
                self._without_catalog()     # an error where there is no catalog
                range[0] = self._range(prefix_of(path))

    cdef tuple _children(self, str path, const Range *range, bint ranges, list leaves, int64_t most):
        """What lies in a range, with the ranges of the groups; the names of leaves only if there is a list for them."""
        cdef bytes prefix = prefix_of(path)
        cdef Py_ssize_t skip = PyBytes_GET_SIZE(prefix), length
        cdef Range r = range[0], before
        cdef Text key, last = Text(NULL, 0)
        cdef const uint8_t *rest
        cdef const uint8_t *slash
        cdef int which
        cdef list groups = []
        cdef dict ranges_of = {} if ranges else None
        cdef Archive archive = self.base.archive
        if path.count("/") > MAX_GROUPS:
            raise self._too_deep(path)
        while most:
            which = self._next(&r, &key)
            if which == 2:
                break
            most -= 1
            if not is_below(&key, prefix, skip) or not follows(self.base, &key, last.bytes, last.length):
                raise Damaged
            last = key
            rest = key.bytes + skip
            slash = <const uint8_t *> memchr(rest, 0x2F, key.length - skip)
            if slash == NULL:
                if leaves is not None:
                    leaves.append(name_of(rest, key.length - skip, archive))
                if which:
                    r.j += 1
                else:
                    r.i += 1
            else:
                length = slash - rest
                name = name_of(rest, length, archive)
                groups.append(name)
                before = r
                self._skip(&r, key.bytes, skip + length + 1)
                if r.i == before.i and r.j == before.j:
                    raise Damaged   # the file changed
                if ranges:
                    ranges_of[name] = before.i, r.i, before.j, r.j
        groups.sort()   # they came in the order of their keys, which go on with "/": "a.b" before "a"
        return groups, leaves, ranges_of

    def walk(self, str path not None="/", bint topdown=True, str hidden=None):
        """Go through the groups from one on: pairs of a path, "" for the root, and `children`.

        Hidden leaves are left out. The walk is over when a change of the store makes another listing.
        """
        cdef Range r = self._range(prefix_of(path))
        cdef list waiting = [("" if path == "/" else path, r.i, r.stop, r.j, r.more, None)]
        cdef KeyTable base = <KeyTable> r.base
        while waiting:
            if self.base is not base:
                # What was given out stays; positions in the other table are looked up anew.
                base = self.base
                waiting = [(entry[0], *_ends(self, entry[0], base), entry[5]) for entry in waiting]
            group, r.i, r.stop, r.j, r.more, done = waiting.pop()
            r.base = <void *> base
            if done is not None:
                yield done
                continue
            groups, leaves, ranges_of = self._sound_children(group or "/", &r, True)
            if hidden is not None and hidden in leaves:
                leaves.remove(hidden)
            here = group, groups, leaves
            if topdown:
                yield here
            else:
                waiting.append((group, 0, 0, 0, 0, here))
            for name in reversed(groups):
                waiting.append((f"{group}/{name}", *ranges_of[name], None))
        note_order(base, path == "/" and self._plain)

    def position(self, str key not None):
        """The position of a published key in their order, -1 where it is not there."""
        cdef bytes wanted = key.encode("utf-8", "surrogateescape")[1:]
        cdef Text found
        cdef int64_t at
        cdef KeyTable base
        if self.base.find(key) < 0:
            return -1
        self._prepare()
        base = self.base
        at = base.bound(<const uint8_t *> PyBytes_AS_STRING(wanted), PyBytes_GET_SIZE(wanted), False)
        if at == DAMAGED or at >= base.count or not base.key(at, &found) or found.bytes[:found.length] != wanted:
            if base.catalog is None:
                return -1
            self._without_catalog()
            return self.position(key)
        return at

    def groups_below(self, str path not None, int depth):
        """The published groups from one on, up to some below it: paths, depths and ranges of positions, as in `walk`."""
        cdef Range r = self._range(prefix_of(path))
        cdef list result = [], waiting = [("" if path == "/" else path, 0, r.i, r.stop)]
        r.j = r.more = 0
        try:
            while waiting:
                group, level, r.i, r.stop = waiting.pop()
                result.append((group or "/", level, r.i, r.stop))
                if level != depth:
                    groups, _, ranges_of = self._children(group or "/", &r, True, None, -1)
                    waiting += [(f"{group}/{name}", level + 1, *ranges_of[name][:2]) for name in reversed(groups)]
        except Damaged:
            self._without_catalog()
            return self.groups_below(path, depth)
        return result

    def named(self, str name not None):
        """The keys whose last segment is a name."""
        cdef bytes wanted = name.encode()
        cdef Range r
        cdef Text key
        cdef int which
        cdef list result = []
        cdef bint none = self.base.tables == 0 and name == "_meta"
        if none and self._plain:
            return result
        r = self._range(b"")
        if none:
            r.i = r.stop
        while True:
            try:
                which = self._next(&r, &key)
            except Damaged:
                self._without_catalog()
                return self.named(name)
            if which == 2:
                return result
            if which:
                r.j += 1
            else:
                r.i += 1
            if last_segment_is(key.bytes, key.length, PyBytes_AS_STRING(wanted), PyBytes_GET_SIZE(wanted)):
                result.append(text_of(key.bytes, key.length, self.base.archive))

    def tree_count(self, str path not None, str hidden not None):
        """How many groups and leaves there are below a group, without hidden leaves."""
        cdef bytes prefix = prefix_of(path), name = hidden.encode()
        cdef Range r = self._range(prefix)
        cdef Leaf first, second, stop
        cdef Text key
        cdef Py_ssize_t base = PyBytes_GET_SIZE(prefix), at
        cdef int64_t count
        cdef KeyTable table = <KeyTable> r.base
        if self._plain and table.catalog is not None:
            if r.i >= r.stop:
                return 0
            # The path of each group is a part of a name in the directory: no catalog makes a list reserve more than that.
            if table.catalog.leaf(r.i, &first) and table.catalog.leaf(r.i + 1, &second) and (
                    table.catalog.leaf(r.stop, &stop)) and table.key(r.i, &key) and key.length >= base and (
                    first.hidden <= stop.hidden <= first.hidden + (r.stop - r.i) and second.groups <= stop.groups
                    and stop.groups - second.groups <= table.archive.directory_size):
                count = r.stop - r.i - (<int64_t> stop.hidden - first.hidden) + (<int64_t> stop.groups - second.groups)
                for at in range(base, key.length):
                    count += key.bytes[at] == 0x2F
                return count
            self._without_catalog()
        return KeyCursor(self, path, hidden, True).count_rest()


def _ends(KeyListing listing, str group, KeyTable base):
    cdef Range r = listing._range(prefix_of(group or "/"))
    assert <KeyTable> r.base is base    # which is without a catalog now, and so stays
    return r.i, r.stop, r.j, r.more


cdef class KeyCursor:
    """Goes through the keys of a listing in order, some at a time."""

    cdef KeyListing listing
    cdef KeyTable table     # whose positions the range has
    cdef bytes hidden, prefix
    cdef bint groups
    cdef Range range
    cdef bytes before       # the key before, as far as the next one may share it
    cdef str path

    def __init__(self, KeyListing listing not None, str path not None="/", str hidden=None, bint groups=False):
        self.listing = listing
        self.path = path
        self.prefix = prefix_of(path)
        self.hidden = None if hidden is None else hidden.encode()
        self.groups = groups
        self.range = listing._range(self.prefix)
        self.table = <KeyTable> self.range.base
        self.before = None

    def take(self, Py_ssize_t most):
        """About so many of the next keys, fewer where they are long; none at the end. With -1 all that are left."""
        cdef list result = []
        self._go(result, most)
        return result

    def count_rest(self):
        """How many keys are left."""
        return self._go(None, -1)

    cdef int64_t _go(self, list result, Py_ssize_t most) except -1:
        cdef KeyListing listing = self.listing
        cdef Text key
        cdef const uint8_t *last = NULL
        cdef Py_ssize_t length = 0, common, at, base = PyBytes_GET_SIZE(self.prefix), start
        cdef int which, groups
        cdef int64_t count = 0, room = BATCH_BYTES
        cdef list later
        if self.before is not None:
            last, length = <const uint8_t *> PyBytes_AS_STRING(self.before), PyBytes_GET_SIZE(self.before)
        while most < 0 or (count < most and room > 0):
            try:
                if listing.base is not self.table:
                    # Somebody met something that is wrong with the catalog.
                    self._begin_again(None if last == NULL else (<const char *> last)[:length])
                which = listing._next(&self.range, &key)
            except Damaged:
                listing._without_catalog()
                continue
            if which == 2:
                note_order(self.table, base == 0 and listing._plain)
                break
            if not is_below(&key, self.prefix, base) or not follows(listing.base, &key, last, length):
                listing._without_catalog()      # keys that are not in order; an error where there is no catalog
                continue
            if self.groups:
                common = max(base, shared(last, key.bytes, min(length, key.length)))
                groups, later = 0, None
                for at in range(base, key.length):
                    if key.bytes[at] > 0x2F:
                        continue
                    if key.bytes[at] == 0x2F:
                        groups += 1
                        if groups > MAX_GROUPS:
                            raise listing._too_deep(text_of(key.bytes, at))
                    if at <= common:
                        continue
                    if key.bytes[at] < 0x2F:
                        if later is None:
                            later = self._later_groups(&key, which, common)
                        if not later or later[len(later) - 1] != at:
                            continue
                        later.pop()
                    count += 1
                    if result is not None:
                        result.append(text_of(key.bytes, at, listing.base.archive))
                        room -= at
            start = 0
            if self.hidden is not None:
                start = key.length - PyBytes_GET_SIZE(self.hidden)
                start = start >= base and (start == 0 or key.bytes[start - 1] == 0x2F) and memcmp(
                    key.bytes + start, PyBytes_AS_STRING(self.hidden), PyBytes_GET_SIZE(self.hidden)) == 0
            if not start:
                count += 1
                if result is not None:
                    result.append(text_of(key.bytes, key.length, listing.base.archive))
                    room -= key.length
            # A group named like a hidden leaf is still to be given.
            last, length = key.bytes, key.length - (1 if start else 0)
            if which:
                self.range.j += 1
            else:
                self.range.i += 1
        if last != NULL:
            self.before = (<const char *> last)[:length]
        return count

    cdef list _later_groups(self, const Text *key, int which, Py_ssize_t least):
        """Lengths, above some, of the paths that a key begins with, up to a character that sorts before "/", and of which a
        group comes later; the longest first.

        Such a path is one that later keys share, and at whose end one of them goes on with another character: there are not
        more of these than keys, whatever the length of keys is.
        """
        cdef KeyListing listing = self.listing
        cdef Range r = self.range, below
        cdef Py_ssize_t common
        cdef int64_t i, j
        cdef bytes prefix
        cdef list found = []
        # Behind the key itself.
        if which:
            r.j += 1
        else:
            r.i += 1
        while True:
            common = shared_with(<KeyTable> r.base, r.i, key) if r.i < r.stop else 0
            if r.j < r.more:
                common = max(common, shared_with(listing.added, r.j, key))
            if common <= least:
                break
            if common < key.length and key.bytes[common] < 0x2F:
                prefix = (<const char *> key.bytes)[:common] + b"/"
                below = listing._range(prefix)
                if listing._live(prefix, &below) > 0:
                    found.append(common)
            i, j = r.i, r.j
            listing._skip(&r, key.bytes, common)
            if r.i == i and r.j == j:
                break       # the file changed
        return found

    cdef int _begin_again(self, bytes behind) except -1:
        """Go on behind a key in the table that the listing has now: from the start, what was given out is skipped."""
        cdef Text key
        cdef int which
        cdef bytes now
        self.range = self.listing._range(self.prefix)
        self.table = <KeyTable> self.range.base
        while behind is not None:
            which = self.listing._next(&self.range, &key)
            if which == 2:
                break
            now = (<const char *> key.bytes)[:key.length]
            if now > behind:
                break
            if which:
                self.range.j += 1
            else:
                self.range.i += 1
        return 0
