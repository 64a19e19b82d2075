# Declarations of the C library that `codec` calls, and nothing else.
from libc.stdint cimport int16_t, int32_t, uint8_t

cdef extern from "blosc2.h" nogil:
    ctypedef struct blosc2_context:
        pass

    ctypedef struct blosc2_cparams:
        uint8_t compcode
        uint8_t compcode_meta
        uint8_t clevel
        int use_dict
        int32_t typesize
        int16_t nthreads
        int32_t blocksize
        int32_t splitmode
        void *schunk
        uint8_t filters[6]
        uint8_t filters_meta[6]

    ctypedef struct blosc2_dparams:
        int16_t nthreads
        void *schunk
        int32_t typesize

    ctypedef struct blosc2_storage:
        bint contiguous
        char *urlpath
        blosc2_cparams *cparams
        blosc2_dparams *dparams

    ctypedef struct blosc2_schunk:
        blosc2_context *cctx
        blosc2_context *dctx
        int32_t blocksize
        int32_t chunksize

    void blosc2_init()
    const char *blosc2_get_version_string()
    const char *blosc2_list_compressors()
    int blosc2_get_complib_info(const char *compname, char **complib, char **version)

    blosc2_cparams blosc2_get_blosc2_cparams_defaults()
    blosc2_dparams blosc2_get_blosc2_dparams_defaults()
    blosc2_storage blosc2_get_blosc2_storage_defaults()
    blosc2_context *blosc2_create_cctx(blosc2_cparams cparams)
    blosc2_context *blosc2_create_dctx(blosc2_dparams dparams)
    int blosc2_ctx_get_cparams(blosc2_context *context, blosc2_cparams *cparams)
    void blosc2_free_ctx(blosc2_context *context)

    int blosc2_compress_ctx(blosc2_context *context, const void *src, int32_t srcsize, void *dest, int32_t destsize)
    int blosc2_vlcompress_ctx(
        blosc2_context *context, const void *const *srcs, const int32_t *srcsizes, int32_t nblocks,
        void *dest, int32_t destsize)
    int blosc2_decompress_ctx(blosc2_context *context, const void *src, int32_t srcsize, void *dest, int32_t destsize)
    int blosc2_getitem_bytes_ctx(
        blosc2_context *context, const void *src, int32_t srcsize, int32_t start, int32_t nbytes,
        void *dest, int32_t destsize)

    int blosc2_unshuffle(int typesize, int blocksize, const void *src, void *dest)

    blosc2_schunk *blosc2_schunk_new(blosc2_storage *storage)
    int blosc2_schunk_free(blosc2_schunk *schunk)
    int blosc2_meta_add(blosc2_schunk *schunk, const char *name, uint8_t *content, int32_t content_len)
