"""Chunks that are stored as they are: copied and checked in one pass, whatever their blocks are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import blosc2

# Blocks whose rows have 64 bytes, 128, 192, 256, 320, and other numbers; and those that are one piece, with and without
# a rest; odd numbers of rows; axes of length 1.
LAYOUTS = [
    ((9, 7, 64), (9, 7, 64), (3, 7, 8), "f8"),
    ((9, 10, 64), (9, 5, 64), (3, 5, 16), "f8"),
    ((10, 6, 48), (5, 6, 48), (5, 3, 48), "f4"),
    ((4, 6, 128), (4, 6, 128), (2, 3, 64), "f4"),
    ((4, 9, 160), (4, 9, 80), (1, 3, 80), "i4"),
    ((6, 30), (6, 30), (3, 10), "f8"),
    ((1000,), (500,), (100,), "f8"),
    ((1003,), (501,), (167,), "u1"),
    ((4096,), (4096,), (1024,), "i2"),
    ((3, 1, 2, 64), (3, 1, 2, 64), (1, 1, 1, 64), "u1"),
    ((70, 70), (35, 64), (7, 32), "i2"),
]


@pytest.mark.parametrize(("shape", "chunks", "blocks", "dtype"), LAYOUTS)
@pytest.mark.parametrize("suffix", [".b2nd", ".b2z"])
def test_each_byte_is_copied_and_checked(
    tmp_path: Path,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    blocks: tuple[int, ...],
    dtype: str,
    suffix: str,
    source: str | None,
) -> None:
    random = np.random.default_rng(len(shape) * shape[-1])
    items = random.integers(0, 256, np.prod(shape) * np.dtype(dtype).itemsize, "u1").view(dtype).reshape(shape)
    array = blosc2.asarray(items, chunks=chunks, blocks=blocks, cparams={"clevel": 0})
    path = tmp_path / f"x{suffix}"
    if suffix == ".b2nd":
        array.save(str(path))
    else:
        with blosc2.TreeStore(str(path), mode="w") as store:
            store["/x"] = array

    def read() -> np.ndarray:
        opened = blosc2.open(str(path), mode="r", mmap_mode=source)
        out: np.ndarray = opened[...] if suffix == ".b2nd" else opened["/x"][...]
        return out

    np.testing.assert_array_equal(read().view("u1"), items.view("u1"))
    good = path.read_bytes()
    needle = np.ascontiguousarray(items[tuple(slice(0, b) for b in blocks)]).tobytes()  # the first block
    first = good.index(needle)
    for at in {first, first + 63, first + 64, first + len(needle) - 1, first + int(random.integers(len(needle)))}:
        if at >= first + len(needle):
            continue
        damaged = bytearray(good)
        damaged[at] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(blosc2.FormatError):
            read()
