"""A file system that answers late, as over a network: what is asked for at once, and what becomes of lost bytes."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.slow_files import SlowFiles

import blosc2
from blosc2.exceptions import FormatError

#: Requests under way at a time. The kernel sends up to 12 ahead of a reader; one block after the other has 2 or 3.
SEVERAL = 8
MODES = pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["positional", "mapped"])

Items = np.ndarray[Any, Any]
Opener = Callable[[str], Any]


def volume(seed: int = 0, side: int = 96) -> Items:
    """Noise, of which each block of 16x16x16 takes 7 KB."""
    return np.random.default_rng(seed).integers(0, 1 << 14, (side, side, side)).astype("i2")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowFiles]:
    folder = tmp_path_factory.mktemp("served")
    layout: dict[str, Any] = {"chunks": (48, 48, 48), "blocks": (16, 16, 16)}
    blosc2.asarray(volume(), urlpath=str(folder / "volume.b2nd"), **layout)
    blosc2.asarray(volume(), urlpath=str(folder / "two_chunks.b2nd"), chunks=(48, 96, 96), blocks=(16, 16, 16))
    blosc2.asarray(volume(), urlpath=str(folder / "one_chunk.b2nd"), chunks=(96, 96, 96), blocks=(16, 16, 16))
    with blosc2.DictStore(str(folder / "volumes.b2z"), mode="w") as store:
        for n in range(4):
            store[f"/volume/{n}"] = blosc2.asarray(volume(n), **layout)
        for n in range(400):
            store[f"/small/{n:03}"] = np.random.default_rng(n).integers(0, 255, 5000, dtype="u1")
    if not limits.LINUX or not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse")
    try:
        files = SlowFiles(folder, tmp_path_factory.mktemp("mounted") / "slow")
    except OSError as error:
        pytest.skip(str(error))
    with files:
        yield files


@pytest.fixture
def opened(slow: SlowFiles) -> Opener:
    """Opens a file of which the kernel has no pages: opening drops them, on such file systems."""

    def open_cold(name: str, **how: Any) -> Any:
        slow.tell(delay=0.02, enough=0, direct=False)
        blosc2.free_resources()  # on a slow machine the file has settled, and would not be opened again
        return blosc2.open(str(slow.path / name), mode="r", **how)

    return open_cold


def count_at_a_time(slow: SlowFiles, enough: int = SEVERAL) -> None:
    """Answer nothing until so many requests are under way, or for half a second.

    So what is asked for at once is seen at once, however busy the machine is.
    """
    slow.tell(delay=0.5, enough=enough)


# ---------------------------------------------------------------------- asking at once
@MODES
@pytest.mark.parametrize("name", ["volume.b2nd", "volumes.b2z"])
def test_a_patch_asks_for_all_of_its_blocks_at_once(slow: SlowFiles, opened: Any, name: str, mmap_mode: Any) -> None:
    found = opened(name, mmap_mode=mmap_mode)
    array = found if name.endswith("b2nd") else found["/volume/0"]
    patch = (slice(20, 68),) * 3  # 64 blocks in eight chunks
    count_at_a_time(slow)
    items = array[patch]
    told = slow.tell()
    assert np.array_equal(items, volume()[patch])
    assert told["most"] >= SEVERAL
    # One for what the table of offsets says, one for where the blocks lie, the others for these.
    assert told["requests"]["read"] <= 8 + 64 + 4
    assert told["bytes"] < 0.8 * 1_560_000  # of the whole array


@MODES
def test_opening_an_archive_waits_once(slow: SlowFiles, mmap_mode: Any) -> None:
    """Its end record, directory, catalog and embedded values are some ten pieces of its last 64 KB."""
    slow.tell(delay=0.002, enough=0, direct=False)
    slow.tell()
    store = blosc2.open(str(slow.path / "volumes.b2z"), mode="r", mmap_mode=mmap_mode)
    told = slow.tell()
    assert len(store) == 404
    assert told["requests"]["read"] == 1


@MODES
def test_where_blocks_lie_is_asked_once_for_all_chunks(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    """With the blocks of the first large read: so the next one, of another chunk, waits once and not twice."""
    array = opened("two_chunks.b2nd", mmap_mode=mmap_mode)
    small = (slice(64, 80), slice(32, 48), slice(0, 48))  # three blocks in the middle of the second chunk
    assert np.array_equal(array[0, 0, 0], volume()[0, 0, 0])  # one block is not worth it
    slow.tell()
    time.sleep(0.05)
    assert slow.tell()["requests"] == {}
    patch = (slice(0, 48), slice(0, 48), slice(0, 96))  # half of the first chunk
    assert np.array_equal(array[patch], volume()[patch])
    time.sleep(0.05)  # until what nobody waits for has come
    slow.tell()
    assert np.array_equal(array[small], volume()[small])
    assert slow.tell()["requests"] == {"read": 1}


@MODES
def test_blocks_at_the_beginning_come_with_what_says_where_they_lie(
    slow: SlowFiles, opened: Any, mmap_mode: Any
) -> None:
    array = opened("volume.b2nd", mmap_mode=mmap_mode)
    for number, patch in enumerate(
        [
            (slice(48, 64), slice(0, 16), slice(48, 80)),  # the first two of the 27 blocks of a chunk
            (slice(48, 64), slice(48, 64), slice(16, 48)),  # the second and the third
        ]
    ):
        slow.tell()
        assert np.array_equal(array[patch], volume()[patch])
        time.sleep(0.05)
        told = slow.tell()
        assert told["requests"] == {"read": 1}, number
        assert told["bytes"] < 8 << 12  # pages


@MODES
def test_points_ask_at_once(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    array = opened("volume.b2nd", mmap_mode=mmap_mode)
    where = tuple(np.random.default_rng(3).integers(0, 96, (3, 60)))
    count_at_a_time(slow)
    items = array[where]
    assert slow.tell()["most"] >= SEVERAL
    assert np.array_equal(items, volume()[where])


@MODES
def test_a_whole_array_is_asked_for_ahead(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    array = opened("volume.b2nd", mmap_mode=mmap_mode)
    count_at_a_time(slow)
    items = array[:]
    told = slow.tell()
    assert np.array_equal(items, volume())
    assert told["most"] >= SEVERAL


@MODES
def test_many_patches_of_one_array_ask_at_once(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    array = opened("volume.b2nd", mmap_mode=mmap_mode)
    corners = np.random.default_rng(1).integers(0, 80, (12, 3)).tolist()
    patches = [tuple(slice(at, at + 16) for at in corner) for corner in corners]
    count_at_a_time(slow)
    items = array.read_many(patches)
    told = slow.tell()
    assert all(np.array_equal(one, volume()[patch]) for one, patch in zip(items, patches, strict=True))
    assert told["most"] >= SEVERAL


@MODES
def test_patches_of_several_arrays_ask_at_once(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    store = opened("volumes.b2z", mmap_mode=mmap_mode)
    wanted = [(f"/volume/{n}", (slice(20 * n, 20 * n + 16),) * 3) for n in (3, 0, 2, 1)]
    count_at_a_time(slow, 6)
    items = store.read_many(wanted)
    assert slow.tell()["most"] >= 6
    for one, (key, patch) in zip(items, wanted, strict=True):
        assert np.array_equal(one, volume(int(key[-1]))[patch])


@MODES
def test_many_leaves_are_asked_for_at_once(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    store = opened("volumes.b2z", mmap_mode=mmap_mode)
    numbers = np.random.default_rng(2).permutation(400)[:100].tolist()
    count_at_a_time(slow)
    items = store.read_many([f"/small/{n:03}" for n in numbers])
    told = slow.tell()
    assert told["most"] >= SEVERAL
    assert told["bytes"] < 2 * 100 * 5200 + (128 << 10)
    for one, n in zip(items, numbers, strict=True):
        assert np.array_equal(one, np.random.default_rng(n).integers(0, 255, 5000, dtype="u1"))


@MODES
@pytest.mark.parametrize("view", ["values", "items"])
def test_iterating_asks_for_leaves_ahead(slow: SlowFiles, opened: Any, mmap_mode: Any, view: str) -> None:
    store = opened("volumes.b2z", mmap_mode=mmap_mode)
    count_at_a_time(slow)
    sums = [int((leaf[1] if view == "items" else leaf)[:].sum()) for leaf in getattr(store, view)()]
    told = slow.tell()
    small = [int(np.random.default_rng(n).integers(0, 255, 5000, dtype="u1").sum()) for n in range(400)]
    assert sums == [*small, *(int(volume(n).sum()) for n in range(4))]
    assert told["most"] >= SEVERAL
    assert told["requests"]["read"] < len(store)  # most of them for several leaves, however the kernel cuts them up
    assert told["bytes"] <= os.path.getsize(slow.path / "volumes.b2z") + (256 << 10)  # and none of it twice


@MODES
def test_a_large_read_asks_although_all_before_it_was_in_memory(slow: SlowFiles, opened: Any, mmap_mode: Any) -> None:
    store = opened("volumes.b2z", mmap_mode=mmap_mode)
    other, array = store["/volume/0"], store["/volume/1"]
    for _ in range(100):
        other[:16, :16, :32]
    count_at_a_time(slow)
    items = array[:]
    told = slow.tell()
    assert np.array_equal(items, volume(1))
    assert told["most"] >= SEVERAL
    assert told["requests"]["read"] < 108  # half as many as blocks: page faults come before, but not for each


@MODES
def test_a_large_chunk_is_asked_for_although_all_before_it_was_in_memory(
    slow: SlowFiles, opened: Any, mmap_mode: Any
) -> None:
    array = opened("one_chunk.b2nd", mmap_mode=mmap_mode)
    for _ in range(100):
        array[:16, :16, :32]
    count_at_a_time(slow)
    chunk = array.schunk.decompress_chunk(0)
    told = slow.tell()
    assert chunk == array[:].reshape(6, 16, 6, 16, 6, 16).transpose(0, 2, 4, 1, 3, 5).tobytes()  # block after block
    assert told["most"] >= SEVERAL
    assert told["requests"]["read"] < 50


# ---------------------------------------------------------------------- what is lost
@pytest.mark.parametrize("direct", [False, True], ids=["with pages", "without pages"])
def test_a_short_read_is_an_error_of_the_system(slow: SlowFiles, tmp_path: Path, direct: bool) -> None:
    blosc2.asarray(volume(), urlpath=str(tmp_path / "volume.b2nd"), chunks=(48, 48, 48), blocks=(16, 16, 16))
    with SlowFiles(tmp_path, tmp_path.with_name(tmp_path.name + "-slow")) as files:
        files.tell(direct=direct)
        array = blosc2.open(str(files.path / "volume.b2nd"), mode="r")
        assert array[0, 0, 0] == volume()[0, 0, 0]
        files.tell(cut=400_000)
        with pytest.raises(OSError, match=r"volume\.b2nd.*gives fewer") as caught:
            array[:]
        assert isinstance(caught.value, blosc2.ShortReadError)
        assert isinstance(caught.value, FormatError)


@pytest.mark.parametrize("what", ["array", "points", "many"])
def test_a_vanished_server_is_an_error_of_the_system(slow: SlowFiles, tmp_path: Path, what: str) -> None:
    blosc2.asarray(volume(), urlpath=str(tmp_path / "volume.b2nd"), chunks=(48, 48, 48), blocks=(16, 16, 16))
    with SlowFiles(tmp_path, tmp_path.with_name(tmp_path.name + "-slow")) as files:
        array = blosc2.open(str(files.path / "volume.b2nd"), mode="r")
        assert array[0, 0, 0] == volume()[0, 0, 0]
        files.vanish()
        with pytest.raises(OSError, match=r"volume\.b2nd") as caught:
            if what == "array":
                array[:]
            elif what == "points":
                array[[1, 90], [80, 3], [70, 50]]
            else:
                array.read_many([(slice(50, 90),) * 3, (slice(0, 60),) * 3])
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
