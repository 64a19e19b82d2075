"""Reads by several threads of which some bytes are in memory and others not: those that are there come first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.cold_files import drop

import blosc2
from blosc2._core.codec import thread_pool

MODES = pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["positional", "mapped"])
SHAPE, CHUNKS, BLOCKS = (96, 96, 96), (48, 48, 96), (16, 16, 32)


@pytest.fixture(autouse=True)
def helpers() -> Iterator[None]:
    """Threads that read together, also where there is one processor."""
    before = thread_pool.limit(3)
    yield
    thread_pool.limit(before)


def volume() -> np.ndarray[Any, Any]:
    """Noise, with a chunk of zeros and one that is mostly one value."""
    items = np.random.default_rng(7).integers(0, 1 << 14, SHAPE).astype("i2")
    items[:48, :48] = 0
    items[48:, 48:, 8:] = 5
    return items


def bring(name: str, rng: np.random.Generator) -> None:
    """Have only some parts of a file in memory."""
    blosc2.free_resources()  # pages that are mapped are not dropped
    drop(name)
    with open(name, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for start in range(0, os.path.getsize(name), 20_000):
            if rng.random() < 0.5:
                os.pread(file.fileno(), 20_000, start)


@pytest.mark.skipif(not limits.LINUX, reason="what is in memory is only asked on Linux")
@MODES
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"cparams": {"codec": blosc2.Codec.LZ4, "clevel": 5}},
        {"cparams": {"clevel": 0}},
        {"cparams": {"filters": [blosc2.Filter.DELTA], "filters_meta": [0]}},
    ],
    ids=["zstd", "lz4", "raw", "delta"],
)
@pytest.mark.parametrize("verify", [None, True])
def test_of_a_file_that_is_half_in_memory_all_items_are_right(
    tmp_path: Path, mmap_mode: Any, how: Any, verify: Any
) -> None:
    name, items, rng = str(tmp_path / "x.b2nd"), volume(), np.random.default_rng(3)
    blosc2.asarray(items, urlpath=name, chunks=CHUNKS, blocks=BLOCKS, **how)
    for number in range(24):
        bring(name, rng)
        array = blosc2.open(name, mode="r", mmap_mode=mmap_mode, verify=verify, dparams={"nthreads": 4})
        low = [int(rng.integers(0, n - 40)) for n in SHAPE]
        high = [min(at + int(rng.integers(36, 96)), n) for at, n in zip(low, SHAPE, strict=True)]
        key: Any = tuple(slice(start, stop, 1 + (number % 5 == 4)) for start, stop in zip(low, high, strict=True))
        if number % 6 == 5:
            key = tuple(slice(one.stop - 1, one.start, -1) for one in key)
        out = np.empty_like(items[key])
        assert np.array_equal(array[key], items[key])
        del array
        bring(name, rng)
        array = blosc2.open(name, mode="r", mmap_mode=mmap_mode, dparams={"nthreads": 4})
        array.read(key, out=out)
        assert np.array_equal(out, items[key])
        del array
