"""The engine "blosc2" of xarray: what is read, how names and values come, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

xarray = pytest.importorskip("xarray")

from remote_kit import running

import blosc2
from blosc2._tools.integrations.xarray_engine import Blosc2BackendEntrypoint as Engine

ROOT = Path(__file__).resolve().parents[2]
TEMPERATURE = np.arange(60, dtype="i2").reshape(5, 4, 3)
KINDS = (".b2z", ".b2d", ".b2e")


def named(items: Any, *names: str, **attributes: Any) -> blosc2.NDArray:
    array = blosc2.asarray(np.asarray(items), **({"chunks": (2, 4, 3)} if np.ndim(items) == 3 else {}))
    array.vlmeta.update({"_ARRAY_DIMENSIONS": list(names), **attributes})
    return array


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with two groups."""
    found = str(tmp_path / f"weather{request.param}")
    kind: Any = blosc2.EmbedStore if request.param == ".b2e" else blosc2.TreeStore
    with kind(found, mode="w") as store:
        scaled = {"scale_factor": np.array(0.5, "f4"), "_FillValue": np.array(7, "i2"), "units": "K"}
        store["/temperature"] = named(TEMPERATURE, "time", "y", "x", **scaled)
        store["/time"] = named(np.arange(5), "time", units="days since 2020-01-01", calendar="standard")
        store["/x"] = named([1.5, 2.5, 3.5], "x")
        store["/raw/counts"] = np.arange(6).reshape(2, 3)
        if kind is blosc2.TreeStore:
            store.attrs.update({"title": "a", "year": np.array(2020, "i2")})
            store["/raw"].attrs["sensor"] = "b"
    return found


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "positional"])
def test_values_are_decoded(path: str, mmap: bool) -> None:
    with xarray.open_dataset(path, engine=Engine, mmap=mmap) as found:
        assert dict(found.sizes) == {"time": 5, "y": 4, "x": 3}
        assert set(found.coords) == {"time", "x"}
        assert not found.variables["temperature"]._in_memory
        wanted = np.where(TEMPERATURE == 7, np.nan, TEMPERATURE * np.float32(0.5)).astype("f4")
        assert found.temperature.dtype == np.float32
        np.testing.assert_array_equal(found.temperature, wanted)
        assert found.temperature.attrs == {"units": "K"}
        assert found.time.values[4] == np.datetime64("2020-01-05")
        if not path.endswith(".b2e"):
            assert found.attrs == {"title": "a", "year": 2020}
            assert found.attrs["year"].dtype == np.int16
        # any key of xarray
        some = found.temperature
        np.testing.assert_array_equal(some[::-2, [3, 0], -1], wanted[::-2, [3, 0], -1])
        np.testing.assert_array_equal(some.isel(time=[4, 0], x=[2, 2]), wanted[np.ix_([4, 0], range(4), [2, 2])])
        points = xarray.DataArray([0, 3, 1], dims="point")
        np.testing.assert_array_equal(some.isel(time=points, y=points), wanted[[0, 3, 1], [0, 3, 1]])
        np.testing.assert_array_equal(some.sel(time="2020-01-03"), wanted[2])
        np.testing.assert_array_equal(some[1:1], wanted[1:1])


def test_groups_and_trees(path: str) -> None:
    with xarray.open_dataset(path, engine=Engine, group="raw") as found:
        assert list(found.variables) == ["counts"]
        assert found.counts.dims == ("counts_0", "counts_1")
        np.testing.assert_array_equal(found.counts, np.arange(6).reshape(2, 3))
    with xarray.open_datatree(path, engine=Engine) as tree:
        assert [node.path for node in tree.subtree] == ["/", "/raw"]
        assert tree["/raw"].attrs == ({} if path.endswith(".b2e") else {"sensor": "b"})
        assert tree["/temperature"].shape == (5, 4, 3)
    assert sorted(xarray.open_groups(path, engine=Engine)) == ["/", "/raw"]
    with pytest.raises(KeyError, match="'/none' not found in the store: there is no such group"):
        xarray.open_dataset(path, engine=Engine, group="none")
    with pytest.raises(KeyError, match="no such group"):
        xarray.open_dataset(path, engine=Engine, group="/temperature")


def test_an_open_store_stays_open(path: str) -> None:
    with blosc2.open(path) as store:
        xarray.open_dataset(store, engine=Engine).close()
        assert not store.closed
        if isinstance(store, blosc2.TreeStore):
            assert list(xarray.open_dataset(store["/raw"], engine=Engine).variables) == ["counts"]


def test_a_pickle_is_a_path(path: str) -> None:
    with xarray.open_dataset(path, engine=Engine) as found:
        pickled = pickle.dumps(found.temperature)
    assert len(pickled) < 5000
    code = "import pickle, sys; print(float(pickle.loads(sys.stdin.buffer.read())[4].sum()))"
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert float(done.stdout) == (TEMPERATURE[4] * 0.5).sum()


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e", ".b2nd"])
@pytest.mark.parametrize("how", [{}, {"chunks": {}}])
def test_a_file_that_was_replaced(suffix: str, how: dict[str, Any], tmp_path: Path) -> None:
    """What is open shows the old version; a task in another process, or a dataset that was pickled, does not mix."""
    if how:
        pytest.importorskip("dask")
    paths = [str(tmp_path / f"{name}{suffix}") for name in ("values", "newer")]
    make: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    for number, path in enumerate(paths):
        array = named(TEMPERATURE + number, "time", "y", "x")
        if suffix == ".b2nd":
            array.save(path)
            continue
        with make(path, mode="w") as store:
            store["/values"] = array
    with xarray.open_dataset(paths[0], engine=Engine, **how) as found:
        pickled = pickle.dumps(found)
        if suffix == ".b2d":
            os.rename(paths[0], tmp_path / "former.b2d")
        os.replace(paths[1], paths[0])
        values = next(iter(found.data_vars.values()))
        np.testing.assert_array_equal(values[2], TEMPERATURE[2])
        other = next(iter(pickle.loads(pickled).data_vars.values()))
        with pytest.raises(blosc2.StaleHandleError, match="handle was pickled"):
            other[2].compute(**({"scheduler": "synchronous"} if how else {}))
    with xarray.open_dataset(paths[0], engine=Engine) as found:
        np.testing.assert_array_equal(next(iter(found.data_vars.values())), TEMPERATURE + 1)


def test_files_together(tmp_path: Path) -> None:
    pytest.importorskip("dask")
    for number in range(3):
        with blosc2.TreeStore(str(tmp_path / f"{number}.b2z"), mode="w") as store:
            store["/t"] = named(TEMPERATURE + number, "time", "y", "x")
            store["/time"] = named(np.arange(5) + 5 * number, "time")
    with xarray.open_mfdataset(str(tmp_path / "*.b2z"), engine=Engine, combine="by_coords") as found:
        assert found.t.chunks is not None
        assert found.t.chunks[0] == (2, 2, 1) * 3
        np.testing.assert_array_equal(found.t, np.concatenate([TEMPERATURE, TEMPERATURE + 1, TEMPERATURE + 2]))


def test_a_single_array(tmp_path: Path) -> None:
    array = blosc2.asarray(np.arange(6).reshape(2, 3), urlpath=str(tmp_path / "scan.b2nd"))
    array.vlmeta["_ARRAY_DIMENSIONS"] = ["y", "x"]
    with xarray.open_dataset(tmp_path / "scan.b2nd", engine=Engine) as found:
        assert found.scan.dims == ("y", "x")
        np.testing.assert_array_equal(found.scan, np.arange(6).reshape(2, 3))
    with pytest.raises(KeyError, match="holds one NDArray"):
        xarray.open_dataset(tmp_path / "scan.b2nd", engine=Engine, group="a")


@pytest.mark.parametrize("names", [["a"], ["a", "a"], "ab", [1, 2], 5, None, [["a"], ["b"]], {"a": 1}])
def test_names_that_are_none(tmp_path: Path, names: Any) -> None:
    array = blosc2.zeros((2, 3), urlpath=str(tmp_path / "x.b2nd"))
    array.vlmeta["_ARRAY_DIMENSIONS"] = names
    with xarray.open_dataset(tmp_path / "x.b2nd", engine=Engine) as found:
        assert found.x.dims == ("x_0", "x_1")


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
@pytest.mark.parametrize("chunks", [None, {}])
def test_one_name_of_several_axes(tmp_path: Path, chunks: Any) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/cov"] = blosc2.asarray(np.arange(9.0).reshape(3, 3), chunks=(1, 3))
        store["/other"], store["/band"] = np.arange(18).reshape(3, 3, 2), np.zeros(3)
        store["/clash"] = np.zeros((2, 2))
        names = {"/cov": ["x", "x"], "/other": ["x", "x", None], "/band": ["x"], "/clash": ["clash_1", None]}
        for key, value in names.items():
            store[key].vlmeta["_ARRAY_DIMENSIONS"] = value
    with xarray.open_dataset(tmp_path / "a.b2z", engine=Engine, chunks=chunks) as found:
        assert (found.cov.dims, found.other.dims, found.band.dims) == (("x", "x"), ("x", "x", "other_2"), ("x",))
        assert found.clash.dims == ("clash_0", "clash_1")
        np.testing.assert_array_equal(found.cov, np.arange(9.0).reshape(3, 3))
        np.testing.assert_array_equal(found.other, np.arange(18).reshape(3, 3, 2))


def test_what_is_no_array(tmp_path: Path) -> None:
    path = str(tmp_path / "mixed.b2z")
    texts = blosc2.ObjectArray()
    texts.extend(["a", "bcd", ""])
    with blosc2.TreeStore(path, mode="w") as store:
        store["/names"], store["/chunk"], store["/a"] = texts, blosc2.SChunk(data=b"abc"), np.zeros(2)
    with pytest.warns(UserWarning, match="/chunk is a SChunk, and no array"):
        found = xarray.open_dataset(path, engine=Engine)
    assert sorted(found.variables) == ["a", "names"]
    assert found.names.values.tolist() == ["a", "bcd", ""]


@pytest.mark.parametrize("path", [".b2d"], indirect=True)
def test_files_of_macos_are_no_variables(path: str) -> None:
    """Where a directory was on a disk of another system, macOS leaves one beside each file."""
    for name in ("._temperature.b2nd", "raw/._counts.b2nd"):
        Path(path, name).write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    with xarray.open_dataset(path, engine=Engine) as found:
        assert set(found.variables) == {"temperature", "time", "x"}
    with xarray.open_datatree(path, engine=Engine) as tree:
        assert set(tree["raw"].data_vars) == {"counts"}


def test_paths_that_are_guessed() -> None:
    engine = Engine()
    assert all(engine.guess_can_open(f"a{suffix}") for suffix in (*KINDS, ".b2nd", ".b2d/"))
    assert not any(engine.guess_can_open(name) for name in ("a.zarr", "a.nc", "b2z", 5, b"a.b2z"))
    assert engine.guess_can_open(Path("a.b2z"))
    for url in ("http://host/a.b2z", "s3://bucket/b/a.b2d/", "https://host/a.b2nd?token=a/b.nc", "memory://a.b2e#x"):
        assert engine.guess_can_open(url)
    for url in ("http://host/a.nc", "http://host/a.nc?name=a.b2z", "http://host/a.b2z/t.nc"):
        assert not engine.guess_can_open(url)


def test_urls_need_no_engine(tmp_path: Path, engine: str) -> None:
    """xarray asks its engine for netCDF first, which claims every URL but those of this package."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    assert engine in xarray.backends.list_engines()
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/x"] = named([1.5, 2.5, 3.5], "x")
        store["/deep/er"] = named([1, 2], "y")
        store.to_b2z(filename="memory://without/engine.b2z")
    with running() as server:
        headers = {"storage_options": {"headers": {"X-A": "b"}}}
        for url, how in (
            ("memory://without/engine.b2z", {}), (f"{server.put('a.b2z', tmp_path / 'a.b2z')}?token=1", headers),
        ):  # fmt: skip
            with xarray.open_dataset(url, **how) as found:
                assert found.x.values.tolist() == [1.5, 2.5, 3.5]
            with xarray.open_datatree(url, **how) as tree:
                assert tree["deep"]["er"].values.tolist() == [1, 2]
    netcdf = xarray.backends.NetCDF4BackendEntrypoint()
    assert netcdf.guess_can_open("http://host/a.nc")
    assert netcdf.guess_can_open("http://host/dap")
