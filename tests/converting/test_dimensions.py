"""Names of dimensions in zarr, netCDF and HDF5 files, kept where the engine of xarray finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import blosc2

ITEMS = np.arange(12, dtype="f4").reshape(3, 4)


def names_in(path: Path, key: str) -> object:
    with blosc2.open(str(path)) as store:
        return store[key].vlmeta[:].get("_ARRAY_DIMENSIONS")


@pytest.mark.parametrize("names", [("y", "x"), ("y", None)])
def test_zarr_3_there_and_back(names: tuple[str, str | None], tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(tmp_path / "a.zarr"), zarr_format=3)
    group.create_array("t", shape=ITEMS.shape, dtype="f4", dimension_names=names)[:] = ITEMS
    report = blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z", verify=True)
    assert report.complete
    assert names_in(tmp_path / "a.b2z", "/t") == list(names)
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.zarr", verify=True).complete
    back = zarr.open(str(tmp_path / "b.zarr"), mode="r")["t"]
    assert back.metadata.dimension_names == names
    assert not dict(back.attrs)


def test_zarr_2(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(tmp_path / "a.zarr"), zarr_format=2)
    array = group.create_array("t", shape=ITEMS.shape, dtype="f4")
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z")
    assert names_in(tmp_path / "a.b2z", "/t") == ["y", "x"]


def test_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["x"], file["other"] = ITEMS, np.arange(4), ITEMS
        file["x"].make_scale("x")
        file["t"].dims[1].attach_scale(file["x"])
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z")
    assert names_in(tmp_path / "a.b2z", "/t") == [None, "x"]
    assert names_in(tmp_path / "a.b2z", "/x") == ["x"]
    assert names_in(tmp_path / "a.b2z", "/other") is None


def test_a_netcdf_file_as_a_dataset(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    from blosc2._tools.integrations.xarray_engine import Blosc2BackendEntrypoint

    times = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]")
    data = xarray.Dataset(
        {"t": (("time", "x"), ITEMS, {"units": "K", "long_name": "temperature"})},
        coords={"time": times, "x": np.arange(4.0), "height": ("x", [1.0, 2.0, 3.0, 4.0])}, attrs={"title": "a"},
    )  # fmt: skip
    data.t.encoding = {"dtype": "i2", "scale_factor": np.float32(0.5), "_FillValue": np.int16(-1)}
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z")
    wanted = xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    found = xarray.open_dataset(tmp_path / "a.b2z", engine=Blosc2BackendEntrypoint)
    with wanted, found:
        xarray.testing.assert_identical(found.load(), wanted.load())
