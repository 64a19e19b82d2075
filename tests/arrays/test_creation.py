"""Constructors of arrays against those of NumPy, and everything that they refuse."""

from __future__ import annotations

import os
import tracemalloc
from array import array as array_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.cases import DTYPES, STRUCTURED, assert_same, values
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter

ARRAYS: dict[str, tuple[Any, np.ndarray[Any, Any]]] = {
    "zeros": (lambda **k: blosc2.zeros((5, 7), **k), np.zeros((5, 7))),
    "zeros, int": (lambda **k: blosc2.zeros(5, "i4", **k), np.zeros(5, "i4")),
    "zeros, list": (lambda **k: blosc2.zeros([2, 3], np.uint8, **k), np.zeros((2, 3), np.uint8)),
    "zeros, 0-d": (lambda **k: blosc2.zeros((), **k), np.zeros(())),
    "zeros, none": (lambda **k: blosc2.zeros((3, 0, 2), **k), np.zeros((3, 0, 2))),
    "zeros, NumPy int": (lambda **k: blosc2.zeros(np.int64(3), **k), np.zeros(3)),
    "empty": (lambda **k: blosc2.empty((5, 7), dtype="S3", **k), np.zeros((5, 7), "S3")),
    "uninit": (lambda **k: blosc2.uninit((5, 7), dtype="f4", **k), np.zeros((5, 7), "f4")),
    "nans": (lambda **k: blosc2.nans((5, 7), **k), np.full((5, 7), np.nan)),
    "ones": (lambda **k: blosc2.ones((5, 7), **k), np.ones((5, 7))),
    "ones, bool": (lambda **k: blosc2.ones(3, bool, **k), np.ones(3, bool)),
    "full": (lambda **k: blosc2.full((5, 7), 3, **k), np.full((5, 7), 3)),
    "full, float": (lambda **k: blosc2.full(5, 2.5, dtype=">f4", **k), np.full(5, 2.5, ">f4")),
    "full, bytes": (lambda **k: blosc2.full(5, b"abc", **k), np.full(5, b"abc")),
    "full, str": (lambda **k: blosc2.full(5, "añb", **k), np.full(5, "añb")),
    "full, date": (
        lambda **k: blosc2.full(2, np.datetime64("2020-01-01"), **k),
        np.full(2, np.datetime64("2020-01-01")),
    ),
    "full, complex": (lambda **k: blosc2.full(2, 1 - 2j, **k), np.full(2, 1 - 2j)),
    "full, zero": (lambda **k: blosc2.full(2, 0, **k), np.full(2, 0)),
    "full, 0-d": (lambda **k: blosc2.full((), 7, **k), np.full((), 7)),
    "arange": (lambda **k: blosc2.arange(10, **k), np.arange(10)),
    "arange, start": (lambda **k: blosc2.arange(3, 10, **k), np.arange(3, 10)),
    "arange, step": (lambda **k: blosc2.arange(0, 1, 0.1, **k), np.arange(0, 1, 0.1)),
    "arange, down": (lambda **k: blosc2.arange(10, 0, -3, dtype="i2", **k), np.arange(10, 0, -3, dtype="i2")),
    "arange, shape": (lambda **k: blosc2.arange(12, shape=(3, 4), **k), np.arange(12).reshape(3, 4)),
    "arange, nothing": (lambda **k: blosc2.arange(5, 3, **k), np.arange(5, 3)),
    "linspace": (lambda **k: blosc2.linspace(0, 1, 5, **k), np.linspace(0, 1, 5)),
    "linspace, one": (lambda **k: blosc2.linspace(0, 1, 1, **k), np.linspace(0, 1, 1)),
    "linspace, shape": (lambda **k: blosc2.linspace(0, 5, shape=(2, 3), **k), np.linspace(0, 5, 6).reshape(2, 3)),
    "linspace, open": (
        lambda **k: blosc2.linspace(0, 5, 4, endpoint=False, dtype="f4", **k),
        np.linspace(0, 5, 4, endpoint=False, dtype="f4"),
    ),
    "eye": (lambda **k: blosc2.eye(4, **k), np.eye(4)),
    "eye, k": (lambda **k: blosc2.eye(4, 6, k=-1, dtype="i4", **k), np.eye(4, 6, k=-1, dtype="i4")),
    "frombuffer": (
        lambda **k: blosc2.frombuffer(bytes(range(30)), (2, 3), dtype=">u2", **k),
        np.frombuffer(bytes(range(12)), ">u2").reshape(2, 3),
    ),
    "frombuffer, bytearray": (
        lambda **k: blosc2.frombuffer(bytearray(b"abc"), 3, **k),
        np.frombuffer(b"abc", np.uint8),
    ),
    "fromiter": (
        lambda **k: blosc2.fromiter(iter(range(100)), (2, 3), "f4", **k),
        np.arange(6, dtype="f4").reshape(2, 3),
    ),
    "asarray, list": (lambda **k: blosc2.asarray([[1, 2], [3, 4]], **k), np.array([[1, 2], [3, 4]])),
    "asarray, scalar": (lambda **k: blosc2.asarray(2.5, **k), np.array(2.5)),
    "asarray, dtype": (lambda **k: blosc2.asarray([1, 2], dtype="i1", **k), np.array([1, 2], "i1")),
    "asarray, texts": (lambda **k: blosc2.asarray(["a", "bcd"], **k), np.array(["a", "bcd"])),
    "asarray, Fortran": (
        lambda **k: blosc2.asarray(np.asfortranarray(np.arange(6).reshape(2, 3)), **k),
        np.arange(6).reshape(2, 3),
    ),
    "asarray, strides": (
        lambda **k: blosc2.asarray(np.arange(60).reshape(6, 10)[::-2, ::3], **k),
        np.arange(60).reshape(6, 10)[::-2, ::3],
    ),
    "asarray, broadcast": (
        lambda **k: blosc2.asarray(np.broadcast_to(np.arange(3), (4, 3)), **k),
        np.broadcast_to(np.arange(3), (4, 3)),
    ),
    "array": (lambda **k: blosc2.array([1.5, 2], **k), np.array([1.5, 2])),
    "zeros_like": (lambda **k: blosc2.zeros_like(np.ones((2, 3), "i2"), **k), np.zeros((2, 3), "i2")),
    "ones_like": (lambda **k: blosc2.ones_like(blosc2.zeros((2, 3), "i2"), **k), np.ones((2, 3), "i2")),
    "empty_like": (lambda **k: blosc2.empty_like(np.ones(3), dtype="f4", **k), np.zeros(3, "f4")),
    "full_like": (lambda **k: blosc2.full_like(np.ones(3, "i8"), 5, **k), np.full(3, 5)),
}

each_array = pytest.mark.parametrize("name", ARRAYS)


@each_array
def test_constructors_are_those_of_numpy(name: str, tmp_path: Path) -> None:
    make, want = ARRAYS[name]
    want = np.ascontiguousarray(want).reshape(want.shape)
    for keywords in ({}, {"urlpath": tmp_path / "a.b2nd", "meta": {"m": 1}, "cparams": {"codec": Codec.LZ4}}):
        array = make(**keywords)
        assert isinstance(array, blosc2.NDArray)
        assert_same(array[...], want)
        assert array.urlpath == (str(keywords["urlpath"]) if keywords else None)
    assert_same(blosc2.open(tmp_path / "a.b2nd")[...], want)
    assert array.meta["m"] == 1
    assert array.cparams.codec is Codec.LZ4


@each_array
def test_an_existing_file_is_not_touched(name: str, tmp_path: Path) -> None:
    make, want = ARRAYS[name]
    path = tmp_path / "a.b2nd"
    path.write_bytes(b"mine")
    for mode in ("a", "x"):
        with pytest.raises(FileExistsError, match="mode='w'") as caught:
            make(urlpath=str(path), mode=mode)
        assert isinstance(caught.value, RuntimeError)
        assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="must already exist"):
        make(urlpath=str(path), mode="r")
    assert path.read_bytes() == b"mine"
    array = make(urlpath=str(path), mode="w")
    assert array.shape == want.shape
    assert make(mode="r").urlpath is None
    path.unlink()
    make(urlpath=os.fsencode(path), mode="x")
    assert path.exists()


@settings(max_examples=100, deadline=None)
@given(dtype=st.sampled_from(DTYPES + STRUCTURED), seed=st.integers(0, 1 << 30), item=st.booleans())
def test_dtypes_are_kept(dtype: np.dtype[Any], seed: int, item: bool) -> None:
    items = values(np.random.default_rng(seed), dtype, (7,))
    for array in (blosc2.asarray(items), blosc2.from_cframe(blosc2.asarray(items).to_cframe())):
        assert_same(array[:], items)
    full = blosc2.full(9, items[3] if item else items[3:4][0], dtype=dtype, chunks=(4,), blocks=(3,))
    want = np.empty(9, dtype)
    want[:] = items[3]
    assert_same(full[:], want)
    assert_same(blosc2.zeros(4, dtype)[:], np.zeros(4, dtype))


REFUSED: list[tuple[str, Any, type[Exception] | tuple[type[Exception], ...], str]] = [
    ("unknown keyword", lambda: blosc2.zeros(3, chunk=(2,)), KeyError, "no keyword 'chunk'; did you mean 'chunks'"),
    ("a field of cparams", lambda: blosc2.zeros(3, clevel=1), KeyError, "cparams="),
    ("chunks in cparams", lambda: blosc2.zeros(3, cparams={"chunks": (2,)}), ValueError, "chunks"),
    ("an old name", lambda: blosc2.zeros(3, cparams={"compcode": 1}), NameError, "renamed"),
    ("an unknown field", lambda: blosc2.zeros(3, cparams={"foo": 1}), TypeError, "foo"),
    ("a level", lambda: blosc2.zeros(3, cparams={"clevel": 10}), ValueError, "0-9"),
    (
        "storage twice",
        lambda: blosc2.zeros(3, storage=blosc2.Storage(), urlpath="x"),
        AttributeError,
        "Cannot pass both",
    ),
    ("a shape of text", lambda: blosc2.zeros("ab"), TypeError, "shape should be a tuple or a list"),
    ("a set", lambda: blosc2.zeros({1, 2}), TypeError, "shape should be a tuple or a list"),
    ("a float shape", lambda: blosc2.zeros((2.0,)), TypeError, "integers"),
    ("a boolean shape", lambda: blosc2.zeros(True), TypeError, "shape"),
    ("a negative shape", lambda: blosc2.zeros((2, -1)), ValueError, "negative"),
    ("17 axes", lambda: blosc2.zeros((1,) * 17), ValueError, "too large"),
    ("float chunks", lambda: blosc2.zeros(10, chunks=(2.5,)), TypeError, "integers"),
    ("chunks of other axes", lambda: blosc2.zeros((4, 4), chunks=(2,)), ValueError, "axes"),
    ("zero chunks", lambda: blosc2.zeros(4, chunks=(0,)), ValueError, "zeros"),
    ("zero blocks", lambda: blosc2.zeros(4, chunks=(2,), blocks=(0,)), ValueError, "zeros"),
    ("blocks above chunks", lambda: blosc2.zeros(4, chunks=(2,), blocks=(3,)), ValueError, "larger than chunks"),
    (
        "huge chunks",
        lambda: blosc2.zeros((1 << 31,), dtype="u1", chunks=((1 << 31) - 1,)),
        RuntimeError,
        "smaller chunks",
    ),
    (
        "huge padded chunks",
        lambda: blosc2.zeros(1 << 31, "u1", chunks=((1 << 31) - 60,), blocks=(1 << 20,)),
        RuntimeError,
        "bytes",
    ),
    ("a huge array", lambda: blosc2.zeros((1 << 40, 1 << 40)), ValueError, "bytes"),
    ("objects", lambda: blosc2.asarray([{}]), TypeError, "object"),
    ("no bytes", lambda: blosc2.zeros(3, [("a", "S0")]), ValueError, "no bytes"),
    ("no bytes of void", lambda: blosc2.zeros(3, "V0"), ValueError, "no bytes"),
    ("huge items", lambda: blosc2.zeros(1, f"V{blosc2.MAX_TYPESIZE + 1}"), ValueError, "too large"),
    ("ragged", lambda: blosc2.asarray([[1], [2, 3]]), ValueError, "inhomogeneous"),
    ("a mask", lambda: blosc2.asarray(np.ma.masked_array([1, 2], [False, True])), TypeError, "mask"),
    ("nans of integers", lambda: blosc2.nans(3, "i4"), ValueError, "NaN"),
    ("full out of range", lambda: blosc2.full(3, 300, dtype="u1"), OverflowError, "300"),
    ("full of nothing", lambda: blosc2.full(3, None), TypeError, "object"),
    ("arange of other size", lambda: blosc2.arange(10, shape=(3, 4)), ValueError, "shape is not consistent"),
    ("arange without step", lambda: blosc2.arange(0, 5, 0), ValueError, "zero"),
    ("linspace without size", lambda: blosc2.linspace(0, 1), ValueError, "Either `shape` or `num`"),
    ("linspace of other size", lambda: blosc2.linspace(0, 1, 5, shape=(2, 3)), ValueError, "not consistent"),
    ("a short buffer", lambda: blosc2.frombuffer(b"123", (2, 2)), RuntimeError, "3 bytes"),
    ("a short iterator", lambda: blosc2.fromiter([1, 2], (3,), "i4"), ValueError, "too short"),
    ("no copy", lambda: blosc2.asarray([1, 2], copy=False), ValueError, "copy=False"),
    ("no copy of ours", lambda: blosc2.asarray(blosc2.zeros(2), copy=False, chunks=(1,)), ValueError, "copy=False"),
    ("a super-chunk", lambda: blosc2.asarray(blosc2.SChunk(data=b"ab")), TypeError, "no shape"),
    ("bad meta", lambda: blosc2.zeros(3, meta=[1]), TypeError, "meta"),
    ("16 metalayers", lambda: blosc2.zeros(3, meta={str(n): n for n in range(16)}), ValueError, "16"),
    ("a long name", lambda: blosc2.zeros(3, meta={"x" * 32: 1}), ValueError, "31"),
    ("a reserved name", lambda: blosc2.zeros(3, meta={"b2nd": 1}), ValueError, "b2nd"),
    ("an unstorable value", lambda: blosc2.zeros(3, meta={"a": object()}), TypeError, "serialize"),
    (
        "a lossy codec of integers",
        lambda: blosc2.zeros(3, "i4", cparams={"codec": Codec.ZFP_PREC, "filters": []}),
        ValueError,
        "float",
    ),
    (
        "a lossy codec of bytes",
        lambda: blosc2.zeros(3, cparams={"codec": Codec.ZFP_ACC, "filters": [Filter.SHUFFLE]}),
        ValueError,
        "filters=\\[\\]",
    ),
    (
        "a rate that nobody gave",
        lambda: blosc2.zeros((40, 40), cparams={"codec": Codec.ZFP_RATE}),
        ValueError,
        "codec_meta is 0 percent for ZFP_RATE: below 2",
    ),
    (
        "an object with a rate that nobody gave",
        lambda: blosc2.zeros((40, 40), cparams=blosc2.CParams(codec=Codec.ZFP_RATE)),
        ValueError,
        "codec_meta is 0 percent for ZFP_RATE: below 2",
    ),
    (
        "a rate that keeps nothing",
        lambda: blosc2.zeros(40, cparams={"codec": Codec.ZFP_RATE, "codec_meta": 5}),
        ValueError,
        "below 6 it keeps nothing of float64 in 1-D",
    ),
    ("a mapping of nothing", lambda: blosc2.zeros(3, mmap_mode="w+"), ValueError, "urlpath must be set"),
    ("a mapping of no copy", lambda: blosc2.zeros(3).copy(mmap_mode="w+"), ValueError, "urlpath must be set"),
    ("a mode", lambda: blosc2.zeros(3, urlpath="new", mode="rw"), ValueError, "mode must be"),
    ("an mmap_mode", lambda: blosc2.zeros(3, urlpath="new", mmap_mode="x"), ValueError, "Invalid mmap_mode"),
    ("remote", lambda: blosc2.zeros(3, urlpath="nosuch://bucket/new"), (ImportError, OSError, ValueError), "nosuch"),
    ("no such folder", lambda: blosc2.zeros(3, urlpath="missing/new"), FileNotFoundError, "missing"),
    ("no path", lambda: blosc2.zeros(3, urlpath=5), TypeError, "path"),
]


@pytest.mark.parametrize(("make", "kind", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_is_refused(make: Any, kind: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        make()
    assert os.listdir(tmp_path) == []


def test_a_folder_where_the_file_would_be(tmp_path: Path) -> None:
    for mode in ("a", "w", "x"):
        with pytest.raises(IsADirectoryError):
            blosc2.zeros(3, urlpath=str(tmp_path), mode=mode)


def test_arrays_of_ours() -> None:
    array = blosc2.asarray(np.arange(20).reshape(4, 5), chunks=(3, 3), blocks=(2, 2), meta={"m": 1},
                           cparams={"codec": Codec.LZ4})  # fmt: skip
    array.vlmeta["v"] = 2
    assert blosc2.asarray(array) is array
    assert blosc2.asarray(array, dtype=array.dtype) is array
    assert blosc2.asarray(array, copy=False) is array
    for made in (blosc2.asarray(array, copy=True), blosc2.array(array), blosc2.asarray(array, dtype="f4"),
                 blosc2.asarray(array, chunks=(4, 5))):  # fmt: skip
        assert made is not array
        np.testing.assert_array_equal(made[:], array[:])
        assert (made.meta["m"], made.vlmeta["v"]) == (1, 2)
    assert blosc2.asarray(array, meta={"n": 3}).meta["n"] == 3
    other = blosc2.array(array)
    other[:] = 0
    assert array[1, 1] == 6


def test_parameters_reach_the_chunks(tmp_path: Path) -> None:
    items = np.arange(1000, dtype="<i4")
    for cparams in (
        {"codec": Codec.ZLIB, "clevel": 7, "filters": [Filter.BITSHUFFLE]},
        blosc2.CParams(codec=Codec.ZLIB, clevel=7, filters=[Filter.BITSHUFFLE], typesize=8),
    ):
        array = blosc2.asarray(items, chunks=(500,), blocks=(100,), cparams=cparams)
        chunk = array.get_chunk(1)
        assert (chunk[22], chunk[3], chunk[16:22]) == (4, 4, bytes([2, 0, 0, 0, 0, 0]))
        assert int.from_bytes(chunk[8:12], "little") == 400
        assert (array.cparams.clevel, array.cparams.typesize, array.cparams.blocksize) == (7, 4, 400)
    assert blosc2.asarray(items, dparams={"nthreads": 3}).dparams.nthreads == 3
    assert blosc2.asarray(items, dparams=blosc2.DParams(nthreads=2)).dparams.nthreads == 2
    storage = blosc2.Storage(urlpath=str(tmp_path / "s.b2nd"), mode="w", meta={"a": 1})
    assert blosc2.asarray(items, storage=storage).urlpath == str(tmp_path / "s.b2nd")
    assert blosc2.open(tmp_path / "s.b2nd").meta["a"] == 1
    mapped = blosc2.asarray(items, urlpath=str(tmp_path / "m.b2nd"), mmap_mode="w+")
    assert (mapped.mmap_mode, mapped.mode) == ("w+", "a")
    mapped[0] = 7
    assert blosc2.open(tmp_path / "m.b2nd")[0] == 7


def test_items_larger_than_a_typesize_can_say() -> None:
    dtype = np.dtype([("a", "S200"), ("b", "<f8", (20,))])
    items = values(np.random.default_rng(1), dtype, (30,))
    array = blosc2.asarray(items, chunks=(7,), blocks=(3,))
    assert_same(array[4:20:3], items[4:20:3].copy())
    assert array.get_chunk(0)[3] == 1


def test_special_arrays_of_any_size_cost_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "huge.b2nd")
    huge = blosc2.zeros((1 << 18, 1 << 20), dtype="f4", urlpath=path)
    assert os.path.getsize(path) < 1000
    assert huge.nbytes == 1 << 40
    assert huge[123456, 654321:654323].tolist() == [0, 0]
    assert blosc2.open(path)[-1, -1] == 0


def test_the_same_items_give_the_same_bytes(tmp_path: Path) -> None:
    items = np.random.default_rng(1).integers(0, 100, (300, 200))
    frames = {blosc2.asarray(items, cparams={"nthreads": n}).to_cframe() for n in (1, 2, 4) for _ in range(2)}
    assert len(frames) == 1
    for n in (1, 2, 4):
        array = blosc2.asarray(items, urlpath=str(tmp_path / f"{n}"), cparams={"nthreads": n})
        assert {array.to_cframe()} == frames
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_save(tmp_path: Path) -> None:
    items = np.arange(10)
    for n, thing in enumerate((blosc2.asarray(items), items, list(range(10)), blosc2.SChunk(data=items))):
        path = tmp_path / str(n)
        blosc2.save(thing, path)
        assert np.array_equal(np.frombuffer(blosc2.open(path)[:], int), items)
        with pytest.raises(RuntimeError):
            blosc2.save(thing, path)
        blosc2.save(thing, path, mode="w")
    blosc2.save(items, tmp_path / "folder", contiguous=False)
    assert (tmp_path / "folder").is_dir()
    assert np.array_equal(blosc2.open(tmp_path / "folder")[:], items)


def test_mappings_are_no_arrays(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "t.b2z") as store:
        store["/g/a"] = [1]
        for value in (store, store["/g"], store.attrs, {"a": 1}, {1, 2}):
            with pytest.raises(TypeError, match="one by one"):
                blosc2.asarray(value)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.b2nd"
    with pytest.raises(FileNotFoundError, match="cannot write here") as caught:
        blosc2.zeros(3, urlpath=path)
    assert caught.value.filename == str(path)


class Described:
    """An object that only says where its items are."""

    def __init__(self, items: np.ndarray[Any, Any]) -> None:
        self._items = items
        self.__array_interface__ = items.__array_interface__


def test_sources_of_any_kind(tmp_path: Path) -> None:
    items = np.arange(24, dtype="<i4").reshape(4, 6)
    np.save(tmp_path / "a.npy", items)
    for source in (items, Described(items), memoryview(items), np.load(tmp_path / "a.npy", mmap_mode="r"),
                   blosc2.asarray(items), blosc2.asarray(items, chunks=(3, 2)), np.asfortranarray(items)):  # fmt: skip
        for keywords in ({}, {"chunks": (3, 5), "blocks": (2, 2)}, {"dtype": ">f8"}, {"dtype": "<i4"}):
            array = blosc2.asarray(source, **keywords)
            assert_same(array[...], np.ascontiguousarray(items).astype(keywords.get("dtype", "<i4")))
    for plain in (b"abc", "abc", 5, 2.5, True, [[1, 2]], (1, 2), [], [[]], np.float32(3), array_module("d", [1, 2])):
        assert_same(blosc2.asarray(plain)[...], np.asarray(plain))
    assert_same(blosc2.asarray(np.arange(10)[::-1], dtype=np.dtype(int))[:], np.arange(10)[::-1].copy())


def test_sources_with_strides_are_not_copied_first() -> None:
    items = np.asfortranarray(np.zeros((4000, 4000)))
    items[::100] = 1
    tracemalloc.start()
    try:
        array = blosc2.asarray(items, cparams={"nthreads": 1})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(array[:], items)
    assert peak < items.nbytes // 4


def test_text_without_a_length_has_one_letter() -> None:
    for dtype in (np.str_, "U0", "S0"):
        assert_same(blosc2.zeros((2, 3), dtype)[:], np.zeros((2, 3), dtype))
        assert_same(blosc2.ones(3, dtype)[:], np.ones(3, dtype))
    assert_same(blosc2.full(3, "pepe", np.str_)[:], np.full(3, "pepe", np.str_))
    assert_same(blosc2.eye(3, dtype=np.str_)[:], np.eye(3, dtype=np.str_))
    assert_same(blosc2.fromiter(range(5), (5,), "U2")[:], np.arange(5).astype("U2"))


def test_text_is_shuffled_by_letters() -> None:
    items = np.repeat(np.array(["josé", "pepe", "francisco"]), 20_000)
    chosen = blosc2.asarray(items)
    assert chosen.cparams.filters_meta == [0, 0, 0, 0, 0, 4]
    assert np.array_equal(chosen[:], items)
    assert np.array_equal(blosc2.from_cframe(chosen.to_cframe())[:], items)
    for cparams in (blosc2.cparams_dflts, blosc2.CParams(), {"filters": [Filter.NOFILTER] * 5 + [Filter.SHUFFLE]}):
        asked = blosc2.asarray(items, cparams=cparams)
        assert asked.cparams.filters_meta == [0] * 6
        assert chosen.cratio > asked.cratio
    assert blosc2.asarray(items, cparams={"clevel": 1}).cparams.filters_meta[5] == 4
    assert blosc2.zeros(3, "S5").cparams.filters_meta == [0] * 6


@pytest.mark.parametrize(("codec", "meta"), [(Codec.ZFP_ACC, -3), (Codec.ZFP_PREC, 37), (Codec.ZFP_RATE, 37)])
def test_lossy_codecs_bring_no_default_filter(codec: Codec, meta: int) -> None:
    items = np.linspace(0, 1, 80 * 60).reshape(80, 60)
    for cparams in ({"codec": codec, "codec_meta": meta}, blosc2.CParams(codec=codec, codec_meta=meta)):
        array = blosc2.asarray(items, cparams=cparams)
        assert array.cparams.filters == [Filter.NOFILTER] * 6
        assert np.abs(array[:] - items).max() < 0.01


def test_parameters_are_each_arrays_own() -> None:
    first, second = blosc2.zeros(3), blosc2.zeros(3)
    first.cparams.clevel = 9
    first.cparams.filters[0] = Filter.BITSHUFFLE
    first.dparams.nthreads = 7
    assert (second.cparams, second.dparams) == (blosc2.zeros(3).cparams, blosc2.zeros(3).dparams)
    assert second.cparams.clevel == 5


def test_changed_defaults_reach_the_next_array(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blosc2.zeros(3).cparams.codec is Codec.ZSTD
    monkeypatch.setitem(blosc2.cparams_dflts, "codec", Codec.LZ4)
    monkeypatch.setitem(blosc2.cparams_dflts, "filters", [Filter.BITSHUFFLE])
    array = blosc2.asarray(np.arange(100))
    assert (array.cparams.codec, array.cparams.filters[0]) == (Codec.LZ4, Filter.BITSHUFFLE)
    assert array.get_chunk(0)[16] == 2
    monkeypatch.setitem(blosc2.cparams_dflts, "clevel", 99)
    with pytest.raises(ValueError, match="clevel"):
        blosc2.zeros(3)
    monkeypatch.setitem(blosc2.storage_dflts, "meta", {"m": 1})
    monkeypatch.setitem(blosc2.cparams_dflts, "clevel", 1)
    assert blosc2.zeros(3).meta["m"] == 1
    monkeypatch.undo()
    assert "m" not in blosc2.zeros(3).meta
    assert blosc2.zeros(3).cparams == blosc2.CParams(typesize=8, blocksize=24)


def test_names_of_fields_that_change_later() -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8")])
    blosc2.zeros(3, dtype)
    dtype.names = ("x", "y")
    assert blosc2.zeros(3, dtype).dtype.names == ("x", "y")


@pytest.mark.parametrize("value", [b"ab\0\0", "text\0", [b"a", b"b\0"], [["a"], ["\0"]], np.bytes_(b"a\0")])
def test_zeros_at_the_end_of_bytes_are_not_lost(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="end in zeros"):
        blosc2.asarray(value)
    for name in ("s.b2z", "s.b2d", "s.b2e"):
        kind = blosc2.EmbedStore if name == "s.b2e" else blosc2.TreeStore
        with kind(str(tmp_path / name), mode="w") as store:
            with pytest.raises(TypeError, match="end in zeros"):
                store["/b"] = value
            with pytest.raises(TypeError, match="end in zeros"):
                store.write_many([("/b", value)])
            assert "/b" not in store
            store["/b"] = np.frombuffer(b"ab\0\0", "u1")
            store["/c"] = [b"\0a", b""]
            assert bytes(store["/b"][:]) == b"ab\0\0"
            assert store["/c"][:].tolist() == [b"\0a", b""]


def test_masks_are_not_lost(tmp_path: Path) -> None:
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    array = blosc2.zeros(3, "i8")
    with pytest.raises(TypeError, match="mask"):
        array[:] = masked
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        with pytest.raises(TypeError, match="mask"):
            store["/m"] = masked
        with pytest.raises(TypeError, match="mask"):
            store.write_many([("/m", masked)])
        assert "/m" not in store


@pytest.mark.parametrize(("codec", "meta"), [(Codec.ZFP_PREC, 0), (Codec.ZFP_RATE, 3)])
def test_an_array_is_copied_and_changed_whatever_its_codec_keeps(codec: Any, meta: int, tmp_path: Path) -> None:
    """The published package writes such arrays by default."""
    cparams = blosc2.CParams(codec=codec, codec_meta=37, filters=[])
    frame = bytearray(blosc2.asarray(np.linspace(0, 1, 100), cparams=cparams).to_cframe())
    frame[78] = meta  # FORMATS 1.1
    (tmp_path / "a.b2nd").write_bytes(frame)
    array = blosc2.open(str(tmp_path / "a.b2nd"), mode="a")
    array[:5] = 0
    array.resize((120,))
    array.schunk.cparams = array.schunk.cparams
    copied = array.copy(urlpath=tmp_path / "b.b2nd")
    assert (copied.shape, copied.schunk.cparams.codec_meta) == ((120,), meta)
