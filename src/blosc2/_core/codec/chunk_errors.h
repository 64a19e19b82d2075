/* What a chunk may fail on. The codes of the C library lie between these and 0. */
#ifndef B2_CHUNK_ERRORS_H
#define B2_CHUNK_ERRORS_H

#include <stddef.h>

enum {
    CHUNK_OK = 0,
    BAD_ROOM = -101,
    BAD_OLD_HEADER = -102,
    BAD_VERSION = -103,
    BAD_CBYTES = -104,
    BAD_NBYTES = -105,
    BAD_FLAGS = -106,
    BAD_SPECIAL = -107,
    BAD_RAW = -108,
    BAD_BLOCKSIZE = -109,
    BAD_CODEC = -110,
    BAD_RATE = -121,
    BAD_FILTER = -111,
    BAD_STARTS = -112,
    BAD_STREAM = -113,
    BAD_LENGTH = -114,
    BAD_TYPESIZE = -115,
    NEEDS_GEOMETRY = -116,
    NO_MEMORY = -117,
    BAD_DECODED = -118,
    BAD_SPECIAL_HERE = -119,
    BAD_SUM = -120,
    INTERRUPTED = -122,
};

/* What an error says, as the end of a sentence about the chunk; NULL for codes that are not among these. */
static inline const char *chunk_error_text(int code) {
    switch (code) {
    case BAD_ROOM:
        return "a chunk needs at least 32 bytes and there are fewer";
    case BAD_OLD_HEADER:
        return "a chunk with a 16-byte header of Blosc 1; this format has 32-byte headers only";
    case BAD_VERSION:
        return "a chunk of an unknown format version (5 and 6 are known)";
    case BAD_CBYTES:
        return "the stored size of a chunk is below 32 or reaches past the space for chunks";
    case BAD_NBYTES:
        return "the size of a chunk is negative or above 2147483615";
    case BAD_FLAGS:
        return "a chunk with flags that no file may have (lazy, instrumented or unknown)";
    case BAD_SPECIAL:
        return "a special chunk of an unknown kind, or whose value does not fit its size";
    case BAD_RAW:
        return "a raw chunk whose stored size is not its size + 32";
    case BAD_BLOCKSIZE:
        return "the block size of a chunk is below 1 or above 536866816";
    case BAD_RATE:
        return "codec_meta is above the largest of its codec (a rate of ZFP_RATE above 100 percent, say): the C library "
               "has too little room for that";
    case BAD_CODEC:
        return "a chunk compressed with a codec that this package does not have";
    case BAD_FILTER:
        return "a chunk with a filter that this package does not have";
    case BAD_STARTS:
        return "a block of a chunk starts outside it";
    case BAD_STREAM:
        return "a compressed stream of a block reaches outside its chunk";
    case BAD_LENGTH:
        return "a chunk does not hold as many bytes as its frame says";
    case BAD_TYPESIZE:
        return "the item size of a chunk is 0, or NaN chunks of items that are neither 4 nor 8 bytes";
    case NEEDS_GEOMETRY:
        return "a codec or filter that works on array blocks is used outside an array";
    case NO_MEMORY:
        return "not enough memory to decode a chunk";
    case BAD_DECODED:
        return "a chunk decodes to fewer bytes than it says: its compressed data is damaged";
    case BAD_SPECIAL_HERE:
        return "a special chunk where none may be";
    case BAD_SUM:
        return "its bytes are not those that were written, as their checksum says";
    default:
        return NULL;
    }
}

#endif
