"""References are read by the programs that they are for: kerchunk and VirtualiZarr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("codecs")]  # warnings of these programs


@pytest.fixture
def years(tmp_path: Path) -> list[Any]:
    """Two stores that follow each other along an axis, and what is in them."""
    found = []
    for year in range(2):
        data = xarray.Dataset(
            {"t": (("time", "x"), np.arange(24.0).reshape(4, 6) + 100 * year)},
            {"time": np.arange(4) + 4 * year, "x": np.arange(6)},
        )
        with blosc2.TreeStore(str(tmp_path / f"{year}.b2z"), mode="w") as store:
            for name, variable in data.variables.items():
                chunks = tuple(max(1, n // 2) for n in variable.shape)
                store[f"/{name}"] = blosc2.asarray(variable.values, chunks=chunks)
                store[f"/{name}"].vlmeta["_ARRAY_DIMENSIONS"] = list(variable.dims)
        found.append(data)
    return found


def references(folder: Path, year: int, zarr_format: int) -> Path:
    path = folder / f"{year}.json"
    blosc2.zarr_references(str(folder / f"{year}.b2z"), str(path), zarr_format=zarr_format)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_kerchunk_reads(tmp_path: Path, years: list[Any], zarr_format: int) -> None:
    utils = pytest.importorskip("kerchunk.utils")
    made = json.loads(references(tmp_path, 1, zarr_format).read_text())
    group = zarr.open_group(utils.refs_as_store(made), mode="r", zarr_format=zarr_format)
    np.testing.assert_array_equal(group["t"][1:3, 2], years[1].t[1:3, 2])


def test_kerchunk_combines(tmp_path: Path, years: list[Any]) -> None:
    """It takes references of zarr 2."""
    combine, utils = pytest.importorskip("kerchunk.combine"), pytest.importorskip("kerchunk.utils")
    made = [json.loads(references(tmp_path, year, 2).read_text()) for year in range(2)]
    joined = combine.MultiZarrToZarr(made, concat_dims=["time"], identical_dims=["x"]).translate()
    found = xarray.open_dataset(utils.refs_as_store(joined), engine="zarr", consolidated=False)
    xarray.testing.assert_equal(found.load(), xarray.concat(years, "time"))


@pytest.mark.parametrize("fill", [1e20, np.nan, -np.inf], ids=["1e20", "NaN", "-inf"])
def test_a_netcdf_file_with_a_scalar_and_fill_values(tmp_path: Path, fill: float) -> None:
    """Each program opens it, and nothing that only tells of netCDF is shown."""
    netcdf, virtualizarr = pytest.importorskip("netCDF4"), pytest.importorskip("virtualizarr")
    pytest.importorskip("kerchunk")
    registry, stores = pytest.importorskip("obspec_utils.registry"), pytest.importorskip("obstore.store")
    from virtualizarr.parsers import KerchunkJSONParser

    with netcdf.Dataset(tmp_path / "0.nc", "w") as file:
        file.createDimension("x", None)
        values = file.createVariable("t", "f4", ("x",), fill_value=fill)
        values[:] = np.ma.masked_array([1, 2, 3], [False, True, False])
        file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
    blosc2.convert(tmp_path / "0.nc", tmp_path / "0.b2z")
    path = references(tmp_path, 0, 2)
    found = xarray.open_dataset(str(path), engine="kerchunk")
    np.testing.assert_array_equal(found.t.values, [1, np.nan, 3])
    assert (found.crs.dims, found.crs.attrs["grid_mapping_name"]) == ((), "latitude_longitude")
    assert found.attrs == {}
    local = registry.ObjectStoreRegistry({"file://": stores.LocalStore()})
    shown = virtualizarr.open_virtual_dataset(path.as_uri(), registry=local, parser=KerchunkJSONParser())
    assert dict(shown.sizes) == {"x": 3}


def test_virtualizarr_joins(tmp_path: Path, years: list[Any]) -> None:
    """It takes references of zarr 2."""
    virtualizarr = pytest.importorskip("virtualizarr")
    registry = pytest.importorskip("obspec_utils.registry")
    stores = pytest.importorskip("obstore.store")
    utils = pytest.importorskip("kerchunk.utils")
    from virtualizarr.parsers import KerchunkJSONParser

    local = registry.ObjectStoreRegistry({"file://": stores.LocalStore()})
    parts = [
        virtualizarr.open_virtual_dataset(
            references(tmp_path, year, 2).as_uri(), registry=local, parser=KerchunkJSONParser(), loadable_variables=[]
        )
        for year in range(2)
    ]
    joined = xarray.concat(parts, "time", coords="minimal", compat="override", join="override")
    made = joined.vz.to_kerchunk(format="dict")
    # VirtualiZarr says that missing chunks are zeros, and so xarray would take zeros for missing.
    found = xarray.open_dataset(utils.refs_as_store(made), engine="zarr", consolidated=False, mask_and_scale=False)
    xarray.testing.assert_equal(found.load(), xarray.concat(years, "time"))
