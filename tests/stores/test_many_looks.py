"""A reader of a `.b2d` that looks for many keys lists them, and goes on to see what others publish."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

LOOKS = 300


def made(path: Path) -> None:
    with blosc2.DictStore(str(path), mode="w") as store:
        for n in range(20):
            store[f"/g{n % 3}/k{n}"] = np.arange(n + 1)


def look(reader: Any) -> None:
    """Look for keys that are there, and for others."""
    for n in range(LOOKS):
        assert f"/g{n % 3}/k{n % 3}" in reader
        assert f"/g{n % 3}/none{n}" not in reader
        assert reader.get("/g1/none", 7) == 7


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_what_others_publish_is_found_at_once(mmap_mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    made(path)
    with blosc2.open(str(path), mode="r", mmap_mode=mmap_mode) as reader:
        for n in range(20):
            look(reader)
            key = f"/g{n % 4}/deep/new{n}"
            assert key not in reader
            with blosc2.DictStore(str(path), mode="a") as writer:
                writer[key] = [n]
                assert key in reader
                assert reader[key][0] == n
                if n % 2:
                    look(reader)
                    del writer[key]
                    assert key not in reader
            assert (key in reader) == (n % 2 == 0)


def test_files_of_other_programs_are_found_soon(tmp_path: Path) -> None:
    """A folder that another program changes does not change the time of the store's directory."""
    path = tmp_path / "s.b2d"
    made(path)
    with blosc2.open(str(path), mode="r") as reader:
        look(reader)
        shutil.copy(path / "g1" / "k1.b2nd", path / "g1" / "copied.b2nd")
        ends = time.monotonic() + 30
        while "/g1/copied" not in reader and time.monotonic() < ends:
            pass
        assert "/g1/copied" in reader
        assert reader["/g1/copied"].shape == (2,)


def test_groups_and_embedded_values_are_found(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=1000) as store:
        store["/a/small"] = [1, 2]
        store["/b/large"] = np.arange(10_000)
    with blosc2.open(str(path), mode="r") as reader:
        for _ in range(LOOKS):
            assert "/a" in reader
            assert "/a/small" in reader
            assert "/b/large" in reader
            assert "/b/small" not in reader
            assert "/c" not in reader
        assert sorted(reader) == ["/a", "/a/small", "/b", "/b/large"]


def test_a_store_that_is_removed_has_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    made(path)
    reader = blosc2.DictStore(str(path), mode="r")
    look(reader)
    shutil.rmtree(path)
    assert not any(f"/g0/k{3 * n}" in reader for n in range(LOOKS))
