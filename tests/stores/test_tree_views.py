"""Views of groups: each is its tree, below a path. And an object of another package."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2


@pytest.fixture(params=[".b2z", ".b2d"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with blosc2.TreeStore(str(tmp_path / f"t{request.param}"), mode="w") as tree:
        tree["/g/h/x"], tree["/g/y"], tree["/top"] = [1], [2], [3]
        tree.flush()
        yield tree


def test_groups_of_a_directory_after_discarding(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2d"), mode="w") as tree:
        tree.flush()
        tree["/g/x"] = [1]  # published at once, or pending
        tree.discard()
        assert ("/g" in tree) == ("/g/x" in tree) == ("/g" in list(tree))


def test_a_view_has_the_leaves_of_its_tree(tree: Any) -> None:
    view = tree["/g"]
    view["/new/z"] = np.arange(3)
    assert tree["/g/new/z"][:].tolist() == [0, 1, 2]
    leaf = view["/h/x"]
    assert tree["/g/h/x"] is leaf
    leaf[0] = 9
    assert view.read("/h/x").tolist() == [9]


def test_a_view_compresses_as_its_tree_does(tree: Any) -> None:
    view = tree["/g"]
    tree.cparams.clevel = 0  # after the view was made
    assert view.cparams is tree.cparams
    assert view.dparams is tree.dparams
    view["new"] = np.zeros(100_000)
    view.update({"/newer": np.zeros(100_000)})
    assert [tree[key].cparams.clevel for key in ("/g/new", "/g/newer")] == [0, 0]


def test_a_refusal_names_the_key_in_the_whole_tree(tmp_path: Path) -> None:
    path = str(tmp_path / "t.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        made["/g/y"] = [2]
    view: Any = blosc2.open(path, mode="r")["/g"]
    for change in (view.popitem, lambda: view.pop("/y"), lambda: view.__delitem__("/y"), lambda: view.update(y=[1])):
        with pytest.raises(blosc2.exceptions.ReadOnlyError) as info:
            change()
        assert info.value.key == "/g/y"


def test_a_view_of_a_view_is_one_of_the_tree(tree: Any) -> None:
    inner = tree["/g"]["/h"]
    assert inner.subtree_path == "/g/h"
    assert list(inner) == ["/x"]
    assert inner.get_subtree("/") is inner


def test_a_view_keeps_its_tree_open_and_lets_go_of_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t.b2z")
    tree: Any = blosc2.TreeStore(path, mode="w")
    tree["/g/x"] = [1]
    tree.flush()
    reference = weakref.ref(tree)
    view = tree["/g"]
    leaf = view["/x"]
    del tree
    gc.collect()
    leaf[0] = 5  # it is live as long as the tree is
    view["/y"] = [2]
    view.flush()
    del view, leaf
    assert reference() is None  # at once, without a collection
    with blosc2.open(path) as tree:
        assert (tree["/g/x"][:].tolist(), tree["/g/y"][:].tolist()) == ([5], [2])


def test_leaves_that_a_failed_block_of_a_view_brings_back_stay_live(tree: Any) -> None:
    view = tree["/g"]
    leaf = view["/y"]
    leaf[0] = 4
    with pytest.raises(TypeError):
        view.update({"/y": [7], "/bad": object()})
    del view
    gc.collect()
    leaf[0] = 6
    tree.flush()
    assert tree["/g/y"][:].tolist() == [6]


def test_the_whole_tree_is_refreshed(tmp_path: Path) -> None:
    path = str(tmp_path / "t.b2z")
    with blosc2.TreeStore(path, mode="w") as tree:
        tree["/g/x"] = [1]
    reader = blosc2.open(path)
    view = reader["/g"]
    assert "/g/y" not in reader
    with blosc2.open(path, mode="a") as tree:
        tree["/g/y"] = [2]
    assert "/y" not in view
    assert view.refresh()
    assert "/y" in view
    assert "/g/y" in reader
    assert list(view) == ["/x", "/y"]
    reader.close()


@pytest.mark.parametrize("act", ["delete", "rename"])
def test_an_object_of_one_leaf_is_no_longer_declared(act: str, tmp_path: Path) -> None:
    """What is declared of it is written, though a leaf of a directory is removed by itself."""
    (entry,) = [entry for entry in manifest.FILES if "tree_table" in entry["path"]]
    with blosc2.TreeStore(manifest.path_of(entry), mode="r") as table:
        path = Path(table.to_b2d(tmp_path / "table.b2d"))
    shutil.rmtree(path / "data" / "table" / "_cols")
    (path / "data" / "table" / "_valid_rows.b2nd").unlink()
    with blosc2.TreeStore(path) as tree:
        assert list(tree) == ["/data", "/data/array", "/data/table"]
        if act == "delete":
            del tree["/data/table"]
        else:
            tree.rename("/data/table", "/data/x")
    with blosc2.TreeStore(path) as tree:
        assert list(tree) == ["/data", "/data/array", "/data/x"][: 2 + (act == "rename")]
        tree["/data/table/inside"] = [1]  # which an object would refuse
    with blosc2.TreeStore(path, mode="r") as tree:
        assert tree["/data/table"].keys() == {"/inside"}
