"""Checksums of frames (doc/design/checksums.md): they cover every bit, and `verify=True` checks them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest
from fixture_kit.checksums import ITEMS, NOISE, appended, compressed, crc, every_kind, found, made

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import checksums_of, with_checksums
from blosc2._core.io.source import Source
from blosc2._frames.append import Growth
from blosc2._frames.checksums import carried
from blosc2._frames.handle import open_frame
from blosc2._frames.update import FrameUpdate

MARK, MAGIC = 0xB5, bytes.fromhex("c1 62 32 73 75 6d 73 01")


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:][:4], "little")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2nd"


# ---------------------------------------------------------------------- the bytes


@every_kind
def test_the_bytes_are_those_of_the_design(make: Callable[[Path], None], path: Path) -> None:
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
    stored = [header_len + offset for offset in FrameUpdate(frame).offsets.tolist() if offset >= 0]
    size = 28 + 4 * len(stored)
    checksums = data[-23 - size : -51]
    assert [u32(checksums, 4 * n) for n in range(len(stored))] == [
        crc(data[at:][: u32(data[at:], 12)]) for at in stored
    ]
    assert u32(data, -43) - size in (0, 1, 2)
    assert data[-23 - u32(data, -43) : -23 - size] == bytes(u32(data, -43) - size)


def test_bytes_that_no_chunk_uses_are_covered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes before chunks, the index and trailer of earlier versions, chunks that were replaced."""
    monkeypatch.setattr(Growth, "may_be_compacted", lambda self, size: False)
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


# ---------------------------------------------------------------------- versions


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


# ---------------------------------------------------------------------- verify=True


def reads(array: Any) -> dict[str, Callable[[], Any]]:
    """Ways to read items of the second chunk."""
    return {
        "all": lambda: array[:],
        "one": lambda: array[11, 3],
        "part": lambda: array[12:14, 2:5],
        "step": lambda: array[5:28:3],
        "points": lambda: array[[0, 12, 29]],
        "mask": lambda: array[array_mask()],
        "numpy": lambda: np.asarray(array),
        "chunk": lambda: array.schunk.get_chunk(1),
        "decompress": lambda: array.schunk.decompress_chunk(1),
        "bytes": lambda: array.schunk[105:110],
        "copy": array.copy,
        "cframe": array.to_cframe,
        "iterate": lambda: list(array.schunk.iterchunks(np.dtype("i4"))),
        "view": lambda: np.asarray(array.T),
    }


def array_mask() -> np.ndarray[Any, Any]:
    mask = np.zeros(ITEMS.shape, bool)
    mask[12, 3] = True
    return mask


@pytest.mark.parametrize("clevel", [0, 5])
@pytest.mark.parametrize("nthreads", [1, 2])
def test_every_read_is_checked(path: Path, source: str | None, clevel: int, nthreads: int) -> None:
    cparams = {"clevel": clevel}
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), cparams=cparams, urlpath=str(path))
    data = bytearray(path.read_bytes())
    how: Any = {"mmap_mode": source, "dparams": {"nthreads": nthreads}}
    whole = blosc2.open(str(path), verify=True, **how)
    plain = {name: read() for name, read in reads(blosc2.open(str(path), **how)).items()}
    for name, read in reads(whole).items():
        if name in ("all", "one", "part", "step", "points", "mask", "numpy", "view"):
            np.testing.assert_array_equal(read(), plain[name])
        else:
            read()
    at = whole._handle.frame.chunk_info(1)[0]
    data[at + 37] ^= 1
    path.write_bytes(data)
    damaged = blosc2.open(str(path), verify=True, **how)
    np.testing.assert_array_equal(damaged[:10], ITEMS[:10])
    np.testing.assert_array_equal(damaged[20:], ITEMS[20:])
    for name, read in reads(damaged).items():
        with pytest.raises(blosc2.FormatError, match="checksum") as error:
            read()
        assert (error.value.offset, error.value.path) == (at, str(path)), name
        assert "chunk 1" in str(error.value)


def test_views_of_raw_chunks_are_checked(path: Path) -> None:
    blosc2.asarray(NOISE, chunks=(600,), blocks=(600,), cparams={"clevel": 0}, urlpath=str(path))
    data = bytearray(path.read_bytes())
    np.testing.assert_array_equal(np.asarray(blosc2.open(str(path), mmap_mode="r", verify=True), copy=False), NOISE)
    data[open_frame(str(path), None).chunk_info(0)[0] + 300] ^= 1
    path.write_bytes(data)
    array = blosc2.open(str(path), mmap_mode="r", verify=True)
    with pytest.raises(blosc2.FormatError, match="checksum"):
        np.asarray(array, copy=False)


@pytest.mark.parametrize("source", [None, "r"])
def test_copied_chunks_are_those_that_were_written(path: Path, source: str | None) -> None:
    # What is read of a chunk with its header is a small part of it.
    items = np.random.default_rng(2).normal(size=200_000)
    there = blosc2.asarray(items, chunks=(100_000,), urlpath=str(path))
    first, second = (blosc2.asarray(items, chunks=(100_000,)).get_chunk(n) for n in (0, 1))
    array = blosc2.open(str(path), mmap_mode=source, verify=True)
    assert (array.get_chunk(0), array.get_chunk(1)) == (first, second)
    assert blosc2.concat([array, array]).get_chunk(3) == second
    del there
    good = path.read_bytes()
    begin = open_frame(str(path), None).chunk_info(1)[0]
    for at in (50, len(second) // 2, len(second) - 1):
        data = bytearray(good)
        data[begin + at] ^= 1
        path.write_bytes(data)
        array = blosc2.open(str(path), mmap_mode=source, verify=True)
        assert array.get_chunk(0) == first
        for copy in (lambda: array.get_chunk(1), lambda: blosc2.concat([array, array]), lambda: array.copy()):  # noqa: B023
            with pytest.raises(blosc2.FormatError, match="chunk 1"):
                copy()


@every_kind
def test_opening_checks_all_but_the_chunks(make: Callable[[Path], None], path: Path, source: str | None) -> None:
    good = made(make, path)
    blosc2.open(str(path), verify=True, mmap_mode=source)
    frame = open_frame(str(path), None)
    offsets = [0, frame.frame_len - 30, frame.frame_len - 20, frame.frame_len - frame.trailer_len + 3]
    if frame.nbytes:
        offsets.append(frame.chunks_range[1] + 36)
    for at in offsets:
        data = bytearray(good)
        data[at] ^= 2
        path.write_bytes(data)
        with pytest.raises(blosc2.FormatError):
            blosc2.open(str(path), verify=True, mmap_mode=source)


def test_verified_handles_follow_their_file(path: Path) -> None:
    items = np.random.default_rng(1).normal(size=(40, 40))  # smaller files are in memory once they are open
    writer = blosc2.asarray(items, chunks=(10, 40), blocks=(5, 40), urlpath=str(path))
    reader = blosc2.open(str(path), verify=True)
    changer = blosc2.open(str(path), mode="a", verify=True)
    changer[15] = 9
    assert changer._handle.frame.checks_chunks
    np.testing.assert_array_equal(reader[:], items)
    assert reader.refresh()
    assert reader._handle.frame.checks_chunks
    assert reader[15, 3] == 9
    at = reader._handle.frame.chunk_info(1)[0]
    data = bytearray(path.read_bytes())
    data[at + 40] ^= 1
    with open(path, "r+b") as file:  # in place: chunks that open handles read later are checked too
        file.write(data)
    with pytest.raises(blosc2.FormatError, match="checksum"):
        reader[15]
    with pytest.raises(blosc2.FormatError, match="checksum"):
        changer[15, 3] = 4  # needs the rest of its chunk
    del writer


def test_a_copy_on_write_handle_checks_what_it_takes_over(path: Path) -> None:
    data = bytearray(made(compressed, path))
    data[open_frame(str(path), None).chunk_info(1)[0] + 40] ^= 1
    path.write_bytes(data)
    array = blosc2.open(str(path), mmap_mode="c", verify=True)
    with pytest.raises(blosc2.FormatError, match="checksum"):
        array[0] = 1


@pytest.mark.parametrize("suffix", [".b2d", ".b2z", ".b2e"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_leaves_of_stores_are_checked(tmp_path: Path, suffix: str, mode: str) -> None:
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    path = tmp_path / f"s{suffix}"
    noise = np.random.default_rng(1).normal(size=1000)
    with kind(str(path), mode="w") as store:
        store["/a/x"] = noise
        store["/a/y"] = np.arange(3)
    with blosc2.open(str(path), mode=mode, verify=True) as store:
        np.testing.assert_array_equal(store["/a/x"][:], noise)
        np.testing.assert_array_equal(store["/a/y"][:], np.arange(3))
    file = path / "a" / "x.b2nd" if suffix == ".b2d" else path
    data = bytearray(file.read_bytes())
    with blosc2.open(str(path)) as store:
        handle = store["/a/x"].schunk._handle
        data[handle.frame.chunk_info(0)[0] + 500] ^= 1
    file.write_bytes(data)
    with blosc2.open(str(path), mode=mode, verify=True) as store, pytest.raises(blosc2.FormatError, match="checksum"):
        store["/a/x"][:]


def test_handles_that_travel_go_on_checking(tmp_path: Path, path: Path) -> None:
    store_path = str(tmp_path / "s.b2d")
    with blosc2.DictStore(store_path, mode="w") as store:
        store["/x"] = ITEMS
    with blosc2.DictStore(store_path, mode="r", verify=True) as store, pickle.loads(pickle.dumps(store)) as again:
        assert again["/x"].schunk._handle.frame.checks_chunks
        assert pickle.loads(pickle.dumps(store["/x"])).schunk._handle.frame.checks_chunks
    compressed(path)
    array = pickle.loads(pickle.dumps(blosc2.open(str(path), verify=True)))
    assert array._handle.frame.checks_chunks
    assert not pickle.loads(pickle.dumps(blosc2.open(str(path))))._handle.frame.checks_chunks


def test_info_says_what_is_checked(path: Path) -> None:
    data = bytearray(made(compressed, path))
    assert "verify" not in dict(blosc2.open(str(path)).info_items)
    assert dict(blosc2.open(str(path), verify=True).info_items)["verify"] == "each read"
    data[86] = 0
    path.write_bytes(data)
    for x in (blosc2.open(str(path), verify=True), blosc2.open(str(path), verify=True).schunk):
        assert dict(x.info_items)["verify"].startswith("nothing to check")


# ---------------------------------------------------------------------- hostile bytes


@pytest.mark.parametrize("size", [0, 1, 27, 28, 31, 32, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF])
def test_sizes_that_do_not_fit(path: Path, size: int) -> None:
    data = bytearray(made(compressed, path))
    data[-43:-39] = size.to_bytes(4, "little")
    start = len(data) - int.from_bytes(data[-22:-18], "big")
    data[-27:-23] = crc(bytes(data[start:-27]) + bytes(4) + bytes(data[-23:])).to_bytes(4, "little")
    assert found(data)
    path.write_bytes(data)
    with pytest.raises(blosc2.FormatError):
        blosc2.open(str(path), verify=True)
    blosc2.open(str(path)).vlmeta[:]


@pytest.mark.parametrize("count", [0, 2, 4])
def test_more_or_fewer_sums_than_chunks(path: Path, count: int) -> None:
    """Everything agrees but their number."""
    plain = blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10)).to_cframe()
    frame = Frame.open(Source.of_buffer(plain))
    chunks, body, index = checksums_of(frame)
    stop = frame.frame_len - frame.trailer_len
    ends = plain[: frame.header_len], plain[stop:]
    header, trailer = with_checksums(*ends, stop, (chunks + chunks)[: 4 * count], body, index)
    path.write_bytes(header + plain[frame.header_len : stop] + trailer)
    with pytest.raises(blosc2.FormatError, match="checksums for 3 stored chunks"):
        blosc2.open(str(path), verify=True)
    array = blosc2.open(str(path), mode="a")
    before = path.read_bytes()
    with pytest.raises(blosc2.FormatError, match="checksums for 3 stored chunks"):
        array[0] = 1
    assert path.read_bytes() == before


@every_kind
def test_any_flipped_bit_is_found(make: Callable[[Path], None], path: Path) -> None:
    data = bytearray(made(make, path))
    assert found(data) == []
    missed = []
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        if not found(data):
            missed.append(divmod(bit, 8))
        data[bit // 8] ^= 1 << bit % 8
    assert missed == []
