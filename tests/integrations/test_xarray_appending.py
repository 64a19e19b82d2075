"""Files as climate models write them, appended along time to what `to_store` and `convert` have made of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

xarray = pytest.importorskip("xarray")
netCDF4 = pytest.importorskip("netCDF4")
pytest.importorskip("cftime")
pytest.importorskip("dask.array")
pytest.importorskip("zarr")

import blosc2
from blosc2 import convert, to_store

CALENDARS = ("standard", "noleap", "360_day")
UNITS = "days since 1990-01-01"


def write_year(path: Path, first: int, calendar: str, units: str = UNITS) -> Path:
    """One year of monthly means: bounds without units, packed numbers, floats without a fill value, texts."""
    starts = first + np.arange(12) * 30.0
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("lat", 3), ("lon", 4), ("bnds", 2)):
            file.createDimension(name, length)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": units, "calendar": calendar, "bounds": "time_bnds"})
        time[:] = starts + 15
        file.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.stack([starts, starts + 30], 1)
        for name, length in (("lat", 3), ("lon", 4)):
            axis = file.createVariable(name, "f4", (name,))
            axis.bounds = f"{name}_bnds"
            axis[:] = np.arange(length) / 3
            file.createVariable(f"{name}_bnds", "f8", (name, "bnds"))[:] = np.arange(length * 2).reshape(length, 2) / 3
        file.createVariable("height", "f8", ())[...] = 2.0
        file.createVariable("crs", "i4", ()).grid_mapping_name = "latitude_longitude"
        values = np.ma.array(280 + 10 * np.random.default_rng(first).normal(size=(12, 3, 4)))
        values[0, 0, 0] = np.ma.masked
        packed = file.createVariable("tas", "i2", ("time", "lat", "lon"), fill_value=-32768)
        packed.setncatts({"scale_factor": 0.01, "add_offset": 280.0, "units": "K", "coordinates": "height"})
        packed[:] = values
        plain = file.createVariable("pr", "f4", ("time", "lat", "lon"), fill_value=1e20)
        plain.missing_value = np.float32(1e20)
        plain[:] = values
        for name, dim, length in (("station", "lat", 3), ("note", "time", 12)):
            texts = file.createVariable(name, str, (dim,))
            for number in range(length):
                texts[number] = f"{name} {number + (first if dim == 'time' else 0):03d}"
    return path


@pytest.fixture(params=CALENDARS)
def years(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    second = write_year(tmp_path / "y2.nc", 361, request.param, "days since 1989-12-30")  # another start of the count
    return write_year(tmp_path / "y1.nc", 0, request.param), second


@pytest.fixture
def two_years(tmp_path: Path) -> tuple[Path, Path]:
    return write_year(tmp_path / "y1.nc", 0, "360_day"), write_year(tmp_path / "y2.nc", 360, "360_day")


def by_convert(source: Path, target: Path, _: Any) -> None:
    convert(source, target)


def by_to_store(source: Path, target: Path, chunks: Any) -> None:
    with xarray.open_dataset(source, chunks=chunks) as dataset:
        to_store(dataset, target)


def loaded(path: Path, **how: Any) -> Any:
    with xarray.open_dataset(path, **how) as found:
        return found.load()


def as_to_zarr_does(first: Path, second: Path, folder: Path) -> Any:
    """Both years, written and appended by xarray itself."""
    target = folder / "wanted.zarr"
    loaded(first).to_zarr(target, consolidated=False)
    loaded(second).to_zarr(target, append_dim="time", consolidated=False)
    return loaded(target, engine="zarr", consolidated=False)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:The return type of", "ignore:The data type")
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("chunks", [None, {}, {"time": 5}])
@pytest.mark.parametrize("made", [by_convert, by_to_store])
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_what_to_zarr_appends(
    years: tuple[Path, Path], tmp_path: Path, made: Callable[..., None], suffix: str, chunks: Any
) -> None:
    target = tmp_path / f"a{suffix}"
    made(years[0], target, chunks)
    with xarray.open_dataset(years[1], chunks=chunks) as more:
        to_store(more, target, append_dim="time")
    wanted = as_to_zarr_does(*years, tmp_path)
    found = loaded(target)
    assert found.sizes["time"] == 24
    xarray.testing.assert_equal(found, wanted)
    assert blosc2.check(str(target)).ok


@pytest.mark.parametrize("made", [by_convert, by_to_store])
def test_times_that_are_not_decoded(two_years: tuple[Path, Path], tmp_path: Path, made: Callable[..., None]) -> None:
    """Numbers are appended as they are, if their attributes say that they count as the stored ones do."""
    target = tmp_path / "a.b2d"
    made(two_years[0], target, None)
    to_store(loaded(two_years[1], decode_times=False), target, append_dim="time")
    np.testing.assert_array_equal(loaded(target).time_bnds[12:], loaded(two_years[1]).time_bnds)
    to_store(loaded(two_years[1], decode_cf=False), target, append_dim="time")
    np.testing.assert_array_equal(loaded(target).tas[24:], loaded(two_years[1]).tas)
    np.testing.assert_array_equal(loaded(target).time[24:], loaded(two_years[1]).time)


def test_several_files_and_trees_of_dask(two_years: tuple[Path, Path], tmp_path: Path) -> None:
    together = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "join": "outer"}
    with xarray.open_mfdataset(two_years, **together) as both:
        to_store(both, tmp_path / "both.b2z")
        xarray.testing.assert_equal(loaded(tmp_path / "both.b2z"), both.load())
    with xarray.open_datatree(two_years[0], chunks={}) as tree:
        to_store(tree, tmp_path / "tree.b2d")
    with xarray.open_mfdataset([two_years[1]], **together) as more:
        to_store(more, tmp_path / "tree.b2d", append_dim="time")
    with xarray.open_datatree(tmp_path / "tree.b2d") as found:
        xarray.testing.assert_equal(found.to_dataset().load(), loaded(tmp_path / "both.b2z"))


def test_a_region_of_bounds(two_years: tuple[Path, Path], tmp_path: Path) -> None:
    convert(two_years[0], tmp_path / "a.b2d")
    bounds = loaded(two_years[1])[["time_bnds"]].isel(time=slice(2, 5)).drop_vars(["time", "height"])
    to_store(bounds, tmp_path / "a.b2d", region={"time": slice(2, 5)})
    found = loaded(tmp_path / "a.b2d").time_bnds.values
    np.testing.assert_array_equal(found[2:5], bounds.time_bnds.values)
    np.testing.assert_array_equal(found[5:], loaded(two_years[0]).time_bnds.values[5:])


def test_texts_of_any_length(two_years: tuple[Path, Path], tmp_path: Path) -> None:
    """Those without time are replaced if they differ, as numbers are; those with time grow."""
    convert(two_years[0], tmp_path / "a.b2d")
    more = loaded(two_years[1])
    more["station"] = ("lat", np.array(["a", "much longer than before", "é"], object))
    more["note"] = ("time", np.array(["n"] * 12, object))
    to_store(more, tmp_path / "a.b2d", append_dim="time")
    found = loaded(tmp_path / "a.b2d")
    assert found.station.values.tolist() == ["a", "much longer than before", "é"]
    assert found.note.values.tolist() == [*(f"note {n:03d}" for n in range(12)), *["n"] * 12]


def _of_another_calendar(more: Any, tmp_path: Path) -> Any:
    return loaded(write_year(tmp_path / "noleap.nc", 360, "noleap"))


REFUSED: dict[str, tuple[Callable[[Any, Path], Any], str]] = {
    "calendar": (
        _of_another_calendar,
        "'time_bnds' has times of the calendar '360_day', and those to write are of 'noleap': convert them",
    ),
    "numbers for dates": (
        lambda more, _: more.assign_coords(time=np.arange(12.0)),
        "'time' has times, which it counts in 'days since 1990-01-01', .* numbers without units: write dates, or give",
    ),
    "other units": (
        lambda more, _: more.assign_coords(time=("time", np.arange(12.0), {"units": "hours since 1990-01-01"})),
        "'time' has .*calendar.*360_day",
    ),
    "packed by others": (
        lambda more, _: more.assign(tas=more.tas.assign_attrs(scale_factor=0.5)),
        "'tas' has add_offset=.*, and the values to write have none",
    ),
    "static coordinate": (lambda more, _: more.assign_coords(lat=more.lat + 1), "the coordinate 'lat' does not have"),
    "static texts": (
        lambda more, _: more.assign_coords(station=("lat", np.array(["x", "y", "z"], object))),
        "the coordinate 'station' does not have .* leave it out with drop_vars",
    ),
    "no texts": (
        lambda more, _: more.assign(note=("time", np.array([None] * 12, object))),
        "'note' has texts, and those to write are of NoneType: give texts alone",
    ),
    "without texts": (lambda more, _: more.drop_vars("note"), r"\['note'\] have the dimension 'time' too"),
    "without bounds": (lambda more, _: more.drop_vars("time_bnds"), r"\['time_bnds'\] have the dimension 'time' too"),
    "too few texts": (
        lambda more, _: more.assign_coords(lat=more.lat).isel(lat=[0, 1]), "has 3 items along 'lat', and 2 would be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(two_years: tuple[Path, Path], tmp_path: Path, case: str) -> None:
    changed, words = REFUSED[case]
    target = tmp_path / "a.b2d"
    convert(two_years[0], target)
    with pytest.raises(ValueError, match=words):
        to_store(changed(loaded(two_years[1]), tmp_path), target, append_dim="time")
    xarray.testing.assert_equal(loaded(target), loaded(two_years[0]))


@pytest.mark.parametrize("calendars", [(None, None), (None, "standard"), ("standard", None), (None, "gregorian")])
def test_times_without_a_calendar_are_of_the_standard_one(tmp_path: Path, calendars: tuple[str | None, ...]) -> None:
    for name, first, calendar in zip("ab", (0, 3), calendars, strict=True):
        with netCDF4.Dataset(tmp_path / f"{name}.nc", "w") as file:
            file.createDimension("time", None)
            for variable in ("time", "made"):
                times = file.createVariable(variable, "f8", ("time",))
                times.units = "days since 2000-01-01"
                if calendar is not None:
                    times.calendar = calendar
                times[:] = first + np.arange(3)
    convert(tmp_path / "a.nc", tmp_path / "t.b2d")
    with xarray.open_dataset(tmp_path / "b.nc") as second:
        to_store(second, tmp_path / "t.b2d", append_dim="time")
    days = np.arange("2000-01-01", "2000-01-07", dtype="M8[D]")
    with xarray.open_dataset(tmp_path / "t.b2d") as found:
        assert (found["time"].values == days).all()
        assert (found["made"].values == days).all()


@pytest.mark.parametrize("fill", [None, 255])
def test_unsigned_numbers_of_netcdf_stay_unsigned(tmp_path: Path, fill: int | None) -> None:
    encoding = {"dtype": "i1", "_Unsigned": "true", **({} if fill is None else {"_FillValue": np.int8(-1)})}
    for at, values in (("first", [0, 200, 254]), ("second", [1, 130, 7])):
        flags = xarray.Dataset({"flags": ("time", np.array(values, "u1"))})
        flags["flags"].encoding = dict(encoding)
        blosc2.to_store(flags, tmp_path / "s.b2d", append_dim="time" if at == "second" else None)
    assert blosc2.open(tmp_path / "s.b2d")["/flags"].dtype == np.int8
    with xarray.open_dataset(tmp_path / "s.b2d") as found:
        np.testing.assert_array_equal(found.flags, [0, 200, 254, 1, 130, 7])
