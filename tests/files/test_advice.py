"""Advice: what is legal, which calls it becomes, and what becomes of resident pages."""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.cold_files import drop

import blosc2
from blosc2._core.io.source import ADVICE

ABOUT_BYTES = ("willneed", "dontneed")

counted = pytest.mark.skipif(not limits.LINUX, reason="counts resident pages in /proc")


def noise(nbytes: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 255, nbytes, dtype="u1")


@pytest.fixture
def array_path(tmp_path: Path) -> str:
    """4 MB in 16 chunks, which are stored as they are."""
    path = str(tmp_path / "noise.b2nd")
    blosc2.asarray(noise(4 << 20), urlpath=path, chunks=1 << 18, cparams={"clevel": 0})
    return path


@pytest.fixture(params=[".b2e", ".b2z", ".b2d", "_embedded.b2z"])
def store_path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Forty leaves of 100 KB in two groups."""
    path = str(tmp_path / f"store{request.param}")
    kind: Any = blosc2.EmbedStore if request.param == ".b2e" else blosc2.TreeStore
    more = {"threshold": 1 << 30} if request.param == "_embedded.b2z" else {}
    with kind(path, mode="w", cparams={"clevel": 0}, **more) as store:
        for n in range(40):
            store[f"/{'ab'[n % 2]}/leaf{n:02}"] = noise(100_000, n)
    return path


def rss(path: str) -> int:
    """Bytes of the mappings of a file that are resident in this process."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(" " + path)
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def flags(path: str) -> set[str]:
    """What the kernel notes of the mappings of a file: "rr" for random reading, "sr" for sequential."""
    found: set[str] = set()
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(" " + path)
        elif inside and line.startswith("VmFlags:"):
            found |= set(line.split()[1:]) & {"rr", "sr"}
    return found


def cached(path: str) -> np.ndarray[Any, Any]:
    """Which pages of a file the system has in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = os.path.getsize(path)
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        base = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        assert libc.mincore(base, size, pages) == 0
        libc.munmap(base, size)
    finally:
        os.close(descriptor)
    return np.frombuffer(pages.raw, "u1") & 1 == 1


# ---------------------------------------------------------------------- what is legal
def test_unknown_advice_is_refused_before_anything_is_done(tmp_path: Path, array_path: str) -> None:
    for wrong in ("soon", "RANDOM", b"random", 1):
        for kind in (blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore):
            with pytest.raises(ValueError, match="advice must be one of"):
                kind(str(tmp_path / "new.b2z"), mode="w", advise=wrong)  # type: ignore[arg-type]
        for path in (array_path, str(tmp_path / "missing.b2nd"), str(tmp_path / "missing.b2z")):
            with pytest.raises(ValueError, match="advice must be one of"):
                blosc2.open(path, advise=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="advice must be one of"):
            blosc2.open(array_path).advise(wrong)
    assert not (tmp_path / "new.b2z").exists()


def test_keys_that_are_not_there(store_path: str) -> None:
    with blosc2.open(store_path) as store:
        for wrong in ({"keys": ["/a/leaf00", "/a/leaf01"]}, {"keys": "/nothing"}, {"prefix": "/a/leaf0"}):
            with pytest.raises(KeyError):
                store.advise("willneed", **wrong)
        with pytest.raises(ValueError, match="string"):
            store.advise("willneed", keys=[5])
        with pytest.raises(IndexError):
            store["/a/leaf00"].advise("willneed", 100_000)
    with pytest.raises(ValueError, match="closed"):
        store.advise("random")


@pytest.mark.parametrize("advice", ADVICE)
def test_advice_changes_nothing_that_is_read(store_path: str, array_path: str, advice: str, source: str | None) -> None:
    array = blosc2.open(array_path, mmap_mode=source, advise=advice)
    array.advise(advice)
    np.testing.assert_array_equal(array[:], noise(4 << 20))
    with blosc2.open(store_path, mmap_mode=source, advise=advice) as store:
        leaf = store["/a/leaf00"]
        leaf.advise(advice)
        store.advise(advice)
        if advice in ABOUT_BYTES:
            leaf.advise(advice, slice(5, 900))
            leaf.advise(advice, [3, 5])
            store.advise(advice, keys=["/a/leaf00", "b/leaf01"])
            store.advise(advice, keys="/b/leaf01", prefix="/a")
            store.advise(advice, prefix="/")
        np.testing.assert_array_equal(leaf[:], noise(100_000, 0))
        np.testing.assert_array_equal(store["/b/leaf01"][:], noise(100_000, 1))


@pytest.mark.parametrize("advice", ADVICE)
def test_data_in_memory_need_no_advice(advice: str) -> None:
    array = blosc2.arange(1000)
    array.advise(advice)
    array.schunk.advise(advice)
    blosc2.expand_dims(array, 0).advise(advice)
    store = blosc2.EmbedStore()
    store["/x"] = array
    store.advise(advice)
    if advice in ABOUT_BYTES:
        array.advise(advice, 5)
        array.schunk.advise(advice, slice(3, 9))
        store.advise(advice, keys=["/x"])


# ---------------------------------------------------------------------- what becomes of resident pages
@counted
def test_dontneed_drops_resident_pages_of_an_array(array_path: str) -> None:
    array = blosc2.open(array_path, mmap_mode="r")
    array[:]
    assert rss(array_path) >= 4 << 20
    array.advise("dontneed", slice(0, 1 << 20))
    assert (2 << 20) < rss(array_path) <= (3 << 20) + (64 << 10)
    array.advise("dontneed")
    assert rss(array_path) <= 64 << 10
    np.testing.assert_array_equal(array[:], noise(4 << 20))
    assert rss(array_path) >= 4 << 20


@counted
@pytest.mark.parametrize("suffix", [".b2e", ".b2z", ".b2d"])
def test_dontneed_drops_resident_pages_of_leaves(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"store{suffix}")
    kind: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(path, mode="w", cparams={"clevel": 0}) as store:
        for n in range(8):
            store[f"/{'ab'[n % 2]}/{n}"] = noise(1 << 20, n)

    def resident() -> float:
        """In MiB."""
        return (sum(map(rss, map(str, Path(path).rglob("*")))) if suffix == ".b2d" else rss(path)) / (1 << 20)

    with kind(path, mode="r", mmap_mode="r") as store:
        leaves = {key: store[key] for key in store if isinstance(store[key], blosc2.NDArray)}
        for leaf in leaves.values():
            leaf[:]
        assert resident() >= 8
        store.advise("dontneed", keys=["/b/1", "/b/3"])
        assert 5.8 < resident() < 6.2
        store.advise("dontneed", prefix="/a")
        assert 1.8 < resident() < 2.2
        store.advise("dontneed")
        assert resident() < 0.2
        np.testing.assert_array_equal(leaves["/b/1"][:], noise(1 << 20, 1))


@pytest.mark.local
@counted
def test_willneed_reads_ahead(array_path: str, source: str | None) -> None:
    drop(array_path)
    if cached(array_path).any():
        pytest.skip("pages of this file system are not dropped")
    array = blosc2.open(array_path, mmap_mode=source, advise="random")
    array.advise("willneed", slice(1 << 20, 3 << 20))
    frame = array._handle.frame
    first, last = (frame.chunk_info(n)[0] // mmap.PAGESIZE for n in (4, 11))
    deadline = time.monotonic() + 20
    while not cached(array_path)[first:last].all() and time.monotonic() < deadline:
        time.sleep(0.01)
    now = cached(array_path)
    assert now[first:last].all()
    assert now.sum() < 0.8 * len(now)


@counted
def test_dontneed_gives_pages_of_a_descriptor_back(array_path: str) -> None:
    drop(array_path)
    if cached(array_path).any():
        pytest.skip("pages of this file system are not dropped")
    array = blosc2.open(array_path)
    array[:]
    assert cached(array_path).mean() > 0.9
    array.advise("dontneed")
    assert cached(array_path).mean() < 0.1


# ---------------------------------------------------------------------- advice that lasts


@counted
@pytest.mark.parametrize("suffix", [".b2e", ".b2z", ".b2nd"])
def test_advice_stays_when_the_file_grows_or_is_replaced(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"data{suffix}")
    if suffix == ".b2nd":
        writer: Any = blosc2.asarray(noise(100_000), urlpath=path, chunks=1000)
    else:
        writer = (blosc2.EmbedStore if suffix == ".b2e" else blosc2.DictStore)(path, mode="w")
        writer["/0"] = noise(100_000)
        writer.flush()
    reader = blosc2.open(path, mmap_mode="r", advise="random")
    assert flags(path) == {"rr"}
    for n in range(1, 4):
        if suffix == ".b2nd":
            writer.append(noise(500, n))
        else:
            writer[f"/{n}"] = noise(500, n)
            writer.flush()
        assert reader.refresh()
        assert flags(path) == {"rr"}
    writer.compact()
    assert reader.refresh()
    assert flags(path) == {"rr"}
    reader.advise("normal")
    assert flags(path) == set()
    if suffix != ".b2nd":
        writer.close()


@counted
def test_files_of_a_directory_are_told_when_they_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.b2d"
    with blosc2.DictStore(str(path), mode="w") as store:
        store["/x"], store["/y"] = noise(100_000, 1), noise(100_000, 2)
    with blosc2.open(str(path), mmap_mode="r") as store:
        x = store["/x"]
        store.advise("sequential")
        y = store["/y"]
        for leaf, name in ((x, "x.b2nd"), (y, "y.b2nd")):
            assert leaf[0] == noise(100_000, 1 + (name[0] == "y"))[0]
            assert flags(str(path / name)) == {"sr"}


def test_advice_of_a_store_that_is_still_to_be_written(tmp_path: Path) -> None:
    for name in ("new.b2e", "new.b2z"):
        kind: Any = blosc2.EmbedStore if name.endswith("e") else blosc2.DictStore
        with kind(str(tmp_path / name), mode="w", advise="random") as store:
            store["/x"] = noise(1000)
            store.flush()
            assert store._table.backend.embedded.frame.source.advice == "random"


def test_a_pickled_store_takes_its_advice_along(store_path: str) -> None:
    with blosc2.open(store_path, advise="sequential") as store:
        copy = pickle.loads(pickle.dumps(store))
        assert copy._table.session.advice == "sequential"
        copy.close()


# ---------------------------------------------------------------------- what the system is told without being asked to
def window(path: str) -> int:
    """KiB that the system reads ahead of a file on a disk; 0 where unknown."""
    device = os.stat(path).st_dev
    about = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return int(about.read_text()) if os.major(device) and about.exists() else 0


@pytest.fixture
def volumes(tmp_path: Path) -> str:
    """Twelve leaves of 1 MB in a file that the system has not in memory: each is one chunk of 64 blocks."""
    path = str(tmp_path / "volumes.b2z")
    with blosc2.DictStore(path, mode="w", cparams={"clevel": 0}) as store:
        for n in range(12):
            leaf = noise(1 << 20, n).reshape(1 << 10, 1 << 10)
            store[f"/{n:02}"] = blosc2.asarray(leaf, chunks=(1 << 10, 1 << 10), blocks=(1 << 7, 1 << 7))
    drop(path)
    if cached(path).any():
        pytest.skip("pages of this file system are not dropped")
    return path


@counted
def test_the_system_may_guess_while_leaves_are_read_in_order(volumes: str) -> None:
    with blosc2.open(volumes, mmap_mode="r") as store:
        assert flags(volumes) == {"rr"}
        for n in range(6):
            np.testing.assert_array_equal(store[f"/{n:02}"][:].ravel(), noise(1 << 20, n))
        assert flags(volumes) == (set() if window(volumes) >= 512 else {"rr"})
        np.testing.assert_array_equal(store["/11"][0], noise(1 << 20, 11)[: 1 << 10])
        assert flags(volumes) == {"rr"}


@counted
def test_what_the_user_says_stays_while_leaves_are_read_in_order(volumes: str) -> None:
    with blosc2.open(volumes, mmap_mode="r", advise="random") as store:
        for n in range(6):
            np.testing.assert_array_equal(store[f"/{n:02}"][:].ravel(), noise(1 << 20, n))
        assert flags(volumes) == {"rr"}


@counted
def test_small_parts_of_leaves_in_order_let_nothing_guess(volumes: str) -> None:
    with blosc2.open(volumes, mmap_mode="r") as store:
        for n in range(12):
            items = noise(1 << 20, n).reshape(1 << 10, 1 << 10)
            np.testing.assert_array_equal(store[f"/{n:02}"][100:700:500, 50:60], items[100:700:500, 50:60])
        assert flags(volumes) == {"rr"}
        assert cached(volumes).mean() < 0.5
