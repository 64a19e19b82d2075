from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_kit import RAW, Answer

import blosc2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tree, a dictionary of arrays, embedded values, an array, and a list."""
    monkeypatch.chdir(tmp_path)
    with blosc2.TreeStore("s.b2z", mode="w") as store:
        store["/mri/007/raw"], store["/mri/008/raw"], store["/age"] = RAW, np.ones(5, "i2"), np.arange(3)
        store["/mri"].attrs["unit"] = "mm"
        store.attrs["who"] = "me"
    with blosc2.DictStore("d.b2d", mode="w") as store:
        store["/x/y"] = np.arange(4)
    with blosc2.EmbedStore("e.b2e", mode="w") as store:
        store["/z"] = np.arange(5)
    blosc2.asarray(np.arange(10), urlpath="a.b2nd")
    values = blosc2.ObjectArray(urlpath="o.b2frame", mode="w")
    values.extend([1, "two"])
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Answer:
    return Answer(capfd)
