"""What the files of tests/data/releases hold, made by NumPy and plain Python alone.

Files of a release are read by all later ones, so nothing here may change once that release is out: what a newer one has
besides gets functions of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _scan() -> np.ndarray[Any, Any]:
    z, y, x = np.ogrid[0:12, 0:33, 0:40]
    return (1000 + 30 * z + y * y - 3 * x * (z % 5)).astype("<i2")


SCAN = _scan()
RAMP = (np.arange(5000) * 7919 % 10007).astype("<f8") / 16
MIXED = np.zeros(50, [("id", "<i4"), ("at", "<f8", (3,)), ("name", "<U5"), ("on", "|b1")])
MIXED["id"], MIXED["at"], MIXED["on"] = np.arange(50), np.arange(150).reshape(50, 3) / 8, np.arange(50) % 3 == 0
MIXED["name"] = [f"n{n}é" for n in range(50)]

#: Files of one array: the items, chunks, blocks, and what else the constructor gets; codecs and filters by name.
ARRAYS: dict[str, tuple[np.ndarray[Any, Any], Any, Any, dict[str, Any]]] = {
    **{
        f"codec-{codec}-{level}": (SCAN, (5, 20, 20), (2, 8, 20), {"codec": codec, "clevel": level})
        for codec in ("BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD")
        for level in (1, 9)
    },
    **{
        f"filter-{'-'.join(filters) or 'none'}": (SCAN, (5, 20, 20), (2, 8, 20), {"filters": filters})
        for filters in ([], ["SHUFFLE"], ["BITSHUFFLE"], ["DELTA"], ["DELTA", "SHUFFLE"], ["SHUFFLE", "BYTEDELTA"])
    },
    **{
        f"dtype-{name}": (np.arange(60).reshape(6, 10).astype(dtype), (4, 4), (2, 4), {})
        for name, dtype in {
            "bool": "|b1",
            "i1": "|i1",
            "u1": "|u1",
            "i2": "<i2",
            "u4": "<u4",
            "i8": "<i8",
            "f2": "<f2",
            "f4": "<f4",
            "f8": "<f8",
            "c16": "<c16",
            "big-endian": ">i4",
            "text": "<U4",
            "bytes": "|S6",
            "days": "<M8[D]",
            "seconds25": "<m8[25s]",
        }.items()
    },
    "dtype-mixed": (MIXED, (20,), (7,), {}),
    "stored": (SCAN, (12, 33, 40), (1, 33, 40), {"clevel": 0}),
    "dictionary": (np.tile(RAMP[:512], 20), (4096,), (512,), {"codec": "ZSTD", "use_dict": True}),
    "zeros": (np.zeros((70, 30), "<f4"), (20, 20), (7, 20), {}),
    "nans": (np.full((70, 30), np.nan, "<f4"), (20, 20), (7, 20), {}),
    "full": (np.full((70, 30), 7, "<i8"), (20, 20), (7, 20), {}),
    "one": (np.array(3.5), (), (), {}),
    "none": (np.zeros((0, 4), "<i4"), None, None, {}),
    "axes6": (np.arange(3**6, dtype="<i4").reshape((3,) * 6), (2,) * 6, (1, 2, 1, 2, 2, 1), {}),
    "directory": (SCAN, (5, 20, 20), (2, 8, 20), {"contiguous": False}),
}

#: Changed after they were written: the array, a selection, and what was assigned to it.
CHANGED = (RAMP, slice(1000, 3000), -1.25)
GROWN = (RAMP[:1000], RAMP[1000:3500])  # appended to

ATTRIBUTES: dict[str, Any] = {
    "unit": "mm", "sizes": [1.0, 2.5], "of": {"a": None, "b": [True, -(2**63), 2**64 - 1]}, "raw": b"\x00\xff",
    "é": 1.5, "tuple": (1, (2, 3)), "complex": 1 - 2j,
}  # fmt: skip
OBJECTS: list[Any] = ["text", 5, 2.5, None, [1, {"a": b"xyz"}], {"deep": [[[]]]}, "long " * 500]
BATCHES: list[list[Any]] = [[1, 2, 3], ["a"], [{"x": n} for n in range(40)]]
DATA = bytes(range(256)) * 40

#: Leaves of each store, by key.
LEAVES: dict[str, np.ndarray[Any, Any]] = {
    "/scan": SCAN,
    "/a/ramp": RAMP,
    "/a/b/c/mixed": MIXED,
    "/a/b/small": np.arange(5, dtype="|u1"),
    "/é/名": np.array(["x", "yy"]),
    "/one": np.array(7, "<u4"),
    "/none": np.zeros((0, 3), "<f4"),
    **{f"/many/{n:03}": np.full((4, 4), n, "<u2") for n in range(100)},
}
