"""Buffers to chunks and back: every parameter and kind of buffer, older chunks, pickles, and damaged bytes."""

from __future__ import annotations

import array
import ctypes
import dataclasses
import inspect
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fixture_kit.buffers import BOTH, CODECS, DECODERS, noise
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter, SplitMode

FILTERS = [Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE, Filter.DELTA]


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What is set for the whole process is as it was afterwards."""
    yield
    blosc2.set_blocksize(0)
    blosc2.set_compressor(Codec.BLOSCLZ)
    blosc2.set_releasegil(False)


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
    assert list(inspect.signature(blosc2.decompress2).parameters) == ["src", "dst", "nthreads"]
    fields = [field.name for field in dataclasses.fields(blosc2.CParams)]
    assert list(inspect.signature(blosc2.compress2).parameters) == ["src", *fields]


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
