"""The pages on xarray and dask run as they stand; what is missing is named; nothing is imported before it is used."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import page_kit
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["xarray", "dask"])
def test_the_page_runs(name: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask.array")
    assert page_kit.check(ROOT / f"doc/guide/{name}.md", monkeypatch, tmp_path)


def test_xarray_finds_the_engine(engine: str, tmp_path: Path) -> None:
    import numpy as np
    import xarray

    import blosc2

    blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "a.b2nd"))
    assert xarray.open_dataset(tmp_path / "a.b2nd", engine=engine).a.values.tolist() == [0, 1, 2]
    assert xarray.open_dataset(tmp_path / "a.b2nd").a.values.tolist() == [0, 1, 2]  # by its suffix
    assert hasattr(xarray.Dataset, "b2")
    assert xarray.open_datatree(tmp_path / "a.b2nd", engine=engine)["a"].shape == (3,)


def output(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_accessor_is_there_after_xarray() -> None:
    pytest.importorskip("xarray")
    assert output("import xarray, blosc2; print(hasattr(xarray.Dataset, 'b2'))") == "True"


def test_nothing_is_imported_before_it_is_used() -> None:
    for name in ("dask", "xarray", "pandas"):
        pytest.importorskip(name)
    code = "import sys, blosc2; blosc2.to_store; print(*sorted({'dask', 'xarray', 'pandas'} & set(sys.modules)))"
    assert output(code) == ""


@pytest.mark.parametrize(("package", "kind"), [("dask", "Array"), ("xarray", "Dataset")])
def test_what_is_missing_is_named(package: str, kind: str, tmp_path: Path) -> None:
    code = f"""
import sys, blosc2
sys.modules[{package!r}] = None
data = type({kind!r}, (), {{"__module__": "{package}.core"}})()
try:
    blosc2.to_store(data, {str(tmp_path / "a.b2z")!r}, "/x")
except ImportError as error:
    print(error)
"""
    assert f"pip install 'python-blosc2[{package}]'" in output(code)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("group", ["xarray.backends", "zarr.codecs", "numcodecs.codecs"])
def test_the_entry_points_are_there(group: str) -> None:
    pytest.importorskip(group.partition(".")[0])
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][group]
    assert set(named) >= ({"blosc2", "python-blosc2"} if group == "xarray.backends" else {"blosc2_chunk"})
    for module, _, name in (entry.partition(":") for entry in named.values()):
        assert issubclass(getattr(importlib.import_module(module), name), object)
