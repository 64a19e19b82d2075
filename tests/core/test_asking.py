"""What reads ask the system for before they begin: the blocks that they need, also of files that lie about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.cold_files import device_bytes, drop, least_device_bytes

import blosc2

MODES = pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["positional", "mapped"])
SHAPE, CHUNKS, BLOCKS = (96, 96, 96), (48, 48, 48), (16, 16, 16)


def volume() -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 1 << 14, SHAPE).astype("i2")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """1.5 MB in eight chunks of 27 blocks."""
    name = str(tmp_path / "volume.b2nd")
    blosc2.asarray(volume(), urlpath=name, chunks=CHUNKS, blocks=BLOCKS)
    return name


@pytest.mark.skipif(not limits.LINUX, reason="device bytes are counted in /proc")
@MODES
@pytest.mark.parametrize("advise", [None, "random"])
@pytest.mark.parametrize("together", [False, True], ids=["one", "many"])
def test_the_disk_reads_what_is_needed(path: str, mmap_mode: Any, advise: Any, together: bool) -> None:
    drop(path)
    before = device_bytes()
    Path(path).read_bytes()
    if device_bytes() == before:
        pytest.skip("pages of this file system are not dropped, or its device is not counted")
    patch = (slice(20, 44), slice(20, 44), slice(20, 60))  # in two chunks: 8 blocks of one, 4 of the other

    def read(name: str) -> Any:
        array = blosc2.open(name, mode="r", mmap_mode=mmap_mode, advise=advise)
        return array.read_many([patch, patch])[1] if together else array[patch]

    assert np.array_equal(read(path), volume()[patch])
    blocks = 12 * 7200
    pages = 4096 * (12 + 2 * 2 + 4 * 2)  # that blocks begin or end in; first bytes of chunks; header, table and trailer
    most = 1.5 * blocks + pages
    spent = least_device_bytes(path, lambda: read(path), most)
    assert blocks - 4096 * 8 <= spent <= most


@pytest.mark.skipif(not limits.LINUX, reason="device bytes are counted in /proc")
@MODES
@pytest.mark.parametrize(("mebibytes", "alone"), [(0.3, 1), (3.5, 7)], ids=["small", "large"])
def test_of_few_leaves_the_disk_reads_no_others(tmp_path: Path, mmap_mode: Any, mebibytes: float, alone: int) -> None:
    """What lies around a leaf is not read, until so many leaves were that all are likely to be: one of a small file."""
    name, length = str(tmp_path / "leaves.b2z"), int(mebibytes * 2**20)
    values = np.random.default_rng(1).integers(0, 256, 48 + length, dtype="u1")
    leaves = [values[n : n + length] for n in range(48)]
    with blosc2.DictStore(name, mode="w", cparams={"clevel": 0}) as store:
        for number, leaf in enumerate(leaves):
            store[f"/{number:02}"] = leaf
    drop(name)
    before = device_bytes()
    Path(name).read_bytes()
    if device_bytes() == before:
        pytest.skip("pages of this file system are not dropped, or its device is not counted")
    order = [int(n) for n in np.random.default_rng(3).permutation(48)]

    def read(count: int) -> None:
        with blosc2.open(name, mode="r", mmap_mode=mmap_mode) as store:
            for number in order[:count]:
                assert np.array_equal(store[f"/{number:02}"][:], leaves[number])

    read(len(order))
    most = 1.2 * alone * length + (1 << 16)
    assert alone * length <= least_device_bytes(name, lambda: read(alone), most) <= most
    most = Path(name).stat().st_size + (1 << 16)
    assert least_device_bytes(name, lambda: read(len(order)), most) <= most


@MODES
def test_points_slices_and_batches_over_steps(path: str, mmap_mode: Any) -> None:
    """Selections that pass over blocks and chunks, forwards and backwards."""
    array, items = blosc2.open(path, mode="r", mmap_mode=mmap_mode), volume()
    keys: list[Any] = [
        (slice(None, None, 40), slice(90, None, -37), slice(5, 6)),
        (slice(0, 96, 95), ...),
        (7, slice(None, None, -1), slice(3, 90, 50)),
        ([95, 0, 47], slice(10, 80, 30)),
    ]
    for key in keys:
        assert np.array_equal(array[key], items[key])
    for one, key in zip(array.read_many(keys[:3]), keys[:3], strict=True):
        assert np.array_equal(one, items[key])
