"""Files of each release are read by this version, mapped and not, with the values that NumPy says (doc/versions.md)."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import release_values as values

import blosc2
from blosc2._tools.stores import same_value

RELEASES = Path(__file__).resolve().parents[1] / "data" / "releases"
FOLDERS = sorted((path for path in RELEASES.iterdir() if path.is_dir()), key=lambda path: path.name)
TREES = ("tree.b2z", "tree.b2d")


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def files_of(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"])


def opened(path: Path, source: str | None) -> Any:
    """A file, which does not change while it is read; frames that are directories are not mapped."""
    return blosc2.open(str(path), mode="r", mmap_mode=None if path.is_dir() and path.suffix == ".b2nd" else source)


def leaves_of(store: Any) -> set[str]:
    """The keys of all leaves: a tree has those of its groups, too."""
    return {key for key, leaf in store.items() if not isinstance(leaf, blosc2.TreeStore)}


def check(found: Any, wanted: np.ndarray[Any, Any], name: str) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), name
    np.testing.assert_array_equal(found[...], wanted, err_msg=name)
    if wanted.ndim == 3:
        np.testing.assert_array_equal(found[3:9, 5, ::3], wanted[3:9, 5, ::3], err_msg=name)


def test_this_version_has_a_corpus() -> None:
    assert blosc2.__version__.partition(".")[0] in {path.name for path in FOLDERS}


def test_the_files_are_as_they_were_written(folder: Path) -> None:
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    listed = files_of(folder)
    assert there - {"manifest.json"} == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_arrays(folder: Path, source: str | None) -> None:
    for name, (items, _, _, _) in values.ARRAYS.items():
        check(opened(folder / f"{name}.b2nd", source), items, name)
    items, key, value = values.CHANGED
    wanted = items.copy()
    wanted[key] = value
    changed = opened(folder / "changed.b2nd", source)
    check(changed, wanted, "changed")
    assert same_value(changed.vlmeta[:], values.ATTRIBUTES)
    check(opened(folder / "grown.b2nd", source), np.concatenate(values.GROWN), "grown")


def test_parameters_are_kept(folder: Path) -> None:
    for name, (_, chunks, blocks, how) in values.ARRAYS.items():
        array = opened(folder / f"{name}.b2nd", None)
        if chunks is not None:
            assert (array.chunks, array.blocks) == (chunks, blocks), name
        if "codec" in how:
            assert array.cparams.codec.name == how["codec"], name
        if "filters" in how:
            found = [filter.name for filter in array.cparams.filters if filter is not blosc2.Filter.NOFILTER]
            assert found == how["filters"], name


def test_lists(folder: Path, source: str | None) -> None:
    assert opened(folder / "data.b2frame", source)[:] == values.DATA
    assert same_value(list(opened(folder / "objects.b2frame", source)), values.OBJECTS)
    found = opened(folder / "batches.b2frame", source)
    assert [list(batch) for batch in found] == values.BATCHES


@pytest.mark.parametrize("name", [*TREES, "dict.b2z", "embed.b2e"])
def test_stores(folder: Path, name: str, source: str | None) -> None:
    with opened(folder / name, source) as store:
        assert leaves_of(store) == set(values.LEAVES)
        for key, items in values.LEAVES.items():
            check(store[key], items, key)
        if name in TREES:
            assert same_value(store.attrs[:], values.ATTRIBUTES)
            assert same_value(store.get_subtree("/a/b").attrs[:], values.ATTRIBUTES)


def changed_leaves() -> dict[str, np.ndarray[Any, Any]]:
    leaves = {**values.LEAVES, "/scan": values.RAMP, "/new": np.arange(3), "/moved": values.LEAVES["/many/007"]}
    return {key: items for key, items in leaves.items() if key not in ("/a/ramp", "/many/007")}


def test_a_store_that_was_changed(folder: Path, source: str | None) -> None:
    wanted = changed_leaves()
    with opened(folder / "changed.b2z", source) as store:
        assert leaves_of(store) == set(wanted)
        for key, items in wanted.items():
            check(store[key], items, key)


def test_they_are_whole(folder: Path) -> None:
    names = {Path(name).parts[0] for name in files_of(folder)}
    assert len(names) > 40
    for name in sorted(names):
        report = blosc2.check(str(folder / name))
        assert report.ok, (name, report)


@pytest.mark.parametrize("name", [*TREES, "dict.b2z", "embed.b2e", "changed.b2z"])
def test_they_can_be_changed(folder: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    (shutil.copytree if (folder / name).is_dir() else shutil.copy)(folder / name, copy)
    wanted = dict(changed_leaves() if name == "changed.b2z" else values.LEAVES)
    with blosc2.open(str(copy), mode="a") as store:
        store["/added"] = wanted["/added"] = np.arange(7)
        store["/scan"] = wanted["/scan"] = np.ones(3)
        del store["/one"], wanted["/one"]
    with blosc2.open(str(copy), mode="r", mmap_mode="r") as store:
        assert leaves_of(store) == set(wanted)
        for key, items in wanted.items():
            check(store[key], items, key)
