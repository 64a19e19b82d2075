"""xarray's own tests of backends, run over stores of this package."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("xarray")
backends = pytest.importorskip("xarray.tests.test_backends")

import xarray

from blosc2 import to_store
from blosc2._tools.integrations.xarray_engine import Blosc2BackendEntrypoint


class _Roundtrips:
    """What xarray's classes of tests ask for: how to save and open."""

    suffix = ".b2z"

    @contextlib.contextmanager
    def _path(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            yield os.path.join(folder, f"data{self.suffix}")

    def save(self, dataset: Any, path: Any, **how: Any) -> None:
        how.setdefault("mode", "w")
        group = how.pop("group", None)
        to_store(dataset, path, group or "/", **how)

    @contextlib.contextmanager
    def open(self, path: Any, **how: Any) -> Iterator[Any]:
        with xarray.open_dataset(path, engine=Blosc2BackendEntrypoint, **how) as dataset:
            yield dataset

    @contextlib.contextmanager
    def roundtrip(
        self, data: Any, save_kwargs: Any = None, open_kwargs: Any = None, allow_cleanup_failure: bool = False
    ) -> Iterator[Any]:
        with self._path() as path:
            self.save(data, path, **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as found:
                yield found

    @contextlib.contextmanager
    def roundtrip_append(
        self, data: Any, save_kwargs: Any = None, open_kwargs: Any = None, allow_cleanup_failure: bool = False
    ) -> Iterator[Any]:
        with self._path() as path:
            for number, key in enumerate(data.variables):
                self.save(data[[key]], path, mode="a" if number else "w", **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as found:
                yield found


@pytest.fixture(params=[False, True], ids=["numpy", "dask"])
def use_dask(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=["s", "ms", "us", "ns"])
def time_unit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _suffix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that the tests name themselves get a suffix of stores."""
    made = backends.create_tmp_file
    monkeypatch.setattr(backends, "create_tmp_file", lambda suffix=".b2z", **how: made(suffix=".b2z", **how))


class TestB2z(_Roundtrips, backends.CFEncodedBase):
    # A group is written as a whole, not variable by variable through a data store of xarray.
    test_write_store = None
    # Any dimension can grow, so none is marked as the one that can.
    test_encoding_unlimited_dims = None
    # Texts are stored as they are, not as arrays of characters.
    test_encoding_kwarg_fixed_width_string = None

    def test_load_async(self) -> None:
        asyncio.run(super().test_load_async())

    def test_append_with_invalid_dim_raises(self) -> None:
        """As xarray's, which wants the words of the netCDF library."""
        data = backends.create_test_data()
        with self._path() as path:
            self.save(data, path, mode="w")
            data["var9"] = data["var2"] * 3
            data = data.isel(dim1=slice(2, 6))
            with pytest.raises(ValueError, match="'var1' has 8 items along 'dim1', and 4 would be written"):
                self.save(data, path, mode="a")


class TestB2d(_Roundtrips, backends.DatasetIOBase):
    suffix = ".b2d"
    test_write_store = None

    def test_load_async(self) -> None:
        asyncio.run(super().test_load_async())
