"""Pickles and copies of handles: a file travels as its name, memory as its bytes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2 import SChunk

ITEMS = np.random.default_rng(1).integers(0, 1 << 60, (50, 40))
PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)

Travel = Callable[[Any], Any]
TRAVELS: list[Travel] = [
    copy.copy,
    copy.deepcopy,
    *(lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in PROTOCOLS),
]


@pytest.fixture(params=range(len(TRAVELS)), ids=["copy", "deepcopy", *(f"pickle{p}" for p in PROTOCOLS)])
def travel(request: pytest.FixtureRequest) -> Travel:
    chosen: Travel = TRAVELS[request.param]
    return chosen


def test_in_memory(travel: Travel) -> None:
    array = blosc2.asarray(ITEMS, chunks=(20, 20), blocks=(5, 20), meta={"m": 1})
    array.vlmeta["v"] = {"a": (1, 2)}
    other = travel(array)
    np.testing.assert_array_equal(other[:], ITEMS)
    assert (other.chunks, other.blocks, other.meta["m"], other.vlmeta["v"]) == ((20, 20), (5, 20), 1, {"a": (1, 2)})
    other[:] = 0
    other.vlmeta["v"] = 0
    np.testing.assert_array_equal(array[:], ITEMS)
    schunk = SChunk(data=ITEMS, chunksize=4000)
    other = travel(schunk)
    assert type(other) is SChunk
    assert (other[:], other.typesize, other.nchunks) == (schunk[:], 8, schunk.nchunks)
    below = travel(array.schunk)
    assert type(below) is SChunk
    assert below[:] == array.schunk[:]


def test_in_a_file(travel: Travel, source: str | None, tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(ITEMS, urlpath=path)
    array = blosc2.open(path, mmap_mode=source)
    assert len(pickle.dumps(array)) < 1000
    other = travel(array)
    np.testing.assert_array_equal(other[:], ITEMS)
    assert (other.urlpath, other.mode, other.mmap_mode) == (path, "r", source)
    with pytest.raises(ValueError, match="reading mode"):
        other[0] = 1
    below = travel(array.schunk)
    assert type(below) is SChunk
    assert below.urlpath == path
    writer = travel(blosc2.open(path, "a"))
    writer[0] = 7
    np.testing.assert_array_equal(blosc2.open(path)[0], np.full(40, 7))


def test_at_an_offset(travel: Travel, source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "host"
    path.write_bytes(bytes(100) + blosc2.asarray(ITEMS).to_cframe() + bytes(5))
    other = travel(blosc2.open(path, offset=100, mmap_mode=source))
    np.testing.assert_array_equal(other[:], ITEMS)


def test_private_changes_travel(travel: Travel, tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(ITEMS, urlpath=path)
    array = blosc2.open(path, mmap_mode="c")
    array[:] = 5
    np.testing.assert_array_equal(travel(array)[:], np.full(ITEMS.shape, 5))


@pytest.mark.parametrize("how", [{"mode": "x"}, {"mode": "w"}, {"mmap_mode": "w+"}], ids=str)
def test_handles_that_created_their_file(how: dict[str, Any], travel: Travel, tmp_path: Path) -> None:
    array = blosc2.asarray(ITEMS, urlpath=str(tmp_path / "a.b2nd"), **how)
    assert array.mode == "a"
    other = travel(array)
    np.testing.assert_array_equal(other[:], ITEMS)
    other[0] = 3
    np.testing.assert_array_equal(blosc2.open(tmp_path / "a.b2nd")[0], np.full(40, 3))


def test_a_directory_frame(travel: Travel) -> None:
    (entry,) = [e for e in manifest.files("schunk") if e["path"].endswith("directory.b2frame")]
    assert manifest.sha256(travel(blosc2.open(manifest.path_of(entry)))[:]) == entry["sha256"]


def test_the_policy_travels(travel: Travel, tmp_path: Path) -> None:
    source = manifest.ROOT / "vlmeta" / "active.b2nd"
    for opened, active in (
        (blosc2.open(source), False), (blosc2.open(source, deserialize="full"), True),
        (blosc2.load(source), False), (blosc2.load(source, deserialize="full"), True),
    ):  # fmt: skip
        other = travel(opened)
        if active:
            assert isinstance(other.vlmeta["array"], blosc2.NDArray)
        else:
            with pytest.raises(blosc2.UnsafeDeserializationError):
                other.vlmeta["array"]


@pytest.mark.parametrize("kind", ["objectarray", "batcharray"])
def test_lists(kind: str, travel: Travel) -> None:
    for entry in manifest.files(kind):
        found = blosc2.open(manifest.path_of(entry))
        assert [list(x) if kind == "batcharray" else x for x in travel(found)] == [
            list(x) if kind == "batcharray" else x for x in found
        ]
        assert type(travel(found)) is type(found)


def test_opaque_objects(travel: Travel) -> None:
    for path in sorted((manifest.ROOT / "hostile").glob("kind_*")):
        for found in (blosc2.open(path), blosc2.load(path)):
            other = travel(found)
            assert type(other) is type(found)
            assert other.kind == found.kind
            assert other.to_cframe() == path.read_bytes()
            if isinstance(found, blosc2.NDArray):
                with pytest.raises(NotImplementedError):
                    travel(found.schunk)[:]


@pytest.mark.parametrize("suffix", [".b2e", ".b2d", ".b2z"])
def test_leaves_of_stores(suffix: str, travel: Travel, source: str | None, tmp_path: Path) -> None:
    path = str(tmp_path / f"s{suffix}")
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(path, mode="w") as store:
        store["/group/a"] = ITEMS
        store["/group/b"] = ITEMS + 1
    store = blosc2.open(path, mmap_mode=source)
    for key, want in (("/group/a", ITEMS), ("/group/b", ITEMS + 1)):
        other = travel(store[key])
        np.testing.assert_array_equal(other[:], want)
        with pytest.raises(ValueError, match="reading mode"):
            other[0] = 1
    leaves = pickle.loads(pickle.dumps([store[key] for key in ("/group/a", "/group/b")] * 20))
    assert all((leaf[3] == ITEMS[3] + n % 2).all() for n, leaf in enumerate(leaves))


def test_relative_paths_after_the_working_directory_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blosc2.asarray(ITEMS, urlpath="x.b2nd")
    handles = [blosc2.open("x.b2nd", mode) for mode in ("r", "a")] + [blosc2.open("./x.b2nd", mmap_mode="r")]
    handles.append(blosc2.asarray(ITEMS, urlpath="made.b2nd"))
    for suffix in ("b2z", "b2d", "b2e"):
        with (blosc2.EmbedStore if suffix == "b2e" else blosc2.TreeStore)(f"x.{suffix}", mode="w") as store:
            store["/a"] = store[f"/x.{suffix}/deeper/a"] = ITEMS
        opened = blosc2.open(f"x.{suffix}")
        handles += [opened, opened["/a"], opened[f"/x.{suffix}/deeper/a"]]
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for handle in handles:
        found = pickle.loads(pickle.dumps(handle))
        np.testing.assert_array_equal((found if isinstance(found, blosc2.NDArray) else found["/a"])[:], ITEMS)


def test_the_super_chunk_of_a_store_in_memory_travels() -> None:
    """Its bytes alone would open as the store."""
    store = blosc2.EmbedStore()
    store["/a"] = np.arange(3)
    schunk = blosc2.schunk_from_cframe(store.to_cframe())
    again = pickle.loads(pickle.dumps(schunk))
    assert type(again) is blosc2.SChunk
    assert again[:] == schunk[:]
    assert again.meta.keys() == schunk.meta.keys()
