"""What needs an extra says which one where its package is missing, and nothing imports it before."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Packages that extras bring, as they are imported.
PACKAGES = (
    "PIL", "aiohttp", "click", "dask", "distributed", "fsspec", "h5py", "hdf5plugin", "lmdb", "napari", "nibabel",
    "numcodecs", "pandas", "pyarrow", "s3fs", "skimage", "textual", "tifffile", "torch", "xarray",
    "zarr",
)  # fmt: skip

LIKE = "type({!r}, (), {{'__module__': '{}.core'}})()"

# What to run, the packages that are missing, and the extra that brings them.
CASES = {
    "tensors": ("import blosc2.torch", "torch", "torch"),
    "tables": ("store.to_pandas()", "pandas", "pandas"),
    "arrays of Arrow": ("array.__arrow_array__()", "pyarrow", "arrow"),
    "batches of Arrow": ("blosc2.BatchArray(serializer='arrow')", "pyarrow", "arrow"),
    "datasets": (f"blosc2.to_store({LIKE.format('Dataset', 'xarray')}, 'new.b2z')", "xarray", "xarray"),
    "dask": (f"blosc2.to_store({LIKE.format('Array', 'dask')}, 'new.b2z', '/x')", "dask", "dask"),
    "servers": ("blosc2.open('memory://a.b2nd')", "fsspec", "remote"),
    "HTTP": ("blosc2.open('http://127.0.0.1:9/a.b2nd')", "fsspec aiohttp", "remote"),
    "HDF5": ("blosc2.convert('a.b2z', 'new.h5')", "h5py", "convert"),
    "zarr": ("blosc2.convert('a.b2z', 'new.zarr')", "zarr", "convert"),
    "the command": ("main(['info', 'a.b2z'])", "click", "cli"),
    "the demo": ("main(['demo', '--output', 'new.b2z'])", "nibabel", "demo"),
    "photographs": ("main(['demo', '--output', 'new.b2z'])", "skimage", "demo"),
}

PROGRAM = """
import sys
import numpy as np
import blosc2
from blosc2.__main__ import main
array = blosc2.asarray(np.arange(12.0))
with blosc2.TreeStore("a.b2z", mode="w") as store:
    store["/x"] = array
store = blosc2.open("a.b2z")
found = sorted(set(sys.argv[2].split()) & set(sys.modules))
assert not found, found
for name in sys.argv[3].split():
    sys.modules[name] = None
try:
    exec(sys.argv[1])
except (ImportError, blosc2.exceptions.ConversionError) as error:
    print(error)
"""


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named(case: str, tmp_path: Path) -> None:
    code, missing, extra = CASES[case]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, code, " ".join(PACKAGES), missing],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"pip install 'python-blosc2[{extra}]'" in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.b2z"]


def test_the_extras_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for _, _, extra in CASES.values()} <= set(extras)
