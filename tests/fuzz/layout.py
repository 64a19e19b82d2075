"""Where the fields of frames, chunks, archives and catalogs lie in some bytes.

What is found is found by its signature, wherever it lies, so that frames in archives, archives in files and catalogs
behind members are all seen. Nothing is believed: damaged bytes give fewer fields, or wrong ones, never an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

FRAME_MAGIC = b"\x9e\xa8b2frame\0"
SUMS_MAGIC = b"\xc1b2sums\x01"
CATALOG_MAGIC = b"b2catlog"
PAGE = 4096
# More of one kind would only make all others rarer.
_MANY = 24


class Field(NamedTuple):
    """A number, or a few bytes: where, how wide (1, 2, 4 or 8, else plain bytes), ">" or "<", and its name."""

    at: int
    width: int
    order: str
    name: str


_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def number(data: bytes | bytearray, field: Field) -> int:
    """The value of a field, as an unsigned number."""
    if field.width not in _CODES or field.at + field.width > len(data):
        return 0
    return int(struct.unpack_from(field.order + _CODES[field.width], data, field.at)[0])


def put_number(data: bytearray, field: Field, value: int) -> None:
    """Write a field; what is too large is cut to its width, and what lies behind the end is left out."""
    raw = (value % (1 << 8 * field.width)).to_bytes(field.width, "big" if field.order == ">" else "little")
    room = max(0, len(data) - field.at)
    data[field.at : field.at + min(room, len(raw))] = raw[:room]


def u(data: bytes | bytearray, at: int, width: int, order: str = "little") -> int:
    """An unsigned number; 0 where there are no bytes."""
    return int.from_bytes(data[at : at + width], order) if 0 <= at <= len(data) - width else 0  # type: ignore[arg-type]


def offsets_of(data: bytes | bytearray, what: bytes, most: int = 1 << 30) -> list[int]:
    """Where some bytes are."""
    found = []
    at = data.find(what)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = data.find(what, at + 1)
    return found


_HEADER = [
    (0, 1, "array"), (2, 8, "magic"), (11, 4, "header_len"), (16, 8, "frame_len"), (25, 1, "flags"), (26, 1, "type"),
    (27, 1, "codec_level"), (28, 1, "split"), (30, 8, "nbytes"), (39, 8, "cbytes"), (48, 4, "typesize"),
    (53, 4, "blocksize"), (58, 4, "chunksize"), (63, 2, "threads"), (66, 2, "threads"), (68, 1, "has_vlmeta"),
    (70, 1, "filter_slots"), *[(71 + i, 1, "filter") for i in range(6)], (77, 1, "codec"), (78, 1, "codec_meta"),
    *[(79 + i, 1, "filter_meta") for i in range(6)], (85, 1, "flags2"), (86, 1, "sums_mark"),
]  # fmt: skip
# what a reader does not use: any value must give the same items
STALE = ("header.split", "header.threads", "header.has_vlmeta", "trailer.fingerprint", "trailer.fingerprint_type")

_CHUNK = [
    (0, 1, "version"), (1, 1, "codec_version"), (2, 1, "flags"), (3, 1, "typesize"), (4, 4, "nbytes"),
    (8, 4, "blocksize"), (12, 4, "cbytes"), *[(16 + i, 1, "filter") for i in range(6)], (22, 1, "codec"),
    (23, 1, "codec_meta"), *[(24 + i, 1, "filter_meta") for i in range(6)], (30, 1, "flags2"), (31, 1, "blosc2_flags"),
]  # fmt: skip


def chunk_fields(data: bytes | bytearray, at: int, name: str = "chunk") -> Iterator[Field]:
    """Header, block starts and streams of a chunk."""
    for offset, width, field in _CHUNK:
        yield Field(at + offset, width, "<", f"{name}.{field}")
    flags, special = u(data, at + 2, 1), u(data, at + 31, 1)
    nbytes, blocksize, cbytes = u(data, at + 4, 4), u(data, at + 8, 4), u(data, at + 12, 4)
    if special & 0x70:
        if cbytes > 32:
            yield Field(at + 32, min(cbytes - 32, 8), "<", f"{name}.value")
        return
    if flags & 2 or not blocksize:
        return
    vl = u(data, at + 30, 1) & 1
    blocks = blocksize if vl else -(-nbytes // max(1, min(blocksize, nbytes)))
    for i in range(min(blocks, _MANY)):
        yield Field(at + 32 + 4 * i, 4, "<", f"{name}.start")
        start = at + u(data, at + 32 + 4 * i, 4)
        if at + 32 <= start < at + cbytes:
            yield Field(start, 4, "<", f"{name}.stream")
            yield Field(start + 4, 1, "<", f"{name}.token")
    if special & 1:
        yield Field(at + 32 + 4 * blocks, 4, "<", f"{name}.dictionary")


def b2nd_fields(data: bytes | bytearray, at: int) -> Iterator[Field]:
    """The metalayer of an array, whose content begins at an offset."""
    ndim = u(data, at + 2, 1)
    yield from (
        Field(at, 1, ">", "b2nd.array"),
        Field(at + 1, 1, ">", "b2nd.version"),
        Field(at + 2, 1, ">", "b2nd.ndim"),
    )
    p = at + 3
    for what, width in (("shape", 8), ("chunk", 4), ("block", 4)):
        yield Field(p, 1, ">", f"b2nd.{what}s")
        p += 1
        for _ in range(min(ndim, 16)):
            yield Field(p, 1, ">", "b2nd.marker")
            yield Field(p + 1, width, ">", f"b2nd.{what}")
            p += 1 + width
    yield from (Field(p, 1, ">", "b2nd.dtype_format"), Field(p + 1, 1, ">", "b2nd.dtype_marker"))
    yield Field(p + 2, 4, ">", "b2nd.dtype_length")
    yield Field(p + 6, min(u(data, p + 2, 4, "big"), 40), ">", "b2nd.dtype")


def table_fields(data: bytes | bytearray, base: int, at: int, name: str) -> Iterator[Field]:
    """A table of metalayers (offsets from `base`), with what its entries hold."""
    yield Field(at, 1, ">", f"{name}.marker")
    yield Field(at + 2, 2, ">", f"{name}.map_size")
    yield Field(at + 5, 2, ">", f"{name}.count")
    p = at + 7
    for _ in range(min(u(data, at + 5, 2, "big"), _MANY)):
        length = u(data, p, 1) & 0x1F
        entry = bytes(data[p + 1 : p + 1 + length])
        yield Field(p, 1, ">", f"{name}.name_length")
        yield Field(p + 1, length, ">", f"{name}.name")
        offset = Field(p + 2 + length, 4, ">", f"{name}.offset")
        yield offset
        content = base + number(data, offset)
        size = u(data, content + 1, 4, "big")
        yield Field(content, 1, ">", f"{name}.content_marker")
        yield Field(content + 1, 4, ">", f"{name}.content_length")
        if name == "trailer":
            yield from chunk_fields(data, content + 5, "vlmeta")
            yield from msgpack_fields(data, content + 37, size - 32, "vlmeta")
        elif entry == b"b2nd":
            yield from b2nd_fields(data, content + 5)
        else:
            yield from msgpack_fields(data, content + 5, size, "meta")
        p += 7 + length
    yield Field(p + 1, 2, ">", f"{name}.contents")


#: Markers of msgpack that a length or a number follows, and how wide that is.
_LENGTHS = {0xC4: 1, 0xC7: 1, 0xD9: 1, 0xC5: 2, 0xC8: 2, 0xDA: 2, 0xDC: 2, 0xDE: 2, 0xC6: 4, 0xC9: 4, 0xDB: 4, 0xDD: 4,
            0xDF: 4, 0xCE: 4, 0xCF: 8, 0xD3: 8}  # fmt: skip


def msgpack_fields(data: bytes | bytearray, at: int, size: int, name: str) -> Iterator[Field]:
    """The first bytes of packed values, and the lengths that may be among them."""
    for i in range(min(size, 12)):
        yield Field(at + i, 1, ">", f"{name}.packed")
    for i, marker in enumerate(data[at : at + max(0, min(size, 400))] if at >= 0 else b""):
        if marker in _LENGTHS:
            yield Field(at + i + 1, _LENGTHS[marker], ">", f"{name}.packed_length")


def frame_fields(data: bytes | bytearray, at: int) -> Iterator[Field]:
    """All of a frame that begins at an offset."""
    for offset, width, name in _HEADER:
        yield Field(at + offset, width, ">", f"header.{name}")
    header_len, frame_len = u(data, at + 11, 4, "big"), u(data, at + 16, 8, "big")
    cbytes, nbytes = u(data, at + 39, 8, "big"), u(data, at + 30, 8, "big")
    yield from table_fields(data, at, at + 87, "table")
    index = at + header_len + cbytes
    if nbytes and index < len(data) - 32:
        yield from chunk_fields(data, index, "index")
        entries = min(u(data, index + 4, 4) // 8, _MANY)
        raw = u(data, index + 2, 1) & 2
        for i in range(entries):
            if raw:
                yield Field(index + 32 + 8 * i, 8, "<", "index.entry")
                yield Field(index + 39 + 8 * i, 1, "<", "index.special")
        # the chunks one behind another, as most files have them
        p, seen = at + header_len, 0
        while p < index - 31 and seen < 6:
            yield from chunk_fields(data, p)
            p += max(32, u(data, p + 12, 4))
            seen += 1
    end = at + frame_len
    if end <= len(data):
        trailer = end - u(data, end - 22, 4, "big")
        yield Field(end - 23, 1, ">", "trailer.marker")
        yield Field(end - 22, 4, ">", "trailer.trailer_len")
        yield Field(end - 18, 1, ">", "trailer.fingerprint_marker")
        yield Field(end - 17, 1, ">", "trailer.fingerprint_type")
        yield Field(end - 16, 16, ">", "trailer.fingerprint")
        if at < trailer < end:
            yield Field(trailer, 2, ">", "trailer.start")
            yield from table_fields(data, trailer, trailer + 2, "trailer")
        if data[end - 51 : end - 43] == SUMS_MAGIC:
            for offset, width, name in ((51, 8, "magic"), (43, 4, "size"), (39, 4, "body"), (35, 4, "index"),
                                        (31, 4, "header"), (27, 4, "trailer"), (55, 4, "chunk")):  # fmt: skip
                yield Field(end - offset, width, "<", f"sums.{name}")


_LOCAL = [(0, 4, "signature"), (4, 2, "version"), (6, 2, "flags"), (8, 2, "method"), (14, 4, "crc"), (18, 4, "csize"),
          (22, 4, "size"), (26, 2, "name_length"), (28, 2, "extra_length")]  # fmt: skip
_CENTRAL = [(0, 4, "signature"), (8, 2, "flags"), (10, 2, "method"), (16, 4, "crc"), (20, 4, "csize"), (24, 4, "size"),
            (28, 2, "name_length"), (30, 2, "extra_length"), (32, 2, "comment_length"), (34, 2, "disk"),
            (42, 4, "header")]  # fmt: skip
_END64 = [(0, 4, "signature"), (4, 8, "length"), (16, 4, "disk"), (20, 4, "disk"), (24, 8, "entries"),
          (32, 8, "entries"), (40, 8, "directory_size"), (48, 8, "directory_offset")]  # fmt: skip
_LOCATOR = [(0, 4, "signature"), (4, 4, "disk"), (8, 8, "end64"), (16, 4, "disks")]
_END = [(0, 4, "signature"), (4, 2, "disk"), (6, 2, "disk"), (8, 2, "entries"), (10, 2, "entries"),
        (12, 4, "directory_size"), (16, 4, "directory_offset"), (20, 2, "comment_length")]  # fmt: skip


def archive_fields(data: bytes | bytearray) -> Iterator[Field]:
    """Records of an archive, wherever their signatures are."""
    for signature, table, name, length_at, header in (
        (b"PK\3\4", _LOCAL, "local", 26, 30), (b"PK\1\2", _CENTRAL, "central", 28, 46), (b"PK\6\6", _END64,
                                                                                         "end64", 0, 0),
        (b"PK\6\7", _LOCATOR, "locator", 0, 0), (b"PK\5\6", _END, "end", 0, 0),
    ):  # fmt: skip
        found = offsets_of(data, signature)
        # of many the first, the last and some between: those of `embed.b2e` and of the catalog are among them
        step = max(1, len(found) // _MANY)
        for at in {*found[::step], *found[-3:]}:
            for offset, width, field in table:
                yield Field(at + offset, width, "<", f"{name}.{field}")
            if header:
                length, extra = u(data, at + length_at, 2), u(data, at + length_at + 2, 2)
                yield Field(at + header, length, "<", f"{name}.name")
                if extra >= 4:
                    yield Field(at + header + length, 2, "<", f"{name}.extra_id")
                    yield Field(at + header + length + 2, 2, "<", f"{name}.extra_size")
                    for i in range(4, min(extra - 7, 40), 8):
                        yield Field(at + header + length + i, 8, "<", f"{name}.extra_value")


_FOOTER = [
    (8, 4, "version"), (12, 4, "length"), (16, 8, "directory_offset"), (24, 8, "directory_size"), (32, 8, "members"),
    (40, 8, "size"), (48, 8, "leaves"), (56, 8, "groups"), (64, 8, "hidden"), (72, 8, "undescribed"), (80, 8, "tables"),
    (88, 8, "embed"), (96, 8, "seed"), (104, 8, "seed"), (112, 8, "shapes_at"), (120, 8, "shapes_size"),
    (128, 8, "kinds_at"), (136, 8, "kinds_size"), (144, 8, "kind_count"), (152, 8, "tallies_at"), (160, 8,
                                                                                                   "tally_step"),
    (168, 8, "slots_at"), (176, 8, "slot_count"), (184, 8, "homes"), (192, 8, "sums_at"), (200, 8, "leaves_begin"),
    (208, 8, "own_record"), (216, 8, "zeros"), (240, 4, "sample"), (244, 4, "sums_crc"), (248, 4, "crc"),
]  # fmt: skip


def catalog_fields(data: bytes | bytearray, footer: int) -> Iterator[Field]:
    """A catalog whose footer is at an offset: the footer, and some entries of each section."""
    for offset, width, name in _FOOTER:
        yield Field(footer + offset, width, "<", f"footer.{name}")
    start = footer + 256 - u(data, footer + 40, 8)
    if start < 0:
        return
    leaves = u(data, footer + 48, 8)
    step = max(1, leaves // 16)
    for rank in {*range(0, min(leaves + 1, 1 << 16), step), leaves - 1, leaves}:
        for offset, width, name in ((0, 8, "record_offset"), (8, 8, "nbytes"), (16, 8, "cbytes"), (24, 4, "groups"),
                                    (28, 4, "hidden"), (32, 4, "kind"), (36, 4, "shape")):  # fmt: skip
            yield Field(start + 40 * rank + offset, width, "<", f"leaves.{name}")
    for i in range(0, min(u(data, footer + 120, 8), 160), 8):
        yield Field(start + u(data, footer + 112, 8) + i, 8, "<", "shapes.value")
    kinds = start + u(data, footer + 128, 8)
    for i in range(min(u(data, footer + 136, 8), 24)):
        yield Field(kinds + i, 1, "<", "kinds.byte")
        yield Field(kinds + i, 2, "<", "kinds.length")
    for i in range(0, 24 * 8, 8):
        yield Field(start + u(data, footer + 152, 8) + i, 8, "<", "tallies.value")
    slots, count = start + u(data, footer + 168, 8), u(data, footer + 176, 8)
    step = max(1, count // 32)
    for i in {*range(0, min(count, 1 << 20), step), count - 1}:
        yield Field(slots + 8 * i, 8, "<", "slots.slot")
    yield Field(start + u(data, footer + 192, 8), 4, "<", "sums.page")


def fields_of(data: bytes | bytearray) -> list[Field]:
    """All fields that are found, within the bytes."""
    found: list[Field] = []
    frames = offsets_of(data, FRAME_MAGIC)
    step = max(1, len(frames) // 12)
    for at in {*frames[::step], *frames[-2:]}:
        found += frame_fields(data, at)
    if b"PK" in data:
        found += archive_fields(data)
    for at in offsets_of(data, CATALOG_MAGIC, 4):
        found += catalog_fields(data, at)
    if not frames and len(data) >= 32:
        found += chunk_fields(data, 0)
    return [field for field in found if 0 <= field.at < len(data) and 0 < field.width <= len(data) - field.at]
