"""`store.read_many` of pairs of key and selection: a batch of patches from many volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

RNG = np.random.default_rng(3)
VOLUMES = {f"/v/{n}": RNG.integers(0, 1000, (20 + n, 30, 25)).astype("i4") for n in range(6)}


@pytest.fixture(params=[None, "r"], ids=["read", "mapped"])
def source(request: pytest.FixtureRequest) -> str | None:
    return request.param


@pytest.fixture(params=["b2z", "b2d", "b2e", "embedded", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, source: str | None) -> Any:
    kind = blosc2.EmbedStore if request.param in ("b2e", "memory") else blosc2.TreeStore
    how: dict[str, Any] = {"threshold": None} if request.param == "embedded" else {}
    suffix = "b2d" if request.param == "embedded" else request.param
    path = None if request.param == "memory" else str(tmp_path / f"s.{suffix}")
    made = kind(path, mode="w", **how)
    for key, items in VOLUMES.items():
        made[key] = blosc2.asarray(items, chunks=(8, 16, 16), blocks=(4, 8, 8))
    made["/other"] = np.arange(100.0).reshape(10, 10)
    made["/chars"] = blosc2.SChunk(chunksize=100, data=b"x" * 100)
    if path is None:
        return made
    made.close()
    return blosc2.open(path, mmap_mode=source)


def patches(count: int, seed: int) -> list[tuple[str, Any]]:
    rng = np.random.default_rng(seed)
    keys = list(VOLUMES)
    batch = []
    for _ in range(count):
        key = keys[int(rng.integers(len(keys)))]
        corner = [int(rng.integers(n - p + 1)) for n, p in zip(VOLUMES[key].shape, (6, 9, 10), strict=True)]
        batch.append((key, tuple(slice(c, c + p) for c, p in zip(corner, (6, 9, 10), strict=True))))
    return batch


@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_patches_are_stacked(store: Any, count: int) -> None:
    batch = patches(count, count)
    expected = np.stack([VOLUMES[key][selection] for key, selection in batch])
    found = store.read_many(batch)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    out = np.full((*expected.shape[:2], 2, *expected.shape[2:]), -1, "i4")[:, :, 0]  # not contiguous
    assert store.read_many(batch, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_every_kind_of_selection(store: Any) -> None:
    mask = VOLUMES["/v/3"] > 900
    batch = [
        ("/v/0", ...), ("/v/1", 3), ("/v/1", (slice(None, None, -2), 4)), ("/v/2", ([0, 5, 2], slice(3))),
        ("/v/3", mask), ("/v/0", (1, 2, 3)), ("/other", slice(2, 5)), ("/v/1", 3), ("/v/2", slice(0, 0)),
        ("/v/2", (None, 0, ..., np.int64(4))), ("/v/4", (-1, slice(-5, None))),
    ]  # fmt: skip
    arrays = {**VOLUMES, "/other": np.arange(100.0).reshape(10, 10)}
    found = store.read_many(batch)
    assert isinstance(found, list)
    for items, (key, selection) in zip(found, batch, strict=True):
        np.testing.assert_array_equal(items, arrays[key][selection])
        assert np.shape(items) == np.shape(arrays[key][selection])
    numbers = store.read_many([("/v/0", (1, 2, 3)), ("/v/5", (3, 2, 1))])
    np.testing.assert_array_equal(numbers, [VOLUMES["/v/0"][1, 2, 3], VOLUMES["/v/5"][3, 2, 1]])
    mixed = store.read_many([("/v/2", ([1, 2], 3)), ("/v/0", (slice(4, 6), 3))])
    np.testing.assert_array_equal(mixed, [VOLUMES["/v/2"][[1, 2], 3], VOLUMES["/v/0"][4:6, 3]])


def test_keys_may_be_spelled_in_several_ways(store: Any) -> None:
    found = store.read_many([("/v/0", 1), ("v/0", 2)])
    np.testing.assert_array_equal(found, VOLUMES["/v/0"][1:3])


def test_views_of_groups_have_keys_of_their_own(store: Any) -> None:
    if isinstance(store, blosc2.TreeStore):
        np.testing.assert_array_equal(
            store["/v"].read_many([("/1", 1), ("3", 2)]), [VOLUMES["/v/1"][1], VOLUMES["/v/3"][2]]
        )


def test_nothing_is_wanted(store: Any) -> None:
    assert store.read_many([]) == []
    empty = store.read_many([("/v/0", slice(0, 0)), ("/v/1", slice(3, 3))])
    assert empty.shape == (2, 0, 30, 25)


def test_errors_name_the_item(store: Any) -> None:
    good = ("/v/0", slice(0, 2))
    with pytest.raises(KeyError, match="nowhere") as caught:
        store.read_many([good, ("/nowhere", 0)])
    assert "item 1 of the batch" in caught.value.__notes__
    with pytest.raises(IndexError, match=r"item 2 of the batch, a selection of '/v/1'"):
        store.read_many([good, good, ("/v/1", 21)])
    with pytest.raises(IndexError, match=r"item 1 of the batch, a selection of '/v/1'"):
        store.read_many([good, ("/v/1", [[0, 99]])])
    with pytest.raises(TypeError, match=r"item 1 of the batch: '/chars' is a SChunk"):
        store.read_many([good, ("/chars", 0)])
    for wrong in ("/v/0", ("/v/0",), ("/v/0", 1, 2), (3, 4), None):
        with pytest.raises(TypeError, match="item 1 of the batch is no pair"):
            store.read_many([good, wrong])
    out = np.full((2, 2, 30, 25), 7, "i4")
    with pytest.raises(ValueError, match=r"item 1 of the batch, of '/v/1', has shape \(3, 30, 25\)"):
        store.read_many([good, ("/v/1", slice(3))], out=out)
    with pytest.raises(ValueError, match="item 1 of the batch, of '/other'"):
        store.read_many([("/v/0", (0, 0, slice(10))), ("/other", 0)], out=np.empty((2, 10), "i4"))
    with pytest.raises(ValueError, match="out has shape"):
        store.read_many([good], out=out)
    assert (out == 7).all()


def test_a_damaged_leaf_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w") as store:
        for key, items in VOLUMES.items():
            store[key] = blosc2.asarray(items, chunks=(8, 16, 16), blocks=(4, 8, 8))
    file = path / "v" / "3.b2nd"
    at = blosc2.open(str(file))._handle.frame.chunk_info(0)[0]
    data = bytearray(file.read_bytes())
    data[at + 40 : at + 400] = bytes(360)
    file.write_bytes(data)
    with blosc2.open(str(path)) as store, pytest.raises(blosc2.FormatError, match="/v/3"):
        store.read_many([(key, slice(0, 8)) for key in VOLUMES])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_a_batch(tmp_path: Path, threads: int, source: str | None) -> None:
    path = str(tmp_path / "s.b2z")
    volumes = {f"/{n}": RNG.normal(size=(40, 100, 100)) for n in range(5)}
    with blosc2.TreeStore(path, mode="w") as store:
        for key, items in volumes.items():
            store[key] = items
    before = blosc2.set_nthreads(threads)
    try:
        with blosc2.open(path, mmap_mode=source) as store:
            for batch in (
                [(key, np.s_[3:35, 10:90, 5:95]) for key in volumes],
                [("/0", np.s_[n : n + 32, 10:90, 5:95]) for n in range(5)] + [("/1", np.s_[:32, 10:90, 5:95])],
            ):
                expected = np.stack([volumes[key][selection] for key, selection in batch])
                np.testing.assert_array_equal(store.read_many(batch), expected)
    finally:
        blosc2.set_nthreads(before)


def test_a_leaf_that_is_edited_is_read_as_it_is_now() -> None:
    store = blosc2.EmbedStore()
    store["/a"] = np.arange(10)
    store["/a"][3] = 99
    np.testing.assert_array_equal(store.read_many([("/a", slice(2, 5))]), [[2, 99, 4]])


@pytest.mark.parametrize("shape", [(4, 5, 6), (7,), ()])
def test_no_selections_of_an_array_have_a_shape(shape: tuple[int, ...]) -> None:
    array = blosc2.zeros(shape, dtype="f4")
    found = array.read_many([])
    assert found.shape == (0, *shape[1:])
    assert found.dtype == np.float32


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_what_waits_to_be_published_is_read(suffix: str, tmp_path: Path) -> None:
    """Leaves that were set, edited or deleted since the last publication, in one call with those that were not."""
    kind: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.DictStore
    store = kind(str(tmp_path / f"x{suffix}"), mode="w")
    store.update((f"/{n}", np.full(3, n)) for n in range(6))
    store.flush()
    keys = [f"/{n}" for n in range(6)]
    assert store.read_many(keys)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    held = store["/1"]
    held[:] = 10
    assert store.read_many(keys)[:, 0].tolist() == [0, 10, 2, 3, 4, 5]
    with store.transaction():
        store["/2"] = np.full(3, 20)
        assert store.read_many(keys)[:, 0].tolist() == [0, 10, 20, 3, 4, 5]
        assert store.read_many(["2", "/3"])[:, 0].tolist() == [20, 3]
        assert store.read_many(["/3", "/4"])[:, 0].tolist() == [3, 4]
    del store["/5"]
    with pytest.raises(KeyError):
        store.read_many(keys)
    store.flush()
    assert store.read_many(keys[:5])[:, 0].tolist() == [0, 10, 20, 3, 4]
    store.close()
