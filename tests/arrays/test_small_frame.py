"""Frames of small arrays from templates: byte for byte those that `asarray` makes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._arrays import small_frames
from blosc2._arrays.small_frames import cframe_of, forget_templates

Items = np.ndarray[Any, Any]

PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [1, 8], "itemsize": 20})
DTYPES = [
    "?", "u1", "<i2", ">i4", "<u8", ">i8", "<f2", "<f4", ">f8", "<f8", "<c8", "<c16", "S1", "S7", "U1", "U5", ">U3",
    "V3", "V300", "S300", "<M8[ns]", "<M8[25s]", "<m8[ms]", np.dtype(np.longdouble),
    np.dtype([("x", "<i4"), ("y", ">f8", (2,)), ("z", "S3")]), np.dtype([("x", "u1"), ("y", "<f8")], align=True),
    PADDED,
    np.dtype([("n", [("m", "<i2"), ("o", "<i4")]), ("p", "u1")]), np.dtype([(("title", "name"), "<i4")]),
]  # fmt: skip
SHUFFLES = [
    [blosc2.Filter.SHUFFLE], [blosc2.Filter.BITSHUFFLE], [], [blosc2.Filter.DELTA, blosc2.Filter.SHUFFLE],
    [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA], [blosc2.Filter.NOFILTER, blosc2.Filter.SHUFFLE],
]  # fmt: skip
PLAIN_CODECS = [blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.LZ4HC, blosc2.Codec.ZLIB, blosc2.Codec.ZSTD]


@pytest.fixture(autouse=True)
def _no_templates() -> None:
    forget_templates()


def by_asarray(items: Items, keywords: dict[str, Any]) -> bytes:
    cframe: bytes = blosc2.asarray(items, **keywords).to_cframe()
    return cframe


def repeatedly(items: Items, keywords: dict[str, Any]) -> None:
    """At first a template is made."""
    expected = by_asarray(items, keywords)
    for _ in range(4):
        assert cframe_of(items, keywords) == expected


@st.composite
def arrays(draw: st.DrawFn) -> list[Items]:
    """Some arrays of one dtype and shape."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 12), max_size=4)))
    count = int(np.prod(shape))
    made = []
    for kind in draw(st.lists(st.sampled_from(["zeros", "one", "ramp", "noise", "sparse"]), min_size=1, max_size=6)):
        raw = np.zeros(count * dtype.itemsize, np.uint8)
        if kind == "one":
            item = np.frombuffer(draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)), np.uint8)
            raw = np.tile(item, count)
        elif kind == "ramp":
            raw = np.arange(raw.size).astype(np.uint8)
        elif kind == "noise":
            raw = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, raw.size, np.uint8)
        elif count:
            raw[draw(st.integers(0, raw.size - 1))] = draw(st.integers(0, 255))
        items = np.frombuffer(raw.tobytes(), dtype, count).reshape(shape)
        for how in draw(st.lists(st.sampled_from(["F", "stretched", "reversed", "moved"]), max_size=2)):
            if how == "F":
                items = np.asfortranarray(items)
            elif how == "stretched" and shape:
                wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
                wide[..., ::2] = items
                items = wide[..., ::2]
            elif how == "reversed":
                items = items[..., ::-1] if shape else items
            elif how == "moved" and count:
                # From an odd address.
                items = np.frombuffer(b"x" + items.tobytes(), dtype, count, 1).reshape(shape)
        made.append(items)
    return made


@st.composite
def keywords(draw: st.DrawFn) -> dict[str, Any]:
    how = draw(st.sampled_from(["nothing", "none", "object", "dictionary"]))
    if how == "nothing":
        return {}
    if how == "none":
        return {"cparams": None}
    given = {
        "codec": draw(st.sampled_from(PLAIN_CODECS)),
        "clevel": draw(st.sampled_from([0, 1, 5, 9])),
        "filters": draw(st.sampled_from(SHUFFLES)),
        "splitmode": draw(st.sampled_from(list(blosc2.SplitMode))),
        "use_dict": draw(st.sampled_from([False, False, False, True])),
    }
    return {"cparams": blosc2.CParams(**given) if how == "object" else given}


@settings(deadline=None)
@given(arrays(), keywords())
def test_the_bytes_are_those_of_asarray(items: list[Items], keywords: dict[str, Any]) -> None:
    for one in [*items, *items, *items]:
        try:
            expected = by_asarray(one, keywords)
        except (ValueError, TypeError) as error:
            with pytest.raises(type(error)):
                cframe_of(one, keywords)
        else:
            assert cframe_of(one, keywords) == expected


@pytest.mark.parametrize(
    "cparams",
    [{"codec": blosc2.Codec.ZFP_PREC, "codec_meta": 30, "filters": []},
     {"codec": blosc2.Codec.NDLZ, "codec_meta": 4, "filters": []},
     {"filters": [blosc2.Filter.NDMEAN], "filters_meta": [4]}, {"filters": [blosc2.Filter.NDCELL], "filters_meta": [4]},
     {"filters": [blosc2.Filter.TRUNC_PREC], "filters_meta": [10]},
     {"filters": [blosc2.Filter.INT_TRUNC], "filters_meta": [10]}],
    ids=str,
)  # fmt: skip
def test_codecs_and_filters_for_arrays(cparams: dict[str, Any]) -> None:
    dtype = "i8" if cparams["filters"] == [blosc2.Filter.INT_TRUNC] else "f8"
    dtype = "u1" if cparams.get("codec") == blosc2.Codec.NDLZ else dtype
    items = np.arange(64 * 64).reshape(64, 64).astype(dtype)
    for one in (blosc2.CParams(**cparams), cparams):
        repeatedly(items, {"cparams": one})


def test_parameters_that_change_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    items = np.arange(1000)
    cparams = blosc2.CParams()
    repeatedly(items, {"cparams": cparams})
    cparams.clevel = 9
    repeatedly(items, {"cparams": cparams})
    cparams.filters[5] = blosc2.Filter.BITSHUFFLE
    repeatedly(items, {"cparams": cparams})
    repeatedly(items, {})
    monkeypatch.setitem(blosc2.cparams_dflts, "codec", blosc2.Codec.LZ4)
    repeatedly(items, {})
    assert cframe_of(items, {})[27] & 15 == 1


def test_names_that_change_are_noticed() -> None:
    items = np.zeros(3, [("a", "i4"), ("b", "f8")])
    repeatedly(items, {})
    items.dtype.names = ("c", "d")
    repeatedly(items, {})
    inner = np.zeros(3, [("a", [("x", "i4")]), ("b", "f8")])
    repeatedly(inner, {})
    inner.dtype["a"].names = ("y",)
    repeatedly(inner, {})


def test_templates_are_bounded() -> None:
    for n in range(1, 700):
        for _ in range(2):
            cframe_of(np.zeros(n % 350 + 1, "u1"), {"cparams": blosc2.CParams(nthreads=n % 20 + 1)})
    assert len(small_frames._sets) <= small_frames._MOST_SETS
    assert all(len(one.known) <= small_frames._MOST for one in small_frames._sets)
    for n in range(1, 300):
        items = np.arange(n)
        for _ in range(3):
            assert cframe_of(items, {}) == by_asarray(items, {})


@pytest.mark.parametrize("count", [8, 4000])
def test_threads(count: int) -> None:
    arrays = [np.arange(count) * n for n in range(20)]
    expected = [by_asarray(items, {}) for items in arrays]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(30):
            for n, items in enumerate(arrays):
                if cframe_of(items, {}) != expected[n]:
                    wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(20):
        if n % 5 == 0:
            forget_templates()
        blosc2.free_resources()
    for thread in threads:
        thread.join()
    assert not wrong


def test_values_that_stores_take(tmp_path: Any) -> None:
    values = [1, 2.5, [1, 2], "text", b"bytes", True, (1j,), np.float32(3), np.rec.array([(1, 2.0)]), range(3)]
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path, "w") as store:
        for _ in range(3):
            for n, value in enumerate(values):
                store[f"/{n}"] = value
    with blosc2.DictStore(path, "r") as store:
        for n, value in enumerate(values):
            read = store[f"/{n}"][()]
            np.testing.assert_array_equal(read, np.asarray(value))
            assert read.dtype == np.asarray(value).dtype


@pytest.mark.parametrize("dtype", ["i8", "f4", "U3", "S5", "?", "i2,f8"])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_what_is_stored_does_not_depend_on_what_was_before(rows: int, dtype: str, tmp_path: Path) -> None:
    """Tiny values of stores: the first of a kind in a process is stored like the fifth."""
    forget_templates()
    columns = 240 // np.dtype(dtype).itemsize // max(rows, 1)
    shape = (rows, columns) if rows else (columns,)
    value = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)  # which would shrink
    with blosc2.DictStore(tmp_path / "s.b2z", mode="w") as store:
        for n in range(5):
            store[f"/k{n}"] = value
        frames = {store[f"/k{n}"].to_cframe() for n in range(5)}
        forget_templates()
        store["/later"] = value
        assert frames == {store["/later"].to_cframe()}
