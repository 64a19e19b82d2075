"""Both columns of the tables of doc/coming-from run as they stand, and give the same."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "doc" / "coming-from"
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)


def run(page: str, column: int, names: dict[str, Any]) -> dict[str, Any]:
    """The names that a column has at its end."""
    text = (FOLDER / f"{page}.md").read_text("utf-8")
    setup = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert setup
    exec(compile(setup[1], page, "exec"), names)
    rows = ROW.findall(text)
    assert len(rows) > 10
    for row in rows:
        exec(compile(row[column], f"{page}: {row[column]}", "exec"), names)
    return names


SAME = [("h5py", ["plane", "shape", "dtype"]), ("zarr", ["plane", "rows", "points"])]


@pytest.mark.parametrize(("page", "same"), SAME)
def test_tables(page: str, same: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours = run(page, 1, {})
    if importlib.util.find_spec(page) is None:
        pytest.skip(f"{page} is not installed")
    theirs = run(page, 0, {page: importlib.import_module(page)})
    for name in same:
        assert np.array_equal(np.asarray(ours[name]), np.asarray(theirs[name])), name
    if page == "h5py":
        assert [f"/{name}" for name in theirs["names"]] == ours["names"]
