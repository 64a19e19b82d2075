"""Datasets, arrays and trees of xarray, written to groups of stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

xarray = pytest.importorskip("xarray")
pandas = pytest.importorskip("pandas")

import blosc2
from blosc2 import to_store
from blosc2._tools import add_xarray_accessor
from blosc2._tools.integrations.xarray_engine import Blosc2BackendEntrypoint as Engine
from blosc2.exceptions import ClosedStoreError, UnexpectedKeywordError


def weather(days: int = 5, first: str = "2020-01-01") -> Any:
    start = (pandas.Timestamp(first) - pandas.Timestamp("2020-01-01")).days
    values = np.arange(days * 4, dtype="f4").reshape(days, 4) + 4 * start
    return xarray.Dataset(
        {"t": (("time", "x"), values, {"units": "K"}), "count": ("time", np.arange(days, dtype="i4") + start)},
        coords={
            "time": pandas.date_range(first, periods=days), "x": list("abcd"), "height": ("x", [1.0, 2.0, 3.0, 4.0]),
        },
        attrs={"title": "a", "year": np.int16(2020), "names": ["a", "b"]},
    )  # fmt: skip


def opened(path: Any, **how: Any) -> Any:
    with xarray.open_dataset(path, engine=Engine, **how) as found:
        return found.load()


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture(params=[".b2z", ".b2d"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = tmp_path / f"weather{request.param}"
    to_store(weather(), found)
    return found


def test_appended(path: Path) -> None:
    more = weather(4, "2020-01-06")
    to_store(more, path, append_dim="time")
    xarray.testing.assert_identical(opened(path), weather(9))
    to_store(weather(1, "2020-01-10").drop_vars(["x", "height"]), str(path), append_dim="time", mode="r+")
    xarray.testing.assert_equal(opened(path), weather(10))
    assert blosc2.check(str(path)).ok


@pytest.mark.parametrize(
    ("there", "written"), [("standard", "noleap"), ("noleap", "standard"), ("noleap", "360_day"), ("360_day", "noleap")]
)
def test_times_of_another_calendar(there: str, written: str, tmp_path: Path) -> None:
    pytest.importorskip("cftime")

    def days(calendar: str, first: str) -> Any:
        times = xarray.date_range(first, periods=3, calendar=calendar)
        return xarray.Dataset({"t": ("time", np.arange(3))}, coords={"time": times})

    path = tmp_path / "a.b2d"
    to_store(days(there, "2001-01-01"), path)
    before = content(path)
    with pytest.raises(
        # Dates of NumPy are of one that is "standard" since 1582.
        ValueError,
        match=f"'time' has times of the calendar '.*', and those .* of '(proleptic_gregorian|{written})': ",
    ):
        to_store(days(written, "2001-01-04"), path, append_dim="time")
    assert content(path) == before
    to_store(days(there, "2001-01-04"), path, append_dim="time")
    assert opened(path).sizes["time"] == 6


def test_dimensions_are_those_of_the_dataset_and_not_of_a_copied_attribute(tmp_path: Path) -> None:
    items = np.arange(9.0).reshape(3, 3)
    scan = xarray.DataArray(items, dims=("y", "x"), attrs={"_ARRAY_DIMENSIONS": ["y", "x"], "unit": "K"}, name="scan")
    for number, changed in enumerate([scan.transpose("x", "y"), scan.rename(y="lat"), scan[0], scan.chunk().T]):
        to_store(changed, tmp_path / f"{number}.b2z")
        found = xarray.open_dataset(tmp_path / f"{number}.b2z", engine="blosc2").scan
        assert found.dims == changed.dims
        assert found.attrs == {"unit": "K"}
        np.testing.assert_array_equal(found, changed)


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_one_name_of_several_axes(tmp_path: Path) -> None:
    data = xarray.Dataset({"cov": (("x", "x"), np.arange(9.0).reshape(3, 3)), "mean": ("x", np.zeros(3))})
    to_store(data, tmp_path / "a.b2z")
    xarray.testing.assert_identical(opened(tmp_path / "a.b2z"), data)
    with pytest.raises(ValueError, match=r"'cov' has append_dim='x' on several axes"):
        to_store(data, tmp_path / "a.b2z", append_dim="x")
    xarray.testing.assert_identical(opened(tmp_path / "a.b2z"), data)


def test_what_does_not_grow_is_replaced_while_appending(tmp_path: Path) -> None:
    """As `to_zarr` does; but coordinates have to be equal, since what is there belongs to them."""

    def part(first: int, number: float) -> xarray.Dataset:
        return xarray.Dataset(
            {"t": (("time", "x"), np.full((2, 3), number)), "mask": ("x", [number] * 3), "n": ((), number)},
            {"time": [first, first + 1], "x": [1, 2, 3]},
        )

    for target, write in ((tmp_path / "a.b2z", to_store), (tmp_path / "a.zarr", None)):
        for data, how in ((part(0, 0.5), {}), (part(2, 1.5), {"append_dim": "time"})):
            if write is not None:
                write(data, target, **how)
            else:
                pytest.importorskip("zarr")
                data.to_zarr(target, consolidated=False, **how)
    xarray.testing.assert_equal(opened(tmp_path / "a.b2z"), xarray.open_zarr(tmp_path / "a.zarr", consolidated=False))


def test_a_region(path: Path) -> None:
    part = weather(2, "2020-01-03").drop_vars(["x", "height"]) * 10
    part["t"].attrs["units"] = "K"
    wanted = weather()
    wanted["t"][2:4] *= 10
    wanted["count"][2:4] *= 10
    to_store(part, path, region={"time": slice(2, 4)})
    xarray.testing.assert_equal(opened(path), wanted)
    to_store(part * 10, path, region="auto")
    wanted["t"][2:4] *= 10
    wanted["count"][2:4] *= 10
    xarray.testing.assert_equal(opened(path), wanted)
    one = xarray.Dataset({"t": (("x", "time"), np.full((2, 1), -1, "f4"))})
    to_store(one, path, region={"time": slice(4, 5), "x": slice(1, 3)})
    wanted["t"][4, 1:3] = -1
    xarray.testing.assert_equal(opened(path), wanted)


def _shorter() -> Any:
    return weather(3)


REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "exists": (weather(), {}, FileExistsError, "mode='w' replaces it"),
    "mode": (weather(), {"mode": "x"}, ValueError, "mode must be 'w', 'w-', 'a' or 'r\\+', not 'x'"),
    "append and w": (weather(), {"mode": "w", "append_dim": "time"}, ValueError, "need mode 'a' or 'r\\+'"),
    "length": (weather(3), {"mode": "a"}, ValueError, "'t' has 5 items along 'time', and 3 would be written"),
    "no dimension": (weather(), {"append_dim": "z"}, ValueError, "'z' is no dimension of the dataset"),
    "stays shorter": (
        weather(3)[["t"]], {"append_dim": "time"}, ValueError, r"\['count'\] have the dimension 'time' too",
    ),
    "units": (
        weather(3, "2020-01-06").assign(t=lambda d: d.t.assign_attrs(units="C")), {"append_dim": "time"}, ValueError,
        "'t' has units='K', and the values to write have 'C'",
    ),
    "time units": (
        weather(3, "2020-01-06").assign_coords(time=pandas.date_range("2020-01-06 12:00", periods=3)),
        {"append_dim": "time"}, ValueError, "'time' has units='days since",
    ),
    "fractions": (
        weather(3, "2020-01-06").assign(count=("time", [0.5, 1, 2])), {"append_dim": "time"}, ValueError,
        "'count' has values of int32, and those to write are of float64",
    ),
    "too large": (
        weather(3, "2020-01-06").assign(count=("time", [1 << 40, 1, 2])), {"append_dim": "time"}, ValueError,
        "'count' is stored as int32, which cannot hold all",
    ),
    "longer texts": (
        weather().assign_coords(x=["a", "b", "c", "dd"]), {"mode": "a"}, ValueError, "'x' is stored as <U1",
    ),
    "other dimensions": (weather().rename(x="z"), {"mode": "a"}, ValueError, "dimensions"),
    "conflict": (
        xarray.Dataset({"new": ("time", [1, 2])}), {"mode": "a"}, ValueError,
        "the dimension 'time' would have the length",
    ),
    "r+": (xarray.Dataset({"new": ("time", [1] * 5)}), {"mode": "r+"}, ValueError, r"no variables \['new'\]"),
    "region of all": (weather(), {"region": {"time": slice(0, 5)}}, ValueError, r"write dataset.drop_vars"),
    "region too long": (
        weather(2)[["count"]], {"region": {"time": slice(4, 6)}}, ValueError, "'count' has 5 items along 'time', and 6",
    ),
    "region of others": (
        weather(2)[["count"]], {"region": {"time": slice(0, 3)}}, ValueError, "'time' has 2 items in the dataset",
    ),
    "region by step": (weather(2)[["count"]], {"region": {"time": slice(0, 4, 2)}}, ValueError, "a step of 1"),
    "region from the end": (weather(2)[["count"]], {"region": {"time": slice(-2, None)}}, ValueError, "count from the"),
    "region of no dimension": (weather()[["count"]], {"region": {"z": slice(0, 1)}}, ValueError, "no dimension"),
    "region not there": (weather(2, "2021-01-01")[["count"]], {"region": "auto"}, KeyError, "not all values"),
    "region without coordinate": (
        weather(2)[["count"]].drop_vars("time"), {"region": "auto"}, ValueError,
        "the dataset has no coordinate 'time' to find, and 2 of 5 items would be written",
    ),
    "part without coordinate": (
        weather()[["t"]].isel(x=[0, 1]).drop_vars(["x", "height"]), {"region": {"time": "auto", "x": "auto"}},
        ValueError, "the dataset has no coordinate 'x' to find, and 2 of 4 items",
    ),
    "other coordinate": (
        weather(3, "2020-01-06").assign_coords(x=list("abcx")), {"append_dim": "time"}, ValueError,
        "the coordinate 'x' does not have the dimension append_dim='time', and differs",
    ),
    "other coordinate, no index": (
        weather(3, "2020-01-06").assign_coords(height=("x", [1.0, 2, 3, 5])), {"append_dim": "time"}, ValueError,
        "the coordinate 'height' does not have",
    ),
    "region with gaps": (weather()[["count"]].isel(time=[0, 2]), {"region": "auto"}, ValueError, "not beside each"),
    "encoding": (weather(), {"mode": "a", "encoding": {"t": {"chunks": (1, 1)}}}, ValueError, "cannot be changed"),
    "wrong chunks": (weather(), {"mode": "w", "encoding": {"t": {"chunks": (1,)}}}, ValueError, "chunks"),
    "unknown encoding": (weather(), {"mode": "w", "encoding": {"t": {"zlib": True}}}, ValueError, "unexpected encod"),
    "objects": (
        xarray.Dataset({"o": ("z", np.array([{}, []], object))}), {"mode": "a"}, ValueError, "infer dtype",
    ),
    "chunks by dimension": (
        weather(), {"mode": "w", "encoding": {"t": {"chunks": {"time": 1}}}}, TypeError,
        r"chunks should be a tuple or a list of integers, or an integer, not {'time': 1}",
    ),
    "attribute": (weather().assign_attrs(bad={1, 2}), {"mode": "w"}, TypeError, "a set cannot be stored"),
    "attribute of a date": (
        weather().assign_attrs(bad=np.datetime64("2020")), {"mode": "w"}, TypeError,
        r"of the dataset \(\S*/weather\.b2.,.*: a value of datetime64\[Y\] cannot be stored",
    ),
    "key": (
        xarray.Dataset({"a:b": ("z", [1])}), {"mode": "a"}, ValueError,
        r"'a:b': .* could not be the name of a file .*the character ':'; write dataset.rename\({'a:b': 'a_b'}\)$",
    ),
    "device": (xarray.Dataset({"con": ("z", [1])}), {"mode": "a"}, ValueError, r"rename\({'con': 'con_'}\)$"),
    "long name": (xarray.Dataset({"n" * 300: ("z", [1])}), {"mode": "a"}, ValueError, r"rename\({'n+': 'n{40}'}\)$"),
    "case": (
        xarray.Dataset({"P": ("z", [1]), "p_": ("z", [1]), "p": ("z", [1])}), {"mode": "a"}, ValueError,
        r"'p': it differs from 'P' in case only, .*; write dataset.rename\({'p': 'p__'}\)$",
    ),
    "case of the store": (xarray.Dataset({"T": ("z", [1])}), {"mode": "a"}, ValueError, r"rename\({'T': 'T_'}\)$"),
    "group": (weather(), {"group": "/g"}, UnexpectedKeywordError, r"to_store\(\) .* it is key= here"),
    "keyword": (weather(), {"append_dims": "x"}, UnexpectedKeywordError, "did you mean 'append_dim'"),
    "locking": (weather(), {"locking": True}, UnexpectedKeywordError, "give to_store the open store"),
    "resume": (weather(), {"resume": True}, UnexpectedKeywordError, "for data of xarray, leave it out"),
    "scheduler": (
        weather(), {"scheduler": "threads"}, UnexpectedKeywordError, r"write within dask.config.set\(scheduler=...\)",
    ),
    "keyword of others": (weather(), {"compute": False}, UnexpectedKeywordError, "no keyword 'compute'. It tak"),
    "chunks": (
        weather(), {"mode": "w", "chunks": {"time": 2}}, TypeError,
        r"chunks= is for arrays of dask; .* write encoding={'variable': {'chunks': ...}}",
    ),
    "slash": (xarray.Dataset({"a/b": ("z", [1])}), {"mode": "a"}, ValueError, "separates groups"),
    "zero characters": (xarray.Dataset({"s": ("z", np.array(["a\0"], object))}), {"mode": "a"}, ValueError, "zero"),
    "tree": (xarray.DataTree(weather()), {"append_dim": "time"}, ValueError, r"node\.to_dataset\(inherit=False\)"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Times can't be serialized faithfully")
@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_changes(path: Path, case: str) -> None:
    data, how, kind, words = REFUSED[case]
    before = content(path.parent)
    with pytest.raises(kind, match=words):
        to_store(data, path, **how)
    assert content(path.parent) == before


def test_a_region_that_cannot_be_found(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    to_store(xarray.Dataset({"v": ("q", [1, 2, 3])}, coords={"q": [7, 7, 8]}), path)
    to_store(xarray.Dataset({"v": ("q", [1, 2, 3])}), path, "/bare")
    before = content(tmp_path)
    part = xarray.Dataset({"v": ("q", [5])}, coords={"q": [8]})
    with pytest.raises(ValueError, match="the coordinate 'q' has equal values"):
        to_store(part, path, region="auto")
    with pytest.raises(ValueError, match="the store has no coordinate 'q' to find, and 1 of 3 items"):
        to_store(part, path, "/bare", region="auto")
    assert content(tmp_path) == before
    to_store(xarray.Dataset({"v": ("q", [4, 5, 6])}), path, region="auto")  # all of it
    np.testing.assert_array_equal(opened(path).v, [4, 5, 6])


def test_the_same_coordinate_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    data = xarray.Dataset(
        {"v": (("t", "q"), np.ones((2, 3)))}, coords={"q": [1.5, np.nan, 2], "one": 5, "when": pandas.Timestamp(0)}
    )
    for _ in range(2):
        to_store(data, path, append_dim="t")
    xarray.testing.assert_equal(opened(path), xarray.concat([data, data], "t"))
    # Of a region, the part that is there.
    path = tmp_path / "part.b2z"
    to_store(xarray.Dataset({"v": (("t", "q"), np.zeros((1, 3)))}, coords={"name": ("q", [5, 6, 7])}), path)
    region = {"q": slice(1, 3)}
    part = xarray.Dataset({"v": (("t", "q"), np.ones((1, 2)))}, coords={"name": ("q", [6, 7])})
    to_store(part, path, append_dim="t", region=region)
    assert opened(path).name.values.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(opened(path).v[:, 1:], [[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="the coordinate 'name' does not have"):
        to_store(part.assign_coords(name=("q", [6, 8])), path, append_dim="t", region=region)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotImplementedError, match="written as a whole"):
        to_store(weather(), "memory://bucket/q.b2z")
    assert os.listdir(tmp_path) == []
    to_store(weather(), (tmp_path / "a.b2z").as_uri())
    assert os.listdir(tmp_path) == ["a.b2z"]


class Failing:
    """An array whose last rows cannot be read."""

    def __init__(self) -> None:
        self.shape, self.dtype, self.ndim = (5000, 2000), np.dtype("f8"), 2

    def __getitem__(self, key: Any) -> Any:
        rows = range(5000)[key[0]]
        if 4900 in rows:
            raise OSError("the disk is on fire")
        return np.random.default_rng(0).random((len(rows), len(range(2000)[key[1]])))


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_failure_in_the_middle_changes_nothing(path: Path, mode: str) -> None:
    dask = pytest.importorskip("dask.array")
    before = content(path.parent)
    data = xarray.Dataset(
        {"first": ("q", [1, 2, 3]), "big": (("y", "z"), dask.from_array(Failing(), chunks=(100, 2000)))}
    )
    with pytest.raises(OSError, match="on fire"):
        to_store(data, path, mode=mode)
    assert content(path.parent) == before


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    with pytest.raises(FileNotFoundError):
        to_store(weather(), path, mode="r+")
    assert not os.listdir(tmp_path)
    to_store(weather(), path, "/first")
    to_store(weather(3), path, "second/inner", mode="a")
    with pytest.raises(FileExistsError, match="the group '/first' exists"):
        to_store(weather(), path, "first")
    with pytest.raises(FileNotFoundError, match="no group"):
        to_store(weather(), path, "third", mode="r+")
    to_store(weather(4), path, "/first", mode="w")
    xarray.testing.assert_identical(opened(path, group="first"), weather(4))
    to_store(weather(4)[["t"]] * 2, path, "/first", mode="a")
    np.testing.assert_array_equal(opened(path, group="first").t, weather(4).t * 2)
    xarray.testing.assert_identical(opened(path, group="/second/inner"), weather(3))
    to_store(weather(2), path, mode="w")
    xarray.testing.assert_identical(opened(path), weather(2))
    with blosc2.open(str(path)) as store:
        assert not [key for key in store if "first" in key]


def test_a_tree(path: Path) -> None:
    tree = xarray.DataTree.from_dict(
        {
            "/": xarray.Dataset(coords={"x": [1, 2, 3]}, attrs={"a": 1}),
            "/child": xarray.Dataset({"v": ("x", [1.0, 2, 3])}, attrs={"b": "c"}),
            "/child/empty": xarray.Dataset(attrs={"only": "this"}),
            "/bare": xarray.Dataset(),
        }
    )
    to_store(tree, path, mode="w", encoding={"/child": {"v": {"chunks": (2,)}}})
    with xarray.open_datatree(path, engine=Engine) as found:
        xarray.testing.assert_identical(found.load(), tree)
    with blosc2.open(str(path)) as store:
        assert store["/child/v"].chunks == (2,)
        assert sorted(store) == ["/bare", "/child", "/child/empty", "/child/v", "/x"]  # inherited coordinates once
    to_store(tree["/child"], path, "/copy", mode="a")
    with xarray.open_datatree(path, engine=Engine, group="copy") as found:
        assert found.attrs == {"b": "c"}
        assert sorted(found.children) == ["empty"]
    with pytest.raises(ValueError, match="nodes that the tree does not have"):
        to_store(tree, path, mode="w", encoding={"/none": {}})


def test_a_store_that_is_open_and_is_replaced_is_closed(path: Path) -> None:
    with blosc2.open(str(path), mode="a") as older:
        older["/note"] = np.arange(3)
        to_store(weather(2), path, mode="w")
        with pytest.raises(ClosedStoreError, match="opened with mode='w' in this process"):
            older["/note"] = np.arange(3)
    with opened(path) as found:
        xarray.testing.assert_identical(found.load(), weather(2))


def test_the_nodes_of_a_tree_grow_one_by_one(path: Path) -> None:
    times = np.arange(3)
    tree = xarray.DataTree.from_dict({
        "/": xarray.Dataset(coords={"time": times}), "/a": xarray.Dataset({"v": ("time", times / 2)}),
    })  # fmt: skip
    to_store(tree, path, mode="w")
    for node in tree.map_over_datasets(lambda one: one.assign_coords(time=times + 3)).subtree:
        to_store(node.to_dataset(inherit=False), path, node.path, append_dim="time")
    with xarray.open_datatree(path, engine=Engine) as found:
        np.testing.assert_array_equal(found["a"].coords["time"], np.arange(6))
        np.testing.assert_array_equal(found["a/v"], [0, 0.5, 1] * 2)


def test_an_open_store(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/kept"] = np.arange(3)
        to_store(weather(), store, "/w")
        to_store(weather(3), store.create_group("/view"), "inner")
        with pytest.raises(FileExistsError):
            to_store(weather(), store, "/w")
        with store.transaction(), pytest.raises(RuntimeError, match="transaction"):
            to_store(weather(), store, "/x")
    xarray.testing.assert_identical(opened(path, group="w"), weather())
    xarray.testing.assert_identical(opened(path, group="view/inner"), weather(3))
    with blosc2.open(path) as store:
        assert store["/kept"][2] == 2


@pytest.mark.parametrize("name", [None, "t", "x"])
def test_an_array(tmp_path: Path, name: str | None) -> None:
    array = xarray.DataArray([1.0, 2.0], dims="x", coords={"x": [5, 6]}, name=name, attrs={"u": "m"})
    to_store(array, tmp_path / "a.b2z")
    with xarray.open_dataarray(tmp_path / "a.b2z", engine=Engine) as found:
        xarray.testing.assert_identical(found.load(), array)


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    rng = np.random.default_rng(0)
    data = xarray.Dataset({"t": (("y", "x"), rng.random((50, 40)))})
    how = {"chunks": (20, 40), "blocks": (10, 40), "cparams": {"codec": blosc2.Codec.LZ4, "clevel": 3}}
    to_store(data, path, encoding={"t": {**how, "dtype": "i2", "scale_factor": 1e-4, "_FillValue": -1}})
    with blosc2.open(str(path)) as store:
        stored = store["/t"]
        assert (stored.chunks, stored.blocks, stored.dtype) == ((20, 40), (10, 40), np.int16)
        assert stored.cparams.codec == blosc2.Codec.LZ4
    found = opened(path)
    np.testing.assert_allclose(found.t, data.t, atol=6e-5)
    to_store(found, tmp_path / "b.b2z")  # what was opened keeps its encoding
    with blosc2.open(str(tmp_path / "b.b2z")) as store:
        assert (store["/t"].chunks, store["/t"].cparams.codec) == ((20, 40), blosc2.Codec.LZ4)
    to_store(found[{"x": slice(0, 7)}], tmp_path / "c.b2z")  # chunks that do not fit any more
    np.testing.assert_array_equal(opened(tmp_path / "c.b2z").t, found.t[:, :7])


@pytest.mark.parametrize("is_lazy", [False, True])
def test_chunks_that_are_asked_for_stay_for_what_is_appended(tmp_path: Path, is_lazy: bool) -> None:
    day = xarray.Dataset({"v": (("time", "x"), np.ones((1, 500)))}, {"time": [0]})
    path = tmp_path / "a.b2z"
    to_store(day.chunk() if is_lazy else day, path, encoding={"v": {"chunks": (30, 500)}})
    for number in range(1, 4):
        to_store(day.assign_coords(time=[number]), path, append_dim="time")
    with blosc2.open(str(path)) as store:
        assert (store["/v"].chunks, store["/v"].shape) == ((30, 500), (4, 500))
        np.testing.assert_array_equal(store["/v"][...], 1)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("how", [
    {"_FillValue": np.float32(-9999)}, {"_FillValue": np.float32(1e20)}, {"_FillValue": None},
    {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": np.int16(-32767)},
], ids=["-9999", "1e20", "NaN", "packed"])  # fmt: skip
@pytest.mark.parametrize("precision", ["0.1%", 1])
def test_rounding_loses_no_missing_value(tmp_path: Path, how: dict[str, Any], precision: Any, is_lazy: bool) -> None:
    values = (280 + np.random.default_rng(0).standard_normal((40, 60, 20))).astype("f4")
    values[:, :5] = np.nan
    data = xarray.Dataset({"t": (("time", "y", "x"), values)})
    to_store(data.chunk(time=10) if is_lazy else data, tmp_path / "exact.b2z", encoding={"t": how})
    given = {**how, "cparams": {"goal": "balanced", "precision": precision}}
    to_store(data.chunk(time=10) if is_lazy else data, tmp_path / "a.b2z", encoding={"t": given})
    found, exact = opened(tmp_path / "a.b2z").t.values, opened(tmp_path / "exact.b2z").t.values
    assert np.array_equal(np.isnan(found), np.isnan(values))
    assert (np.nanmax(np.abs(found - exact)) > 0) == ("dtype" not in how)
    assert np.nanmax(np.abs(found - exact)) <= 1
    assert abs(np.nanmean(found - exact)) < 0.01


PACKED = {"dtype": "i2", "scale_factor": 0.01}
FILLED = {**PACKED, "_FillValue": -32768}
DAYS = {"dtype": "i2", "units": "days since 2020-01-01"}
UNFIT: dict[str, tuple[Any, dict[str, Any], str]] = {
    "too large": ([1.0, 1001.0], PACKED, "to 1001.0, would be stored as .* to 100100.0, and int16 has -32768"),
    "too small": ([1.0, -1001.0], FILLED, "int16 has"),
    "turned": ([1.0, 1001.0], {**PACKED, "scale_factor": -0.01}, "int16 has"),
    "by its offset": ([1.0, 2.0], {**PACKED, "add_offset": 999.0}, "int16 has"),
    "rounded up": ([327.675], PACKED, "int16 has"),
    "infinite": ([np.inf, 0.0], FILLED, "int16 has"),
    "NaN": ([np.nan, 1.0], PACKED, "has NaN, which int16 cannot hold"),
    "all NaN": ([np.nan, np.nan], PACKED, "has NaN, which int16 cannot hold"),
    "integers": ([1, 1000], {"dtype": "i1"}, "to 1000, and int8 has -128 to 127"),
    "scaled integers": ([1, 1000], {"dtype": "i1", "scale_factor": 2.0}, "int8 has"),
    "plain fractions": ([1.0, -3.0], {"dtype": "u1"}, "uint8 has 0 to 255"),
    "dates": (pandas.to_datetime(["2020-01-02", "2250-01-01"]), DAYS, "int16 has"),
    "spans": (pandas.to_timedelta([1, 100_000], unit="D"), {"dtype": "i2", "units": "days"}, "int16 has"),
    "NaT": (pandas.to_datetime(["2020-01-02", "NaT"]), DAYS, "has NaT, which int16 cannot hold"),
    "single precision": (np.array([2.0**31], "f4"), {"dtype": "i4", "scale_factor": 1.0, "_FillValue": 0}, "int32"),
}


@pytest.mark.filterwarnings("ignore:saving variable")
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("case", UNFIT)
def test_numbers_that_do_not_fit_their_encoding(path: Path, case: str, lazy: bool) -> None:
    values, encoding, words = UNFIT[case]
    good = xarray.Dataset({"p": ("q", np.array([2, 1], np.asarray(values).dtype))})
    if case in ("dates", "spans", "NaT"):
        good = xarray.Dataset({"p": ("q", np.asarray(values)[[0, 0]])})
    if case not in ("by its offset", "scaled integers", "spans"):  # which change small numbers, too
        to_store(good, path, "/new", encoding={"p": encoding})
        np.testing.assert_array_equal(opened(path, group="new").p, good.p)
    data = xarray.Dataset({"p": ("q", np.asarray(values))})
    if lazy:
        pytest.importorskip("dask.array")
        data = data.chunk(q=1)
    before = content(path.parent)
    with pytest.raises(ValueError, match=words):
        to_store(data, path, "/other", encoding={"p": encoding})
    assert content(path.parent) == before
    if case in (
        "dates",
        "NaT",
        "too large",
        "too small",
        "infinite",
        "NaN",
        "all NaN",
    ):  # others do not fit what is there already
        for how in ({"append_dim": "q"}, {"mode": "a"}, {"region": {"q": slice(0, 2)}}):
            with pytest.raises(ValueError, match=f"{words}.* write values that fit, or everything anew with mode='w'"):
                to_store(data, path, "/new", **how)
        assert content(path.parent) == before


@pytest.mark.parametrize("lazy", [False, True])
def test_numbers_that_just_fit_their_encoding(tmp_path: Path, lazy: bool) -> None:
    data = xarray.Dataset(
        {
            "p": ("q", [327.67, -327.67, np.nan], {}, FILLED),
            "nan": ("q", [np.nan] * 3, {}, FILLED),
            "u": ("q", np.array([255, 0, 1], "u1"), {}, {"dtype": "u1"}),
            "spans": ("q", pandas.to_timedelta([1, 32767, 0], unit="D"), {}, {"dtype": "i2", "units": "days"}),
            "nat": ("q", pandas.to_datetime(["2020-01-02", "NaT", "NaT"])),
            "wide": ("q", np.array([2**63 - 1, -(2**63), 0])),
        }
    )
    dates = pandas.to_datetime(["2109-09-18", "NaT", "2020-01-01"])
    data["dates"] = xarray.Variable("q", dates, {}, {**DAYS, "_FillValue": -1})
    if lazy:
        pytest.importorskip("dask.array")
        data = data.chunk(q=2)
    to_store(data, tmp_path / "a.b2z")
    to_store(data, tmp_path / "a.b2z", append_dim="q")
    found = opened(tmp_path / "a.b2z", decode_timedelta=True)
    xarray.testing.assert_allclose(found, xarray.concat([data, data], "q").load())
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/p"][:].tolist() == [32767, -32767, -32768] * 2
    for name in {"wide", "dates", "nat", "spans"} & set(data):
        np.testing.assert_array_equal(found[name][:3], data[name])


def test_masked_arrays_of_dask(path: Path) -> None:
    dask = pytest.importorskip("dask.array")
    items = np.arange(20.0, dtype="f4").reshape(5, 4)
    masked = dask.ma.masked_greater(dask.from_array(items, chunks=2), 3)
    for name in ("t", "new"):
        data = xarray.Dataset({name: (("time", "x"), masked, {"units": "K"})})
        to_store(data, path, mode="a")  # xarray sees the mask, and makes it NaN
        np.testing.assert_array_equal(opened(path)[name], np.where(items > 3, np.nan, items))
    hidden = dask.zeros((5, 4), "f4", chunks=2).map_blocks(
        lambda items: np.ma.masked_equal(items, 0), dtype="f4", meta=np.zeros((0, 0), "f4")
    )
    before = content(path.parent)
    for name in ("t", "new", "another"):
        with pytest.raises(TypeError, match="would lose their mask"):
            to_store(xarray.Dataset({name: (("time", "x"), hidden)}), path, mode="a")
    assert content(path.parent) == before


def test_targets_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"need a store in \.b2z or \.b2d"):
        to_store(weather(), tmp_path / "a.b2e")
    with pytest.raises(TypeError, match="no TreeStore and no path"):
        to_store(weather(), blosc2.EmbedStore())
    with blosc2.DictStore(str(tmp_path / "d.b2z"), mode="w") as store:
        store["/a"] = np.zeros(2)
    with pytest.raises(TypeError, match="whose keys are no groups"):
        to_store(weather(), tmp_path / "d.b2z", "/g")


def test_the_accessor(tmp_path: Path) -> None:
    add_xarray_accessor()
    weather().b2.to_store(tmp_path / "a.b2z", encoding={"t": {"chunks": (1, 4)}})
    weather().t.b2.to_store(tmp_path / "a.b2z", "/array")
    xarray.DataTree(weather()).b2.to_store(tmp_path / "a.b2z", "/tree")
    with pytest.raises(UnexpectedKeywordError, match="it is key= here"):
        weather().b2.to_store(tmp_path / "a.b2z", group="/g")
    xarray.testing.assert_identical(opened(tmp_path / "a.b2z"), weather())
    xarray.testing.assert_identical(opened(tmp_path / "a.b2z", group="tree"), weather())


@pytest.mark.parametrize("encoding", [{}, {"texts": {"dtype": "S1"}, "letters": {"dtype": "S1"}}])
def test_single_characters(encoding: Any, tmp_path: Path) -> None:
    """Arrays of them keep their last axis, which xarray joins where it is one of characters alone."""
    path = tmp_path / "a.b2z"
    data = xarray.Dataset(
        {
            "one": ("x", np.array([b"a", b"", b"c"], "S1")), "none": ((), np.array(b"q", "S1")),
            "two": (("x", "y"), np.array([[b"a", b"b"], [b"c", b""], [b"", b"e"]], "S1")),
            "letters": ("x", np.array(["é", "b", "c"], object)), "texts": ("x", np.array(["éa", "b", "c"], object)),
            "three": ("x", np.array([b"abc", b"", b"c"], "S3")),
        },
        coords={"x": np.array([b"r", b"s", b"t"], "S1")},
    )  # fmt: skip
    to_store(data, path, encoding=encoding)
    xarray.testing.assert_identical(opened(path), data)
    more = data.assign_coords(x=np.array([b"1", b"2", b"3"], "S1"))
    to_store(more.drop_vars("none"), path, append_dim="x")
    both = xarray.concat([data, more], "x", data_vars="minimal")
    xarray.testing.assert_identical(opened(path), both)
    part = data[["one", "two", "texts"]].isel(x=slice(0, 1)).drop_vars("x").copy(deep=True)
    part["one"][:], part["two"][:] = b"Q", b"W"
    to_store(part, path, region={"x": slice(2, 3)})
    both["one"][2], both["two"][2], both["texts"][2] = b"Q", b"W", "éa"
    xarray.testing.assert_identical(opened(path), both)
    long = part[["one"]].copy(deep=True)
    long["one"] = long["one"].astype("S2")
    long["one"][:] = b"QQ"
    with pytest.raises(ValueError, match="texts of 1 bytes"):
        to_store(long, path, region={"x": slice(2, 3)})


def test_a_dataset_that_began_empty_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    to_store(weather().isel(time=slice(0, 0)), path)
    for first in ("2020-01-01", "2020-01-06"):
        to_store(weather(first=first), path, append_dim="time")
    xarray.testing.assert_identical(opened(path), weather(days=10))


def test_a_data_set_as_a_leaf_is_refused_with_what_writes_it(tmp_path: Path) -> None:
    with (
        blosc2.TreeStore(tmp_path / "s.b2z", mode="w") as store,
        pytest.raises(TypeError, match=r"a Dataset cannot be stored: blosc2\.to_store writes its variables"),
    ):
        store["/k"] = xarray.Dataset({"a": ("x", [1, 2])})
