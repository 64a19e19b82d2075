"""The block cache of the process: it changes no value, stays below its limit, and knows versions apart."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child

import blosc2

ITEMS = np.random.default_rng(0).integers(0, 50, (40, 30, 20)).astype("i4")
MAPPED = pytest.mark.parametrize("mmap_mode", ["r", None], ids=["mapped", "positional"])


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    before = blosc2.set_block_cache("10 MB")
    yield
    blosc2.set_block_cache(before)


def write(path: Path, items: np.ndarray[Any, Any] = ITEMS, **how: Any) -> str:
    how = {"chunks": (16, 16, 20), "blocks": (4, 8, 10), **how}
    blosc2.asarray(items, urlpath=str(path), mode="w", **how)
    return str(path)


def keys(count: int, seed: int = 0) -> list[tuple[slice, ...]]:
    rng = np.random.default_rng(seed)

    def part(length: int) -> slice:
        start = int(rng.integers(length))
        return slice(start, start + 1 + int(rng.integers(length - start)), int(rng.integers(1, 4)))

    return [tuple(map(part, ITEMS.shape)) for _ in range(count)]


@MAPPED
@pytest.mark.parametrize("codec", [blosc2.Codec.LZ4, blosc2.Codec.ZSTD, blosc2.Codec.BLOSCLZ])
@pytest.mark.parametrize("filters", [[blosc2.Filter.SHUFFLE], [blosc2.Filter.BITSHUFFLE], []])
def test_values_are_those_of_numpy(tmp_path: Path, mmap_mode: str | None, codec: Any, filters: list[Any]) -> None:
    path = write(tmp_path / "x.b2nd", cparams={"codec": codec, "filters": filters})
    array = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    for _ in range(2):
        for key in keys(40):
            assert np.array_equal(array[key], ITEMS[key])
        before = blosc2.block_cache_stats()
    assert np.array_equal(array[3], ITEMS[3])
    assert np.array_equal(array[::-3, 4, ::-1], ITEMS[::-3, 4, ::-1])
    assert np.array_equal(array.read_many([1, 39, 1]), ITEMS[[1, 39, 1]])
    assert np.array_equal(array[...], ITEMS)
    assert before.hits > before.misses
    # Each block of the padded array at most once.
    assert before.misses == before.blocks <= 12 * 4 * 2
    assert before.evictions == 0
    assert before.blocks * 4 * 8 * 10 * 4 <= before.nbytes <= before.limit == 10_000_000


@pytest.mark.parametrize("limit", [5_000, 100_000, 40_000_000])
def test_it_stays_below_its_limit(tmp_path: Path, limit: int) -> None:
    blosc2.set_block_cache(limit)
    array = blosc2.open(write(tmp_path / "x.b2nd"), mode="r", mmap_mode="r")
    for key in keys(100):
        assert np.array_equal(array[key], ITEMS[key])
        assert blosc2.block_cache_stats().nbytes <= limit
    found = blosc2.block_cache_stats()
    assert (found.evictions > 0) is (limit < 200_000)
    assert found.blocks == found.misses - found.evictions
    blosc2.set_block_cache(limit)
    assert blosc2.block_cache_stats()[1:] == (0, 0, 0, 0, 0)


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    items = np.arange(6 * 1000).reshape(6, 1000)
    array = blosc2.open(write(tmp_path / "x.b2nd", items, chunks=(6, 1000), blocks=(1, 1000)), mmap_mode="r")
    blosc2.set_block_cache(3 * (8000 + 192))  # three blocks
    misses = []
    for row in (0, 1, 2, 0, 3, 0, 2, 1, 0):
        assert np.array_equal(array[row, 1:], items[row, 1:])
        misses.append(blosc2.block_cache_stats().misses)
    # Block 3 takes the place of 1, and 1 that of 3.
    assert misses == [1, 2, 3, 3, 4, 4, 4, 5, 5]


# ---------------------------------------------------------------------- versions


@MAPPED
@pytest.mark.parametrize("kind", [".b2z", ".b2d", ".b2e"])
def test_versions_of_stores(tmp_path: Path, mmap_mode: str | None, kind: str) -> None:
    path = str(tmp_path / f"x{kind}")
    make: Any = blosc2.EmbedStore if kind == ".b2e" else blosc2.TreeStore
    how: dict[str, Any] = {"chunks": (16, 16, 20), "blocks": (4, 8, 10)}
    key = (slice(2, 30), 5, slice(3, 9))
    with make(path, mode="w") as store:
        store["/a"], store["/b"] = blosc2.asarray(ITEMS, **how), blosc2.asarray(ITEMS + 1, **how)
    reader = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    held = reader["/b"]
    for value in range(2, 7):
        assert np.array_equal(reader["/a"][key], ITEMS[key])
        before = held[key]
        with make(path, mode="a") as store:
            store["/b"] = blosc2.asarray(ITEMS + value, **how)
            assert np.array_equal(store["/b"][key], ITEMS[key] + value)
            store.flush()
            assert np.array_equal(store["/b"][key], ITEMS[key] + value)
            if value % 2:
                store.compact()
                assert np.array_equal(store["/b"][key], ITEMS[key] + value)
        assert np.array_equal(held[key], before)
        reader.refresh()
        held = reader["/b"]
        assert np.array_equal(held[key], ITEMS[key] + value)


@MAPPED
def test_a_damaged_block_is_no_block(tmp_path: Path, mmap_mode: str | None) -> None:
    path = Path(write(tmp_path / "x.b2nd", cparams={"codec": blosc2.Codec.ZSTD}))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 500] = bytes(500)
    path.write_bytes(content)
    array = blosc2.open(str(path), mode="r", mmap_mode=mmap_mode, verify=False)
    outcomes: list[list[str]] = []
    for limit in ("10 MB", None, "10 MB"):
        blosc2.set_block_cache(limit)
        outcomes.append([])
        for row in [*range(40), *range(40)]:
            try:
                outcomes[-1].append(str(array[row, 3:].sum()))
            except blosc2.FormatError as error:
                outcomes[-1].append(str(error))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert any("chunk" in text for text in outcomes[0])


# ---------------------------------------------------------------------- threads and processes
@MAPPED
def test_many_threads(tmp_path: Path, mmap_mode: str | None) -> None:
    array = blosc2.open(write(tmp_path / "x.b2nd"), mode="r", mmap_mode=mmap_mode)
    wrong: list[Any] = []
    until = time.monotonic() + 1.5

    def read(seed: int) -> None:
        wanted = keys(30, seed)
        while time.monotonic() < until and not wrong:
            wrong.extend(key for key in wanted if not np.array_equal(array[key], ITEMS[key]))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    sizes = [30_000, 0, 10_000_000, 200_000_000, 5_000]
    while time.monotonic() < until:
        blosc2.set_block_cache(sizes[0])
        found = blosc2.block_cache_stats()
        assert found.nbytes <= found.limit == sizes[0]
        sizes.append(sizes.pop(0))
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert not wrong
    blosc2.set_block_cache(0)
    assert blosc2.block_cache_stats().nbytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")
def test_a_fork_beside_readers(tmp_path: Path) -> None:
    array = blosc2.open(write(tmp_path / "x.b2nd"), mode="r", mmap_mode="r")
    stop = threading.Event()

    def read(seed: int) -> None:
        wanted = keys(30, seed)
        while not stop.is_set():
            for key in wanted:
                array[key]

    def same() -> None:
        assert all(np.array_equal(array[key], ITEMS[key]) for key in keys(30, 9) * 2)
        blosc2.set_block_cache("1 MB")
        assert np.array_equal(array[2, 3:], ITEMS[2, 3:])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for limit in [20_000, 10_000_000] * 5:
            blosc2.set_block_cache(limit)
            in_child(same)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_arrays_in_memory_pass_it_by() -> None:
    array = blosc2.asarray(ITEMS, chunks=(16, 16, 20), blocks=(4, 8, 10))
    assert np.array_equal(array[2:5, 3], ITEMS[2:5, 3])
    array[2, 3] = 0
    assert not array[2, 3].any()
    assert blosc2.block_cache_stats().blocks == 0


@MAPPED
def test_free_resources_empties_it(tmp_path: Path, mmap_mode: str | None) -> None:
    array = blosc2.open(write(tmp_path / "x.b2nd"), mode="r", mmap_mode=mmap_mode)
    assert np.array_equal(array[3:9, 5:7], ITEMS[3:9, 5:7])
    before = blosc2.block_cache_stats()
    assert before.blocks > 0
    blosc2.free_resources()
    after = blosc2.block_cache_stats()
    assert after == before._replace(nbytes=0, blocks=0)
    for _ in range(2):
        assert np.array_equal(array[3:9, 5:7], ITEMS[3:9, 5:7])
    again = blosc2.block_cache_stats()
    assert (again.blocks, again.nbytes) == (before.blocks, before.nbytes)
    assert (again.hits, again.misses) == (before.hits + before.blocks, 2 * before.misses)


def test_counts_beside_small_reads(tmp_path: Path) -> None:
    """A small mapped read waits for a part of the cache with the GIL held: who counts must not wait for it."""
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, "w") as store:
        store["/x"] = blosc2.asarray(ITEMS[0, :, :], chunks=(30, 20), blocks=(10, 20))
    with blosc2.open(path, mmap_mode="r") as store:
        array, reads, stop = store["/x"], [0], threading.Event()

        def read() -> None:
            while not stop.is_set():
                array[3:5, 4:9]
                reads[0] += 1

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        for _ in range(20_000):
            blosc2.block_cache_stats()
        before = reads[0]
        until = time.monotonic() + 30
        while reads[0] == before and time.monotonic() < until:
            time.sleep(0.001)
        stop.set()
        thread.join(30)
        assert reads[0] > before


@pytest.mark.parametrize("limit", [20_000, 40_000_000])
@pytest.mark.parametrize("mmap_mode", ["r", None])
def test_selections_of_one_block_find_it_once(tmp_path: Path, mmap_mode: str | None, limit: int) -> None:
    """Selections of a batch that follow each other in one block share it, in a last chunk, too."""
    items = np.random.default_rng(4).integers(0, 50, (50, 100))
    path = write(tmp_path / "x.b2nd", items, chunks=(20, 100), blocks=(5, 100))
    array = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    rows = np.random.default_rng(5).integers(0, 50, 400).tolist()
    blosc2.set_block_cache(limit)
    before = blosc2.set_nthreads(1)
    try:
        for nthreads in (1, 2):
            blosc2.set_nthreads(nthreads)
            found = array.read_many([(row, slice(3, 90)) for row in rows])
            assert np.array_equal(found, items[rows, 3:90])
    finally:
        blosc2.set_nthreads(before)
    stats = blosc2.block_cache_stats()
    assert stats.nbytes <= limit
    if limit > 1_000_000:
        assert stats.misses == len({row // 5 for row in rows}) == 10
        assert stats.hits < 100
    blosc2.set_block_cache(0)
    assert np.array_equal(array.read_many(rows), items[rows])
