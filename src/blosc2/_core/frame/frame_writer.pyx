# cython: language_level=3, freethreading_compatible=True
"""The parts of a contiguous frame as bytes: header, offsets table, trailer (FORMATS, section 1).

A `Frame` says what the fields are. The layers above decide where the parts go, and in which order.
"""

import struct

from libc.stdint cimport int32_t

from blosc2._core.codec.chunk cimport CHUNK_HEADER

from blosc2._core.codec.codec import Encoder, Encoding

_MAGIC = b"\x9e\xa8b2frame\x00"
_FIXED = struct.Struct(">10s Bi BQ B4B Bq Bq Bi Bi Bi Bh Bh B BB 6B BB 6B BB")
# The largest table that is written raw without asking the compressor.
_RAW_TABLE = 256
# A table is one chunk, of 8 bytes for each chunk of the frame.
_MOST_CHUNKS = 2147483615 // 8
_INDEX_ENCODING = Encoding(0, 0, 5, False, 8, 16384, 3, (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0))


def special_chunk(int kind, int32_t nbytes, int32_t typesize, int32_t blocksize, bytes item=b""):
    """A stored chunk without payload: zeros, NaN, undefined, or one repeated item.

    A block size that no header should have stands for one block, as 0 does.
    """
    header = bytearray(CHUNK_HEADER)
    header[0:4] = bytes((5, 1, 5, typesize if typesize <= 255 else 1))
    header[4:8] = nbytes.to_bytes(4, "little")
    header[8:12] = (min(blocksize, nbytes) if blocksize > 0 else nbytes).to_bytes(4, "little")
    header[12:16] = (CHUNK_HEADER + len(item)).to_bytes(4, "little")
    header[31] = kind << 4
    return bytes(header) + item


def header_length(dict metalayers):
    """Bytes of a header with these metalayers."""
    return 97 + sum([11 + len(name.encode()) + len(content) for name, content in metalayers.items()])


def pack_header(frame, dict metalayers, bint has_vlmeta, frame_len, nbytes, cbytes):
    """The header of a frame with the parameters of `frame` and these sizes."""
    cdef list names = [name.encode() for name in metalayers]
    cdef int header_len = header_length(metalayers)
    codec = frame.codec if frame.codec < 6 else 6
    fixed = _FIXED.pack(
        _MAGIC, 0xD2, header_len, 0xCF, frame_len, 0xA4, frame.flags, 0, codec | frame.clevel << 4,
        (frame.splitmode - 1) & 3, 0xD3, nbytes, 0xD3, cbytes, 0xD2, frame.typesize, 0xD2, frame.blocksize,
        0xD2, frame.chunksize, 0xD1, 1, 0xD1, 1, 0xC3 if has_vlmeta else 0xC2, 0xD8, 6, *frame.filters,
        frame.codec, frame.codec_meta, *frame.filters_meta, frame.use_dict, 0)
    map_size = 7 + sum([6 + len(name) for name in names])
    contents = 87 + map_size + 3
    entries = [fixed, struct.pack(">BBHBH", 0x93, 0xCD, map_size, 0xDE, len(names))]
    values = [struct.pack(">BH", 0xDC, len(names))]
    for name, content in zip(names, metalayers.values()):
        entries.append(struct.pack(f">B{len(name)}sBi", 0xA0 | len(name), name, 0xD2, contents))
        values.append(struct.pack(">BI", 0xC6, len(content)))
        values.append(content)
        contents += 5 + len(content)
    return b"".join(entries + values)


def pack_index(offsets, count):
    """The chunk that holds the table of offsets.

    Parameters
    ----------
    offsets : int64 array, or int
        One entry for each chunk, or the one that all share.
    """
    if count > _MOST_CHUNKS:
        raise ValueError(f"{count} chunks are too many for one frame, at most {_MOST_CHUNKS} are possible: "
                         "choose larger chunks")
    if isinstance(offsets, int):
        return special_chunk(3, 8 * count, 8, 8 * count, struct.pack("<q", offsets))
    table = offsets.astype("<i8", "C", copy=False)    # there may be millions, and no room for another copy
    if table.nbytes <= _RAW_TABLE:
        header = struct.pack("<4B3i6B2B6B2B", 5, 1, 7, 8, table.nbytes, table.nbytes, table.nbytes + 32,
                             0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return header + table.tobytes()
    return Encoder(_INDEX_ENCODING).encode_bytes(table)


def pack_trailer(dict vlmeta):
    """The trailer with these entries: name -> stored chunk.

    The field for the size of the table has 16 bits, of some 1,700 entries. Nobody reads it; of more it has the low ones.
    """
    cdef list names = [name.encode() for name in vlmeta]
    map_size = 6 + sum([6 + len(name) for name in names])
    contents = 2 + 1 + map_size + 3
    entries = [struct.pack(">BBBBHBH", 0x94, 1, 0x93, 0xCD, map_size & 0xFFFF, 0xDE, len(names))]
    values = [struct.pack(">BH", 0xDC, len(names))]
    for name, content in zip(names, vlmeta.values()):
        entries.append(struct.pack(f">B{len(name)}sBi", 0xA0 | len(name), name, 0xD2, contents))
        values.append(struct.pack(">BI", 0xC6, len(content)))
        values.append(content)
        contents += 5 + len(content)
    total = sum([len(part) for part in entries]) + sum([len(part) for part in values]) + 23
    return b"".join(entries + values + [struct.pack(">BIBB16x", 0xCE, total, 0xD8, 0)])
