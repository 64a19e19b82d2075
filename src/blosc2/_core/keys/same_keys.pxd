# cython: boundscheck=False, wraparound=False
"""Members that stand for one key."""

from libc.stdint cimport int64_t, uint64_t

from blosc2._core.io.endian cimport put64, u64
from blosc2._core.keys.key_text cimport text_of
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.keys.own_headers cimport OwnHeader, read_own_header
from blosc2._core.zip.catalog cimport SLOT_LENGTH, slot_offset, slot_tag, stem_length
from blosc2._core.zip.records cimport Member


cdef inline int settle(KeyTable table, int64_t offset, int64_t slot) except -1:
    """Let the better of two members of one key stay, after a look whether both have that name."""
    cdef uint64_t taken = u64(table.slots + SLOT_LENGTH * slot)
    cdef int64_t before = slot_offset(taken)
    cdef Member old, new
    cdef OwnHeader own
    cdef Py_ssize_t stem
    table.archive.member_at(before, &old)
    table.archive.member_at(offset, &new)
    read_own_header(table.archive, &old, &own)
    read_own_header(table.archive, &new, &own)
    stem = stem_length(new.name, new.name_length)
    rank = table._suffix(new.name + stem, new.name_length - stem)
    rank_before = table._suffix(old.name + stem, old.name_length - stem)
    key = text_of(new.name, stem)
    if rank != rank_before:
        table.clashes.append(key)
    # Of equal names the last counts: so an equal rank replaces.
    table.shadowed.setdefault(key, []).append(before if rank <= rank_before else offset)
    if rank <= rank_before:
        put64(table.slots + SLOT_LENGTH * slot, slot_tag(taken) | <uint64_t> (offset + 1))
    return 0
