"""What dask and xarray write, and merged stores, read by the published package."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

pytestmark = pytest.mark.interop

ITEMS = np.random.default_rng(0).integers(0, 99, (300, 200))


def check(upstream: Any, path: Path, leaves: dict[str, Any]) -> None:
    """Compare what the other package reads with arrays of NumPy."""
    for mmap_mode in (None,) if path.suffix == ".b2d" else (None, "r"):
        found = upstream.describe(path=str(path), mmap_mode=mmap_mode)
        assert set(found["leaves"]) == set(leaves)
        for key, items in leaves.items():
            leaf = found["leaves"][key]
            assert tuple(leaf["shape"]) == items.shape
            assert leaf["sha256"] == hashlib.sha256(items.tobytes()).hexdigest()


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_arrays_of_dask(upstream: Any, suffix: str, tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    path = tmp_path / f"a{suffix}"
    blosc2.to_store({"/g/x": da.from_array(ITEMS, chunks=(100, 70)), "/z": da.zeros((500, 500), chunks=250)}, path)
    check(upstream, path, {"/g/x": ITEMS, "/z": np.zeros((500, 500))})
    single = tmp_path / "single.b2nd"
    blosc2.to_store(da.from_array(ITEMS, chunks=(100, 70)), single)
    assert upstream.describe(path=str(single))["sha256"] == hashlib.sha256(ITEMS.tobytes()).hexdigest()


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_datasets_of_xarray(upstream: Any, suffix: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    path = tmp_path / f"a{suffix}"
    data = xarray.Dataset({"t": (("y", "x"), ITEMS, {"units": "K", "scale": np.float32(0.1)})}, attrs={"title": "a"})
    blosc2.to_store(data, path, "/weather")
    blosc2.to_store(data, path, "/weather", append_dim="y")
    check(upstream, path, {"/weather/t": np.concatenate([ITEMS, ITEMS])})
    leaf = upstream.describe(path=str(path))["leaves"]["/weather/t"]
    scale = {"$ndarray": {"dtype": "float32", "shape": [], "hex": np.float32(0.1).tobytes().hex()}}
    assert leaf["vlmeta"] == {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K", "scale": scale}
    assert upstream.describe(path=str(path))["attrs"] == {"/weather": {"title": "a"}}


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_merged_stores(upstream: Any, suffix: str, tmp_path: Path) -> None:
    for number in range(2):
        with blosc2.TreeStore(str(tmp_path / f"{number}.b2z"), mode="w") as store:
            store[f"/part/{number}"] = ITEMS + number
    blosc2.merge([tmp_path / "0.b2z", tmp_path / "1.b2z"], tmp_path / f"whole{suffix}")
    check(upstream, tmp_path / f"whole{suffix}", {"/part/0": ITEMS, "/part/1": ITEMS + 1})
