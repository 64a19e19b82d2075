"""How many functions of the package a read goes through: a read that takes a detour shows here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import blosc2

PACKAGE = str(Path(blosc2.__file__).parent)
ITEMS = np.arange(10_000.0).reshape(100, 100)

# What was counted when this was written: Python functions of the package, the files that these are in, and functions in
# C that they call. Before, reads of a slice took 6 functions in 5 files, and 12 in C.
STRAIGHT = {
    "slice": (slice(2, 30), (1, 1, 0)),
    "slices": ((slice(0, 5), slice(3, 90)), (1, 1, 0)),
    "row": (3, (1, 1, 0)),
    "item": ((5, 5), (1, 1, 0)),
    "numpy integer": (np.int64(3), (1, 1, 0)),
    "backwards": (slice(None, None, -2), (1, 1, 0)),
    "ellipsis": ((..., 5), (1, 1, 0)),
    "all": (slice(None), (1, 1, 0)),
}
# More than that is one function in five more.
GROWTH = 1.2


def calls_of(function: Callable[[], object]) -> tuple[int, int, int]:
    """Python functions of the package that a call goes through, their files, and functions in C."""
    files: list[str] = []
    native: list[str] = []

    def note(frame: FrameType, event: str, function: Any) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            if event == "call":
                files.append(frame.f_code.co_filename)
            elif event == "c_call":
                native.append(function.__name__)

    function()  # what is done once only
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(files), len(set(files)), len(native)


@pytest.fixture
def array(tmp_path: Path, source: str | None) -> blosc2.NDArray:
    path = tmp_path / "a.b2nd"
    blosc2.asarray(ITEMS, chunks=(20, 50), blocks=(5, 10), urlpath=path)
    found: blosc2.NDArray = blosc2.open(path, mode="r", mmap_mode=source)
    return found


@pytest.mark.local
@pytest.mark.parametrize("name", STRAIGHT)
def test_a_read_is_straight(array: blosc2.NDArray, name: str) -> None:
    key, most = STRAIGHT[name]
    np.testing.assert_array_equal(array[key], ITEMS[key])
    counted = calls_of(lambda: array[key])
    # The function that is counted is one of this file, not of the package.
    assert all(found <= GROWTH * limit for found, limit in zip(counted, most)), counted


def test_detours_are_counted(array: blosc2.NDArray) -> None:
    """Keys with arrays take a longer way: the counter sees it."""
    python, files, native = calls_of(lambda: array[[1, 2]])
    assert python > 5
    assert files > 2
    assert native > 5
