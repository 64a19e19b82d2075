"""Arrays on servers: which requests are sent, and what comes of them."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit

import blosc2
from blosc2.exceptions import RemoteError


@pytest.fixture(scope="module")
def volume() -> np.ndarray:
    steps = np.random.default_rng(17).integers(0, 40, (96, 96, 96), dtype=np.int16)
    return np.cumsum(steps, axis=2, dtype=np.int16)


@pytest.fixture(scope="module")
def array_file(volume: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "volume.b2nd"
    blosc2.asarray(volume, urlpath=str(path), chunks=(32, 32, 32), blocks=(16, 16, 16))
    return path


def test_an_array_is_read_over_http(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    assert len(server.requests) <= 2
    np.testing.assert_array_equal(array[10:50, 3, ::7], volume[10:50, 3, ::7])
    np.testing.assert_array_equal(array[...], volume)
    assert {request.method for request in server.requests} == {"GET"}
    # Nothing is sent twice.
    assert server.sent <= 1.05 * array_file.stat().st_size


def test_chunks_are_fetched_side_by_side(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    server.forget()
    server.delay = 0.05
    keys = [np.s_[i : i + 32, j : j + 32, 64:96] for i in (0, 32, 64) for j in (0, 32, 64)]
    for got, key in zip(array.read_many(keys), keys):
        np.testing.assert_array_equal(got, volume[key])
    assert server.most >= 4
    assert len(server.requests) <= len(keys) + 3


def test_all_of_an_array_is_fetched_when_it_is_opened(server: remote_kit.RangeServer, array_file: Path) -> None:
    blosc2.open(server.put("volume.b2nd", array_file), advise="willneed")
    end = time.monotonic() + 30
    while server.sent < array_file.stat().st_size and time.monotonic() < end:
        time.sleep(0.01)
    assert server.sent >= array_file.stat().st_size


def test_a_pickle_reopens_by_url(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    packed = pickle.dumps(array)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed)[5], volume[5])


# --------------------------------------------------------------------------- stores
@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "store.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/g{i // 300:02d}/leaf{i:05d}", leaf(i)) for i in range(6_000))
    return path


def leaf(i: int) -> np.ndarray:
    return np.arange(i, i + 100)


def test_a_store_is_read_page_by_page(server: remote_kit.RangeServer, store_file: Path) -> None:
    store = blosc2.open(server.put("store.b2z", store_file), remote={"ahead": 0})
    assert len(server.requests) <= 3
    server.forget()
    np.testing.assert_array_equal(store["/g07/leaf02123"][:], leaf(2123))
    assert len(server.requests) <= 3  # a page of the hash, a part of the directory, and the leaf
    assert server.sent <= (64 << 10) + 3 * 4096
    server.forget()
    assert "/g07/leaf02124" in store
    assert "/g07/leaf99999" not in store
    assert list(store["/g07"])[23:25] == ["/leaf02123", "/leaf02124"]
    assert len(store["/g07"]) == 300
    server.forget()
    np.testing.assert_array_equal(store["/g07/leaf02125"][:], leaf(2125))
    assert len(server.requests) <= 2
    assert len(list(store)) == 6_020
    # Now all is known of where leaves are.
    server.forget()
    np.testing.assert_array_equal(store["/g15/leaf04500"][:], leaf(4_500))
    assert len(server.requests) <= 2


def test_many_leaves_are_fetched_side_by_side(server: remote_kit.RangeServer, store_file: Path) -> None:
    store = blosc2.open(server.put("store.b2z", store_file))
    server.forget()
    server.delay = 0.02
    numbers = [93 * i + 7 for i in range(64)]
    keys = [f"/g{i // 300:02d}/leaf{i:05d}" for i in numbers]
    for got, i in zip(store.read_many(keys), numbers):
        np.testing.assert_array_equal(got, leaf(i))
    # A page of the hash, one of the directory, and the leaf, for each at most; and three rounds of them.
    assert len(server.requests) <= 3 * 64
    assert server.most >= 8


def test_a_directory_that_does_not_come(server: remote_kit.RangeServer, store_file: Path) -> None:
    """A page that cannot be fetched is an error of the server, not a missing key; the next read asks again."""
    store = blosc2.open(server.put("store.b2z", store_file), remote={"retries": 0, "ahead": 0})
    for ask in (
        lambda: store["/g00/leaf00056"], lambda: "/g04/leaf01367" in store, lambda: list(store["/g08"]),
        lambda: store.read_many(["/g12/leaf03601", "/g14/leaf04201"]), lambda: len(store["/g18"]),
    ):  # fmt: skip
        server.spoil = lambda handler, data, part: remote_kit.reply(handler, 503, b"") or True
        with pytest.raises(RemoteError, match=r"store\.b2z"):
            ask()
        server.spoil = None
        assert ask() is not None


def test_leaves_in_order_take_few_requests(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    path = tmp_path / "store.b2z"
    with blosc2.TreeStore(str(path), mode="w") as writing:
        writing.write_many((f"/{i:03d}", leaf(i)) for i in range(500))
    store = blosc2.open(server.put("store.b2z", path))
    server.forget()
    for i in range(500):
        np.testing.assert_array_equal(store[f"/{i:03d}"][:], leaf(i))
    assert len(server.requests) < 100
    assert server.sent <= 1.2 * path.stat().st_size


def test_an_embed_store(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    path = tmp_path / "store.b2e"
    with blosc2.EmbedStore(str(path), mode="w") as writing:
        for i in range(300):
            writing[f"/{i:03d}"] = np.arange(i, i + 1000)
    store = blosc2.open(server.put("store.b2e", path))
    assert len(server.requests) <= 3
    server.forget()
    np.testing.assert_array_equal(store["/123"][:], np.arange(123, 1123))
    # With the chunk of values around it, whose checksum is looked at: its first bytes, and then the rest.
    assert len(server.requests) <= 2
    server.forget()
    np.testing.assert_array_equal(store["/124"][:], np.arange(124, 1124))
    assert server.requests == []


def test_lists_and_super_chunks(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 256, 1_000_000, dtype=np.uint8).tobytes()
    chunk = blosc2.SChunk(chunksize=100_000, data=data, urlpath=str(tmp_path / "a.b2frame"))
    chunk.vlmeta["unit"] = "mm"
    values = blosc2.ObjectArray(urlpath=str(tmp_path / "b.b2f"), mode="w")
    values.extend([{"a": 1}, [2, 3], "four"])
    back = blosc2.open(server.put("a.b2frame", tmp_path / "a.b2frame"))
    assert back[150_000:350_000] == data[150_000:350_000]
    assert back.decompress_chunk(9) == data[900_000:]
    assert back.vlmeta["unit"] == "mm"
    assert list(blosc2.open(server.put("b.b2f", tmp_path / "b.b2f"))) == [{"a": 1}, [2, 3], "four"]


def test_copies_are_local(server: remote_kit.RangeServer, store_file: Path, array_file: Path, tmp_path: Path) -> None:
    store = blosc2.open(server.put("store.b2z", store_file))
    with pytest.raises(ValueError, match="give the path"):
        store.to_b2z()
    with pytest.raises(ValueError, match="give the path"):
        store.to_b2d()
    with pytest.raises(NotImplementedError, match="reads files of this machine"):
        store.check()
    store.to_b2z(str(tmp_path / "copy.b2z"))
    with blosc2.open(str(tmp_path / "copy.b2z")) as copy:
        assert len(copy) == len(store)
        np.testing.assert_array_equal(copy["/g15/leaf04500"][:], leaf(4_500))
    array = blosc2.open(server.put("volume.b2nd", array_file))
    local = array.copy(urlpath=str(tmp_path / "copy.b2nd"))
    np.testing.assert_array_equal(local[...], array[...])
    loaded = blosc2.load(f"{server.url}/volume.b2nd")
    loaded[0, 0, 0] = 7
    assert loaded[0, 0, 0] == 7
    assert not list(Path.cwd().glob("http*"))


# --------------------------------------------------------------------------- what is fetched with others
def test_patches_one_by_one_wait_for_few_answers(
    server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray
) -> None:
    """Where an answer takes long, parts that later reads need come with the first ones."""
    server.delay = 0.02
    asked = []
    for ahead in (0, 8 << 20):
        array = blosc2.open(server.put("volume.b2nd", array_file), remote={"ahead": ahead})
        server.forget()
        for corner in np.random.default_rng(3).integers(0, 96 - 16, (30, 3)).tolist():
            key = tuple(slice(c, c + 16) for c in corner)
            np.testing.assert_array_equal(array[key], volume[key])
        asked.append(len(server.requests))
    assert asked[1] < asked[0] / 2, asked  # how many there are depends on how busy the machine is
    assert server.sent <= 1.05 * array_file.stat().st_size


def test_what_nobody_needs_is_bounded(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """Who reads here and there in a large object gets a few MB too much, and no more however long that goes on."""
    items = np.random.default_rng(5).integers(0, 256, 64 << 20, dtype=np.uint8)
    path = tmp_path / "noise.b2nd"
    blosc2.asarray(items, urlpath=str(path), chunks=(1 << 20,), blocks=(1 << 14,), cparams={"clevel": 0})
    ahead = 4 << 20
    array = blosc2.open(server.put("noise.b2nd", path), remote={"ahead": ahead, "memory": 1 << 20})
    server.forget()
    server.delay = 0.005
    for at in np.random.default_rng(6).permutation(64)[:40].tolist():
        start = (at << 20) + 500_000
        np.testing.assert_array_equal(array[start : start + 10], items[start : start + 10])
    assert server.sent < 2 * ahead + 40 * (1 << 16)


def test_what_info_tells_needs_no_request(server: remote_kit.RangeServer, array_file: Path) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    asked = len(server.requests)
    assert dict(array.info_items)["on disk"].startswith(f"{array_file.stat().st_size} (")
    assert "unused" not in dict(array.schunk.info_items)
    assert len(server.requests) == asked


def test_ahead_is_checked(server: remote_kit.RangeServer, array_file: Path) -> None:
    with pytest.raises(ValueError, match=r"remote\['ahead'\] must be at least 0, not -1"):
        blosc2.open(server.put("volume.b2nd", array_file), remote={"ahead": -1})
