# cython: boundscheck=False, wraparound=False
"""The members of an archive that are no leaves."""

from libc.stdint cimport int64_t

from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.records cimport Member


cdef inline list other_offsets_of(KeyTable table, tuple without):
    """Where their records are, but for those of some names."""
    cdef Archive archive = table.archive
    cdef Member member
    cdef Text key
    cdef int64_t number = 0, offset = 0, stop = 0
    cdef list found = []
    if table.catalog is None:
        archive._need_offsets()
    else:
        stop = table.record_offset(0)    # before those of leaves
    while offset < stop if table.catalog is not None else number < archive.count:
        if table.catalog is None:
            offset = archive._offsets[number]
            number += 1
        archive.member_at(offset, &member)
        if (table.catalog is not None or not table.key_at(offset, &key)
                or table.lookup(key.bytes, key.length) != offset) and (
                member.name[:member.name_length] not in without):
            found.append(offset)
        offset += member.record.length
    return found
