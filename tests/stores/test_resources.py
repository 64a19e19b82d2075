"""A thousand open leaves are one mapping, or one descriptor, and the last handle lets it go."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.limits import descriptors, mappings

import blosc2

LEAVES = 1000

pytestmark = pytest.mark.skipif(not limits.LINUX, reason="counts mappings and descriptors in /proc")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A thousand leaves of 16 float32 in a store of each kind that is one file."""
    root = tmp_path_factory.mktemp("thousand")
    paths = {}
    for cls, suffix, threshold in (
        (blosc2.EmbedStore, ".b2e", None),
        (blosc2.DictStore, ".b2z", 0),
        (blosc2.TreeStore, ".b2z", 0),
        (blosc2.DictStore, "_embedded.b2z", 1 << 40),
    ):
        path = str(root / f"{cls.__name__}{suffix}")
        more = {} if threshold is None else {"threshold": threshold}
        with cls(path, mode="w", **more) as store:
            for n in range(LEAVES):
                store[f"/g{n % 10}/leaf{n}"] = np.full(16, n, dtype=np.float32)
        paths[f"{cls.__name__}{suffix}"] = path
    return paths


@pytest.fixture(params=["EmbedStore.b2e", "DictStore.b2z", "TreeStore.b2z", "DictStore_embedded.b2z"])
def path(request: pytest.FixtureRequest, stores: dict[str, str]) -> str:
    """The path of one of the stores."""
    return stores[request.param]


def keys() -> Iterator[str]:
    for n in range(LEAVES):
        yield f"/g{n % 10}/leaf{n}"


def check(leaves: list[Any]) -> None:
    for n, leaf in enumerate(leaves):
        np.testing.assert_array_equal(leaf[:], np.full(16, n, dtype=np.float32))


def settled() -> tuple[int, int]:
    gc.collect()
    return descriptors(), mappings()


def test_a_thousand_leaves_of_one_mapping(path: str) -> None:
    before = settled()
    assert mappings(path) == 0
    store = blosc2.open(path, mmap_mode="r")
    assert mappings(path) == 1
    leaves = [store[key] for key in keys()]
    assert mappings(path) == 1
    check(leaves)
    assert mappings(path) == 1
    assert descriptors() - before[0] <= 1
    assert mappings() - before[1] == 1
    store.close()
    del store, leaves
    assert settled() == before


def test_a_thousand_leaves_of_one_descriptor(path: str) -> None:
    before = settled()
    store = blosc2.open(path)
    assert descriptors() - before[0] == 1
    leaves = [store[key] for key in keys()]
    check(leaves)
    assert descriptors() - before[0] == 1
    assert mappings() == before[1]
    store.close()
    del store, leaves
    assert settled() == before


def test_leaves_outlive_their_store(path: str, source: str | None) -> None:
    before = settled()
    store = blosc2.open(path, mmap_mode=source)
    leaves = [store[key] for key in keys()]
    store.close()
    check(leaves)
    with pytest.raises(ValueError, match="closed"):
        store["/g0/leaf0"]
    del store
    gc.collect()
    check(leaves)
    one = leaves[7]
    del leaves
    np.testing.assert_array_equal(one[:], np.full(16, 7, dtype=np.float32))
    assert mappings(path) == (1 if source else 0)
    del one
    assert settled() == before


def test_leaves_let_go_without_close(path: str, source: str | None) -> None:
    """The last reference is enough; a collection is not needed."""
    gc.collect()
    gc.disable()
    try:
        before = descriptors(), mappings()
        leaf = blosc2.open(path, mmap_mode=source)["/g3/leaf3"]
        assert leaf[0] == 3
        del leaf
        assert (descriptors(), mappings()) == before
    finally:
        gc.enable()


def test_opening_again_and_again_leaves_nothing(path: str, source: str | None) -> None:
    before = settled()
    for n in range(30):
        with blosc2.open(path, mmap_mode=source) as store:
            assert store[f"/g{n % 10}/leaf{n}"][0] == n
    assert settled() == before


def test_a_directory_holds_no_descriptor_for_leaves_that_are_gone(tmp_path: Path, source: str | None) -> None:
    path = str(tmp_path / "leaves.b2d")
    with blosc2.DictStore(path, mode="w") as store:
        for n in range(50):
            store[f"/leaf{n}"] = np.arange(n + 1)
    before = settled()
    with blosc2.open(path, mmap_mode=source) as store:
        for n in range(50):
            assert store[f"/leaf{n}"][-1] == n
    del store
    assert settled() == before


@pytest.mark.parametrize("name", ["array.b2nd", "schunk.b2frame"])
def test_many_handles_of_one_file(tmp_path: Path, name: str, source: str | None) -> None:
    path = str(tmp_path / name)
    if name.startswith("array"):
        blosc2.asarray(np.arange(1000), urlpath=path)
    else:
        blosc2.SChunk(data=np.arange(1000), urlpath=path)
    before = settled()
    x = blosc2.open(path, mmap_mode=source)
    part = [x.vlmeta, x.meta, getattr(x, "schunk", x)]
    assert mappings(path) == (1 if source else 0)
    assert descriptors() - before[0] <= 1
    del x
    assert len(part[0]) == 0
    del part
    assert settled() == before


@pytest.mark.usefixtures("one_thread")
def test_what_large_blocks_need_goes_with_the_read() -> None:
    """Four blocks, for the C library to decode into; what waits for the next call is small."""
    block = 16 << 20
    array = blosc2.asarray(np.arange(block, dtype="u1"), chunks=(block,), blocks=(block,))
    blosc2.free_resources()
    before = limits.status("VmSize")
    assert array[7] == 7
    assert array[5:9].tolist() == [5, 6, 7, 8]
    assert limits.status("VmSize") - before < 2 * block


@pytest.mark.parametrize(
    "more", [{"blocksize": 40 << 20}, {"blocksize": 1 << 16, "filters": [4, 1, 2], "filters_meta": [10, 0, 0]}]
)
def test_what_large_buffers_need_goes_with_their_compression(more: dict[str, Any]) -> None:
    """The same for blocks to compress, and for a copy that filters write into."""
    data = np.arange(10 << 20, dtype="f4")
    blosc2.free_resources()
    before = limits.status("VmSize")
    assert len(blosc2.compress2(data, typesize=4, clevel=1, **more)) < data.nbytes
    assert limits.status("VmSize") - before < data.nbytes // 2


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_a_closed_tree_that_was_counted_keeps_no_file_open(tmp_path: Path, mmap_mode: Any) -> None:
    path = str(tmp_path / "tree.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/g/x"] = np.arange(5)
    before = descriptors(), mappings()
    tree = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    assert list(tree) == ["/g", "/g/x"]
    assert len(tree) == 2
    tree.close()
    assert (descriptors(), mappings()) == before
