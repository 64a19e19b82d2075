"""Random arrays of every shape, type and compression, for property tests; values come from NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter, SplitMode

DTYPES = [
    np.dtype(text)
    for text in (
        "?", "i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8", "<f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16",
        "<M8[ns]", ">M8[D]", "<m8[25s]", "S1", "S7", "S300", "<U3", ">U5", "V5",
    )
]  # fmt: skip
STRUCTURED = [
    np.dtype([("a", "<i4"), ("b", ">f8")]),
    np.dtype([("n", [("x", "<i2"), ("y", "<U2")]), ("z", "?"), ("m", "<f4", (2, 2))]),
    np.dtype([("a", "i1"), ("b", "<i8")], align=True),
    np.dtype({"names": ["p", "q"], "formats": ["<u2", "<f4"], "offsets": [1, 9], "itemsize": 20}),
]

# Filters that keep every bit, in the order in which they are applied.
FILTERS: list[list[Filter]] = [
    [],
    [Filter.SHUFFLE],
    [Filter.BITSHUFFLE],
    [Filter.DELTA],
    [Filter.DELTA, Filter.SHUFFLE],
    [Filter.SHUFFLE, Filter.BYTEDELTA],
    [Filter.BITSHUFFLE, Filter.BYTEDELTA],
]
CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD]


def values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Items that compress well, badly, or to nothing."""
    out = np.zeros(shape, dtype)
    if dtype.names:
        for name in dtype.names:
            field = out[name]
            field[...] = values(rng, field.dtype, field.shape)
        return out
    kind = rng.integers(4)
    if kind == 0:
        return out
    if dtype.kind == "U":
        letters = rng.integers(0x61, 0x3000, (*shape, dtype.itemsize // 4))
        return np.ascontiguousarray(letters.astype(dtype.byteorder + "u4")).view(dtype).reshape(shape)
    if kind == 1:
        ramp = np.arange(out.size * dtype.itemsize, dtype=np.int64) // max(dtype.itemsize, 7) % 251
        raw = ramp.astype(np.uint8)
    elif kind == 2:
        raw = np.tile(rng.integers(1, 255, dtype.itemsize).astype(np.uint8), out.size)
    else:
        raw = rng.integers(0, 256, out.size * dtype.itemsize).astype(np.uint8)
    if dtype.kind == "b":
        raw &= 1
    return raw.view(dtype).reshape(shape)


def assert_same(got: Any, want: np.ndarray[Any, Any]) -> None:
    """Equal type, shape and bits; of structured items, of all their fields."""
    assert isinstance(got, np.ndarray)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.names:
        for name in want.dtype.names:
            assert_same(np.ascontiguousarray(got[name]), np.ascontiguousarray(want[name]))
    else:
        assert got.tobytes() == want.tobytes()


def pick(items: np.ndarray[Any, Any], key: Any) -> np.ndarray[Any, Any]:
    """What a key selects, as an array of the same type also where NumPy gives a scalar."""
    return np.array(items[key], items.dtype)


@dataclass
class Case:
    """An array, and how it is to be written."""

    items: np.ndarray[Any, Any]
    keywords: dict[str, Any]
    seed: int

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@st.composite
def cparams(draw: st.DrawFn, itemsize: int) -> dict[str, Any]:
    """Any lossless compression parameters that fit items of a size."""
    codec = draw(st.sampled_from(CODECS))
    chosen = draw(st.sampled_from(FILTERS))
    if itemsize > 127 and Filter.BYTEDELTA in chosen:
        chosen = [Filter.SHUFFLE]
    return {
        "codec": codec,
        "clevel": draw(st.integers(0, 9)),
        "filters": chosen,
        "filters_meta": [0] * len(chosen),
        "use_dict": codec in (Codec.ZSTD, Codec.LZ4, Codec.LZ4HC) and draw(st.booleans()),
        "splitmode": draw(st.sampled_from(list(SplitMode))),
        "nthreads": draw(st.sampled_from([1, 2])),
    }


@st.composite
def cases(draw: st.DrawFn, most_items: int = 3000) -> Case:
    """Arrays of 0 to 6 axes, some without items, in chunks and blocks that need not divide anything."""
    dtype = draw(st.sampled_from(DTYPES) | st.sampled_from(STRUCTURED))
    ndim = draw(st.integers(0, 6))
    side = {0: 1, 1: most_items, 2: 50, 3: 14, 4: 7, 5: 5, 6: 4}[ndim]
    shape = tuple(draw(st.integers(0, side)) if draw(st.integers(0, 9)) else 0 for _ in range(ndim))
    keywords: dict[str, Any] = {"cparams": draw(cparams(dtype.itemsize))}
    if draw(st.integers(0, 5)):
        keywords["chunks"] = chunks = tuple(draw(st.integers(1, n + 2)) for n in shape)
        if draw(st.booleans()):
            keywords["blocks"] = tuple(draw(st.integers(1, n)) for n in chunks)
    seed = draw(st.integers(0, 2**32 - 1))
    return Case(values(np.random.default_rng(seed), dtype, shape), keywords, seed)


def write(case: Case, **more: Any) -> blosc2.NDArray:
    """The array of a case, compressed."""
    return blosc2.asarray(case.items, **case.keywords, **more)
