"""Checksums of frames (doc/design/checksums.md): they cover every bit and go on; files of others are unverified."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_kit import manifest
from fixture_kit.checksums import (
    ITEMS,
    NOISE,
    appended,
    compressed,
    crc,
    every_kind,
    found,
    made,
    no_items,
    superchunk,
)

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import checksums_of, has_odd_parity
from blosc2._core.io.source import Source
from blosc2._frames.checksums import carried, is_verifiable, verify_frame
from blosc2._frames.handle import open_frame

MARK, MAGIC = 0xB5, bytes.fromhex("c1 62 32 73 75 6d 73 01")


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:][:4], "little")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2nd"


# ---------------------------------------------------------------------- the bytes


@every_kind
def test_the_bytes_are_those_of_the_design(make: Callable[[str], None], path: Path) -> None:
    data = made(make, path)
    header_len = int.from_bytes(data[11:15], "big")
    frame_len = int.from_bytes(data[16:24], "big")
    nbytes, cbytes = struct.unpack(">q", data[30:38])[0], struct.unpack(">q", data[39:47])[0]
    assert frame_len == len(data)
    assert frame_len.bit_count() % 2 == 0
    assert data[86] == MARK
    assert data[-51:-43] == MAGIC
    trailer_len = int.from_bytes(data[-22:-18], "big")
    start = frame_len - trailer_len
    assert data[start : start + 2] == b"\x94\1"
    assert u32(data, -39) == crc(data[header_len:start])
    index = data[header_len + cbytes : start] if nbytes else b""
    assert u32(data, -35) == crc(index[: u32(index, 12)] if nbytes else b"")
    assert u32(data, -31) == crc(data[:header_len])
    assert u32(data, -27) == crc(data[start:-27] + bytes(4) + data[-23:])
    frame = Frame.open(Source.of_buffer(data))
    stored = [header_len + offset for offset in frame.offsets_list() if offset >= 0]
    size = 28 + 4 * len(stored)
    checksums = data[-23 - size : -51]
    assert [u32(checksums, 4 * n) for n in range(len(stored))] == [
        crc(data[at:][: u32(data[at:], 12)]) for at in stored
    ]
    assert u32(data, -43) - size in (0, 1, 2)
    assert data[-23 - u32(data, -43) : -23 - size] == bytes(u32(data, -43) - size)


def test_bytes_that_no_chunk_uses_are_covered(path: Path) -> None:
    """Holes before chunks, the index and trailer of earlier versions, chunks that were replaced."""
    data = bytearray(made(appended, path))
    frame = open_frame(str(path), None)
    used = {(at, cbytes) for n in range(frame.nchunks) for at, _, cbytes, *_ in [frame.chunk_info(n)] if at is not None}
    live = set().union(*(range(at, at + cbytes) for at, cbytes in used))
    dead = set(range(frame.header_len, len(data) - frame.trailer_len)) - live
    assert len(dead) > 500
    for at in sorted(dead)[::10]:
        data[at] ^= 0x10
        assert found(data), at
        data[at] ^= 0x10


def test_a_finding_says_where(path: Path) -> None:
    data = bytearray(made(compressed, path))
    frame = Frame.open(Source.of_buffer(bytes(data)))
    offsets = [frame.chunk_info(n)[0] for n in range(3)]
    for n in (2, 0):
        data[offsets[n] + 40] ^= 1
    findings = list(verify_frame(Frame.open(Source.of_buffer(bytes(data)))))
    assert [(one.chunk, one.offset) for one in findings] == [(0, offsets[0]), (2, offsets[2])]
    assert all("checksum" in one.what for one in findings)
    # the same inside of another file, where offsets count from its start
    shifted = Frame.open(Source.of_buffer(b"12345" + data), 5)
    assert [one.offset for one in verify_frame(shifted)] == [offsets[0] + 5, offsets[2] + 5]
    data = bytearray(path.read_bytes())
    data[10 + frame.chunks_range[1]] ^= 1
    assert [one.offset for one in found(data)] == [frame.chunks_range[1]]


# ---------------------------------------------------------------------- versions


def test_versions_go_on_without_a_look_at_old_bytes(path: Path) -> None:
    """Each version is verified; damage that was there before stays found; no length is one bit from another."""
    array = blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=str(path))
    lengths = []
    for n in range(12):
        array.vlmeta["n"] = "x" * n
        array[n] = -n
        array.resize((30 + n, 10))
        frame = open_frame(str(path), None)
        assert carried(frame) == checksums_of(frame)
        lengths.append(frame.frame_len)
    assert not any(map(has_odd_parity, lengths))
    at = frame.header_len + 50  # dead by now
    data = bytearray(path.read_bytes())
    data[at] ^= 8
    path.write_bytes(data)
    blosc2.open(str(path), mode="a").vlmeta["more"] = 1
    assert [one.chunk for one in found(path.read_bytes())] == [None]


def test_chunks_keep_their_sums_wherever_they_go(path: Path) -> None:
    schunk = blosc2.SChunk(chunksize=100, data=bytes(NOISE), cparams={"typesize": 1}, urlpath=str(path))
    schunk.reorder_offsets([5, 3, 1, 0, 2, 4])
    schunk.insert_data(2, bytes(100), copy=True)
    schunk.delete_chunk(4)
    schunk.update_data(0, bytes(range(100)), copy=True)
    schunk.append_data(bytes(NOISE[300:400]))
    frame = open_frame(str(path), None)
    assert carried(frame) == checksums_of(frame)
    assert found(path.read_bytes()) == []


def test_a_damaged_file_is_not_gone_on_with(path: Path) -> None:
    """Nothing that is damaged gets a new checksum, and nothing is written."""
    good = made(appended, path)
    frame = open_frame(str(path), None)
    for at in (28, frame.frame_len - 40, frame.frame_len - frame.trailer_len + 20, 86):
        data = bytearray(good)
        data[at] ^= 4
        path.write_bytes(data)
        array = blosc2.open(str(path), mode="a", verify=False)
        with pytest.raises(blosc2.FormatError):
            array[0] = 1
        assert path.read_bytes() == bytes(data)
        if at == 28:  # the header is checked when it is read, if nobody says otherwise
            with pytest.raises(blosc2.FormatError, match="header"):
                blosc2.open(str(path), mode="a")
    data = bytearray(good)
    data[frame.chunk_info(1)[0] + 40] ^= 4
    path.write_bytes(data)
    array = blosc2.open(str(path), mode="a")
    array[20:] = 3  # what is appended tells the old damage as well
    assert [one.chunk for one in found(path.read_bytes())] == [1]
    with pytest.raises(blosc2.FormatError, match="chunk 1 is not the one that was written"):
        array._handle.set_metalayer("b2nd", array._handle.frame.metalayer("b2nd"))  # written anew
    array[10:20] = 4
    assert [one.chunk for one in found(path.read_bytes())] == [None]  # dead, and still not what it was


@pytest.mark.parametrize("make", [compressed, no_items, superchunk], ids=lambda make: make.__name__)
def test_a_file_changed_by_others_is_unverified_and_stays_so(make: Callable[[str], None], path: Path) -> None:
    data = bytearray(made(make, path))
    data[86] = 0  # as others leave it, who wrote the header
    path.write_bytes(data)
    assert found(data) == []
    assert not is_verifiable(open_frame(str(path), None))
    assert blosc2.check(path).ok
    assert blosc2.check(path).unverified
    changed = blosc2.open(str(path), mode="a")
    changed.vlmeta["mine"] = 1
    now = path.read_bytes()
    if make is no_items:  # written anew as a whole, so all of it is known
        assert now[86] == MARK
        assert found(now) == []
    else:
        assert now[86] == 0
        assert MAGIC not in now[-60:]
    assert blosc2.open(str(path)).vlmeta["mine"] == 1


def test_a_trailer_written_by_others_is_unverified(path: Path) -> None:
    data = made(compressed, path)
    frame = Frame.open(Source.of_buffer(data))
    size = frame.checksums_len
    plain = bytearray(data[: -23 - size] + data[-23:])
    plain[16:24] = len(plain).to_bytes(8, "big")
    plain[-22:-18] = (frame.trailer_len - size).to_bytes(4, "big")
    if has_odd_parity(len(plain)):
        plain[86] = 0
    assert found(plain) == []
    assert not is_verifiable(Frame.open(Source.of_buffer(bytes(plain))))


# ---------------------------------------------------------------------- who carries them


def test_memory_carries_none_and_files_do(path: Path) -> None:
    array = blosc2.asarray(ITEMS)
    plain = array.to_cframe()
    assert (plain[86], MAGIC in plain) == (0, False)
    array.save(str(path))
    data = path.read_bytes()
    assert data[86] == MARK
    opened = blosc2.open(str(path))
    assert opened.to_cframe() == plain
    copy = opened.copy()
    copy[0] = 1
    assert MAGIC not in copy.to_cframe()
    assert copy.to_cframe()[86] == 0
    other = path.with_name("other.b2nd")
    copy.save(str(other))
    assert found(other.read_bytes()) == []
    assert carried(open_frame(str(other), None)) is not None


def test_a_frame_of_others_gets_them_when_it_is_saved_here(path: Path) -> None:
    for entry in manifest.files("ndarray", "schunk")[::4]:
        if manifest.path_of(entry).is_dir() or entry.get("offset"):
            continue
        x = blosc2.open(str(manifest.path_of(entry)), deserialize="full")
        copy = path.with_name(f"{entry['path'].replace('/', '-')}.b2nd")
        x.copy(urlpath=str(copy), mode="w")
        assert carried(open_frame(str(copy), None)) is not None, entry["path"]
        assert found(copy.read_bytes()) == []
