"""Groups, objects of other packages and views: what a `TreeStore` has beyond other stores."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._stores import ForeignObjects, Groups, has_group
from blosc2.tree_store import SubtreeView

#: What a view may not do, does for the whole tree, or says of itself.
OWN_OF_A_VIEW = {"to_b2z", "to_b2d", "refresh", "close", "__init__", "__exit__", "__del__", "__reduce__"}


@pytest.fixture(params=[".b2z", ".b2d"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with blosc2.TreeStore(str(tmp_path / f"t{request.param}"), mode="w") as tree:
        tree["/g/h/x"], tree["/g/y"], tree["/top"] = [1], [2], [3]
        tree.flush()
        yield tree


def test_groups_count_what_is_added(tree: Any) -> None:
    groups = Groups(tree._backend, tree._pending)
    for key, change in (("/n/m/a", 1), ("/n/b", 1), ("/g/y", 0), ("/g/h/x", -1)):
        groups.key_changed(key, change)
    assert groups.added == {"/n": 2, "/n/m": 1, "/g": -1, "/g/h": -1}
    assert has_group(tree._backend, "/g", groups.added["/g"])
    assert not has_group(tree._backend, "/g/h", groups.added["/g/h"])
    assert has_group(tree._backend, "/n/m", 1)
    assert not has_group(tree._backend, "/n/m", 0)
    assert not has_group(tree._backend, "/\ud800", 0)
    groups.begin_version()
    assert groups.added == {}


def test_groups_are_counted_again(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2z"), mode="w") as tree:
        tree["/g/x"] = [1]
        tree.flush()
        tree["/g/y"], tree["/n/x"], tree["/g/x"] = [1], [2], [3]
        del tree["/g/x"]
        expected = {"/n": 1, "/g": 0}
        assert {key: count for key, count in tree._groups.added.items() if count} == {"/n": 1}
        tree._groups.added.update({"/wrong": 7})
        tree._groups.recount()
        assert tree._groups.added == expected


def test_groups_of_a_directory_after_discarding(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2d"), mode="w") as tree:
        tree.flush()
        tree["/g/x"] = [1]  # published at once, or pending
        tree.discard()
        assert ("/g" in tree) == ("/g/x" in tree) == ("/g" in list(tree))


def test_declared_objects(tree: Any) -> None:
    foreign: ForeignObjects = tree._foreign
    assert foreign.registry == {}
    tree._pending.registry = {"/g/h": {"kind": "thing"}}
    foreign.recount()
    assert foreign.at("/g/h", tree) == {"kind": "thing"}
    assert foreign.at("/g", tree) is None
    assert foreign.above("/g/h/x", tree) == "/g/h"
    assert foreign.above("/g/h", tree) is None
    assert foreign.keys(tree) == {"/g/h"}
    foreign.rename("/g", "/k")
    assert tree._pending.registry == {"/k/h": {"kind": "thing"}}
    assert tree._pending.unwritten
    foreign.remove("/k")
    assert tree._pending.registry == {}


def test_a_registry_that_stays_is_not_written(tree: Any) -> None:
    tree._foreign.rename("/g", "/k")
    tree._foreign.remove("/none")
    assert tree._pending.registry is None
    assert not tree._pending.unwritten


def test_a_description_makes_an_object(tree: Any) -> None:
    assert tree._foreign.above("/g/h/x", tree) is None
    description = blosc2.SChunk(chunksize=64, cparams={"typesize": 1})
    description.vlmeta["kind"] = "ctable"
    tree["/g/h/_meta"] = description
    assert tree._foreign.above("/g/h/x", tree) == "/g/h"
    tree.discard()
    if tree.is_zip_store:
        assert tree._foreign.above("/g/h/x", tree) is None


# ------------------------------------------------------------------ views
def test_a_view_has_few_methods_of_its_own() -> None:
    own = {name for name, value in vars(SubtreeView).items() if callable(value)}
    assert own - {"_no_file"} == OWN_OF_A_VIEW


def test_a_view_has_the_objects_of_its_tree(tree: Any) -> None:
    view = tree["/g"]
    for name in ("_pending", "_contents", "_leaves", "_session", "_groups", "_foreign", "_publishing", "_backend"):
        assert getattr(view, name) is getattr(tree, name)
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
    assert inner._owner is tree
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
