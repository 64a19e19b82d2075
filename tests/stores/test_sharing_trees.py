"""What trees have besides, with ``locking=True``: groups, their attributes, views."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")


@pytest.fixture(params=[(".b2z", 0), (".b2d", 0), (".b2d", 100), (".b2z", None)], ids=str)
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Two handles of one new tree, and a reader."""
    suffix, threshold = request.param
    path = tmp_path / f"x{suffix}"
    with (
        blosc2.TreeStore(path, mode="w", locking=True, threshold=threshold) as first,
        blosc2.TreeStore(path, mode="a", locking=True, threshold=threshold) as second,
        blosc2.TreeStore(path, mode="r", locking=True) as reader,
    ):
        yield first, second, reader


def test_attributes(trees: Any) -> None:
    first, second, reader = trees
    first.attrs["title"] = "a study"
    assert second.attrs[:] == reader.attrs[:] == {"title": "a study"}
    second["/g/a"] = [1]
    group = first["/g"]
    group.attrs.update({"n": 1, "m": [2, 3]})
    assert second["/g"].attrs[:] == reader["/g"].vlmeta[:] == {"n": 1, "m": [2, 3]}
    del second["/g"].attrs["n"]
    assert group.attrs[:] == {"m": [2, 3]}
    with pytest.raises(KeyError):
        del group.attrs["n"]
    second["/g"].attrs.clear()
    assert len(group.attrs) == len(reader["/g"].attrs) == 0
    second["/g"].attrs["last"] = 1
    assert group.attrs["last"] == 1


def test_groups_and_views(trees: Any) -> None:
    first, second, reader = trees
    view = first.create_group("/g")
    assert "/g" in second
    other = second["/g"]
    view["/a"] = np.arange(3)
    assert other["/a"][1] == 1
    other["sub/b"] = np.arange(4)
    assert list(view) == list(reader["/g"]) == ["/a", "/sub", "/sub/b"]
    assert list(reader.walk()) == [("/", ["g"], []), ("/g", ["sub"], ["a"]), ("/g/sub", [], ["b"])]
    second.rename("/g", "/h")
    assert list(first) == list(reader) == ["/h", "/h/a", "/h/sub", "/h/sub/b"]
    assert first.get_children("/h") == reader.get_children("/h") == ["/h/a", "/h/sub"]
    with pytest.raises(ValueError, match="already contains data"):
        first["/h/a/below"] = [1]
    with pytest.raises(ValueError, match="children"):
        first["/h/sub"] = [1]
    with pytest.raises(ValueError, match="in case only"):
        first["/H/A"] = [1]
    second["/n/Key"] = [1]
    with pytest.raises(ValueError, match="in case only"):
        first["/n/kEY"] = [1]  # like that of the other handle
    del first["/h"]
    assert list(second) == list(reader) == ["/n", "/n/Key"]
    with first.transaction():
        for n in range(3):
            first[f"/t/{n}"] = [n]
        first["/t"].attrs["count"] = 3
    assert reader["/t"].attrs["count"] == second["/t"].attrs["count"] == 3
    assert reader.stats()[0].leaves == first.stats()[0].leaves == 4
    assert str(first.tree()) == str(second.tree()) == str(reader.tree())
    assert first.describe("/t/1").shape == (1,)


def test_large_groups(trees: Any) -> None:
    """As many leaves as a catalog needs, which groups are moved and removed by."""
    first, second, reader = trees
    first.write_many((f"/g{n % 3}/{n}", np.full(3, n)) for n in range(600))
    assert len(second) == len(reader) == 603
    second.rename("/g1", "/moved")
    assert first["/moved/301"][0] == 301
    del first["/g2"]
    assert len(second) == len(reader) == 402
    second["/moved/new"] = [1]
    assert first.read_many(["/moved/301", "/moved/304"]).tolist() == [[301] * 3, [304] * 3]
    assert reader.read_many(["/moved/301", "/moved/304"]).tolist() == [[301] * 3, [304] * 3]
    assert blosc2.check(first.localpath).ok
