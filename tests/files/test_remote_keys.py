"""Keys of stores on servers: how many requests finding them takes, and that the answers are those of a local store."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit
from fixture_kit import catalogs
from fixture_kit.siphash import siphash13

import blosc2
from blosc2.exceptions import RemoteError, StoreKeyError

GROUPS, LEAVES = 12, 1000


def leaf(i: int) -> np.ndarray:
    return np.arange(i, i + 20)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "large.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many(
            (f"/g{g:02d}/leaf{i:06d}", leaf(i))
            for g in range(GROUPS)
            for i in range(g * LEAVES, (g + 1) * LEAVES)
        )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nested groups, small and large ones, names beyond ASCII, attributes, leaves at the root."""
    path = tmp_path_factory.mktemp("remote") / "mixed.b2z"
    names = [f"/root{i}" for i in range(40)]
    names += [f"/a/b/c/{i:03d}" for i in range(300)] + [f"/a/b/{i:04d}" for i in range(2500)]
    names += [f"/a/é{i}/ü" for i in range(60)] + [f"/z{i}/x" for i in range(200)] + [f"/a/bb/{i}" for i in range(70)]
    names += [f"/long/{'n' * 120}{i:04d}" for i in range(1500)]
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((name, leaf(i)) for i, name in enumerate(names))
        for group in ("/a", "/a/b", "/z7"):
            store[group].vlmeta["unit"] = group
    return path


def test_a_leaf_is_one_request_beyond_its_group(server: remote_kit.RangeServer, large: Path) -> None:
    store = blosc2.open(server.put("large.b2z", large))
    assert len(server.requests) <= 3
    server.forget()
    np.testing.assert_array_equal(store["/g03/leaf003500"][:], leaf(3500))
    # The slot of the group, which may have come with the first requests, the records of its leaves, the leaf.
    assert len(server.requests) in (2, 3)
    for i in (3000, 3123, 3777):
        server.forget()
        np.testing.assert_array_equal(store[f"/g03/leaf{i:06d}"][:], leaf(i))
        assert len(server.requests) == 1
    group = store["/g07"]
    server.forget()
    np.testing.assert_array_equal(group["leaf007600"][:], leaf(7600))
    assert len(server.requests) == 1
    server.forget()
    assert "/g07/leaf007601" in store
    assert server.requests == []
    assert "/g07/leaf0076015" not in store
    assert len(server.requests) <= 1  # it might be a group, which the hash tells


def test_slots_that_go_on_in_the_next_page_are_one_request(server: remote_kit.RangeServer, large: Path) -> None:
    fields, _ = catalogs.parts(large.read_bytes(), catalogs.archive_at(large))

    def left(key: str) -> int:
        """The bytes of slots from that of a key to the end of its page."""
        hashed = siphash13(fields["seed0"], fields["seed1"], key.encode())
        return -(fields["slots"] + 8 * ((hashed & 0xFFFFFFFF) * fields["homes"] >> 32)) % catalogs.PAGE

    keys = [key for i in range(20_000) if 0 < left(key := f"none{i}") <= 16][:20]
    assert len(keys) == 20
    address = server.put("large.b2z", large)
    asked = []
    for key in keys:
        store = blosc2.open(address)
        server.forget()
        assert f"/{key}" not in store
        asked.append(len(server.requests))
    assert set(asked) <= {0, 1}
    assert sum(asked) > 10  # some slots came with the first requests


def test_one_leaf_of_each_group(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """Where nobody asks for a second key of a group, no others come with it; where somebody does, they come again."""
    path = tmp_path / "groups.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/g{g:02d}/leaf{i:04d}", leaf(i)) for g in range(40) for i in range(1000))
    store = blosc2.open(server.put("groups.b2z", path), remote={"ahead": 0})
    groups = [7 * k % 40 for k in range(40)]
    server.forget()
    for g in groups[:30]:
        np.testing.assert_array_equal(store[f"/g{g:02d}/leaf{500 + g:04d}"][:], leaf(500 + g))
    assert len(server.requests) <= 3 * 30
    # The records around leaves of the first four groups; of each leaf a page of slots, one of records, and the bytes.
    assert server.sent < 4 * 65_536 + 30 * (2 * 4096 + 600)
    assert sum(request.sent > 65_000 for request in server.requests) <= 4
    for g in groups[30:]:
        server.forget()
        for i in range(0, 540, 60):
            np.testing.assert_array_equal(store[f"/g{g:02d}/leaf{i:04d}"][:], leaf(i))
        # The first group fetches its records late; later ones with the first leaf.
        assert len(server.requests) <= 9 + (5 if g == groups[30] else 2)
    server.forget()
    assert len(store["/g05"]) == 1000
    assert len(server.requests) <= 8


def test_a_group_is_listed_in_few_requests(server: remote_kit.RangeServer, large: Path) -> None:
    store = blosc2.open(server.put("large.b2z", large))
    server.forget()
    assert len(store["/g05"]) == LEAVES
    assert len(server.requests) <= 8
    server.forget()
    assert list(store["/g05"])[-1] == "/leaf005999"
    assert len(server.requests) <= 4


@pytest.mark.parametrize("ahead", [0, 8 << 20])
def test_many_leaves_of_a_group(server: remote_kit.RangeServer, large: Path, ahead: int) -> None:
    store = blosc2.open(server.put("large.b2z", large), remote={"ahead": ahead})
    server.forget()
    server.delay = 0.01
    numbers = [9000 + 15 * i for i in range(64)]
    found = store.read_many([f"/g09/leaf{i:06d}" for i in numbers])
    np.testing.assert_array_equal(np.stack(found), np.stack([leaf(i) for i in numbers]))
    assert len(server.requests) <= 64 + 3
    # Side by side; or together with the bytes between them, if these may come.
    assert server.most >= 8 or (ahead and len(server.requests) <= 16)


@pytest.mark.parametrize("chunk", [32, 64])
def test_patches_of_a_leaf(server: remote_kit.RangeServer, tmp_path: Path, chunk: int) -> None:
    """No more requests than patches and three, the leaf's own included, side by side, and few bytes too many."""
    rng = np.random.default_rng(4)
    volume = np.cumsum(rng.integers(0, 40, (128, 128, 128), dtype="i2"), axis=2, dtype="i2")
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as writing:
        writing["/scan"] = blosc2.asarray(volume, chunks=(chunk,) * 3, blocks=(16,) * 3)
        writing.write_many((f"/g/{i}", leaf(i)) for i in range(5000))
        stored = writing["/scan"].schunk.cbytes
    store = blosc2.open(server.put("a.b2z", tmp_path / "a.b2z"), remote={"ahead": 0})
    server.forget()
    server.delay = 0.01
    corners = rng.integers(0, 128 - 32 + 1, (64, 3)).tolist()
    keys = [tuple(slice(c, c + 32) for c in corner) for corner in corners]
    for got, key in zip(store["/scan"].read_many(keys), keys):
        np.testing.assert_array_equal(got, volume[key])
    touched = np.zeros((8, 8, 8), bool)
    for corner in corners:
        touched[tuple(slice(c // 16, (c + 31) // 16 + 1) for c in corner)] = True
    assert len(server.requests) <= 64 + 3
    assert server.most >= 2
    assert server.sent <= 1.2 * stored * touched.mean() + (128 << 10)  # and what says where the leaf lies


def test_leaves_of_which_parts_are_read(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """The ends of each frame and a chunk; the end of one and the beginning of the next are one request."""
    items = np.random.default_rng(4).integers(0, 1 << 30, (12, 90_000))
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as writing:
        for i, row in enumerate(items):
            writing[f"/{i:02d}"] = blosc2.asarray(row, chunks=(30_000,))
    store = blosc2.open(server.put("a.b2z", tmp_path / "a.b2z"), remote={"ahead": 0})
    server.forget()
    found = store.read_many([(f"/{i:02d}", np.s_[30_000:60_000]) for i in range(12)])
    np.testing.assert_array_equal(np.stack(found), items[:, 30_000:60_000])
    assert len(server.requests) <= 2 * 12 + 2


@pytest.mark.parametrize("seed", range(3))
def test_the_answers_of_a_local_store(server: remote_kit.RangeServer, mixed: Path, seed: int) -> None:
    rng = random.Random(seed)
    with blosc2.open(str(mixed), mode="r") as local:
        far = blosc2.open(server.put("mixed.b2z", mixed))
        keys = list(local)
        leaves = [key for key in keys if isinstance(local[key], blosc2.NDArray)]
        for _ in range(150):
            key = rng.choice(keys)
            asked = rng.choice(
                [key, key, key + "0", key[:-1].rstrip("/"), key + "/none", key.rpartition("/")[0] + "/~"]
            )
            assert (asked in far) == (asked in local), asked
            if asked in leaves:
                np.testing.assert_array_equal(far[asked][:], local[asked][:])
            elif asked in local:
                group = local[asked]
                assert list(far[asked]) == list(group)
                assert len(far[asked]) == len(group)
                assert dict(far[asked].vlmeta) == dict(group.vlmeta)
            else:
                with pytest.raises(StoreKeyError):
                    far[asked]
        some = rng.sample(leaves, 90)
        assert all(map(np.array_equal, far.read_many(some), local.read_many(some)))
        assert list(far) == keys


def test_records_that_do_not_come(server: remote_kit.RangeServer, large: Path) -> None:
    """It is an error of the server each time, and nothing of it stays."""
    store = blosc2.open(server.put("large.b2z", large), remote={"retries": 0})
    end = large.stat().st_size

    def spoil(handler: object, data: bytes, part: slice) -> bool:
        if part.start < end - (2 << 20) or part.stop - part.start < 8192:
            return False
        remote_kit.reply(handler, 503, b"")
        return True

    server.spoil = spoil
    for _ in range(2):
        with pytest.raises(RemoteError, match=r"large\.b2z"):
            store["/g02/leaf002002"]
        with pytest.raises(RemoteError, match=r"large\.b2z"):
            len(store["/g04"])
    server.spoil = None
    np.testing.assert_array_equal(store["/g02/leaf002002"][:], leaf(2002))
    assert len(store["/g04"]) == LEAVES


def test_keys_that_were_forgotten_are_found_again(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """A group of more keys than are remembered: those of its beginning are asked for again when its end was read."""
    count = 300_000
    path = tmp_path / "many.b2z"
    value = np.zeros(2, "u1")
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/g/leaf{i:06d}", value) for i in range(count))
    with blosc2.open(server.put("many.b2z", path)) as store:
        for i in range(0, count, 500):
            store[f"/g/leaf{i:06d}"]
        for i in (*range(0, count, 30_011), count - 1, 0):
            assert store[f"/g/leaf{i:06d}"].shape == (2,), i
            assert f"/g/leaf{i:06d}x" not in store, i
