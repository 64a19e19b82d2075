"""Buffers to chunks: chunks of Blosc 1, damaged bytes, pickles, other names."""

from __future__ import annotations

import contextlib
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fixture_kit.buffers import BOTH, CODECS, noise
from fixture_kit.mutation import mutate

import blosc2
from blosc2 import Codec, Filter, FormatError
from blosc2.exceptions import ChunkSizeError


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What is set for the whole process is as it was afterwards."""
    yield
    blosc2.set_blocksize(0)
    blosc2.set_compressor(Codec.BLOSCLZ)
    blosc2.set_releasegil(False)


# --------------------------------------------------------------------- chunks of Blosc 1

PYTHON_2_PICKLE = (
    b"\x02\x01\x03\x02" + struct.pack("<iii", 133, 132, 149) + b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01"
    b"cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03(K\x01K\x05\x85cnumpy\ndtype\nq\x04U\x02S2K\x00K\x01\x87Rq\x05("
    b"K\x03U\x01|NNNK\x02K\x01K\x00tb\x89U\n" + "åçøπ˚".encode() + b"tb."
)


def as_blosc1(chunk: bytes) -> bytes:
    """A chunk of today with the header of 16 bytes that Blosc 1 had; for shuffle, one codec, no dictionary."""
    nbytes, blocksize, cbytes = struct.unpack_from("<iii", chunk, 4)
    flags = (chunk[2] & ~5) | {0: 0, 1: 1, 2: 4}[chunk[21]]
    payload = chunk[32:]
    if not flags & 2:
        nblocks = -(-nbytes // blocksize)
        starts = [start - 16 for start in struct.unpack_from(f"<{nblocks}i", payload)]
        payload = struct.pack(f"<{nblocks}i", *starts) + payload[4 * nblocks :]
    return bytes((2, chunk[1], flags, chunk[3])) + struct.pack("<iii", nbytes, blocksize, cbytes - 16) + payload


@BOTH
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("filter", [Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE], ids=lambda f: f.name)
@pytest.mark.parametrize("clevel", [0, 5])
def test_chunks_of_blosc_1(decode: Callable[..., Any], codec: Codec, filter: Filter, clevel: int) -> None:
    for data in (noise(64), noise(80_000), noise(160_000, 3)):
        chunk = blosc2.compress2(data, codec=codec, filters=[Filter.NOFILTER] * 5 + [filter], typesize=4, clevel=clevel)
        old = as_blosc1(chunk)
        assert decode(old) == data
        assert decode(old + b"behind it") == data
        out = bytearray(len(data))
        decode(old, out)
        assert out == data
        assert blosc2.get_cbuffer_sizes(old)[:2] == (len(data), len(old))


@BOTH
def test_damaged_chunks_of_blosc_1(decode: Callable[..., Any]) -> None:
    data = bytes(range(100)) * 20
    old = as_blosc1(blosc2.compress2(data, typesize=4, blocksize=400, codec=Codec.LZ4))
    assert not old[2] & 2
    assert decode(old) == data
    for seed in range(500):
        damaged, _, _ = mutate(old, seed)
        with contextlib.suppress(FormatError):
            decode(damaged)
    irregular = as_blosc1(
        blosc2.compress2(noise(2004), typesize=4, filters=[Filter.NOFILTER] * 5 + [Filter.BITSHUFFLE])
    )
    with pytest.raises(FormatError, match="multiple of 8"):
        decode(irregular)
    for at, value in ((2, 0x40), (2, 0x09), (3, 0), (8, 0), (12, 15), (19, 0xFF)):
        damaged = (
            old[:at] + bytes((value,)) + (b"\0\0\0" if at in (8, 12) else b"") + old[at + (4 if at in (8, 12) else 1) :]
        )
        with pytest.raises(FormatError):
            decode(damaged)


# --------------------------------------------------------------------- bytes that are no chunks


@BOTH
def test_chunks_that_are_cut(decode: Callable[..., Any]) -> None:
    for data in (noise(500), b"a" * 500, bytes(500), noise(10), noise(300_000)):
        chunk = blosc2.compress2(data, typesize=1, blocksize=0 if len(data) < 1000 else 100_000)
        cuts = range(len(chunk)) if len(chunk) < 1000 else [0, 15, 16, 31, 32, 40, 1000, len(chunk) - 1]
        for cut in cuts:
            for wanted in (ValueError, RuntimeError):
                with pytest.raises(wanted):
                    decode(chunk[:cut])
                with pytest.raises(wanted):
                    decode(chunk[:cut], bytearray(len(data)))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_chunks_with_damage(codec: Codec) -> None:
    for size, more in ((700, {}), (700, {"use_dict": True}), (200_000, {"blocksize": 50_000})):
        if "use_dict" in more and codec in (Codec.BLOSCLZ, Codec.ZLIB):
            continue
        data = noise(size)
        chunk = blosc2.compress2(data, typesize=4, codec=codec, **more)
        room = bytearray(len(data) + 100)
        for seed in range(200):
            damaged, _, _ = mutate(chunk, seed)
            room[len(data) :] = b"\x5a" * 100
            for decode, nthreads in ((blosc2.decompress, {}), (blosc2.decompress2, {"nthreads": 2})):
                with contextlib.suppress(FormatError, ChunkSizeError):
                    decode(damaged, memoryview(room)[: len(data)], **nthreads)
            assert room[len(data) :] == b"\x5a" * 100  # nothing is written behind the destination


@BOTH
@pytest.mark.parametrize("blocksize", [0, -1, -(2**31), 2**31 - 1, 3])
def test_blocks_that_nobody_needs(decode: Callable[..., Any], blocksize: int) -> None:
    """A raw or special chunk has no blocks, whatever it says."""
    data = noise(300_000)
    raw = bytearray(blosc2.compress2(data, typesize=4, clevel=0))
    zeros = bytearray(blosc2.compress2(bytes(300_000), typesize=4))
    assert raw[2] & 2
    assert len(zeros) == 32
    for chunk, want in ((raw, data), (zeros, bytes(300_000))):
        chunk[8:12] = struct.pack("<i", blocksize)
        assert decode(chunk) == want
        out = bytearray(300_000)
        decode(chunk, out)
        assert out == want


@BOTH
@pytest.mark.parametrize("claim", [2**31 - 33, 2**31 - 1, 10**9, -1])
def test_claims_of_sizes_take_no_memory(decode: Callable[..., Any], claim: int) -> None:
    chunk = bytearray(blosc2.compress2(noise(1000), typesize=1))
    chunk[4:8] = struct.pack("<i", claim)
    raw = bytearray(blosc2.compress2(noise(1000), typesize=1, clevel=0))
    raw[4:8] = struct.pack("<i", claim)
    tracemalloc.start()
    try:
        for damaged in (bytes(chunk), bytes(raw)):
            with pytest.raises(FormatError):
                decode(damaged)
            with pytest.raises((FormatError, ChunkSizeError)):
                decode(damaged, bytearray(1000))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@BOTH
def test_destinations_that_do_not_do(decode: Callable[..., Any]) -> None:
    for data in (noise(100), noise(100_000)):
        chunk = blosc2.compress2(data, typesize=1)
        for kind in (ValueError, RuntimeError):
            with pytest.raises(kind, match=f"{len(data)} are needed"):
                decode(chunk, bytearray(len(data) - 1))
        for out in (b"x" * len(data), np.zeros(2 * len(data), np.uint8)[::2]):
            with pytest.raises(ValueError, match="writable and C-contiguous"):
                decode(chunk, out)
        with pytest.raises(ValueError, match="must not hold objects"):
            decode(chunk, np.zeros(len(data), object))
        with pytest.raises(ValueError, match="must not hold objects"):
            decode(chunk, memoryview(np.zeros(len(data), [("a", object)])))
        for empty in (bytearray(), np.zeros((3, 0))):
            with pytest.raises(ValueError, match="must be greater than 0"):
                decode(chunk, empty)
        for out in ("abc", 5, [1]):
            with pytest.raises(TypeError):
                decode(chunk, out)
    with pytest.raises(ValueError, match="must be greater than 0"):
        decode(blosc2.compress2(b""), bytearray())
    for source in (1.0, ["abc"], "abc", None):
        with pytest.raises(TypeError, match="bytes-like"):
            decode(source)
    with pytest.raises(FormatError, match="less than 16"):
        decode(b"")
    assert decode(blosc2.compress2(b"")) == decode(blosc2.compress(b"")) == b""


def test_errors_name_the_function() -> None:
    chunk = blosc2.compress2(noise(1000), typesize=1)[:-1]
    with pytest.raises(RuntimeError, match="Cannot decompress"):
        blosc2.decompress(chunk)
    with pytest.raises(ValueError, match="Error while decompressing"):
        blosc2.decompress2(chunk)


# --------------------------------------------------------------------- pickles


@pytest.mark.parametrize("dtype", ["i8", "f4", "S3", "U2", "M8[s]", "O", [("a", "i4"), ("b", "O")]], ids=str)
def test_arrays_as_pickles(dtype: Any) -> None:
    items = np.arange(12).astype("i8").astype(dtype).reshape(3, 4)
    for pack, unpack in ((blosc2.pack, blosc2.unpack), (blosc2.pack_array, blosc2.unpack_array)):
        got = unpack(pack(items, clevel=3, filter=Filter.NOFILTER, codec=Codec.LZ4))
        assert (got.dtype, got.tolist()) == (items.dtype, items.tolist())


def test_objects_as_pickles() -> None:
    class_like = np.float64(2.5)
    assert blosc2.unpack(blosc2.pack(class_like)) == 2.5
    for obj in ({"a": 1}, 5, b"x", [1], "a", 1.0):
        for pack in (blosc2.pack, blosc2.pack_array):
            with pytest.raises(AttributeError, match="itemsize"):
                pack(obj)
    with pytest.raises(AttributeError, match="size"):
        blosc2.pack_array(memoryview(b"abc"))  # type: ignore[arg-type]
    for level in (-1, 10):
        with pytest.raises(ValueError, match="clevel"):
            blosc2.pack_array(np.ones(1), clevel=level)
    assert blosc2.unpack_array(blosc2.pack_array(np.zeros(3, "S0"))).shape == (3,)


def test_unpickling_what_is_no_pickle() -> None:
    for unpack in (blosc2.unpack, blosc2.unpack_array):
        with pytest.raises(TypeError, match="bytes-like"):
            unpack(1.0)
        with pytest.raises(FormatError):
            unpack(b"abc")
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            unpack(blosc2.compress(b"not a pickle", 1))
        with pytest.raises(EOFError):
            unpack(blosc2.compress(b"", 1))
    assert "any code" in (blosc2.unpack.__doc__ or "")
    assert "any code" in (blosc2.unpack_array.__doc__ or "")


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
def test_text_of_python_2() -> None:
    text = np.array(list("åçøπ˚"))
    with pytest.raises(UnicodeDecodeError):
        blosc2.unpack_array(PYTHON_2_PICKLE)
    np.testing.assert_array_equal(blosc2.unpack_array(PYTHON_2_PICKLE, encoding="bytes"), text)
    np.testing.assert_array_equal(blosc2.unpack_array(blosc2.pack_array(text), encoding="UTF-8"), text)
    bytes_of_text = np.char.encode(text.reshape(5, 1), "utf-8")
    got = blosc2.unpack_array(blosc2.pack_array(bytes_of_text), encoding="UTF-8")
    assert (got.shape, got.dtype.kind) == ((5, 1), "U")
    assert blosc2.unpack_array(blosc2.pack_array(bytes_of_text)).dtype.kind == "S"


# --------------------------------------------------------------------- under another name


def test_the_names_of_the_extension_module(tmp_path: Any) -> None:
    ext = blosc2.blosc2_ext
    data = noise(100)
    assert ext.decompress2(ext.compress2(data, typesize=1)) == data
    for name in ("check_access_mode", "encode_tuple", "vlcompress"):
        with pytest.raises(AttributeError, match=f"no '{name}'"):
            getattr(ext, name)
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(np.arange(10), urlpath=path, meta={"m": 1}).vlmeta["v"] = 2
    for mmap_mode in (None, "r"):
        found = ext.open(path, "r", 0, mmap_mode=mmap_mode, dparams=blosc2.DParams(nthreads=1), locking=False)
        assert (found.schunk.vlmeta["v"], found.meta["m"], found[3]) == (2, 1, 3)
        with pytest.raises(ValueError, match="reading mode"):
            found.vlmeta["v"] = 3
    ext.open(path, "a", 0).vlmeta["v"] = 3
    assert blosc2.open(path).vlmeta["v"] == 3
    plain = str(tmp_path / "x.b2frame")
    blosc2.SChunk(data=data, urlpath=plain)
    assert type(ext.open(plain, mode="r", offset=0)) is blosc2.SChunk
    store = str(tmp_path / "x.b2e")
    blosc2.EmbedStore(store, mode="w").close()
    assert "b2embed" in ext.open(store, "r", 0).meta


def test_the_extension_modules_open_refuses(tmp_path: Any) -> None:
    ext = blosc2.blosc2_ext
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(np.arange(10), urlpath=path)
    before = (tmp_path / "x.b2nd").read_bytes()
    for call, kind in (
        (lambda: ext.open(str(tmp_path / "nope"), "r", 0), RuntimeError),
        (lambda: ext.open(str(tmp_path / "nope"), "r", 0), FileNotFoundError),
        (lambda: ext.open(path, "r", 3), RuntimeError),
        (lambda: ext.open(path, "r", -1), ValueError),
        (lambda: ext.open(path, "r", 0, foo=1), ValueError),
        (lambda: ext.open(path, "w", 0), ValueError),
        (lambda: ext.open(path, "q", 0), ValueError),
        (lambda: ext.open(path), TypeError),  # type: ignore[call-arg]
    ):
        with pytest.raises(kind):
            call()
    assert (tmp_path / "x.b2nd").read_bytes() == before


def test_constants() -> None:
    assert (blosc2.MIN_HEADER_LENGTH, blosc2.EXTENDED_HEADER_LENGTH, blosc2.MAX_OVERHEAD) == (16, 32, 32)
    assert (blosc2.DEFINED_CODECS_STOP, blosc2.GLOBAL_REGISTERED_CODECS_STOP) == (31, 159)
    assert (blosc2.USER_REGISTERED_CODECS_STOP, blosc2.MAX_DIM, blosc2.MAX_BUFFERSIZE) == (255, 16, 2147483615)
    assert (blosc2.IS_WASM, blosc2._HAS_NUMBA, type(blosc2.VERSION_DATE)) == (False, False, str)
