"""Frames, chunks, archives and packed values made from nothing, right or nearly so."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import msgpack
import numpy as np

import blosc2

EDGES = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 97, 127, 128, 255, 256, 511, 4095, 4096, 8191, 8192,
         8193, 0x7FFF,
         0x8000, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFDF, 0x7FFFFFE0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
         0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0x8100000000000000, 0x8200000000000000,
         0x8400000000000000, 0xFFFFFFFFFFFFFFE0, 0xFFFFFFFFFFFFFFFF]  # fmt: skip


# ------------------------------------------------------------------ values of metadata
def packed(rng: random.Random, depth: int = 0) -> bytes:
    """A msgpack value, of the extension codes that metadata use as well; now and then a wrong one."""
    kind = rng.randrange(16)
    if depth > 3:
        kind = rng.randrange(6)
    if kind == 0:
        return rng.choice([b"\xc0", b"\xc2", b"\xc3", b"\xc1", b"\x00", b"\x7f", b"\xe0", b"\xff"])
    if kind == 1:
        return bytes(msgpack.packb(rng.choice([*EDGES[:-1], -1, -(2**63), 1.5, float("nan"), float("inf")])))
    if kind == 2:
        return bytes(msgpack.packb(rng.choice(["", "a", "__tuple__", "ünï", "x" * 300, "kind", "ctable"])))
    if kind == 3:
        return bytes(msgpack.packb(rng.randbytes(rng.choice([0, 1, 32, 300]))))
    if kind == 4:
        return rng.randbytes(rng.randrange(1, 9))
    if kind == 5:  # a claim of many
        return (
            bytes([rng.choice([0xC6, 0xC9, 0xDB, 0xDD, 0xDF])])
            + rng.choice(EDGES[:37]).to_bytes(8, "big")[-4:]
            + b"\0" * 9
        )
    if kind in (6, 7):
        items = [packed(rng, depth + 1) for _ in range(rng.randrange(5))]
        first = [msgpack.packb("__tuple__")] if kind == 7 else []
        return bytes([0x90 + len(items) + len(first)]) + b"".join([*first, *items])
    if kind == 8:
        entries = [
            msgpack.packb(rng.choice(["kind", "version", "a", 1, -1, 2**64 - 1, b"k"])) + packed(rng, depth + 1)
            for _ in range(rng.randrange(4))
        ]
        return bytes([0x80 + len(entries)]) + b"".join(entries)
    if kind == 9:
        return b"\x91" * rng.choice([3, 30, 200, 3000]) + b"\x00"
    if kind == 10:
        return ext(44, rng.randbytes(rng.choice([16, 16, 0, 8, 15, 17])))
    if kind == 11:
        items = [packed(rng, depth + 1) for _ in range(rng.randrange(4))]
        return ext(45, bytes([0x90 + len(items)]) + b"".join(items) + rng.choice([b"", b"", b"\x00"]))
    if kind == 12:
        return ext(46, packed_array(rng))
    if kind == 13:
        frame = array_frame(rng)
        return ext(42, frame[: rng.choice([len(frame), len(frame), len(frame) - 1, 87])])
    if kind == 14:
        what = rng.choice(["ref", "c2array", "lazyexpr", "lazyudf", "none"])
        return ext(
            43, bytes(msgpack.packb({"kind": what, "version": rng.choice([1, 0, 2]), "urlpath": "/x", "key": "/a"}))
        )
    return ext(rng.choice([0, 1, 41, 47, 127, 200, 255]), rng.randbytes(rng.randrange(4)))


def ext(code: int, data: bytes) -> bytes:
    """A msgpack extension value, in the longest form that there is."""
    return b"\xc9" + struct.pack(">IB", len(data), code) + data


def packed_array(rng: random.Random) -> bytes:
    """The payload of an array in metadata."""
    dtype = rng.choice([{"str": "<f8"}, {"str": "|O"}, {"str": "|V0"}, {"str": "<U0"}, {"str": "x" * 90}, {"str": 3},
                        {"descr": [["a", "<i4"], ["b", "<f8", [2]]]}, {"descr": [["a", "|O"]]}, {"descr": [[["t",
                                                                                                             "a"],
                                                                                                             "<i4"]]},
                        {"descr": []}, {"str": dtype_text(rng)}, "<f8", {}])  # fmt: skip
    shape = rng.choice([[], [3], [0], [2, 2], [-1], [2**31], [2**62, 4], [0, 2**62], [1] * 70, "x", [1.5], [True]])
    data = rng.randbytes(rng.choice([0, 8, 24, 32]))
    out: dict[str, Any] = {"dtype": dtype, "shape": shape, "data": data}
    if rng.random() < 0.3:
        out["values"] = [1, "a", None][: rng.randrange(4)]
    if rng.random() < 0.2:
        out.pop(rng.choice(list(out)))
    return bytes(msgpack.packb(out))


def dtype_text(rng: random.Random, depth: int = 0) -> str:
    """The text of a dtype, right or nearly so."""
    kind = rng.randrange(8 if depth < 4 else 2)
    if kind == 0:
        return rng.choice(
            ["<i4", "|b1", ">f8", "<c16", "|S5", "<U3", "<M8[ns]", "<M8[25s]", "<m8", "|V7", "<f2", "|S0"]
        )
    if kind == 1:
        return rng.choice(["|O", "<f9", "", "i", "<U536870911", "|V2147483647", "|S99999999999", "<M8[0s]", "<M8[x]",
                           "f8,f8", "(2,3)f8", "3f8", "\0", "<i4\0", "<g16", "P", "[", "{", "b'<i4'",
                           "<M8[4294967296s]"])  # fmt: skip
    if kind in (2, 3, 4):
        fields = []
        for i in range(rng.randrange(4)):
            inner = dtype_text(rng, depth + 1)
            inner = inner if inner[:1] in "[{" and inner else repr(inner)
            name = rng.choice([f"'f{i}'", "'a'", "''", "('t', 'n')", "b'a'", "1", "'ü'", "'__proto__'"])
            shape = rng.choice(["", "", ", (2,)", ", (2, 3)", ", 2", ", (-1,)", ", (2147483647, 2147483647)", ", (0,)"])
            fields.append(f"({name}, {inner}{shape})")
        return "[" + ", ".join(fields) + "]"
    if kind in (5, 6):
        offsets = rng.choice(["[0, 8]", "[8, 0]", "[0, 0]", "[-1, 0]", "[0, 4294967296]", "[0]", "'x'"])
        itemsize = rng.choice(["16", "4", "-1", "2147483648", "1.5"])
        names = rng.choice(["['a', 'b']", "['a', 'a']", "['a']", "('a', 'b')", "[1, 2]"])
        formats = rng.choice(["['<i4', '<f8']", "['<i4', '|O']", "['<i4']"])
        extra = rng.choice(["", ", 'aligned': True", ", 'titles': ['x', 'y']", ", 'z': 1"])
        return f"{{'names': {names}, 'formats': {formats}, 'offsets': {offsets}, 'itemsize': {itemsize}{extra}}}"
    return rng.choice([
        "[" * 50 + "]" * 50, "[('a'," * 40, "{'a': ('<i4', 0)}", "{'a': 1}", "[1]", "[[]]", "(1,)", "None", "[()]",
        "[('a', '<i4')] + []", "[x for x in ()]", "{**{}}", "-1", "'<i4'", "[('a', '<i4'), ]" + " " * 60000,
        "['" + "\\'" * 30000, '["' + '\\"' * 30000,
    ])  # fmt: skip


# ------------------------------------------------------------------ chunks
def chunk(
    rng: random.Random, nbytes: int | None = None, typesize: int | None = None, blocksize: int | None = None
) -> bytes:
    """A chunk of any kind, of so many bytes where that is said."""
    nbytes = rng.choice([0, 1, 8, 24, 31, 32, 200, 1000, 8192]) if nbytes is None else nbytes
    typesize = rng.choice([1, 2, 4, 8, 8, 16, 255]) if typesize is None else max(1, min(typesize, 255))
    kind = rng.randrange(10)
    if kind < 2:
        return special_chunk(
            nbytes, typesize, rng.choice([1, 2, 4, 3, 3]), rng.randbytes(rng.choice([typesize, 1, 8])), blocksize
        )
    if kind == 2:
        return header(5, 0x07 | 0x10, typesize, nbytes, blocksize or max(nbytes, 1), nbytes + 32) + rng.randbytes(
            nbytes
        )
    data = rng.choice([bytes(nbytes), rng.randbytes(nbytes), (bytes(range(16)) * (nbytes // 16 + 1))[:nbytes]])
    filters = [blosc2.Filter(rng.choice([0, 0, 1, 1, 2, 3, 4, 35])) for _ in range(rng.choice([1, 1, 2, 3]))]
    how = {
        "codec": blosc2.Codec(rng.choice([0, 1, 2, 4, 5])), "clevel": rng.choice([0, 1, 5, 9]), "typesize": typesize,
        "filters": filters, "filters_meta": [0] * len(filters), "nthreads": 1,
        "splitmode": blosc2.SplitMode(rng.choice([1, 2, 3])),
    }  # fmt: skip
    if blocksize or rng.random() < 0.4:
        how["blocksize"] = blocksize or rng.choice([32, 64, 256, 512, 4096])
    try:
        return blosc2.compress2(data, **how)
    except (ValueError, RuntimeError):
        return special_chunk(nbytes, typesize, 1, b"", blocksize)


def header(version: int, flags: int, typesize: int, nbytes: int, blocksize: int, cbytes: int, flags2: int = 0) -> bytes:
    """A chunk header of 32 bytes."""
    return struct.pack("<4B3I", version, 1, flags, typesize, nbytes, blocksize, cbytes) + bytes(15) + bytes([flags2])


def special_chunk(nbytes: int, typesize: int, what: int, value: bytes = b"", blocksize: int | None = None) -> bytes:
    """A chunk that says what all of its items are, and how many there are said to be."""
    value = value if what == 3 else b""
    return header(5, 0x05, typesize, nbytes, blocksize or min(nbytes, 1 << 20), 32 + len(value), what << 4) + value


# ------------------------------------------------------------------ frames
def frame(
    meta: list[tuple[bytes, bytes]], chunks: list[bytes | int], vlmeta: list[tuple[bytes, bytes]], *,
    nbytes: int, chunksize: int, typesize: int, blocksize: int = 0, flags: int = 0x12, index: bytes | None = None,
    type: int = 0,
) -> bytes:  # fmt: skip
    """A contiguous frame; a chunk that is a number is one that only the index has."""
    table = _table(meta, 87)
    header_len = 87 + len(table)
    entries, stored, at = [], [], 0
    for one in chunks:
        if isinstance(one, int):
            entries.append(one << 56)
        else:
            entries.append(at)
            stored.append(one)
            at += len(one)
    body = b"".join(stored)
    if index is None:
        raw = b"".join(e.to_bytes(8, "little") for e in entries)
        index = header(5, 0x17, 8, len(raw), max(len(raw), 1), 32 + len(raw)) + raw
    if nbytes == 0 and not chunks:
        index, body = b"", b""
    trailer = b"\x94\x01" + _table(vlmeta, 2)
    trailer += b"\xce" + (len(trailer) + 23).to_bytes(4, "big") + b"\xd8" + bytes(17)
    frame_len = header_len + len(body) + len(index) + len(trailer)
    head = bytearray(b"\x9e\xa8b2frame\0\xd2" + header_len.to_bytes(4, "big") + b"\xcf" + frame_len.to_bytes(8, "big"))
    head += b"\xa4" + bytes([flags, type, 0x51, 0]) + b"\xd3" + (nbytes % (1 << 64)).to_bytes(8, "big")
    head += b"\xd3" + len(body).to_bytes(8, "big")
    for value in (typesize, blocksize, chunksize):
        head += b"\xd2" + (value % (1 << 32)).to_bytes(4, "big")
    head += (
        b"\xd1\0\1\xd1\0\1" + (b"\xc3" if vlmeta else b"\xc2") + b"\xd8\6" + bytes([0, 0, 0, 0, 0, 1, 1, 0]) + bytes(8)
    )
    return bytes(head) + table + body + index + trailer


def _table(entries: list[tuple[bytes, bytes]], base: int) -> bytes:
    names = b"".join(bytes([0xA0 + (len(n) & 31)]) + n + b"\xd2" + b"\0\0\0\0" for n, _ in entries)
    head = 7 + len(names) + 3
    out = bytearray(b"\x93\xcd" + (7 + len(names)).to_bytes(2, "big") + b"\xde" + len(entries).to_bytes(2, "big"))
    at = base + head
    for name, content in entries:
        out += bytes([0xA0 + (len(name) & 31)]) + name + b"\xd2" + at.to_bytes(4, "big")
        at += 5 + len(content)
    out += b"\xdc" + len(entries).to_bytes(2, "big")
    for _, content in entries:
        out += b"\xc6" + len(content).to_bytes(4, "big") + content
    return bytes(out)


def b2nd(shape: list[int], chunks: list[int], blocks: list[int], dtype: bytes) -> bytes:
    """The metalayer of an array."""
    out = b"\x97\0" + bytes([len(shape) & 255])
    for values, marker, code in ((shape, 0xD3, ">q"), (chunks, 0xD2, ">i"), (blocks, 0xD2, ">i")):
        out += bytes([(0x90 + len(values)) & 255])
        for value in values:
            limit = 1 << (8 * struct.calcsize(code) - 1)
            out += bytes([marker]) + struct.pack(code, (value + limit) % (2 * limit) - limit)
    return out + b"\0\xdb" + len(dtype).to_bytes(4, "big") + dtype


def stored_value(rng: random.Random, content: bytes) -> bytes:
    """A value of vlmeta: packed bytes in a chunk, or a chunk that only claims them."""
    kind = rng.randrange(12)
    if kind == 0:
        return special_chunk(
            rng.choice([1, 1000, 1 << 16, 1 << 22, (1 << 22) + 1, 1 << 30]), 1, rng.choice([1, 3, 4]), b"\xc0"
        )
    if kind < 4:
        return header(5, 0x17, 1, len(content), max(len(content), 1), 32 + len(content)) + content
    return blosc2.compress2(content, typesize=1, nthreads=1)


def vlmeta(rng: random.Random) -> list[tuple[bytes, bytes]]:
    """Entries of variable-length metadata."""
    names = [b"a", b"meta", b"_batch_array_metadata", b"estore_metadata", b"__pack_tensor__", b"_object_registry",
             b"dstore_tick",
             b"kind", b"\xff", b"", b"x" * 31, b"a"]  # fmt: skip
    return [(rng.choice(names), stored_value(rng, packed(rng))) for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 17]))]


def array_frame(rng: random.Random) -> bytes:
    """An array of few axes, whose frame agrees with its metalayer as a rule."""
    ndim = rng.choice([0, 1, 1, 2, 2, 3, 16, 17])
    text = rng.choice(["<i4", "<f8", "|u1", "|S3", "[('a', '<i4'), ('b', '<f8')]", dtype_text(rng)])
    try:
        itemsize = max(1, {"<i4": 4, "<f8": 8, "|u1": 1, "|S3": 3}.get(text) or 12)
    except ValueError:
        itemsize = 8
    # Of many axes nearly all have one item.
    axes = [rng.choice([1, 2, 3, 5, 8] if ndim < 4 else [1, 1, 1, 1, 1, 2]) for _ in range(ndim)]
    shape = [axis * rng.choice([1, 1, 2, 3] if ndim < 4 else [1, 1, 1, 2]) for axis in axes]
    blocks = [rng.randint(1, axis) for axis in axes]
    if rng.random() < 0.15 and ndim:
        where = rng.choice([shape, axes, blocks])
        where[rng.randrange(ndim)] = rng.choice([0, 1, 1 << 20, 1 << 30, (1 << 31) - 1, (1 << 62), (1 << 63) - 1, -1])
    padded, block, count = 1, 1, 1
    for s, c, b in zip(shape, axes, blocks, strict=True):
        padded *= -(-c // b) * b if b > 0 else 1
        block *= max(b, 1)
        count *= -(-s // c) if c > 0 else 0
    huge = padded * itemsize > 1 << 16 or count > 64
    claimed = min(padded * itemsize, (1 << 31) - 33)
    if huge:  # claims much, holds nothing
        some = min(count, rng.choice([1, 64, 1000, 1 << 15]))
        value = rng.choice([0x81, 0x84, 0x82]) << 56
        index = header(5, 0x05, 8, 8 * some, 8 * some or 1, 40, 0x30) + value.to_bytes(8, "little")
        stored = special_chunk(claimed, itemsize, rng.choice([1, 3]), bytes(itemsize), min(block * itemsize, 1 << 29))
        chunks: list[bytes | int] = [stored] * rng.choice([0, 1, some if some < 70 else 1])
        return frame([(b"b2nd", b2nd(shape, axes, blocks, text.encode()))], chunks, vlmeta(rng),
                     nbytes=some * claimed, chunksize=claimed, typesize=itemsize, blocksize=min(block * itemsize,
                                                                                                1 << 29),
                     index=None if chunks and rng.random() < 0.5 else index)  # fmt: skip
    chunks = [
        rng.choice([0x81, 0x82, 0x84]) if rng.random() < 0.15 else chunk(rng, claimed, itemsize, block * itemsize)
        for _ in range(count)
    ]
    return frame([(b"b2nd", b2nd(shape, axes, blocks, text.encode()))], chunks, vlmeta(rng), nbytes=count * claimed,
                 chunksize=claimed, typesize=itemsize, blocksize=block * itemsize)  # fmt: skip


def schunk_frame(rng: random.Random) -> bytes:
    """A super-chunk, of equal or variable chunks, of objects or of none."""
    kind = rng.choice(["plain", "plain", "variable", "objects", "batches", "many"])
    typesize = rng.choice([1, 4, 8, 7, 300])
    size = rng.choice([8, 64, 200, 1024]) * (typesize if kind == "plain" else 1)
    count = rng.choice([0, 1, 2, 5])
    meta: list[tuple[bytes, bytes]] = []
    if kind == "objects":
        meta = [(b"vlarray", bytes(msgpack.packb({"version": 1, "serializer": "msgpack"})))]
        chunks: list[bytes | int] = [stored_value(rng, packed(rng)) for _ in range(count)]
        sizes = [int.from_bytes(c[4:8], "little") for c in chunks if isinstance(c, bytes)]
        same = len(set(sizes)) == 1
        return frame(meta, chunks, vlmeta(rng), nbytes=sum(sizes), chunksize=sizes[0] if same else 0, typesize=1,
                     flags=0x12 if same else 0x53)  # fmt: skip
    if kind == "many":  # few bytes, many chunks
        count = rng.choice([1000, 1 << 15, 1 << 20, 268435455])
        value = rng.choice([0x81, 0x84, 0x82, 0x80]) << 56
        index = header(5, 0x05, 8, min(8 * count, (1 << 31) - 8), min(8 * count, 1 << 29), 40, 0x30) + value.to_bytes(
            8, "little"
        )
        return frame(
            meta, [], vlmeta(rng), nbytes=count * size, chunksize=size, typesize=rng.choice([1, 4, 8]), index=index
        )
    if kind == "batches":
        meta = [(b"batcharray", bytes(msgpack.packb({"version": 1, "serializer": "msgpack",
                                                     "items_per_block": rng.choice([1, 2, 0, None]),
                                                     "arrow_schema": None})))]  # fmt: skip
    if kind == "variable":
        chunks = [chunk(rng, rng.choice([1, 8, 40, 500]), typesize) for _ in range(count)]
        total = sum(int.from_bytes(c[4:8], "little") for c in chunks if isinstance(c, bytes))
        return frame(meta, chunks, vlmeta(rng), nbytes=total, chunksize=0, typesize=typesize, flags=0x53)
    chunks = [rng.choice([0x81, 0x84]) if rng.random() < 0.2 else chunk(rng, size, typesize) for _ in range(count)]
    return frame(meta, chunks, vlmeta(rng), nbytes=count * size, chunksize=size, typesize=typesize)


# ------------------------------------------------------------------ archives
_NAMES = [b"a.b2nd", b"b.b2f", b"g/c.b2nd", b"g/h/d.b2nd", b"g.b2nd", b"__vlmeta__.b2f", b"g/__vlmeta__.b2f",
          b"g/_meta.b2f",
          b"_meta.b2f", b"embed.b2e", b"x.b2b", b"r\x82sum\x82.b2nd", b"\xff\xfe.b2nd", "ü.b2nd".encode(),
          "日本/x.b2nd".encode(),
          b"A.b2nd", b"con.b2nd", b"a", b"a.b2nd/b.b2nd", b"dir/", b".b2/x", b".b2/catalog", b"a.b2nd", b"..b2nd",
          b"g/.b2nd",
          b"...", b"../up.b2nd", b"/abs.b2nd", b"a//b.b2nd", b"a\0b.b2nd", b"a\nb.b2nd", b"C:\\x.b2nd", b"b.b2nd",
          b"a.b2f"]  # fmt: skip


def archive(rng: random.Random, frames: list[bytes]) -> bytes:
    """An archive of stored members with names of every kind, some records a little wrong."""
    members = []
    for _ in range(rng.choice([0, 1, 2, 5, 12, 40])):
        name = rng.choice(_NAMES)
        if rng.random() < 0.3:
            name = (
                b"/".join(bytes([97 + rng.randrange(4)]) * rng.choice([1, 1, 2, 9]) for _ in range(rng.randrange(1, 5)))
                + b".b2nd"
            )
        if rng.random() < 0.03:
            name = rng.choice([b"a/", b"\x82", b"ab"]) * rng.choice([100, 3000, 16000, 32000]) + b".b2nd"
        members.append((name[:65535], rng.choice(frames)))
    if rng.random() < 0.8:
        store = frames[-1] if rng.random() < 0.9 else rng.choice(frames)
        members.insert(rng.randrange(len(members) + 1), (b"embed.b2e", store))
    out, records = bytearray(), []
    for name, data in members:
        flags = rng.choice([0x800, 0x800, 0, 0, 8, 0x808, 1]) if not name.isascii() or rng.random() < 0.1 else 0
        extra = rng.choice(
            [b"", b"", b"", b"\x35\xd9\4\0\0\0\0\0", b"\1\0\x10\0" + bytes(16), rng.randbytes(5), bytes(200)]
        )
        crc, size, at = zlib.crc32(data), len(data), len(out)
        out += (
            struct.pack("<4s5H3I2H", b"PK\3\4", 20, flags, 0, 0, 33, crc, size, size, len(name), len(extra))
            + name
            + extra
            + data
        )
        wide = rng.random() < 0.1
        own = b"\1\0\x18\0" + struct.pack("<3Q", size, size, at) if wide else b""
        if wide and rng.random() < 0.3:
            own = own[: rng.choice([3, 4, 10, 20, 27])]
        comment = rng.choice([b"", b"", b"", b"note", bytes(70)])
        if wide:
            size = at = 0xFFFFFFFF
        records.append(struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, flags, 0, 0, 33, crc, size, size, len(name),
                                   len(own),
                                   len(comment), 0, 0, 0, at) + name + own + comment)  # fmt: skip
    if records and rng.random() < 0.1:
        records.append(rng.choice(records))  # two records of one member
    if rng.random() < 0.1:
        rng.shuffle(records)
    offset, directory = len(out), b"".join(records)
    out += directory
    count = len(records)
    if rng.random() < 0.15:
        end64 = len(out)
        out += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), offset)
        out += struct.pack("<4sIQI", b"PK\6\7", 0, end64, 1)
        if rng.random() < 0.5:
            count = 0xFFFF
    comment = rng.choice([b"", b"", b"", b"a comment", bytes(400), b"PK\5\6" + bytes(18)])
    return bytes(
        out + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), offset, len(comment)) + comment
    )


def embedded(rng: random.Random, frames: list[bytes]) -> bytes:
    """The frame of a store of embedded values, whose map is a little wrong now and then."""
    body, entries = b"", {}
    for _ in range(rng.randrange(5)):
        value = rng.choice(frames)
        key: Any = rng.choice(
            ["/a", "/g/b", "/a/b", "/ü", "a", "", "/", "//", "/__vlmeta__", "/x" * 40, 3, "/a\n", "/../x"]
        )
        entry: Any = {"offset": len(body), "length": len(value)}
        if rng.random() < 0.15:
            entry[rng.choice(["offset", "length"])] = rng.choice([*EDGES, -1, 1.5, "1", None, True])
        if rng.random() < 0.05:
            entry = rng.choice([{"urlbase": "http://x", "path": "y"}, [], None, 1, {}])
        entries[key] = entry
        body += value
    size = rng.choice([8192, 64, 1000])
    count = -(-len(body) // size)
    body = body.ljust(count * size, b"\0")
    chunks: list[bytes | int] = [
        header(5, 0x17, 1, size, size, size + 32) + body[i * size : (i + 1) * size] for i in range(count)
    ]
    tag = rng.choice([b"b2embed", b"b2dict", b"b2tree", b"b2embed"])
    table: Any = {"embed_map": entries, "current_offset": len(body)}
    if rng.random() < 0.1:
        table = rng.choice([{}, [], {"embed_map": []}, {"embed_map": {}, "current_offset": -1}, {"embed_map": entries}])
    more = [(b"_object_registry", {"/a": {"kind": "ctable", "version": 1, "layout": 1}})] if rng.random() < 0.2 else []
    values = [(n, stored_value(rng, bytes(msgpack.packb(v)))) for n, v in [(b"estore_metadata", table), *more]]
    return frame(
        [(tag, bytes(msgpack.packb({"version": 1})))], chunks, values, nbytes=len(body), chunksize=size, typesize=1
    )


def some_array(rng: random.Random) -> np.ndarray[Any, Any]:
    """A small array of any dtype."""
    dtype = rng.choice(["<i4", "<f8", "|u1", "|S3", ">i2", "<c16", "<U2", "M8[s]", "bool", [("a", "i4"), ("b", "f8")]])
    shape = rng.choice([(), (0,), (1,), (7,), (3, 4), (2, 3, 5), (40, 30)])
    count = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    if dtype == "bool":
        return np.frombuffer(bytes(b & 1 for b in rng.randbytes(count)), "?").reshape(shape)
    if dtype == "<U2":
        return np.full(shape, "aü")
    return np.frombuffer(rng.randbytes(count), dtype).reshape(shape)
