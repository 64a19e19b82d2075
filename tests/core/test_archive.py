"""ZIP archives of stored members: read as `zipfile` reads them, refused where they must be, appended to."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2.exceptions import FormatError


@pytest.fixture(params=[Source.map, Source.open], ids=["mmap", "pread"])
def opened(request: pytest.FixtureRequest) -> Callable[[Any], Archive]:
    return lambda path: Archive(request.param(str(path)))


def zipped(members: dict[str, bytes], **options: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def archive_of(data: bytes) -> Archive:
    return Archive(Source.of_buffer(data))


def contents(archive: Archive) -> dict[str, bytes]:
    return {
        archive.name(n): archive.source.read(*archive.byte_range(n))
        for n in range(archive.count)
        if not archive.is_folder(n)
    }


@pytest.mark.parametrize("name", ["", "/a", "a//b", ".", "..", "a/../b", "a/./b", "a/..", "a\0b", "//", "a//"])
def test_unsafe_names(name: str) -> None:
    stand_in = "x" * len(name.encode())
    data = zipped({"fine": b"1", stand_in: b"2"}).replace(stand_in.encode(), name.encode()) if name else None
    if data is None:
        sound = bytearray(zipped({"f": b"1"}))
        at = sound.index(b"PK\1\2")
        struct.pack_into("<H", sound, at + 28, 0)  # a name of no bytes, and one byte of comment instead
        struct.pack_into("<H", sound, at + 32, 1)
        data = bytes(sound)
    with pytest.raises(FormatError, match="member name"):
        archive_of(data)


def test_names_without_the_utf8_flag_are_cp437() -> None:
    data = bytearray(zipped({"ab": b"x"}))
    data = bytearray(bytes(data).replace(b"ab", b"\x81\x9b"))
    archive = archive_of(bytes(data))
    assert archive.names() == ["ü¢"]
    assert contents(archive) == {"ü¢": b"x"}
    assert archive.find("ü¢".encode()) == 0


def test_other_files_are_refused_soon(tmp_path: Path, opened: Callable[[Any], Archive]) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # reading all of it would take minutes
    with pytest.raises(FormatError, match=r"no valid end.*blosc2.check .*blosc2.salvage"):
        opened(path)


def test_many_false_ends_do_not_hang() -> None:
    # Each end record claims the whole run before it as its directory.
    record = b"PK\1\2" + bytes(24) + struct.pack("<HHH", 1, 0, 22) + bytes(12) + b"n"
    data = b""
    for n in range(3000):
        data += record + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, n, n, len(data) + len(record), 0, 0)
    with pytest.raises(FormatError):
        archive_of(data)


def test_zip64_by_offset_and_size(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with path.open("xb") as file:
        file.truncate(5 << 30)  # a hole, so this takes no room
        writer = ArchiveWriter(file.fileno(), 5 << 30)
        writer.append(b"far", b"away")
        writer.write_directory()
        writer.write_end()
    assert contents(Archive(Source.open(str(path)))) == {"far": b"away"}
    with zipfile.ZipFile(path) as z:
        assert z.read("far") == b"away"


# ------------------------------------------------------------------------------------------------ file checksums


def test_pieces_beyond_32_bits(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    piece = bytes(1 << 20)
    with path.open("xb") as file:
        file.truncate(1 << 32)  # a hole, so this takes no room
        writer = ArchiveWriter(file.fileno(), 1 << 32)
        start = writer.append_pieces(b"a", (piece for _ in range(8)), 8 << 20, zlib.crc32(bytes(8 << 20)))
        writer.write_directory()
        writer.write_end()
    assert start % 64 == 0
    assert Archive(Source.open(str(path))).byte_range(0) == (start, 8 << 20)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
