"""Names of files up to the 255 bytes that file systems take; and more files than a process may have open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2


def named(length: int, suffix: str) -> str:
    """A name of so many bytes."""
    stem = "é" * ((length - len(suffix)) // 2)
    return stem + "n" * (length - len(suffix) - 2 * len(stem)) + suffix


@pytest.mark.parametrize("length", [230, 240, 241, 248, 255])
@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore, blosc2.EmbedStore])
def test_stores(kind: Any, length: int, tmp_path: Path) -> None:
    for suffix in [".b2e"] if kind is blosc2.EmbedStore else [".b2z", ".b2d"]:
        path = tmp_path / named(length, suffix)
        with kind(str(path), mode="w") as store:
            store["/a"] = np.arange(3)
        with kind(str(path), mode="a") as store:
            store["/b"] = np.arange(4)
            store.compact()
        with blosc2.open(str(path)) as store:
            assert store["/b"][3] == 3
        assert not blosc2.check(path).findings
    if kind is blosc2.TreeStore:
        blosc2.convert(path, tmp_path / named(length, ".npz"), verify=True)
        blosc2.convert(tmp_path / named(length, ".npz"), tmp_path / named(length, ".b2z"), overwrite=True)
    assert not [file.name for file in tmp_path.iterdir() if "tmp" in file.name or "partial" in file.name]


@pytest.mark.parametrize("length", [241, 255])
def test_arrays(length: int, tmp_path: Path) -> None:
    path = tmp_path / named(length, ".b2nd")
    array = blosc2.asarray(np.arange(1000), urlpath=path)
    array[3] = 7
    array.append([1])
    array.compact()
    blosc2.asarray(array[:], urlpath=path, mode="w")
    assert (blosc2.open(path)[3], blosc2.open(path).shape) == (7, (1001,))
    folder = tmp_path / named(length, ".b2frame")
    blosc2.SChunk(data=b"abc", urlpath=folder, contiguous=False)
    assert blosc2.open(folder)[:] == b"abc"


MANY = """
import resource, sys
import numpy as np
import blosc2
from pathlib import Path
folder, mode = Path(sys.argv[1]), sys.argv[2]
for n in range(100):
    blosc2.asarray(np.arange(50_000) + n, urlpath=folder / f"{n}.b2nd", mode="w")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
found = [blosc2.open(folder / f"{n}.b2nd", mmap_mode=mode or None) for n in range(100)]
print([int(one[5]) for one in found] == list(range(5, 105)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such limit")
def test_more_than_may_be_open(tmp_path: Path) -> None:
    """Mapped arrays hold no file open, which the error for others says."""
    for mode in ("", "r"):
        command = [sys.executable, "-c", MANY, str(tmp_path), mode]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if mode:
            assert done.stdout == "True\n", done.stderr
        else:
            assert "Too many open files: close some, or raise the limit (ulimit -n)" in done.stderr
            assert "mmap_mode='r'" in done.stderr
