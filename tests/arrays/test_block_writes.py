"""Assignments to a few blocks of a chunk: the others are copied as they are stored."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import blosc2
from blosc2 import Codec, Filter, SplitMode, _frames

FILTERS: list[list[Filter]] = [
    [],
    [Filter.SHUFFLE],
    [Filter.BITSHUFFLE],
    [Filter.DELTA],
    [Filter.TRUNC_PREC],
    [Filter.SHUFFLE, Filter.BYTEDELTA],
]


def blocks_of(chunk: bytes) -> list[bytes]:
    """The stored blocks of a chunk whose blocks lie in their order."""
    nbytes, blocksize, cbytes = struct.unpack_from("<3i", chunk, 4)
    starts = [*struct.unpack_from(f"<{nbytes // blocksize}i", chunk, 32), cbytes]
    return [chunk[first:stop] for first, stop in pairwise(starts)]


def is_one(chunk: bytes) -> bool:
    """Whether a chunk was stored without blocks: as it is, or as a value that it repeats."""
    return bool(chunk[2] & 2 or chunk[31] >> 4)


@st.composite
def selections(draw: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    key = []
    for length in shape:
        start = draw(st.integers(0, length - 1))
        key.append(slice(start, draw(st.integers(start + 1, length)), draw(st.integers(1, 7))))
    return tuple(key)


@given(data=st.data())
def test_like_numpy(data: Any) -> None:
    shape = data.draw(st.sampled_from([(4000,), (61, 40), (13, 14, 15)]))
    chunks = {1: (1600,), 2: (40, 25), 3: (9, 10, 11)}[len(shape)]
    blocks = {1: (100,), 2: (7, 25), 3: (3, 4, 4)}[len(shape)]
    dtype = data.draw(st.sampled_from(["u1", "i4", "f8", "S3"]))
    filters = data.draw(st.sampled_from(FILTERS[:4] if dtype == "S3" else FILTERS))
    if Filter.TRUNC_PREC in filters and dtype != "f8":
        filters = []
    cparams = {
        "codec": data.draw(st.sampled_from([Codec.ZSTD, Codec.LZ4, Codec.BLOSCLZ, Codec.ZLIB])),
        "clevel": data.draw(st.sampled_from([0, 1, 5])),
        "splitmode": data.draw(st.sampled_from(list(SplitMode))),
        "filters": filters,
        "filters_meta": [52 if one is Filter.TRUNC_PREC else 0 for one in filters],
        "nthreads": data.draw(st.sampled_from([1, 2])),
        "use_dict": data.draw(st.booleans()),
    }
    if cparams["codec"] is not Codec.ZSTD or Filter.DELTA in filters:
        cparams["use_dict"] = False
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))

    def items(shape: Any) -> Any:
        kind = data.draw(st.sampled_from(["few", "zeros", "noise"]))
        numbers = rng.integers(0, {"few": 4, "zeros": 1, "noise": 250}[kind], shape)
        return numbers.astype(dtype) if kind != "noise" or dtype != "f8" else rng.random(shape)

    expected = items(shape)
    array = blosc2.asarray(expected, chunks=chunks, blocks=blocks, cparams=cparams)
    for _ in range(3):
        key = data.draw(selections(shape))
        expected[key] = value = items(expected[key].shape)
        array[key] = value
        assert np.array_equal(array[:], expected)
    assert array.check().ok
    if not cparams["use_dict"]:
        anew = blosc2.asarray(expected, chunks=chunks, blocks=blocks, cparams=cparams)
        different = [n for n in range(array.schunk.nchunks) if array.schunk.get_chunk(n) != anew.schunk.get_chunk(n)]
        assert all(is_one(array.schunk.get_chunk(n)) != is_one(anew.schunk.get_chunk(n)) for n in different)


@pytest.mark.parametrize("change", [{"codec": Codec.LZ4}, {"filters": [Filter.BITSHUFFLE]}, {"filters": []}])
def test_blocks_of_another_kind_are_not_mixed(change: dict[str, Any]) -> None:
    items = np.random.default_rng(1).integers(0, 50, (64, 100))
    array = blosc2.asarray(items, chunks=(64, 100), blocks=(8, 100))
    array.cparams = change
    array[3] = items[3] = 9
    assert np.array_equal(array[:], items)
    assert array.check().ok


def test_damage_of_another_block_is_not_copied(tmp_path: Path) -> None:
    """With the chunk, it would get a checksum that holds."""
    path = tmp_path / "x.b2nd"
    items = np.random.default_rng(1).integers(0, 50, (64, 100))
    array = blosc2.asarray(items, chunks=(64, 100), blocks=(8, 100), urlpath=path)
    data = bytearray(path.read_bytes())
    block = blocks_of(array.schunk.get_chunk(0))[6]
    data[data.index(block) + len(block) // 2] ^= 1
    path.write_bytes(data)
    array = blosc2.open(path, mode="a")
    with pytest.raises(blosc2.FormatError, match=r"chunk 0.*checksum"):
        array[3] = 9
    assert path.read_bytes() == data


def test_appended_rows_leave_other_blocks_alone() -> None:
    items = np.random.default_rng(1).integers(0, 4, (200, 100)).cumsum(1)
    array = blosc2.asarray(items[:20], chunks=(64, 100), blocks=(8, 100), cparams={"clevel": 1})
    before = blocks_of(array.schunk.get_chunk(0))
    array.cparams = {"clevel": 5}
    for n in range(20, 200):
        array.append(items[n])
        if n == 27:
            after = blocks_of(array.schunk.get_chunk(0))
            assert [n for n in range(8) if after[n] != before[n]] == [2, 3]
    assert np.array_equal(array[:], items)


def test_what_is_written_as_a_whole_is_not_read(tmp_path: Path) -> None:
    """A damaged chunk is mended by assigning all that it has; what was cut off is gone then."""
    path = tmp_path / "x.b2nd"
    secret = np.full((64, 100), b"secret!!")
    array = blosc2.asarray(secret, chunks=(64, 100), blocks=(8, 100), urlpath=path, cparams={"clevel": 0})
    array.resize((16, 100))
    data = bytearray(path.read_bytes())
    at = data.index(b"secret")
    data[at] ^= 1
    path.write_bytes(data)
    array = blosc2.open(path, mode="a")
    with pytest.raises(blosc2.FormatError, match="chunk 0"):
        array[3] = b"public"
    array[:] = b"public"
    assert (array[:] == b"public").all()
    assert b"secret" not in array.schunk.decompress_chunk(0)


def hostile_array(path: Path, blocks: int, table: bytes, streams: bytes) -> Any:
    """An array of bytes without checksums, with one chunk of blocks of one byte, whose table and streams these are."""
    size = 32 + len(table) + len(streams)
    header = bytes([5, 1, 0x05 | 0x10 | 1 << 5, 1]) + struct.pack("<3i", blocks, 1, size) + bytes(6) + b"\1" + bytes(9)
    array = blosc2.full(
        (blocks,), 1, dtype="u1", chunks=(blocks,), blocks=(1,), cparams={"codec": Codec.LZ4, "filters": []}
    )
    frame = _frames.FrameUpdate(array._handle.frame)
    frame.replace(0, header + table + streams)
    path.write_bytes(_frames.frame_bytes(frame))
    return blosc2.open(path, mode="a")


@pytest.mark.parametrize("place", [0, 1, 50, 99])
@pytest.mark.parametrize("start", [0x7FFFFFFF, -1, -4000, 0, 33, 1 << 20])
def test_starts_that_lie_elsewhere(tmp_path: Path, place: int, start: int) -> None:
    """Nothing from there is copied into the file."""
    starts = 32 + 4 * 100 + 4 * np.arange(100, dtype="<i4")
    starts[place] = start
    path = tmp_path / "x.b2nd"
    array = hostile_array(path, 100, starts.tobytes(), bytes(4 * 100))
    before = path.read_bytes()
    for key in (place, (place + 1) % 100, slice(30)):
        with pytest.raises(blosc2.FormatError, match="chunk 0"):
            array[key] = 9
            array.flush()  # it may have waited: the others took some time
    assert path.read_bytes() == before
