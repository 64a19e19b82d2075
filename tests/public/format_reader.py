"""A reader of the formats, written from `doc/format` alone: slow, and without any part of the package.

It shows that those pages are enough to write a reader from. Only the streams of zstd are decoded by the caller.
"""

from __future__ import annotations

import ast
import itertools
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

MAGIC = bytes([0x9E, 0xA8]) + b"b2frame\0"


class Unreadable(Exception):
    """The pages tell a reader to refuse this, or do not describe it."""


Zstd = Callable[[bytes, int, bytes], bytes]  # of a stream, its size and a dictionary


def number(data: bytes, at: int, code: str) -> int:
    value: int = struct.unpack_from(code, data, at)[0]
    return value


# ------------------------------------------------------------------ streams
def blosclz(data: bytes, size: int) -> bytes:
    out, at, control = bytearray(), 1, data[0] & 31
    while True:
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
        else:
            length, distance = (control >> 5) - 1, (control & 31) << 8
            if length == 6:
                while True:
                    at += 1
                    length += data[at - 1]
                    if data[at - 1] != 255:
                        break
            low = data[at]
            at += 1
            if low == 255 and distance == 31 << 8:
                distance = number(data, at, ">H") + 8192
                at += 2
            else:
                distance += low + 1
            repeat(out, distance, length + 3)
        if at >= len(data):
            break
        control = data[at]
        at += 1
    if len(out) != size:
        raise Unreadable("a BloscLZ stream of another size")
    return bytes(out)


def lz4(data: bytes, size: int, dictionary: bytes = b"") -> bytes:
    out, at = bytearray(dictionary), 0
    while at < len(data):
        token = data[at]
        at += 1
        length, at = more(data, at, token >> 4)
        out += data[at : at + length]
        at += length
        if at >= len(data):
            break
        distance = number(data, at, "<H")
        length, at = more(data, at + 2, token & 15)
        repeat(out, distance, length + 4)
    if len(out) != size + len(dictionary):
        raise Unreadable("an LZ4 stream of another size")
    return bytes(out[len(dictionary) :])


def more(data: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            length += data[at]
            at += 1
            if data[at - 1] != 255:
                break
    return length, at


def repeat(out: bytearray, distance: int, length: int) -> None:
    if not 0 < distance <= len(out):
        raise Unreadable("a match before the first byte")
    for _ in range(length):
        out.append(out[-distance])


# ------------------------------------------------------------------ filters
def undo_filter(filter_id: int, meta: int, block: bytes, typesize: int, first: bytes | None) -> bytes:
    if filter_id in (0, 4, 36):  # none; trunc_prec and int_trunc have nothing to undo
        return block
    if filter_id == 1:
        return unshuffle(block, meta or typesize)
    if filter_id == 2:
        return unbitshuffle(block, typesize)
    if filter_id == 3:
        return undelta(block, typesize, first)
    if filter_id == 35 and meta:
        streams = np.frombuffer(block[: len(block) // meta * meta], "u1").reshape(meta, -1)
        return np.cumsum(streams, axis=1, dtype="u1").tobytes() + block[streams.size :]
    raise Unreadable(f"filter {filter_id}")


def unshuffle(block: bytes, size: int) -> bytes:
    whole = len(block) // size * size
    return np.frombuffer(block[:whole], "u1").reshape(size, -1).T.tobytes() + block[whole:]


def unbitshuffle(block: bytes, size: int) -> bytes:
    items = len(block) // size // 8 * 8
    bits = np.unpackbits(
        np.frombuffer(block[: items * size], "u1").reshape(size * 8, items // 8), axis=1, bitorder="little"
    )
    return np.packbits(bits.T, axis=1, bitorder="little").tobytes() + block[items * size :]


def undelta(block: bytes, typesize: int, first: bytes | None) -> bytes:
    step = typesize if typesize in (1, 2, 4, 8) else 8 if typesize % 8 == 0 else 1
    out = np.frombuffer(block, "u1").copy()
    if first is not None:
        return (out ^ np.frombuffer(first, "u1")[: len(out)]).tobytes()
    for lane in range(step):
        out[lane::step] = np.bitwise_xor.accumulate(out[lane::step])
    return out.tobytes()


# ------------------------------------------------------------------ chunks
def read_chunk(chunk: bytes, zstd: Zstd) -> list[bytes]:
    """The blocks of a chunk."""
    version, flags, typesize, flags2, flags3 = chunk[0], chunk[2], chunk[3], chunk[30], chunk[31]
    nbytes, blocksize, cbytes = struct.unpack_from("<3i", chunk, 4)
    if flags & 5 != 5 or version > 6 or not 32 <= cbytes <= len(chunk) or nbytes < 0 or flags3 & 0x88:
        raise Unreadable("not a chunk that a reader takes")
    special = flags3 >> 4 & 7
    if special == 3:
        value = chunk[32:cbytes]
        return [value * (nbytes // len(value))]
    if special:
        return [special_value(special, nbytes, typesize)]
    if flags & 2:
        return [chunk[32 : 32 + nbytes]]
    variable = bool(flags2 & 1)
    blocks = blocksize if variable else -(-nbytes // blocksize)
    starts = struct.unpack_from(f"<{blocks}i", chunk, 32)
    dictionary = b""
    if flags3 & 1:
        at = 32 + 4 * blocks
        dictionary = chunk[at + 4 : at + 4 + number(chunk, at, "<i")]
    found: list[bytes] = []
    ends = [*sorted(starts), cbytes]
    for place, start in enumerate(starts):
        if variable:
            size, streams = number(chunk, start, "<i"), 1
        else:
            size = min(blocksize, nbytes - place * blocksize)
            streams = typesize if not flags & 0x10 and size == blocksize else 1
        end = min(end for end in ends if end > start)
        joined = read_streams(chunk, start, end, size, streams, variable, dictionary, zstd)
        ids, metas = chunk[16:22], chunk[24:30]
        for filter_id, meta in reversed(list(zip(ids, metas, strict=True))):
            joined = undo_filter(filter_id, meta, joined, typesize, found[0] if found else None)
        found.append(joined)
    return found


def read_streams(
    chunk: bytes, at: int, end: int, size: int, streams: int, variable: bool, dictionary: bytes, zstd: Zstd
) -> bytes:
    out, wanted = b"", size // streams
    for _ in range(streams):
        csize = number(chunk, at, "<i")
        at += 4
        if variable:
            csize = end - at
        if csize == 0:
            out += bytes(wanted)
        elif csize < 0:
            if not chunk[at] & 1:
                raise Unreadable("a token that is not known")
            out += bytes([-csize & 255]) * wanted
            at += 1
        else:
            data = chunk[at : at + csize]
            out += data if csize == wanted else decode(chunk, data, wanted, dictionary, zstd)
            at += csize
    return out


def decode(chunk: bytes, data: bytes, size: int, dictionary: bytes, zstd: Zstd) -> bytes:
    codec = chunk[2] >> 5
    if codec == 0 and not dictionary:
        return blosclz(data, size)
    if codec == 1:
        return lz4(data, size, dictionary)
    if codec == 3 and not dictionary:
        return zlib.decompress(data)
    if codec == 4:
        return zstd(data, size, dictionary)
    raise Unreadable(f"codec {codec}, or a dictionary of it")


def special_value(special: int, nbytes: int, typesize: int) -> bytes:
    if special in (1, 4):
        return bytes(nbytes)
    if special == 2 and typesize in (4, 8):
        return np.full(nbytes // typesize, np.nan, f"<f{typesize}").tobytes()
    raise Unreadable(f"special value {special}")


# ------------------------------------------------------------------ frames
@dataclass
class Frame:
    """The chunks and the metadata of a frame."""

    meta: dict[str, bytes]
    vlmeta: dict[str, Any]
    chunks: list[list[bytes]]
    typesize: int

    @property
    def items(self) -> bytes:
        return b"".join(itertools.chain.from_iterable(self.chunks))


def read_table(data: bytes, at: int, base: int) -> dict[str, bytes]:
    """A table of names and contents; offsets count from `base`."""
    names, found = number(data, at + 5, ">H"), {}
    at += 7
    for _ in range(names):
        length = data[at] & 31
        name = data[at + 1 : at + 1 + length].decode()
        content = base + number(data, at + 2 + length, ">i")
        size = number(data, content + 1, ">I")
        found[name] = data[content + 5 : content + 5 + size]
        at += 6 + length
    return found


def read_frame(data: bytes, zstd: Zstd) -> Frame:
    """A frame at the first byte of `data`."""
    if data[:10] != MAGIC or data[26] & 15 or not 2 <= data[25] & 15 <= 3:
        raise Unreadable("not a frame")
    header_len, frame_len = number(data, 11, ">i"), number(data, 16, ">Q")
    nbytes, cbytes = number(data, 30, ">q"), number(data, 39, ">q")
    typesize, chunksize = number(data, 48, ">i"), number(data, 58, ">i")
    if frame_len > len(data):
        raise Unreadable("a frame that is cut off")
    data = data[:frame_len]
    meta = read_table(data, 87, 0)
    trailer = header_len if nbytes == 0 else frame_len - number(data, frame_len - 22, ">I")
    packed = read_table(data, trailer + 2, trailer)
    vlmeta = {name: unpack(b"".join(read_chunk(content, zstd))) for name, content in packed.items()}
    chunks: list[list[bytes]] = []
    if nbytes:
        index = b"".join(read_chunk(data[header_len + cbytes :], zstd))
        left = nbytes
        for (entry,) in struct.iter_unpack("<q", index):
            if entry >= 0:
                chunk = read_chunk(data[header_len + entry :], zstd)
            else:
                chunk = [special_value(entry >> 56 & 7, min(chunksize, left), typesize)]
            chunks.append(chunk)
            left -= sum(map(len, chunk))
    return Frame(meta, vlmeta, chunks, typesize)


def unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False, ext_hook=msgpack.ExtType)


# ------------------------------------------------------------------ arrays
def read_array(frame: Frame) -> np.ndarray[Any, Any]:
    meta = frame.meta["b2nd"]
    ndim, at = meta[2], 3
    shapes = []
    for code, size in ((">q", 9), (">i", 5), (">i", 5)):
        shapes.append([number(meta, at + 2 + size * axis, code) for axis in range(ndim)])
        at += 1 + size * ndim
    shape, chunks, blocks = shapes
    dtype = read_dtype(meta[at + 6 :].decode(), frame.typesize) if len(meta) > at else np.dtype(f"S{frame.typesize}")
    array = np.zeros(shape, dtype)
    if not array.size:
        return array
    grid = [range(0, length, step) for length, step in zip(shape, chunks, strict=True)]
    inner = [range(0, length, step) for length, step in zip(chunks, blocks, strict=True)]
    block_items = math.prod(blocks)
    for corner, stored in zip(itertools.product(*grid), frame.chunks, strict=False):
        items = np.frombuffer(b"".join(stored), dtype)
        for number_, within in enumerate(itertools.product(*inner)):
            block = items[number_ * block_items : (number_ + 1) * block_items].reshape(blocks)
            # What reaches beyond the chunk or the array is padding.
            start = [a + b for a, b in zip(corner, within, strict=True)]
            size = [
                min(b, c - w, s - a)
                for a, b, c, w, s in zip(start, blocks, chunks, within, shape, strict=True)
            ]  # fmt: skip
            if min(size, default=1) > 0:
                place = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
                array[place] = block[tuple(slice(n) for n in size)]
    return array


def read_dtype(text: str, typesize: int) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(ast.literal_eval(text) if text[0] in "[{" else text)
    if dtype.hasobject or (dtype.itemsize != typesize and not (typesize == 1 and dtype.itemsize > 255)):
        raise Unreadable(f"dtype {text}")
    return dtype


# ------------------------------------------------------------------ archives
def read_members(data: bytes) -> dict[str, bytes]:
    """The members of a ZIP archive of stored members."""
    at, members = find_directory(data)
    found: dict[str, bytes] = {}
    for _ in range(members):
        flags, method = struct.unpack_from("<2H", data, at + 8)
        cbytes, nbytes = struct.unpack_from("<2I", data, at + 20)
        name_len, extra_len, comment_len, disk = struct.unpack_from("<4H", data, at + 28)
        local = number(data, at + 42, "<I")
        name = data[at + 46 : at + 46 + name_len]
        extra = data[at + 46 + name_len : at + 46 + name_len + extra_len]
        if method or flags & 0x2041 or (disk not in (0, 0xFFFF)):
            raise Unreadable("a member that is compressed, encrypted or on another disk")
        nbytes, cbytes, local = wide(extra, [nbytes, cbytes, local])
        start = local + 30 + sum(struct.unpack_from("<2H", data, local + 26))
        if nbytes != cbytes or data[local : local + 4] != b"PK\3\4" or data[local + 30 : local + 30 + name_len] != name:
            raise Unreadable("a member whose two records differ")
        # Of equal names the last counts.
        found[member_name(name, extra, flags, data[at + 5])] = data[start : start + nbytes]
        at += 46 + name_len + extra_len + comment_len
    return found


def member_name(name: bytes, extra: bytes, flags: int, system: int) -> str:
    """The name that the bytes of a directory record stand for."""
    if not flags & 0x800:
        while len(extra) >= 4:
            kind, length = struct.unpack_from("<2H", extra)
            field, extra = extra[4 : 4 + length], extra[4 + length :]
            if kind == 0x7075 and field[:5] == b"\1" + zlib.crc32(name).to_bytes(4, "little"):
                name, flags = field[5:], 0x800
                break
    text = name.decode("utf-8" if flags & 0x800 or (system in (3, 19) and is_utf8(name)) else "cp437")
    return text.replace("\\", "/") if system == 0 and "/" not in text else text


def is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def wide(extra: bytes, fields: list[int]) -> list[int]:
    """The fields of a record, those of the zip64 extra in place of the ones that are all ones."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = iter(struct.unpack_from(f"<{size // 8}Q", extra, at + 4))
            return [next(values) if field == 0xFFFFFFFF else field for field in fields]
        at += 4 + size
    return fields


def find_directory(data: bytes) -> tuple[int, int]:
    """Where the directory of the last valid end record starts, and its number of members."""
    at = len(data)
    while (at := data.rfind(b"PK\5\6", 0, at + 3)) >= 0:
        if at + 22 > len(data):
            continue
        disks = data[at + 4 : at + 8]
        members, size, offset, comment = struct.unpack_from("<HIIH", data, at + 10)
        end = at
        if at >= 20 and data[at - 20 : at - 16] == b"PK\6\7":
            end = number(data, at - 12, "<Q")
            if data[end : end + 4] == b"PK\6\6":
                members, size, offset = struct.unpack_from("<3Q", data, end + 32)
        if (
            disks == bytes(4)
            and at + 22 + comment <= len(data)
            and offset + size == end
            and filled(data, offset, end, members)
        ):
            return offset, members
    raise Unreadable("no end record")


def filled(data: bytes, at: int, end: int, members: int) -> bool:
    for _ in range(members):
        if at + 46 > end or data[at : at + 4] != b"PK\1\2":
            return False
        at += 46 + sum(struct.unpack_from("<3H", data, at + 28))
    return at == end


# ------------------------------------------------------------------ stores
Leaves = dict[str, Frame]


def embedded(frame: Frame, zstd: Zstd) -> Leaves:
    """The values of a `.b2e`."""
    items, found = frame.items, {}
    for key, entry in frame.vlmeta.get("estore_metadata", {}).get("embed_map", {}).items():
        found[key] = read_frame(items[entry["offset"] : entry["offset"] + entry["length"]], zstd)
    return found


def read_store(path: Path, zstd: Zstd) -> Leaves:
    """All leaves of a store, attributes of groups among them."""
    if path.suffix == ".b2e":
        return embedded(read_frame(path.read_bytes(), zstd), zstd)
    if path.is_dir():
        files = {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    else:
        files = read_members(path.read_bytes())
    found = embedded(read_frame(files["embed.b2e"], zstd), zstd)
    for name, data in files.items():
        if name.startswith(".b2/") or name == "embed.b2e" or data[:10] != MAGIC:
            continue
        found["/" + name.rpartition(".")[0]] = read_frame(data, zstd)
    return found
