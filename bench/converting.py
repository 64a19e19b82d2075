"""How fast `blosc2.convert` is, beside reading the source and compressing what was read, one after the other.

    python bench/converting.py [--mb 1024]

The reference reads the source with its own library, in pieces of whole chunks, and compresses each with
`blosc2.asarray` in memory: nothing is written. The ratio is its time by that of `convert`, which writes the store, too.
Needs the extra ``convert``. Medians of three runs, in turn.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import zarr

import blosc2

SHAPE = (512, 512)
CHUNKS = (16, 256, 256)


def sources(folder: str, mb: int) -> dict[str, str]:
    """Files with the same volume: smooth, with noise in the low bits."""
    rng = np.random.default_rng(0)
    depth = mb * (1 << 20) // (SHAPE[0] * SHAPE[1] * 2)
    wave = np.add.outer(np.sin(np.arange(SHAPE[0]) / 40), np.cos(np.arange(SHAPE[1]) / 50)) * 1000
    path = os.path.join(folder, "volume.npy")
    volume = np.lib.format.open_memmap(path, "w+", "i2", (depth, *SHAPE))
    for at in range(depth):
        volume[at] = wave * np.sin(at / 30) + rng.integers(0, 8, SHAPE)
    made = {"npy": path}
    for name, how in {
        "hdf5, contiguous": {}, "hdf5, gzip": {"chunks": CHUNKS, "compression": "gzip", "compression_opts": 1},
        "hdf5, blosc2": {"chunks": CHUNKS, **hdf5plugin.Blosc2(cname="zstd", clevel=5)},
    }.items():  # fmt: skip
        made[name] = os.path.join(folder, f"{name.replace(', ', '-')}.h5")
        with h5py.File(made[name], "w") as file:
            file.create_dataset("volume", data=volume, **how)
    made["zarr"] = os.path.join(folder, "volume.zarr")
    zarr.create_group(made["zarr"]).create_array("volume", data=np.asarray(volume), chunks=CHUNKS)
    return made


def read(path: str) -> None:
    """The reference."""
    if path.endswith(".npy"):
        compress(np.load(path, mmap_mode="r"))
    elif path.endswith(".h5"):
        with h5py.File(path) as file:
            compress(file["volume"])
    else:
        compress(zarr.open_group(path, mode="r")["volume"])


def compress(found: Any) -> None:
    for at in range(0, found.shape[0], 16):
        items = np.asarray(found[at : at + 16])
        blosc2.asarray(items, chunks=(len(items), *CHUNKS[1:]))


def took(act: Callable[..., Any], *arguments: Any, **keywords: Any) -> float:
    began = time.perf_counter()
    act(*arguments, **keywords)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1024)
    mb = parser.parse_args().mb
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'':20}{'reference':>12}{'convert':>12}{'ratio':>8}   seconds for {mb} MB")
        for name, path in sources(folder, mb).items():
            target = os.path.join(folder, "out.b2z")
            both = [(took(read, path), took(blosc2.convert, path, target, overwrite=True)) for _ in range(3)]
            ours, theirs = median(b for _, b in both), median(a for a, _ in both)
            print(f"{name:20}{theirs:12.2f}{ours:12.2f}{theirs / ours:8.2f}", flush=True)


if __name__ == "__main__":
    main()
