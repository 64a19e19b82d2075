"""netCDF files become stores that xarray shows as it shows the files; and stores become files that it shows alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

xarray = pytest.importorskip("xarray")
netCDF4 = pytest.importorskip("netCDF4")
h5py = pytest.importorskip("h5py")
pytest.importorskip("h5netcdf")
pandas = pytest.importorskip("pandas")

import blosc2
from blosc2.exceptions import ConversionError

READS = [("b.nc", "netcdf4"), ("b.nc", "h5netcdf"), ("b.zarr", "zarr"), ("b.h5", "h5netcdf")]


def weather() -> Any:
    """What netCDF keeps in ways of its own."""
    found = xarray.Dataset(
        {
            "T": (
                ("time", "lat", "lon"), np.arange(24, dtype="f4").reshape(4, 2, 3),
                {"units": "K", "range": np.array([0, 9], "f4")},
            ),
            "packed": (("lat", "lon"), np.arange(6.0).reshape(2, 3) / 2, {"long_name": "with a scale"}),
            "single": ((), 3.5, {"note": "x"}), "free": ("x", np.arange(5, dtype="i2")),
            "names": ("lat", np.array(["a", "béc"], object)),
            "grid": (("lat", "lon"), np.array([["a", "b", ""], ["c", "d", "ef"]], object)),
            "bytes": ("lat", np.array([b"a", b"bc"], "S3")), "letters": ("lat", np.array([b"a", b"b"], "S1")),
            "missing": ("lat", [np.nan, 1.5]), "when": ("lat", np.array(["2001-01-01", "NaT"], "M8[ns]")),
        },
        coords={
            "time": pandas.date_range("2000-01-01", periods=4), "lat": [10.0, 20.0], "lon": np.array([1, 2, 3], "i4"),
            "lead": ("time", pandas.to_timedelta(range(4), "h")),
        },
        attrs={
            "title": "é", "count": np.int32(3), "list": np.array([1.0, 2.0]), "texts": ["a", "b"],
            "half": np.float32(0.5),
        },
    )  # fmt: skip
    found.packed.encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    return found


def shown(path: Path, engine: str = "netcdf4") -> Any:
    with xarray.open_dataset(path, engine=engine) as found:
        return found.load()


def same_trees(one: Path, engine: str, other: Path, of_other: str) -> None:
    with (
        xarray.open_datatree(one, engine=engine) as found, xarray.open_datatree(other, engine=of_other) as wanted,
    ):  # fmt: skip
        xarray.testing.assert_identical(found.load(), wanted.load())


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize("unlimited", [["time"], []])
def test_a_netcdf_4_file(engine: str, unlimited: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    weather().to_netcdf(path, engine=engine, unlimited_dims=unlimited)
    report = blosc2.convert(path, tmp_path / "a.b2z", verify=True)
    assert report.complete
    wanted, found = shown(path), shown(tmp_path / "a.b2z", "blosc2")
    xarray.testing.assert_identical(found, wanted)
    assert found.packed.encoding["dtype"] == np.int16
    assert found.encoding.get("unlimited_dims", set()) == set(unlimited)


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4_CLASSIC"])
def test_older_forms(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    data = weather().drop_vars("grid").assign_attrs(texts="a")
    data.to_netcdf(path, format=form, engine="netcdf4", unlimited_dims=["time"])
    assert blosc2.convert(path, tmp_path / "a.b2z", verify=True).complete
    xarray.testing.assert_identical(shown(tmp_path / "a.b2z", "blosc2"), shown(path))


@pytest.mark.parametrize(
    ("target", "engine"), [("b.nc", "netcdf4"), ("b.nc", "h5netcdf"), ("b.zarr", "zarr"), ("b.h5", "h5netcdf")]
)
def test_there_and_back(target: str, engine: str, tmp_path: Path) -> None:
    """From xarray to a store, and from there to a format of others: xarray shows the same."""
    pytest.importorskip("zarr")
    data = weather()
    data.encoding = {"unlimited_dims": {"time"}}
    blosc2.to_store(data, tmp_path / "a.b2z")
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True)
    assert report.complete
    what = [each.what for each in report.changed if not each.what.startswith("the type of attribute")]
    texts = [] if target == "b.zarr" else ["the type <U2", "the type <U3"]
    assert sorted(what) == (texts if target == "b.nc" else ["attribute 'netcdf_unlimited'", *texts])
    wanted = shown(tmp_path / "a.b2z", "blosc2")
    found = shown(tmp_path / target, engine)
    xarray.testing.assert_identical(found, wanted)
    assert target == "b.zarr" or found.encoding["unlimited_dims"] == {"time"}
    # And once more, as another would import it.
    blosc2.convert(tmp_path / target, tmp_path / "c.b2z", verify=True)
    xarray.testing.assert_identical(shown(tmp_path / "c.b2z", "blosc2"), wanted)


def test_a_coordinate_of_several_axes(tmp_path: Path) -> None:
    """Heights above the ground have the name of their first axis: HDF5 has them as netCDF 4 keeps them."""
    h5py = pytest.importorskip("h5py")
    data = xarray.Dataset(
        {
            "p": (("z", "lat", "lon"), np.zeros((2, 3, 4))),
            "lat": [1.0, 2, 3],
            "y": ("x", [1.0, 2.0]),
            "x": ("q", [5, 6]),
        },
    ).assign_coords(z=(("z", "lat", "lon"), np.arange(24.0).reshape(2, 3, 4)))
    blosc2.to_store(data, tmp_path / "a.b2z")
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5", verify=True).complete
    wanted = shown(tmp_path / "a.b2z", "blosc2")
    assert wanted.z.dims == ("z", "lat", "lon")
    xarray.testing.assert_identical(shown(tmp_path / "a.h5", "h5netcdf")[["p", "z"]], wanted[["p", "z"]])
    blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2z", verify=True)
    xarray.testing.assert_identical(shown(tmp_path / "b.b2z", "blosc2"), wanted)
    for value in ("no number", [0, 1], np.zeros(3), [0, 1, 99]):  # damaged: names are lost, nothing else
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file["z"].attrs["_Netcdf4Coordinates"] = value
        blosc2.convert(tmp_path / "a.h5", tmp_path / "c.b2z", verify=True, overwrite=True)
        with blosc2.open(str(tmp_path / "c.b2z")) as store:
            np.testing.assert_array_equal(store["/z"], data.z)


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
@pytest.mark.parametrize(("target", "engine"), [("b.nc", "netcdf4"), ("b.zarr", "zarr"), ("b.h5", "h5netcdf")])
def test_one_name_of_several_axes(target: str, engine: str, tmp_path: Path) -> None:
    if engine == "zarr":
        pytest.importorskip("zarr")
    names: Any = {"cov": ("x", "x"), "both": ("x", "y", "y")}
    data = xarray.Dataset(
        {"cov": (names["cov"], np.eye(3)), "both": (names["both"], np.ones((3, 2, 2))), "x": [1, 2, 3]}
    )
    data.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    assert blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True).complete
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True).complete
    wanted = shown(tmp_path / "a.nc")
    assert {name: wanted[name].dims for name in names} == names
    xarray.testing.assert_identical(shown(tmp_path / "a.b2z", "blosc2"), wanted)
    xarray.testing.assert_identical(shown(tmp_path / target, engine), wanted)


@pytest.mark.parametrize("names", [["x", "x"], ["x", None, "x"], ["v_1", None]])
def test_names_that_axes_cannot_share(names: list[str | None], tmp_path: Path) -> None:
    """Axes of one name have one length, in each format; and no name that is made is that of another axis."""
    shape = (2, 2) if None in names[1:2] and len(names) == 2 else (2, 3, 4)[: len(names)]
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/v"] = np.zeros(shape)
        store["/v"].vlmeta["_ARRAY_DIMENSIONS"] = names
    for target in ("b.nc", "b.h5"):
        assert blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True).complete
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert len(set(file["v"].dimensions)) == len(shape)
        assert file["v"].shape == shape


@pytest.mark.parametrize("value", [5, "time", [1, 2], {"time": 1}])
@pytest.mark.parametrize("target", ["b.nc", "b.h5", "b.zarr"])
def test_an_attribute_that_only_has_the_name_of_the_unlimited_dimensions(
    target: str, value: object, tmp_path: Path
) -> None:
    """It is an attribute as any other: it is kept, or listed where the format has nothing like it."""
    if target == "b.zarr":
        pytest.importorskip("zarr")
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/t"] = np.arange(3)
        store.attrs["netcdf_unlimited"] = value
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target)
    blosc2.convert(tmp_path / target, tmp_path / "c.b2z")
    with blosc2.open(tmp_path / "c.b2z") as back:
        found = back.attrs.get("netcdf_unlimited")
    listed = [each.what for each in report.left_out]
    assert np.array_equal(found, value) or listed == ["attribute 'netcdf_unlimited'"]
    with xarray.open_dataset(tmp_path / "a.b2z", engine="blosc2") as shown_by_xarray:
        assert "unlimited_dims" not in shown_by_xarray.encoding


def test_xarray_shows_an_array_whose_class_is_no_text(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/t"] = np.arange(3)
        store["/t"].vlmeta["CLASS"] = np.arange(2)
    with xarray.open_dataset(tmp_path / "a.b2z", engine="blosc2") as data:
        np.testing.assert_array_equal(data["t"].attrs["CLASS"], np.arange(2))


@pytest.mark.parametrize("value", [5, "x", [1, 2]])
@pytest.mark.parametrize("name", ["a.nc", "a.h5"])
def test_a_damaged_list_of_scales(value: Any, name: str, tmp_path: Path) -> None:
    """The library of netCDF ends the process at such a file, which is read as HDF5."""
    h5py = pytest.importorskip("h5py")
    with netCDF4.Dataset(tmp_path / name, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("x", "f4", ("x",))[:] = 2
        file.createVariable("v", "f4", ("x",))[:] = 1
    with h5py.File(tmp_path / name, "a") as file:
        del file["v"].attrs["DIMENSION_LIST"]
        file["v"].attrs["DIMENSION_LIST"] = value
    blosc2.convert(tmp_path / name, tmp_path / "a.b2z", verify=True)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        np.testing.assert_array_equal(store["/v"][:], np.ones(3, "f4"))
        np.testing.assert_array_equal(store["/v"].vlmeta["DIMENSION_LIST"], value)


def test_what_has_no_counterpart_is_listed(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createDimension("unused", 7)
        file.createDimension("endless", None)
        ragged = file.createVLType("i4", "ragged")
        file.createVariable("rows", ragged, ("x",))[0] = np.array([1, 2], "i4")
        colours = file.createEnumType("u1", "colours", {"red": 0, "blue": 1})
        file.createVariable("colour", colours, ("x",), fill_value=0)[:] = [1, 0, 1]
        pair = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "pair")
        file.createVariable("pairs", pair, ("x",))[:] = np.array([(1, 2.5)] * 3, [("a", "i4"), ("b", "f8")])
        file.createVariable("none", "i4", ())
    report = blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [
        ("/", "dimension 'unused'"), ("/colour", "the names of an enumeration"),
    ]  # fmt: skip
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/colour"][:].tolist() == [1, 0, 1]
        assert store["/pairs"][:].tolist() == [(1, 2.5)] * 3
        assert store["/none"].shape == ()
        assert [row.tolist() for row in store["/rows"]] == [[1, 2], [], []]
    blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.nc", verify=True)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file.dimensions["endless"].isunlimited()


def test_a_variable_with_the_name_of_a_dimension_that_it_lacks(tmp_path: Path) -> None:
    """The library stores it under another name."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createDimension("y", 2)
        file.createVariable("x", "i4", ("y",))[:] = [1, 2]
        file.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    assert blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True).complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert sorted(store) == ["/v", "/x"]
        assert store["/x"].vlmeta["_ARRAY_DIMENSIONS"] == ["y"]


def test_what_was_never_written(tmp_path: Path) -> None:
    """The library gives memory as it was: of variables that are not filled, and of those that grow along two axes."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 1 << 16)
        file.createDimension("time", None)
        file.createDimension("more", None)
        file.createVariable("filled", "i4", ("n",), fill_value=5)
        file.createVariable("pairs", "i8", ("time", "time"), fill_value=-9)[:] = np.arange(6).reshape(2, 3)
        file.createVariable("grows", "i8", ("time", "more"), fill_value=-7)[:] = np.arange(2).reshape(1, 2)
        file.createVariable("time", "f8", ("time",))[:] = [1, 2, 3]
        file.createVariable("more", "f8", ("more",))[:] = range(500)
        file.createVariable("bare", "i8", ("n",), fill_value=False)
        file.createVariable("crs", "S1", (), fill_value=False).spatial_ref = "a projection"
    assert blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True).complete
    pairs, grows = np.full((3, 3), -9), np.full((3, 500), -7)
    pairs[:2], grows[0, :2] = np.arange(6).reshape(2, 3), [0, 1]
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert not store["/bare"][...].any()
        assert (store["/filled"][...] == 5).all()
        assert (store["/crs"][()], store["/crs"].vlmeta["spatial_ref"]) == (b"", "a projection")
        np.testing.assert_array_equal(store["/pairs"], pairs)
        np.testing.assert_array_equal(store["/grows"], grows)


def test_digits_are_in_the_encoding(tmp_path: Path) -> None:
    """As xarray has them for netCDF files."""
    data = xarray.Dataset({"v": ("x", [1.25, 2.5])})
    data.v.encoding["least_significant_digit"] = 3
    data.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["v"].least_significant_digit = 3
    blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True)
    wanted, found = shown(tmp_path / "a.nc"), shown(tmp_path / "a.b2z", "blosc2")
    xarray.testing.assert_identical(found, wanted)
    assert found.v.encoding["least_significant_digit"] == wanted.v.encoding["least_significant_digit"] == 3
    blosc2.to_store(wanted, tmp_path / "b.b2z")
    assert shown(tmp_path / "b.b2z", "blosc2").v.encoding["least_significant_digit"] == 3


def test_what_netcdf_cannot_hold(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/complex"], store["/flags"] = np.ones(2, "c16"), np.array([True, False])
        store["/big"], store["/half"] = np.arange(3, dtype=">i4"), np.zeros(2, "f2")
        store["/a"], store["/b"] = np.zeros((2, 3)), np.zeros((4, 3))
        for key in ("/a", "/b"):  # one name of two lengths
            store[key].vlmeta["_ARRAY_DIMENSIONS"] = ["x", "y"]
        store["/a"].vlmeta["truth"] = True
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True)
    assert sorted((each.key, each.what) for each in report.left_out) == [
        ("/a", "attribute 'truth'"), ("/complex", "all of it"), ("/half", "all of it"),
    ]  # fmt: skip
    assert sorted((each.key, each.what) for each in report.changed) == [
        ("/b", "attribute '_ARRAY_DIMENSIONS'"), ("/big", "the byte order of >i4"), ("/flags", "the type bool"),
    ]  # fmt: skip
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["flags"][:].tolist() == [1, 0]
        assert file["big"][:].tolist() == [0, 1, 2]
        assert (file["a"].dimensions, file["b"].dimensions) == (("x", "y"), ("b_x", "y"))


def test_a_text_without_axes(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/t"] = blosc2.ObjectArray()
        store["/t"].append("é")
        store["/t"].vlmeta["hdf5_shape"] = []
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True).complete
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file["t"].shape, file["t"][...]) == ((), "é")


def test_attributes_that_have_another_form(tmp_path: Path) -> None:
    """netCDF makes no difference between a value and a list of one."""
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store.attrs.update({"one": ["a"], "two": ["a", "b"], "number": [1], "numbers": [1, 2], "array": np.ones(1)})
        store.attrs.update({"text": "a", "axes": np.ones((2, 2)), "int": 3, "big": np.arange(2, dtype=">i4")})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True)
    assert [each.what for each in report.left_out] == ["attribute 'axes'"]
    assert sorted(each.what.split()[-1] for each in report.changed) == [
        "'array'", "'big'", "'number'", "'numbers'", "'one'",
    ]  # fmt: skip
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file.one, list(file.two), file.numbers.tolist(), file.text) == ("a", ["a", "b"], [1, 2], "a")


@pytest.mark.parametrize("target", ["b.nc", "b.zarr", "b.h5"])
@pytest.mark.parametrize("name", ["_FillValue", "hdf5_fillvalue"])
def test_a_fill_value_of_another_type(name: str, target: str, tmp_path: Path) -> None:
    """Files of netCDF 3 may have one, such as a double for floats; other formats have that of the items alone."""
    if target == "b.zarr":
        pytest.importorskip("zarr")
    fills = {"/f": ("f4", np.nan), "/i": ("i2", np.float32(7)), "/n": ("i2", 0), "/own": ("i2", np.array(3, "i2"))}
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        for key, (dtype, fill) in fills.items():
            store[key] = np.zeros(2, dtype)
            store[key].vlmeta[name] = fill
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True)
    assert report.complete
    is_taken = {"b.nc": name == "_FillValue", "b.zarr": True, "b.h5": name == "hdf5_fillvalue"}[target]
    found = [each.key for each in report.changed if each.what == f"the type of attribute {name!r}"]
    assert found == (["/f", "/i", "/n"] if is_taken and name == "_FillValue" else ["/f", "/i"] if is_taken else [])


@pytest.mark.parametrize("target", ["b.nc", "b.zarr", "b.h5"])
@pytest.mark.parametrize("name", ["_FillValue", "hdf5_fillvalue"])
def test_a_fill_value_that_is_longer_than_items(name: str, target: str, tmp_path: Path) -> None:
    """Radars have '-9999' for characters: no part of it is taken."""
    if target == "b.zarr":
        pytest.importorskip("zarr")
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/mode"] = np.array([[b"a", b"b"]])
        store["/mode"].vlmeta.update({name: b"-9999\0", "_ARRAY_DIMENSIONS": ["x", "y"]})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True)
    listed = [each.what for each in report.left_out + report.changed if name in each.what]
    assert listed in ([f"attribute {name!r}"], [f"the type of attribute {name!r}"])


@pytest.mark.parametrize("name", ["a.nc", "a.h5"])
@pytest.mark.parametrize(("types", "raised"), [(["inner", "kind"], TypeError), (["kind"], OSError)])
def test_types_that_the_library_lacks(name: str, types: list[str], raised: Any, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    weather()[["T"]].to_netcdf(tmp_path / name, engine="netcdf4")
    inner = np.dtype([("x", "f4"), ("y", "f8")])
    nested = np.dtype([("s", inner, (4,))])
    with h5py.File(tmp_path / name, "a") as file:
        for kind in types:
            file[kind] = {"inner": inner, "kind": nested}[kind]
        file.create_dataset("v", data=np.ones(2, nested), dtype=file["kind"])
    with pytest.raises(raised):
        netCDF4.Dataset(tmp_path / name)
    report = blosc2.convert(tmp_path / name, tmp_path / "a.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [(f"/{kind}", "named datatype") for kind in types]
    with xarray.open_dataset(tmp_path / "a.b2z", engine="blosc2") as found:
        np.testing.assert_array_equal(found.T, weather().T)
        assert found.T.dims == weather().T.dims
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/v"].dtype == nested


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_damaged_files(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    data = xarray.Dataset({"v": ("x", np.arange(10_000))}).astype("i4")
    data.to_netcdf(path, format=form, engine="netcdf4")
    whole = path.read_bytes()
    for content in (b"", b"nothing of it", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises((OSError, ConversionError, RuntimeError)):
            blosc2.convert(path, tmp_path / "a.b2z")
        assert not list(tmp_path.glob("*.b2z"))


def test_what_is_missing_among_characters(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("c", "S1", ("x",), fill_value=b"b")[:] = np.array([b"a", b"b", b"c"])
    blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", verify=True)
    wanted = shown(tmp_path / "a.nc")
    xarray.testing.assert_identical(shown(tmp_path / "a.b2z", "blosc2"), wanted)
    for target, engine in READS:
        report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, overwrite=True, verify=True)
        if engine == "zarr":  # which xarray cannot have there
            assert [each.what for each in report.left_out] == ["attribute '_FillValue'"]
            assert shown(tmp_path / target, engine).c.item() == b"abc"
        else:
            xarray.testing.assert_identical(shown(tmp_path / target, engine), wanted)


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_netcdf_under_the_name_of_hdf5(engine: str, tmp_path: Path) -> None:
    weather().to_netcdf(tmp_path / "a.h5", engine=engine)
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    xarray.testing.assert_identical(shown(tmp_path / "a.b2z", "blosc2"), shown(tmp_path / "a.h5"))


def classic(axes: int, *, length: int = 0xFFFFFFFF) -> bytes:
    """The header of a netCDF 3 file with one dimension and one variable of so many axes."""
    numbers = [0, 10, 1, 1, "x", length, 0, 0, 11, 1, 1, "v", axes, *[0] * axes, 0, 0, 1, 4, 4096]
    return b"CDF\1" + b"".join(
        n.encode().ljust(4, b"\0") if isinstance(n, str) else n.to_bytes(4, "big") for n in numbers
    )


@pytest.mark.parametrize(("data", "why"), [
    (classic(200_000), "more than 1024 dimensions of a variable"),
    (classic(3), "more than 9223372036854775807 bytes of a variable"),
    (classic(1)[:60], "it ends too early"),
    (b"CDF\5" + b"\xff" * 100, "bytes of a name or an attribute"),
])  # fmt: skip
def test_headers_that_make_no_sense(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_bytes(data)
    with pytest.raises(ConversionError, match=rf"a\.nc is damaged: its header makes no sense: .*{why}"):
        blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z")


def tree_of_dimensions(path: Path) -> Path:
    """Groups with dimensions of the groups around them, and one with its own of the same name and length."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createDimension("z", 2)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(4)
        file.createVariable("z_of_root", "f8", ("z",))[:] = [1, 2]
        ocean = file.createGroup("ocean")
        ocean.createVariable("sst", "f4", ("time", "x"))[:] = np.arange(12).reshape(4, 3)
        own = ocean.createGroup("own")
        own.createDimension("z", 2)
        own.createVariable("depth", "f4", ("z", "x"))[:] = 1
        air = file.createGroup("air")
        air.createDimension("time", 4)
        air.createVariable("time", "i4", ("time",))[:] = np.arange(4)
        air.createVariable("wind", "f4", ("time",))[:] = np.arange(4)
    return path


def dimensions_of(path: Path) -> dict[str, dict[str, tuple[int, bool]]]:
    """The dimensions that each group defines, with their lengths, and whether they have no limit."""
    found: dict[str, dict[str, tuple[int, bool]]] = {}
    with netCDF4.Dataset(path) as file:
        groups = [file]
        while groups:
            group = groups.pop()
            found[group.path] = {name: (len(one), one.isunlimited()) for name, one in group.dimensions.items()}
            groups += group.groups.values()
    return found


def test_dimensions_stay_in_their_groups(tmp_path: Path) -> None:
    source, store, back = tree_of_dimensions(tmp_path / "a.nc"), tmp_path / "a.b2z", tmp_path / "b.nc"
    assert not blosc2.convert(source, store, verify=True).left_out
    report = blosc2.convert(store, back, verify=True)
    assert (report.left_out, report.changed) == ([], [])
    wanted = {
        "/": {"time": (4, True), "x": (3, False), "z": (2, False)},
        "/ocean": {}, "/ocean/own": {"z": (2, False)}, "/air": {"time": (4, False)},
    }  # fmt: skip
    assert dimensions_of(source) == dimensions_of(back) == wanted
    same_trees(source, "netcdf4", back, "netcdf4")
    with xarray.open_dataset(store, engine="blosc2") as found:
        assert found.attrs == {}  # what the conversion keeps for itself is not shown
    # As HDF5 has it, the scales of axes are those of the groups around, too.
    report = blosc2.convert(store, tmp_path / "b.h5", verify=True)
    assert not report.left_out
    with h5py.File(tmp_path / "b.h5") as file:
        scales = [[scale.name for scale in axis.values()] for axis in file["/ocean/sst"].dims]
        assert scales == [["/time"], ["/x"]]
        assert file["/ocean/own/depth"].dims[0][0].name == "/ocean/own/z"
        assert sorted(file["/ocean"]) == ["own", "sst"]
        assert file["/ocean/sst"].maxshape == (None, 3)
    same_trees(source, "netcdf4", tmp_path / "b.h5", "h5netcdf")
    report = blosc2.convert(store, tmp_path / "b.zarr", verify=True)
    assert {each.what for each in report.left_out} == {"attribute 'netcdf_dimensions'"}


def test_dimensions_that_only_a_store_has(tmp_path: Path) -> None:
    """Arrays of a group have the axes of coordinates around it, as xarray has them, unless their length is another."""
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        for key, names, shape in (
            ("/t", ["t"], (4,)), ("/a/b/v", ["t", "y"], (4, 5)), ("/a/c/v", ["t"], (3,)), ("/a/w", ["y"], (5,)),
        ):  # fmt: skip
            array = blosc2.zeros(shape, dtype="f4")
            array.attrs["_ARRAY_DIMENSIONS"] = names
            store[key] = array
        store["/a"].attrs["netcdf_dimensions"] = 7
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True)
    assert not report.left_out
    found = dimensions_of(tmp_path / "a.nc")
    assert found == {"/": {"t": (4, False)}, "/a": {"y": (5, False)}, "/a/b": {}, "/a/c": {"t": (3, False)}}
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["a"].netcdf_dimensions == 7


@pytest.mark.parametrize("with_coordinates", [True, False])
def test_a_group_has_a_dimension_of_its_own_for_other_lengths(tmp_path: Path, with_coordinates: bool) -> None:
    root, group = (
        xarray.Dataset({"a": ("x", np.ones(3))}),
        xarray.Dataset({"b": ("x", np.ones(5)), "c": ("x", np.ones(5))}),
    )
    if with_coordinates:
        root, group = root.assign_coords(x=np.arange(3.0)), group.assign_coords(x=np.arange(5.0))
    blosc2.to_store(root, tmp_path / "a.b2z")
    blosc2.to_store(group, tmp_path / "a.b2z", "/g")
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True).complete
    with xarray.open_dataset(tmp_path / "a.nc", group="g") as found:
        xarray.testing.assert_identical(found.load(), group)
    with xarray.open_dataset(tmp_path / "a.nc") as found:
        xarray.testing.assert_identical(found.load(), root)


def test_a_dimension_that_variables_of_a_group_have_is_not_hidden_from_them(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        for key, length in (("/x0", 3), ("/g/a", 3), ("/g/b", 5), ("/g/h/c", 3), ("/g/h/d", 7)):
            store[key] = np.arange(length)
            store[key].attrs["_ARRAY_DIMENSIONS"] = ["x"]
    blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.nc", verify=True)
    for group, name, length in (("/", "x0", 3), ("/g", "a", 3), ("/g", "b", 5), ("/g/h", "c", 3), ("/g/h", "d", 7)):
        with xarray.open_dataset(tmp_path / "a.nc", group=group) as found:
            np.testing.assert_array_equal(found[name], np.arange(length))


@pytest.mark.parametrize("name", ["b.b2z", "b.b2d"])
def test_rounding_is_told_and_spares_places_and_missing_values(tmp_path: Path, name: str) -> None:
    rng, times = np.random.default_rng(0), pandas.date_range("2000-01-01T12", periods=8)
    values = (280 + rng.standard_normal((8, 90, 20))).astype("f4")
    values[:, :5] = np.nan
    bounds = np.stack([times - pandas.Timedelta("12h"), times + pandas.Timedelta("12h")], axis=1)
    source = xarray.Dataset(
        {"t": (("time", "lat", "x"), values), "time_bnds": (("time", "nv"), bounds)},
        {"time": ("time", times, {"bounds": "time_bnds"}), "lat": np.linspace(-89.9, 89.9, 90),
         "lon": (("lat", "x"), rng.random((90, 20)), {"units": "degrees_east"})},
    )  # fmt: skip
    source.t.encoding["_FillValue"] = np.float32(1e20)
    source.time.encoding["units"] = "hours since 2000-01-01"
    source.to_netcdf(tmp_path / "a.nc")
    report = blosc2.convert(tmp_path / "a.nc", tmp_path / name, cparams={"precision": 1}, verify=True)
    assert report.complete
    assert [each.key for each in report.changed if "rounded" in each.why] == ["/t"]
    found = shown(tmp_path / name, "blosc2")
    xarray.testing.assert_identical(found.drop_vars("t"), shown(tmp_path / "a.nc").drop_vars("t"))
    assert np.array_equal(np.isnan(found.t), np.isnan(values))
    assert 0 < np.nanmax(np.abs(found.t - values)) <= 1


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
@pytest.mark.parametrize("precision", [4, {"relative": 0.1}])
def test_what_was_never_written_is_not_rounded(kind: str, precision: Any) -> None:
    fill = netCDF4.default_fillvals[kind]
    items = np.array([fill, 9, 11], kind)
    assert blosc2.asarray(items, cparams={"precision": precision})[0] == np.array(fill, kind)


def test_an_axis_keeps_its_name_beside_one_that_differs_in_case(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", 3)
        file.createVariable("T", "f4", ("t",))[:] = [280, 281, 282]
        file.createVariable("t", "f8", ("t",))[:] = [0, 10, 20]
    report = blosc2.convert(tmp_path / "a.nc", tmp_path / "a.b2z", rename="escape")
    assert report.renamed == {"/T": "/T~2"}
    assert float(shown(tmp_path / "a.b2z", "blosc2").sel(t=10)["T~2"]) == 281
