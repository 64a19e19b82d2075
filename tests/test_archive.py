"""ZIP archives of stored members: read as `zipfile` reads them, refused where they must be, appended to."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_kit import manifest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._core.archive import Archive, ArchiveWriter
from blosc2._core.source import Source
from blosc2.exceptions import FormatError

ZIPS = [e for e in manifest.FILES if e["path"].endswith(".b2z")]
HOSTILE = [e for e in manifest.HOSTILE if e["path"].endswith(".b2z")]
# What only the frames inside show.
SOUND_ARCHIVES = {"zip_size_into_next.b2z", "zip_size_short.b2z", "zip_embed_truncated.b2z", "zip_leaf_truncated.b2z",
                  "zip_no_members.b2z", "zip_no_embed.b2z"}  # fmt: skip


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
        archive.name(n): archive.source.read(*archive.window(n))
        for n in range(archive.count)
        if not archive.is_folder(n)
    }


@pytest.mark.parametrize("entry", ZIPS, ids=[e["path"] for e in ZIPS])
def test_members_are_those_of_zipfile(entry: dict[str, Any], opened: Callable[[Any], Archive]) -> None:
    path = manifest.path_of(entry)
    archive = opened(path)
    try:
        with zipfile.ZipFile(path) as z:
            expected = {i.filename: z.read(i) for i in z.infolist() if not i.is_dir()}
            crcs = {i.filename: i.CRC for i in z.infolist()}
    except zipfile.BadZipFile:
        assert "tail" in path.name  # found by scanning further back than zipfile does
        return
    if "tail" not in path.name:
        assert contents(archive) == expected
        assert {archive.name(n): archive.crc(n) for n in range(archive.count)} == crcs


@pytest.mark.parametrize("entry", HOSTILE, ids=[e["path"] for e in HOSTILE])
def test_hostile_archives(entry: dict[str, Any], opened: Callable[[Any], Archive]) -> None:
    path = manifest.path_of(entry)
    if path.name in SOUND_ARCHIVES:
        opened(path)
        return
    with pytest.raises(FormatError, match=path.name) as raised:
        contents(opened(path))
    assert raised.value.offset is not None


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


@pytest.mark.parametrize("name", ["a", "a/b", "...", "a/...b", ".a", "a.", " ", "a\\b", "C:x", "ünï/日本", "a/"])
def test_safe_names(name: str) -> None:
    assert archive_of(zipped({name: b""})).names() == [name]


def test_names_without_the_utf8_flag_are_cp437() -> None:
    data = bytearray(zipped({"ab": b"x"}))
    data = bytearray(bytes(data).replace(b"ab", b"\x81\x9b"))
    archive = archive_of(bytes(data))
    assert archive.names() == ["ü¢"]
    assert contents(archive) == {"ü¢": b"x"}
    assert archive.find("ü¢".encode()) == 0


def test_of_equal_names_find_gives_the_last() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a", b"old")
        with pytest.warns(UserWarning, match="Duplicate"):
            z.writestr("a", b"new")
    archive = archive_of(out.getvalue())
    assert archive.source.read(*archive.window(archive.find(b"a"))) == b"new"
    assert archive.find(b"b") == -1


@pytest.mark.parametrize("tail", [b"", b"P", b"PK\5\6", b"PK\5\6" + bytes(18), b"PK\5\6" * 5000, bytes(200_000)])
def test_the_last_valid_end_counts(tail: bytes, tmp_path: Path, opened: Callable[[Any], Archive]) -> None:
    members = {"a": b"1" * 10, "inner": zipped({"x": b"y"}) + bytes(100)}
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(members) + tail)
    archive = opened(path)
    assert contents(archive) == members
    assert archive.end == path.stat().st_size - len(tail)


def test_a_comment_belongs_to_the_archive() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a", b"1")
        z.comment = b"x" * 65535
    assert contents(archive_of(out.getvalue())) == {"a": b"1"}
    assert archive_of(out.getvalue()).end == len(out.getvalue())


def test_other_files_are_refused_soon(tmp_path: Path, opened: Callable[[Any], Archive]) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # reading all of it would take minutes
    with pytest.raises(FormatError, match="no valid end"):
        opened(path)


def test_many_false_ends_do_not_hang() -> None:
    # Each end record claims the whole run before it as its directory.
    record = b"PK\1\2" + bytes(24) + struct.pack("<HHH", 1, 0, 22) + bytes(12) + b"n"
    data = b""
    for n in range(3000):
        data += record + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, n, n, len(data) + len(record), 0, 0)
    with pytest.raises(FormatError):
        archive_of(data)


# ------------------------------------------------------------------------------------------------ writing
def written(path: Path, members: dict[str, bytes], **how: Any) -> Archive:
    with path.open("r+b" if path.exists() else "xb") as file:
        writer = ArchiveWriter(file.fileno(), **how)
        for name, data in members.items():
            start = writer.append(name.encode(), data)
            assert start % 64 == 0
        writer.write_directory()
        writer.write_end()
    return Archive(Source.open(str(path)))


def test_what_is_written_is_read_by_all(tmp_path: Path) -> None:
    members = {"a.b2nd": b"1" * 100, "ünï/日本.b2nd": b"", "deep/er/x": os.urandom(3 << 20), "y" * 200: b"z"}
    archive = written(tmp_path / "x.zip", members)
    assert contents(archive) == members
    with zipfile.ZipFile(tmp_path / "x.zip") as z:
        assert z.testzip() is None
        assert {n: z.read(n) for n in z.namelist()} == members
        assert all(i.extract_version == 20 and i.compress_type == 0 and not i.extra for i in z.infolist())
        assert [bool(i.flag_bits & 0x800) for i in z.infolist()] == [False, True, False, False]


def test_append_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    members = {"a": b"1", "b": b"2" * 1000, "c": b"3"}
    path.write_bytes(zipped(members))
    old = Archive(Source.map(str(path)))
    with path.open("r+b") as file:
        writer = ArchiveWriter(file.fileno(), old.end)
        writer.append(b"d", b"4")
        writer.append(b"gone", b"5")
        assert writer.drop(b"gone")
        assert not writer.drop(b"gone")
        writer.append(b"b", b"first")
        writer.append(b"b", b"new")
        writer.drain()
        file.flush()
        assert contents(Archive(Source.open(str(path)))) == members  # not published yet
        writer.write_directory(*old.records({1}))
        assert contents(Archive(Source.open(str(path)))) == members
        writer.write_end()
    assert contents(old) == members
    new = {"a": b"1", "b": b"new", "c": b"3", "d": b"4"}
    assert contents(Archive(Source.open(str(path)))) == new
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert {n: z.read(n) for n in z.namelist()} == new


def test_zip64_by_count(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with path.open("xb") as file:
        writer = ArchiveWriter(file.fileno())
        for n in range(70_000):
            writer.append(b"%d" % n, b"")
        writer.write_directory()
        writer.write_end()
    archive = Archive(Source.map(str(path)))
    assert archive.count == 70_000
    assert archive.window(69_999)[1] == 0
    with zipfile.ZipFile(path) as z:
        assert len(z.namelist()) == 70_000


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


def test_misuse() -> None:
    with pytest.raises(ValueError, match="align"):
        ArchiveWriter(0, align=3)
    writer = ArchiveWriter(-1)
    with pytest.raises(ValueError, match="directory comes first"):
        writer.write_end()
    with pytest.raises(ValueError, match="member name"):
        writer.append(b"", b"")
    archive = archive_of(zipped({"a": b""}))
    for call in (archive.window, archive.name, archive.crc, archive.is_folder):
        with pytest.raises(IndexError):
            call(1)
        with pytest.raises(IndexError):
            call(-1)


def test_a_folder_has_no_data() -> None:
    archive = archive_of(zipped({"a/": b"", "a/b": b"1"}))
    assert [archive.is_folder(n) for n in range(2)] == [True, False]
    with pytest.raises(FormatError, match="folder"):
        archive.window(0)


@given(st.dictionaries(st.text("abé/.", min_size=1, max_size=8), st.binary(max_size=50), max_size=8), st.data())
def test_damage_is_an_error_or_harmless(members: dict[str, bytes], data: st.DataObject) -> None:
    whole = bytearray(zipped(members))
    for _ in range(3):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    try:
        for offset in contents(archive_of(bytes(whole[:cut]))).values():
            assert isinstance(offset, bytes)
    except FormatError:
        pass
