"""Stores of all forms and tiers go back and forth; every archive is one for any ZIP reader."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from fixture_kit import manifest, peer, recipes

import blosc2

pytestmark = pytest.mark.interop

# a store, its suffix, and the threshold that puts its leaves into a tier
FORMS = [("EmbedStore", ".b2e", 0)] + [
    (cls, suffix, threshold)
    for cls in ("DictStore", "TreeStore")
    for suffix in (".b2d", ".b2z")
    for threshold in (0, 1 << 40, 1000)
]
TIER = {0: "external", 1 << 40: "embedded", 1000: "mixed"}
forms = pytest.mark.parametrize(("cls", "suffix", "threshold"), FORMS, ids=[f"{c}{s}-{TIER[t]}" for c, s, t in FORMS])

# the super-chunk comes first because the reference then misreads embedded leaves as long as the first one
FIRST = [
    ["set", "/s", "schunk", 0], ["set", "/a/small", "small", 1], ["set", "/a/big", "big", 2],
    ["set", "/a/b/scalar", "scalar", 3], ["set", "/top", "big", 4], ["set", "/empty", "empty", 5],
    ["set", "/objects", "objects", 0], ["set", "/deep/er/batches", "batches", 0], ["set", "/ünï/日本 x", "small", 6],
]  # fmt: skip
SECOND = [
    ["delete", "/top"], ["set", "/a/small", "big", 7], ["set", "/new/one", "small", 8],
    ["set", "/a/big", "small", 9], ["delete", "/ünï/日本 x"],
]  # fmt: skip
THIRD = [["set", "/third/a", "big", 10], ["delete", "/a/small"], ["set", "/new/one", "big", 11]]
FOURTH = [["set", "/top", "small", 12], ["delete", "/third/a"]]


class Model:
    """What a store must hold after some steps."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[str, int]] = {}
        self.attrs: dict[str, dict[str, Any]] = {}

    def apply(self, steps: list[list[Any]]) -> None:
        for what, key, *rest in steps:
            if what == "set":
                self.leaves[key] = (rest[0], rest[1])
            elif what == "delete":
                del self.leaves[key]
            elif what == "attribute":
                self.attrs.setdefault(key, {})[rest[0]] = rest[1]

    def check(self, got: dict[str, Any]) -> None:
        assert set(got["leaves"]) == set(self.leaves)
        for key, (kind, seed) in self.leaves.items():
            leaf = got["leaves"][key]
            if kind in ("objects", "batches"):
                file, name = {
                    "objects": ("objects/object_varied.b2f", "values"),
                    "batches": ("objects/batch_varied.b2b", "batches"),
                }[kind]
                (entry,) = [e for e in manifest.FILES if e["path"] == file]
                assert leaf[name] == entry[name]
                continue
            assert leaf["sha256"] == peer.leaf_digest(kind, seed), key
            if kind != "schunk":
                size = {"small": [5], "big": [4000], "empty": [0], "scalar": []}[kind]
                assert (leaf["shape"], leaf["dtype"]) == (size, "dtype('int32')"), key
        if got["kind"] == "treestore":
            groups = set(self.attrs) - {"/"}
            for path in [*self.leaves, *groups]:
                groups |= {parent.as_posix() for parent in PurePosixPath(path).parents} - {"/"}
            assert set(got["listed"]) == groups | set(self.leaves)
            assert got["attrs"] == manifest.tagged(self.attrs)


def steps_for(cls: str, steps: list[list[Any]], group: str, n: int) -> list[list[Any]]:
    return steps + ([["attribute", "/", "n", n], ["attribute", group, "n", [n]]] if cls == "TreeStore" else [])


def check_archive(path: str) -> None:
    """Any ZIP reader accepts the file."""
    if not path.endswith(".b2z"):
        return
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    unzip = shutil.which("unzip")
    if unzip:
        done = subprocess.run([unzip, "-t", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def check_all(model: Model, path: str, upstream: Any) -> None:
    model.check(peer.describe(path))
    model.check(peer.describe(path, "r"))
    model.check(upstream.describe(path=path))
    report = blosc2.check(path)
    assert report.ok, report


@forms
@pytest.mark.parametrize("first", ["ours", "upstream"])
def test_both_change_one_store_in_turn(
    cls: str, suffix: str, threshold: int, first: str, tmp_path: Path, upstream: Any
) -> None:
    path = str(tmp_path / f"store{suffix}")
    model = Model()
    sides = [peer, upstream] if first == "ours" else [upstream, peer]
    for turn, (steps, group) in enumerate(((FIRST, "/a"), (SECOND, "/a/b"), (THIRD, "/new"), (FOURTH, "/deep"))):
        steps = steps_for(cls, steps, group, turn)
        side = sides[turn % 2]
        side.change_store(path=path, cls=cls, mode="a" if turn else "w", steps=steps, threshold=threshold)
        model.apply(steps)
        if side is peer:
            check_archive(path)
        check_all(model, path, upstream)


@forms
def test_our_own_changes_over_and_over(cls: str, suffix: str, threshold: int, tmp_path: Path, upstream: Any) -> None:
    """Updates, deletes, overwrites and appends, all by us; what is left is what the reference reads."""
    path = str(tmp_path / f"store{suffix}")
    model = Model()
    for steps in (FIRST, SECOND, THIRD, FOURTH):
        peer.change_store(path, cls, "a", steps, threshold)
        model.apply(steps)
        check_archive(path)
        check_all(model, path, upstream)
    peer.change_store(path, cls, "a", [["edit", "/a/big", "unit", "mm"]], threshold)
    for got in (peer.describe(path), upstream.describe(path=path)):
        assert got["leaves"]["/a/big"]["vlmeta"] == {"unit": "mm"}
    everything = [["delete", key] for key in model.leaves]
    peer.change_store(path, cls, "a", everything, threshold)
    model.apply(everything)
    check_archive(path)
    check_all(model, path, upstream)


@pytest.mark.parametrize(("cls", "suffix"), [("EmbedStore", ".b2e"), ("DictStore", ".b2d"), ("TreeStore", ".b2z")])
def test_embedded_leaves_of_one_length(cls: str, suffix: str, tmp_path: Path, upstream: Any) -> None:
    """The reference misreads a leaf that is as long as a block of the outer frame: ours must have no such blocks."""
    path = str(tmp_path / f"store{suffix}")
    model = Model()
    for turn in range(3):
        steps = [["set", f"/g{turn}/leaf{n}", "small", n] for n in range(40)]
        peer.change_store(path, cls, "a", steps, 1 << 40)
        model.apply(steps)
        check_all(model, path, upstream)


@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
@pytest.mark.parametrize("threshold", [0, 1 << 40])
def test_attributes_of_every_type(suffix: str, threshold: int, tmp_path: Path, upstream: Any) -> None:
    want = manifest.tagged(dict(list(recipes.vlmeta().items())[:15]))
    for writer in (peer, upstream):
        path = str(tmp_path / f"{writer is peer}{suffix}")
        writer.change_store(path=path, cls="TreeStore", mode="w", steps=FIRST, threshold=threshold)
        for group in ("/", "/a", "/deep/er"):
            writer.tree_attributes(path=path, group=group)
        check_archive(path)
        for got in (peer.describe(path), peer.describe(path, "r"), upstream.describe(path=path)):
            assert got["attrs"] == {"/": want, "/a": want, "/deep/er": want}


@pytest.mark.parametrize("cls", ["DictStore", "TreeStore"])
@pytest.mark.parametrize("threshold", [0, 1 << 40, 1000])
@pytest.mark.parametrize("writer", ["ours", "upstream"])
def test_our_conversions(cls: str, threshold: int, writer: str, tmp_path: Path, upstream: Any) -> None:
    """`to_b2z` and `to_b2d` of stores of both packages give stores for both."""
    steps = steps_for(cls, FIRST, "/a", 1)
    model = Model()
    model.apply(steps)
    directory, archive, back = (str(tmp_path / name) for name in ("x.b2d", "y.b2z", "z.b2d"))
    side = peer if writer == "ours" else upstream
    side.change_store(path=directory, cls=cls, mode="w", steps=steps, threshold=threshold)
    peer.convert(directory, archive)
    check_archive(archive)
    check_all(model, archive, upstream)
    peer.convert(archive, back)
    check_all(model, back, upstream)


@pytest.mark.parametrize("entry", manifest.files(*manifest.STORE_KINDS), ids=lambda e: e["path"])
def test_a_fixture_that_we_change_is_read_by_upstream(entry: dict[str, Any], tmp_path: Path, upstream: Any) -> None:
    """A leaf is added to a copy of every store fixture; the others keep their values."""
    if "table" in entry["path"] or "strangers" in entry["path"]:
        return
    original = manifest.path_of(entry)
    path = tmp_path / original.name
    (shutil.copytree if original.is_dir() else shutil.copyfile)(original, path)
    cls = {"embedstore": "EmbedStore", "dictstore": "DictStore", "treestore": "TreeStore"}[entry["kind"]]
    peer.change_store(str(path), cls, "a", [["set", "/added/leaf", "small", 1]])
    check_archive(str(path))
    sides = [peer.describe(str(path)), peer.describe(str(path), "r")]
    if entry.get("opens_with", "blosc2.open") == "blosc2.open":
        sides.append(upstream.describe(path=str(path)))
    for got in sides:
        assert got["leaves"]["/added/leaf"]["sha256"] == peer.leaf_digest("small", 1)
        for key, leaf in entry["keys"].items():
            if "sha256" in leaf and not key.endswith("__vlmeta__"):
                assert got["leaves"][key]["sha256"] == leaf["sha256"]
