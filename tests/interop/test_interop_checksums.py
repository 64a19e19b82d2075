"""Files with checksums go to the reference and come back changed: unverified then, never damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import peer

import blosc2
from blosc2._frames.checksums import carried, is_verifiable, verify_frame
from blosc2._frames.handle import open_frame

pytestmark = pytest.mark.interop

ITEMS = np.arange(100, dtype="i4")

ARRAY_STEPS = ["resize 99", "resize 101", "resize 500", "resize 30", "resize 0", "set 3", "same 3", "vlmeta x",
               "vlmeta y", "forget x"]  # fmt: skip
SCHUNK_STEPS = ["meta 2", "order 2 0 1", "order 0 1 2", "append 3", "insert 1", "update 1", "delete 0", "vlmeta x",
                "vlmeta y", "forget x"]  # fmt: skip


def make(path: str, *, array: bool) -> None:
    if array:
        x: Any = blosc2.asarray(ITEMS, chunks=(40,), blocks=(20,), urlpath=path)
    else:
        x = blosc2.SChunk(chunksize=160, data=np.arange(120, dtype="i4"), cparams={"typesize": 4}, urlpath=path,
                          meta={"m": 1})  # fmt: skip
    x.vlmeta["x"] = 4


@pytest.mark.parametrize("mmap_mode", [None, "r+"])
@pytest.mark.parametrize("step", [*(f"array {s}" for s in ARRAY_STEPS), *(f"schunk {s}" for s in SCHUNK_STEPS)])
def test_what_upstream_changed_is_unverified(step: str, mmap_mode: str | None, tmp_path: Path, upstream: Any) -> None:
    kind, step = step.split(" ", 1)
    path = str(tmp_path / "x.b2nd")
    make(path, array=kind == "array")
    assert carried(open_frame(path, None)) is not None
    upstream.change_once(path=path, step=step, mmap_mode=mmap_mode)
    frame = open_frame(path, None)
    assert list(verify_frame(frame)) == []
    assert not is_verifiable(frame)
    assert blosc2.check(path).ok
    assert blosc2.check(path).unverified
    assert peer.describe(path) == upstream.describe(path=path)
    # A change of ours goes on without checksums, and both still read the same.
    changed = blosc2.open(path, mode="a", verify=True)
    changed.vlmeta["ours"] = 1
    assert blosc2.check(path).ok
    assert peer.describe(path) == upstream.describe(path=path)


@pytest.mark.parametrize("array", [True, False])
def test_what_upstream_only_read_is_verified(array: bool, tmp_path: Path, upstream: Any) -> None:
    path = tmp_path / "x.b2nd"
    make(str(path), array=array)
    before = path.read_bytes()
    for mmap_mode in (None, "r+"):
        upstream.change_once(path=str(path), step="nothing", mmap_mode=mmap_mode)
    described = upstream.describe(path=str(path))
    assert described == peer.describe(str(path))
    assert list(described["vlmeta"]) == ["x"]  # they are no metadata
    assert path.read_bytes() == before


def test_upstream_reads_our_versions(tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / "x.b2nd")
    make(path, array=True)
    for n in range(5):
        array = blosc2.open(path, mode="a")
        array.resize((100 + 30 * n,))
        array[-20:] = n
        array.vlmeta["n"] = n
        assert blosc2.open(path).vlmeta["n"] == n  # which is published now
        assert blosc2.check(path).ok
        assert not blosc2.check(path).unverified
        assert upstream.describe(path=path) == peer.describe(path)


@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_leaves_that_upstream_moves_stay_verified(suffix: str, tmp_path: Path, upstream: Any) -> None:
    """Packing and unpacking copies files as they are."""
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="w") as store:
        store["/a"] = ITEMS
    target = str(tmp_path / f"t{suffix}")
    upstream.convert(path=str(tmp_path / "s.b2d"), target=str(tmp_path / "t.b2z"))
    if suffix == ".b2d":
        upstream.convert(path=str(tmp_path / "t.b2z"), target=target)
    with blosc2.open(target, verify=True) as store:
        np.testing.assert_array_equal(store["/a"][:], ITEMS)
        assert store["/a"].schunk._handle.frame.checks_chunks


def test_upstream_reads_leaves_that_carry_checksums(tmp_path: Path, upstream: Any) -> None:
    """A `.b2z` with leaves and embedded values above what the directory's checksum is enough for."""
    path = str(tmp_path / "x.b2z")
    items = np.random.default_rng(0).normal(size=(60, 50, 40)).round(2)
    for threshold in (0, 10_000):
        with blosc2.DictStore(path, mode="w", threshold=threshold) as store:
            store["/large"] = blosc2.asarray(items, chunks=(10, 50, 40), blocks=(5, 25, 40))
            store["/row"] = blosc2.asarray(items[0], chunks=(50, 40))
            for number in range(30):
                store[f"/small/{number}"] = np.arange(40) + number
            store["/large"].vlmeta["about"] = {"unit": "mm"}
        with blosc2.open(path) as store:
            assert store["/large"]._handle.frame.checksums_len
            assert threshold == 0 or store._table.backend.embedded.frame.checksums_len
        assert peer.describe(path) == upstream.describe(path=path)
        upstream.change_store(path=path, cls="DictStore", mode="a", steps=[["set", "/more", "big", 3]], threshold=0)
        assert peer.describe(path) == upstream.describe(path=path)
        with blosc2.open(path, mode="a") as store:
            store["/large"][2] = 1
        assert peer.describe(path) == upstream.describe(path=path)
        assert blosc2.check(path).ok
