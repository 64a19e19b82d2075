# cython: boundscheck=False, wraparound=False
"""What all keys of a store have in common."""

from libc.stdint cimport uint8_t

from blosc2._core.keys.key_text cimport text_of
from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.keys.listing cimport KeyListing, Range


cdef inline object common_path(KeyListing listing):
    """The longest path that all keys are below, "/" where they have none in common."""
    cdef Range r = listing._range(b"")
    cdef KeyTable base = <KeyTable> r.base
    cdef Text first, last
    cdef Py_ssize_t at = 0, slash = 0
    if len(listing) == 0:
        return "/"
    if not listing._plain:
        keys = (<object> listing).below()
        ends = keys[0].encode("utf-8", "surrogateescape"), keys[len(keys) - 1].encode("utf-8", "surrogateescape")
        while at < min(len(ends[0]), len(ends[1])) and ends[0][at] == ends[1][at]:
            slash = at if ends[0][at] == 0x2F else slash
            at += 1
        return ends[0][:slash].decode("utf-8", "surrogateescape") or "/"
    if not (base.key(0, &first) and base.key(base.count - 1, &last)):
        listing._without_catalog()
        return common_path(listing)
    while at < min(first.length, last.length) and first.bytes[at] == last.bytes[at]:
        if first.bytes[at] == 0x2F:
            slash = at
        at += 1
    return text_of(first.bytes, slash, base.archive if slash else None)
