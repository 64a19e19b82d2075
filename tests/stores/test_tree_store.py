"""`TreeStore`: the contract of stores, groups, views and attributes."""

from __future__ import annotations

import os
import pickle
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_store_kit import FileStoreContract
from fixture_kit import manifest
from store_kit import tree_state
from stores.test_dict_store import writable_copy

import blosc2
from blosc2._stores.contents import Contents
from blosc2._stores.tree.walking import _is_below as below
from blosc2.exceptions import FormatError

TREES = [e for e in manifest.FILES if e["kind"] == "treestore"]
LEAVES = ["/a/b/c/d", "/a/b/x", "/a/y", "/a-b", "/top", "/z/w"]


class TestZip(FileStoreContract):
    kind = blosc2.TreeStore
    suffix = ".b2z"


class TestZipEmbedded(TestZip):
    options = {"threshold": None}


class TestDirectory(FileStoreContract):
    kind = blosc2.TreeStore
    suffix = ".b2d"
    at_once = True


class TestDirectoryMixed(TestDirectory):
    options = {"threshold": 100}


@pytest.fixture(params=[(".b2d", 0), (".b2z", 0), (".b2z", None), (".b2d", 100)], ids=str)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes a tree in a mode, always the same one."""
    suffix, threshold = request.param
    return lambda mode="a", **more: blosc2.TreeStore(tmp_path / f"t{suffix}", mode=mode, threshold=threshold, **more)


@pytest.fixture
def tree(made: Any) -> Any:
    with made() as tree:
        for n, key in enumerate(LEAVES):
            tree[key] = np.arange(n)
        yield tree


def test_groups_and_leaves_are_listed(tree: Any, made: Any, source: str | None) -> None:
    listed = ["/a", "/a-b", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/x", "/a/y", "/top", "/z", "/z/w"]
    tree.flush()
    for store in (tree, made("r", mmap_mode=source)):
        assert list(store) == listed
        assert len(store) == len(listed)
        assert store.get_descendants("/") == listed
        assert store.get_descendants("/a") == ["/a/b", "/a/b/c", "/a/b/c/d", "/a/b/x", "/a/y"]
        assert store.get_children("/") == ["/a", "/a-b", "/top", "/z"]
        assert store.get_children("a/b") == ["/a/b/c", "/a/b/x"]
        for nothing in ("/none", "/top", "/a/b/c/d", "/a-"):
            assert store.get_children(nothing) == []
            assert store.get_descendants(nothing) == []
        for key in [*listed, "/", "a", "a/b/c"]:
            assert key in store
        for key in ["/a/", "/none", "", "/a/b/c/d/e", 5, "//a", "/a-"]:
            assert key not in store or key == ""
        assert isinstance(store["/a"], blosc2.TreeStore)
        assert isinstance(store["a/b"], blosc2.TreeStore)
        assert isinstance(store["/a/y"], blosc2.NDArray)
        for key, error in (("/none", KeyError), ("/a/", ValueError), ("/a//b", ValueError), (5, ValueError)):
            with pytest.raises(error):
                store[key]


def test_walk(tree: Any) -> None:
    walked = [
        ("/", ["a", "z"], ["a-b", "top"]),
        ("/a", ["b"], ["y"]),
        ("/a/b", ["c"], ["x"]),
        ("/a/b/c", [], ["d"]),
        ("/z", [], ["w"]),
    ]
    assert list(tree.walk()) == walked
    assert sorted(tree.walk(topdown=False)) == sorted(walked)
    order = [path for path, _, _ in tree.walk(topdown=False)]
    assert order == ["/a/b/c", "/a/b", "/a", "/z", "/"]
    assert list(tree.walk("/a/b")) == walked[2:4]
    assert list(tree.walk("/none")) == [("/none", [], [])]
    assert list(tree["/a"].walk()) == [("/", ["b"], ["y"]), ("/b", ["c"], ["x"]), ("/b/c", [], ["d"])]


def test_deep_trees(made: Any) -> None:
    deep = "/a" * 257
    with made() as tree:
        tree["/x" * 5] = [1]
        with pytest.raises(ValueError, match="segments"):
            tree[deep + "/a"] = [1]
    if tree.is_zip_store:
        with made() as tree:
            tree[deep] = [2]
            assert len(list(tree.walk())) == 257 + 4
            assert len(tree) == 257 + 5


def test_names_of_countless_groups_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    blosc2.TreeStore(path).close()
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("a/" * 30_000 + "x.b2nd", b"")
    with blosc2.TreeStore(path, mode="r") as tree:
        with pytest.raises(FormatError, match="groups"):
            list(tree)
        with pytest.raises(FormatError, match="groups"):
            list(tree.walk())
        assert "/a/a" in tree


@pytest.mark.usefixtures("publishes_at_once")
def test_a_change_does_not_look_at_all_keys(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as tree:
        for n in range(100):
            tree[f"/g{n % 10}/x{n}"] = [n]
        tree.flush()
        listings = []
        listing = Contents.listing

        def counted(contents: Any) -> Any:
            listings.append(contents)
            return listing(contents)

        monkeypatch.setattr(Contents, "listing", counted)
        for n in range(100):
            tree[f"/g{n % 10}/y{n}"] = [n]
            tree[f"/g{n % 10}/x{n}"] = [n]
            tree[f"/g{n % 10}/x{n}"][0] = 5
            del tree[f"/g{n % 10}/x{n}"]
        tree.clear()
        assert len(listings) < 10
        assert list(tree) == []


def test_views(tree: Any, made: Any, source: str | None) -> None:
    view = tree["/a"]
    assert view.subtree_path == "/a"
    assert tree.subtree_path == "/"
    assert list(view) == ["/b", "/b/c", "/b/c/d", "/b/x", "/y"]
    assert len(view) == 5
    assert view.keys() == set(view)
    assert view.get_children("/") == ["/b", "/y"]
    assert view["/b"]["/c/d"].shape == view["b/c/d"].shape == (0,)
    assert view["/b"].subtree_path == "/a/b"
    assert list(view["/"]) == list(view)
    assert tree["/"] is tree
    assert "/y" in view
    assert "y" in view
    assert "/" in view
    assert "/a/y" not in view
    with pytest.raises(KeyError):
        view["/top"]
    view["new/deep"] = [5]
    view.vlmeta["k"] = "v"
    del view["/y"]
    assert tree["/a/new/deep"][0] == 5
    assert "/a/y" not in tree
    with view:
        pass
    view.close()
    assert tree["/top"].shape == (4,)
    assert view.mode == tree.mode
    with pytest.raises(ValueError, match="no file of its own"):
        view.to_b2d("elsewhere")
    tree.flush()
    reader = made("r", mmap_mode=source)
    view = reader["/a"]
    assert view.vlmeta[:] == {"k": "v"}
    assert view["/new/deep"][0] == 5
    with pytest.raises(ValueError, match="read-only mode"):
        view["/x"] = [1]
    with pytest.raises(ValueError, match="read-only mode"):
        del view["/new"]
    copy = pickle.loads(pickle.dumps(view))
    assert list(copy) == list(view)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        view["/new"]
    with pytest.raises(ValueError, match="closed"):
        list(view)
    assert "view" in repr(view)


def test_a_view_of_a_group_that_is_not_there_yet(tree: Any) -> None:
    view = tree.get_subtree("/later")
    assert list(view) == []
    assert "/later" not in tree
    view.vlmeta["a"] = 1
    assert "/later" in tree
    assert "/later" in list(tree)
    view["x"] = [1]
    assert list(view) == ["/x"]
    del tree["/later"]
    assert "/later" not in tree
    assert view.vlmeta[:] == {}


def test_structure(tree: Any) -> None:
    before = list(tree)
    for key in ("/a", "/a/b", "a/b/c", "/z"):
        with pytest.raises(ValueError, match="Cannot assign array to structural path"):
            tree[key] = [1]
    with pytest.raises(ValueError, match="structural path"):
        tree["/"] = [1]
    for key in ("/top/x", "/a/y/z/w", "/a/b/c/d/e"):
        with pytest.raises(ValueError, match="Cannot add child"):
            tree[key] = [1]
    with pytest.raises(ValueError, match="is a leaf"):
        tree.get_subtree("/top").vlmeta["x"] = 1
    assert list(tree) == before
    tree["/top"] = [1, 2]  # a leaf can be replaced
    del tree["/top"]
    tree["/top/x"] = [1]  # and then be a group
    del tree["/z/w"]
    tree["/z"] = [1]


@pytest.mark.parametrize("key", ["/__vlmeta__", "/a/__vlmeta__", "__vlmeta__", "/a/__vlmeta__/x", "/_meta", "_meta"])
def test_reserved_names(tree: Any, key: str) -> None:
    tree["/a"].vlmeta["k"] = 1
    with pytest.raises(ValueError, match="reserved"):
        tree[key] = [1]
    assert key not in tree
    with pytest.raises(KeyError):
        tree[key]
    handle = tree._hidden_leaf("/a/__vlmeta__")
    with pytest.raises(KeyError):  # nor while somebody holds it
        tree[key]
    assert tree["/a"].vlmeta["k"] == 1
    del handle
    tree["/a/_meta"] = [1]  # an ordinary leaf
    assert tree["/a/_meta"][0] == 1


def test_attributes(tree: Any, made: Any, source: str | None) -> None:
    tree.vlmeta["author"] = "ünï"
    tree.attrs["n"] = 5
    tree["/a"].vlmeta[:] = {"x": [1, (2, 3)], "y": 1 + 2j}
    tree["/a"].vlmeta[:] = {"y": 7, "z": None}
    tree["/a/b"].vlmeta.update(k=1)
    tree["/top"].vlmeta["leaf"] = True
    tree.flush()
    tree.vlmeta["later"] = 1
    del tree.vlmeta["n"]
    tree.flush()
    reader = made("r", mmap_mode=source)
    for store in (tree, reader):
        assert store.vlmeta[:] == {"author": "ünï", "later": 1}
        assert dict(store["/a"].attrs) == {"x": [1, (2, 3)], "y": 7, "z": None}
        assert store["/a"]["/b"].vlmeta.getall() == {"k": 1}
        assert store["/z"].vlmeta[:] == {}
        assert store["/top"].vlmeta["leaf"] is True
        assert len(store.vlmeta) == 2
        assert sorted(store.vlmeta) == ["author", "later"]
        assert "author" in repr(store.vlmeta)
        for bad in ("none", "n"):
            with pytest.raises(KeyError, match=bad):
                store.vlmeta[bad]
            assert bad not in store.vlmeta
        with pytest.raises(NotImplementedError):
            store.vlmeta[1:]
        assert not [key for key in store if "__vlmeta__" in key]
    for change in (
        lambda: reader.vlmeta.__setitem__("a", 1), lambda: reader.vlmeta.__setitem__(slice(None), {"a": 1}),
        lambda: reader.vlmeta.__delitem__("author"), lambda: reader["/z"].vlmeta.__setitem__("a", 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="read-only mode"):
            change()
    with pytest.raises(KeyError):
        del tree.vlmeta["none"]
    with pytest.raises(TypeError):
        tree.vlmeta[:] = 5


def test_a_group_of_attributes_alone(tree: Any) -> None:
    tree.get_subtree("/only/attributes").vlmeta["a"] = 1
    assert {"/only", "/only/attributes"} <= set(tree)
    assert tree.get_children("/only") == ["/only/attributes"]
    assert tree["/only/attributes"].vlmeta["a"] == 1
    with pytest.raises(ValueError, match="structural path"):
        tree["/only/attributes"] = [1]


def test_delete_groups(tree: Any, made: Any) -> None:
    tree["/a"].vlmeta["x"] = 1
    tree["/a/b"].vlmeta["x"] = 1
    tree.flush()
    tree["/a/b/unpublished"] = [1]
    del tree["/a"]
    assert list(tree) == ["/a-b", "/top", "/z", "/z/w"]
    assert tree.get_subtree("/a").vlmeta[:] == {}
    tree["/a"] = [1]
    with pytest.raises(KeyError, match="not found"):
        del tree["/none"]
    tree.flush()
    reader = made("r")
    assert list(reader) == ["/a", "/a-b", "/top", "/z", "/z/w"]
    assert sorted(blosc2.DictStore(reader.localpath, mode="r")) == ["/a", "/a-b", "/top", "/z/w"]
    del tree["/"]
    assert list(tree) == []


@pytest.mark.usefixtures("changes_wait")
def test_changes_are_seen_in_groups_at_once(tree: Any) -> None:
    tree.flush()
    del tree["/a/b/c/d"]
    assert "/a/b/c" not in tree
    assert tree.get_children("/a/b") == ["/a/b/x"]
    tree["/a/b/c"] = [1]
    assert isinstance(tree["/a/b/c"], blosc2.NDArray)
    tree.discard()
    assert isinstance(tree["/a/b/c"], blosc2.TreeStore)


# ------------------------------------------------------------------------------------------------ other objects
@pytest.fixture
def with_table(tmp_path: Path) -> Path:
    (entry,) = [e for e in TREES if "tree_table" in e["path"]]
    return writable_copy(entry, tmp_path / "table.b2z")


def test_an_object_of_another_kind_is_one_key(with_table: Path, source: str | None) -> None:
    with blosc2.TreeStore(with_table, mode="r", mmap_mode=source) as tree:
        assert list(tree) == ["/data", "/data/array", "/data/table"]
        assert list(tree["/data"]) == ["/array", "/table"]
        assert list(tree.walk()) == [("/", ["data"], []), ("/data", [], ["array", "table"])]
        assert tree.get_descendants("/data/table") == tree.get_children("/data/table") == []
        table = tree["/data/table"]
        assert table.kind == "ctable"
        assert "ctable" in repr(table)
        for use in (lambda: table[0], lambda: len(table), lambda: list(table), lambda: table.__setitem__(0, 1)):
            with pytest.raises(NotImplementedError, match=r"/data/table.*ctable"):
                use()
        for inner in ("/data/table/_cols/x", "/data/table/_meta", "/data/table/_cols"):
            assert inner not in tree
            with pytest.raises(KeyError):
                tree[inner]


def test_the_inside_of_an_object_is_protected(with_table: Path) -> None:
    before = tree_state(with_table)
    with blosc2.TreeStore(with_table) as tree:
        for inner in ("/data/table/_cols/x", "/data/table/new", "/data/table/_cols/new/deep"):
            with pytest.raises(ValueError, match="internal component"):
                tree[inner] = [1]
            with pytest.raises(ValueError, match="internal component"):
                del tree[inner]
        with pytest.raises(ValueError, match="another kind"):
            tree["/data/table"] = [1]
        with pytest.raises(ValueError, match="internal component"):
            tree.get_subtree("/data/table").vlmeta["x"] = 1
    assert tree_state(with_table) == before


def test_objects_move_whole(with_table: Path, tmp_path: Path) -> None:
    with blosc2.DictStore(with_table, mode="r") as store:
        frames = {key: store[key].to_cframe() for key in store}
    with blosc2.TreeStore(with_table) as tree:
        tree["/more"] = [1]
        tree.to_b2d(tmp_path / "copy.b2d")
    for path in (with_table, tmp_path / "copy.b2d"):
        with blosc2.DictStore(path, mode="r") as store:
            assert {key: store[key].to_cframe() for key in store if key != "/more"} == frames
        with blosc2.TreeStore(path, mode="r") as tree:
            assert tree["/data/table"].kind == "ctable"


def leaves_below(path: Path, group: str) -> dict[str, bytes]:
    with blosc2.DictStore(path, mode="r") as store:
        return {key[len(group) :]: store[key].to_cframe() for key in store if key.startswith(group + "/")}


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_an_object_is_copied_whole(with_table: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"other{suffix}"
    with blosc2.TreeStore(with_table, mode="r") as tree, blosc2.TreeStore(target) as other:
        other["/data/table"] = other["/deep/copy"] = tree["/data/table"]
        with pytest.raises(ValueError, match="another kind; delete it first"):
            other["/data/table"] = tree["/data/table"]
    with blosc2.TreeStore(target, mode="r") as other:
        assert list(other) == ["/data", "/data/table", "/deep", "/deep/copy"]
        assert other["/deep/copy"].kind == other.describe("/deep/copy").kind == "ctable"
    whole = leaves_below(with_table, "/data/table")
    assert leaves_below(target, "/data/table") == leaves_below(target, "/deep/copy") == whole
    assert len(whole) > 2


def test_the_leaves_of_an_object_are_files_whatever_is_embedded(with_table: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.b2z"
    with blosc2.TreeStore(with_table, mode="r") as tree, blosc2.TreeStore(target, threshold=None) as other:
        other["/copy"], other["/small"] = tree["/data/table"], [1]
    with blosc2.DictStore(target, mode="r") as store:
        assert {key for key in store if key not in store.map_tree} == {"/small"}
        assert "/copy/_meta" in store


def test_only_a_tree_takes_an_object(with_table: Path, tmp_path: Path) -> None:
    with blosc2.TreeStore(with_table, mode="r") as tree:
        table = tree["/data/table"]
        with blosc2.DictStore(tmp_path / "other.b2z") as other:
            with pytest.raises(TypeError, match="several leaves"):
                other["/table"] = table
            assert len(other) == 0
    with blosc2.TreeStore(tmp_path / "other.b2z") as other, pytest.raises(ValueError, match="closed"):
        other["/table"] = table


def test_the_indexes_of_an_object_are_found_under_its_new_key(with_table: Path) -> None:
    path = "data/table/_indexes/x/summary.b2nd"
    with blosc2.DictStore(with_table) as store:
        description = store["/data/table/_meta"].copy()
        description.vlmeta["index_catalog"] = {"x": {"levels": [{"path": path}], "name": path, "shape": (1,)}}
        store["/data/table/_meta"] = description
    with blosc2.TreeStore(with_table) as tree:
        tree["/other/copy"] = tree["/data/table"]
        tree.rename("/data", "/d")
    with blosc2.DictStore(with_table, mode="r") as store:
        for group in ("other/copy", "d/table"):
            indexes = store[f"/{group}/_meta"].vlmeta["index_catalog"]
            levels = [{"path": f"{group}/_indexes/x/summary.b2nd"}]
            assert indexes == {"x": {"levels": levels, "name": path, "shape": (1,)}}


def test_an_object_is_deleted_whole(with_table: Path) -> None:
    with blosc2.TreeStore(with_table) as tree:
        del tree["/data/table"]
        assert list(tree) == ["/data", "/data/array"]
    with blosc2.DictStore(with_table, mode="r") as store:
        assert list(store) == ["/data/array"]
    with blosc2.TreeStore(with_table) as tree:
        assert list(tree) == ["/data", "/data/array"]
        tree["/data/table"] = [1]
        assert tree["/data/table"][0] == 1


def test_an_object_without_a_registry(made: Any) -> None:
    with made() as tree:
        tree["/t/_cols/x"] = [1]
        description = blosc2.SChunk(chunksize=64)
        description.vlmeta["kind"] = "ctable"
        tree["/t/_meta"] = description
        tree["/plain/_meta"] = [1]
    with made("r") as tree:
        assert list(tree) == ["/plain", "/plain/_meta", "/t"]
        assert tree["/t"].kind == "ctable"
        assert list(tree.walk()) == [("/", ["plain"], ["t"]), ("/plain", [], ["_meta"])]


def test_a_group_has_no_description(tree: Any) -> None:
    tree["/g/h/a"] = [1]
    for store, key, group in ((tree, "/g", "/g"), (tree["/g"], "h", "/g/h")):
        with pytest.raises(KeyError, match=rf"'{group}' is a group: stats\('{key}'\)"):
            store.describe(key)


def test_description(tree: Any) -> None:
    text = repr(tree.info)
    for name in ("TreeStore", "├── a", "└── d", "top"):
        assert name in text
    assert dict(tree.info_items)["entries"] == 10
    for n in range(500):
        tree[f"/many/{n}"] = [1]
    assert len(repr(tree.info).splitlines()) < 150
    assert len(repr(tree)) < 300


# ------------------------------------------------------------------------------------------------ views and attributes
def test_a_view_describes_its_own_leaves(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(path) as tree:
        tree.update({"/a/x": [1], "/ab": [2], "/x": np.arange(1000)})
        tree.flush()
        with pytest.raises(ValueError, match="no file of its own"):
            tree["/a"].to_b2z()
    with blosc2.TreeStore(path, mode="r", mmap_mode=source) as tree:
        view = tree["/a"]
        assert view.member_window("/x") == view.member_window("x") == tree.member_window("/a/x")
        assert view.member_window("/x") != tree.member_window("/x")
        assert view.member_window("/ab") is None
        assert dict(view.map_tree) == {"/x": "a/x.b2nd"}
        assert not view.is_table()
        for copy in (view.to_b2z, view.to_b2d):
            with pytest.raises(ValueError, match="no file of its own"):
                copy()
    assert os.listdir(tmp_path) == ["x.b2z"]


def test_a_refused_attribute_makes_no_group(made: Any) -> None:
    with made() as tree:
        tree["/a"] = [1]
        for set_it in (lambda v: v.__setitem__("x", object()), lambda v: v.__setitem__(slice(None), {"x": object()})):
            with pytest.raises(TypeError):
                set_it(tree.get_subtree("/new").vlmeta)
        assert list(tree) == ["/a"]
        assert "/new" not in tree


def test_a_group_goes_with_its_last_attribute(made: Any) -> None:
    with made() as tree:
        tree["/a"] = [1]
        tree.get_subtree("/g").vlmeta[:] = {"x": 1, "y": 2}
        tree.flush()
        attributes = tree["/g"].vlmeta
        del attributes["x"]
        assert "/g" in tree
        del attributes["y"]
        assert "/g" not in tree
        assert len(attributes) == 0
        attributes["z"] = 3
        assert tree["/g"].vlmeta[:] == {"z": 3}
        del attributes["z"]
    with made("r") as tree:
        assert list(tree) == ["/a"]


def test_an_unreadable_description_can_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(path) as tree:
        tree.update({"/a": [1], "/t/x": [2]})
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("t/_meta.b2f", bytes(1000))
    with blosc2.TreeStore(path) as tree:
        del tree["/t/_meta"]
    with blosc2.TreeStore(path, mode="r") as tree:
        assert list(tree) == ["/a", "/t", "/t/x"]


def test_listing_many_objects_takes_one_pass(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    description = blosc2.SChunk(data=b"12345678")
    description.vlmeta["kind"] = "ctable"
    with made() as tree:
        tree.update({f"/t{n}/{name}": v for n in range(20) for name, v in (("x", [1]), ("_meta", description))})
        tree["/t1-b/x"] = [1]
        tree.flush()
        asked = []
        monkeypatch.setattr(
            "blosc2._stores.tree.walking._is_below", lambda key, objects: asked.append(key) or below(key, objects)
        )
        assert tree.get_descendants("/") == sorted([*(f"/t{n}" for n in range(20)), "/t1-b", "/t1-b/x"])
        assert len(asked) == len(set(asked)) == 62


def test_mappings_are_no_values(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "t.b2z") as tree:
        tree["/g/a"] = [1, 2]
        for value in (tree.attrs, {"a": 1}, {1}):
            with pytest.raises(TypeError, match="one by one"):
                tree["/copy"] = value
        with pytest.raises(TypeError, match=r"store\[key\] = group"):
            tree.update({"/copy": tree["/g"]})
        assert "/copy" not in tree
        with (
            blosc2.DictStore(tmp_path / "d.b2z") as other,
            pytest.raises(TypeError, match=r"store\[key\] = group of a TreeStore"),
        ):
            other["/copy"] = tree["/g"]


def contents_of(group: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"": group.attrs[:]}
    for key in group:
        value = group[key]
        found[key] = value.attrs[:] if isinstance(value, blosc2.TreeStore) else (value[:].tolist(), value.vlmeta[:])
    return found


@pytest.mark.parametrize("from_itself", [True, False])
@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_group_is_copied_whole(tree: Any, tmp_path: Path, from_itself: bool, in_transaction: bool) -> None:
    with blosc2.TreeStore(tmp_path / "other.b2z") as other:
        source = tree if from_itself else other
        source["/g/a"], source["/g/h/b"] = [1, 2], np.arange(30).reshape(5, 6)
        source["/g/a"].vlmeta["unit"] = "mm"
        source["/g"].attrs["age"], source["/g/h"].attrs["n"] = 7, [1, 2]
        source.create_group("/g/empty")
        source.attrs["root"] = 1
        want, everything = contents_of(source["/g"]), contents_of(source)
        if in_transaction:
            with tree.transaction():
                tree["/copy"] = source["/g"]
        else:
            tree["/copy"] = source["/g"]
        assert contents_of(tree["/copy"]) == want
        tree["/copy"]["h/within"] = tree["/copy"]  # into itself: what was there before
        assert contents_of(tree["/copy/h/within"]) == want
        tree["/whole"] = source
        got = contents_of(tree["/whole"])
        assert {key: got[key] for key in everything} == everything


@pytest.mark.parametrize("act", ["delete", "rename"])
def test_objects_of_a_group_that_goes_are_not_counted(act: str, tmp_path: Path) -> None:
    """The catalog counts them one by one, and passes over what goes as a whole."""
    path = tmp_path / "t.b2z"
    with blosc2.TreeStore(path, mode="w") as tree:
        tree.update({f"/a/{n}": [n] for n in range(1200)} | {f"/b/{n}": [n] for n in range(80)} | {"/b/_meta": [1]})
    with blosc2.TreeStore(path) as tree:
        if act == "delete":
            del tree["/b"]
        else:
            tree.rename("/b", "/z")
    assert blosc2.check(path).ok
    with blosc2.TreeStore(path) as tree:
        tree["/a/new"] = [1]
    assert blosc2.check(path).ok


def test_two_threads_copy_groups_in_opposite_directions(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z") as a, blosc2.TreeStore(tmp_path / "b.b2z") as b:
        for store in (a, b):
            store.update({f"/g/{n}": np.arange(n + 1) for n in range(40)})

        def copy(source: Any, target: Any) -> None:
            for n in range(20):
                target[f"/copy{n}"] = source["/g"]

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(copy, a, b), pool.submit(copy, b, a)]:
                done.result(60)
        assert len(a["/copy19"]) == len(b["/copy19"]) == 40


def test_a_group_is_copied_all_or_not(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree["/g/a"], tree["/g/b"], tree["/leaf"] = [1], [2], [3]
    tree.create_group("/there")
    before = contents_of(tree)
    for key, why in (("/there", "exists"), ("/leaf", "exists"), ("/leaf/x", "already contains data"), ("/", "root")):
        with pytest.raises(ValueError, match=why):
            tree[key] = tree["/g"]
    unlike = tree["/g"]
    monkeypatch.setattr(blosc2.TreeStore, "__iter__", lambda self: iter(["a", "none"]))  # one that cannot be copied
    with pytest.raises(KeyError):
        tree["/copy"] = unlike
    monkeypatch.undo()
    assert contents_of(tree) == before


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_description_that_cannot_be_verified_describes_nothing(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "tables.b2z"
    with blosc2.DictStore(path, mode="w") as store:
        described = blosc2.SChunk(chunksize=80_000, data=np.random.default_rng(0).bytes(80_000))
        described.vlmeta["kind"] = "ctable"
        store["/t/_meta"], store["/t/_cols/c"], store["/o"] = described, np.arange(3), np.arange(3)
    with blosc2.TreeStore(path, mode=mode, verify=True) as tree:
        assert list(tree) == ["/o", "/t"]
    with blosc2.DictStore(path, mode="r") as store:
        window = store.member_window("/t/_meta")
        assert window is not None
    data = bytearray(path.read_bytes())
    data[window[0] + window[1] // 2] ^= 255
    path.write_bytes(data)
    with blosc2.TreeStore(path, mode=mode, verify=True) as tree:
        assert list(tree) == ["/o", "/t", "/t/_cols", "/t/_cols/c", "/t/_meta"]
