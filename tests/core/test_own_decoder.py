"""Plain chunks, which are decoded only as far as they are needed."""

from __future__ import annotations

import copy
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blosc2
from blosc2.exceptions import FormatError

CODECS = ["BLOSCLZ", "LZ4", "LZ4HC", "ZSTD", "ZLIB"]
FILTERS = ["NOFILTER", "SHUFFLE", "BITSHUFFLE"]
DTYPES = ["u1", "<i2", ">f4", "<f8", "<c16", "S3", "<U2", [("a", "<i4"), ("b", "<f8")]]
SHAPE, CHUNKS, BLOCKS = (40, 37, 50), (20, 24, 40), (8, 12, 20)


def items_of(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Items that compress, so that streams are neither raw nor of one byte, in all of their bytes."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.repeat(rng.integers(0, 256, size // 24 + 1, dtype="u1"), 24)[:size]
    data[::5] = 3
    return data.view(dtype).reshape(shape) if dtype.kind not in "SUV" else np.frombuffer(data, dtype).reshape(shape)


def encoding(codec: str, filter: str) -> dict[str, Any]:
    return {"codec": blosc2.Codec[codec], "clevel": 5, "filters": [blosc2.Filter[filter]]}


def same(one: Any, other: Any) -> bool:
    dtype = np.asarray(other).dtype.newbyteorder("=")  # as scalars have it
    return np.asarray(one).astype(dtype).tobytes() == np.asarray(other).astype(dtype).tobytes()


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parts_of_blocks(
    dtype: Any, codec: str, filter: str, tmp_path: Path, source: str | None, rng: np.random.Generator
) -> None:
    data = text(SHAPE, rng) if dtype == "<U2" else items_of(dtype, SHAPE, rng)
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(data, chunks=CHUNKS, blocks=BLOCKS, urlpath=path, cparams=encoding(codec, filter))
    x = blosc2.open(path, mmap_mode=source)
    for key in (
        np.s_[3], np.s_[4], np.s_[:, 5], np.s_[:, :, 19], np.s_[0, 0, 0], np.s_[7, 11, 19], np.s_[39, 36, 49],
        np.s_[2:9, 1:14, 3:33], np.s_[1:38:3, 2:30:5, 1:49:2], np.s_[7:8, 11:12, 12:20], np.s_[8:16, 12:24, :20],
        np.s_[::-1, 30:4:-3, ::-1], np.s_[5, 3:4, 2:9], np.s_[5, 3:4, 2:19], ...,
    ):  # fmt: skip
        assert same(x[key], data[key]), key


def text(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.choice(np.array(["", "a", "bc", "äß"], dtype="<U2"), shape)


@given(st.data())
def test_any_reads_of_one_array(data: st.DataObject) -> None:
    """What a read leaves in the cache of blocks serves the next ones, however much of a block they need."""
    codec, filter = data.draw(st.sampled_from(CODECS[:4])), data.draw(st.sampled_from(FILTERS[:2]))
    ndim = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=ndim, max_size=ndim)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    blocks = tuple(data.draw(st.integers(1, n)) for n in chunks)
    dtype = data.draw(st.sampled_from(["u1", "<i2", "<f4", "<f8", "<c16"]))
    items = items_of(dtype, shape, np.random.default_rng(data.draw(st.integers(0, 99))))
    x = blosc2.asarray(items, chunks=chunks, blocks=blocks, cparams=encoding(codec, filter))
    for _ in range(data.draw(st.integers(1, 8))):
        key = tuple(
            data.draw(st.one_of(st.integers(0, n - 1), st.slices(n))) for n in shape[: data.draw(st.integers(0, ndim))]
        )
        assert same(x[key], items[key]), key


@pytest.mark.parametrize("codec", CODECS[:4])
def test_bytes_of_a_super_chunk(codec: str, source: str | None, tmp_path: Path, rng: np.random.Generator) -> None:
    data = items_of("<i4", (20_000,), rng).tobytes()
    path = str(tmp_path / "x.b2frame")
    cparams = {**encoding(codec, "SHUFFLE"), "typesize": 4, "blocksize": 8192}
    blosc2.SChunk(chunksize=30_000, data=data, urlpath=path, cparams=cparams)
    x = blosc2.open(path, mmap_mode=source)
    for start, stop in ((0, 1), (5, 50), (8000, 8200), (100, 30_100), (29_990, 30_010), (79_000, 80_000), (0, 80_000)):
        assert x.get_slice(start // 4, stop // 4 + 1) == data[start // 4 * 4 : (stop // 4 + 1) * 4]


@pytest.mark.parametrize("filter", FILTERS[:2])
@pytest.mark.parametrize("codec", CODECS[:4])
def test_damage_is_an_error_or_other_items(
    codec: str, filter: str, source: str | None, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Parts of chunks have no checksum. What is decoded stays within its block, whatever the bytes say."""
    data = items_of("<f4", (64, 64), rng)
    path = tmp_path / "x.b2nd"
    blosc2.asarray(data, chunks=(64, 64), blocks=(32, 64), urlpath=str(path), cparams=encoding(codec, filter))
    whole = bytearray(path.read_bytes())
    start, stop = blosc2.open(str(path))._handle.frame.chunks_range
    seen = set()
    for at in rng.integers(start + 32, stop, 300):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        x = blosc2.open(str(path), mmap_mode=source)
        for key in (np.s_[3, 5:25], np.s_[10:40, 7:50], np.s_[33]):
            try:
                seen.add(same(x[key], data[key]))
            except FormatError:
                seen.add("refused")
    assert seen >= {True, False}


@pytest.mark.parametrize("filter", FILTERS[:2])
@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_formats_of_zstd_before_blosc_had_it_are_not_decoded(version: int, filter: str) -> None:
    """Frames of 0.5 and 0.6, made by hand, hold the bytes as they are; so do those of 0.7 and today's (8)."""
    data = bytes(range(200))
    made = blosc2.compress2(b"abcdefgh" * 25, typesize=1, **{**encoding("ZSTD", filter), "filters_meta": [0]})
    if version == 8:
        frame = b"\x28\xb5\x2f\xfd\x20" + bytes([200]) + (1 | 200 << 3).to_bytes(3, "little") + data
    else:
        about = bytes(2 if version == 7 else 1)
        frame = bytes([0x20 + version]) + b"\xb5\x2f\xfd" + about + b"\x40\x00\xc8" + data + b"\xc0\x00\x00"
    stream = struct.pack("<ii", 36, len(frame)) + frame
    chunk = made[:12] + struct.pack("<i", 32 + len(stream)) + made[16:32] + stream
    if version >= 7:
        assert blosc2.decompress2(chunk) == data
    elif sys.platform == "linux" and "libblosc2" not in Path("/proc/self/maps").read_text():
        with pytest.raises(FormatError, match="damaged"):
            blosc2.decompress2(chunk)


def test_extension_types_are_not_pickled(tmp_path: Path) -> None:
    """Their fields are C's: a copy without them would crash."""
    store = tmp_path / "x.b2z"
    with blosc2.TreeStore(str(store), mode="w") as made:
        made["/a"] = np.arange(10)
    with blosc2.open(str(store), mode="r") as opened:
        handle = opened["/a"]._handle
        for thing in (handle.frame, handle.frame.source):
            assert type(thing).__module__.startswith("blosc2._core.")
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(TypeError, match="pickle"):
                    pickle.dumps(thing, protocol)
            with pytest.raises(TypeError, match="pickle"):
                copy.copy(thing)
