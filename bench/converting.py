"""How fast `blosc2.convert` is, beside reading the source and compressing what was read, one after the other.

    python bench/converting.py [--mb 1024]

Both references read the source with its own library, in pieces, and compress each with `blosc2.asarray` in memory:
nothing is written. The first takes pieces of whole chunks of the source, the cheapest way; the second the chunks that
`convert` gives to the array. The ratios are their times by that of `convert`, which writes the store, too. Needs the
extra ``convert``. Medians of three runs, in turn.
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
    os.sync()  # else what is written below waits for these
    return made


def read(path: str, chunks: tuple[int, ...], blocks: tuple[int, ...] | None) -> None:
    """A reference: read and compress, and keep nothing."""
    if path.endswith(".npy"):
        compress(np.load(path, mmap_mode="r"), chunks, blocks)
    elif path.endswith(".h5"):
        with h5py.File(path) as file:
            compress(file["volume"], chunks, blocks)
    else:
        compress(zarr.open_group(path, mode="r")["volume"], chunks, blocks)


def compress(found: Any, chunks: tuple[int, ...], blocks: tuple[int, ...] | None) -> None:
    for at in range(0, found.shape[0], chunks[0]):
        items = np.asarray(found[at : at + chunks[0]])
        blosc2.asarray(items, chunks=(len(items), *chunks[1:]), blocks=blocks)


def layout(target: str) -> tuple[Any, Any]:
    with blosc2.open(target) as store:
        leaf = store["/volume"]
        return leaf.chunks, leaf.blocks


def took(act: Callable[..., Any], *arguments: Any, **keywords: Any) -> float:
    began = time.perf_counter()
    act(*arguments, **keywords)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1024)
    mb = parser.parse_args().mb
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'seconds':20}{'reads':>9}{'its chunks':>12}{'convert':>9}{'ratio':>8}{'its chunks':>12}   {mb} MB")
        for name, path in sources(folder, mb).items():
            target = os.path.join(folder, "out.b2z")
            runs = []
            for _ in range(3):
                ours = took(blosc2.convert, path, target, overwrite=True)
                runs.append((took(read, path, CHUNKS, None), took(read, path, *layout(target)), ours))
            flat, alike, ours = (median(column) for column in zip(*runs))
            print(f"{name:20}{flat:9.2f}{alike:12.2f}{ours:9.2f}{flat / ours:8.2f}{alike / ours:12.2f}", flush=True)


if __name__ == "__main__":
    main()
