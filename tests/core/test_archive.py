"""ZIP archives of stored members: read as `zipfile` reads them, refused where they must be, appended to."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_kit import manifest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
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
        archive.name(n): archive.source.read(*archive.byte_range(n))
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
    assert archive.source.read(*archive.byte_range(archive.find(b"a"))) == b"new"
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
        writer.write_directory(*old.records({old.record_offset(1)}))
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
    assert archive.byte_range(69_999)[1] == 0
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


@pytest.fixture
def one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives that are to be equal get the same time."""
    now = time.localtime()
    monkeypatch.setattr(time, "localtime", lambda: now)


# ------------------------------------------------------------------------------------------------ file checksums
def with_file_checksum_by_hand(data: bytes) -> bytes:
    """An archive without a comment, with the file checksum as its description in words has it."""
    assert data[-2:] == b"\0\0"
    text = b"blosc2 %016x " % (len(data) - 22)
    covered = data[:-2] + struct.pack("<H", len(text) + 8) + text
    return covered + b"%08x" % crc32c(covered)


def commit(path: Path, members: dict[str, bytes], dropped: set[int] | None = None) -> Archive:
    """Append members to an archive, going on from its file checksum."""
    old = Archive(Source.open(str(path)))
    with path.open("r+b") as file:
        writer = ArchiveWriter(file.fileno(), old.end, file_checksum=old.file_checksum)
        for name, data in members.items():
            writer.append(name.encode(), data)
        writer.write_directory(*old.records({old.record_offset(number) for number in dropped or ()}))
        writer.write_end()
    return Archive(Source.open(str(path)))


def test_a_new_archive_has_a_file_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    members = {"a": b"1" * 1000, "b": os.urandom(3 << 20), "c": b""}
    archive = written(path, members, file_checksum=0)
    data = path.read_bytes()
    assert data[-32:-24] == b"blosc2 0"
    assert data == with_file_checksum_by_hand(data[:-34] + b"\0\0")
    assert archive.file_checksum == crc32c(data)
    assert archive.end == len(data)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert z.comment == data[-32:]
        assert {n: z.read(n) for n in z.namelist()} == members


def test_a_file_checksum_goes_on_over_appends_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    written(path, {"a": b"1" * 100, "b": b"2"}, file_checksum=0)
    for n in range(5):
        archive = commit(path, {f"n{n}": os.urandom(n * 1000)}, {0})
        assert archive.file_checksum == crc32c(path.read_bytes())
        assert archive.count == 2
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None


def test_without_a_file_checksum_there_is_none_later(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a": b"1"}))
    assert commit(path, {"b": b"2"}).file_checksum is None
    with zipfile.ZipFile(path) as z:
        assert z.comment == b""


def test_a_flipped_bit_anywhere_breaks_the_file_checksum_or_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    written(path, {"a": b"1" * 100, "b": b"2"}, file_checksum=0)
    commit(path, {"b": b"3" * 70})
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            archive = archive_of(bytes(damaged))
        except FormatError:
            continue
        sound = archive.end == len(damaged) and archive.file_checksum == crc32c(bytes(damaged))
        assert not sound, f"bit {bit} of {len(whole)} bytes"


@pytest.mark.parametrize(
    "change",
    [lambda s: s[:-1], lambda s: s.upper().replace(b"BLOSC2", b"blosc2"), lambda s: s[:20] + b"f" + s[21:],
     lambda s: b"x" * len(s), lambda s: b"", lambda s: s + b" ", lambda s: s[:-8] + b"0000000g",
     lambda s: s[:-8] + b"       0"],
)  # fmt: skip
def test_what_is_no_file_checksum(change: Callable[[bytes], bytes]) -> None:
    data = zipped({"a": b"1" * 9})
    good = with_file_checksum_by_hand(data)
    assert archive_of(good).file_checksum == crc32c(good)
    comment = change(good[-32:])
    if comment == good[-32:]:  # digits only
        comment = good[-32:-8] + b"ABCDEF01"
    assert archive_of(data[:-2] + struct.pack("<H", len(comment)) + comment).file_checksum is None


def test_the_writer_knows_the_sum_so_far(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"before")
    with path.open("r+b") as file:
        writer = ArchiveWriter(file.fileno(), 6, file_checksum=crc32c(b"before"))
        assert writer.file_checksum == crc32c(b"before")
        writer.append(b"a", b"1" * 100)
        now = writer.file_checksum
        assert path.stat().st_size == 6
        writer.drain()
        assert writer.file_checksum == now == crc32c(path.read_bytes())
        assert ArchiveWriter(file.fileno()).file_checksum is None


# ------------------------------------------------------------------------------------------------ pieces
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lengths", [(), (0,), (5,), (100, 200, 300), (10, 1 << 20, 7), ((3 << 20) + 1, (2 << 20))])
@pytest.mark.usefixtures("one_instant")
def test_a_member_in_pieces(known: bool, lengths: tuple[int, ...], tmp_path: Path) -> None:
    pieces = [os.urandom(n) for n in lengths]
    data = b"".join(pieces)
    crc = zlib.crc32(data) if known else None
    path, other = tmp_path / "x.zip", tmp_path / "y.zip"
    for target, streamed in ((path, True), (other, False)):
        with target.open("xb") as file:
            writer = ArchiveWriter(file.fileno(), file_checksum=0)
            writer.append(b"before", b"1" * 10)
            if streamed:
                start = writer.append_pieces(b"big", iter(pieces), len(data), crc)
            else:
                assert writer.append(b"big", data) == start
            writer.append(b"behind", b"2" * 10)
            writer.write_directory()
            writer.write_end()
    assert path.read_bytes() == other.read_bytes()
    archive = Archive(Source.open(str(path)))
    assert archive.file_checksum == crc32c(path.read_bytes())
    assert contents(archive)["big"] == data
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert z.getinfo("big").external_attr >> 16 == 0o100600
        assert z.getinfo("before").external_attr >> 16 == 0o100600


@pytest.mark.parametrize("crc", [None, 7])
@pytest.mark.parametrize("pieces", [[b"12"], [b"12", b"345678"], [b"1" * (1 << 20)], []])
def test_pieces_of_another_size_leave_a_gap(crc: int | None, pieces: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with path.open("xb") as file:
        writer = ArchiveWriter(file.fileno(), file_checksum=0)
        with pytest.raises(ValueError, match="bytes"):
            writer.append_pieces(b"a", pieces, 5, crc)
        writer.append(b"b", b"2")
        writer.write_directory()
        writer.write_end()
    archive = Archive(Source.open(str(path)))
    assert contents(archive) == {"b": b"2"}
    assert archive.file_checksum == crc32c(path.read_bytes())


def test_a_crc_that_is_given_is_kept(tmp_path: Path) -> None:
    """A damaged member stays recognisable when it is copied."""
    path = tmp_path / "x.zip"
    with path.open("xb") as file:
        writer = ArchiveWriter(file.fileno())
        writer.append_pieces(b"a", [b"damaged"], 7, zlib.crc32(b"correct"))
        writer.write_directory()
        writer.write_end()
    with zipfile.ZipFile(path) as z:
        assert z.testzip() == "a"


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


# ------------------------------------------------------------------------------------------------ failing writes
@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="what is replaced here is os.pwrite")
@pytest.mark.parametrize("limit", [1, 7, 4096])
@pytest.mark.usefixtures("one_instant")
def test_short_writes_are_gone_on_with(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    members = {
        "a": os.urandom(20_000 if limit > 1 else 200),
        "b": b"1",
        "c": os.urandom((1 << 20) + 5 if limit > 7 else 9),
    }
    path, short = tmp_path / "x.zip", tmp_path / "y.zip"
    written(path, members, file_checksum=0)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[:limit]), at))
    written(short, members, file_checksum=0)
    assert short.read_bytes() == path.read_bytes()


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="what is replaced here is os.pwrite")
@pytest.mark.usefixtures("one_instant")
def test_after_a_failed_write_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    calls = iter([100, None, 50, None, None])

    def failing(fd: int, data: Any, at: int) -> int:
        length = next(calls, 1 << 30)
        if length is None:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data[:length]), at)

    path, straight = tmp_path / "x.zip", tmp_path / "y.zip"
    members = {f"n{n}": bytes([n]) * 300 for n in range(9)}
    written(straight, members, file_checksum=0)
    monkeypatch.setattr(os, "pwrite", failing)
    with path.open("xb") as file:
        writer = ArchiveWriter(file.fileno(), file_checksum=0)
        for name, data in members.items():
            writer.append(name.encode(), data)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                writer.drain()
        writer.write_directory()
        writer.write_end()
    assert path.read_bytes() == straight.read_bytes()


# ------------------------------------------------------------------------------------------------ others
@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
def test_unzip_finds_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    written(path, {"a": b"1" * 100, "ünï/日本": b"2", "big": os.urandom(2 << 20)}, file_checksum=0)
    for n in range(3):
        commit(path, {f"n{n}": os.urandom(1000)}, {n})
    result = subprocess.run(["unzip", "-tq", path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "No errors" in result.stdout


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.binary(max_size=80))), max_size=20),
    st.sampled_from([1, 8, 9, 64, 100, 4096]),
)
def test_any_order_of_appending_and_dropping(steps: list[tuple[str, bytes | None]], align: int) -> None:
    expected: dict[str, bytes] = {}
    descriptor = os.memfd_create("x") if hasattr(os, "memfd_create") else None
    if descriptor is None:
        pytest.skip("no files in memory here")
    try:
        writer = ArchiveWriter(descriptor, align=align, file_checksum=0)
        for name, data in steps:
            if data is None:
                assert writer.drop(name.encode()) == (expected.pop(name, None) is not None)
            else:
                assert writer.append(name.encode(), data) % align == 0
                expected[name] = data
        writer.write_directory()
        writer.write_end()
        data = os.pread(descriptor, 1 << 20, 0)
    finally:
        os.close(descriptor)
    archive = archive_of(data)
    assert contents(archive) == expected
    assert archive.count == len(expected)
    assert archive.file_checksum == crc32c(data)


def test_misuse() -> None:
    with pytest.raises(ValueError, match="align"):
        ArchiveWriter(0, align=3)
    writer = ArchiveWriter(-1)
    with pytest.raises(ValueError, match="directory comes first"):
        writer.write_end()
    with pytest.raises(ValueError, match="member name"):
        writer.append(b"", b"")
    archive = archive_of(zipped({"a": b""}))
    for call in (archive.byte_range, archive.name, archive.crc, archive.is_folder):
        with pytest.raises(IndexError):
            call(1)
        with pytest.raises(IndexError):
            call(-1)


def test_a_folder_has_no_data() -> None:
    archive = archive_of(zipped({"a/": b"", "a/b": b"1"}))
    assert [archive.is_folder(n) for n in range(2)] == [True, False]
    with pytest.raises(FormatError, match="folder"):
        archive.byte_range(0)


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
