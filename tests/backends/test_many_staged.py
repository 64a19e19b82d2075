"""Changes of a directory that wait to be published, and a compaction that ends half way."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import blosc2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what is mapped in /proc")
@pytest.mark.parametrize("size", [10, 40_000])
def test_leaves_that_wait_in_files_take_few_mappings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A process has 65,530 of them. Large frames have a file each, and small ones lie together."""
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 100_000)
    path = str(tmp_path / "x.b2d")
    noise = np.random.default_rng(0).random(size)
    with blosc2.DictStore(path, mode="w") as store, store.transaction():
        before = len(Path("/proc/self/maps").read_text().splitlines())
        for number in range(3000 if size < 100 else 20):
            store[f"/{number}"] = noise + number
            store[f"/small/{number}"] = np.arange(number)
        staged = [byte_range for byte_range in store._pending.frames.values() if byte_range[0].path]
        assert len(staged) > 20
        assert len(Path("/proc/self/maps").read_text().splitlines()) - before < 60
        assert np.array_equal(store["/1"][:], noise + 1)
    with blosc2.open(path) as found:
        for number in range(0, len(found) // 2, 7):
            assert np.array_equal(found[f"/{number}"][:], noise + number)
            assert np.array_equal(found[f"/small/{number}"][:], np.arange(number))
    assert blosc2.check(path).ok
    assert sorted(os.listdir(tmp_path)) == ["x.b2d"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what is open in /proc")
def test_leaves_that_wait_in_files_are_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 1000)
    store = blosc2.DictStore(str(tmp_path / "x.b2d"), mode="w")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        store[f"/{number}"] = np.arange(number, number + 50)
    assert len(os.listdir("/proc/self/fd")) - before < 20
    np.testing.assert_array_equal(store["/7"][:], np.arange(7, 57))
    leaf = store["/8"]
    leaf[0] = -1
    store.close()
    with blosc2.open(str(tmp_path / "x.b2d")) as found:
        assert len(found) == 100
        np.testing.assert_array_equal(found["/99"][:], np.arange(99, 149))
        assert found["/8"][0] == -1


@pytest.mark.parametrize("cut", [0, 40])
def test_a_store_goes_on_after_a_compaction_that_meets_a_damaged_leaf(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=1000) as store:
        store["/small"], store["/gone"], store["/large"] = np.arange(5), np.arange(9), np.arange(1000)
    store = blosc2.TreeStore(str(path), mode="a", threshold=1000)
    del store["/gone"]
    store.flush()
    os.truncate(path / "large.b2nd", cut)
    with pytest.raises(blosc2.FormatError):
        store.compact()
    store["/more"] = np.arange(3)
    store.flush()
    with store.transaction():
        store["/again"] = np.arange(4)
    with pytest.raises(blosc2.FormatError):
        store.compact()
    del store["/large"]
    store.compact()
    store.close()
    with blosc2.open(str(path)) as found:
        assert {key: len(found[key]) for key in found} == {"/small": 5, "/more": 3, "/again": 4}
