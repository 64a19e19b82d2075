"""Stores that many values are written to, and what must be in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blosc2

KINDS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "embed": (blosc2.EmbedStore, ".b2e", {}),
    "dict-zip": (blosc2.DictStore, ".b2z", {}),
    "dict-directory": (blosc2.DictStore, ".b2d", {}),
    "tree-zip": (blosc2.TreeStore, ".b2z", {}),
    "tree-directory": (blosc2.TreeStore, ".b2d", {}),
    "threshold": (blosc2.TreeStore, ".b2z", {"threshold": 100}),
    "embedded": (blosc2.DictStore, ".b2z", {"threshold": None}),
}
ZIPS = ["dict-zip", "tree-zip"]
# Fewer are changes like others; more are written as they come.
FEW, MANY = 40, 300

Maker = Callable[..., Any]
#: Without those that have nothing of their own except where a test asks for it.
MOST_KINDS = [kind for kind in KINDS if kind not in ("dict-zip", "tree-directory")]


def maker_of(kind: str, folder: Path) -> Maker:
    """What opens the one store of a kind in a folder."""
    cls, suffix, options = KINDS[kind]

    def opened(mode: str = "a", **more: Any) -> Any:
        return cls(str(folder / f"store{suffix}"), mode=mode, **({} if mode == "r" else options), **more)

    return opened


def numbered(count: int, start: int = 0, group: str = "/g") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    return ((f"{group}/k{n}", np.full(5, n)) for n in range(start, start + count))


def leaves(store: Any) -> dict[str, Any]:
    return {key: value for key, value in store.items() if isinstance(value, (blosc2.NDArray, blosc2.SChunk))}


def assert_holds(store: Any, expected: dict[str, Any]) -> None:
    found = leaves(store)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        array = np.asarray(value)
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key][()], array)


def assert_sound(path: Path) -> None:
    """Nothing is damaged, for us and for others, and nothing was left beside it."""
    report = blosc2.check(str(path))
    assert list(report) == []
    if path.suffix == ".b2z":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert len(set(archive.namelist())) == len(archive.namelist())
        unzip = shutil.which("unzip")
        if unzip:
            subprocess.run([unzip, "-tqq", str(path)], check=True)
    assert os.listdir(path.parent) == [path.name]


# ---------------------------------------------------------------------- what fails
class Broken(Exception):
    """What a generator of values raises."""


def failing(at: int, error: BaseException | None, last: Any) -> Iterator[tuple[Any, Any]]:
    for n in range(at):
        # large ones as well, of which several are being compressed when it happens
        yield f"/new/k{n}", np.full(50_000, n) if n % 40 == 39 else np.full(5, n)
    if error is not None:
        raise error
    yield last
