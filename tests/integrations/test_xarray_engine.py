"""The engine's name beside another package that claims it, whichever of the two xarray takes.

The other package is a stand-in: a module with an engine, and the metadata of a distribution. `tests/interop/peers`
runs the real one.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

xr = pytest.importorskip("xarray")

from blosc2._tools import add_xarray_accessor
from blosc2._tools.integrations import xarray_engine

OTHER = """
import xarray
from xarray.backends import BackendEntrypoint


class Engine(BackendEntrypoint):
    open_dataset_parameters = ("filename_or_obj", "mask_and_scale", "drop_variables", "trim")

    def open_dataset(self, filename_or_obj, *, mask_and_scale=True, drop_variables=None, trim=True):
        return xarray.Dataset(attrs={"opened by": "the other", "trim": trim})

    def open_datatree(self, filename_or_obj, *, mask_and_scale=True, drop_variables=None):
        return xarray.DataTree(self.open_dataset(filename_or_obj))

    def guess_can_open(self, filename_or_obj):
        return str(filename_or_obj).endswith((".b2", ".b2z"))
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package that claims the name is installed."""
    site = tmp_path / "site"
    (site / "other_claim-1.0.dist-info").mkdir(parents=True)
    (site / "other_claim-1.0.dist-info" / "METADATA").write_text("Name: other-claim\nVersion: 1.0\n")
    entry = "[xarray.backends]\nblosc2 = other_claim:Engine\n"
    (site / "other_claim-1.0.dist-info" / "entry_points.txt").write_text(entry)
    (site / "other_claim.py").write_text(OTHER)
    monkeypatch.syspath_prepend(site)
    claims = [found for found in entry_points(group="xarray.backends") if found.module == "other_claim"]
    monkeypatch.setattr(xarray_engine, "entry_points", lambda **_: claims)
    forget()
    yield
    sys.modules.pop("other_claim", None)
    forget()


def forget() -> None:
    for found in (xarray_engine.other_entry, xarray_engine.other_engine):
        found.cache_clear()


@pytest.fixture(params=["ours", "theirs"])
def taken(request: pytest.FixtureRequest, other: None) -> Any:
    """The engine that xarray has taken; it makes one of each name when it has loaded all."""
    if request.param == "theirs":
        import other_claim

        engine = other_claim.Engine
    else:
        engine = xarray_engine.SharedEntrypoint
    xarray_engine.OwnEntrypoint()
    return engine


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Stores and an array of this package, and files that are none of it."""
    with blosc2.TreeStore(tmp_path / "ours.b2z", mode="w") as store:
        store["/a/b/t"] = np.arange(6).reshape(2, 3)
        store["/a/b/t"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
        store.to_b2d(tmp_path / "ours.b2d")
    blosc2.asarray(np.arange(4), urlpath=tmp_path / "ours.b2nd")
    for folder in ("theirs.b2", "theirs.b2d"):
        (tmp_path / folder).mkdir()
        theirs = blosc2.asarray(np.arange(4), urlpath=tmp_path / folder / "t.b2nd")
        theirs.vlmeta[b"dims"] = ["time"]
    with zipfile.ZipFile(tmp_path / "theirs.b2z", "w") as archive:
        archive.write(tmp_path / "theirs.b2" / "t.b2nd", "t.b2nd")
    return tmp_path


def test_what_is_ours(taken: Any, files: Path) -> None:
    for name in ("ours.b2z", "ours.b2d"):
        with xr.open_dataset(files / name, engine=taken, group="/a/b") as found:
            assert dict(found.t.sizes) == {"y": 2, "x": 3}
            assert found.t.values.tolist() == [[0, 1, 2], [3, 4, 5]]
        with xr.open_datatree(files / name, engine=taken) as tree:
            assert "/a/b" in tree.groups
        with xr.open_dataset(files / name, engine=taken, group="/a/b", decode_cf=False, mmap=False) as found:
            assert found.t.shape == (2, 3)
    with xr.open_dataset(files / "ours.b2nd", engine=taken) as found:
        assert found.ours.values.tolist() == [0, 1, 2, 3]
    with xr.open_dataset(blosc2.arange(4), engine=taken) as found:
        assert found.sizes == {"values_0": 4}


@pytest.mark.parametrize("name", ["theirs.b2", "theirs.b2d", "theirs.b2z", "theirs.b2/t.b2nd", "none.reb"])
def test_what_is_theirs(taken: Any, files: Path, name: str) -> None:
    for how in ({}, {"trim": False}, {"decode_cf": False}):
        found = xr.open_dataset(files / name, engine=taken, **how)
        assert found.attrs == {"opened by": "the other", "trim": how.get("trim", True)}
    assert xr.open_datatree(files / name, engine=taken).attrs["opened by"] == "the other"


def test_faults_are_told_by_the_one_that_knows(taken: Any, files: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        xr.open_dataset(files / "none.b2z", engine=taken)
    with pytest.raises(KeyError, match="no such group"):
        xr.open_dataset(files / "ours.b2z", engine=taken, group="/none")
    path = files / "ours.b2z"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(blosc2.exceptions.FormatError, match=r"ours\.b2z"):
        xr.open_dataset(path, engine=taken)


def test_the_name_of_our_own(taken: Any, files: Path) -> None:
    with xr.open_dataset(files / "ours.b2z", engine=xarray_engine.OwnEntrypoint, group="a/b") as found:
        assert found.t.dims == ("y", "x")


def test_both_guess(other: None, files: Path) -> None:
    engine = xarray_engine.SharedEntrypoint()
    guessed = {name: engine.guess_can_open(files / name) for name in ("theirs.b2", "ours.b2d", "ours.b2e", "a.nc")}
    assert guessed == {"theirs.b2": True, "ours.b2d": True, "ours.b2e": True, "a.nc": False}


def test_alone(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xarray_engine, "entry_points", lambda **_: [])
    forget()
    with xr.open_dataset(files / "ours.b2z", engine=xarray_engine.SharedEntrypoint, group="a/b") as found:
        assert found.t.dims == ("y", "x")
    with pytest.raises(blosc2.exceptions.FormatError):
        xr.open_dataset(files / "theirs.b2z", engine=xarray_engine.SharedEntrypoint)
    forget()


def test_an_engine_that_cannot_be_loaded(other: None, files: Path, tmp_path: Path) -> None:
    (tmp_path / "site" / "other_claim.py").write_text("raise OSError('a library is missing')")
    with pytest.warns(UserWarning, match="a library is missing"):
        found = xr.open_dataset(files / "ours.b2z", engine=xarray_engine.SharedEntrypoint, group="a/b")
    with found:
        assert found.t.dims == ("y", "x")


def test_an_accessor_that_is_taken_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (xr.Dataset, xr.DataArray, xr.DataTree):
        monkeypatch.setattr(kind, "b2", "of another package", raising=False)
    add_xarray_accessor()
    assert {kind.b2 for kind in (xr.Dataset, xr.DataArray, xr.DataTree)} == {"of another package"}
