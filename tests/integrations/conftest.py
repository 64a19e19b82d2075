"""Marks that xarray's own tests have, and the engine where the package is not installed."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure(config: pytest.Config) -> None:
    for name in ("flaky", "network", "asyncio", "mypy", "skip_if_param", "skip_with_dask_array"):
        config.addinivalue_line("markers", f"{name}: of xarray's own tests")


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the engine, which xarray finds among the entry points of what is installed."""
    xarray = pytest.importorskip("xarray")
    if "blosc2" in xarray.backends.list_engines():
        yield "blosc2"
        return
    folder = tmp_path_factory.mktemp("installed") / "python_blosc2-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: python-blosc2\nVersion: 0\n")
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["xarray.backends"]
    lines = [f"{name} = {place}\n" for name, place in named.items()]
    (folder / "entry_points.txt").write_text("".join(["[xarray.backends]\n", *lines]))
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder.parent)])
    xarray.backends.refresh_engines()
    yield "blosc2"
    monkeypatch.undo()
    xarray.backends.refresh_engines()


@pytest.fixture
def codecs() -> None:
    """What the entry points of an installed package do."""
    numcodecs, registry = pytest.importorskip("numcodecs"), pytest.importorskip("zarr.registry")
    from blosc2._tools.integrations import numcodecs_codec, zarr_codec

    registry.register_codec("blosc2_chunk", zarr_codec.Blosc2Chunk)
    registry.register_codec("numcodecs.blosc2_chunk", zarr_codec.Blosc2Chunk)
    numcodecs.register_codec(numcodecs_codec.Blosc2Chunk)
