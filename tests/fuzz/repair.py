"""Checksums made anew over damaged bytes, so that what is behind the checksums is reached."""

from __future__ import annotations

import zlib
from typing import Any

from blosc2._core.io.checksum import crc32c

from .layout import CATALOG_MAGIC, FRAME_MAGIC, PAGE, SUMS_MAGIC, offsets_of, u

_END = b"PK\5\6"


def repair(data: bytearray) -> None:
    """All checksums that there are, inside out: of frames, of members, of catalogs, the file checksum."""
    for at in offsets_of(data, FRAME_MAGIC, 64):
        repair_checksums(data, at)
    if _END in data:
        repair_members(data)
        repair_catalogs(data)
        repair_file_checksum(data)


def _put(data: bytearray, at: int, value: int) -> None:
    if 0 <= at <= len(data) - 4:
        data[at : at + 4] = value.to_bytes(4, "little")


def _crc(data: bytearray, start: int, stop: int) -> int:
    return int(crc32c(memoryview(data)[start:stop])) if 0 <= start <= stop <= len(data) else 0


def repair_checksums(data: bytearray, at: int) -> None:
    """The checksums of the frame that begins at an offset, where it has any and an index to go by."""
    end = at + u(data, at + 16, 8, "big")
    header_len, cbytes = u(data, at + 11, 4, "big"), u(data, at + 39, 8, "big")
    if not at + 200 < end <= len(data) or data[end - 51 : end - 43] != SUMS_MAGIC:
        return
    trailer = end - u(data, end - 22, 4, "big")
    index = at + header_len + cbytes
    if not at + 87 <= at + header_len <= index <= trailer < end or u(data, at + 30, 8, "big") == 0:
        index = 0
    size = 0
    if index:
        size = u(data, index + 12, 4)
        if u(data, index + 2, 1) & 2 and not u(data, index + 31, 1) & 0x70:  # a raw index: its entries can be read
            entries = [u(data, index + 32 + 8 * i, 8) for i in range(min(u(data, index + 4, 4) // 8, 1 << 14))]
            stored = [at + header_len + e for e in entries if e < 1 << 63]
            table = end - 51 - 4 * len(stored)
            if table > trailer:
                for i, chunk in enumerate(stored):
                    _put(data, table + 4 * i, _crc(data, chunk, chunk + u(data, chunk + 12, 4)))
    _put(data, end - 39, _crc(data, at + header_len, trailer))
    _put(data, end - 35, _crc(data, index, index + size) if index else 0)
    _put(data, end - 31, _crc(data, at, at + header_len))
    _put(data, end - 27, 0)
    _put(data, end - 27, _crc(data, trailer, end))


def directory(data: bytes | bytearray) -> tuple[int, int, int]:
    """Offset, size and number of members as the last end record states them, with zip64."""
    end = data.rfind(_END)
    size, offset, count = u(data, end + 12, 4), u(data, end + 16, 4), u(data, end + 10, 2)
    if end >= 20 and data[end - 20 : end - 16] == b"PK\6\7":
        end64 = u(data, end - 12, 8)
        count, size, offset = u(data, end64 + 32, 8), u(data, end64 + 40, 8), u(data, end64 + 48, 8)
    return offset, size, count


def repair_members(data: bytearray) -> None:
    """The CRC-32 of members, in their central records."""
    offset, size, count = directory(data)
    at = offset
    for _ in range(min(count, 2000)):
        if data[at : at + 4] != b"PK\1\2" or at >= offset + size:
            return
        header, length = u(data, at + 42, 4), u(data, at + 24, 4)
        start = header + 30 + u(data, header + 26, 2) + u(data, header + 28, 2)
        if start + length <= offset:
            _put(data, at + 16, zlib.crc32(memoryview(data)[start : start + length]))
        at += 46 + u(data, at + 28, 2) + u(data, at + 30, 2) + u(data, at + 32, 2)


def repair_catalogs(data: bytearray) -> None:
    """The checksums of pages, of these checksums, of the sample of the directory, and of the footer."""
    for footer in offsets_of(data, CATALOG_MAGIC, 4):
        start = footer + 256 - u(data, footer + 40, 8)
        sums = u(data, footer + 192, 8)
        if start < 0 or start + sums > footer:
            continue
        pages = -(-sums // PAGE)
        for page in range(pages):
            _put(data, start + sums + 4 * page, _crc(data, start + page * PAGE, start + min(sums, (page + 1) * PAGE)))
        _put(data, footer + 244, _crc(data, start + sums, start + sums + 4 * pages))
        at, leaves, own = footer + 256, u(data, footer + 200, 8), u(data, footer + 208, 8)
        sample = min(max(own - leaves, 0), PAGE)
        if at + own <= len(data):
            first, last = data[at + leaves : at + leaves + sample], data[at + own - sample : at + own]
            _put(data, footer + 240, int(crc32c(bytes(first + last))))
        _put(data, footer + 248, _crc(data, footer, footer + 248))


def repair_file_checksum(data: bytearray) -> None:
    """The comment of the end record that states the checksum of the whole file."""
    end = data.rfind(_END)
    if data[end + 22 : end + 29] != b"blosc2 " or end + 54 > len(data):
        return
    data[end + 29 : end + 46] = f"{end:016x} ".encode()
    data[end + 46 : end + 54] = f"{_crc(data, 0, end + 46):08x}".encode()


def repair_directory(data: bytearray) -> None:
    """Offset, size and number of members in the end record, by the central records right before it."""
    end = data.rfind(_END)
    if end < 0:
        return
    stop = end
    if end >= 20 and data[end - 20 : end - 16] == b"PK\6\7":
        end64 = data.rfind(b"PK\6\6", 0, end)
        if end64 >= 0:
            data[end - 12 : end - 4] = end64.to_bytes(8, "little")
            stop = end64
    chain: dict[int, Any] = {}
    for at in offsets_of(data, b"PK\1\2"):
        chain[at] = at + 46 + u(data, at + 28, 2) + u(data, at + 30, 2) + u(data, at + 32, 2)
    # the longest run of records that ends where the end record begins
    start, count = stop, 0
    ends = {after: at for at, after in chain.items()}
    while start in ends and count < 1 << 16:
        start, count = ends[start], count + 1
    if stop != end:
        for where, value in ((24, count), (32, count), (40, stop - start), (48, start)):
            data[stop + where : stop + where + 8] = value.to_bytes(8, "little")
    else:
        data[end + 8 : end + 12] = min(count, 0xFFFF).to_bytes(2, "little") * 2
        _put(data, end + 12, stop - start)
        _put(data, end + 16, start)
