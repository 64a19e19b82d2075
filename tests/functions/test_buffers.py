"""Buffers to chunks and back: every parameter and kind of buffer, older chunks, pickles, and damaged bytes."""

from __future__ import annotations

import array
import contextlib
import ctypes
import inspect
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fixture_kit.mutation import mutate
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter, FormatError, SplitMode
from blosc2.exceptions import ChunkSizeError

CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD]
FILTERS = [Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE, Filter.DELTA]
DECODERS: list[Callable[..., Any]] = [blosc2.decompress, blosc2.decompress2]
BOTH = pytest.mark.parametrize("decode", DECODERS)


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What is set for the whole process is as it was afterwards."""
    yield
    blosc2.set_blocksize(0)
    blosc2.set_compressor(Codec.BLOSCLZ)
    blosc2.set_releasegil(False)


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that compress a little."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 40, size) * rng.integers(0, 2, size)).astype(np.uint8).tobytes()


def check(chunk: bytes, data: bytes) -> None:
    """A chunk holds these bytes, by every way to get at them."""
    assert type(chunk) is bytes
    assert blosc2.get_cbuffer_sizes(chunk)[:2] == (len(data), len(chunk))
    assert blosc2.decompress(chunk) == blosc2.decompress2(chunk) == data
    both = blosc2.decompress(chunk, as_bytearray=True)
    assert (type(both), both) == (bytearray, data)
    for source in (bytearray(chunk), memoryview(chunk), np.array([chunk]), chunk + b"what follows"):
        assert blosc2.decompress2(source) == data
    for decode in DECODERS if data else []:
        for room in (len(data), len(data) + 5):
            out = bytearray(b"\xa5" * room)
            assert decode(chunk, out) is None
            assert out == data + b"\xa5" * (room - len(data))


# --------------------------------------------------------------------- round trips


@given(
    data=st.binary(max_size=300) | st.builds(noise, st.integers(0, 5000), st.integers(0, 9)),
    typesize=st.sampled_from([1, 2, 3, 4, 7, 8, 16, 255, 256, 1000]),
    clevel=st.integers(0, 9),
    codec=st.sampled_from(CODECS),
    filters=st.lists(st.sampled_from(FILTERS), max_size=6),
    splitmode=st.sampled_from(list(SplitMode)),
    blocksize=st.sampled_from([0, 0, 1, 33, 256, 4096]),
    use_dict=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_what_compress2_makes_decompresses(data: bytes, use_dict: bool, codec: Codec, **how: Any) -> None:
    use_dict = use_dict and codec in (Codec.ZSTD, Codec.LZ4, Codec.LZ4HC)
    many = len([item for item in how["filters"] if item is not Filter.NOFILTER]) > 2
    if how["filters"].count(Filter.DELTA) > (not many):
        with pytest.raises(ValueError, match="DELTA can be used once"):
            blosc2.compress2(data, codec=codec, use_dict=use_dict, **how)
        return
    if many and use_dict:
        with pytest.raises(ValueError, match="dictionary"):
            blosc2.compress2(data, codec=codec, use_dict=use_dict, **how)
        return
    check(blosc2.compress2(data, codec=codec, use_dict=use_dict, **how), data)


@given(
    data=st.builds(noise, st.integers(0, 3000), st.integers(0, 9)),
    typesize=st.sampled_from([1, 2, 3, 8, 255, 256, 700]),
    clevel=st.integers(0, 9),
    codec=st.sampled_from(CODECS),
    filter=st.sampled_from(list(Filter)),
)
@settings(max_examples=200, deadline=None)
def test_what_compress_makes_decompresses(data: bytes, typesize: int, **how: Any) -> None:
    check(blosc2.compress(data, typesize, _ignore_multiple_size=True, **how), data)
    whole = data[: len(data) - len(data) % typesize]
    check(blosc2.compress(whole, typesize, **how), whole)


@pytest.mark.parametrize("nthreads", [1, 2, 5])
@pytest.mark.parametrize("fill", ["zeros", "ramp", "noise", "uneven"])
@pytest.mark.parametrize("clevel", [0, 1])
def test_large_buffers_by_threads(nthreads: int, fill: str, clevel: int, rng: np.random.Generator) -> None:
    items = {
        "zeros": np.zeros(1 << 18), "ramp": np.arange(1 << 18), "noise": rng.random(1 << 18),
        "uneven": rng.integers(0, 9, 2_000_003, dtype=np.uint8),
    }[fill]  # fmt: skip
    data = items.tobytes()
    for typesize in (1, 8, 300):
        for use_dict in (False, True):
            chunk = blosc2.compress2(items, typesize=typesize, clevel=clevel, nthreads=nthreads, use_dict=use_dict)
            assert blosc2.decompress2(chunk, nthreads=nthreads) == data
            out = np.zeros(len(data) + 3, np.uint8)
            blosc2.decompress2(chunk, out, nthreads=nthreads)
            assert out[:-3].tobytes() == data
            assert not out[-3:].any()


@pytest.mark.parametrize("filters", [[1, 2, 35], [4, 1, 35], [2, 1, 2, 1], [35] * 3, [1] * 6], ids=str)
def test_many_filters_leave_the_source_alone(filters: list[int], rng: np.random.Generator) -> None:
    metas = [{35: 4, 4: 20}.get(item, 0) for item in filters]
    for items in (np.arange(20_000, dtype="f4") % 977, rng.random(20_000, "f4"), np.zeros(5000, "f4")):
        for size in (items.size, 7, 100):
            before = items[:size].tobytes()
            source = bytes(bytearray(before))
            for data in (items[:size], source):
                chunk = blosc2.compress2(data, filters=filters, filters_meta=metas, typesize=4, codec=Codec.BLOSCLZ)
                assert (items[:size].tobytes(), source) == (before, before)
                got = np.frombuffer(blosc2.decompress2(chunk), "f4")
                assert np.allclose(got, items[:size], rtol=2.0**-19) if 4 in filters else got.tobytes() == before


BUFFERS = [
    np.arange(10), np.arange(6).reshape(2, 3), np.array(5), np.zeros((0, 3)), np.arange(6, dtype=">i4"),
    np.array([b"ab", b"c"]), np.array(["ab", "c"]), np.arange(3).astype("M8[s]"), np.arange(3).astype("m8[ns]"),
    np.array(7).astype("M8[D]"), np.zeros(2, "c16"), np.zeros(3, bool), np.arange(4, dtype="f2"),
    np.zeros(2, [("a", "i4"), ("b", "M8[s]")]), bytearray(b"abc"), memoryview(b"abcdef")[::2],
    array.array("d", [1.5, 2.5]), (ctypes.c_int * 3)(1, 2, 3),
]  # fmt: skip


@pytest.mark.parametrize("buffer", BUFFERS, ids=lambda b: f"{type(b).__name__}-{getattr(b, 'dtype', '')}")
def test_buffers_of_every_kind(buffer: Any) -> None:
    data = buffer.tobytes() if hasattr(buffer, "tobytes") else bytes(buffer)
    check(blosc2.compress2(buffer, typesize=1), data)
    check(blosc2.compress(buffer, 1), data)


def test_strided_arrays_are_taken_in_c_order() -> None:
    for items in (np.arange(20)[::2], np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(9).astype("M8[s]")[::4]):
        check(blosc2.compress2(items), items.tobytes())


DESTINATIONS = [
    np.zeros(4, "i4"), np.zeros((2, 2), "i4"), np.zeros(2, "M8[s]"), np.zeros((), "c16"), np.zeros(1, "S20"),
    np.zeros(2, [("a", "i4"), ("b", "m8[s]")]), bytearray(16), memoryview(bytearray(20)), array.array("d", [0, 0]),
    memoryview(np.zeros(16, "i1")),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("out", DESTINATIONS, ids=lambda b: f"{type(b).__name__}-{getattr(b, 'dtype', '')}")
def test_destinations_of_every_kind(decode: Callable[..., Any], out: Any) -> None:
    data = bytes(range(1, 17))
    assert decode(blosc2.compress2(data), out) is None
    assert (out.tobytes() if hasattr(out, "tobytes") else bytes(out))[:16] == data


@BOTH
def test_a_destination_that_overlaps_the_source(decode: Callable[..., Any]) -> None:
    data = np.arange(50_000, dtype="i8")
    chunk = blosc2.compress2(data)
    room = bytearray(chunk) + bytearray(data.nbytes)
    view = memoryview(room)
    decode(view[: len(chunk)], view[20 : 20 + data.nbytes])
    assert view[20 : 20 + data.nbytes] == data.tobytes()


def test_a_chunk_of_a_super_chunk_decompresses() -> None:
    data = noise(1000)
    schunk = blosc2.SChunk(chunksize=300, data=data, cparams={"typesize": 1})
    assert b"".join(blosc2.decompress2(schunk.get_chunk(n)) for n in range(4)) == data


def test_all_nan_and_repeated_values() -> None:
    schunk = blosc2.SChunk(chunksize=80_000, cparams={"typesize": 4})
    schunk.fill_special(20_000, blosc2.SpecialValue.NAN)
    schunk.fill_special(20_000, blosc2.SpecialValue.VALUE, 7)
    nan, seven = (schunk.get_chunk(n) for n in range(2))
    out = np.zeros(20_000, "f4")
    blosc2.decompress2(nan, out)
    assert np.isnan(out).all()
    assert np.array_equal(np.frombuffer(blosc2.decompress(seven), "i4"), np.full(20_000, 7, "i4"))


# --------------------------------------------------------------------- parameters


def test_signatures() -> None:
    assert str(inspect.signature(blosc2.compress)).startswith(
        "(src: 'Any', typesize: 'int | None' = 8, clevel: 'int' = 1, filter: 'Filter' = <Filter.SHUFFLE: 1>, "
        "codec: 'Codec' = <Codec.ZSTD: 5>, _ignore_multiple_size: 'bool' = False)"
    )
    assert list(inspect.signature(blosc2.decompress).parameters) == ["src", "dst", "as_bytearray"]
    assert list(inspect.signature(blosc2.decompress2).parameters) == ["src", "dst", "kwargs"]
    assert list(inspect.signature(blosc2.compress2).parameters) == ["src", "kwargs"]


def test_parameters_reach_the_chunk() -> None:
    data = np.arange(10_000, dtype="i4")
    chunk = blosc2.compress2(data, codec=Codec.ZLIB, typesize=4, blocksize=4000, filters=[Filter.BITSHUFFLE])
    assert (chunk[3], chunk[22], tuple(chunk[16:22])) == (4, Codec.ZLIB.value, (2, 0, 0, 0, 0, 0))
    assert blosc2.get_cbuffer_sizes(chunk)[2] == 4000
    given = {"codec": Codec.LZ4, "clevel": 3}
    for how in ({"cparams": given}, {"cparams": blosc2.CParams(**given)}, given):
        assert blosc2.compress2(data, **how)[22] == Codec.LZ4.value
    assert blosc2.compress(data, 4, 9, Filter.BITSHUFFLE, Codec.BLOSCLZ)[21:23] == bytes((2, 0))
    assert blosc2.compress(data, 1, 9)[16:22] == bytes(6)  # nothing to shuffle


@pytest.mark.parametrize(
    ("dtype", "filter", "bits"),
    [("f4", Filter.TRUNC_PREC, -10), ("f8", Filter.TRUNC_PREC, -30), ("i8", Filter.INT_TRUNC, -50),
     ("i4", Filter.INT_TRUNC, -20), ("i2", Filter.INT_TRUNC, -10), ("i1", Filter.INT_TRUNC, -5)],
)  # fmt: skip
def test_bits_to_remove(dtype: str, filter: Filter, bits: int) -> None:
    data = (np.arange(100) * 1.1).astype(dtype)
    how = {"filters": [filter, Filter.SHUFFLE], "filters_meta": [bits, 0], "typesize": data.itemsize}
    for keywords in (how, {"cparams": how}):
        out = np.empty_like(data)
        chunk = blosc2.compress2(data, **keywords)
        blosc2.decompress2(chunk, out)
        assert struct.unpack("b", chunk[24:25]) == (bits,)
        if filter is Filter.INT_TRUNC:
            assert (np.abs(data.astype("i8") - out.astype("i8")) <= 2**-bits).all()
        else:
            kept = {"f4": 23, "f8": 52}[dtype] + bits
            assert np.allclose(out, data, rtol=2.0**-kept, atol=0)
            assert not np.array_equal(out, data)


def test_negative_numbers_are_checked_where_they_mean_nothing() -> None:
    with pytest.raises(ValueError, match="filters_meta"):
        blosc2.compress2(b"a" * 64, filters=[Filter.TRUNC_PREC], filters_meta=[-129])
    with pytest.raises(ValueError, match="cannot exceed number of filters meta"):
        blosc2.compress2(b"a" * 64, filters=[Filter.TRUNC_PREC, Filter.SHUFFLE], filters_meta=[-1])


BAD_CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: blosc2.compress(b"0123456789"), ValueError, r"can only be a multiple of typesize \(8\)"),
    (lambda: blosc2.compress(np.zeros(3, "i2"), 4), ValueError, "multiple of typesize"),
    (lambda: blosc2.compress(b"a", 0), ValueError, "typesize can only be in the 1-536866816 range"),
    (lambda: blosc2.compress(b"a", blosc2.MAX_TYPESIZE + 1), ValueError, "typesize can only"),
    (lambda: blosc2.compress(b"a", 1, -1), ValueError, "clevel can only be in the 0-9 range"),
    (lambda: blosc2.compress(b"a", 1, 10), ValueError, "clevel can only"),
    (lambda: blosc2.compress(b"a", True), TypeError, "typesize must be an integer"),
    (lambda: blosc2.compress(b"a", 1.0), TypeError, "typesize must be an integer"),  # type: ignore[arg-type]
    (lambda: blosc2.compress(b"a", 1, "a"), TypeError, "clevel must be"),  # type: ignore[arg-type]
    (lambda: blosc2.compress(b"a", 1, 1, 1), TypeError, "filter must be"),  # type: ignore[arg-type]
    (lambda: blosc2.compress(b"a", 1, codec="lz4"), AttributeError, "codec must be"),  # type: ignore[arg-type]
    (lambda: blosc2.compress(b"a", 1, codec=Codec.NDLZ), ValueError, "NDLZ compresses arrays"),
    (lambda: blosc2.compress(1.0, 1), TypeError, "bytes-like"),
    (lambda: blosc2.compress(["abc"], 1), TypeError, "bytes-like"),
    (lambda: blosc2.compress("abc", 1), TypeError, "bytes-like"),
    (lambda: blosc2.compress2("abc"), TypeError, "bytes-like"),
    (lambda: blosc2.compress2(None), TypeError, "bytes-like"),
    (lambda: blosc2.compress2(np.array([object()])), TypeError, "pointers"),
    (lambda: blosc2.compress2(np.zeros(2, [("a", "O")])), TypeError, "pointers"),
    (lambda: blosc2.compress2(b"a", foo=1), TypeError, "foo"),
    (lambda: blosc2.compress2(b"a", clevel=10), ValueError, "clevel"),
    (lambda: blosc2.compress2(b"a", cparams={"clevel": 1}, clevel=1), AttributeError, "Cannot pass both cparams"),
    (lambda: blosc2.compress2(b"a" * 64, codec=Codec.NDLZ), ValueError, "blocks of arrays"),
    (lambda: blosc2.compress2(b"a" * 64, codec=Codec.ZFP_ACC), ValueError, "blocks of arrays"),
    (lambda: blosc2.compress2(b"a" * 64, filters=[Filter.NDCELL], filters_meta=[4]), ValueError, "blocks of arrays"),
    (lambda: blosc2.decompress2(b"a" * 64, dparams={"nthreads": 1}, nthreads=1), AttributeError, "Cannot pass both"),
    (lambda: blosc2.decompress2(b"a" * 64, foo=1), TypeError, "foo"),
    (lambda: blosc2.decompress2(b"a" * 64, nthreads=0), ValueError, "nthreads"),
    (lambda: blosc2.set_blocksize(-1), ValueError, "blocksize"),
    (lambda: blosc2.set_blocksize(2**30), ValueError, "blocksize"),
    (lambda: blosc2.set_blocksize("a"), TypeError, "blocksize"),  # type: ignore[arg-type]
    (lambda: blosc2.set_compressor("lz4"), AttributeError, "codec must be"),  # type: ignore[arg-type]
    (lambda: blosc2.set_compressor(Codec.ZFP_ACC), ValueError, "does not compress buffers"),
    (lambda: blosc2.clib_info("lz4"), AttributeError, "codec must be"),  # type: ignore[arg-type]
    (lambda: blosc2.clib_info(1), TypeError, "codec must be"),  # type: ignore[arg-type]
    (lambda: blosc2.get_clib(5), TypeError, "bytes-like"),
    (lambda: blosc2.get_clib(b""), ValueError, "Cannot get the info"),
    (lambda: blosc2.get_clib(b"xx" * 20), ValueError, "Cannot get the info"),
    (lambda: blosc2.get_cbuffer_sizes(b"a" * 15), ValueError, "less than 16"),
    (lambda: blosc2.get_cbuffer_sizes(b"x" * 40), RuntimeError, "header"),
    (lambda: blosc2.get_cbuffer_sizes(5), TypeError, "bytes-like"),
]


@pytest.mark.parametrize(("call", "kind", "text"), BAD_CALLS)
def test_calls_that_are_refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_too_large_buffers_are_refused_by_their_length_alone() -> None:
    class Large:
        def __len__(self) -> int:
            return blosc2.MAX_BUFFERSIZE + 1

    with pytest.raises(ValueError, match="larger than 2147483615"):
        blosc2.compress(Large(), typesize=1)


def test_switches() -> None:
    assert blosc2.get_blocksize() == 0
    blosc2.set_blocksize(2**14)
    chunk = blosc2.compress(noise(100_000), 1)
    assert blosc2.get_blocksize() == blosc2.get_cbuffer_sizes(chunk)[2] == 2**14
    assert blosc2.get_cbuffer_sizes(blosc2.compress2(noise(100_000), typesize=1))[2] != 2**14
    assert blosc2.get_compressor() == "blosclz"
    for codec in blosc2.compressor_list():
        assert blosc2.set_compressor(codec) == codec.value
        assert blosc2.get_compressor() == codec.name.lower()
    assert [blosc2.set_releasegil(new) for new in (True, False, True)] == [False, True, False]


def test_compressors() -> None:
    assert blosc2.compressor_list() == CODECS
    assert set(blosc2.compressor_list(plugins=True)) == {
        *CODECS, Codec.NDLZ, Codec.ZFP_ACC, Codec.ZFP_PREC, Codec.ZFP_RATE}  # fmt: skip
    for codec, name in zip(CODECS, ["BloscLZ", "LZ4", "LZ4", "Zlib", "Zstd"], strict=True):
        library, version = blosc2.clib_info(codec)
        assert (library.decode(), type(version)) == (name, bytes)
        for make in (blosc2.compress2, blosc2.compress):
            chunk = make(noise(1000), codec=codec, typesize=1)
            assert blosc2.get_clib(chunk) == blosc2.get_clib(bytearray(chunk[:16])) == name
    assert blosc2.clib_info(Codec.NDLZ) == (b"ndlz", b"unknown")
    items = blosc2.asarray(np.linspace(0, 1, 64).reshape(8, 8), cparams={"codec": Codec.ZFP_ACC, "filters": []})
    assert blosc2.get_clib(items.schunk.get_chunk(0)) == "zfp_acc"


def test_sizes_of_a_header_alone() -> None:
    chunk = blosc2.compress2(noise(5000), typesize=1, blocksize=1000)
    for size in (16, 32, 100, len(chunk)):
        assert blosc2.get_cbuffer_sizes(chunk[:size]) == (5000, len(chunk), 1000)
    assert blosc2.get_cbuffer_sizes(blosc2.compress2(np.zeros(10**6, "V8")))[:2] == (8 * 10**6, blosc2.MAX_OVERHEAD)
    assert blosc2.get_cbuffer_sizes(blosc2.compress2(b""))[:2] == (0, 32)


def test_cpu_info() -> None:
    info = blosc2.get_cpu_info()
    assert info["count"] >= 1
    assert isinstance(info["arch"], str)
    assert all(type(size) is int and size > 0 for name, size in info.items() if name.endswith("cache_size"))


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
    odd = as_blosc1(blosc2.compress2(noise(2004), typesize=4, filters=[Filter.NOFILTER] * 5 + [Filter.BITSHUFFLE]))
    with pytest.raises(FormatError, match="multiple of 8"):
        decode(odd)
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
