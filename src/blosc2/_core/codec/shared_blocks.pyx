# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The block cache of the process: decoded blocks, which all threads find again, up to a number of bytes (doc/design/reading.md).

Blocks lie in up to 16 shards, each with a lock, a table and a list from the newest block to the oldest. Who finds a block
only marks it, and touches no other: in random order each would be a wait for memory. The oldest goes first; one that was
marked becomes the newest instead. A lock is held for a look-up, never while something is decoded or copied: whoever
reads a block is one of its users, who are counted without the lock, and it is freed with the last of these.
"""

from blosc2._core.io.sharing import in_child

from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_release_lock, PyThread_type_lock)
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from blosc2._core.codec.chunk cimport block_bytes
from blosc2._core.io.steps cimport (
    address_get, address_set, number_get, number_set, state_change, state_get, state_set, step_begin, step_end, step_lock)

cdef enum:
    MOST_SHARDS = 16
    SHARD_BYTES = 8 << 20   # of a shard, at least, where there are several
    BUCKETS = 256           # of a new table
    CHANCES = 16            # marked blocks that are passed over, until one goes all the same
    LINE = 64

cdef struct Shard:
    PyThread_type_lock lock
    SharedBlock **buckets
    int64_t bucket_count
    int64_t count
    int64_t nbytes
    int64_t limit
    SharedBlock *newest
    SharedBlock *oldest
    int64_t hits
    int64_t misses
    int64_t evictions

cache_is_on = 0
cdef Shard shards[MOST_SHARDS]
cdef int64_t shard_mask = 0
cdef int64_t whole_limit = 0
cdef step_lock setting         # of one limit at a time
memset(shards, 0, sizeof(shards))


cdef inline uint64_t _hash(uint64_t source, int64_t position, int32_t block) noexcept nogil:
    cdef uint64_t value = source * <uint64_t> 0x9E3779B97F4A7C15u + <uint64_t> position
    value = (value ^ (value >> 32)) * <uint64_t> 0xD6E8FEB86659FD93u + <uint64_t> block
    value = (value ^ (value >> 32)) * <uint64_t> 0xD6E8FEB86659FD93u
    return value ^ (value >> 32)


cdef inline Shard *_locked(uint64_t value, int *number) noexcept nogil:
    """The shard of a hash, locked. `set_limit` may change how many there are, while it has all locks."""
    cdef uint64_t mask
    while True:
        mask = <uint64_t> number_get(&shard_mask)
        number[0] = <int> (value >> 56 & mask)
        PyThread_acquire_lock(shards[number[0]].lock, WAIT_LOCK)
        if mask == <uint64_t> number_get(&shard_mask):
            return &shards[number[0]]
        PyThread_release_lock(shards[number[0]].lock)


cdef inline void _unlink(Shard *shard, SharedBlock *entry) noexcept nogil:
    """Take a block out of the list of its shard."""
    if entry.newer != NULL:
        entry.newer.older = entry.older
    else:
        shard.newest = entry.older
    if entry.older != NULL:
        entry.older.newer = entry.newer
    else:
        shard.oldest = entry.newer


cdef inline void _to_front(Shard *shard, SharedBlock *entry) noexcept nogil:
    entry.newer = NULL
    entry.older = shard.newest
    if shard.newest != NULL:
        shard.newest.newer = entry
    else:
        shard.oldest = entry
    shard.newest = entry


cdef inline SharedBlock *_found(
        Shard *shard, uint64_t value, uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil:
    cdef SharedBlock *entry
    if shard.bucket_count == 0:
        return NULL
    entry = shard.buckets[value & <uint64_t> (shard.bucket_count - 1)]
    while entry != NULL:
        if is_block(entry, source, position, chunk, block):
            return entry
        entry = entry.next
    return NULL


cdef inline long _count_users(SharedBlock *entry, long more) noexcept nogil:
    """Count users of a block. Whoever was the last one sees what the others did before."""
    cdef long users
    while True:
        users = state_get(&entry.users)
        if state_change(&entry.users, users, users + more):
            return users + more


cdef void _pass_over(Shard *shard) noexcept nogil:
    """Have a block be the oldest that was not found again since it became the newest."""
    cdef SharedBlock *entry
    cdef int i
    for i in range(CHANCES):
        entry = shard.oldest
        if not entry.found or entry == shard.newest:
            return
        entry.found = False
        _unlink(shard, entry)
        _to_front(shard, entry)


cdef SharedBlock *_evicted(Shard *shard, SharedBlock *freed) noexcept nogil:
    """Take the oldest block out of the cache. Returns what is to be freed: it, if nobody reads it, and what was before."""
    cdef SharedBlock *entry = shard.oldest
    cdef SharedBlock **link = &shard.buckets[
        _hash(entry.source, entry.position, entry.block) & <uint64_t> (shard.bucket_count - 1)]
    while link[0] != entry:
        link = &link[0].next
    link[0] = entry.next
    _unlink(shard, entry)
    shard.count -= 1
    shard.nbytes -= entry.room
    if _count_users(entry, -1):
        return freed
    entry.next = freed
    return entry


cdef void _free_all(SharedBlock *entry) noexcept nogil:
    cdef SharedBlock *following
    while entry != NULL:
        following = entry.next
        free(entry)
        entry = following


cdef bint _make_room(Shard *shard) noexcept nogil:
    """A table with room for another block; False when there is no memory for it."""
    cdef int64_t count, i
    cdef SharedBlock **buckets
    cdef SharedBlock **to
    cdef SharedBlock *entry
    cdef SharedBlock *following
    if 2 * shard.count < shard.bucket_count:
        return True
    count = 2 * shard.bucket_count if shard.bucket_count else BUCKETS
    buckets = <SharedBlock **> calloc(<size_t> count, sizeof(SharedBlock *))
    if buckets == NULL:
        return shard.bucket_count > 0
    for i in range(shard.bucket_count):
        entry = shard.buckets[i]
        while entry != NULL:
            following = entry.next
            to = &buckets[_hash(entry.source, entry.position, entry.block) & <uint64_t> (count - 1)]
            entry.next = to[0]
            to[0] = entry
            entry = following
    free(shard.buckets)
    shard.buckets, shard.bucket_count = buckets, count
    return True


cdef SharedBlock *take_block(uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil:
    """A block of the cache, to be left with `leave_block`; NULL where it is not there."""
    cdef uint64_t value = _hash(source, position, block)
    cdef int number = 0
    cdef Shard *shard = _locked(value, &number)
    cdef SharedBlock *entry = _found(shard, value, source, position, chunk, block)
    if entry == NULL:
        shard.misses += 1
    else:
        shard.hits += 1
        _count_users(entry, 1)
        entry.found = True
    PyThread_release_lock(shard.lock)
    return entry


cdef SharedBlock *new_block(uint64_t source, int64_t position, const Chunk *chunk, int32_t block) noexcept nogil:
    """Room to decode a block into, to be left with `leave_block`. NULL where it is too large, or there is no memory."""
    cdef SharedBlock *entry
    cdef int64_t room = LINE * 3 + <int64_t> chunk.blocksize
    if room > number_get(&shards[0].limit):
        return NULL
    entry = <SharedBlock *> malloc(<size_t> room)
    if entry == NULL:
        return NULL
    entry.users, entry.room, entry.found = 1, room, False
    entry.source, entry.position, entry.block = source, position, block
    entry.blocksize, entry.nbytes, entry.cbytes = chunk.blocksize, block_bytes(chunk, block), chunk.cbytes
    # The struct takes less than two lines.
    entry.data = <uint8_t *> ((<size_t> entry + 3 * LINE - 1) & ~<size_t> (LINE - 1))
    return entry


cdef void put_block(SharedBlock *entry, const Chunk *chunk) noexcept nogil:
    """Let others find a block that was decoded into `new_block`; whoever decoded it goes on reading it."""
    cdef uint64_t value = _hash(entry.source, entry.position, entry.block)
    cdef int number = 0
    cdef SharedBlock *freed = NULL
    cdef SharedBlock **link
    cdef Shard *shard = _locked(value, &number)
    # Another thread may have decoded the same one meanwhile, or the cache may be off by now.
    if (state_get(&cache_is_on) and entry.room <= shard.limit and _make_room(shard)
            and _found(shard, value, entry.source, entry.position, chunk, entry.block) == NULL):
        while shard.nbytes + entry.room > shard.limit:
            _pass_over(shard)
            freed = _evicted(shard, freed)
            shard.evictions += 1
        _count_users(entry, 1)
        link = &shard.buckets[value & <uint64_t> (shard.bucket_count - 1)]
        entry.next = link[0]
        link[0] = entry
        _to_front(shard, entry)
        shard.count += 1
        shard.nbytes += entry.room
    PyThread_release_lock(shard.lock)
    _free_all(freed)


cdef void leave_block(SharedBlock *entry) noexcept nogil:
    """Read a block no more."""
    if _count_users(entry, -1) == 0:
        free(entry)


def set_limit(int64_t limit):
    """Cache up to so many bytes of blocks from now on, in an empty cache with new counts; 0 for none. Returns the limit before."""
    step_begin(&setting)
    try:
        return _set_limit(limit)
    finally:
        step_end(&setting)


cdef int64_t _set_limit(int64_t limit) except -1:
    cdef SharedBlock *freed = NULL
    cdef Shard *shard
    cdef int64_t before = number_get(&whole_limit)
    cdef uint64_t count = 1
    cdef int i
    for i in range(MOST_SHARDS):
        if shards[i].lock == NULL:
            address_set(&shards[i].lock, PyThread_allocate_lock())     # `clear` and `counts` look for it at any time
            if shards[i].lock == NULL:
                raise MemoryError
    while count < MOST_SHARDS and limit >= <int64_t> (2 * count) * SHARD_BYTES:
        count *= 2
    state_set(&cache_is_on, 0)
    with nogil:
        for i in range(MOST_SHARDS):
            PyThread_acquire_lock(shards[i].lock, WAIT_LOCK)
        for i in range(MOST_SHARDS):
            shard = &shards[i]
            while shard.oldest != NULL:
                freed = _evicted(shard, freed)
            free(shard.buckets)
            shard.buckets, shard.bucket_count = NULL, 0
            shard.hits = shard.misses = shard.evictions = 0
            number_set(&shard.limit, limit // <int64_t> count)
        number_set(&shard_mask, <int64_t> (count - 1))
        for i in range(MOST_SHARDS):
            PyThread_release_lock(shards[i].lock)
        _free_all(freed)
    number_set(&whole_limit, limit)
    state_set(&cache_is_on, limit > 0)
    return before


def clear():
    """Let go of all blocks; the limit and the counts stay."""
    cdef SharedBlock *freed = NULL
    cdef Shard *shard
    cdef int i
    with nogil:
        for i in range(MOST_SHARDS):
            shard = &shards[i]
            if address_get(&shard.lock) == NULL:
                break
            PyThread_acquire_lock(shard.lock, WAIT_LOCK)
            while shard.oldest != NULL:
                freed = _evicted(shard, freed)
            free(shard.buckets)
            shard.buckets, shard.bucket_count = NULL, 0
            PyThread_release_lock(shard.lock)
        _free_all(freed)


def counts():
    """Limit, bytes, blocks, hits, misses and evictions."""
    cdef int64_t nbytes = 0, count = 0, hits = 0, misses = 0, evictions = 0
    cdef int i
    with nogil:     # small reads wait for a shard with the GIL held: nobody may wait for the GIL with a shard held
        for i in range(MOST_SHARDS):
            if address_get(&shards[i].lock) == NULL:
                break
            PyThread_acquire_lock(shards[i].lock, WAIT_LOCK)
            nbytes += shards[i].nbytes
            count += shards[i].count
            hits += shards[i].hits
            misses += shards[i].misses
            evictions += shards[i].evictions
            PyThread_release_lock(shards[i].lock)
    return number_get(&whole_limit), nbytes, count, hits, misses, evictions


def _begin_child():
    """In a forked child: what other threads of the parent had locked is forgotten; all else is still there."""
    cdef Shard *shard
    cdef int i
    memset(&setting, 0, sizeof(setting))
    for i in range(MOST_SHARDS):
        shard = &shards[i]
        if shard.lock == NULL:
            continue
        if PyThread_acquire_lock(shard.lock, NOWAIT_LOCK):
            PyThread_release_lock(shard.lock)
            continue
        # It may be in the middle of a change. Its blocks stay pages of the parent's that nobody touches.
        shard.lock = PyThread_allocate_lock()
        shard.buckets, shard.bucket_count = NULL, 0
        shard.newest = shard.oldest = NULL
        shard.count = shard.nbytes = 0
        if shard.lock == NULL:
            state_set(&cache_is_on, 0)
            raise MemoryError


in_child(_begin_child)
