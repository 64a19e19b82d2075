"""Arrays, super-chunks and metadata that either package can be asked to write, and what they must then hold.

The values come from NumPy and from these descriptions only; nothing here is read back from a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fixture_kit.manifest import dtype_of

Recipe = dict[str, Any]

DTYPES = [
    "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16",
    ">i2", ">f8", ">c16", "<M8[ns]", "<M8[25s]", "<m8[ms]", ">M8[us]", "|S1", "|S7", "<U3", ">U5", "|S300",
    "[('a', '<i4'), ('b', '<f8')]", "[('n', [('x', '<i2'), ('y', '<U4')]), ('z', '?')]",
    "[('p', '<i4'), ('q', '<f8', (2, 3))]",
]  # fmt: skip

# shape, chunks, blocks
SHAPES: list[tuple[list[int], list[int] | None, list[int] | None]] = [
    ([], None, None),
    ([1], None, None),
    ([103], [40], [16]),
    ([9], [20], [7]),
    ([100, 64], [60, 40], [16, 16]),
    ([64, 32], [32, 32], [8, 32]),
    ([5, 7, 9], [3, 4, 9], [2, 2, 5]),
    ([3, 4, 5, 6], None, None),
    ([2, 3, 2, 3, 2], [2, 2, 2, 2, 2], [1, 2, 1, 2, 1]),
    ([1] * 14 + [2, 3], None, None),
    ([0], None, None),
    ([3, 0], None, None),
    ([300, 200], None, None),
]

CODECS = [(codec, clevel) for codec in ("BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD") for clevel in (0, 1, 5, 9)]
FILTERS = [
    ([], []),
    (["SHUFFLE"], [0]),
    (["BITSHUFFLE"], [0]),
    (["DELTA", "SHUFFLE"], [0, 0]),
    (["SHUFFLE", "BYTEDELTA"], [0, 0]),
]


def recipes() -> list[Recipe]:
    """One recipe for everything that an array can be."""
    found: list[Recipe] = []

    def add(name: str, **more: Any) -> None:
        base = {"dtype": "<i4", "shape": [50, 30], "chunks": [20, 30], "blocks": [10, 10], "fill": "smooth"}
        found.append({"name": name, "seed": len(found), **base, **more})

    for dtype in DTYPES:
        add(f"dtype {dtype}", dtype=dtype, shape=[23], chunks=[10], blocks=[4])
    for shape, chunks, blocks in SHAPES:
        add(f"shape {shape}", shape=shape, chunks=chunks, blocks=blocks)
    for codec, clevel in CODECS:
        add(f"codec {codec} {clevel}", cparams={"codec": codec, "clevel": clevel})
    for filters, metas in FILTERS:
        add(f"filters {filters}", cparams={"filters": filters, "filters_meta": metas})
    for mode in ("ALWAYS_SPLIT", "NEVER_SPLIT", "FORWARD_COMPAT_SPLIT"):
        add(f"split {mode}", cparams={"splitmode": mode, "codec": "LZ4"}, dtype="<f8")
    for codec in ("ZSTD", "LZ4"):
        add(f"dictionary {codec}", cparams={"use_dict": True, "codec": codec}, dtype="|u1", shape=[16000],
            chunks=[8000], blocks=[1000], fill="text")  # fmt: skip
    for fill in ("zeros", "nans", "full", "random"):
        add(f"fill {fill}", dtype="<f4", shape=[105, 7], chunks=[50, 7], blocks=[10, 7], fill=fill)
    add("fill full of text", dtype="|S3", shape=[105], chunks=[50], blocks=[10], fill="full")
    add("metadata", meta=True, vlmeta=True)
    add("metadata without items", shape=[0], chunks=None, blocks=None, meta=True, vlmeta=True)
    return found


def values(recipe: Recipe) -> np.ndarray:
    """What the array of a recipe holds."""
    dtype = dtype_of(recipe["dtype"])
    shape = tuple(recipe["shape"])
    rng = np.random.default_rng(recipe["seed"])
    fill = recipe["fill"]
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "nans":
        return np.full(shape, np.nan, dtype)
    if fill == "full":
        return np.full(shape, filler(recipe), dtype)
    size = int(np.prod(shape))
    if fill == "text":
        words = np.frombuffer(b"the quick brown fox %d jumps over the lazy dog; " * 3, np.uint8)
        return np.resize(words, size).reshape(shape)
    if dtype.names or dtype.kind in "SU":
        return _texts(dtype, size, rng).reshape(shape)
    if fill == "random":
        return rng.standard_normal(size).astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return (rng.random(size) < 0.5).reshape(shape)
    if dtype.kind in "mM":
        return rng.integers(0, 2**40, size).astype("<i8").view(dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    return (np.cumsum(rng.integers(-3, 5, size)) % 100).astype(dtype).reshape(shape)


def filler(recipe: Recipe) -> Any:
    """The one value of an array that is full of it."""
    return b"xyz" if recipe["dtype"].startswith("|S") else 7


def _texts(dtype: np.dtype[Any], size: int, rng: np.random.Generator) -> np.ndarray:
    out = np.zeros(size, dtype)
    if dtype.names:
        for name in dtype.names:
            field = out[name]
            field[...] = _texts(field.dtype, field.size, rng).reshape(field.shape)
        return out
    if dtype.kind in "SU":
        letters = np.array(list("abcdefgh" if dtype.kind == "S" else "abcßü日"))
        words = ["".join(rng.choice(letters, int(rng.integers(0, 6)))) for _ in range(size)]
        out[:] = np.array(words, dtype=dtype.newbyteorder("="))
        return out
    return rng.integers(0, 2, size).astype(dtype)


def metalayers() -> dict[str, Any]:
    """User metalayers of every type that a header can hold."""
    return {"int": 5, "dict": {"a": [1, 2, {"b": None}]}, "text": "ünï", "bytes": b"\0\1\xff", "m" * 31: 1.5}


def vlmeta() -> dict[str, Any]:
    """Entries of every type; 16 are the most that the reference writes."""
    return {
        "int": 5,
        "negative": -(2**40),
        "big": 2**63 + 1,
        "float": 1.5,
        "nan": float("nan"),
        "str": "héllo",
        "bytes": b"\0\1\xff",
        "none": None,
        "bool": True,
        "list": [1, "a", None, [2.5]],
        "tuple": (1, (2, "x"), {"k": (3,)}),
        "dict": {"a": {"b": {}}},
        "complex": 1 + 2j,
        "set": {1, 2},
        "日本": "x" * 5000,
        "ndarray": np.arange(6, dtype="<i2").reshape(2, 3),
    }


def list_values() -> list[Any]:
    """What a list of values is made of."""
    return [
        "a", {"n": 1, "t": (1, (2,)), "l": [None, True]}, b"\0" * 300, 2.5, "words " * 500, [], (), -(2**63), 2**64 - 1,
        {1, 2}, 1j, np.arange(5, dtype="i2"), "\u00e9" * 20, 0,
    ]  # fmt: skip


def list_batches() -> list[list[Any]]:
    """What a list of batches is made of."""
    values = list_values()
    return [values[:5], [0], values[3:], [[n, "text " * (n % 7)] for n in range(200)], ["x"] * 3]
