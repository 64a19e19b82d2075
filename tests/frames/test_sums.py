"""Checksums of frames (doc/design/checksums.md): they cover every bit and go on; files of others are unverified."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import checksums_of, has_odd_parity, range_checksum, with_checksums
from blosc2._core.io.checksum import crc32c, crc32c_both, crc32c_joined
from blosc2._core.io.source import Source
from blosc2._frames.checksums import carried, check_reads, is_verifiable, verify_frame, with_sums
from blosc2._handles.open_frame import open_frame

MARK, MAGIC = 0xB5, bytes.fromhex("c1 62 32 73 75 6d 73 01")
ITEMS = np.arange(300, dtype="i4").reshape(30, 10)
NOISE = np.random.default_rng(5).integers(0, 256, 600, np.uint8)


def crc(data: bytes) -> int:
    """CRC-32C bit by bit, by its definition."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:][:4], "little")


# ---------------------------------------------------------------------- files of all kinds


def compressed(path: str) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)


def raw(path: str) -> None:
    blosc2.asarray(NOISE, chunks=(200,), blocks=(100,), cparams={"clevel": 0}, urlpath=path)


def zeros(path: str) -> None:
    blosc2.zeros((100,), chunks=(30,), blocks=(10,), urlpath=path)


def nans(path: str) -> None:
    blosc2.nans((100,), chunks=(30,), blocks=(10,), urlpath=path)


def value(path: str) -> None:
    blosc2.full((100,), 7, chunks=(30,), blocks=(10,), urlpath=path)


def partly_special(path: str) -> None:
    items = np.zeros((30, 10), "i4")
    items[10:20] = ITEMS[10:20]
    blosc2.asarray(items, chunks=(10, 10), blocks=(5, 10), urlpath=path)


def no_items(path: str) -> None:
    blosc2.zeros((0, 3), urlpath=path)


def scalar(path: str) -> None:
    blosc2.asarray(np.float64(2.5), urlpath=path)


def metadata(path: str) -> None:
    array = blosc2.asarray(ITEMS[:3], urlpath=path, meta={"unit": "mm"})
    array.vlmeta.update({"a": [1, 2.5, "x" * 40], "b": {"c": None}})


def appended(path: str) -> None:
    array = blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)
    array[3, 3] = 77
    array.resize((45, 10))
    array[40:] = 5
    array.vlmeta["a"] = 1


def only_metadata_appended(path: str) -> None:
    array = blosc2.asarray(ITEMS[:5], urlpath=path)
    for n in range(4):
        array.vlmeta["n"] = n


def shrunk(path: str) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path).resize((12, 10))


def shrunk_to_nothing(path: str) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path).resize((0, 10))


def superchunk(path: str) -> None:
    schunk = blosc2.SChunk(chunksize=400, data=bytes(NOISE), cparams={"typesize": 1}, urlpath=path)
    schunk.insert_data(1, ITEMS[:10].tobytes(), copy=True)
    schunk.reorder_offsets([2, 0, 1])


def variable_chunks(path: str) -> None:
    schunk = blosc2.SChunk(chunksize=100, urlpath=path, cparams={"typesize": 1})
    for size in (100, 30, 70):
        schunk.append_data(bytes(NOISE[:size]))


def empty_superchunk(path: str) -> None:
    blosc2.SChunk(chunksize=400, urlpath=path).vlmeta["a"] = 1


def saved(path: str) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10)).save(path)


def leaf(path: str) -> None:
    with blosc2.DictStore(path + ".b2d", mode="w") as store:
        store["/x"] = ITEMS[:10]
    os.replace(path + ".b2d/x.b2nd", path)


def embedded(path: str) -> None:
    with blosc2.EmbedStore(path + ".b2e", mode="w") as store:
        store["/x"] = ITEMS[:2]
    with blosc2.EmbedStore(path + ".b2e", mode="a") as store:
        store["/y"] = ITEMS[:1]
    os.replace(path + ".b2e", path)


MAKERS: list[Callable[[str], None]] = [
    compressed, raw, zeros, nans, value, partly_special, no_items, scalar, metadata, appended, only_metadata_appended,
    shrunk, shrunk_to_nothing, superchunk, variable_chunks, empty_superchunk, saved, leaf, embedded,
]  # fmt: skip
every_kind = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2nd"


def made(make: Callable[[str], None], path: Path) -> bytes:
    make(str(path))
    return path.read_bytes()


def found(data: Any) -> list[Any]:
    """What there is to find in the bytes of a frame, be it that they are no frame any more."""
    try:
        frame = Frame.open(Source.of_buffer(data))
        return list(verify_frame(frame))
    except blosc2.FormatError as error:
        return [error]


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
    sums = data[-23 - size : -51]
    assert [u32(sums, 4 * n) for n in range(len(stored))] == [crc(data[at:][: u32(data[at:], 12)]) for at in stored]
    assert u32(data, -43) - size in (0, 1, 2)
    assert data[-23 - u32(data, -43) : -23 - size] == bytes(u32(data, -43) - size)


@every_kind
def test_any_flipped_bit_is_found(make: Callable[[str], None], path: Path) -> None:
    data = bytearray(made(make, path))
    assert found(data) == []
    missed = []
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        if not found(data):
            missed.append(divmod(bit, 8))
        data[bit // 8] ^= 1 << bit % 8
    assert missed == []


@every_kind
def test_any_flipped_bit_is_found_by_check(make: Callable[[str], None], path: Path) -> None:
    data = bytearray(made(make, path))
    assert blosc2.check(path).ok
    assert not blosc2.check(path).unverified
    for at in range(len(data)):
        bit = 1 << at % 8
        data[at] ^= bit
        path.write_bytes(data)
        assert not blosc2.check(path).ok, at
        data[at] ^= bit


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
    places = [frame.chunk_info(n)[0] for n in range(3)]
    for n in (2, 0):
        data[places[n] + 40] ^= 1
    findings = list(verify_frame(Frame.open(Source.of_buffer(bytes(data)))))
    assert [(one.chunk, one.offset) for one in findings] == [(0, places[0]), (2, places[2])]
    assert all("checksum" in one.what for one in findings)
    # the same inside of another file, where places are counted from its start
    shifted = Frame.open(Source.of_buffer(b"12345" + data), 5)
    assert [one.offset for one in verify_frame(shifted)] == [places[0] + 5, places[2] + 5]
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


def test_users_see_nothing_of_them(path: Path) -> None:
    array = blosc2.asarray(ITEMS, urlpath=str(path))
    assert dict(array.vlmeta) == {}
    for n in range(16):  # all that there may be
        array.vlmeta[f"_sums{n}" if n else "_sums"] = n
    again = blosc2.open(str(path))
    assert len(again.vlmeta) == 16
    assert again.vlmeta["_sums"] == 0
    assert found(path.read_bytes()) == []


def test_with_sums_is_the_same_frame(path: Path) -> None:
    for array in (blosc2.asarray(ITEMS), blosc2.zeros(100), blosc2.zeros(0), blosc2.asarray(np.arange(100_000))):
        array.vlmeta["a"] = 1
        plain = array.to_cframe()
        data = b"".join(with_sums(plain))
        assert found(data) == []
        assert b"".join(with_sums(data)) == data
        path.write_bytes(plain)
        assert b"".join(with_sums(open_frame(str(path), None))) == data
        again = blosc2.from_cframe(data)
        np.testing.assert_array_equal(again[:], array[:])
        assert again.vlmeta[:] == {"a": 1}


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


@every_kind
def test_opening_checks_all_but_the_chunks(make: Callable[[str], None], path: Path, source: str | None) -> None:
    good = made(make, path)
    blosc2.open(str(path), verify=True, mmap_mode=source)
    frame = open_frame(str(path), None)
    places = [0, frame.frame_len - 30, frame.frame_len - 20, frame.frame_len - frame.trailer_len + 3]
    if frame.nbytes:
        places.append(frame.chunks_range[1] + 36)
    for at in places:
        data = bytearray(good)
        data[at] ^= 2
        path.write_bytes(data)
        with pytest.raises(blosc2.FormatError):
            blosc2.open(str(path), verify=True, mmap_mode=source)


def test_verified_handles_follow_their_file(path: Path) -> None:
    writer = blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=str(path))
    reader = blosc2.open(str(path), verify=True)
    changer = blosc2.open(str(path), mode="a", verify=True)
    changer[15] = 9
    assert changer._handle.frame.checks_chunks
    np.testing.assert_array_equal(reader[:], ITEMS)
    assert reader.refresh()
    assert reader._handle.frame.checks_chunks
    assert reader[15, 3] == 9
    at = reader._handle.frame.chunk_info(1)[0]
    data = bytearray(path.read_bytes())
    data[at + 40] ^= 1
    with open(path, "r+b") as file:  # in place: what handles have read has no say
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


def test_an_unverified_file_opens_as_ever(source: str | None) -> None:
    entry = manifest.files("ndarray")[0]
    x = blosc2.open(str(manifest.path_of(entry)), verify=True, mmap_mode=source)
    assert not x._handle.frame.checks_chunks
    x[...]


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
    compressed(str(path))
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


def test_locking_handles_check_too(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=str(path))
    first = blosc2.open(str(path), mode="a", locking=True, verify=True)
    second = blosc2.open(str(path), mode="r", locking=True, verify=True)
    first[3] = 9
    assert second[3, 3] == 9
    assert second._handle.frame.checks_chunks


def test_directories_of_chunk_files_have_none(tmp_path: Path) -> None:
    path = str(tmp_path / "d.b2nd")
    blosc2.asarray(ITEMS, urlpath=path, contiguous=False)
    array = blosc2.open(path, verify=True)
    np.testing.assert_array_equal(array[:], ITEMS)
    assert not array._handle.frame.checks_chunks


# ---------------------------------------------------------------------- hostile bytes


def test_any_byte_of_the_sums_may_be_anything(path: Path) -> None:
    data = bytearray(made(appended, path))
    rng = np.random.default_rng(3)
    start = len(data) - 23 - Frame.open(Source.of_buffer(bytes(data))).checksums_len
    for at in range(start, len(data)):
        old = data[at]
        for new in {0, 1, 127, 128, 255, int(rng.integers(256))} - {old}:
            data[at] = new
            assert found(data), (at, new)
            path.write_bytes(data)
            with pytest.raises(blosc2.FormatError):
                blosc2.open(str(path), verify=True)
            blosc2.check(path)
        data[at] = old


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


def test_frames_that_are_damaged_in_any_way_get_no_sums_or_right_ones() -> None:
    """The hostile fixtures: a frame that can be parsed may be written into a store."""
    for entry in manifest.HOSTILE:
        place = manifest.path_of(entry)
        if place.is_dir():
            continue
        try:
            data = b"".join(with_sums(place.read_bytes()))
        except blosc2.FormatError:
            continue
        assert found(data) == [], entry["path"]


def test_parts_that_are_no_parts_are_refused() -> None:
    for header, trailer in ((b"", bytes(35)), (bytes(96), bytes(35)), (bytes(97), bytes(22))):
        with pytest.raises(ValueError, match="97 bytes"):
            with_checksums(header, trailer, 97, b"", 0, 0)


# ---------------------------------------------------------------------- the native parts


@pytest.mark.parametrize("size", [0, 1, 7, 4096, 8191, 8192, 8193, 100_000])
def test_checksums_are_joined(size: int) -> None:
    first, second = os.urandom(41), os.urandom(size)
    assert crc32c_joined(crc32c(first), crc32c(second), size) == crc32c(first + second)
    assert crc32c_both(second, crc32c(first)) == (crc32c(second), crc32c(first + second))


def test_ranges_of_a_source(path: Path, source: str | None) -> None:
    data = os.urandom(600_000)
    path.write_bytes(data)
    opened = Source.open(str(path)) if source is None else Source.map(str(path))
    for start, length in ((0, 0), (5, 1), (17, 599_983), (0, 600_000), (600_000, 0)):
        assert range_checksum(opened, start, length, 99) == crc32c(data[start : start + length], 99)
    for start, length in ((-1, 1), (0, 600_001), (600_001, 0), (5, -1)):
        with pytest.raises(blosc2.FormatError):
            range_checksum(opened, start, length)


def test_parity() -> None:
    for number in (*range(40), 2**32 + 1, 2**63, 2**64 - 1):
        assert has_odd_parity(number) == (number.bit_count() % 2 == 1)


def test_sums_of_chunks_in_any_order(path: Path) -> None:
    schunk = blosc2.SChunk(chunksize=100, data=bytes(NOISE), cparams={"typesize": 1})
    schunk.reorder_offsets([5, 4, 3, 2, 1, 0])
    update = schunk.to_cframe()
    path.write_bytes(update)
    again = blosc2.open(str(path), mode="a")
    again.reorder_offsets([1, 0, 3, 2, 5, 4])
    data = path.read_bytes()
    frame = Frame.open(Source.of_buffer(data))
    assert frame.offsets_list() != sorted(frame.offsets_list())
    assert found(b"".join(with_sums(frame))) == []
    assert check_reads(Frame.open(Source.of_buffer(b"".join(with_sums(frame)))))
