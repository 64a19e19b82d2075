"""Leaves whose files or members have unusual suffixes: opening a store reports them, if that takes little time."""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

KINDS = {
    "NDArray": (lambda: blosc2.arange(7), ".b2nd"),
    "SChunk": (lambda: blosc2.SChunk(data=b"chunks" * 9), ".b2f"),
    "ObjectArray": (lambda: objects([1, "two"]), ".b2f"),
    "BatchArray": (lambda: batches([[1, 2], [3]]), ".b2b"),
}


def objects(values: list[Any]) -> Any:
    made = blosc2.ObjectArray()
    made.extend(values)
    return made


def batches(values: list[list[Any]]) -> Any:
    made = blosc2.BatchArray(items_per_block=2)
    made.extend(values)
    return made


def directory(path: Path, leaves: dict[str, Any]) -> Path:
    with blosc2.DictStore(path / "x.b2d", mode="w") as store:
        store.update(leaves)
    return path / "x.b2d"


def archive(path: Path, leaves: dict[str, Any]) -> Path:
    """An archive as others write it, without a catalog."""
    return packed(directory(path, leaves))


def packed(folder: Path) -> Path:
    path = folder.with_suffix(".b2z")
    with zipfile.ZipFile(path, "w") as z:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                z.write(file, file.relative_to(folder))
    return path


def rename(store: Path, old: str, new: str) -> None:
    if store.suffix == ".b2d":
        os.rename(store / old, store / new)
        return
    with zipfile.ZipFile(store) as z:
        members = {name: z.read(name) for name in z.namelist()}
    with zipfile.ZipFile(store, "w") as z:
        for name, data in members.items():
            z.writestr(new if name == old else name, data)


def said(make: Callable[[], Any]) -> list[str]:
    """What is warned about."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make()
    assert all(one.category is UserWarning for one in found)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("make", [directory, archive])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["r", "a"])
def test_opening_tells_of_a_renamed_leaf(make: Any, kind: str, mode: str, tmp_path: Path) -> None:
    value, suffix = KINDS[kind]
    path = make(tmp_path, {"/g/leaf": value(), "/other": np.arange(3)})
    rename(path, "g/leaf" + suffix, "g/leaf.weird")
    for cls in (blosc2.DictStore, blosc2.TreeStore, blosc2.open):
        (text,) = said(lambda cls=cls: cls(path, mode=mode).close())  # type: ignore[misc]
        assert str(path) in text
        assert "'g/leaf.weird'" in text
        assert "'/g/leaf'" in text
        assert f"of kind {kind}," in text
        assert text.endswith(f"expected {suffix!r}")


@pytest.mark.parametrize("make", [directory, archive])
def test_it_is_said_once_for_each_store(make: Any, tmp_path: Path, source: str | None) -> None:
    path = make(tmp_path, {"/a": np.arange(4), "/g/b": np.arange(3)})
    rename(path, "g/b.b2nd", "g/b.weird")
    with pytest.warns(UserWarning, match="weird"):
        store = blosc2.DictStore(path, mode="r", mmap_mode=source)
    with store:  # from here a warning is an error
        assert sorted(store) == ["/a", "/g/b"]
        assert store["/g/b"][:].tolist() == [0, 1, 2]
        assert store.map_tree["/g/b"] == "g/b.weird"


@pytest.mark.parametrize("make", [directory, archive])
def test_nothing_is_said_of_other_files(make: Any, tmp_path: Path) -> None:
    folder = directory(tmp_path, {"/a": np.arange(4), "/g/b": np.arange(3)})
    (folder / "README.txt").write_text("what this is")
    (folder / "g" / "x").write_bytes(b"")
    path = folder if make is directory else packed(folder)
    with blosc2.DictStore(path, mode="r") as store:
        assert sorted(store) == ["/a", "/g/b"]


def test_a_damaged_frame_under_an_unusual_suffix_does_not_stop_opening(tmp_path: Path) -> None:
    path = directory(tmp_path, {"/a": np.arange(4), "/b": np.arange(3)})
    whole = (path / "b.b2nd").read_bytes()
    (path / "b.b2nd").unlink()
    (path / "b.weird").write_bytes(whole[:20])
    (text,) = said(lambda: blosc2.DictStore(path, mode="r").close())
    assert "'b.weird'" in text
    with pytest.warns(UserWarning, match="weird"):
        store = blosc2.DictStore(path, mode="r")
    assert store["/a"][:].tolist() == [0, 1, 2, 3]
    with pytest.raises(blosc2.FormatError):
        store["/b"]


@pytest.mark.parametrize("make", [directory, archive])
def test_in_a_large_store_listing_tells_of_it(make: Any, tmp_path: Path) -> None:
    leaves: dict[str, Any] = {f"/k{n:03d}": np.arange(2) for n in range(300)}
    folder = directory(tmp_path, leaves)
    os.rename(folder / "k299.b2nd", folder / "k299.weird")
    path = folder
    if make is archive:
        path = packed(folder)
    else:
        # A directory gives its names in any order: behind three folders and 256 names nothing is looked at.
        for n in range(4):
            (path / f"g{n}").mkdir()
            shutil.copyfile(path / "k000.b2nd", path / f"g{n}" / "b.b2nd")
    found: list[Any] = []
    early = said(lambda: found.append(blosc2.DictStore(path, mode="r")))
    late = said(lambda: sorted(found[0]))
    assert len(early + late) == 1
    assert make is directory or late
    assert len(found[0]) == (300 if make is archive else 304)
    found[0].close()


def test_a_warning_that_is_an_error_leaves_no_lock(tmp_path: Path) -> None:
    path = directory(tmp_path, {"/a": np.arange(4)})
    rename(path, "a.b2nd", "a.weird")
    with pytest.raises(UserWarning, match="weird"):
        blosc2.DictStore(path, mode="a")
    with pytest.warns(UserWarning, match="weird"):
        store = blosc2.DictStore(path, mode="a")
    store["/b"] = [1]
    store.close()


@pytest.mark.parametrize("length", [300, 20_000])
def test_a_group_of_other_tools_with_a_very_long_path(length: int, tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(path, mode="w") as store:
        store["/zz"] = [1]
    group = "/" + "a" * (length - 1)
    frame = blosc2.asarray(np.arange(3)).to_cframe()
    with zipfile.ZipFile(path, "a") as archive:
        for n in range(300):
            archive.writestr(f"{group[1:]}/k{n:03}.b2nd", frame)
    with blosc2.TreeStore(path, mode="a") as store:
        store["/zy"] = [1]
        store.flush()  # from now on there is a catalog
        for old, new in ((group, "/n"), ("/n", "/m/o")):
            store.rename(old, new)
            keys = [f"{new}/k{n:03}" for n in range(300)]
            assert store.get_descendants(new) == keys
            assert all(key in store and store[key][2] == 2 for key in keys[::30])
            assert new in store
            assert f"{old}/k000" not in store
            assert old not in store
        del store["/m/o/k000"]
    with blosc2.TreeStore(path, mode="r") as store:
        assert list(store) == ["/m", "/m/o", *keys[1:], "/zy", "/zz"]
    assert blosc2.check(str(path)).ok
