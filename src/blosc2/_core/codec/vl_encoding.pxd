# cython: cdivision=True, boundscheck=False, wraparound=False
"""Making chunks whose blocks have lengths of their own; for `codec`, which links the C library."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from blosc2._core.codec cimport cblosc2 as c
from blosc2._core.codec.chunk cimport CHUNK_HEADER, MAX_BUFFER, NO_MEMORY
from blosc2._core.io.buffer cimport Buffer, readable

cdef extern from "codec/library_memory.h" nogil:
    void enter_library()
    int leave_library(int status)
    void leave_reserve()

cdef enum:
    BEYOND = 1 << 18        # more than a dictionary takes


cdef inline int64_t vl_total(list blocks) except -1:
    """The bytes of blocks of a chunk together."""
    cdef int64_t total = sum(map(len, blocks))
    if not blocks or total > MAX_BUFFER - 16 * <int64_t> len(blocks) - BEYOND:
        raise ValueError(f"{len(blocks)} blocks of together {total} bytes do not make a chunk")
    return total


cdef inline bytes compress_vl_chunk(c.blosc2_cparams cparams, list blocks, int64_t total):
    """Compress buffers of `total` bytes to a chunk, each to a block of its own."""
    cdef int32_t count = <int32_t> len(blocks), i, size = 0
    cdef int64_t room = CHUNK_HEADER + 16 * <int64_t> count + total + BEYOND
    cdef Buffer view
    cdef c.blosc2_context *context
    cdef uint8_t *copy = <uint8_t *> malloc(<size_t> total + 1)
    cdef uint8_t *out = <uint8_t *> malloc(<size_t> room)
    cdef const void **sources = <const void **> malloc(count * sizeof(void *))
    cdef int32_t *sizes = <int32_t *> malloc(count * sizeof(int32_t))
    try:
        if copy == NULL or out == NULL or sources == NULL or sizes == NULL:
            raise MemoryError
        total = 0
        for i in range(count):
            view = readable(blocks[i])
            if view.size == 0:
                raise ValueError("a block of variable length cannot be empty")
            sizes[i] = <int32_t> view.size
            sources[i] = copy + total
            memcpy(copy + total, view.data, <size_t> sizes[i])
            total += sizes[i]
        # One for each chunk: the library does not forget blocks of variable length.
        with nogil:
            enter_library()
            context = c.blosc2_create_cctx(cparams)
            if context != NULL:
                size = c.blosc2_vlcompress_ctx(context, sources, sizes, count, out, <int32_t> room)
                c.blosc2_free_ctx(context)
            size = leave_library(size)
            leave_reserve()
        if context == NULL and size != NO_MEMORY:
            raise ValueError("the C library does not take these compression parameters")
        if size <= CHUNK_HEADER:
            from blosc2._core.codec.codec import encoding_error

            raise encoding_error(size)
        return PyBytes_FromStringAndSize(<const char *> out, size)
    finally:
        free(copy)
        free(out)
        free(sources)
        free(sizes)


cdef inline bytes raw_vl_chunk(list blocks):
    """A chunk of blocks that are stored as they are."""
    total = sum(map(len, blocks))
    count = len(blocks)
    at = CHUNK_HEADER + 4 * count
    size = at + 4 * count + total
    if not blocks or 0 in map(len, blocks) or size > MAX_BUFFER:
        raise ValueError(f"{count} blocks of together {total} bytes do not make a chunk")
    # Flags of zstd: each block says by its size that it is not compressed.
    parts = [b"\x06\x01\x95\x01", *[n.to_bytes(4, "little") for n in (total, count, size)], bytes(6), b"\x05",
             bytes(7), b"\x01\0"]
    for block in blocks:
        parts.append(at.to_bytes(4, "little"))
        at += 4 + len(block)
    for block in blocks:
        parts += (len(block).to_bytes(4, "little"), block)
    return b"".join(parts)
